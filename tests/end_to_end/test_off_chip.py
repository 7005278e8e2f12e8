"""Data off the chip: blocks fetched and put back by the engine, on a machine with little memory of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dspgen.backend.stages import simulate_kernel
from dspgen.driver.pipeline import RunResult, compile_file, run_compiled, run_file
from dspgen.errors import DspgenError, NoSchedule
from dspgen.frontend.read import read_c
from dspgen.offchip.cost_model import Judge
from dspgen.offchip.tile_search import _Parts, in_turn
from dspgen.options import Options
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from plant_core.ir.func import Func
from plant_core.normalize.pipeline import canonical
from plant_core.scratchpad.tiled_func import Around, Blocks
from plant_core.support.location import PlantError
from tests.support.any_size import verified_at

SMALL = load_target("ft_m7002", [("memories.AM.size", "16384")])
DDR = Options(data="ddr", tile="one")


def run(text: str, folder: Path, options: Options = DDR) -> RunResult:
    path = folder / "kernel.c"
    path.write_text(text, encoding="utf-8")
    result = run_file(str(path), SMALL, options)
    assert result.verified, result.details
    return result


def blocks(result: RunResult) -> str:
    return next(r.message for r in result.remarks if r.kind == "blocks")


def _best(
    func: Func, source: Func, target: Target, options: Options, judge: Judge | None = None
) -> tuple[Blocks | Around, ...]:
    return next(in_turn(func, source, target, options, judge)).nests


def test_a_long_vector_runs_at_the_speed_of_its_memory(tmp_path: Path) -> None:
    text = "void saxpy(float a, const float x[N], float y[N]) { for (int i = 0; i < N; i++) y[i] = a * x[i] + y[i]; }"
    result = run(text, tmp_path, replace(DDR, defines=(("N", "16384"),)))
    assert result.efficiency > 0.9
    run(text, tmp_path, replace(DDR, defines=(("N", "3001"),)))


def test_a_product_of_odd_sizes(tmp_path: Path) -> None:
    result = run(
        """void mm(const float a[37][29], const float b[29][50], float c[37][50]) {
             for (int i = 0; i < 37; i++) for (int j = 0; j < 50; j++) { c[i][j] = 0;
               for (int k = 0; k < 29; k++) c[i][j] += a[i][k] * b[k][j]; } }""",
        tmp_path,
    )
    assert "blocks of" in blocks(result)


TWO = """void two(const float a[N][N], const float x[N], float y[N]) {
  float t[N];
  for (int i = 0; i < N; i++) { t[i] = 0; for (int j = 0; j < N; j++) t[i] += a[i][j] * x[j]; }
  for (int i = 0; i < N; i++) y[i] = t[i] + i; }"""


def test_nests_pass_arrays_on_the_chip(tmp_path: Path) -> None:
    result = run(TWO, tmp_path, replace(DDR, defines=(("N", "80"),)))
    assert "blocks of" in blocks(result) and len(result.tiles) == 2


def test_neighbours_that_fit_are_one_block(tmp_path: Path) -> None:
    result = run(TWO, tmp_path, replace(DDR, defines=(("N", "40"),)))
    assert len(result.tiles) == 1 and " t " not in blocks(result)


def test_triangles_that_fit_are_one_block(tmp_path: Path) -> None:
    result = run(
        "void t(int a[12][12]) { for (int i = 0; i < 12; i++) for (int j = 0; j < i; j++) a[i][j] += a[j][i]; }",
        tmp_path,
    )
    assert blocks(result).startswith("one block")


def test_sizes_known_at_run_time_that_fit_are_one_block(tmp_path: Path) -> None:
    text = """void f(int n, int m, const float x[20][30], float y[20]) {
      for (int i = 0; i < n; i++) { y[i] = n; for (int j = i; j < m; j++) y[i] += x[i][j]; } }"""
    path = tmp_path / "kernel.c"
    path.write_text(text, encoding="utf-8")
    compiled = compile_file(str(path), SMALL, DDR)
    for n, m in ((0, 5), (1, 1), (7, 30), (20, 29)):
        assert run_compiled(compiled, str(path), SMALL, DDR, inputs={"n": n, "m": m}).verified


SIZES = {
    "saxpy": (
        "void f(int n, float a, const float x[n], float y[n]) { for (int i = 0; i < n; i++) y[i] += a * x[i]; }",
        ({"n": 0}, {"n": 1}, {"n": 700}, {"n": 5000}),
    ),
    "sum": (
        "void f(int n, const float x[n], float s[1]) { s[0] = 1; for (int i = 0; i < n; i++) s[0] += x[i]; }",
        ({"n": 0}, {"n": 1}, {"n": 3001}),
    ),
    "rows": (
        """void f(int n, int m, const float a[n][m], const float x[m], float y[n]) {
          for (int i = 0; i < n; i++) { y[i] = i; for (int j = 0; j < m; j++) y[i] += a[i][j] * x[j]; y[i] *= 2; } }""",
        ({"n": 3, "m": 0}, {"n": 1, "m": 1}, {"n": 40, "m": 41}, {"n": 77, "m": 130}),
    ),
    "stencil": (
        "void f(int n, const int x[n], int y[n]) { for (int i = 1; i < n - 1; i++) y[i] = x[i - 1] + x[i + 1]; }",
        ({"n": 0}, {"n": 2}, {"n": 3}, {"n": 3000}),
    ),
    "filtered rows": (
        """void f(int n, int m, const float x[n][m], float y[n][m]) { for (int i = 1; i < n - 1; i++)
          for (int j = 1; j < m - 1; j++) y[i][j] = x[i - 1][j] + x[i + 1][j + 1]; }""",
        ({"n": 17, "m": 0}, {"n": 17, "m": 1}, {"n": 100, "m": 1}, {"n": 1, "m": 9}, {"n": 5, "m": 40}),
    ),
    "a product's length": (
        """void f(int n, int m, const int x[n * m], int y[n * m]) {
          int size = m * n; for (int k = 0; k < size; k++) y[k] = 2 * x[k]; }""",
        ({"n": 0, "m": 5}, {"n": 1, "m": 1}, {"n": -3, "m": -2}, {"n": 50, "m": 60}),
    ),
    "planes": (
        """void f(int n, int m, int k, const float x[n][m][k], float y[n][m][k]) {
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) for (int l = 0; l < k; l++) y[i][j][l] = -x[i][j][l];
        }""",
        ({"n": 3, "m": 0, "k": 7}, {"n": 0, "m": 2, "k": 7}, {"n": 2, "m": 3, "k": 0}, {"n": 3, "m": 9, "k": 300}),
    ),
}


WHOLE = {
    "gather": (
        "void f(int n, const int x[n], const int at[9], int y[9]) { for (int i = 0; i < 9; i++) y[i] = x[at[i]]; }",
        ({"n": 9}, {"n": 300}),
    ),
    "reversed": (
        "void f(int n, const float x[n], float y[n]) { for (int i = 0; i < n; i++) y[i] = 2 * x[n - 1 - i]; }",
        ({"n": 0}, {"n": 1}, {"n": 333}),
    ),
    "triangle": (
        "void f(int n, int a[n][n]) { for (int i = 0; i < n; i++) for (int j = 0; j < i; j++) a[i][j] -= a[j][i]; }",
        ({"n": 0}, {"n": 2}, {"n": 33}),
    ),
    "rows and vectors": (
        """void f(int n, int m, const float a[n][m], const float b[m][4], float s[n]) {
          for (int i = 0; i < n; i++) { s[i] = 0; for (int j = 0; j < m; j++) s[i] += a[i][m - 1 - j] * b[j][1]; } }""",
        ({"n": 0, "m": 9}, {"n": 7, "m": 0}, {"n": 5, "m": 16}),
    ),
    "shifted rows": (
        """void f(int m, const float b[m][4], float y[6][m]) {
          for (int k = 0; k < 6; k++) for (int j = k; j < m; j++) y[k][j] = y[k][j - k] + b[j][3]; }""",
        ({"m": 0}, {"m": 9}, {"m": 16}),
    ),
    "nothing where there are no rows": (
        """void f(int n, int m, int a[n], const int b[n], int c[6][m], const int d[3][n]) {
          for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { c[2][j] = 4 * b[i]; a[n - 1 - i] += c[2][j] - 1; }
          for (int i = 0; i < n; i++) a[i] += d[0][0] - d[2][0]; }""",
        ({"n": 0, "m": 5}, {"n": 1, "m": 5}, {"n": 9, "m": 1}),
    ),
}


SLOW_WHOLE = ("shifted rows",)


@pytest.mark.parametrize("name", [pytest.param(k, marks=pytest.mark.slow if k in SLOW_WHOLE else ()) for k in WHOLE])
def test_arrays_of_any_size_lie_on_the_chip_as_wholes(name: str, tmp_path: Path) -> None:
    text, sizes = WHOLE[name]
    path = tmp_path / "kernel.c"
    path.write_text(text, encoding="utf-8")
    compiled = compile_file(str(path), SMALL, DDR)
    assert compiled.rooms and "up to" in compiled.remarks[0].message
    for given in sizes:
        result = run_compiled(compiled, str(path), SMALL, DDR, inputs=given)
        assert result.verified, (given, result.details)


def test_why_a_nest_is_one_block_is_told(tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    text = """void f(int n, int x[n][n]) {
      for (int i = 0; i < n; i++) for (int j = 0; j <= i; j++) x[i][j] += x[j][i] * 2; }"""
    path.write_text(text, encoding="utf-8")
    compiled = compile_file(str(path), SMALL, DDR)
    assert "not cut, as smaller ones would touch all of x" in compiled.remarks[0].message


def test_lanes_that_do_not_run_read_nothing_far_away(tmp_path: Path) -> None:
    """Rows as lanes: there are six, and the tenth would lie beyond the memory."""
    text = """void f(int m, const float b[272][4], float y[6][272]) {
      for (int k = 0; k < 6; k++) for (int j = k; j < m; j++) y[k][j] = y[k][j - k] + b[j][3]; }"""
    path = tmp_path / "kernel.c"
    path.write_text(text, encoding="utf-8")
    compiled = compile_file(str(path), SMALL, DDR)
    for m in (0, 1, 9, 31):
        assert run_compiled(compiled, str(path), SMALL, DDR, inputs={"m": m}).verified


def test_more_than_there_is_room_for_is_left_alone(tmp_path: Path) -> None:
    """The tool says so; the code itself writes nothing."""
    text = "void f(int n, float x[n]) { for (int i = 1; i < n; i++) x[n - 1 - i] = x[i]; }"
    path = tmp_path / "kernel.c"
    path.write_text(text, encoding="utf-8")
    compiled = compile_file(str(path), SMALL, DDR)
    ((room,),) = (r.most for r in compiled.rooms)
    assert run_compiled(compiled, str(path), SMALL, DDR, inputs={"n": room}).verified
    with pytest.raises(DspgenError, match=f"room for {room} on the chip"):
        run_compiled(compiled, str(path), SMALL, DDR, inputs={"n": room + 1})
    x = np.arange(room + 1, dtype=np.float32)
    result = simulate_kernel(compiled, SMALL, {"n": room + 1, "x": x}, placement={"x": "DDR"})
    np.testing.assert_array_equal(result.outputs["x"], x)


def test_an_empty_array_fits_whatever_its_rows_are(tmp_path: Path) -> None:
    text = """void f(int n, int m, float x[n][m], float s[1]) { s[0] = n;
      for (int i = 1; i < n; i++) for (int j = 0; j < m; j++) x[n - 1 - i][j] = x[i][j]; }"""
    path = tmp_path / "kernel.c"
    path.write_text(text, encoding="utf-8")
    compiled = compile_file(str(path), SMALL, DDR)
    ((rows, columns),) = (r.most for r in compiled.rooms)
    for n, m in ((rows, columns), (rows + 1, 0), (0, columns + 1)):
        assert run_compiled(compiled, str(path), SMALL, DDR, inputs={"n": n, "m": m}).verified


def test_what_is_put_back_is_not_fetched_before(tmp_path: Path) -> None:
    """Blocks would come back to `y`, with no other one between them where there are few columns."""
    text = """void f(int n, int m, float y[m], const float a[m][n], const float b[m][n]) {
      for (int i = 0; i < m; i++) for (int j = 0; j < m; j++)
        for (int k = 0; k < n; k++) y[j] += a[i][k] - b[i][k]; }"""
    verified_at(text, tmp_path, SMALL, DDR, [{"n": n, "m": m} for n, m in ((40, 21), (0, 13), (70, 50))])


def test_more_arrays_than_channels_take_turns(tmp_path: Path) -> None:
    text = """void f(const int a[40], int b[40], int c[40], int d[40], int e[40], int g[40], int h[40]) {
      for (int i = 0; i < 40; i++) {
        b[i] += a[i]; c[i] -= b[i]; d[i] += 3 * c[i]; e[i] ^= d[i]; g[i] += e[i]; h[i] -= g[i]; } }"""
    run(text, tmp_path)
    run(text.replace("40", "2000"), tmp_path)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == "rows" else ()) for n in SIZES])
def test_code_for_any_size(name: str, tmp_path: Path) -> None:
    text, sizes = SIZES[name]
    verified_at(text, tmp_path, SMALL, DDR, sizes)


def test_guards_of_any_size_are_cut_out(tmp_path: Path, ft_m7002: Target) -> None:
    text = """void causal(int n, const float x[n], const float h[16], float y[n]) {
      for (int i = 0; i < n; i++) {
        float s = 0; for (int k = 0; k < 16; k++) if (i - k >= 0) s += h[k] * x[i - k];
        y[i] = s; } }"""
    sizes = [{"n": n} for n in (0, 1, 15, 16, 17, 150, 1000)]
    assert verified_at(text, tmp_path, ft_m7002, Options(data="ddr"), sizes).cycles < 2500


def test_guards_as_wide_as_another_size_tells_are_cut_out_of_one_block(tmp_path: Path, ft_m7002: Target) -> None:
    text = """void causal(int n, int t, const float x[n], const float h[t], float y[n]) {
      for (int i = 0; i < n; i++) {
        float s = 0; for (int k = 0; k < t; k++) if (i - k >= 0) s += h[k] * x[i - k];
        y[i] = s; } }"""
    sizes = [{"n": n, "t": t} for n, t in ((1, 1), (3, 7), (16, 16), (100, 5), (5, 0), (1000, 16))]
    assert verified_at(text, tmp_path, ft_m7002, Options(data="ddr"), sizes).cycles < 2500


def test_trips_that_data_tell_are_one_block(tmp_path: Path) -> None:
    text = """/* @input at expr arange(5) * 2 */
    void f(const int at[5], const float x[12], float y[4]) {
      for (int i = 0; i < 4; i++) { y[i] = 0; for (int j = at[i]; j < at[i + 1]; j++) y[i] += x[j]; } }"""
    assert blocks(run(text, tmp_path)).startswith("one block")


def test_one_block_is_tried_after_many_sizes_that_cannot_be(tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    text = """void f(float c[28][28], const float a[28][28], const float b[28][28]) {
      for (int i = 0; i < 28; i++) for (int k = 0; k < 28; k++) for (int j = 0; j <= i; j++)
        c[i][j] += a[j][k] * b[i][k] + b[j][k] * a[i][k]; }"""
    path.write_text(text, encoding="utf-8")
    func = canonical(read_c(str(path)), reassoc=True)
    assert [made.counters for made in _best(func, func, SMALL, DDR)] == [()]


SUMS = """void sums(float a[256][256], float x[256], float y[256]) {
  for (int i = 0; i < 256; i++) { float s = 0; for (int j = 0; j < 256; j++) s += a[i][j] * x[j]; y[i] = s; } }"""


def test_blocks_whose_code_is_slow_are_compared_with_others(tmp_path: Path, ft_m7002: Target) -> None:
    """All columns of a few rows, not few columns of all rows, whose sums would be joined for each block."""
    path = tmp_path / "kernel.c"
    path.write_text(SUMS, encoding="utf-8")
    result = run_file(str(path), ft_m7002, Options(data="ddr"))
    assert result.verified and result.efficiency > 0.8


def test_a_judge_decides_between_sizes(tmp_path: Path, ft_m7002: Target) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(SUMS, encoding="utf-8")
    func = canonical(read_c(str(path)), reassoc=True)
    seen: list[Blocks] = []

    def judge(made: Blocks, enough: Sequence[float] = ()) -> list[float | None]:
        seen.append(made)
        return [{1: 1e6, 2: 2e5, 3: 3e5}[len(seen)]] * len(made.pieces)

    (first,) = _best(func, func, ft_m7002, DDR)
    (found,) = _best(func, func, ft_m7002, DDR, judge)
    assert len(seen) == 3 and seen[0].counters == first.counters and found is seen[1]
    assert len({made.counters for made in seen}) == 3
    fast: list[Blocks] = []
    (kept,) = _best(func, func, ft_m7002, DDR, lambda made, _: fast.append(made) or [1.0] * len(made.pieces))
    assert kept.counters == first.counters and len(fast) == 1
    (unknown,) = _best(func, func, ft_m7002, DDR, lambda made, _: [None] * len(made.pieces))
    assert unknown.counters == first.counters


def test_what_does_nothing_moves_nothing(tmp_path: Path) -> None:
    run("void f(const float x[8], float y[8]) { for (int i = 0; i < 0; i++) y[i] = x[i]; }", tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "void t(const int at[64], const int x[9000], int y[64]) { for (int i = 0; i < 64; i++) y[i] = x[at[i]]; }",
            "DG318",
        ),
        (
            """void t(int n, int a[n][n][n]) { for (int i = 1; i < n - 1; i++) for (int j = 1; j < n - 1; j++)
                 for (int k = 1; k < n - 1; k++) a[i][j][k] += a[i + 1][j - 1][k] - a[i - 1][j][k + 1]; }""",
            "DG318",
        ),
        (
            "void t(int n, const int x[n], int y[n / 3]) { for (int i = 0; i < n / 3; i++) y[i] = 2 * x[i]; }",
            "DG205",
        ),
    ],
)
def test_what_can_t_be_cut_is_told(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises((NoSchedule, PlantError)) as caught:
        run(text, tmp_path)
    error = caught.value.problems[0] if isinstance(caught.value, NoSchedule) else caught.value
    assert error.code == says and error.loc is not None


def test_a_machine_without_an_engine_is_told(tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    path.write_text("void f(int x[9]) { for (int i = 0; i < 9; i++) x[i] *= 2; }", encoding="utf-8")
    with pytest.raises(NoSchedule) as caught:
        compile_file(str(path), replace(SMALL, dma=None), DDR)
    assert caught.value.problems[0].code == "DG317" and caught.value.problems[0].loc is not None


def test_arrays_lie_where_there_is_most_room(tmp_path: Path) -> None:
    """Together they are larger than the nearest of the memories off the chip."""
    file = tmp_path / "copy.c"
    file.write_text(
        "void copy(const int x[400000], int y[400000])\n{\n  for (int i = 0; i < 400000; i++)\n    y[i] = x[i];\n}\n",
        encoding="utf-8",
    )
    small = load_target("ft_mt3000", (("memories.GSM.size", str(1 << 21)),))
    assert run_file(str(file), small, Options(data="ddr")).verified


SHARED_ROWS = """void f(const float x[47][101], float y[45][100]) {
  for (int i = 0; i < 45; i++) for (int j = 0; j < 100; j++) y[i][j] = x[i][j] + x[i + 1][j + 1] - x[i + 2][j]; }"""
STRIDED_ROWS = """void f(const int x[94][70], const int z[45][60], int y[45][60]) {
  for (int i = 0; i < 45; i++) for (int j = 0; j < 60; j++)
    y[i][j] = 2 * x[2 * i][j] + x[2 * i + 3][j + 9] - x[2 * i + 5][j] * z[i][j]; }"""
ROOMY = load_target("ft_m7002", [("memories.AM.size", "65536")])


@pytest.mark.parametrize(("text", "spans", "order"), [
    (SHARED_ROWS, (8, 100), (0, 1)),
    (SHARED_ROWS, (12, 25), (1, 0)),
    (SHARED_ROWS, (3, 50), (1, 0)),
    (STRIDED_ROWS, (8, 60), (0, 1)),
    (STRIDED_ROWS, (8, 15), (1, 0)),
])  # fmt: skip
def test_rows_that_blocks_share_stay_on_the_chip(
    text: str, spans: tuple[int, ...], order: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = _Parts._sizes
    monkeypatch.setattr("dspgen.offchip.cost_model.spans_of", lambda extent, _: [{45: spans[0]}.get(extent, spans[1])])
    monkeypatch.setattr(_Parts, "_sizes", lambda *given: [w for w in offered(*given) if w.places and w.order == order])
    path = tmp_path / "kernel.c"
    path.write_text(text, encoding="utf-8")
    result = run_file(str(path), ROOMY, DDR)
    assert result.verified and "places that overlap" in blocks(result)
