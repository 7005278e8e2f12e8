"""Transfers of windows between memories: the words by which the core tells the DMA engine what to move, and waits.

What the words say is in `dspgen/sim/dma.py`. Each window has a channel each way; what doesn't change in a channel's
words is written once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from dspgen.asmir.emitter import Emitter
from dspgen.asmir.forms import load_forms, store_forms
from dspgen.asmir.ir import Instr, Jump, Label, Mark, Mem, Predicate, Reg
from dspgen.asmir.pointers import Pointers
from dspgen.target.model import Dma, Target
from dspgen.target.query import Index
from dspgen.vecdsl.ir import ELEM_BYTES, Address, Const, Load, Op, Store, Term, Var, VType
from plant_core.windows import Counter, Length, Rows, Size, Window, products

I32 = VType("i32", False)
ONE, ZERO = Const(1, I32), Const(0, I32)
_ALIGN = 256  # bytes; a vector's at least lie between two windows


@dataclass(frozen=True, slots=True)
class Moved:
    """A window, its rows (None: nothing is moved), the bytes of one of its places, and whether it has two."""

    window: Window
    rows: Rows | None
    bytes: int

    @property
    def twice(self) -> bool:
        return self.rows is not None and bool(self.window.counters)

    def moves(self, *, store: bool) -> bool:
        return self.rows is not None and (self.window.store if store else self.window.load)


class Engine:
    """The engine as one nest uses it. Where it has fewer channels than there are windows to move, some take turns.

    `near` arguments are addresses in near memory, `block` tells the variable with a counter's place.
    """

    def __init__(
        self,
        name: str,
        windows: Sequence[Moved],
        counters: Sequence[Counter],
        target: Target,
        dma: Dma,
        emitter: Emitter,
        pointers: Pointers,
    ) -> None:
        self.name, self.counters, self.target, self.dma = name, counters, target, dma
        self.emitter, self.pointers = emitter, pointers
        ways = [(m, store) for store in (False, True) for m in windows if m.moves(store=store)]
        self.channels = {(m.window.name, store): k % dma.channels for k, (m, store) in enumerate(ways)}
        self.shared = set(range(len(ways) - dma.channels))  # the channels that several transfers take in turns
        self.marks = 0

    def prepare(self, moved: Moved, *, store: bool) -> None:
        """Write the words that stay as they are."""
        channel = self.channels[moved.window.name, store]
        if channel not in self.shared:
            self._write(channel, self._fixed(moved, store=store))

    def _fixed(self, moved: Moved, *, store: bool) -> dict[str, Term]:
        rows = moved.rows
        assert rows is not None
        words: dict[str, Term] = {"element": ZERO}
        if rows.whole is not None or rows.rows.less or rows.rows.full > 1:
            pitches = (rows.local_pitch, rows.pitch) if store else (rows.pitch, rows.local_pitch)
            words |= {"source_step": amount(pitches[0]), "destination_step": amount(pitches[1])}
        words |= {n: Const(x.full, I32) for n, x in (("rows", rows.rows), ("row_bytes", rows.row_bytes)) if not x.less}
        if rows.whole is not None:
            words |= {"rows": amount(rows.whole[0]), "row_bytes": amount(rows.whole[1])}
        return {n: t for n, t in words.items() if n in self.dma.words}

    def start(self, moved: Moved, near: Term, block: Callable[[int], str], *, store: bool) -> None:
        rows, window = moved.rows, moved.window
        assert rows is not None
        array = f"array.{window.name}"
        self.emitter.names[array] = low_half(self.pointers.base[window.buf], self.target)
        far: Term = Var(array, I32)
        if rows.offset != 0:
            far = Op("add", (far, amount(rows.offset)), I32)
        for k, step in rows.steps:
            number: Term = Var(block(k), I32)
            each = amount(step)
            if self.counters[k].adapts:
                number = Op("mul", (number, iterations(self.counters, k)), I32)
                each = amount(step, self.counters[k].span)
            far = Op("add", (far, Op("mul", (number, each), I32)), I32)
        words = {"source": near if store else far, "destination": far if store else near}
        for word, length in (("rows", rows.rows), ("row_bytes", rows.row_bytes)):
            if length.less:
                words[word] = self._length(length, block)
        channel = self.channels[window.name, store]
        if channel in self.shared:
            self._idle([channel])
            words = self._fixed(moved, store=store) | words
        self._write(channel, {**words, "go": ONE})

    def empty(self, moved: Moved, block: Callable[[int], str]) -> Term | None:
        """Whether there may be nothing to move, as sizes are known at run time only: then a number that is not 0 if
        there is something. None where there always is."""
        assert moved.rows is not None
        needed = [amount(n) for n in dict.fromkeys(moved.rows.sizes)]
        for length in (moved.rows.rows, moved.rows.row_bytes):
            if any(self.counters[k].extent is not None for k, _ in length.less):
                needed.append(self._length(length, block))
        found: Term | None = None
        for number in needed:
            some = Op("lt", (ZERO, number), I32)
            found = some if found is None else Op("and", (found, some), I32)
        return found

    def wait(self, windows: Sequence[Moved], *, store: bool) -> None:
        """Read `go` of the windows' channels until all are 0. What was in registers of constants is forgotten."""
        if windows:
            self._idle({self.channels[m.window.name, store] for m in windows})

    def _idle(self, channels: Collection[int]) -> None:
        """Wait until these have nothing to do."""
        emitter, words = self.emitter, self.dma.words
        places = sorted(channel * len(words) + words.index("go") for channel in channels)
        base = self.pointers.constant(self.dma.base + places[0] * self.dma.word_bytes)
        self.marks += 1
        name = f"{self.name}_wait{self.marks}"
        emitter.items.append(Mark(name))
        left = self._loaded(Mem(base, 0, None))
        for place in places[1:]:
            go = self._loaded(Mem(base, (place - places[0]) * self.dma.word_bytes, None))
            left = self._either(left, go)
        branch = Index(self.target).branch()
        if branch is None:
            raise emitter.missing("branch", "i32")
        jump = Instr(branch.instruction, (Label(name),), Predicate(emitter.whole(left)))
        emitter.items.append(Jump(jump, (base,)))

    def _length(self, length: Length, block: Callable[[int], str]) -> Term:
        found: Term = Const(length.full, I32)
        for k, less in length.less:
            counter = self.counters[k]
            at_end = Const(counter.trips - 1, I32) if counter.extent is None else Var(end(k), I32)
            last: Term = Op("eq", (Var(block(k), I32), at_end), I32)
            missing: Term = Const(less * (counter.span - counter.last), I32)
            if counter.extent is not None:
                missing = Op("mul", (Var(lacking(k), I32), Const(less, I32)), I32)
            if counter.adapts:
                missing = Op("select", (last, Var(lacking(k), I32), Var(smaller(k), I32)), I32)
                last = Const(less, I32)
            found = Op("sub", (found, Op("mul", (last, missing), I32)), I32)
        return found

    def _write(self, channel: int, words: Mapping[str, Term]) -> None:
        """Store words of a channel, in their order."""
        emitter = self.emitter
        values = {name: emitter.lower(term) for name, term in words.items()}
        base = self.pointers.constant(self.dma.base + channel * len(self.dma.words) * self.dma.word_bytes)
        store = Store("dma", Address(0), 1, "i32", Var("word", I32))
        for name, value in values.items():
            for form in store_forms(emitter.table, store, self.target.lanes):
                if emitter.part_class(value) in form.operand(len(form.args) - 1).classes:
                    place = Mem(base, self.dma.words.index(name) * self.dma.word_bytes, None)
                    emitter.emit(form, {form.args[0]: place, form.args[-1]: value})
                    break
            else:
                raise emitter.missing("store", "i32")

    def _loaded(self, place: Mem) -> Reg:
        emitter = self.emitter
        found = Reg(emitter.fresh(emitter.classes.scalar.name, "go"))
        for form in load_forms(emitter.table, Load("dma", Address(0), 1, "i32", I32)):
            if found.vreg.cls in form.result_operand.classes:
                emitter.emit(form, {form.result: found, form.args[0]: place})
                return found
        raise emitter.missing("load", "i32")

    def _either(self, a: Reg, b: Reg) -> Reg:
        """A register that is 0 if both are."""
        self.emitter.names |= {"go.a": a, "go.b": b}
        self.emitter.values.clear()
        return self.emitter.lower(Op("or", (Var("go.a", I32), Var("go.b", I32)), I32))


