"""How large the part of an array is that one iteration touches, and how to lay it out densely.

Piece ::= offset + stride * [0, extent) in each dimension, and the accesses that fall in it
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import prod

import islpy as isl

from plant_core.ir.accesses import combined, integer
from plant_core.ir.func import Expr
from plant_core.schedule.memory import isl_expressions
from plant_core.schedule.memory.isl_expressions import pieces_of, pw_expr
from plant_core.support.location import Loc, PlantError


@dataclass(frozen=True, slots=True)
class Axis:
    """Elements `offset + stride * k` for k in [0, extent); `offset` is a function of the outer loops' values."""

    offset: isl.PwAff
    stride: int
    extent: int


@dataclass(frozen=True, slots=True)
class Piece:
    """`cells`: from the outer loops' values to the elements; `members` counts in the accesses given."""

    axes: tuple[Axis, ...]
    cells: isl.Map
    members: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(axis.extent for axis in self.axes)


def pieces(
    footprints: list[isl.Map], written: frozenset[int], outer: tuple[str, ...], loc: Loc, of: str
) -> list[Piece]:
    """The accesses' elements in boxes, joined where that wastes nothing, so that far translates stay apart.

    Each of `footprints` maps the outer loops' values to elements. Pieces that hold written elements share none with
    others. Raises PlantError (DG214) where no constant bounds an extent.
    """
    found = [Piece(_axes(f, outer, loc, of), f, (k,)) for k, f in enumerate(footprints)]
    found = _joined(found, written, outer, loc, of)
    if len(found) > 1:
        whole = _union(found, outer, loc, of)
        if whole is not None and whole.size <= sum(p.size for p in found):
            return [whole]
    return found


def _joined(found: list[Piece], written: frozenset[int], outer: tuple[str, ...], loc: Loc, of: str) -> list[Piece]:
    refused: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    while True:
        for a, b in combinations(found, 2):
            if (a.members, b.members) in refused:
                continue
            must = bool(written & {*a.members, *b.members}) and not a.cells.intersect(b.cells).is_empty()
            union = _union([a, b], outer, loc, of, needed=must)
            if union is not None and (must or union.size <= a.size + b.size):
                found = [union, *(p for p in found if p is not a and p is not b)]
                found.sort(key=lambda p: p.members)
                break
            refused.add((a.members, b.members))
        else:
            return found


def _union(parts: list[Piece], outer: tuple[str, ...], loc: Loc, of: str, *, needed: bool = False) -> Piece | None:
    cells = parts[0].cells
    for part in parts[1:]:
        cells = cells.union(part.cells)
    cells = cells.coalesce()
    members = tuple(sorted(m for p in parts for m in p.members))
    try:
        return Piece(_axes(cells, outer, loc, of), cells, members)
    except PlantError:
        if needed:
            raise
        return None


def _axes(cells: isl.Map, outer: tuple[str, ...], loc: Loc, of: str) -> tuple[Axis, ...]:
    return tuple(_axis(cells, k, outer, loc, of) for k in range(cells.dim(isl.dim_type.out)))


