"""Sums in a variable that ends up in an element of an array are made in that element.

Before: for i, j: { s = 0; for k: s = s + a[i][k] * b[k][j]; c[i][j] = s; }
After:  for i, j: { c[i][j] = 0; for k: c[i][j] = c[i][j] + a[i][k] * b[k][j]; }
and of elements that are updated so, whatever is done at last:
Before: for i, j < i: { s = c[i][j]; for k < j: s = s - c[i][k] * c[k][j]; c[i][j] = s / c[j][j]; }
After:  for i, j < i: { for k < j: c[i][j] = c[i][j] - c[i][k] * c[k][j]; c[i][j] = c[i][j] / c[j][j]; }
Requires: 2d+1 schedules of unit steps. Ensures: the same contents of every parameter.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.ir.accesses import access_key, access_map, children, linear, read_accesses, rebuild, substitute
from plant_core.ir.func import Comp, Expr, Func, Iter, Load
from plant_core.ir.time_2d1 import Line, Position, position


def sums_in_place(func: Func, *, updates: bool) -> Func:
    """The function without the variables that start in each iteration, are added to, and are then stored in an element
    that nothing else in the nest touches, or, with `updates`, nothing meanwhile. A variable may do so in several
    loops."""
    if func.effects:
        return func
    places = {c.name: position(c) for c in func.comps}
    for buf in func.bufs:
        if buf.kind == "local" and not buf.shape:
            for region in _regions(func, buf.name, places):
                if _can_be_there(func, buf.name, region, places, updates=updates):
                    comps = itertools.chain.from_iterable(_there(c, buf.name, region) for c in func.comps)
                    func = func.with_comps(tuple(comps))
    used = {a.buf for c in func.comps for a in (c.target, *read_accesses(c))}
    return replace(func, bufs=tuple(b for b in func.bufs if b.kind != "local" or b.shape or b.name in used))


@dataclass(frozen=True, slots=True)
class _Region:
    """The statements that write a variable in the iterations of some loops, in their order, and the one that reads it
    at last."""

    writers: tuple[Comp, ...]
    last: Comp

    @property
    def start(self) -> Comp:
        return self.writers[0]

    @property
    def updates(self) -> bool:
        """Whether the variable starts as the element that it ends up in."""
        renamed: dict[str, Expr] = {a: Iter(b) for a, b in zip(self.start.iters, self.last.iters, strict=True)}
        value = substitute(self.start.value, renamed)
        return isinstance(value, Load) and access_key(value) == access_key(self.last.target)


def _regions(func: Func, name: str, places: Mapping[str, Position]) -> list[_Region]:
    """Those of a variable; none where they aren't apart."""
    mine = [c for c in func.comps if c.target.buf == name]
    last = [c for c in func.comps if c.target.buf != name and any(a.buf == name for a in read_accesses(c))]
    found: list[_Region] = []
    for comp in last:
        depth, here = len(comp.iters), places[comp.name].constants
        inside = [c for c in mine if len(c.iters) >= depth and places[c.name].constants[:depth] == here[:depth]]
        inside.sort(key=lambda c: places[c.name].constants[depth])
        if not inside:
            return []
        found.append(_Region(tuple(inside), comp))
    # One that two regions share, or none has, hands its value on to where nothing would find it.
    written = [c.name for r in found for c in r.writers]
    return found if sorted(written) == sorted(c.name for c in mine) else []


