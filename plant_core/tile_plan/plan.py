"""Tiling plans, and the exact partition of each Comp's instances into full tiles that a plan stands for.

A plan tries the shapes of a Comp in turn. A shape with spans s takes every origin o on a lattice of step s whose whole
box o + [0, s) is still uncovered; what is left goes to the next shape, and at last to single instances. Rectangular
rests are kept as disjoint rectangles, each with a lattice of its own from its own lower corner (outermost loop of the
plan's order first); any other rest has one lattice, from its least iterations where these are constant, else from 0.

A shape of which some loop is `part` covers all that is left, its boxes on the lattice from the least iterations; what
of a box is no instance doesn't run. Along its loops that are no `part`, boxes don't reach beyond the last iteration of
all: where that would be in the midst of a box, the rest goes to the next shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

import islpy as isl

from plant_core.analysis.parametric_loops import Interval, has_division, intervals_of
from plant_core.ir.accesses import domain_of, from_linear
from plant_core.ir.func import Comp, Expr, Func
from plant_core.ir.loop_tree import Tile
from plant_core.support.location import PlantError


@dataclass(frozen=True, slots=True)
class LoopShape:
    """How a tile covers one loop: `span` consecutive iterations, across lanes or not. See `tree.Tile`.

    `row`: the tiles of a lane loop start at the first iteration of each row that is left; rows with gaps are left to
    the shapes that follow. `cut`: they do, and cover all of the row, the last tile only as far as the row goes; in
    tiles of several loops, whose bounds then depend on parameters only, they do so in each row of a tile. `part`:
    the box may hold more than there are instances. `deal`: so many vectors take turns. `spare`: in rectangles, the
    last iteration is left to the shapes that follow, which then always have some.
    """

    span: int
    lane: bool = False
    reduce: bool = False
    split: bool = False
    flip: bool = False
    inner: bool = False
    cut: bool = False
    row: bool = False
    scan: bool = False
    part: bool = False
    deal: int = 1
    spare: bool = False


Shape = tuple[tuple[str, LoopShape], ...]


@dataclass(frozen=True, slots=True)
class CompPlan:
    """`order`: the Comp's iterators, outermost first. `shapes`: tried in turn; an iterator that isn't named has span 1.

    `constants` replaces the Comp's textual positions among its neighbours (the c's of its 2d+1 schedule), which fuses
    or separates loops.
    """

    order: tuple[str, ...]
    shapes: tuple[Shape, ...] = ()
    constants: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A CompPlan for some of a Func's Comps; the others run as they are written."""

    comps: tuple[tuple[str, CompPlan], ...] = ()

    @staticmethod
    def of(plans: Mapping[str, CompPlan]) -> Plan:
        return Plan(tuple(plans.items()))

    def for_comp(self, comp: Comp) -> CompPlan:
        return dict(self.comps).get(comp.name, CompPlan(comp.iters))


@dataclass(frozen=True, slots=True)
class TileSet:
    """All the tiles of one shape of one Comp.

    `origins` and `points` (the instances covered) are sets of the Comp's iteration space; `to_origin` is the function
    from a point to its tile's origin, meaningful on `points` only. `last`: for tiles that may be cut short, the last
    iteration of the lane loop in the row of an origin. `guards`: for boxes that may hold more than there are instances,
    what is at least 0 on these alone.
    """

    comp: Comp
    tile: Tile
    origins: isl.Set
    points: isl.Set
    to_origin: isl.MultiPwAff
    last: isl.PwAff | None = None
    guards: tuple[Expr, ...] = ()


def plan_default(func: Func) -> Plan:
    """Every Comp in its own order, one instance at a time."""
    return Plan(tuple((comp.name, CompPlan(comp.iters)) for comp in func.comps))


def validate_plan(func: Func, plan: Plan) -> None:
    """PlantError unless the plan speaks of `func`'s own Comps and iterators."""
    comps = {comp.name: comp for comp in func.comps}
    for name, comp_plan in plan.comps:
        if name not in comps:
            raise PlantError(f"the plan names {name}, which the program lacks", code="DG202", loc=func.loc)
        _validate_comp(comps[name], comp_plan)


