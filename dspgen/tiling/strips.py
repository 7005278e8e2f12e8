"""Nests whose rows differ in length, in strips of rows: what all rows of a strip have apart from what is ragged.

Before: for i < 512: for k < 512 - i: r[i] += x[k] * x[k + i];
After, in strips of 64 rows whose common part is unrolled 32 times:
for t < 8:
  for m < 14 - 2t, u < 32, i < 64: r[64t + i] += ...;                               k is 32m + u
  for d < 16, b < 4, i < 64: if (i + 16b + d < 64) r[64t + i] += ...;               k is 448 - 64t + 16b + d

The ragged part is the same for all strips, and one row of it is whole, so that it has as many as the strip.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.affine import children, from_linear, linear, rebuild, substitute
from plant_core.ir import Cast, Comp, Expr, Func, Iter, Load
from plant_core.schedule import Line, Position, position, schedule_map
from plant_core.values import dtype_of

Form = tuple[int, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Ragged:
    """A statement's loop whose rows differ in length along an outer loop that all statements of its nest share.

    The loop's iterations are `low` to `high`, forms of the loops around it; one of these, by `upper` the latter, has
    `slope` times the outer iterator, which runs from `first` to `last`.
    """

    comp: Comp
    rows: str
    along: str
    first: int
    last: int
    low: Form
    high: Form
    slope: int
    upper: bool


@dataclass(frozen=True, slots=True)
class Strips:
    """`height` rows in a strip; what they have in common is in blocks of `block` iterations, and the ragged part in
    `digits` runs."""

    height: int
    block: int
    digits: int


@dataclass(frozen=True, slots=True)
class Part:
    """A statement of the function in strips: what it was, what part of it this is, and its iterators: `strip`, `row`,
    and of the ragged loop `outer` and `inner`, empty where there is none."""

    comp: Comp
    source: str
    kind: str  # "common", "left" over by its blocks, "ragged", "other" statements, or "rows" outside of strips
    strip: str = ""
    row: str = ""
    outer: str = ""
    inner: str = ""


def ragged_loops(comps: Sequence[Comp]) -> Iterable[Ragged]:
    """Of each statement the loops with rows that differ along a loop which all the statements share."""
    places = [position(c) for c in comps]
    for depth in range(min(len(c.iters) for c in comps)):
        if len({p.constants[: depth + 1] for p in places}) > 1:
            return
        for comp in comps:
            for along in range(depth + 1, len(comp.iters)):
                if (found := _ragged(comp, depth, along)) is not None:
                    yield found


def _ragged(comp: Comp, depth: int, along: int) -> Ragged | None:
    place = position(comp)
    if any(place.loops[k] != Line(0, ((comp.iters[k], 1),)) for k in (depth, along)):
        return None
    constraints = _constraints(comp.domain)
    if constraints is None:
        return None
    lows: list[Form] = []
    highs: list[Form] = []
    for constraint in constraints:
        here = _coefficient(constraint, along)
        if here == 0:
            if _coefficient(constraint, depth) and _involved(constraint) != {depth}:
                return None
            continue
        if abs(here) != 1 or constraint.is_equality() or any(k > along for k in _involved(constraint)):
            return None
        (lows if here > 0 else highs).append(_bound(comp, constraint, along))
    rows, least, most = comp.iters[depth], comp.domain.dim_min_val(depth), comp.domain.dim_max_val(depth)
    if len(lows) != 1 or len(highs) != 1 or not (least.is_int() and most.is_int()):
        return None
    slopes = lows[0][1].get(rows, 0), highs[0][1].get(rows, 0)
    if (slopes[0] == 0) == (slopes[1] == 0):
        return None
    upper = slopes[1] != 0
    return Ragged(
        comp, rows, comp.iters[along], least.to_python(), most.to_python(), lows[0], highs[0], slopes[upper], upper
    )  # fmt: skip


def _constraints(domain: isl.Set) -> list[isl.Constraint] | None:
    """None where there are several pieces, or gaps."""
    domain = domain.coalesce()
    if domain.n_basic_set() != 1:
        return None
    basic = domain.get_basic_sets()[0].remove_redundancies()
    return None if basic.dim(isl.dim_type.div) else list(basic.get_constraints())


def _coefficient(constraint: isl.Constraint, dim: int) -> int:
    return int(constraint.get_coefficient_val(isl.dim_type.set, dim).to_python())


def _involved(constraint: isl.Constraint) -> set[int]:
    return {k for k in range(constraint.dim(isl.dim_type.set)) if _coefficient(constraint, k)}


def _bound(comp: Comp, constraint: isl.Constraint, dim: int) -> Form:
    """What the constraint says that the iterator is at least, or at most."""
    sign = -_coefficient(constraint, dim)
    constant, terms = _forms(comp, constraint)[0]
    return sign * constant, {n: sign * c for n, c in terms.items() if n != comp.iters[dim]}


# --- the function in strips ---------------------------------------------------------------------------------------


def in_strips(func: Func, found: Ragged, strips: Strips) -> tuple[Func, tuple[Part, ...]] | None:
    """`func` in strips, in the order in which it was, and what its statements are; None where that can't be done.

    Requires: all statements share the loop of the rows, and two textual positions behind theirs are free. Ensures: the
    same instances in the same order.
    """
    where = _strips_of(found, strips)
    if where is None:
        return None
    cutter = _Cutter(func, found, strips, *where)
    parts: list[Part] = []
    for comp in func.comps:
        if comp.name != found.comp.name and not cutter.suits(comp):
            return None
        parts += cutter.ragged() if comp.name == found.comp.name else cutter.other(comp)
    return func.with_comps(tuple(p.comp for p in parts)), tuple(parts)


def _strips_of(found: Ragged, strips: Strips) -> tuple[int, int] | None:
    """The first row, and how many strips there are, that have a ragged part with one whole row."""
    height = strips.height
    room = (found.last - found.first + 1) // height
    length = _common_length(found, found.first, height)
    grows = length[1].pop(found.rows, 0)
    if length[1] or not grows:
        return None
    start = found.first
    if grows > 0:
        late = max(0, -(length[0] // grows))
        start, room = start + late, (found.last - start - late + 1) // height
    else:
        room = min(room, length[0] // (-grows * height) + 1 if length[0] >= 0 else 0)
    return (start, room) if room > 0 else None


def _common_length(found: Ragged, start: int, height: int) -> Form:
    """How many iterations all rows have in common, without a ragged part of `height` times the slope, in the strip of
    the first row `start` plus the rows' iterator."""
    inner = _ragged_end(found, start, height)
    spare = abs(found.slope)
    if found.upper:
        return _difference(inner, (found.low[0] + spare - 1, found.low[1]))
    return _difference((found.high[0] + 1, found.high[1]), (inner[0] + spare, inner[1]))


