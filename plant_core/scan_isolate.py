"""Full tiles: the iterations of outer loops for which the marked loops inside run their full, constant extent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl

from plant_core.nest import Nest
from plant_core.scan_pieces import Piece, Step


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
    constant extent."""
    first, last = marked[0], marked[-1]
    count = domain.dim(isl.dim_type.set)
    # Strides are no gaps, and without them the set is a simple one, as isl's partition into full and partial needs it.
    domain = domain.project_out(isl.dim_type.set, last + 1, count - last - 1).reset_tuple_id().remove_divs().coalesce()
    box = isl.Set.universe(domain.get_space())
    for k in marked:
        low, high = domain.dim_min_val(k), domain.dim_max_val(k)
        if not low.is_int() or not high.is_int():
            return None
        box = box.lower_bound_val(isl.dim_type.set, k, low).upper_bound_val(isl.dim_type.set, k, high)
    outer = domain.project_out(isl.dim_type.set, first, len(marked))
    around = outer.insert_dims(isl.dim_type.set, first, len(marked))
    missing = around.intersect(box).subtract(domain).project_out(isl.dim_type.set, first, len(marked))
    full = outer.subtract(missing).remove_divs().coalesce()
    return isl.Set.from_basic_set(full.simple_hull())
