"""Candidates for small nests whose rows differ in length: register tiles that hold all of the loops whose bounds depend
on each other, and leave out, or mask, what of their box is no instance.

Before: for i < 253: for j < 3: for k < 4: for l <= j: out[i][j] += in[i + k][j - l] * f[k][l];
After, with lanes along j:  for i by 4: one tile of 4 x 3 x 4 x 4 points, of which those with l > j don't run
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence

from dspgen.target.isa.model import Target
from dspgen.tiling.candidates import Candidate
from dspgen.tiling.cost.cycle_model import Known, Tiling, across, in_registers, nest_cycles, working
from dspgen.tiling.cost.unit_pressure import Machine
from dspgen.tiling.loops.lane_loops import Lane, LegalLanes, lane_choices
from dspgen.tiling.loops.loop_arrangements import Arrangement
from dspgen.tiling.loops.loop_nests import CompInfo, LoopId, Nest
from dspgen.tiling.register_tiles import MOVED, Plans
from plant_core.analysis.dependence import Dependence
from plant_core.tile_plan.plan import CompPlan, LoopShape, Shape

_UNROLLS = (1, 2, 3, 4, 6, 8, 12)
_VECTORS = (1, 2, 3, 4)
_SHORT = 8  # iterations of reductions that a tile may hold as a whole
_MOST_POINTS = 160
_MOST = 2
_PROBES = 6
_CLOSE = 1.5  # times the least cycles


def whole_candidates(
    arrangements: Sequence[Arrangement],
    target: Target,
    machine: Machine,
    known: Sequence[Dependence],
    *,
    scalars: Collection[str],
    kept: Callable[[Plans], bool],
) -> list[Candidate]:
    """The best few that keep all dependences, the model's best first."""
    found: dict[object, Candidate] = {}
    for arrangement in arrangements:
        nest = arrangement.nest
        if not all(x.known for c in nest.comps for x in c.loops):
            return []
        legal = LegalLanes(nest, known, target.lanes, scalars).under(arrangement)
        for lanes in lane_choices(nest, target.lanes, legal):
            if _suits(nest, lanes, machine):
                for candidate, code in _tiled(arrangement, lanes, target, machine):
                    if code not in found or candidate.rank < found[code].rank:
                        found[code] = candidate
    if not found:
        return []
    # Borders are thin: what little a large tile gains is not worth the code that it leaves over.
    least = min(c.cycles for c in found.values())
    best = sorted(found.values(), key=lambda c: (c.cycles > _CLOSE * least, c.points, c.rank))[:_PROBES]
    return list(itertools.islice((c for c in best if kept(c.plans)), _MOST))


def _suits(nest: Nest, lanes: dict[str, Lane], machine: Machine) -> bool:
    """Whether all statements lie across plain lanes, with no access lane by lane."""
    for comp in nest.comps:
        lane = lanes.get(comp.comp.name)
        if lane is None or lane.reduce or not lane.plain:
            return False
        for a in comp.accesses:
            if machine.lane_by_lane(a, across(a, lane, machine.lanes), written=a.write, read=not a.write):
                return False
    return True


def _tiled(
    arrangement: Arrangement, lanes: dict[str, Lane], target: Target, machine: Machine
) -> Iterator[tuple[Candidate, object]]:
    """Candidates, and what is equal for those that end in the same code: the loops that are left, and the tiles."""
    nest = arrangement.nest
    known = Known()
    comps, kept = working(nest), in_registers(nest, lanes)
    for spans in _spans(arrangement, lanes, target):
        tiling = Tiling(spans, lanes, arrangement.orders)
        cycles = nest_cycles(comps, tiling, machine, known, kept)
        if cycles is None:
            continue
        plans = tuple((c.comp.name, _plan(arrangement, c, tiling)) for c in nest.comps)
        points = tiling.points(nest.heaviest, target.lanes)
        size = sum(tiling.points(c, target.lanes) for c in nest.comps)
        cycles *= MOVED if arrangement.moved else 1.0
        left = tuple(
            (tuple(i for i in arrangement.orders[c.comp.name] if tiling.span(c, i) < c.loop(i).extent), plan.constants)
            for c, (_, plan) in zip(nest.comps, plans, strict=True)
        )
        code = left, tuple(plan.shapes for _, plan in plans)
        yield Candidate(plans, cycles, _title(arrangement, tiling), "", points, size, "shared"), code


