"""The C program's results on given inputs, and how far rounding alone may take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dspgen.frontend.parse.preprocess import Defines, Includes
from dspgen.oracle.run import Inputs, host_program
from plant_core.ir.c_semantics import NUMPY, is_float
from plant_core.ir.func import Buf, Func

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]
PERTURBED_RUNS = 3
"""All runs land within a thousandth of each other by luck for one ill-conditioned element in a thousand million."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The final arrays of the C program: as written, in double, and as written with perturbed inputs."""

    single: Arrays
    double: Arrays
    perturbed: tuple[Arrays, ...] = ()


def reference(
    path: str,
    func: Func,
    inputs: Inputs,
    defines: Defines = (),
    includes: Includes = (),
    *,
    fp: Literal["strict", "reassoc"] = "reassoc",
) -> Reference:
    """Run the C program as `compare` needs it: once where results must be the same bits, else in double as well, and
    on inputs of which random halves are moved by one rounding."""
    program = host_program(path, func, defines, includes=includes)
    single = program(inputs)
    if fp == "strict" or not any(is_float(buf.dtype) for buf in func.bufs):
        return Reference(single, single)
    double = host_program(path, func, defines, double=True, includes=includes)(inputs)
    perturbed = tuple(program(perturb(func, inputs, seed)) for seed in range(PERTURBED_RUNS))
    return Reference(single, double, perturbed)


def perturb(func: Func, inputs: Inputs, seed: int) -> dict[str, Array | int | float]:
    """Move a random half of the floating-point inputs to the next number towards zero.

    No value leaves the range that the inputs had, so that subscripts computed from them stay in their arrays.
    """
    found = dict(inputs)
    for position, param in enumerate(func.params):
        if is_float(param.dtype) and param.name in found:
            value = np.asarray(found[param.name], NUMPY[param.dtype])
            half = np.random.default_rng([seed, position]).integers(0, 2, value.shape).astype(bool)
            moved = np.where(half, np.nextafter(value, np.zeros_like(value)), value)
            found[param.name] = moved if isinstance(param, Buf) else moved.item()
    return found
