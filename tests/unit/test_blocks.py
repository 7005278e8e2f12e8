"""Nests in blocks: windows moved and pieces run block by block leave the same arrays as the nest."""

from __future__ import annotations

import contextlib
import itertools
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from dspgen.tiling.loops.loop_nests import nests
from plant_core.analysis.rectangular_hull import Boxes, NoBlocks
from plant_core.interp.func import evaluate
from plant_core.ir.func import Buf, Func
from plant_core.ir.printer import print_expr
from plant_core.normalize.pipeline import canonical
from plant_core.scratchpad.buffers import (
    NOTHING,
    rows_of,
)
from plant_core.scratchpad.dma_layouts import Turned, layouts
from plant_core.scratchpad.tile_nest import blocks
from plant_core.scratchpad.tiled_func import Blocks
from tests.generators.nests import Features, random_program
from tests.support.block_runs import SCALAR, run_blocks, with_sizes

GRANULE = 4


def read(text: str, folder: Path) -> Func:
    path = folder / "f.c"
    path.write_text(text, encoding="utf-8")
    return canonical(read_c(str(path)), reassoc=False)


def check(
    func: Func,
    spans: tuple[int, ...],
    order: tuple[int, ...],
    *,
    in_step: bool = False,
    turned: Turned | None = None,
) -> Blocks:
    """The nest in blocks, its arrays as they are or `turned`."""
    cut = Turned(func, {}) if turned is None else turned
    boxes = Boxes(cut.func, GRANULE, layouts=cut.layouts)
    return check_made(func, blocks(boxes, spans, order, reassoc=False, in_step=in_step))


def check_made(func: Func, made: Blocks) -> Blocks:
    generator = np.random.default_rng(3)
    inputs = {p.name: generator.integers(-9, 9, p.extents).astype(np.int32) for p in func.params if isinstance(p, Buf)}
    scalars = {p.name: SCALAR for p in func.params if not isinstance(p, Buf)}
    expected, got = evaluate(func, inputs | scalars), run_blocks(made, inputs)
    for name in expected:
        np.testing.assert_array_equal(got[name], expected[name], err_msg=name)
    assert sum(map(made.share, range(len(made.pieces)))) == pytest.approx(1)
    return made