def _spans(arrangement: Arrangement, lanes: dict[str, Lane], target: Target) -> Iterator[dict[LoopId, int]]:
    """Tiles' spans. Of the loops along lanes that the heaviest comp is not in, all have as many vectors, as ways to
    choose these one by one are too many where statements are."""
    nest = arrangement.nest
    whole = {x.id: x.extent for c in nest.comps if not c.box for x in c.loops if not x.free}
    along = {c.loop(lanes[c.comp.name].iterator).id for c in nest.comps}
    heavy = nest.heaviest
    written = next(a for a in heavy.accesses if a.write)
    own = {x.id for x in heavy.loops}
    beside = {x.id: x.extent for c in nest.comps for x in c.loops if x.id in along and x.id not in {*own, *whole}}
    options: list[list[dict[LoopId, int]]] = [[{id: extent}] for id, extent in whole.items()]
    for x in heavy.loops:
        if x.id in whole:
            continue
        if x.id in along:
            spans = {min(v * target.lanes, x.extent) for v in _VECTORS}
        elif written.stays(x.iterator):
            spans = {1, *([x.extent] if x.extent <= _SHORT else [2, 4])}
        else:
            spans = {u for u in _UNROLLS if u <= x.extent}
        options.append([{x.id: s} for s in sorted(spans)])
    alike = [{id: min(v * target.lanes, extent) for id, extent in beside.items()} for v in _VECTORS]
    options.append([found for k, found in enumerate(alike) if found not in alike[:k]])
    for combination in itertools.product(*options):
        spans_of = {id: span for part in combination for id, span in part.items()}
        vectors = {id: -(-s // target.lanes) if id in along else s for id, s in spans_of.items()}
        points = math.prod(v for id, v in vectors.items() if id not in beside)
        points *= max((v for id, v in vectors.items() if id in beside), default=1)
        if points <= _MOST_POINTS:
            yield spans_of


def _plan(arrangement: Arrangement, comp: CompInfo, tiling: Tiling) -> CompPlan:
    name = comp.comp.name
    lane = tiling.lanes[name].iterator
    per_loop: list[list[tuple[str, LoopShape]]] = []
    for x in comp.loops:
        span = tiling.span(comp, x.iterator)
        sizes = dict.fromkeys((span, x.extent % span or span))
        if x.iterator == lane or span > 1:
            per_loop.append(
                [(x.iterator, LoopShape(s, lane=x.iterator == lane, part=not x.free)) for s in sizes]
            )  # fmt: skip
    shapes: tuple[Shape, ...] = tuple(itertools.product(*per_loop))
    constants = arrangement.constants[name] if arrangement.moved else None
    return CompPlan(arrangement.orders[name], shapes, constants)


def _title(arrangement: Arrangement, tiling: Tiling) -> str:
    parts = []
    for comp in sorted(arrangement.nest.comps, key=lambda c: arrangement.constants[c.comp.name]):
        name = comp.comp.name
        lane = tiling.lanes[name].iterator
        loops = (f"{i}{'*' * (i == lane)}:{tiling.span(comp, i)}" for i in arrangement.orders[name])
        parts.append((arrangement.constants[name][0], f"{name}({' '.join(loops)})"))
    grouped = [" ".join(text for _, text in group) for _, group in itertools.groupby(parts, key=lambda p: p[0])]
    return "; ".join(grouped) + " in part"
