"""A program without all that has no part in where control goes."""

from __future__ import annotations

from dataclasses import replace

from dspgen.sim.ir import Code, Op, Slot


def control(code: Code) -> Code | None:
    """The branches, and what makes the registers that they read, in their packets: as many cycles as `code`, if what it
    stores has no part in where control goes. None for machines whose packets wait for results."""
    if code.interlocked or code.settled:
        return None
    needed: set[int] = set()
    for slot in code.slots:
        if slot.idle_predicate is not None:
            needed.add(slot.idle_predicate.cell)
        for op in slot.ops:
            if op.branch is not None:
                needed |= _read(op, code)
    while True:
        makers = [op for slot in code.slots for op in slot.ops if any(w.cell in needed for w in op.writes)]
        found = needed.union(*(_read(op, code) for op in makers))
        if found == needed:
            return replace(code, slots=tuple(_kept(slot, needed) for slot in code.slots))
        needed = found


def _read(op: Op, code: Code) -> set[int]:
    """The registers that an instruction reads, also those that it writes in part."""
    cells = {*op.reads, *(cell for cell, _ in op.late)}
    if op.predicate is not None:
        cells.add(op.predicate.cell)
    if op.masked and code.mask_cell is not None:
        cells.add(code.mask_cell)
    return cells


def _kept(slot: Slot, needed: set[int]) -> Slot:
    ops = tuple(op for op in slot.ops if op.branch is not None or any(w.cell in needed for w in op.writes))
    return replace(slot, ops=tuple(replace(op, stores=()) for op in ops))
