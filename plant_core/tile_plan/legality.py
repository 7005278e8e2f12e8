"""Whether a tiled program keeps every dependence, decided exactly by isl on pairs of instances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial, reduce

import islpy as isl

from plant_core.analysis.dependence import Dependence, Kind, memory_dependences, reduction_of
from plant_core.analysis.linear_recurrences import falls, recurrence_of, steady
from plant_core.ir.accesses import is_integer, linear
from plant_core.ir.func import Comp, Func
from plant_core.ir.loop_tree import Tile
from plant_core.ir.time_2d1 import Line, Position, line_value, permuted, position
from plant_core.support.location import IllegalSchedule
from plant_core.support.memoize import by_identity
from plant_core.tile_plan.plan import CompPlan, Plan, TileSet, tile_sets, validate_plan


def check_legal(
    func: Func,
    plan: Plan,
    *,
    reassoc: bool,
    lanes: int | None = None,
    known: tuple[Dependence, ...] | None = None,
) -> None:
    """IllegalSchedule, naming a pair of instances, unless the plan's order keeps every memory dependence.

    The order of two instances is that of their tiles' origins under the permuted schedule; in one tile, that of their
    offsets, the last iterator fastest, with the lanes of a vector simultaneous: all reads come before the writes, and
    these are in the order of the lanes. With
    `lanes` not given, whatever the vector width is must do. A tile with `reduce` or `split` reads and writes its target
    when the outermost loop over such an iterator ends. Updates of one reduction may change places for integers, and
    for floats if `reassoc`. `known`: the Func's memory dependences, if they are at hand.
    """
    validate_plan(func, plan)
    plans = dict(plan.comps)
    comps = {c.name: _placing(c)(plans.get(c.name, CompPlan(c.iters))) for c in func.comps}
    for placed in comps.values():
        placed.check_reductions(reassoc)
        placed.check_periods(lanes)
        placed.check_scans(reassoc)
    passed: set[tuple[str, str, bool, str]] = set()
    for dependence in memory_dependences(func) if known is None else known:
        source, sink = comps[dependence.source], comps[dependence.sink]
        free = dependence.reduction and (reassoc or is_integer(source.comp.target.dtype))
        if source.unchanged and sink.unchanged:
            continue
        if not free:
            # Flow and output dependences of two Comps are often the same pairs, and are judged alike.
            same = (source.comp.name, sink.comp.name, dependence.kind == "anti", _text(dependence.relation))
            if same not in passed:
                _check_order(dependence, source, sink, lanes)
                passed.add(same)
        elif source is sink:
            _check_lanes(dependence, source, lanes)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A Comp under its plan: new position, tile sets, and where in its loop order the first partial sum begins."""

    comp: Comp
    plan: CompPlan
    place: Position
    tiles: tuple[TileSet, ...]
    unchanged: bool

    @staticmethod
    def of(comp: Comp, plan: CompPlan) -> _Placed:
        tiles = tile_sets(comp, plan)
        place = permuted(comp, position(comp), plan.order, plan.constants)
        plain = all(set(t.tile.spans) <= {1} and not t.tile.reduce and not t.tile.split for t in tiles)
        return _Placed(comp, plan, place, tiles, plain and plan.order == comp.iters and plan.constants is None)

    def reducing_from(self, tile: Tile) -> int | None:
        """The outermost place in `plan.order` of a loop that `tile` accumulates over in partial results."""
        names = {tile.lane} if tile.reduce else set()
        places = [k for k, name in enumerate(self.plan.order) if name in names or name in tile.split]
        return places[0] if places else None

    def time(self, level: int) -> isl.PwAff:
        """The loop value at `level` of the tile that an instance lies in."""
        line = self.place.loops[level]
        value = line_value(self.comp, line)
        if not any(self._spans(t.tile, line) for t in self.tiles):
            return value
        parts = []
        for tiles in self.tiles:
            here = value.pullback_multi_pw_aff(tiles.to_origin) if self._spans(tiles.tile, line) else value
            parts.append(here.intersect_domain(tiles.points))
        return reduce(isl.PwAff.union_add, parts)

    def _spans(self, tile: Tile, line: Line) -> bool:
        return any(n in self.comp.iters and tile.spans[self.comp.iters.index(n)] > 1 for n, _ in line.terms)

    def check_reductions(self, reassoc: bool) -> None:
        """Partial results need a reduction whose target stays put while they accumulate."""
        target = {name for index in self.comp.target.indices for name in (linear(index) or (0, {}))[1]}
        for tiles in self.tiles:
            first = self.reducing_from(tiles.tile)
            if first is None:
                continue
            over = {*tiles.tile.split, *({tiles.tile.lane} if tiles.tile.reduce else ())}
            found = reduction_of(self.comp)
            if found is None or not (reassoc or is_integer(self.comp.target.dtype)) or over & target:
                loops = ", ".join(name for name in self.plan.order if name in over)
                why = "this reduction may not be reordered" if found and not over & target else "it is no reduction"
                raise IllegalSchedule(
                    f"{self.comp.name} can't accumulate over {loops} in parts: {why}", code="DG201", loc=self.comp.loc
                )
            for name in self.plan.order[first + 1 :]:
                if name in target and not _single(tiles.origins, self.comp.iters.index(name)):
                    raise IllegalSchedule(
                        f"{self.comp.name} can't accumulate in parts over {self.plan.order[first]}: its target changes "
                        f"in the loop over {name} inside",
                        code="DG201",
                        loc=self.comp.loc,
                    )

    def check_scans(self, reassoc: bool) -> None:
        """A recurrence that may be reordered lies across lanes."""
        for tiles in self.tiles:
            tile = tiles.tile
            if not tile.scan or tile.lane is None:
                continue
            if recurrence_of(self.comp, tile.lane) is None:
                why = "it is no recurrence of first order"
            elif not reassoc and not is_integer(self.comp.target.dtype):
                why = "floating-point results keep their order"
            else:
                continue
            raise IllegalSchedule(
                f"{self.comp.name} can't scan over {tile.lane}: {why}", code="DG201", loc=self.comp.loc
            )

    def check_periods(self, lanes: int | None) -> None:
        """An inner lane loop has to fill the lanes a whole number of times."""
        for tiles in self.tiles:
            period = _period(tiles.tile, self.comp.iters)
            if lanes is not None and lanes % period:
                raise IllegalSchedule(
                    f"{self.comp.name} can't have {period} iterations of {tiles.tile.inner} at once: they don't divide "
                    f"{lanes} lanes",
                    code="DG201",
                    loc=self.comp.loc,
                )


