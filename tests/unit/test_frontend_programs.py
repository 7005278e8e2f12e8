"""Small C programs: what is read from them does exactly what the host's compiler makes them do."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from dspgen.errors import SourceError
from dspgen.frontend.read import read_c
from dspgen.oracle import random_inputs, run_c
from plant_core.interp.func import evaluate
from plant_core.ir.func import Func
from tests.generators.nests import random_program
from tests.generators.wrapping import random_wrapping

PROGRAMS: dict[str, str] = {
    "matrix product": """
        #define N 5
        void kernel(const float A[N][N], const float B[N][N], float C[static N][N]) {
          for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
              C[i][j] = 0.0f;
              for (int k = 0; k < N; k++) C[i][j] += A[i][k] * B[k][j];
            }
        }""",
    "double arithmetic on floats": """
        void kernel(const float x[8], float y[8]) { for (int i = 0; i < 8; i++) y[i] = x[i] * 0.1 + 1 / 3.0; }""",
    "loops down and in steps": """
        void kernel(const int x[20], int y[20]) {
          int i;
          for (i = 19; i >= 0; i -= 3) y[i] = x[19 - i];
          for (i = 1; i <= 18; i = i + 4) y[i + 1] += y[i] * 2;
          for (int j = 10; j != 0; --j) y[j] = y[j - 1];
        }""",
    "products that wrap round before they are compared": """
        void kernel(int y[64]) {
          for (int i = 0; i < 64; i++)
            if ((int)((unsigned)i * 200000000u) > 0) y[i] = (int)((unsigned)i * 200000000u) / 8;
        }""",
    "promotions and wrapping": """
        #include <stdint.h>
        void kernel(const int8_t a[16], const uint8_t b[16], int16_t c[16], uint32_t d[16], signed char e[16]) {
          for (int i = 0; i < 16; i++) {
            c[i] = a[i] * b[i] << 3;
            d[i] = -a[i] + 3u * b[i];
            e[i] += a[i] - b[i];
            e[i] >>= 1;
            d[i] = d[i] / 7 > -1 ? d[i] % 5 : ~d[i];
            c[i] ^= (uint16_t)(a[i] | b[i]);
          }
        }""",
    "truncating division": """
        void kernel(const int x[9], int y[9]) { for (int i = 0; i < 9; i++) y[i] = x[i] / 4 * 10 + x[i] % -3; }""",
    "guards": """
        void kernel(const float x[12], float y[12]) {
          for (int i = 0; i < 12; i++) {
            if (i > 2 && i < 9 || i == 11) y[i] = x[i - 2]; else y[i] = 0;
            if (!(i % 3)) { y[i] += 1; } else if (i & 1) y[i] -= 1;
            if ((i - 5) / 2 == 0) y[i] *= 3;
          }
        }""",
    "loops under conditions on data": """
        void kernel(const float x[8], float y[8], int z[8], int n) {
          int j;
          for (int i = 0; i < 8; i++) {
            if (x[i] > 0) {
              float sum = 0;
              for (j = 0; j < 8; j++) sum += x[j];
              for (j = 7; j > i; j--) y[j] += sum;
            } else if (i > 2 && z[i] > 0)
              for (j = 0; j < 8; j++) z[j] -= 7;
            else for (j = 0; j < i; j++) { if (y[j] < 0 || j == 3) y[j] = 1; else { z[j]++; y[j + 1] = 2; } }
            if (y[0] > n) for (j = 0; j < 2; j++) y[j] *= -1;
          }
        }""",
    "conditions on data": """
        void kernel(const float x[12], float y[12], int count[2]) {
          float best = -2.0f;
          int where = 0;
          for (int i = 0; i < 12; i++) {
            if (x[i] > best) { best = x[i]; where = i; }
            if (x[i] < 0) y[i] = -x[i]; else y[i] = x[i];
            if (y[i] > 0.5f) { y[i] = 0.5f; count[0]++; } else { count[1] += 1; y[i] *= 2; }
            if (i > 0 && x[i - 1] > 0) y[i] += x[i - 1]; else y[i] -= 1;
            if (!(i < 11) || x[i + 1] > 0) { y[i] += 2; }
          }
          y[0] = best + where;
        }""",
    "condition changed by its own body": """
        void kernel(int x[8], int y[8]) {
          for (int i = 0; i < 8; i++) {
            if (x[i] > 0) { x[i] = -1; y[i] = 5; if (y[i] > x[i]) { int t = 2 * y[i]; x[i] += t; } }
            else { x[i] = 2; y[i] = 7; }
          }
        }""",
    "edges by conditional expressions": """
        #define CLAMP(i) ((i) < 0 ? 0 : (i) > 9 ? 9 : (i))
        void kernel(const float x[10], float y[10], float z[10]) {
          for (int i = 0; i < 10; i++) {
            y[i] = (i > 0 ? x[i - 1] : 0.0f) + (i < 9 ? x[i + 1] : 1.0f);
            z[i] = x[CLAMP(i - 2)] + x[CLAMP(i + 3)];
            z[i] += i >= 1 && x[i - 1] > 0 ? 1 : 2;
          }
        }""",
    "blocked loops": """
        #define MIN(a, b) ((a) < (b) ? (a) : (b))
        void kernel(const int x[13], int y[13]) {
          for (int b = 0; b < 13; b += 4)
            for (int i = b; i < MIN(b + 4, 13); i++) y[i] = x[i] + b;
        }""",
    "variables that follow the iterators": """
        void kernel(const float x[64], float y[64]) {
          const int width = 8;
          int n = 8, index;
          for (int i = 0; i < n; i++) {
            int row = i * width;
            for (int j = 0; j < width; j++) {
              index = row + j;
              y[index] = x[63 - index] * index;
            }
          }
        }""",
    "local arrays and constants of the file": """
        static const float taps[4] = {0.5f, 1, [3] = -2};
        enum { N = 9, M = N + 3 };
        void kernel(const float x[M], float y[N], int z[2][3]) {
          float t[2][M] = {{1, 2}, {3}};
          const int table[][2] = {{1, 2}, 3, 4, {5}};
          for (int i = 0; i < N; i++) {
            float s[4] = {x[i], x[i + 1]}, sum = 0;
            for (int k = 0; k < 4; k++) sum += s[k] * taps[k] + t[k / 2][i] ;
            y[i] = sum;
          }
          for (int i = 0; i < 2; i++) for (int j = 0; j < 3; j++) z[i][j] = table[j][i];
        }""",
    "functions of a library and of the file": """
        #include <math.h>
        #include <stdlib.h>
        static inline float limit(float v, float high) { return v > high ? high : v; }
        #pragma GCC diagnostic ignored "-Wunused"
        void kernel(const float x[9], const double d[9], const int n[9], float y[9], double z[9], int m[9]) {
          for (int i = 0; i < 9; i++) {
            y[i] = limit(fmaxf(x[i], 0.25f) * 4, 1.5) + sqrtf(fabsf(x[i]));
            z[i] = fmin(d[i], x[i]) + sqrt(fabs(d[i]));
            m[i] = abs(n[i]) + (int)(x[i] * 100.0f);
          }
        }""",
    "scalar parameters": """
        void kernel(const float x[6], float y[6], float a, unsigned char b, double c, int step) {
          a = a * 2;
          for (int i = 0; i < 6; i++) { y[i] = a * x[i] + b - c; y[i] += step; }
        }""",
    "chains, commas, shadowing": """
        void kernel(int x[6], short y[6]) {
          int i, j; short s;
          for (i = 0, s = 3; i < 6; i++) {
            x[i] = y[i] = s = 70000 + i;
            { int i = 4; x[i] += s, y[i] -= 1; }
            for (int i = 0; i < 2; i++) for (int x = 0; x < 2; x++) y[i + 2 * x]++;
          }
          for (i = 5; i > 2; --i) for (j = i; j < 6; j++) x[j] += i;
        }""",
    "region": """
        void kernel(const float x[6], float y[6]) {
          float s; int i;
          s = 1.5f;
          #pragma scop
          #pragma unroll
          for (i = 0; i < 6; i++) y[i] = x[i] * s;
          #pragma endscop
          return;
        }""",
    "wide unsigned iterators": """
        #include <stddef.h>
        void kernel(const float x[10], float y[10]) {
          for (size_t i = 1; i < sizeof(float) + 6; i++) y[i - 1] = x[i] * (float)i;
          for (unsigned i = 9; i > 0; i--) y[i] += i;
          for (unsigned char c = 0; c < 10; c++) y[c] *= 2;
          for (long k = 0; k < 10; ++k) y[k] -= k;
        }""",
    "extensions": """
        __attribute__((noinline)) void other(void);
        static __inline void kernel2(int x[__restrict 4]) __attribute__((unused));
        void run(const float x[restrict 4], float y[4]) __attribute__((aligned(16)));
        void run(const float x[restrict 4], float y[4]) {
          float t[4] __attribute__((aligned(64))) = {0};
          for (register int i = 0; i < 4; i++) { t[i] += x[i]; y[i] = t[i]; }
        }""",
}


def write(folder: Path, text: str) -> str:
    path = folder / "kernel.c"
    path.write_text(text)
    return str(path)


def check(path: str, func: Func, seed: int = 3, **given: int) -> None:
    inputs = random_inputs(func, seed, given)
    expected, got = run_c(path, func, inputs), evaluate(func, inputs)
    for name, array in expected.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_meaning_is_that_of_c(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, PROGRAMS[name])
    func = read_c(path)
    check(path, func)


@pytest.mark.parametrize("value", [0, 1, 7])
def test_parameters_stay_symbolic(tmp_path: Path, value: int) -> None:
    path = write(
        tmp_path,
        """
        #include <stddef.h>
        void kernel(const float x[16], float y[16], int n, unsigned m, size_t from) {
          for (int i = 0; i < n; i++) y[i + from] = x[i];
          for (unsigned i = 0; i < m; i++) y[i] += x[n + i];
          for (int i = n; i > 0; i -= 2) if (n > 3) y[i] = n;
        }""",
    )
    func = read_c(path)
    check(path, func, n=value, m=3, **{"from": 2})


def test_define_fixes_a_parameter(tmp_path: Path) -> None:
    path = write(
        tmp_path, "void kernel(int n, const float x[n][n], float y[n]) {for (int i=0;i<n;i++) y[i] = x[i][n-1];}"
    )
    func = read_c(path, defines=[("n", "5")])
    assert func.buf("x").shape == (5, 5)
    assert [p.name for p in func.params] == ["x", "y"]
    inputs = random_inputs(func, 1)
    expected = run_c(path, func, inputs, [("n", "5")])
    np.testing.assert_array_equal(evaluate(func, inputs)["y"], expected["y"])


def test_random_wrapping_programs(tmp_path: Path) -> None:
    accepted = 0
    for seed in range(24):
        path = write(tmp_path, random_wrapping(random.Random(seed)))
        try:
            func = read_c(path)
        except SourceError as error:
            assert {p.code for p in error.problems} <= {"DG010", "DG011", "DG017"}
            continue
        accepted += 1
        check(path, func, seed)
    assert accepted > 8


def test_random_programs(tmp_path: Path) -> None:
    for seed in range(12):
        program = random_program(random.Random(seed))
        path = write(tmp_path, program.text)
        try:
            func = read_c(path)
        except SourceError as error:
            # A symbolic bound can make a guarded statement reachable only outside the array.
            assert program.given and {p.code for p in error.problems} == {"DG012"}
            continue
        given = dict(program.given)
        if " alpha" in program.text:
            given["alpha"] = 3
        check(path, func, seed, **given)