def _validate_comp(comp: Comp, plan: CompPlan) -> None:
    def refuse(what: str) -> PlantError:
        return PlantError(f"the plan of {comp.name} {what}", code="DG202", loc=comp.loc)

    if sorted(plan.order) != sorted(comp.iters):
        raise refuse(f"orders ({', '.join(plan.order)}), its loops are ({', '.join(comp.iters)})")
    if plan.constants is not None and len(plan.constants) != len(comp.iters) + 1:
        raise refuse(f"has {len(plan.constants)} textual positions in place of {len(comp.iters) + 1}")
    for shape in plan.shapes:
        names = [name for name, _ in shape]
        if len(set(names)) != len(names) or not set(names) <= set(comp.iters):
            raise refuse(f"has a shape over ({', '.join(names)}), its loops are ({', '.join(comp.iters)})")
        if any(loop.span < 1 for _, loop in shape):
            raise refuse("has a span under 1")
        if sum(loop.lane for _, loop in shape) > 1:
            raise refuse("puts two loops across the lanes")
        if any((loop.reduce or loop.cut or loop.row) and not loop.lane for _, loop in shape):
            raise refuse("reduces or cuts a loop that is not across the lanes")
        if any(loop.scan and (not loop.lane or loop.reduce) for _, loop in shape):
            raise refuse("scans a loop that is not across the lanes, or a reduction")
        if any(loop.inner for _, loop in shape):
            _validate_inner(shape, refuse)
        if any(loop.deal != 1 for _, loop in shape):
            _validate_deal(shape, refuse)
        if by_rows(shape) and sum(loop.span > 1 for _, loop in shape) > 1:
            raise refuse("has rows in tiles of several loops")
        if in_parts(shape) and (by_rows(shape) or is_cut(shape) or any(loop.inner or loop.scan for _, loop in shape)):
            raise refuse("cuts, scans or interleaves lanes of boxes that may reach beyond its instances")


def _validate_inner(shape: Shape, refuse: Callable[[str], PlantError]) -> None:
    outer = [loop for _, loop in shape if loop.lane]
    if sum(loop.inner for _, loop in shape) > 1 or len(outer) != 1 or outer[0].inner:
        raise refuse("puts an inner loop across the lanes, but not one other")
    if outer[0].reduce or outer[0].flip or outer[0].scan or by_rows(shape) or is_cut(shape):
        raise refuse("reduces, flips, scans or cuts lanes of two loops")


def _validate_deal(shape: Shape, refuse: Callable[[str], PlantError]) -> None:
    dealt = [loop for _, loop in shape if loop.deal != 1]
    if any(loop.deal < 1 or not loop.lane for loop in dealt):
        raise refuse("deals out a loop that is not across the lanes")
    if any(x.inner for _, x in shape) or any(x.flip or x.scan or x.cut or x.row or x.part for x in dealt):
        raise refuse("deals out a loop that is flipped, scanned or cut short, or shares its lanes")


def by_rows(shape: Shape) -> bool:
    """Whether tiles are parts of single rows, which may begin and end anywhere."""
    return any(loop.row for _, loop in shape) or (is_cut(shape) and sum(loop.span > 1 for _, loop in shape) == 1)


def is_cut(shape: Shape) -> bool:
    return any(loop.cut for _, loop in shape)


def in_parts(shape: Shape) -> bool:
    return any(loop.part for _, loop in shape)


def tile_of(comp: Comp, shape: Shape) -> Tile:
    loops = dict(shape)
    spans = tuple(loops[name].span if name in loops else 1 for name in comp.iters)
    lane = next((name for name in comp.iters if name in loops and loops[name].lane), None)
    split = tuple(name for name in comp.iters if name in loops and loops[name].split)
    if lane is None:
        return Tile(spans, None, False, split)
    inner = next((name for name in comp.iters if name in loops and loops[name].inner), None)
    across = loops[lane]
    return Tile(spans, lane, across.reduce, split, across.flip, inner, across.scan, across.deal)


