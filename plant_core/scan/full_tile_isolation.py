"""Full tiles: the iterations of outer loops for which the marked loops inside run their full, constant extent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import islpy as isl

from plant_core.ir.scheduled import Nest
from plant_core.scan.statement_times import Piece, Step

_MOST_CORNERED = 6


def isolated(
    members: Sequence[Piece | Step], domains: Mapping[str, isl.Set], outer: tuple[int, ...], depth: int
) -> isl.Set | None:
    """`{ isolate[[outer] -> [t]] }` for the loop number `depth` inside the loops `outer`: those of its iterations that
    hold full tiles of every statement with marked loops inside. None where no loop is marked, or none is ever full."""
    result: isl.Set | None = None
    for name, nest in _nests(members):
        if _runs_at_once(nest, depth):
            return None
        marked = tuple(k for k in _marked(nest, depth) if k < domains[name].dim(isl.dim_type.set))
        full = _full(domains[name], marked) if marked else None
        if full is None:
            continue
        inner = full.dim(isl.dim_type.set) - depth - 1
        if inner < 0:
            kept = full.insert_dims(isl.dim_type.set, depth, 1)
        else:
            kept = full.project_out(isl.dim_type.set, depth + 1, inner)
        for k in range(depth - 1, -1, -1):
            if k not in outer:
                kept = kept.project_out(isl.dim_type.set, k, 1)
        result = kept if result is None else result.intersect(kept)
    if result is None or result.is_empty():
        return None
    nested = isl.Map.from_range(isl.Set.from_basic_set(result.remove_divs().simple_hull()))
    nested = nested.move_dims(isl.dim_type.in_, 0, isl.dim_type.out, 0, len(outer))
    return nested.wrap().set_tuple_name("isolate")


def _nests(members: Sequence[Piece | Step]) -> list[tuple[str, Nest]]:
    return [(m.name, p.nest) for m in members for p in (m.pieces if isinstance(m, Step) else (m,))]


def _runs_at_once(nest: Nest, depth: int) -> bool:
    """Whether the loop's iterations run side by side: then it stays one loop, with full and partial tiles together,
    for what is split off would run after it, alone."""
    tag = nest.tag(nest.loops[depth])
    return tag == "parallel" or (tag is not None and tag.startswith("gpu_"))


def _marked(nest: Nest, depth: int) -> tuple[int, ...]:
    """The first run of consecutive loops inside the loop number `depth` that say `isolate`.

    Its own run is no tile, unless the loop around is one that stays whole, and left the partition to this one.
    """
    says = [nest.option(loop) == "isolate" for loop in nest.loops]
    first = depth
    if says[depth] and depth and not says[depth - 1] and _runs_at_once(nest, depth - 1):
        while first < len(says) and says[first]:
            first += 1
        return tuple(range(depth, first))
    while first < len(says) and says[first]:
        first += 1
    while first < len(says) and not says[first]:
        first += 1
    last = first
    while last < len(says) and says[last]:
        last += 1
    return tuple(range(first, last))


def _full(domain: isl.Set, marked: tuple[int, ...]) -> isl.Set | None:
    """Where, over the loops outside the marked ones, these run over all of their extents; None if some has no
    constant extent. A single convex set: where full tiles lie in several, it is the widest of them."""
    last = marked[-1]
    count = domain.dim(isl.dim_type.set)
    # Strides are no gaps, and without them the set is a simple one, as isl's partition into full and partial needs it.
    domain = domain.project_out(isl.dim_type.set, last + 1, count - last - 1).reset_tuple_id().remove_divs().coalesce()
    parts = domain.get_basic_sets()
    if len(parts) == 1 and len(marked) <= _MOST_CORNERED:
        full = _cornered(domain, parts[0], marked)
    else:
        full = _unbroken(domain, marked)
    if full is None:
        return None
    return max((isl.Set.from_basic_set(part) for part in full.get_basic_sets()), key=_width, default=None)


def _cornered(domain: isl.Set, convex: isl.BasicSet, marked: tuple[int, ...]) -> isl.Set | None:
    """Of a convex domain: a tile is full if its corners are in."""
    extents = [_extent(domain, convex, k, marked) for k in marked]
    if any(extent is None for extent in extents):
        return None
    full = domain.project_out(isl.dim_type.set, marked[0], len(marked))
    for corner in product(*(extent for extent in extents if extent is not None)):
        there = domain
        for side in corner:
            there = there.intersect(side)
        full = full.intersect(there.project_out(isl.dim_type.set, marked[0], len(marked)))
    return full


def _extent(domain: isl.Set, convex: isl.BasicSet, k: int, marked: tuple[int, ...]) -> tuple[isl.Set, isl.Set] | None:
    """The sets in which a loop is at the first and at the last of its iterations in a full tile: constants, or the same
    multiples of the loops outside plus constants, as in `32 * o <= i < 32 * o + 32`."""
    low, high = domain.dim_min_val(k), domain.dim_max_val(k)
    if low.is_int() and high.is_int():
        return domain.fix_val(isl.dim_type.set, k, low), domain.fix_val(isl.dim_type.set, k, high)
    lowers, uppers = _bounds(convex, k, marked, 1), _bounds(convex, k, marked, -1)
    pairs = [(lower, uppers[slope]) for slope, lower in lowers.items() if slope in uppers]
    if not pairs:
        return None
    lower, upper = min(pairs, key=lambda pair: pair[1].sub(pair[0]).get_constant_val().to_python())
    here = isl.PwAff.from_aff(isl.Aff.var_on_domain(lower.get_domain_local_space(), isl.dim_type.set, k))
    first, last = (domain.intersect(here.eq_set(isl.PwAff.from_aff(side))) for side in (lower, upper))
    return first, last


def _bounds(convex: isl.BasicSet, k: int, marked: tuple[int, ...], sign: int) -> dict[tuple[int, ...], isl.Aff]:
    """The tightest bound of the loop, below for a positive sign, for each slope over the loops outside."""
    found: dict[tuple[int, ...], isl.Aff] = {}
    for constraint in convex.get_constraints():
        aff = constraint.get_aff()
        slope = tuple(_coefficient(aff, d) for d in range(convex.dim(isl.dim_type.set)))
        others = any(slope[m] for m in marked if m != k) or slope[k] != sign
        if constraint.is_equality() or others or aff.involves_dims(isl.dim_type.param, 0, aff.dim(isl.dim_type.param)):
            continue
        key = tuple(-sign * c for d, c in enumerate(slope) if d != k)
        bound = aff.set_coefficient_val(isl.dim_type.in_, k, isl.Val(0)).scale_val(isl.Val(-sign))
        weaker = key in found and sign * (bound.sub(found[key])).get_constant_val().to_python() <= 0
        if not weaker:
            found[key] = bound
    return found


def _coefficient(aff: isl.Aff, k: int) -> int:
    return int(aff.get_coefficient_val(isl.dim_type.in_, k).to_python())


def _unbroken(domain: isl.Set, marked: tuple[int, ...]) -> isl.Set | None:
    first = marked[0]
    box = isl.Set.universe(domain.get_space())
    for k in marked:
        low, high = domain.dim_min_val(k), domain.dim_max_val(k)
        if not low.is_int() or not high.is_int():
            return None
        box = box.lower_bound_val(isl.dim_type.set, k, low).upper_bound_val(isl.dim_type.set, k, high)
    outer = domain.project_out(isl.dim_type.set, first, len(marked))
    around = outer.insert_dims(isl.dim_type.set, first, len(marked))
    missing = around.intersect(box).subtract(domain).project_out(isl.dim_type.set, first, len(marked))
    return outer.subtract(missing).remove_divs().coalesce()


def _width(part: isl.Set) -> float:
    """The number of points of its bounding box."""
    size = 1.0
    for k in range(part.dim(isl.dim_type.set)):
        low, high = part.dim_min_val(k), part.dim_max_val(k)
        size *= high.to_python() - low.to_python() + 1 if low.is_int() and high.is_int() else float(2**31)
    return size
