"""The default schedule: legal, and it computes the same, on random programs and on small ones of each kind."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from dspgen.oracle.inputs import random_inputs
from plant_core.interp.func import evaluate
from plant_core.interp.loop_tree import run_tree
from plant_core.ir.func import Func
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.scan import scan
from plant_core.schedule.auto import default_schedule
from plant_core.schedule.auto.tile_shapes import Machine
from plant_core.schedule.legality import check
from tests.generators.nests import Features, random_program

SMALL = Machine(vector_bytes=16)
"""Two to sixteen lanes, so that small loops fill vectors."""


def read(folder: Path, text: str, **given: int) -> Func:
    path = folder / "kernel.c"
    path.write_text(text)
    return read_c(str(path), defines=tuple((name, str(value)) for name, value in given.items()))


CRAMPED = Machine(vector_bytes=16, registers=12, first_cache=512, second_cache=4096, third_cache=1 << 20)
"""With caches so small that panels are packed and nests fused."""


def same(func: Func, *, reassoc: bool = True, given: dict[str, int] | None = None, machine: Machine = SMALL) -> None:
    inputs = random_inputs(func, 0, given)
    expected = evaluate(func, inputs)
    scheduled = default_schedule(func, reassoc=reassoc, machine=machine)
    check(scheduled)
    found = run_tree(scheduled.func, scan(scheduled), inputs, order="reversed")
    for name, array in expected.items():
        if array.dtype.kind != "f" or not reassoc:
            np.testing.assert_array_equal(found[name], array)
        else:
            np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    integers = Features(types=("int", "short", "unsigned int"))
    program = random_program(random.Random(seed), integers if seed % 2 else None)
    func = read(tmp_path, program.text, **(program.given if seed % 3 else {}))
    same(func, reassoc=bool(seed % 2), given=dict(program.given), machine=CRAMPED if seed % 4 == 1 else SMALL)


KERNELS = {
    "triangle": """
void kernel(int A[20][20], int B[20][20], int C[20][20]) {
  for (int i = 0; i < 20; i++)
    for (int j = 0; j <= i; j++)
      for (int k = 0; k < 20; k++) C[i][j] += A[i][k] * B[k][j];
}""",
    "factorisation": """
void kernel(int A[17][17]) {
  for (int i = 0; i < 17; i++) {
    for (int j = 0; j < i; j++) {
      for (int k = 0; k < j; k++) A[i][j] -= A[i][k] * A[k][j];
      A[i][j] ^= A[j][j];
    }
    for (int j = i; j < 17; j++)
      for (int k = 0; k < i; k++) A[i][j] -= A[i][k] * A[k][j];
  }
}""",
    "downwards": """
void kernel(int u[18][18], int p[18][18]) {
  for (int i = 1; i < 17; i++)
    for (int j = 16; j >= 1; j--) u[i][j] = p[i][j] * u[i][j + 1] + p[i][j - 1];
}""",
    "transposed": """
void kernel(int x[23], int y[23], int A[23][23]) {
  for (int i = 0; i < 23; i++)
    for (int j = 0; j < 23; j++) x[i] += A[i][j];
  for (int i = 0; i < 23; i++)
    for (int j = 0; j < 23; j++) y[i] += A[j][i];
}""",
    "temporaries": """
void kernel(int A[14][14], int B[14][14], int C[14][14]) {
  int t, u;
  for (int i = 0; i < 14; i++)
    for (int k = 0; k < 14; k++) {
      u = A[i][k] + 1;
      for (int j = 0; j < 14; j++) {
        t = u * B[k][j];
        C[i][j] += t;
        A[i][k] = t + u;
      }
    }
}""",
    "scratch": """
void kernel(int A[9][10][12], const int B[12][12], int s[12]) {
  for (int r = 0; r < 9; r++)
    for (int q = 0; q < 10; q++) {
      for (int p = 0; p < 12; p++) {
        s[p] = 0;
        for (int k = 0; k < 12; k++) s[p] += A[r][q][k] * B[k][p];
      }
      for (int p = 0; p < 12; p++) A[r][q][p] = s[p];
    }
}""",
    "once": """
