"""The program brought to the form in which its freedom shows, before it is scheduled."""

from __future__ import annotations

from dataclasses import replace

from plant_core.affine import children, rebuild
from plant_core.autoschedule.forward import forward_scalars
from plant_core.autoschedule.privatise import privatise_arrays
from plant_core.dependence import rebalance_reductions
from plant_core.ir import Binary, BinaryOp, Expr, Func, Load, Select
from plant_core.scalars import expand_scalars
from plant_core.schedule import normalise_loops
from plant_core.values import is_float

MOST_EXPANDED = 1 << 24
"""Elements that one expanded local variable may have."""


def prepare(func: Func, *, reassoc: bool) -> Func:
    """Loops of unit step, extrema and reductions recognised, scratch arrays and scalars local, renamed and expanded."""
    func = forward_scalars(with_extrema(normalise_loops(func), reassoc=reassoc))
    func = privatise_arrays(rebalance_reductions(func, reassoc=reassoc), most=MOST_EXPANDED)
    return expand_scalars(func, array_elements=MOST_EXPANDED, split_elements=MOST_EXPANDED, symbolic=True)


def with_extrema(func: Func, *, reassoc: bool) -> Func:
    """Write conditionals that choose the larger or the smaller of two values as `max` and `min`.

    Before: `a > b ? a : b`. After: `max(a, b)`. Floats only where `reassoc`, as NaNs and zeros' signs may differ.
    """
    comps = tuple(replace(comp, value=_with_extrema(comp.value, reassoc)) for comp in func.comps)
    return func.with_comps(comps)


def _with_extrema(expr: Expr, reassoc: bool) -> Expr:
    parts = children(expr)
    if parts:
        expr = rebuild(expr, tuple(_with_extrema(p, reassoc) for p in parts))
    match expr:
        case Select(Binary("gt" | "ge" | "lt" | "le" as op, left, right), true, false, dtype):
            if is_float(dtype) and not reassoc:
                return expr
            a, b, x, y = map(_plain, (left, right, true, false))
            if (a, b) not in ((x, y), (y, x)):
                return expr
            larger = (op in ("gt", "ge")) == ((a, b) == (x, y))
            chosen: BinaryOp = "max" if larger else "min"
            return Binary(chosen, true, false, dtype)
        case _:
            return expr


def _plain(expr: Expr) -> Expr:
    """Without the places in the text, for comparison."""
    parts = children(expr)
    if parts:
        expr = rebuild(expr, tuple(_plain(p) for p in parts))
    return replace(expr, loc=None) if isinstance(expr, Load) else expr
