"""Runs programs on terms: the state, and linear text in order; packets are `packets.py`'s.

Control, addresses and predicates are those of a real run; what is computed stays symbolic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dspgen.check.terms import BYTES, UNKNOWN, UNKNOWN_BYTE, Mask, Terms, first_byte
from dspgen.check.transfers import Engine
from dspgen.check.values import Leaf, Value, value_of
from dspgen.sim.ir.program import Cell, Op
from dspgen.target.isa.model import Dma
from plant_core.support.location import Loc
from plant_core.support.memoize import few_by_identity


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


@few_by_identity
def ready_ops(ops: Sequence[Op]) -> tuple[Ready, ...]:
    """Of a whole program, made once for all runs."""
    return tuple(map(ready, ops))


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

    def __init__(
        self,
        terms: Terms,
        cells: Sequence[Cell],
        registers: list[int],
        mask: int | None,
        unset: range,
        dma: Dma | None = None,
    ) -> None:
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
        self.engine = Engine(dma, self._there, self._word, self._zero(dma)) if dma is not None else None

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
        """The codes of memory that the core reads."""
        if self.engine is not None and start in self.engine.words:
            self.memory |= self.engine.asked(start, count)
        return self._there(start, count)

    def _there(self, start: int, count: int) -> tuple[int, ...]:
        get = self.memory.get
        if start in self.unset:
            return tuple(get(a, UNKNOWN_BYTE) for a in range(start, start + count))
        return tuple(get(a, first_byte(a)) for a in range(start, start + count))

    def _word(self, codes: tuple[int, ...]) -> int:
        return self.terms.integer(self.terms.of_bytes(codes), len(codes)) & ((1 << 8 * len(codes)) - 1)

    def _zero(self, dma: Dma) -> tuple[int, ...]:
        first = self.terms.constant(0) * BYTES
        return tuple(range(first, first + dma.word_bytes))

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
            if self.engine is not None and next(iter(effect.codes), -1) in self.engine.words:
                self.engine.stored(min(effect.codes), max(effect.codes) + 1)
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
