"""Straight code made to fit the registers: dependences that keep values apart in time.

An order of the operations that needs no more registers than there are is given, and each value, in that order, the
register that has been free for the longest. What reads a register's old value then goes before what writes its next
one, as in the serialising arcs of Touati ("Register saturation in instruction level parallelism", 2005). All schedules
of the block with these dependences fit; they are far from being in the given order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence

from dspgen.sched.machine.group_limits import bits
from dspgen.sched.straight.instance import Version

Edge = tuple[int, int, int]  # from, to, latency


def serial_edges(
    order: Sequence[int], versions: Sequence[Version], room: Mapping[str, int], classes: Collection[str]
) -> list[Edge]:
    """Dependences that keep the values of some classes within `room`, if the order does; `order` lists all operations.

    Where the order needs more, so do these dependences.
    """
    free: dict[str, deque[Version | None]] = {cls: deque([None] * room[cls]) for cls in classes}
    left = [version.readers.bit_count() for version in versions]
    made: dict[int, list[int]] = {}
    read: dict[int, list[int]] = {}
    for v, version in enumerate(versions):
        if version.cls not in free:
            continue
        if version.writer >= 0:
            made.setdefault(version.writer, []).append(v)
        elif free[version.cls]:
            free[version.cls].popleft()
        for k in bits(version.readers):
            read.setdefault(k, []).append(v)
    edges = []
    for k in order:
        for v in read.get(k, ()):
            left[v] -= 1
            if not left[v] and not versions[v].outlives:
                free[versions[v].cls].append(versions[v])
        for v in made.get(k, ()):
            version = versions[v]
            slots = free[version.cls]
            old = slots.popleft() if slots else None
            if old is not None:
                edges += [(s, k, latency - version.landing) for s, latency in _ends(old) if s != k]
            if not left[v] and not version.outlives:
                slots.append(version)
    return edges


def _ends(version: Version) -> list[tuple[int, int]]:
    """Operations, and how many cycles after their issue the value's register can have another."""
    if version.readers:
        return [(k, 1) for k in bits(version.readers)]
    return [(version.writer, version.landing + 1)]
