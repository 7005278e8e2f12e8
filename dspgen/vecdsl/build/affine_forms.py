"""Integer expressions of the loop tree as affine forms, or as scalar terms where they aren't affine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dspgen.errors import NoSchedule, Problem
from dspgen.vecdsl.analysis.integer_ranges import Ranges
from dspgen.vecdsl.ir.constant_folding import make
from dspgen.vecdsl.ir.program import Address, Term
from dspgen.vecdsl.ir.terms import INTEGER, address_term, integer, make_address
from plant_core.ir.func import Binary, Cast, Expr, Iter, Param, Select, Unary, Val
from plant_core.support.location import Loc

Iterators = Mapping[str, Address]
Opaque = Callable[[Expr], Address | None]
_LARGEST = (1 << 31) - 1
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def add(a: Address, b: Address, factor: int = 1) -> Address:
    if not b.terms:
        return a.plus(factor * b.constant)
    terms = dict(a.terms)
    for name, coefficient in b.terms:
        terms[name] = terms.get(name, 0) + factor * coefficient
    return make_address(a.constant + factor * b.constant, terms)


def scale(a: Address, factor: int) -> Address:
    return make_address(a.constant * factor, {n: c * factor for n, c in a.terms})


def affine(expr: Expr, iterators: Iterators, ranges: Ranges, opaque: Opaque | None = None) -> Address | None:
    """`expr` as an affine form of program names, or None.

    Quotients resolve where the ranges decide them; `opaque` may give a name to any other part that isn't affine.
    """
    found: Address | None = None
    match expr:
        case Val() if isinstance(expr.value, int):
            return Address(expr.value)
        case Iter():
            return iterators[expr.name]
        case Param() if expr.dtype not in ("f32", "f64", "i64"):
            return Address(0, ((expr.name, 1),))
        case Cast(dtype="i32" | "u32" | "i64"):
            return affine(expr.operand, iterators, ranges, opaque)
        case Unary(op="neg"):
            inner = affine(expr.operand, iterators, ranges, opaque)
            return None if inner is None else scale(inner, -1)
        case Binary():
            # A part with a name of its own decides no quotient, so it stays inside the larger part.
            inner_opaque = opaque if expr.op in ("add", "sub", "mul") else None
            left = affine(expr.left, iterators, ranges, inner_opaque)
            right = affine(expr.right, iterators, ranges, inner_opaque)
            found = None if left is None or right is None else _binary(expr.op, left, right, ranges)
    return opaque(expr) if found is None and opaque is not None else found


def _binary(op: str, left: Address, right: Address, ranges: Ranges) -> Address | None:
    match op:
        case "add" | "sub":
            return add(left, right, 1 if op == "add" else -1)
        case "mul" if not right.terms:
            return scale(left, right.constant)
        case "mul" if not left.terms:
            return scale(right, left.constant)
        case "shl" if not right.terms and 0 <= right.constant < 31:
            return scale(left, 1 << right.constant)
        case "floordiv" | "div" | "mod" if not right.terms and right.constant > 0:
            return _quotient(op, left, right.constant, ranges)
        case "min" | "max":
            gap = add(left, right, -1)
            low, high = ranges.minimum(gap), ranges.maximum(gap)
            if low is not None and low >= 0:
                return right if op == "min" else left
            if high is not None and high <= 0:
                return left if op == "min" else right
    return None


def _quotient(op: str, value: Address, divisor: int, ranges: Ranges) -> Address | None:
    # value = divisor * whole + rest; if rest stays within one multiple of the divisor, the quotient is affine.
    whole = make_address(value.constant // divisor, {n: c // divisor for n, c in value.terms})
    rest = add(value, scale(whole, divisor), -1)
    low, high = ranges.minimum(rest), ranges.maximum(rest)
    if low is None or high is None or low // divisor != high // divisor:
        return None
    quotient = whole.plus(low // divisor)
    if op != "floordiv" and rest != Address(0):
        # C rounds toward zero: it agrees where the value isn't negative.
        least = ranges.minimum(value)
        if least is None or least < 0:
            return None
    return quotient if op != "mod" else add(value, scale(quotient, divisor), -1)


def integer_term(expr: Expr, iterators: Iterators, ranges: Ranges, loc: Loc | None = None) -> Term:
    """A scalar i32 term for a bound or condition of the loop tree."""
    form = affine(expr, iterators, ranges)
    if form is not None:
        return address_term(form)
    match expr:
        case Cast(dtype="i32" | "u32" | "i64"):
            return integer_term(expr.operand, iterators, ranges, loc)
        case Unary(op="neg"):
            return make("neg", (integer_term(expr.operand, iterators, ranges, loc),), INTEGER)
        case Unary(op="lnot"):
            return make("eq", (integer_term(expr.operand, iterators, ranges, loc), integer(0)), INTEGER)
        case Select():
            parts = (expr.condition, expr.true, expr.false)
            return make("select", tuple(integer_term(p, iterators, ranges, loc) for p in parts), INTEGER)
        case Binary():
            left = integer_term(expr.left, iterators, ranges, loc)
            right = integer_term(expr.right, iterators, ranges, loc)
            return _binary_term(expr, left, right, ranges, loc)
        case _:
            raise _unsupported(expr, loc)


def _binary_term(expr: Binary, left: Term, right: Term, ranges: Ranges, loc: Loc | None) -> Term:
    match expr.op:
        case "add" | "sub" | "mul" | "min" | "max":
            return make(expr.op, (left, right), INTEGER)
        case "floordiv" | "div" | "mod" if isinstance(expr.right, Val) and expr.right.value > 0:
            divisor = int(expr.right.value)
            low, _ = ranges.interval(left)
            if expr.op != "floordiv" and (low is None or low < 0):
                return make(expr.op, (left, right), INTEGER)
            quotient = floor_divide(left, divisor, ranges)
            if expr.op != "mod":
                return quotient
            return make("sub", (left, make("mul", (quotient, right), INTEGER)), INTEGER)
        case "lt" | "le" | "gt" | "ge" | "eq" | "ne":
            return make(expr.op, (left, right), INTEGER)
        case "land" | "lor":
            name = "and" if expr.op == "land" else "or"
            return make(name, (truth(left, expr.left), truth(right, expr.right)), INTEGER)
        case _:
            raise _unsupported(expr, loc)


def truth(term: Term, expr: Expr) -> Term:
    """`term` as 0 or 1; a comparison is that already."""
    if isinstance(expr, Binary) and expr.op in (*_COMPARISONS, "land", "lor"):
        return term
    if isinstance(expr, Unary) and expr.op == "lnot":
        return term
    return make("ne", (term, integer(0)), INTEGER)


def floor_divide(term: Term, divisor: int, ranges: Ranges) -> Term:
    """floor(term / divisor): a shift, a multiplication where the range is small enough, else a division."""
    if divisor & (divisor - 1) == 0:
        return make("shr", (term, integer(divisor.bit_length() - 1)), INTEGER) if divisor > 1 else term
    low, high = ranges.interval(term)
    shift = 0 if low is None else max(0, -(low // divisor))
    if low is None or max(high or 0, 0) + shift * divisor > _LARGEST:
        # Rounding toward zero is one too many where the remainder is negative.
        quotient = make("div", (term, integer(divisor)), INTEGER)
        below = make("lt", (make("mod", (term, integer(divisor)), INTEGER), integer(0)), INTEGER)
        return make("sub", (quotient, below), INTEGER)
    if shift:
        term = make("add", (term, integer(shift * divisor)), INTEGER)
    quotient = make("div", (term, integer(divisor)), INTEGER)
    if high is not None and (magic := _magic(high + shift * divisor, divisor)) is not None:
        product = make("mul", (term, integer(magic[0])), INTEGER)
        quotient = make("shr", (product, integer(magic[1])), INTEGER)
    return make("sub", (quotient, integer(shift)), INTEGER) if shift else quotient


def _magic(most: int, divisor: int) -> tuple[int, int] | None:
    """(m, s) with n * m >> s == n // divisor for n in 0..most and no product over 31 bits (Granlund-Montgomery)."""
    for shift in range(31):
        factor = -(-(1 << shift) // divisor)
        if max(most, 1) * factor >= 1 << 31:
            return None
        if most * (factor * divisor - (1 << shift)) < 1 << shift:
            return factor, shift
    return None


def _unsupported(expr: Expr, loc: Loc | None) -> NoSchedule:
    what: str
    match expr:
        case Binary(op=op) | Unary(op=op):
            what = f"'{op}'"
        case Param(name=name, dtype=dtype):
            what = f"'{name}' of type {dtype}"
        case _:
            what = f"'{type(expr).__name__.lower()}'"
    message = f"a loop bound or condition uses {what}, which has no integer code here"
    return NoSchedule(
        Problem("DG330", message, loc, "use an int, give its value with -D NAME=VALUE, or use --backend cpu")
    )
