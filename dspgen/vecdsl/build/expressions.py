"""Turns the value of a statement into a term, lanes and all.

What is the same on all lanes stays scalar and is broadcast where it meets a vector; an integer narrower than 32 bits
is held as the i32 of the same value, and a u32 as the i32 of the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dspgen.errors import NoSchedule, Problem
from dspgen.vecdsl.analysis.integer_ranges import Ranges
from dspgen.vecdsl.build.affine_forms import Iterators, floor_divide
from dspgen.vecdsl.ir.constant_folding import constant, make
from dspgen.vecdsl.ir.program import Const, Elem, Op, Term, Var, VType
from dspgen.vecdsl.ir.terms import COMPARISONS, address_term, as_vector, register_elem
from plant_core.ir.func import (
    Access,
    Binary,
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
    Val,
    Verbatim,
)
from plant_core.support.location import Loc

_NARROW: dict[DType, tuple[str, int, int]] = {
    "i8": ("sext8", -128, 127),
    "u8": ("zext8", 0, 255),
    "i16": ("sext16", -32768, 32767),
    "u16": ("zext16", 0, 65535),
}
_FLOATS = ("f32", "f64")
_SAME = {"add", "sub", "mul", "min", "max", "and", "or", "xor", "shl", "shr", "div", "mod"}
_CASTS = {
    ("i32", "f32"): "cvt_i32_f32",
    ("u32", "f32"): "cvt_u32_f32",
    ("i32", "f64"): "cvt_i32_f64",
    ("f32", "i32"): "cvt_f32_i32",
    ("f64", "i32"): "cvt_f64_i32",
    ("f32", "f64"): "cvt_f32_f64",
    ("f64", "f32"): "cvt_f64_f32",
}
_TWO_TO_31 = float(1 << 31)
_NARROWER = "use integers of 32 bits, or --backend cpu"


def dtype_of(expr: Expr) -> DType:
    return "i32" if isinstance(expr, Iter) else expr.dtype


@dataclass(frozen=True, slots=True)
class Translator:
    """The point that a statement runs at: the iterators' values on the first lane, and the vectors of those that differ
    from lane to lane."""

    iterators: Iterators
    vectors: Mapping[str, Term]
    read: Callable[[Load], Term]
    ranges: Ranges
    loc: Loc

    def value(self, expr: Expr) -> Term:
        """The expression's value, scalar if it is the same on all lanes."""
        match expr:
            case Access() | Ramp() | Verbatim():
                raise self._refuse("this expression has no value of its own")
            case Val():
                return literal(expr.value, expr.dtype)
            case Iter():
                return self._iterator(expr.name)
            case Param():
                return Var(expr.name, VType(register_elem(expr.dtype), False))
            case Load():
                return self.read(expr)
            case Cast(dtype="i8" | "u8" | "i16" | "u16" | "i32" | "u32") if (
                low := _low_word(expr.operand)
            ) is not None:
                return self.cast(self.value(low), "u32", expr.dtype)
            case Cast():
                return self.cast(self.value(expr.operand), dtype_of(expr.operand), expr.dtype)
            case Unary():
                return _narrowed(self._unary(expr), expr.dtype)
            case Binary():
                return _narrowed(self._binary(expr), expr.dtype)
            case Select():
                condition = self._truth(expr.condition)
                return lift("select", (condition, self.value(expr.true), self.value(expr.false)), expr.dtype)
            case Call():
                raise self._refuse(
                    f"a call of '{expr.name}' has no code here", "use arithmetic or a table, or --backend cpu"
                )

    def _iterator(self, name: str) -> Term:
        return self.vectors[name] if name in self.vectors else address_term(self.iterators[name])

    def _unary(self, expr: Unary) -> Term:
        value = self.value(expr.operand)
        if expr.op == "lnot":
            return lift("eq", (value, literal(0, dtype_of(expr.operand))), "i32")
        if expr.op == "abs" and expr.dtype == "u32":
            return value
        return lift(expr.op, (value,), expr.dtype)

    def _binary(self, expr: Binary) -> Term:
        if expr.op in ("land", "lor"):
            return lift("and" if expr.op == "land" else "or", (self._truth(expr.left), self._truth(expr.right)), "i32")
        left, right = self.value(expr.left), self.value(expr.right)
        operands = dtype_of(expr.left)
        if operands == "u32":
            return unsigned(expr.op, left, right)
        if expr.op in COMPARISONS:
            return lift(expr.op, (left, right), "i32")
        if expr.op == "floordiv":
            return self._floor(left, right)
        if expr.op in ("div", "mod") and operands != "i64" and operands not in _FLOATS and isinstance(right, Const):
            return self._divide(expr.op, left, int(right.value))
        if expr.op not in _SAME:
            raise self._refuse(f"'{expr.op}' has no code here")
        return lift(expr.op, (left, right), expr.dtype)

    def _floor(self, left: Term, right: Term) -> Term:
        if isinstance(right, Const) and (divisor := int(right.value)) > 0:
            if divisor & (divisor - 1) == 0:
                return lift("shr", (left, literal(divisor.bit_length() - 1, "i32")), "i32")
            if not left.type.vector:
                return floor_divide(left, divisor, self.ranges)
        quotient = lift("div", (left, right), "i32")
        rest = lift("sub", (left, lift("mul", (quotient, right), "i32")), "i32")
        opposite = lift("lt", (lift("xor", (rest, right), "i32"), literal(0, "i32")), "i32")
        inexact = lift("ne", (rest, literal(0, "i32")), "i32")
        return lift("sub", (quotient, lift("and", (opposite, inexact), "i32")), "i32")

    def _divide(self, op: str, left: Term, divisor: int) -> Term:
        """Division by a constant, toward zero: shifts for a power of two."""
        size = abs(divisor)
        if divisor > 0 and not left.type.vector:
            low, _ = self.ranges.interval(left)
            if low is not None and low >= 0:
                quotient = floor_divide(left, divisor, self.ranges)
                whole = lift("mul", (quotient, literal(divisor, "i32")), "i32")
                return quotient if op == "div" else lift("sub", (left, whole), "i32")
        if size == 0 or size & (size - 1) or size >= 1 << 31:
            return lift(op, (left, literal(divisor, "i32")), "i32")
        if size == 1:
            quotient = left
        else:
            sign = lift("shr", (left, literal(31, "i32")), "i32")
            bias = lift("and", (sign, literal(size - 1, "i32")), "i32")
            biased = lift("add", (left, bias), "i32")
            quotient = lift("shr", (biased, literal(size.bit_length() - 1, "i32")), "i32")
        if op == "div":
            return lift("neg", (quotient,), "i32") if divisor < 0 else quotient
        if size == 1:
            return lift("sub", (left, left), "i32")
        whole = lift("shl", (quotient, literal(size.bit_length() - 1, "i32")), "i32")
        return lift("sub", (left, whole), "i32")

    def _truth(self, expr: Expr) -> Term:
        """A condition as an i32 that is 0 or not; comparisons and their combinations give 0 or 1."""
        value = self.value(expr)
        if isinstance(expr, Binary) and (expr.op in COMPARISONS or expr.op in ("land", "lor")):
            return value
        if isinstance(expr, Unary) and expr.op == "lnot":
            return value
        return lift("ne", (value, literal(0, dtype_of(expr))), "i32")

    def cast(self, value: Term, source: DType, to: DType) -> Term:
        if source == to or {source, to} <= {"i32", "u32"}:
            return value
        if to in _NARROW and source not in _FLOATS and source != "i64":
            return _narrowed(value, to, source)
        if source in _NARROW and to in ("i32", "u32"):
            return value
        if to == "i64":
            return self._widen(value, source)
        if source in _NARROW:
            source = "i32"
        if to in _NARROW and source in _FLOATS:
            return _narrowed(lift(_CASTS[source, "i32"], (value,), "i32"), to)
        if (source, to) == ("u32", "f64"):
            negative = lift("lt", (value, literal(0, "i32")), "i32")
            bias = lift("select", (negative, literal(2 * _TWO_TO_31, "f64"), literal(0.0, "f64")), "f64")
            return lift("add", (lift("cvt_i32_f64", (value,), "f64"), bias), "f64")
        if to == "u32" and source in _FLOATS:
            small = lift("lt", (value, literal(_TWO_TO_31, source)), "i32")
            low = lift(_CASTS[source, "i32"], (value,), "i32")
            rest = lift("sub", (value, literal(_TWO_TO_31, source)), source)
            high = lift("xor", (lift(_CASTS[source, "i32"], (rest,), "i32"), literal(1 << 31, "u32")), "i32")
            return lift("select", (small, low, high), "i32")
        if (source, to) not in _CASTS:
            raise self._refuse(f"a conversion from {source} to {to} has no code here", _NARROWER)
        return lift(_CASTS[source, to], (value,), to)

    def _widen(self, value: Term, source: DType) -> Term:
        if isinstance(value, Const) and source not in _FLOATS:
            return Const(int(value.value) & 0xFFFFFFFF if source == "u32" else value.value, VType("i64", False))
        raise self._refuse(f"a conversion from {source} to i64 has no code here", _NARROWER)

    def _refuse(self, message: str, remedy: str = "use --backend cpu") -> NoSchedule:
        return NoSchedule(Problem("DG331", message, self.loc, remedy))


