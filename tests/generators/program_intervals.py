"""Arithmetic of intervals of the values of C expressions, at many points at once.

An interval is two arrays, its least and its greatest values. Integers that may wrap may be anything of their type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.generators.program_tree import BITS, is_real

Array = npt.NDArray[Any]
Interval = tuple[Array, Array]
WIDE = 1 << 40  # stands for a limit of a type of more than 16 bits
_SMALL = 1 << 30


class Undefined(Exception):
    """The program may do what C leaves open, or too much."""


def full(type_: str) -> Interval:
    if is_real(type_):
        return np.float64(-np.inf), np.float64(np.inf)
    bits, signed = BITS[type_]
    if bits > 16:
        return np.int64(-WIDE if signed else 0), np.int64(WIDE)
    return np.int64(-(1 << bits - 1) if signed else 0), np.int64((1 << bits - signed) - 1)


def span(*ends: Array) -> Interval:
    low, high = ends[0], ends[0]
    for end in ends[1:]:
        low, high = np.minimum(low, end), np.maximum(high, end)
    return low, high


def is_exact(value: Interval) -> bool:
    return bool(np.all(value[0] == value[1]))


def is_small(value: Interval) -> bool:
    return bool(np.all(value[0] > -_SMALL) and np.all(value[1] < _SMALL))


def within(value: Interval, type_: str) -> Interval:
    """As the type holds it: what may wrap may be anything."""
    if is_real(type_):
        return value
    bits, signed = BITS[type_]
    low, high = full(type_) if bits <= 16 else (np.int64(-_SMALL * 2 if signed else 0), np.int64(_SMALL * 2 - 1))
    return value if np.all(value[0] >= low) and np.all(value[1] <= high) else full(type_)


def real(op: str, one: Interval, two: Interval) -> Interval:
    if op not in ("+", "-", "*", "/"):
        raise Undefined("bits of a float")
    with np.errstate(all="ignore"):
        if op == "+":
            found = one[0] + two[0], one[1] + two[1]
        elif op == "-":
            found = one[0] - two[1], one[1] - two[0]
        elif op == "*":
            found = span(*(a * b for a in one for b in two))
        else:
            return full("double")
    return full("double") if np.any(np.isnan(found[0]) | np.isnan(found[1])) else found


def compare(op: str, one: Interval, two: Interval, type_: str) -> Interval:
    if not is_real(type_) and not BITS[type_][1] and (np.any(one[0] < 0) or np.any(two[0] < 0)):
        return np.int64(0), np.int64(1)
    if op in (">", ">="):
        return compare({">": "<", ">=": "<="}[op], two, one, type_)
    if op in ("<", "<="):
        low, high = (one[1] < two[0], one[0] < two[1]) if op == "<" else (one[1] <= two[0], one[0] <= two[1])
    else:
        low = (one[0] == one[1]) & (two[0] == two[1]) & (one[0] == two[0])
        high = (one[0] <= two[1]) & (two[0] <= one[1])
        if op == "!=":
            low, high = ~high, ~low
    return np.asarray(low, np.int64), np.asarray(high, np.int64)


def quotient(one: Interval, two: Interval) -> Interval:
    if not (is_small(one) and is_exact(two)):
        return span(one[0], one[1], -one[0], -one[1])
    by = np.where(two[0] == 0, 1, two[0])
    return span(*(np.sign(a) * np.sign(by) * (abs(a) // abs(by)) for a in one))


def remainder(one: Interval, two: Interval) -> Interval:
    if is_exact(one) and is_exact(two):
        by = np.where(two[0] == 0, 1, two[0])
        exact = one[0] - np.sign(one[0]) * np.sign(by) * (abs(one[0]) // abs(by)) * by
        return exact, exact
    most = np.maximum(abs(two[0]), abs(two[1])) - 1
    low, high = np.where(one[0] >= 0, 0, -most), np.where(one[1] <= 0, 0, most)
    return np.maximum(low, np.minimum(one[0], 0)), np.minimum(high, np.maximum(one[1], 0))


def bits(op: str, one: Interval, two: Interval, anything: Interval) -> Interval:
    if is_exact(one) and is_exact(two) and is_small(one) and is_small(two):
        exact = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}[op](one[0], two[0])
        return exact, exact
    positive = [bool(np.all(v[0] >= 0)) for v in (one, two)]
    if all(positive) and np.all(one[1] <= 1) and np.all(two[1] <= 1) and op != "^":
        return (one[0] & two[0], one[1] & two[1]) if op == "&" else (one[0] | two[0], one[1] | two[1])
    if op == "&" and any(positive):
        most = [v[1] for v, p in zip((one, two), positive, strict=True) if p]
        return np.int64(0), most[0] if len(most) == 1 else np.minimum(*most)
    if all(positive) and is_small(one) and is_small(two):
        most = int(max(np.max(one[1], initial=0), np.max(two[1], initial=0)))
        return np.int64(0), np.int64((1 << most.bit_length()) - 1)
    return anything
