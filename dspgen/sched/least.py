"""The cycles that a function takes at least, told before it is scheduled: what its units have to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dspgen.asmir.ir import Function, If, Instr, Item, Jump, Loop, Mark
from dspgen.sched.facts import Facts, Reservation
from dspgen.sched.machine import busiest
from dspgen.target.model import Target


def least_cycles(function: Function, target: Target) -> int:
    """The cycles in which the units can issue each instruction as often as it surely runs: not those of conditionals
    and of loops of unknown trips. Latencies, counters, and what registers cost come on top."""
    facts = Facts(target)
    times: dict[Reservation, int] = {}
    for instr, count in _runs(function.body, 1):
        reservation = facts.reservation(instr.instruction)
        times[reservation] = times.get(reservation, 0) + count
    bound, _ = busiest(times, facts)
    return -(-bound.numerator // bound.denominator)


def _runs(items: Iterable[Item], times: int) -> Iterator[tuple[Instr, int]]:
    for item in items:
        match item:
            case Instr():
                yield item, times
            case Loop(trip=int(trip), body=body):
                yield from _runs(body, times * trip)
            case Loop() | If():
                pass
            case Mark() | Jump():
                return
