"""Loop bodies that are alike for modulo scheduling: their schedules are made once."""

from __future__ import annotations

from unittest.mock import patch

from dspgen.asmir.ir.function import Loop
from dspgen.sched.graph.budget import Budget
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.loops import loop_body as prepared
from dspgen.sched.loops.loop_body import HEURISTICS, prepare, scheduled, sparing
from dspgen.sched.machine.modulo_schedule import ModuloSchedule
from dspgen.sched.machine.target_facts import Facts
from dspgen.target.load import load_target
from tests.unit.test_sched_loops import matrix_product

TARGET = load_target("ft_m7002")
INTERVALS = 8


def product_loop(rows: int, depth: int) -> Loop:
    return next(i for i in matrix_product(TARGET, rows, 2, depth).body if isinstance(i, Loop))


def schedules(loop: Loop, facts: Facts) -> list[list[int] | str | None]:
    """The cycles that all heuristics find at some intervals, as they are, with less waiting, and with scalars made
    late."""
    kit, found = Kit(facts), list[list[int] | str | None]()
    ready = prepare(loop, facts, kit, set(), set())
    for interval in range(ready.least_interval, ready.least_interval + INTERVALS):
        for number in range(2 * len(HEURISTICS)):
            for less in (False, True):
                made = scheduled(ready, interval, number, facts, Budget(), less=less, closing=kit.closing)
                if isinstance(made, str):
                    found.append(made)
                    continue
                found.append(list(made.cycles))
                late = sparing(ready, made, TARGET.abi.scalar_class, facts, key=(interval, number, less))
                found.append(late.cycles if isinstance(late, ModuloSchedule) else None)
    return found


def test_alike_bodies_are_scheduled_once() -> None:
    """Of several functions, too: what is found is what is found without others before it; another body has schedules
    of its own."""
    asked: list[int] = []

    def counted(number: int):  # type: ignore[no-untyped-def]
        def find(*given, **how):  # type: ignore[no-untyped-def]
            asked.append(number)
            return HEURISTICS[number](*given, **how)

        return find

    facts = Facts(TARGET)
    with patch.object(prepared, "HEURISTICS", tuple(map(counted, range(len(HEURISTICS))))):
        first = schedules(product_loop(2, 16), facts)
        number = len(asked)
        assert number and schedules(product_loop(2, 24), Facts(TARGET)) == first
        assert len(asked) == number
        other = schedules(product_loop(3, 16), facts)
        assert len(asked) > number
    assert other == schedules(product_loop(3, 16), Facts(TARGET))
    assert first == schedules(product_loop(2, 24), Facts(TARGET))
