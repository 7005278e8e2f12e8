"""Verbs that put a statement somewhere else: after and compute_at."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from plant_core.ir.accesses import all_bufs
from plant_core.ir.func import Comp
from plant_core.ir.names import fresh
from plant_core.ir.scheduled import Scheduled
from plant_core.schedule.legality import check
from plant_core.schedule.memory_conflicts import IN, OUT, facts_of, lifted_domain, truncated
from plant_core.schedule.verbs.time_maps import (
    Names,
    bad,
    chosen,
    dims,
    make_room,
    moved,
    positions,
    statement_of,
    time_map,
)
from plant_core.support.location import IllegalSchedule


def after(scheduled: Scheduled, name: Names, other: str, loop: str | None) -> Scheduled:
    """Put a statement after another one, in the other's loop `loop`; None: after all of the other's loops.

    The statement's outermost loops, down to that depth, become the other's, whatever they are called.

    Before: `for (i) for (j) S(i, j); for (i) for (j) T(i, j);`
    After `after(s, "T", "S", "i")`: `for (i) { for (j) S(i, j); for (j) T(i, j); }`
    """
    place = scheduled.nest(other)
    depth = -1 if loop is None else place.depth(loop)
    dim = 2 * depth + 2
    moving = chosen(scheduled, name)
    for nest in moving:
        if nest.name == other:
            raise bad(statement_of(scheduled, other), f"{other} can't be put after itself", "name another statement")
        if len(nest.loops) <= depth:
            raise bad(
                statement_of(scheduled, nest.name),
                f"{nest.name} has {len(nest.loops)} loops, too few to go into the loop '{loop}' of {other}",
                f"at least {depth + 1} are needed",
            )
    fixed = []
    for k in range(0, dim, 2):
        found = positions(scheduled, place, k)
        if len(found) > 1:
            raise bad(
                statement_of(scheduled, other),
                f"the loop '{place.loops[k // 2]}' of {other} is in several parts",
                "put the statement there before the loop is separated",
            )
        fixed += found
    last = max(positions(scheduled, place, dim), default=0)
    scheduled = make_room(scheduled, [place], dim, [last])
    for nest in moving:
        nest = scheduled.nest(nest.name)
        before = dims(nest.relation.dim(OUT))
        result = [str(fixed[k // 2]) if k < dim and k % 2 == 0 else d for k, d in enumerate(before)]
        result[dim] = str(last + 1)
        scheduled = scheduled.with_nest(moved(nest, time_map(before, result), nest.loops))
    check(scheduled)
    return scheduled


def compute_at(scheduled: Scheduled, producer: str, consumer: str, loop: str, *, overlapped: bool = True) -> Scheduled:
    """Compute what the consumer reads of the producer inside the consumer's loop, just before it is used.

    What several iterations of the loop read is computed again in each of them, which makes them independent (overlapped
    tiles); `overlapped=False` refuses that. Instances that nothing reads are dropped where their array is local.

    Before: `for (i < n + 2) P(i); for (t) for (i < 32) C(32*t + i);`, C(i) reading P(i) to P(i + 2)
    After `compute_at(s, "P", "C", "t")`: `for (t) { for (i < 34) P(32*t + i); for (i < 32) C(32*t + i); }`
    """
    statement = statement_of(scheduled, producer)
    target = scheduled.nest(consumer)
    depth = target.depth(loop)
    facts = facts_of(scheduled)
    if facts.data:
        remedy = "move it with after"
        raise bad(statement, "compute_at can't tell what is read where loop bounds are read from memory", remedy)
    if producer == consumer or not isinstance(statement, Comp):
        raise bad(statement, f"{producer} can't be computed where {consumer} needs it", "name two different statements")
    needed = [d for d in facts.dependences if (d.kind, d.source, d.sink) == ("flow", producer, consumer)]
    if not needed:
        raise bad(statement, f"{consumer} doesn't read what {producer} computes", "name a statement that reads it")
    dim = 2 * depth + 2
    first = min(positions(scheduled, target, dim))
    scheduled = make_room(scheduled, [target], dim, [first - 1])
    target, nest = scheduled.nest(consumer), scheduled.nest(producer)
    reads = needed[0].relation
    for dependence in needed[1:]:
        reads = reads.union(dependence.relation)
    times = target.relation.set_tuple_name(IN, consumer)
    prefix = reads.apply_range(
        truncated(times.intersect_domain(lifted_domain(scheduled.func, statement_of(scheduled, consumer), ())), dim)
    )
    if not overlapped and not prefix.is_single_valued():
        raise IllegalSchedule(
            f"several iterations of '{loop}' read the same values of {producer}",
            loc=statement.loc,
            code="DG201",
            remedy="compute them in a loop further out, or allow overlap (overlapped=True)",
        )
    scheduled = _without_unread(scheduled, producer, consumer, prefix.domain())
    own = nest.relation.set_tuple_name(IN, producer)
    if not own.intersect_domain(lifted_domain(scheduled.func, statement, ())).is_single_valued():
        raise bad(statement, f"{producer} is computed in several places already", "move it once only")
    before = dims(own.dim(OUT))
    inside = own.apply_range(time_map(before, [str(first), *before[1:]]))
    loops = list(target.loops[: depth + 1])
    renamed: dict[str, str] = {}
    for old in nest.loops:
        renamed[old] = fresh(old, loops)
        loops.append(renamed[old])
    changed = replace(
        nest,
        relation=prefix.flat_range_product(inside).coalesce(),
        loops=tuple(loops),
        tags=tuple((renamed[n], mark) for n, mark in nest.tags),
        options=tuple((renamed[n], mark) for n, mark in nest.options),
    )
    scheduled = scheduled.with_nest(changed)
    check(scheduled)
    return scheduled


def _without_unread(scheduled: Scheduled, producer: str, consumer: str, needed: isl.Set) -> Scheduled:
    """Drop the producer's instances outside of `needed`; IllegalSchedule where anything uses them."""
    facts = facts_of(scheduled)
    comp = scheduled.func.comp(producer)
    rest = lifted_domain(scheduled.func, comp, ()).subtract(needed)
    if rest.is_empty():
        return scheduled
    readers = [
        d.sink
        for d in facts.dependences
        if d.kind == "flow" and d.source == producer and not d.relation.domain().is_disjoint(rest)
    ]
    if readers or all_bufs(scheduled.func)[comp.target.buf].kind == "param":
        who = f"{readers[0]} reads" if readers else "the function returns"
        raise IllegalSchedule(
            f"{who} values of {producer} that {consumer} doesn't",
            loc=comp.loc,
            code="DG201",
            remedy="leave the statement outside, or store its values in an array of its own",
        )
    less = replace(comp, domain=comp.domain.set_tuple_name(producer).intersect(needed).coalesce())
    func = scheduled.func.with_comps(tuple(less if c.name == producer else c for c in scheduled.func.comps))
    origin = scheduled.origin
    if origin is not None:
        origin = replace(origin, func=func)
    return replace(scheduled, func=func, origin=origin)
