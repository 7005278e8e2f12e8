"""The present order of a Scheduled: made the one that defines its meaning, and given room for new statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import islpy as isl

from plant_core.ir.func import Func
from plant_core.ir.scheduled import Nest, Scheduled, padded
from plant_core.schedule.memory.isl_expressions import values_at


def length_of(scheduled: Scheduled) -> int:
    return max((n.relation.dim(isl.dim_type.out) for n in scheduled.nests), default=0)


def rebased(scheduled: Scheduled, func: Func, nests: tuple[Nest, ...]) -> Scheduled:
    """`func` run in the order of `nests`, which from here on is what it means.

    Ensures: each statement's own `schedule` is that order too, so that every reader of the Func sees it.
    """
    order = {n.name: n for n in nests}
    length = max((n.relation.dim(isl.dim_type.out) for n in nests), default=0)

    def schedule(name: str, domain: isl.Set) -> isl.Map:
        relation = padded(order[name].relation, length).intersect_domain(domain.set_tuple_name(name))
        return relation.coalesce()

    comps = tuple(replace(c, schedule=schedule(c.name, c.domain)) for c in func.comps)
    effects = tuple(replace(e, schedule=schedule(e.name, e.domain)) for e in func.effects)
    func = replace(func, comps=comps, effects=effects)
    nests = (*(order[c.name] for c in comps), *(order[e.name] for e in effects))
    return Scheduled(func, nests, scheduled.reassoc, Scheduled(func, nests, scheduled.reassoc))


def with_slots(
    nests: tuple[Nest, ...],
    level: int,
    before: Mapping[int, int],
    after: Mapping[int, int],
    inside: Callable[[Nest], bool] = lambda _: True,
) -> tuple[tuple[Nest, ...], dict[int, int]]:
    """Positions at time dimension `level` renumbered from 0, with `before[p]` free ones before p, `after[p]` after it.

    Ensures: the order of statements is as it was. Returns the nests and where each old position is now; the free ones
    are the numbers next to it.
    """
    present: set[int] = set(before) | set(after)
    for nest in nests:
        if nest.relation.dim(isl.dim_type.out) > level and inside(nest):
            present |= set(values_at(nest.relation.range(), level))
    place: dict[int, int] = {}
    following = 0
    for value in sorted(present):
        following += before.get(value, 0)
        place[value] = following
        following += 1 + after.get(value, 0)
    if all(old == new for old, new in place.items()):
        return nests, place
    moved = []
    for nest in nests:
        count = nest.relation.dim(isl.dim_type.out)
        if count > level and inside(nest):
            nest = replace(nest, relation=nest.relation.apply_range(_renumber(count, level, place)).coalesce())
        moved.append(nest)
    return tuple(moved), place


def _renumber(count: int, level: int, place: Mapping[int, int]) -> isl.Map:
    names = [f"t{k}" for k in range(count)]
    head = ", ".join(names)
    pieces = []
    for old, new in place.items():
        out = ", ".join(str(new) if k == level else name for k, name in enumerate(names))
        pieces.append(f"[{head}] -> [{out}] : {names[level]} = {old}")
    return isl.Map("{ " + "; ".join(pieces) + " }")
