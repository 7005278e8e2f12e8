"""Which memory instructions may access: bounds checks against the objects that a program was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dspgen.sim.ir.memory import STRAY, MemoryMap, MemoryObject, Region, stray_access, warning
from dspgen.sim.ir.program import Code, Op
from dspgen.target.isa.model import Side

Array = Any
# Bits of the last field of the table's objects: the sides that reach one. WORDS: it is the words of the DMA engine.
# STORES: in what is looked for, not in the table.
KINDS: dict[Side | None, int] = {"scalar": 1, "vector": 2, None: 3}
WORDS, STORES = 4, 8
OBJECT_FIELDS = 6


@dataclass(slots=True)
class Reach:
    """Finds what is accessed; `last` is the object that each instruction loaded from, or stored to, the last time.
    Unless `strict`, instructions may access all of the memory, with a warning."""

    code: Code
    memories: MemoryMap
    strict: bool
    warnings: dict[tuple[int, int], str]
    last: dict[tuple[int, bool], MemoryObject] = field(default_factory=dict)

    def place(self, op: Op, low: int, high: int, *, store: bool) -> tuple[Region, int] | None:
        """Where bytes [low, high) lie, if the instruction may access them."""
        assert op.access is not None
        found = self.last.get((op.uid, store))
        if found is None or not self._has(found, low, high, store=store):
            found = self.memories.object_at(low, high - low, op.access.side, store=store)
            if found is None:
                return None if self.strict else self._outside(op, low, high)
            self.last[op.uid, store] = found
        return found.region, low - found.region.base

    def _outside(self, op: Op, low: int, high: int) -> tuple[Region, int] | None:
        assert op.access is not None
        place = self.memories.find(low, high - low, op.access.side)
        if place is not None and (op.uid, STRAY) not in self.warnings:
            access = stray_access(low, high - low)
            self.warnings[op.uid, STRAY] = warning(self.code, op.uid, STRAY, self.memories, access)
        return place

    @staticmethod
    def _has(found: MemoryObject, low: int, high: int, *, store: bool) -> bool:
        first, end = found.bounds(store=store)
        return first <= low and high <= end


def object_tables(memories: MemoryMap) -> tuple[Array, Array]:
    """The objects and the regions as the native machine reads them: how many, then of each the addresses that may be
    read, and that may be written, the host's addresses less these, and bits (`KINDS`)."""
    regions = [MemoryObject(r.name, *(2 * (r.base, r.base + r.size)), r) for r in memories.regions]
    return _table(memories.objects, memories), _table(regions, memories)


def _table(objects: Sequence[MemoryObject], memories: MemoryMap) -> Array:
    rows = [len(objects)]
    words = memories.transfers.words if memories.transfers is not None else None
    for x in objects:
        bits = sum(KINDS[side] for side in x.region.sides) | (WORDS if x.region.bytes is words else 0)
        to = (x.region.bytes.ctypes.data - x.region.base) & ((1 << 64) - 1)
        rows += [x.read_low, x.read_high, x.low, x.high, to, bits]
    return np.array(rows, dtype=np.uint64)
