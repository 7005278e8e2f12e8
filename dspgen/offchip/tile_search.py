"""How nests are cut into blocks for data off the chip: what a model of transfers and arithmetic expects the fewest
cycles of.

A function's nests follow each other, and neighbours whose data fit on the chip may be one block together: the cheapest
way through the function is found by dynamic programming over where blocks end. A nest that is a part by itself is cut
into blocks of a size and an order of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from dspgen.asmir.dma.buffer_placement import place_bytes
from dspgen.errors import NoSchedule
from dspgen.offchip.capacity import Near, fitting, has_room_for_all, longer
from dspgen.offchip.cost_model import (
    BETWEEN_BLOCKS,
    CUT,
    RAGGED,
    Judge,
    Sizes,
    array_bytes,
    bounding,
    enough_for_each,
    expected,
    inner_first,
    longest_of,
    most_different,
    placed,
    problem,
    room_beside,
    rooms_of,
    sliding_places,
    small,
    ways_of,
    why_whole,
)
from dspgen.offchip.layout_candidates import Estimate, turns
from dspgen.offchip.nest_fusion import Group, cheapest
from dspgen.options import Options
from dspgen.rewrite.cost.operation_costs import machine_of
from dspgen.target.isa.model import Target
from dspgen.target.query.views import views
from dspgen.tiling.cost.lower_bound import arithmetic_cycles
from dspgen.tiling.loops.loop_nests import nests
from dspgen.vecdsl.build.subscripts import SPARE_VECTORS
from dspgen.vecdsl.ir.program import ELEM_BYTES
from plant_core.analysis.rectangular_hull import Boxes, NoBlocks, accesses_of, assumed, covers, meets
from plant_core.ir.accesses import read_accesses
from plant_core.ir.func import Buf, Comp, Func
from plant_core.ir.tile_loop import Counter
from plant_core.scratchpad.buffers import NOTHING, Window, rows_of, slide_of
from plant_core.scratchpad.dma_layouts import Turned
from plant_core.scratchpad.permutable_bands import bands
from plant_core.scratchpad.tile_nest import blocks, busy_blocks, windows
from plant_core.scratchpad.tiled_func import Around, Blocks, Either, Part

# The part of the near memory that is left to local arrays of the blocks.
_SPARE = 4
_TRIED = 40
_LONGER = 8  # for arrays that others have no room for
# What is expected of blocks that are alike, at most.
_ALIKE = 1.01
# Feedback: how many sizes are compiled, how near to the model's cycles is good enough, how much above the best a size
# may be expected to be, and how much better than what was found.
_COMPILED = 3
_PIECES = 4  # of other sizes that are compiled, if the best has no more of them
_FORMS = 2  # that are compiled besides the first
_SETTLED = 1.15
_HOPEFUL = 1.1
_CLEARLY = 1.05
_BETTER = 0.8  # times the cycles that were found: what is expected to take less may be

Means = Literal["apart", "any"]
MEANS: tuple[Means, ...] = ("apart", "any")


@dataclass(frozen=True, slots=True)
class Parts:
    """The nests of a function in blocks, or neighbours as one block; and the cycles that are expected of them all, by
    their pieces where these are known."""

    nests: tuple[Part, ...]
    cycles: float


def in_turn(
    func: Func,
    source: Func,
    target: Target,
    options: Options,
    judge: Judge | None = None,
    means: Means = "apart",
    estimate: Estimate = lambda func: 0.0,
) -> Iterator[Parts]:
    """A function in parts, the best first. With a `judge`, sizes whose code takes much longer than the model expects
    are compared with others, and so are layouts of arrays; those come after. `means`: whether nests whose data don't
    fit otherwise may have windows that are fetched and put back in step with their blocks, be in tiles of bands, or be
    taken apart within their outer loops, too; the model decides. `estimate` tells what arrays turned round are worth.
    Raises NoSchedule where data don't fit, NoBlocks where sizes are known at run time only."""
    return _Parts(func, source, target, options, judge, means, estimate).in_turn()


