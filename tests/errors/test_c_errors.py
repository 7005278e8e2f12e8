"""Every refusal of a C program: its number, its exact place (marked in the text by a caret line), its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.pipeline import compile_file
from dspgen.errors import SourceError
from dspgen.frontend.parse.error_codes import CODES
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.target.load import load_target
from plant_core.support.location import PlantError

HEAD = "void kernel(float x[10], float y[10], int n, const int m[10]) {\n"

# The statement, with @ before the place; the number; a part of the message.
STATEMENTS = [
    ("@x[10] = 1;", "DG012", "writes x[10], outside x[10]"),
    ("for (int i = 0; i <= 10; i++) @x[i] = 1;", "DG012", "when i = 10"),
    ("for (int i = 0; i < 10; i++) x[i] = @y[i - 1];", "DG012", "reads y[-1] when i = 0"),
    ("for (int i = 0; i < n; i++) x[i] = @y[i - 1];", "DG012", "when i = 0"),
    ("for (int i = 0; i < 9; i++) if (y[i] > 0) @x[i + 2] = 1;", "DG012", "when i = 8"),
    ("for (int i = 0; i < 10; i++) x[@(int)(i * 0.5f)] = 1;", "DG011", "floating point"),
    ("for (int i = 0; @i * i < 10; i++) x[i] = 1;", "DG010", "multiplies"),
    ("@for (int i = 1; i < n; i *= 2) x[i] = 1;", "DG009", "grow by a constant"),
    ("for (int i = 0; @i < (int)y[0]; i++) x[i] = 1;", "DG010", "floating point"),
    ("for (int i = 0; i < 10; i++) { if (y[i] > 0) @i++; }", "DG015", "'i'"),
    ("float *@*q = &x;", "DG007", "extent"),
    ("@for (int i = 0; i < 10;) x[i] = 1;", "DG009", "no step"),
    ("@for (int i = 0; ; i++) x[i] = 1;", "DG009", "no condition"),
    ("for (int i = 0; i < 10; i += @m[0]) x[i] = 1;", "DG009", "constant"),
    ("for (int i = 0; @i >= 0; i++) x[i] = 1;", "DG009", "doesn't end"),
    ("for (int i = 0; @i != 9; i += 2) x[i] = 1;", "DG009", "doesn't end"),
    ("for (int i = 0; @i < 4; i--) x[0] = 1;", "DG009", "doesn't end"),
    ("@while (1) x[0] = 1;", "DG008", "doesn't end"),
    ("@do { x[0] = 1; } while (n > 0);", "DG008", "this 'do' loop doesn't end"),
    ("@while (n > 4) { x[n] = 1; n >>= 1; }", "DG008", "no counter that changes by a constant"),
    ("int i; for (i = 31; (n & (@1 << i)) == 0; i--) x[0] = i;", "DG013", "by -1 when i = -1"),
    ("for (int i = 0; i < 9; i++) x[i] = @n / i;", "DG013", "'i' is zero when i = 0: an integer is divided by zero"),
    ("for (int i = 0; i < 9; i++) x[@i % (i - i)] = 1;", "DG013", "divided by zero"),
    ("float @t[1 << 20][1 << 20]; t[0][0] = 1; x[0] = t[0][0];", "DG007", "the array is too large: 1099511627776"),
    ("for (unsigned i = 9; @i >= 0; i--) x[i] = 1;", "DG017", "'i'"),
    ("for (unsigned char i = 0; @i < n; i++) x[i] = 1;", "DG017", "'i'"),
    ("for (unsigned i = 0; @i - 1 < 5; i++) x[i] = 1;", "DG017", "wrap"),
    ("for (int i = 0; i < 64; i++) x[(@(unsigned)i * 0x14000000u) >> 29] = 1;", "DG017", "wrap"),
    ("for (unsigned char c = 250; @c != 3; c++) x[c & 7] = 1;", "DG017", "wrapping round"),
    ("for (short c = 2; @c != 5; c--) x[c & 7] = 1;", "DG017", "wrapping round"),
    ("@for (float f = 0; f < 1; f += 0.5f) x[0] = f;", "DG009", "isn't an integer"),
    ("@while (n > 0) { x[0] = 1; }", "DG008", "'while'"),
    ("@do { x[0] = 1; } while (n > 0);", "DG008", "'do'"),
    ("@switch (n++) { case 1: x[0] = 1; }", "DG008", "'switch'"),
    ("@switch (n) { x[1] = 2; case 1: x[0] = 1; }", "DG008", "'switch'"),
    ("for (int i = 0; i < 10; i++) { { int n = 3; if (i == n) @continue; } x[n] = 1; }", "DG008", "'continue'"),
    ("{ int t = n; { int n = 3; if (t > n) @return; } x[n] = 1; }", "DG008", "'return'"),
    ("if (n) @goto in; { in: x[0] = 1; }", "DG008", "'goto'"),
    ("for (int i = 0; i < 10; i++) @i = 3;", "DG015", "'i'"),
    (
        "int i; for (i = 0; i < 9; i++) x[i] = 1; if (y[0] > 0) for (i = 0; i < 3; i++) x[i] = 2; x[0] = @i;",
        "DG015",
        "outside its loop",
    ),
    ("float t[@m[0]]; t[0] = 1; x[0] = t[0];", "DG007", "constants and integer parameters"),
    ("for (int i = 1; i < 9; i++) { float t[@i]; t[0] = 1; x[0] = t[0]; }", "DG007", "integer parameters"),
    ("float t[n]; for (int i = 0; i <= n; i++) @t[i] = 1; x[0] = t[0];", "DG012", "outside t[n]"),
    ("float t[n]; t[0] = 1; @t[n + 2] = 1; x[0] = t[0];", "DG012", "outside t[n]"),
    ("x[0] = @sizeof(float[n]);", "DG013", "size isn't constant"),
    ("x[0] = (@x[1] = 2) + 1;", "DG013", "assignment"),
    ("x[0] = @5 / 0;", "DG013", "divided by zero"),
    ("x[0] = @1 << 40;", "DG013", "shift"),
    ("@nothing(x);", "DG008", "'nothing'"),
    ('x[0] = 1; @__asm__("nop");', "DG008", "'__asm__'"),
    ("volatile int @v = 3; x[0] = v;", "DG006", "volatile"),
    ("long double @v = 3; x[0] = v;", "DG006", "long double"),
    ("struct { int a; } @v; x[0] = v.a;", "DG006", "structures"),
    ("static float @v; x[0] = v;", "DG018", "between calls"),
    ("x[0] = 1@ }", "DG003", "expected ';'"),
    ("@z[0] = 1;", "DG003", "undeclared"),
]

# A whole file; where the place is; the number; a part of the message.
FILES = [
    ("int kernel(float x[4]) { x[0] = 1; }", 1, 5, "DG006", "returns at its end"),
    ("float *kernel(float x[4]) { return x; }", 1, 8, "DG006", "must be a number"),
    ("void a(float x[4]) {}\nvoid b(float x[4]) {}", 1, 1, "DG005", "'a', 'b'"),
    ("int x;", 1, 1, "DG005", "no function"),
    ("void k(float x[4]) {\n#pragma scop\n  x[1] = 0;\n}", 2, 9, "DG019", "don't match"),
    ("void k(float x[4]) {\n  x[0] = 1;\n#pragma scop\n  x[1] = 0;\n#pragma endscop\n}", 2, 3, "DG019", "outside"),
    ("static float t[4];\nvoid k(float x[4]) { x[0] = t[1]; }", 1, 14, "DG018", "'t'"),
    ("#include <no/such.h>\nvoid k(float x[4]) { x[0] = 5; }", 1, 10, "DG003", "no/such.h"),
    ("#include <sys/resource.h>\nvoid k(float x[4]) { y[0] = 5; }", 2, 22, "DG003", "undeclared"),
    ("void k(float **x) { x[0][0] = 5; }", 1, 15, "DG007", "extent"),
    ("void k(int **x) { x[0][0] = 5; }", 1, 13, "DG007", "the extents behind a pointer to pointers"),
    ("void k(float *x[4]) { x[0][0] = 5; }", 1, 15, "DG007", "the extents behind an array of pointers"),
    ("\nvoid k(x, n)\n  int x[4]; int n;\n{ x[0] = n; }", 2, 1, "DG004", "'k' has the types of its parameters behind"),
    ("int k(int n) { return n < 2 ? 1 : n * k(n - 1); }", 1, 39, "DG014", "'k' calls itself"),
    ("void k(int x[32]) {\n  for (int i = 0; i < 32; i++) x[i] = x[i] >> (i + 10);\n}",
     2, 39, "DG013", "'i + 10' shifts a value of 32 bits by 32 when i = 22"),
    ("void k(int n, int x[n]) { for (int i = 0; i < n; i++) x[i] = 1 << (i - 1); }", 1, 62, "DG013", "by -1 when i"),
    ("void k(void *x) { }", 1, 13, "DG006", "'void'"),
    ("void k(int n, float x[n], float y[n][n]) { y[0][0] = x[n]; }", 1, 54, "DG012", "reads x[1] when n = 1, outside"),
    ("#include <math.h>\nvoid k(double x[4]) { x[0] = tgamma(x[0]); }", 2, 30, "DG014", "'tgamma'"),
    ("#define N 4\n#define AT(i) x[(i) + 1]\nvoid k(float x[N]) {\n  for (int i = 0; i < N; i++) AT(i) = AT(i - 1);\n}",
     4, 31, "DG012", "x[4]"),
    ("#define BIG 10\nvoid k(float x[BIG - 6]) { x[BIG - 7] = 1; x[BIG] = 2; }", 2, 44, "DG012", "x[10]"),
    ("void k(float x[1L << 40]) { x[0] = 5; }", 1, 14, "DG007", "the array is too large: 1099511627776 elements"),
    ("void k(const float *x, float y[9]) { for (int i = 0; i < 9; i++) y[i] = x[i - 1]; }",
     1, 73, "DG012", "reads x[-1] when i = 0, before the first element of 'x'"),
    ("void k(int n, float *x) { if (n > 0) for (int i = 0; i < n; i++) x[2 * i + 38] = 1; else x[25] = 1; }",
     1, 21, "DG007", "by the parameters' values it is 26 or 2 * n + 37, which isn't their maximum"),
    ("void k(unsigned long x[4]) { x[0] = 5; }", 1, 22, "DG006", "64-bit unsigned"),
    ("void k(float x[4], ...) { x[0] = 5; }", 1, 6, "DG006", "number of arguments"),
]  # fmt: skip


def refused(folder: Path, text: str) -> SourceError:
    path = folder / "kernel.c"
    path.write_text(text)
    with pytest.raises(SourceError) as caught:
        read_c(str(path))
    return caught.value


@pytest.mark.parametrize(("text", "code", "part"), STATEMENTS)
def test_statement(tmp_path: Path, text: str, code: str, part: str) -> None:
    column = text.index("@") + 1
    others = "float other(float v) { v = 1; return v; }\nvoid nothing(float v[10]);\n#pragma other\n"
    error = refused(tmp_path, f"{others}{HEAD}#pragma scop\n{text.replace('@', '')}\n#pragma endscop\n}}\n")
    first = error.problems[0]
    assert first.code == code and code in CODES
    assert part in first.message
    assert first.loc is not None
    assert (first.loc.line, first.loc.column) == (6, column), error.render()


@pytest.mark.parametrize(("text", "line", "column", "code", "part"), FILES)
def test_file(tmp_path: Path, text: str, line: int, column: int, code: str, part: str) -> None:
    first = refused(tmp_path, text + "\n").problems[0]
    assert first.code == code
    assert part in first.message
    assert first.loc is not None and (first.loc.line, first.loc.column) == (line, column)


REMEDIES = {
    "void k(float x[4]) { float *t = (float *)malloc(16); t[0] = 1; x[0] = t[0]; }": "declare a local array",
    "void k(const float x[4][4], float y[4]) { y[0] = x[1] + 1.0f; }": "as many subscripts as it has dimensions",
    "void k(const int m[4], const float x[4], float y[4]) { for (int i = 0; i < 4; i++) if (m[i]) y[i] = x[i + 1]; }": (
        "a condition on data doesn't keep it from being read"
    ),
}


@pytest.mark.parametrize("text", REMEDIES)
def test_remedy(tmp_path: Path, text: str) -> None:
    assert REMEDIES[text] in refused(tmp_path, f"#include <stdlib.h>\n{text}\n").problems[0].remedy


def test_all_problems_at_once(tmp_path: Path) -> None:
    error = refused(tmp_path, HEAD + "x[11] = 1;\nwhile (n) ;\nx[(int)(n * 0.5f)] = y[1];\n}\n")
    assert [(p.code, p.loc and p.loc.line) for p in error.problems] == [("DG012", 2), ("DG008", 3), ("DG011", 4)]
    assert "help: " in error.render() and "    x[11] = 1;".strip() in error.render()


def test_missing_file() -> None:
    with pytest.raises(SourceError) as caught:
        read_c("/nowhere/kernel.c")
    assert caught.value.problems[0].code == "DG001"


def test_function_by_name(tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    path.write_text("void a(float x[4]) { x[0] = 1; }\nvoid b(float x[4]) { x[1] = 1; }\n")
    assert read_c(str(path), function="b").name == "b"
    with pytest.raises(SourceError) as caught:
        read_c(str(path), function="c")
    assert "'a', 'b'" in caught.value.render()


def test_arrays_of_unknown_extents_on_the_chip_are_refused_with_place_and_remedy(tmp_path: Path) -> None:
    """Where rows differ in length, the extents of another nest's arrays are asked for first."""
    path = tmp_path / "two.c"
    path.write_text(
        "void two(int n, int m, const float a[n][n], float b[n], const float c[m], float d[m])\n{\n"
        "  for (int i = 0; i < n; i++)\n    for (int j = 0; j <= i; j++)\n      b[i] += a[i][j] * a[j][i];\n"
        "  for (int i = 0; i < m; i++)\n    d[i] = c[i] * 2.0f;\n}\n"
    )
    with pytest.raises(PlantError, match="the size of 'a' is known at run time only") as caught:
        compile_file(str(path), load_target("ft_m7002"), Options(data="onchip"))
    assert caught.value.code == "DG205" and caught.value.loc is not None and "-D" in caught.value.remedy


