"""Operations of straight code as late as the rest allows, where that frees registers: the length stays as it is.

Before: a constant is made in the first cycle, wherever it is read.   After: just before its first reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dspgen.asmir.ir import VReg
from dspgen.sched.ddg import Graph
from dspgen.sched.facts import Atom, Facts
from dspgen.sched.machine import ReservationTable
from dspgen.sched.ops import Op

_WHOLE = 5040  # what all registers of a class are worth for a cycle


@dataclass(slots=True)
class _Value:
    """`last` is the cycle of the last of its readers that have been looked at; the others are no later than the next
    operation to be looked at."""

    worth: int
    last: int = -1


def sink(
    ops: Sequence[Op], graph: Graph, cycles: list[int], latest: Sequence[int], table: ReservationTable, facts: Facts
) -> None:
    """Move operations in `cycles` and `table`, none beyond its `latest` cycle."""
    made, read = _values(ops, facts)
    size = len(ops)
    for k in sorted(range(size), key=lambda k: (-cycles[k], -k)):
        here = cycles[k]
        late = min([latest[k], *(cycles[t] - latency for t, latency, _ in graph.successors[k] if t < size)])
        freed = sum(v.worth for v in made[k])
        if late > here and freed:
            table.remove(k)
            for at in range(late, here - 1, -1):
                if at > here and freed * (at - here) <= _held(read[k], here, at):
                    continue
                if table.place(k, at, ops[k].reservation):
                    cycles[k] = at
                    break
        for value in read[k]:
            value.last = max(value.last, cycles[k])


def _held(values: Sequence[_Value], here: int, at: int) -> int:
    """What it costs that values are read by an operation in `at` instead of `here`."""
    return sum(value.worth * max(0, at - max(here, value.last)) for value in values)


def _values(ops: Sequence[Op], facts: Facts) -> tuple[list[list[_Value]], list[list[_Value]]]:
    """What each operation makes, and what it reads; tied writes go on with the value that was there."""
    current: dict[Atom, _Value] = {}
    made: list[list[_Value]] = []
    read: list[list[_Value]] = []
    worth = _worth(facts)
    for op in ops:
        made.append([])
        read.append([])
        for atom, _ in op.reads:
            value = current.setdefault(atom, _Value(worth(atom)))
            read[-1].append(value)
        for atom, _ in op.writes:
            if atom not in op.tied:
                current[atom] = _Value(worth(atom))
                made[-1].append(current[atom])
    return made, read


def _worth(facts: Facts) -> Callable[[Atom], int]:
    """What a cycle of a register is worth: the fewer its class has, the more. One of the machine's own is one of its
    class: what the caller left in it may have to be moved out before others can use it."""
    of_class = {c.name: _WHOLE // max(1, len(set(c.names) - facts.untouchable)) for c in facts.target.registers}
    of_name = {n: of_class[c.name] for c in facts.target.registers if c.pair_of is None for n in c.names}

    def worth(atom: Atom) -> int:
        register = atom[0]
        if isinstance(register, VReg):
            return of_class[facts.classes[register.cls].pair_of or register.cls]
        return of_name.get(register, 0)

    return worth
