"""The plain machine: runs a program packet by packet over NumPy registers. It is what the native machine must equal.

In a cycle all registers are read first, those that instructions in flight read late before those of the packet. Memory
is read at issue and written when a store's latency has passed; a register keeps its old value until a write lands. A
taken branch in cycle t lands in cycle t + 1 + delay slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dspgen.sim.ir.memory import FAR, MISALIGNED, TOGETHER, MemoryMap, fault, transfer_warnings, warning
from dspgen.sim.ir.program import Code, Op, Slot, Start, Store
from dspgen.sim.ir.semantics import Thunk, compile_node, unsigned_of
from dspgen.sim.lowering.bounds_checks import Reach
from dspgen.sim.lowering.packet_accesses import far, pairs
from dspgen.sim.machine.interlock import Scoreboard
from dspgen.sim.machine.pending import Pending, Reading, Ready, agree, overlap

Array = Any


@dataclass(slots=True)
class Outcome:
    """What a run did. `visits[p]` counts issues of packet p; `idle` the cycles in which nothing issued."""

    cycles: int
    idle: int
    visits: list[int]
    registers: list[Array]
    warnings: list[str] = field(default_factory=list)
    finished: bool = True
    stalls: int = 0  # cycles in which an interlock held a packet back


class Interrupted(Exception):
    """The cycle budget of a trial run is spent; nothing is wrong with the program."""


class Machine:
    """One run of a program. `trace` gets one line a packet."""

    def __init__(self, code: Code, memories: MemoryMap, start: Start, trace: Callable[[str], None] | None = None):
        self.code, self.memories, self.start, self.trace = code, memories, start, trace
        self.registers = [r.copy() for r in start.registers]
        self.address = 0
        self.active: Array | None = None
        self.op: Op | None = None
        self.written = set(start.written)
        self.warnings: dict[tuple[int, int], str] = {}
        self.time = self.idle = self.stalls = 0
        self.held: dict[tuple[int, int], Array] = {}
        self.reading: dict[int, list[tuple[Reading, int, int]]] = {}
        self.board = Scoreboard(code) if code.interlocked else None
        self.visits = [0] * len(code.slots)
        self.pending: dict[int, list[Pending]] = {}
        self.branch: tuple[int, int] | None = None
        self.reserved: dict[str, set[int]] = {}
        self.pairs = [() if start.strict else pairs(slot) for slot in code.slots]
        self.touched: dict[int, int] = {}
        self.forwarded: dict[int, Array] = {}
        self.reach = Reach(code, memories, start.strict, self.warnings)
        self.known: list[list[Ready] | None] = [None] * len(code.slots)
        self.full = (1 << next((c.lanes for c in code.cells if c.lanes), 1)) - 1

    def _ready(self, at: int) -> list[Ready]:
        """A packet's instructions, prepared where it is first reached."""
        found = self.known[at]
        if found is None:
            ops = sorted(self.code.slots[at].ops, key=lambda op: op.after_makers)
            found = self.known[at] = [self._prepare(op) for op in ops]
        return found

    def _prepare(self, op: Op) -> Ready:
        return Ready(
            op,
            compile_node(op.address, self) if op.address is not None else None,
            tuple((w, w.cycle, compile_node(w.value, self)) for w in op.writes),
            tuple((s, s.cycle, compile_node(s.value, self)) for s in op.stores),
            compile_node(op.branch, self) if op.branch is not None and not isinstance(op.branch, int) else None,
            compile_node(op.condition, self) if op.condition is not None else None,
        )

    def run(self, delay: int, budget: int | None = None) -> Outcome:
        """Runs to the return. Raises SourceError at a fault, Interrupted once `budget` cycles are spent."""
        with np.errstate(all="ignore"):
            at, wait = self.start.entry, 0
            while at >= 0:
                if budget is not None and self.time >= budget:
                    raise Interrupted
                if self.time >= self.start.limit:
                    raise fault(self.code, "limit", at, 0, self.memories, self.start.limit)
                at, wait = self._cycle(at, wait, delay)
            if self.code.interlocked:
                self._finish()
            registers = [r.copy() for r in self.registers]
            self._drain()
        warnings = [*(self.warnings[k] for k in sorted(self.warnings)), *transfer_warnings(self.code, self.memories)]
        return Outcome(self.time, self.idle, self.visits, registers, warnings, stalls=self.stalls)

    def alone(self, at: int) -> None:
        """Packet `at` issues and all that it does lands, as in linear assembly. Raises SourceError at a fault."""
        self.reserved.clear()
        for ready in self._ready(at):
            self._issue(ready, 0)
        self._finish()

    def _finish(self) -> None:
        """All that is in flight is read and lands, in its time."""
        while self.pending or self.reading:
            when = min((*self.pending, *self.reading))
            self._land(self.pending.pop(when, []))
            for reading, cell, cycle in self.reading.pop(when, ()):
                self._read(reading, cell, cycle)

    def _cycle(self, at: int, wait: int, delay: int) -> tuple[int, int]:
        """One cycle at packet `at` (`wait` cycles of it are left over); gives the next packet, -1 after the return."""
        for reading, cell, cycle in self.reading.pop(self.time, ()):
            self._check_settled(reading.ready.op, reading.time, cell, reading.ready.op.lane_read(cell))
            self._read(reading, cell, cycle)
        stalled = False
        if wait:
            self.idle += 1
            following = (at, wait - 1) if wait > 1 else (at + 1, 0)
        elif at >= len(self.code.slots):
            raise fault(self.code, "end", at, 0, self.memories)
        elif stalled := self.board is not None and self.board.blocked(self.code.slots[at]):
            self.stalls += 1
            following = (at, 0)
        else:
            slot = self.code.slots[at]
            self.visits[at] += 1
            length = self._length(slot)
            if slot.idle and not slot.ops:
                self.idle += 1
            if self.trace is not None:
                self._trace(slot)
            for ready in self._ready(at):
                self._issue(ready, delay)
            if self.pairs[at]:
                self._tell_together(at)
            if self.board is not None:
                self.board.issue(slot)
            following = (at, length - 1) if length > 1 else (at + 1, 0)
        self.time += 1
        if self.board is not None:
            self.board.tick()
        if stalled and self.branch is not None:
            self.branch = (self.branch[0] + 1, self.branch[1])
        if due := self.pending.pop(self.time, None):
            self._land(due)
        if self.branch is not None and self.branch[0] == self.time:
            target, self.branch = self.branch[1], None
            return target, 0
        return following

    def _length(self, slot: Slot) -> int:
        if slot.idle_predicate is None:
            return max(slot.idle, 1)
        p = slot.idle_predicate
        return slot.idle if bool(self.registers[p.cell][0]) != p.negated else 1

    def _trace(self, slot: Slot) -> None:
        assert self.trace is not None
        self.trace(f"{self.time:8d}  {slot.loc.line:6d}  " + " | ".join(op.text for op in slot.ops))

    # Issue

    def _issue(self, ready: Ready, delay: int) -> None:
        op = self.op = ready.op
        self._reserve(op)
        mask: Array | None = None
        if op.predicate is not None:
            p = op.predicate
            self._check_settled(op, self.time, p.cell)
            self._check_read(op, p.cell)
            condition = (self.registers[p.cell] != 0) != p.negated
            if not p.lane and not condition[0]:
                return
            mask = condition if p.lane else None
        if op.masked:
            mask = self._with_lane_mask(mask)
        for cell in op.reads:
            if self.code.settled:
                self._check_settled(op, self.time, cell, op.lane_read(cell))
            self._check_read(op, cell)
        self.active = mask
        if op.new:
            self._forward(op)
        if ready.condition is not None and not ready.condition().any():
            return
        if ready.address is not None and op.access is not None:
            self.address = self._align(op, int(ready.address()[0]))
            if mask is None or mask.any():
                self.touched[op.uid] = self.address
            if not self.start.strict and far(op, self.address):
                self._warn(op, FAR)
        for write in op.writes if self.code.settled else ():
            self._check_settled(op, self.time, write.cell, write.lane)
        held = {(cell, 0): self.registers[cell] for cell in op.reads} if op.late else {}
        reading = Reading(ready, self.time, mask, self.address, held)
        self._results(reading, 0)
        for cell, cycle in op.late:
            self.reading.setdefault(self.time + cycle, []).append((reading, cell, cycle))
        if op.branch is not None:
            self._take(op, ready.branch, delay)

    def _read(self, reading: Reading, cell: int, cycle: int) -> None:
        """An instruction in flight reads a register; what depends on no later one is computed."""
        op = self.op = reading.ready.op
        self._check_read(op, cell)
        reading.held[cell, cycle] = self.registers[cell]
        if (cell, cycle) == [late for late in op.late if late[1] == cycle][-1]:
            self._results(reading, cycle)

    def _read_rest(self) -> None:
        """What is still to be read is read now."""
        for when in sorted(self.reading):
            for reading, cell, cycle in self.reading.pop(when):
                self._read(reading, cell, cycle)

    def _results(self, reading: Reading, cycle: int) -> None:
        """The results that are known once the registers of this cycle are read."""
        op, mask = reading.ready.op, reading.mask
        self.held, self.address, self.active = reading.held, reading.address, mask
        for write, known, thunk in reading.ready.writes:
            if known == cycle:
                pending = Pending(op, reading.time, write.cell, write.lane, mask if write.masked else None, thunk())
                self.pending.setdefault(reading.time + write.latency, []).append(pending)
        for store, known, thunk in reading.ready.stores:
            under = mask if store.masked else None
            if cycle == 0:
                self._check_store(op, store, under)
            if known == cycle:
                self._issue_store(op, store, thunk(), under, reading.time)

    def _forward(self, op: Op) -> None:
        """What the instruction takes from others of its packet, which have issued."""
        due = (e for some in self.pending.values() for e in some if e.time == self.time)
        made = {(e.op.uid, e.cell): e.value for e in due}
        self.forwarded = {cell: made[uid, cell] for cell, uid, _ in op.new}

    def _with_lane_mask(self, mask: Array | None) -> Array | None:
        cell = self.code.mask_cell
        assert cell is not None
        bits = int(self.registers[cell][0])
        if bits & self.full == self.full:
            return mask
        lanes = np.array([bits >> k & 1 for k in range(self.full.bit_length())], dtype=bool)
        return lanes if mask is None else mask & lanes

    def _check_settled(self, op: Op, since: int, cell: int, lane: int | None = None) -> None:
        """No result of an earlier packet is on its way to the register; `since`: when the instruction issued."""
        if not self.code.settled:
            return
        coming = [(e.op, e.time, e.cell, e.lane) for due in self.pending.values() for e in due]
        for other in {id(r): r for due in self.reading.values() for r, _, _ in due}.values():
            writes = [w for w in other.ready.op.writes if other.time + w.latency > self.time]
            coming += [(other.ready.op, other.time, w.cell, w.lane) for w in writes]
        for writer, time, target, part in coming:
            apart = lane is not None and part is not None and lane != part
            own = time == self.time or (writer is op and time == since)
            if target == cell and not apart and not own:
                raise fault(self.code, "unsettled", op.uid, cell, self.memories)

    def _check_read(self, op: Op, cell: int) -> None:
        if cell in self.written or (op.uid, cell) in self.warnings:
            return
        if self.start.strict:
            raise fault(self.code, "unwritten", op.uid, cell, self.memories)
        self._warn(op, cell)

    def _warn(self, op: Op, kind: int) -> None:
        if (op.uid, kind) not in self.warnings:
            self.warnings[op.uid, kind] = warning(self.code, op.uid, kind, self.memories)

    def _tell_together(self, at: int) -> None:
        for pair in self.pairs[at]:
            load, store = self.touched.get(pair.load.uid), self.touched.get(pair.store.uid)
            if load is not None and store is not None and pair.meet(load, store):
                self._warn(pair.load, TOGETHER - pair.store.uid)
        self.touched.clear()

    def _reserve(self, op: Op) -> None:
        if op.busy > 1 or self.reserved.get(op.unit):
            self._hold(op, op.unit, 0, op.busy, "unit")
        for name, first, cycles in op.resources:
            self._hold(op, "port " + name, first, cycles, "port")

    def _hold(self, op: Op, name: str, first: int, cycles: int, kind: str) -> None:
        held = self.reserved.setdefault(name, set())
        held -= {t for t in held if t < self.time}
        wanted = set(range(self.time + first, self.time + first + cycles))
        if held & wanted:
            raise fault(self.code, kind, op.uid, 0, self.memories)
        held |= wanted

    def _align(self, op: Op, address: int) -> int:
        assert op.access is not None
        align = op.access.align
        if address % align:
            if not op.access.force:
                if self.start.strict:
                    raise fault(self.code, "misaligned", op.uid, address, self.memories)
                self._warn(op, MISALIGNED)
                align = op.access.granule
            address -= address % align
        return address

    def _take(self, op: Op, target: Thunk | None, delay: int) -> None:
        if op.again is not None:
            if (start := int(self.registers[op.again.start][0])) != op.again.address:
                raise fault(self.code, "begun", op.uid, start, self.memories)
            if int(self.registers[op.again.count][0]) <= 1:
                return
            delay = 0
        if self.branch is not None:
            raise fault(self.code, "branches", op.uid, 0, self.memories)
        if target is None:
            assert isinstance(op.branch, int)
            self.branch = (self.time + 1 + delay, op.branch)
            return
        address = int(target()[0])
        if address == self.start.return_address:
            self.branch = (self.time + 1 + delay, -1)
        elif address in self.code.addresses:
            self.branch = (self.time + 1 + delay, self.code.addresses[address])
        else:
            raise fault(self.code, "target", op.uid, address, self.memories)

    # Memory

    def _span(self, size: int, lanes: int, stride: int, first: int) -> tuple[Array, int, int]:
        """The active lanes of an access, and the first and last byte that it reaches from the address."""
        if not self._partial(lanes):
            ends = (first * size, (first + stride * (lanes - 1)) * size)
            return np.arange(lanes), min(ends), max(ends) + size
        used = np.arange(lanes)[self.active]
        if used.size == 0:
            return used, 0, 0
        offsets = (first + stride * used) * size
        return used, int(offsets.min()), int(offsets.max()) + size

    def gather(self, size: int, lanes: int, stride: int, first: int) -> Array:
        op = self.op
        assert op is not None and op.access is not None
        picks, low, high = self._span(size, lanes, stride, first)
        kind = unsigned_of(size)
        if high == low:
            return np.zeros(lanes, dtype=kind)
        place = self._find(op, low, high)
        if stride == 1 and high - low == lanes * size:
            return np.frombuffer(place[0][place[1] : place[1] + high - low].tobytes(), dtype=kind)
        at = (place[1] - low + (first + stride * picks) * size)[:, None] + np.arange(size)
        out = np.zeros(lanes, dtype=kind)
        out[picks] = place[0][at].view(kind)[:, 0]
        return out

    def gather_at(self, size: int, index: Array) -> Array:
        """The elements at `index`, counted from the address; 0 in lanes that aren't active."""
        op, kind = self.op, unsigned_of(size)
        assert op is not None
        out = np.zeros(len(index), dtype=kind)
        for k, number in enumerate(index):
            if self._is_active(k, len(index)):
                memory, at = self._find(op, int(number) * size, (int(number) + 1) * size)
                out[k] = memory[at : at + size].view(kind)[0]
        return out

    def _is_active(self, lane: int, lanes: int) -> bool:
        return not self._partial(lanes) or bool(self.active is None or self.active[lane])

    def _partial(self, lanes: int) -> bool:
        """Whether a lane mask governs an access of so many lanes."""
        return self.active is not None and len(self.active) == lanes

    def _find(self, op: Op, low: int, high: int, *, store: bool = False) -> tuple[Array, int]:
        assert op.access is not None
        low, high, transfers = self.address + low, self.address + high, self.memories.transfers
        if transfers is not None and transfers.bars(low, high, store=store):
            raise fault(self.code, "barred", op.uid, low, self.memories)
        place = self.reach.place(op, low, high, store=store)
        if store and self.code.stack is not None:
            pointer, lowest, zone = self.code.stack
            place = None if lowest <= low < int(self.registers[pointer][0]) - zone else place
        if place is None:
            raise fault(self.code, "outside", op.uid, low, self.memories, size=high - low, store=store)
        if transfers is not None and not store and place[0].bytes is transfers.words:
            transfers.loaded(self.time, place[1], high - low)
        return place[0].bytes, place[1]

    def patterns(self, address: int, count: int) -> Array:
        place = self.memories.find(address, count, None)
        if place is None:
            assert self.op is not None
            raise fault(self.code, "outside", self.op.uid, address, self.memories)
        return place[0].bytes[place[1] : place[1] + count]

    def _check_store(self, op: Op, store: Store, mask: Array | None) -> None:
        """All that it reaches lies in a memory of its side."""
        if store.index is not None:
            return
        self.active = mask
        lanes = max(store.value.lanes, 1)
        _, low, high = self._span(store.value.width // 8, lanes, store.stride, store.first)
        if high > low:
            self._find(op, low, high, store=True)

    def _issue_store(self, op: Op, store: Store, value: Array, mask: Array | None, time: int) -> None:
        if store.index is not None:
            self._issue_scatter(op, store, value, mask)
            return
        pending = Pending(op, time, -1, None, mask, value, store, self.address)
        self.pending.setdefault(time + store.latency, []).append(pending)

    def _issue_scatter(self, op: Op, store: Store, value: Array, mask: Array | None) -> None:
        assert store.index is not None
        size = store.value.width // 8
        places = compile_node(store.index, self)().view("i4").astype(np.int64) * size
        for k, place in enumerate(places):
            if mask is None or mask[k]:
                self._find(op, int(place), int(place) + size, store=True)
        pending = Pending(op, self.time, -1, None, mask, value, store, self.address, places)
        self.pending.setdefault(self.time + store.latency, []).append(pending)

    # Landing

    def _land(self, due: list[Pending]) -> None:
        seen: dict[int, list[Pending]] = {}
        for entry in due:
            if entry.store is not None:
                self._write_memory(entry)
                continue
            for other in seen.get(entry.cell, []):
                if overlap(entry, other) and not agree(entry, other):
                    both = other.op.uid * len(self.code.cells) + entry.cell
                    raise fault(self.code, "double", entry.op.uid, both, self.memories)
            seen.setdefault(entry.cell, []).append(entry)
        for entries in seen.values():
            for entry in entries:
                self._write_register(entry)

    def _write_register(self, entry: Pending) -> None:
        self.written.add(entry.cell)
        old = self.registers[entry.cell]
        if entry.lane is not None:
            new = old.copy()
            new[entry.lane] = entry.value[0]
        elif entry.mask is not None and len(old) == len(entry.mask):
            new = np.where(entry.mask, entry.value, old)
        else:
            new = entry.value
        self.registers[entry.cell] = new

    def _write_memory(self, entry: Pending) -> None:
        store, size = entry.store, entry.value.dtype.itemsize
        assert store is not None and entry.op.access is not None
        for k, element in enumerate(entry.value):
            if entry.mask is not None and not entry.mask[k]:
                continue
            place = (store.first + store.stride * k) * size if entry.places is None else int(entry.places[k])
            address = entry.address + place
            found = self.memories.find(address, size, entry.op.access.side)
            assert found is not None
            found[0].bytes[found[1] : found[1] + size] = np.frombuffer(element.tobytes(), dtype=np.uint8)
            transfers = self.memories.transfers
            if transfers is not None and found[0].bytes is transfers.words:
                if not transfers.stored(self.time, found[1], size, entry.op.uid):
                    raise fault(self.code, "transfer", entry.op.uid, 0, self.memories)

    def _drain(self) -> None:
        """Stores that are in flight at the return still land; the function's cycles are over."""
        self._read_rest()
        for when in sorted(self.pending):
            for entry in self.pending.pop(when):
                if entry.store is not None:
                    self._write_memory(entry)
        if self.memories.transfers is not None and (running := self.memories.transfers.running):
            raise fault(self.code, "early", running[0].uid, 0, self.memories)
