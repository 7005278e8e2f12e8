"""Operations of straight code as late as the rest allows, where that frees registers: the length stays as it is.

Before: a constant is made in the first cycle, wherever it is read.   After: just before its first reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from dspgen.asmir.ir.function import VReg
from dspgen.sched.graph.dependence_graph import Graph
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.reservation_table import ReservationTable
from dspgen.sched.machine.target_facts import Atom, Facts

_WHOLE = 5040  # what all registers of a class are worth for a cycle
_FEW = 2  # operations of a packet that are tried elsewhere
_NEAR = 6  # cycles that they go at most


@dataclass(frozen=True, slots=True)
class Values:
    """Values of straight code by number: what each is worth for a cycle, what all that an operation makes are worth
    together, and which ones it reads."""

    worth: list[int]
    made: list[int]
    read: list[list[int]]


def sink(
    ops: Sequence[Op], graph: Graph, cycles: list[int], latest: Sequence[int], table: ReservationTable, values: Values
) -> None:
    """Move operations in `cycles` and `table`, none beyond its `latest` cycle."""
    size = len(ops)
    worth = values.worth
    # Of each value the cycle of the last of its readers that have been looked at; the others are no later than the
    # next operation to be looked at.
    last = [-1] * len(worth)
    for k in sorted(range(size), key=lambda k: (-cycles[k], -k)):
        here = cycles[k]
        freed = values.made[k]
        if freed:
            late = latest[k]
            for t, latency, _ in graph.successors[k]:
                if t < size and cycles[t] - latency < late:
                    late = cycles[t] - latency
            if late > here:
                late = _worthwhile(freed, [(last[v], worth[v]) for v in values.read[k] if worth[v]], here, late)
            if late > here:
                table.remove(k)
                cycles[k] = table.place_back(k, late, here, ops[k].reservation)
        for v in values.read[k]:
            if last[v] < cycles[k]:
                last[v] = cycles[k]


def gather(
    ops: Sequence[Op],
    graph: Graph,
    cycles: list[int],
    window: tuple[Sequence[int], Sequence[int]],
    table: ReservationTable,
    fixed: Collection[int],
) -> None:
    """Move the operations of packets that have few to other packets nearby, so that there are fewer packets. Each has a
    `window` of cycles, and in the cycles in `fixed` there is something anyway."""
    size = len(ops)
    count = Counter(cycles)
    for at in sorted(count, key=lambda cycle: (count[cycle], cycle)):
        members = [k for k in range(size) if cycles[k] == at]
        if at in fixed or len(members) > _FEW or not all(ops[k].reservation.simple for k in members):
            continue
        moved: list[int] = []
        for k in members:
            early = [cycles[s] + latency for s, latency, _ in graph.predecessors[k] if s < size]
            late = [cycles[t] - latency for t, latency, _ in graph.successors[k] if t < size]
            low, high = max([window[0][k], at - _NEAR, *early]), min([window[1][k], at + _NEAR, *late])
            others = (c for c in range(low, high + 1) if c != at and (c in fixed or count[c] > 0))
            table.remove(k)
            for to in sorted(others, key=lambda c: (c < at, abs(c - at))):
                if table.place(k, to, ops[k].reservation):
                    cycles[k] = to
                    moved.append(k)
                    break
            else:
                for back in moved:
                    table.remove(back)
                for back in (*moved, k):
                    cycles[back] = table.place_from(back, at, ops[back].reservation)
                break
        else:
            count[at] = 0
            count.update(cycles[k] for k in members)


def _worthwhile(freed: int, held: Sequence[tuple[int, int]], here: int, late: int) -> int:
    """The last cycle up to `late` in which an operation, issued in `here` so far, frees more than what it reads takes:
    values by the cycle to which they are held anyway, and their worth. The gain is concave: any cycle before is better
    than none too."""
    if freed <= sum(worth for until, worth in held if until <= here):
        return here
    while late > here:
        cost = 0
        for until, worth in held:
            if until < late:
                cost += worth * (late - (until if until > here else here))
        if freed * (late - here) > cost:
            return late
        late -= 1
    return here


def values_of(ops: Sequence[Op], facts: Facts) -> Values:
    """The values of straight code; tied writes go on with the value that was there."""
    current: dict[Atom, int] = {}
    found = Values([], [], [])
    value = _worth(facts)
    for op in ops:
        read = []
        for atom, _ in op.reads:
            if atom not in current:
                current[atom] = len(found.worth)
                found.worth.append(value(atom))
            read.append(current[atom])
        made = 0
        for atom, _ in op.writes:
            if atom not in op.tied:
                current[atom] = len(found.worth)
                found.worth.append(value(atom))
                made += found.worth[-1]
        found.made.append(made)
        found.read.append(read)
    return found


def _worth(facts: Facts) -> Callable[[Atom], int]:
    """What a cycle of a register is worth: the fewer its class has, the more. One of the machine's own is one of its
    class: what the caller left in it may have to be moved out before others can use it."""
    of_class = {c.name: _WHOLE // max(1, len(set(c.names) - facts.untouchable)) for c in facts.target.registers}
    of_name = {n: of_class[c.name] for c in facts.target.registers if c.pair_of is None for n in c.names}

    def worth(atom: Atom) -> int:
        register = atom[0]
        if isinstance(register, VReg):
            return of_class[facts.counted_as(register.cls)]
        return of_name.get(register, 0)

    return worth
