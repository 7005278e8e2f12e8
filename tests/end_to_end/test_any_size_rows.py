"""Kernels over rows of matrices whose sizes are known at run time only: vectors along rows, several rows at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.pipeline import compile_file, run_compiled
from dspgen.options import Options
from dspgen.target.load import load_target

SIZES = ((0, 3), (3, 0), (1, 1), (7, 17), (8, 16), (33, 47))
# And the cycles that they may take for 40 x 100, of which those by one row at a time are several times as many.
KERNELS = {
    "scaled by their sums": (
        """void f(int n, int m, const float a[40][100], float b[40][100]) {
          for (int i = 0; i < n; i++) { float s = 0;
            for (int j = 0; j < m; j++) s += a[i][j] * a[i][j];
            for (int j = 0; j < m; j++) b[i][j] = a[i][j] * s; } }""",
        1700,
    ),
    "summed": (
        """void f(int n, int m, const float a[40][100], const float x[100], float y[40]) {
          for (int i = 0; i < n; i++) { y[i] = 0; for (int j = 0; j < m; j++) y[i] += a[i][j] * x[j]; } }""",
        1000,
    ),
    # The best tiles together lack address registers; those about as good take 1,297, the smallest several times that.
    "filtered": (
        """void f(int n, int m, const float a[42][102], const float w[3][3], float y[40][100]) {
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { y[i][j] = 0;
            for (int p = 0; p < 3; p++) for (int q = 0; q < 3; q++) y[i][j] += a[i + p][j + q] * w[p][q]; } }""",
        2000,
    ),
}


QUICK = ("scaled by their sums",)


@pytest.mark.parametrize("name", [pytest.param(k, marks=() if k in QUICK else pytest.mark.slow) for k in KERNELS])
def test_several_rows_at_once(name: str, tmp_path: Path) -> None:
    text, most = KERNELS[name]
    path = tmp_path / "f.c"
    path.write_text(text, encoding="utf-8")
    target, options = load_target("ft_m7002"), Options(data="onchip")
    compiled = compile_file(str(path), target, options)
    for n, m in (*SIZES, (40, 100)):
        run = run_compiled(compiled, str(path), target, options, inputs={"n": n, "m": m})
        assert run.verified, (n, m)
    assert run.cycles < most


def test_whole_arrays_off_the_chip_come_in_groups(tmp_path: Path) -> None:
    """Two loops of unknown length in one are no block. One column after the other takes 42,903 cycles."""
    path = tmp_path / "f.c"
    text = """void f(int n, int m, float x[n][m]) {
      for (int j = 0; j < m; j++) { float s = 0;
        for (int i = 0; i < n; i++) s += x[i][j];
        for (int i = 0; i < n; i++) x[i][j] -= s / n; } }"""
    path.write_text(text, encoding="utf-8")
    target, options = load_target("ft_m7002"), Options(data="ddr")
    compiled = compile_file(str(path), target, options)
    for n, m in ((3, 0), (0, 3), (1, 1), (3, 17), (60, 100)):
        run = run_compiled(compiled, str(path), target, options, inputs={"n": n, "m": m})
        assert run.verified, (n, m)
    assert run.cycles < 6000