void kernel(int A[20], int B[20]) {
  for (int t = 3; t < 4; t++)
    for (int i = 0; i < 20; i++) A[i] = A[i] * t + B[19 - i];
}""",
    "time": """
void kernel(int A[14][14], int B[14][14]) {
  for (int t = 0; t < 3; t++) {
    for (int i = 1; i < 13; i++) for (int j = 1; j < 13; j++) B[i][j] = A[i][j - 1] + A[i + 1][j];
    for (int i = 1; i < 13; i++) for (int j = 1; j < 13; j++) A[i][j] = B[i][j - 1] + B[i - 1][j];
  }
}""",
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("machine", [SMALL, CRAMPED], ids=["small", "cramped"])
def test_kinds(name: str, machine: Machine, tmp_path: Path) -> None:
    same(read(tmp_path, KERNELS[name]), machine=machine)


def order_of(tmp_path: Path, text: str, *, threads: int) -> str:
    return print_tree(scan(default_schedule(read(tmp_path, text), machine=replace(SMALL, threads=threads))))


def test_products_keep_a_tile_of_the_result_in_registers(tmp_path: Path) -> None:
    text = """
void kernel(float A[256][256], float B[256][256], float C[256][256]) {
  for (int i = 0; i < 256; i++)
    for (int j = 0; j < 256; j++)
      for (int k = 0; k < 256; k++) C[i][j] += A[i][k] * B[k][j];
}"""
    lines = order_of(tmp_path, text, threads=2).splitlines()
    assert [line.split("(")[0].strip() for line in lines[:3]] == ["parallel for", "for", "for"]
    assert lines[2].strip().startswith("for (k = 0; k < 256")
    assert lines[3].strip().startswith("unroll_explicit") and lines[4].strip().startswith("vectorize for (j")


def test_panels_far_apart_are_packed(tmp_path: Path) -> None:
    text = """
void kernel(int A[40][36], int B[36][30], int C[40][30]) {
  for (int i = 0; i < 40; i++)
    for (int j = 0; j < 30; j++)
      for (int k = 0; k < 36; k++) C[i][j] += A[i][k] * B[k][j];
}"""
    func = read(tmp_path, text)
    assert "load_cache_B" in [nest.name for nest in default_schedule(func, machine=CRAMPED).nests]
    same(func, machine=CRAMPED)


def test_columns_are_walked_by_rows(tmp_path: Path) -> None:
    text = """
void kernel(float A[300][300], float x[300], float y[300]) {
  for (int i = 0; i < 300; i++)
    for (int j = 0; j < 300; j++) x[i] += A[j][i] * y[j];
}"""
    assert "vectorize for (i" in order_of(tmp_path, text, threads=1)


def test_the_divisions_of_a_factorisation_meet_the_updates(tmp_path: Path) -> None:
    found = order_of(tmp_path, KERNELS["factorisation"], threads=1)
    assert "vectorize for (j" in found and "reduction" not in found


def test_a_temporary_is_computed_where_it_is_read(tmp_path: Path) -> None:
    text = """
void kernel(int a[30], int b[30], int c[30]) {
  int t;
  for (int i = 0; i < 30; i++) { t = a[i] * b[i]; c[i] += t; }
}"""
    assert "c[i] = c[i] + a[i] * b[i]" in order_of(tmp_path, text, threads=1)


def test_scratch_memory_does_not_order_iterations(tmp_path: Path) -> None:
    found = order_of(tmp_path, KERNELS["scratch"], threads=1)
    assert "s[s_at0] = s_1[8][9][s_at0]" in found


def test_a_choice_of_the_larger_is_a_maximum(tmp_path: Path) -> None:
    text = "void kernel(int a[30], int m[1]) { for (int i = 0; i < 30; i++) m[0] = a[i] > m[0] ? a[i] : m[0]; }"
    assert "vectorize reduction" in order_of(tmp_path, text, threads=1)


def test_reductions_stay_ordered_under_strict(tmp_path: Path) -> None:
    text = "void kernel(float a[40], float s[1]) { for (int i = 0; i < 40; i++) s[0] += a[i]; }"
    scheduled = default_schedule(read(tmp_path, text), reassoc=False, machine=SMALL)
    assert all(tag != "vectorize" for nest in scheduled.nests for _, tag in nest.tags)
