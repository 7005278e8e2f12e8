"""Kernels that nobody tuned for: each computes what the C program computes, or is refused with a reason."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dspgen.driver.pipeline import run_file
from dspgen.errors import DspgenError
from dspgen.options import Options
from dspgen.target.isa.model import Target
from plant_core.support.location import PlantError
from tests.generators.nests import Features, random_program
from tests.support.unusual import KERNELS

FEATURES = (
    Features(),
    Features(types=("float", "int", "double")),
    Features(types=("float", "double", "int", "unsigned int", "short", "unsigned short")),
)
SEEDS = [pytest.param(s, marks=() if s < 6 else pytest.mark.slow) for s in range(200)]
# What this machine has no way to do: bytes in memory, 64-bit integers; and one C that is refused.
REFUSED = {"ll", "llsum", "img8", "symb2"}
# One of each kind of fault that was ever found, and a few more.
QUICK = {
    "axpy_double", "scalarin", "extremes_17", "quotients", "empty",
    "zeroall", "matmul_3", "triangle_17", "rev_bad", "guardmod", "every_other", "img8",
    "arr9",
}  # fmt: skip
NAMED = [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in KERNELS]


def right_or_refused(path: Path, text: str, given: dict[str, int], target: Target, options: Options) -> bool:
    """Whether it compiled; false if it was refused."""
    path.write_text(text, encoding="utf-8")
    try:
        result = run_file(str(path), target, options, inputs=given)
    except (DspgenError, PlantError):
        return False
    assert result.verified, (text, result.details)
    assert result.bound_cycles <= result.cycles
    return True


@pytest.mark.parametrize("seed", SEEDS)
def test_random_program(seed: int, tmp_path: Path, ft_m7002: Target) -> None:
    program = random_program(random.Random(seed), FEATURES[seed % len(FEATURES)])
    options = Options(fp="strict" if seed % 5 == 4 else "reassoc")
    right_or_refused(tmp_path / "kernel.c", program.text, program.given, ft_m7002, options)


@pytest.mark.parametrize("name", NAMED)
def test_unusual_kernel(name: str, tmp_path: Path, ft_m7002: Target) -> None:
    text, given = KERNELS[name]
    compiled = right_or_refused(tmp_path / "kernel.c", text, given, ft_m7002, Options())
    assert compiled == (name not in REFUSED and "char" not in name)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_unusual_kernel_strict(name: str, tmp_path: Path, ft_m7002: Target) -> None:
    text, given = KERNELS[name]
    right_or_refused(tmp_path / "kernel.c", text, given, ft_m7002, Options(fp="strict"))
