"""A nest in blocks: boxes of iterations, one after the other, whose data fit into a near memory.

Before: for i < 512, j < 512, k < 512: c[i, j] += a[i, k] * b[k, j];
After:  for each block of 64 x 64 x 128 iterations: the same loops over windows of a, b and c that begin at 0.

Blocks differ in where their windows lie and, at the ends, in which iterations there are; those whose iterations are the
same share a function. Windows that blocks write are apart from each other or one, so that one block's can be fetched
while another is computed; an array of which that isn't so is near as a whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import islpy as isl

from plant_core.analysis.rectangular_hull import Boxes, counters_of, in_text
from plant_core.ir.accesses import is_integer
from plant_core.ir.func import Comp, Func
from plant_core.ir.tile_loop import Counter
from plant_core.ir.time_2d1 import Line
from plant_core.scratchpad.boundary_distances import Margins, count_name, left_of, margins_of, origin_name
from plant_core.scratchpad.buffers import (
    FIRST,
    LAST,
    NOTHING,
    ONLY,
    SHORT,
    SHORT_FIRST,
    SHORT_LAST,
    SHORT_ONLY,
    Kind,
    Place,
    Window,
)
from plant_core.scratchpad.footprints import Rooms, Windows, refused
from plant_core.scratchpad.identity_padding import Behind, behind
from plant_core.scratchpad.partial_tiles import Busy, Cut, Shape, busy, cut_statements, shapes
from plant_core.scratchpad.tail_overrun import grouped, without_batches
from plant_core.scratchpad.tile_kernels import Pieces, alike, rest_name
from plant_core.scratchpad.tiled_func import Blocks, places_of

_ALL = 1 << 30  # iterations of a block that is all of a loop
_MOST_PIECES = 4  # of a nest that is no box: of more, blocks that are cut share one


def blocks(
    boxes: Boxes,
    spans: Sequence[int],
    order: Sequence[int],
    *,
    reassoc: bool,
    rooms: Rooms | None = None,
    in_step: bool = False,
    spare: int = 0,
) -> Blocks:
    """A nest over boxes of constant size in blocks of `spans` iterations of its `loops`, the loops over blocks in
    `order`; loops that it lacks are whole in each block. Rows of windows lie a multiple of its `granule` of elements
    apart. `rooms`: the shapes that there is room for of windows by name that are as large as sizes tell which are known
    at run time only.

    Without any loop over blocks, the nest is one block, whatever its iterations, with all of its arrays. Iterations
    that are no boxes need known sizes: their blocks are of several kinds (`partial_tiles.py`). `in_step`: what blocks
    share of an array that is written is fetched right before each block and put back right after it
    (`coherent_buffers.py`), and not near as a whole.
    Raises NoBlocks where blocks break a dependence.
    """
    return _Blocking(boxes, counters_of(boxes, spans, order), rooms or {}, in_step, spare).run(reassoc)


def windows(
    boxes: Boxes, spans: Sequence[int], order: Sequence[int], *, in_step: bool = False, spare: int = 0
) -> tuple[tuple[Counter, ...], tuple[Window, ...]]:
    """The counters and windows of such blocks, whether or not they keep the dependences, at little cost. Where windows
    are as large as sizes tell, their shapes have ones."""
    blocking = _Blocking(boxes, counters_of(boxes, spans, order), {}, in_step, spare)
    return blocking.counters, tuple(blocking.windows().found.values())


def busy_blocks(boxes: Boxes, counters: tuple[Counter, ...]) -> Busy:
    """Which blocks of a nest of known size, which are counted so, have anything to do."""
    return busy(boxes, counters, _Blocking(boxes, counters, {}).iterators)


def strips_of(
    boxes: Boxes, *, reassoc: bool
) -> tuple[tuple[Counter, ...], dict[str, list[str | None]], tuple[int, ...]]:
    """The loops of a nest as counters of one block, with groups of iterations where their sizes are known at run time
    only, and shared by all statements; by statement, of each counter its iterator of that loop; and the counters whose
    groups may have loops of their own round all others, outermost first. Raises NoBlocks where these are no boxes."""
    every = range(len(boxes.loops))
    blocking = _Blocking(boxes, counters_of(boxes, [_ALL] * len(every), every), None)
    for comp in boxes.func.comps:
        blocking.check_box(comp)
    found = grouped(boxes, blocking.counters, blocking.iterators, ())
    shared = [all(names[k] for names in blocking.iterators.values()) for k in every]
    blocking.counters = tuple(c if s else replace(c, group=1) for c, s in zip(found, shared, strict=True))
    strips = blocking.strips(reassoc)
    return blocking.counters, blocking.iterators, strips


class _Blocking:
    def __init__(
        self, boxes: Boxes, counters: tuple[Counter, ...], rooms: Rooms | None, in_step: bool = False, spare: int = 0
    ) -> None:
        func = boxes.func
        self.rooms, self.in_step, self.spare = rooms, in_step, spare
        self.boxes, self.func, self.counters, self.bufs = boxes, func, counters, boxes.bufs
        self.behind: Behind | None = None
        self.iterators = {c.name: boxes.counted(c)[: len(counters)] for c in func.comps}
        if not boxes.axes:
            depths = [boxes.main.iters.index(c.name) for c in counters]
            self.prefixes = [boxes.places[boxes.main.name].constants[: d + 1] for d in depths]
            self.iterators = {c.name: [self._iterator(c, k) for k in range(len(counters))] for c in func.comps}
        self.cut = bool(counters) and not boxes.sizes and bool(boxes.cut or boxes.axes)
        own = [c.name for c in func.comps if self._has_own(c)] if counters and rooms is not None else []
        cut = len(counters) < len(boxes.loops) if counters and boxes.sizes else False
        # Blocks have loops of their own whose sizes are known at run time only, or statements that are no boxes.
        told = counters if boxes.sizes and rooms is not None else ()
        self.partial = {c.name for c in func.comps if told and (not boxes.is_box(c) or self._in_part(c))}
        self.open = (cut and bool(own)) or bool(self.partial)
        if own and not cut:
            raise refused(func, f"the size of {own[0]}'s own loop is known at run time only")
        if func.effects or (counters and any(c.defines for c in func.comps)):
            raise refused(func, "it has statements that are no assignments to arrays")

    def run(self, reassoc: bool) -> Blocks:
        if self.counters and self.boxes.sizes:
            for comp in self.func.comps:
                self.check_box(comp)
        if (broken := self._broken(reassoc, ())) is not None:
            raise refused(self.func, f"a block would need what a later one writes to {broken}")
        made = self.windows()
        strips: tuple[int, ...] = ()
        margins: Margins | None = None
        if self.open:
            margins = Margins()
            if self.partial:
                margins = margins_of(self.boxes, self.counters, self.iterators)
                self._check_guards(margins, made)
            made.enlarge(margins.most)
        else:
            self.counters = grouped(self.boxes, self.counters, self.iterators, made.whole)
            strips = self.strips(reassoc)
            if not strips:
                self.counters = tuple(replace(c, grain=0, hides=False) for c in self.counters)
                self.behind = behind(self.boxes, self.counters, self.iterators, made.whole, reassoc=reassoc)
                if self.behind is not None:
                    made.extend(self.behind)
        windows = made.in_order()
        self.meet = made.meet
        make = partial(
            Pieces, self.boxes, self.counters, self.iterators, windows, made.near, made.window_of, strips, margins
        )
        pieces, kinds = self._kinds(make, few=False)
        if len(pieces) > _MOST_PIECES and self.cut and not self.meet:
            pieces, kinds = min((pieces, kinds), self._kinds(make, few=True), key=lambda found: len(found[0]))
        used = {p.name for f in pieces for p in f.params}
        origins = tuple((origin_name(c), k) for k, c in enumerate(self.counters) if origin_name(c) in used)
        numbers = [(n(c), k, p) for k, c in enumerate(self.counters) for p, n in enumerate((count_name, rest_name))]
        counts = tuple(c for c in numbers if c[0] in used)
        most = margins.most if margins is not None else {}
        if any(step < 0 for w in windows for reach in w.dims for k, step in reach.steps if k in most):
            raise refused(self.func, "windows of statements with guards go back")
        outside = tuple(w for w in windows if w.name in used)
        plain = kinds.pop().piece
        return Blocks(
            self.func,
            self.counters,
            outside,
            tuple(pieces),
            plain,
            origins,
            counts,
            tuple(kinds),
            len(self.boxes.around),
            {k: left_of(self.counters[k], m) for k, m in most.items()},
            self.open,
        )

    def _check_guards(self, margins: Margins, made: Windows) -> None:
        """Raises NoBlocks where all loops of unknown size are cut, but blocks aren't told by what is left of each; or
        several are, but blocks have arrays whole."""
        unknown = sum(self.boxes.symbolic(self.boxes.main, d) is not None for d in range(len(self.boxes.loops)))
        if unknown != len(self.counters) or (unknown == 1 < len(self.boxes.loops)):
            return
        if len(margins.most) < unknown:
            raise refused(self.func, "it matters where a block begins")
        if unknown > 1 and any(w.sized for w in made.found.values()):
            raise refused(self.func, "blocks have arrays whole")

    def _kinds(self, make: Callable[[Mapping[str, Cut]], Pieces], *, few: bool) -> tuple[list[Func], list[Kind]]:
        """The pieces, and which are for which kinds of blocks."""
        cuts = cut_statements(self.boxes, self.counters, self.iterators, alone=few) if self.cut else {}
        pieces: list[Func] = []
        found = shapes(cuts, self.counters, [c.name for c in self.func.comps], self.meet, few=few)
        if found is None:
            raise refused(self.func, "windows that a block writes are in one place in some blocks only")
        return pieces, [Kind(shape.tests, self._placed(make(cuts), shape, pieces)) for shape in found]

    def _placed(self, maker: Pieces, shape: Shape, pieces: list[Func]) -> dict[Place, int]:
        """The pieces of a kind of blocks by place, added to those that there are."""
        found: dict[Place, int] = {}
        for place in itertools.product(*(places_of(c) for c in self.counters)):
            comps = [c for c in self.func.comps if self._runs(c, place) and c.name not in shape.gone]
            if not comps and shape.gone:
                found[place] = NOTHING
                continue
            made = maker.piece(place, len(pieces), comps, shape)
            if self.behind is not None and not SHORT.isdisjoint(place):
                made = self.behind.piece(made, count_name(self.counters[0]))
            same = next((k for k, p in enumerate(pieces) if alike(p, made)), len(pieces))
            if same == len(pieces):
                pieces.append(made)
            found[place] = same
        return found

    def windows(self) -> Windows:
        return Windows(
            self.boxes,
            self.counters,
            self.iterators,
            self._times,
            self.rooms or {},
            cut=self.cut,
            open=self.open,
            partial=self.partial,
            in_step=self.in_step,
            spare=self.spare,
        )

    # -- which iterations a block has

    def _has_own(self, comp: Comp) -> bool:
        """Whether it is in a loop that isn't counted, and whose size is known at run time only."""
        own = (d for d, name in enumerate(comp.iters) if name not in self.iterators[comp.name])
        return any(self.boxes.symbolic(comp, d) is not None for d in own)

    def _iterator(self, comp: Comp, counter: int) -> str | None:
        """The comp's iterator of the loop that is counted; None where it isn't in it."""
        prefix, place = self.prefixes[counter], self.boxes.places[comp.name]
        depth = len(prefix) - 1
        if len(comp.iters) <= depth or place.constants[: depth + 1] != prefix:
            return None
        name = comp.iters[depth]
        if place.loops[depth] != Line(0, ((name, 1),)):
            raise refused(self.func, f"a loop over {name} is not in steps of one")
        return name

    def check_box(self, comp: Comp) -> None:
        if self.open:
            self._check_inside(comp)
        elif not self.boxes.is_box(comp):
            raise refused(self.func, f"the bounds of a loop of {comp.name} depend on another loop")
        elif self._in_part(comp):
            raise refused(self.func, f"{comp.name} runs in a part of a loop only")

    def _in_part(self, comp: Comp) -> bool:
        """Whether a comp doesn't have all iterations of the loops that are counted."""
        pairs = zip(self.iterators[comp.name], self.counters, strict=True)
        found = ((self.boxes.range_of(comp, comp.iters.index(n)), c) for n, c in pairs if n is not None)
        return any(here != self.boxes.counted_range(counter) for here, counter in found)

    def _check_inside(self, comp: Comp) -> None:
        """Raises NoBlocks where it has iterations beyond those of the loops that are counted."""
        for name, counter in zip(self.iterators[comp.name], self.counters, strict=True):
            if name is None:
                continue
            low, last = self.boxes.counted_range(counter)
            within = f"{low} <= {name} <= {last if isinstance(last, int) else in_text(last)}"
            every = f"{comp.name}[{', '.join(comp.iters)}] : {within}"
            if not comp.domain.is_subset(isl.Set(f"[{', '.join(self.boxes.sizes)}] -> {{ {every} }}")):
                raise refused(self.func, f"{comp.name} has iterations that others don't have")

    def _broken(self, reassoc: bool, strips: Sequence[int]) -> str | None:
        """An array whose dependences blocks don't keep, or within a block the groups of iterations of `strips`."""
        times = {c.name: self._times(c, strips) for c in self.func.comps}
        for dependence in self.boxes.known:
            free = dependence.reduction and (reassoc or is_integer(self.bufs[dependence.buf].dtype))
            if free:
                continue
            pairs = dependence.relation.apply_domain(times[dependence.source]).apply_range(times[dependence.sink])
            if not pairs.intersect(isl.Map.lex_gt(pairs.get_space().domain())).is_empty():
                return dependence.buf
        return None

    def strips(self, reassoc: bool) -> tuple[int, ...]:
        """The counters whose groups short blocks may have loops of their own for, outermost first, those along vectors
        before rows, which are many; all that have groups, or none. In batches no dependence goes back along any."""
        if self.boxes.axes:
            return ()
        depths = {k: self.boxes.main.iters.index(c.name) for k, c in enumerate(self.counters) if c.group > 1}
        found = sorted(depths, key=lambda k: (self.counters[k].batches is None, depths[k]))
        if any(names[k] is None for names in self.iterators.values() for k in found):
            found = []
        elif all(self._broken(reassoc, (k, *found)) is None for k in found):
            return tuple(found)
        self.counters = tuple(map(without_batches, self.counters))
        found.sort(key=depths.__getitem__)
        return tuple(found) if self._broken(reassoc, found) is None else ()

    def _times(self, comp: Comp, strips: Sequence[int] = ()) -> isl.Map:
        """The block of each iteration, and its groups of iterations of `strips`."""
        numbers = []
        for k, counter in enumerate(self.counters):
            name = self.iterators[comp.name][k]
            if self.boxes.axes:
                name = in_text(self.boxes.axes[k][comp.name])
            if name is None:
                numbers.append(self._alone_at(comp, k))
            else:
                numbers.append(f"floor(({name} - {counter.low})/{counter.span})")
        for k in strips:
            counter = self.counters[k]
            numbers.append(f"floor(({self.iterators[comp.name][k]} - {counter.low})/{counter.group})")
        head = f"[{', '.join(self.boxes.sizes)}] -> " if self.boxes.sizes else ""
        return isl.Map(f"{head}{{ {comp.name}[{', '.join(comp.iters)}] -> [{', '.join(numbers)}] }}")

    def _alone_at(self, comp: Comp, k: int) -> str:
        """The block of a comp that is not in the loop: the first one where it comes before the loop, else the last."""
        counter = self.counters[k]
        if self._alone_first(comp, k):
            return "0"
        if counter.extent is None:
            return str(counter.trips - 1)
        form = self.boxes.symbolic(self.boxes.main, self.boxes.main.iters.index(counter.name))
        assert form is not None
        return f"max(0, floor(({in_text(form)} - {counter.low})/{counter.span}))"

    def _alone_first(self, comp: Comp, k: int) -> bool:
        return self.boxes.places[comp.name].constants < self.prefixes[k]

    def _runs(self, comp: Comp, place: Place) -> bool:
        for k, at in enumerate(place):
            if self.iterators[comp.name][k] is None and not self.boxes.axes:
                ends = (FIRST, SHORT_FIRST) if self._alone_first(comp, k) else (LAST, SHORT_LAST)
                if at not in (*ends, ONLY, SHORT_ONLY):
                    return False
        return True
