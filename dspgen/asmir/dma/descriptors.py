"""Transfers of windows between memories: the words by which the core tells the DMA engine what to move, and waits.

What the words say is in `dspgen/sim/ir/dma.py`. Each window has a channel each way; what doesn't change in a channel's
words is written once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dspgen.asmir.dma.buffer_placement import Moved, Slid
from dspgen.asmir.dma.names import at
from dspgen.asmir.ir.function import If, Instr, Jump, Label, Mark, Mem, MemRef, Predicate, Reg, VReg
from dspgen.asmir.select.access_rows import load_forms, store_forms
from dspgen.asmir.select.base_pointers import Pointers
from dspgen.asmir.select.code_sections import forget, section
from dspgen.asmir.select.emitter import Emitter
from dspgen.target.isa.model import Dma, Target
from dspgen.target.query.instructions import Index
from dspgen.target.query.operations import Form
from dspgen.vecdsl.ir.program import ELEM_BYTES, Address, Const, Load, Op, Store, Term, Var, VType
from plant_core.ir.array_views import Length
from plant_core.ir.symbolic_sizes import Size, parts_of, products
from plant_core.ir.tile_loop import Counter
from plant_core.scratchpad.buffers import Clip, Rows

I32 = VType("i32", False)
_LONGEST = 256  # cycles to stand still: of what takes longer, looks cost a small part
_LOOK = 3  # cycles from a transfer's end to a look that tells it
ONE, ZERO = Const(1, I32), Const(0, I32)


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
        self.pairs = any(c.pair_of == emitter.classes.scalar.name for c in target.registers)
        each = len(dma.words) * dma.word_bytes
        farthest = target.address_modes.plus_imm["scalar"][1] * dma.word_bytes
        self.reach = max((farthest + dma.word_bytes) // each, 1) * each  # bytes of channels that one register reaches
        self.marks = self.reads = 0

    def shares(self, moved: Moved, *, store: bool) -> bool:
        """Whether others take its channel in turns with it."""
        return self.channels[moved.window.name, store] in self.shared

    def prepare(self, moved: Moved, *, store: bool) -> None:
        """Write the words that stay as they are."""
        if not self.shares(moved, store=store):
            self._write(self.channels[moved.window.name, store], self._fixed(moved, store=store))

    def describe(self, moved: Moved, near: Term, block: Callable[[int], str], *, store: bool) -> None:
        """Write all words but the one that starts it."""
        words = self._fixed(moved, store=store) | self._changing(moved, near, block, store=store)
        self._write(self.channels[moved.window.name, store], words)

    def go(self, moved: Moved, *, store: bool, condition: Term = ONE) -> None:
        """Start what is described."""
        self._write(self.channels[moved.window.name, store], {"go": condition})

    def start(
        self,
        moved: Moved,
        near: Term,
        block: Callable[[int], str],
        *,
        store: bool,
        first: bool = False,
        condition: Term = ONE,
        whole: Term = ONE,
    ) -> None:
        """Write what differs from transfer to transfer, of the first one everything, and start it; where the
        `condition` is 0, nothing comes of that. `whole`: 0 where what the window has in common with the last one is
        there."""
        words = self._changing(moved, near, block, store=store)
        if moved.slid is not None and whole != ONE:
            words = _without(moved.slid, words, whole)
        if first or self.shares(moved, store=store):
            words = self._fixed(moved, store=store) | words
        channel = self.channels[moved.window.name, store]
        if channel in self.shared:
            self._loop([channel])
        self._write(channel, {**words, "go": condition})

    def _fixed(self, moved: Moved, *, store: bool) -> dict[str, Term]:
        rows = moved.rows
        assert rows is not None
        words: dict[str, Term] = {"element": Const(rows.element, I32)}
        if rows.whole[0] is not None or rows.rows.less or rows.rows.full > 1 or rows.element:
            pitches = (rows.local_pitch, rows.pitch) if store else (rows.pitch, rows.local_pitch)
            words |= {"source_step": amount(pitches[0]), "destination_step": amount(pitches[1])}
        lengths = _lengths(moved, store)
        words |= {n: Const(x.full, I32) for n, x in lengths if not x.less and n not in _clipped(rows)}
        words |= {n: amount(x) for n, x in zip(("rows", "row_bytes"), rows.whole, strict=True) if x is not None}
        return {n: t for n, t in words.items() if n in self.dma.words}

    def _changing(self, moved: Moved, near: Term, block: Callable[[int], str], *, store: bool) -> dict[str, Term]:
        rows, window = moved.rows, moved.window
        assert rows is not None
        array = f"array.{window.name}"
        self.emitter.names[array] = low_half(self.pointers.base[window.array], self.target)
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
        for clip in rows.clips:
            under, _ = self._outside(clip, block)
            far = Op("add", (far, Op("mul", (under, amount(clip.far)), I32)), I32)
            near = Op("add", (near, Op("mul", (under, Const(clip.near, I32)), I32)), I32)
        for k, most, elements in window.margin:
            before = left_before(first_of(self.counters, k, block), most)
            near = Op("add", (near, Op("mul", (before, Const(elements * ELEM_BYTES[window.dtype], I32)), I32)), I32)
        words = {"source": near if store else far, "destination": far if store else near}
        for word, length in _lengths(moved, store):
            if length.less or (moved.slid is not None and moved.slid.word == word):
                words[word] = self._length(length, block)
        return words | self._inside(moved, block)

    def _inside(self, moved: Moved, block: Callable[[int], str]) -> dict[str, Term]:
        """The lengths of a window that is cut off at the ends of its array: 0 or less where it is all outside."""
        rows = moved.rows
        assert rows is not None
        lengths, found = dict(_lengths(moved)), dict[str, Term]()
        for clip in rows.clips:
            under, over = self._outside(clip, block)
            less = Op("mul", (Op("add", (under, over), I32), Const(clip.each, I32)), I32)
            found[clip.word] = Op("sub", (Const(lengths[clip.word].full, I32), less), I32)
        return found

    def _outside(self, clip: Clip, block: Callable[[int], str]) -> tuple[Term, Term]:
        """How many elements lie before the array, and how many behind it."""
        place: Term = Const(clip.reach.low, I32)
        for k, step in clip.reach.steps:
            place = Op("add", (place, Op("mul", (Var(block(k), I32), Const(step, I32)), I32)), I32)
        under = Op("sub", (ZERO, place), I32)
        over = Op("add", (place, Const(clip.reach.extent.full, I32)), I32)
        over = Op("sub", (over, amount(clip.size)), I32)
        return _positive(under), _positive(over)

    def some(self, moved: Moved, block: Callable[[int], str]) -> Term | None:
        """Whether there is anything to move, as sizes are known at run time only: 0 or 1. None where there always
        is."""
        assert moved.rows is not None
        needed = [amount(n) for n in dict.fromkeys(moved.rows.sizes)]
        for _, length in _lengths(moved):
            if any(self.counters[k].extent is not None for k, _ in length.less):
                needed.append(self._length(length, block))
            for k, less in length.less:
                extent = self.counters[k].extent
                if extent is not None and length.full > less * self.counters[k].span:
                    needed.append(amount(extent))  # what lies around iterations is there without any, too
        needed += self._inside(moved, block).values()
        found: Term | None = None
        for number in needed:
            some = Op("lt", (ZERO, number), I32)
            found = some if found is None else Op("and", (found, some), I32)
        return found

    def wait(self, windows: Sequence[Moved], *, store: bool, just: int = 0, beside: bool = False) -> None:
        """Read `go` of the windows' channels until all are 0. What was in registers of constants is forgotten. `just`:
        if the transfers have only just been told, so many stores each; then it is known when they end. `beside`: each
        look is on its way while the branch of the one before it is, which takes a register for each channel."""
        if windows:
            idle = self._duration(windows, just) if just else 0
            idle = idle if idle <= _LONGEST else 0
            self._loop(self._channels(windows, store=store), idle, beside=beside and not idle)

    def _duration(self, windows: Sequence[Moved], stores: int) -> int:
        """Cycles from the start of the last of these transfers to the first look at which all are done; 0 where only
        the run tells."""
        moving, longest = 0, 0
        for later, each in enumerate(reversed(windows)):
            assert each.rows is not None
            if self.some(each, at) is not None or each.rows.whole != (None, None):
                return 0
            size = each.rows.rows.full * each.rows.row_bytes.full
            moving -= -size // self.dma.pace(transposed=bool(each.rows.element))
            longest = max(longest, self.dma.startup + moving - later * stores)
        return longest - len(windows) + _LOOK

    def make_sure(self, windows: Sequence[Moved], *, store: bool) -> None:
        """The same where they are most likely done: one look is enough then, and no place for code to stand still."""
        if windows:
            channels = self._channels(windows, store=store)
            left = self.emitter.whole(self._left(channels))
            self.emitter.items.append(If(left, tuple(section(self.emitter, lambda: self._loop(channels)))))
            forget(self.emitter)

    def _channels(self, windows: Sequence[Moved], *, store: bool) -> list[int]:
        return sorted({self.channels[m.window.name, store] for m in windows})

    def _loop(self, channels: Sequence[int], idle: int = 0, *, beside: bool = False) -> None:
        """Wait until these channels have nothing to do, with a first look after `idle` cycles."""
        emitter = self.emitter
        places = [self._place(channel, "go") for channel in channels]
        bases = [place.base for place in places if isinstance(place.base, VReg)]
        self.marks += 1
        name = f"{self.name}_wait{self.marks}"
        looks = [self._loaded(place) for place in places] if beside else []
        emitter.items.append(Mark(name, idle))
        left = emitter.whole(self._joined(looks) if looks else self._left(channels))
        if looks and left == looks[0].vreg:
            left = emitter.fresh(left.cls, "left")
            emitter.move(Reg(left), looks[0])
        for look, place in zip(looks, places, strict=False):
            self._loaded(place, look)
        branch = Index(self.target).branch()
        if branch is None:
            raise emitter.missing("branch", "i32")
        jump = Instr(branch.instruction, (Label(name),), Predicate(left))
        emitter.items.append(Jump(jump, tuple(dict.fromkeys((*bases, *(look.vreg for look in looks))))))
        forget(emitter)

    def _left(self, channels: Sequence[int]) -> Reg:
        """A register that is 0 if these channels have nothing to do."""
        return self._joined([self._loaded(self._place(channel, "go")) for channel in channels])

    def _joined(self, looks: Sequence[Reg]) -> Reg:
        found: list[Term] = []
        for look in looks:
            self.reads += 1
            go = Var(f"go.{self.reads}", I32)
            self.emitter.names[go.name] = look
            found.append(go)
        while len(found) > 1:
            found = [*found[2:], Op("or", (found[0], found[1]), I32)]
        return self.emitter.lower(found[0])

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
        """Store words of a channel, two at once where the machine has a store for that; last what starts it."""
        left, stores = dict(words), list[tuple[Form, Mem, Term]]()
        for word, other in zip(self.dma.words, (*self.dma.words[1:], ""), strict=True):
            if word not in left:
                continue
            term, found = left.pop(word), None
            if self.pairs and other in left:
                found = self._store(channel, (word, other), Op("pair", (term, left[other]), I32))
            if found is not None:
                del left[other]
            else:
                found = self._store(channel, (word,), term)
            if found is None:
                raise self.emitter.missing("store", "i32")
            stores.append(found)
        for form, place, term in sorted(stores, key=lambda s: s[1].access is None):
            self.emitter.emit(form, {form.args[0]: place, form.args[-1]: self.emitter.lower(term)})

    def _store(self, channel: int, words: Sequence[str], term: Term) -> tuple[Form, Mem, Term] | None:
        """The row that stores adjacent words, and where; None if there is none. What starts a transfer comes after all
        that was done before."""
        place = self._place(channel, words[0], len(words))
        if "go" in words:
            place = replace(place, access=None)
        cls = self.emitter.classes.of_term(term)
        for form in store_forms(self.emitter.table, Store("dma", Address(0), 1, "i32", term), self.target.lanes):
            memory = form.instruction.memory
            aligned = memory is not None and self._at(channel, words[0]) % memory.align == 0
            if aligned and cls in form.operand(len(form.args) - 1).classes:
                return form, place, term
        return None

    def _at(self, channel: int, word: str) -> int:
        return self.dma.base + self.dma.place(channel, word)

    def _place(self, channel: int, word: str, words: int = 1) -> Mem:
        """Where a channel's words are, by a register that others are reached from, too."""
        at = self._at(channel, word)
        first = at - (at - self.dma.base) % self.reach
        key = ("address", first, self.target.address_modes.base_classes["scalar"])
        if key not in self.emitter.constants:
            self.emitter.constants[key] = Reg(self.pointers.constant(first))
        access = MemRef("words of the engine", at, (), self.dma.word_bytes, words, self.dma.word_bytes)
        return Mem(self.emitter.constants[key].vreg, at - first, access)

    def _loaded(self, place: Mem, into: Reg | None = None) -> Reg:
        emitter = self.emitter
        found = into or Reg(emitter.fresh(emitter.classes.scalar.name, "go"))
        for form in load_forms(emitter.table, Load("dma", Address(0), 1, "i32", I32)):
            if found.vreg.cls in form.result_operand.classes:
                emitter.emit(form, {form.result: found, form.args[0]: place})
                return found
        raise emitter.missing("load", "i32")


