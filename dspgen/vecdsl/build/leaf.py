"""One leaf of the loop tree as stores: each point of its box, each vector of points, is one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from dspgen.errors import NoSchedule, Problem
from dspgen.vecdsl.build.affine_forms import add, affine, integer_term, scale
from dspgen.vecdsl.build.expressions import Translator, dtype_of, lift, stored
from dspgen.vecdsl.build.guards import any_holds, conditional, given, guards_of, holds
from dspgen.vecdsl.build.lanes import WORDS, Lanes, Pattern, both
from dspgen.vecdsl.build.loop_bounds import Scope
from dspgen.vecdsl.build.reduction_tiles import (
    accesses,
    across_lanes,
    check,
    combined,
    identity,
    partial_value,
    reduced_iterators,
    same_element,
)
from dspgen.vecdsl.build.scans import Part, Scan
from dspgen.vecdsl.build.subscripts import Located, Subscripts
from dspgen.vecdsl.ir.constant_folding import make
from dspgen.vecdsl.ir.program import Address, ArrayDecl, Elem, Let, Load, Loop, Op, Stmt, Store, Term, VType
from dspgen.vecdsl.ir.terms import (
    INTEGER,
    SCALAR_STRIDE,
    Names,
    address_term,
    as_vector,
    integer,
    leaves,
    register_elem,
)
from plant_core.analysis.linear_recurrences import Recurrence, recurrence_of
from plant_core.analysis.symbolic_offsets import iterators_of
from plant_core.ir.func import Buf, Comp, Expr
from plant_core.ir.func import Load as MemoryLoad
from plant_core.ir.loop_tree import Leaf, vectors_of


@dataclass(frozen=True, slots=True)
class Partial:
    """Statements around the loop that hosts a leaf's partial sums, and the array that these live in."""

    before: tuple[Stmt, ...]
    after: tuple[Store, ...]
    array: ArrayDecl


