"""Transposed copies of arrays: which are made, and that programs stay what they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.driver.pipeline import run_file
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.target.isa.model import Target
from plant_core.interp.func import evaluate
from plant_core.ir.func import Func
from plant_core.normalize.pipeline import canonical
from plant_core.transform.pack_transposed import with_transposed_copies

ROWS = """void f(const float a[40][24], const float b[48][24], float c[40][48]) {
  for (int i = 0; i < 40; i++) for (int j = 0; j < 48; j++) {
    float s = 0; for (int k = 0; k < 24; k++) s += a[i][k] * b[j][k]; c[i][j] = s; } }"""
ITSELF = """void f(const float a[40][24], float c[40][40]) {
  for (int i = 0; i < 40; i++) for (int j = 0; j < 40; j++)
    for (int k = 0; k < 24; k++) c[i][j] += a[i][k] * a[j][k]; }"""
TENSOR = """void f(const int w[16][3][40], const int x[40][128], int y[128][16]) {
  for (int n = 0; n < 128; n++) for (int o = 0; o < 16; o++) for (int c = 0; c < 40; c++)
    y[n][o] += w[o][1][c] * x[c][n]; }"""
FEW = """void f(const float a[4][99], const float b[8][99], float c[4][8]) {
  for (int i = 0; i < 4; i++) for (int j = 0; j < 8; j++)
    for (int k = 0; k < 99; k++) c[i][j] += a[i][k] * b[j][k]; }"""
WRITTEN = """void f(float b[40][40], float c[40][40]) {
  for (int i = 0; i < 40; i++) for (int j = 0; j < 40; j++) {
    b[i][j] += 1; for (int k = 0; k < 40; k++) c[i][j] += b[j][k]; } }"""
DIAGONAL = """void f(const float b[40][40], float c[40][40]) {
  for (int i = 0; i < 40; i++) for (int j = 0; j < 40; j++) for (int k = 0; k < 40; k++) c[i][j] += b[j][j] * k; }"""
ALONG = """void f(const float b[24][48], const float a[40][24], float c[40][48]) {
  for (int i = 0; i < 40; i++) for (int j = 0; j < 48; j++)
    for (int k = 0; k < 24; k++) c[i][j] += a[i][k] * b[k][j]; }"""


def read(text: str, folder: Path) -> Func:
    path = folder / "kernel.c"
    path.write_text(text, encoding="utf-8")
    return canonical(read_c(str(path)), reassoc=True)


@pytest.mark.parametrize(
    ("text", "copies"),
    [
        (ROWS, {"b_by_0": (24, 48)}),
        (ITSELF, {"a_by_0": (24, 40)}),
        (TENSOR, {"w_by_0": (3, 40, 16)}),
        (FEW, {}),
        (WRITTEN, {}),
        (DIAGONAL, {}),
        (ALONG, {}),
    ],
    ids=["rows", "an array by itself", "one of three dimensions", "few", "written", "diagonal", "along rows"],
)
def test_what_is_copied(text: str, copies: dict[str, tuple[int, ...]], tmp_path: Path) -> None:
    func = read(text, tmp_path)
    made = with_transposed_copies(func, 1 << 20)
    if made is None:
        assert copies == {}
        return
    assert {b.name: b.shape for b in made.bufs if b not in func.bufs} == copies
    generator = np.random.default_rng(1)
    types = {"f32": np.float32, "i32": np.int32}
    values = {b.name: generator.integers(-9, 9, b.extents).astype(types[b.dtype]) for b in func.params}
    expected, found = (evaluate(f, {n: v.copy() for n, v in values.items()}) for f in (func, made))
    assert all(np.array_equal(expected[name], found[name]) for name in expected)


def test_there_must_be_room(tmp_path: Path) -> None:
    func = read(ROWS, tmp_path)
    assert with_transposed_copies(func, 48 * 24 * 4 - 1) is None
    assert with_transposed_copies(func, 48 * 24 * 4) is not None


@pytest.mark.parametrize("data", ["onchip", "ddr"])
def test_rows_times_rows_are_as_fast_as_lanes_side_by_side(data: str, tmp_path: Path, ft_m7002: Target) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(ROWS, encoding="utf-8")
    result = run_file(str(path), ft_m7002, Options(data=data))  # type: ignore[arg-type]
    assert result.verified
    if data == "onchip":  # else the engine turns the array round on the way
        assert any("b_by_0" in tile for tile in result.tiles)
    else:
        assert any("turns round" in remark.message for remark in result.remarks)
