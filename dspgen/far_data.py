"""Data off the chip as runs of compiled code have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dspgen.emit.asm import emit_asm
from dspgen.emit.needs import Room, shape_text
from dspgen.errors import DspgenError, Problem
from dspgen.stages import Compiled, simulate_kernel
from dspgen.target.model import Target
from plant_core.affine import is_integer
from plant_core.ir import Buf, Func
from plant_core.values import NUMPY, integer_of


def check_room(room: Room, values: Mapping[str, object], func: Func) -> None:
    """Raises DspgenError where the code has no room for an array at these sizes; an empty one has."""
    sizes = {name: value for name, value in values.items() if isinstance(value, int)}
    shape = tuple(n if isinstance(n, int) else integer_of(n, sizes) for n in room.shape)
    if min(shape, default=1) > 0 and any(
        most is not None and n > most for n, most in zip(shape, room.most, strict=True)
    ):
        have, most = shape_text(shape), shape_text(room.most)
        what = f"`{room.array}` has {have} elements, and the code has room for {most} on the chip"
        remedy = "give the parameters' values with -D NAME=VALUE; --remarks tells how the nest is cut into blocks"
        raise DspgenError(Problem("DG319", what, func.loc, remedy))


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
