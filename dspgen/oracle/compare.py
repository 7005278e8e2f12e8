"""Whether a kernel's results are the C program's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from plant_core.ir import Buf, DType, Func
from plant_core.values import is_float

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
_SCALE: dict[DType, float] = {"f32": 1e-5, "f64": 1e-10}


def compare(
    func: Func, got: Arrays, reference: Arrays, reference_double: Arrays, fp: Literal["strict", "reassoc"]
) -> tuple[bool, float, tuple[str, ...]]:
    """Whether every non-const array is right, the largest distance from the C program's, and what differs.

    Integers must be equal. Floats must be the same bits under `strict`; else, with r the C program's array and d the
    same program's in double, |got - d| <= 4 max|r - d| + 1e-5 max|d| (1e-10 for double). NaN counts as equal to NaN,
    and an infinity only to itself. An array that is missing or has another shape is wrong.
    """
    verified, largest, details = True, 0.0, []
    for param in func.params:
        if not isinstance(param, Buf) or param.const:
            continue
        name = param.name
        shape = np.shape(reference[name])
        if name not in got or np.shape(got[name]) != shape:
            verified = False
            largest = float("inf")
            details.append(f"{name}: no result of shape {shape}")
            continue
        value, expected = np.asarray(got[name]), np.asarray(reference[name])
        largest = max(largest, _distance(value, expected))
        wrong, note = _wrong(param.dtype, value, expected, np.asarray(reference_double[name]), fp)
        if wrong.any():
            verified = False
            where = tuple(int(k) for k in np.argwhere(wrong)[0])
            place = name + "".join(f"[{k}]" for k in where)
            details.append(
                f"{place}: got {value[where]!s}, the C program gives {expected[where]!s}{note} "
                f"({int(wrong.sum())} of {wrong.size} elements differ)"
            )
    return verified, largest, tuple(details)


def _distance(value: Array, expected: Array) -> float:
    one, other = value.astype(np.float64), expected.astype(np.float64)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(one - other))
    return float(np.max(np.where(np.isnan(apart), np.inf, apart), initial=0.0))


def _wrong(dtype: DType, value: Array, expected: Array, exact: Array, fp: str) -> tuple[npt.NDArray[np.bool_], str]:
    if not is_float(dtype):
        return value != expected, ""
    both = np.isnan(value) & np.isnan(expected)
    if fp == "strict":
        bits = np.uint32 if dtype == "f32" else np.uint64
        same = np.ascontiguousarray(value, expected.dtype).view(bits) == np.ascontiguousarray(expected).view(bits)
        return ~(same | both), ""
    usual = np.isfinite(expected) & np.isfinite(exact)
    result, real = value.astype(np.float64), exact.astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.abs(expected.astype(np.float64) - real)
    rounding = np.max(apart, where=usual, initial=0.0)
    bound = float(4 * rounding + _SCALE[dtype] * np.max(np.abs(real), where=usual, initial=0.0))
    with np.errstate(invalid="ignore"):
        near = np.abs(result - real) <= bound
    right = np.where(usual, near, both | (value == expected))
    return ~right, f" (bound {bound:.3g})"
