"""More rewriting rules never make code slower: what fewer rules are given is among the candidates of more."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dspgen.driver.pipeline import run_file
from dspgen.errors import DspgenError
from dspgen.options import REWRITE_MODES, Options
from dspgen.target.isa.model import Target
from plant_core.support.location import PlantError
from tests.generators.kernels import random_kernel

# Extraction by units alone prefers, in the same tile, code that takes more cycles than plain code.
NARROW = """#include <stdint.h>
void f(const int16_t x[47], const int16_t h[16], int32_t y[32])
{
  for (int i = 0; i < 32; i++) {
    int32_t sum = 0;
    for (int k = 0; k < 16; k++)
      sum += h[k] * x[i + k];
    y[i] = sum;
  }
}
"""
# Two nests, and rows of different lengths, whose cycles the schedule doesn't tell.
ROWS = """
void f(const float x[40], float y[40], float z[40])
{
  for (int i = 0; i < 40; i++) {
    y[i] = 0;
    for (int k = 0; k < 40 - i; k++)
      y[i] += x[k] * x[i + k];
  }
  for (int i = 1; i < 39; i++)
    z[i] = 0.25f * y[i - 1] + 0.5f * y[i] + 0.25f * y[i + 1];
}
"""
SEEDS = [pytest.param(s, marks=() if s in (0, 1, 2, 5) else pytest.mark.slow) for s in range(80)]


def _cycles(path: Path, text: str, target: Target, options: Options) -> list[int]:
    """By off, vector and full; each result is right."""
    path.write_text(text, encoding="utf-8")
    results = [run_file(str(path), target, Options(rewrite=m, tile=options.tile, fp=options.fp)) for m in REWRITE_MODES]
    assert all(r.verified for r in results)
    return [r.cycles for r in results]


@pytest.mark.parametrize("text", [NARROW, pytest.param(ROWS, marks=pytest.mark.slow)], ids=["narrow", "rows"])
def test_more_rules_are_no_slower(text: str, tmp_path: Path, ft_m7002: Target) -> None:
    off, vector, full = _cycles(tmp_path / "kernel.c", text, ft_m7002, Options())
    assert full <= vector <= off


@pytest.mark.parametrize("seed", SEEDS)
def test_random_kernels_are_no_slower_with_more_rules(seed: int, tmp_path: Path, ft_m7002: Target) -> None:
    rng = random.Random(f"modes {seed}")
    kernel = random_kernel(rng, branches=False)
    while any(kernel.given):
        # Without sizes there is nothing to compare candidates by but the model.
        kernel = random_kernel(rng, branches=False)
    options = Options(tile="one" if seed % 2 else "search", fp="strict" if seed % 5 == 4 else "reassoc")
    try:
        off, vector, full = _cycles(tmp_path / "kernel.c", kernel.text, ft_m7002, options)
    except (DspgenError, PlantError):
        return
    assert full <= vector <= off, kernel.text
