"""Whole C files, as benchmark suites have them: what is around the kernel doesn't disturb it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspgen.errors import SourceError
from dspgen.frontend.parse.prune_declarations import outline, pruned
from dspgen.frontend.read import kernel_name, read_c
from dspgen.oracle import run_c
from plant_core.interp.func import evaluate
from plant_core.ir.c_semantics import shape_of
from plant_core.ir.func import Buf, Call, ScalarParam

HEADER = r"""
#ifndef SUITE_H
#define SUITE_H
#include <stdlib.h>
#ifndef PAD
#define PAD 0
#endif
#ifdef VARIABLE
#define PICK(fixed, given) given
#else
#define PICK(fixed, given) fixed
#endif
#ifdef RESTRICTED
#define ALONE restrict
#else
#define ALONE
#endif
#define ONE(name, a, b) name[ALONE PICK(a, b) + PAD]
#define TWO(name, a, c, b, d) name[ALONE PICK(a, b) + PAD][PICK(c, d) + PAD]
#define MAKE(name, type, a, c) type (*name)[(a) + PAD][(c) + PAD]; \
  name = (type (*)[(a) + PAD][(c) + PAD])suite_alloc((unsigned long long int)(a) * (c), sizeof(type));
#ifdef FIXED_BOUNDS
#define BOUND(a, b) a
#else
#define BOUND(a, b) b
#endif
#ifdef SINGLE
#define REAL float
#define VALUE(x) x##f
#define ROOT(x) sqrtf(x)
#define RAISED(x, y) powf(x, y)
#else
#define REAL double
#define VALUE(x) x
#define ROOT(x) sqrt(x)
#define RAISED(x, y) pow(x, y)
#endif
extern void *suite_alloc(unsigned long long int count, int size);
static __inline__ int suite_swap(int v) { __extension__ int w = ({ int u = v; u << 1; }); return w; }
struct suite_item { int key : 3; union { float f; char c[4]; } as; struct suite_item *next; };
typedef int (*suite_compare)(const void *, const void *);
_Static_assert(sizeof(int) == 4, "a { brace ; in a text");
#endif
"""

PROGRAM = r"""
#include <stdio.h>
#include <unistd.h>
#include <string.h>
#include <math.h>
#include <stdarg.h>
#include <sys/time.h>
#include <suite.h>
#define N 9
#define M 7
#define BN BOUND(N, n)
#define BM BOUND(M, m)
typedef char letter;
#define same(a, b) (((a) + (b)) == 3 ? 1 : 0)

static double clock_now(void) {
  struct timeval now;
  gettimeofday(&now, 0);
  return now.tv_sec + 1e-6 * now.tv_usec;
}

static void say(const char *format, ...) {
  va_list list;
  va_start(list, format);
  char brace = '{';
  while (brace--) if (brace == '}') goto out;
out:
  va_end(list);
}

static void init_array(int n, int m, REAL *alpha, REAL TWO(A, N, M, n, m)) {
  int i, j;
  *alpha = 1.5;
  for (i = 0; i < n; i++)
    for (j = 0; j < m; j++) A[i][j] = (REAL)(i * j % 7) / suite_swap(n);
}

static
void kernel_mix(int n, int m,
    REAL alpha,
    REAL TWO(A, N, M, n, m),
    letter ONE(seq, N, n),
    REAL ONE(sum, M, m),
    REAL ONE(out, N, n))
{
  int i, j;
  REAL tmp, scale, twice;
  REAL row[M];
#pragma scop
  scale = twice = VALUE(2.0) * alpha;
  for (j = 0; j < BM; j++) {
    sum[j] = row[j] = VALUE(0.0);
    for (i = BN - 1; i >= 0; i--)
      sum[j] += A[i][j] * scale;
    sum[j] = sum[j] <= VALUE(0.1) ? VALUE(1.0) : ROOT(sum[j]);
  }
  for (i = 0; i < BN; i++)
    for (j = 0; j <= i && j < BM; j++)
      if (i - 1 >= 0 && j + 1 < BM) {
        tmp = A[i-1][j+1];
        row[j] = tmp + same(seq[i], seq[j]);
        A[i][j] -= row[j] / (REAL)BN;
      } else
        A[i][j] = twice;
  for (i = 0; i < BN; ++i)
    out[i] = RAISED(VALUE(2.0), -A[i][0]);
#pragma endscop

}

int main(int argc, char** argv)
{
  int n = N, m = M;
  MAKE(A, REAL, N, M)
  REAL alpha;
  init_array(n, m, &alpha, *A);
  say("%f", clock_now());
  if (argc > 42 && ! strcmp(argv[0], "")) fprintf(stderr, "==%s==\n", argv[0]);
  free((void*)A);
  return 0;
}
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("suite")
    (folder / "include").mkdir()
    (folder / "include" / "suite.h").write_text(HEADER)
    (folder / "mix.c").write_text(PROGRAM)
    return str(folder / "mix.c"), str(folder / "include")


VARIANTS = [
    (),
    ("SINGLE",),
    ("VARIABLE",),
    ("VARIABLE", "RESTRICTED", "SINGLE"),
    ("FIXED_BOUNDS",),
    ("VARIABLE", "FIXED_BOUNDS"),
]


@pytest.mark.parametrize("flags", VARIANTS, ids=" ".join)
def test_kernel_of_a_whole_file(suite: tuple[str, str], flags: tuple[str, ...]) -> None:
    path, folder = suite
    defines = [(flag, "1") for flag in flags]
    func = read_c(path, defines=defines, includes=[folder])
    assert func.name == "kernel_mix" == kernel_name(path, None, defines, [folder])
    sizes = {"n": 9, "m": 7}
    generator = np.random.default_rng(5)
    inputs: dict[str, Any] = {**sizes, "alpha": 0.75}
    for param in func.params:
        if isinstance(param, Buf):
            shape = shape_of(param, sizes)
            integer = param.dtype == "i8"
            inputs[param.name] = generator.integers(0, 4, shape) if integer else generator.uniform(0, 1, shape)
    wanted = run_c(path, func, inputs, defines, includes=[folder])
    found = evaluate(func, inputs)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6 if "SINGLE" in flags else 1e-14)


