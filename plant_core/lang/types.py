"""C's types and conversions for the language's expressions.

Operands are brought to one type by C's usual arithmetic conversions. A plain Python number takes the type of what it
stands with (f64 where it is a fraction among integers), so that `0.5 * a[i]` is as wide as `a`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal
from typing import cast as as_type

from plant_core.ir.c_semantics import COMPARISONS, dtype_of, is_float, limits, size_of
from plant_core.ir.func import (
    Access,
    Binary,
    BinaryOp,
    Call,
    Cast,
    DType,
    Expr,
    Iter,
    Load,
    Param,
    Ramp,
    Select,
    Unary,
    UnaryOp,
    Val,
    Verbatim,
)
from plant_core.lang.terms import Term
from plant_core.support.location import PlantError

if TYPE_CHECKING:
    from plant_core.lang import Buffer, Computation

Guess = DType | Literal["int", "float", "unknown"]
"""A type, or a number that takes another's, or nothing known yet."""
_INTEGERS_ONLY = ("mod", "and", "or", "xor", "floordiv", "shl", "shr")
_LOGIC = ("land", "lor")


def promoted(dtype: DType) -> DType:
    return dtype if is_float(dtype) or size_of(dtype) >= 4 else "i32"


def common(left: DType, right: DType) -> DType:
    """C's usual arithmetic conversions."""
    a, b = promoted(left), promoted(right)
    order: tuple[DType, ...] = ("f64", "f32", "i64", "u32", "i32")
    return order[min(order.index(a), order.index(b))]


def convert(expr: Expr, dtype: DType) -> Expr:
    """`expr` as `dtype`; numbers are converted here."""
    if dtype_of(expr) == dtype:
        return expr
    match expr:
        case Val(value=int() as value) if is_float(dtype):
            return Val(float(value), dtype)
        case Val(value=int() as value) if limits(dtype)[0] <= value <= limits(dtype)[1]:
            return Val(value, dtype)
    return Cast(dtype, expr)


def guess(term: Term, comps: Mapping[str, DType]) -> Guess:
    """The type that `term` will have, as far as the types of the computations it reads are known."""
    match term.op:
        case "val":
            value, dtype = as_type("tuple[int | float, DType | None]", term.data)
            return dtype or ("float" if isinstance(value, float) else "int")
        case "iter":
            return "i32"
        case "load":
            return as_type("Buffer", term.data).dtype
        case "access":
            return comps.get(as_type("Computation", term.data).name, "unknown")
        case "cast":
            return as_type(DType, term.data)
        case "param" | "verbatim":
            return as_type("tuple[str, DType]", term.data)[1]
        case "call":
            dtype = as_type("tuple[str, DType | None]", term.data)[1]
            return dtype or _floating(_joined([guess(p, comps) for p in term.parts]))
        case "sqrt":
            return _floating(guess(term.parts[0], comps))
        case "ramp" | "neg" | "abs" | "not" | "shl" | "shr":
            return _joined([guess(term.parts[0], comps)])
        case "select":
            return _joined([guess(p, comps) for p in term.parts[1:]])
        case op if op in COMPARISONS or op in _LOGIC or op == "lnot":
            return "i32"
        case _:
            return _joined([guess(p, comps) for p in term.parts])


def _joined(parts: list[Guess]) -> Guess:
    known = [p for p in parts if p not in ("int", "float", "unknown")]
    if not known:
        return next((g for g in ("unknown", "float") if g in parts), "int")
    found = promoted(as_type(DType, known[0]))
    for other in known[1:]:
        found = common(found, as_type(DType, other))
    return "f64" if "float" in parts and not is_float(found) else found


def _floating(found: Guess) -> Guess:
    return found if found in ("float", "unknown", "f32") else "f64"


def typed(term: Term, comps: Mapping[str, DType], want: DType | None = None) -> Expr:
    """`term` with types; a bare number becomes a `want` if it can. Raises PlantError DG226 where C has no meaning."""
    match term.op:
        case "val":
            return _number(term, want)
        case "iter":
            return Iter(str(term.data))
        case "param":
            name, dtype = as_type("tuple[str, DType]", term.data)
            return Param(name, dtype)
        case "load":
            buf = as_type("Buffer", term.data)
            return Load(buf.name, _indices(term, comps), buf.dtype, term.loc)
        case "access":
            comp = as_type("Computation", term.data)
            return Access(comp.name, _indices(term, comps), comps[comp.name], term.loc)
        case "cast":
            target = as_type(DType, term.data)
            return convert(typed(term.parts[0], comps, target), target)
        case "select":
            true, false = _balanced(term.parts[1], term.parts[2], comps, want)
            return Select(truth(term.parts[0], comps), true, false, dtype_of(true))
        case "call":
            return _call(term, comps, want)
        case "ramp":
            load = as_type(Load, typed(term.parts[0], comps))
            return Ramp(load, _integer(term.parts[1], comps), as_type(int, term.data), load.dtype)
        case "verbatim":
            text, dtype = as_type("tuple[str, DType]", term.data)
            return Verbatim(text, dtype)
        case "neg" | "abs" | "not" | "sqrt" | "lnot":
            return _unary(term, comps, want)
        case _:
            return _binary(term, comps, want)