def _low_word(expr: Expr) -> Expr | None:
    """The low 32 bits of arithmetic in 64, if what goes into it has no more."""
    match expr:
        case Val(value=int(value), dtype="i64"):
            return Val(value & 0xFFFFFFFF, "u32")
        case Cast(operand=operand, dtype="i64") if dtype_of(operand) in ("i32", "u32", *_NARROW):
            return operand if dtype_of(operand) == "u32" else Cast("u32", operand)
        case Binary(op="add" | "sub" | "mul" | "and" | "or" | "xor" as op, dtype="i64"):
            left, right = _low_word(expr.left), _low_word(expr.right)
            return None if left is None or right is None else Binary(op, left, right, "u32")
    return None


def literal(value: int | float, dtype: DType) -> Term:
    """A constant of a C type, as a register holds it."""
    type = VType(register_elem(dtype), False)
    if type.elem == "i32":
        wrapped = (int(value) + (1 << 31)) % (1 << 32) - (1 << 31)
        return Const(wrapped, type)
    found = constant(value, type)
    if found is not None:
        return found
    if value != value:
        zero = Const(0.0, type)
        return Op("div", (zero, zero), type)
    return Op("neg", (Const(0.0, type),), type)


def lift(name: str, args: tuple[Term, ...], dtype: DType) -> Term:
    """A lane-wise operation; if one operand is a vector, the others are broadcast."""
    vector = any(a.type.vector for a in args)
    if vector:
        args = tuple(as_vector(a) for a in args)
    return make(name, args, VType(register_elem(dtype), vector))


