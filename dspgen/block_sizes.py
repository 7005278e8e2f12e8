"""How nests are cut into blocks for data off the chip: what a model of transfers and arithmetic expects the fewest
cycles of.

A function's nests follow each other, and neighbours whose data fit on the chip may be one block together: the cheapest
way through the function is found by dynamic programming over where blocks end. A nest that is a part by itself is cut
into blocks of a size and an order of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import islpy as isl

from dspgen.asmir.places import may_slide, place_bytes, room_of, sliding_step, window_bytes
from dspgen.errors import NoSchedule, Problem
from dspgen.options import Options
from dspgen.target.model import Target
from dspgen.target.views import views
from dspgen.tiling.bound import arithmetic_cycles
from dspgen.tiling.nests import nests
from dspgen.vecdsl.ir import ELEM_BYTES
from dspgen.vecdsl.subscripts import SPARE_VECTORS
from plant_core.affine import read_accesses
from plant_core.blocks import Blocks, Rooms, blocks, windows
from plant_core.boxes import Boxes, NoBlocks, assumed, covers, meets, surely_written
from plant_core.canonical.passes import canonical
from plant_core.dependence import live_in
from plant_core.groups import in_groups
from plant_core.ir import Buf, Comp, Func
from plant_core.transposed import with_transposed_copies
from plant_core.windows import BETWEEN, Counter, Window, rows_of, slide_of

# Cycles of the code between two blocks, and of starting a block's loops; and of that part in which nothing is moved.
_BETWEEN = 200
_IDLE = 30
# What each kind of blocks that are shorter than others adds to the arithmetic: tiles fit them less well.
_SHORTER = 0.02
# The part of the near memory that is left to local arrays of the blocks.
_SPARE = 4
_COPIES = 4  # copies of arrays take a part of the memory that is one in so many, at most
_TRIED = 40
_FEWEST = 8  # iterations of a loop in a block
# What is expected of blocks that are alike, at most; and how many iterations a short loop of unknown size has.
_ALIKE = 1.01
_MODERATE = 256
# Feedback: how many sizes are compiled, how near to the model's cycles is good enough, and how much above the best
# a size may be expected to be.
_COMPILED = 3
_SETTLED = 1.15
_HOPEFUL = 1.1

Judge = Callable[[Blocks], Sequence[float | None]]  # the cycles of the code of each piece, None where not known


def parts(func: Func, source: Func, target: Target, options: Options, judge: Judge | None = None) -> tuple[Blocks, ...]:
    """The nests of `func` in blocks, or neighbours as one block. With a `judge`, sizes whose code takes much longer
    than the model expects are compared with others. Raises NoSchedule where data don't fit, NoBlocks where sizes are
    known at run time only."""
    return _Parts(func, source, target, options, judge).best()


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Iterations of each loop in a block, the order of the loops over blocks, and the cycles that the model expects.
    `rooms`: the shapes that there is room for of arrays of run-time size that blocks touch all of. `small`: less is
    better where loops are short. `places`: of windows that slide how many places they have."""

    spans: tuple[int, ...]
    order: tuple[int, ...]
    cycles: float
    rooms: Rooms
    small: tuple[int, int]
    places: Mapping[str, int] = field(default_factory=dict)

    def made(self, boxes: Boxes, options: Options, spare: int) -> Blocks:
        """Raises NoBlocks."""
        reassoc, rooms = options.fp == "reassoc", self.rooms
        found = blocks(boxes, self.spans, self.order, reassoc=reassoc, rooms=rooms, spare=spare if self.places else 0)
        return replace(found, windows=_placed(found.windows, self.places))


@dataclass(frozen=True, slots=True)
class _Part:
    """The nests from `begin` to `end`, the cycles expected of them, and as blocks, where they are one nest."""

    begin: int
    end: int
    cycles: float
    blocks: Blocks | None
    sizes: _Sizes | None = None


@dataclass(frozen=True, slots=True)
class _Cut:
    """A function's first nests in parts, and the cycles expected of them all."""

    cycles: float
    parts: tuple[_Part, ...]


