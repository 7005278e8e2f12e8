"""Loops of unknown size in groups of iterations leave the same arrays."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import islpy as isl
import numpy as np
import pytest

from dspgen.frontend.read import read_c
from dspgen.tiling.loops.loop_nests import nests
from plant_core.analysis.dependence import memory_dependences
from plant_core.interp.func import evaluate
from plant_core.ir.c_semantics import integer_of
from plant_core.ir.func import Buf, Func
from plant_core.ir.printer import print_expr
from plant_core.normalize.pipeline import canonical
from plant_core.strip_mine.strips import in_groups
from tests.unit.test_blocks import ANY_SIZE, GRANULE

# Iterations have no elements of their own, or may divide by zero.
ALONE = ("one after the other", "skewed", "next to each other", "quotients")
FIXED = {  # arrays of known size, so that parameters may be negative
    "fixed arrays": """void f(int n, int m, const int x[40][40], int y[40][40]) {
        for (int i = 0; i < n; i++) for (int j = 2; j < m; j++) { int s = 1;
            for (int k = 0; k < j - j + 3; k++) s += x[i][j - k + 1] * k; y[i][j - 1] = s; } }""",
}
ALSO = {
    "updated": """void f(int n, int m, const int x[n][m], int y[n][m]) {
        for (int i = 0; i < n; i++) for (int j = 1; j < m; j++) y[i][j] += x[i][j - 1]; }""",
    "rows in a variable": """void f(int n, int m, const int x[n][m], int y[n][m]) {
        for (int i = 1; i < n; i++) for (int j = 0; j < m; j++) { int s = i;
            for (int k = 0; k < 3; k++) s = 3 * s + x[i - 1][j]; y[i][j] = s; } }""",
    "filter of each plane": """void f(int n, int m, int p, const int h[n][2], const int x[n][m + 1][p], int y[n][m][p])
      {
        for (int c = 0; c < n; c++) for (int i = 0; i < m; i++) for (int j = 0; j < p; j++) { int s = c;
            for (int k = 0; k < 2; k++) s += h[c][k] * x[c][i + k][j]; y[c][i][j] = s; } }""",
    "rows after their sums": """void f(int n, int m, const int x[n][m], int y[n][m]) {
        for (int i = 0; i < n; i++) { int s = i; for (int j = 0; j < m; j++) s += x[i][j];
            for (int j = 1; j < m; j++) y[i][j] = s * x[i][j - 1]; } }""",
    "planes": """void f(int n, int m, int p, const int x[n][m][p], int y[n][m][p]) {
        for (int c = 0; c < n; c++) for (int i = 0; i < m; i++) for (int j = 0; j < p; j++)
            y[c][i][j] = 3 * x[c][i][j]; }""",
}
FIXED["fixed arrays, updated"] = """void f(int n, int m, const int x[40][40], int y[40][40]) {
    for (int i = 3; i < n; i++) for (int j = 2; j < m; j++) y[i][j] += x[i - 3][j - 2]; }"""
LOOPS = {  # of the statement in whole groups of all its loops that have them
    "product": 5,
    "sum in a variable": 5,
    "convolution": 6,
    "columns": 4,
    "updated": 4,
    "rows in a variable": 5,
    "rows and their sums": 3,
    "rows after their sums": 3,
    # Of several loops from row to row one has groups.
    "filter of each plane": 6,
    "planes": 5,
    "fixed arrays": 5,
    "fixed arrays, updated": 4,
}


def grouped(source: Func, unit: int = 1, granule: int = GRANULE) -> Func | None:
    func = canonical(source, reassoc=False, symbolic=True)
    return in_groups(func, [n.names for n in nests(func)], granule, reassoc=False, unit=lambda comp, accesses: unit)


@pytest.mark.parametrize("unit", [1, 2])
@pytest.mark.parametrize("name", [*ANY_SIZE, *ALSO, *FIXED])
def test_groups_leave_the_same_arrays(name: str, unit: int, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text((ANY_SIZE | ALSO | FIXED)[name], encoding="utf-8")
    func = read_c(str(path))
    made = grouped(func, unit)
    assert (made is None) == (name in ALONE)
    if made is None:
        return
    assert max(len(c.iters) for c in made.comps) == LOOPS[name]
    assert all(isinstance(n, int) for b in made.bufs if b.kind == "local" for n in b.shape)
    names = [p.name for p in func.params if not isinstance(p, Buf)]
    draw = random.Random(name)
    for size in (0, 1, 5, 8, 17, 32, *((-3, -8, -11) if name in FIXED else ())):
        sizes = {n: size if k == 0 else draw.randint(-8 if name in FIXED else 0, 39) for k, n in enumerate(names)}
        generator = np.random.default_rng(abs(size))
        shapes = {
            p.name: tuple(n if isinstance(n, int) else eval(print_expr(n), {}, dict(sizes)) for n in p.shape)
            for p in func.params
            if isinstance(p, Buf)
        }
        inputs = {n: generator.integers(-9, 9, shape).astype(np.int32) for n, shape in shapes.items()}
        expected, got = evaluate(func, inputs | sizes), evaluate(made, inputs | sizes)
        for array in expected:
            np.testing.assert_array_equal(got[array], expected[array], err_msg=f"{array} {sizes}")


@pytest.mark.parametrize(
    ("text", "sizes", "most", "step"),
    [
        (ANY_SIZE["product"], {"n": 9}, 70, 3),
        (
            """void f(int n, int t, const int x[n + t], const int h[t], int y[n]) {
               for (int i = 0; i < n; i++) { y[i] = 0; for (int k = 0; k < t; k++) y[i] += h[k] * x[i + k]; } }""",
            {"t": 2},
            330,
            5,
        ),
    ],
)
def test_batches_leave_the_same_arrays(text: str, sizes: dict[str, int], most: int, step: int, tmp_path: Path) -> None:
    """Sums of any number of vectors: three sizes of batches, the last one where the loop ends, and too few for any."""
    path = tmp_path / "f.c"
    path.write_text(text, encoding="utf-8")
    func = read_c(str(path))
    made = grouped(func)
    assert made is not None and {"larger0", "few0"} <= {c.defines for c in made.comps}
    free = [p.name for p in func.params if not isinstance(p, Buf) and p.name not in sizes]
    for size in range(0, most, step):
        known = {n: size if k == 0 else 3 for k, n in enumerate(free)} | sizes
        shapes = {
            p.name: tuple(n if isinstance(n, int) else eval(print_expr(n), {}, dict(known)) for n in p.shape)
            for p in func.params
            if isinstance(p, Buf)
        }
        inputs = {n: np.arange(np.prod(s), dtype=np.int32).reshape(s) % 19 for n, s in shapes.items()}
        expected, got = evaluate(func, inputs | known), evaluate(made, inputs | known)
        for array in expected:
            np.testing.assert_array_equal(got[array], expected[array], err_msg=f"{array} {known}")


@pytest.mark.parametrize(
    "text",
    [
        "void f(int n, const int x[200], int y[200]) { for (int i = 0; i < n; i++) y[i] += 3 * x[i]; }",
        """void f(int n, int x[200], int y[200]) {
           for (int i = 2; i < n; i++) { int s = x[i - 1]; x[i - 1] = y[i]; y[i] += s * i; } }""",
        "void f(int n, const int x[200], int y[200]) { for (int i = 0; i < n - 1; i++) y[i + 1] = x[i] + x[i + 1]; }",
        """void f(int n, const int x[200], int y[200]) { int t[200] = {0};
           for (int i = 0; i < n; i++) t[i] = 3 * x[i];
           y[0] = 0; for (int i = 0; i < n; i++) y[0] += t[i]; }""",
        """void f(int n, const int x[200], int y[200]) { int t[200];
           for (int i = 0; i < 200; i++) t[i] = i - x[i];
           for (int i = 0; i < n; i++) { t[i] += x[i]; y[i] = t[i]; }
           for (int i = 100; i < 200; i++) y[i] = t[i]; }""",
    ],
)
def test_last_vectors_leave_the_same_arrays(text: str, tmp_path: Path) -> None:
    """A loop by itself: what is left over of groups, and what is shorter than a group, in whole vectors of copies."""
    path = tmp_path / "f.c"
    path.write_text(text, encoding="utf-8")
    func = read_c(str(path))
    made = grouped(func)
    assert made is not None and any(c.defines == "start0" for c in made.comps)
    inputs = {p.name: np.arange(200, dtype=np.int32) * 7 % 19 for p in func.params if isinstance(p, Buf)}
    for size in (-3, 0, 1, 2, *range(GRANULE - 1, GRANULE + 4), 3 * GRANULE, 8 * GRANULE, 16 * GRANULE + 1, 150):
        expected, got = evaluate(func, inputs | {"n": size}), evaluate(made, inputs | {"n": size})
        for array in expected:
            np.testing.assert_array_equal(got[array], expected[array], err_msg=f"{array} {size}")


def test_last_rows_that_are_no_whole_vectors(tmp_path: Path) -> None:
    """Eight rows are half a vector: it was copied no times, and what is behind the last group never written."""
    path = tmp_path / "f.c"
    path.write_text(
        "void f(int n, const int a[40][41], int x[40]) { for (int i = 0; i < n; i++) x[i] = a[i][n]; }",
        encoding="utf-8",
    )
    func = read_c(str(path))
    made = grouped(func, granule=16)
    assert made is not None
    a, x = np.arange(40 * 41, dtype=np.int32).reshape(40, 41), np.zeros(40, np.int32)
    for size in (-3, *range(41)):
        expected = evaluate(func, {"n": size, "a": a, "x": x})
        np.testing.assert_array_equal(evaluate(made, {"n": size, "a": a, "x": x})["x"], expected["x"], str(size))


@pytest.mark.parametrize(("taps", "rows"), [(2, 8), (3, 4), (5, 8)])
def test_rows_of_a_group_by_the_terms_that_straight_code_adds_up(taps: int, rows: int, tmp_path: Path) -> None:
    """Elements of 2 x 2 terms come in eight rows, of 3 x 3 in four; of 5 x 5 no number of rows makes straight code."""
    path = tmp_path / "f.c"
    path.write_text(
        f"""void f(int n, int m, const int w[{taps}][{taps}], const int x[90][90], int y[80][80]) {{
        for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) {{ y[i][j] = 0;
            for (int p = 0; p < {taps}; p++) for (int q = 0; q < {taps}; q++)
                y[i][j] += w[p][q] * x[i + p][j + q]; }} }}""",
        encoding="utf-8",
    )
    made = grouped(read_c(str(path)))
    assert made is not None
    whole = max(made.comps, key=lambda c: len(c.iters))
    assert whole.domain.dim_max_val(whole.iters.index("i")).to_python() == rows - 1


def test_parts_tell_what_their_loops_imply(tmp_path: Path) -> None:
    """A part in whole groups runs only where there is one, though its domain does not tell."""
    path = tmp_path / "f.c"
    path.write_text(ANY_SIZE["product"], encoding="utf-8")
    made = grouped(read_c(str(path)))
    assert made is not None
    for n, m, depth in ((3, 90, 4), (20, 7, 2), (8, 33, 1)):
        values = {"n": n, "m": m, "l": depth}
        for comp in made.comps:
            if comp.defines is not None:
                values[comp.defines] = integer_of(comp.value, values)
                continue
            here = comp.domain.params()
            for name, value in values.items():
                place = here.find_dim_by_name(isl.dim_type.param, name)
                here = here if place < 0 else here.fix_val(isl.dim_type.param, place, isl.Val(value))
            assert here.is_empty() or all(eval(told, {}, values) for told in comp.sure)
    assert any(comp.sure for comp in made.comps)


def test_parts_for_sizes_at_which_their_nest_does_not_run(tmp_path: Path) -> None:
    """Fewer than eight of over twelve rows are none, which have no place among the others."""
    path = tmp_path / "f.c"
    path.write_text(
        """void f(int n, int m, const int x[40][40], int y[40][40]) {
        if (n > 12) for (int i = 2; i < n - 1; i++) for (int j = 0; j < m; j++) y[i][j] = 2 * x[i - 2][j];
        if (n <= 12) for (int i = 0; i < n; i++) for (int j = 1; j < m; j++) y[i][j] = x[i][j - 1]; }""",
        encoding="utf-8",
    )
    func = read_c(str(path))
    made = grouped(func)
    assert made is not None
    assert not any(comp.domain.is_empty() for comp in made.comps)
    x = np.arange(1600, dtype=np.int32).reshape(40, 40)
    for n, m in ((3, 40), (9, 7), (12, 39), (13, 5), (30, 33)):
        inputs = {"n": n, "m": m, "x": x, "y": np.zeros((40, 40), np.int32)}
        np.testing.assert_array_equal(evaluate(made, inputs)["y"], evaluate(func, inputs)["y"])


def test_parameters_that_only_subscripts_know(tmp_path: Path) -> None:
    """Where a block begins is such a one, which parts had among their parameters, and definitions of counts had not."""
    path = tmp_path / "f.c"
    path.write_text(
        """void f(int n, int at, const int x[99], int y[40]) {
           for (int i = 0; i < n; i++) { y[i] = x[at + i]; for (int j = 0; j < n; j++) y[i] += x[at + i] * x[j]; } }""",
        encoding="utf-8",
    )
    func = read_c(str(path))
    used = [
        replace(c, domain=c.domain.drop_unused_params(), schedule=c.schedule.drop_unused_params()) for c in func.comps
    ]
    made = grouped(func.with_comps(tuple(used)))
    assert made is not None and memory_dependences(made)


def test_loops_of_one_length_have_one_count(tmp_path: Path) -> None:
    """Its batches are told once in a statement's parameters, though two of its loops have them."""
    path = tmp_path / "f.c"
    path.write_text(
        """void f(int n, int y[3][3]) {
           for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { int v = 0;
             for (int k = 0; k < n; k++) v = i; y[i][j] = v; } }""",
        encoding="utf-8",
    )
    func = read_c(str(path))
    made = grouped(func)
    assert made is not None
    for n in range(4):
        inputs = {"n": n, "y": np.zeros((3, 3), np.int32)}
        np.testing.assert_array_equal(evaluate(made, inputs)["y"], evaluate(func, inputs)["y"])
