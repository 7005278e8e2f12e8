"""C's arithmetic on single values, one function per operation, for every `DType`.

Integers are Python ints kept in their type's range; floats are NumPy scalars, so that each operation rounds once.
Where C leaves a result open, x86's is taken: integers wrap, shift counts are taken modulo the width, and a float that
doesn't fit an integer type becomes its smallest value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, assert_never

import numpy as np

from plant_core.ir import Access, Binary, BinaryOp, Call, Cast, DType, Expr, Iter, Param, Select, Unary, UnaryOp, Val
from plant_core.loc import PlantError

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
        case Val() | Param() | Cast() | Unary() | Binary() | Select() | Call() | Access():
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
