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
from collections import Counter as Counts
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import islpy as isl

from plant_core.affine import add, children, from_linear, integer, linear, rebuild, sub
from plant_core.blocks import strips_of
from plant_core.boxes import Boxes, Form, NoBlocks, accesses_of, in_text
from plant_core.defined import definition_of
from plant_core.excess import SUMS, without_batches
from plant_core.group_counts import all_of, batches_of, count_of, excess_of, few_of
from plant_core.ir import Binary, Buf, Comp, DType, Expr, Func, Iter, Load, Param
from plant_core.schedule import Line, Position, schedule_map
from plant_core.vectors_at_ends import Ends, ends_of
from plant_core.windows import Counter


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
        part = replace(func, comps=tuple(func.comp(n) for n in names))
        others = {a.buf for c in func.comps if c.name not in names for a in accesses_of(c)}
        try:
            maker.nest(Boxes(part, granule), others)
        except NoBlocks:
            maker.as_it_is(part)
    return maker.made()


def _at_once(counter: Counter, batch: int) -> int:
    """Iterations of a group, or of a batch: a large one, a small one, or one of those that come where there are fewer
    iterations than that has."""
    if counter.batches is None:
        return counter.group
    return counter.group * (*counter.batches, max(counter.batches[1] // 3, _FEWEST))[batch]


def _worth_while(
    boxes: Boxes,
    counters: Sequence[Counter],
    iterators: Mapping[str, Sequence[str | None]],
    strips: tuple[int, ...],
) -> tuple[int, ...]:
    """Those of the loops that may have groups which have some: those along vectors, and of those from row to row, each
    of which doubles the parts of a nest, the one along which accesses share most of what they load; the innermost of
    several."""
    rows = [k for k in strips if counters[k].in_rows]
    best = max(rows, key=lambda k: (_shared(boxes, iterators, k), strips.index(k)), default=None)
    return tuple(k for k in strips if k not in rows or k == best)


def _shared(boxes: Boxes, iterators: Mapping[str, Sequence[str | None]], k: int) -> int:
    """How many accesses load what they or others load in another iteration of a loop, too."""
    loads = [(u, tuple(map(_moves, u.forms))) for u in boxes.uses if not u.writes and u.access.indices]
    alike = Counts((u.access.buf, moves) for u, moves in loads)
    number = 0
    for use, moves in loads:
        name = iterators[use.comp.name][k]
        with_it = [form for form in moves if form is None or name in form]
        number += not with_it or alike[use.access.buf, moves] > 1 or any(f is not None and len(f) > 1 for f in with_it)
    return number


def _moves(form: Form) -> frozenset[str] | None:
    """The iterators in a subscript."""
    return None if form is None else frozenset(form[1])


def _least(names: Sequence[str]) -> Expr:
    """The least of some parameters."""
    found: Expr = Param(names[0], "i32")
    for name in names[1:]:
        found = Binary("min", found, Param(name, "i32"), "i32")
    return found


_FEWEST = 2  # groups of a batch


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
        self.counts: dict[tuple[Expr, int], str] = {}
        self.alls: dict[tuple[Expr, int], str] = {}
        self.fews: dict[tuple[Expr, int], str] = {}
        self.wholes: dict[tuple[Expr, int], str] = {}
        self.excesses: dict[tuple[Expr, int], str] = {}
        self.least: dict[tuple[str, ...], str] = {}
        self.batched: dict[tuple[Expr, tuple[int, int, int]], tuple[str, str]] = {}
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
        comps = [count_of(extent, group, name, self.func.loc) for (extent, group), name in self.counts.items()]
        comps += [count_of(extent, unit, name, self.func.loc) for (extent, unit), name in self.wholes.items()]
        comps += [all_of(extent, group, name, self.func.loc) for (extent, group), name in self.alls.items()]
        comps += [few_of(extent, batch, name, self.func.loc) for (extent, batch), name in self.fews.items()]
        comps += [excess_of(extent, group, name, self.func.loc) for (extent, group), name in self.excesses.items()]
        comps += [definition_of(name, _least(counts), self.func.loc) for counts, name in self.least.items()]
        for (extent, sizes), names in self.batched.items():
            comps += batches_of(extent, sizes, names, self.func.loc)
        comps += self.ends.definitions() if self.ends is not None else ()
        made = [c.defines for c in comps if c.defines is not None]
        first = len(comps)
        placed = [(c, Position((k,), ())) for k, c in enumerate(comps)]
        placed += [(c, replace(p, constants=(p.constants[0] + first, *p.constants[1:]))) for c, p in self.placed]
        params = self.func.comps[0].domain.get_space().params()
        known = [str(params.get_dim_name(isl.dim_type.param, k)) for k in range(params.dim(isl.dim_type.param))]
        every = isl.Set(f"[{', '.join([*known, *made])}] -> {{ : }}").get_space()
        placed = [(replace(c, domain=c.domain.align_params(every)), p) for c, p in placed]
        done = tuple(replace(c, schedule=schedule_map(c, p, length).intersect_domain(c.domain)) for c, p in placed)
        counts = tuple(Buf(n, "i32", (), "local", False, self.func.loc) for n in made)
        bufs = tuple(b for b in self.bufs.values() if b.kind == "param" or b.name in used)
        return replace(self.func, bufs=(*bufs, *counts), comps=done)

    def as_it_is(self, part: Func) -> None:
        boxes = Boxes(part, 1, known=())
        for comp in part.comps:
            place = boxes.places[comp.name]
            self.placed.append((comp, replace(place, constants=(self.number, *place.constants[1:]))))
        self.number += 1

    def nest(self, boxes: Boxes, others: set[str]) -> None:
        counters, iterators, strips = strips_of(boxes, reassoc=self.reassoc)
        if not strips:
            raise NoBlocks("no loop of it has groups", loc=boxes.func.loc)
        every, strips = strips, _worth_while(boxes, counters, iterators, strips)
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
        if strips == every == (0,) and self._with_ends(boxes, counters[0], iterators, local):
            return
        # Where groups are all that the innermost loop runs over, they follow each other at a constant distance.
        ways = [_AGAIN if counters[k].batches is None else _BATCHES for k in strips]
        ways = [*ways[:-1], _AGAIN if sums or plain else _APART] if ways[-1] == _AGAIN else ways
        if once or local:
            kinds = list(itertools.product(_ONCE, repeat=len(strips)) if once else _again(ways))
        else:
            kinds = list(itertools.product(*ways))
            if any(counters[k].batches is None for k in strips):
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
            _Part(self, boxes, counters, iterators, {**kind, **plain}, units, whole) for kind, whole in ways_in_units
        ]
        shapes = self._shapes(parts[0], local)
        for part in parts:
            self._add([part.of(comp, shapes, self.number) for comp in boxes.func.comps])

    def _shapes(self, part: _Part, local: Sequence[Buf]) -> dict[str, tuple[int, ...]]:
        """The shapes of local arrays, which have elements for one group only."""
        shapes = {}
        for buf in local:
            if (shape := part.shape_of(buf)) is None:
                raise NoBlocks(f"'{buf.name}' is of use to several groups", loc=buf.loc)
            shapes[buf.name] = shape
        self.bufs |= {name: replace(self.bufs[name], shape=shape) for name, shape in shapes.items()}
        return shapes

    def _with_ends(
        self, boxes: Boxes, counter: Counter, iterators: dict[str, list[str | None]], local: Sequence[Buf]
    ) -> bool:
        """A nest of one loop in groups, its last vectors on copies; False where that can't be. One nest of a function:
        what flows between statements whose places are parameters takes long to find."""
        ends = ends_of(boxes, counter, iterators) if self.ends is None else None
        if ends is None or not all(self.anywhere(boxes.bufs[n].dtype) for n in boxes.written):
            return False
        if not all(map(self.on_lanes, boxes.func.comps)):
            return False
        whole = _Part(self, boxes, (counter,), iterators, {0: "whole"}, {0: 1}, {})
        one = replace(counter, group=boxes.granule)
        short = _Part(self, boxes, (one,), iterators, {0: "short"}, {0: 1}, {})
        shapes = self._shapes(whole, local)
        self.ends = ends
        self.bufs |= {b.name: b for b in ends.bufs()}
        self._add(list(ends.before(self.number)))
        self._add([whole.of(comp, shapes, self.number) for comp in boxes.func.comps])
        self._add(list(ends.after(self.number)))
        self._add([short.of(comp, shapes, self.number) for comp in boxes.func.comps])
        return True

    def _add(self, placed: Sequence[tuple[Comp, Position]]) -> None:
        """A nest more."""
        self.placed += placed
        self.number += 1
        self.apart = True

    def count(self, counter: Counter) -> str:
        """The parameter that tells how many groups there are whole."""
        assert counter.extent is not None
        return self.counts.setdefault((counter.extent, counter.group), f"groups{len(self.counts)}")

    def every(self, counter: Counter) -> str:
        """The parameter that tells how many groups hold all iterations."""
        assert counter.extent is not None
        return self.alls.setdefault((counter.extent, counter.group), f"all{len(self.alls)}")

    def few(self, counter: Counter) -> str:
        """The parameter that tells how many of the smallest batches hold all iterations."""
        assert counter.extent is not None
        return self.fews.setdefault((counter.extent, _at_once(counter, 2)), f"few{len(self.fews)}")

    def enough(self, counter: Counter) -> str:
        """The parameter that is above 0 where there are as many iterations as a group, or a smaller batch, has."""
        assert counter.extent is not None
        return self.excesses.setdefault((counter.extent, _at_once(counter, 1)), f"enough{len(self.excesses)}")

    def unit_along(self, boxes: Boxes, iterators: Sequence[str | None]) -> int:
        """How many elements lie between places where it is worth while that accesses along a loop are."""
        along: dict[str, int] = {}  # how many accesses of each statement go along it
        for use in boxes.uses:
            form = use.forms[-1] if use.forms else None
            if form is not None and any(form[1].get(name, 0) % 2 for name in iterators if name in use.comp.iters):
                along[use.comp.name] = along.get(use.comp.name, 0) + 1
        return max((self.unit(boxes.func.comp(name), count) for name, count in along.items()), default=1)

    def whole_units(self, counter: Counter, unit: int) -> str:
        """The parameter that tells how many times so many iterations there are."""
        assert counter.extent is not None
        return self.wholes.setdefault((counter.extent, unit), f"units{len(self.wholes)}")

    def batches(self, counter: Counter) -> tuple[str, str]:
        """The parameters that tell how many larger batches there are, and how many smaller ones."""
        assert counter.extent is not None
        key = (counter.extent, (_at_once(counter, 0), _at_once(counter, 1), counter.group))
        number = len(self.batched)
        return self.batched.setdefault(key, (f"larger{number}", f"smaller{number}"))

    def least_of(self, counts: Sequence[str]) -> str:
        return self.least.setdefault(tuple(counts), f"fewest{len(self.least)}")


# What a part of a nest does of a loop that is taken apart: its whole groups, or what is left over; where iterations may
# run again, groups of which the last ends where the loop does, or that one alone, all of a loop that is shorter than a
# group, or all of it where one of the loops in groups is so short; batches of either size instead of groups, or where
# there are fewer iterations than a small one has, yet smaller ones; or all of it, whatever others do.
Kind = Literal["whole", "over", "all", "last", "short", "any", "large", "small", "few", "each"]
_ONCE: tuple[Kind, Kind] = ("whole", "over")
_AGAIN: tuple[Kind, ...] = ("all",)
_APART: tuple[Kind, ...] = ("whole", "last")
_BATCHES: tuple[Kind, ...] = ("large", "small", "few", "short")
_ANY: tuple[Kind] = ("any",)
# Those that come one after the other, of each size.
_MANY: dict[Kind, int] = {"whole": 1, "all": 1, "large": 0, "small": 1, "few": 2}


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


@dataclass(frozen=True, slots=True)
class _Part:
    """The iterations that are of such `kinds` by some of the counters. `units`: how many iterations make a unit, and
    `whole`, where it matters, whether there are whole units only."""

    maker: _Maker
    boxes: Boxes
    counters: tuple[Counter, ...]
    iterators: dict[str, list[str | None]]
    kinds: dict[int, Kind]
    units: dict[int, int]
    whole: dict[int, bool]

    @property
    def strips(self) -> list[int]:
        """The counters that have groups."""
        return [k for k, kind in self.kinds.items() if kind != "each"]

    def _along(self, comp: Comp) -> dict[str, int]:
        """The counters that groups are of, or could be, by a statement's iterators."""
        return {name: k for k in self.kinds if (name := self.iterators[comp.name][k]) is not None}

    def of(self, comp: Comp, shapes: dict[str, tuple[int, ...]], number: int) -> tuple[Comp, Position]:
        """A statement of it, and its place."""
        loops = self._along(comp)
        groups = {name: f"{name}_group" for name, k in loops.items() if self.kinds[k] in _MANY}
        iters = (*groups.values(), *comp.iters)
        sizes, ranges = list(self.boxes.sizes), [f"0 <= {g} < {self._number(loops[n])}" for n, g in groups.items()]
        for k, kind in self.kinds.items():
            counter = self.counters[k]
            if kind in ("whole", "over", "last"):
                sizes.append(self.maker.count(counter))
            elif kind in ("large", "small"):
                sizes += self.maker.batches(counter)
            elif kind in ("all", "few"):
                sizes.append(self._number(k))
        if "any" in self.kinds.values():
            plain = [self.counters[k] for k in self.strips if self.counters[k].batches is None]
            sizes.append(self.maker.least_of([self.maker.enough(c) for c in plain]))
            ranges.append(f"{sizes[-1]} <= 0")
        for depth, name in enumerate(comp.iters):
            low, high = self.boxes.range_of(comp, depth)
            last = str(high) if isinstance(high, int) else in_text(high)
            first = str(low)
            if name in loops and loops[name] in self.strips:
                counter, kind = self.counters[loops[name]], self.kinds[loops[name]]
                if kind == "last":
                    count = self.maker.count(counter)
                    ranges.append(f"{count} > 0 and {counter.group}*{count} < {last} - {low} + 1")
                if kind == "short":
                    ranges.append(f"{last} - {low} + 1 < {_at_once(counter, 2)}")
                if kind == "few":
                    ranges.append(f"{_at_once(counter, 2)} <= {last} - {low} + 1 < {_at_once(counter, 1)}")
                if (whole := self.whole.get(loops[name])) is not None:
                    unit = self.units[loops[name]]
                    sizes.append(self.maker.whole_units(counter, unit))
                    ranges.append(f"{last} - {low} + 1 {'=' if whole else '>='} {unit}*{sizes[-1]} + {int(not whole)}")
                if kind in _MANY or kind == "last":
                    first, last = "0", str(self._at_once(loops[name]) - 1)
                elif kind == "over":
                    first = f"{low} + {counter.group} * {self.maker.count(counter)}"
            ranges.append(f"{first} <= {name} <= {last}")
        new = f"{comp.name}_{number}"
        domain = isl.Set(f"[{', '.join(sizes)}] -> {{ {new}[{', '.join(iters)}] : {' and '.join(ranges) or 'true'} }}")
        old = self.boxes.places[comp.name]
        outer = tuple(Line(0, ((g, 1),)) for g in groups.values())
        constants = (number, *(0 for _ in outer), *old.constants[1:])
        target = self._rewritten(comp.target, loops, groups, shapes)
        assert isinstance(target, Load)
        value = self._rewritten(comp.value, loops, groups, shapes)
        made = replace(comp, name=new, iters=iters, domain=domain, target=target, value=value)
        return made, Position(constants, (*outer, *old.loops))

    def _at_once(self, k: int) -> int:
        """The iterations of a group or batch of the part's."""
        return _at_once(self.counters[k], _MANY.get(self.kinds[k], 1))

    def _number(self, k: int) -> str:
        """How many groups or batches come one after the other."""
        counter, kind = self.counters[k], self.kinds[k]
        if kind in ("large", "small"):
            return self.maker.batches(counter)[_MANY[kind]]
        return {"whole": self.maker.count, "all": self.maker.every, "few": self.maker.few}[kind](counter)

    def shape_of(self, buf: Buf) -> tuple[int, ...] | None:
        """An array's extents for one group of iterations; None where it may not be so small."""
        found: set[tuple[tuple[int | None, int], ...]] = set()
        for use in self.boxes.uses:
            if use.access.buf != buf.name:
                continue
            along = self._along(use.comp)
            dims: list[tuple[int | None, int]] = []
            for form in use.forms:
                moving = {} if form is None else {n: f for n, f in form[1].items() if n in along}
                if form is None or (moving and (len(form[1]) > 1 or set(moving.values()) != {1})):
                    return None
                dims.append((along[next(iter(moving))], form[0]) if moving else (None, 0))
            found.add(tuple(dims))
        if len(found) != 1:
            return None
        (dims_of,) = found
        shape = [
            extent if k is None else 1 if self.kinds[k] == "each" else self.counters[k].group
            for (k, _), extent in zip(dims_of, buf.shape, strict=True)
        ]
        return tuple(x for x in shape if isinstance(x, int)) if all(isinstance(x, int) for x in shape) else None

    def _rewritten(
        self, expr: Expr, loops: dict[str, int], groups: dict[str, str], shapes: dict[str, tuple[int, ...]]
    ) -> Expr:
        match expr:
            case Iter(name) if name in groups or (name in loops and self.kinds[loops[name]] == "last"):
                counter = self.counters[loops[name]]
                before = self._before(loops[name], groups.get(name))
                return add(add(before, Iter(name)), integer(counter.low)) if counter.low else add(before, Iter(name))
            case Load() if expr.buf in shapes:
                return replace(expr, indices=tuple(self._within(i, loops) for i in expr.indices))
            case _:
                parts = tuple(self._rewritten(p, loops, groups, shapes) for p in children(expr))
                return rebuild(expr, parts) if parts else expr

    def _before(self, k: int, group: str | None) -> Expr:
        """The iterations before the first one of a group, or of the last one."""
        counter, kind = self.counters[k], self.kinds[k]
        size, extent = integer(self._at_once(k)), counter.extent
        assert extent is not None
        if self.whole.get(k):
            unit = self.units[k]
            extent = Binary("mul", integer(unit), Param(self.maker.whole_units(counter, unit), "i32"), "i32")
        if group is None:
            return sub(extent, size)
        before: Expr = Binary("mul", size, Iter(group), "i32")
        if kind == "small":
            larger = Param(self.maker.batches(counter)[0], "i32")
            before = add(Binary("mul", integer(_at_once(counter, 0)), larger, "i32"), before)
        return before if kind == "whole" else Binary("min", before, sub(extent, size), "i32")

    def _within(self, index: Expr, loops: dict[str, int]) -> Expr:
        """A subscript as it is counted from the first iteration of the group."""
        form = linear(index)
        assert form is not None
        name = next((n for n in form[1] if n in loops), None)
        if name is None:
            return index
        if self.kinds[loops[name]] == "each":
            return integer(0)
        if self.kinds[loops[name]] in ("whole", "all", "last"):
            return Iter(name)
        counter = self.counters[loops[name]]
        before = Binary("mul", integer(counter.group), Param(self.maker.count(counter), "i32"), "i32")
        here = from_linear((-counter.low, {name: 1}), (name,))
        return Binary("sub", here, before, "i32")