def _positive(term: Term) -> Term:
    return Op("select", (Op("lt", (ZERO, term), I32), term, ZERO), I32)


def _clipped(rows: Rows) -> set[str]:
    return {clip.word for clip in rows.clips}


def _lengths(moved: Moved, store: bool = False) -> tuple[tuple[str, Length], ...]:
    assert moved.rows is not None
    rows, row_bytes = moved.rows.lengths(store=store)
    return ("rows", rows), ("row_bytes", row_bytes)


def _without(slid: Slid, words: Mapping[str, Term], whole: Term) -> dict[str, Term]:
    """A fetch without what is there already, unless it is to be `whole`."""

    def part(size: int) -> Term:
        return Op("select", (whole, ZERO, Const(size, I32)), I32)

    return {
        **words,
        "source": Op("add", (words["source"], part(slid.far)), I32),
        "destination": Op("add", (words["destination"], part(slid.near)), I32),
        slid.word: Op("sub", (words[slid.word], part(slid.kept)), I32),
    }


def both_hold(one: Term, other: Term) -> Term:
    """Whether both are 1, of terms that are 0 or 1."""
    return one if other == ONE else other if one == ONE else Op("and", (one, other), I32)


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


def first_of(counters: Sequence[Counter], k: int, block: Callable[[int], str]) -> Term:
    """The iterations of a counter that come before a block."""
    return Op("mul", (Var(block(k), I32), iterations(counters, k)), I32)


def left_before(first: Term, most: int) -> Term:
    """How many iterations are left before a block, of all that come before it: so many at most."""
    return Op("min", (first, Const(most, I32)), I32)


def amount(of: Size, share: int = 1) -> Term:
    """A size in the function's integer parameters, one of `share` equal parts of it."""
    kind, parts, bits = parts_of(of) if share == 1 else ("sum", (of,), 0)
    if kind in ("div", "floordiv"):
        whole = amount(parts[0])
        if kind == "div":  # towards 0, as in C
            below = Op("shr", (whole, Const(31, I32)), I32)
            whole = Op("add", (whole, Op("and", (below, Const((1 << bits) - 1, I32)), I32)), I32)
        return Op("shr", (whole, Const(bits, I32)), I32)
    if kind != "sum":
        return Op(kind, tuple(map(amount, parts)), I32)
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
