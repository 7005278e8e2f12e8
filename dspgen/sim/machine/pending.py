"""Instructions, results and stores that are on their way in the plain machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dspgen.sim.ir.program import Op, Store, Write
from dspgen.sim.ir.semantics import Thunk

Array = Any


@dataclass(frozen=True, slots=True)
class Ready:
    """An op with its nodes compiled; what it writes and stores with the `cycle` of each."""

    op: Op
    address: Thunk | None
    writes: tuple[tuple[Write, int, Thunk], ...]
    stores: tuple[tuple[Store, int, Thunk], ...]
    branch: Thunk | None
    condition: Thunk | None


@dataclass(slots=True)
class Reading:
    """An instruction that has not read all its operands yet: it issued at `time`, under `mask`."""

    ready: Ready
    time: int
    mask: Array | None
    address: int
    held: dict[tuple[int, int], Array]


@dataclass(slots=True)
class Pending:
    """A result on its way, of an instruction that issued at `time`."""

    op: Op
    time: int
    cell: int
    lane: int | None
    mask: Array | None
    value: Array
    store: Store | None = None
    address: int = 0
    places: Array | None = None  # of a scatter: each lane's bytes from the address


def overlap(a: Pending, b: Pending) -> bool:
    if a.lane is not None and b.lane is not None:
        return a.lane == b.lane
    if a.lane is not None or b.lane is not None:
        return True
    masks = [m for m in (a.mask, b.mask) if m is not None]
    return bool(np.any(np.logical_and.reduce(masks))) if masks else True


def agree(a: Pending, b: Pending) -> bool:
    """Whether one of two writes is predicated and both write the same, which hand-written code does."""
    if (a.op.certain and b.op.certain) or a.lane != b.lane:
        return False
    return np.array_equal(a.value, b.value)
