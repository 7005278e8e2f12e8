"""The cycles that linear assembly takes at least: never more than its schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from dspgen.driver.pipeline import compile_file
from dspgen.options import Options
from dspgen.sched.graph.lower_bound import Hopes, TooSlow, least_cycles
from dspgen.sched.scheduler import schedule
from dspgen.target.load import load_target

EXAMPLES = Path(__file__).parents[2] / "examples"
TARGET = load_target("ft_m7002")


@pytest.mark.parametrize("name", ["saxpy", "stencil3", "matvec"])
@pytest.mark.parametrize("tile", ["search", "one"])
def test_no_schedule_takes_less(name: str, tile: Literal["search", "one"]) -> None:
    target = load_target("ft_m7002")
    compiled = compile_file(str(EXAMPLES / f"{name}.c"), target, Options(tile=tile))
    least = least_cycles(compiled.assembly, target)
    assert compiled.scheduled.cycles is not None
    assert 0 < least <= compiled.scheduled.cycles


@pytest.mark.parametrize("name", ["fir", "matvec", "stencil3"])
def test_a_limit_stops_schedules_that_take_about_as_many_cycles(name: str) -> None:
    compiled = compile_file(str(EXAMPLES / f"{name}.c"), TARGET, Options())
    cycles = compiled.scheduled.cycles
    assert cycles is not None
    loops = sum(r.ii * r.trip / r.unroll for r in compiled.scheduled.loops if r.pipelined and r.trip)
    assert loops, "nothing to stop at"
    with pytest.raises(TooSlow) as caught:
        schedule(compiled.assembly, TARGET, limit=loops / 2)
    assert loops / 2 <= caught.value.cycles <= cycles
    assert schedule(compiled.assembly, TARGET, limit=2 * cycles).cycles == schedule(compiled.assembly, TARGET).cycles


def test_hopes_count_the_best_known_interval_of_each_loop() -> None:
    found = Hopes(100.0, {"a": 10, "b": 20}, {"a": 10.0, "b": 20.0})
    found.check("a", 2, 6)  # ten iterations, two of them in six cycles
    assert found.least == {"a": 30.0, "b": 20.0}
    found.check("c", 1, 1000)  # of unknown trip
    with pytest.raises(TooSlow) as caught:
        found.check("b", 1, 4)
    assert caught.value.cycles == 110
