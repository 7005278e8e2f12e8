"""Accesses whose elements lie apart, so that a tile takes them lane by lane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dspgen.tiling.cost.cycle_model import Tiling, across, vectors_of
from dspgen.tiling.cost.unit_pressure import Machine
from dspgen.tiling.loops.lane_loops import Lane
from dspgen.tiling.loops.loop_nests import CompInfo, FlatAccess, Nest

_SHORT_PART = 4  # of the lanes, one in so many


def laned(nest: Nest, lanes: dict[str, Lane]) -> list[tuple[CompInfo, Lane]]:
    return [(c, lanes[c.comp.name]) for c in nest.comps if c.comp.name in lanes]


def short(nest: Nest, tiling: Tiling, machine: Machine) -> bool:
    """Whether a comp uses few lanes, and writes elements that lie apart."""
    for comp, lane in laned(nest, tiling.lanes):
        if lane.deal > 1:
            continue
        used = min(tiling.span(comp, lane.iterator), machine.lanes // lane.period) * lane.period
        if used * _SHORT_PART > machine.lanes:
            continue
        found = (across(a, lane, machine.lanes) for a in comp.accesses if a.write)
        if any(x is not None and x.stride not in (0, 1) for x in found):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Spread:
    """An access that takes an instruction for each lane; not `always`: of such tiles as let it drift, or don't have the
    elements that lie `beside` those it stores, where only pairs are stored."""

    comp: CompInfo
    lane: Lane
    access: FlatAccess
    always: bool
    beside: int
    along: tuple[str, ...]  # the loops along which its elements move
    key: tuple[object, ...]  # equal for what reads or writes the same


def lane_by_lane(nest: Nest, lanes: dict[str, Lane], machine: Machine) -> list[Spread]:
    found = []
    for comp, lane in laned(nest, lanes):
        for a in comp.accesses:
            how = across(a, lane, machine.lanes)
            always = machine.lane_by_lane(a, how, written=a.write, read=not a.write)
            if always or (machine.target.packed > 1 and how is not None and how.stride in (1, -1, 2)):
                beside = 0 if not a.write or how is None else 2 if how.pieces > 1 else int(how.stride == 2)
                single = bool(beside) and not any(_neighbours(a, b, beside) for c in nest.comps for b in c.accesses)
                along = [x for x in comp.loops if not a.stays(x.iterator) and x.iterator != lane.inner]
                coefficients = tuple((x.id, a.coefficient(x.iterator)) for x in along)
                key = (a.buf, a.write, a.constant, coefficients, a.varies, a.start)
                moving = tuple(x.iterator for x in along)
                found.append(Spread(comp, lane, a, always, beside if single else 0, moving, key))
    return found


def gathered(apart: Sequence[Spread], tiling: Tiling, machine: Machine) -> int:
    """Vectors of one tile that are read or written lane by lane; what several comps read counts once."""
    found: dict[tuple[object, ...], int] = {}
    for spread in apart:
        comp, lane, a = spread.comp, spread.lane, spread.access
        alone = spread.beside and not _has_neighbours(comp, a, tiling, spread.beside)
        if not spread.always and not alone and not _drifts(comp, a, lane, tiling, machine.target.packed):
            continue
        spans = tiling.along(comp)
        found[spread.key] = math.prod(
            vectors_of(spans[i], lane, machine.lanes) if i == lane.iterator else spans[i] for i in spread.along
        )
    return sum(found.values())


def _neighbours(one: FlatAccess, other: FlatAccess, distance: int) -> bool:
    """Whether both store elements of one array that lie so far apart everywhere."""
    alike = (one.buf, one.coefficients) == (other.buf, other.coefficients)
    return other.write and alike and abs(one.constant - other.constant) == distance


def _has_neighbours(comp: CompInfo, access: FlatAccess, tiling: Tiling, distance: int) -> bool:
    """Whether a tile holds pairs of iterations of some loop whose elements lie so far apart."""
    steps = (x.iterator for x in comp.loops if abs(access.coefficient(x.iterator)) == distance)
    return any(tiling.span(comp, iterator) % 2 == 0 for iterator in steps)


def _drifts(comp: CompInfo, access: FlatAccess, lane: Lane, tiling: Tiling, packed: int) -> bool:
    """Whether an access begins in the midst of a lane in some iterations and not in others: where lanes hold several
    elements, no one load or shuffle then fits them all."""
    around = [x for x in comp.loops if x.iterator != lane.iterator and tiling.span(comp, x.iterator) < x.extent]
    return any(access.coefficient(x.iterator) * tiling.span(comp, x.iterator) % packed for x in around)
