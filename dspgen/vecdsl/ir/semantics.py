"""What each operation of the vector DSL means, over NumPy: one table, the reference for every other room.

A scalar is an array of shape (), a vector one of shape (lanes,), or longer where lanes hold several elements, a pair a
tuple of two such. `IEEE` is the machine's arithmetic: IEEE 754 round to nearest even, fused multiply-adds rounded
once, integers modulo 2 to their width.
`Modular(p)` takes every element as an integer modulo the prime p, so that rewrites of sums and products can be
checked exactly; it refuses operations that have no meaning there.

Where C leaves a result open, this does: a division by zero gives 0, shift counts are taken modulo the width, a float
out of an integer's range saturates (not-a-number gives 0).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from dspgen.vecdsl.ir.program import OPS, Elem, VType, lanes_of

Array = np.ndarray[Any, Any]
Value = Array | tuple[Array, Array]

DTYPES: dict[Elem, np.dtype[Any]] = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
}


class Arithmetic(Protocol):
    """How elements are represented in memory and in registers, and what a lane operation does to them."""

    def memory(self, values: Array, elem: Elem) -> Array: ...

    def register(self, values: Array, elem: Elem) -> Array: ...

    def lane(self, name: str, type: VType, args: tuple[Array, ...]) -> Array: ...


def apply(
    arithmetic: Arithmetic, name: str, type: VType, imm: tuple[int, ...], args: tuple[Value, ...], lanes: int
) -> Value:
    """The value of one operation."""
    if OPS[name].kind in ("lane", "bits") and not any(isinstance(a, tuple) for a in args):
        return arithmetic.lane(name, type, tuple(map(_plain, args)))
    return _CROSS[name](arithmetic, type, imm, args, lanes_of(type, lanes))


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once, to the arrays' own type (f32 or f64)."""
    if a.dtype == np.float32:
        return _fused32(a.astype(np.float64), b.astype(np.float64), c.astype(np.float64))
    shape = np.broadcast_shapes(a.shape, b.shape, c.shape)
    flat = [np.broadcast_to(x, shape).ravel().tolist() for x in (a, b, c)]
    out = [_fused64(x, y, z) for x, y, z in zip(*flat, strict=True)]
    return np.array(out, dtype=np.float64).reshape(shape)


def _fused32(a: Array, b: Array, c: Array) -> Array:
    # The product is exact in double; rounding the sum to odd makes the second rounding, to single, correct.
    product = a * b
    total = np.asarray(product + c)
    virtual = total - product
    error = (product - (total - virtual)) + (c - virtual)
    even = (total.view(np.int64) & 1) == 0
    adjust = np.isfinite(total) & (error != 0) & even
    toward = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    with np.errstate(over="ignore"):
        return np.asarray(np.where(adjust, toward, total).astype(np.float32))


def _fused64(a: float, b: float, c: float) -> float:
    if not all(map(np.isfinite, (a, b, c))):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if (a == 0 or b == 0) else 0.0
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a.astype(np.int64)) // np.abs(safe.astype(np.int64))
    signed = np.where((a < 0) != (safe < 0), -quotient, quotient)
    return np.asarray(np.where(b == 0, 0, signed))


