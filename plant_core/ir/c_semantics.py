"""C's arithmetic on single values, one function per operation, for every `DType`.

Integers are Python ints kept in their type's range; floats are NumPy scalars, so that each operation rounds once.
Where C leaves a result open, x86's is taken: integers wrap, shift counts are taken modulo the width, and a float that
doesn't fit an integer type becomes its smallest value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, assert_never

import numpy as np

from plant_core.ir.func import (
    Access,
    Binary,
    BinaryOp,
    Buf,
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
from plant_core.support.location import PlantError

Number = Any
"""A Python int for integer types; np.float32 or np.float64 for float types."""

INTEGERS: dict[DType, tuple[int, bool]] = {
    "i8": (8, True),
    "i16": (16, True),
    "i32": (32, True),
    "i64": (64, True),
    "u8": (8, False),
    "u16": (16, False),
    "u32": (32, False),
}
"""Width in bits, and whether there is a sign."""

NUMPY: dict[DType, type[np.generic]] = {
    "f32": np.float32,
    "f64": np.float64,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
}

COMPARISONS: tuple[BinaryOp, ...] = ("lt", "le", "gt", "ge", "eq", "ne")


def is_float(dtype: DType) -> bool:
    return dtype not in INTEGERS


def size_of(dtype: DType) -> int:
    return int(np.dtype(NUMPY[dtype]).itemsize)


def limits(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    bits, signed = INTEGERS[dtype]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def wrap(value: int, dtype: DType) -> int:
    bits, signed = INTEGERS[dtype]
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def dtype_of(expr: Expr) -> DType:
    match expr:
        case Iter():
            return "i32"
        case (
            Val() | Param() | Cast() | Unary() | Binary() | Select() | Call() | Load() | Access() | Ramp() | Verbatim()
        ):
            return expr.dtype
        case _:
            assert_never(expr)


def convert(value: Number, source: DType, target: DType) -> Number:
    """C's conversion of a value of type `source` to `target`."""
    if not is_float(target):
        return float_to_integer(value, target) if is_float(source) else wrap(value, target)
    with np.errstate(all="ignore"):
        return NUMPY[target](value if is_float(source) else np.int64(value))


def float_to_integer(value: Number, target: DType) -> int:
    """Conversion as x86 does it: by way of a 32 or 64 bit signed integer, whose smallest value stands for no fit."""
    bits = 64 if target in ("i64", "u32") else 32
    lowest = -(1 << (bits - 1))
    real = float(value)
    whole = int(real) if math.isfinite(real) else lowest
    return wrap(whole if lowest <= whole < -lowest else lowest, target)


