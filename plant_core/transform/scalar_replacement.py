"""Elements of parameter arrays at one place each, which several nests use, in variables while the function runs.

Before: s[0] = 0;  for i: s[0] += x[i] * y[i]
After:  t = 0;     for i: t += x[i] * y[i];     s[0] = t
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from plant_core.analysis.dependence import live_in
from plant_core.ir.accesses import all_bufs, children, read_accesses, rebuild
from plant_core.ir.func import Buf, Comp, Expr, Func, Load, Val
from plant_core.ir.names import fresh
from plant_core.ir.time_2d1 import Position, position, schedule_map

_MOST = 4  # elements of an array


def with_elements_held(func: Func) -> Func:
    """`func` with such elements in variables: of arrays that are written, and of which nothing else is used. Requires:
    2d+1 schedules. Ensures: the same contents of every parameter."""
    if func.effects:
        return func
    nests: dict[str, set[int]] = {}
    places: dict[str, set[tuple[Expr, ...]]] = {}
    for comp in func.comps:
        for access in (comp.target, *read_accesses(comp)):
            nests.setdefault(access.buf, set()).add(position(comp).constants[0])
            places.setdefault(access.buf, set()).add(access.indices)
    written = {c.target.buf for c in func.comps}
    for buf in (b for b in func.params if isinstance(b, Buf) and b.name in written):
        found = places[buf.name]
        plain = all(isinstance(i, Val) for place in found for i in place)
        if plain and buf.shape and len(found) <= _MOST and len(nests[buf.name]) > 1:
            func = _held(func, buf, sorted(found, key=repr))
    return func


def _held(func: Func, buf: Buf, places: Sequence[tuple[Expr, ...]]) -> Func:
    names, numbers = {c.name for c in func.comps}, [position(c).constants[0] for c in func.comps]
    length, params = func.comps[0].schedule.dim(isl.dim_type.out), func.comps[0].domain.get_space().params()

    def copied(target: Load, value: Load, number: int) -> Comp:
        names.add(name := fresh("S", names))
        domain = isl.Set(f"{{ {name}[] }}").align_params(params)
        made = Comp(name, (), domain, isl.Map(f"{{ {name}[] -> [0] }}"), target, value, func.loc)
        return replace(made, schedule=schedule_map(made, Position((number,), ()), length).intersect_domain(domain))

    for k, place in enumerate(places, 1):
        variable = Buf(fresh(buf.name, all_bufs(func)), buf.dtype, (), "local", False, buf.loc)
        element, held = Load(buf.name, place, buf.dtype, buf.loc), Load(variable.name, (), buf.dtype, buf.loc)
        own = [
            replace(c, target=_load(_instead(c.target, element, held)), value=_instead(c.value, element, held))
            for c in func.comps
        ]
        func = replace(func, bufs=(*func.bufs, variable))
        func = func.with_comps((*own, copied(element, held, max(numbers) + k)))
        if live_in(func, variable.name, doubt=True) is not None:
            func = func.with_comps((copied(held, element, min(numbers) - k), *func.comps))
    return func


def _instead(expr: Expr, element: Load, held: Load) -> Expr:
    if isinstance(expr, Load) and expr.buf == element.buf and expr.indices == element.indices:
        return replace(held, loc=expr.loc)
    parts = children(expr)
    return rebuild(expr, tuple(_instead(p, element, held) for p in parts)) if parts else expr


def _load(expr: Expr) -> Load:
    assert isinstance(expr, Load)
    return expr
