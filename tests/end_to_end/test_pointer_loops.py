"""Loops over pointers of any size as libraries write them: counted down, and arrays whose ends only accesses tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.pipeline import compile_file, run_compiled
from dspgen.errors import DspgenError
from dspgen.options import Options
from dspgen.target.isa.model import Target
from tests.support.any_size import verified_at

SQUARES = {
    "while above zero": "while (n > 0) { float s = *a++; *c++ = s * s; n--; }",
    "while not zero": "while (n--) { float s = *a++; *c++ = s * s; }",
    "from the end": "for (int i = n; i > 0; i--) { float s = *a++; *c++ = s * s; }",
    "backwards": "for (int i = n - 1; i >= 0; i--) { float s = a[i]; c[i] = s * s; }",
}
ENDS = {
    "the first and all": ("float f(const float *a, int n) { float x = a[0]; "
                          "for (int i = 1; i < n; i++) if (a[i] > x) x = a[i]; return x; }", (1, 2, 19)),
    "once at least": ("float f(const float *a, const float *b, int n) { float s = 0; "
                      "do { s += *a++ * *b++; } while (--n); return s; }", (1, 19)),
    "every other one": ("void f(const float *a, const float *b, float *c, int n) { "
                        "for (int i = 0; i < n; i += 2) c[i] = a[i] * b[i >> 1]; }", (1, 2, 19)),
}  # fmt: skip


@pytest.mark.parametrize("name", SQUARES)
def test_loops_that_count_down_go_by_vectors(name: str, tmp_path: Path, ft_m7002: Target) -> None:
    text = f"void f(const float *a, float *c, int n) {{ {SQUARES[name]} }}"
    sizes = [{"n": n} for n in (0, 1, 33, 400)]
    assert verified_at(text, tmp_path, ft_m7002, Options(data="ddr"), sizes).cycles < 600  # 1,260 by scalars


@pytest.mark.parametrize("name", ENDS)
def test_arrays_as_long_as_what_is_accessed(name: str, tmp_path: Path, ft_m7002: Target) -> None:
    text, sizes = ENDS[name]
    verified_at(text, tmp_path, ft_m7002, Options(data="ddr", tile="one"), [{"n": n} for n in sizes])


def test_pointers_on_the_chip(tmp_path: Path, ft_m7002: Target) -> None:
    text = "void f(const float *x, float (*y)[2], int n) { for (int i = 0; i < n; i++) y[i][1] = x[i] + y[i][0]; }"
    verified_at(text, tmp_path, ft_m7002, Options(data="onchip"), [{"n": n} for n in (0, 1, 33, 100)])
    compiled = compile_file(str(tmp_path / "kernel.c"), ft_m7002, Options(data="onchip"))
    most = {room.array: room.most for room in compiled.rooms}
    assert most.keys() == {"x", "y"} and f"y has at most {most['y'][0]} x 2 elements" in compiled.asm
    with pytest.raises(DspgenError, match="has room for"):
        given = {"n": most["y"][0] + 1}
        run_compiled(compiled, str(tmp_path / "kernel.c"), ft_m7002, Options(data="onchip"), inputs=given)


def test_rows_shorter_than_a_vector_lie_side_by_side(tmp_path: Path, ft_m7002: Target) -> None:
    text = """void f(int n, const float x[4][n], const float g[4][2], float y[n][2]) {
      for (int i = 0; i < n; i++) for (int c = 0; c < 2; c++) { y[i][c] = 0;
        for (int k = 0; k < 4; k++) y[i][c] += x[k][i] * g[k][c]; } }"""
    sizes = [{"n": n} for n in (0, 1, 9, 72, 136, 200)]
    assert verified_at(text, tmp_path, ft_m7002, Options(data="ddr"), sizes).cycles < 900  # 8,129 in rows of their own
