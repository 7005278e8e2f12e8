"""Copies of arrays that go on behind their ends, for subscripts that wrap round, stop at an end or turn back.

Before: for lag < 60, i < 60: y[lag] += a[i] * b[(i + lag) % 60];
After:  for t < 60: c[t] = b[t];  for t < 59: c[t + 60] = c[t];
        for lag < 60, i < 60: y[lag] += a[i] * c[i + lag];

Statements that are apart for such subscripts only become one:
Before: for j < 40, k < 5: if (j + k < 2) y[j] += b[0] * h[k]; if (2 <= j + k) y[j] += b[j + k - 2] * h[k];
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import islpy as isl

from plant_core.analysis.boundary_index import Fold, Stretch, alike, as_one, fold_of, longest, stretches
from plant_core.analysis.symbolic_values import KnownValues
from plant_core.ir.accesses import (
    Linear,
    access_key,
    accesses,
    all_bufs,
    children,
    domain_of,
    from_linear,
    linear,
    rebuild,
)
from plant_core.ir.c_semantics import size_of
from plant_core.ir.func import Buf, Comp, Expr, Func, Load
from plant_core.ir.time_2d1 import Line, Position, position, schedule_map
from plant_core.support.location import Loc

_REUSE = 4  # times that each element of a copy is read, at least
_MOST_NESTS = 9  # that make a copy


def unfolded(func: Func, most: int) -> Func | None:
    """`func` with such copies, of at most `most` bytes together; None where there is nothing to copy.

    Requires: 2d+1 schedules. Ensures: the same contents of every parameter.
    """
    if func.effects or any(c.defines for c in func.comps):
        return None
    maker = _Copies(func, most)
    joint = [found for group in _groups(func) for found in maker.wanted(group)]
    copies = maker.made()
    if not copies:
        return None
    return _Program(func, copies, [j for j in joint if all(slot.copy in copies for slot in j.slots)]).whole()


# --- what reads ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Copy:
    """A copy of an array, made before what reads it in the loop at a place; `folds` tell the array's subscripts by the
    copy's, in each dimension."""

    buf: Buf
    place: tuple[int, ...]
    folds: list[isl.Map]
    reads: int = 0
    name: str = ""
    parts: tuple[tuple[Stretch, ...], ...] = ()

    @property
    def lows(self) -> list[int]:
        return [p[0].low for p in self.parts]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(p[-1].high - p[0].low + 1 for p in self.parts)


@dataclass(frozen=True, slots=True)
class _Slot:
    """An access of the first statement of several, the copy to read instead, and where."""

    access: Load
    copy: _Copy
    lines: tuple[Linear, ...]


@dataclass(frozen=True, slots=True)
class _Joint:
    """Statements that become one."""

    comps: tuple[Comp, ...]
    slots: tuple[_Slot, ...]


def _groups(func: Func) -> Iterator[tuple[Comp, ...]]:
    """Statements one behind the other that differ in the subscripts of what they read only, each in iterations of its
    own."""
    group: list[Comp] = []
    for comp in sorted(func.comps, key=lambda c: position(c).constants):
        if group and not _alike(group, comp):
            yield tuple(group)
            group = []
        group.append(comp)
    if group:
        yield tuple(group)


def _alike(group: Sequence[Comp], comp: Comp) -> bool:
    first = group[0]
    one, other = position(first), position(comp)
    if one.constants[:-1] != other.constants[:-1] or one.loops != other.loops or first.iters != comp.iters:
        return False
    if access_key(first.target) != access_key(comp.target) or _bare(first.value) != _bare(comp.value):
        return False
    here = comp.domain.reset_tuple_id()
    return bool(comp.iters) and all(c.domain.reset_tuple_id().is_disjoint(here) for c in group)


def _bare(expr: Expr) -> Expr:
    """An expression without the subscripts of what it reads."""
    if isinstance(expr, Load):
        return Load(expr.buf, (), expr.dtype)
    parts = children(expr)
    return rebuild(expr, tuple(_bare(p) for p in parts)) if parts else expr


def _outermost(expr: Expr) -> Iterator[Load]:
    if isinstance(expr, Load):
        yield expr
        return
    for part in children(expr):
        yield from _outermost(part)


