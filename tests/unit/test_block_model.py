"""Sizes of blocks: orders that make the same blocks are looked at once."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from dspgen.frontend.read import read_c
from dspgen.offchip.cost_model import Sizes, expected, in_orders, most_different, placed, room_beside, small
from dspgen.offchip.loop_variants import cuts, in_few_nests
from dspgen.offchip.tile_search import _Form, _Parts, in_turn
from dspgen.options import Options
from dspgen.target.load import load_target
from plant_core.analysis.rectangular_hull import Boxes, NoBlocks, assumed, counters_of
from plant_core.ir.func import Func
from plant_core.normalize.pipeline import canonical
from plant_core.scratchpad.tile_nest import windows
from plant_core.scratchpad.tiled_func import Blocks, flat
from tests.unit.test_blocks import GRANULE, NESTS, read


def test_loops_that_are_whole_in_a_block_have_no_place_of_their_own() -> None:
    orders = list(itertools.permutations(range(3)))
    assert list(in_orders((8, 4, 9), (8, 9, 9), orders)) == [((8, 4, 9), (0, 1, 2))]
    assert [o for _, o in in_orders((4, 9, 4), (8, 9, 9), orders)] == [(0, 1, 2), (1, 2, 0)]
    assert [o for _, o in in_orders((4, 9, 4), (8, None, 9), orders)] == orders


@pytest.mark.parametrize("nest", sorted(NESTS)[::3])
def test_orders_that_are_left_out_are_expected_to_take_as_long(nest: str, tmp_path: Path) -> None:
    boxes = Boxes(read(NESTS[nest], tmp_path), GRANULE)
    dma = load_target("ft_m7002").dma
    assert dma is not None
    draw = random.Random(nest)
    extents = [n if boxes.symbolic(boxes.main, k) is None else None for k, (_, _, n) in enumerate(boxes.loops)]
    orders = list(itertools.permutations(range(len(extents))))

    def told(spans: tuple[int, ...], order: tuple[int, ...], places: int) -> object:
        try:
            counters, found = windows(boxes, spans, order, spare=2 * GRANULE if places else 0)
        except NoBlocks:
            return None
        found = placed(found, {w.name: places for w in found})
        return (
            expected(dma, counters, found, 1000.0),
            small(counters, found, hidden=False),
            sorted(w.name for w in found),
        )

    for _ in range(2):
        spans = tuple(draw.choice([n, n, -(-n // 2), 1]) for _, _, n in boxes.loops)
        kept = {cut(boxes, spans, order): order for _, order in in_orders(spans, extents, orders)}
        assert len(kept) == len({cut(boxes, spans, order) for order in orders})
        for order in orders:
            for places in (0, 3):
                assert told(spans, order, places) == told(spans, kept[cut(boxes, spans, order)], places)


def cut(boxes: Boxes, spans: tuple[int, ...], order: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(c.name for c in counters_of(boxes, spans, order) if c.several)


def test_sizes_are_compared_that_differ_most_among_those_that_promise_as_much() -> None:
    def sized(span: int, cycles: float) -> Sizes:
        return Sizes((span,), (0,), cycles, {}, (0,), (1, 0, 0))

    near, far, dear, dearest = sized(16, 100), sized(2, 100), sized(1, 105), sized(64, 200)
    ways = [sized(8, 100), near, dearest, far, dear]
    assert most_different(ways, [(8,)], (101, 110)) == [far, near, dear, dearest]
    assert most_different(ways, [(8,), (2,)], (101, 110)) == [near, dear, dearest]


def test_windows_have_less_room_beside_arrays_of_other_nests(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(
        """void f(const float x[900], float y[900]) { float s[900];
          for (int i = 0; i < 900; i++) s[i] = x[i];
          for (int i = 0; i < 900; i++) y[i] = x[i];
          for (int i = 0; i < 900; i++) y[i] += s[899 - i]; }""",
        encoding="utf-8",
    )
    func = read_c(str(path))
    touched = [{"x", "s"}, {"x", "y"}, {"y", "s"}]
    bufs = {b.name: b for b in func.bufs}
    rooms = [room_beside(touched, bufs, 6000, Boxes(func.with_comps((c,)), 1)) for c in func.comps]
    assert rooms[0] == rooms[2] == 6000
    assert rooms[1] <= 6000 - (3600 - 1000)


@pytest.mark.parametrize(("memory", "spans"), [(524288, [64, 256]), (65536, [16, 64]), (16384, [8, 32])])
def test_guarded_nests_are_cut_in_both_directions_whatever_the_memory(
    memory: int, spans: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "f.c"
    path.write_text(
        """void f(int n, int m, float y[n][m], const float x[n][m]) {
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { y[i][j] = 0;
            for (int k = 0; k < 3; k++) if (i + k >= 1 && i + k <= n) y[i][j] += x[i + k - 1][j]; } }""",
        encoding="utf-8",
    )
    func = canonical(read_c(str(path)), reassoc=True, symbolic=True)
    target = load_target("ft_m7002", [("memories.AM.size", str(memory))])
    (blocks,) = flat(next(in_turn(func, func, target, Options(data="ddr"))).nests)
    assert [c.span for c in blocks.counters] == spans


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        (
            """void f(const float x[150][150], float y[150][150]) {
              for (int i = 0; i < 150; i++) for (int j = 0; j <= i; j++) y[i][j] = x[i][j] * 2; }""",
            [10, 76],
        ),
        (
            """void f(int n, int m, int l, const float x[n][m][l], float y[n][m][l]) {
              for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) for (int k = 0; k < l; k++)
                if (i > 0 && i < n - 1 && j > 0 && j < m - 1) y[i][j][k] = x[i - 1][j][k] + x[i][j + 1][k];
                else y[i][j][k] = x[i][j][k]; }""",
            [1, 1],
        ),
    ],
    ids=["a triangle of known size", "planes of whole rows"],
)
def test_what_has_no_guards_in_all_directions_is_cut_as_the_model_likes(
    text: str, spans: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "f.c"
    path.write_text(text, encoding="utf-8")
    func = canonical(read_c(str(path)), reassoc=True, symbolic=True)
    found = next(in_turn(func, func, load_target("ft_m7002"), Options(data="ddr"), means="any")).nests
    assert [c.span for c in flat(found)[0].counters] == spans


def test_what_a_loop_is_shorter_by_is_taken_to_be_small(tmp_path: Path) -> None:
    """As the size of a filter is, and those of both dimensions of one."""
    path = tmp_path / "f.c"
    path.write_text(
        """void f(int n, int t, float y[n - t + 1], const float x[n], const float h[t]) {
          for (int i = 0; i <= n - t; i++) { y[i] = 0; for (int k = 0; k < t; k++) y[i] += x[i + k] * h[k]; } }""",
        encoding="utf-8",
    )
    sizes = assumed(canonical(read_c(str(path)), reassoc=True, symbolic=True))
    assert 1 < sizes["t"] < sizes["n"] // 100
    path.write_text(
        """void f(int n, int m, int s, int t, float y[n - s + 1][m - t + 1], const float x[n][m], const float h[s][t]) {
          for (int i = 0; i <= n - s; i++) for (int j = 0; j <= m - t; j++) { y[i][j] = 0;
            for (int k = 0; k < s; k++) for (int l = 0; l < t; l++) y[i][j] += x[i + k][j + l] * h[k][l]; } }""",
        encoding="utf-8",
    )
    sizes = assumed(canonical(read_c(str(path)), reassoc=True, symbolic=True))
    assert 1 < max(sizes["s"], sizes["t"]) < min(sizes["n"], sizes["m"]) // 100


def test_other_sizes_are_compared_with_one_block_of_all(tmp_path: Path) -> None:
    """One block has no counters: what differs from it is told from its extents."""
    path = tmp_path / "rows.c"
    path.write_text("""void rows(const float x[20][50], float y[20][50]) { for (int i = 0; i < 20; i++) {
        float m = x[i][0], s = 0;
        for (int j = 1; j < 50; j++) m = x[i][j] > m ? x[i][j] : m;
        for (int j = 0; j < 50; j++) { float d = x[i][j] - m; y[i][j] = 1 + d + d * d; s += y[i][j]; }
        for (int j = 0; j < 50; j++) y[i][j] /= s; } }""")
    source = read_c(str(path))
    options = Options(data="ddr")
    judged = []

    def judge(made: Blocks, enough: Sequence[float]) -> list[float | None]:
        judged.append((made, enough))
        return [1e5] * 64

    def estimate(func: Func) -> float:
        return 500.0 if any("_by_" in b.name for b in func.bufs) else 1000.0  # arrays turned round are for the better

    func = in_few_nests(source, options)
    for ways in cuts(source, func, load_target("ft_m7002"), options, judge, estimate):
        assert list(itertools.islice(ways, 3))
    assert len(judged) > 1
    # What is compared with something need not take longer than that.
    assert not judged[0][1] and all(len(enough) in (0, len(made.pieces)) for made, enough in judged)
    bounded = [n for _, enough in judged for n in enough]
    assert bounded and all(0 <= n < 64 * 1e5 for n in bounded)


def test_what_comes_near_to_the_model_of_other_sizes_is_not_compared_with_them(tmp_path: Path) -> None:
    path = tmp_path / "sums.c"
    path.write_text("""void sums(float a[256][256], float x[256], float y[256]) {
      for (int i = 0; i < 256; i++) { float s = 0; for (int j = 0; j < 256; j++) s += a[i][j] * x[j]; y[i] = s; } }""")
    func = canonical(read_c(str(path)), reassoc=True)
    judged: list[Sequence[float]] = []

    def judge(made: Blocks, enough: Sequence[float]) -> list[float | None]:
        judged.append(enough)
        return [1.0] * len(made.pieces)

    parts = _Parts(func, func, load_target("ft_m7002"), Options(data="ddr"), judge, "apart", lambda _: 0.0)
    form = parts._cheapest()[0].blocks
    assert isinstance(form, _Form)
    assert parts._judged(form, form.sizes.cycles) is None and not judged
    assert parts._judged(form, 2 * form.sizes.cycles) is not None and parts._judged(form) is not None
    (each,), none = judged
    assert 0 < each * math.prod(c.trips for c in form.made.counters) < 2 * form.sizes.cycles and not none