NESTS = {
    "matmul": """void f(const int a[9][7], const int b[7][10], int c[9][10]) {
        for (int i = 0; i < 9; i++) for (int j = 0; j < 10; j++) {
            c[i][j] = 0; for (int k = 0; k < 7; k++) c[i][j] += a[i][k] * b[k][j]; } }""",
    "scaled after": """void f(const int a[9][7], const int x[7], int y[9]) {
        for (int i = 0; i < 9; i++) {
            y[i] = i; for (int k = 0; k < 7; k++) y[i] += a[i][k] * x[k]; y[i] *= 3; } }""",
    "convolution": """void f(const int x[12][13], const int h[3][2], int y[10][12]) {
        for (int i = 0; i < 10; i++) for (int j = 0; j < 12; j++) { y[i][j] = 0;
            for (int r = 0; r < 3; r++) for (int s = 0; s < 2; s++)
                y[i][j] += x[i + r][j + s] * h[r][s]; } }""",
    "reversed": """void f(const int x[12], int y[12]) { for (int i = 0; i < 12; i++) y[i] = x[11 - i] + i; }""",
    "strided": """void f(const int x[30], int y[10]) {
        for (int i = 0; i < 10; i++) y[i] = x[3 * i] - x[3 * i + 2]; }""",
    "two windows": """void f(const int a[9][6], int c[9][9]) {
        for (int i = 0; i < 9; i++) for (int j = 0; j < 9; j++) {
            c[i][j] = i - j;
            for (int k = 0; k < 6; k++) c[i][j] += a[i][k] * a[j][k]; } }""",
    "table": """void f(const int x[16], const int at[12], int y[12]) {
        for (int i = 0; i < 12; i++) y[i] = x[at[i] & 15]; }""",
    "between": """void f(const int a[8][8], int b[8][8]) { int t[8][8];
        for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) { t[i][j] = a[i][j] * 2; b[i][j] = t[i][j] + j; } }""",
    "updated": """void f(const int x[20], int y[20]) { for (int i = 0; i < 20; i++) y[i] = 3 * x[i] + y[i]; }""",
    "sum": """void f(const int x[20], int s[1]) { s[0] = 0; for (int i = 0; i < 20; i++) s[0] += x[i]; }""",
    "written twice": """void f(const int x[20], int y[21]) {
        for (int i = 0; i < 20; i++) { y[i] = x[i]; y[i + 1] = x[i] + 1; } }""",
    "triangle": """void f(const int a[12][9], int c[12][12]) {
        for (int i = 0; i < 12; i++) for (int j = 0; j <= i; j++) { c[i][j] *= 3;
            for (int k = 0; k < 9; k++) c[i][j] += a[i][k] * a[j][k]; } }""",
    "upper triangle": """void f(const int a[12][12], const int x[12], int y[12]) {
        for (int i = 0; i < 12; i++) { y[i] = 0; for (int j = i + 1; j < 12; j++) y[i] += a[i][j] * x[j]; } }""",
    "band": """void f(const int a[13][13], const int x[13], int y[13]) {
        for (int i = 0; i < 13; i++) { y[i] = 1;
            for (int j = 0; j < 13; j++) if (j >= i - 2 && j <= i + 3) y[i] += a[i][j] * x[j]; } }""",
    "tetrahedron": """void f(const int a[9][9], const int b[9][9], int c[9][9]) {
        for (int i = 0; i < 9; i++) for (int j = 0; j < i; j++)
            for (int k = j; k < i; k++) c[i][j] += a[i][k] * b[k][j]; }""",
    "interior": """void f(const int x[12][12], int y[12][12]) {
        for (int i = 0; i < 12; i++) for (int j = 0; j < 12; j++) { y[i][j] = x[i][j];
            if (i >= 1 && i < 11 && j >= 1 && j < 11) y[i][j] += x[i - 1][j] + x[i + 1][j] - x[i][j + 1]; } }""",
    "every third": """void f(const int x[14][14], int y[14][14]) {
        for (int i = 0; i < 14; i++) for (int j = 0; j < 14; j++) if ((i + j) % 3 == 0) y[i][j] = x[j][i]; }""",
    "lags": """void f(const int x[16], int r[16]) {
        for (int k = 0; k < 16; k++) { r[k] = 0; for (int i = 0; i < 16 - k; i++) r[k] += x[i] * x[i + k]; } }""",
    "history": """void f(const int x[20], int y[20]) { for (int i = 1; i < 20; i++) y[i] = y[i - 1] + x[i]; }""",
}


@pytest.mark.parametrize("name", NESTS)
def test_blocks_leave_the_same_arrays(name: str, tmp_path: Path) -> None:
    func = read(NESTS[name], tmp_path)
    loops = Boxes(func, GRANULE).loops
    draw = random.Random(name)
    tried = 0
    for order in itertools.permutations(range(len(loops))):
        spans = tuple(draw.randint(2, max(extent, 2)) for _, _, extent in loops)
        try:
            check(func, spans, order)
            tried += 1
        except NoBlocks:
            assert order != tuple(range(len(loops))), "the order of the text is always kept"
    assert tried


