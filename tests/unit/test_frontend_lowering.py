"""C as libraries write it, read and run by the reference evaluator, against the host's compiler."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.errors import SourceError
from dspgen.frontend.read import read_c
from dspgen.oracle import run_c
from plant_core.interp.func import evaluate
from plant_core.ir.c_semantics import NUMPY, is_float, shape_of
from plant_core.ir.func import Expr, Func, ScalarParam
from plant_core.ir.printer import print_expr, print_func

PROGRAMS: dict[str, tuple[str, dict[str, int]]] = {
    "fir with pointers": (
        """void k(const short *restrict x, const short *restrict h, short *restrict r, int nh, int nr) {
          for (int j = 0; j < nr; j++) { int sum = 1 << 14;
            for (int i = 0; i < nh; i++) sum += x[i + j] * h[i];
            r[j] = (short)(sum >> 15); } }""",
        {"nh": 5, "nr": 7},
    ),
    "long accumulator": (
        """#include <stdint.h>
        void k(const int16_t *x, const int16_t *h, int16_t *y, int n) {
          for (int i = 0; i < n; i++) { int64_t acc = 0; const int16_t *p = x + i, *q = h;
            for (int j = 8; j > 0; j--) acc += (int64_t)*p++ * *q++;
            y[i] = (int16_t)((acc + (1 << 14)) >> 15); } }""",
        {"n": 6},
    ),
    "masks of all bits": (
        """void k(int y[40], const int x[48]) { for (int i = 0; i < 40; i++) {
          int j = (i + 9) & 0x7fffffff; unsigned u = (unsigned)(i - 3) & 0xffffffffu;
          y[i] = x[j % 48] + x[(u + 3) % 5000000u % 48] + (i > 2 ? x[u] : 0); } }""",
        {},
    ),
    "walks": (
        """void k(float *y, const float *x, int n) { const float *q = x + n; float *p = y;
          while (n--) *p++ = *--q * 2; }""",
        {"n": 9},
    ),
    "pointer to the end": (
        """void k(float *y, const float *x, int n) { const float *end = x + n;
          while (x < end) { *y = x[0]; y += 2; x++; } }""",
        {"n": 5},
    ),
    "do loops": (
        """void k(float y[32], const float x[32]) { int i = 0, j = 31;
          do { y[i] = x[j]; j -= 2; i++; } while (i < 10);
          do y[i++] = 5; while (0);
          do { y[j] = x[i]; i++; } while (--j); }""",
        {},
    ),
    "two ends": ("void k(float a[16]) { int i, j; for (i = 0, j = 15; i < j; i++, j--) a[i] += a[j]; }", {}),
    "symbolic ends": (
        "void k(float *a, int n) { int i, j; for (i = 0, j = n - 1; i < j; i++, --j) a[i] += a[j]; }",
        {"n": 7},
    ),
    "helpers": (
        """static inline int at(int i, int j, int n) { return i * n + j; }
        static float dot(const float *a, const float *b, int n) {
          float s = 0; for (int i = 0; i < n; i++) s += a[i] * b[i]; return s; }
        static void add(float *restrict to, const float *from, int n) { int i;
          for (i = 0; i < n; i++) to[i] += from[i]; }
        void k(float *A, const float *x, float *y, int n, int m) {
          for (int i = 0; i < m; i++) { y[i] = dot(&A[at(i, 0, n)], x, n) + 1; add(A + i * n, x, n); } }""",
        {"n": 4, "m": 3},
    ),
    "flat matrices": (
        """void k(const float *A, const float *B, float *C, int n, int m, int p) {
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { float s = 0;
            for (int t = 0; t < p; t++) s += A[i * p + t] * B[t * m + j];
            C[i * m + j] = s; } }""",
        {"n": 3, "m": 4, "p": 5},
    ),
    "flat with an index variable": (
        """void k(const float *A, float *C, int n, int m) {
          for (int i = 0; i + 1 < n; i++) { int row = (i + 1) * m; const float *a = A + row;
            for (int j = 1; j < m; j++) { int at = row + j - 1; C[at] = a[j]; } } }""",
        {"n": 5, "m": 4},
    ),
    "three dimensions": (
        """void k(float *A, int n, int m, int p) {
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) for (int t = 0; t < p; t++)
            A[(i * m + j) * p + t] += i - j; }""",
        {"n": 3, "m": 2, "p": 4},
    ),
    "image by pointer": (
        """void k(const unsigned char *in, unsigned char *out, int w, int h) {
          for (int y = 0; y < h; y++) for (int x = 0; x < w; x++) *out++ = 255 - *in++; }""",
        {"w": 5, "h": 3},
    ),
    "padded rows": (
        """void k(const float *in, float *out, int w, int h, int pitch) {
          if (w <= pitch) for (int y = 0; y < h; y++) { for (int x = 0; x < w; x++) out[x] = in[x];
            in += pitch; out += pitch; } }""",
        {"w": 3, "h": 3, "pitch": 5},
    ),
    "powers of two": (
        """#define N 32
        void k(float re[N], float im[N]) {
          int step = N / 2;
          for (int len = 2; len <= N; len <<= 1) { int half = len >> 1;
            for (int i = 0; i < N; i += len) for (int j = 0; j < half; j++) {
              float t = re[i + j + half]; re[i + j + half] = re[i + j] - t; re[i + j] += t; im[j * step] += t; }
            step >>= 1; } }""",
        {},
    ),
    "stages": (
        """void k(float a[16]) { for (int s = 1; s <= 4; s++) { int m = 1 << s;
          for (int i = 0; i < 16; i += m) for (int j = 0; j < m / 2; j++) a[i + j] += a[i + j + (m >> 1)]; } }""",
        {},
    ),
    "swapped buffers": (
        """void k(float a[8], float b[8]) { float *p = a, *q = b; int n = 8;
          while (n > 1) { for (int i = 0; i < n / 2; i++) q[i] = p[2 * i] + p[2 * i + 1];
            float *t = p; p = q; q = t; n /= 2; } }""",
        {},
    ),
    "remainder": (
        """void k(const float *x, float *y, int n) { int i;
          for (i = 0; i < n - 3; i += 4) { y[i] = x[i]; y[i+1] = x[i+1]; y[i+2] = x[i+2]; y[i+3] = x[i+3]; }
          for (; i < n; i++) y[i] = -x[i]; }""",
        {"n": 11},
    ),
    "induction in the body": (
        """void k(float a[64], const float b[64]) { int k = 3, m = 60;
          for (int i = 0; i < 5; i++) { for (int j = 0; j < 4; j++) { a[k] = b[m]; k += 2; m--; } k++; a[k] += 1; }
          a[m] = k; }""",
        {},
    ),
    "rows by pointer": (
        """void k(float A[6][8], const float B[6][8]) {
          for (int i = 0; i < 6; i++) { float *p = A[i]; const float *q = &B[i][7];
            for (int j = 0; j < 8; j++) *p++ += *q--; }
          float (*r)[8] = A; for (int i = 0; i < 3; i++) { r[i][1] = 0; (*r)[i] = 1; } }""",
        {},
    ),
    "one result": (
        "void k(const float *x, int n, float *s) { float t = 0; while (n > 0) t += x[--n]; *s = t; }",
        {"n": 4},
    ),
    "unsigned sizes": (
        """#include <stddef.h>
        void k(float *y, const float *x, size_t n, unsigned m) { size_t i = 0;
          while (i < n) { y[i] = x[i]; i++; }
          for (unsigned j = m; j != 0; j--) y[j - 1] += 1; }""",
        {"n": 6, "m": 4},
    ),
    "shadowed names": (
        """void k(float *y, int n) { int i = 2; float *p = y;
          for (int i = 0; i < n; i++) { int n = i; *p++ = n; } y[i] += 1; { float i = 3; y[0] += i; } }""",
        {"n": 5},
    ),
    "saturation": (
        """static inline short sat(int v) { if (v > 32767) return 32767; if (v < -32768) return -32768;
          return (short)v; }
        static int sign(int v) { int r = 0; if (v > 0) { r = 1; return r; } else if (v < 0) return -1; return r; }
        static void half(short *p, int n) { if (n < 2) return; for (int i = 0; i < n / 2; i++) *p++ >>= 1; }
        void k(const short *x, short *y, int n) { if (n <= 0) return;
          for (int i = 0; i < n; i++) { int acc = x[i] * 1000; y[i] = sat(acc) + sign(x[i] - 50);
            y[i] += sat(x[i] * 700); }
          half(y, n); }""",
        {"n": 9},
    ),
    "narrow counters": (
        """void k(const short *x, short *y, short n) { short i; unsigned char j; signed char w = 100;
          const short *p = x;
          for (i = 0; i < 40; i++) { *y++ = *p++; }
          for (j = 3; j < 9; j += 2) { w += 90; x += 2; y[j] = *x + w; }
          for (i = 5; i >= 0; i--) y[-i] = i; }""",
        {"n": 9},
    ),
    "both sides move": (
        "void k(float *y, int n) { int i = 0; while (i < n) { y[i] += n; n--; i++; } y[0] = i; }",
        {"n": 7},
    ),
    "interleaved": (
        """void k(const short *x, short *y, int n) { short *yr = y, *yi = y + 1;
          for (int i = 0; i < n; i++) { int re = *x++; int im = *x++;
            *yr = re - im; *yi = re + im; yr += 2; yi += 2; } }""",
        {"n": 5},
    ),
    "matrices by pointer": (
        """void k(const float *a, const float *b, float *c, int n, int m, int q) {
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { float s = 0;
            const float *pa = a + i * q, *pb = b + j;
            for (int t = q; t > 0; t--) { s += *pa++ * *pb; pb += m; }
            *c++ = s; } }""",
        {"n": 2, "m": 3, "q": 4},
    ),
    "blocks of four": (
        """void k(const float *x, float *y, int n) { int i, m = n & ~3;
          for (i = 0; i < m; i += 4) { y[0] = x[i]; y[1] = x[i + 1]; y[2] = x[i + 2]; y[3] = x[i + 3]; y += 4; }
          int rest = n % 4; const float *p = x + m; while (rest > 0) { *y++ = -*p++; rest--; } }""",
        {"n": 11},
    ),
    "overflow": (
        """void k(int y[16], unsigned char z[16]) { int c = 5; unsigned char d = 250;
          for (int i = 0; i < 16; i++) { y[i] = c; z[i] = d; c += 1000000007; d += 3; } }""",
        {},
    ),
    "conditions": (
        """void k(const float *x, float *y, int n) { for (int i = 0; i < n; i++) {
          if (*x > 0) *y = *x; else *y = 0; x++; y++; } }""",
        {"n": 6},
    ),
}


def sized_inputs(func: Func, sizes: dict[str, int], seed: int = 1) -> dict[str, object]:
    generator = np.random.default_rng(seed)
    found: dict[str, object] = dict(sizes)
    for param in func.params:
        if isinstance(param, ScalarParam):
            found.setdefault(param.name, 3)
        elif is_float(param.dtype):
            found[param.name] = generator.uniform(-1, 1, shape_of(param, sizes)).astype(NUMPY[param.dtype])
        else:
            found[param.name] = generator.integers(0, 100, shape_of(param, sizes)).astype(NUMPY[param.dtype])
    return found


def check(path: Path, text: str, sizes: dict[str, int], defines: tuple[tuple[str, str], ...] = ()) -> Func:
    path.write_text(text)
    func = read_c(str(path), function="k", defines=defines)
    inputs = sized_inputs(func, sizes)
    expected = run_c(str(path), func, inputs, defines)
    for name, array in evaluate(func, inputs).items():
        assert np.array_equal(array, expected[name]), f"{name}: {array} {expected[name]}"
    return func


def test_divisors_are_numbers_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(PROGRAMS["masks of all bits"][0])
    assert "2147483648" not in print_func(read_c(str(tmp_path / "k.c")))


@pytest.mark.parametrize("name", PROGRAMS)
def test_meaning_is_that_of_c(tmp_path: Path, name: str) -> None:
    text, sizes = PROGRAMS[name]
    check(tmp_path / "kernel.c", text, sizes)


EXTENTS = {
    "fir": (PROGRAMS["fir with pointers"][0], {"x": "nh + nr - 1", "h": "nh", "r": "nr"}),
    "the larger of two": (
        "void k(float *x, int n, int m) { for (int i = 0; i < n; i++) x[i] = 1;\n"
        "for (int i = 0; i < m; i++) x[i] = 2; }",
        {"x": "max(n, m)"},
    ),
    "a number": ("void k(float *x, float y[][3]) { x[4] = 1; *y[2] = x[1]; }", {"x": "5", "y": "3, 3"}),
    "rows": (PROGRAMS["flat matrices"][0], {"A": "n, p", "B": "p, m", "C": "n, m"}),
    "remainder": (PROGRAMS["remainder"][0], {"x": "n", "y": "n"}),
    "steps": ("void k(float *x, int n) { while (n-- > 0) { *x = 1; x += 3; } }", {"x": "3*n - 2"}),
    "scaled rows": (
        "void k(float *x, int n, int m) { for (int i = 0; i < m; i++)\n"
        "for (int j = 0; j < 2 * n; j++) x[2 * i * n + j] = 1; }",
        {"x": "m, 2*n"},
    ),
}


@pytest.mark.parametrize("name", EXTENTS)
def test_extents(tmp_path: Path, name: str) -> None:
    text, expected = EXTENTS[name]
    func = check(tmp_path / "kernel.c", text, {"n": 4, "m": 3, "p": 5, "nh": 2, "nr": 3})
    for array, shape in expected.items():
        assert ", ".join(_shown(e) for e in func.buf(array).shape) == shape


def _shown(extent: int | Expr) -> str:
    return str(extent) if isinstance(extent, int) else print_expr(extent).replace(" * ", "*")


SPARSE = """
void k(int n, int m, int nnz, const int ptr[n + 1], const int idx[nnz], const float val[nnz], const float x[m],
       float y[n], int rows[1]) {
  int limit = rows[0];
  for (int i = 0; i < limit; i++) { float s = 0;
    for (int j = ptr[i]; j < ptr[i + 1]; j++) s += val[j] * x[idx[j]];
    y[i] = s; }
  for (int j = 0; j < nnz; j++) y[idx[j]] += 1;
}"""


def test_bounds_and_subscripts_from_memory(tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(SPARSE)
    func = read_c(str(path))
    assert [c.defines for c in func.comps if c.defines] == ["limit_to", "ptr_from", "ptr_to"]
    generator = np.random.default_rng(4)
    inputs = {
        "n": 4, "m": 5, "nnz": 7, "ptr": np.array([0, 3, 3, 4, 7]), "idx": np.array([1, 3, 0, 2, 2, 1, 3]),
        "val": generator.uniform(-1, 1, 7), "x": generator.uniform(-1, 1, 5), "y": np.zeros(4), "rows": np.array([3]),
    }  # fmt: skip
    assert np.array_equal(evaluate(func, inputs)["y"], run_c(str(path), func, inputs)["y"])


# The program, with @ before the place; the number; a part of the message.
WRONG = [
    ("void k(float *x) { float *p = x[0] > 0 ? @x : x + 1; p[0] = 1; }", "DG013", ""),
    ("void k(float *x, float *y, int n) { float *p = x; if (n > 2) p = y; @p[0] = 1; }", "DG013", "more than one"),
    ("void k(float *x) { @*(int *)x = 1; }", "DG013", "another type"),
    ("void k(float *x, int n) { for (int i = 0; i < n; i++) { float *p = x; if (@*x > 0) x++; *p = 1; } }", "", ""),
    ("void k(float *x, float *y, int n) { float *p; for (int i = 0; i < n; i++) { @*p = 1; p = y; } }", "DG013", ""),
    (
        "void k(float *x, float *y, int n) { for (int i = 0; i < n; i++) { @*x = 1; float *t = x; x = y; y = t; } }",
        "DG013",
        "more",
    ),
    ("void f(float *x, int n) { if (n) @f(x, n - 1); }\nvoid k(float *x) { f(x, 3); }", "DG014", "calls itself"),
    (
        "void f(float *x, int n) { if (n) goto in; { in: *x = 1; } }\nvoid k(float *x) { @f(x, 3); }",
        "DG008",
        "'f'",
    ),
    ("void k(float **x) { @x[0][0] = 1; }", "", ""),
    ("void k(float @*x, const int m[9]) { x[m[0]] = 1; }", "DG007", "x"),
    ("void k(float *x, int n) { @x[-1] = n; }", "DG012", ""),
    (
        "void k(float *x, int n, int m) { for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) @x[i * n + j] = 1; }",
        "DG011",
        "row",
    ),
    ("void k(float *x, int n) { for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) @x[i * j] = 1; }", "DG007", ""),
    ("void k(float x[8], int n) { int i = 0; @while (i < n) { x[i] = 1; if (x[i] > 0) i++; } }", "DG008", "while"),
    ("void k(float *x, int n) { for (int i = 0; i < n; i++) if (i % 3) { @*x = i; x++; } }", "", ""),
    ("void k(float *x) { int i = 0; int *q = @&i; *q = 1; x[i] = 1; }", "DG013", "'q'"),
    ("void k(int p[9], float y[9]) { for (int i = 0; i < @p[3]; i++) { p[3] = 2; y[i] = 1; } }", "DG010", "p[3]"),
    ("void k(float *x, int n) { int i = 0; x[i] = i++ + i; }", "DG013", "side effect"),
]


@pytest.mark.parametrize(("text", "code", "part"), WRONG)
def test_refused(tmp_path: Path, text: str, code: str, part: str) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(text.replace("@", ""))
    with pytest.raises(SourceError) as caught:
        read_c(str(path), function="k")
    problem = caught.value.problems[0]
    assert problem.code == (code or problem.code) and part in problem.message
    assert problem.loc is not None and problem.remedy
    if code and "@" in text:
        before = text[: text.index("@")]
        assert problem.loc.line == before.count("\n") + 1


class Generator:
    """Random functions in the style of libraries, every access inside its array."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.count = 0

    def pick(self, *options: str) -> str:
        return options[int(self.random.integers(len(options)))]

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def program(self) -> str:
        body = "\n".join(self.block(2) for _ in range(self.number(2, 4)))
        return (
            "static void bump(float *p, int n, float by) { while (n--) *p++ += by; }\n"
            "static float pair(const float *p) { float s = p[0]; s += p[1]; return s; }\n"
            f"void k(float a[400], const float b[400], int n) {{\n"
            f"float *p = a + 100; const float *q = b; int c = 0;\n{body}\n"
            "a[0] += c; }\n"
        )

    def block(self, depth: int) -> str:
        if depth == 0 or self.number(0, 3) == 0:
            return self.statement()
        inner = " ".join(self.block(depth - 1) for _ in range(self.number(1, 3)))
        i, trips = self.name(), self.number(1, 4)
        return self.pick(
            f"for (int {i} = 0; {i} < {trips}; {i}++) {{ {inner} a[{i} + 1] += b[{i}]; }}",
            f"for (int {i} = n; {i} > 0; {i} -= 2) {{ {inner} a[{i}] -= 1; }}",
            f"{{ int {i} = {trips}; while ({i}--) {{ {inner} a[{i} + 3] += c; }} a[{i} + 2] = 1; }}",
            f"{{ int {i} = n; do {{ {inner} a[{i}] += 2; }} while (--{i} > 2); a[{i}] *= 2; }}",
            f"for (int {i} = 1; {i} <= {2**trips}; {i} <<= 1) {{ {inner} a[{i}] += b[{i} / 2]; }}",
            f"for (int {i} = 0, w{i} = 9; {i} < w{i}; {i}++, w{i} -= 2) {{ {inner} a[w{i}] += b[{i}]; }}",
            f"{{ float *s{i} = p; for (int {i} = 0; {i} < n; {i}++) {{ {inner} *s{i}++ += q[{i}]; }} }}",
            f"{{ int {i}; for ({i} = 0; {i} + 1 < n; {i} += 2) {{ {inner} }} for (; {i} < n; {i}++) a[{i}] += 3; }}",
            f"if (n > {self.number(1, 8)}) {{ {self.plain()} }}",
        )

    def plain(self) -> str:
        return self.pick("a[5] += 1;", "a[n] = q[1];", "p[2] *= 2;")

    def statement(self) -> str:
        k = self.number(0, 5)
        return self.pick(
            f"*p++ = *q * {k};", f"p[{k}] += q[{k}];", "q++;", f"c += {k};", "c--;", f"p += {k % 3};",
            f"*(p - {k}) += 1;",
            f"bump(p + {k}, {k}, 0.5f);", f"a[{k}] = pair(q + {k}) + c;", f"bump(&a[{k}], n, 2);", "--p;",
            f"{{ int t = c * 2 + {k}; a[n + {k}] += t; }}", f"{{ float t = *q++; p[{k}] = t; }}",
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(tmp_path: Path, seed: int) -> None:
    path, text, n = tmp_path / "kernel.c", Generator(seed).program(), 3 + seed % 5
    check(path, text, {"n": n}, (("n", str(n)),))
    try:
        read_c(str(path), function="k")
    except SourceError as error:
        # With n unknown, a pointer that moves in nested loops may have no affine position.
        assert {p.code for p in error.problems} <= {"DG007", "DG010", "DG011", "DG013"}
    else:
        check(path, text, {"n": n})
