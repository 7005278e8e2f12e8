"""Loops whose rows differ in length along an outer loop, and linear forms of iterators and parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import islpy as isl

from plant_core.ir.accesses import Linear
from plant_core.ir.func import Comp
from plant_core.ir.quasi_affine import affine_in_parameters
from plant_core.ir.time_2d1 import Line, position


@dataclass(frozen=True, slots=True)
class Ragged:
    """A statement's loop whose rows differ in length along an outer loop that all statements of its nest share.

    The loop's iterations are `low` to `high`, forms of the loops around it and of parameters; one of these, by `upper`
    the latter, has `slope` times the outer iterator, which runs from `first` to `last`.
    """

    comp: Comp
    rows: str
    along: str
    first: Linear
    last: Linear
    low: Linear
    high: Linear
    slope: int
    upper: bool


def ragged_loops(comps: Sequence[Comp]) -> Iterable[Ragged]:
    """Of each statement the loops with rows that differ along a loop which all the statements share."""
    places = [position(c) for c in comps]
    for depth in range(min((len(c.iters) for c in comps), default=0)):
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
    constraints = constraints_of(comp.domain)
    if constraints is None:
        return None
    lows: list[Linear] = []
    highs: list[Linear] = []
    for constraint in constraints:
        here = coefficient(constraint, along)
        if here == 0:
            if coefficient(constraint, depth) and involved(constraint) != {depth}:
                return None
            continue
        if abs(here) != 1 or constraint.is_equality() or any(k > along for k in involved(constraint)):
            return None
        (lows if here > 0 else highs).append(_bound(comp, constraint, along))
    rows, ends = comp.iters[depth], ends_of_rows(comp, depth)
    if len(lows) != 1 or len(highs) != 1 or ends is None:
        return None
    slopes = lows[0][1].get(rows, 0), highs[0][1].get(rows, 0)
    if (slopes[0] == 0) == (slopes[1] == 0):
        return None
    upper = slopes[1] != 0
    return Ragged(comp, rows, comp.iters[along], *ends, lows[0], highs[0], slopes[upper], upper)


def ends_of_rows(comp: Comp, depth: int) -> tuple[Linear, Linear] | None:
    """The first and the last iteration of a loop, forms of parameters."""
    first, last = (affine_in_parameters(end) for end in (comp.domain.dim_min(depth), comp.domain.dim_max(depth)))
    return None if first is None or last is None else (first, last)


def constraints_of(domain: isl.Set) -> list[isl.Constraint] | None:
    """None where there are several pieces, or gaps."""
    domain = domain.coalesce()
    if domain.n_basic_set() != 1:
        return None
    basic = domain.get_basic_sets()[0].remove_redundancies()
    return None if basic.dim(isl.dim_type.div) else list(basic.get_constraints())


def coefficient(constraint: isl.Constraint, dim: int) -> int:
    return int(constraint.get_coefficient_val(isl.dim_type.set, dim).to_python())


def involved(constraint: isl.Constraint) -> set[int]:
    return {k for k in range(constraint.dim(isl.dim_type.set)) if coefficient(constraint, k)}


def _bound(comp: Comp, constraint: isl.Constraint, dim: int) -> Linear:
    """What the constraint says that the iterator is at least, or at most."""
    sign = -coefficient(constraint, dim)
    constant, terms = forms_of(comp, constraint)[0]
    return sign * constant, {n: sign * c for n, c in terms.items() if n != comp.iters[dim]}


def forms_of(comp: Comp, constraint: isl.Constraint) -> list[Linear]:
    """What the constraint wants to be at least 0."""
    terms = {name: coefficient(constraint, k) for k, name in enumerate(comp.iters)}
    for k in range(constraint.dim(isl.dim_type.param)):
        name = constraint.get_dim_name(isl.dim_type.param, k)
        terms[name] = int(constraint.get_coefficient_val(isl.dim_type.param, k).to_python())
    form = int(constraint.get_constant_val().to_python()), {n: c for n, c in terms.items() if c}
    return [form, form_sum((0, {}), form, -1)] if constraint.is_equality() else [form]


def form_sum(a: Linear, b: Linear, factor: int = 1) -> Linear:
    terms = dict(a[1])
    for name, coefficient in b[1].items():
        terms[name] = terms.get(name, 0) + factor * coefficient
    return a[0] + factor * b[0], {n: c for n, c in terms.items() if c}


def difference(a: Linear, b: Linear) -> Linear:
    return form_sum(a, b, -1)
