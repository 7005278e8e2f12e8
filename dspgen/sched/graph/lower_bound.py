"""The cycles that a function takes at least, told before it is scheduled, and while it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dspgen.asmir.ir.function import Function, If, Instr, Item, Jump, Loop, Mark
from dspgen.sched.graph.unroll import instructions, is_innermost
from dspgen.sched.machine.reservation_table import busiest, resource_bound
from dspgen.sched.machine.target_facts import Facts, Reservation
from dspgen.target.isa.model import Target


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


class TooSlow(Exception):
    """With the intervals that were found for its loops, a function takes about `cycles`: more than are of use."""

    def __init__(self, cycles: float) -> None:
        super().__init__(cycles)
        self.cycles = cycles


@dataclass(slots=True)
class Hopes:
    """Whether a function may still take fewer than `limit` cycles: `runs` tells how often the body of each of its
    innermost loops is run, `least` how many cycles all these runs take at least, as far as is known; `bounds` the same
    by its units alone."""

    limit: float
    runs: dict[str, int] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)

    def forget(self, label: str) -> None:
        """What was found for a loop no longer holds."""
        if label in self.bounds:
            self.least[label] = self.bounds[label]

    def check(self, label: str, factor: int, interval: int) -> None:
        """Raises TooSlow where `factor` iterations of a loop in so many cycles are too many."""
        if label in self.runs:
            before = self.least.get(label, 0.0)
            self.least[label] = max(before, self.runs[label] * interval / factor)
            cycles = sum(self.least.values())
            if cycles >= self.limit:
                raise TooSlow(cycles)


def hopes(body: Sequence[Item], limit: float, facts: Facts) -> Hopes:
    """For a function that is of use with fewer than `limit` cycles. Its loops may still become straight code, which
    takes no fewer cycles, but for what is done beside it."""
    found = Hopes(limit)
    for loop, times in _innermost(body, 1):
        bound = resource_bound([facts.reservation(i.instruction) for i in instructions(loop.body)], facts)
        found.runs[loop.label] = times
        found.least[loop.label] = found.bounds[loop.label] = float(bound * times)
    return found


def _innermost(items: Iterable[Item], times: int) -> Iterator[tuple[Loop, int]]:
    for item in items:
        match item:
            case Loop(trip=int(trip)) if is_innermost(item):
                yield item, times * trip
            case Loop(trip=int(trip), body=body):
                yield from _innermost(body, times * trip)
            case Loop() | If() | Instr():
                pass
            case Mark() | Jump():
                return


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