@dataclass(slots=True)
class _Group:
    """A nest, or neighbours: its arrays, and of each, once asked for, what is read before and what is written."""

    comps: tuple[Comp, ...]
    work: float
    touched: set[str]
    written: set[str]
    rest: tuple[_Group, _Group] | None = None  # the first nest, and those after it
    _live: dict[str, isl.Set | None] = field(default_factory=dict)
    _sure: dict[str, isl.Set | None] = field(default_factory=dict)

    def before(self, after: _Group) -> _Group:
        """This nest, and then those."""
        return _Group(
            (*self.comps, *after.comps),
            self.work + after.work,
            self.touched | after.touched,
            self.written | after.written,
            (self, after),
        )

    def sure(self, buf: str) -> isl.Set | None:
        """The elements that are written, whatever the data."""
        if buf not in self._sure:
            if self.rest is None:
                self._sure[buf] = surely_written(self.comps, buf)
            else:
                self._sure[buf] = _union(*(part.sure(buf) for part in self.rest))
        return self._sure[buf]

    def live(self, func: Func, buf: str) -> isl.Set | None:
        """The elements that may be read before they are written."""
        if buf not in self._live:
            if self.rest is None:
                self._live[buf] = live_in(func.with_comps(self.comps), buf, doubt=True)
            else:
                first, after = self.rest
                later, written = after.live(func, buf), first.sure(buf)
                if later is not None and written is not None:
                    later = later.subtract(written)
                self._live[buf] = _union(first.live(func, buf), later)
        return self._live[buf]


def _union(a: isl.Set | None, b: isl.Set | None) -> isl.Set | None:
    return a if b is None else b if a is None else a.union(b).coalesce()


def grouped(source: Func, target: Target, options: Options) -> Func | None:
    """The function with its loops of unknown size in groups of iterations; None where there is nothing to gain."""
    if not options.vectorize:
        return None
    func = canonical(source, reassoc=options.fp == "reassoc", symbolic=True)
    return in_groups(func, [n.names for n in nests(func)], target.lanes, reassoc=options.fp == "reassoc")


