"""Loops whose sizes are known at run time only, in groups of iterations: boxes of constant size within loops over
groups, and after them what is left over.

Before: S[i, j] for 0 <= i < n, 0 <= j < m
After:  count_n = n / 8, count_m = m / 32
        S[i_group, j_group, i, j] for 0 <= i_group < count_n, 0 <= j_group < count_m, 0 <= i < 8, 0 <= j < 32
        S[i_group, i, j] for 0 <= i_group < count_n, 0 <= i < 8, 32 * count_m <= j < m
        S[i, j_group, j], S[i, j] for 8 * count_n <= i < n
or, where iterations may run again since nothing is read that they or others wrote before, and vectors begin anywhere,
groups of which the last ends where the loop does:
        all_n = n >= 8 ? (n + 7) / 8 : 0, all_m = m >= 32 ? (m + 31) / 32 : 0
        S[min(8 * i_group, n - 8) + i, min(32 * j_group, m - 32) + j]
            for 0 <= i_group < all_n, 0 <= j_group < all_m, 0 <= i < 8, 0 <= j < 32
        S[i, j] for 0 <= i < n, 0 <= j < m, where one of the loops is shorter than a group
    where along vectors as few batches of 64 and 48 iterations as there may be take the place of groups of 32, and
    batches of 32 that of fewer than 48 iterations
where pairs of vectors begin at even elements only, once for even and once for odd m, which tells where the last begins:
        units_m = m / 2
        S[.., min(32 * j_group, 2 * units_m - 32) + j] if m = 2 * units_m, S[.., min(32 * j_group, m - 32) + j] if not

Loops are taken apart so along which each iteration has elements of its own, so that elements of a group may stay in
registers, and several vectors are loaded and stored at once. Local arrays of such a size, with an element for each
iteration, have elements for one group's only.
"""

from __future__ import annotations

import itertools
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import islpy as isl

from plant_core.analysis.rectangular_hull import Boxes, Form, NoBlocks, accesses_of
from plant_core.analysis.runtime_parameters import aligned
from plant_core.ir.func import Buf, Comp, DType, Func
from plant_core.ir.quasi_affine import parameters_of
from plant_core.ir.tile_loop import Counter
from plant_core.ir.time_2d1 import Position, schedule_map
from plant_core.scratchpad.tail_overrun import SUMS, without_batches
from plant_core.scratchpad.tile_nest import strips_of
from plant_core.strip_mine.overlapped_tail import Ends, ends_of
from plant_core.strip_mine.strip_cases import Kind, Part, conditions_apart
from plant_core.strip_mine.trip_counts import Counts
from plant_core.transform.array_contraction import contracted


def in_groups(
    func: Func,
    nests: Sequence[Sequence[str]],
    granule: int,
    *,
    reassoc: bool,
    anywhere: Callable[[DType], bool] = lambda dtype: True,
    unit: Callable[[Comp, int], int] = lambda comp, accesses: 1,
    on_lanes: Callable[[Comp], bool] = lambda comp: True,
    registers: int = 64,
) -> Func | None:
    """The function with its `nests`, each the names of its statements, taken apart where that can be; None where it
    can't anywhere, or a local array's size stays unknown. `granule`: elements of a vector; `anywhere` tells whether
    vectors of a type may be stored at any place, `unit` how many elements lie between places where
    it is worth while that accesses are, of a statement of which so many go along the vectors; `on_lanes`, whether a
    statement has code on lanes; `registers`: how many there are for vectors."""
    if func.effects or any(c.defines for c in func.comps):
        return None
    maker = _Maker(func, reassoc, anywhere, unit, on_lanes, batches=registers >= 2 * SUMS)
    for names in nests:
        part, wheres = conditions_apart(replace(func, comps=tuple(func.comp(n) for n in names)))
        others = {a.buf for c in func.comps if c.name not in names for a in accesses_of(c)}
        part = maker.without(part, others, only_known=True)
        try:
            maker.nest(Boxes(part, granule), others, wheres)
        except NoBlocks:
            maker.as_it_is(replace(func, comps=tuple(func.comp(n) for n in names)), others)
    return maker.made()