TURNED = {
    "times a transpose": """void f(const int a[9][7], const int b[10][7], int c[9][10]) {
        for (int i = 0; i < 9; i++) for (int j = 0; j < 10; j++) { c[i][j] = 0;
            for (int k = 0; k < 7; k++) c[i][j] += a[i][k] * b[j][k]; } }""",
    "transposes": """void f(const int a[7][9], const int b[10][7], int c[9][10]) {
        for (int i = 0; i < 9; i++) for (int j = 0; j < 10; j++) { c[i][j] = 0;
            for (int k = 0; k < 7; k++) c[i][j] += a[k][i] * b[j][k]; } }""",
    "pure": """void f(const int a[9][13], int b[13][9]) {
        for (int i = 0; i < 13; i++) for (int j = 0; j < 9; j++) b[i][j] = a[j][i]; }""",
    "with itself": NESTS["two windows"],
    "rows": """void f(const int x[9][11], int y[9][11]) {
        for (int i = 0; i < 9; i++) { int m = x[i][0];
            for (int j = 1; j < 11; j++) m = x[i][j] > m ? x[i][j] : m;
            for (int j = 0; j < 11; j++) y[i][j] = x[i][j] - m; } }""",
    "in place": """void f(int x[9][11]) {
        for (int i = 0; i < 9; i++) for (int j = 1; j < 11; j++) x[i][j] += x[i][j - 1]; }""",
    "planes": """void f(const int x[5][7][6], int y[5][7]) {
        for (int i = 0; i < 5; i++) for (int k = 0; k < 7; k++) { y[i][k] = 0;
            for (int j = 0; j < 6; j++) y[i][k] += x[i][k][j]; } }""",
    "complex": """void f(const int x[24], const int y[24], int z[24]) { for (int i = 0; i < 12; i++) {
        z[2 * i] = x[2 * i] * y[2 * i] - x[2 * i + 1] * y[2 * i + 1];
        z[2 * i + 1] = x[2 * i] * y[2 * i + 1] + x[2 * i + 1] * y[2 * i]; } }""",
    "pairs": """void f(const int x[12][2], int y[12], int z[12]) { for (int i = 0; i < 12; i++) {
        y[i] = x[i][0] + x[i][1]; z[i] = x[i][0] - x[i][1]; } }""",
    "pixels": """void f(const int p[6][21], int g[6][7]) { for (int i = 0; i < 6; i++) for (int j = 0; j < 7; j++)
        g[i][j] = p[i][3 * j] + 2 * p[i][3 * j + 1] - p[i][3 * j + 2]; }""",
    "backwards": """void f(const int x[9][11], int y[9]) { for (int i = 0; i < 9; i++) { y[i] = 0;
        for (int j = 0; j < 11; j++) y[i] += x[8 - i][j]; } }""",
    "triangle": NESTS["triangle"],
}


@pytest.mark.parametrize("name", TURNED)
def test_blocks_of_arrays_turned_round_leave_the_same_arrays(name: str, tmp_path: Path) -> None:
    func = read(TURNED[name], tmp_path)
    loops = Boxes(func, GRANULE).loops
    draw = random.Random(name)
    tried = 0
    for order in itertools.permutations(range(len(loops))):
        for turned in layouts(func):
            spans = tuple(draw.randint(2, max(extent, 2)) for _, _, extent in loops)
            check(func, (), (), turned=turned)
            with contextlib.suppress(NoBlocks):
                made = check(func, spans, order, turned=turned)
                tried += any(w.layout is not None for w in made.windows)
    assert tried


