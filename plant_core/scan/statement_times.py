"""What `scan` scans: each statement's times, cut where its positions among its neighbours change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import islpy as isl

from plant_core.ir.accesses import domain_of
from plant_core.ir.func import Comp, Effect, Func
from plant_core.ir.scheduled import Nest, Scheduled
from plant_core.support.location import PlantError

_MOST_POSITIONS = 256


@dataclass(frozen=True, slots=True)
class Piece:
    """The instances of one statement that have these positions among their neighbours.

    `times` is a set `{ P3[t0, t1, ...] }` with one dimension for each loop, and `instance` the function from it to the
    statement's own iterators. `constants` has one position more than there are loops.
    """

    name: str
    number: int
    statement: Comp | Effect
    nest: Nest
    constants: tuple[int, ...]
    times: isl.Set
    instance: isl.PwMultiAff

    @property
    def depth(self) -> int:
        return len(self.nest.loops)

    @property
    def defines(self) -> str | None:
        return self.statement.defines if isinstance(self.statement, Comp) else None


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the program whose AST is made on its own, once the values that it needs are known: the body of
    `depth` loops, whose iterators are symbolic constants in it. `times` is a set `{ G3[t0, ...] }` over those loops."""

    name: str
    depth: int
    constants: tuple[int, ...]
    times: isl.Set
    pieces: tuple[Piece, ...]


def pieces_of(scheduled: Scheduled, context: isl.Set) -> tuple[Piece, ...]:
    """Every statement's pieces, in text order; `context` is what is known of the parameters."""
    func = scheduled.func
    defined = defined_parameters(func)
    found: list[Piece] = []
    statements: tuple[Comp | Effect, ...] = (*func.comps, *func.effects)
    for statement in statements:
        nest = scheduled.nest(statement.name)
        relation = _needing_least(nest.relation.intersect_domain(domain_of(statement)), context, defined)
        if relation.dim(isl.dim_type.out) != 2 * len(nest.loops) + 1:
            raise PlantError(
                f"the schedule of {nest.name} has {relation.dim(isl.dim_type.out)} dimensions for "
                f"{len(nest.loops)} loops",
                loc=statement.loc,
                code="DG233",
                remedy="map instances to [c0, t0, c1, t1, ..., cn]",
            )
        for constants, part in _positions(nest, relation, statement):
            _check_bounds(nest, statement, part)
            number = len(found)
            name = f"P{number}"
            times = _loops_only(part).set_tuple_name(isl.dim_type.out, name)
            found.append(
                Piece(name, number, statement, nest, constants, times.range().coalesce(), _inverse(times, statement))
            )
    return tuple(found)


def _needing_least(relation: isl.Map, context: isl.Set, defined: frozenset[str]) -> isl.Map:
    """The relation in its context, without the defined parameters that only the context limits."""
    whole = relation.intersect_params(context)
    needed = set(involved(whole.wrap(), defined))
    for name in sorted(needed):
        free = without_params(whole.wrap(), [name]).unwrap()
        if free.intersect_params(context).is_subset(whole):
            whole = free
            needed.remove(name)
    return whole.intersect_params(without_params(context, sorted(defined - needed)))


def _check_bounds(nest: Nest, statement: Comp | Effect, part: isl.Map) -> None:
    times = part.range()
    for k, loop in enumerate(nest.loops):
        for way, bounded in (("upper", times.dim_has_upper_bound), ("lower", times.dim_has_lower_bound)):
            if not bounded(isl.dim_type.set, 2 * k + 1):
                raise PlantError(
                    f"the loop '{loop}' of {nest.name} has no {way} bound",
                    loc=statement.loc,
                    code="DG233",
                    remedy="bound the statement's domain",
                )


def _positions(nest: Nest, relation: isl.Map, statement: Comp | Effect) -> Iterable[tuple[tuple[int, ...], isl.Map]]:
    """The values that the positions of a nest take, each with the part of its relation that has them."""
    parts: list[tuple[tuple[int, ...], isl.Map]] = [((), relation)] if not relation.is_empty() else []
    for k in range(0, 2 * len(nest.loops) + 1, 2):
        parts = [
            ((*constants, value), part) for constants, whole in parts for value, part in _values(whole, k, statement)
        ]
    return parts


def _values(relation: isl.Map, dim: int, statement: Comp | Effect) -> Iterable[tuple[int, isl.Map]]:
    fixed = relation.plain_get_val_if_fixed(isl.dim_type.out, dim)
    if fixed.is_int():
        return [(fixed.to_python(), relation)]
    left = relation.range()
    count = left.dim(isl.dim_type.set)
    left = left.project_out(isl.dim_type.set, dim + 1, count - dim - 1).project_out(isl.dim_type.set, 0, dim)
    left = left.project_out_all_params()
    found: list[tuple[int, isl.Map]] = []
    while not left.is_empty():
        value = left.sample_point().get_coordinate_val(isl.dim_type.set, 0)
        left = left.subtract(left.fix_val(isl.dim_type.set, 0, value))
        found.append((value.to_python(), relation.fix_val(isl.dim_type.out, dim, value)))
        if len(found) > _MOST_POSITIONS:
            raise PlantError(
                f"the schedule of {statement.name} has no fixed position among its neighbours: every even dimension "
                "must be piecewise constant",
                loc=statement.loc,
                code="DG233",
            )
    return sorted(found, key=lambda pair: pair[0])


def _loops_only(relation: isl.Map) -> isl.Map:
    """The relation with its positions dropped."""
    for k in range(relation.dim(isl.dim_type.out) - 1, -1, -2):
        relation = relation.project_out(isl.dim_type.out, k, 1)
    return relation


def _inverse(times: isl.Map, statement: Comp | Effect) -> isl.PwMultiAff:
    back = times.reverse()
    if not back.is_single_valued():
        raise PlantError(
            f"two instances of {statement.name} have one time: the schedule must tell them apart",
            loc=statement.loc,
            code="DG233",
        )
    return isl.PwMultiAff.from_map(back).coalesce()


def defined_parameters(func: Func) -> frozenset[str]:
    return frozenset(c.defines for c in func.comps if c.defines is not None)


def without_params(domain: isl.Set, names: Iterable[str]) -> isl.Set:
    """`domain` for any value of these parameters."""
    for name in names:
        place = domain.find_dim_by_name(isl.dim_type.param, name)
        if place >= 0:
            domain = domain.project_out(isl.dim_type.param, place, 1)
    return domain


def involved(domain: isl.Set, names: Iterable[str]) -> tuple[str, ...]:
    """Which of these parameters the set depends on, sorted."""
    found = []
    for name in sorted(names):
        place = domain.find_dim_by_name(isl.dim_type.param, name)
        if place >= 0 and domain.involves_dims(isl.dim_type.param, place, 1):
            found.append(name)
    return tuple(found)


def prefix(domain: isl.Set, depth: int) -> isl.Set:
    """The projection to the outermost `depth` loops, with no tuple name."""
    count = domain.dim(isl.dim_type.set)
    return domain.project_out(isl.dim_type.set, depth, count - depth).reset_tuple_id()