# --- what is copied -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Copies:
    func: Func
    most: int
    copies: list[_Copy] = field(default_factory=list)
    values: KnownValues = field(init=False)

    def __post_init__(self) -> None:
        self.values = KnownValues(self.func)

    def wanted(self, group: tuple[Comp, ...]) -> Iterator[_Joint]:
        """The statements as one that reads copies, where that can be; else each of them that can."""
        if len(group) > 1 and (joint := self._joint(group)) is not None:
            yield joint
            return
        for comp in group:
            if (joint := self._joint((comp,))) is not None:
                yield joint

    def _joint(self, comps: tuple[Comp, ...]) -> _Joint | None:
        apart = len(comps) > 1
        loads = [tuple(_outermost(c.value) if apart else accesses(c.value)) for c in comps]
        found: list[tuple[Load, tuple[int, ...], list[Fold]]] = []
        for slot in zip(*loads, strict=True):
            if apart and len({access_key(a) for a in slot}) == 1:
                continue
            folds, place = self._folds(comps, slot), self._place(comps, slot[0].buf)
            if folds is not None and place is not None:
                found.append((slot[0], place, folds))
            elif apart:
                return None
        if not found:
            return None
        runs = [sum(_runs(c, depth) for c in comps) for depth in range(len(comps[0].iters))]
        slots = []
        for access, place, folds in found:
            copy, lines = self._copy(all_bufs(self.func)[access.buf], place, folds)
            copy.reads += runs[max(len(place) - 1, 0)]
            slots.append(_Slot(access, copy, lines))
        return _Joint(comps, tuple(slots))

    def _folds(self, comps: Sequence[Comp], slot: Sequence[Load]) -> list[Fold] | None:
        """How the subscripts of one access fold an array; None where they don't, or in a way that isn't known."""
        shape = all_bufs(self.func)[slot[0].buf].shape
        if not shape or not all(isinstance(n, int) for n in shape):
            return None
        if len(slot) == 1 and all(linear(i) is not None for i in slot[0].indices):
            return None
        found = []
        for number in range(len(shape)):
            values = [self.values.of(a.indices[number], c) for a, c in zip(slot, comps, strict=True)]
            known = [v for v in values if v is not None]
            fold = fold_of(comps[0], known) if len(known) == len(values) else None
            if fold is None:
                return None
            found.append(fold)
        return found

    def _place(self, comps: Sequence[Comp], buf: str) -> tuple[int, ...] | None:
        """The outermost loop in which nothing writes an array: () is the function."""
        writers = [position(c).constants for c in self.func.comps if c.target.buf == buf]
        place = position(comps[0]).constants
        if not writers:
            return ()
        for depth in range(1, len(place)):
            if all(w[:depth] != place[:depth] for w in writers):
                return place[:depth]
        return None

    def _copy(self, buf: Buf, place: tuple[int, ...], folds: Sequence[Fold]) -> tuple[_Copy, tuple[Linear, ...]]:
        """The copy that has these elements, too, and where in it they are."""
        ways = [alike(f, n) for f, n in zip(folds, buf.extents, strict=True)]
        for copy in self.copies:
            if copy.buf is buf and copy.place == place:
                both = [as_one(m, some) for m, some in zip(copy.folds, ways, strict=True)]
                found = [fold for fold in both if fold is not None]
                if len(found) == len(both):
                    copy.folds = [fold.relation for fold in found]
                    return copy, tuple(fold.line for fold in found)
        self.copies.append(_Copy(buf, place, [some[0].relation for some in ways]))
        return self.copies[-1], tuple(some[0].line for some in ways)

    def made(self) -> list[_Copy]:
        """The copies that are worth while, as far as there is room."""
        taken = {*all_bufs(self.func), *(p.name for p in self.func.params), *(c.name for c in self.func.comps)}
        found: list[_Copy] = []
        room = self.most
        for copy in self.copies:
            parts = [stretches(m, n) for m, n in zip(copy.folds, copy.buf.extents, strict=True)]
            if None in parts or all(len(p) == 1 for p in parts if p is not None):
                continue
            copy.parts = tuple(p for p in parts if p is not None)
            size = prod(copy.shape)
            if copy.reads < _REUSE * size or size * size_of(copy.buf.dtype) > room:
                continue
            if sum(1 for _ in _nests(copy)) > _MOST_NESTS:
                continue
            room -= size * size_of(copy.buf.dtype)
            copy.name = next(n for k in itertools.count() if (n := f"{copy.buf.name}_on{k or ''}") not in taken)
            taken.add(copy.name)
            found.append(copy)
        return found


