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

import numpy as np

from dspgen.sched.straight.instance import Instance

_NEVER = -(1 << 30)
MOST_SETS = 48
_LARGEST = 256  # operations, beyond which only paths and whole sets of units count

Work = tuple[int, int]  # an operation, and cycles after its issue


@dataclass(frozen=True, slots=True)
class UnitSet:
    """Units (0: the issue slots), how many may work at once, and the work that only they can do."""

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
    length = _first_in_time(instance, sets, earliest, latest, length)
    while not feasible(instance, sets, earliest, latest, length):
        length += 1
    return Bounds(sets, earliest, latest, length)


def _first_in_time(
    instance: Instance, sets: Sequence[UnitSet], earliest: Sequence[int], latest: Sequence[int], length: int
) -> int:
    """The first length from this one on at which each set of units does its work in time; whether the ends clash is
    not asked. The ends leave no less room before any cycle of a longer block, so that the length can be halved in on.
    """
    works = [sorted((earliest[k] + at, at - latest[k]) for k, at in units.work) for units in sets]

    def in_time(length: int) -> bool:
        masks, issued = instance.overlaid(length)
        for units, work in zip(sets, works, strict=True):
            full = [(m & units.mask).bit_count() for m in masks] if units.mask else issued
            if _lateness(work, units.count, full) > length:
                return False
        return True

    low, step = length, 1
    while not in_time(low + step - 1):
        low, step = low + step, 2 * step
    high = low + step - 1  # in time; all before `low` are not
    while low < high:
        middle = (low + high) // 2
        if in_time(middle):
            high = middle
        else:
            low = middle + 1
    return high


def unit_sets(instance: Instance) -> tuple[UnitSet, ...]:
    """Unions of the operations' alternatives that overlap, each extra resource, packets' limits, the issue slots."""
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
    for limited, most in instance.limits.groups:
        starts = tuple((k, 0) for k, r in enumerate(instance.reservations) if r.units and not r.units & ~limited)
        found.append(UnitSet(limited << instance.limits.shift, most, starts))
    if instance.few_slots:
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
    offsets = [_offsets(units) for units in sets]
    before = _full(sets, instance.before, instance.before_issued)
    into: list[list[tuple[int, int]]] = [[] for _ in range(size)]
    for s, row in enumerate(paths):
        for t, path in enumerate(row):
            if path > _NEVER:
                into[t].append((s, path))
    for k in range(size):
        for s, latency in instance.predecessors[k]:
            earliest[k] = max(earliest[k], earliest[s] + latency)
        for units, own, occupied in zip(sets, offsets, before, strict=True):
            work = [(earliest[s] + at, at - path) for s, path in into[k] if s in own for at in own[s]]
            if len(work) > (1 if any(occupied) else units.count):
                earliest[k] = max(earliest[k], _lateness(sorted(work), units.count, occupied))
    behind = _full(sets, instance.behind, instance.behind_issued)
    for k in range(size - 1, -1, -1):
        for t, latency in instance.successors[k]:
            latest[k] = max(latest[k], latest[t] + latency)
        row = paths[k]
        after = [(t, path) for t, path in enumerate(row) if path > _NEVER]
        for units, own, occupied in zip(sets, offsets, behind, strict=True):
            work = [(latest[t] - at, -at - path) for t, path in after if t in own for at in own[t]]
            if len(work) > (1 if any(occupied) else units.count):
                latest[k] = max(latest[k], _lateness(sorted(work), units.count, occupied))


def _offsets(units: UnitSet) -> dict[int, list[int]]:
    """The cycles after its issue in which each operation works on these units."""
    found: dict[int, list[int]] = {}
    for k, at in units.work:
        found.setdefault(k, []).append(at)
    return found


def _full(sets: Sequence[UnitSet], masks: Sequence[int], issued: Sequence[int]) -> list[Sequence[int]]:
    """For each set how many of its units are taken, cycle by cycle."""
    return [[(m & units.mask).bit_count() for m in masks] if units.mask else issued for units in sets]


def longest_paths(instance: Instance) -> list[list[int]]:
    """For each operation the longest path to each later one; far below zero where there is none."""
    size = instance.size
    paths = np.full((size, size), _NEVER)
    for k in range(size - 1, -1, -1):
        row = paths[k]
        for t, latency in instance.successors[k]:
            np.maximum(row, paths[t] + latency, out=row)
            row[t] = max(row[t], latency)
    paths[paths < _NEVER // 2] = _NEVER
    found: list[list[int]] = paths.tolist()
    return found
