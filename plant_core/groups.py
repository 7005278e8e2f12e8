"""Loops whose sizes are known at run time only, in groups of iterations: boxes of constant size within loops over
groups, and after them what is left over.

Before: S[i, j] for 0 <= i < n, 0 <= j < m
After:  count_n = n / 8, count_m = m / 32
        S[i_group, j_group, i, j] for 0 <= i_group < count_n, 0 <= j_group < count_m, 0 <= i < 8, 0 <= j < 32
        S[i_group, i, j] for 0 <= i_group < count_n, 0 <= i < 8, 32 * count_m <= j < m
        S[i, j_group, j], S[i, j] for 8 * count_n <= i < n
or, where iterations may run again since nothing is read that they or others wrote before, and vectors begin anywhere:
        the first, and one group more that ends where the loop does:
        S[i_group, i, j + m - 32] for 0 <= i_group < count_n, 0 <= i < 8, 0 <= j < 32
        S[i + n - 8, j_group, j], S[i + n - 8, j + m - 32] for 0 <= i < 8
        S[i, j] for 0 <= i < n, 0 <= j < m, where one of the loops is shorter than a group
    where along vectors as few batches of 64 and 48 iterations as there may be take the place of groups of 32

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
from plant_core.ir import Binary, BinaryOp, Buf, Comp, DType, Expr, Func, Iter, Load, Param
from plant_core.loc import Loc
from plant_core.schedule import Line, Position, schedule_map
from plant_core.windows import Counter


def in_groups(
    func: Func,
    nests: Sequence[Sequence[str]],
    granule: int,
    *,
    reassoc: bool,
    anywhere: Callable[[DType], bool] = lambda dtype: True,
    registers: int = 64,
) -> Func | None:
    """The function with its `nests`, each the names of its statements, taken apart where that can be; None where it
    can't anywhere, or a local array's size stays unknown. `granule`: elements of a vector; `anywhere` tells whether
    vectors of a type may be stored at any place; `registers`: how many there are for vectors."""
    if func.effects or any(c.defines for c in func.comps):
        return None
    maker = _Maker(func, reassoc, anywhere, batches=registers >= 2 * SUMS)
    for names in nests:
        part = replace(func, comps=tuple(func.comp(n) for n in names))
        others = {a.buf for c in func.comps if c.name not in names for a in accesses_of(c)}
        try:
            maker.nest(Boxes(part, granule), others)
        except NoBlocks:
            maker.as_it_is(part)
    return maker.made()


def count_of(extent: Expr, group: int, name: str, loc: Loc) -> Comp:
    """The statement that defines how many whole groups there are; 0 where there are no iterations."""
    whole = Binary("floordiv", extent, integer(group), "i32")
    return definition_of(name, Binary("max", whole, integer(0), "i32"), loc)


def _excess_of(extent: Expr, group: int, name: str, loc: Loc) -> Comp:
    """The statement that defines what is above 0 where there is a group, without a division."""
    return definition_of(name, add(extent, integer(1 - group)), loc)


def _batches_of(extent: Expr, sizes: tuple[int, int, int], names: Sequence[str], loc: Loc) -> Iterator[Comp]:
    """The statements that define how many large batches there are that are not the last, whether that is one, and how
    many small ones there are; none of fewer iterations than a small one has. `sizes`: the iterations of a large one, a
    small one and a group. There are as few as hold all groups, as many of them small as enough groups for that are
    lacking; two small ones in place of one large one that would lack iterations.
    """
    large, small, group = sizes

    def op(name: BinaryOp, left: Expr, right: Expr | int) -> Expr:
        return Binary(name, left, integer(right) if isinstance(right, int) else right, "i32")

    def some(of: Expr) -> Expr:
        return op("min", op("max", of, 0), 1)

    groups = op("floordiv", add(extent, integer(group - 1)), group)
    every = op("floordiv", add(groups, integer(large // group - 1)), large // group)
    lacking = sub(op("mul", every, large // group), groups)
    enough = op("min", op("floordiv", lacking, (large - small) // group), every)
    between = op("mul", some(sub(integer(large), extent)), some(sub(extent, integer(small))))
    any_ = some(add(sub(extent, integer(small)), integer(1)))
    larger, last, smaller = names
    yield definition_of(smaller, op("mul", add(enough, op("mul", between, 2)), any_), loc)
    number = Param(smaller, "i32")
    yield definition_of(last, op("mul", sub(integer(1), some(number)), any_), loc)
    yield definition_of(larger, op("mul", op("max", sub(sub(every, number), Param(last, "i32")), 0), any_), loc)


def _at_once(counter: Counter, batch: int) -> int:
    """Iterations of a group, or of a batch of either size."""
    return counter.group * (1 if counter.batches is None else counter.batches[batch])


def _worth_while(
    boxes: Boxes, iterators: Mapping[str, Sequence[str | None]], strips: tuple[int, ...]
) -> tuple[int, ...]:
    """Those of the loops that may have groups which have some: those along vectors, and of those from row to row, each
    of which doubles the parts of a nest, the one along which accesses share most of what they load; the innermost of
    several."""
    vectors = {k for k in strips if any(_in_vectors(c, iterators[c.name][k]) for c in boxes.func.comps)}
    rows = [k for k in strips if k not in vectors]
    best = max(rows, key=lambda k: (_shared(boxes, iterators, k), strips.index(k)), default=None)
    return tuple(k for k in strips if k in vectors or k == best)


def _in_vectors(comp: Comp, name: str | None) -> bool:
    """Whether a loop goes along the rows of what a statement writes."""
    form = linear(comp.target.indices[-1]) if comp.target.indices else None
    return name is not None and (form is None or name in form[1])


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


class _Maker:
    def __init__(self, func: Func, reassoc: bool, anywhere: Callable[[DType], bool], *, batches: bool) -> None:
        self.func, self.reassoc, self.anywhere, self.in_batches = func, reassoc, anywhere, batches
        self.bufs = {b.name: b for b in func.bufs}
        self.counts: dict[tuple[Expr, int], str] = {}
        self.excesses: dict[tuple[Expr, int], str] = {}
        self.least: dict[tuple[str, ...], str] = {}
        self.batched: dict[tuple[Expr, tuple[int, int, int]], tuple[str, str, str]] = {}
        self.placed: list[tuple[Comp, Position]] = []
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
        comps += [_excess_of(extent, group, name, self.func.loc) for (extent, group), name in self.excesses.items()]
        comps += [definition_of(name, _least(counts), self.func.loc) for counts, name in self.least.items()]
        for (extent, sizes), names in self.batched.items():
            comps += _batches_of(extent, sizes, names, self.func.loc)
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
        every, strips = strips, _worth_while(boxes, iterators, strips)
        plain: dict[int, Kind] = {k: "each" for k in every if k not in strips}
        touched = {a.buf for c in boxes.func.comps for a in accesses_of(c)}
        unknown = (b for b in boxes.func.bufs if not all(isinstance(x, int) for x in b.shape))
        local = [b for b in unknown if b.kind == "local" and b.name in touched]
        once = any(boxes.is_live(name) or not self.anywhere(boxes.bufs[name].dtype) for name in boxes.written)
        sums = any(c.extent is not None and k not in strips for k, c in enumerate(counters))
        # Batches are for sums, of which there are to be many at a time.
        if once or local or not (sums and self.in_batches):
            counters = tuple(map(without_batches, counters))
        if once or local:
            kinds = list(itertools.product(_ONCE, repeat=len(strips)) if once else _again(len(strips)))
        else:
            ways = [_AGAIN if counters[k].batches is None else _BATCHES for k in strips]
            kinds = list(itertools.product(*ways))
            if _AGAIN in ways:
                kinds.append(_ANY * len(strips))
        parts = [_Part(self, boxes, counters, iterators, {**dict(zip(strips, k, strict=True)), **plain}) for k in kinds]
        shapes = {}
        for buf in local:
            if buf.name in others or (shape := parts[0].shape_of(buf)) is None:
                raise NoBlocks(f"'{buf.name}' is of use to several groups", loc=boxes.func.loc)
            shapes[buf.name] = shape
        for part in parts:
            for comp in boxes.func.comps:
                self.placed.append(part.of(comp, shapes, self.number))
            self.number += 1
        self.bufs |= {name: replace(self.bufs[name], shape=shape) for name, shape in shapes.items()}
        self.apart = True

    def count(self, counter: Counter) -> str:
        """The parameter that tells how many groups there are whole; with batches, whether there is a smaller one."""
        assert counter.extent is not None
        key = (counter.extent, _at_once(counter, 1))
        if counter.batches is None:
            return self.counts.setdefault(key, f"groups{len(self.counts)}")
        return self.excesses.setdefault(key, f"enough{len(self.excesses)}")

    def batches(self, counter: Counter) -> tuple[str, str, str]:
        """The parameters that tell how many larger batches there are that are not the last, whether that is a larger
        one, and how many smaller ones there are."""
        assert counter.extent is not None
        key = (counter.extent, (_at_once(counter, 0), _at_once(counter, 1), counter.group))
        number = len(self.batched)
        return self.batched.setdefault(key, (f"larger{number}", f"last{number}", f"smaller{number}"))

    def least_of(self, counts: Sequence[str]) -> str:
        return self.least.setdefault(tuple(counts), f"fewest{len(self.least)}")


# What a part of a nest does of a loop that is taken apart: its whole groups, or what is left over; where iterations may
# run again, one last group that ends where the loop does, all of a loop that is shorter than a group, or all of it
# where one of the loops in groups is so short; batches of either size instead of groups, and the last one; or all of
# it, whatever others do.
Kind = Literal["whole", "over", "last", "short", "any", "large", "small", "last large", "last small", "each"]
_ONCE: tuple[Kind, Kind] = ("whole", "over")
_AGAIN: tuple[Kind, Kind] = ("whole", "last")
_BATCHES: tuple[Kind, ...] = ("large", "small", "last large", "last small", "short")
_ANY: tuple[Kind] = ("any",)
# Those that come one after the other, of each size.
_MANY: dict[Kind, int] = {"whole": 1, "large": 0, "small": 1}
_LAST: dict[Kind, int] = {"last": 1, "last large": 0, "last small": 1}


def _again(strips: int) -> Iterator[tuple[Kind, ...]]:
    """The parts of a nest whose iterations may run again, of which none goes over more than a group of each loop."""
    if strips == 0:
        yield ()
        return
    for first in _AGAIN:
        yield from ((first, *others) for others in _again(strips - 1))
    yield from (("short", *others) for others in itertools.product(_ONCE, repeat=strips - 1))


@dataclass(frozen=True, slots=True)
class _Part:
    """The iterations that are of such `kinds` by some of the counters."""

    maker: _Maker
    boxes: Boxes
    counters: tuple[Counter, ...]
    iterators: dict[str, list[str | None]]
    kinds: dict[int, Kind]

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
        counts = [self.maker.count(self.counters[k]) for k in self.strips]
        sizes = [*self.boxes.sizes, *counts]
        counts = [c for k, c in zip(self.strips, counts, strict=True) if self.counters[k].batches is None]
        for k in self.strips:
            if self.counters[k].batches is not None and self.kinds[k] != "any":
                sizes += self.maker.batches(self.counters[k])
        ranges = [f"0 <= {g} < {self._number(loops[name])}" for name, g in groups.items()]
        if "any" in self.kinds.values():
            sizes.append(self.maker.least_of(counts))
            ranges.append(f"{sizes[-1]} <= 0")
        for depth, name in enumerate(comp.iters):
            low, high = self.boxes.range_of(comp, depth)
            last = str(high) if isinstance(high, int) else in_text(high)
            first = str(low)
            if name in loops and loops[name] in self.strips:
                counter, kind = self.counters[loops[name]], self.kinds[loops[name]]
                count = self.maker.count(counter)
                if kind in _MANY or kind in _LAST:
                    first, last = "0", str(self._at_once(loops[name]) - 1)
                if kind == "last":
                    assert not isinstance(high, int)
                    ranges.append(f"{count} > 0 and {counter.group}*{count} < {in_text(high)} - {low} + 1")
                elif kind in ("last large", "last small"):
                    _, is_last, smaller = self.maker.batches(counter)
                    ranges.append(f"{is_last if kind == 'last large' else smaller} > 0")
                elif kind == "short":
                    ranges.append(f"{count} <= 0")
                elif kind == "over":
                    first = f"{low} + {counter.group} * {count}"
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
        kind = self.kinds[k]
        return _at_once(self.counters[k], _MANY[kind] if kind in _MANY else _LAST[kind])

    def _number(self, k: int) -> str:
        """How many groups or batches come one after the other."""
        if self.kinds[k] == "whole":
            return self.maker.count(self.counters[k])
        larger, _, smaller = self.maker.batches(self.counters[k])
        return larger if self.kinds[k] == "large" else f"{smaller} - 1"

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
            case Iter(name) if name in loops and (self.kinds[loops[name]] in _MANY or self.kinds[loops[name]] in _LAST):
                counter, size = self.counters[loops[name]], integer(self._at_once(loops[name]))
                if name in groups:
                    before: Expr = Binary("mul", size, Iter(groups[name]), "i32")
                    if self.kinds[loops[name]] == "small":
                        larger = Param(self.maker.batches(counter)[0], "i32")
                        before = add(Binary("mul", integer(_at_once(counter, 0)), larger, "i32"), before)
                else:
                    assert counter.extent is not None
                    before = sub(counter.extent, size)
                return add(add(before, Iter(name)), integer(counter.low)) if counter.low else add(before, Iter(name))
            case Load() if expr.buf in shapes:
                return replace(expr, indices=tuple(self._within(i, loops) for i in expr.indices))
            case _:
                parts = tuple(self._rewritten(p, loops, groups, shapes) for p in children(expr))
                return rebuild(expr, parts) if parts else expr

    def _within(self, index: Expr, loops: dict[str, int]) -> Expr:
        """A subscript as it is counted from the first iteration of the group."""
        form = linear(index)
        assert form is not None
        name = next((n for n in form[1] if n in loops), None)
        if name is None:
            return index
        if self.kinds[loops[name]] == "each":
            return integer(0)
        if self.kinds[loops[name]] in ("whole", "last"):
            return Iter(name)
        counter = self.counters[loops[name]]
        before = Binary("mul", integer(counter.group), Param(self.maker.count(counter), "i32"), "i32")
        here = from_linear((-counter.low, {name: 1}), (name,))
        return Binary("sub", here, before, "i32")