def test_extents_are_as_declared(suite: tuple[str, str]) -> None:
    path, folder = suite
    assert read_c(path, includes=[folder]).buf("A").shape == (9, 7)
    padded = read_c(path, defines=[("VARIABLE", "1"), ("PAD", "2")], includes=[folder]).buf("A")
    assert shape_of(padded, {"n": 5, "m": 3}) == (7, 5)


def test_library_calls(suite: tuple[str, str]) -> None:
    path, folder = suite
    last = read_c(path, defines=[("SINGLE", "1")], includes=[folder]).comps[-1].value
    assert isinstance(last, Call) and (last.name, last.dtype, len(last.args)) == ("pow", "f32", 2)


def test_folder_of_headers(suite: tuple[str, str]) -> None:
    path, folder = suite
    with pytest.raises(SourceError) as caught:
        read_c(path)
    assert caught.value.problems[0].code == "DG003" and "-I" in caught.value.render()
    with pytest.raises(SourceError) as caught:
        read_c(path, includes=[folder, "/nowhere/at/all"])
    assert caught.value.problems[0].code == "DG001" and "/nowhere/at/all" in caught.value.render()


def test_other_functions_may_hold_anything(tmp_path: Path) -> None:
    path = tmp_path / "odd.c"
    path.write_text(
        "#include <sys/resource.h>\n"
        "typedef float quad[4];\nenum colour { RED, GREEN = 5 } shade;\nint table[] = { 1, 2, 3 };\n"
        'static int first(int n) __attribute__((unused));\nvoid odd(void) { asm volatile("nop ; }" : : ); }\n'
        "int (*choose(int n))(int) { return first; }\nstruct { int a; } *box, other;\n"
        "int old(a, b) int a; int b; { return a + b; }\n"
        "static int first(int n) { do { n--; } while (n); switch (n) { default: return n; } }\n"
        "static inline float twice(float v) { return v * GREEN; }\n"
        "__attribute__((noinline)) void k(const quad x, float y[restrict 4], int n)\n"
        "{ for (register int i = 0; i < n; i++) y[i] = twice(x[i]); }\n"
        "int main(void) { return choose(3)(4); }\n"
    )
    func = read_c(str(path), function="k")
    assert func.buf("x").const and not func.buf("y").const and func.loc.line == 12
    inputs: dict[str, Any] = {"x": np.arange(4.0), "y": np.ones(4), "n": 3}
    assert evaluate(func, inputs)["y"].tolist() == [0, 5, 10, 1]


def test_function_that_no_other_calls_is_the_kernel(tmp_path: Path) -> None:
    path = tmp_path / "two.c"
    text = "static float sq(float v) { return v * v; }\nvoid k(float x[4]) { x[0] = sq(x[1]); }\n"
    path.write_text(text + "int main(void) { static float x[4]; k(x); return 0; }\n")
    assert read_c(str(path)).name == "k"


def test_outline_and_pruned_text() -> None:
    text = (
        '# 1 "a.h" 1\ntypedef struct s { int a; } t; int f(t *p);\n#pragma once\n'
        '# 5 "b.c" 2\nenum { A, B = 2 }; t g = { 3 }; int (*h)(int);\n'
        "static void k(t x) {\n#pragma scop\n x.a = A; }\nvoid *m(int n) { return 0; }\n"
    )
    found = outline(text)
    assert [sorted(e.declares) for e in found] == [["s", "t"], ["f"], ["A", "B"], ["g"], ["h"], ["k"], ["m"]]
    assert [(e.function, e.marked, e.void) for e in found[5:]] == [("k", True, True), ("m", False, False)]
    assert [e.file for e in found] == ["a.h"] * 2 + ["b.c"] * 5
    kept = pruned(text, found, found[5])
    assert len(kept) == len(text) and "enum { A" in kept and "typedef struct" in kept
    assert all(gone not in kept for gone in ("int f", "once", "g = ", "*h", "*m"))
    assert [line for line in kept.split("\n") if line.startswith("# ")] == ['# 1 "a.h" 1', '# 5 "b.c" 2']


def test_only_the_region_is_read(tmp_path: Path) -> None:
    path = tmp_path / "region.c"
    path.write_text(
        "void k(int n, double A[n][n], double x[n]) {\n  int i, j;\n  double s = 2.0, t;\n  t = s;\n#pragma scop\n"
        "  for (i = 0; i < n; i++) for (j = i; j < n; j++) A[j][i] = A[i][j] * t + x[j];\n#pragma endscop\n"
        "  (void)s;\n}\n"
    )
    func = read_c(str(path))
    a, x = np.random.default_rng(2).uniform(size=(5, 5)), np.arange(5.0)
    wanted = run_c(str(path), func, {"n": 5, "A": a, "x": x})
    np.testing.assert_array_equal(evaluate(func, {"n": 5, "A": a, "x": x})["A"], wanted["A"])
    assert [type(p) for p in func.params] == [ScalarParam, Buf, Buf]
    path.write_text("void k(double x[4]) {\n#pragma scop\n  x[0] = 1;\n#pragma endscop\n  x[1] = 2;\n}\n")
    with pytest.raises(SourceError) as caught:
        read_c(str(path))
    assert [(p.code, p.loc and p.loc.line) for p in caught.value.problems] == [("DG019", 5)]
