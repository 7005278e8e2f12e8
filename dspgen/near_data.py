"""Arrays on the chip whose sizes are known at run time only: as large as there is room for.

Before: `float x[n][4]`. After: `float x[8192][4]`, and the caller is told that there are no more rows.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dspgen.emit.needs import Room
from dspgen.target.model import Target
from plant_core.ir import Buf, Func
from plant_core.values import size_of

_MOST = 1 << 22  # bytes of an array, however much memory there is


def with_room(source: Func, target: Target) -> tuple[Func, tuple[Room, ...]]:
    """The function with numbers in place of outermost extents that are none, and what there is room for: half the
    memory for all arrays together. Inner extents, which say how far rows are apart, stay as they are."""
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
