"""A function at values of its integer parameters, as if they had been known from the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import islpy as isl

from plant_core.ir.accesses import children, rebuild
from plant_core.ir.c_semantics import shape_of
from plant_core.ir.func import Buf, Comp, Expr, Func, Load, Param, ScalarParam, Val

_Relation = TypeVar("_Relation", isl.Set, isl.Map)


def at_sizes(func: Func, values: Mapping[str, int]) -> Func:
    """Before: for i < n: y[i] = n * x[i]; After, at n = 4: for i < 4: y[i] = 4 * x[i]. All that extents
    are made of have a value."""
    bufs = {b.name: replace(b, shape=shape_of(b, values)) for b in func.bufs}
    params = tuple(
        bufs.get(p.name, p) if isinstance(p, Buf) else p
        for p in func.params
        if not (isinstance(p, ScalarParam) and p.name in values)
    )
    comps = tuple(_comp(c, values) for c in func.comps)
    return replace(func, params=params, bufs=tuple(bufs.values()), comps=comps)


def _comp(comp: Comp, values: Mapping[str, int]) -> Comp:
    def instead(expr: Expr) -> Expr:
        if isinstance(expr, Param) and expr.name in values:
            return Val(values[expr.name], expr.dtype)
        parts = tuple(map(instead, children(expr)))
        return rebuild(expr, parts) if parts else expr

    target = instead(comp.target)
    assert isinstance(target, Load)
    domain, schedule = _fixed(comp.domain, values), _fixed(comp.schedule, values)
    return replace(comp, target=target, value=instead(comp.value), domain=domain, schedule=schedule)


def _fixed(relation: _Relation, values: Mapping[str, int]) -> _Relation:
    for name, value in values.items():
        at = relation.find_dim_by_name(isl.dim_type.param, name)
        if at >= 0:
            relation = relation.fix_val(isl.dim_type.param, at, isl.Val(value))
            relation = relation.project_out(isl.dim_type.param, at, 1)
    return relation
