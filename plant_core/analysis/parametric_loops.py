"""Loops of a set of instances whose bounds depend on parameters only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import islpy as isl


@dataclass(frozen=True, slots=True)
class Interval:
    """A loop whose bounds depend on parameters only: iterations base .. upper."""

    base: isl.PwAff
    upper: isl.PwAff


def intervals_of(points: isl.Set) -> dict[int, Interval]:
    """The loops whose bounds depend on no other loop, with these bounds."""
    if points.n_basic_set() != 1:
        return {}
    basic = points.get_basic_sets()[0]
    constraints = basic.get_constraints()
    if any(has_division(constraint) for constraint in constraints):
        return {}
    found = {}
    for k in range(basic.dim(isl.dim_type.set)):
        bounds = _bounds(constraints, k, basic.dim(isl.dim_type.set))
        if bounds is not None:
            found[k] = bounds
    return found


def _bounds(constraints: list[isl.Constraint], dim: int, count: int) -> Interval | None:
    lowers, uppers = [], []
    for constraint in constraints:
        coefficient = constraint.get_coefficient_val(isl.dim_type.set, dim)
        if coefficient.is_zero():
            continue
        others = (constraint.get_coefficient_val(isl.dim_type.set, j) for j in range(count) if j != dim)
        if constraint.is_equality() or not all(other.is_zero() for other in others):
            return None
        bound = isl.PwAff.from_aff(constraint.get_bound(isl.dim_type.set, dim))
        if coefficient.is_pos():
            lowers.append(bound.ceil())
        else:
            uppers.append(bound.floor())
    if not lowers or not uppers:
        return None
    return Interval(reduce(isl.PwAff.max, lowers), reduce(isl.PwAff.min, uppers))


def has_division(constraint: isl.Constraint) -> bool:
    """Whether it tells of remainders."""
    count = constraint.dim(isl.dim_type.div)
    return any(not constraint.get_coefficient_val(isl.dim_type.div, d).is_zero() for d in range(count))