def tile_sets(comp: Comp, plan: CompPlan) -> tuple[TileSet, ...]:
    """The Comp's instances as disjoint sets of full tiles, one for each shape that covers anything."""
    found = []
    pieces = [_Piece(domain_of(comp).coalesce(), None)]
    for shape in plan.shapes:
        tile = tile_of(comp, shape)
        if in_parts(shape):
            whole = reduce(isl.Set.union, [piece.points for piece in pieces], isl.Set.empty(comp.domain.get_space()))
            points, rest = _whole_along(comp, shape, tile, whole.coalesce())
            pieces = [_Piece(rest, None)] if not rest.is_empty() else []
            if not points.is_empty():
                found.append(_cover_parts(comp, shape, tile, points))
            continue
        covers, rests = [], []
        for piece in _convex_rows(pieces) if by_rows(shape) else pieces:
            cover = _cover(comp, plan, shape, piece)
            if cover.origins.is_empty():
                rests.append(piece)
            else:
                covers.append(cover)
                rests += [rest for rest in cover.rests if not rest.points.is_empty()]
        if covers:
            found.append(_joined(comp, tile, covers))
        pieces = rests
    if pieces:
        rest = reduce(isl.Set.union, [piece.points for piece in pieces]).coalesce()
        if not rest.is_empty():
            found.append(TileSet(comp, Tile((1,) * len(comp.iters)), rest, rest, _identity(rest)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Points not yet covered; `intervals` has the loops whose bounds depend on no other loop, once they are known."""

    points: isl.Set
    intervals: dict[int, Interval] | None


@dataclass(frozen=True, slots=True)
class _Cover:
    origins: isl.Set
    points: isl.Set
    to_origin: isl.MultiPwAff
    rests: list[_Piece]
    last: isl.PwAff | None = None


def _joined(comp: Comp, tile: Tile, covers: list[_Cover]) -> TileSet:
    if len(covers) == 1:
        only = covers[0]
        return TileSet(comp, tile, only.origins, only.points, only.to_origin, only.last)
    origins = reduce(isl.Set.union, [c.origins for c in covers]).coalesce()
    points = reduce(isl.Set.union, [c.points for c in covers]).coalesce()
    parts = [c.to_origin.intersect_domain(c.points) for c in covers]
    ends = [c.last.intersect_domain(c.origins) for c in covers if c.last is not None]
    last = reduce(isl.PwAff.union_add, ends) if ends else None
    return TileSet(comp, tile, origins, points, reduce(isl.MultiPwAff.union_add, parts), last)


def _cover(comp: Comp, plan: CompPlan, shape: Shape, piece: _Piece) -> _Cover:
    tile = tile_of(comp, shape)
    if by_rows(shape) and tile.lane is not None:
        lane = dict(shape)[tile.lane]
        return _cover_rows(piece.points, comp.iters.index(tile.lane), lane.span, cut=lane.cut)
    intervals = intervals_of(piece.points) if piece.intervals is None else piece.intervals
    spanned = [k for name in plan.order if tile.spans[k := comp.iters.index(name)] > 1]
    if all(k in intervals for k in spanned):
        across = None if tile.lane is None else comp.iters.index(tile.lane)
        cut = across if is_cut(shape) and across in spanned else None
        spare = frozenset(comp.iters.index(name) for name, loop in shape if loop.spare)
        return _cover_rectangle(tile, piece.points, intervals, spanned, cut, spare)
    if is_cut(shape):
        why = f"the plan of {comp.name} cuts tiles of loops whose bounds depend on each other"
        raise PlantError(why, code="DG202", loc=comp.loc)
    return _cover_any(tile, piece.points)


# --- rectangles ---------------------------------------------------------------------------------------------------


def _cover_rectangle(
    tile: Tile,
    piece: isl.Set,
    intervals: dict[int, Interval],
    order: list[int],
    cut: int | None = None,
    spare: frozenset[int] = frozenset(),
) -> _Cover:
    """Tiles from the first iteration of each loop on, all full but along the loop `cut`; along loops of `spare` without
    the last iteration."""
    local = isl.LocalSpace.from_space(piece.get_space())
    origins, points = piece, piece
    to_origin = _identity(piece)
    rests = []
    known = dict(intervals)
    for k in order:
        span, interval = tile.spans[k], intervals[k]
        here = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, isl.dim_type.set, k))
        phase = here.sub(interval.base).mod_val(isl.Val(span))
        if k == cut:
            origins = origins.intersect(phase.zero_set())
            to_origin = to_origin.set_at(k, here.sub(phase))
            continue
        kept = 1 if k in spare else 0
        last = here.add_constant_val(isl.Val(span - 1 + kept))
        origins = origins.intersect(phase.zero_set()).intersect(last.le_set(interval.upper))
        length = interval.upper.sub(interval.base).add_constant_val(isl.Val(1 - kept))
        end = interval.base.add(length.scale_down_val(isl.Val(span)).floor().scale_val(isl.Val(span)))
        # Stating each side's own bounds anew spares isl from proving that `end` lies above `base`.
        free = points.eliminate(isl.dim_type.set, k, 1)
        rest = free.intersect(here.ge_set(end)).intersect(here.le_set(interval.upper))
        rests.append(_Piece(rest, known | {k: Interval(end, interval.upper)}))
        points = free.intersect(here.ge_set(interval.base)).intersect(here.lt_set(end))
        known[k] = Interval(interval.base, end.add_constant_val(isl.Val(-1)))
        to_origin = to_origin.set_at(k, here.sub(phase))
    return _Cover(origins, points, to_origin, rests, None if cut is None else intervals[cut].upper)


# --- rows cut short -----------------------------------------------------------------------------------------------


def _convex_rows(pieces: list[_Piece]) -> list[_Piece]:
    """Disjoint pieces without holes, as far as these come apart."""
    found = []
    for piece in pieces:
        if piece.points.n_basic_set() == 1:
            found.append(piece)
        else:
            apart = piece.points.make_disjoint().coalesce().get_basic_sets()
            found += [_Piece(isl.Set.from_basic_set(b), None) for b in apart]
    return found


def _cover_rows(piece: isl.Set, dim: int, span: int, *, cut: bool) -> _Cover:
    """Tiles of `span` along `dim` from the first point of each row of `piece`, all full or to its last point; rows with
    gaps are left."""
    row = isl.Map.universe(piece.get_space().map_from_set())
    for k in range(piece.dim(isl.dim_type.set)):
        if k != dim:
            row = row.equate(isl.dim_type.in_, k, isl.dim_type.out, k)
    rows = row.intersect_domain(piece.eliminate(isl.dim_type.set, dim, 1)).intersect_range(piece)
    first, last = (
        isl.MultiPwAff.from_pw_multi_aff(m).get_at(dim)
        for m in (rows.lexmin_pw_multi_aff(), rows.lexmax_pw_multi_aff())
    )
    here = isl.PwAff.from_aff(
        isl.Aff.var_on_domain(isl.LocalSpace.from_space(piece.get_space()), isl.dim_type.set, dim)
    )
    gaps = first.le_set(here).intersect(here.le_set(last)).subtract(piece)
    broken = piece.intersect(gaps.eliminate(isl.dim_type.set, dim, 1))
    points = piece.subtract(broken)
    phase = here.sub(first).mod_val(isl.Val(span))
    to_origin = _identity(piece).set_at(dim, here.sub(phase))
    rests = [_Piece(broken, None)]
    if not cut:
        full = here.sub(phase).add_constant_val(isl.Val(span - 1)).le_set(last)
        rests.append(_Piece(points.subtract(full).coalesce(), None))
        points = points.intersect(full)
    points = points.coalesce()
    return _Cover(points.intersect(phase.zero_set()), points, to_origin, rests, last.coalesce() if cut else None)


# --- any shape ----------------------------------------------------------------------------------------------------


def _cover_any(tile: Tile, piece: isl.Set) -> _Cover:
    local = isl.LocalSpace.from_space(piece.get_space())
    full = piece
    for k, span in enumerate(tile.spans):
        if span > 1:
            full = _eroded(full, k, span)
    to_origin = _identity(piece)
    for k, span in enumerate(tile.spans):
        if span == 1:
            continue
        here = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, isl.dim_type.set, k))
        least = piece.dim_min_val(k)
        base = least if least.is_int() else isl.Val(0)
        phase = here.add_constant_val(base.neg()).mod_val(isl.Val(span))
        full = full.intersect(phase.zero_set())
        to_origin = to_origin.set_at(k, here.sub(phase))
    points = full.preimage_multi_pw_aff(to_origin).coalesce()
    return _Cover(full, points, to_origin, [_Piece(piece.subtract(points).coalesce(), None)])


def _whole_along(comp: Comp, shape: Shape, tile: Tile, points: isl.Set) -> tuple[isl.Set, isl.Set]:
    """The points in boxes that don't reach beyond the loops that are no `part`, and the others."""
    kept, rest = points, isl.Set.empty(points.get_space())
    if points.is_empty():
        return kept, rest
    for name, loop in shape:
        k = comp.iters.index(name)
        if loop.part or loop.span == 1:
            continue
        low, high = points.dim_min_val(k), points.dim_max_val(k)
        if not (low.is_int() and high.is_int()):
            raise PlantError(f"the boxes of {comp.name} end nowhere", code="DG202", loc=comp.loc)
        end = high.to_python() + 1 - (high.to_python() + 1 - low.to_python()) % tile.spans[k]
        rest = rest.union(kept.lower_bound_val(isl.dim_type.set, k, isl.Val(end)))
        kept = kept.upper_bound_val(isl.dim_type.set, k, isl.Val(end - 1))
    return kept.coalesce(), rest.coalesce()


def _cover_parts(comp: Comp, shape: Shape, tile: Tile, points: isl.Set) -> TileSet:
    """Every box that holds a point."""
    local = isl.LocalSpace.from_space(points.get_space())
    to_origin = _identity(points)
    for k, span in enumerate(tile.spans):
        least = points.dim_min_val(k)
        if span == 1:
            continue
        if not least.is_int():
            raise PlantError(f"the boxes of {comp.name} begin nowhere", code="DG202", loc=comp.loc)
        here = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, isl.dim_type.set, k))
        to_origin = to_origin.set_at(k, here.sub(here.add_constant_val(least.neg()).mod_val(isl.Val(span))))
    origins = points.apply(isl.Map.from_multi_pw_aff(to_origin)).coalesce()
    return TileSet(comp, tile, origins, points, to_origin, guards=_guards(comp, shape, points))


