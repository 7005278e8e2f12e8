"""Quasi-affine isl functions as Expr, and the small isl helpers that the memory verbs share."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from plant_core.ir.accesses import combined, extremum, floordiv, integer, linear
from plant_core.ir.func import Buf, Expr, Iter, Param
from plant_core.support.location import PlantError


def aff_expr(aff: isl.Aff, names: Sequence[str]) -> Expr:
    """`aff`, which takes integer values only, over the iterators `names` (its inputs) and its parameters."""
    divisor = aff.get_denominator_val().to_python()
    aff = aff.scale_val(isl.Val(divisor))
    parts: list[tuple[Expr, int]] = [(integer(1), aff.get_constant_val().to_python())]
    for k, name in enumerate(names):
        parts.append((Iter(name), aff.get_coefficient_val(isl.dim_type.in_, k).to_python()))
    for k in range(aff.dim(isl.dim_type.param)):
        name = aff.get_dim_name(isl.dim_type.param, k)
        parts.append((Param(name, "i32"), aff.get_coefficient_val(isl.dim_type.param, k).to_python()))
    for k in range(aff.dim(isl.dim_type.div)):
        factor = aff.get_coefficient_val(isl.dim_type.div, k).to_python()
        if factor:
            parts.append((_floor(aff.get_div(k), names), factor))
    return floordiv(combined(*((e, c) for e, c in parts if c)), divisor)


def _floor(div: isl.Aff, names: Sequence[str]) -> Expr:
    divisor = div.get_denominator_val().to_python()
    whole = aff_expr(div.scale_val(isl.Val(divisor)), names)
    return floordiv(whole, divisor)


def pieces_of(value: isl.PwAff) -> list[tuple[isl.Set, isl.Aff]]:
    return list(value.get_pieces())


def pw_expr(value: isl.PwAff, names: Sequence[str]) -> Expr | None:
    """`value` as one Expr that holds on its whole domain; None where it is neither affine nor a min or max of such."""
    pieces = [aff for _, aff in pieces_of(value)]
    if not pieces:
        return integer(0)
    if len(pieces) == 1:
        return aff_expr(pieces[0], names)
    domain = value.domain()
    for aff in pieces:
        if isl.PwAff.from_aff(aff).intersect_domain(domain).is_equal(value):
            return aff_expr(aff, names)
    for op in ("max", "min"):
        joined = isl.PwAff.from_aff(pieces[0])
        for aff in pieces[1:]:
            other = isl.PwAff.from_aff(aff)
            joined = joined.max(other) if op == "max" else joined.min(other)
        if joined.intersect_domain(domain).is_equal(value):
            parts = tuple(dict.fromkeys(aff_expr(aff, names) for aff in pieces))
            return extremum("max" if op == "max" else "min", parts)
    return None


def form_text(expr: Expr) -> str:
    """An affine extent in isl's notation."""
    form = linear(expr)
    if form is None:
        raise PlantError("an extent isn't affine in the integer parameters", code="DG205")
    return " + ".join([str(form[0]), *(f"{c}*{name}" for name, c in form[1].items())])


def box(buf: Buf) -> isl.Set:
    """Every element of `buf`, `{ buf[x0, x1, ...] }`."""
    names = [f"x{k}" for k in range(len(buf.shape))]
    extents = [str(n) if isinstance(n, int) else form_text(n) for n in buf.shape]
    params = sorted({p for n in buf.shape if not isinstance(n, int) for p in (linear(n) or (0, {}))[1]})
    bounds = " and ".join(f"0 <= {x} < {n}" for x, n in zip(names, extents, strict=True)) or "true"
    return isl.Set(f"[{', '.join(params)}] -> {{ {buf.name}[{', '.join(names)}] : {bounds} }}")


def in_context(domain: isl.Set, context: isl.Set | None) -> isl.Set:
    return domain if context is None else domain.intersect_params(context.params())


def maps_of(union: isl.UnionMap) -> list[isl.Map]:
    found: list[isl.Map] = []
    union.foreach_map(found.append)
    return sorted(found, key=lambda m: str(m.get_space()))


def sample(relation: isl.Map) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, int]]:
    """One pair of a relation that isn't empty, and the parameters' values there."""
    count = relation.dim(isl.dim_type.in_)
    point = relation.wrap().flatten().sample_point()
    total = count + relation.dim(isl.dim_type.out)
    values = tuple(point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(total))
    params = {
        relation.get_dim_name(isl.dim_type.param, k): point.get_coordinate_val(isl.dim_type.param, k).to_python()
        for k in range(relation.dim(isl.dim_type.param))
    }
    return values[:count], values[count:], params


def span(cells: isl.Map, dim: int) -> int | None:
    """The most by which two elements of one image are apart in one dimension; None where nothing bounds it."""
    count = cells.dim(isl.dim_type.out)
    line = cells.project_out(isl.dim_type.out, dim + 1, count - dim - 1).project_out(isl.dim_type.out, 0, dim)
    line = line.reset_tuple_id(isl.dim_type.out) if line.has_tuple_id(isl.dim_type.out) else line
    try:
        found = line.dim_max(0).sub(line.dim_min(0)).max_val()
    except isl.Error:
        # isl refuses some differences of floors on domains with strides.
        try:
            found = line.reverse().apply_range(line).deltas().dim_max_val(0)
        except isl.Error:
            return None
    return int(found.to_python()) if found.is_int() else None


def values_at(region: isl.Set, dim: int) -> list[int]:
    """The values that one dimension of `region` takes, ascending; PlantError where there are infinitely many."""
    count = region.dim(isl.dim_type.set)
    line = region.project_out(isl.dim_type.set, dim + 1, count - dim - 1).project_out(isl.dim_type.set, 0, dim)
    line = line.project_out(isl.dim_type.param, 0, line.dim(isl.dim_type.param))
    if not line.is_bounded():
        raise PlantError("a schedule's positions aren't constants", code="DG202")
    found: list[int] = []
    line.foreach_point(lambda p: found.append(p.get_coordinate_val(isl.dim_type.set, 0).to_python()))
    return sorted(set(found))
