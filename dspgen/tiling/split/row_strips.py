"""Nests whose rows differ in length, in strips of rows: what all rows of a strip have apart from what is ragged.

Before: for i < 512: for k < 512 - i: r[i] += x[k] * x[k + i];
After, in strips of 64 rows whose common part is unrolled 32 times:
for t < 8:
  for m < 14 - 2t, u < 32, i < 64: r[64t + i] += ...;                               k is 32m + u
  for d < 16, b < 4, i < 64: if (i + 16b + d < 64) r[64t + i] += ...;               k is 448 - 64t + 16b + d

The ragged part is the same for all strips, and one row of it is whole, so that it has as many as the strip.

Where sizes are known at run time only, how many strips there are, and blocks in the first one, are parameters that the
function computes itself. What rows have in common beyond whole blocks is "left" over then, in each strip as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import islpy as isl

from dspgen.tiling.loops.loop_nests import ROOM
from dspgen.tiling.loops.ragged_loops import (
    Ragged,
    coefficient,
    constraints_of,
    difference,
    ends_of_rows,
    form_sum,
    forms_of,
    involved,
)
from plant_core.analysis.rectangular_hull import accesses_of, right_sizes
from plant_core.analysis.runtime_parameters import aligned, definition_of
from plant_core.ir.accesses import Linear, children, from_linear, linear, rebuild, substitute, with_param
from plant_core.ir.c_semantics import dtype_of
from plant_core.ir.func import Binary, Buf, Cast, Comp, Expr, Func, Iter, Load, Select, Val
from plant_core.ir.time_2d1 import Line, Position, position, schedule_map

# Textual positions in place of one, for rows in strips and others in smaller strips: two for what the function computes
# itself, then rows before strips, these, and those after them.
_APART, _LEAST = 8, 1
_FIRST = 2


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


# --- the function in strips ---------------------------------------------------------------------------------------


def in_strips(
    func: Func, found: Ragged, strips: Strips, *, before: Sequence[Part] = ()
) -> tuple[Func, tuple[Part, ...]] | None:
    """`func` in strips, in the order in which it was, and what its statements are; None where that can't be done.
    `before`: what they are already, where rows outside of strips are to be in smaller ones.

    Requires: all statements, or those that are rows outside of strips, share the loop of the rows, and `ROOM` textual
    positions behind theirs are free. Ensures: the same instances in the same order.
    """
    where = _strips_of(func, found, strips)
    if where is None:
        return None
    cutter = _Cutter(func, found, strips, where, _LEAST if before else _APART)
    known = {p.comp.name: p for p in before}
    parts: list[Part] = []
    kept: list[Comp] = []
    for comp in func.comps:
        part = known.get(comp.name)
        if before and (part is None or part.kind != "rows"):
            comp = cutter.kept(comp)
            kept += [comp] if part is None else []
            parts += [] if part is None else [replace(part, comp=comp)]
            continue
        if comp.name != found.comp.name and not cutter.suits(comp):
            return None
        source = comp.name if part is None else part.source
        parts += cutter.ragged(source) if comp.name == found.comp.name else cutter.other(comp, source)
    return cutter.made([*kept, *(p.comp for p in parts)]), tuple(parts)


@dataclass(frozen=True, slots=True)
class _Strips:
    """The first row in strips, and how many strips there are: a number, or the name of a parameter and its value."""

    start: Linear
    count: int | tuple[str, Expr]

    @property
    def last(self) -> Linear:
        """The last strip's number."""
        return (self.count - 1, {}) if isinstance(self.count, int) else (-1, {self.count[0]: 1})


