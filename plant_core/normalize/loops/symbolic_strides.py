"""Subscripts that step by a parameter, `a[p * i + q]`: told apart where p isn't 0, and affine where p is 1."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from plant_core.analysis.strided_accesses import ensure_param, multiple, parameter_between
from plant_core.ir.accesses import children, domain_of, from_linear, linear, rebuild
from plant_core.ir.func import Comp, Expr, Func, Load, Param, ScalarParam, Val
from plant_core.ir.time_2d1 import Position, position, schedule_map

MOST_COMPS = 6
"""Statements of a nest that is there once for each kind of stride."""


def by_strides(func: Func) -> Func:
    """Nests that step through arrays by a parameter, once for each kind of stride: 1, larger, and others.

    Before: `for i: a[s * i] = b[s * i];`. After: `if (s == 1) for i: a[i] = b[i]; if (s >= 2) for i: ...; if (s <= 0)
    for i: ...`. Requires: 2d+1 schedules. Ensures: the same instances in the same order; of the versions of a nest,
    one has instances.
    """
    groups: dict[int, list[Comp]] = {}
    for comp in func.comps:
        groups.setdefault(position(comp).constants[0], []).append(comp)
    chosen = {key: name for key, comps in groups.items() if (name := _stride(func, comps)) is not None}
    if not chosen or func.effects:
        return func
    for name in sorted(set(chosen.values())):
        # isl wants the same parameters in all domains.
        groups = {key: [_knowing(c, name) for c in comps] for key, comps in groups.items()}
    taken = {c.name for c in func.comps}
    result: list[Comp] = []
    for key in sorted(groups):
        if key not in chosen:
            result += [_moved(c, 3 * key) for c in groups[key]]
            continue
        for number, (suffix, low, high) in enumerate((("_unit", 1, 1), ("_strided", 2, None), ("", None, 0))):
            for comp in groups[key]:
                name = _fresh(comp.name + suffix, taken) if suffix else comp.name
                domain = comp.domain.intersect(parameter_between(comp.domain, chosen[key], low, high)).set_tuple_name(
                    name
                )
                if domain.is_empty():
                    continue
                version = replace(comp, name=name, domain=domain)
                version = _with_unit(version, chosen[key]) if number == 0 else version
                result.append(_moved(version, 3 * key + number, position(comp)))
    return func.with_comps(tuple(result))


def _knowing(comp: Comp, name: str) -> Comp:
    return replace(comp, domain=comp.domain.align_params(ensure_param(comp.domain.get_space().params(), name)))


def _stride(func: Func, comps: list[Comp]) -> str | None:
    """The parameter by which the nest's subscripts step."""
    params = {p.name for p in func.params if isinstance(p, ScalarParam) and p.dtype == "i32"}
    if len(comps) > MOST_COMPS or any(c.defines is not None for c in comps):
        return None
    for comp in comps:
        for index in (i for e in (comp.target, comp.value) for a in _loads(e) for i in a.indices):
            found = None if linear(index) is not None else multiple(index, comp.iters)
            if found is not None and found.stride in params:
                return found.stride
    return None


def _loads(expr: Expr) -> list[Load]:
    own = [expr] if isinstance(expr, Load) else []
    return own + [load for part in children(expr) for load in _loads(part)]


def _fresh(wanted: str, taken: set[str]) -> str:
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted


def _moved(comp: Comp, first: int, place: Position | None = None) -> Comp:
    """The statement at another outermost textual position."""
    place = position(comp) if place is None else place
    length = comp.schedule.dim(isl.dim_type.out)
    moved = Position((first, *place.constants[1:]), place.loops)
    return replace(comp, schedule=schedule_map(comp, moved, length).intersect_domain(domain_of(comp)))


def _with_unit(comp: Comp, name: str) -> Comp:
    """The statement with 1 for a parameter."""
    target = _tidied(comp.target, name, comp.iters)
    assert isinstance(target, Load)
    return replace(comp, target=target, value=_tidied(comp.value, name, comp.iters))


def _tidied(expr: Expr, name: str, iters: tuple[str, ...]) -> Expr:
    if isinstance(expr, Param) and expr.name == name:
        return Val(1, expr.dtype)
    parts = tuple(_tidied(p, name, iters) for p in children(expr))
    if isinstance(expr, Load):
        forms = [(part, linear(part)) for part in parts]
        parts = tuple(part if form is None else from_linear(form, set(iters)) for part, form in forms)
    return rebuild(expr, parts) if parts else expr
