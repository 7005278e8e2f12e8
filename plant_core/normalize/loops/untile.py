"""Loops over strips of others, which the author of a program cut for another machine, undone.

Before: for ii from 0 to n - 1 by 32: for k: for i from ii to min(ii + 31, n - 1): y[i] += a[i][k] * x[k];
After:  for k: for i from 0 to n - 1: y[i] += a[i][k] * x[k];

A loop goes whose iteration an inner iterator tells, if no statement asks for it, but for subscripts that count on from
there, and all dependences hold without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.analysis.dependence import memory_dependences
from plant_core.analysis.symbolic_offsets import iterators_of
from plant_core.ir.accesses import all_bufs, children, is_integer, read_accesses, rebuild
from plant_core.ir.func import Buf, Comp, Expr, Func, Iter, Load
from plant_core.ir.time_2d1 import (
    Line,
    Loop,
    Position,
    common_loops,
    every_loop,
    from_zero,
    position,
    schedule_map,
    shared_depth,
)


def untiled(func: Func, *, reassoc: bool) -> Func:
    """`func` without loops over strips.

    Requires: 2d+1 schedules. Ensures: the same instances, in an order in which each reads what it did before, up to the
    reassociation of sums where `reassoc`.
    """
    if func.effects or any(c.defines for c in func.comps):
        return func
    for loop in every_loop(common_loops(func)):
        merged = {name: found for name, _ in loop.members if (found := _merged(func.comp(name), loop)) is not None}
        if len(merged) == len(loop.members) and _are_alone(func, loop) and _in_order(func, merged, loop.depth, reassoc):
            comps = tuple(merged[c.name].comp if c.name in merged else c for c in func.comps)
            return untiled(func.with_comps(comps), reassoc=reassoc)
    return func


@dataclass(frozen=True, slots=True)
class _Merged:
    """A statement without a loop; `change`: from its iterations before to those now."""

    comp: Comp
    change: isl.Map


def _are_alone(func: Func, loop: Loop) -> bool:
    """Whether all statements in a loop share the next one, so that nothing else comes between its iterations."""
    return len({position(func.comp(name)).constants[loop.depth + 1] for name, _ in loop.members}) == 1


def _merged(comp: Comp, loop: Loop) -> _Merged | None:
    """A statement without the loop; None where others don't tell its iteration, or something asks for it."""
    depth, outer = loop.depth, comp.iters[loop.depth]
    place = position(comp)
    if len(comp.iters) < depth + 2 or place.loops[depth] != Line(0, ((outer, 1),)) or not _is_tied(comp, depth):
        return None
    change = comp.domain.identity()
    if _asks(comp, outer):
        ways = (_from_start(comp, depth, inner) for inner in range(depth + 1, len(comp.iters)))
        if (found := next((way for way in ways if way is not None), None)) is None:
            return None
        comp, change = found.comp, found.change
    change = change.apply_range(_without(comp, depth))
    if not change.is_injective():
        return None
    made = replace(comp, iters=(*comp.iters[:depth], *comp.iters[depth + 1 :]), domain=change.range().coalesce())
    for k, name in enumerate(made.iters):
        made = replace(made, domain=made.domain.set_dim_name(isl.dim_type.set, k, name))
    constants = (*place.constants[: depth + 1], *place.constants[depth + 2 :])
    without = Position(constants, (*place.loops[:depth], *place.loops[depth + 1 :]))
    length = comp.schedule.range().dim(isl.dim_type.set)
    schedule = schedule_map(made, without, length).intersect_domain(made.domain)
    return _Merged(replace(made, schedule=schedule), change)


def _is_tied(comp: Comp, depth: int) -> bool:
    """Whether the iterations of an inner loop depend on those of one."""
    return any(
        constraint.involves_dims(isl.dim_type.set, depth, 1)
        and constraint.involves_dims(isl.dim_type.set, depth + 1, len(comp.iters) - depth - 1)
        for piece in comp.domain.get_basic_sets()
        for constraint in piece.get_constraints()
    )


def _without(comp: Comp, depth: int) -> isl.Map:
    """From iterations to what they are without one of the loops."""
    dropped = comp.domain.identity().project_out(isl.dim_type.out, depth, 1)
    return dropped.set_tuple_name(isl.dim_type.out, comp.name)


def _asks(comp: Comp, name: str) -> bool:
    """Whether a statement reads an iterator."""
    return name in {*iterators_of(comp.target), *iterators_of(comp.value)}


def _from_start(comp: Comp, depth: int, inner: int) -> _Merged | None:
    """The statement with an inner iterator that counts on from where the strip begins, where nothing asks for the strip
    then."""
    outer, name = comp.iters[depth], comp.iters[inner]
    if position(comp).loops[inner] != Line(0, ((name, 1),)):
        return None
    made = from_zero(comp, inner, (0, {outer: -1}))
    if _asks(made, outer):
        return None
    after = ", ".join(f"{name} + {outer}" if k == inner else n for k, n in enumerate(comp.iters))
    change = isl.Map(f"{{ {comp.name}[{', '.join(comp.iters)}] -> {comp.name}[{after}] }}")
    return _Merged(made, change.intersect_domain(comp.domain))


def _in_order(func: Func, merged: Mapping[str, _Merged], depth: int, reassoc: bool) -> bool:
    """Whether all dependences hold without the loop at this depth. Variables that each iteration of the next one writes
    before it reads them pass nothing on."""
    private = {b.name: common for b in func.bufs if (common := _private(func, b)) > depth + 1}
    bufs, apart = all_bufs(func), func.with_comps(tuple(_with_own(c, private) for c in func.comps))
    for d in memory_dependences(apart):
        if not {d.source, d.sink} & merged.keys() or d.buf in private:
            continue
        if d.reduction and (reassoc or is_integer(bufs[d.buf].dtype)):
            continue
        relation = d.relation
        if d.source in merged:
            relation = relation.apply_domain(merged[d.source].change)
        if d.sink in merged:
            relation = relation.apply_range(merged[d.sink].change)
        first, second = (merged[n].comp if n in merged else func.comp(n) for n in (d.source, d.sink))
        if not relation.is_subset(first.schedule.lex_lt_map(second.schedule)):
            return False
    return True


def _private(func: Func, buf: Buf) -> int:
    """The loops round all that touches a variable, if each iteration of the innermost writes it first; else 0."""
    touching = [c for c in func.comps if any(a.buf == buf.name for a in (c.target, *read_accesses(c)))]
    if buf.kind != "local" or buf.shape or not touching:
        return 0
    places = {c.name: position(c) for c in touching}
    common = min(shared_depth(places[touching[0].name], p) for p in places.values())
    first = min(touching, key=lambda c: places[c.name].constants)
    reads = any(a.buf == buf.name for a in read_accesses(first))
    if first.target.buf != buf.name or reads or len(first.iters) != common:
        return 0
    written = first.domain.reset_tuple_id()
    for comp in touching:
        domain = comp.domain.reset_tuple_id().project_out(isl.dim_type.set, common, len(comp.iters) - common)
        if not domain.is_subset(written):
            return 0
    return common


def _with_own(comp: Comp, private: Mapping[str, int]) -> Comp:
    """A statement with an element of such variables for each iteration."""

    def own(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.buf in private:
            return replace(expr, indices=tuple(Iter(name) for name in comp.iters[: private[expr.buf]]))
        parts = tuple(own(p) for p in children(expr))
        return rebuild(expr, parts) if parts else expr

    target = own(comp.target)
    assert isinstance(target, Load)
    return replace(comp, target=target, value=own(comp.value))