def divide(left: int, right: int) -> int:
    """C's integer division, towards zero."""
    if right == 0:
        raise PlantError("an integer is divided by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def remainder(left: int, right: int) -> int:
    return left - right * divide(left, right)


def _shift_left(left: int, right: int, bits: int) -> int:
    return left << (right & (bits - 1))


def _shift_right(left: int, right: int, bits: int) -> int:
    return left >> (right & (bits - 1))


_INTEGER: dict[BinaryOp, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": divide,
    "mod": remainder,
    "floordiv": lambda a, b: a // b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}

_FLOAT: dict[BinaryOp, Callable[[Number, Number], Number]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "min": np.fmin,
    "max": np.fmax,
}

_COMPARE: dict[BinaryOp, Callable[[Number, Number], Any]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "land": lambda a, b: a != 0 and b != 0,
    "lor": lambda a, b: a != 0 or b != 0,
}


def apply_binary(op: BinaryOp, left: Number, right: Number, dtype: DType) -> Number:
    """`left op right`, both of type `dtype`; comparisons and logic give 0 or 1."""
    if op in _COMPARE:
        return int(_COMPARE[op](left, right))
    if is_float(dtype):
        if op not in _FLOAT:
            raise PlantError(f"'{op}' has no meaning on {dtype}")
        with np.errstate(all="ignore"):
            return _FLOAT[op](left, right)
    if op in ("shl", "shr"):
        bits, _ = INTEGERS[dtype]
        return wrap((_shift_left if op == "shl" else _shift_right)(left, right, bits), dtype)
    return wrap(_INTEGER[op](left, right), dtype)


def apply_unary(op: UnaryOp, operand: Number, dtype: DType) -> Number:
    """`op operand`, of type `dtype`; `lnot` gives 0 or 1."""
    match op:
        case "lnot":
            return int(operand == 0)
        case "sqrt":
            with np.errstate(all="ignore"):
                return NUMPY[dtype](np.sqrt(operand))
        case "neg":
            return -operand if is_float(dtype) else wrap(-operand, dtype)
        case "abs":
            return abs(operand) if is_float(dtype) else wrap(abs(operand), dtype)
        case "not":
            return wrap(~operand, dtype)
        case _:
            assert_never(op)


def typed(value: int | float, dtype: DType) -> Number:
    """A plain Python number as a value of `dtype`, rounded or wrapped to fit."""
    return NUMPY[dtype](value) if is_float(dtype) else wrap(int(value), dtype)


_LIBRARY: dict[str, tuple[int, Callable[..., Any]]] = {
    "exp": (1, np.exp),
    "exp2": (1, np.exp2),
    "expm1": (1, np.expm1),
    "log": (1, np.log),
    "log2": (1, np.log2),
    "log10": (1, np.log10),
    "log1p": (1, np.log1p),
    "sin": (1, np.sin),
    "cos": (1, np.cos),
    "tan": (1, np.tan),
    "asin": (1, np.arcsin),
    "acos": (1, np.arccos),
    "atan": (1, np.arctan),
    "sinh": (1, np.sinh),
    "cosh": (1, np.cosh),
    "tanh": (1, np.tanh),
    "asinh": (1, np.arcsinh),
    "acosh": (1, np.arccosh),
    "atanh": (1, np.arctanh),
    "cbrt": (1, np.cbrt),
    "floor": (1, np.floor),
    "ceil": (1, np.ceil),
    "trunc": (1, np.trunc),
    "rint": (1, np.rint),
    # Halves away from zero: the double below one half carries exactly those over the next integer.
    "round": (1, lambda x: np.trunc(x + np.copysign(0.49999999999999994, x))),
    "pow": (2, np.power),
    "atan2": (2, np.arctan2),
    "hypot": (2, np.hypot),
    "fmod": (2, np.fmod),
    "copysign": (2, np.copysign),
}
LIBRARY: dict[str, int] = {**{name: count for name, (count, _) in _LIBRARY.items()}, "fma": 3}
"""The functions of C's mathematical library that a `Call` may name, with their number of arguments.

A Call of type f32 means the version for floats, such as `expf`.
"""


def call(name: str, dtype: DType, *args: Number) -> Number:
    """The value of a library function, computed in double and rounded to `dtype` once; `fma` is exact but for that."""
    if LIBRARY.get(name) != len(args) or not is_float(dtype):
        raise PlantError(f"the function '{name}' has no meaning on {len(args)} arguments of type {dtype}")
    with np.errstate(all="ignore"):
        if name == "fma":
            return _fused(args[0], args[1], args[2], dtype)
        _, function = _LIBRARY[name]
        return NUMPY[dtype](function(*(np.float64(a) for a in args)))


def _fused(left: Number, right: Number, addend: Number, dtype: DType) -> Number:
    plain = np.float64(left) * np.float64(right) + np.float64(addend)
    if not all(math.isfinite(x) for x in (left, right, addend)) or plain == 0:
        return NUMPY[dtype](plain)
    exact = Fraction(float(left)) * Fraction(float(right)) + Fraction(float(addend))
    try:
        return nearest_single(exact) if dtype == "f32" else np.float64(float(exact))
    except OverflowError:
        return NUMPY[dtype](math.copysign(math.inf, exact))


def nearest_single(exact: Fraction) -> Number:
    """The float nearest to a number, rounded once (by way of a double it would be rounded twice)."""
    with np.errstate(all="ignore"):
        if abs(exact) > Fraction(float(np.finfo(np.float32).max)):
            return np.float32(float(exact))
        middle = np.float32(float(exact))
        around = [np.nextafter(middle, np.float32(-np.inf)), middle, np.nextafter(middle, np.float32(np.inf))]
    finite = [c for c in around if np.isfinite(c)]
    return min(finite, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.uint32)) & 1))


def integer_of(expr: Expr, parameters: Mapping[str, int]) -> int:
    """The value of an integer expression of parameters, such as an array's extent. Raises PlantError."""
    match expr:
        case Val(value, dtype) if not is_float(dtype):
            return int(value)
        case Param(name) if name in parameters:
            return int(parameters[name])
        case Param(name, dtype) if not is_float(dtype):
            raise PlantError(f"an extent needs the parameter '{name}', which isn't given", remedy=f"give '{name}', too")
        case Cast(dtype, operand) if not is_float(dtype):
            return wrap(integer_of(operand, parameters), dtype)
        case Unary(op, operand, dtype) if not is_float(dtype):
            return int(apply_unary(op, integer_of(operand, parameters), dtype))
        case Binary(op, left, right):
            return int(apply_binary(op, integer_of(left, parameters), integer_of(right, parameters), dtype_of(left)))
        case Select(condition, true, false):
            return integer_of(true if integer_of(condition, parameters) else false, parameters)
    raise PlantError("an extent depends on something other than the given integer parameters")


def shape_of(buf: Buf, parameters: Mapping[str, int]) -> tuple[int, ...]:
    """The array's extents for these values of the integer parameters. Raises PlantError where one is negative."""
    shape = tuple(n if isinstance(n, int) else integer_of(n, parameters) for n in buf.shape)
    if any(n < 0 for n in shape):
        raise PlantError(f"'{buf.name}' would have the extents {shape}", loc=buf.loc)
    return shape