def _worth_while(
    boxes: Boxes,
    counters: Sequence[Counter],
    iterators: Mapping[str, Sequence[str | None]],
    strips: tuple[int, ...],
    granule: int,
) -> tuple[int, ...]:
    """Those of the loops that may have groups which have some: those along vectors, and of those from row to row, each
    of which doubles the parts of a nest, the one along which accesses share most of what they load; the innermost of
    several. None where all other loops have few iterations, as those over a column at a border do."""
    rows = [k for k in strips if counters[k].in_rows]
    few = [c for c in counters if c.extent is None and c.trips * c.span < granule]
    if len(rows) == len(strips) == len(counters) - len(few) and not _side_by_side(boxes, iterators, rows):
        return ()
    best = max(rows, key=lambda k: (_shared(boxes, iterators, k), strips.index(k)), default=None)
    return tuple(k for k in strips if k not in rows or k == best)


def _side_by_side(boxes: Boxes, iterators: Mapping[str, Sequence[str | None]], strips: Sequence[int]) -> bool:
    """Whether iterations of any of the loops write neighbouring elements."""
    written = [(iterators[u.comp.name], u.forms[-1]) for u in boxes.uses if u.writes and u.forms]
    return any(form is None or names[k] in form[1] for names, form in written for k in strips)


def _shared(boxes: Boxes, iterators: Mapping[str, Sequence[str | None]], k: int) -> int:
    """How many accesses load what they or others load in another iteration of a loop, too."""
    loads = [(u, tuple(map(_moves, u.forms))) for u in boxes.uses if not u.writes and u.access.indices]
    alike = Tally((u.access.buf, moves) for u, moves in loads)
    number = 0
    for use, moves in loads:
        name = iterators[use.comp.name][k]
        with_it = [form for form in moves if form is None or name in form]
        number += not with_it or alike[use.access.buf, moves] > 1 or any(f is not None and len(f) > 1 for f in with_it)
    return number


def _moves(form: Form) -> frozenset[str] | None:
    """The iterators in a subscript."""
    return None if form is None else frozenset(form[1])


_ONCE: tuple[Kind, Kind] = ("whole", "over")
_AGAIN: tuple[Kind, ...] = ("all",)
_APART: tuple[Kind, ...] = ("whole", "last")
_BATCHES: tuple[Kind, ...] = ("large", "small", "few", "short")
_ANY: tuple[Kind] = ("any",)
_NARROW: list[tuple[Kind, Kind]] = [("short", "all"), ("each", "short")]  # of vectors, and of rows


