"""The cycles that linear assembly takes at least: never more than its schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from dspgen.options import Options
from dspgen.pipeline import compile_file
from dspgen.sched.least import least_cycles
from dspgen.target.load import load_target

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["saxpy", "stencil3", "matvec"])
@pytest.mark.parametrize("tile", ["search", "one"])
def test_no_schedule_takes_less(name: str, tile: Literal["search", "one"]) -> None:
    target = load_target("ft_m7002")
    compiled = compile_file(str(EXAMPLES / f"{name}.c"), target, Options(tile=tile))
    least = least_cycles(compiled.assembly, target)
    assert compiled.scheduled.cycles is not None
    assert 0 < least <= compiled.scheduled.cycles
