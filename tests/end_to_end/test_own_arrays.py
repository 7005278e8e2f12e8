"""Arrays and variables that only the function has, off the chip and of any size."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.pipeline import compile_file, run_compiled
from dspgen.emit.needs import shape_text
from dspgen.errors import DspgenError, NoSchedule
from dspgen.options import Options
from dspgen.target.isa.model import Target
from tests.support.any_size import verified_at

DDR = Options(data="ddr")


def test_few_elements_of_each_iteration_lie_side_by_side(tmp_path: Path, ft_m7002: Target) -> None:
    text = """void f(int n, int m, const int x[n + 2][m], int y[n][m]) {
      for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) {
        int h[3]; for (int r = 0; r < 3; r++) h[r] = x[i + r][j] * x[i + r][j];
        y[i][j] = h[0] + h[1] - h[2]; } }"""
    sizes = [{"n": n, "m": m} for n, m in ((1, 1), (9, 70), (32, 48))]
    assert verified_at(text, tmp_path, ft_m7002, DDR, sizes).cycles < 2500  # 18,911 where they are in the way


def test_an_array_of_any_size_has_room_like_parameters(tmp_path: Path, ft_m7002: Target) -> None:
    text = """void f(int n, const float x[n], float y[n]) { float t[n];
      for (int r = 0; r < 3; r++) {
        for (int i = 0; i < n; i++) t[i] = x[i] * r + y[i];
        for (int i = 0; i < n; i++) y[i] += t[n - 1 - i]; } }"""
    verified_at(text, tmp_path, ft_m7002, DDR, [{"n": n} for n in (0, 1, 100)])
    compiled = compile_file(str(tmp_path / "kernel.c"), ft_m7002, DDR)
    room = next(room for room in compiled.rooms if room.array == "t")
    assert f"t has at most {shape_text(room.most)} elements" in compiled.asm
    with pytest.raises(DspgenError, match="elements, and the code has room for"):
        given = {"n": max(n for n in room.most if n is not None) + 1}
        run_compiled(compiled, str(tmp_path / "kernel.c"), ft_m7002, DDR, inputs=given)


def test_what_several_nests_share_of_any_size_is_refused(tmp_path: Path, ft_m7002: Target) -> None:
    text = """void f(int n, const float x[n], float y[n]) { float t[n];
      for (int i = 0; i < n; i++) t[i] = x[i] * x[i];
      for (int i = 0; i < n; i++) y[i] = t[n - 1 - i] + x[i]; }"""
    with pytest.raises(NoSchedule, match="'t' is of use to others"):
        verified_at(text, tmp_path, ft_m7002, DDR, [])


def test_filters_of_any_length_follow_each_other(tmp_path: Path, ft_m7002: Target) -> None:
    """Each hands on what it has seen, and reads what the one before wrote."""
    text = """void f(const float *x, float *y, int n) { const float *in = x; int stage = 2;
      do { float y1 = 0, y2 = 0;
        for (int i = 0; i < n; i++) { float s = in[i] + 0.5f * y1 + .2f * y2; y2 = y1; y1 = s; y[i] = s; }
        in = y; } while (--stage); }"""
    verified_at(text, tmp_path, ft_m7002, Options(data="ddr", tile="one"), [{"n": n} for n in (0, 1, 7, 100)])