class _Maker:
    def __init__(
        self,
        func: Func,
        reassoc: bool,
        anywhere: Callable[[DType], bool],
        unit: Callable[[Comp, int], int],
        on_lanes: Callable[[Comp], bool],
        *,
        batches: bool,
    ) -> None:
        self.func, self.reassoc, self.anywhere, self.unit, self.in_batches = func, reassoc, anywhere, unit, batches
        self.on_lanes = on_lanes
        self.bufs = {b.name: b for b in func.bufs}
        self.counts = Counts()
        self.names = {c.name for c in func.comps}
        self.placed: list[tuple[Comp, Position]] = []
        self.ends: Ends | None = None
        self.number = 0
        self.apart = False

    def made(self) -> Func | None:
        used = {a.buf for c, _ in self.placed for a in accesses_of(c)}
        if not self.apart or any(
            self.bufs[n].kind == "local" and not all(isinstance(x, int) for x in self.bufs[n].shape) for n in used
        ):
            return None
        length = max(2 * len(c.iters) + 1 for c, _ in self.placed)
        comps = self.counts.definitions(self.func.loc)
        comps += self.ends.definitions() if self.ends is not None else ()
        made = [c.defines for c in comps if c.defines is not None]
        first = len(comps)
        placed = [(c, Position((k,), ())) for k, c in enumerate(comps)]
        placed += [(c, replace(p, constants=(p.constants[0] + first, *p.constants[1:]))) for c, p in self.placed]
        params = self.func.comps[0].domain.get_space().params()
        every = isl.Set(f"[{', '.join([*parameters_of(params), *made])}] -> {{ : }}").get_space()
        placed = [(replace(c, domain=c.domain.align_params(every)), p) for c, p in placed]
        done = tuple(replace(c, schedule=schedule_map(c, p, length)) for c, p in placed)
        counts = tuple(Buf(n, "i32", (), "local", False, self.func.loc) for n in made)
        bufs = tuple(b for b in self.bufs.values() if b.kind == "param" or b.name in used)
        return replace(self.func, bufs=(*bufs, *counts), comps=aligned(done))

    def as_it_is(self, part: Func, others: set[str]) -> None:
        """A nest without groups; `others`: the arrays that other nests use."""
        part = self.without(part, others)
        self._small(part, others)
        boxes = Boxes(part, 1, known=())
        for comp in part.comps:
            place = boxes.places[comp.name]
            self.placed.append((comp, replace(place, constants=(self.number, *place.constants[1:]))))
        self.number += 1

    def without(self, part: Func, others: set[str], *, only_known: bool = False) -> Func:
        """A nest without elements of local arrays of unknown size for each iteration, as far as can be."""
        unknown = {b.name for b in part.bufs if b.kind == "local" and not all(isinstance(x, int) for x in b.shape)}
        return contracted(part, unknown - others, only_known=only_known)

    def _small(self, part: Func, others: set[str]) -> None:
        """Arrays that only one nest uses have the shapes that they have there."""
        used = {a.buf for c in part.comps for a in accesses_of(c)} - others
        self.bufs |= {b.name: b for b in part.bufs if b.name in used}

    def nest(self, boxes: Boxes, others: set[str], wheres: Mapping[str, isl.Set]) -> None:
        """A nest in groups; `wheres`: the parameters for which a statement runs, where its loops don't tell."""
        counters, iterators, strips = strips_of(boxes, reassoc=self.reassoc)
        every, strips = strips, _worth_while(boxes, counters, iterators, strips, boxes.granule)
        if not strips:
            raise NoBlocks("no loop of it has groups", loc=boxes.func.loc)
        plain: dict[int, Kind] = {k: "each" for k in every if k not in strips}
        touched = {a.buf for c in boxes.func.comps for a in accesses_of(c)}
        unknown = (b for b in boxes.func.bufs if not all(isinstance(x, int) for x in b.shape))
        local = [b for b in unknown if b.kind == "local" and b.name in touched]
        once = any(boxes.is_live(name) or not self.anywhere(boxes.bufs[name].dtype) for name in boxes.written)
        sums = any(c.extent is not None and k not in strips for k, c in enumerate(counters))
        # Batches are for sums, of which there are to be many at a time.
        if once or local or not (sums and self.in_batches):
            counters = tuple(map(without_batches, counters))
        if buf := next((b for b in local if b.name in others), None):
            raise NoBlocks(f"'{buf.name}' is of use to several groups", loc=boxes.func.loc)
        if strips == every == (0,) and not wheres and self._with_ends(boxes, counters[0], iterators, local, others):
            return
        # Where groups are all that the innermost loop runs over, they follow each other at a constant distance.
        ways = [_AGAIN if counters[k].batches is None else _BATCHES for k in strips]
        ways = [*ways[:-1], _AGAIN if sums or plain else _APART] if ways[-1] == _AGAIN else ways
        if once or local:
            kinds = list(itertools.product(_ONCE, repeat=len(strips)) if once else _again(ways))
        else:
            kinds = list(itertools.product(*ways))
            if [(counters[k].batches, counters[k].in_rows) for k in strips] == [(None, False), (None, True)]:
                kinds += _NARROW
            elif any(counters[k].batches is None for k in strips):
                kinds.append(_ANY * len(strips))
        units = {
            k: 1 if counters[k].in_rows else self.unit_along(boxes, [n[k] for n in iterators.values()]) for k in strips
        }
        ways_in_units = [
            (dict(zip(strips, kind, strict=True)), whole)
            for kind in kinds
            for whole in _in_units(dict(zip(strips, kind, strict=True)), units)
        ]
        # What the same sizes run comes together.
        ways_in_units.sort(key=lambda way: [not whole for whole in way[1].values()] or [True])
        parts = [
            Part(self.counts, boxes, counters, iterators, {**kind, **plain}, units, whole)
            for kind, whole in ways_in_units
        ]
        self._small(boxes.func, others)
        shapes = self._shapes(parts[0], local)
        for part in parts:
            made = self._part(part, shapes)
            placed = [(_only(c, wheres.get(old.name)), p) for (c, p), old in zip(made, boxes.func.comps, strict=True)]
            self._add([(c, p) for c, p in placed if not c.domain.is_empty()])  # rows may be too few or too many for it

    def _shapes(self, part: Part, local: Sequence[Buf]) -> dict[str, tuple[int, ...]]:
        """The shapes of local arrays, which have elements for one group only."""
        shapes = {}
        for buf in local:
            if (shape := part.shape_of(buf)) is None:
                raise NoBlocks(f"'{buf.name}' is of use to several groups", loc=buf.loc)
            shapes[buf.name] = shape
        self.bufs |= {name: replace(self.bufs[name], shape=shape) for name, shape in shapes.items()}
        return shapes

    def _with_ends(
        self,
        boxes: Boxes,
        counter: Counter,
        iterators: dict[str, list[str | None]],
        local: Sequence[Buf],
        others: set[str],
    ) -> bool:
        """A nest of one loop in groups, its last vectors on copies; False where that can't be. One nest of a function:
        what flows between statements whose places are parameters takes long to find."""
        ends = ends_of(boxes, counter, iterators, others) if self.ends is None else None
        if ends is None or not all(self.anywhere(boxes.bufs[n].dtype) for n in boxes.written):
            return False
        if not all(map(self.on_lanes, boxes.func.comps)):
            return False
        whole = Part(self.counts, boxes, (counter,), iterators, {0: "whole"}, {0: 1}, {})
        one = replace(counter, group=boxes.granule)
        short = Part(self.counts, boxes, (one,), iterators, {0: "short"}, {0: 1}, {})
        shapes = self._shapes(whole, local)
        self.ends = ends
        self.bufs |= {b.name: b for b in ends.bufs()}
        self._add(list(ends.before(self.number)))
        self._add(self._part(whole, shapes))
        self._add(list(ends.after(self.number)))
        self._add(self._part(short, shapes))
        return True

    def _part(self, part: Part, shapes: dict[str, tuple[int, ...]]) -> list[tuple[Comp, Position]]:
        """The statements of a part, by names that no others have."""
        made = []
        for comp in part.boxes.func.comps:
            name = f"{comp.name}_{self.number}"
            while name in self.names:
                name += "_"
            self.names.add(name)
            made.append(part.of(comp, name, shapes, self.number))
        return made

    def _add(self, placed: Sequence[tuple[Comp, Position]]) -> None:
        """A nest more."""
        self.placed += placed
        self.number += 1
        self.apart = True

    def unit_along(self, boxes: Boxes, iterators: Sequence[str | None]) -> int:
        """How many elements lie between places where it is worth while that accesses along a loop are."""
        along: dict[str, int] = {}  # how many accesses of each statement go along it
        for use in boxes.uses:
            form = use.forms[-1] if use.forms else None
            if form is not None and any(form[1].get(name, 0) % 2 for name in iterators if name in use.comp.iters):
                along[use.comp.name] = along.get(use.comp.name, 0) + 1
        return max((self.unit(boxes.func.comp(name), count) for name, count in along.items()), default=1)


def _only(comp: Comp, where: isl.Set | None) -> Comp:
    """The statement for such parameters only."""
    return comp if where is None else replace(comp, domain=comp.domain.intersect_params(where))


def _in_units(kinds: dict[int, Kind], units: dict[int, int]) -> Iterator[dict[int, bool]]:
    """Whether the iterations of each loop are whole units, which tells where its last group begins, in all ways."""
    asked = [k for k, kind in kinds.items() if kind in ("all", "large", "small") and units[k] > 1]
    yield from (dict(zip(asked, way, strict=True)) for way in itertools.product((True, False), repeat=len(asked)))


def _again(ways: Sequence[tuple[Kind, ...]]) -> Iterator[tuple[Kind, ...]]:
    """The parts of a nest whose iterations may run again, of which none goes over more than a group of each loop."""
    if not ways:
        yield ()
        return
    for first in ways[0]:
        yield from ((first, *others) for others in _again(ways[1:]))
    yield from (("short", *others) for others in itertools.product(_ONCE, repeat=len(ways) - 1))