class LeafBuilder:
    """One leaf: its origin, its accesses flattened there, and the points of its box."""

    def __init__(self, leaf: Leaf, scope: Scope, buffers: Mapping[str, Buf], names: Names, lanes: int) -> None:
        self.lanes = lanes
        self.names = names
        self.buffers = buffers
        self.comp: Comp = leaf.comp
        self.tile = leaf.tile
        self.leaf = leaf
        self.ranges = scope.ranges
        self.opened = list[tuple[str, Term]]()
        self.origin = {name: self._named(expr, scope) for name, expr in zip(leaf.comp.iters, leaf.origin, strict=True)}
        self.spans = dict(zip(leaf.comp.iters, leaf.tile.spans, strict=True))
        self.period = 1 if leaf.tile.inner is None else self.spans[leaf.tile.inner]
        if lanes % self.period or (self.period > 1 and (leaf.tile.flip or leaf.count is not None)):
            raise self.refuse(f"{self.period} iterations of '{leaf.tile.inner}' can't share {lanes} lanes")
        self.present = None if leaf.count is None else self._count(leaf.count, scope)
        self.subscripts = Subscripts(buffers, leaf.comp.iters, scope.ranges)
        if leaf.guards and (self.tile.flip or self.period > 1 or self.tile.deal > 1):
            raise self.refuse("a box with holes has lanes that run down, take turns, or are of two loops")
        lane = leaf.tile.lane
        self.across = {} if lane is None else vectors_of(self.spans[lane], lanes // self.period, leaf.tile.deal)
        self.guards = guards_of(leaf.comp)
        self.kept = None if leaf.tile.scan else conditional(leaf.comp)

    def _named(self, expr: Expr, scope: Scope) -> Address:
        """An origin with a quotient in it gets a name: that of the iterator of a loop of one iteration."""
        form = affine(expr, scope.iterators, scope.ranges)
        if form is not None:
            return form
        name = self.names.fresh("at")
        self.opened.append((name, integer_term(expr, scope.iterators, scope.ranges, self.comp.loc)))
        return Address(0, ((name, 1),))

    def _count(self, count: Expr, scope: Scope) -> tuple[Term, Address] | None:
        """How many iterations of the row are there at run time; None where that is all of them."""
        span = self.spans[self.tile.lane] if self.tile.lane is not None else 1
        if span > self.lanes:
            raise self.refuse("a row that may be cut short is longer than a vector")
        term = integer_term(count, scope.iterators, scope.ranges, self.comp.loc)
        low, _ = scope.ranges.interval(term)
        if low is not None and low >= span:
            return None
        return term, self._named(count, scope) if self.tile.flip else Address(0)

    def runs(self, offset: dict[str, int]) -> tuple[Term, ...] | None:
        """The lanes that run of one vector of the box, as masks of which all must hold; None where none runs."""
        masks = list[Term]()
        for here, there, step in self._limits(offset):
            low, high = (here, there) if step >= 0 else (there, here)
            least, most = self.ranges.minimum(low), self.ranges.maximum(high)
            if least is not None and least >= 0:
                continue
            if most is not None and most < 0:
                return None
            masks.append(_at_least_zero(here, step))
        return tuple(dict.fromkeys(masks))

    def _limits(self, offset: dict[str, int]) -> Iterator[tuple[Address, Address, int]]:
        """Yield each guard's value on the first and on the last lane of a vector, and its step from lane to lane."""
        lane, last = self.tile.lane, self._last_lane(offset)
        first = {n: self.origin[n].plus(o) for n, o in offset.items()}
        second = first if lane is None else {**first, lane: first[lane].plus(1)}
        for guard in self.leaf.guards:
            here, next_ = (affine(guard, place, self.ranges) for place in (first, second))
            if here is None or next_ is None:
                raise self.refuse("what limits a box is not affine")
            step = next_.constant - here.constant
            yield here, here.plus(step * last), step

    def _last_lane(self, offset: dict[str, int]) -> int:
        lane = self.tile.lane
        return 0 if lane is None else min(self.spans[lane] - offset[lane], self.lanes) - 1

    def _surely_runs(self, offset: dict[str, int]) -> int | None:
        """Return a lane of a vector that runs whenever the box does: the first one or the last one; None for none."""
        values = [(here, there) for here, there, _ in self._limits(offset)]
        ends = ([here for here, _ in values], [there for _, there in values])
        for lane, forms in zip((0, self._last_lane(offset)), ends, strict=True):
            least = [self.ranges.minimum(form) for form in forms]
            if all(x is not None and x >= 0 for x in least):
                return lane
        return None

    def around(self, stmts: list[Stmt]) -> list[Stmt]:
        """The statements below the loops that name origins."""
        for name, value in reversed(self.opened):
            stmts = [Loop(name, value, integer(1), 1, (), tuple(stmts), 1, 1)]
        return stmts

    def refuse(self, message: str) -> NoSchedule:
        return NoSchedule(Problem("DG332", message, self.comp.loc))

    def offsets(self) -> list[dict[str, int]]:
        """The points of the box, last iterator fastest; what lies across lanes in whole vectors."""
        ranges: dict[str, Iterable[int]] = {n: range(span) for n, span in self.spans.items()}
        if self.tile.inner is not None:
            ranges[self.tile.inner] = range(0, self.period, self.period)
        if self.tile.lane is not None:
            ranges[self.tile.lane] = self.across
        found = [dict(zip(self.comp.iters, point, strict=True)) for point in itertools.product(*ranges.values())]
        return [o for o in found if self.runs(o) is not None] if self.leaf.guards else found

    def vector(self, offset: dict[str, int]) -> Lanes:
        first = {n: self.origin[n].plus(o) for n, o in offset.items()}
        lane = self.tile.lane
        if lane is None:
            return Lanes(self.lanes, first)
        running = self.across[offset[lane]] * self.period
        active = running if running < self.lanes else None
        present = None if self.present is None else self.present[0]
        if self.tile.flip:
            last = Address((active or self.lanes) - 1) if self.present is None else self.present[1].plus(-1)
            first[lane] = add(first[lane], last)
        direction = -1 if self.tile.flip else self.tile.deal
        limit = both([as_vector(m) for m in self.runs(offset) or ()]) if self.leaf.guards else None
        certain = None if limit is None else self._surely_runs(offset)
        return Lanes(self.lanes, first, lane, self.tile.inner, self.period, direction, active, present, limit, certain)

    def stores(self) -> list[Stmt]:
        if not self.tile.scan:
            return [self.store(self.vector(offset)) for offset in self.offsets()]
        recurrence, scan = self.scan()
        offsets = self.offsets()
        if recurrence.distance < 0:
            offsets.sort(key=lambda o: [-v if n == self.tile.lane else v for n, v in o.items()])
        read = [a.buf for part in (recurrence.factor, recurrence.term) if part is not None for a in accesses(part)]
        # Vectors that may read what former ones wrote come one by one.
        together = [[o] for o in offsets] if self.comp.target.buf in read else [offsets]
        found = list[Stmt]()
        for group in together:
            prefixes = scan.prefixes([self.part(recurrence, scan, self.vector(o)) for o in group], found)
            for offset, prefix in zip(group, prefixes, strict=True):
                carry = scan.named(self.carried(recurrence, offset), found)
                found.append(self.store(self.vector(offset), scan.value(prefix, carry)))
        return found

    def scan(self) -> tuple[Recurrence, Scan]:
        """The statement as a recurrence along its lanes."""
        lane = self.tile.lane
        recurrence = None if lane is None else recurrence_of(self.comp, lane)
        if recurrence is None:
            raise self.refuse("this statement is no recurrence along its lanes")
        far, down = abs(recurrence.distance), recurrence.distance < 0
        if far >= self.lanes or self.lanes % far or (self.tile.flip and (far > 1 or down)):
            raise self.refuse(f"a recurrence over {far} iterations can't be scanned on {self.lanes} lanes")
        dtype = self.buffers[self.comp.target.buf].dtype
        return recurrence, Scan(recurrence.family, dtype, far, self.lanes, down or self.tile.flip, self.names)

    def part(self, recurrence: Recurrence, scan: Scan, lanes: Lanes) -> Part:
        """One vector's factor and term; neutral ones on lanes that don't run and come before others."""
        translator = _Point(self, lanes).translator()
        factor, term = (None if p is None else translator.value(p) for p in (recurrence.factor, recurrence.term))
        running = lanes.mask() if scan.falling else None
        if running is None:
            return Part(factor, term)
        one, zero = (identity(f, scan.dtype) for f in ("mul", "add" if scan.family == "linear" else scan.family))
        kept = [
            None if p is None else lift("select", (running, p, n), scan.dtype) for p, n in ((factor, one), (term, zero))
        ]
        return Part(*kept)

    def carried(self, recurrence: Recurrence, offset: dict[str, int]) -> Term:
        """The elements that a vector's first iterations continue, over and over on its lanes."""
        access, lane = recurrence.access, self.tile.lane
        first = {n: self.origin[n].plus(o) for n, o in offset.items()}
        point = _Point(self, self.vector(offset))
        if recurrence.distance < 0 and lane is not None:
            if self.present is not None:
                raise self.refuse("a recurrence that runs down may not be cut short")
            last = point.lanes.running
            if last % -recurrence.distance:
                raise self.refuse(f"{last} iterations of a recurrence over {-recurrence.distance} have no simple place")
            first[lane] = first[lane].plus(last - 1)
        if abs(recurrence.distance) == 1:
            return _Point(self, Lanes(self.lanes, first)).read(access)
        located = point.locate(access)
        stride, far = located.pattern.stride, abs(recurrence.distance)
        if recurrence.distance < 0:
            located = replace(located, address=located.address.plus(stride * (point.lanes.running - far)))
        near = replace(located, pattern=Pattern(stride, far))
        known = access not in self.guards or near.inside(size_of(self.buffers[access.buf]), point.lanes, self.ranges)
        if located.index is not None or located.pattern.period or not known:
            raise self.refuse(f"what '{access.buf}' held {far} iterations ago has no simple place")
        return replace(point.load(access, near), mask=None)

    def definition(self, name: str) -> Let:
        """What the statement has just stored, as the parameter that it defines."""
        target = self.comp.target
        elem = self.buffers[target.buf].dtype
        if target.indices or register_elem(elem) != "i32":
            raise self.refuse(f"'{name}' is no int")
        return Let(name, Load(target.buf, Address(0), SCALAR_STRIDE, elem, INTEGER))

    def store(self, lanes: Lanes, value: Term | None = None) -> Store:
        """One vector's assignment. One that may keep the old value is masked where its elements may be outside, or may
        be each other's."""
        target, vector = self.comp.target, lanes.outer is not None
        point = _Point(self, lanes)
        located = point.locate(target)
        masks = [lanes.limit] if lanes.present is None else [lanes.mask()]
        expr = self.comp.value
        meeting = vector and (located.uniform or located.pattern.period > 0)
        inside = located.inside(size_of(self.buffers[target.buf]), lanes, self.ranges)
        if self.kept is not None and (meeting or not inside):
            guard, expr = self.kept
            masks.append(point.translator().value(holds(guard)))
            target = replace(target, indices=tuple(given(index, guard) for index in target.indices))
            located = point.locate(target)
        value = point.value(expr) if value is None else value
        mask = both([m for m in masks if m is not None])
        if vector and located.uniform:
            # Of the lanes, which are in the order of the iterations, the last one's value stays.
            if lanes.direction < 0:
                raise self.refuse(f"all lanes write the same element of '{target.buf}', the first one last")
            if mask is None:
                if value.type.vector:
                    value = Op("lane", (value,), VType(value.type.elem, False), (lanes.running - 1,))
                return self._store(located, value, None, None)
        if vector:
            value, mask = as_vector(value), None if mask is None else as_vector(mask)
        return self._store(located, value, lanes.active, mask)

    def _store(self, located: Located, value: Term, active: int | None, mask: Term | None) -> Store:
        target, vector = self.comp.target, value.type.vector
        elem = self.buffers[target.buf].dtype
        stride = located.pattern.stride if vector else SCALAR_STRIDE
        store = Store(target.buf, located.address, stride, elem, value, active, self.comp.loc)
        index = located.index if located.index is None or not vector else as_vector(located.index)
        return replace(store, period=located.pattern.period, jump=located.pattern.jump, index=index, mask=mask)

    def accumulate(self) -> tuple[list[Stmt], Partial]:
        """The stores to partial sums, and what comes before and after the loop around them."""
        family = check(self.leaf)
        reduced = set(reduced_iterators(self.leaf))
        target, vector = self.comp.target, self.tile.lane is not None
        opened = {name for name, _ in self.opened}
        for name in {n for index in target.indices for n in iterators_of(index)}:
            if opened & {term for term, _ in self.origin[name].terms}:
                raise self.refuse("the origin of a partial sum's tile is not affine")
        if self.present is not None and not self.tile.reduce:
            raise self.refuse("a row that may be cut short has partial sums")
        dtype = self.buffers[target.buf].dtype
        type = VType(register_elem(dtype), vector)
        array = self.names.fresh(f"{target.buf}_part")
        width = self.lanes if vector else 1
        groups = dict[tuple[int, ...], list[tuple[Load, Lanes]]]()
        before, stores = list[Stmt](), list[Stmt]()
        start = identity(family, dtype)
        for number, offset in enumerate(self.offsets()):
            cell = Load(array, Address(number * width), SCALAR_STRIDE, type.elem, type)
            lanes = self.vector(offset)
            value = partial_value(family, _Point(self, lanes, cell).value(self.comp.value), dtype)
            if vector:
                value = as_vector(value)
            if (mask := lanes.mask() if self.tile.reduce else lanes.limit) is not None:
                value = Op("select", (mask, value, cell), type)
            first = as_vector(start) if vector else start
            before.append(Store(array, cell.address, SCALAR_STRIDE, type.elem, first, None, self.comp.loc))
            stores.append(Store(array, cell.address, SCALAR_STRIDE, type.elem, value, None, self.comp.loc))
            group = tuple(0 if n in reduced else o for n, o in offset.items())
            groups.setdefault(group, []).append((cell, lanes))
        declared = ArrayDecl(array, type.elem, len(stores) * width, True)
        after = tuple(self._combined(family, [c for c, _ in g], g[0][1]) for g in groups.values())
        return stores, Partial(tuple(before), after, declared)

    def _combined(self, family: str, cells: list[Load], lanes: Lanes) -> Store:
        """The target updated by the partial sums of one of its elements (one vector of them)."""
        target = self.comp.target
        dtype = self.buffers[target.buf].dtype
        level: list[Term] = list(cells)
        while len(level) > 1:
            pairs = [combined(family, a, b, dtype) for a, b in zip(level[::2], level[1::2], strict=False)]
            level = pairs + level[len(level) - len(level) % 2 :]
        total = level[0]
        if self.tile.reduce:
            total = across_lanes(family, total, dtype)
            lanes = Lanes(self.lanes, lanes.first)
        point = _Point(self, lanes)
        located = point.locate(target)
        if located.index is not None and any(isinstance(x, Load) for x in leaves(located.index)):
            raise self.refuse(f"the element of '{target.buf}' that is summed up depends on what an array holds")
        vector = total.type.vector
        if vector and located.uniform:
            raise self.refuse(f"all lanes write the same element of '{target.buf}'")
        value = stored(combined(family, point.load(target, located), total, dtype), dtype)
        return self._store(located, value, lanes.active if vector else None, None)


@dataclass(frozen=True, slots=True)
class _Point:
    """One vector of a leaf (one point, without lanes); `partial` stands for the target's old value. Loads have guards
    of lower numbers than `before`."""

    leaf: LeafBuilder
    lanes: Lanes
    partial: Load | None = None
    before: float = math.inf

    def translator(self) -> Translator:
        first, values = self.lanes.first, self.lanes.values()
        return Translator(first, values, self.read, self.leaf.ranges, self.leaf.comp.loc)

    def value(self, expr: Expr) -> Term:
        """The statement's value, or a part of it, as the target holds it."""
        translator = self.translator()
        dtype = self.leaf.buffers[self.leaf.comp.target.buf].dtype
        value = translator.cast(translator.value(expr), dtype_of(expr), dtype)
        return stored(value, dtype) if self.partial is None else value

    def read(self, access: MemoryLoad) -> Term:
        if self.partial is not None and same_element(access, self.leaf.comp.target):
            return self.partial
        return self.load(access, self.locate(access))

    def locate(self, access: MemoryLoad) -> Located:
        return self.leaf.subscripts.locate(access, self.lanes, self.translator().value)

    def load(self, access: MemoryLoad, located: Located) -> Load:
        buf = self.leaf.buffers[access.buf]
        elem: Elem = buf.dtype
        vector = not located.uniform
        type = VType(register_elem(elem), vector)
        mask = self._mask(access, located, vector)
        if not vector:
            return Load(access.buf, located.address, SCALAR_STRIDE, elem, type, index=located.index, mask=mask)
        index = None if located.index is None else as_vector(located.index)
        shape = located.pattern
        return Load(access.buf, located.address, shape.stride, elem, type, shape.period, shape.jump, index, mask)

    def _mask(self, access: MemoryLoad, located: Located, vector: bool) -> Term | None:
        """Where the access may be made: C leaves it out, or its lanes that don't run have no place."""
        masks = list[Term]()
        size = size_of(self.leaf.buffers[access.buf])
        rows = self.lanes.mask() if vector and not located.near(size, self.lanes, self.leaf.ranges) else None
        if rows is not None:
            masks.append(rows)
        limit = self.lanes.limit
        doubtful = self.lanes.certain is None and not vector
        if limit is not None and doubtful and not located.inside(size, self.lanes, self.leaf.ranges):
            masks.append(Op("reduce_or", (limit,), INTEGER) if limit.type.vector else limit)
        numbers = self.leaf.guards.get(access, {})
        guards = tuple(guard for guard, number in numbers.items() if number < self.before)
        if guards and not located.inside(size, self.lanes, self.leaf.ranges):
            inner = replace(self, before=max(numbers[guard] for guard in guards))
            masks.append(inner.translator().value(any_holds(guards)))
        mask = both(masks)
        if mask is None or mask.type.vector == vector:
            return mask
        if vector:
            return as_vector(mask)
        # One element for all lanes is read if any of them wants it.
        running = self.lanes.mask()
        return Op("reduce_or", (mask if running is None else both([mask, running]) or mask,), INTEGER)


def _at_least_zero(here: Address, step: int) -> Term:
    """A mask, not 0 where `here` plus `step` times the lane's number is no less than 0: its sign, or that of how far it
    is from there."""
    if step == 0:
        return Op("shr", (address_term(scale(here.plus(1), -1)), integer(31)), INTEGER)
    numbers: Term = Op("iota", (), WORDS)
    if abs(step) > 1:
        numbers = Op("mul", (numbers, as_vector(integer(abs(step)))), WORDS)
    if step < 0:
        beyond = make("sub", (numbers, as_vector(address_term(here.plus(1)))), WORDS)
        return Op("shr", (beyond, as_vector(integer(31))), WORDS)
    below = make("add", (numbers, as_vector(address_term(here))), WORDS)
    return Op("add", (Op("shr", (below, as_vector(integer(31))), WORDS), as_vector(integer(1))), WORDS)


def size_of(buf: Buf) -> int:
    """An array's elements."""
    size = 1
    for extent in buf.extents:
        size *= extent
    return size
