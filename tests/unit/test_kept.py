"""How much stays in memory of code that was made: it doesn't grow with how often that is done."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from pathlib import Path

import pytest

from dspgen.driver.pipeline import compile_file
from dspgen.options import Options
from dspgen.sched.machine.target_facts import LoopSchedules
from dspgen.sim.ir.memory import MemoryMap
from dspgen.target.load import isa_names, load_target

TEXT = "void k(const int a[64], int y[64]) { for (int i = 0; i < 64; i++) y[i] += a[i]; }\n"
MOST = 1_000  # objects for each more, once a few machines are known; their garbage alone was fourteen times as many


def test_the_next_machine_s_code_takes_the_place_of_the_last_one_s(tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.write_text(TEXT, encoding="utf-8")
    target, options = load_target("ft_lite"), Options(tile="one", rewrite="off")
    kept = []
    for _ in range(9):
        compile_file(str(path), replace(target), options)
        kept.append(len(gc.get_objects()))
    assert kept[-1] - kept[-4] < 3 * MOST, kept


def test_numbers_of_loops_are_not_given_twice() -> None:
    schedules = LoopSchedules()
    first = schedules.number("a")
    assert schedules.number("a") == first != schedules.number("b")
    schedules.drop()
    assert len({first, schedules.number("b"), schedules.number("a")}) == 3


@pytest.mark.parametrize("isa", isa_names())
def test_memories_go_with_their_last_user(isa: str) -> None:
    """Those of a machine are megabytes, but few objects, so that garbage is seldom looked for."""
    memories = MemoryMap.of(load_target(isa))
    known = weakref.ref(memories)
    gc.disable()
    try:
        del memories
        assert known() is None
    finally:
        gc.enable()
