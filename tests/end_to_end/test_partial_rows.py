"""Rows that no number of vectors fills, on a machine whose stores know no lane predicates: each kernel computes what C
does, and writes no row's end element by element."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dspgen.driver.pipeline import compile_file, run_compiled, run_file
from dspgen.options import Options
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from tests.generators.rows import rows

FAST = Options(tiler="model")
ELEMENTS = re.compile(r"memw\((?!r29)\S+\) = ")  # stores of scalars, but for the stack's
KERNELS = {
    "stencil": """
void stencil(int y[restrict 9][37], const int x[9][39]) {
#pragma scop
  for (int i = 0; i < 9; i++)
    for (int j = 0; j < 37; j++)
      y[i][j] = x[i][j] + 2 * x[i][j + 1] + x[i][j + 2];
#pragma endscop
}
""",
    "convolution": """
void convolution(int y[restrict 6][37], const int x[7][38], const int w[2][2]) {
#pragma scop
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 37; j++) {
      y[i][j] = 0;
      for (int p = 0; p < 2; p++)
        for (int q = 0; q < 2; q++)
          y[i][j] += x[i + p][j + q] * w[p][q];
    }
#pragma endscop
}
""",
}
SEEDS = [pytest.param(s, marks=() if s < 4 else pytest.mark.slow) for s in range(40)]


@pytest.fixture(scope="module")
def hexagon() -> Target:
    return load_target("hexagon_v66")


@pytest.mark.parametrize("name", KERNELS)
def test_rows_of_37(name: str, tmp_path: Path, hexagon: Target) -> None:
    path = tmp_path / f"{name}.c"
    path.write_text(KERNELS[name], encoding="utf-8")
    compiled = compile_file(str(path), hexagon, FAST)
    assert not ELEMENTS.search(compiled.asm)
    result = run_compiled(compiled, str(path), hexagon, FAST)
    assert result.verified, result.details


@pytest.mark.parametrize("seed", SEEDS)
def test_random_rows(seed: int, tmp_path: Path, hexagon: Target) -> None:
    text = rows(seed)
    path = tmp_path / "rows.c"
    path.write_text(text, encoding="utf-8")
    result = run_file(str(path), hexagon, FAST)
    assert result.verified, (text, result.details)