@by_identity
def _placing(comp: Comp) -> Callable[[CompPlan], _Placed]:
    """`_Placed.of` for one Comp, made once for each plan."""
    return cache(partial(_Placed.of, comp))


def _single(points: isl.Set, dim: int) -> bool:
    low, high = points.dim_min_val(dim), points.dim_max_val(dim)
    return bool(low.is_int() and high.is_int() and low.eq(high))


@by_identity
def _text(relation: isl.Map) -> str:
    return str(relation)


@by_identity
def _check_order(dependence: Dependence, source: _Placed, sink: _Placed, lanes: int | None) -> None:
    rest = dependence.relation
    depth = min(len(source.place.loops), len(sink.place.loops))
    for level in range(depth + 1):
        first, second = source.place.constants[level], sink.place.constants[level]
        if first < second:
            return
        if first > second:
            raise _illegal(dependence, source, sink, rest)
        if level == depth:
            break
        if dependence.kind != "anti":
            for tiles in source.tiles:
                if source.reducing_from(tiles.tile) == level:
                    _refuse_any(dependence, source, sink, rest.intersect_domain(tiles.points))
        here, there = source.time(level), sink.time(level)
        _refuse_any(dependence, source, sink, rest.intersect(here.gt_map(there)))
        rest = rest.intersect(here.eq_map(there))
        if rest.is_empty():
            return
    if source is not sink:
        raise _illegal(dependence, source, sink, rest)
    for tiles in source.tiles:
        inside = rest.intersect_domain(tiles.points).intersect_range(tiles.points)
        if not inside.is_empty():
            for wrong in _disordered(tiles, lanes, dependence.kind):
                _refuse_any(dependence, source, sink, inside.intersect(wrong))


def _check_lanes(dependence: Dependence, placed: _Placed, lanes: int | None) -> None:
    """A reduction may be reordered, but its updates can't be made by lanes of one vector unless it is told so."""
    for tiles in placed.tiles:
        if tiles.tile.lane is None or tiles.tile.reduce:
            continue
        rest = dependence.relation.intersect(_one_vector(tiles, lanes))
        if not rest.is_empty():
            for name in (tiles.tile.lane, *((tiles.tile.inner,) if tiles.tile.inner is not None else ())):
                origin = tiles.to_origin.get_at(placed.comp.iters.index(name)).intersect_domain(tiles.points)
                rest = rest.intersect(origin.eq_map(origin))
            _refuse_any(dependence, placed, placed, rest)


