"""The windows of blocks: what each block touches of every array, and how that moves from block to block."""

from __future__ import annotations

import math
from collections import Counter as Counted
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.analysis.rectangular_hull import Boxes, Form, Moves, NoBlocks, Use, apart, covers, surely_written
from plant_core.ir.accesses import access_map, linear
from plant_core.ir.array_views import Length, Reach, row_dim
from plant_core.ir.func import Binary, Buf, Comp, Expr, Extent, Func, Load
from plant_core.ir.tile_loop import Counter
from plant_core.scratchpad.buffers import Window, slide_of
from plant_core.scratchpad.coherent_buffers import Meeting, meetings, put_back_order
from plant_core.scratchpad.identity_padding import Behind

Rooms = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class _Key:
    """What accesses to one window share: an array, how its place moves (None: all), and the plane it begins in."""

    buf: str
    moves: Moves | None
    plane: tuple[int, ...] = ()


class Windows:
    """Of blocks that are counted so. `iterators`: by comp, of each counter its iterator of that loop, None where it
    isn't in it; `times`: the block of each of a comp's iterations; `cut`: whether blocks have less than all iterations
    of a box; `open`: whether they have loops of their own of unknown size, or the `partial` comps, which are no boxes
    or run in a part of the loops that are counted; for the rest see `blocks.blocks`."""

    def __init__(
        self,
        boxes: Boxes,
        counters: tuple[Counter, ...],
        iterators: Mapping[str, Sequence[str | None]],
        times: Callable[[Comp], isl.Map],
        rooms: Rooms,
        *,
        cut: bool,
        open: bool,
        partial: Collection[str],
        in_step: bool,
        spare: int,
    ) -> None:
        self.boxes, self.counters, self.iterators, self.times = boxes, counters, iterators, times
        self.rooms, self.cut, self.open, self.in_step, self.spare = rooms, cut, open, in_step, spare
        self.partial = partial
        func, self.bufs = boxes.func, boxes.bufs
        self.whole: set[str] = set()  # arrays that blocks have all of
        self.lasting: set[str] = set()  # locals whose window stays while blocks pass values to each other in it
        known = {b.name for b in func.bufs if all(isinstance(e, int) for e in b.shape)}
        own = {b.name for b in func.bufs if b.kind == "local" and b.name not in boxes.kept and not counters}
        self.own = own & known  # others have room like parameters
        self.found: dict[_Key, Window] = {}
        self.meet: tuple[Meeting, ...] = ()
        self._find()

    def _find(self) -> None:
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
            users_of: dict[_Key, list[Use]] = {}
            for use in uses:
                users_of.setdefault(self._key(use.comp, use.access), []).append(use)
            self.found = {}
            more = set()
            for key, users in users_of.items():
                several = sum(k.buf == key.buf for k in users_of) > 1
                window = self._window(key, users, len(self.found) if several else None)
                if window is not None and several and key.buf in written:
                    store = any(u.writes for u in users)
                    able = self.in_step and window.outside
                    window = replace(window, load=True, store=store, in_step=True) if able else None
                if window is None:
                    more.add(key.buf)
                else:
                    self.found[key] = window
            if not more:
                return
            self.whole |= more

    @property
    def near(self) -> set[str]:
        """Those that are more than a block's own."""
        every = self.found.items()
        return {w.name for key, w in every if w.outside or key.moves is None or key.buf in self.lasting}

    def enlarge(self, most: Mapping[int, tuple[int, int]]) -> None:
        """Give arrays elements for iterations of counters that are left before a block, and rows that begin as they
        would without these."""
        for key, window in self.found.items():
            moves = key.moves if not window.outside else tuple(d.steps for d in window.dims)
            if moves is None:
                continue
            each = [{k: s // self.counters[k].span for k, s in of if k in most} for of in moves]
            more = [sum(most[k][0] * n for k, n in of.items()) for of in each]
            row, vector = self._row(window)
            if row > 0:
                more[row] += -more[row] % vector
            if any(more):
                shape = tuple(n + m for n, m in zip(window.shape, more, strict=True))
                strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
                before = Counted[int]()
                for of, stride in zip(each, strides, strict=True):
                    before.update({k: n * stride for k, n in of.items()})
                margin = tuple((k, most[k][0], n) for k, n in sorted(before.items()) if most[k][0])
                self.found[key] = replace(window, shape=shape, margin=margin if window.outside else ())

    def extend(self, behind: Behind) -> None:
        """Give arrays room for what lies behind the data of blocks."""
        for key, window in self.found.items():
            if window.buf in behind.values:
                self.found[key] = replace(window, shape=(window.shape[0] + behind.group,))

    def in_order(self) -> tuple[Window, ...]:
        """The windows in an order in which those that are in step may be put back."""
        found = tuple(self.found.values())
        users = [(u, self.window_of(u.comp, u.access)) for u in self.boxes.uses]
        shared = [(u, w[0]) for u, w in users if w is not None and w[0].in_step]
        if not shared:
            return found
        self.meet = meetings([w for w in found if w.in_step]) if self.boxes.axes else ()
        order = put_back_order(shared, {c.name: self.times(c) for c in self.boxes.func.comps}, self.boxes, self.meet)
        return (*(w for w in found if not w.in_step), *order)

    def _crossing(self) -> dict[str, int]:
        """Of the arrays and variables by which one block passes values to another, the outermost counter in which two
        such blocks differ."""
        found: dict[str, int] = {}
        if not self.boxes.flows:
            return found
        times = {c.name: self.times(c) for c in self.boxes.func.comps}
        # By value in open blocks: what each one writes before it reads it is its own.
        for d in self.boxes.flows_by_value if self.open else self.boxes.flows:
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

    def window_of(self, comp: Comp, access: Load) -> tuple[Window, bool] | None:
        if access.buf in self.own:
            return None
        key = self._key(comp, access)
        return self.found[key], key.moves is None

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
            return self._all_of(buf, name, users)
        dims: list[Reach] = []
        clipped = bool(self.boxes.axes) and outside
        for d, moves in enumerate(key.moves):
            if any(self._unknown(u, d) for u in users):
                if moves:
                    return None
                dims.append(_all_along(buf.shape[d], self.rooms.get(name, ())[d:]))
                continue
            if any(step < 0 and self.counters[k].ragged for k, step in moves) and not clipped:
                return None
            spans = [self._interval(u.comp, u.forms[d]) for u in users]
            low, high = min(s[0] for s in spans), max(s[1] for s in spans)
            leaves = self.open and outside and not all(self._stays(u, d, buf.shape[d]) for u in users)
            if leaves and buf.name in self.boxes.written:
                return None
            if leaves and not moves and isinstance(most := buf.shape[d], int):
                low, high, leaves = max(low, 0), min(high, most - 1), False
            ragged = [] if clipped or leaves else [(k, step) for k, step in moves if self.counters[k].ragged]
            less = tuple((k, step // self.counters[k].span) for k, step in ragged)
            dims.append(Reach(low, moves if outside else (), Length(high - low + 1, less), leaves))
        if any(d.size is not None for d in dims) and not any(key.moves):
            return None
        reach = tuple(dims)
        if clipped:
            ends = zip(reach, buf.shape, strict=True)
            reach = tuple(replace(r, clipped=not self._inside([r], [extent])) for r, extent in ends)
        shared = writes and not apart(reach)
        if shared and not (self.in_step and outside):
            return None
        if self.cut and not clipped and not (self._inside(reach, buf.shape) and self._touched(reach, buf.shape, users)):
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
        return replace(made, shape=self._padded(made, self.spare if slides else 0))

    def _all_of(self, buf: Buf, name: str, users: list[Use]) -> Window:
        """The window that is all of an array."""
        outside, layout = buf.kind == "param", self.boxes.layouts.get(buf.name)
        writes, live = buf.name in self.boxes.written, self.boxes.is_live(buf.name)
        dims = tuple(_all_along(n, self.rooms.get(name, ())[d:]) for d, n in enumerate(buf.shape)) or (_ONE,)
        shape = tuple(d.extent.full for d in dims)
        if any(d.size is not None for d in dims):
            if not outside and buf.name in self.boxes.kept:
                raise refused(self.boxes.func, f"'{buf.name}' is of use to others, and its size known at run time only")
            if not outside:
                return Window(name, buf.name, buf.dtype, shape, dims, False, False, False)
            written = not self.counters and self._written_whole(users, buf.shape)
            return Window(name, buf.name, buf.dtype, shape, dims, not written or live, writes, layout=layout)
        load = not buf.shape or not self._covers(users, dims) or live
        load, writes = load and outside, writes and outside
        made = Window(name, buf.name, buf.dtype, shape, dims, load, writes, outside, layout=layout)
        return made if layout is None else replace(made, shape=self._padded(made, 0))

    def _unknown(self, use: Use, d: int) -> bool:
        """Whether a subscript goes along a loop that isn't counted, and whose size is known at run time only."""
        form, comp = use.forms[d], use.comp
        assert form is not None
        others = (n for n in form[1] if n not in self.iterators[comp.name])
        return any(self.boxes.symbolic(comp, comp.iters.index(n)) is not None for n in others)

    def _stays(self, use: Use, d: int, extent: Extent) -> bool:
        """Whether a subscript is in the array for all iterations of the loops that are counted, and for all of the box
        round the statement's own."""
        if isinstance(extent, Binary) and extent.op == "max":
            return self._stays(use, d, extent.left) or self._stays(use, d, extent.right)
        form, size = use.forms[d], linear(extent) if not isinstance(extent, int) else (extent, {})
        assert form is not None
        if size is None:
            return False
        least, left = form[0], Counted({"": size[0] - 1 - form[0], **size[1]})
        for name, factor in form[1].items():
            first, last = self.boxes.range_of(use.comp, use.comp.iters.index(name))
            if name in self.iterators[use.comp.name]:
                first, last = self.boxes.counted_range(self.counters[self.iterators[use.comp.name].index(name)])
            if factor < 0 and not isinstance(last, int):
                return False
            least += factor * (last if factor < 0 and isinstance(last, int) else first)
            highest = (first, {}) if factor < 0 else (last, {}) if isinstance(last, int) else last
            left.subtract({"": factor * highest[0], **{n: factor * f for n, f in highest[1].items()}})
        return least >= 0 and left[""] >= 0 and not any(n for name, n in left.items() if name)

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

    def _touched(self, dims: Sequence[Reach], shape: Sequence[Extent], users: Sequence[Use]) -> bool:
        """Whether statements touch the ends of a window of an array whose size only the run tells: it has these."""
        for d, (reach, extent) in enumerate(zip(dims, shape, strict=True)):
            if isinstance(extent, int):
                continue
            places = [access_map(u.comp, u.access)[0].range().coalesce() for u in users]
            last = max((int(p.dim_max_val(d).to_python()) for p in places if not p.is_empty()), default=-1)
            moved = sum(max(step * (self.counters[k].trips - 1), 0) for k, step in reach.steps)
            less = sum(n * (self.counters[k].span - self.counters[k].last) for k, n in reach.extent.less)
            if reach.low + reach.extent.full - 1 + moved - less > last:
                return False
        return True

    def _padded(self, window: Window, spare: int) -> tuple[int, ...]:
        """Its shape with rows that are so far apart that vectors begin alike in all of them."""
        shape, (row, vector) = list(window.shape), self._row(window)
        if row > 0:
            shape[row] = -(-(shape[row] + spare) // vector) * vector
        return tuple(shape)

    def _row(self, window: Window) -> tuple[int, int]:
        """The dimension along which its rows lie, and how many elements of that are vectors: the last one, or the one
        before those of which it has all, where all of these are less than a vector, side by side as in the array."""
        granule, shape, row = self.boxes.granule, self.bufs[window.buf].shape, len(window.dims) - 1
        if window.layout is None:
            least = row_dim(shape, granule)
            whole = [Reach(0, (), Length(n)) if isinstance(n, int) else None for n in shape]
            while row > least and window.dims[row] == whole[row]:
                row -= 1
        return row, granule // math.gcd(granule, math.prod(window.shape[row + 1 :]))

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
        if self.partial and self._written_whole(users, self.bufs[users[0].access.buf].shape):
            return True  # no other block writes any of it
        along = {k for d in dims for k, _ in d.steps}
        for use in users:
            if (
                use.writes
                and use.comp.name not in self.partial
                and not (self.cut and (self.boxes.axes or use.comp.name in self.boxes.cut))
                and not self._may_not_run(use.comp, along)
            ):
                names = [n for f in use.forms if f is not None for n in f[1]]
                plain = all(f is not None and len(f[1]) <= 1 and set(f[1].values()) <= {1, -1} for f in use.forms)
                if plain and len(set(names)) == len(names):
                    if all(self._fills(use, d, reach) for d, reach in enumerate(dims)):
                        return True
        return False

    def _fills(self, use: Use, d: int, reach: Reach) -> bool:
        """Whether a subscript, of at most one iterator, takes all of its values."""
        form, comp = use.forms[d], use.comp
        assert form is not None
        if reach.size is None:
            return self._interval(comp, form) == (reach.low, reach.low + reach.extent.full - 1)
        low, last = self.boxes.range_of(comp, comp.iters.index(next(iter(form[1])))) if form[1] else (0, 0)
        size = linear(reach.size)
        if isinstance(last, int) or size is None or set(form[1].values()) != {1}:
            return False
        return low + form[0] == 0 and (last[0] + form[0] + 1, last[1]) == size

    def _written_whole(self, users: Sequence[Use], shape: Sequence[Extent]) -> bool:
        """Whether the statements of a single block write all elements of an array, one or the other of them each."""
        writers = [u.comp for u in users if u.writes]
        return bool(writers) and covers(surely_written(writers, writers[0].target.buf), shape)

    def _may_not_run(self, comp: Comp, along: set[int]) -> bool:
        """Whether another loop round the comp than these may have no iterations."""
        names = self.iterators[comp.name]
        own = [n for n in comp.iters if n not in names and self.boxes.symbolic(comp, comp.iters.index(n)) is not None]
        placed = [n for form in map(linear, comp.target.indices) if form is not None for n in form[1]]
        if not set(own) <= set(placed):
            return True
        return any(
            c.extent is not None and names[k] is not None and k not in along for k, c in enumerate(self.counters)
        )


_ONE = Reach(0, (), Length(1))


def _all_along(extent: Extent, room: Sequence[int]) -> Reach:
    """All of a dimension, of which `room` begins with what there is room for, if that is known."""
    if isinstance(extent, int):
        return Reach(0, (), Length(extent))
    return Reach(0, (), Length(room[0] if room else 1), size=extent)


def refused(func: Func, why: str, remedy: str = "") -> NoBlocks:
    return NoBlocks(f"`{func.name}` can't be cut into blocks: {why}", loc=func.loc, remedy=remedy)
