"""Corners of the C++ backend: lanes that meet, narrow constants, local arrays made smaller, other compilers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.cpu.build import build, find_compiler
from backends.cpu.emit import emit
from backends.cpu.kernel import Kernel, compile_cpu
from dspgen import oracle
from dspgen.frontend.read import read_c
from plant_core.interp.func import evaluate
from plant_core.ir.accesses import children, rebuild
from plant_core.ir.func import Cast, Expr, Iter
from plant_core.ir.scheduled import as_written
from plant_core.scan import scan
from plant_core.support.location import PlantError
from tests.support.cpu_programs import check, inputs_of, read, run_compiled, tagged

CLANG = next((c for c in ("clang++", "clang++-19") if shutil.which(c)), "clang++")


def test_constant_of_a_narrow_type(tmp_path: Path) -> None:
    text = "void k(unsigned short r[50]) { for (int i = 0; i < 50; i++) r[i] = 7; }"
    assert "splat<u16x32>(7)" in check(tmp_path, text, ("S0", "i", "vectorize"))


def test_sum_of_constants(tmp_path: Path) -> None:
    text = """void k(double r[3], const double a[3], int n) {
        for (int j = 0; j < 3; j++) for (int i = 0; i < 64; i++) r[j] += a[j]; }"""
    assert "reduce_add" in check(tmp_path, text, ("S0", "i", "vectorize"), reassoc=True)


MEETING = ("r[i / 2] += a[i];", "r[i / 3] |= a[i];", "r[i % 7] -= a[i];", "r[i / 2] *= 2 + a[i];")


@pytest.mark.parametrize("statement", MEETING)
@pytest.mark.parametrize("kind", ("int", "unsigned char", "long"))
@pytest.mark.parametrize("bound", ("70", "n"))
def test_lanes_that_meet_in_one_element(statement: str, kind: str, bound: str, tmp_path: Path) -> None:
    text = f"void k(int n, {kind} r[70], const {kind} a[70]) {{ for (int i = 0; i < {bound}; i++) {statement} }}"
    source = check(tmp_path, text, ("S0", "i", "vectorize"), given={"n": 61})
    assert "omp simd" not in source


MIXED = {
    "compared": "i <= a[i] ? a[i] + i : 3 - i",
    "an arm": "a[i] > 4 ? 2 * i : a[i]",
    "an outer one": "a[i] > j ? 2 * j + a[i] : a[i]",
    "no lane's own": "(float)(i - i) + a[i]",
    "negated": "-(i - i) + a[i]",
}


@pytest.mark.parametrize("name", MIXED)
def test_iterator_among_longer_integers(name: str, tmp_path: Path) -> None:
    """Also where a schedule leaves out casts that change no iterator's value."""
    text = f"""void k(long r[7][40], const long a[40]) {{
        for (int j = 0; j < 7; j++) for (int i = 0; i < 40; i++) r[j][i] = {MIXED[name]}; }}"""
    func = read(tmp_path, text)
    bare = func.with_comps(tuple(replace(c, value=_without_casts(c.value)) for c in func.comps))
    inputs = inputs_of(func)
    for each in (func, bare):
        got, _ = run_compiled(tagged(as_written(each), ("S0", "i", "vectorize")), inputs, tmp_path)
        np.testing.assert_array_equal(got["r"], evaluate(func, inputs)["r"])


def _without_casts(expr: Expr) -> Expr:
    if isinstance(expr, Cast) and expr.dtype == "i64" and isinstance(expr.operand, Iter):
        return expr.operand
    parts = children(expr)
    return rebuild(expr, tuple(map(_without_casts, parts))) if parts else expr


def test_constant_rest_on_one_vector(tmp_path: Path) -> None:
    text = "void k(float r[62], const float a[62]) { for (int i = 0; i < 62; i++) r[i] = a[i] + i; }"
    source = check(tmp_path, text, ("S0", "i", "vectorize"))
    assert "load_first_f32x16(&a[48], 14)" in source and "f32x8" not in source


def test_rest_of_a_reversed_sum(tmp_path: Path) -> None:
    """Before single elements come single vectors, and no bound is guarded that is known."""
    text = """void k(float s[99], const float a[99], const float b[99]) {
        for (int k = 1; k < 99; k++) for (int i = 0; i < k; i++) s[k] += a[k - i - 1] * b[i]; }"""
    source = check(tmp_path, text, ("S0", "i", "vectorize"), reassoc=True)
    assert "i < 64 * (k / 64); i += 64" in source and "i < 16 * (k / 16); i += 16" in source
    assert "index_max" not in source and source.count("__builtin_shufflevector(x, x") == 1


def test_gathered_lanes_stay_short(tmp_path: Path) -> None:
    text = """void k(float m[200][200]) {
        for (int i = 0; i < 200; i++) m[i][3] = m[i][5] * 2.0f; }"""
    source = check(tmp_path, text, ("S0", "i", "vectorize"))
    assert source.count("][3] = ") < 30


RECURSION = """void k(float y[40][30], const float a[40][30]) { float z[40][30];
    for (int k = 0; k < 40; k++) {
        for (int i = 0; i < 30; i++) z[k][i] = a[k][i] * 2.0f + y[k][29 - i];
        for (int i = 0; i < 30; i++) y[k][i] = z[k][29 - i] + z[k][i]; } }"""