def truth(term: Term, comps: Mapping[str, DType]) -> Expr:
    """`term` as a condition: a comparison as it is, another value is compared with 0."""
    expr = typed(term, comps)
    match expr:
        case Binary(op=op) if op in COMPARISONS or op in _LOGIC:
            return expr
        case Unary(op="lnot"):
            return expr
        case _:
            return Binary("ne", expr, convert(Val(0, "i32"), dtype_of(expr)), "i32")


def _number(term: Term, want: DType | None) -> Val:
    value, own = as_type("tuple[int | float, DType | None]", term.data)
    fits = want is not None and (isinstance(value, int) or is_float(want))
    dtype = own or (want if fits else None) or ("f64" if isinstance(value, float) else "i32")
    if isinstance(value, float) and not is_float(dtype):
        raise PlantError(f"{value} is no {dtype}", loc=term.loc, code="DG226", remedy="use cast(), or a whole number")
    return Val(float(value) if is_float(dtype) else value, dtype)


def _weak(term: Term) -> bool:
    return term.op == "val" and as_type("tuple[Any, Any]", term.data)[1] is None


def _balanced(left: Term, right: Term, comps: Mapping[str, DType], want: DType | None) -> tuple[Expr, Expr]:
    """Both operands in their common type."""
    if _weak(left) and _weak(right):
        a, b = typed(left, comps, want), typed(right, comps, want)
    elif _weak(left):
        b = typed(right, comps, want)
        a = typed(left, comps, promoted(dtype_of(b)))
    else:
        a = typed(left, comps, want)
        b = typed(right, comps, promoted(dtype_of(a)) if _weak(right) else want)
    target = common(dtype_of(a), dtype_of(b))
    return convert(a, target), convert(b, target)


def _binary(term: Term, comps: Mapping[str, DType], want: DType | None) -> Expr:
    op = as_type(BinaryOp, term.op)
    left, right = term.parts
    if op in _LOGIC:
        return Binary(op, truth(left, comps), truth(right, comps), "i32")
    if op in COMPARISONS:
        a, b = _balanced(left, right, comps, None)
        return Binary(op, a, b, "i32")
    a, b = _balanced(left, right, comps, want)
    dtype = dtype_of(a)
    if op in ("shl", "shr") and not _weak(left):
        shifted = typed(left, comps)
        dtype = promoted(dtype_of(shifted))
        a, b = convert(shifted, dtype), convert(typed(right, comps, dtype), dtype)
    if op in _INTEGERS_ONLY and (is_float(dtype) or is_float(dtype_of(b))):
        raise PlantError(
            f"'{op}' is for integers, and this is {dtype}",
            loc=term.loc,
            code="DG226",
            remedy="cast() the operands to an integer type; call('floor', a / b) rounds a quotient down",
        )
    return Binary(op, a, b, dtype)


def _unary(term: Term, comps: Mapping[str, DType], want: DType | None) -> Expr:
    op = as_type(UnaryOp, term.op)
    if op == "lnot":
        return Unary(op, truth(term.parts[0], comps), "i32")
    operand = typed(term.parts[0], comps, want)
    dtype = promoted(dtype_of(operand))
    if op == "sqrt" and not is_float(dtype):
        dtype = "f64"
    if op == "not" and is_float(dtype):
        raise PlantError("'~' is for integers and conditions", loc=term.loc, code="DG226")
    return Unary(op, convert(operand, dtype), dtype)


def _call(term: Term, comps: Mapping[str, DType], want: DType | None) -> Expr:
    name, result = as_type("tuple[str, DType | None]", term.data)
    if result is not None:
        return Call(name, tuple(typed(p, comps) for p in term.parts), result)
    found = _floating(_joined([guess(p, comps) for p in term.parts]))
    dtype: DType = as_type(DType, found) if found in ("f32", "f64") else want if want and is_float(want) else "f64"
    return Call(name, tuple(convert(typed(p, comps, dtype), dtype) for p in term.parts), dtype)


def _indices(term: Term, comps: Mapping[str, DType]) -> tuple[Expr, ...]:
    return tuple(_integer(p, comps) for p in term.parts)


def _integer(term: Term, comps: Mapping[str, DType]) -> Expr:
    expr = typed(term, comps)
    if is_float(dtype_of(expr)):
        raise PlantError("a subscript must be an integer", loc=term.loc, code="DG226", remedy="cast() it to i32")
    return expr
