"""Sums in a variable are made in the element that they end up in, where that leaves the same arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from plant_core.interp.func import evaluate
from plant_core.ir.func import Buf
from plant_core.ir.time_2d1 import normalise_loops
from plant_core.normalize.scalars.accumulate_in_place import sums_in_place

HEAD = "void f(const int a[6][7], const int b[7][6], int c[6][6], int d[6]) { "
THERE = {
    "product": "for (int i = 0; i < 6; i++) for (int j = 0; j < 6; j++) { int s = i; "
    "for (int k = 0; k < 7; k++) s += a[i][k] * b[k][j]; c[i][j] = s; }",
    "rows": "for (int i = 0; i < 6; i++) { int s = 0; for (int k = 0; k < 7; k++) s += a[i][k]; d[i] = s; }",
    "triangle": "for (int i = 0; i < 6; i++) for (int j = 0; j <= i; j++) { int s = 0; "
    "for (int k = j; k < i; k++) s += a[i][k] * b[k][j]; c[i][j] = s; }",
    "below the diagonal": "for (int i = 0; i < 6; i++) { for (int j = 0; j < i; j++) { int s = c[i][j]; "
    "for (int k = 0; k < j; k++) s -= c[i][k] * c[k][j]; c[i][j] = s * c[j][j]; } }",
    "downwards": "for (int i = 5; i >= 0; i--) { int s = d[i]; for (int j = i + 1; j < 6; j++) s -= a[i][j] * d[j]; "
    "d[i] = s / 3; }",
    "in two loops": "int s; for (int i = 0; i < 6; i++) { for (int j = 0; j < i; j++) { s = c[i][j]; "
    "for (int k = 0; k < j; k++) s -= c[i][k] * c[k][j]; c[i][j] = s; } for (int j = i; j < 6; j++) { s = a[i][j]; "
    "for (int k = 0; k < i; k++) s += c[i][k] * c[k][j]; c[i][j] = s; } }",
    "two": "for (int i = 0; i < 6; i++) { int s = 0, t = 1; for (int k = 0; k < 7; k++) { s += a[i][k]; t -= s; } "
    "c[i][2] = s; d[5 - i] = t; }",
}
STAY = {
    "it is read besides": "for (int i = 0; i < 6; i++) { int s = 0; for (int k = 0; k < 7; k++) s += a[i][k]; "
    "d[i] = s; c[i][0] = s; }",
    "the element is read": "for (int i = 0; i < 6; i++) { int s = 0; for (int k = 0; k < 6; k++) s += a[i][k] * d[k]; "
    "d[i] = s; }",
    "it starts once": "int s = 0; for (int i = 0; i < 6; i++) { for (int k = 0; k < 7; k++) s += a[i][k]; d[i] = s; }",
    "stored in some iterations": "for (int i = 0; i < 6; i++) { int s = 0; for (int k = 0; k < 7; k++) s += a[i][k]; "
    "if (i > 2) d[i] = s; }",
    "one element": "for (int i = 0; i < 6; i++) { int s = 0; for (int k = 0; k < 7; k++) s += a[i][k]; d[3] = s; }",
    "the element is read where it would be new": "for (int i = 0; i < 6; i++) { int s = d[i]; "
    "for (int k = 0; k < i; k++) s -= a[i][k] * d[i]; d[i] = s; }",
    "the element is read at last": "for (int i = 0; i < 6; i++) { int s = d[i]; "
    "for (int k = 0; k < 7; k++) s += a[i][k]; d[i] = s + d[i]; }",
    "it is written before": "for (int i = 0; i < 6; i++) { int s = d[i]; for (int k = 0; k < 6; k++) { s += a[i][k]; "
    "d[k] = 1; } d[i] = s; }",
    "one loop goes on after another": "int s; for (int i = 0; i < 6; i++) { s = c[i][0]; c[i][0] = s + 1; "
    "for (int j = 1; j < 6; j++) { s += a[i][j]; c[i][j] = s; } }",
    "the next iteration reads it": "int s = 7; for (int i = 0; i < 6; i++) { c[i][0] = s * 3; s = a[i][0] + i; "
    "c[i][1] = s; }",
    "another value": "for (int i = 0; i < 6; i++) { int s = 0; for (int k = 0; k < 7; k++) s += a[i][k]; d[i] = -s; }",
}


@pytest.mark.parametrize("name", [*THERE, *STAY])
def test_the_same_arrays(name: str, tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(f"{HEAD}{(THERE | STAY)[name]} }}", encoding="utf-8")
    func = normalise_loops(read_c(str(path)))
    made = sums_in_place(func, updates=True)
    gone = sum(b.kind == "local" for b in func.bufs) - sum(b.kind == "local" for b in made.bufs)
    assert gone == (name in THERE)
    generator = np.random.default_rng(1)
    inputs = {p.name: generator.integers(-9, 9, p.extents).astype(np.int32) for p in func.params if isinstance(p, Buf)}
    expected, got = evaluate(func, inputs), evaluate(made, inputs)
    for array in expected:
        np.testing.assert_array_equal(got[array], expected[array], err_msg=array)
