"""Statements that do the same in parts of a box, as one statement.

Before: for i { for j < i, k: a[i, j] -= b[i, k] * c[k, j]; for j >= i, k: a[i, j] -= b[i, k] * c[k, j] }
After:  for i, j, k: a[i, j] -= b[i, k] * c[k, j]
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import islpy as isl

from plant_core.analysis.dependence import memory_dependences
from plant_core.ir.accesses import substitute
from plant_core.ir.func import Comp, Func, Iter
from plant_core.ir.printer import print_expr
from plant_core.ir.time_2d1 import position, schedule_map


def joined(func: Func) -> Func:
    """The function with such statements as one, where that keeps all dependences."""
    if any(comp.domain.is_empty() for comp in func.comps):
        return func
    for one, other in itertools.combinations(func.comps, 2):
        if _texts(one, one) == _texts(other, one) and (both := _both(func, one, other)) is not None:
            return joined(both)
    return func


def _texts(comp: Comp, like: Comp) -> tuple[str, ...] | None:
    """What it does, with the iterators of another."""
    if len(comp.iters) != len(like.iters):
        return None
    names = dict(zip(comp.iters, map(Iter, like.iters), strict=True))
    return tuple(print_expr(substitute(e, names)) for e in (comp.target, comp.value))


def _both(func: Func, one: Comp, other: Comp) -> Func | None:
    there = other.domain.set_tuple_name(one.name)
    domain = one.domain.union(there).coalesce()
    if domain.n_basic_set() > 1 or not one.domain.intersect(there).is_empty():
        return None
    made = replace(one, domain=domain)
    time = schedule_map(made, position(one), one.schedule.dim(isl.dim_type.out)).intersect_domain(domain)
    made = replace(made, schedule=time)
    comps = tuple(made if c is one else c for c in func.comps if c is not other)
    times = {c.name: c.schedule for c in comps}
    times[other.name] = time.set_tuple_name(isl.dim_type.in_, other.name)
    for d in memory_dependences(func):
        if not d.relation.intersect(times[d.source].lex_ge_map(times[d.sink])).is_empty():
            return None
    return func.with_comps(comps)
