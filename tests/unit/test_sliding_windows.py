"""Windows that slide: which do, what they keep, and that no place meets the one that is in use."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from dspgen.asmir.dma.buffer_placement import Slid, moved
from dspgen.frontend.read import read_c
from plant_core.analysis.rectangular_hull import Boxes
from plant_core.ir.tile_loop import Counter
from plant_core.normalize.pipeline import canonical
from plant_core.scratchpad.buffers import Window, slide_of
from plant_core.scratchpad.tile_nest import windows

GRANULE = 16
CONVOLUTION = """void f(const float x[100][101], const float h[4][2], float y[97][100]) {
  for (int i = 0; i < 97; i++) for (int j = 0; j < 100; j++) { y[i][j] = 0;
    for (int r = 0; r < 4; r++) for (int s = 0; s < 2; s++) y[i][j] += x[i + r][j + s] * h[r][s]; } }"""
IN_PLACE = """void f(int n, float x[99][99], const float z[99][99]) {
  for (int i = 0; i < 90; i++) for (int j = 0; j < 90; j++) x[i][j] = x[i][j] + z[i][j]; }"""


def found(
    text: str, spans: tuple[int, ...], order: tuple[int, ...], folder: Path, spare: int = 0
) -> tuple[tuple[Counter, ...], dict[str, Window]]:
    path = folder / "f.c"
    path.write_text(text, encoding="utf-8")
    func = canonical(read_c(str(path)), reassoc=False)
    counters, made = windows(Boxes(func, GRANULE), spans, order, spare=spare)
    return counters, {w.name: w for w in made}


def test_rows_that_blocks_share_are_kept(tmp_path: Path) -> None:
    counters, made = found(CONVOLUTION, (8, 100, 4, 2), (0, 1, 2, 3), tmp_path)
    slide = slide_of(made["x"], counters)
    assert slide is not None and (slide.dim, slide.step, slide.kept, slide.least, slide.anew) == (0, 8, 3, 3, False)
    assert slide_of(made["h"], counters) is None, "it stays"
    assert slide_of(made["y"], counters) is None, "it is written"


def test_more_places_where_rows_begin_anew(tmp_path: Path) -> None:
    counters, made = found(CONVOLUTION, (2, 32, 4, 2), (1, 0, 2, 3), tmp_path)
    slide = slide_of(made["x"], counters)
    assert slide is not None and (slide.step, slide.kept, slide.least, slide.anew) == (2, 3, 6, True)


def test_neither_columns_nor_what_has_nothing_in_common(tmp_path: Path) -> None:
    counters, made = found(CONVOLUTION, (8, 32, 4, 2), (0, 1, 2, 3), tmp_path)
    assert slide_of(made["x"], counters) is None
    counters, made = found(IN_PLACE, (8, 90), (0, 1), tmp_path)
    assert all(slide_of(w, counters) is None for w in made.values())


def test_rows_that_slide_are_apart(tmp_path: Path) -> None:
    counters, made = found(CONVOLUTION, (8, 100, 4, 2), (0, 1, 2, 3), tmp_path, spare=64)
    assert made["x"].shape == (11, 176) and made["y"].shape == (8, 112)
    window = replace(made["x"], places=5)
    slid = moved(window, (100, 101), counters).slid
    assert slid == Slid(0, 5, 8 * 176 * 4, "rows", 3, 3 * 101 * 4, 3 * 176 * 4, 2 * 8 * 176 * 4, False)
    assert moved(window, (100, 101), counters).room == moved(made["x"], (100, 101), counters).place + 4 * slid.step


@pytest.mark.parametrize(("step", "kept"), [(8, 3), (3, 8), (4, 4), (2, 3)])
@pytest.mark.parametrize("outer", [1, 3])
@pytest.mark.parametrize("more", [0, 1, 4])
def test_places_hold_what_the_block_needs(step: int, kept: int, outer: int, more: int) -> None:
    """As the code between blocks does it (`_slide` of `asmir/blocks.py`), with a number for each row."""
    over = -(-kept // step)
    places = 2 + (1 + (outer > 1)) * over + more
    for trips in (1, 2, places - 1, places + 3, 3 * places):
        memory = [-1] * ((places - 1) * step + step + kept)
        blocks = list(itertools.product(range(outer), range(trips)))
        place = 0
        memory[: step + kept] = range(step + kept)
        for n, (o, k) in enumerate(blocks):
            base = o * 1000 + k * step
            here = memory[place * step : place * step + step + kept]
            assert here == list(range(base, base + step + kept))
            if n + 1 == len(blocks):
                break
            new_outer, new = blocks[n + 1]
            fresh = place == places - 1 or new == 0
            first = places - 1 if outer > 1 and place < 1 + over else 0
            ahead = first if fresh else place + 1
            skip = 0 if fresh else kept
            written = range(ahead * step + skip, ahead * step + step + kept)
            assert not set(written) & set(range(place * step, place * step + step + kept))
            at = new_outer * 1000 + new * step
            memory[written.start : written.stop] = range(at + skip, at + step + kept)
            place = ahead