def _runs(comp: Comp, depth: int) -> int:
    """How often a statement runs in one iteration of so many loops, at most; 0 where that is not known."""
    runs = 1
    for k in range(depth, len(comp.iters)):
        low, high = comp.domain.dim_min_val(k), comp.domain.dim_max_val(k)
        if not (low.is_int() and high.is_int()):
            return 0
        runs *= max(high.to_python() - low.to_python() + 1, 0)
    return runs


# --- the program --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Program:
    func: Func
    copies: list[_Copy]
    joint: list[_Joint]

    def whole(self) -> Func:
        gone = {c.name for j in self.joint for c in j.comps[1:]}
        instead = {j.comps[0].name: j for j in self.joint}
        comps = [_read(c, instead.get(c.name)) for c in self.func.comps if c.name not in gone]
        nests = [list(_nests(copy)) for copy in self.copies]
        spread = 1 + sum(map(len, nests))
        length = max(2 * len(c.iters) + 1 for c in comps)
        length = max(length, *(2 * (max(len(c.place) - 1, 0) + len(c.shape)) + 1 for c in self.copies))
        length = max(length, *(c.schedule.dim(isl.dim_type.out) for c in comps))
        moved = []
        for comp in comps:
            place = position(comp)
            later = tuple(spread * c + spread - 1 for c in place.constants)
            moved.append(_timed(comp, Position(later, place.loops), length))
        made: list[Comp] = []
        for copy, found in zip(self.copies, nests, strict=True):
            readers = [j.comps[0] for j in self.joint if any(s.copy is copy for s in j.slots)]
            around = _around(copy, readers, spread)
            made += [around.comp(f"{copy.name}_{k}", len(made) + k, nest, length) for k, nest in enumerate(found)]
        order = {c.name: position(c).constants for c in (*made, *moved)}
        whole = sorted((*made, *moved), key=lambda c: order[c.name])
        bufs = tuple(Buf(c.name, c.buf.dtype, c.shape, "local", loc=c.buf.loc) for c in self.copies)
        return replace(self.func, comps=tuple(whole), bufs=(*self.func.bufs, *bufs))


def _read(comp: Comp, joint: _Joint | None) -> Comp:
    """A statement that reads copies, in the iterations of all that it stands for."""
    if joint is None:
        return comp
    instead = {s.access: _element(s, comp.iters) for s in joint.slots}
    domain = domain_of(comp)
    for other in joint.comps[1:]:
        domain = domain.union(other.domain.set_tuple_name(comp.name))
    return replace(comp, value=_exchanged(comp.value, instead), domain=domain.coalesce())


def _element(slot: _Slot, iters: tuple[str, ...]) -> Load:
    moved = [(c - low, terms) for (c, terms), low in zip(slot.lines, slot.copy.lows, strict=True)]
    return replace(slot.access, buf=slot.copy.name, indices=tuple(from_linear(m, iters) for m in moved))


def _exchanged(expr: Expr, instead: Mapping[Load, Load]) -> Expr:
    if isinstance(expr, Load) and expr in instead:
        return instead[expr]
    parts = children(expr)
    return rebuild(expr, tuple(_exchanged(part, instead) for part in parts)) if parts else expr


def _timed(comp: Comp, place: Position, length: int) -> Comp:
    # Not on the domain alone, where isl would tell the place of a loop of one iteration by a constant.
    return replace(comp, schedule=schedule_map(comp, place, length))


# --- nests that copy ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Nest:
    """`to[t + places] = of[steps * t + starts]`, for `t` below the counts in each dimension."""

    to: str
    of: str
    array: Buf
    counts: tuple[int, ...]
    places: tuple[int, ...]
    starts: tuple[tuple[int, int], ...]  # with the steps


