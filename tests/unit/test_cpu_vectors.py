"""Loops on vectors: every kind of expression, access and reduction, against the reference meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from plant_core.ir.loop_tree import Tag
from tests.support.cpu_programs import check

MATH = "#include <math.h>\n#include <stdlib.h>\n"

EXPRESSIONS = {
    "arithmetic": ("float", "a[i] * b[i] - c[i] / (b[i] + 7.5f)"),
    "uniform": ("float", "a[i] * s + b[2]"),
    "iterator": ("float", "a[i] + (float)(3 * i - 2)"),
    "reversed": ("float", "a[52 - i] + b[i]"),
    "strided": ("float", "a[2 * i] - b[i]"),
    "quotient": ("float", "a[i / 3] + b[i % 5]"),
    "minmax": ("float", "fminf(a[i], b[i]) + fmaxf(c[i], 0.25f)"),
    "abs": ("float", "fabsf(a[i]) + sqrtf(fabsf(b[i]))"),
    "select": ("float", "a[i] > b[i] ? a[i] : c[i] * 2.0f"),
    "nested": ("float", "a[i] > 0.0f && !(b[i] <= c[i] || c[i] > 1.0f) ? 1.0f : -a[i]"),
    "on iterators": ("float", "i > 20 ? a[i] : b[i]"),
    "guarded": ("float", "i > 0 ? a[i - 1] : b[i]"),
    "comparison": ("float", "(float)(a[i] < b[i]) + (float)!(c[i] > 0.0f)"),
    "double": ("double", "a[i] * b[i] + (double)(float)c[i]"),
    "mixed": ("float", "(float)((double)a[i] * 1.1 + (double)b[i])"),
    "to int": ("float", "(float)((int)(a[i] * 20.0f) + i)"),
    "ints": ("int", "a[i] * b[i] - (c[i] << 3) + (a[i] >> 2)"),
    "bits": ("int", "(a[i] & b[i]) | (~c[i] ^ s)"),
    "division": ("int", "a[i] / 7 + b[i] % 5 + abs(c[i])"),
    "bytes": ("unsigned char", "a[i] + b[i] * 3"),
    "signed bytes": ("signed char", "a[i] * b[i] - c[i]"),
    "shorts": ("short", "a[i] > b[i] ? a[i] - b[i] : c[i] * a[i]"),
    "unsigned": ("unsigned int", "a[i] * 3000000019u - b[i] / 3u"),
    "narrow condition": ("signed char", "a[i] < b[i] && (int)c[i] * 1000 > 3 ? a[i] : b[i]"),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("vector_bytes", [64, 16])
def test_expressions(name: str, vector_bytes: int, tmp_path: Path) -> None:
    kind, value = EXPRESSIONS[name]
    arrays = ", ".join(f"const {kind} {array}[106]" for array in "abc")
    text = f"{MATH}void k({kind} r[53], {arrays}, {kind} s) {{ for (int i = 0; i < 53; i++) r[i] = {value}; }}"
    source = check(tmp_path, text, ("S0", "i", "vectorize"), vector_bytes=vector_bytes)
    if name not in ("guarded", "quotient"):
        assert "not on vectors" not in source
        assert "vector_size" in source


TARGETS = {
    "reversed": "r[60 - i] = a[i];",
    "strided": "r[2 * i + 1] = a[i];",
    "column": "m[i][3] = a[i];",
    "row": "m[3][i] = a[i] + m[4][i];",
    "diagonal": "m[i][i] = a[i] * m[i][i];",
    "in place": "r[i] = r[i + 1] * 0.5f;",
    "guarded": "if (i % 3 == 1) r[i] = a[i];",
    "data guard": "if (a[i] > 0.0f) r[i] = a[i];",
    "two": "{ r[i] = a[i] * 2.0f; m[2][i] = r[i] + 1.0f; }",
}


@pytest.mark.parametrize("name", TARGETS)
def test_targets(name: str, tmp_path: Path) -> None:
    text = f"""void k(float r[130], float m[64][64], const float a[64]) {{
        for (int i = 0; i < 61; i++) {TARGETS[name]} }}"""
    tags = [(s, "i", "vectorize") for s in (("S0", "S1") if name == "two" else ("S0",))]
    check(tmp_path, text, *tags)


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 128, 129, 300])
def test_trip_counts(count: int, tmp_path: Path) -> None:
    text = f"""void k(float r[{count}], float s[1], const float a[{count}]) {{
        for (int i = 0; i < {count}; i++) r[i] = a[i] * 3.0f;
        for (int j = 0; j < {count}; j++) s[0] += a[j]; }}"""
    check(tmp_path, text, ("S0", "i", "vectorize"), ("S1", "j", "vectorize"), reassoc=True)


@pytest.mark.parametrize("n,vector_bytes", [(0, 64), (1, 64), (64, 64), (65, 64), (0, 16), (15, 16), (200, 16)])
def test_unknown_trip_count(n: int, vector_bytes: int, tmp_path: Path) -> None:
    text = """void k(int n, float r[200], float s[1], const float a[200]) {
        for (int i = 0; i < n; i++) r[i] = a[i] * 3.0f;
        for (int j = 0; j < n; j++) s[0] += a[j]; }"""
    tags: tuple[tuple[str, str, Tag], ...] = (("S0", "i", "vectorize"), ("S1", "j", "vectorize"))
    source = check(tmp_path, text, *tags, reassoc=True, given={"n": n}, vector_bytes=vector_bytes)
    # Wide vectors may have idle lanes; the compiler goes on where narrower ones end.
    assert ("#pragma omp simd reduction(+ : r0)" in source) == (vector_bytes == 16)
    assert ("store_first" in source) == (vector_bytes == 64)


@pytest.mark.parametrize("kind", ["float", "double", "int", "unsigned int", "short"])
def test_triangle(kind: str, tmp_path: Path) -> None:
    """The trip count changes with the loop outside, up to a known bound."""
    text = f"""void k({kind} c[45][45], const {kind} a[45][20], const {kind} b[20][45], {kind} s[45]) {{
        for (int i = 0; i < 45; i++) for (int j = 0; j <= i; j++) for (int k = 0; k < 20; k++)
            c[i][j] += a[i][k] * b[k][j];
        for (int i = 0; i < 45; i++) for (int j = 0; j < i; j++) s[i] -= c[i][j] * s[j]; }}"""
    check(tmp_path, text, ("S0", "j", "vectorize"), reassoc=kind != "double")


REDUCTIONS = {
    "sum": ("float", "s[0] += a[i] * b[i];"),
    "difference": ("float", "s[0] = s[0] - a[i] - b[i];"),
    "product": ("double", "s[0] *= a[i];"),
    "least": ("float", "s[0] = fminf(s[0], a[i]);"),
    "greatest": ("double", "s[0] = fmax(s[0], a[i] + b[i]);"),
    "int sum": ("int", "s[0] += a[i] * b[i];"),
    "byte sum": ("unsigned char", "s[0] += a[i];"),
    "bits": ("int", "s[0] ^= a[i];"),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("count", [40, 333])
def test_reductions(name: str, count: int, tmp_path: Path) -> None:
    kind, body = REDUCTIONS[name]
    text = f"""{MATH}void k({kind} s[1], const {kind} a[{count}], const {kind} b[{count}]) {{
        for (int i = 0; i < {count}; i++) {body} }}"""
    source = check(tmp_path, text, ("S0", "i", "vectorize"), reassoc=True)
    assert "reduce_" in source


def test_reduction_through_an_enclosing_loop(tmp_path: Path) -> None:
    """The lanes are combined after the outermost loop that adds to the element."""
    text = """void k(float y[5], const float a[5][7][64], const float x[64]) {
        for (int i = 0; i < 5; i++) for (int t = 0; t < 7; t++) for (int j = 0; j < 64; j++)
            y[i] += a[i][t][j] * x[j]; }"""
    source = check(tmp_path, text, ("S0", "j", "vectorize"), reassoc=True)
    inner = source[source.index("for (long t") :]
    assert "reduce_add" not in inner[: inner.index("}")]
    assert source.count("reduce_add(") == 2  # its definition and one use


def test_outer_loop_on_vectors(tmp_path: Path) -> None:
    text = """void k(float y[40], const float a[30][40], const float x[30]) {
        for (int j = 0; j < 40; j++) for (int i = 0; i < 30; i++) y[j] += a[i][j] * x[i]; }"""
    source = check(tmp_path, text, ("S0", "j", "vectorize"))
    body = source[source.index("for (long i") :]
    assert "store" not in body[: body.index("}")]


def test_strict_integer_sums_are_vectors(tmp_path: Path) -> None:
    text = "void k(int s[1], const int a[50]) { for (int i = 0; i < 50; i++) s[0] += a[i]; }"
    assert "reduce_add" in check(tmp_path, text, ("S0", "i", "vectorize"))
