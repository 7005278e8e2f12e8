"""Pipelines that hold a packet back until it can run: what they wait for.

A packet issues in the first cycle at which

* no result is on its way to a register that it reads, nor has come too lately for who reads it early; nor is one that
  would come after its own to a register it writes;
* no earlier instruction still has to read a register that it would have written by then;
* its units and resources are free of earlier packets' instructions.

Packets issue in order and whole, and what they wait for does not depend on predicates: a scoreboard is set when an
instruction issues, whether it then does anything or not. Delay slots are counted in cycles that aren't stalls. Memory
is no register: a store is seen once it has taken its time, and code has to leave it that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dspgen.sim.ir.program import Code, Op, Slot
from dspgen.sim.machine.in_flight import InFlight, reserve, started


def blocked(code: Code, slot: Slot, flight: Sequence[InFlight], held: Iterable[tuple[str, int]]) -> bool:
    """Whether the packet has to wait in this cycle, for what is in flight and for what is held from now on."""
    busy = set(held)
    writes: list[tuple[int, int | None, int]] = []
    reads: list[tuple[int, int]] = []
    fresh: list[tuple[int, int]] = []
    for f in flight:
        op = code.ops[f.uid]
        if f.kind == "write":
            writes.append((op.writes[f.index].cell, op.writes[f.index].lane, f.left))
        elif f.kind == "read":
            reads.append((op.late[f.index][0], f.left))
        elif f.kind == "settle":
            fresh.append((op.writes[f.index].cell, f.left))
    if slot.idle_predicate is not None and any(cell == slot.idle_predicate.cell for cell, _, _ in writes):
        return True
    wanted = [(cell, op.settling - cycles) for op in slot.ops for cell, cycles in op.early] if fresh else []
    if any(cell == early and left > most for early, most in wanted for cell, left in fresh):
        return True
    return any(_waits(op, writes, reads, busy) for op in slot.ops)


def _waits(
    op: Op,
    writes: Sequence[tuple[int, int | None, int]],
    reads: Sequence[tuple[int, int]],
    busy: set[tuple[str, int]],
) -> bool:
    wanted = [(op.unit, k) for k in range(op.busy)]
    wanted += [("port " + name, first + k) for name, first, count in op.resources for k in range(count)]
    if any(w in busy for w in wanted):
        return True
    at = {cell: 0 for cell in (*op.reads, *((op.predicate.cell,) if op.predicate is not None else ()))}
    for cell, cycle in op.late:
        at.setdefault(cell, cycle)
    for cell, lane, left in writes:
        apart = lane is not None and op.lane_read(cell) not in (None, lane)
        if cell in at and not apart and left > at[cell]:
            return True
    for write in op.writes:
        for cell, lane, left in writes:
            apart = lane is not None and write.lane is not None and lane != write.lane
            if cell == write.cell and not apart and write.latency <= left:
                return True
        if any(cell == write.cell and write.latency <= left for cell, left in reads):
            return True
    return False


class Scoreboard:
    """What is in flight and held, cycle by cycle, for machines that run packets one by one."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.flight: list[InFlight] = []
        self.held: dict[tuple[str, int], None] = {}

    def blocked(self, slot: Slot) -> bool:
        return blocked(self.code, slot, self.flight, self.held)

    def issue(self, slot: Slot) -> None:
        for op in slot.ops:
            reserve(op, self.held)
            self.flight += started(op, 0)

    def tick(self) -> None:
        """The cycle is over."""
        self.flight = [moved for f in self.flight if (moved := f.later()) is not None]
        self.held = {(name, k - 1): None for name, k in self.held if k > 0}