def _guards(comp: Comp, shape: Shape, points: isl.Set) -> tuple[Expr, ...]:
    """What limits the loops along which boxes may reach beyond the instances."""
    if points.n_basic_set() != 1 or any(map(has_division, points.get_basic_sets()[0].get_constraints())):
        raise PlantError(f"the rest of {comp.name} is no convex region", code="DG202", loc=comp.loc)
    spanned = [comp.iters.index(name) for name, loop in shape if loop.part and loop.span > 1]
    found: list[Expr] = []
    for constraint in points.get_basic_sets()[0].get_constraints():
        if not any(constraint.involves_dims(isl.dim_type.set, k, 1) for k in spanned):
            continue
        terms: dict[str, int] = {}
        for kind, names in ((isl.dim_type.set, comp.iters), (isl.dim_type.param, None)):
            for k in range(constraint.dim(kind)):
                name = names[k] if names is not None else constraint.get_dim_name(kind, k)
                terms[name] = constraint.get_coefficient_val(kind, k).to_python()
        form = (constraint.get_constant_val().to_python(), {n: c for n, c in terms.items() if c})
        found.append(from_linear(form, set(comp.iters)))
        if constraint.is_equality():
            found.append(from_linear((-form[0], {n: -c for n, c in form[1].items()}), set(comp.iters)))
    return tuple(found)


