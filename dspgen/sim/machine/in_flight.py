"""What instructions have in flight: registers yet to be read, results and stores on their way, units held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dspgen.sim.ir.program import Op


@dataclass(frozen=True, slots=True)
class InFlight:
    """A write or store of op `uid` that lands when `left` cycles have passed, or a register that it reads then, or a
    write that has settled for early readers by then; `copy` tells issues of one op apart."""

    left: int
    uid: int
    index: int
    kind: Literal["write", "store", "read", "settle"]
    copy: int

    def later(self) -> InFlight | None:
        """The same a cycle on; None where this cycle is its last."""
        last = 0 if self.kind == "read" else 1
        return InFlight(self.left - 1, self.uid, self.index, self.kind, self.copy) if self.left > last else None


def started(op: Op, copy: int) -> list[InFlight]:
    """What an instruction has in flight when it issues."""
    return [
        *(InFlight(cycle, op.uid, i, "read", copy) for i, (_, cycle) in enumerate(op.late)),
        *(InFlight(w.latency, op.uid, i, "write", copy) for i, w in enumerate(op.writes)),
        *(InFlight(s.latency, op.uid, i, "store", copy) for i, s in enumerate(op.stores)),
        *(InFlight(w.latency + op.settling, op.uid, i, "settle", 0) for i, w in enumerate(op.writes) if op.settling),
    ]


def reserve(op: Op, held: dict[tuple[str, int], None]) -> str | None:
    """Takes the instruction's unit and resources from now on; what kind of them is held already, if one is."""
    if op.busy > 1 or any(name == op.unit for name, _ in held):
        for k in range(op.busy):
            if (op.unit, k) in held:
                return "unit"
        held.update(((op.unit, k), None) for k in range(op.busy))
    for name, first, cycles in op.resources:
        wanted = [("port " + name, first + k) for k in range(cycles)]
        if any(w in held for w in wanted):
            return "port"
        held.update((w, None) for w in wanted)
    return None