def _ragged_end(found: Ragged, start: int, height: int) -> Form:
    """The last iteration (the first one, where rows begin at different ones) that all rows of a strip have."""
    bound = found.high if found.upper else found.low
    far = height - 1 if (found.slope < 0) == found.upper else 0
    return bound[0] + found.slope * (start + far), {**bound[1], found.rows: found.slope}


class _Cutter:
    def __init__(self, func: Func, found: Ragged, strips: Strips, start: int, count: int) -> None:
        self.found = found
        self.strips = strips
        self.start, self.count = start, count
        self.taken = {n for c in func.comps for n in c.iters} | {p.name for p in func.params}
        self.names = {c.name for c in func.comps}
        self.strip = _fresh(f"{found.rows}_strip", self.taken)
        self.outer = _fresh(f"{found.along}_block", self.taken)
        self.depth = found.comp.iters.index(found.rows)
        self.at = found.comp.iters.index(found.along)
        self.room = max(c.schedule.dim(isl.dim_type.out) for c in func.comps) + 4

    def suits(self, comp: Comp) -> bool:
        """Whether another statement can go in strips, too."""
        constraints, place = _constraints(comp.domain), position(comp)
        if constraints is None or place.loops[self.depth] != Line(0, ((comp.iters[self.depth], 1),)):
            return False
        if place.constants[: self.at + 1] == position(self.found.comp).constants[: self.at + 1]:
            return False
        if any(_coefficient(c, self.depth) and _involved(c) != {self.depth} for c in constraints):
            return False
        least, most = comp.domain.dim_min_val(self.depth), comp.domain.dim_max_val(self.depth)
        if not least.is_int() or not most.is_int():
            return False
        last = self.start + self.count * self.strips.height - 1
        return bool(least.to_python() <= self.start and last <= most.to_python())

    def other(self, comp: Comp) -> list[Part]:
        rows = comp.iters[self.depth]
        new = self._in_strips(comp, {}, [], None, comp.name)
        return [Part(new, comp.name, "other", self.strip, rows), *self._others(comp)]

    def ragged(self) -> list[Part]:
        found, strips = self.found, self.strips
        slope, block, along = abs(found.slope), strips.block, found.along
        end = self._of_strip(_ragged_end(found, self.start, strips.height))
        length = self._of_strip(_common_length(found, self.start, strips.height))
        # The ragged part has one whole row, and as many more as make it a multiple of the strip's height.
        spare = slope - 1
        begin = (end[0] - spare, end[1]) if found.upper else (end[0] - slope * (strips.height - 1), end[1])
        first = found.low if found.upper else (end[0] + spare + 1, end[1])
        if any(c % block for c in length[1].values()):
            block = 1
        left = length[0] % block
        counted = (length[0] // block, {n: c // block for n, c in length[1].items()})
        parts: list[tuple[str, tuple[str, ...], Form, list[Form]]] = []
        if self._most(counted) > 0:
            limits = [(0, {self.outer: 1}), _difference((counted[0] - 1, counted[1]), (0, {self.outer: 1}))]
            value = _sum(first, (0, {self.outer: block, along: 1}))
            parts.append(("common", (self.outer, along), value, [*limits, *_limits(block, along)]))
        if left:
            value = _sum(first, (length[0] - left, {**length[1], along: 1}))
            parts.append(("left", (along,), value, _limits(left, along)))
        run = slope * strips.height // strips.digits
        offset: Form = (0, {self.outer: run, along: 1})
        far = slope * (strips.height - 1)
        reach: Form = (0, {found.rows: slope}) if found.slope > 0 else (far, {found.rows: -slope})
        inside = _difference((reach[0] + spare, reach[1]), offset) if found.upper else _difference(offset, reach)
        limits = [*_limits(strips.digits, self.outer), *_limits(run, along), inside]
        rest: tuple[str, tuple[str, ...], Form, list[Form]] = (
            "ragged",
            (self.outer, along),
            _sum(begin, offset),
            limits,
        )
        parts = [*parts, rest] if found.upper else [rest, *parts]
        made = []
        for number, (kind, inner, value, limits) in enumerate(parts):
            name = found.comp.name if kind == "common" else _fresh(f"{found.comp.name}_{kind}", self.names)
            comp = self._in_strips(found.comp, {along: value}, limits, (inner, number), name)
            outer = inner[0] if len(inner) > 1 else ""
            made.append(Part(comp, found.comp.name, kind, self.strip, found.rows, outer, along))
        return [*made, *self._others(found.comp)]

    def _of_strip(self, form: Form) -> Form:
        """A form of the strip's first row, less the first one's, as one of the strip's number."""
        terms = {self.strip if n == self.found.rows else n: c for n, c in form[1].items()}
        if self.strip in terms:
            terms[self.strip] *= self.strips.height
        return form[0], terms

    def _most(self, form: Form) -> int:
        return max(form[0] + form[1].get(self.strip, 0) * t for t in (0, self.count - 1))

    def _others(self, comp: Comp) -> list[Part]:
        """The rows before the strips and after them, as they were."""
        found = []
        ends = self.start, self.start + self.count * self.strips.height
        before = comp.domain.upper_bound_val(isl.dim_type.set, self.depth, isl.Val(ends[0] - 1))
        after = comp.domain.lower_bound_val(isl.dim_type.set, self.depth, isl.Val(ends[1]))
        for number, domain in ((0, before), (2, after)):
            if domain.is_empty():
                continue
            name = _fresh(f"{comp.name}_rows", self.names)
            new = replace(comp, name=name, domain=_named(domain, name))
            place = position(comp)
            constants = tuple(self._constant(k, c, number) for k, c in enumerate(place.constants))
            found.append(Part(self._placed(new, Position(constants, place.loops)), comp.name, "rows"))
        return found

    def _constant(self, depth: int, constant: int, number: int) -> int:
        """Room for the rows outside of strips, and for the parts of a statement; between nests there is some."""
        if depth == self.depth:
            return (constant if depth == 0 else 3 * constant) + number
        return constant if depth < self.depth else 4 * constant

    def _in_strips(
        self,
        comp: Comp,
        values: dict[str, Form],
        limits: Sequence[Form],
        inner: tuple[tuple[str, ...], int] | None,
        name: str,
    ) -> Comp:
        """`comp` with its rows in strips, and its ragged loop, if it is one, as `inner` loops of such `values` and
        `limits`, the part of that number."""
        rows, place = comp.iters[self.depth], position(comp)
        iters: list[str] = []
        constants: list[int] = []
        loops: list[Line] = []
        skipped = {self.depth}
        for k, (iterator, line) in enumerate(zip(comp.iters, place.loops, strict=True)):
            here, lines = [iterator], [line]
            constant = self._constant(k, place.constants[k], 1)
            if k == self.depth:
                here, lines = [self.strip, rows], [Line(0, ((self.strip, 1),)), line]
            elif inner is not None and k == self.at:
                skipped.add(k)
                here, lines = list(inner[0]), [Line(0, ((n, 1),)) for n in inner[0]]
                constant += inner[1]
            iters += here
            loops += lines
            constants += [constant, *(0 for _ in here[1:])]
        constants.append(self._constant(len(comp.iters), place.constants[-1], 1))
        limits = [*_limits(self.count, self.strip), *_limits(self.strips.height, rows), *limits]
        for constraint in _constraints(comp.domain) or ():
            if not _involved(constraint) & skipped:
                limits += _forms(comp, constraint)
        row: Form = (self.start, {self.strip: self.strips.height, rows: 1})
        exprs = {n: from_linear(f, set(iters)) for n, f in {**values, rows: row}.items()}
        new = replace(
            comp,
            name=name,
            iters=tuple(iters),
            domain=_domain(comp.domain, iters, limits, name),
            target=_access(tidied(comp.target, exprs, iters)),
            value=tidied(comp.value, exprs, iters),
        )
        return self._placed(new, Position(tuple(constants), tuple(loops)))

    def _placed(self, comp: Comp, place: Position) -> Comp:
        return replace(comp, schedule=schedule_map(comp, place, self.room).intersect_domain(comp.domain))


def _forms(comp: Comp, constraint: isl.Constraint) -> list[Form]:
    """What the constraint wants to be at least 0."""
    terms = {name: _coefficient(constraint, k) for k, name in enumerate(comp.iters)}
    for k in range(constraint.dim(isl.dim_type.param)):
        name = constraint.get_dim_name(isl.dim_type.param, k)
        terms[name] = int(constraint.get_coefficient_val(isl.dim_type.param, k).to_python())
    form = int(constraint.get_constant_val().to_python()), {n: c for n, c in terms.items() if c}
    return [form, _sum((0, {}), form, -1)] if constraint.is_equality() else [form]


def _limits(length: int, iterator: str) -> list[Form]:
    return [(0, {iterator: 1}), (length - 1, {iterator: -1})]


def _domain(old: isl.Set, iters: Sequence[str], limits: Sequence[Form], name: str) -> isl.Set:
    space = old.get_space().params().set_from_params().add_dims(isl.dim_type.set, len(iters))
    for k, iterator in enumerate(iters):
        space = space.set_dim_name(isl.dim_type.set, k, iterator)
    domain = isl.Set.universe(space)
    for constant, terms in limits:
        made = isl.Constraint.alloc_inequality(isl.LocalSpace.from_space(space)).set_constant_val(isl.Val(constant))
        for n, c in terms.items():
            kind = isl.dim_type.set if n in iters else isl.dim_type.param
            made = made.set_coefficient_val(kind, space.find_dim_by_name(kind, n), isl.Val(c))
        domain = domain.add_constraint(made)
    return domain.set_tuple_name(name) if old.has_tuple_name() else domain


def _named(domain: isl.Set, name: str) -> isl.Set:
    return domain.set_tuple_name(name) if domain.has_tuple_name() else domain


def _fresh(wanted: str, taken: set[str]) -> str:
    number, name = 0, wanted
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    taken.add(name)
    return name


def _sum(a: Form, b: Form, factor: int = 1) -> Form:
    terms = dict(a[1])
    for name, coefficient in b[1].items():
        terms[name] = terms.get(name, 0) + factor * coefficient
    return a[0] + factor * b[0], {n: c for n, c in terms.items() if c}


def _difference(a: Form, b: Form) -> Form:
    return _sum(a, b, -1)


def _access(expr: Expr) -> Load:
    assert isinstance(expr, Load)
    return expr


def tidied(expr: Expr, values: dict[str, Expr], iters: Sequence[str]) -> Expr:
    """The expression with iterators replaced; affine parts in one normal form."""
    return _tidy(substitute(expr, values), set(iters))


def _tidy(expr: Expr, iters: set[str]) -> Expr:
    plain = not isinstance(expr, Iter | Cast) and dtype_of(expr) == "i32"
    if plain and (form := linear(expr)) is not None and form[1] and form[1].keys() <= iters:
        return from_linear(form, iters)
    parts = children(expr)
    return rebuild(expr, tuple(_tidy(p, iters) for p in parts)) if parts else expr
