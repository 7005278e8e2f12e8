"""Sums, least and greatest values along loops of unknown length, a vector of them side by side, joined after the loop.

Before: S[i, j] y[i] += a[i][j] * x[j] for 0 <= i < 8, 0 <= j < n
After:  whole = (n - 1) / 16
        S_begun[i, l] t[i][l] = 0                                      for 0 <= i < 8, 0 <= l < 16
        S_rest[i, l] t[i][l] += a[i][16 whole + l] * x[16 whole + l]  for 0 <= l < n - 16 whole
        S_whole[i, q, l] t[i][l] += a[i][16 q + l] * x[16 q + l]      for 0 <= q < whole
        S[i, l] y[i] += t[i][l]                                       for 0 <= i < 8, 0 <= l < 16

At least one iteration is left for the rest, so that nothing asks whether there is one: that would come between rows.
A loop over rows of known length can be pipelined then where the sums are joined, which is what takes longest, and each
is joined once. Statements are taken apart so whose elements lie side by side along that loop and no other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.analysis.dependence import memory_dependences, reduction_of
from plant_core.analysis.rectangular_hull import Boxes, NoBlocks, in_text
from plant_core.analysis.symbolic_offsets import iterators_of, with_starts
from plant_core.ir.accesses import (
    Linear,
    access_key,
    add,
    children,
    from_linear,
    integer,
    is_integer,
    linear,
    read_accesses,
    rebuild,
)
from plant_core.ir.func import Binary, BinaryOp, Buf, Comp, Expr, Func, Iter, Load, Param
from plant_core.ir.names import fresh
from plant_core.ir.quasi_affine import parameters_of
from plant_core.ir.time_2d1 import Line, Position, line_value, position, schedule_map
from plant_core.normalize.scalars.min_max_idioms import identity
from plant_core.strip_mine.trip_counts import count_of

_MOST_ROWS = 128
# What the loop over rows becomes: what is before the sum in it, the sums in vectors, these joined, and what is after.
_BEFORE, _WITHIN, _JOINED, _AFTER = range(4)
_PARTS = 4
_FOLDED = ("add", "min", "max")


def with_lane_sums(func: Func, lanes: int, *, reassoc: bool) -> Func:
    """`func` with such sums in vectors of `lanes` where that can be. Requires: 2d+1 schedules. Ensures: the same
    contents of every parameter, but for the order of additions."""
    if func.effects:
        return func
    for name in [c.name for c in func.comps]:
        comp = func.comp(name)
        found = _sum_of(func, comp) if reassoc or is_integer(comp.target.dtype) else None
        if found is not None and _may_part(func, found):
            func = _Apart(func, found, lanes).made()
    return func


@dataclass(frozen=True, slots=True)
class _Sum:
    """A statement that adds up along its innermost loop, from iteration `low` on: `extent` of them, in the parameters.
    `ranges`: the first and the last iteration of each loop round that. `outer`: how many of these stay round all that
    the statement becomes; the others go over rows, `rows` of each."""

    comp: Comp
    place: Position
    low: int
    extent: Linear
    ranges: tuple[tuple[int, int | Linear], ...]
    outer: int
    rows: tuple[int, ...]
    op: BinaryOp

    def part(self, place: Position) -> int | None:
        """Which of the parts of the loop over rows a statement is in; None where it isn't in that loop."""
        mine, shared = self.place, self.outer + 1
        if place.constants[:shared] != mine.constants[:shared] or len(place.loops) < shared:
            return None
        return _WITHIN if place.constants == mine.constants else _BEFORE if place.constants < mine.constants else _AFTER