def _disordered(tiles: TileSet, lanes: int | None, kind: Kind) -> list[isl.Map]:
    """Pairs of instances of one tile of which the second doesn't come after the first.

    In one vector all lanes read before any writes, and of lanes that write one element the last one's value stays. A
    scan's lanes read what its recurrence wrote there all the same.
    """
    names, tile = tiles.comp.iters, tiles.tile
    falling = falls(tiles.comp, tile)
    wrong = []
    equal = isl.Map.universe(tiles.points.get_space().map_from_set())
    for k, name in enumerate(names):
        if name == tile.inner:
            continue
        if name != tile.lane:
            wrong.append(equal.intersect(_compare(tiles, k, "gt")))
            equal = equal.intersect(_compare(tiles, k, "eq"))
            continue
        if lanes is None:
            # In vectors of unknown width, two lanes are in order only if so both in one vector and in two.
            wrong.append(equal.intersect(_compare(tiles, k, "lt" if falling else "gt")))
            if tile.deal > 1:
                wrong.append(equal.intersect(_compare(tiles, k, "lt")))
        else:
            here = _vector(tiles, k, lanes // _period(tile, names))
            wrong.append(equal.intersect(here.lt_map(here) if falling else here.gt_map(here)))
            equal = equal.intersect(here.eq_map(here))
    if kind == "output" and tile.lane is not None and tile.inner is None and not (tile.flip or tile.reduce or falling):
        here = _variable(tiles, names.index(tile.lane))
        wrong.append(equal.intersect(here.ge_map(here)))
    elif kind != "anti" or tile.lane is None:
        wrong.append(equal.subtract(_steady(tiles)) if kind == "flow" and tile.scan else equal)
    elif tile.scan:
        wrong.append(equal.intersect(_steady(tiles).reverse()))
    return wrong


def _steady(tiles: TileSet) -> isl.Map:
    """The pairs that a scan keeps in order though they lie in one vector."""
    lane = tiles.tile.lane
    found = None if lane is None else recurrence_of(tiles.comp, lane)
    if found is None or lane is None:
        return isl.Map.empty(tiles.points.get_space().map_from_set())
    return steady(found, tiles.comp, lane)


def _one_vector(tiles: TileSet, lanes: int | None) -> isl.Map:
    """Pairs that are two lanes of one vector, if they lie in one tile."""
    equal = isl.Map.universe(tiles.points.get_space().map_from_set())
    for k, name in enumerate(tiles.comp.iters):
        if name == tiles.tile.inner:
            continue
        if name != tiles.tile.lane:
            equal = equal.equate(isl.dim_type.in_, k, isl.dim_type.out, k)
        elif lanes is not None:
            here = _vector(tiles, k, lanes // _period(tiles.tile, tiles.comp.iters))
            equal = equal.intersect(here.eq_map(here))
    return equal


def _period(tile: Tile, iters: tuple[str, ...]) -> int:
    """How many lanes one iteration of the lane loop takes."""
    return tile.spans[iters.index(tile.inner)] if tile.inner is not None else 1


def _compare(tiles: TileSet, dim: int, how: str) -> isl.Map:
    here = _variable(tiles, dim)
    return {"gt": here.gt_map, "lt": here.lt_map, "eq": here.eq_map}[how](here)


def _vector(tiles: TileSet, dim: int, lanes: int) -> isl.PwAff:
    """The number of the vector of its tile that an instance lies in."""
    deal, place = tiles.tile.deal, _variable(tiles, dim).sub(tiles.to_origin.get_at(dim))
    if deal == 1:
        return place.scale_down_val(isl.Val(lanes)).floor()
    run = place.scale_down_val(isl.Val(deal * lanes)).floor()
    return run.scale_val(isl.Val(deal)).add(place.mod_val(isl.Val(deal)))


def _variable(tiles: TileSet, dim: int) -> isl.PwAff:
    local = isl.LocalSpace.from_space(tiles.points.get_space())
    return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, isl.dim_type.set, dim))


def _refuse_any(dependence: Dependence, source: _Placed, sink: _Placed, pairs: isl.Map) -> None:
    if not pairs.is_empty():
        raise _illegal(dependence, source, sink, pairs)


def _illegal(dependence: Dependence, source: _Placed, sink: _Placed, pairs: isl.Map) -> IllegalSchedule:
    point = pairs.wrap().sample_point()
    count = len(source.comp.iters)
    values = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(count + len(sink.comp.iters))]
    pair = f"{_instance(source.comp, values[:count])} -> {_instance(sink.comp, values[count:])}"
    given = [
        f"{pairs.get_dim_name(isl.dim_type.param, k)} = {point.get_coordinate_val(isl.dim_type.param, k).to_python()}"
        for k in range(pairs.dim(isl.dim_type.param))
    ]
    where = f" with {', '.join(given)}" if given else ""
    return IllegalSchedule(
        f"the {dependence.kind} dependence {pair}{where} on {dependence.buf} would not be kept "
        f"(first at {source.comp.loc}, second at {sink.comp.loc})",
        code="DG201",
        loc=source.comp.loc,
        remedy="keep the order of these loops, or use smaller tiles",
    )


def _instance(comp: Comp, values: list[int]) -> str:
    return f"{comp.name}[{','.join(map(str, values))}]"
