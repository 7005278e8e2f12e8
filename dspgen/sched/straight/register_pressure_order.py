"""An order of straight code that stays within the registers: urgent operations first while there is room, and where a
class of registers runs short, those that free some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dspgen.asmir.ir.function import VReg
from dspgen.sched.graph.dependence_graph import Graph
from dspgen.sched.graph.liveness import Live
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.target_facts import Atom, Facts
from dspgen.sched.straight.instance import Version

_MANY = 4  # registers of a class that an operation may write
_SPARE = 32  # one register in so many (and one more) is kept back: landings and pairs do not fit perfectly


@dataclass(slots=True)
class _Versions:
    """`made[k]` and `read[k]` are the versions that operation k defines and reads; each has a class, and a second one
    if it is a predicate, and is counted down as its readers go, except those that outlive the block."""

    made: list[list[int]]
    read: list[list[int]]
    classes: list[tuple[str, ...]]
    remaining: list[int]
    live: dict[str, int]


def frugal_order(
    ops: Sequence[Op], graph: Graph, heights: Sequence[int], facts: Facts, after: Live, room: Mapping[str, int]
) -> list[int]:
    """The position of each operation; `after` are the atoms read later, `room` the registers there are."""
    size = len(ops)
    versions = _versions(ops, facts, after)
    waiting = [sum(1 for s, _, _ in graph.predecessors[k] if s < size) for k in range(size)]
    ready = [k for k in range(size) if waiting[k] == 0]
    position = [0] * size
    limits = {cls: room.get(cls, 0) - 1 - room.get(cls, 0) // _SPARE for cls in versions.live}
    bit = {cls: 1 << at for at, cls in enumerate(versions.live)}
    touched = [0] * size  # classes, as bit sets
    for k, read in enumerate(versions.read):
        for version in (*read, *versions.made[k]):
            for cls in versions.classes[version]:
                touched[k] |= bit[cls]
    readers: list[list[int]] = [[] for _ in versions.classes]
    for k, read in enumerate(versions.read):
        for version in read:
            readers[version].append(k)
    change: list[tuple[tuple[str, int], ...] | None] = [None] * size  # see `_change`; None where it is not known
    for step in range(size):
        short = 0
        for cls, used in versions.live.items():
            if used * 4 > limits[cls] * 3 or used + _MANY > limits[cls]:
                short |= bit[cls]
        # Registers over the limit; then what is taken of classes that are short, and how soon a reader could follow;
        # then urgency.
        best = 1 << 30, 0, 0, 0, 0
        for k in ready:
            over = tight = soon = 0
            if short & touched[k]:
                if (changed := change[k]) is None:
                    changed = change[k] = _change(k, versions)
                over, tight = _crowding(changed, versions, limits)
                if over > best[0] or (over == best[0] and tight > best[1]):
                    continue
                if over or tight:
                    soon = min((waiting[t] for t, _, _ in graph.successors[k] if t < size), default=0)
            if (over, tight, soon, -heights[k], k) < best:
                best = over, tight, soon, -heights[k], k
        op = best[-1]
        ready.remove(op)
        position[op] = step
        for version in versions.read[op]:
            versions.remaining[version] -= 1
            if versions.remaining[version] == 0:
                for cls in versions.classes[version]:
                    versions.live[cls] -= 1
            elif versions.remaining[version] == 1:
                for reader in readers[version]:
                    change[reader] = None
        for version in versions.made[op]:
            if versions.remaining[version]:
                for cls in versions.classes[version]:
                    versions.live[cls] += 1
        for target, _, _ in graph.successors[op]:
            if target < size:
                waiting[target] -= 1
                if waiting[target] == 0:
                    ready.append(target)
    return position


def _change(op: int, versions: _Versions) -> tuple[tuple[str, int], ...]:
    """How many registers of each class an operation takes, less those that it frees."""
    change: dict[str, int] = {}
    for version in versions.read[op]:
        if versions.remaining[version] == 1:
            for cls in versions.classes[version]:
                change[cls] = change.get(cls, 0) - 1
    for version in versions.made[op]:
        if versions.remaining[version]:
            for cls in versions.classes[version]:
                change[cls] = change.get(cls, 0) + 1
    return tuple(change.items())


def _crowding(change: Sequence[tuple[str, int]], versions: _Versions, limits: Mapping[str, int]) -> tuple[int, int]:
    """Registers over the limit, and what is taken of classes that are short."""
    over = tight = 0
    for cls, amount in change:
        limit, used = limits[cls], versions.live[cls]
        if amount > 0 and used + amount > limit:
            over += used + amount - limit
        if used * 4 > limit * 3:
            tight += amount
    return over, tight


def _versions(ops: Sequence[Op], facts: Facts, after: Live) -> _Versions:
    current: dict[Atom, int] = {}
    found = _Versions([], [], [], [], {})
    predicates = {op.predicate.register: facts.predicate_class(op.predicate.lane) for op in ops if op.predicate}

    def new(atom: Atom) -> int:
        found.classes.append(classes_of(atom[0]))
        found.remaining.append(0)
        current[atom] = len(found.classes) - 1
        return current[atom]

    def classes_of(register: VReg | str) -> tuple[str, ...]:
        if not isinstance(register, VReg):
            own = facts.counted_at((register, ""))
            return (own,) if own else ()
        special = predicates.get(register)
        return (facts.counted_as(register.cls), *(() if special is None else (special,)))

    starts = []
    for op in ops:
        read: dict[int, None] = {}
        for atom, _ in op.reads:
            if facts.counted_at(atom):
                if atom not in current:
                    starts.append(new(atom))
                read[current[atom]] = None
        for version in read:
            found.remaining[version] += 1
        found.read.append(list(read))
        found.made.append([new(a) for a, _ in op.writes if facts.counted_at(a)])
    before = set(starts)
    for atom, version in current.items():
        if atom in after or (isinstance(atom[0], str) and version not in before):
            found.remaining[version] += 1 << 30
    passing = (register for register, part in after if (register, part) not in current)
    for classes in (*(found.classes[version] for version in starts), *map(classes_of, passing)):
        for cls in classes:
            found.live[cls] = found.live.get(cls, 0) + 1
    for cls in (cls for classes in found.classes for cls in classes):
        found.live.setdefault(cls, 0)
    return found


def versions_of(ops: Sequence[Op], facts: Facts, after: Live) -> tuple[list[Version], dict[str, int]]:
    """The values that are in registers at some time, and the registers of each class that only pass through."""
    found = _versions(ops, facts, after)
    landing = {
        version: (k, facts.landing(latency))
        for k, (op, made) in enumerate(zip(ops, found.made, strict=True))
        for version, latency in zip(made, (n for a, n in op.writes if facts.counted_at(a)), strict=True)
    }
    readers = [0] * len(found.classes)
    for k, read in enumerate(found.read):
        for version in read:
            readers[version] |= 1 << k
    versions = [
        Version(cls, *landing.get(v, (-1, 0)), readers[v], found.remaining[v] >= 1 << 30)
        for v, classes in enumerate(found.classes)
        for cls in classes
    ]
    through = dict(found.live)
    for v, classes in enumerate(found.classes):
        for cls in classes if v not in landing else ():
            through[cls] -= 1
    return versions, through
