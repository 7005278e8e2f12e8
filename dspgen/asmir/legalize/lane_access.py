"""Where the lanes of an access lie in memory, and which contiguous accesses together hold them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from dspgen.vecdsl.ir.program import Const, Load, Op, Store, Term, VType

Allowed = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Group:
    """Lanes that one contiguous access from element `start` (from the access's address) serves."""

    start: int
    lanes: tuple[int, ...]


def flags(group: Group, lanes: int) -> Op:
    """The vector with 1 in a group's lanes and 0 elsewhere."""
    parts = tuple(Const(int(lane in group.lanes), VType("i32", False)) for lane in range(lanes))
    return Op("vec", parts, VType("i32", True))


def lane_offsets(access: Load | Store, lanes: int) -> tuple[int, ...]:
    """Each lane's element, counted from the access's address; an index not included."""
    if not access.period:
        return tuple(k * access.stride for k in range(lanes))
    return tuple(k % access.period * access.stride + k // access.period * access.jump for k in range(lanes))


def in_place(offsets: Sequence[int], allowed: Allowed, lanes: Iterable[int] | None = None) -> list[Group] | None:
    """Accesses in which each lane's element lies in that lane; None where one isn't allowed."""
    found: dict[int, list[int]] = {}
    for lane in range(len(offsets)) if lanes is None else sorted(lanes):
        found.setdefault(offsets[lane] - lane, []).append(lane)
    if not all(allowed(start) for start in found):
        return None
    return [Group(start, tuple(members)) for start, members in found.items()]


def shuffled(offsets: Sequence[int], lanes: int, allowed: Allowed) -> list[Group] | None:
    """Few accesses that hold every lane's element somewhere; None where there are none that are allowed."""
    return target_groups(offsets, lanes, allowed, range(len(offsets)))


def target_groups(offsets: Sequence[int], lanes: int, allowed: Allowed, members: Iterable[int]) -> list[Group] | None:
    """As `shuffled`, for some of the lanes. Each access begins at the lowest element not yet held, or as much before it
    as must be."""
    left = sorted(members, key=lambda k: offsets[k])
    groups: list[Group] = []
    while left:
        first = offsets[left[0]]
        start = next((first - back for back in range(lanes) if allowed(first - back)), None)
        if start is None:
            return None
        here = [k for k in left if offsets[k] < start + lanes]
        groups.append(Group(start, tuple(sorted(here))))
        left = left[len(here) :]
    return groups


def dealt(plain: Load, load: Load, groups: Sequence[Group], lanes: int, bound: Callable[[Term], Term]) -> Term:
    """Each lane takes its element from one of the loads, by shuffles that merge one load after the other."""
    windows = [bound(replace(plain, address=load.address.plus(g.start))) for g in groups]
    offsets = lane_offsets(load, lanes)
    result, taken = windows[0], set(groups[0].lanes)
    first = tuple(offsets[k] - groups[0].start if k in taken else -1 for k in range(lanes))
    if len(groups) == 1:
        return Op("shuffle2", (result, result), load.type, first)
    pattern = first
    for window, group in zip(windows[1:], groups[1:], strict=True):
        here = {k: lanes + offsets[k] - group.start for k in group.lanes if k not in taken}
        merged = tuple(here.get(k, pattern[k]) for k in range(lanes))
        result = bound(Op("shuffle2", (result, window), load.type, merged))
        taken |= set(group.lanes)
        pattern = tuple(k if k in taken else -1 for k in range(lanes))
    return result
