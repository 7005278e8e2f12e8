"""Data off the chip as runs of compiled code have them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dspgen.backend.stages import Compiled, simulate_kernel
from dspgen.emit.asm import emit_asm
from dspgen.target.isa.model import Target
from plant_core.ir.accesses import is_integer
from plant_core.ir.c_semantics import NUMPY
from plant_core.ir.func import Buf, Func


def far_placement(source: Func, target: Target) -> dict[str, str]:
    """The memory off the chip that arrays are in."""
    largest = max((m for m in target.memories if not m.onchip), key=lambda m: m.size, default=None)
    return {} if largest is None else {p.name: largest.name for p in source.params if isinstance(p, Buf)}


def cycles_far(whole: Compiled, source: Func, target: Target) -> int | None:
    """What a run on zeros takes, with data off the chip; None where integer parameters may tell how often loops run."""
    if any(is_integer(p.dtype) for p in source.params if not isinstance(p, Buf)):
        return None
    zeros = {p.name: np.zeros(p.extents, NUMPY[p.dtype]) if isinstance(p, Buf) else 0.0 for p in source.params}
    kernel = replace(whole, source=source, asm=emit_asm(whole.scheduled, target, func=source))
    return simulate_kernel(kernel, target, zeros, placement=far_placement(source, target)).cycles
