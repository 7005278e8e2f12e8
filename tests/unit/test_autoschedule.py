"""The default schedule: legal, and it computes the same, on random programs and on small ones of each kind."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from dspgen.frontend.read import read_c
from dspgen.oracle.inputs import random_inputs
from plant_core.autoschedule import default_schedule
from plant_core.autoschedule.shapes import Machine
from plant_core.evaluate import evaluate
from plant_core.ir import Func
from plant_core.order import check
from plant_core.scan import scan
from plant_core.tree_run import run_tree
from tests.generators.nests import Features, random_program

SMALL = Machine(vector_bytes=16)
"""Two to sixteen lanes, so that small loops fill vectors."""


def read(folder: Path, text: str, **given: int) -> Func:
    path = folder / "kernel.c"
    path.write_text(text)
    return read_c(str(path), defines=tuple((name, str(value)) for name, value in given.items()))


def same(func: Func, *, reassoc: bool = True, given: dict[str, int] | None = None) -> None:
    inputs = random_inputs(func, 0, given)
    expected = evaluate(func, inputs)
    scheduled = default_schedule(func, reassoc=reassoc, machine=SMALL)
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
    same(func, reassoc=bool(seed % 2), given=dict(program.given))


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
    "time": """
void kernel(int A[14][14], int B[14][14]) {
  for (int t = 0; t < 3; t++) {
    for (int i = 1; i < 13; i++) for (int j = 1; j < 13; j++) B[i][j] = A[i][j - 1] + A[i + 1][j];
    for (int i = 1; i < 13; i++) for (int j = 1; j < 13; j++) A[i][j] = B[i][j - 1] + B[i - 1][j];
  }
}""",
}


@pytest.mark.parametrize("name", KERNELS)
def test_kinds(name: str, tmp_path: Path) -> None:
    same(read(tmp_path, KERNELS[name]))


def test_reductions_stay_ordered_under_strict(tmp_path: Path) -> None:
    text = "void kernel(float a[40], float s[1]) { for (int i = 0; i < 40; i++) s[0] += a[i]; }"
    scheduled = default_schedule(read(tmp_path, text), reassoc=False, machine=SMALL)
    assert all(tag != "vectorize" for nest in scheduled.nests for _, tag in nest.tags)