@pytest.mark.parametrize("amount", ["i & 31", "(i < 22 ? i + 10 : 0)", "(n - 1 - i)", "x[i]", "31"])
def test_shifts_that_may_stay_within_the_value(amount: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(f"void k(int n, int x[n]) {{ for (int i = 0; i < n; i++) x[i] = x[i] >> ({amount}); }}")
    assert read_c(str(path)).name == "k"


@pytest.mark.parametrize("depth", [13, 60])
def test_too_many_loops_inside_each_other(tmp_path: Path, depth: int) -> None:
    loops = " ".join(f"for (int i{k} = 0; i{k} < 2; i{k}++)" for k in range(depth))
    first = refused(tmp_path, f"void k(float x[4]) {{ {loops} x[i0] += 1; }}").problems[0]
    assert first.code == "DG009" and first.message == "more than 12 loops are nested inside each other" and first.remedy


STRIDED = """
void k(const short *x, int rows, int cols, short *r) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < cols; j++) r[j + i * cols * 2] = x[j + i * cols * 3];
}"""


def test_remedies_of_an_unknown_extent_work(tmp_path: Path) -> None:
    for problem in refused(tmp_path, STRIDED.replace("* 3", "* i")).problems[:1]:
        assert problem.code == "DG007" and "-D cols=64" in problem.remedy and "rows" in problem.remedy
    path = tmp_path / "strided.c"
    path.write_text(STRIDED)
    assert read_c(str(path), defines=[("cols", "64")]).buf("x").shape
