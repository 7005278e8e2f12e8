"""Runs packets on terms, cycle by cycle.

The rules of time are read off the ISA file anew here: all of a packet reads before anything is written, but for
operands that are read late; a result lands after its latency and until then readers get the old one, where the
pipeline lets them; memory is read at issue and written when a store has taken its time, a taken branch lands after its
delay slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspgen.check.machine import Effect, Ready, State, ready
from dspgen.check.terms import UNKNOWN, Mask
from dspgen.errors import Problem
from dspgen.sim.ir.memory import MemoryMap
from dspgen.sim.ir.program import Code, Op, Slot
from dspgen.sim.machine.interlock import Scoreboard
from plant_core.support.memoize import few_by_identity


@few_by_identity
def _ready(slots: Sequence[Slot]) -> tuple[tuple[Ready, ...], ...]:
    """Of a whole program, made once for all runs."""
    return tuple(tuple(map(ready, slot.ops)) for slot in slots)


@dataclass(slots=True)
class Reading:
    """An instruction that has not read all its registers yet: it issued at `time`, under `masks`, to `address`."""

    item: Ready
    time: int
    masks: tuple[Mask, ...]
    address: int
    held: dict[tuple[int, int], int]


class Packets:
    """A run of packets. What a machine would refuse, or what breaks the caller's registers, goes to `problems`."""

    def __init__(self, state: State, code: Code, delay: int, returns_to: int):
        self.state, self.slots, self.delay = state, code.slots, delay
        self.returns_to, self.addresses = returns_to, code.addresses
        self.ready = _ready(code.slots)
        self.board = Scoreboard(code) if code.interlocked else None
        self.settled = code.settled
        self.reading: dict[int, list[tuple[Reading, int, int]]] = {}
        self.problems: list[Problem] = []
        self.late: list[Problem] = []
        self.visited: set[int] = set()
        self.time = 0
        self.flight: dict[int, list[Effect]] = {}
        self.held: dict[tuple[str, int], Op] = {}
        self.taken: tuple[int, int] | None = None

    def run(self, entry: int, limit: int, memories: MemoryMap) -> None:
        """From packet `entry` to the return. Stops at the first cycle with a problem."""
        self.memories = memories
        at, wait = entry, 0
        while at >= 0 and not self.problems:
            if self.time >= limit or at >= len(self.slots):
                loc = self.slots[min(at, len(self.slots) - 1)].loc
                what = "the packets run far longer than the linear text" if self.time >= limit else "no return"
                self.problems.append(Problem("DG456", what, loc))
                return
            self._read_late(self.reading.pop(self.time, []))
            if not wait and self.board is not None and self.board.blocked(self.slots[at]):
                if self.taken is not None:
                    self.taken = (self.taken[0] + 1, self.taken[1])
            else:
                length = wait or self._issue(self.slots[at], self.ready[at], at)
                at, wait = (at + 1, 0) if length == 1 else (at, length - 1)
            self.time += 1
            if self.board is not None:
                self.board.tick()
            self._land()
            if self.taken is not None and self.taken[0] == self.time:
                (_, at), wait, self.taken = self.taken, 0, None
        self._drain()

    def _issue(self, slot: Slot, items: Sequence[Ready], at: int) -> int:
        """Issues the packet; tells how many cycles it takes."""
        self.visited.add(at)
        length = max(slot.idle, 1)
        if (p := slot.idle_predicate) is not None:
            term = self.state.registers[p.cell]
            if bool(self.state.terms.integer(term, 8)) == p.negated:
                length = 1
        started: list[tuple[int, Effect]] = []
        for item in sorted(items, key=lambda item: item.op.after_makers):
            op = item.op
            self._reserve(op)
            masks = self.state.active(op)
            self._reads(
                op,
                (*(op.reads if masks is not None else ()), *((op.predicate.cell,) if op.predicate else ())),
                self.time,
            )
            if masks is None:
                continue
            held = {(cell, 0): self.state.registers[cell] for cell in op.reads}
            self.state.held = held if op.late else None
            made = {(e.op.uid, e.cell): e.term for _, e in started} if op.new else {}
            self.state.forwarded = {cell: made[uid, cell] for cell, uid, _ in op.new}
            if not self.state.holds(item):
                continue
            self.state.enter(item, masks)
            started += self.state.effects(item, masks, 0)
            reading = Reading(item, self.time, masks, self.state.address, held)
            for cell, cycle in op.late:
                self.reading.setdefault(self.time + cycle, []).append((reading, cell, cycle))
            self._reach(op)
            for write in op.writes:
                self._unsettled(op, self.time, write.cell, write.lane)
            if op.branch is not None:
                self._branch(item)
        if self.board is not None:
            self.board.issue(slot)
        for latency, effect in started:
            effect.issued = self.time
            self.flight.setdefault(self.time + latency, []).append(effect)
        return length

    def _read_late(self, due: Sequence[tuple[Reading, int, int]]) -> None:
        """Instructions in flight read registers; what depends on no later one is known then."""
        for reading, cell, cycle in due:
            op = reading.item.op
            self._reads(op, (cell,), reading.time)
            reading.held[cell, cycle] = self.state.registers[cell]
            if (cell, cycle) != [late for late in op.late if late[1] == cycle][-1]:
                continue
            self.state.held, self.state.address = reading.held, reading.address
            for latency, effect in self.state.effects(reading.item, reading.masks, cycle):
                effect.issued = reading.time
                self.flight.setdefault(reading.time + latency, []).append(effect)

    def _reserve(self, op: Op) -> None:
        wanted = [(op.unit, self.time + k) for k in range(op.busy)]
        wanted += [("resource " + name, self.time + first + k) for name, first, n in op.resources for k in range(n)]
        for name, when in wanted:
            holder = self.held.setdefault((name, when), op)
            if holder is not op:
                text = f"{op.text} needs {name}, which {holder.text} of line {holder.loc.line} holds in that cycle"
                self.problems.append(Problem("DG453", text, op.loc))

    def _reads(self, op: Op, cells: Sequence[int], since: int) -> None:
        """An instruction works on nothing that was never written."""
        for cell in cells:
            self._unsettled(op, since, cell, op.lane_read(cell))
            if self.state.registers[cell] == UNKNOWN:
                text = f"{op.text} reads {self.state.cells[cell].name}, which was never written"
                self.problems.append(Problem("DG458", text, op.loc))

    def _unsettled(self, op: Op, since: int, cell: int, lane: int | None) -> None:
        """Where a register may change at any time until a result has landed, nothing touches it before, but the very
        instruction (it issued at `since`)."""
        if not self.settled:
            return
        coming = [(e.op, e.issued, e.cell, e.lane) for due in self.flight.values() for e in due]
        for other in (reading for due in self.reading.values() for reading, _, _ in due):
            writes = [w for w in other.item.op.writes if other.time + w.latency > self.time]
            coming += [(other.item.op, other.time, w.cell, w.lane) for w in writes]
        for writer, time, target, part in coming:
            apart = lane is not None and part is not None and lane != part
            if target == cell and not apart and time < self.time and (writer is not op or time != since):
                name = self.state.cells[cell].name
                text = f"{op.text} uses {name} while the result of line {writer.loc.line} is on its way there"
                self.problems.append(Problem("DG459", text, op.loc))

    def _reach(self, op: Op) -> None:
        """The access lies in a memory of its side, at an address that it can have."""
        if op.access is None:
            return
        if self.state.address % op.access.align:
            text = f"{op.text} needs a multiple of {op.access.align}, not {self.state.address:#x}"
            self.problems.append(Problem("DG454", text, op.loc))
        for low, high in self.state.touched:
            if self.memories.find(low, high - low, op.access.side) is None:
                text = f"{op.text} reaches {low:#x}, outside its memory: {self.memories.nearest(low)}"
                self.problems.append(Problem("DG454", text, op.loc))
            if self.state.engine is not None and self.state.engine.bars(low, high, store=bool(op.stores)):
                text = f"{op.text} reaches {low:#x}, which a transfer is moving: {self.memories.nearest(low)}"
                self.problems.append(Problem("DG460", text, op.loc))

    def _branch(self, item: Ready) -> None:
        op, delay = item.op, self.delay
        if op.again is not None:
            if (start := self._held_now(op.again.start)) != op.again.address:
                text = f"{op.text} goes back to {start:#x}, where the loop above it does not begin"
                self.problems.append(Problem("DG452", text, op.loc))
                return
            if self._held_now(op.again.count) <= 1:
                return
            delay = 0
        if self.taken is not None:
            text = f"{op.text} is taken in the delay slots of another branch"
            self.problems.append(Problem("DG452", text, op.loc))
            return
        if isinstance(op.branch, int):
            self.taken = (self.time + 1 + delay, op.branch)
            return
        assert item.going is not None
        address = self.state.number(item.going)
        place = -1 if address == self.returns_to else self.addresses.get(address)
        if place is None:
            self.problems.append(Problem("DG452", f"{op.text} goes to {address:#x}, where no code is", op.loc))
            return
        self.taken = (self.time + 1 + self.delay, place)

    def _held_now(self, cell: int) -> int:
        return self.state.terms.integer(self.state.registers[cell], self.state.cells[cell].storage // 8)

    def _land(self) -> None:
        due = self.flight.pop(self.time, [])
        seen: dict[tuple[int, int | None], Effect] = {}
        for effect in due:
            if effect.cell >= 0:
                self._apart(effect, seen)
        for effect in due:
            self._lands(effect)

    def _lands(self, effect: Effect) -> None:
        self.state.land(effect)
        if self.state.engine is not None and self.state.engine.refused:
            self.problems.append(
                Problem("DG460", f"{effect.op.text} starts {self.state.engine.refused}", effect.op.loc)
            )
            self.state.engine.refused = ""

    def _apart(self, effect: Effect, seen: dict[tuple[int, int | None], Effect]) -> None:
        """No two results of one cycle go to one register, but to different lanes of it."""
        for (cell, lane), other in seen.items():
            same = cell == effect.cell and (lane is None or effect.lane is None or lane == effect.lane)
            if same and not self._exclusive(effect, other):
                name = self.state.cells[cell].name
                text = f"results of lines {other.op.loc.line} and {effect.op.loc.line} land on {name} in one cycle"
                self.problems.append(Problem("DG451", text, effect.op.loc))
        seen[effect.cell, effect.lane] = effect

    def _exclusive(self, a: Effect, b: Effect) -> bool:
        """Whether the lanes that two results go to are different ones."""
        lanes = self.state.lanes
        if not (a.masks and b.masks):
            return False
        return not set(self.state.chosen(a.masks, lanes)) & set(self.state.chosen(b.masks, lanes))

    def _drain(self) -> None:
        """After the return stores still land; a register that is read or changes then is one the caller may already
        use, unless the caller has to wait for it."""
        waits = self.board is not None
        while self.flight or self.reading:
            when = min((*self.flight, *self.reading))
            for effect in self.flight.pop(when, ()):
                if effect.cell < 0 or waits:
                    self._lands(effect)
                    continue
                self._after(f"{effect.op.text} writes", effect.cell, when, effect.op)
            due = self.reading.pop(when, [])
            for reading, cell, _ in due if when > self.time and not waits else ():
                self._after(f"{reading.item.op.text} reads", cell, when, reading.item.op)
            self._read_late(due)
        if self.state.engine is not None and self.state.engine.running:
            text = "the packets return before they have asked whether all transfers are done"
            self.problems.append(Problem("DG460", text, self.slots[max(self.visited)].loc))

    def _after(self, what: str, cell: int, when: int, op: Op) -> None:
        text = f"{what} {self.state.cells[cell].name} {when - self.time} cycles after the return"
        self.late.append(Problem("DG455", text, op.loc))