def _nests(copy: _Copy) -> Iterator[_Nest]:
    """First what is as it is in the array, then from this what lies behind its ends, dimension by dimension."""
    main = [longest(parts) for parts in copy.parts]
    base = [parts if k is None else (parts[k],) for k, parts in zip(main, copy.parts, strict=True)]
    for box in itertools.product(*base):
        yield _nest(copy, copy.buf.name, [(p.low, p.high, p.first, p.slope) for p in box])
    for number in reversed(range(len(base))):
        if (own := main[number]) is None:
            continue
        whole = copy.parts[number][own]
        after = [(p[0].low, p[-1].high, 0, 1) for p in copy.parts[number + 1 :]]
        after = [
            (low, high, low - start, 1) for (low, high, _, _), start in zip(after, copy.lows[number + 1 :], strict=True)
        ]
        for before in itertools.product(*base[:number]):
            outer = [(p.low, p.high, p.low - low, 1) for p, low in zip(before, copy.lows, strict=False)]
            for part in (p for k, p in enumerate(copy.parts[number]) if k != own):
                # The place in the longest piece at which that has the same subscript.
                first = whole.low + (part.first - whole.first) * whole.slope - copy.lows[number]
                along = (part.low, part.high, first, part.slope * whole.slope)
                yield _nest(copy, copy.name, [*outer, along, *after])


def _nest(copy: _Copy, of: str, box: Sequence[tuple[int, int, int, int]]) -> _Nest:
    counts = tuple(high - low + 1 for low, high, _, _ in box)
    places = tuple(low - start for (low, *_), start in zip(box, copy.lows, strict=True))
    return _Nest(copy.name, of, copy.buf, counts, places, tuple((first, slope) for *_, first, slope in box))


@dataclass(frozen=True, slots=True)
class _Around:
    """The loops that a copy is made in."""

    iters: tuple[str, ...]
    domain: isl.Set
    lines: tuple[Line, ...]
    constants: tuple[int, ...]
    first: int
    loc: Loc

    def comp(self, name: str, number: int, nest: _Nest, length: int) -> Comp:
        own = tuple(f"t{k}" for k in range(len(nest.counts)))
        while set(own) & set(self.iters):
            own = tuple(f"{n}_" for n in own)
        bounds = " and ".join(f"0 <= {n} < {count}" for n, count in zip(own, nest.counts, strict=True))
        inner = isl.Set(f"{{ [{', '.join(own)}] : {bounds} }}")
        domain = self.domain.flat_product(inner.align_params(self.domain.get_space())).set_tuple_name(name)
        dtype, loc = nest.array.dtype, self.loc
        target = [from_linear((p, {n: 1}), own) for n, p in zip(own, nest.places, strict=True)]
        source = [from_linear((p, {n: s} if s else {}), own) for n, (p, s) in zip(own, nest.starts, strict=True)]
        comp = Comp(
            name,
            (*self.iters, *own),
            domain,
            isl.Map("{ [] -> [] }"),
            Load(nest.to, tuple(target), dtype, loc),
            Load(nest.of, tuple(source), dtype, loc),
            loc,
        )
        constants = (*self.constants, self.first + number, *(0 for _ in own))
        return _timed(comp, Position(constants, (*self.lines, *(Line(0, ((n, 1),)) for n in own))), length)


def _around(copy: _Copy, readers: Sequence[Comp], spread: int) -> _Around:
    depth = max(len(copy.place) - 1, 0)
    first = min(readers, key=lambda c: position(c).constants)
    place = position(first)
    domains = [c.domain.reset_tuple_id().project_out(isl.dim_type.set, depth, len(c.iters) - depth) for c in readers]
    domain = domains[0]
    for other in domains[1:]:
        domain = domain.union(other)
    constants = tuple(spread * c + spread - 1 for c in place.constants[:depth])
    iters = first.iters[:depth]
    return _Around(iters, domain.coalesce(), place.loops[:depth], constants, spread * place.constants[depth], first.loc)
