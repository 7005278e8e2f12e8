"""Quasi-affine values in pieces: products, of which one factor has but a few values, and what is affine as a whole."""

from __future__ import annotations

from functools import reduce

import islpy as isl

_FEW = 4


def product(a: isl.PwAff, b: isl.PwAff) -> isl.PwAff | None:
    """The product of two values; None where it is no quasi-affine one."""
    for value, factor in ((a, b), (b, a)):
        found = [_constants(aff, where) for where, aff in factor.coalesce().get_pieces()]
        if None not in found:
            pieces = [piece for some in found for piece in some or ()]
            return reduce(isl.PwAff.union_add, (value.scale_val(c).intersect_domain(where) for where, c in pieces))
    return None


def constants_of(value: isl.PwAff) -> list[tuple[isl.Set, int]] | None:
    """The constants that a value takes, each with where it does; None if it varies within a piece."""
    if not value.is_cst():  # true of several pieces with a constant each, too
        return None
    return [(where, int(aff.get_constant_val().to_python())) for where, aff in value.coalesce().get_pieces()]


def is_one_constant(value: isl.PwAff) -> bool:
    """Whether a value is the same constant in all its pieces."""
    return len({constant for _, constant in constants_of(value) or ()}) == 1


def parameters_of(of: isl.Set | isl.BasicSet | isl.Space | isl.Aff) -> list[str]:
    """The names of its parameters, in their order."""
    return [str(of.get_dim_name(isl.dim_type.param, k)) for k in range(of.dim(isl.dim_type.param))]


def affine_in_parameters(value: isl.PwAff) -> tuple[int, dict[str, int]] | None:
    """A single function of the parameters, whatever these are: constant, and factors."""
    pieces = value.coalesce().get_pieces()
    if len(pieces) != 1:
        return None
    found = pieces[0][1]
    names = parameters_of(found)
    factors = [found.get_coefficient_val(isl.dim_type.param, k) for k in range(len(names))]
    constant = found.get_constant_val()
    if found.dim(isl.dim_type.div) or not all(v.is_int() for v in (constant, *factors)):
        return None
    known = {n: int(f.to_python()) for n, f in zip(names, factors, strict=True)}
    return int(constant.to_python()), {n: f for n, f in known.items() if f}


def _constants(aff: isl.Aff, where: isl.Set) -> list[tuple[isl.Set, isl.Val]] | None:
    """The values that it has in a set, each with where it has them; None where there are more than a few."""
    if aff.is_cst():
        return [(where, aff.get_constant_val())]
    here = isl.PwAff.from_aff(aff).intersect_domain(where)
    least, most = here.min_val(), here.max_val()
    if not (least.is_int() and most.is_int()) or most.to_python() - least.to_python() >= _FEW:
        return None
    values = [isl.Val(v) for v in range(least.to_python(), most.to_python() + 1)]
    return [(here.add_constant_val(v.neg()).zero_set(), v) for v in values]
