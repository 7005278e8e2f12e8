"""Double precision that single precision can stand for, bit by bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from plant_core.ir.accesses import children, rebuild
from plant_core.ir.c_semantics import COMPARISONS, dtype_of
from plant_core.ir.func import Binary, Cast, Expr, Func, Select, Unary, Val

_EXACT_INTEGERS = ("i8", "u8", "i16", "u16")


def in_singles(func: Func) -> Func:
    """Compute in f32 what C says in f64 of f32 values, where the result is the same.

    Before: `(f32)((f64)a[i] * 0.5)`, `(f64)a[i] > 0.0`. After: `a[i] * 0.5f`, `a[i] > 0.0f`. One operation of +, -, *,
    / or a square root, rounded to 53 bits and then to 24, is as if rounded to 24 at once (S. A. Figueroa, When is
    double rounding innocuous?, 1995). Ensures: the same values.
    """
    return func.with_comps(tuple(replace(comp, value=_narrow(comp.value)) for comp in func.comps))


def _narrow(expr: Expr) -> Expr:
    parts = children(expr)
    if parts:
        expr = rebuild(expr, tuple(_narrow(p) for p in parts))
    match expr:
        case Cast("f32", operand) if dtype_of(operand) == "f64":
            return _rounded(operand) or expr
        case Binary(op, left, right, dtype) if op in COMPARISONS and dtype_of(left) == "f64":
            a, b = _single(left), _single(right)
            return expr if a is None or b is None else Binary(op, a, b, dtype)
        case _:
            return expr


def _rounded(expr: Expr) -> Expr | None:
    """A double's value rounded to single precision."""
    match expr:
        case Binary("add" | "sub" | "mul" | "div" as op, left, right):
            a, b = _single(left), _single(right)
            return None if a is None or b is None else Binary(op, a, b, "f32")
        case Unary("sqrt", operand):
            inner = _single(operand)
            return None if inner is None else Unary("sqrt", inner, "f32")
        case Select(condition, true, false):
            a, b = _rounded(true), _rounded(false)
            return None if a is None or b is None else Select(condition, a, b, "f32")
        case _:
            return _single(expr)


def _single(expr: Expr) -> Expr | None:
    """The f32 that a double is the value of; None if it may be none."""
    match expr:
        case Cast("f64", operand) if dtype_of(operand) == "f32":
            return operand
        case Cast("f64", operand) if dtype_of(operand) in _EXACT_INTEGERS:
            return Cast("f32", operand)
        case Val(value, "f64"):
            with np.errstate(over="ignore"):
                return Val(value, "f32") if float(np.float32(value)) == value else None
        case Unary("neg" | "abs" as op, operand):
            inner = _single(operand)
            return None if inner is None else Unary(op, inner, "f32")
        case Binary("min" | "max" as op, left, right):
            a, b = _single(left), _single(right)
            return None if a is None or b is None else Binary(op, a, b, "f32")
        case Select(condition, true, false):
            a, b = _single(true), _single(false)
            return None if a is None or b is None else Select(condition, a, b, "f32")
        case _:
            return None