def _sum_of(func: Func, comp: Comp) -> _Sum | None:
    place, reduction = position(comp), reduction_of(comp)
    if len(comp.iters) < 2 or comp.defines or reduction is None or reduction.op not in _FOLDED:
        return None
    if not isinstance(comp.value, Binary) or comp.value.dtype != comp.target.dtype or not _side_by_side(comp):
        return None
    boxes = Boxes(func.with_comps((comp,)), 1, known=())
    try:
        ranges = [boxes.range_of(comp, depth) for depth in range(len(comp.iters))]
        low, last = ranges.pop()
        if isinstance(last, int) or not boxes.is_box(comp) or place.loops[-1] != Line(0, ((comp.iters[-1], 1),)):
            return None
    except NoBlocks:
        return None
    rows: list[int] = []
    for first, end in reversed(ranges):
        if not isinstance(end, int) or math.prod(rows) * (end - first + 1) > _MOST_ROWS:
            break
        rows.insert(0, end - first + 1)
    extent, outer = (last[0] - low + 1, last[1]), len(ranges) - len(rows)
    op: BinaryOp = "add" if reduction.op == "add" else comp.value.op
    return _Sum(comp, place, low, extent, tuple(ranges), outer, tuple(rows), op) if rows else None


def _side_by_side(comp: Comp) -> bool:
    """Whether iterations of the innermost loop, and of no other, find what they read and write side by side or the
    same for all; and all that they write is one element."""
    key = access_key(comp.target)
    reads = [a for a in read_accesses(comp) if access_key(a) != key]
    inner = comp.iters[-1]
    if any(a.buf == comp.target.buf for a in reads) or any(_moves(i, inner) != 0 for i in comp.target.indices):
        return False
    along = [name for name in comp.iters if _are_neighbours(reads if name == inner else [*reads, comp.target], name)]
    return along == [inner]


def _are_neighbours(accesses: list[Load], name: str) -> bool:
    found = [[_moves(index, name) for index in access.indices] for access in accesses]
    apart = any(any(m != 0 for m in moves[:-1]) or moves[-1:] not in ([], [0], [1]) for moves in found)
    return not apart and any(moves[-1:] == [1] for moves in found)


def _moves(index: Expr, name: str) -> int | None:
    """By how much a subscript grows with an iterator; None where that is no constant."""
    rest, starts = with_starts(index)
    form = linear(rest)
    if form is None or any(name in iterators_of(start) for start in starts):
        return None
    return form[1].get(name, 0)


def _may_part(func: Func, found: _Sum) -> bool:
    """Whether what comes before the sum in its rows may be done for all rows first, and what comes after, last."""
    places = {c.name: position(c) for c in func.comps}
    parts = {name: found.part(place) for name, place in places.items()}
    for d in memory_dependences(func):
        source, sink = parts[d.source], parts[d.sink]
        if source is None or sink is None or source <= sink:
            continue
        rest = d.relation
        for first, second in zip(places[d.source].loops[: found.outer], places[d.sink].loops, strict=False):
            here, there = line_value(func.comp(d.source), first), line_value(func.comp(d.sink), second)
            rest = rest.intersect(here.eq_map(there))
        if not rest.is_empty():
            return False
    return True


