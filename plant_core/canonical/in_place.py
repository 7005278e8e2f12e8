"""Sums in a variable that ends up in an element of an array are made in that element.

Before: for i, j: { s = 0; for k: s = s + a[i][k] * b[k][j]; c[i][j] = s; }
After:  for i, j: { c[i][j] = 0; for k: c[i][j] = c[i][j] + a[i][k] * b[k][j]; }
Requires: 2d+1 schedules of unit steps. Ensures: the same contents of every parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import islpy as isl

from plant_core.affine import children, linear, read_accesses, rebuild, substitute
from plant_core.ir import Comp, Expr, Func, Iter, Load
from plant_core.schedule import Line, Position, position


def sums_in_place(func: Func) -> Func:
    """The function without the variables that start in each iteration, are added to, and are then stored in an element
    that nothing else in the nest touches."""
    if func.effects:
        return func
    places = {c.name: position(c) for c in func.comps}
    gone: set[str] = set()
    for buf in func.bufs:
        if buf.kind != "local" or buf.shape:
            continue
        mine = [c for c in func.comps if c.target.buf == buf.name]
        others = (c for c in func.comps if c.target.buf != buf.name)
        last = [c for c in others if any(a.buf == buf.name for a in read_accesses(c))]
        if len(last) == 1 and _can_be_there(func, buf.name, mine, last[0], places):
            kept = (c for c in func.comps if c is not last[0])
            comps = (_there(c, buf.name, last[0]) if c.target.buf == buf.name else c for c in kept)
            gone.add(buf.name)
            func = func.with_comps(tuple(comps))
    return replace(func, bufs=tuple(b for b in func.bufs if b.name not in gone)) if gone else func


def _can_be_there(func: Func, name: str, writers: Sequence[Comp], last: Comp, places: Mapping[str, Position]) -> bool:
    """Whether the variable may be the element that the `last` comp stores it in."""
    bufs = {b.name: b for b in func.bufs}
    depth, target = len(last.iters), last.target
    if not isinstance(last.value, Load) or last.value.buf != name:
        return False
    if not depth or bufs[target.buf].dtype != bufs[name].dtype or any(c.defines for c in (*writers, last)):
        return False
    forms = [linear(index) for index in target.indices]
    if any(f is None for f in forms) or not set(last.iters) <= {n for f in forms if f is not None for n in f[1]}:
        return False
    here = places[last.name]
    plain = all(line == Line(0, ((n, 1),)) for line, n in zip(here.loops, last.iters, strict=True))
    if not plain or not writers:
        return False
    for comp in writers:
        there = places[comp.name]
        if len(comp.iters) < depth or there.constants[:depth] != here.constants[:depth]:
            return False
        if any(line != Line(0, ((n, 1),)) for line, n in zip(there.loops[:depth], comp.iters, strict=False)):
            return False
        if there.constants[depth] >= here.constants[depth] or not _outer(comp, depth).is_subset(_outer(last, depth)):
            return False
    start = min(writers, key=lambda c: places[c.name].constants[depth])
    if len(start.iters) != depth or name in {a.buf for a in read_accesses(start)}:
        return False
    if sum(places[c.name].constants[depth] == places[start.name].constants[depth] for c in writers) > 1:
        return False
    if not _outer(last, depth).is_subset(_outer(start, depth)):
        return False
    nest = [c for c in func.comps if places[c.name].constants[0] == here.constants[0] and c is not last]
    return all(c.target.buf != target.buf and all(a.buf != target.buf for a in read_accesses(c)) for c in nest)


def _outer(comp: Comp, depth: int) -> isl.Set:
    """The iterations of the loops round it down to a depth."""
    domain = comp.domain.project_out(isl.dim_type.set, depth, len(comp.iters) - depth)
    return domain.set_tuple_name("")


def _there(comp: Comp, name: str, last: Comp) -> Comp:
    """The comp with the element in the variable's place."""
    renamed = {old: Iter(new) for old, new in zip(last.iters, comp.iters, strict=False)}
    indices = tuple(substitute(index, renamed) for index in last.target.indices)
    place = replace(last.target, indices=indices)
    target = replace(place, loc=comp.target.loc)
    return replace(comp, target=target, value=_instead(comp.value, name, place))


def _instead(expr: Expr, name: str, place: Load) -> Expr:
    if isinstance(expr, Load) and expr.buf == name:
        return replace(place, loc=expr.loc)
    parts = tuple(_instead(p, name, place) for p in children(expr))
    return rebuild(expr, parts) if parts else expr
