"""Products of quasi-affine values, of which one has but a few values in each of its pieces."""

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
