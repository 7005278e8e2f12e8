"""Float operations that NumPy lacks, rounded exactly once."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

Array = Any  # a NumPy array of float32 or float64


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once, for float32 or float64 arrays of one shape."""
    return _fused32(a, b, c) if a.dtype == np.float32 else _fused64(a, b, c)


def _fused32(a: Array, b: Array, c: Array) -> Array:
    """The product is exact in double; the sum is rounded to odd there, so that rounding it to single is right."""
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    away = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(inexact, bits + away, bits).view(np.float64).astype(np.float32)


def _fused64(a: Array, b: Array, c: Array) -> Array:
    return np.array([_fused_double(float(x), float(y), float(z)) for x, y, z in zip(a, b, c, strict=True)])


def _fused_double(a: float, b: float, c: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        if math.isfinite(a) and math.isfinite(b):
            return c
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a == 0 or b == 0 else 0.0
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def rounded_to_8_bits(values: Array) -> Array:
    """Rounds the fraction to 8 bits, to nearest even; infinities and NaNs stay."""
    drop, width = (44, 64) if values.dtype == np.float64 else (15, 32)
    integer = np.dtype(f"u{width // 8}").type
    half, kept = integer((1 << (drop - 1)) - 1), integer((1 << width) - (1 << drop))
    bits = values.view(integer)
    rounded = (bits + half + ((bits >> integer(drop)) & integer(1))) & kept
    return np.where(np.isfinite(values), rounded, bits).view(values.dtype)


def to_integer(values: Array, bits: int) -> Array:
    """Toward zero, saturating; NaN gives 0. As signed integers of `bits` bits."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    wide = np.trunc(values.astype(np.float64))
    inside = (wide > float(low)) & (wide < float(high) if bits > 32 else wide <= float(high))
    safe = np.where(inside, wide, 0.0).astype(np.int64)
    edges = np.where(wide <= float(low), low, np.where(np.isnan(wide), 0, high))
    return np.where(inside, safe, edges).astype(f"i{bits // 8}")