def _remainder(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(np.fmod(a, b))
    wide = a.astype(np.int64)
    return np.asarray(np.where(b == 0, 0, wide - _divide(a, b) * b.astype(np.int64)))


def _estimate(exact: Array) -> Array:
    mantissa, exponent = np.frexp(exact)
    rounded = np.ldexp(np.rint(mantissa * 512.0) / 512.0, exponent)
    return np.asarray(np.where(np.isfinite(exact), rounded, exact))


def _to_integer(a: Array) -> Array:
    wide = np.nan_to_num(a.astype(np.float64), nan=0.0, posinf=2.0**40, neginf=-(2.0**40))
    return np.asarray(np.clip(np.trunc(wide), -(2.0**31), 2.0**31 - 1).astype(np.int64))


def _high(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    product = a.astype(object) * b.astype(object)
    return np.asarray(product >> bits)


def _low(a: Array, bits: int, signed: bool) -> Array:
    value = a.astype(np.int64) & ((1 << bits) - 1)
    return np.asarray(np.where(value >> (bits - 1) & 1, value - (1 << bits), value)) if signed else value


def _clamped(a: Array, bits: int, signed: bool) -> Array:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return np.asarray(np.clip(a, low, high))


def _unsigned(a: Array) -> Array:
    return a.view(f"u{a.dtype.itemsize}")


def _bits(operation: Callable[..., Array]) -> Callable[..., Array]:
    def on_bits(*args: Array) -> Array:
        integers = [a.view(f"i{a.dtype.itemsize}") for a in args]
        return np.asarray(operation(*integers)).view(args[0].dtype)

    return on_bits


def _multiply_add(sign_product: int, sign_addend: int) -> Callable[..., Array]:
    def operation(a: Array, b: Array, c: Array) -> Array:
        if a.dtype.kind == "f":
            return fused(a if sign_product > 0 else -a, b, c if sign_addend > 0 else -c)
        return np.asarray(sign_product * (a * b) + sign_addend * c)

    return operation


_LANE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "mac": _multiply_add(1, 1),
    "msub": _multiply_add(1, -1),
    "nmac": _multiply_add(-1, 1),
    "neg": np.negative,
    "abs": np.abs,
    "min": np.fmin,
    "max": np.fmax,
    "minu": lambda a, b: np.where(_unsigned(a) < _unsigned(b), a, b),
    "maxu": lambda a, b: np.where(_unsigned(a) < _unsigned(b), b, a),
    "absdu": lambda a, b: np.where(_unsigned(a) < _unsigned(b), b - a, a - b),
    "div": _divide,
    "mod": _remainder,
    "sqrt": np.sqrt,
    "rcp_est": lambda a: _estimate(1.0 / a.astype(np.float64)),
    "rsqrt_est": lambda a: _estimate(1.0 / np.sqrt(a.astype(np.float64))),
    "mac16": lambda a, b, c: _low(a, 16, True) * _low(b, 16, True) + c,
    "mul16": lambda a, b: _low(a, 16, True) * _low(b, 16, True),
    "add_sat": lambda a, b: _clamped(a.astype(np.int64) + b.astype(np.int64), 32, True),
    "sub_sat": lambda a, b: _clamped(a.astype(np.int64) - b.astype(np.int64), 32, True),
    "sat8": lambda a: _clamped(a, 8, True),
    "sat16": lambda a: _clamped(a, 16, True),
    "satu8": lambda a: _clamped(a, 8, False),
    "satu16": lambda a: _clamped(a, 16, False),
    "mulhi": _high,
    "shl": lambda a, b: np.left_shift(a, b & (a.dtype.itemsize * 8 - 1)),
    "shr": lambda a, b: np.right_shift(a, b & (a.dtype.itemsize * 8 - 1)),
    "shru": lambda a, b: np.right_shift(_unsigned(a), _unsigned(b) & (a.dtype.itemsize * 8 - 1)),
    "lt": np.less,
    "ltu": lambda a, b: _unsigned(a) < _unsigned(b),
    "gt": np.greater,
    "le": np.less_equal,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "sext8": lambda a: _low(a, 8, True),
    "sext16": lambda a: _low(a, 16, True),
    "zext8": lambda a: _low(a, 8, False),
    "zext16": lambda a: _low(a, 16, False),
    "dup16": lambda a: _low(a, 16, False) | _low(a, 16, True) << 16,
    "cvt_i32_f32": lambda a: a.astype(np.float32),
    "cvt_u32_f32": lambda a: _unsigned(a).astype(np.float32),
    "cvt_i32_f64": lambda a: a.astype(np.float64),
    "cvt_f32_i32": _to_integer,
    "cvt_f64_i32": _to_integer,
    "cvt_f32_f64": lambda a: a.astype(np.float64),
    "cvt_f64_f32": lambda a: a.astype(np.float32),
    "and": _bits(np.bitwise_and),
    "or": _bits(np.bitwise_or),
    "xor": _bits(np.bitwise_xor),
    "not": _bits(np.bitwise_not),
    "select": lambda a, b, c: np.where(a != 0, b, c),
    "mov": lambda a: a,
}


@dataclass(frozen=True, slots=True)
class Ieee:
    """The machine's arithmetic."""

    def memory(self, values: Array, elem: Elem) -> Array:
        return np.asarray(values).astype(DTYPES[elem])

    def register(self, values: Array, elem: Elem) -> Array:
        return np.asarray(values).astype(DTYPES[elem])

    def lane(self, name: str, type: VType, args: tuple[Array, ...]) -> Array:
        dtype = DTYPES[type.elem]
        if type.elem == "u32" and name in ("div", "mod"):
            args = tuple(_unsigned(a) for a in args)
        with np.errstate(all="ignore"):
            result = np.asarray(_LANE[name](*args))
        if name == "mov" and result.dtype != dtype:
            return result.view(dtype)
        return result if result.dtype == dtype else result.astype(dtype)


@dataclass(frozen=True, slots=True)
class Modular:
    """Every element is an integer modulo the prime `modulus` (below 2^31)."""

    modulus: int = 2147483629

    def memory(self, values: Array, elem: Elem) -> Array:
        return self.register(values, elem)

    def register(self, values: Array, elem: Elem) -> Array:
        return np.asarray(np.asarray(values).astype(np.int64) % self.modulus)

    def lane(self, name: str, type: VType, args: tuple[Array, ...]) -> Array:
        p = self.modulus
        match name, args:
            case "add", (a, b):
                result = a + b
            case "sub", (a, b):
                result = a - b
            case "mul", (a, b):
                result = a * b
            case "mac", (a, b, c):
                result = a * b % p + c
            case "msub", (a, b, c):
                result = a * b % p - c
            case "nmac", (a, b, c):
                result = c - a * b % p
            case "neg", (a,):
                result = -a
            case "mov", (a,):
                result = a
            case "select", (a, b, c):
                result = np.where(a != 0, b, c)
            case _:
                raise ValueError(f"'{name}' has no meaning modulo a prime")
        return np.asarray(result % p)


IEEE = Ieee()


def _plain(value: Value) -> Array:
    if isinstance(value, tuple):
        raise ValueError("a pair stands where a single value is wanted")
    return np.asarray(value)


def _reduce(operation: str) -> Callable[..., Value]:
    def reduce(arithmetic: Arithmetic, type: VType, imm: tuple[int, ...], args: tuple[Value, ...], lanes: int) -> Value:
        values = _plain(args[0])
        while values.shape[0] > 1:
            half, odd = divmod(values.shape[0], 2)
            rest = values[2 * half :] if odd else values[:0]
            values = np.concatenate([arithmetic.lane(operation, type, (values[:half], values[half : 2 * half])), rest])
        return np.asarray(values[0])

    return reduce


def _everywhere(operation: str) -> Callable[..., Value]:
    reduce = _reduce(operation)

    def spread(arithmetic: Arithmetic, type: VType, imm: tuple[int, ...], args: tuple[Value, ...], lanes: int) -> Value:
        return np.full(lanes, _plain(reduce(arithmetic, type, imm, args, lanes)))

    return spread


def _both(args: tuple[Value, ...]) -> Array:
    return np.concatenate([_plain(args[0]), _plain(args[1])])


def _zip(args: tuple[Value, ...]) -> Array:
    return np.stack([_plain(args[0]), _plain(args[1])], axis=1).ravel()


def _insert(vector: Array, scalar: Array, lane: int) -> Array:
    out = vector.copy()
    out[lane] = scalar
    return out


def _gathered(args: tuple[Value, ...], lanes: int) -> Array:
    if len(args) != lanes:
        raise ValueError(f"'vec' has {len(args)} elements for {lanes} lanes")
    return np.stack([_plain(a) for a in args])


def _shuffled(source: Array, pattern: tuple[int, ...], lanes: int) -> Array:
    """Lane k is element pattern[k]; 0 where that is -1, which stands for anything."""
    if len(pattern) != lanes or not all(-1 <= k < source.shape[0] for k in pattern):
        raise ValueError(f"pattern {pattern} does not fit {lanes} lanes")
    where = np.array(pattern)
    return np.where(where < 0, np.zeros((), source.dtype), source[np.maximum(where, 0)])


def _transposed(vector: Array, rows: int) -> Array:
    if rows < 1 or vector.shape[0] % rows:
        raise ValueError(f"{vector.shape[0]} lanes are not {rows} rows")
    return vector.reshape(rows, -1).T.ravel()


def _complex_product(arithmetic: Arithmetic, type: VType, a: Value, b: Value) -> tuple[Array, Array]:
    """The real and the imaginary part, each product and each sum rounded."""

    def lane(name: str, left: Array, right: Array) -> Array:
        return arithmetic.lane(name, type, (left, right))

    real = lane("sub", lane("mul", _half(a, 0), _half(b, 0)), lane("mul", _half(a, 1), _half(b, 1)))
    return real, lane("add", lane("mul", _half(a, 0), _half(b, 1)), lane("mul", _half(a, 1), _half(b, 0)))


def _at_once(
    low: str, high: str, m: Arithmetic, type: VType, args: tuple[Value, ...], lanes: int
) -> tuple[Array, Array]:
    return _plain(_CROSS[low](m, type, (), args, lanes)), _plain(_CROSS[high](m, type, (), args, lanes))


def _halves(m: Arithmetic, type: VType, words: Value, low: str = "sext16", high: str = "shr") -> tuple[Array, Array]:
    by = m.register(np.asarray(int(low[4:])), type.elem)
    return m.lane(low, type, (_plain(words),)), m.lane(high, type, (_plain(words), by))


def _products16(m: Arithmetic, type: VType, a: Value, b: Value) -> tuple[Array, Array]:
    low, high = (m.lane("mul", type, halves) for halves in zip(_halves(m, type, a), _halves(m, type, b), strict=True))
    return low, high


def _complex_add(arithmetic: Arithmetic, type: VType, a: Value, b: Value) -> tuple[Array, Array]:
    real, imaginary = (arithmetic.lane("add", type, (_half(a, k), _half(b, k))) for k in (0, 1))
    return real, imaginary


def _half(value: Value, index: int) -> Array:
    if not isinstance(value, tuple):
        raise ValueError("a half of something that is not a pair")
    return value[index]


_CROSS: dict[str, Callable[..., Value]] = {
    "bcast": lambda m, t, imm, a, n: m.register(np.full(n, _plain(a[0])), t.elem),
    "iota": lambda m, t, imm, a, n: m.register(np.arange(n), t.elem),
    "lane": lambda m, t, imm, a, n: np.asarray(_plain(a[0])[imm[0]]),
    "insert": lambda m, t, imm, a, n: _insert(_plain(a[0]), _plain(a[1]), imm[0]),
    "dup_lane": lambda m, t, imm, a, n: np.full(n, _plain(a[0])[imm[0]]),
    "align": lambda m, t, imm, a, n: _both(a)[imm[0] : imm[0] + n],
    "even": lambda m, t, imm, a, n: _both(a)[0::2],
    "odd": lambda m, t, imm, a, n: _both(a)[1::2],
    "zip_lo": lambda m, t, imm, a, n: _zip(a)[:n],
    "zip_hi": lambda m, t, imm, a, n: _zip(a)[n:],
    "reverse": lambda m, t, imm, a, n: _plain(a[0])[::-1],
    "reduce_add": _reduce("add"),
    "reduce_min": _reduce("min"),
    "reduce_max": _reduce("max"),
    "reduce_mul": _reduce("mul"),
    "reduce_and": _reduce("and"),
    "reduce_or": _reduce("or"),
    "reduce_xor": _reduce("xor"),
    "all_add": _everywhere("add"),
    "all_min": _everywhere("min"),
    "all_max": _everywhere("max"),
    "mask_first": lambda m, t, imm, a, n: m.register(np.arange(n) < imm[0], t.elem),
    "mask_period": lambda m, t, imm, a, n: m.register(
        (imm[1] <= np.arange(n) % imm[0]) & (np.arange(n) % imm[0] < imm[2]), t.elem
    ),
    "alike": lambda m, t, imm, a, n: _plain(a[0]),
    "vec": lambda m, t, imm, a, n: _gathered(a, n),
    "shuffle": lambda m, t, imm, a, n: _shuffled(_plain(a[0]), imm, n),
    "shuffle2": lambda m, t, imm, a, n: _shuffled(_both(a), imm, n),
    "transpose": lambda m, t, imm, a, n: _transposed(_plain(a[0]), imm[0]),
    "concat": lambda m, t, imm, a, n: np.concatenate([_plain(a[0])[: imm[0]], _plain(a[1])[: n - imm[0]]]),
    "pair": lambda m, t, imm, a, n: (_plain(a[0]), _plain(a[1])),
    "lo": lambda m, t, imm, a, n: _half(a[0], 0),
    "hi": lambda m, t, imm, a, n: _half(a[0], 1),
    "bcast_pair": lambda m, t, imm, a, n: (np.full(n, _half(a[0], 0)), np.full(n, _half(a[0], 1))),
    "cmul": lambda m, t, imm, a, n: _complex_product(m, t, a[0], a[1]),
    "cmul_re": lambda m, t, imm, a, n: _complex_product(m, t, a[0], a[1])[0],
    "cmul_im": lambda m, t, imm, a, n: _complex_product(m, t, a[0], a[1])[1],
    "cmac": lambda m, t, imm, a, n: _complex_add(m, t, _complex_product(m, t, a[0], a[1]), a[2]),
    "zip": lambda m, t, imm, a, n: _at_once("zip_lo", "zip_hi", m, t, a, n),
    "unzip": lambda m, t, imm, a, n: _at_once("even", "odd", m, t, a, n),
    "view": lambda m, t, imm, a, n: _plain(a[0]).view(DTYPES[t.elem]),
    "join": lambda m, t, imm, a, n: m.register(_zip(a), t.elem),
    "unpack16": lambda m, t, imm, a, n: _halves(m, t, a[0]),
    "unpacku16": lambda m, t, imm, a, n: _halves(m, t, a[0], "zext16", "shru"),
    "unpack8": lambda m, t, imm, a, n: _halves(m, t, a[0], "sext8"),
    "unpacku8": lambda m, t, imm, a, n: _halves(m, t, a[0], "zext8", "shru"),
    "mul16_pair": lambda m, t, imm, a, n: _products16(m, t, a[0], a[1]),
    "mac16_pair": lambda m, t, imm, a, n: _complex_add(m, t, _products16(m, t, a[0], a[1]), a[2]),
    "select": lambda m, t, imm, a, n: a[1] if bool(np.all(_plain(a[0]) != 0)) else a[2],
    "mov": lambda m, t, imm, a, n: a[0],
}
