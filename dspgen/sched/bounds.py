"""Lower bounds on straight code: longest paths tightened by what the units can do.

Langevin and Cerny ("A recursive technique for computing lower-bound performance of schedules", 1996): the earliest
cycle of an operation is the shortest relaxed schedule of all that comes before it, operation by operation; the relaxed
schedule (Rim and Jain, 1994) keeps releases, paths and one set of units, and forgets the rest. Here over every set of
units that some operations must share, and from the block's end backwards as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from dspgen.sched.instance import Instance

_NEVER = -(1 << 30)
MOST_SETS = 48
_LARGEST = 256  # operations, beyond which only paths and whole sets of units count

Work = tuple[int, int]  # an operation, and cycles after its issue


@dataclass(frozen=True, slots=True)
class UnitSet:
    """Units (0: the issue slots), how many there are, and the work that only they can do."""

    mask: int
    count: int
    work: tuple[Work, ...]


@dataclass(slots=True)
class Bounds:
    """`earliest[k]` from the block's start, `latest[k]` back from its end; no schedule is shorter than `length`."""

    sets: tuple[UnitSet, ...]
    earliest: list[int]
    latest: list[int]
    length: int


def bounds_of(instance: Instance) -> Bounds:
    sets = unit_sets(instance)
    size = instance.size
    earliest, latest = list(instance.release), list(instance.slack)
    for k in range(size):
        earliest[k] = max([earliest[k], *(earliest[s] + latency for s, latency in instance.predecessors[k])])
    for k in range(size - 1, -1, -1):
        latest[k] = max([latest[k], *(latest[t] + latency for t, latency in instance.successors[k])])
    if size <= _LARGEST:
        _tighten(instance, sets, earliest, latest)
    length = max([instance.least, *(e + back for e, back in zip(earliest, latest, strict=True))])
    while not feasible(instance, sets, earliest, latest, length):
        length += 1
    return Bounds(sets, earliest, latest, length)


def unit_sets(instance: Instance) -> tuple[UnitSet, ...]:
    """Unions of the operations' alternatives that overlap, each extra resource, and the issue slots."""
    work: dict[int, list[Work]] = {}
    for k, reservation in enumerate(instance.reservations):
        if reservation.alternatives:
            mask = sum(1 << u for u in reservation.alternatives)
            work.setdefault(mask, []).extend((k, at) for at in range(reservation.busy))
        for resource, first, count in reservation.extras:
            work.setdefault(1 << resource, []).extend((k, at) for at in range(first, first + count))
    unions: dict[int, None] = {}
    for mask in work:
        for other in list(unions):
            if other & mask and len(unions) < MOST_SETS:
                unions[other | mask] = None
        unions[mask] = None
    found = [
        UnitSet(
            union,
            union.bit_count(),
            tuple(sorted(w for mask, some in work.items() if mask & ~union == 0 for w in some)),
        )
        for union in unions
    ]
    every = 0
    for mask in work:
        every |= mask
    if instance.issue < every.bit_count():
        found.append(UnitSet(0, instance.issue, tuple((k, 0) for k in range(instance.size))))
    return tuple(found)


def feasible(
    instance: Instance, sets: Sequence[UnitSet], earliest: Sequence[int], latest: Sequence[int], length: int
) -> bool:
    """Whether each set of units can do its work in time, one cycle's worth after the other."""
    taken = instance.taken(length)
    if taken is None:
        return False
    masks, issued = taken
    for units in sets:
        work = sorted((earliest[k] + at, length - latest[k] + at) for k, at in units.work)
        full = [(m & units.mask).bit_count() for m in masks] if units.mask else issued
        if _lateness(work, units.count, full) > 0:
            return False
    return all(e + back <= length for e, back in zip(earliest, latest, strict=True))


def _lateness(work: Sequence[tuple[int, int]], count: int, full: Sequence[int]) -> int:
    """The least delay of pieces of (release, deadline), sorted, on `count` units, of which `full` are taken."""
    worst = _NEVER
    waiting: list[int] = []
    cycle, k = 0, 0
    while k < len(work) or waiting:
        if not waiting:
            cycle = max(cycle, work[k][0])
        while k < len(work) and work[k][0] <= cycle:
            heappush(waiting, work[k][1])
            k += 1
        for _ in range(count - (full[cycle] if cycle < len(full) else 0)):
            if not waiting:
                break
            worst = max(worst, cycle - heappop(waiting))
        cycle += 1
    return worst


def _tighten(instance: Instance, sets: Sequence[UnitSet], earliest: list[int], latest: list[int]) -> None:
    size = instance.size
    paths = longest_paths(instance)
    full = [
        [(m & units.mask).bit_count() for m in instance.before] if units.mask else instance.before_issued
        for units in sets
    ]
    for k in range(size):
        for s, latency in instance.predecessors[k]:
            earliest[k] = max(earliest[k], earliest[s] + latency)
        for units, occupied in zip(sets, full, strict=True):
            work = [(earliest[s] + at, at - paths[s][k]) for s, at in units.work if s < k and paths[s][k] > _NEVER]
            if len(work) > 1:
                earliest[k] = max(earliest[k], _lateness(sorted(work), units.count, occupied))
    full = [
        [(m & units.mask).bit_count() for m in instance.behind] if units.mask else instance.behind_issued
        for units in sets
    ]
    for k in range(size - 1, -1, -1):
        for t, latency in instance.successors[k]:
            latest[k] = max(latest[k], latest[t] + latency)
        for units, occupied in zip(sets, full, strict=True):
            work = [(latest[t] - at, -at - paths[k][t]) for t, at in units.work if t > k and paths[k][t] > _NEVER]
            if len(work) > 1:
                latest[k] = max(latest[k], _lateness(sorted(work), units.count, occupied))


def longest_paths(instance: Instance) -> list[list[int]]:
    """For each operation the longest path to each later one; far below zero where there is none."""
    size = instance.size
    paths = [[_NEVER] * size for _ in range(size)]
    for k in range(size - 1, -1, -1):
        row = paths[k]
        for t, latency in instance.successors[k]:
            row[t] = max(row[t], latency)
            for later, length in enumerate(paths[t]):
                if length > _NEVER and length + latency > row[later]:
                    row[later] = length + latency
    return paths
