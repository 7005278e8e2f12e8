"""What a program of the language must fulfil once it is built: every value is computed before it is read."""

from __future__ import annotations

from collections.abc import Iterator, Set

import islpy as isl

from plant_core.ir.accesses import access_map, all_bufs, children, domain_of, integer, to_pw_aff
from plant_core.ir.func import Access, Binary, Buf, Comp, Expr, Func, Load, Param, Select
from plant_core.lang.domain import affine, condition_set, parts_of, sample_text
from plant_core.support.location import PlantError


def check_order(func: Func) -> None:
    """PlantError DG228 where a computation is read at an instance that the order of definition runs later, or whose
    element of memory has another value by then."""
    comps = {c.name: c for c in func.comps}
    for comp in func.comps:
        _check_inside(func, comp, comp.target, _known(func, comp))
        for access, where in _evaluated(comp.value, comp, _known(func, comp)):
            if isinstance(access, Load):
                _check_inside(func, comp, access, where)
            elif comps[access.comp].defines is None:
                read = comps[access.comp]
                image = _instances(comp, access, where).intersect_range(domain_of(read))
                _check_earlier(comp, access, read, image)
                for writer in func.comps:
                    between = _outermost(read) <= _outermost(writer) <= _outermost(comp)
                    if between and writer.target.buf == read.target.buf:
                        _check_kept(comp, access, read, writer, image)


def _outermost(comp: Comp) -> int:
    """Which of the program's outermost loops the computation is in."""
    return int(comp.schedule.plain_get_val_if_fixed(isl.dim_type.out, 0).to_python())


def check_storage(func: Func, implicit: frozenset[str]) -> None:
    """PlantError DG228 where an implicitly stored computation is read at an instance that it doesn't have, DG225 where
    the size of its array is known only when the program runs."""
    comps = {c.name: c for c in func.comps}
    defined = {c.defines for c in func.comps} - {None}
    for comp in func.comps:
        if comp.target.buf in implicit and comp.defines is None:
            _check_shape(func.buf(comp.target.buf), comp, defined)
        for access, where in _evaluated(comp.value, comp, _known(func, comp)):
            read = None if isinstance(access, Load) else comps[access.comp]
            if isinstance(access, Access) and read is not None and read.target.buf in implicit and read.defines is None:
                _check_exists(comp, access, read, _instances(comp, access, where))


def _known(func: Func, comp: Comp) -> isl.Set:
    domain = domain_of(comp)
    return domain if func.context is None else domain.intersect_params(func.context)


def _check_shape(buf: Buf, comp: Comp, defined: Set[str | None]) -> None:
    extents = (p for n in buf.shape if not isinstance(n, int) for p in parts_of(n))
    late = next((p.name for p in extents if isinstance(p, Param) and p.name in defined), None)
    if late is not None:
        raise PlantError(
            f"the size of an array for '{comp.name}' depends on '{late}', which isn't known at the function's start",
            loc=comp.loc,
            code="DG225",
            remedy="store it in an array of numbers and arguments of the function",
        )


def _instances(comp: Comp, access: Access, where: isl.Set) -> isl.Map:
    image = isl.Map.from_domain(where)
    for index in access.indices:
        image = image.flat_range_product(affine(index, comp, access.loc, "the subscript").as_map())
    return image.set_tuple_name(isl.dim_type.out, access.comp)


def _check_exists(comp: Comp, access: Access, read: Comp, image: isl.Map) -> None:
    outside = image.range().subtract(domain_of(read))
    if not outside.is_empty():
        raise PlantError(
            f"'{comp.name}' reads {sample_text(outside)}, which no instance of '{read.name}' computes",
            loc=access.loc,
            code="DG228",
            remedy=f"store '{read.name}' in the same array as what starts it, or bound the access with where()",
        )


