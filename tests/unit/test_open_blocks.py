"""Blocks that have loops of unknown size whole, or iterations that are no boxes, leave the same arrays as the nest."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from dspgen.offchip.cost_model import ways_of
from dspgen.tiling.split.index_set_splitting import isolated
from plant_core.analysis.rectangular_hull import Boxes, NoBlocks
from plant_core.interp.func import evaluate
from plant_core.ir.func import Buf, Func
from plant_core.ir.printer import print_expr
from plant_core.normalize.pipeline import canonical
from plant_core.scratchpad.tile_nest import blocks, windows
from plant_core.scratchpad.tiled_func import Blocks
from tests.generators.guarded import random_guarded_of_any_size
from tests.support.block_runs import run_blocks, with_sizes

GRANULE, ROOM = 4, 48
NESTS = {
    "rows scaled by their sums": """void f(int n, int m, const int x[n][m], int y[n][m]) {
        for (int i = 0; i < n; i++) { int s = 0;
            for (int j = 0; j < m; j++) s += x[i][j];
            for (int j = 0; j < m; j++) y[i][j] = s * x[i][j]; } }""",
    "columns": """void f(int n, int m, const int x[n][m], int y[n][m]) {
        for (int i = 1; i < n; i++) for (int j = 0; j < m; j++) y[i][j] = y[i - 1][j] + x[i][j]; }""",
    "padded": """void f(int n, int m, const int x[n][m], int y[n][m]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { y[i][j] = i;
            for (int k = 0; k < 3; k++) for (int l = 0; l < 3; l++)
                if (i + k >= 1 && i + k <= n && j + l >= 1 && j + l <= m) y[i][j] += x[i + k - 1][j + l - 1]; } }""",
    "two rows around": """void f(int n, int m, const int x[n][m], int y[n][m]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { y[i][j] = 0;
            for (int k = 0; k < 5; k++) if (i + k >= 2 && i + k < n + 2) y[i][j] += k * x[i + k - 2][j]; } }""",
    "causal": """void f(int n, const int x[n], const int h[7], int y[n]) {
        for (int i = 0; i < n; i++) { y[i] = 0; for (int k = 0; k < 7; k++) if (i >= k) y[i] += h[k] * x[i - k]; } }""",
    "band": """void f(int n, const int a[n][5], const int x[n], int y[n]) {
        for (int i = 0; i < n; i++) { y[i] = 0;
            for (int k = 0; k < 5; k++) if (i + k >= 2 && i + k < n + 2) y[i] += a[i][k] * x[i + k - 2]; } }""",
    "triangle": """void f(int n, int x[n][n], const int y[n]) {
        for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++) x[i][j] += y[j] * i; }""",
    "next row": """void f(int n, int m, const int x[n][m], int y[n + 1][m]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) if (i + 1 < n) y[i + 1][j] = x[i][j]; }""",
    "sum in a variable": """void f(int n, int m, const int x[n][m], int y[n][m]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { int s = 0;
            for (int k = 0; k < 4; k++) if (i + k >= 1 && i + k < n + 1) s += x[i + k - 1][j];
            y[i][j] = 2 * s; } }""",
    "borders copied": """void f(int n, int m, const int x[n][m], int y[n][m]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < m; j++)
            if (i > 0 && i < n - 1 && j > 0 && j < m - 1) y[i][j] = x[i - 1][j] + x[i + 1][j - 1];
            else y[i][j] = x[i][j]; }""",
    "ends of a row": """void f(int n, const int x[n], int y[n]) {
        for (int i = 0; i < n; i++) if (i > 1 && i < n - 1) y[i] = x[i - 2] + x[i + 1]; else y[i] = i * x[i]; }""",
    "first row apart": """void f(int n, int m, const int x[n][m], int y[n][m]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) {
            int a = i < 1 ? 0 : i - 1; y[i][j] = x[i][j] + x[a][j]; } }""",
    "planes": """void f(int n, int m, int l, int x[n][m][l]) {
        for (int i = 0; i < n; i++) for (int j = 1; j < m; j++) for (int k = 0; k < l; k++)
            x[i][j][k] += x[i][j - 1][k]; }""",
}


def any_size(text: str, folder: Path) -> Func:
    path = folder / "f.c"
    path.write_text(text, encoding="utf-8")
    return canonical(read_c(str(path)), reassoc=False, symbolic=True)


def blocks_of(func: Func, draw: random.Random) -> list[Blocks]:
    """The nest in blocks of some of its loops, or of all."""
    boxes, found = Boxes(func, GRANULE), list[Blocks]()
    try:
        every = range(len(boxes.loops))
    except NoBlocks:
        return []
    for order in itertools.chain.from_iterable(itertools.combinations(every, n) for n in range(1, len(every) + 1)):
        spans = [draw.choice((1, 4, 8)) for _ in every]
        try:
            _, made = windows(boxes, spans, order)
            rooms = {
                w.name: tuple(n if m is None else ROOM for n, m in zip(w.shape, w.room, strict=True))
                for w in made
                if w.sized
            }
            found.append(blocks(boxes, spans, order, reassoc=False, rooms=rooms))
        except NoBlocks:
            continue
    return found


def check(func: Func, draw: random.Random) -> int:
    """How many ways there are to cut it; all leave the same arrays."""
    ways = blocks_of(func, draw)
    names = [p.name for p in func.params if not isinstance(p, Buf)]
    for size in (0, 1, 2, 9, 23):
        sizes = {n: size if k == 0 else draw.randint(0, 11) for k, n in enumerate(names)}
        inputs, generator = {}, np.random.default_rng(size)
        for p in func.params:
            if isinstance(p, Buf):
                inputs[p.name] = generator.integers(-9, 9, shape(p, sizes)).astype(
                    p.dtype.replace("f32", "float32").replace("i32", "int32")
                )
        expected = evaluate(func, inputs | sizes)
        for made in ways:
            got = run_blocks(with_sizes(made, sizes), inputs, sizes)
            for array in expected:
                what = f"{array} {[c.name for c in made.counters]} {[c.span for c in made.counters]} {sizes}"
                np.testing.assert_array_equal(got[array], expected[array], err_msg=what)
    return len(ways)


def shape(buf: Buf, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(n if isinstance(n, int) else eval(print_expr(n), {}, dict(sizes)) for n in buf.shape)


@pytest.mark.parametrize("name", NESTS)
def test_open_blocks_leave_the_same_arrays(name: str, tmp_path: Path) -> None:
    assert check(any_size(NESTS[name], tmp_path), random.Random(name))


@pytest.mark.parametrize("seed", range(16))
def test_random_guarded_nests_in_blocks(seed: int, tmp_path: Path) -> None:
    text = random_guarded_of_any_size(random.Random(seed))
    check(any_size(text, tmp_path), random.Random(seed))


@pytest.mark.parametrize("name", ["padded", "two rows around", "causal", "band", "sum in a variable"])
def test_what_is_left_of_a_loop_has_an_interior(name: str, tmp_path: Path) -> None:
    """Pieces are cut as functions of any size are, and do the same then, whatever is left of the loop."""
    func = any_size(NESTS[name], tmp_path)
    boxes = Boxes(func, GRANULE)
    spans = [24] * len(boxes.loops)
    _, found = windows(boxes, spans, (0,))
    rooms = {w.name: tuple(n if m is None else ROOM for n, m in zip(w.shape, w.room, strict=True)) for w in found}
    made = blocks(boxes, spans, (0,), reassoc=False, rooms=rooms)
    (piece,), left = made.pieces, made.left[0]
    cut = isolated(piece, reassoc=True, any_size=True)
    assert cut is not None
    generator = np.random.default_rng(1)
    arrays = {p.name: generator.integers(-9, 9, p.extents).astype(np.int32) for p in piece.params if isinstance(p, Buf)}
    for before, behind, own in itertools.product((0, left.most[0]), range(left.most[1] + 1), (1, 2, 5, 24)):
        told = {left.before: before, left.behind: behind, left.every: before + own + behind, "m": 7}
        told |= {origin: 24 for origin, _ in made.origins}
        given = arrays | {n: v for n, v in told.items() if n in {p.name for p in piece.params}}
        expected, got = evaluate(piece, given), evaluate(cut, given)
        for array in expected:
            np.testing.assert_array_equal(got[array], expected[array], err_msg=f"{array} {told}")


def test_guards_are_told_by_what_is_left_of_a_loop(tmp_path: Path) -> None:
    boxes = Boxes(any_size(NESTS["two rows around"], tmp_path), GRANULE)
    made = blocks(boxes, [8, 16, 5], (0,), reassoc=False, rooms={n: (12, ROOM) for n in "xy"})
    assert made.left[0].most == (2, 2) and not made.origins
    assert len(made.pieces) == 1 and [p.name for p in made.pieces[0].params][-3:] == ["i_before", "i_behind", "i_all"]
    triangle = Boxes(any_size(NESTS["triangle"], tmp_path), GRANULE)
    made = blocks(triangle, [8, 16], (0,), reassoc=False, rooms={"x": (8, ROOM), "y": (ROOM,)})
    assert not made.left and made.origins


@pytest.mark.parametrize("rows", [6, 7, 15, 16, 40])
def test_blocks_of_loops_that_an_array_bounds_are_counted_by_powers_of_two(rows: int, tmp_path: Path) -> None:
    """What the array tells is a guess of how many iterations there are, and no power of two."""
    text = f"""void f(int n, int m, const int x[{rows + 1}][m], int y[{rows + 1}][m]) {{
        for (int i = 1; i < n; i++) {{ int s = 0;
            for (int j = 0; j < m; j++) s += x[j > 5 ? 5 : i][j];
            y[i][i] += s; }} }}"""
    boxes = Boxes(any_size(text, tmp_path), GRANULE)
    open_ = [k for k in range(len(boxes.loops)) if boxes.symbolic(boxes.main, k) is not None]
    ways = ways_of(boxes, lambda sizes, orders: True)
    assert open_ and ways
    for spans, order in ways:
        assert all(spans[k].bit_count() == 1 for k in order if k in open_), (spans, order)