def _can_be_there(func: Func, name: str, region: _Region, places: Mapping[str, Position], *, updates: bool) -> bool:
    """Whether the variable may be the element that it is stored in at last."""
    bufs = {b.name: b for b in func.bufs}
    last, writers, start = region.last, region.writers, region.start
    depth, target = len(last.iters), last.target
    if not depth or bufs[target.buf].dtype != bufs[name].dtype or any(c.defines for c in (*writers, last)):
        return False
    if len(start.iters) != depth or name in {a.buf for a in read_accesses(start)}:
        return False
    if not (isinstance(last.value, Load) and last.value.buf == name) and not (updates and region.updates):
        return False
    forms = [linear(index) for index in target.indices]
    told = {n for f in forms if f is not None for n in f[1]}
    if any(f is None for f in forms) or not (set(last.iters) <= told or (updates and region.updates)):
        return False
    here = places[last.name]
    if any(len(line.terms) != 1 or line.constant for line in here.loops):
        return False
    renamed = [dict(zip(last.iters, c.iters, strict=False)) for c in writers]
    for comp, names in zip(writers, renamed, strict=True):
        there = places[comp.name]
        same = (Line(0, ((names[line.terms[0][0]], line.terms[0][1]),)) for line in here.loops)
        if tuple(same) != there.loops[:depth]:
            return False
        if there.constants[depth] >= here.constants[depth] or not _outer(comp, depth).is_subset(_outer(last, depth)):
            return False
    if sum(places[c.name].constants[depth] == places[start.name].constants[depth] for c in writers) > 1:
        return False
    if not _outer(last, depth).is_subset(_outer(start, depth)):
        return False
    if not updates:
        nest = [c for c in func.comps if places[c.name].constants[0] == here.constants[0] and c is not last]
        return all(a.buf != target.buf for c in nest for a in (c.target, *read_accesses(c)))
    return not any(_meets(c, a, last) for c, a in _meanwhile(func, region, places))


def _meanwhile(func: Func, region: _Region, places: Mapping[str, Position]) -> Iterator[tuple[Comp, Load]]:
    """The accesses to the element's array, in one iteration of the loops, that would find it changed early."""
    last, start = region.last, region.start
    depth, end = len(last.iters), places[last.name].constants
    first = places[start.name].constants[depth]
    for comp in func.comps:
        at = places[comp.name].constants
        if len(comp.iters) < depth or at[:depth] != end[:depth] or not first <= at[depth] <= end[depth]:
            continue
        reads = () if comp is start else read_accesses(comp)
        for access in (*reads, *(() if comp is last else (comp.target,))):
            if access.buf == last.target.buf:
                yield comp, access


def _meets(comp: Comp, access: Load, last: Comp) -> bool:
    """Whether an access may be to the element of the same iteration of the loops round the `last` statement."""
    depth = len(last.iters)
    touched, exact = access_map(comp, access)
    stored, certain = access_map(last, last.target)
    if not exact or not certain:
        return True
    touched = touched.project_out(isl.dim_type.in_, depth, len(comp.iters) - depth)
    names = touched.set_tuple_name(isl.dim_type.in_, ""), stored.set_tuple_name(isl.dim_type.in_, "")
    return not names[0].intersect(names[1]).is_empty()


def _outer(comp: Comp, depth: int) -> isl.Set:
    """The iterations of the loops round it down to a depth."""
    domain = comp.domain.project_out(isl.dim_type.set, depth, len(comp.iters) - depth)
    return domain.set_tuple_name("")


def _there(comp: Comp, name: str, region: _Region) -> tuple[Comp, ...]:
    """The comp with the element in the variable's place, if it is one of the region's; nothing where that only stores
    what is there."""
    last = region.last
    if comp is last:
        here = isinstance(comp.value, Load) and comp.value.buf == name
        return () if here else (replace(comp, value=_instead(comp.value, name, comp.target)),)
    if not any(comp is c for c in region.writers):
        return (comp,)
    if comp is region.start and region.updates:
        return ()
    renamed = {old: Iter(new) for old, new in zip(last.iters, comp.iters, strict=False)}
    indices = tuple(substitute(index, renamed) for index in last.target.indices)
    place = replace(last.target, indices=indices)
    target = replace(place, loc=comp.target.loc)
    return (replace(comp, target=target, value=_instead(comp.value, name, place)),)


def _instead(expr: Expr, name: str, place: Load) -> Expr:
    if isinstance(expr, Load) and expr.buf == name:
        return replace(place, loc=expr.loc)
    parts = tuple(_instead(p, name, place) for p in children(expr))
    return rebuild(expr, parts) if parts else expr