IN_PLACE = {
    "triangular product": """void f(const int a[10][10], int b[10][8]) {
        for (int i = 0; i < 10; i++) for (int j = 0; j < 8; j++)
            for (int k = i + 1; k < 10; k++) b[i][j] += a[k][i] * b[k][j]; }""",
    "neighbours": """void f(int a[11][12]) {
        for (int i = 1; i < 10; i++) for (int j = 1; j < 11; j++)
            a[i][j] = a[i - 1][j] + a[i][j - 1] + a[i][j + 1] - a[i + 1][j] + a[i][j]; }""",
    "elimination": """void f(int a[9][9]) {
        for (int k = 0; k < 9; k++) for (int i = k + 1; i < 9; i++) for (int j = k + 1; j < 9; j++)
            a[i][j] -= a[i][k] * a[k][j]; }""",
    "mirrored": """void f(int a[12][12]) {
        for (int i = 0; i < 12; i++) for (int j = 0; j < i; j++) a[j][i] = a[i][j]; }""",
    "both ways": """void f(int a[12][12]) {
        for (int i = 0; i < 12; i++) for (int j = 0; j < i; j++) { a[j][i] = a[i][j] + i; a[i][j] = 3 * j; } }""",
    "written twice": NESTS["written twice"],
    "history": NESTS["history"],
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_blocks_in_step_leave_the_same_arrays(name: str, tmp_path: Path) -> None:
    func = read(IN_PLACE[name], tmp_path)
    loops = Boxes(func, GRANULE).loops
    draw = random.Random(name)
    stepped = 0
    for order in [*itertools.permutations(range(len(loops)))] * 3:
        with contextlib.suppress(NoBlocks):
            spans = tuple(draw.choice((1, 2, 3, 5, extent)) for _, _, extent in loops)
            stepped += any(w.in_step for w in check(func, spans, order, in_step=True).windows)
    assert stepped


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_in_blocks(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    func = read(random_program(draw, Features(types=("int",), symbolic=False)).text, tmp_path)
    check(func, (), ())
    for nest in nests(func):
        part = replace(func, comps=tuple(func.comp(name) for name in nest.names))
        loops = Boxes(part, GRANULE).loops
        for _ in range(3):
            order = draw.sample(range(len(loops)), len(loops))
            spans = tuple(draw.randint(1, max(extent, 2)) for _, _, extent in loops)
            for in_step, turned in itertools.product((False, True), (None, *layouts(part))):
                with contextlib.suppress(NoBlocks):
                    check(part, spans, tuple(order), in_step=in_step, turned=turned)


ANY_SIZE = {
    "product": """void f(int n, int m, int l, const int a[n][l], const int b[l][m], int c[n][m]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { c[i][j] = i - j;
            for (int k = 0; k < l; k++) c[i][j] += a[i][k] * b[k][j]; } }""",
    "sum in a variable": """void f(int n, int m, int l, const int a[n][l], const int b[l][m], int c[n][m]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { int s = j;
            for (int k = 0; k < l; k++) s += a[i][k] * b[k][j];
            c[i][j] = 3 * s - c[i][j]; } }""",
    "convolution": """void f(int n, int m, const int x[n + 2][m + 1], const int h[3][2], int y[n][m]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { int s = 0;
            for (int r = 0; r < 3; r++) for (int q = 0; q < 2; q++) s += x[i + r][j + q] * h[r][q];
            y[i][j] = s; } }""",
    "quotients": """void f(int n, const int x[n], int y[n]) {
        for (int i = 0; i < n; i++) y[i] = 100 / (x[i] * x[i] + 1); }""",
    "one after the other": """void f(int n, int x[n], int y[n]) {
        for (int i = 1; i < n; i++) { y[i] = x[i - 1]; x[i] = y[i] + 1; } }""",
    "skewed": """void f(int n, int m, int x[n][m]) {
        for (int i = 1; i < n; i++) for (int j = 0; j < m - 1; j++) x[i][j] += x[i - 1][j + 1]; }""",
    "columns": """void f(int n, int m, const int x[m][n], int y[n][m]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) y[i][j] = x[j][i] + i; }""",
    "next to each other": """void f(int n, const int x[n], int y[n + 1]) {
        for (int i = 0; i < n; i++) { y[i] = x[i]; y[i + 1] = i; } }""",
    "rows and their sums": """void f(int n, int m, int x[n][m], int s[n]) {
        for (int i = 0; i < n; i++) { s[i] = 1; for (int j = 0; j < m; j++) { x[i][j] += i; s[i] += x[i][j]; } } }""",
}


WHOLE = ("one after the other", "next to each other", "skewed")  # have windows of whole arrays, or no blocks


@pytest.mark.parametrize("name", ANY_SIZE)
def test_blocks_of_any_size_leave_the_same_arrays(name: str, tmp_path: Path) -> None:
    path, draw, tried = tmp_path / "f.c", random.Random(name), 0
    path.write_text(ANY_SIZE[name], encoding="utf-8")
    func = canonical(read_c(str(path)), reassoc=False, symbolic=True)
    loops = Boxes(func, GRANULE).loops
    names = [p.name for p in func.params if not isinstance(p, Buf)]
    orders = list(itertools.permutations(range(len(loops))))
    for order in draw.sample(orders, len(orders)):
        if tried == min(len(loops), 3):
            break
        spans = tuple(draw.choice((4, 8, 16, 32)) for _ in loops)
        try:
            made = blocks(Boxes(func, GRANULE), spans, order, reassoc=False)
        except NoBlocks:
            continue
        if any(w.sized for w in made.windows):
            continue
        tried += 1
        for size in (0, 5, 17, 45):
            sizes = {n: size if k == 0 else draw.randint(0, 12) for k, n in enumerate(names)}
            generator = np.random.default_rng(size)
            shapes = {
                p.name: tuple(n if isinstance(n, int) else eval(print_expr(n), {}, dict(sizes)) for n in p.shape)
                for p in func.params
                if isinstance(p, Buf)
            }
            inputs = {n: generator.integers(-9, 9, shape).astype(np.int32) for n, shape in shapes.items()}
            expected = evaluate(func, inputs | sizes)
            smaller = {k: draw.randrange(c.grain, c.span, c.grain) for k, c in enumerate(made.counters) if c.adapts}
            for at_run in ({}, smaller):
                got = run_blocks(with_sizes(made, sizes, at_run), inputs, sizes, at_run)
                for array in expected:
                    what = f"{array} {order} {spans} {sizes} {at_run}"
                    np.testing.assert_array_equal(got[array], expected[array], err_msg=what)
    assert tried or name in WHOLE


@pytest.mark.parametrize(
    ("name", "groups", "batches", "loops"),
    [
        ("product", (8, 4, 1), {1: (4, 3)}, 5),
        ("sum in a variable", (8, 4, 1), {1: (4, 3)}, 5),
        ("convolution", (8, 4, 1, 1), {1: (4, 3)}, 6),
        ("quotients", (1,), {}, 1),
        ("one after the other", (1,), {}, 1),
        ("columns", (8, 4), {1: (4, 3)}, 4),
        ("next to each other", (1,), {}, 1),
        ("rows and their sums", (8, 1), {}, 3),
    ],
)
def test_which_blocks_run_on(
    name: str, groups: tuple[int, ...], batches: dict[int, tuple[int, int]], loops: int, tmp_path: Path
) -> None:
    """Where nothing comes of it, short blocks run on to whole groups of iterations, in loops of known size."""
    path = tmp_path / "f.c"
    path.write_text(ANY_SIZE[name], encoding="utf-8")
    func = canonical(read_c(str(path)), reassoc=False, symbolic=True)
    boxes = Boxes(func, GRANULE)
    made = blocks(boxes, [16] * len(boxes.loops), range(len(boxes.loops)), reassoc=False)
    assert tuple(c.group for c in made.counters) == groups
    assert [c.batches for c in made.counters] == [batches.get(k) for k in range(len(groups))]
    assert max(len(c.iters) for p in made.pieces for c in p.comps) == loops


def test_blocks_in_the_middle_share_a_function(tmp_path: Path) -> None:
    func = read(NESTS["matmul"], tmp_path)
    assert len(check(func, (3, 5, 7), (0, 1, 2)).pieces) == 1
    assert len(check(func, (3, 5, 2), (0, 1, 2)).pieces) == 3  # sums begin, go on, and end with one iteration less
    made = check(func, (3, 4, 7), (0, 1, 2))
    assert [made.share(k) for k in range(len(made.pieces))] == pytest.approx([0.8, 0.2])


def test_arrays_of_a_block_of_its_own_keep_their_order(tmp_path: Path) -> None:
    names = [f"{c}{k}" for k in range(4) for c in "zay"]
    text = "".join(
        f"for (int i = 0; i < 9; i++) {b}[i] = {a}[i] + 1;" for a, b in zip(["x", *names], [*names, "r"], strict=True)
    )
    func = read(f"void f(const int x[9], int r[9]) {{ int {', '.join(f'{n}[9]' for n in names)}; {text} }}", tmp_path)
    made = blocks(Boxes(func, GRANULE), (), (), reassoc=False)
    assert [b.name for b in made.pieces[0].bufs if b.kind == "local"] == names


def test_what_a_block_overwrites_is_not_fetched(tmp_path: Path) -> None:
    func = read(NESTS["matmul"], tmp_path)
    resident = check(func, (3, 5, 2), (0, 1, 2))
    assert {w.name: (w.load, w.store) for w in resident.windows} == {
        "a": (True, False),
        "b": (True, False),
        "c": (False, True),
    }
    again = check(func, (3, 5, 2), (2, 0, 1))
    assert {w.name: w.load for w in again.windows}["c"], "blocks come back to its windows"


def test_what_statements_overwrite_together_is_not_fetched(tmp_path: Path) -> None:
    text = """void f(const int x[10], int y[20], int z[20]) {
        int t[10];
        for (int i = 0; i < 10; i++) { t[i] = x[i] * 3; y[2 * i] = t[i]; y[2 * i + 1] = 1; }
        for (int i = 0; i < 10; i++) { z[2 * i] = t[9 - i]; z[(i < 9 ? 2 * i : 2) + 1] = 2; } }"""
    made = check(read(text, tmp_path), (), ())
    assert {w.name: (w.load, w.store) for w in made.windows} == {
        "x": (True, False),
        "y": (False, True),
        "z": (True, True),
    }
    assert "t" in {b.name for p in made.pieces for b in p.bufs if b.kind == "local"}


@pytest.mark.parametrize(
    ("statements", "load"),
    [
        ("for (i = 0; i < 9; i++) for (j = 0; j <= i; j++) c[i][j] = t[i];", True),
        ("for (i = 0; i < 9; i++) t[i] = c[at[i] & 7][i]; for (i = 0; i < 81; i++) c[i / 9][i % 9] = 0;", True),
        ("for (i = 0; i < 9; i++) c[at[i] & 7][i] = 5; for (i = 0; i < 9; i++) t[i] = c[i][i];", True),
        (
            "for (i = 0; i < 81; i++) c[i / 9][i % 9] = i; for (i = 0; i < 9; i++) t[i] = c[at[i] & 7][i];",
            False,
        ),
    ],
    ids=["triangle", "read by data", "written by data", "written first"],
)
def test_what_a_block_may_read_or_leave_is_fetched(statements: str, load: bool, tmp_path: Path) -> None:
    func = read(f"void f(int c[9][9], int t[9], const int at[9]) {{ int i, j; {statements} }}", tmp_path)
    made = check(func, (), ())
    assert {w.name: w.load for w in made.windows}["c"] == load


def test_an_order_that_breaks_a_dependence_is_refused(tmp_path: Path) -> None:
    text = "void f(int a[9][9]) { for (int i = 1; i < 9; i++) for (int j = 0; j < 8; j++) a[i][j] = a[i - 1][j + 1]; }"
    func = read(text, tmp_path)
    check(func, (2, 8), (0, 1))
    with pytest.raises(NoBlocks, match="a later one"):
        blocks(Boxes(func, GRANULE), (2, 2), (0, 1), reassoc=False)


def test_triangles_of_run_time_size_are_refused(tmp_path: Path) -> None:
    text = "void f(int n, int a[n][n]) { for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++) a[i][j] = 1; }"
    with pytest.raises(NoBlocks):
        blocks(Boxes(read(text, tmp_path), GRANULE), (2, 2), (0, 1), reassoc=False)


def test_blocks_of_a_triangle_are_whole_cut_alike_or_empty(tmp_path: Path) -> None:
    text = "void f(int a[12][12]) { for (int i = 0; i < 12; i++) for (int j = 0; j <= i; j++) a[i][j] += 7; }"
    made = check(read(text, tmp_path), (3, 3), (0, 1))
    assert made.times()[NOTHING] == 6 and len(made.pieces) == 2
    assert not made.origins, "no piece needs to know where it is"


def test_blocks_of_many_shapes_share_code_that_is_told_where_they_are(tmp_path: Path) -> None:
    text = "void f(int a[40][40]) { for (int i = 0; i < 40; i++) for (int j = 0; j <= i; j++) a[i][j] += 7; }"
    made = check(read(text, tmp_path), (8, 7), (0, 1))
    assert len(made.pieces) == 4 and len(made.origins) == 2, "whole ones and all others, and those at the end"


def test_windows_as_rows(tmp_path: Path) -> None:
    made = check(read(NESTS["convolution"], tmp_path), (5, 6, 3, 2), (0, 1, 2, 3))
    window = next(w for w in made.windows if w.name == "x")
    rows = rows_of(window, (12, 13), 4)
    assert rows is not None and (rows.rows.full, rows.row_bytes.full, rows.pitch, rows.local_pitch) == (7, 28, 52, 32)
    whole = rows_of(next(w for w in made.windows if w.name == "h"), (3, 2), 4)
    assert whole is not None and (whole.rows.full, whole.row_bytes.full) == (1, 24), "short rows are one"
