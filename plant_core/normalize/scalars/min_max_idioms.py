"""Conditional assignments written as the operations that they are: extrema, and updates of reductions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plant_core.analysis.dependence import rebalanced, reduction_of
from plant_core.ir.accesses import access_key, accesses, children, is_integer, linear, rebuild
from plant_core.ir.c_semantics import convert, dtype_of, is_float, limits, typed
from plant_core.ir.func import Binary, BinaryOp, Cast, Comp, DType, Expr, Func, Load, Select, Unary, Val

_TRUTHS = ("lt", "le", "gt", "ge", "eq", "ne", "land", "lor")  # their values are 0 and 1

# --- extrema ------------------------------------------------------------------------------------------------------


def with_extrema(func: Func, *, reassoc: bool) -> Func:
    """Write conditionals that choose the larger or the smaller of two values as `max` and `min`.

    Before: `a > b ? a : b`. After: `max(a, b)`. Floats only where `reassoc`, as NaNs and zeros' signs may differ. A
    test of what a comparison gives, `(a > b) != 0`, is the comparison.
    """
    comps = tuple(replace(comp, value=_with_extrema(comp.value, reassoc)) for comp in func.comps)
    return func.with_comps(comps)


def _with_extrema(expr: Expr, reassoc: bool) -> Expr:
    parts = children(expr)
    if parts:
        expr = rebuild(expr, tuple(_with_extrema(p, reassoc) for p in parts))
    match expr:
        case Binary("ne", Binary(op), Val(0)) if op in _TRUTHS:
            return expr.left
        case Select(Binary("gt" | "ge" | "lt" | "le" as op, left, right), true, false, dtype):
            if is_float(dtype) and not reassoc:
                return expr
            x, y = plain(true), plain(false)
            if not {(a := plain(left)), (b := plain(right))} <= {x, y}:
                a, b = plain(unwidened(left, dtype)), plain(unwidened(right, dtype))
            if (a, b) not in ((x, y), (y, x)):
                return expr
            larger = (op in ("gt", "ge")) == ((a, b) == (x, y))
            chosen: BinaryOp = "max" if larger else "min"
            return Binary(chosen, true, false, dtype)
        case Select(Binary("land", left, right, _), true, false, dtype):
            for first, second in ((left, right), (right, left)):
                inner = _with_extrema(Select(second, true, false, dtype), reassoc)
                if isinstance(inner, Binary):
                    return Select(first, inner, false, dtype)
            return expr
        case Cast(dtype, Binary("min" | "max" as op, left, right)) if dtype_of(expr.operand) != dtype:
            a, b = unwidened(left, dtype), unwidened(right, dtype)
            return Binary(op, a, b, dtype) if dtype_of(a) == dtype_of(b) == dtype else expr
        case _:
            return expr


def unwidened(expr: Expr, dtype: DType) -> Expr:
    """`expr` of type `dtype`, without a conversion that keeps every value; `expr` itself where it is none."""
    match expr:
        case Cast(_, operand) if dtype_of(operand) == dtype and _keeps_values(dtype, expr.dtype):
            return operand
        case Val(value, source) if dtype != source and is_float(dtype) == is_float(source):
            held = convert(typed(value, source), source, dtype)
            return Val(value, dtype) if (float(held) if is_float(dtype) else held) == value else expr
        case _:
            return expr


def _keeps_values(source: DType, to: DType) -> bool:
    if is_float(source) or is_float(to):
        return (source, to) == ("f32", "f64")
    (low, high), (least, most) = limits(source), limits(to)
    return least <= low and high <= most


def plain(expr: Expr) -> Expr:
    """Without the places in the text, for comparison."""
    parts = children(expr)
    if parts:
        expr = rebuild(expr, tuple(plain(p) for p in parts))
    return replace(expr, loc=None) if isinstance(expr, Load) else expr


# --- updates under a condition ------------------------------------------------------------------------------------


def unconditional_updates(func: Func, *, reassoc: bool) -> Func:
    """Write reductions that are updated under conditions as updates by the operator's identity where these fail.

    Before: `s = c ? s + x : s`. After: `s = s + (c ? x : 0)`. Requires: nothing. Ensures: the same values, up to
    the sign of a float zero and NaNs met by min and max, for floats only where `reassoc`. Left as they are: elements
    that every iteration has for itself, as in `a[i] = c ? a[i] + x : a[i]`.
    """
    comps = []
    for comp in func.comps:
        free = reassoc or is_integer(comp.target.dtype)
        if isinstance(comp.value, Select) and free and _accumulates(comp):
            found = _update(comp, comp.value)
            if found is not None and found.rest is not None:
                comp = replace(comp, value=_updated(comp, found))
        comps.append(comp)
    return func.with_comps(tuple(comps))


@dataclass(frozen=True, slots=True)
class _Update:
    """`target op rest`, computed in `dtype`; without `rest` the target as it was."""

    op: BinaryOp
    rest: Expr | None
    dtype: DType


def _accumulates(comp: Comp) -> bool:
    """Whether several iterations have one target, by its subscripts."""
    forms = [linear(index) for index in comp.target.indices]
    moved = {name for form in forms if form is not None for name in form[1]}
    return all(form is not None for form in forms) and not set(comp.iters) <= moved


def _update(comp: Comp, value: Expr) -> _Update | None:
    key = access_key(comp.target)
    if isinstance(value, Load) and access_key(value) == key:
        return _Update("add", None, comp.target.dtype)
    if isinstance(value, Select):
        if any(access_key(a) == key for a in accesses(value.condition)):
            return None
        return _joined(value.condition, _update(comp, value.true), _update(comp, value.false))
    found = reduction_of(replace(comp, value=value))
    if found is None:
        return None
    value = rebalanced(replace(comp, value=value), found)
    value = value.operand if isinstance(value, Cast) else value
    return _Update(value.op, value.right, value.dtype) if isinstance(value, Binary) else None


def _joined(condition: Expr, a: _Update | None, b: _Update | None) -> _Update | None:
    if a is None or b is None or (a.rest is None and b.rest is None):
        return a if b is not None else None
    if a.rest is not None and b.rest is not None and a.op != b.op:
        a, b = _as_sum(a), _as_sum(b)
        if a.op != b.op:
            return None
    main = a if a.rest is not None else b
    if {u.dtype for u in (a, b) if u.rest is not None} != {main.dtype}:
        return None
    parts = [identity(main.op, main.dtype) if u.rest is None else u.rest for u in (a, b)]
    return _Update(main.op, Select(condition, parts[0], parts[1], main.dtype), main.dtype)


def _as_sum(update: _Update) -> _Update:
    if update.op != "sub" or update.rest is None:
        return update
    return _Update("add", Unary("neg", update.rest, update.dtype), update.dtype)


def _updated(comp: Comp, update: _Update) -> Expr:
    if update.rest is None:
        return comp.value
    to = comp.target.dtype
    old = comp.target if update.dtype == to else Cast(update.dtype, comp.target)
    value = Binary(update.op, old, update.rest, update.dtype)
    return value if update.dtype == to else Cast(to, value)


def identity(op: BinaryOp, dtype: DType) -> Val:
    """The right operand of `op` that changes nothing (of a float sum, but for the sign of a zero)."""
    if op in ("min", "max"):
        if is_float(dtype):
            return Val(float("inf") if op == "min" else -float("inf"), dtype)
        return Val(limits(dtype)[op == "min"], dtype)
    value = {"mul": 1, "and": -1}.get(op, 0)
    if is_float(dtype):
        return Val(float(value), dtype)
    return Val(limits(dtype)[1] if value < 0 and dtype.startswith("u") else value, dtype)