@dataclass(frozen=True, slots=True)
class _Part:
    """The nests from `begin` to `end`, the cycles expected of them, and as blocks, where they are one nest; and the
    other forms of that, to compare with."""

    begin: int
    end: int
    cycles: float
    blocks: _Form | Blocks | Around | None
    others: tuple[Turned, ...] = ()


@dataclass(frozen=True, slots=True)
class _Form:
    """A nest on arrays as they are, or on views of them, in blocks; and the sizes that these might have."""

    boxes: Boxes
    ways: Sequence[Sizes]
    sizes: Sizes
    made: Blocks


_Ranked = tuple[float | None, _Form | Blocks | Around]  # with the cycles that its pieces take, where known


class _Parts:
    def __init__(
        self,
        func: Func,
        source: Func,
        target: Target,
        options: Options,
        judge: Judge | None,
        means: Means,
        estimate: Estimate,
    ) -> None:
        self.func, self.source, self.target, self.options, self.judge = func, source, target, options, judge
        self.means, self.estimate = means, estimate
        self.size = target.memory(target.abi.stack_memory).size
        self.room = self.size - self.size // _SPARE
        self.lanes = max(view.lanes for view in views(target.real))
        assert target.dma is not None
        self.dma = target.dma
        self.spare = SPARE_VECTORS * self.lanes
        self.bufs = {b.name: b for b in func.bufs}
        self.groups = [self._group(nest.names) for nest in nests(func)]
        self.refused: NoBlocks | None = None  # why sizes that were looked at make no blocks
        machine = machine_of(target)
        self.anywhere = lambda dtype: machine.store_alignment(dtype) <= ELEM_BYTES[dtype]
        self._room = partial(room_beside, [g.touched for g in self.groups], self.bufs, self.room)

    def _group(self, names: Sequence[str]) -> Group:
        comps = tuple(self.func.comp(name) for name in names)
        touched = {a.buf for c in comps for a in (c.target, *read_accesses(c))} & set(self.bufs)
        work = arithmetic_cycles(self.func.with_comps(comps), self.target, assumed(self.func.with_comps(comps)))
        return Group(comps, work, touched, {c.target.buf for c in comps} & touched)

    def in_turn(self) -> Iterator[Parts]:
        """The best; then, for each nest whose code may be compared, the same with another form of it: those first that
        were compared, the fewest cycles first."""
        parts = self._cheapest()
        found = [self._ranked(part) for part in parts]

        def told(ranked: Sequence[tuple[_Ranked, ...]]) -> Parts:
            best = zip(parts, (cycles for (cycles, _), *_ in ranked), strict=True)
            total = sum(part.cycles if cycles is None else cycles for part, cycles in best)
            nests = (self._for_all_arrays(b) if isinstance(b, _Form) else b for (_, b), *_ in ranked)
            return Parts(tuple(nests), total)

        yield told(found)
        for k, (part, ranked) in enumerate(zip(parts, found, strict=True)):
            if ranked[0][0] is None:
                continue
            for cycles, form in itertools.chain(ranked[1:], self._untried(part, ranked)):
                if cycles is not None and isinstance(form, _Form):
                    yield told([*found[:k], (self._resized(cycles, form),), *found[k + 1 :]])

    def _cheapest(self) -> tuple[_Part, ...]:
        found: dict[tuple[int, int], _Part] = {}
        refusals: list[NoSchedule] = []

        def alone(number: int) -> float:
            try:
                part = found[number, number + 1] = self._nest(number)
            except NoSchedule as refusal:
                refusals.append(refusal)
                return math.inf
            return part.cycles

        def together(begin: int, end: int, group: Group) -> float | None:
            cycles = self._together(group, self._kept(begin, end))
            if cycles is not None:
                found[begin, end] = _Part(begin, end, cycles, None)
            return cycles

        way = cheapest(self.groups, lambda group: group.work + BETWEEN_BLOCKS, alone, together)
        if way is None:
            raise refusals[0]
        return tuple(found[cut] for cut in way)

    def _ranked(self, part: _Part) -> tuple[_Ranked, ...]:
        if isinstance(part.blocks, (Blocks, Around)):
            return ((None, part.blocks),)
        if part.blocks is not None:
            return self._compared(part.blocks, part.others, self._kept(part.begin, part.end))
        comps = tuple(c for group in self.groups[part.begin : part.end] for c in group.comps)
        boxes = Boxes(self._only(comps), self.lanes, self._kept(part.begin, part.end), known=())
        return ((None, blocks(boxes, (), (), reassoc=self.options.fp == "reassoc")),)

    def _only(self, comps: tuple[Comp, ...]) -> Func:
        return replace(self.func, comps=comps)

    def _kept(self, begin: int, end: int) -> set[str]:
        """The local arrays of these nests that others use, too."""
        mine = set().union(*(g.touched for g in self.groups[begin:end]))
        others = set().union(*(g.touched for g in (*self.groups[:begin], *self.groups[end:])))
        return {name for name in mine & others if self.bufs[name].kind == "local"}

    def _nest(self, number: int) -> _Part:
        """One nest, cut as the model likes best of what dependences and the means allow."""
        comps, kept = self.groups[number].comps, self._kept(number, number + 1)
        forms = turns(self._only(comps), self.dma, self.estimate)
        found: list[_Part] = []
        refusal: NoSchedule | None = None
        in_step = False
        for k, turned in enumerate(forms):
            try:
                form = self._cut(turned, kept, ())
            except NoSchedule as reason:
                refusal = refusal or reason
            else:
                in_step = form.made.in_step
                found.append(_Part(number, number + 1, form.sizes.cycles, form, tuple(forms[k + 1 :])))
                break
        if self.means == "any" and (in_step or not found):
            found += [_Part(number, number + 1, cycles, made) for cycles, made in self._otherwise(comps, kept)]
        if not found:
            assert refusal is not None
            raise refusal
        return min(found, key=lambda part: part.cycles)

    def _otherwise(self, comps: tuple[Comp, ...], kept: Collection[str]) -> Iterator[tuple[float, Blocks | Around]]:
        """A nest in tiles of its bands, and in rounds."""
        func = self._only(comps)
        if not assumed(func):
            work = arithmetic_cycles(func, self.target, {})
            for band in bands(func, reassoc=self.options.fp == "reassoc"):
                boxes = Boxes(band.func, self.lanes, kept, axes=band.axes)
                ways = sorted(self._sizes(boxes, work, in_step=True), key=lambda s: s.cycles)
                for sizes in ways[:_TRIED]:
                    with contextlib.suppress(NoBlocks):
                        yield sizes.cycles, sizes.made(boxes, self.options, self.spare)
                        break
        with contextlib.suppress(NoSchedule):
            yield self._in_rounds(comps, kept, ())

    def _cut(self, turned: Turned, kept: Collection[str], around: Sequence[tuple[int, int]]) -> _Form:
        """A nest, or what a nest has in its outermost loops `around`, in blocks."""
        func = turned.func
        work = arithmetic_cycles(func, self.target, assumed(func))
        boxes = Boxes(func, self.lanes, kept, around=around, layouts=turned.layouts, anywhere=self.anywhere)
        refusal = self.refused = None
        # Copies that are shorter than others at run time are not proven to agree.
        for in_step in (False, True) if self.means != "apart" and not boxes.sizes else (False,):
            ways = sorted(self._sizes(boxes, work, in_step), key=lambda s: (s.bounding, s.cycles))
            if boxes.sizes and ways:
                # What is expected of large sizes hardly tells shapes apart that matter to smaller ones.
                near = [w for w in ways if w.bounding == ways[0].bounding and w.cycles <= _ALIKE * ways[0].cycles]
                # Where blocks have single iterations of a loop, the inner ones are those that go on for long.
                ways = sorted(near, key=lambda w: (w.small, inner_first(w.spans))) + ways[len(near) :]
            for sizes in (*ways[:_TRIED], *(w for w in ways[_TRIED:] if w.bounding > CUT or not w.spans)):
                try:
                    form = self._made(boxes, ways, sizes)
                except NoBlocks as reason:
                    refusal = reason
                    ways = [w for w in ways if w is not sizes]
                else:
                    if boxes.sizes and not sizes.spans:
                        return replace(form, made=replace(form.made, why=why_whole(refusal or self.refused, ways)))
                    return form
        raise NoSchedule(problem(func, refusal or (None if ways else self.refused), self.source))

    def _made(self, boxes: Boxes, ways: Sequence[Sizes], sizes: Sizes) -> _Form:
        """Raises NoBlocks."""
        near = Near(self.size, self._room(boxes), self.lanes)
        sizes, made = fitting(sizes, boxes, near, lambda given: given.made(boxes, self.options, self.spare))
        return _Form(boxes, ways, sizes, made)

    def _for_all_arrays(self, form: _Form) -> Part:
        """A nest in blocks; where these bound arrays of unknown size, in others, too, with room for longer ones."""
        found, ways = [form], [*form.ways]
        for _ in range(_LONGER):
            if (sizes := longer(ways, found[-1].sizes)) is None:
                break
            ways.remove(sizes)
            with contextlib.suppress(NoBlocks):
                other = self._made(form.boxes, (), sizes)
                if has_room_for_all(other.made, found[-1].made):
                    found.append(other)
        return Either(tuple(f.made for f in found)) if len(found) > 1 else form.made

    def _in_rounds(
        self, comps: tuple[Comp, ...], kept: Collection[str], around: tuple[tuple[int, int], ...]
    ) -> tuple[float, Blocks | Around]:
        """What is within the outermost loops `around`, one after the other within the next loop, too, where it can't be
        cut otherwise; and the cycles expected of it."""
        depth = len(around)
        if depth:
            try:
                form = self._cut(Turned(self._only(comps), {}), kept, around)
                return form.sizes.cycles, form.made
            except NoSchedule as reason:
                refusal = reason
        boxes = Boxes(self._only(comps), self.lanes, kept, around=around, known=())
        if depth >= len(boxes.loops) or boxes.sizes or not all(boxes.shares(c, depth) for c in comps):
            raise refusal if depth else NoSchedule(problem(self._only(comps), None, self.source))
        name, low, number = boxes.loops[depth]
        inside: dict[int, list[Comp]] = {}
        for comp in comps:
            inside.setdefault(boxes.places[comp.name].constants[depth + 1], []).append(comp)
        touched = {n: {a.buf for c in found for a in accesses_of(c)} for n, found in inside.items()}
        cycles, made_of = 0.0, []
        for n, found in sorted(inside.items()):
            others = set().union(*(bufs for k, bufs in touched.items() if k != n))
            passed = {b for b in touched[n] & others if self.bufs[b].kind == "local"}
            each, part = self._in_rounds(tuple(found), {*kept, *passed}, (*around, (low, number)))
            cycles += each
            made_of.append(part)
        return cycles, Around(Counter(name, low, 1, number, 1), tuple(made_of))

    def _compared(self, first: _Form, others: Sequence[Turned], kept: Collection[str]) -> tuple[_Ranked, ...]:
        """The nest in blocks of these sizes. Where the code of these takes far longer than the model expects, it is
        compared with that of the nest's other forms, and of other sizes of the best one; all of them, the best first,
        with what is expected of them."""
        if first.boxes.sizes:
            return ((None, self._compiling(first, others, kept)),)
        judged = self._judged(first) if first.sizes.spans else None
        if judged is None:
            return ((None, first),)
        found = [judged]
        for turned in others[:_FORMS]:
            if min(cycles for cycles, _ in found) <= _SETTLED * first.sizes.cycles:
                break
            with contextlib.suppress(NoSchedule):
                judged = self._judged(self._cut(turned, kept, ()), min(cycles for cycles, _ in found))
                found += [] if judged is None else [judged]
        found.sort(key=lambda each: each[0])
        return (self._resized(*found[0]), *found[1:])

    def _compiling(self, first: _Form, others: Sequence[Turned], kept: Collection[str]) -> _Form:
        """The first form, or, where the machine lacks what its code needs, the next one of which that isn't so."""
        if self.judge is None or not others or math.inf not in self.judge(first.made):
            return first
        for turned in others:
            with contextlib.suppress(NoSchedule):
                form = self._cut(turned, kept, ())
                if math.inf not in self.judge(form.made):
                    return form
        return first

    def _untried(self, part: _Part, ranked: Sequence[_Ranked]) -> Iterator[_Ranked]:
        """The forms that were not compared."""
        tried = [form.boxes.layouts for _, form in ranked if isinstance(form, _Form)]
        for turned in part.others[:_FORMS]:
            if turned.layouts not in tried:
                with contextlib.suppress(NoSchedule):
                    form = self._cut(turned, self._kept(part.begin, part.end), ())
                    if (judged := self._judged(form)) is not None:
                        yield judged

    def _resized(self, cycles: float, form: _Form) -> tuple[float, _Form]:
        """A form that takes so many cycles in blocks of the best size, if that is not near to what the model expects:
        then those are compared that differ most from what was compiled, as long as they promise to be better."""
        best, left = (cycles, form), max((_COMPILED - 1) * len(form.made.pieces), _PIECES)
        for other in itertools.islice(self._differing(form, cycles), _COMPILED - 1):
            if best[0] <= _SETTLED * form.sizes.cycles:
                break
            if (left := left - len(other.made.pieces)) >= 0:
                best = min(best, self._judged(other, best[0]) or best, key=lambda each: each[0])
        return best

    def _differing(self, form: _Form, cycles: float) -> Iterator[_Form]:
        """What differs most from these sizes, then from those before it, too, of all that are about as good by the
        model, or by far better than the `cycles` that were found."""
        best = form.sizes.cycles
        before = [form.sizes.spans or tuple(extent for _, _, extent in form.boxes.loops)]  # one block has no counters
        hopeful = [w for w in form.ways if w.spans and w.cycles <= max(_HOPEFUL * best, _BETTER * cycles)]
        while True:
            left = iter(most_different(hopeful, before, (_ALIKE * best, _HOPEFUL * best)))
            for other in left:
                with contextlib.suppress(NoBlocks):
                    made = other.made(form.boxes, self.options, self.spare)
                    before.append(other.spans)
                    yield replace(form, sizes=other, made=made)
                    break
            else:
                return
            hopeful = list(left)

    def _judged(self, form: _Form, best: float = math.inf) -> tuple[float, _Form] | None:
        """What is expected where the pieces take as many cycles as their code does; None where that isn't known, or
        the model doesn't expect it to be clearly better than what takes the `best` cycles."""
        if self.judge is None or best <= _CLEARLY * form.sizes.cycles:
            return None
        enough: list[float] = []
        if best < math.inf:  # what is around the pieces takes a part of that
            enough = enough_for_each(form.made, self.target, 2 * best - self._expected(form, best))
        real = self._real(form, self.judge(form.made, enough))
        return None if real is None else (real, form)

    def _real(self, form: _Form, cycles: Sequence[float | None]) -> float | None:
        work = 0.0
        for piece, times in form.made.times().items():
            each = 0.0 if piece == NOTHING else cycles[piece]
            if each is None:
                return None
            work += each * times
        return self._expected(form, work)

    def _expected(self, form: _Form, work: float) -> float:
        sizes, spare = form.sizes, self.spare if form.sizes.places else 0
        counters, found = windows(form.boxes, sizes.spans, sizes.order, in_step=sizes.in_step, spare=spare)
        return expected(self.dma, counters, placed(found, sizes.places), work)

    def _sizes(self, boxes: Boxes, work: float, in_step: bool) -> Iterator[Sizes]:
        """Sizes whose windows fit, with what the model expects of them."""
        outer = len(boxes.around)
        ways = ways_of(boxes, partial(self._may_fit, boxes, in_step))
        for spans, order in ways if outer or boxes.axes else [((), ()), *ways]:
            try:
                counters, found = windows(boxes, spans, order, in_step=in_step)
            except NoBlocks as reason:
                self.refused = reason
                continue
            if not self._are_rows(boxes, found):
                continue
            places: Mapping[str, int] = {}
            if not (outer or in_step) and any(slide_of(w, counters) is not None for w in found):
                _, apart = windows(boxes, spans, order, spare=self.spare)
                if self._are_rows(boxes, apart) and (places := sliding_places(counters, apart, self.room)):
                    found = placed(apart, places)
            rooms = rooms_of(counters, found, self._room(boxes), self.lanes)
            if rooms is not None:
                sized = [replace(w, shape=rooms[w.name]) if w.sized else w for w in found]
                cycles = expected(self.dma, counters, sized, work, outer)
                if boxes.axes:
                    runs = busy_blocks(boxes, counters)
                    slow = work * (1 + RAGGED * self.lanes * runs.ragged)
                    cycles = expected(self.dma, counters, sized, slow, outer, runs.blocks)
                hidden = bool(boxes.sizes) and cycles <= _ALIKE * expected(self.dma, counters, sized, 0.0, outer)
                less = small(counters, sized, hidden=hidden)
                bounds, longest = bounding(boxes, order, sized), longest_of(sized)
                yield Sizes(spans, order, cycles, rooms, bounds, less, places, in_step, longest)

    def _may_fit(
        self, boxes: Boxes, in_step: bool, sizes: Sequence[Sequence[int]], orders: Sequence[tuple[int, ...]]
    ) -> bool:
        """Whether data of the smallest blocks fit, or all of the arrays."""
        for spans, order in [((), ()), *((tuple(s[-1] for s in sizes), o) for o in orders)]:
            with contextlib.suppress(NoBlocks):
                found = windows(boxes, spans, order, in_step=in_step)
                if rooms_of(*found, self._room(boxes), self.lanes) is not None:
                    return True
        return False

    def _are_rows(self, boxes: Boxes, found: Sequence[Window]) -> bool:
        """Whether transfers can move all of these."""
        for w in found:
            rows = rows_of(w, boxes.bufs[w.buf].shape, ELEM_BYTES[w.dtype]) if w.outside else None
            if w.outside and (rows is None or (rows.element and not self.dma.transpose)):
                self.refused = NoBlocks(f"blocks touch more of `{w.array}` than rows, and no transfer moves more")
                return False
        return True

    def _together(self, group: Group, kept: Collection[str]) -> float | None:
        """What the model expects of neighbouring nests as one block; None where their data don't fit."""
        if any(not isinstance(n, int) for name in group.touched for n in self.bufs[name].shape):
            return None
        needed = {name: place_bytes(array_bytes(self.bufs[name])) for name in group.touched}
        if sum(needed.values()) > self.room:
            return None
        moved = [self.bufs[name] for name in sorted(group.touched) if self.bufs[name].kind == "param"]
        loaded = [buf for buf in moved if self._loads(group, buf)]
        stored = [buf for buf in moved if buf.name in group.written]
        ends = self.dma.startup * (bool(loaded) + bool(stored))
        moving = sum(array_bytes(buf) for buf in (*loaded, *stored)) / self.dma.bytes_per_cycle
        return max(group.work + BETWEEN_BLOCKS, moving) + moving + ends

    def _loads(self, group: Group, buf: Buf) -> bool:
        if buf.name not in group.written or not covers(group.sure(buf.name), buf.extents):
            return True
        return meets(group.live(self.func, buf.name), buf.extents)