def _eroded(region: isl.Set, dim: int, span: int) -> isl.Set:
    """The points of `region` that start a run of `span` points along `dim` inside it."""
    if region.n_basic_set() == 1 and region.get_basic_sets()[0].dim(isl.dim_type.div) == 0:
        return _eroded_convex(region.get_basic_sets()[0], dim, span)
    steps = isl.Map.universe(region.get_space().map_from_set())
    for k in range(region.dim(isl.dim_type.set)):
        if k != dim:
            steps = steps.equate(isl.dim_type.in_, k, isl.dim_type.out, k)
    local = isl.LocalSpace.from_space(steps.get_space())
    delta = isl.Constraint.alloc_inequality(local)
    delta = delta.set_coefficient_val(isl.dim_type.in_, dim, isl.Val(-1))
    delta = delta.set_coefficient_val(isl.dim_type.out, dim, isl.Val(1))
    reach = isl.Constraint.alloc_inequality(local).set_constant_val(isl.Val(span - 1))
    reach = reach.set_coefficient_val(isl.dim_type.in_, dim, isl.Val(1))
    reach = reach.set_coefficient_val(isl.dim_type.out, dim, isl.Val(-1))
    steps = steps.add_constraint(delta).add_constraint(reach)
    leaving = region.complement().apply(steps.reverse())
    return region.subtract(leaving).coalesce()


def _eroded_convex(region: isl.BasicSet, dim: int, span: int) -> isl.Set:
    """A convex region holds a run if it holds the run's ends."""
    result = isl.Set.universe(region.get_space())
    for constraint in region.get_constraints():
        coefficient = constraint.get_coefficient_val(isl.dim_type.set, dim)
        result = result.add_constraint(constraint)
        if coefficient.is_zero():
            continue
        shift = coefficient.mul(isl.Val(span - 1))
        result = result.add_constraint(constraint.set_constant_val(constraint.get_constant_val().add(shift)))
    return result


def _identity(region: isl.Set) -> isl.MultiPwAff:
    return isl.MultiPwAff.identity_on_domain_space(region.get_space())
