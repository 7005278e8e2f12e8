"""Candidates for nests whose rows differ in length: strips of rows, with what all rows of a strip have in one register
tile, and the ragged rest, which is the same for all strips, in another one, under masks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dspgen.target.model import Target
from dspgen.tiling.candidates import Candidate
from dspgen.tiling.lanes import Lane
from dspgen.tiling.machine import Machine
from dspgen.tiling.model import across, operation_counts, vectors_of
from dspgen.tiling.nests import CompInfo, Nest, nests
from dspgen.tiling.strips import Part, Ragged, Strips, in_strips, ragged_loops
from plant_core.ir import Comp, Func
from plant_core.schedule import position
from plant_core.tiles import CompPlan, LoopShape, Shape

_VECTORS = (16, 12, 8, 6, 4, 3, 2, 1)
_BLOCKS = (32, 16, 8, 4, 2, 1)
_ROUNDS = (2, 1)  # iterations of a ragged run at once
_MOST_POINTS = 160
_ENTRY_CYCLES = 45.0
_STRAIGHT_CYCLES = 20.0
_UNPAIRED = 4 / 3  # loads where none go in pairs, to those where some do
_STREAMED = 12  # registers of what is loaded for one iteration after the other


@dataclass(frozen=True, slots=True)
class _Tile:
    """One way of strips: `together` iterations of a ragged run at once."""

    strips: Strips
    together: int


def strip_candidates(func: Func, nest: Nest, target: Target, machine: Machine, *, ordered: bool) -> list[Candidate]:
    """The best of each height of strips by the model, the best first. `ordered`: sums keep their order."""
    found: dict[tuple[str, int], Candidate] = {}
    heavy = nest.heaviest.comp
    for ragged in ragged_loops([c.comp for c in nest.comps]):
        if ragged.comp.name != heavy.name:
            continue
        for tile in _tiles(ragged, target.lanes, ordered=ordered):
            candidate = _candidate(func, ragged, tile, target, machine, ordered=ordered)
            if candidate is None:
                continue
            key = ragged.rows, tile.strips.height
            if key not in found or candidate.rank < found[key].rank:
                found[key] = candidate
    return sorted(found.values(), key=lambda c: c.rank)


def _tiles(ragged: Ragged, lanes: int, *, ordered: bool) -> Iterator[_Tile]:
    for vectors in _VECTORS:
        height = vectors * lanes
        if height > ragged.last - ragged.first + 1:
            continue
        run = lanes * abs(ragged.slope)
        for block in _BLOCKS:
            if block * vectors <= _MOST_POINTS and height * ragged.slope % block == 0:
                for together in (run,) if ordered else _ROUNDS:
                    yield _Tile(Strips(height, block, vectors), together)


def _candidate(
    func: Func, ragged: Ragged, tile: _Tile, target: Target, machine: Machine, *, ordered: bool
) -> Candidate | None:
    made = in_strips(func, ragged, tile.strips)
    if made is None:
        return None
    form, parts = made
    infos = {c.comp.name: c for nest in nests(form) for c in nest.comps}
    plans: list[tuple[str, CompPlan]] = []
    cycles, size = 0.0, 0
    slots = sorted((p for p in parts if p.kind != "rows"), key=lambda p: position(p.comp).constants)
    for part in parts:
        lane = Lane(part.row or part.comp.iters[ragged.comp.iters.index(ragged.rows)])
        info = infos[part.comp.name]
        if any(machine.lane_by_lane(a, across(a, lane, target.lanes), written=a.write, read=not a.write)
               for a in info.accesses):  # fmt: skip
            return None
        number = slots.index(part) if part.kind != "rows" else 0
        plan = _rows(part, lane, target.lanes) if part.kind == "rows" else _in_strip(part, tile, number, ragged)
        took = _cycles(part, info, plan, lane, machine, split=not ordered)
        if took is None:
            return None
        cycles += took[0]
        size += took[1]
        plans.append((part.comp.name, plan))
    points = tile.strips.height // target.lanes * tile.strips.block
    names = {p.source: None for p in parts}
    title = " ".join(names) + f" in strips ({ragged.rows}*:{tile.strips.height} {ragged.along}:{tile.strips.block})"
    return Candidate(tuple(plans), cycles, title, "", points, size, "none", form=form)


def _in_strip(part: Part, tile: _Tile, number: int, ragged: Ragged) -> CompPlan:
    """All rows of a strip at once, the lanes along them."""
    comp, place = part.comp, position(part.comp)
    depth = comp.iters.index(part.strip)
    constants = (*place.constants[: depth + 1], number, *(0 for _ in comp.iters[depth + 1 :]))
    row = LoopShape(tile.strips.height, lane=True)
    order = [i for i in comp.iters if i != part.row]
    shape: Shape
    match part.kind:
        case "common":
            shape = ((part.row, row), (part.inner, LoopShape(tile.strips.block)))
        case "left":
            shape = ((part.row, row), (part.inner, LoopShape(_extent(comp, part.inner))))
        case "ragged":
            if tile.together < _extent(comp, part.inner):
                order = [i for i in order if i not in (part.outer, part.inner)] + [part.inner, part.outer]
            inside = LoopShape(tile.strips.digits, part=True)
            turn = LoopShape(tile.together, part=True)
            shape = ((part.row, replace(row, part=True)), (part.outer, inside), (part.inner, turn))
        case _:
            shape = ((part.row, row),)
    return CompPlan((*order, part.row), (shape,), constants)


def _rows(part: Part, lane: Lane, lanes: int) -> CompPlan:
    """Rows outside of strips: a vector of them at a time, the last one cut short."""
    row = LoopShape(lanes, lane=True)
    return CompPlan(part.comp.iters, (((lane.iterator, row),), ((lane.iterator, replace(row, cut=True)),)))


def _extent(comp: Comp, iterator: str) -> int:
    dim = comp.iters.index(iterator)
    return int(comp.domain.dim_max_val(dim).to_python() - comp.domain.dim_min_val(dim).to_python()) + 1


def _cycles(
    part: Part, info: CompInfo, plan: CompPlan, lane: Lane, machine: Machine, *, split: bool
) -> tuple[float, int] | None:
    """About how long the statement takes, and the vectors of its tile; None where registers lack."""
    spans = {i: 1 for i in info.comp.iters} | {i: x.span for i, x in plan.shapes[0]}
    inner = next((i for i in reversed(plan.order) if info.loop(i).extent > spans[i]), None)
    vectors = vectors_of(spans[lane.iterator], lane, machine.lanes)
    body, registers = _body(info, spans, lane, inner, machine, split=split)
    if registers > machine.vector_registers - 4:
        return None
    box, entries = 1, 1
    for iterator, span in spans.items():
        box *= span
        entries *= -(-info.loop(iterator).extent // span) if iterator != inner else 1
    share = _share(part, info)
    size = math.ceil(vectors * box / spans[lane.iterator] * (share if part.kind == "ragged" else 1))
    return info.volume * share / box * body + entries * (_STRAIGHT_CYCLES if inner is None else _ENTRY_CYCLES), size


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
        # Of vectors that advance by an odd number of elements, none are known to begin where pairs of them may.
        odd = inner is not None and access.coefficient(inner) * spans[inner] % 2
        how = across(access, lane, machine.lanes)
        times = round(distinct * _UNPAIRED) if odd and how is not None and how.stride else distinct
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
        return (digits + 1) / (2 * digits)
    return 1.0 if info.box else 0.5