def with_copies(source: Func, target: Target, options: Options) -> Func | None:
    """The function in canonical form with copies of arrays in which lanes lie side by side, if that is worth while."""
    if not options.vectorize:
        return None
    func = canonical(source, reassoc=options.fp == "reassoc", symbolic=options.data == "ddr")
    return with_transposed_copies(func, target.memory(target.abi.stack_memory).size // _COPIES)


class _Parts:
    def __init__(self, func: Func, source: Func, target: Target, options: Options, judge: Judge | None) -> None:
        self.func, self.source, self.target, self.options, self.judge = func, source, target, options, judge
        self.ways: dict[int, tuple[Boxes, list[_Sizes]]] = {}  # of each nest
        memory = target.memory(target.abi.stack_memory)
        self.room = memory.size - memory.size // _SPARE
        self.lanes = max(view.lanes for view in views(target.real))
        self.spare = SPARE_VECTORS * self.lanes
        self.bufs = {b.name: b for b in func.bufs}
        self.groups = [self._group(nest.names) for nest in nests(func)]

    def _group(self, names: Sequence[str]) -> _Group:
        comps = tuple(self.func.comp(name) for name in names)
        touched = {a.buf for c in comps for a in (c.target, *read_accesses(c))} & set(self.bufs)
        work = arithmetic_cycles(self.func.with_comps(comps), self.target, assumed(self.func.with_comps(comps)))
        return _Group(comps, work, touched, {c.target.buf for c in comps} & touched)

    def best(self) -> tuple[Blocks, ...]:
        cuts: list[_Cut | None] = [_Cut(0.0, ())]
        refusal: NoSchedule | None = None
        for end in range(1, len(self.groups) + 1):
            best: _Cut | None = None
            several = self.groups[end - 1]
            for begin in reversed(range(end)):
                if end - begin == 1:
                    try:
                        part = self._nest(begin)
                    except NoSchedule as reason:
                        refusal = refusal or reason
                        continue
                else:
                    several = self.groups[begin].before(several)
                    cycles = self._together(several, self._kept(begin, end))
                    if cycles is None:
                        break
                    part = _Part(begin, end, cycles, None)
                before = cuts[begin]
                if before is not None and (best is None or before.cycles + part.cycles < best.cycles):
                    best = _Cut(before.cycles + part.cycles, (*before.parts, part))
            cuts.append(best)
        if cuts[-1] is None:
            assert refusal is not None
            raise refusal
        return tuple(self._made(part) for part in cuts[-1].parts)

    def _made(self, part: _Part) -> Blocks:
        if part.blocks is not None:
            return self._compared(part, part.blocks)
        comps = tuple(c for group in self.groups[part.begin : part.end] for c in group.comps)
        boxes = Boxes(self._only(comps), self.lanes, self._kept(part.begin, part.end), known=())
        return blocks(boxes, (), (), reassoc=self.options.fp == "reassoc")

    def _only(self, comps: tuple[Comp, ...]) -> Func:
        return replace(self.func, comps=comps)

    def _kept(self, begin: int, end: int) -> set[str]:
        """The local arrays of these nests that others use, too."""
        mine = set().union(*(g.touched for g in self.groups[begin:end]))
        others = set().union(*(g.touched for g in (*self.groups[:begin], *self.groups[end:])))
        return {name for name in mine & others if self.bufs[name].kind == "local"}

    def _nest(self, number: int) -> _Part:
        """One nest, cut as the model likes best of what dependences allow."""
        func = self._only(self.groups[number].comps)
        refusal: NoBlocks | None = None
        boxes = Boxes(func, self.lanes, self._kept(number, number + 1))
        # What bounds the size of arrays comes last.
        ways = sorted(self._sizes(boxes, self.groups[number].work), key=lambda s: (len(s.rooms), s.cycles))
        if boxes.sizes and ways:
            # What is expected of large sizes hardly tells shapes apart that matter to smaller ones.
            near = [w for w in ways if len(w.rooms) == len(ways[0].rooms) and w.cycles <= _ALIKE * ways[0].cycles]
            ways = sorted(near, key=lambda w: w.small) + ways[len(near) :]
        for sizes in (*ways[:_TRIED], *(w for w in ways[_TRIED:] if not w.spans)):
            try:
                made = sizes.made(boxes, self.options, self.spare)
            except NoBlocks as reason:
                refusal = reason
            else:
                self.ways[number] = boxes, ways
                return _Part(number, number + 1, sizes.cycles, made, sizes)
        raise NoSchedule(self._problem(func, refusal))

    def _compared(self, part: _Part, first: Blocks) -> Blocks:
        """The nest in blocks of these sizes, or of others, where the code of these takes far longer than the model
        expects: then those that differ most from what was compiled are, as long as they promise to be better."""
        boxes, ways = self.ways[part.begin]
        if self.judge is None or boxes.sizes or part.sizes is None or not part.sizes.spans:
            return first
        best = math.inf, first
        for sizes, made in itertools.islice(self._differing(boxes, ways, part.sizes, first), _COMPILED):
            real = self._real(boxes, sizes, self.judge(made), made)
            if real is None:
                return first
            best = min(best, (real, made), key=lambda found: found[0])
            if best[0] <= _SETTLED * part.sizes.cycles:
                break
        return best[1]

    def _differing(
        self, boxes: Boxes, ways: Sequence[_Sizes], sizes: _Sizes, first: Blocks
    ) -> Iterator[tuple[_Sizes, Blocks]]:
        """These sizes, then what differs most from those before it, of all that are about as good by the model."""
        yield sizes, first
        before = [sizes.spans]
        hopeful = [w for w in ways if w.spans and w.cycles <= _HOPEFUL * sizes.cycles]
        while hopeful := [w for w in hopeful if w.spans not in before]:
            alike = [w for w in hopeful if w.cycles <= _ALIKE * sizes.cycles] or hopeful
            other = max(alike, key=lambda w: min(_distance(w.spans, known) for known in before))
            hopeful.remove(other)
            try:
                made = other.made(boxes, self.options, self.spare)
            except NoBlocks:
                continue
            before.append(other.spans)
            yield other, made

    def _real(self, boxes: Boxes, sizes: _Sizes, cycles: Sequence[float | None], made: Blocks) -> float | None:
        """What is expected where the pieces take so many cycles."""
        counters, found = windows(boxes, sizes.spans, sizes.order, self.spare if sizes.places else 0)
        found = _placed(found, sizes.places)
        work = 0.0
        for place, piece in made.piece.items():
            each = cycles[piece]
            if each is None:
                return None
            work += each * math.prod(c.trips - 2 if at == BETWEEN else 1 for c, at in zip(counters, place, strict=True))
        return self._expected(counters, found, work)

    def _problem(self, func: Func, refusal: NoBlocks | None) -> Problem:
        why = "the data of no block fit on the chip" if refusal is None else refusal.message
        remedy = "compile with --data onchip, for arrays that are in on-chip memory already"
        if any(not isinstance(n, int) for buf in func.bufs for n in buf.shape):
            remedy = "give the parameters' values with -D NAME=VALUE"
        return Problem("DG318", why, func.comps[0].loc or self.source.loc, remedy)

    def _sizes(self, boxes: Boxes, work: float) -> Iterator[_Sizes]:
        """Sizes whose windows fit, with what the model expects of them."""
        try:
            known = [boxes.symbolic(boxes.main, d) is None for d in range(len(boxes.loops))]
            sizes = [_spans(extent, k) for (_, _, extent), k in zip(boxes.loops, known, strict=True)]
            ways = [
                (spans, order)
                for spans in itertools.product(*sizes)
                for order in itertools.permutations(range(len(boxes.loops)))
            ]
            if all(known):
                extents = [extent for _, _, extent in boxes.loops]
                ways += [(spans, tuple(range(len(extents)))) for spans in _in_thirds(extents)]
        except NoBlocks:
            ways = []
        for spans, order in [((), ()), *ways]:
            try:
                counters, found = windows(boxes, spans, order)
            except NoBlocks:
                continue
            if not self._are_rows(found):
                continue
            places: Mapping[str, int] = {}
            if any(slide_of(w, counters) is not None for w in found):
                _, apart = windows(boxes, spans, order, self.spare)
                if self._are_rows(apart) and (places := self._places(counters, apart)):
                    found = _placed(apart, places)
            rooms = self._rooms(counters, found)
            if rooms is not None:
                sized = [replace(w, shape=rooms[w.buf]) if w.extents else w for w in found]
                cycles = self._expected(counters, sized, work)
                yield _Sizes(spans, order, cycles, rooms, _small(counters, sized), places)

    def _places(self, counters: Sequence[Counter], found: Sequence[Window]) -> dict[str, int]:
        """How many places there is room for of windows that slide; all of them do, or none."""
        slides = {w.name: slide for w in found if (slide := may_slide(w, counters)) is not None}
        left = self.room - sum(room_of(replace(w, places=1), slides.get(w.name)) for w in found)
        steps = sum(sliding_step(w, slides[w.name]) for w in found if w.name in slides)
        if not steps:
            return {}
        most = 1 + left // steps
        if any(most < slide.least for slide in slides.values()):
            return {}
        return {n: min(most, max(counters[s.counter].trips, s.least)) for n, s in slides.items()}

    def _rooms(self, counters: Sequence[Counter], found: Sequence[Window]) -> dict[str, tuple[int, ...]] | None:
        """The shapes that there is room for of arrays of run-time size, alike in all dimensions; None where the windows
        don't fit."""
        fixed = [w for w in found if not w.extents]
        left = self.room - sum(room_of(w, may_slide(w, counters) if w.places else None) for w in fixed)
        sized = [w for w in found if w.extents]

        def shapes(most: int) -> dict[str, tuple[int, ...]]:
            return {w.buf: tuple(n if isinstance(n, int) else most for n in w.extents) for w in sized}

        def fits(most: int) -> bool:
            made = [replace(w, shape=shapes(most)[w.buf]) for w in sized]
            return sum(place_bytes(window_bytes(w)) for w in made) <= left

        most, step = 0, 1 << left.bit_length()
        while sized and (step := step // 2) >= self.lanes:
            most += step if fits(most + step) else 0
        return shapes(most) if left >= 0 and (most or not sized) else None

    def _are_rows(self, found: Sequence[Window]) -> bool:
        """Whether transfers can move all of these."""
        outside = (w for w in found if w.outside)
        return all(rows_of(w, self.bufs[w.buf].shape, ELEM_BYTES[w.dtype]) is not None for w in outside)

    def _together(self, group: _Group, kept: Collection[str]) -> float | None:
        """What the model expects of neighbouring nests as one block; None where their data don't fit."""
        if any(not isinstance(n, int) for name in group.touched for n in self.bufs[name].shape):
            return None
        needed = {name: place_bytes(_bytes(self.bufs[name])) for name in group.touched}
        if sum(needed.values()) > self.room:
            return None
        moved = [self.bufs[name] for name in sorted(group.touched) if self.bufs[name].kind == "param"]
        loaded = [buf for buf in moved if self._loads(group, buf)]
        stored = [buf for buf in moved if buf.name in group.written]
        dma = self.target.dma
        assert dma is not None
        ends = dma.startup * (bool(loaded) + bool(stored))
        moving = sum(_bytes(buf) for buf in (*loaded, *stored)) / dma.bytes_per_cycle
        return max(group.work + _BETWEEN, moving) + moving + ends

    def _loads(self, group: _Group, buf: Buf) -> bool:
        if buf.name not in group.written or not covers(group.sure(buf.name), buf.extents):
            return True
        return meets(group.live(self.func, buf.name), buf.extents)

    def _expected(self, counters: Sequence[Counter], found: Sequence[Window], work: float) -> float:
        dma = self.target.dma
        assert dma is not None
        moving = first = last = 0.0
        number = math.prod(c.trips for c in counters)
        for window in found:
            inner = max(window.counters, default=-1)
            times = math.prod(c.trips for c in counters[: inner + 1])
            each = window_bytes(window) / dma.bytes_per_cycle
            slide = may_slide(window, counters) if window.places else None
            if slide is not None:
                trips = counters[slide.counter].trips
                again = times - times // trips * -(-trips // window.places)
                moving -= again * each * slide.kept / window.dims[slide.dim].extent.full
            moving += times * each * (window.load + window.store)
            first += each * window.load
            last += each * window.store
        ends = dma.startup * (any(w.load for w in found) + any(w.store for w in found))
        shorter = math.prod(2 if c.last < c.span else 1 for c in counters) - 1
        return max(work * (1 + shorter * _SHORTER) + number * _BETWEEN, moving) + number * _IDLE + first + last + ends


def _placed(found: Sequence[Window], places: Mapping[str, int]) -> tuple[Window, ...]:
    return tuple(replace(w, places=places.get(w.name, 0)) for w in found)


def _small(counters: Sequence[Counter], found: Sequence[Window]) -> tuple[int, int]:
    """How many blocks loops of a moderate length have; then the length of the rows that are moved, the longer the
    less."""
    number = math.prod(-(-min(_MODERATE, _extent(c)) // c.span) for c in counters)
    return number, -sum(w.shape[-1] for w in found if w.outside)


def _distance(one: Sequence[int], other: Sequence[int]) -> float:
    return sum(abs(math.log2(a / b)) for a, b in zip(one, other, strict=True))


def _extent(counter: Counter) -> int:
    return (counter.trips - 1) * counter.span + counter.last


def _bytes(buf: Buf) -> int:
    return math.prod(buf.extents or (1,)) * ELEM_BYTES[buf.dtype]


def _spans(extent: int, known: bool) -> list[int]:
    """Halves of a loop, halves of these, and so on; powers of two where its size is a guess."""
    found = [extent if known else 1 << max(extent, _FEWEST).bit_length() - 1]
    while found[-1] > _FEWEST:
        found.append(_even(-(-found[-1] // 2)))
    return found


def _even(span: int) -> int:
    """A few iterations more, so that tiles divide it that have a power of two of them: a sixteenth at most."""
    granule = 1 << max((span // 16).bit_length() - 1, 0)
    return -(-span // granule) * granule


def _in_thirds(extents: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """One of the loops in three parts, the others whole: blocks in thirds of several loops are of too many kinds."""
    for k, extent in enumerate(extents):
        if extent > 3 * _FEWEST:
            yield tuple(_even(-(-e // 3)) if n == k else e for n, e in enumerate(extents))
