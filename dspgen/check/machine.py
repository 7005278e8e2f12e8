"""Runs programs on terms: linear text in order, packets cycle by cycle.

Control, addresses and predicates are those of a real run; what is computed stays symbolic. The rules of time are read
off the ISA file anew here: all of a packet reads before anything is written, but for operands that are read late; a
result lands after its latency and until then readers get the old one, where the pipeline lets them; memory is read at
issue and written when a store has taken its time, a taken branch lands after its delay slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dspgen.check.terms import BYTES, UNKNOWN, UNKNOWN_BYTE, Mask, Terms, first_byte
from dspgen.check.values import Leaf, Value, value_of
from dspgen.errors import Problem
from dspgen.sim.interlock import Scoreboard
from dspgen.sim.ir import Cell, Code, Op, Slot
from dspgen.sim.memory import MemoryMap
from plant_core.loc import Loc


@dataclass(frozen=True, slots=True)
class Ready:
    """An op with its results as `Value`s. `going` is where a branch through a register goes."""

    op: Op
    address: Value | None
    writes: tuple[Value, ...]
    stores: tuple[Value, ...]
    scattered: tuple[Value | None, ...]
    going: Value | None
    condition: Value | None


def ready(op: Op) -> Ready:
    return Ready(
        op,
        value_of(op.address) if op.address is not None else None,
        tuple(value_of(w.value) for w in op.writes),
        tuple(value_of(s.value) for s in op.stores),
        tuple(value_of(s.index) if s.index is not None else None for s in op.stores),
        value_of(op.branch) if op.branch is not None and not isinstance(op.branch, int) else None,
        value_of(op.condition) if op.condition is not None else None,
    )


@dataclass(slots=True)
class Effect:
    """Something in flight: a term for a register (`lane` of it, under masks), or bytes for memory."""

    op: Op
    cell: int = -1
    lane: int | None = None
    term: int = UNKNOWN
    size: int = 0
    masks: tuple[Mask, ...] = ()
    codes: dict[int, int] = field(default_factory=dict)
    issued: int = 0  # the cycle in which its instruction issued


class State:
    """Registers and memory as terms. `unset` are the addresses whose first contents nobody may use: the free stack."""

    def __init__(self, terms: Terms, cells: Sequence[Cell], registers: list[int], mask: int | None, unset: range):
        self.terms, self.cells, self.registers, self.mask, self.unset = terms, cells, registers, mask, unset
        self.memory: dict[int, int] = {}
        self.address = 0
        self.lanes = next((c.lanes for c in cells if c.lanes), 1)
        self.full = (1 << self.lanes) - 1
        self.makers: dict[int, Loc] = {}
        self.writers: dict[int, Loc] = {}
        self.under: tuple[Mask, ...] = ()
        self.touched: list[tuple[int, int]] = []
        self._shape: dict[int, int] = {}
        self.held: dict[tuple[int, int], int] | None = None
        self.forwarded: dict[int, int] = {}  # what the packet writes, by cells

    # Values

    def term(self, value: Value) -> int:
        terms = self.terms
        leaves = [self._leaf(leaf) for leaf in value.leaves]
        if value.compute is not None and all(leaf in terms.constants for leaf in leaves):
            return terms.constant(value.compute([terms.constants[leaf] for leaf in leaves]))
        if value.plain:
            return leaves[0]
        shape = self._shape.get(id(value))
        if shape is None:
            shape = self._shape[id(value)] = terms.shape(value.key, value.node)
        return terms.apply(shape, leaves, value.size)

    def number(self, value: Value) -> int:
        return self.terms.integer(self.term(value), value.size) & ((1 << 8 * value.size) - 1)

    def _leaf(self, leaf: Leaf) -> int:
        match leaf.kind:
            case "read":
                at = (leaf.cell, leaf.cycle or 0)
                term = self.registers[leaf.cell] if leaf.cycle is None or self.held is None else self.held[at]
                return term if leaf.lane is None else self.terms.lane(term, leaf.lane, leaf.size)
            case "new":
                return self.forwarded[leaf.cell]
            case "address":
                return self.terms.constant(self.address)
            case "load":
                return self.terms.of_bytes(self._loaded(leaf))
            case "gather":
                assert leaf.index is not None
                raw = self.terms.value(self.term(leaf.index), leaf.index.size).view("i4")
                places = [self.address + int(k) * leaf.size for k in raw]
                lanes = self.chosen(self.under, len(places))
                self.touched += [(places[k], places[k] + leaf.size) for k in lanes]
                return self.terms.of_bytes(tuple(c for a in places for c in self._bytes(a, leaf.width)))
        assert leaf.index is not None
        start = leaf.base + leaf.stride * self.number(leaf.index)
        return self.terms.of_bytes(self._bytes(start, leaf.size))

    def _loaded(self, leaf: Leaf) -> tuple[int, ...]:
        start, count = self.address + leaf.first * leaf.size, max(leaf.lanes, 1)
        if lanes := self.chosen(self.under, count):
            ends = [start + k * leaf.stride * leaf.size for k in (lanes[0], lanes[-1])]
            self.touched.append((min(ends), max(ends) + leaf.size))
        if leaf.stride == 1 and leaf.width == leaf.size:
            return self._bytes(start, count * leaf.size)
        step = leaf.stride * leaf.size
        return tuple(c for k in range(count) for c in self._bytes(start + k * step + leaf.skip, leaf.width))

    def _bytes(self, start: int, count: int) -> tuple[int, ...]:
        get = self.memory.get
        if start in self.unset:
            return tuple(get(a, UNKNOWN_BYTE) for a in range(start, start + count))
        return tuple(get(a, first_byte(a)) for a in range(start, start + count))

    def codes(self, value: Value, masks: tuple[Mask, ...]) -> list[int]:
        """The codes of a value's bytes, in memory's order."""
        if value.halves is not None:
            low, high = (self.codes(half, masks) for half in value.halves)
            width, count = value.halves[0].size // max(value.lanes, 1), max(value.lanes, 1)
            spans = [slice(k * width, (k + 1) * width) for k in range(count)]
            return [c for span in spans for part in (low, high) for c in part[span]]
        term = self.term(value)
        for mask in masks:
            term = self.terms.merge(mask, term, UNKNOWN, value.size)
        return list(range(term * BYTES, term * BYTES + value.size)) if term else [UNKNOWN_BYTE] * value.size

    # One instruction

    def active(self, op: Op) -> tuple[Mask, ...] | None:
        """The masks that the instruction runs under; None where its predicate is false."""
        masks: list[Mask] = []
        if (p := op.predicate) is not None:
            term = self.registers[p.cell]
            if not p.lane:
                return () if bool(self.terms.integer(term, self.cells[p.cell].storage // 8)) != p.negated else None
            masks.append(Mask(term, self.lanes, negated=p.negated))
        if op.masked and self.mask is not None:
            term = self.registers[self.mask]
            if self.terms.constants.get(term, 0) & self.full != self.full:
                masks.append(Mask(term, self.lanes, bits=True))
        return tuple(masks)

    def holds(self, item: Ready) -> bool:
        """Whether the condition lets it have an effect."""
        return item.condition is None or self.number(item.condition) != 0

    def enter(self, item: Ready, masks: tuple[Mask, ...]) -> None:
        """Where the instruction reaches memory, and under what."""
        op = item.op
        self.under = masks
        self.touched.clear()
        if item.address is not None and op.access is not None:
            self.address = self.number(item.address)
            if op.access.force:
                self.address -= self.address % op.access.align

    def effects(self, item: Ready, masks: tuple[Mask, ...], cycle: int | None = None) -> list[tuple[int, Effect]]:
        """All that the instruction does but branching, each with its latency; with a `cycle`, what is known when the
        registers that it reads in that cycle from issue have been read, and not before."""
        op = item.op
        found = []
        for write, value in zip(op.writes, item.writes, strict=True):
            if cycle is not None and write.cycle != cycle:
                continue
            term, size = self.term(value), self.cells[write.cell].storage // 8
            size = size if write.lane is not None else size * max(self.cells[write.cell].lanes, 1)
            effect = Effect(op, write.cell, write.lane, term, size, masks if write.masked else ())
            found.append((write.latency, effect))
        for store, value, index in zip(op.stores, item.stores, item.scattered, strict=True):
            if cycle is not None and store.cycle != cycle:
                continue
            under = masks if store.masked else ()
            lanes, width = max(value.lanes, 1), value.size // max(value.lanes, 1)
            if index is None:
                places = [(store.first + store.stride * k) * width for k in range(lanes)]
            else:
                places = [int(k) * width for k in self.terms.value(self.term(index), index.size).view("i4")]
            chosen = self.chosen(under, lanes)
            codes = self.codes(value, under)
            effect = Effect(op)
            for k in chosen:
                at = self.address + places[k]
                effect.codes.update(zip(range(at, at + width), codes[k * width : (k + 1) * width], strict=True))
            found.append((store.latency, effect))
            if effect.codes:
                self.touched.append((min(effect.codes), max(effect.codes) + 1))
        return found

    def chosen(self, masks: tuple[Mask, ...], lanes: int) -> list[int]:
        kept = list(range(lanes))
        for mask in masks:
            if mask.lanes == lanes:
                flags = self.terms.selected(mask)
                kept = [k for k in kept if flags[k]]
        return kept

    def land(self, effect: Effect) -> None:
        if effect.cell < 0:
            self.memory.update(effect.codes)
            return
        old, new = self.registers[effect.cell], effect.term
        if effect.lane is not None:
            cell = self.cells[effect.cell]
            new = self.terms.insert(effect.lane, cell.lanes, new, old, cell.storage // 8 * cell.lanes)
        for mask in effect.masks:
            new = self.terms.merge(mask, new, old, effect.size)
        self.registers[effect.cell] = new
        self.makers[new] = self.writers[effect.cell] = effect.op.loc


class TooLong(Exception):
    """More steps than a check may take."""


def run_in_order(state: State, items: Sequence[Ready], limit: int) -> int:
    """Each instruction after all that stands before it; branches at once. Returns the steps; raises TooLong."""
    at = steps = 0
    while at < len(items):
        steps += 1
        if steps > limit:
            raise TooLong
        item = items[at]
        at += 1
        masks = state.active(item.op)
        if masks is None or not state.holds(item):
            continue
        if isinstance(item.op.branch, int):
            at = item.op.branch
        state.enter(item, masks)
        for _, effect in state.effects(item, masks):
            state.land(effect)
    return steps


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
        self.ready = [[ready(op) for op in slot.ops] for slot in code.slots]
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
            self.state.land(effect)

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
                    self.state.land(effect)
                    continue
                self._after(f"{effect.op.text} writes", effect.cell, when, effect.op)
            due = self.reading.pop(when, [])
            for reading, cell, _ in due if when > self.time and not waits else ():
                self._after(f"{reading.item.op.text} reads", cell, when, reading.item.op)
            self._read_late(due)

    def _after(self, what: str, cell: int, when: int, op: Op) -> None:
        text = f"{what} {self.state.cells[cell].name} {when - self.time} cycles after the return"
        self.late.append(Problem("DG455", text, op.loc))
