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
from dataclasses import dataclass, replace
from functools import partial

import islpy as isl

from plant_core.affine import is_integer, linear
from plant_core.block_pieces import Pieces, alike, count_name, origin_name, rest_name
from plant_core.block_tree import Blocks, places_of
from plant_core.boxes import Boxes, Form, Moves, NoBlocks, Use, apart, counters_of, covers, in_text, surely_written
from plant_core.excess import grouped, without_batches
from plant_core.in_step import Meeting, meetings, put_back_order
from plant_core.ir import Comp, Expr, Extent, Func, Load
from plant_core.schedule import Line
from plant_core.slopes import Busy, Cut, Shape, busy, cut_statements, shapes
from plant_core.windows import (
    FIRST,
    LAST,
    NOTHING,
    ONLY,
    SHORT_FIRST,
    SHORT_LAST,
    SHORT_ONLY,
    Counter,
    Kind,
    Length,
    Place,
    Reach,
    Window,
    slide_of,
)

_ALL = 1 << 30  # iterations of a block that is all of a loop
_MOST_PIECES = 4  # of a nest that is no box: of more, blocks that are cut share one

Rooms = Mapping[str, tuple[int, ...]]


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
    `order`. Rows of windows lie a multiple of its `granule` of elements apart. `rooms`: the shapes that there is room
    for of arrays that blocks touch all of, and whose sizes are known at run time only.

    Without any loop over blocks, the nest is one block, whatever its iterations, with all of its arrays. Iterations
    that are no boxes need known sizes: their blocks are of several kinds (`slopes.py`). `in_step`: what blocks share
    of an array that is written is fetched right before each block and put back right after it (`in_step.py`), and not
    near as a whole.
    Raises NoBlocks where blocks break a dependence.
    """
    return _Blocking(boxes, counters_of(boxes, spans, order), rooms or {}, in_step, spare).run(reassoc)


def windows(
    boxes: Boxes, spans: Sequence[int], order: Sequence[int], *, in_step: bool = False, spare: int = 0
) -> tuple[tuple[Counter, ...], tuple[Window, ...]]:
    """The counters and windows of such blocks, whether or not they keep the dependences, at little cost. Windows with
    `extents` have a shape of ones there."""
    blocking = _Blocking(boxes, counters_of(boxes, spans, order), {}, in_step, spare)
    blocking.find_windows()
    return blocking.counters, tuple(blocking.windows.values())


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


@dataclass(frozen=True, slots=True)
class _Key:
    """What accesses to one window share: an array, how its place moves (None: all), and the plane it begins in."""

    buf: str
    moves: Moves | None
    plane: tuple[int, ...] = ()


class _Blocking:
    def __init__(
        self, boxes: Boxes, counters: tuple[Counter, ...], rooms: Rooms | None, in_step: bool = False, spare: int = 0
    ) -> None:
        func = boxes.func
        self.rooms, self.in_step, self.spare = rooms or {}, in_step, spare
        self.boxes, self.func, self.counters, self.bufs = boxes, func, counters, boxes.bufs
        self.iterators = {c.name: boxes.counted(c)[: len(counters)] for c in func.comps}
        if not boxes.axes:
            depths = [boxes.main.iters.index(c.name) for c in counters]
            self.prefixes = [boxes.places[boxes.main.name].constants[: d + 1] for d in depths]
            self.iterators = {c.name: [self._iterator(c, k) for k in range(len(counters))] for c in func.comps}
        self.whole: set[str] = set()
        self.lasting: set[str] = set()  # locals whose window stays while blocks pass values to each other in it
        self.own = {b.name for b in func.bufs if b.kind == "local" and b.name not in boxes.kept and not counters}
        if sized := sorted(n for n in self.own if not all(isinstance(e, int) for e in self.bufs[n].shape)):
            why = f"'{sized[0]}' is a block's own, and its size known at run time only"
            raise _refused(func, why, "give the parameters' values with -D NAME=VALUE")
        self.windows: dict[_Key, Window] = {}
        self.meet: tuple[Meeting, ...] = ()
        self.cut = bool(counters) and not boxes.sizes and bool(boxes.cut or boxes.axes)
        for comp in func.comps if counters and rooms is not None else ():
            for depth, name in enumerate(comp.iters):
                if boxes.symbolic(comp, depth) is not None and name not in self.iterators[comp.name]:
                    raise _refused(func, f"the size of {comp.name}'s own loop is known at run time only")
        if func.effects or (counters and any(c.defines for c in func.comps)):
            raise _refused(func, "it has statements that are no assignments to arrays")

    def run(self, reassoc: bool) -> Blocks:
        if self.counters and self.boxes.sizes:
            for comp in self.func.comps:
                self.check_box(comp)
        if (broken := self._broken(reassoc, ())) is not None:
            raise _refused(self.func, f"a block would need what a later one writes to {broken}")
        self.find_windows()
        self.counters = grouped(self.boxes, self.counters, self.iterators, self.whole)
        near = {w.name for key, w in self.windows.items() if w.outside or key.moves is None or key.buf in self.lasting}
        windows, strips = self._in_order(), self.strips(reassoc)
        if not strips:
            self.counters = tuple(replace(c, grain=0, hides=False) for c in self.counters)
        make = partial(Pieces, self.boxes, self.counters, self.iterators, windows, near, self._window_of, strips)
        pieces, kinds = self._kinds(make, few=False)
        if len(pieces) > _MOST_PIECES and self.cut and not self.meet:
            pieces, kinds = min((pieces, kinds), self._kinds(make, few=True), key=lambda found: len(found[0]))
        used = {p.name for f in pieces for p in f.params}
        origins = tuple((origin_name(c), k) for k, c in enumerate(self.counters) if origin_name(c) in used)
        numbers = [(n(c), k, p) for k, c in enumerate(self.counters) for p, n in enumerate((count_name, rest_name))]
        counts = tuple(c for c in numbers if c[0] in used)
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
        )

    def _kinds(self, make: Callable[[Mapping[str, Cut]], Pieces], *, few: bool) -> tuple[list[Func], list[Kind]]:
        """The pieces, and which are for which kinds of blocks."""
        cuts = cut_statements(self.boxes, self.counters, self.iterators, alone=few) if self.cut else {}
        pieces: list[Func] = []
        found = shapes(cuts, self.counters, [c.name for c in self.func.comps], self.meet, few=few)
        if found is None:
            raise _refused(self.func, "windows that a block writes are in one place in some blocks only")
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
            same = next((k for k, p in enumerate(pieces) if alike(p, made)), len(pieces))
            if same == len(pieces):
                pieces.append(made)
            found[place] = same
        return found

    # -- which iterations a block has

    def _iterator(self, comp: Comp, counter: int) -> str | None:
        """The comp's iterator of the loop that is counted; None where it isn't in it."""
        prefix, place = self.prefixes[counter], self.boxes.places[comp.name]
        depth = len(prefix) - 1
        if len(comp.iters) <= depth or place.constants[: depth + 1] != prefix:
            return None
        name = comp.iters[depth]
        if place.loops[depth] != Line(0, ((name, 1),)):
            raise _refused(self.func, f"a loop over {name} is not in steps of one")
        return name

    def check_box(self, comp: Comp) -> None:
        if not self.boxes.is_box(comp):
            raise _refused(self.func, f"the bounds of a loop of {comp.name} depend on another loop")
        for k, name in enumerate(self.iterators[comp.name]):
            if name is not None:
                counter = self.counters[k]
                depth, main = comp.iters.index(name), self.boxes.main
                whole = self.boxes.range_of(main, main.iters.index(counter.name))
                if self.boxes.range_of(comp, depth) != whole:
                    raise _refused(self.func, f"{comp.name} runs in a part of a loop only")

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

    # -- windows

    def find_windows(self) -> None:
        crossing = self._crossing()
        written = self.boxes.written
        uses = [u for u in self.boxes.uses if u.access.buf not in self.own]
        for use in uses:
            buf = use.access.buf
            if not (self.counters or self.in_step) or buf in self.boxes.kept:
                self.whole.add(buf)
            elif any(form is None or not set(form[1]) <= set(use.comp.iters) for form in use.forms):
                self.whole.add(buf)
            elif self.bufs[buf].kind == "local" and buf in crossing:
                moves = {k for index in use.access.indices for k, _ in self._moves(use.comp, index)}
                if max(moves, default=-1) < crossing[buf]:
                    self.lasting.add(buf)
                else:
                    self.whole.add(buf)
        while True:
            found: dict[_Key, list[Use]] = {}
            for use in uses:
                found.setdefault(self._key(use.comp, use.access), []).append(use)
            self.windows = {}
            more = set()
            for key, users in found.items():
                several = sum(k.buf == key.buf for k in found) > 1
                window = self._window(key, users, len(self.windows) if several else None)
                if window is not None and several and key.buf in written:
                    store = any(u.writes for u in users)
                    able = self.in_step and window.outside
                    window = replace(window, load=True, store=store, in_step=True) if able else None
                if window is None:
                    more.add(key.buf)
                else:
                    self.windows[key] = window
            if not more:
                return
            self.whole |= more

    def _in_order(self) -> tuple[Window, ...]:
        """The windows in an order in which those that are in step may be put back."""
        found = tuple(self.windows.values())
        users = [(u, self._window_of(u.comp, u.access)) for u in self.boxes.uses]
        shared = [(u, w[0]) for u, w in users if w is not None and w[0].in_step]
        if not shared:
            return found
        self.meet = meetings([w for w in found if w.in_step]) if self.boxes.axes else ()
        order = put_back_order(shared, {c.name: self._times(c) for c in self.func.comps}, self.boxes, self.meet)
        return (*(w for w in found if not w.in_step), *order)

    def _crossing(self) -> dict[str, int]:
        """Of the arrays and variables by which one block passes values to another, the outermost counter in which two
        such blocks differ."""
        found: dict[str, int] = {}
        if not self.boxes.flows:
            return found
        times = {c.name: self._times(c) for c in self.func.comps}
        for d in self.boxes.flows:
            apart = d.relation.apply_domain(times[d.source]).apply_range(times[d.sink]).deltas()
            for k in range(found.get(d.buf, len(self.counters))):
                if not apart.is_subset(isl.Set.universe(apart.get_space()).fix_val(isl.dim_type.set, k, isl.Val(0))):
                    found[d.buf] = k
                    break
        return found

    def _key(self, comp: Comp, access: Load) -> _Key:
        if access.buf in self.whole:
            return _Key(access.buf, None)
        moves = tuple(self._moves(comp, index) for index in access.indices)
        return _Key(access.buf, moves, self.boxes.plane_of(access, moves, self.counters))

    def _window_of(self, comp: Comp, access: Load) -> tuple[Window, bool] | None:
        if access.buf in self.own:
            return None
        key = self._key(comp, access)
        return self.windows[key], key.moves is None

    def _moves(self, comp: Comp, index: Expr) -> tuple[tuple[int, int], ...]:
        form = linear(index)
        assert form is not None
        ways = enumerate(zip(self.iterators[comp.name], self.counters, strict=True))
        steps = ((k, form[1].get(name or "", 0) * counter.span) for k, (name, counter) in ways if counter.several)
        return tuple(step for step in steps if step[1])

    def _window(self, key: _Key, users: list[Use], number: int | None) -> Window | None:
        """None where only all of the array will do."""
        buf = self.bufs[key.buf]
        outside = buf.kind == "param"
        name = buf.name if number is None else f"{buf.name}_{number}"
        writes, layout = buf.name in self.boxes.written, self.boxes.layouts.get(buf.name)
        if key.moves is None:
            fixed = tuple(n for n in buf.shape if isinstance(n, int))
            shape = fixed or (1,)
            if len(fixed) < len(buf.shape):
                if not outside:
                    raise _refused(self.func, f"'{buf.name}' is of use to others, and its size known at run time only")
                shape = self.rooms.get(buf.name, tuple(n if isinstance(n, int) else 1 for n in buf.shape))
                written = not self.counters and self._written_whole(users, buf.shape)
                load = not written or self.boxes.is_live(buf.name)
                all_of = tuple(Reach(0, (), Length(n)) for n in shape)
                return Window(name, buf.name, buf.dtype, shape, all_of, load, writes, outside, buf.shape, layout=layout)
            all_of = tuple(Reach(0, (), Length(n)) for n in shape)
            load = not buf.shape or not self._covers(users, all_of) or self.boxes.is_live(buf.name)
            shape = shape if layout is None else self._padded(shape, 0)
            load, writes = load and outside, writes and outside
            return Window(name, buf.name, buf.dtype, shape, all_of, load, writes, outside, layout=layout)
        dims: list[Reach] = []
        clipped = bool(self.boxes.axes) and outside
        for d, moves in enumerate(key.moves):
            if any(step < 0 and self.counters[k].ragged for k, step in moves) and not clipped:
                return None
            spans = [self._interval(u.comp, u.forms[d]) for u in users]
            low, high = min(s[0] for s in spans), max(s[1] for s in spans)
            ragged = [] if clipped else [(k, step) for k, step in moves if self.counters[k].ragged]
            less = tuple((k, step // self.counters[k].span) for k, step in ragged)
            dims.append(Reach(low, moves if outside else (), Length(high - low + 1, less)))
        reach = tuple(dims)
        if clipped:
            ends = zip(reach, buf.shape, strict=True)
            reach = tuple(replace(r, clipped=not self._inside([r], [extent])) for r, extent in ends)
        shared = writes and not apart(reach)
        if shared and not (self.in_step and outside):
            return None
        if self.cut and not clipped and not self._inside(reach, buf.shape):
            return None
        again = self._revisited(reach)
        if writes and outside and again and self.counters[max(k for d in reach for k, _ in d.steps)].extent is not None:
            return None  # where a run has one block along that counter, the next would be fetched before it is put back
        load = not writes or shared or not self.counters or again or not self._covers(users, reach)
        load = load or self.boxes.is_live(buf.name)
        shape = tuple(d.extent.full for d in reach)
        made = Window(name, buf.name, buf.dtype, shape, reach, load, writes, outside, in_step=shared, layout=layout)
        made = made if outside else replace(made, load=False, store=False)
        slides = self.spare and slide_of(made, self.counters) is not None
        return replace(made, shape=self._padded(shape, self.spare if slides else 0))

    def _inside(self, dims: Sequence[Reach], shape: Sequence[Extent]) -> bool:
        """Whether the window is in the array for all blocks, whichever iterations they have."""
        for reach, extent in zip(dims, shape, strict=True):
            low, high = reach.low, reach.low + reach.extent.full
            for k, step in reach.steps:
                ends = 0, step * (self.counters[k].trips - 1)
                low, high = low + min(ends), high + max(ends)
            for k, less in reach.extent.less:
                high -= less * (self.counters[k].span - self.counters[k].last)
            if low < 0 or (isinstance(extent, int) and high > extent):
                return False
        return True

    def _padded(self, shape: tuple[int, ...], spare: int) -> tuple[int, ...]:
        if len(shape) < 2:
            return shape
        return (*shape[:-1], -(-(shape[-1] + spare) // self.boxes.granule) * self.boxes.granule)

    def _interval(self, comp: Comp, form: Form) -> tuple[int, int]:
        """The least and the greatest value of a subscript in the first block of its full size."""
        assert form is not None
        low = high = form[0]
        for name, factor in form[1].items():
            first, last = self.boxes.ends(comp, comp.iters.index(name))
            if name in self.iterators[comp.name]:
                counter = self.counters[self.iterators[comp.name].index(name)]
                first, last = counter.low, counter.low + counter.span - 1
            ends = sorted((factor * first, factor * last))
            low, high = low + ends[0], high + ends[1]
        return low, high

    def _revisited(self, dims: Sequence[Reach]) -> bool:
        """Whether blocks come back to a window after others."""
        counters = {k for d in dims for k, _ in d.steps}
        return any(
            self.counters[k].several and k not in counters and any(k < inner for inner in counters)
            for k in range(len(self.counters))
        )

    def _covers(self, users: Sequence[Use], dims: Sequence[Reach]) -> bool:
        """Whether one of the statements writes all of a window; in a single block, whether all together do."""
        if not self.counters:
            return self._written_whole(users, [d.extent.full for d in dims])
        along = {k for d in dims for k, _ in d.steps}
        for use in users:
            if (
                use.writes
                and not (self.cut and (self.boxes.axes or use.comp.name in self.boxes.cut))
                and not self._may_not_run(use.comp, along)
            ):
                names = [n for f in use.forms if f is not None for n in f[1]]
                plain = all(f is not None and len(f[1]) <= 1 and set(f[1].values()) <= {1, -1} for f in use.forms)
                if plain and len(set(names)) == len(names):
                    spans = [self._interval(use.comp, f) for f in use.forms]
                    if all(s == (d.low, d.low + d.extent.full - 1) for s, d in zip(spans, dims, strict=True)):
                        return True
        return False

    def _written_whole(self, users: Sequence[Use], shape: Sequence[Extent]) -> bool:
        """Whether the statements of a single block write all elements of an array, one or the other of them each."""
        writers = [u.comp for u in users if u.writes]
        return bool(writers) and covers(surely_written(writers, writers[0].target.buf), shape)

    def _may_not_run(self, comp: Comp, along: set[int]) -> bool:
        """Whether another loop round the comp than these may have no iterations."""
        names = self.iterators[comp.name]
        return any(
            c.extent is not None and names[k] is not None and k not in along for k, c in enumerate(self.counters)
        )


def _refused(func: Func, why: str, remedy: str = "") -> NoBlocks:
    return NoBlocks(f"`{func.name}` can't be cut into blocks: {why}", loc=func.loc, remedy=remedy)
