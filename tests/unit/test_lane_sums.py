"""Sums along loops of unknown length, made in vectors, leave the same arrays."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from dspgen.tiling.loops.loop_nests import nests
from plant_core.analysis.runtime_parameters import defined_values, used_parameters
from plant_core.interp.func import evaluate
from plant_core.ir.func import Buf, Func, Val
from plant_core.normalize.pipeline import canonical
from plant_core.strip_mine.reduction_partials import with_lane_sums
from plant_core.strip_mine.strips import in_groups

LANES = 4
ROWS, MOST = 11, 20
PARTED = {
    "matrix times vector": """void f(int n, int m, const int a[11][20], const int x[20], int y[11]) {
        for (int i = 0; i < n; i++) { y[i] = 1; for (int j = 0; j < m; j++) y[i] += a[i][j] * x[j]; y[i] *= 2; } }""",
    "from the third on, subtracted": """void f(int n, int m, const int a[11][21], int y[11]) {
        for (int i = 0; i < n; i++) { y[i] = i; for (int j = 2; j < m; j++) y[i] -= a[i][j + 1] * (j + i); } }""",
    "one after the other": """void f(int n, int m, const int a[11][20], const int x[20], int y[11], int z[11]) {
        for (int i = 0; i < 11; i++) {
          y[i] = n; z[i] = 3;
          for (int j = 0; j < m; j++) y[i] += a[i][j] * x[j];
          for (int j = 0; j < m; j++) z[i] += a[i][j] * y[i]; } }""",
    "known rows": """void f(int n, int m, const int a[11][20], int y[11]) {
        for (int i = 0; i < 11; i++) for (int j = 0; j < m; j++) y[i] += a[i][j] + n; }""",
    "greatest": """void f(int n, int m, const int a[11][20], int y[11]) {
        for (int i = 0; i < 11; i++) for (int j = 0; j < m; j++) y[i] = y[i] > a[i][j] ? y[i] : a[i][j]; }""",
    "least": """void f(int n, int m, const int a[11][20], int y[11]) {
        for (int i = 0; i < n; i++) { y[i] = 7; for (int j = 1; j < m; j++) if (a[i][j] < y[i]) y[i] = a[i][j]; } }""",
    "rows of rows": """void f(int n, int m, const int a[11][5][20], int y[11][5]) {
        for (int i = 0; i < n; i++) for (int k = 1; k < 5; k++) {
          y[i][k] = k; for (int j = 0; j < m; j++) y[i][k] += a[i][k][j]; } }""",
}
WHOLE = {
    "products": """void f(int n, int m, const int a[11][20], int y[11]) {
        for (int i = 0; i < 11; i++) for (int j = 0; j < m; j++) y[i] *= a[i][j]; }""",
    "sums of sums": """void f(int n, int m, const int a[11][20], int y[12]) {
        for (int i = 0; i < 11; i++) for (int j = 0; j < m; j++) y[i + 1] += a[i][j] + y[i]; }""",
    "read before": """void f(int n, int m, const int a[11][20], int y[11], int z[11]) {
        for (int i = 0; i < 10; i++) {
          z[i] = y[i + 1]; y[i] = z[i]; for (int j = 0; j < m; j++) y[i + 1] += a[i][j] * z[i]; } }""",
    "lanes lie along the columns": """void f(int n, int m, const int a[20][11], int y[11]) {
        for (int i = 0; i < 11; i++) for (int j = 0; j < m; j++) y[i] += a[j][i]; }""",
    "every other element": """void f(int n, int m, const int a[11][40], int y[11]) {
        for (int i = 0; i < 11; i++) for (int j = 0; j < m; j++) y[i] += a[i][2 * j]; }""",
    "known length": """void f(int n, int m, const int a[11][20], int y[11]) {
        for (int i = 0; i < 11; i++) for (int j = 0; j < 20; j++) y[i] += a[i][j]; }""",
}


def parted(text: str, folder: Path) -> tuple[Func, Func, Func]:
    """The function, as it is before, and with its sums in vectors."""
    path = folder / "f.c"
    path.write_text(text, encoding="utf-8")
    func = read_c(str(path))
    before = canonical(func, reassoc=False, symbolic=True)
    before = in_groups(before, [n.names for n in nests(before)], 2, reassoc=False) or before
    return func, before, with_lane_sums(before, LANES, reassoc=False)


@pytest.mark.parametrize("name", PARTED)
def test_sums_in_vectors_leave_the_same_arrays(name: str, tmp_path: Path) -> None:
    func, before, made = parted(PARTED[name], tmp_path)
    sums = [b for b in made.bufs if b.name.endswith("_sums")]
    assert all(b.shape[-1] == LANES for b in sums)
    assert len(sums) == (2 if name == "one after the other" else 1)
    assert len(made.comps) == len(before.comps) + 4 * len(sums)
    draw = random.Random(name)
    for m in (0, 1, 3, 4, 9, 16, 20):
        sizes = {"n": draw.choice((0, 1, 8, ROWS)), "m": m}
        generator = np.random.default_rng(m)
        shapes = {p.name: p.extents for p in func.params if isinstance(p, Buf)}
        inputs = {n: generator.integers(-9, 9, shape).astype(np.int32) for n, shape in shapes.items()}
        expected, got = evaluate(func, inputs | sizes), evaluate(made, inputs | sizes)
        for array in expected:
            np.testing.assert_array_equal(got[array], expected[array], err_msg=f"{array} {sizes}")


@pytest.mark.parametrize("name", WHOLE)
def test_others_stay_as_they_are(name: str, tmp_path: Path) -> None:
    _, before, made = parted(WHOLE[name], tmp_path)
    assert made is before


def test_the_order_of_floats_may_matter(tmp_path: Path) -> None:
    text = PARTED["known rows"].replace("const int a", "const float a").replace("int y", "float y")
    _, before, made = parted(text, tmp_path)
    assert made is before
    assert with_lane_sums(before, LANES, reassoc=True) is not before


@pytest.mark.parametrize("name", ["known rows", "least"])
def test_where_there_is_a_sum_something_is_left_beyond_whole_vectors(name: str, tmp_path: Path) -> None:
    """One vector that is cut short, or is full, so that nothing asks for it; and sums begin with what changes none."""
    _, _, made = parted(PARTED[name], tmp_path)
    known = defined_values(made.comps, {p for c in made.comps for p in used_parameters(c)})
    rests = [c for c in made.comps if c.name.endswith("_rest")]
    joined = [made.comp(c.name.removesuffix("_rest")) for c in rests]
    assert rests
    for rest, whole in zip(rests, joined, strict=True):
        assert whole.domain.params().intersect(known).is_subset(rest.domain.params())
        assert rest.domain.dim_max_val(len(rest.iters) - 1).to_python() == LANES - 1
        assert isinstance(made.comp(f"{whole.name}_begun").value, Val)
