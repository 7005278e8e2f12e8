"""Legality of a plan by enumeration: the definition of `check_legal`, spelled out on every pair of instances."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import islpy as isl

from plant_core.analysis.dependence import reduction_of
from plant_core.ir.accesses import access_key, linear, read_accesses
from plant_core.ir.func import Comp, Func, Load
from plant_core.ir.time_2d1 import permuted, position
from plant_core.tile_plan.plan import Plan, TileSet, tile_sets


def points(region: isl.Set) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    count = region.dim(isl.dim_type.set)
    region.foreach_point(
        lambda p: found.append(tuple(p.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(count)))
    )
    return sorted(found)


@dataclass(frozen=True)
class Instance:
    comp: Comp
    point: tuple[int, ...]
    old: tuple[int, ...]
    origin: tuple[int, ...]
    new: tuple[float, ...]
    """Interleaved constants and loop values of the tile's origin."""
    end: int | None
    """How many entries of `new` precede the loop at whose end a partial result is written."""
    tiles: TileSet


def _time(constants: tuple[int, ...], lines, values: dict[str, int]) -> list[float]:
    time: list[float] = [constants[0]]
    for k, line in enumerate(lines):
        time += [line.constant + sum(c * values[n] for n, c in line.terms), constants[k + 1]]
    return time


def instances(func: Func, plan: Plan) -> list[Instance]:
    found = []
    for comp in func.comps:
        comp_plan = plan.for_comp(comp)
        place = position(comp)
        new_place = permuted(comp, place, comp_plan.order, comp_plan.constants)
        for tiles in tile_sets(comp, comp_plan):
            covered = set(points(tiles.points))
            for origin in points(tiles.origins):
                new = _time(new_place.constants, new_place.loops, dict(zip(comp.iters, origin, strict=True)))
                over = {*tiles.tile.split, *({tiles.tile.lane} if tiles.tile.reduce else ())}
                first = [2 * k + 1 for k, n in enumerate(comp_plan.order) if n in over]
                box = [origin]
                for k, span in enumerate(tiles.tile.spans):
                    there = count(tiles, origin) if comp.iters[k] == tiles.tile.lane else span
                    box = [(*p[:k], p[k] + d, *p[k + 1 :]) for p in box for d in range(there)]
                for point in box:
                    assert point in covered
                    covered.remove(point)
                    old = _time(place.constants, place.loops, dict(zip(comp.iters, point, strict=True)))
                    found.append(
                        Instance(comp, point, tuple(old), origin, tuple(new), first[0] if first else None, tiles)
                    )
            assert not covered
    return found


def count(tiles: TileSet, origin: tuple[int, ...]) -> int:
    """Iterations of the lane loop in the tile at `origin`."""
    lane = tiles.comp.iters.index(tiles.tile.lane)
    if tiles.last is None:
        return tiles.tile.spans[lane]
    point = isl.Point.zero(tiles.origins.get_space())
    for k, value in enumerate(origin):
        point = point.set_coordinate_val(isl.dim_type.set, k, isl.Val(value))
    return min(tiles.last.eval(point).to_python() - origin[lane] + 1, tiles.tile.spans[lane])


def _element(instance: Instance, access: Load) -> tuple[object, ...]:
    values = dict(zip(instance.comp.iters, instance.point, strict=True))
    index = []
    for part in access.indices:
        form = linear(part)
        assert form is not None
        index.append(form[0] + sum(c * values[n] for n, c in form[1].items()))
    return (access.buf, *index)


def is_legal(func: Func, plan: Plan, *, lanes: int) -> bool:
    """As `check_legal` for integer programs (reductions may always change places)."""
    every = instances(func, plan)
    reductions = {c.name: reduction_of(c) for c in func.comps}
    by_element: dict[tuple[object, ...], list[tuple[Instance, str, bool]]] = {}
    for one in every:
        own = access_key(one.comp.target) if reductions[one.comp.name] else None
        by_element.setdefault(_element(one, one.comp.target), []).append((one, "w", own is not None))
        for access in read_accesses(one.comp):
            by_element.setdefault(_element(one, access), []).append((one, "r", access_key(access) == own))
    for touches in by_element.values():
        for a, how_a, own_a in touches:
            for b, how_b, own_b in touches:
                if "w" not in how_a + how_b or a.old >= b.old:
                    continue
                first, second = reductions[a.comp.name], reductions[b.comp.name]
                free = own_a and own_b and first and second and first.op == second.op
                if not (_free_kept(a, b, lanes) if free else _kept(a, b, how_a, how_b, lanes)):
                    return False
    return True


def _vector(one: Instance, lanes: int) -> tuple[float, ...]:
    tile = one.tiles.tile
    period = tile.spans[one.comp.iters.index(tile.inner)] if tile.inner else 1
    return tuple(
        _turn(p - o, lanes // period, tile.deal) if name == tile.lane else p - o
        for p, o, name in zip(one.point, one.origin, one.comp.iters, strict=True)
        if name != tile.inner
    )


def _same_tile(a: Instance, b: Instance) -> bool:
    return a.comp.name == b.comp.name and a.origin == b.origin


def _turn(place: int, lanes: int, deal: int) -> int:
    return place // (deal * lanes) * deal + place % deal if deal > 1 else place // lanes


def _free_kept(a: Instance, b: Instance, lanes: int) -> bool:
    if not _same_tile(a, b) or a.tiles.tile.lane is None or a.tiles.tile.reduce:
        return True
    return _vector(a, lanes) != _vector(b, lanes)


def _kept(a: Instance, b: Instance, how_a: str, how_b: str, lanes: int) -> bool:
    new = a.new
    if a.end is not None and how_a == "w":
        new = (*a.new[: a.end], inf)
    if new != b.new or not _same_tile(a, b):
        return new < b.new
    first, second = _vector(a, lanes), _vector(b, lanes)
    if first != second or how_a == "r" or how_b == "r":
        return first < second or (first == second and how_a == "r")
    tile = a.tiles.tile
    if tile.lane is None or tile.inner or tile.flip or tile.reduce:
        return False
    lane = a.comp.iters.index(tile.lane)
    return a.point[lane] < b.point[lane]
