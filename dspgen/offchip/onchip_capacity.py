"""Room on the chip for arrays whose sizes are known at run time only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from dspgen.emit.needs import Room, shape_text
from dspgen.errors import DspgenError, Problem
from dspgen.target.isa.model import Target
from plant_core.ir.c_semantics import integer_of, size_of
from plant_core.ir.func import Buf, Func

_MOST = 1 << 22  # bytes of an array, however much memory there is


def with_room(source: Func, target: Target) -> tuple[Func, tuple[Room, ...]]:
    """The function with numbers in place of outermost extents that are none, and what there is room for: half the
    memory for all arrays together. Inner extents, which say how far rows are apart, stay as they are.

    Before: `float x[n][4]`. After: `float x[8192][4]`, and the caller is told that there are no more rows.
    """
    arrays = [p for p in source.params if isinstance(p, Buf) and p.shape]
    share = min(target.memory(target.abi.stack_memory).size // (2 * max(len(arrays), 1)), _MOST)
    found: dict[str, Buf] = {}
    for buf in arrays:
        rows = [n for n in buf.shape[1:] if isinstance(n, int)]
        if not isinstance(buf.shape[0], int) and len(rows) == len(buf.shape) - 1:
            most = max(share // (max(prod(rows), 1) * size_of(buf.dtype)), 1)
            found[buf.name] = replace(buf, shape=(most, *rows))
    if not found:
        return source, ()
    rooms = tuple(Room(b.name, b.shape, found[b.name].extents) for b in arrays if b.name in found)
    params = tuple(found.get(p.name, p) if isinstance(p, Buf) else p for p in source.params)
    return replace(source, params=params, bufs=tuple(found.get(b.name, b) for b in source.bufs)), rooms


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
