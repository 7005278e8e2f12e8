"""The verdict on a kernel's results: whether they are the C program's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dspgen.oracle.reference import Arrays, Reference
from plant_core.ir.c_semantics import is_float
from plant_core.ir.func import Buf, DType, Func

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
_SCALE: dict[DType, float] = {"f32": 1e-5, "f64": 1e-10}
_ILL: dict[DType, float] = {"f32": 1e-3, "f64": 1e-6}
"""An element that rounding moves by more than this share of its array's largest one has too few digits to compare."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a comparison.

    `max_error`: the largest distance of a well-conditioned element from the C program's. `details`: a sentence on each
    array that differs, or that can't be compared, without its subject. `wrong`, `ill_conditioned`: how many such
    elements an array has, where it has any.
    """

    max_error: float
    details: tuple[str, ...] = ()
    wrong: Mapping[str, int] = field(default_factory=dict)
    ill_conditioned: Mapping[str, int] = field(default_factory=dict)

    @property
    def verified(self) -> bool:
        """Return whether every element was compared and is right."""
        return not self.wrong and not self.ill_conditioned


def compare(func: Func, got: Arrays, reference: Reference, fp: Literal["strict", "reassoc"]) -> Verdict:
    """Judge every non-const array.

    Integers must be equal. Floats must be the same bits under `strict`. Else, with r the C program's array, d the same
    program's in double and p its arrays for perturbed inputs, |got - d| <= 4 max|x - d| + 1e-5 max|d| for x in r and p
    (1e-10 for double). An element that rounding takes further than 1e-3 max|d| (1e-6) is ill-conditioned: neither it
    nor its distances widen the bound of the others, and it is right only within 1e-5 max|d| of r. NaN counts as equal
    to NaN, and an infinity only to itself. An array that is missing or has another shape is wrong.
    """
    largest, details = 0.0, []
    wrong_elements: dict[str, int] = {}
    ill_conditioned: dict[str, int] = {}
    for param in func.params:
        if not isinstance(param, Buf) or param.const:
            continue
        name = param.name
        expected = np.asarray(reference.single[name])
        if name not in got or np.shape(got[name]) != expected.shape:
            largest = float("inf")
            wrong_elements[name] = expected.size
            details.append(f"differs from the C program: {name}: no result of shape {expected.shape}")
            continue
        value = np.asarray(got[name])
        exact = np.asarray(reference.double[name])
        perturbed = [np.asarray(arrays[name]) for arrays in reference.perturbed]
        wrong, ill, note = _judge(param.dtype, value, expected, exact, perturbed, fp)
        largest = max(largest, _distance(value[~ill], expected[~ill]))
        if wrong.any():
            wrong_elements[name] = int(wrong.sum())
            details.append(
                f"differs from the C program: {_place(name, wrong)}: got {_first(value, wrong)}, "
                f"the C program gives {_first(expected, wrong)}{note} "
                f"({wrong_elements[name]} of {wrong.size} elements differ)"
            )
        if ill.any():
            ill_conditioned[name] = int(ill.sum())
            details.append(
                f"can't be verified on these inputs: {_place(name, ill)} is ill-conditioned: got {_first(value, ill)}, "
                f"the C program gives {_first(expected, ill)}, in double {_first(exact, ill)} "
                f"({ill_conditioned[name]} of {ill.size} elements); give others, by --inputs or a line @input"
            )
    return Verdict(largest, tuple(details), wrong_elements, ill_conditioned)


def _place(name: str, mask: Mask) -> str:
    return name + "".join(f"[{int(k)}]" for k in np.argwhere(mask)[0])


def _first(array: Array, mask: Mask) -> str:
    return str(array[mask][0])


def _distance(value: Array, expected: Array) -> float:
    one, other = value.astype(np.float64), expected.astype(np.float64)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(one - other))
    return float(np.max(np.where(np.isnan(apart), np.inf, apart), initial=0.0))


def _judge(
    dtype: DType, value: Array, expected: Array, exact: Array, perturbed: list[Array], fp: str
) -> tuple[Mask, Mask, str]:
    """Return the wrong elements, those too ill-conditioned to be compared, and the bound in words."""
    none = np.zeros(value.shape, bool)
    if not is_float(dtype):
        return value != expected, none, ""
    both = np.isnan(value) & np.isnan(expected)
    if fp == "strict":
        bits = np.uint32 if dtype == "f32" else np.uint64
        same = np.ascontiguousarray(value, expected.dtype).view(bits) == np.ascontiguousarray(expected).view(bits)
        return ~(same | both), none, ""
    result, real = value.astype(np.float64), exact.astype(np.float64)
    samples = [array.astype(np.float64) for array in (expected, *perturbed)]
    usual = np.isfinite(samples[0]) & np.isfinite(real)
    with np.errstate(invalid="ignore"):
        noise = np.max([np.abs(sample - real) for sample in samples], axis=0)
        noise = np.where(np.isfinite(noise), noise, np.inf)
    well, scale = _well_conditioned(dtype, usual, noise, np.abs(real))
    tolerance = _SCALE[dtype] * scale
    bound = 4 * float(np.max(noise, where=well, initial=0.0)) + tolerance
    with np.errstate(invalid="ignore"):
        equal = both | (result == samples[0]) | (np.abs(result - samples[0]) <= tolerance)
        right = equal | (well & (np.abs(result - real) <= bound))
    unsettled = ~usual & np.any([np.isfinite(sample) for sample in (real, *samples)], axis=0)
    ill = ((usual & ~well) | unsettled) & ~right
    return ~(right | ill), ill, f" (bound {bound:.3g})"


def _well_conditioned(dtype: DType, usual: Mask, noise: Array, magnitude: Array) -> tuple[Mask, float]:
    """Return the elements of which rounding leaves enough digits, and the largest magnitude among these."""
    well = usual
    while True:
        scale = float(np.max(magnitude, where=well, initial=0.0))
        kept = well & (noise <= _ILL[dtype] * scale)
        if np.array_equal(kept, well):
            return well, scale
        well = kept
