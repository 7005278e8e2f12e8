"""Computations that read each other become statements that read memory. PLANT, 3.3."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from plant_core.ir.accesses import children, rebuild, substitute
from plant_core.ir.func import Access, Comp, Expr, Func, Load
from plant_core.ir.scheduled import Scheduled
from plant_core.support.location import PlantError


def resolve(func: Func) -> Func:
    """Every Access becomes the Load of the place that its computation's value is kept in.

    Before: `c[i, j] = a(i, k) ...` where computation `a` is stored to `buf[k, i]`. After: `c[i, j] = buf[k, i] ...`.
    Ensures: no Access is left, and `func` itself comes back if it had none. Raises PlantError DG221 for an unknown
    computation, DG223 for a wrong number of subscripts or a place that depends on itself.
    """
    resolver = _Resolver({c.name: c for c in func.comps})
    comps = tuple(resolver.comp(c) for c in func.comps)
    return func if all(a is b for a, b in zip(comps, func.comps, strict=True)) else func.with_comps(comps)


def resolve_scheduled(scheduled: Scheduled) -> Scheduled:
    """The same order of the resolved program; its origin too."""
    origin = scheduled.origin and resolve_scheduled(scheduled.origin)
    return replace(scheduled, func=resolve(scheduled.func), origin=origin)


class _Resolver:
    def __init__(self, comps: dict[str, Comp]) -> None:
        self._comps = comps
        self._targets: dict[str, Load | None] = {}

    def comp(self, comp: Comp) -> Comp:
        target, value = self._target(comp), self._expr(comp.value)
        return comp if target is comp.target and value is comp.value else replace(comp, target=target, value=value)

    def _target(self, comp: Comp) -> Load:
        """`comp`'s target, its own subscripts resolved."""
        if comp.name not in self._targets:
            self._targets[comp.name] = None
            self._targets[comp.name] = cast(Load, self._expr(comp.target))
        found = self._targets[comp.name]
        if found is None:
            raise PlantError(
                f"the place that '{comp.name}' is stored to depends on the values of '{comp.name}'",
                loc=comp.loc,
                code="DG223",
                remedy="store one of the computations at subscripts that don't read it",
            )
        return found

    def _expr(self, expr: Expr) -> Expr:
        parts = children(expr)
        new = tuple(map(self._expr, parts))
        if isinstance(expr, Access):
            return self._load(expr, new)
        return expr if all(a is b for a, b in zip(new, parts, strict=True)) else rebuild(expr, new)

    def _load(self, access: Access, indices: tuple[Expr, ...]) -> Expr:
        comp = self._comps.get(access.comp)
        if comp is None:
            raise PlantError(f"there is no computation '{access.comp}'", loc=access.loc, code="DG221")
        if len(indices) != len(comp.iters):
            raise PlantError(
                f"'{comp.name}' has {len(comp.iters)} iterators, but is accessed with {len(indices)}",
                loc=access.loc,
                code="DG223",
                remedy=f"give one subscript for each of: {', '.join(comp.iters) or 'none'}",
            )
        target = self._target(comp)
        values = dict(zip(comp.iters, indices, strict=True))
        return Load(target.buf, tuple(substitute(i, values) for i in target.indices), target.dtype, access.loc)
