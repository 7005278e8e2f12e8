"""Random nests whose accesses run under conditions give what C gives, on every machine."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dspgen.driver.pipeline import run_file
from dspgen.errors import DspgenError
from dspgen.options import Options
from dspgen.target.load import isa_names, load_target
from tests.generators.conditional import TYPES, random_conditional
from tests.support.random_isa import FOLDER

QUICK, ALL = 5, 400
NUMBERS = ("int", "int", "float")  # what every machine has
MACHINES = (*isa_names(), *sorted(str(path) for path in FOLDER.glob("*.toml")))
SEEDS = [pytest.param(seed, marks=() if seed < QUICK else pytest.mark.slow) for seed in range(ALL)]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_conditional_nests(seed: int, tmp_path: Path) -> None:
    target = load_target(MACHINES[seed % len(MACHINES)])
    path = tmp_path / "kernel.c"
    types = TYPES if seed // len(MACHINES) % 2 else NUMBERS
    path.write_text(random_conditional(random.Random(seed), types), encoding="utf-8")
    far = target.dma is not None and seed % 3 == 1
    options = Options(data="ddr" if far else "onchip", tile=("search", "one")[seed % 2], tiler="model")
    try:
        result = run_file(str(path), target, options)
    except DspgenError as refusal:
        assert all(problem.remedy for problem in refusal.problems), (path.read_text(encoding="utf-8"), str(refusal))
        return
    assert result.verified, (path.read_text(encoding="utf-8"), target.name, result.details)
