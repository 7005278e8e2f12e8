"""A program without all that has no part in where control goes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dspgen.sim.ir.program import Code, Op, Slot


def control(code: Code, stack: int | None) -> Code | None:
    """The branches, and what makes the registers that they read, in their packets: as many cycles as `code`, if what it
    stores elsewhere than on its stack has no part in where control goes. None for machines whose packets wait for
    results. `stack`: the cell of the stack pointer."""
    if code.interlocked or code.settled:
        return None
    needed: set[int] = set()
    for slot in code.slots:
        if slot.idle_predicate is not None:
            needed.add(slot.idle_predicate.cell)
        for op in slot.ops:
            if op.branch is not None:
                needed |= _read(op, code)
    stacked = _stacked(code, stack)
    while True:
        makers = [op for slot in code.slots for op in slot.ops if any(w.cell in needed for w in op.writes)]
        # What is loaded from the stack may have waited there.
        waits = any(op.access is not None and not stacked.isdisjoint(op.reads) for op in makers)
        stores = [op for slot in code.slots for op in slot.ops if waits and _keeps(op, stacked)]
        found = needed.union(*(_read(op, code) for op in (*makers, *stores)))
        if found == needed:
            kept = stacked if waits else frozenset[int]()
            return replace(code, slots=tuple(_kept(slot, needed, kept) for slot in code.slots))
        needed = found


def _stacked(code: Code, stack: int | None) -> frozenset[int]:
    """The registers that may hold addresses on the stack."""
    found = frozenset(() if stack is None else (stack,))
    while True:
        makers = (op for slot in code.slots for op in slot.ops if op.access is None and not found.isdisjoint(op.reads))
        more = found.union(w.cell for op in makers for w in op.writes)
        if more == found:
            return found
        found = more


def _keeps(op: Op, stacked: Collection[int]) -> bool:
    """Whether an instruction may store on the stack."""
    return bool(op.stores) and any(cell in stacked for cell in op.reads)


def _read(op: Op, code: Code) -> set[int]:
    """The registers that an instruction reads, also those that it writes in part."""
    cells = {*op.reads, *(cell for cell, _ in op.late)}
    if op.predicate is not None:
        cells.add(op.predicate.cell)
    if op.masked and code.mask_cell is not None:
        cells.add(code.mask_cell)
    return cells


def _kept(slot: Slot, needed: set[int], stacked: Collection[int]) -> Slot:
    ops = []
    for op in slot.ops:
        if _keeps(op, stacked):
            ops.append(op)
        elif op.branch is not None or any(w.cell in needed for w in op.writes):
            ops.append(replace(op, stores=()))
    return replace(slot, ops=tuple(ops))