class _Apart:
    """One statement taken apart."""

    def __init__(self, func: Func, found: _Sum, lanes: int) -> None:
        self.func, self.sum, self.comp, self.lanes = func, found, found.comp, lanes
        names = {*(b.name for b in func.bufs), *(p.name for p in func.params)}
        self.count, self.kept = fresh(f"{found.comp.name}_vectors", names), fresh(f"{found.comp.name}_sums", names)
        self.whole, self.lane = fresh("q", set(found.comp.iters)), fresh("l", set(found.comp.iters))

    def made(self) -> Func:
        comp, found = self.comp, self.sum
        buf = Buf(self.kept, comp.target.dtype, (*found.rows, self.lanes), "local", False, comp.loc)
        counts = Buf(self.count, "i32", (), "local", False, comp.loc)
        before_last = add(from_linear(found.extent, ()), integer(-1))
        count = count_of(before_last, self.lanes, self.count, comp.loc)
        placed: list[tuple[Comp, Position]] = [(count, Position((0,), ()))]
        for other in self.func.comps:
            place = position(other)
            part = found.part(place)
            placed += self._parts(buf) if other is comp else [(other, self._moved(place, part or _BEFORE))]
        length = max(2 * len(c.iters) + 1 for c, _ in placed)
        space = isl.Set(f"[{self.count}] -> {{ : }}").get_space()
        for c, _ in placed:
            space = space.align_params(c.domain.get_space().params())
        placed = [(replace(c, domain=c.domain.align_params(space)), p) for c, p in placed]
        comps = tuple(replace(c, schedule=schedule_map(c, p, length).intersect_domain(c.domain)) for c, p in placed)
        return replace(self.func, bufs=(*self.func.bufs, buf, counts), comps=comps)

    def _parts(self, buf: Buf) -> list[tuple[Comp, Position]]:
        """The sums set to zero, the whole vectors and the rest of them added, and all joined."""
        comp, found = self.comp, self.sum
        rows = zip(comp.iters[found.outer : -1], found.ranges[found.outer :], strict=True)
        at = tuple(from_linear((-low, {name: 1}), comp.iters) for name, (low, _) in rows)
        sums = Load(buf.name, (*at, Iter(self.lane)), buf.dtype)
        begun = identity(found.op, buf.dtype)
        joined = Binary(found.op, comp.target, sums, buf.dtype)
        first = add(Iter(self.lane), integer(found.low))
        number: tuple[Expr, ...] = (Iter(self.whole), Param(self.count, "i32"))
        one, beyond = (add(Binary("mul", integer(self.lanes), n, "i32"), first) for n in number)
        lane, extent = f"0 <= {self.lane} < {self.lanes}", in_text(found.extent)
        # Elements that sums of nothing would be added to need not be there.
        some = f"{lane} and {extent} > 0"
        vectors = f"0 <= {self.whole} < {self.count} and {lane}"
        # That they are a vector at most is nothing that sets of iterations could tell by themselves.
        rest = f"0 <= {self.lane} < {extent} - {self.lanes}*{self.count} and {self.lane} < {self.lanes}"
        return [
            self._comp("_begun", (self.lane,), lane, sums, begun, (_WITHIN, 0)),
            # The rest first: what tells its lanes is no longer there where the sums are joined.
            self._comp("_rest", (self.lane,), rest, sums, self._value(sums, beyond), (_WITHIN, 1)),
            self._comp("_whole", (self.whole, self.lane), vectors, sums, self._value(sums, one), (_WITHIN, 2)),
            self._comp("", (self.lane,), some, comp.target, joined, (_JOINED, 0)),
        ]

    def _value(self, sums: Load, along: Expr) -> Expr:
        """The statement's value where it adds to `sums`, its innermost iteration being `along`."""
        key, inner = access_key(self.comp.target), self.comp.iters[-1]

        def instead(expr: Expr) -> Expr:
            if isinstance(expr, Load) and access_key(expr) == key:
                return sums
            if isinstance(expr, Iter) and expr.name == inner:
                return along
            parts = tuple(instead(p) for p in children(expr))
            return rebuild(expr, parts) if parts else expr

        return instead(self.comp.value)

    def _comp(
        self, suffix: str, inner: tuple[str, ...], where: str, target: Load, value: Expr, at: tuple[int, int]
    ) -> tuple[Comp, Position]:
        """A statement in the loops round the sum and `inner` ones; `at`: in which part, and its place in the rows."""
        comp = self.comp
        outer = comp.iters[:-1]
        name, iters = comp.name + suffix, (*outer, *inner)
        space = comp.domain.get_space()
        params = parameters_of(space)
        around = [
            f"{low} <= {i} <= {last if isinstance(last, int) else in_text(last)}"
            for i, (low, last) in zip(outer, self.sum.ranges, strict=True)
        ]
        head = f"[{', '.join([*params, self.count])}] -> "
        domain = isl.Set(f"{head}{{ {name}[{', '.join(iters)}] : {' and '.join([*around, where])} }}")
        place = self._moved(self.sum.place, at[0])
        constants = (*place.constants[: len(outer)], at[1], *(0 for _ in inner))
        loops = (*place.loops[:-1], *(Line(0, ((i, 1),)) for i in inner))
        return Comp(name, iters, domain, comp.schedule, target, value, comp.loc, sure=comp.sure), Position(
            constants, loops
        )

    def _moved(self, place: Position, part: int) -> Position:
        """A place where there is one statement more before all, and room for the parts."""
        constants, depth = list(place.constants), self.sum.outer
        if place.constants[:depth] == self.sum.place.constants[:depth] and len(constants) > depth:
            constants[depth] = _PARTS * constants[depth] + part
        return Position((constants[0] + 1, *constants[1:]), place.loops)