def _axis(cells: isl.Map, dim: int, outer: tuple[str, ...], loc: Loc, of: str) -> Axis:
    try:
        low, high = cells.dim_min(dim), cells.dim_max(dim)
        stride = cells.get_range_stride_info(dim).get_stride().to_python()
    except isl.Error:
        raise _unbounded(loc, of, dim) from None
    span = isl_expressions.span(cells, dim)
    if span is None:
        raise _unbounded(loc, of, dim)
    stride = max(int(stride), 1)
    if stride > span:
        stride = 1 if span else stride
    low = low.coalesce()
    if _single(low, high, stride, span) is None and pw_expr(low, outer) is None:
        return _loose(low, high, stride, loc, of, dim)
    start = _single(low, high, stride, span) or low
    return Axis(start, stride if span else 1, span // stride + 1 if span else 1)


def _single(low: isl.PwAff, high: isl.PwAff, stride: int, span: int) -> isl.PwAff | None:
    """One affine function that can stand for `low` at no cost in size."""
    found = pieces_of(low)
    if len(found) == 1:
        return isl.PwAff.from_aff(found[0][1])
    for _, aff in found:
        whole = isl.PwAff.from_aff(aff)
        slack = low.sub(whole)
        least, most = slack.min_val(), high.sub(whole).max_val()
        aligned = slack.scale_down_val(isl.Val(stride)).floor().scale_val(isl.Val(stride)).is_equal(slack)
        if least.is_nonneg() and most.is_int() and most.to_python() <= span and aligned:
            return whole
    return None


def _loose(low: isl.PwAff, high: isl.PwAff, stride: int, loc: Loc, of: str, dim: int) -> Axis:
    """The least box that starts at one affine function, where the elements' own start is none nor a min or max."""
    best: Axis | None = None
    starts = [isl.PwAff.from_aff(aff) for _, aff in pieces_of(low)]
    least = low.min_val()
    if least.is_int():
        space = low.get_domain_space()
        starts.append(isl.PwAff.from_aff(isl.Aff.zero_on_domain_space(space).set_constant_val(least)))
    for start in starts:
        slack = low.sub(start)
        most = high.sub(start).max_val()
        if not (slack.min_val().is_nonneg() and most.is_int()):
            continue
        aligned = slack.scale_down_val(isl.Val(stride)).floor().scale_val(isl.Val(stride)).is_equal(slack)
        step = stride if aligned else 1
        axis = Axis(start, step, most.to_python() // step + 1)
        if best is None or axis.extent < best.extent:
            best = axis
    if best is None:
        raise _unbounded(loc, of, dim)
    return best


def _unbounded(loc: Loc, of: str, dim: int) -> PlantError:
    return PlantError(
        f"no constant bounds how many elements of '{of}' one iteration touches in dimension {dim}",
        loc=loc,
        code="DG214",
        remedy="split the loops inside, cache in a loop further in, or bound the parameters with set_constraint",
    )


def box_round(cells: isl.Map) -> isl.Map:
    """The least box of elements that holds those of `cells`, for each of the outer loops' values."""
    result = isl.Map.universe(cells.get_space())
    rank = cells.dim(isl.dim_type.out)
    for dim in range(rank):
        for bound, sign in ((cells.dim_min(dim), "<="), (cells.dim_max(dim), ">=")):
            names = ", ".join(f"x{k}" for k in range(rank))
            beyond = isl.Map(f"{{ [b] -> [{names}] : b {sign} x{dim} }}")
            beyond = beyond.set_tuple_name(isl.dim_type.out, cells.get_tuple_name(isl.dim_type.out))
            result = result.intersect(bound.as_map().apply_range(beyond))
    return result.coalesce()


# --- layout -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """`shape` of the buffer, and for each piece how its coordinates become subscripts: along one dimension from a
    base on, or, where `flat`, row-major from a base on. `order` has the dimensions as they lie, the slowest first;
    `along` is a place in it."""

    shape: tuple[int, ...]
    bases: tuple[int, ...]
    along: int
    flat: bool
    order: tuple[int, ...]

    def subscripts(self, piece: int, extents: tuple[int, ...], coordinates: tuple[Expr, ...]) -> tuple[Expr, ...]:
        extents, coordinates = tuple(extents[k] for k in self.order), tuple(coordinates[k] for k in self.order)
        base = self.bases[piece]
        if not self.flat:
            return tuple(
                combined((e, 1), (integer(1), base)) if k == self.along else e for k, e in enumerate(coordinates)
            )
        parts: list[tuple[Expr, int]] = [(integer(1), base)]
        for k, e in enumerate(coordinates):
            parts.append((e, prod(extents[k + 1 :])))
        return (combined(*parts),)


def layout(found: list[Piece], order: tuple[int, ...]) -> Layout:
    extents = [tuple(p.axes[k].extent for k in order) for p in found]
    if len(found) == 1:
        return Layout(extents[0], (0,), 0, False, order)
    rank = len(extents[0])
    differing = [k for k in range(rank) if len({e[k] for e in extents}) > 1]
    if len(differing) <= 1:
        along = differing[0] if differing else 0
        bases = _bases([e[along] for e in extents])
        shape = tuple(bases[-1] if k == along else n for k, n in enumerate(extents[0]))
        return Layout(shape, bases[:-1], along, False, order)
    bases = _bases([p.size for p in found])
    return Layout((bases[-1],), bases[:-1], 0, True, order)


def _bases(sizes: list[int]) -> tuple[int, ...]:
    bases = [0]
    for size in sizes:
        bases.append(bases[-1] + size)
    return tuple(bases)