def end(counter: int) -> str:
    """The variable with the number of the last block."""
    return f"end.{counter}"


def lacking(counter: int) -> str:
    """The variable that tells how many iterations the last block has less than others."""
    return f"lacking.{counter}"


def smaller(counter: int) -> str:
    """The variable that tells how many iterations all blocks have less than the largest, where that may be."""
    return f"smaller.{counter}"


def iterations(counters: Sequence[Counter], k: int) -> Term:
    """How many iterations of a counter a block has, if it is not the last."""
    span = Const(counters[k].span, I32)
    return Op("sub", (span, Var(smaller(k), I32)), I32) if counters[k].adapts else span


def amount(of: Size, share: int = 1) -> Term:
    """A size in the function's integer parameters, one of `share` equal parts of it."""
    found: Term | None = None
    for factor, names in products(of):
        assert factor % share == 0
        part: Term = Const(factor // share, I32)
        for name in names:
            part = Var(name, I32) if part == ONE else Op("mul", (part, Var(name, I32)), I32)
        found = part if found is None else Op("add", (found, part), I32)
    return ZERO if found is None else found


def low_half(pointer: Reg, target: Target) -> Reg:
    pair = target.register_class(pointer.vreg.cls).pair_of is not None
    return Reg(pointer.vreg, "lo") if pair and not pointer.part else pointer


def place_bytes(size: int) -> int:
    """The bytes that a window's place takes, with what lies between it and the next."""
    return (size // _ALIGN + 2) * _ALIGN


def window_bytes(window: Window) -> int:
    """The bytes of one place of a window."""
    return ELEM_BYTES[window.dtype] * math.prod(window.shape)
