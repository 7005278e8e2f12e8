"""Loops that begin and end at minima, maxima and quotients of others: right on every machine, or refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dspgen.errors import DspgenError
from dspgen.options import Options
from dspgen.pipeline import run_file
from dspgen.target.load import load_target
from tests.generators.bounds import random_bounds

MACHINES = ("ft_mt3000", "ft_m7002", "ft_lite", "hexagon_v66", "broad", "few", "quad", "scalar")
QUICK, ALL = 4, 200
SEEDS = [pytest.param(s, marks=() if s < QUICK else pytest.mark.slow) for s in range(ALL)]


def run_bounds(seed: int, path: Path, root: Path) -> str | None:
    """Compile and run a random nest; the refusal, if it is one."""
    name = MACHINES[seed % len(MACHINES)]
    isa = root / "tests" / "isa" / f"{name}.toml"
    path.write_text(random_bounds(random.Random(seed)), encoding="utf-8")
    target = load_target(str(isa) if isa.exists() else name)
    far = target.dma is not None and seed // len(MACHINES) % 2 == 1
    options = Options(data="ddr" if far else "onchip", tile="one" if seed % 3 else "search")
    try:
        result = run_file(str(path), target, options)
    except DspgenError as refusal:
        assert all(p.loc is not None and p.remedy for p in refusal.problems), (path.read_text(), str(refusal))
        return str(refusal)
    assert result.verified, (name, path.read_text(encoding="utf-8"), result.details)
    return None


@pytest.mark.parametrize("seed", SEEDS)
def test_random_bounds(seed: int, tmp_path: Path, root: Path) -> None:
    run_bounds(seed, tmp_path / "kernel.c", root)


@pytest.mark.parametrize("machine", [*MACHINES[:3], pytest.param("hexagon_v66", marks=pytest.mark.slow)])
def test_halves_and_borders(machine: str, tmp_path: Path) -> None:
    """Rows of two iterations, at both ends of one."""
    path = tmp_path / "kernel.c"
    path.write_text(
        "void kernel(const int a[8], const int w[4], int o[16])\n{\n  for (int y = 0; y < 16; y++)\n"
        "    for (int r = 0; r < 4; r++)\n      if ((y + 1 - r) % 2 == 0 && y + 1 - r >= 0 && y + 1 - r < 16)\n"
        "        o[y] += a[(y + 1 - r) / 2] * w[r];\n}\n"
    )
    result = run_file(str(path), load_target(machine), Options(rewrite="off"))
    assert result.verified, result.details