def unsigned(op: str, left: Term, right: Term) -> Term:
    """An operation on u32 values, which registers hold as the i32 of the same bits."""
    one = literal(1, "i32")
    match op:
        case "lt":
            return lift("ltu", (left, right), "i32")
        case "gt":
            return lift("ltu", (right, left), "i32")
        case "le":
            return lift("xor", (lift("ltu", (right, left), "i32"), one), "i32")
        case "ge":
            return lift("xor", (lift("ltu", (left, right), "i32"), one), "i32")
        case "min":
            return lift("select", (lift("ltu", (left, right), "i32"), left, right), "i32")
        case "max":
            return lift("select", (lift("ltu", (left, right), "i32"), right, left), "i32")
        case "shr":
            return lift("shru", (left, right), "i32")
        case "div" | "mod" | "floordiv":
            return _unsigned_division("mod" if op == "mod" else "div", left, right)
        case _:
            return lift(op, (left, right), "i32")


def _unsigned_division(op: str, left: Term, right: Term) -> Term:
    divisor = int(right.value) & 0xFFFFFFFF if isinstance(right, Const) else 0
    if divisor and divisor & (divisor - 1) == 0:
        if op == "mod":
            return lift("and", (left, literal(divisor - 1, "u32")), "i32")
        return lift("shru", (left, literal(divisor.bit_length() - 1, "i32")), "i32") if divisor > 1 else left
    vector = left.type.vector or right.type.vector
    args = (as_vector(left), as_vector(right)) if vector else (left, right)
    # The one place where a register's type is unsigned: the operation's own result.
    return make("mov", (Op(op, args, VType("u32", vector)),), VType("i32", vector))


def _narrowed(value: Term, dtype: DType, source: DType = "i32") -> Term:
    """An i32 value brought into the range of a narrow type, if it may be outside."""
    if dtype not in _NARROW:
        return value
    name, low, high = _NARROW[dtype]
    if source in _NARROW and low <= _NARROW[source][1] and _NARROW[source][2] <= high:
        return value
    if isinstance(value, Op) and (value.name == name or value.name in COMPARISONS):
        return value
    return lift(name, (value,), "i32")


def stored(value: Term, elem: Elem) -> Term:
    """`value` without an outer narrowing that storing it as `elem` does anyway."""
    dropped = {"i8": 8, "u8": 8, "i16": 16, "u16": 16}.get(elem, 0)
    while isinstance(value, Op) and value.name in ("sext8", "zext8", "sext16", "zext16"):
        if int(value.name[4:]) < dropped or not dropped:
            break
        value = value.args[0]
    return value
