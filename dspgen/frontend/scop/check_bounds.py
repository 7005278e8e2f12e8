"""Accesses that leave their array, found exactly by isl."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import islpy as isl

from dspgen.errors import Problem
from dspgen.frontend.scop.affine_sets import Nest, NotAffine, condition, dim_name, is_irregular, piecewise
from dspgen.frontend.scop.c_types import is_open
from dspgen.frontend.scop.expr_walk import accesses, parameters
from plant_core.analysis.runtime_parameters import with_sizes
from plant_core.ir.c_semantics import integer_of, shape_of
from plant_core.ir.func import Expr, Extent, Func, Load, Unary
from plant_core.ir.printer import print_expr


def outside(access: Load, shape: tuple[Extent, ...], nest: Nest) -> isl.Set:
    """The iterations of the nest at which some index is outside. Raises NotAffine.

    Of a subscript that depends on the program's data, nothing is known. Of an extent that isn't affine in the
    parameters, or isn't known, it is taken that every index stays below it.
    """
    found = isl.Set.empty(nest.domain.get_space())
    for index, extent in zip(access.indices, shape, strict=True):
        if is_irregular(index):
            continue
        value = piecewise(index, nest)
        found = found.union(value.lt_set(nest.constant(0)))
        if (limit := _limit(extent, nest)) is not None:
            found = found.union(value.ge_set(limit))
    return found.intersect(nest.domain)


def _limit(extent: Extent, nest: Nest) -> isl.PwAff | None:
    if isinstance(extent, int):
        return nest.constant(extent)
    if is_open(extent):
        return None
    try:
        return piecewise(extent, nest)
    except NotAffine:
        return None


def problem(access: Load, shape: tuple[Extent, ...], nest: Nest, *, writes: bool) -> Problem | None:
    """What is wrong with the access; with symbolic parameters, only what is wrong for all their sensible values.

    Those are the ones under which the statement runs at all and the array has elements.
    """
    if not shape:
        return None
    bad = outside(access, shape, nest)
    if bad.is_empty():
        return None
    sensible = nest.domain
    symbolic = [
        limit for extent in shape if not isinstance(extent, int) and (limit := _limit(extent, nest)) is not None
    ]
    for limit in symbolic:
        sensible = sensible.intersect(limit.ge_set(nest.constant(1)))
    bad = bad.intersect(sensible)
    if bad.is_empty() or not sensible.params().is_subset(bad.params()):
        return None
    point = _first(bad)
    here = Nest(nest.iters, isl.Set.from_point(point))
    names = [
        *nest.iters,
        *dict.fromkeys(p.name for e in shape if not isinstance(e, int) and not is_open(e) for p in parameters(e)),
    ]
    values = {name: _value(nest.variable(name), here) for name in names if symbolic or name in nest.iters}
    reached = "".join(
        "[?]" if is_irregular(index) else f"[{_value(piecewise(index, here), here)}]" for index in access.indices
    )
    limits = "".join(f"[{extent if isinstance(extent, int) else print_expr(extent)}]" for extent in shape)
    left, remedy = f"outside {access.buf}{limits}", "change the subscript, the loop's bounds or the array's size"
    if is_open(shape[0]) and outside(replace(access, indices=access.indices[1:]), shape[1:], here).is_empty():
        left = f"before the first element of '{access.buf}'"
        remedy = f"let '{access.buf}' begin at the lowest element that is used, or change the subscript or the bounds"
    when = f" when {', '.join(f'{name} = {value}' for name, value in values.items())}" if values else ""
    return Problem(
        "DG012",
        f"'{print_expr(access)}' {'writes' if writes else 'reads'} {access.buf}{reached}{when}, {left}",
        access.loc,
        remedy,
    )


def zero_divisor(divisor: Expr, nest: Nest) -> str | None:
    """When a divisor is zero, whatever symbolic parameters are; None if it isn't, or isn't affine."""
    try:
        bad = condition(Unary("lnot", divisor, "i32"), nest).intersect(nest.domain)
    except NotAffine:
        return None
    if bad.is_empty() or not nest.domain.params().is_subset(bad.params()):
        return None
    here = Nest(nest.iters, isl.Set.from_point(_first(bad)))
    values = ", ".join(f"{name} = {_value(nest.variable(name), here)}" for name in nest.iters)
    return f" when {values}" if values else ""


def far_shift(amount: Expr, bits: int, nest: Nest) -> str | None:
    """By how much, and when, a value of so many bits is shifted too far, whatever symbolic parameters are."""
    access = Load("", (amount,), "i32")
    try:
        bad = outside(access, (bits,), nest)
    except NotAffine:
        return None
    if bad.is_empty() or not nest.domain.params().is_subset(bad.params()):
        return None
    here = Nest(nest.iters, isl.Set.from_point(_first(bad)))
    when = ", ".join(f"{name} = {_value(nest.variable(name), here)}" for name in nest.iters)
    return f"by {_value(piecewise(amount, here), here)}" + (f" when {when}" if when else "")


def _first(points: isl.Set) -> isl.Point:
    """The lexicographically least point; the greatest one where a loop counts down without an end, and any where loops
    go on in both directions."""
    for ends in (points.lexmin, points.lexmax):
        try:
            return ends().sample_point()
        except isl.Error:  # an unbounded optimum
            continue
    return points.sample_point()


def _value(value: isl.PwAff, here: Nest) -> int:
    return int(value.intersect_domain(here.domain).max_val().to_python())


def check_parameters(func: Func, parameters: Mapping[str, int]) -> list[Problem]:
    """The accesses that leave their arrays for these values of the integer parameters."""
    func, sizes = with_sizes(func)
    parameters = {**parameters, **{name: integer_of(size, parameters) for name, size in sizes.items()}}
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
                wrong = problem(access, shape_of(func.buf(access.buf), parameters), nest, writes=writes)
            except NotAffine:
                continue
            if wrong is not None:
                found.append(wrong)
    return found
