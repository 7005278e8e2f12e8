"""Results and stores that are on their way in the plain machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dspgen.sim.ir import Op, Store

Array = Any


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
    if (a.op.predicate is None and b.op.predicate is None) or a.lane != b.lane:
        return False
    return np.array_equal(a.value, b.value)