def _strips_of(func: Func, found: Ragged, strips: Strips) -> _Strips | None:
    """The strips that have a ragged part with one whole row; None where there are none, or none are known of."""
    height = strips.height
    room = form_sum(difference(found.last, found.first), (1, {}))
    length = _common_length(found, found.first, height)
    grows = length[1].pop(found.rows, 0)
    if not grows or length[1].keys() & set(found.comp.iters):
        return None
    if not room[1] and not length[1]:
        start, number = found.first, room[0] // height
        if grows > 0:
            late = max(0, -(length[0] // grows))
            start, number = form_sum(start, (late, {})), (room[0] - late) // height
        else:
            number = min(number, length[0] // (-grows * height) + 1 if length[0] >= 0 else 0)
        return _Strips(start, number) if number > 0 else None
    name, step = _fresh(f"{found.comp.name}_strips", _names(func)), abs(grows) * height
    # Where rows grow longer, those before the strips are the short ones.
    most = form_sum(length, room, grows) if grows > 0 else form_sum(length, (step, {}))
    least = _quotient(room, height)
    if abs(grows) != 1 or most != room:
        least = Binary("min", least, _quotient(most, step), "i32")
    end = form_sum(found.last, (1, {}))
    start = form_sum(end, (0, {name: -height})) if grows > 0 else found.first
    return _Strips(start, (name, Binary("max", least, Val(0, "i32"), "i32")))


def _quotient(form: Linear, divisor: int) -> Expr:
    return Binary("floordiv", from_linear(form, ()), Val(divisor, "i32"), "i32")


def _names(func: Func) -> set[str]:
    return {n for c in func.comps for n in c.iters} | {p.name for p in (*func.params, *func.bufs)}


def _common_length(found: Ragged, start: Linear, height: int) -> Linear:
    """How many iterations all rows have in common, without a ragged part of `height` times the slope, in the strip of
    the first row `start` plus the rows' iterator."""
    inner = _ragged_end(found, start, height)
    spare = abs(found.slope)
    if found.upper:
        return difference(inner, form_sum(found.low, (spare - 1, {})))
    return difference(form_sum(found.high, (1, {})), form_sum(inner, (spare, {})))


def _ragged_end(found: Ragged, start: Linear, height: int) -> Linear:
    """The last iteration (the first one, where rows begin at different ones) that all rows of a strip have."""
    constant, terms = found.high if found.upper else found.low
    far = height - 1 if (found.slope < 0) == found.upper else 0
    others = constant, {n: c for n, c in terms.items() if n != found.rows}
    return form_sum(form_sum(others, form_sum(start, (far, {})), found.slope), (0, {found.rows: found.slope}))


class _Cutter:
    def __init__(self, func: Func, found: Ragged, strips: Strips, where: _Strips, step: int) -> None:
        self.func, self.found, self.strips, self.where, self.step = func, found, strips, where, step
        self.taken = _names(func)
        self.names = {c.name for c in func.comps}
        self.defined: dict[str, Expr] = {}
        if not isinstance(where.count, int):
            self._define(*where.count)
        self.strip = _fresh(f"{found.rows}_strip", self.taken)
        self.outer = _fresh(f"{found.along}_block", self.taken)
        self.depth = found.comp.iters.index(found.rows)
        self.at = found.comp.iters.index(found.along)
        self.room = max(c.schedule.dim(isl.dim_type.out) for c in func.comps) + 4

    def _define(self, name: str, value: Expr) -> None:
        self.taken.add(name)
        self.defined[name] = value

    def made(self, comps: Sequence[Comp]) -> Func:
        """The function of such statements, and of those that define their parameters."""
        loc = self.found.comp.loc
        first = position(self.found.comp).constants[0]
        made = [definition_of(name, value, loc) for name, value in self.defined.items()]
        placed = [self._placed(c, Position((first + k,), ())) for k, c in enumerate(made)]
        bufs = (Buf(n, "i32", (), "local", False, loc) for n in self.defined)
        if not made:
            return self.func.with_comps(tuple(comps))
        return replace(self.func, bufs=(*self.func.bufs, *bufs), comps=aligned((*placed, *comps)))

    def kept(self, comp: Comp) -> Comp:
        """A statement that isn't in these strips."""
        place = position(comp)
        if comp.iters and self.depth:
            constants = [place.constants[0] + _FIRST, *place.constants[1:]]
            if len(constants) > self.depth:
                constants[self.depth] *= ROOM
            place = replace(place, constants=tuple(constants))
        return self._placed(comp, place)

    def suits(self, comp: Comp) -> bool:
        """Whether another statement can go in strips, too."""
        constraints, place = constraints_of(comp.domain), position(comp)
        if constraints is None or place.loops[self.depth] != Line(0, ((comp.iters[self.depth], 1),)):
            return False
        if place.constants[: self.at + 1] == position(self.found.comp).constants[: self.at + 1]:
            return False
        if any(coefficient(c, self.depth) and involved(c) != {self.depth} for c in constraints):
            return False
        ends = ends_of_rows(comp, self.depth)
        if ends is None:
            return False
        if not isinstance(self.where.count, int):
            spare = difference(self.found.first, ends[0]), difference(ends[1], self.found.last)
            return all(not terms and constant >= 0 for constant, terms in spare)
        if ends[0][1] or ends[1][1]:
            return False
        last = self.where.start[0] + self.where.count * self.strips.height - 1
        return ends[0][0] <= self.where.start[0] and last <= ends[1][0]

    def other(self, comp: Comp, source: str) -> list[Part]:
        rows = comp.iters[self.depth]
        new = self._in_strips(comp, {}, [], None, comp.name)
        return [Part(new, source, "other", self.strip, rows), *self._others(comp, source)]

    def ragged(self, source: str) -> list[Part]:
        found, strips = self.found, self.strips
        slope, block, along = abs(found.slope), strips.block, found.along
        end = self._of_strip(_ragged_end(found, self.where.start, strips.height))
        length = self._of_strip(_common_length(found, self.where.start, strips.height))
        # The ragged part has one whole row, and as many more as make it a multiple of the strip's height.
        spare = slope - 1
        begin = (end[0] - spare, end[1]) if found.upper else (end[0] - slope * (strips.height - 1), end[1])
        first = found.low if found.upper else (end[0] + spare + 1, end[1])
        if length[1].get(self.strip, 0) % block:
            block = 1
        # Of what is known at run time only, whole blocks are counted then.
        known = {n: c for n, c in length[1].items() if n == self.strip or not c % block}
        unknown = {n: c for n, c in length[1].items() if n not in known}
        counted: Linear = (length[0] // block, {n: c // block for n, c in known.items()})
        left: Linear = (length[0] % block, {})
        if unknown:
            blocks = _fresh(f"{found.comp.name}_blocks", self.taken)
            self._define(blocks, _quotient((length[0], unknown), block))
            counted = (0, {**counted[1], blocks: 1})
            left = (length[0], {**unknown, blocks: -block})
        parts: list[tuple[str, tuple[str, ...], Linear, list[Linear]]] = []
        if self._most(counted) > 0:
            limits = [(0, {self.outer: 1}), difference(form_sum(counted, (-1, {})), (0, {self.outer: 1}))]
            value = form_sum(first, (0, {self.outer: block, along: 1}))
            parts.append(("common", (self.outer, along), value, [*limits, *_limits(block, along)]))
        if left != (0, {}):
            value = form_sum(form_sum(first, form_sum(length, left, -1)), (0, {along: 1}))
            most = block - 1 if unknown else left[0]
            limits = [*_limits(most, along), *([form_sum(left, (-1, {along: -1}))] if unknown else ())]
            parts.append(("left", (along,), value, limits))
        run = slope * strips.height // strips.digits
        offset: Linear = (0, {self.outer: run, along: 1})
        far = slope * (strips.height - 1)
        reach: Linear = (0, {found.rows: slope}) if found.slope > 0 else (far, {found.rows: -slope})
        inside = difference((reach[0] + spare, reach[1]), offset) if found.upper else difference(offset, reach)
        limits = [*_limits(strips.digits, self.outer), *_limits(run, along), inside]
        rest: tuple[str, tuple[str, ...], Linear, list[Linear]] = (
            "ragged",
            (self.outer, along),
            form_sum(begin, offset),
            limits,
        )
        parts = [*parts, rest] if found.upper else [rest, *parts]
        made = []
        for number, (kind, inner, value, limits) in enumerate(parts):
            name = found.comp.name if kind == "common" else _fresh(f"{found.comp.name}_{kind}", self.names)
            comp = self._in_strips(found.comp, {along: value}, limits, (inner, number), name)
            outer = inner[0] if len(inner) > 1 else ""
            made.append(Part(comp, source, kind, self.strip, found.rows, outer, along))
        return [*made, *self._others(found.comp, source)]

    def _of_strip(self, form: Linear) -> Linear:
        """A form of the strip's first row, less the first one's, as one of the strip's number."""
        terms = {self.strip if n == self.found.rows else n: c for n, c in form[1].items()}
        if self.strip in terms:
            terms[self.strip] *= self.strips.height
        return form[0], terms

    def _most(self, form: Linear) -> int:
        """The most that it is in a strip; 1 where that isn't known."""
        count = self.where.count
        if not isinstance(count, int) or form[1].keys() - {self.strip}:
            return 1
        return max(form[0] + form[1].get(self.strip, 0) * t for t in (0, count - 1))

    def _others(self, comp: Comp, source: str) -> list[Part]:
        """The rows before the strips and after them, as they were."""
        found = []
        rows, where = comp.iters[self.depth], self.where
        before = form_sum(where.start, (-1, {rows: -1}))
        after = difference((-self.strips.height, {rows: 1}), form_sum(where.start, where.last, self.strips.height))
        for number, limit in ((0, before), (2 * self.step, after)):
            name = _fresh(f"{comp.name}_rows", self.names)
            domain = self._limited(comp, limit, name)
            if domain.is_empty():
                self.names.remove(name)
                continue
            new = replace(comp, name=name, domain=domain)
            place = position(comp)
            constants = tuple(self._constant(k, c, number) for k, c in enumerate(place.constants))
            found.append(Part(self._placed(new, Position(constants, place.loops)), source, "rows"))
        return found

    def _most_strips(self) -> list[Linear]:
        """What is known of the number of a strip, where what is surely read or written is in arrays of known size."""
        comp, found = self.found.comp, self.found
        if isinstance(self.where.count, int) or found.first[1] or _may_choose(comp.value):
            return []
        sizes = right_sizes(self.func, comp, tuple(accesses_of(comp)))
        last = comp.domain.intersect_params(sizes).dim_max_val(self.depth)
        if not last.is_int():
            return []
        most = (last.to_python() - found.first[0] + 1) // self.strips.height
        return [(max(most, 1) - 1, {self.strip: -1})]

    def _limited(self, comp: Comp, limit: Linear, name: str) -> isl.Set:
        """The iterations that the limit leaves, in no more constraints than it takes if there are no fewer than no
        strips."""
        domain = comp.domain.intersect(_domain(comp.domain, comp.iters, [limit], comp.name))
        if isinstance(self.where.count, int):
            return _named(domain, name)
        fact: Linear = (0, {self.where.count[0]: 1})
        constraints = constraints_of(domain.intersect(_domain(domain, comp.iters, [fact], comp.name)))
        if constraints is None:
            return _named(domain, name)
        kept = [form for c in constraints for form in forms_of(comp, c) if form != fact]
        return _domain(comp.domain, comp.iters, kept, name)

    def _constant(self, depth: int, constant: int, number: int) -> int:
        """Room for the rows outside of strips, and for the parts of a statement; between nests there is some."""
        if depth == self.depth:
            return (constant if depth == 0 else ROOM * constant) + _FIRST + number
        if depth == 0:
            return constant + _FIRST
        return constant if depth < self.depth else 4 * constant

    def _in_strips(
        self,
        comp: Comp,
        values: dict[str, Linear],
        limits: Sequence[Linear],
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
            constant = self._constant(k, place.constants[k], self.step)
            if k == self.depth:
                here, lines = [self.strip, rows], [Line(0, ((self.strip, 1),)), line]
            elif inner is not None and k == self.at:
                skipped.add(k)
                here, lines = list(inner[0]), [Line(0, ((n, 1),)) for n in inner[0]]
                constant += inner[1]
            iters += here
            loops += lines
            constants += [constant, *(0 for _ in here[1:])]
        constants.append(self._constant(len(comp.iters), place.constants[-1], self.step))
        last = difference(self.where.last, (0, {self.strip: 1}))
        limits = [(0, {self.strip: 1}), last, *self._most_strips(), *_limits(self.strips.height, rows), *limits]
        for constraint in constraints_of(comp.domain) or ():
            if not involved(constraint) & skipped:
                limits += forms_of(comp, constraint)
        row = form_sum(self.where.start, (0, {self.strip: self.strips.height, rows: 1}))
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


def _may_choose(expr: Expr) -> bool:
    """Whether C may leave out a part of it."""
    chooses = isinstance(expr, Select) or (isinstance(expr, Binary) and expr.op in ("land", "lor"))
    return chooses or any(map(_may_choose, children(expr)))


def _limits(length: int, iterator: str) -> list[Linear]:
    return [(0, {iterator: 1}), (length - 1, {iterator: -1})]


def _domain(old: isl.Set, iters: Sequence[str], limits: Sequence[Linear], name: str) -> isl.Set:
    space = old.get_space().params().set_from_params().add_dims(isl.dim_type.set, len(iters))
    for n in dict.fromkeys(n for _, terms in limits for n in terms if n not in iters):
        if space.find_dim_by_name(isl.dim_type.param, n) < 0:
            space = with_param(space, n)
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
