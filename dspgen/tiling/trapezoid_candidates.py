"""Candidates for nests whose rows differ in length: strips of rows, with what all rows of a strip have in one register
tile, and the ragged rest, which is the same for all strips, in another one, under masks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dspgen.target.isa.model import Target
from dspgen.tiling.candidates import Candidate
from dspgen.tiling.cost.cycle_model import across, operation_counts, vectors_of
from dspgen.tiling.cost.unit_pressure import Machine
from dspgen.tiling.loops.lane_loops import Lane
from dspgen.tiling.loops.loop_nests import UNKNOWN_EXTENT, CompInfo, Nest, nests
from dspgen.tiling.loops.ragged_loops import Ragged, ragged_loops
from dspgen.tiling.split.row_strips import Part, Strips, in_strips
from plant_core.analysis.rectangular_hull import largest
from plant_core.analysis.runtime_parameters import extent_parameters, used_parameters
from plant_core.ir.c_semantics import is_float
from plant_core.ir.func import Comp, Func, ScalarParam
from plant_core.ir.quasi_affine import is_one_constant
from plant_core.ir.time_2d1 import position
from plant_core.normalize.loops.specialize_sizes import at_sizes
from plant_core.tile_plan.plan import CompPlan, LoopShape, Shape

_VECTORS = (16, 12, 8, 6, 4, 3, 2, 1)
_BLOCKS = (32, 16, 8, 4, 2, 1)
_HEIGHTS = (8, 6, 4, 3, 2)  # strips with the lanes along another loop
_SHORT_BLOCKS = (4, 2, 1)
_ROUNDS = (2, 1)  # iterations of a ragged run at once
_MOST_POINTS = 160
_ENTRY_CYCLES = 45.0
_STRAIGHT_CYCLES = 20.0
_UNPAIRED = 4 / 3  # loads where none go in pairs, to those where some do
_STREAMED = 12  # registers of what is loaded for one iteration after the other


@dataclass(frozen=True, slots=True)
class _Tile:
    """One way of strips: `together` iterations of a ragged run at once. `across`: how many loops are around that of the
    lanes, None where these lie along the rows."""

    strips: Strips
    together: int
    across: int | None = None


def strip_candidates(func: Func, nest: Nest, target: Target, machine: Machine, *, ordered: bool) -> list[Candidate]:
    """The best of each height of strips by the model, the best first. `ordered`: sums keep their order. Where sizes are
    known at run time only, the model is asked at moderate ones."""
    judged = _judged(func)
    if judged is None:
        return []
    found: dict[tuple[str, int], Candidate] = {}
    heavy = nest.heaviest.comp
    written = {(r.comp.name, r.rows, r.along): r for r in ragged_loops([c.comp for c in nest.comps])}
    for ragged in ragged_loops([judged.comp(name) for name in nest.names]):
        here = written.get((ragged.comp.name, ragged.rows, ragged.along))
        if ragged.comp.name != heavy.name or here is None:
            continue
        for tile in (*_along_rows(ragged, target.lanes, ordered=ordered), *_lanesrows(ragged, nest)):
            candidate = _candidate(judged, ragged, tile, target, machine, ordered=ordered)
            if candidate is None:
                continue
            key = ragged.rows, tile.strips.height
            if key not in found or candidate.rank < found[key].rank:
                if judged is not func:
                    candidate = _at_any_size(func, here, tile, candidate, target)
                if candidate is not None:
                    found[key] = candidate
    return sorted(found.values(), key=lambda c: c.rank)


def _judged(func: Func) -> Func | None:
    """The function itself, or at moderate sizes where it depends on any; None where it computes some of them."""
    if any(c.defines for c in func.comps):
        return None
    names = {p.name for p in func.params if isinstance(p, ScalarParam) and not is_float(p.dtype)}
    names |= extent_parameters(func.bufs)  # of other nests' arrays, too
    most = largest(func)
    sizes = {n: min(most.get(n, UNKNOWN_EXTENT), UNKNOWN_EXTENT) for n in sorted(names)}
    return at_sizes(func, sizes) if any(u in sizes for c in func.comps for u in used_parameters(c)) else func


def _at_any_size(func: Func, ragged: Ragged, tile: _Tile, judged: Candidate, target: Target) -> Candidate | None:
    """The candidate at any size, the rows outside of its strips in smaller ones."""
    made = in_strips(func, ragged, tile.strips)
    if made is None:
        return None
    form, parts = made
    tiles = {p.comp.name: tile for p in parts if p.kind != "rows"}
    least = _Tile(Strips(target.lanes, min(tile.strips.block, target.lanes), 1), tile.together)
    depth = ragged.comp.iters.index(ragged.rows)
    rows = [p.comp for p in parts if p.kind == "rows"]
    if tile.strips.height > target.lanes and tile.across is None:
        for rest in ragged_loops(rows):
            alike = rest.comp.iters.index(rest.rows) == depth
            if alike and (again := in_strips(form, rest, least.strips, before=parts)) is not None:
                form, parts = again
                break
    tiles = {p.comp.name: tiles.get(p.comp.name, least) for p in parts}
    plans = _plans(parts, tiles, depth, target.lanes)
    return replace(judged, plans=tuple(plans), form=form)


def _along_rows(ragged: Ragged, lanes: int, *, ordered: bool) -> Iterator[_Tile]:
    for vectors in _VECTORS:
        height = vectors * lanes
        if height > _number(ragged):
            continue
        run = lanes * abs(ragged.slope)
        for block in _BLOCKS:
            if block * vectors <= _MOST_POINTS and height * ragged.slope % block == 0:
                for together in (run,) if ordered else _ROUNDS:
                    yield _Tile(Strips(height, block, vectors), together)


def _number(ragged: Ragged) -> int:
    """How many rows there are, of known sizes."""
    return ragged.last[0] - ragged.first[0] + 1


def _lanesrows(ragged: Ragged, nest: Nest) -> Iterator[_Tile]:
    """Lanes along a loop of few vectors, which all statements share, between the rows and what is ragged."""
    heavy = nest.heaviest
    for depth, loop in enumerate(heavy.loops):
        inside = heavy.comp.iters.index(ragged.rows) < depth < heavy.comp.iters.index(ragged.along)
        if not inside or not loop.known or not loop.free:
            continue
        if not all(len(c.loops) > depth and c.loops[depth].id == loop.id for c in nest.comps):
            continue
        for height in _HEIGHTS:
            for block in _SHORT_BLOCKS:
                if height <= _number(ragged) and height * ragged.slope % block == 0:
                    yield _Tile(Strips(height, block, 1), height * abs(ragged.slope), depth)


def _candidate(
    func: Func, ragged: Ragged, tile: _Tile, target: Target, machine: Machine, *, ordered: bool
) -> Candidate | None:
    made = in_strips(func, ragged, tile.strips)
    if made is None:
        return None
    form, parts = made
    depth = ragged.comp.iters.index(ragged.rows)
    infos = {c.comp.name: c for nest in nests(form) for c in nest.comps}
    plans = _plans(parts, {p.comp.name: tile for p in parts}, depth, target.lanes)
    cycles, size, points = 0.0, 0, 1
    for part, (_, plan) in zip(parts, plans, strict=True):
        info = infos[part.comp.name]
        lane = _lane(part, tile, depth)
        if any(machine.lane_by_lane(a, across(a, lane, target.lanes), written=a.write, read=not a.write)
               for a in info.accesses):  # fmt: skip
            return None
        took = _cycles(part, info, plan, lane, machine, split=not ordered)
        if took is None:
            return None
        cycles += took[0]
        size += took[1]
        points = max(points, took[2] if part.kind == "common" else 1)
    names = " ".join(dict.fromkeys(p.source for p in parts))
    lanes = "" if tile.across is None else f" {ragged.comp.iters[tile.across]}*"
    mark = "" if lanes else "*"
    spans = f"{ragged.rows}{mark}:{tile.strips.height}{lanes} {ragged.along}:{tile.strips.block}"
    title = f"{names} in strips ({spans})"
    return Candidate(plans, cycles, title, "", points, size, "none", form=form)


def _lane(part: Part, tile: _Tile, depth: int) -> Lane:
    """The loop across the lanes, that of the rows being so deep without strips."""
    return Lane(part.comp.iters[(depth if tile.across is None else tile.across) + (part.kind != "rows")])


def _plans(
    parts: Sequence[Part], tiles: Mapping[str, _Tile], depth: int, lanes: int
) -> tuple[tuple[str, CompPlan], ...]:
    """That of each part, by the tile of its strips."""
    slots = sorted(parts, key=lambda p: position(p.comp).constants)
    plans: list[tuple[str, CompPlan]] = []
    for part in parts:
        tile = tiles[part.comp.name]
        lane = _lane(part, tile, depth)
        if part.kind == "rows" and tile.across is None:
            plans.append((part.comp.name, _rows(part, lane, lanes)))
            continue
        shape = _shape(part, tile, lane)
        inner = tuple(i for i in (part.inner, part.outer) if i) if part.kind == "ragged" else ()
        last = (*inner, *(i for i in (part.row, lane.iterator) if i))
        order = (*(i for i in part.comp.iters if i not in last), *dict.fromkeys(last))
        constants = position(part.comp).constants[: depth + 1]
        rest = len(part.comp.iters) + 1 - len(constants)
        plans.append((part.comp.name, CompPlan(order, (shape,), (*constants, slots.index(part), *([0] * (rest - 1))))))
    return tuple(plans)


def _shape(part: Part, tile: _Tile, lane: Lane) -> Shape:
    """All rows of a strip at once."""
    comp, strips = part.comp, tile.strips
    shape: dict[str, LoopShape] = {}
    if part.kind != "rows":
        shape[part.row] = LoopShape(strips.height)
    if tile.across is not None:
        shape[lane.iterator] = LoopShape(_extent(comp, lane.iterator))
    match part.kind:
        case "common":
            shape[part.inner] = LoopShape(strips.block)
        case "left":
            known = is_one_constant(comp.domain.dim_max(comp.iters.index(part.inner)))
            shape[part.inner] = LoopShape(_extent(comp, part.inner) if known else 1)
        case "ragged":
            shape |= {part.outer: LoopShape(strips.digits), part.inner: LoopShape(tile.together)}
            shape = {n: replace(x, part=True) for n, x in shape.items()}
        case _:
            pass
    shape[lane.iterator] = replace(shape[lane.iterator], lane=True)
    return tuple(shape.items())


def _rows(part: Part, lane: Lane, lanes: int) -> CompPlan:
    """Rows outside of strips: a vector of them at a time, the last one cut short."""
    row = LoopShape(lanes, lane=True)
    return CompPlan(part.comp.iters, (((lane.iterator, row),), ((lane.iterator, replace(row, cut=True)),)))


def _extent(comp: Comp, iterator: str) -> int:
    dim = comp.iters.index(iterator)
    return int(comp.domain.dim_max_val(dim).to_python() - comp.domain.dim_min_val(dim).to_python()) + 1


def _cycles(
    part: Part, info: CompInfo, plan: CompPlan, lane: Lane, machine: Machine, *, split: bool
) -> tuple[float, int, int] | None:
    """About how long the statement takes, the vectors of its tile that run, and all of them; None where registers
    lack."""
    spans = {i: 1 for i in info.comp.iters} | {i: x.span for i, x in plan.shapes[0]}
    inner = next((i for i in reversed(plan.order) if info.loop(i).extent > spans[i]), None)
    vectors = vectors_of(spans[lane.iterator], lane, machine.lanes)
    body, registers = _body(info, spans, lane, inner, machine, split=split)
    if registers > machine.registers - 4:
        return None
    box, entries = 1, 1
    for iterator, span in spans.items():
        box *= span
        entries *= -(-info.loop(iterator).extent // span) if iterator != inner else 1
    share = _share(part, info)
    points = vectors * box // spans[lane.iterator]
    size = math.ceil(points * (share if part.kind == "ragged" else 1))
    around = entries * (_STRAIGHT_CYCLES if inner is None else _ENTRY_CYCLES)
    return info.volume * share / box * body + around, size, points


def _body(
    info: CompInfo, spans: dict[str, int], lane: Lane, inner: str | None, machine: Machine, *, split: bool
) -> tuple[float, int]:
    """Cycles of one innermost iteration, and the vector registers it needs about. `split`: sums are in as many parts as
    keep them from waiting for themselves."""
    steps = {i: range(0, s, machine.lanes if i == lane.iterator else 1) for i, s in spans.items()}
    points = math.prod(map(len, steps.values()))
    elem = info.comp.target.dtype
    pressure: dict[str, float] = {}
    for op, number in operation_counts(info.comp.value).items():
        machine.add(pressure, op, elem, True, number * points)
    sums, streamed, kept = 0, 0, 0
    for access in info.accesses:
        moved = [[access.coefficient(i) * k for k in steps[i]] for i in spans]
        distinct = len({sum(offsets) for offsets in itertools.product(*moved)})
        if inner is not None and access.stays(inner):
            sums, kept = (distinct, kept) if access.write else (sums, kept + distinct)
            continue
        streamed += distinct
        # Of vectors that advance by less than pairs are aligned to, none are known to begin where these may.
        granule = machine.pair_granule(access.elem)
        single = inner is not None and access.coefficient(inner) * spans[inner] % granule
        how = across(access, lane, machine.lanes)
        times = round(distinct * _UNPAIRED) if single and how is not None and how.stride else distinct
        machine.add_access(pressure, access, how, times, access.write, read=not access.write)
    body = max(pressure.values(), default=1.0)
    if sums:
        latency = machine.latency("mac", elem, vector=True)
        chain = -(-points // sums)
        parts = min(math.ceil(chain * latency / body), chain) if split else 1
        body = max(body, -(-chain // parts) * latency)
        sums *= parts
    return body, sums + kept + min(streamed, _STREAMED)


def _share(part: Part, info: CompInfo) -> float:
    """About how much of its box a part of a statement is."""
    if part.kind == "ragged":
        digits = info.loop(part.outer).extent
        steps = digits if digits > 1 else info.loop(part.row).extent
        return (steps + 1) / (2 * steps)
    return 1.0 if info.box else 0.5
