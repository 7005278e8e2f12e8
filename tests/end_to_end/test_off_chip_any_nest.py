"""Data off the chip in nests that are no boxes, update arrays in place, or repeat others, on a machine with little
memory of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.pipeline import run_file
from dspgen.options import Options
from dspgen.target.load import load_target
from tests.support.any_size import verified_at

SMALL = load_target("ft_m7002", [("memories.AM.size", "8192")])
DDR = Options(data="ddr", tile="one")

NESTS = {
    "a triangle": """void f(const float a[48][20], float c[48][48]) {
        for (int i = 0; i < 48; i++) for (int j = 0; j <= i; j++) { c[i][j] *= 2;
            for (int k = 0; k < 20; k++) c[i][j] += a[i][k] * a[j][k]; } }""",
    "a triangular product in place": """void f(const float a[40][40], float b[40][36]) {
        for (int i = 0; i < 40; i++) for (int j = 0; j < 36; j++) {
            for (int k = i + 1; k < 40; k++) b[i][j] += a[k][i] * b[k][j];
            b[i][j] *= 3; } }""",
    "forward substitution": """void f(const float l[60][60], const float b[60], float x[60]) {
        for (int i = 0; i < 60; i++) { x[i] = b[i];
            for (int j = 0; j < i; j++) x[i] -= l[i][j] * x[j];
            x[i] /= l[i][i]; } }""",
    "backward substitution, its sum in a variable": """void f(const float l[60][60], const float b[60], float x[60]) {
        float s;
        for (int i = 59; i >= 0; i--) { s = b[i];
            for (int j = i + 1; j < 60; j++) s -= l[i][j] * x[j];
            x[i] = s / l[i][i]; } }""",
    "a decomposition, its sums in a variable": """void f(float a[44][44]) {
        float s;
        for (int i = 0; i < 44; i++) a[i][i] += 50;
        for (int i = 0; i < 44; i++) {
            for (int j = 0; j < i; j++) { s = a[i][j];
                for (int k = 0; k < j; k++) s -= a[i][k] * a[k][j];
                a[i][j] = s / a[j][j]; }
            for (int j = i; j < 44; j++) { s = a[i][j];
                for (int k = 0; k < i; k++) s -= a[i][k] * a[k][j];
                a[i][j] = s; } } }""",
    "two grids in turn": """void f(float a[50][48], float b[50][48]) {
        for (int t = 0; t < 3; t++) {
            for (int i = 1; i < 49; i++) for (int j = 1; j < 47; j++)
                b[i][j] = 0.25f * (a[i - 1][j] + a[i + 1][j] + a[i][j - 1] + a[i][j + 1]);
            for (int i = 1; i < 49; i++) for (int j = 1; j < 47; j++) a[i][j] = b[i][j]; } }""",
    "one grid in place": """void f(float a[50][48]) {
        for (int t = 0; t < 2; t++) for (int i = 1; i < 49; i++) for (int j = 1; j < 47; j++)
            a[i][j] = 0.25f * (a[i - 1][j] + a[i + 1][j] + a[i][j - 1] + a[i][j + 1]); }""",
    "a decomposition": """void f(float a[44][44]) {
        for (int i = 0; i < 44; i++) a[i][i] += 50;
        for (int k = 0; k < 44; k++) {
            for (int i = k + 1; i < 44; i++) a[i][k] /= a[k][k];
            for (int i = k + 1; i < 44; i++) for (int j = k + 1; j < 44; j++) a[i][j] -= a[i][k] * a[k][j]; } }""",
    "a symmetric result": """void f(const float x[20][50], float c[50][50]) {
        for (int i = 0; i < 50; i++) for (int j = i; j < 50; j++) { c[i][j] = 0;
            for (int k = 0; k < 20; k++) c[i][j] += x[k][i] * x[k][j];
            c[j][i] = c[i][j]; }
        c[49][49] = 1; }""",
    "a sum that rounds pass on": """void f(const float a[30][90], float r[30]) { float s = 0;
        for (int t = 0; t < 30; t++) {
            for (int i = 0; i < 90; i++) s += a[t][i];
            r[t] = s; } }""",
}
# Variants of other nests here, which take a quarter of a minute.
LONG = (
    "a triangular product in place",
    "a decomposition",  # another comes in panels below
    "a decomposition, its sums in a variable",
    "a symmetric result",
)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in LONG else ()) for n in NESTS])
def test_nests_whose_data_do_not_fit_are_done_in_blocks(name: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(NESTS[name], encoding="utf-8")
    result = run_file(str(path), SMALL, DDR)
    assert result.verified, result.details
    told = [r.message for r in result.remarks if r.kind == "blocks"]
    assert any("blocks of" in message for message in told)
    if name == "one grid in place":  # the remark tells what is in step
        assert len(told) == 1 and told[0].endswith("in step with blocks")


def test_a_decomposition_comes_in_panels(tmp_path: Path) -> None:
    """Blocks of all three loops, though what is read is what is written in those on the diagonal."""
    path = tmp_path / "kernel.c"
    path.write_text(
        """void f(float a[60][60]) {
        for (int i = 0; i < 60; i++) a[i][i] += 50;
        for (int i = 0; i < 60; i++) {
            for (int j = 0; j < i; j++) {
                for (int k = 0; k < j; k++) a[i][j] -= a[i][k] * a[k][j];
                a[i][j] /= a[j][j]; }
            for (int j = i; j < 60; j++) for (int k = 0; k < i; k++) a[i][j] -= a[i][k] * a[k][j]; } }""",
        encoding="utf-8",
    )
    result = run_file(str(path), SMALL, DDR)
    assert result.verified, result.details
    (spans,) = (r.message.split(",")[:3] for r in result.remarks if r.kind == "blocks" and " k " in r.message)
    assert len({span.split()[-1] for span in spans}) == 1 and spans[0].split()[-1] != "1"


def test_a_block_does_several_steps_of_a_time_loop(tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(NESTS["two grids in turn"].replace("t < 3", "t < 6"), encoding="utf-8")
    result = run_file(str(path), SMALL, DDR)
    assert result.verified, result.details
    (told,) = (r.message for r in result.remarks if r.kind == "blocks")
    assert "t 1," not in told and "in step with blocks" in told


def test_a_loop_that_counts_down_comes_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(
        """void f(float c, const float x[80][100], float y[80][100], float z[80][100]) {
        float p, q, r;
        for (int i = 0; i < 80; i++) { p = 0; q = 0;
            for (int j = 0; j < 100; j++) { y[i][j] = c * x[i][j] + 0.3f * p - 0.1f * q; q = p; p = y[i][j]; } }
        for (int i = 0; i < 80; i++) { p = 0; q = 0; r = 0;
            for (int j = 99; j >= 0; j--) { z[i][j] = c * r + 0.3f * p - 0.1f * q; r = x[i][j]; q = p; p = z[i][j]; } }
        for (int i = 0; i < 80; i++) for (int j = 0; j < 100; j++) y[i][j] += z[i][j]; }""",
        encoding="utf-8",
    )
    target = load_target("ft_m7002", [("memories.AM.size", "16384")])
    assert run_file(str(path), target, DDR).verified


# At these sizes the first form has no room, and others are run.
LONGER = {
    "columns": (
        """void f(int n, int m, float y[n][m], const float x[n][m]) {
          for (int i = 1; i < n; i++) for (int j = 0; j < m; j++) y[i][j] = 0.5f * y[i - 1][j] + x[i][j]; }""",
        (500, 33),
    ),
    "rows": (
        """void f(int n, int m, float y[n][m], const float x[n][m]) {
          for (int i = 0; i < n; i++) for (int j = 1; j < m; j++) y[i][j] = 0.5f * y[i][j - 1] + x[i][j]; }""",
        (9, 2500),
    ),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == "rows" else ()) for n in LONGER])
def test_arrays_of_any_size_have_blocks_of_several_forms(name: str, tmp_path: Path) -> None:
    text, longest = LONGER[name]
    sizes = [{"n": n, "m": m} for n, m in ((0, 5), (5, 0), (1, 1), (2, 17), (37, 70), longest)]
    run = verified_at(text, tmp_path, load_target("ft_m7002"), Options(data="ddr"), sizes)
    assert any(r.message.startswith("for larger arrays") for r in run.remarks if r.kind == "blocks")


@pytest.mark.slow  # guards of one direction are cut in test_off_chip
def test_guards_off_the_chip_are_cut_in_both_directions(tmp_path: Path) -> None:
    """Whole rows had room for some seven hundred elements. The bytes take 16,720 cycles."""
    text = """void f(int n, int m, float y[n][m], const float x[n][m]) {
      for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) {
        y[i][j] = 0; for (int k = 0; k < 2; k++) if (i >= k && j >= k) y[i][j] += x[i - k][j - k]; } }"""
    sizes = [{"n": n, "m": m} for n, m in ((0, 5), (1, 1), (65, 257), (70, 9), (19, 1760))]
    assert verified_at(text, tmp_path, load_target("ft_m7002"), Options(data="ddr"), sizes).cycles < 25_000


def test_the_ends_of_a_row_of_any_length_are_told_by_what_is_left_of_it(tmp_path: Path) -> None:
    """It was one block, with room for 49,072 elements. The bytes take 3,000 cycles."""
    text = """void f(int n, float y[n], const float x[n]) {
      for (int i = 0; i < n; i++) if (i > 0 && i < n - 1) y[i] = x[i - 1] + x[i + 1]; else y[i] = x[i]; }"""
    sizes = [{"n": n} for n in (0, 1, 2, 2048, 2049, 6000)]
    assert verified_at(text, tmp_path, load_target("ft_m7002"), Options(data="ddr"), sizes).cycles < 3_600


@pytest.mark.slow  # what is taken to be shorter is told in test_block_model
def test_a_filter_of_any_size_is_taken_to_be_shorter_than_what_it_filters(tmp_path: Path) -> None:
    """Where both were taken to be as long, outputs came eight at a time: 273,842 cycles."""
    text = """void f(int n, int t, float y[n - t + 1], const float x[n], const float h[t]) {
      for (int i = 0; i <= n - t; i++) { float s = 0;
        for (int k = 0; k < t; k++) s += x[i + k] * h[k];
        y[i] = s; } }"""
    sizes = [{"n": n, "t": t} for n, t in ((4, 5), (1, 1), (70, 33), (2200, 3), (1063, 64))]
    assert verified_at(text, tmp_path, load_target("ft_m7002"), Options(data="ddr"), sizes).cycles < 5_000