def _check_inside(func: Func, comp: Comp, access: Load, where: isl.Set) -> None:
    """PlantError DG211 where an access leaves its array, whatever the parameters are for which it happens at all."""
    for k, (index, extent) in enumerate(zip(access.indices, all_bufs(func)[access.buf].shape, strict=True)):
        place = to_pw_aff(index, comp)
        size = to_pw_aff(integer(extent) if isinstance(extent, int) else extent, comp)
        if place is None or size is None:
            continue
        outside = where.intersect(place.lt_set(place.sub(place)).union(place.ge_set(size)))
        if outside.is_empty() or not where.params().is_subset(outside.params()):
            continue
        reader = isl.Set.from_point(outside.sample_point())
        value = sample_text(reader.apply(place.as_map().set_tuple_name(isl.dim_type.out, "")))
        raise PlantError(
            f"{sample_text(reader)} has {value.strip('[]')} as subscript {k} of '{access.buf}', which is outside of "
            "the array",
            loc=access.loc or comp.loc,
            code="DG211",
            remedy="make the array larger, or the domain smaller, or bound the access with where()",
        )


def _check_earlier(comp: Comp, access: Access, read: Comp, image: isl.Map) -> None:
    not_before = isl.Map.lex_le(comp.schedule.get_space().range())
    late = image.intersect(comp.schedule.apply_range(not_before).apply_range(read.schedule.reverse()))
    if not late.is_empty():
        reader = isl.Set.from_point(late.domain().sample_point())
        value = sample_text(late.intersect_domain(reader).range())
        raise PlantError(
            f"{sample_text(reader)} reads {value}, which is computed later",
            loc=access.loc,
            code="DG228",
            remedy=f"define '{read.name}' first, or in the same loops with comp(..., after=(computation, iterator)); "
            "what an array held before is read from the array itself",
        )


def _check_kept(comp: Comp, access: Access, read: Comp, writer: Comp, image: isl.Map) -> None:
    """Of the reads `image`, none has its element written by `writer` between the value's write and the read."""
    (kept, exact), (written, sure) = access_map(read, read.target), access_map(writer, writer.target)
    if not (exact and sure):
        return
    before = isl.Map.lex_lt(comp.schedule.get_space().range())
    reads, values = image.domain_map(), image.range_map()
    lost = (
        values.apply_range(kept)
        .apply_range(written.reverse())
        .intersect(values.apply_range(read.schedule).apply_range(before).apply_range(writer.schedule.reverse()))
        .intersect(
            reads.apply_range(comp.schedule).apply_range(before.reverse()).apply_range(writer.schedule.reverse())
        )
    )
    if not lost.is_empty():
        one = isl.Set.from_point(lost.domain().sample_point())
        over = sample_text(lost.intersect_domain(one).range())
        both = one.unwrap()
        raise PlantError(
            f"{sample_text(both.domain())} reads {sample_text(both.range())} from '{read.target.buf}', where {over} is "
            "written in between",
            loc=access.loc,
            code="DG228",
            remedy="store it with more of its iterators as subscripts, or start the computations in common loops: "
            "comp(..., after=(computation, iterator))",
        )


def _evaluated(expr: Expr, comp: Comp, where: isl.Set) -> Iterator[tuple[Access | Load, isl.Set]]:
    """The accesses that evaluating `expr` makes, with the instances that are sure to make them."""
    match expr:
        case Select(condition=condition, true=true, false=false):
            yield from _evaluated(condition, comp, where)
            yield from _evaluated(true, comp, where.intersect(_surely(condition, comp, where)))
            yield from _evaluated(false, comp, where.intersect(_surely(condition, comp, where, holds=False)))
            return
        case Binary(op="land" | "lor" as op, left=left, right=right):
            yield from _evaluated(left, comp, where)
            yield from _evaluated(right, comp, where.intersect(_surely(left, comp, where, holds=op == "land")))
            return
        case Access() | Load():
            yield expr, where
    for part in children(expr):
        yield from _evaluated(part, comp, where)


def _surely(condition: Expr, comp: Comp, where: isl.Set, *, holds: bool = True) -> isl.Set:
    """Where a condition is known to hold, or not to: nowhere, if it depends on data."""
    try:
        found = condition_set(condition, comp, None)
    except PlantError:
        return where.subtract(where)
    return found if holds else where.subtract(found)