@pytest.mark.parametrize("parallel", (False, True))
def test_axes_with_one_live_element_go(parallel: bool, tmp_path: Path) -> None:
    func = read(tmp_path, RECURSION)
    inputs = inputs_of(func)
    scheduled = as_written(func)
    if parallel:
        scheduled = tagged(scheduled, ("S0", "k", "parallel"), ("S1", "k", "parallel"))
    got, source = run_compiled(scheduled, inputs, tmp_path)
    np.testing.assert_array_equal(got["y"], evaluate(func, inputs)["y"])
    assert "float z[30];" in source
    assert (source.index("for (long k") < source.index("float z[30];")) == parallel


KEPT = {
    "read in a later round": """for (int t = 0; t < 3; t++) for (int k = 0; k < 9; k++) {
        if (t == 0) z[k] = a[k]; r[k] += z[k]; z[k] = z[k] * 2.0f; }""",
    "read in a later loop": "for (int k = 0; k < 9; k++) z[k] = a[k]; for (int k = 0; k < 9; k++) r[k] = z[k];",
    "read with another subscript": "for (int k = 1; k < 9; k++) { z[k] = a[k]; z[k - 1] = a[k]; r[k] = z[k]; }",
}


@pytest.mark.parametrize("name", KEPT)
def test_axes_that_stay(name: str, tmp_path: Path) -> None:
    source = check(tmp_path, f"void k(float r[9], const float a[9]) {{ float z[9]; {KEPT[name]} }}")
    assert "float z[9];" in source


def test_one_element_of_many(tmp_path: Path) -> None:
    text = """void k(float r[9], const float a[9]) { float z[4][9];
        for (int k = 0; k < 9; k++) { z[2][k] = a[k]; r[k] = z[2][k] * z[2][k]; } }"""
    assert "float z;" in check(tmp_path, text)


SYMBOLIC = """void k(int n, int m, double a[n][m], const double b[m][n][2]) { double t[n][m];
    for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) t[i][j] = b[j][i][1];
    for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) a[i][j] += t[n - 1 - i][j]; }"""


@pytest.mark.parametrize("compiler", ("g++", pytest.param(CLANG, marks=pytest.mark.needs_tool("clang++"), id="clang")))
@pytest.mark.parametrize("size", ((0, 0), (0, 4), (1, 1), (5, 33)))
def test_extents_of_parameters(compiler: str, size: tuple[int, int], tmp_path: Path) -> None:
    func = read(tmp_path, SYMBOLIC)
    n, m = size
    a, b = np.ones((n, m)), np.arange(n * m * 2.0).reshape(m, n, 2)
    kernel = compile_cpu(func, compiler=compiler, cache_dir=tmp_path, threads=1)
    kernel(n, m, a, b)
    np.testing.assert_array_equal(a, 1 + b[:, :, 1].T[::-1])


@pytest.mark.parametrize("width", (8, 16, 32, 64))
def test_vectors_of_a_given_width(width: int, tmp_path: Path) -> None:
    func = read(tmp_path, "void k(float r[50]) { for (int i = 0; i < 50; i++) r[i] = i; }")
    scheduled = tagged(as_written(func), ("S0", "i", "vectorize"))
    kernel = compile_cpu(scheduled, vector_bytes=width, cache_dir=tmp_path)
    array = np.zeros(50, np.float32)
    kernel(array)
    assert array.tolist() == list(range(50))
    assert kernel.source is not None and f"vector_size({width})" in kernel.source
    assert f"vector_size({2 * width})" not in kernel.source


def test_vectors_of_no_width(tmp_path: Path) -> None:
    func = read(tmp_path, "void k(float r[50]) { for (int i = 0; i < 50; i++) r[i] = i; }")
    with pytest.raises(PlantError, match="can't be of 24 bytes"):
        compile_cpu(func, vector_bytes=24, cache_dir=tmp_path)


def test_threads_without_parallel_loops(tmp_path: Path) -> None:
    func = read(tmp_path, "void k(float r[5]) { for (int i = 0; i < 5; i++) r[i] = i; }")
    source = emit(func, scan(as_written(func)))
    kernel = Kernel(func, build(source, cache_dir=tmp_path), threads=2)
    array = np.zeros(5, np.float32)
    kernel(array)
    assert array.tolist() == [0, 1, 2, 3, 4]


def test_any_compiler_will_do(tmp_path: Path, monkeypatch: Any) -> None:
    """A compiler with its version in its name is found where there is no other."""
    real = tmp_path / "clang++-19"
    real.write_text("#!/bin/sh\n")
    real.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler() == str(real)


def test_the_larger_of_two_zeros(tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.write_text("""#include <math.h>
void k(float r[20], const float a[20], const float b[20]) {
  for (int i = 0; i < 20; i++) r[i] = fmaxf(a[i], b[i]) + 0 * fminf(b[i], a[i]) == 0 ? fmaxf(a[i], b[i]) : 1;
}""")
    func = read_c(str(path))
    zeros = np.array([0.0, -0.0], np.float32)
    values = {"r": np.ones(20, np.float32), "a": np.resize(zeros, 20), "b": np.resize(-zeros, 20)}
    got = {name: array.copy() for name, array in values.items()}
    compile_cpu(as_written(func), cache_dir=tmp_path)(**got)
    assert np.array_equal(np.signbit(got["r"]), np.signbit(oracle.run_c(str(path), func, values)["r"]))
