"""Accesses that leave their array, found exactly by isl."""

from __future__ import annotations

from collections.abc import Mapping

import islpy as isl

from dspgen.errors import Problem
from dspgen.frontend.affine import Nest, NotAffine, dim_name, piecewise
from dspgen.frontend.terms import accesses
from plant_core.ir import Access, Func
from plant_core.printer import print_expr


def outside(access: Access, shape: tuple[int, ...], nest: Nest) -> isl.Set:
    """The iterations of the nest at which some index is outside. Raises NotAffine."""
    found = isl.Set.empty(nest.domain.get_space())
    for index, extent in zip(access.indices, shape, strict=True):
        value = piecewise(index, nest)
        found = found.union(value.lt_set(nest.constant(0))).union(value.ge_set(nest.constant(extent)))
    return found.intersect(nest.domain)


def problem(access: Access, shape: tuple[int, ...], nest: Nest, *, writes: bool) -> Problem | None:
    """What is wrong with the access; with symbolic parameters, only what is wrong for all their values."""
    if not shape:
        return None
    bad = outside(access, shape, nest)
    if bad.is_empty() or not nest.domain.params().is_subset(bad.params()):
        return None
    point = bad.lexmin().sample_point()
    kind = isl.dim_type.set
    values = {name: point.get_coordinate_val(kind, k).to_python() for k, name in enumerate(nest.iters)}
    here = Nest(nest.iters, isl.Set.from_point(point))
    reached = "".join(f"[{_value(index, here)}]" for index in access.indices)
    limits = "".join(f"[{extent}]" for extent in shape)
    when = f" when {', '.join(f'{name} = {value}' for name, value in values.items())}" if values else ""
    return Problem(
        "DG012",
        f"'{print_expr(access)}' {'writes' if writes else 'reads'} {access.buf}{reached}{when}, "
        f"outside {access.buf}{limits}",
        access.loc,
        "change the subscript, the loop's bounds or the array's size",
    )


def _value(index: object, here: Nest) -> int:
    value = piecewise(index, here).intersect_domain(here.domain)  # type: ignore[arg-type]
    return int(value.max_val().to_python())


def check_parameters(func: Func, parameters: Mapping[str, int]) -> list[Problem]:
    """The accesses that leave their arrays for these values of the integer parameters."""
    found: list[Problem] = []
    for comp in func.comps:
        domain = comp.domain
        for position in range(domain.dim(isl.dim_type.param) - 1, -1, -1):
            name = dim_name(domain, position)
            if name in parameters:
                domain = domain.fix_val(isl.dim_type.param, position, isl.Val(int(parameters[name])))
        nest = Nest(comp.iters, domain.reset_tuple_id())
        if nest.domain.is_empty():
            continue
        for access, writes in [(comp.target, True), *((a, False) for a in accesses(comp.value))]:
            try:
                wrong = problem(access, func.buf(access.buf).shape, nest, writes=writes)
            except NotAffine:
                continue
            if wrong is not None:
                found.append(wrong)
    return found
