"""Register tiles of one nest: all that there are in an arrangement with some lanes, with the model's cycles.

There are thousands of them, of which a few become candidates: what isn't needed to rank them is made when it is asked
for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from dspgen.target.isa.model import Target
from dspgen.tiling.cost.candidate_titles import title_of
from dspgen.tiling.cost.cycle_model import Known, Tiling, in_registers, nest_cycles, rows, working
from dspgen.tiling.cost.scalarized_accesses import gathered, lane_by_lane, laned, short
from dspgen.tiling.cost.unit_pressure import Machine
from dspgen.tiling.loops.lane_loops import Lane
from dspgen.tiling.loops.loop_arrangements import Arrangement
from dspgen.tiling.loops.loop_nests import CompInfo, LoopId, LoopInfo, Nest
from plant_core.ir.quasi_affine import affine_in_parameters
from plant_core.tile_plan.plan import CompPlan, LoopShape, Shape

_UNROLLS = (1, 2, 3, 4, 6, 8, 9, 12)
_VECTORS = (1, 2, 3, 4, 6, 8, 16)
# Of recurrences, which take many instructions, but gain from steps of several vectors at once.
_SCANNED = (1, 2, 4, 6)
# For loops of unknown size, whose tiles may never be full.
_FEW = (1, 2, 4)
# Of sums along one loop of unknown size, each of which waits for itself: as many as keep all units busy meanwhile.
_SUMMED = (1, 2, 4, 16)
_MOST_POINTS_UNKNOWN = 16
_MOST_POINTS_FEW = 32  # where rows have a constant length
_MOST_SPANNED_UNKNOWN = 2
_MANY = 6  # vectors of a row: as many as there are to be at a time
_MOST_POINTS = 160
SMALL_POINTS = 72
# How much slower loops taken apart are thought to be, for what they keep in memory in place of registers.
MOVED = 1.1
# So many lanes of an access lane by lane are about as much code as a vector's statement.
_LANES_LIKE_A_VECTOR = 2
# Vectors of a tile that are accessed lane by lane: more are more code than a candidate may have.
_MOST_GATHERED = 8
# How much slower code of few lanes is than the model thinks, for elements that lie apart: it goes lane by lane.
_SHORT = 4.0
# How much slower rows of any length are than where what is left of a vector is one that is cut short.
_UNCUT = 1.1

# Which loops besides the lanes' are unrolled: some that several comps share, only comps' own, or none.
Unrolled = Literal["shared", "own", "none"]
Plans = tuple[tuple[str, CompPlan], ...]


@dataclass(frozen=True, slots=True)
class Memo:
    """What is known of single comps in one arrangement. `apart`: loops of which no tile may hold two iterations."""

    apart: frozenset[LoopId]
    known: Known = field(default_factory=Known)
    plans: dict[tuple[object, ...], CompPlan] = field(default_factory=dict)
    titles: dict[tuple[object, ...], str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Setting:
    """What the tiles of an arrangement with the same lanes have in common."""

    arrangement: Arrangement
    target: Target
    machine: Machine
    memo: Memo
    fixed: bool  # rows have the same constant length


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """A register tile, and the vectors (or scalars) of the heaviest comp in it; `family`: see `_family`; `cut`: what is
    left of a row is one vector cut short; `by_lane`: vectors that are accessed lane by lane."""

    setting: _Setting
    tiling: Tiling
    cycles: float
    points: int
    family: str
    unrolled: Unrolled
    cut: bool
    by_lane: int

    @property
    def large(self) -> bool:
        """Slow to schedule."""
        return self.points > SMALL_POINTS

    @property
    def turned(self) -> bool:
        return self.setting.arrangement.turned

    @property
    def fixed(self) -> bool:
        return self.setting.fixed

    @property
    def rank(self) -> tuple[bool, float, int, str]:
        return (*self.order, self.title)

    @property
    def order(self) -> tuple[bool, float, int]:
        """The model's best first, but for those that are alike in this."""
        return self.large, self.cycles, self.points

    @property
    def plans(self) -> Plans:
        setting = self.setting
        return _plans(setting.arrangement, self.tiling, setting.target, self.cut, setting.memo.plans)

    @property
    def title(self) -> str:
        return title_of(self.setting.arrangement, self.tiling, self.setting.memo.titles) + (" cut" if self.cut else "")

    @property
    def size(self) -> int:
        """Vectors (or scalars) of the tiles of all shapes and comps: about what must be scheduled."""
        nest, machine = self.setting.arrangement.nest, self.setting.machine
        return _size(nest, dict(self.plans), machine) + self.by_lane * machine.lanes // _LANES_LIKE_A_VECTOR

    @property
    def whole(self) -> bool:
        """Whether one tile of each comp covers all its iterations."""
        comps = self.setting.arrangement.nest.comps
        return all(c.box and self.tiling.span(c, x.iterator) >= x.extent for c in comps for x in c.loops)

    @property
    def sure(self) -> bool:
        """Whether it takes no more iterations of a loop of unknown size at once than a vector has."""
        return _sure(self.setting.arrangement.nest, self.tiling, self.setting.target.lanes)


def tiles(
    arrangement: Arrangement, lanes: dict[str, Lane], target: Target, machine: Machine, single: bool, memo: Memo
) -> list[Tile]:
    """All of them, the model's best first."""
    return _in_order(_tiles(arrangement, lanes, target, machine, single, memo))


def _in_order(found: Iterable[Tile]) -> list[Tile]:
    """By their order, and those that are alike in it by title."""
    ordered: list[Tile] = []
    for _, group in itertools.groupby(sorted(found, key=lambda t: t.order), key=lambda t: t.order):
        alike = list(group)
        ordered += alike if len(alike) == 1 else sorted(alike, key=lambda t: t.title)
    return ordered


def _tiles(
    arrangement: Arrangement, lanes: dict[str, Lane], target: Target, machine: Machine, single: bool, memo: Memo
) -> Iterator[Tile]:
    nest = arrangement.nest
    comps, apart, fixed = working(nest), lane_by_lane(nest, lanes, machine), _fixed(nest, lanes)
    kept = in_registers(nest, lanes)
    setting = _Setting(arrangement, target, machine, memo, fixed)
    in_rows = lanes and not fixed and all(x.deal == 1 for x in lanes.values())
    for spans in _spans(arrangement, lanes, machine, single, memo.apart):
        tiling = Tiling(spans, lanes, arrangement.orders)
        points = tiling.points(nest.heaviest, target.lanes)
        by_lane = gathered(apart, tiling, machine)
        if by_lane > _MOST_GATHERED and points > 1:
            continue
        cycles = nest_cycles(comps, tiling, machine, memo.known, kept)
        # What such a loop advances by is beyond the reach of displacements: each row takes a register.
        far = arrangement.turned and any(rows(c, tiling, target.lanes) > machine.vector_streams for c in comps)
        if cycles is None or far:
            continue
        family, unrolled = _family(nest, tiling), _unrolled(nest, tiling)
        for cut in (False, True) if in_rows else (False,):
            slower = (
                cycles
                * (MOVED if arrangement.moved else 1.0)
                * (_UNCUT if in_rows and not cut else 1.0)
                * (_SHORT if short(nest, tiling, machine) else 1.0)
            )
            yield Tile(setting, tiling, slower, points, family, unrolled, cut, by_lane)


def _sure(nest: Nest, tiling: Tiling, lanes: int) -> bool:
    widths = _widths(nest, tiling.lanes, lanes)
    return all(
        c.fixed(x.iterator) or tiling.span(c, x.iterator) <= widths.get(x.id, 1) for c in nest.comps for x in c.loops
    )


def _fixed(nest: Nest, lanes: dict[str, Lane]) -> bool:
    """Whether all rows have the same constant length: the loops that lie across lanes do."""
    if not lanes:
        return all(c.box for c in nest.comps)
    return all(c.fixed(i) for c, x in laned(nest, lanes) for i in (x.iterator, x.inner) if i is not None)


def _unrolled(nest: Nest, tiling: Tiling) -> Unrolled:
    ids = [x.id for c in nest.comps for x in c.loops]
    lanes = {c.loop(x.iterator).id for c, x in laned(nest, tiling.lanes)}
    wide = [id for id, span in tiling.spans.items() if span > 1 and id not in lanes]
    return "shared" if any(ids.count(id) > 1 for id in wide) else "own" if wide else "none"


def _spans(
    arrangement: Arrangement, lanes: dict[str, Lane], machine: Machine, single: bool, apart: Collection[LoopId]
) -> Iterator[dict[LoopId, int]]:
    """Register tiles: spans for the lane loop and the loops of the heaviest comp, but for those `apart`."""
    nest = arrangement.nest
    heavy = nest.heaviest
    lane_loops = _widths(nest, lanes, machine.lanes)
    inner = {c.loop(x.inner).id for c, x in laned(nest, lanes) if x.inner is not None}
    # Comps without lanes that share the loop are unrolled as often as there are lanes.
    mixed = any(x.id in lane_loops for c in nest.comps if c.comp.name not in lanes for x in c.loops)
    mixed = mixed or any(x.most is not None for x in lanes.values())
    written = next(a for a in heavy.accesses if a.write)
    options: list[list[tuple[LoopId, int]]] = []
    for iterator in arrangement.orders[heavy.comp.name]:
        loop = heavy.loop(iterator)
        if loop.id in inner:
            continue
        if loop.id in lane_loops:
            width = lane_loops[loop.id]
            deal = max(x.deal for x in lanes.values())
            most = 1 if single or mixed else min(-(-loop.extent // width), _VECTORS[-1] // deal)
            summed = any(x.reduce for x in lanes.values()) and _alone(heavy)
            offered = _SCANNED if any(x.scan for x in lanes.values()) else _SUMMED if summed else None
            vectors = [v for v in offered or (_VECTORS if loop.known and loop.free else _FEW) if v <= most]
            full = set() if single or mixed else _full(loop, width)
            # Tiles of rows whose ends differ are whole vectors.
            spans = sorted({min(v * width, loop.extent) if loop.free else v * width for v in vectors} | full)
        elif (not lanes and machine.vectors) or single or loop.id in apart:
            spans = [1]
        elif not (loop.known and loop.free):
            lane = lanes.get(heavy.comp.name)
            spans = [u for u in _FEW if u <= loop.extent]
            if lane is not None and heavy.continues(iterator, lane.iterator, _MANY * machine.lanes):
                spans = [1]
        elif written.stays(iterator):
            spans = sorted({1, 2, 4, *([loop.extent] if loop.extent <= 8 else [])} & set(range(1, loop.extent + 1)))
        else:
            spans = _unrolls(loop.extent)
        options.append([(loop.id, s) for s in spans])
    unknown = {x.id for x in heavy.loops if not (heavy.box or heavy.fixed(x.iterator))}
    fixed = _fixed(nest, lanes)
    for combination in itertools.product(*options):
        known = not any(span > 1 and id in unknown for id, span in combination)
        if fixed and sum(span > 1 for id, span in combination if id in unknown) > 1:
            continue
        if not (known or fixed) and sum(span > 1 for _, span in combination) > _MOST_SPANNED_UNKNOWN:
            continue
        points = max((x.deal for x in lanes.values()), default=1)
        for id, span in combination:
            points *= -(-span // lane_loops[id]) if id in lane_loops else span
        if points <= (_MOST_POINTS if known else _MOST_POINTS_FEW if fixed else _MOST_POINTS_UNKNOWN):
            chosen = dict(combination)
            wide = max((-(-span // lane_loops[id]) for id, span in chosen.items() if id in lane_loops), default=1)
            yield {**_alike(nest, lane_loops, wide), **_rows_alike(nest, lanes, chosen, machine), **chosen}


def _alone(comp: CompInfo) -> bool:
    """Whether its only loop has any number of iterations, rather than whole groups of some."""
    loop, last = comp.loops[0], affine_in_parameters(comp.comp.domain.dim_max(0))
    if len(comp.loops) > 1 or loop.known or loop.low is None or last is None:
        return False
    return math.gcd(last[0] - loop.low + 1, *last[1].values()) == 1


def _unrolls(extent: int) -> list[int]:
    """The usual ones, and those up to the largest of them that leave nothing over."""
    even = {u for u in range(1, _UNROLLS[-1]) if extent % u == 0}
    return sorted(u for u in {*_UNROLLS, *even} if u <= extent)


def _widths(nest: Nest, lanes: dict[str, Lane], width: int) -> dict[LoopId, int]:
    """How many iterations of each lane loop make a vector."""
    found: dict[LoopId, int] = {}
    for comp, lane in laned(nest, lanes):
        loop = comp.loop(lane.iterator)
        found[loop.id] = min(found.get(loop.id, width * lane.deal), lane.most or width * lane.deal // lane.period)
    return found


def _alike(nest: Nest, widths: dict[LoopId, int], vectors: int) -> dict[LoopId, int]:
    """So many vectors for the lane loops of all comps."""
    return {
        x.id: min(x.extent, vectors * widths[x.id]) if x.free else vectors * widths[x.id]
        for c in nest.comps
        for x in c.loops
        if x.id in widths
    }


def _rows_alike(nest: Nest, lanes: dict[str, Lane], chosen: dict[LoopId, int], machine: Machine) -> dict[LoopId, int]:
    """As many rows as the heaviest comp has, in loops of the same depth that are as long: for comps along whose rows of
    unknown length vectors lie, and those that join a vector of each row, where several are joined as one is."""
    found: dict[LoopId, int] = {}
    if all(x.known for x in nest.heaviest.loops):
        return found
    for comp in nest.comps:
        lane = lanes.get(comp.comp.name)
        if lane is None or (not machine.joins_rows if lane.reduce else comp.loop(lane.iterator).known):
            continue
        for mine, heavy in zip(comp.loops, nest.heaviest.loops, strict=False):
            if mine.known and mine.id not in chosen and mine.extent == heavy.extent:
                found[mine.id] = chosen.get(heavy.id, 1)
    return found


def _full(loop: LoopInfo, width: int) -> set[int]:
    """The whole extent as one ragged row of vectors, when short."""
    return {loop.extent} if loop.known and loop.free and loop.extent <= 16 * width else set()


def _plans(
    arrangement: Arrangement, tiling: Tiling, target: Target, cut: bool, known: dict[tuple[object, ...], CompPlan]
) -> Plans:
    """Shapes for full tiles first, then for the remainders of each loop, in all combinations. `known`: those of single
    comps in this arrangement.

    Where a size is unknown there are full tiles, and below these just rows of vectors; with `cut`, what is left of a
    row is one vector cut short.
    """
    plans = []
    for comp in arrangement.nest.comps:
        name = comp.comp.name
        along, lane = tiling.along(comp), tiling.lanes.get(name)
        spans = tuple(along[i] for i in comp.comp.iters)
        key = (name, lane, cut, spans)
        if key not in known:
            known[key] = _comp_plan(arrangement, comp, spans, lane, target, cut)
        plans.append((name, known[key]))
    return tuple(plans)


def _comp_plan(
    arrangement: Arrangement, comp: CompInfo, spans: tuple[int, ...], lane: Lane | None, target: Target, cut: bool
) -> CompPlan:
    per_loop: list[list[tuple[str, LoopShape]]] = []
    name = comp.comp.name
    order = arrangement.orders[name]
    for iterator, span in zip(comp.comp.iters, spans, strict=True):
        loop = comp.loop(iterator)
        is_lane = lane is not None and lane.iterator == iterator
        if span == 1 and not is_lane:
            continue
        like = LoopShape(span)
        if lane is not None and lane.inner == iterator:
            like = LoopShape(span, inner=True)
        sizes = [span]
        if loop.known and loop.free and loop.extent % span:
            sizes.append(loop.extent % span)
        if is_lane and lane is not None:
            width = lane.most or target.lanes * lane.deal // lane.period
            if span > width and not (comp.fixed(iterator) and span == loop.extent):
                sizes.append(width)
            like = LoopShape(span, True, lane.reduce, flip=lane.flip, scan=lane.scan, deal=lane.deal)
        per_loop.append([(iterator, replace(like, span=s)) for s in dict.fromkeys(sizes)])
    shapes: tuple[Shape, ...] = tuple(tuple(c) for c in itertools.product(*per_loop)) if per_loop else ()
    if not all(comp.fixed(x.iterator) for x, span in zip(comp.loops, spans, strict=True) if span > 1):
        rows = [tuple(s for s in shape if s[1].lane or s[1].inner or comp.fixed(s[0])) for shape in shapes]
        shapes = tuple(dict.fromkeys((*shapes[:1], *(r for r in rows if r))))
    if cut and lane is not None and lane.inner is None and not comp.box:
        inner = [tuple(s for s in shape if not s[1].lane and comp.fixed(s[0])) for shape in shapes if comp.settled]
        beside = tuple(dict.fromkeys(s for s in inner if s))
        # A row of a vector at most is one that is cut short, full or not.
        most = comp.loop(lane.iterator).most
        if comp.settled and most is not None and most <= (lane.most or target.lanes):
            shapes = ()
        elif comp.settled and not lane.reduce and lane.iterator == order[-1] and order[1:]:
            # Each row ends in a vector that is cut short, without a question that would come between rows.
            shapes = tuple(tuple((n, replace(x, spare=x.lane)) for n, x in shape) for shape in shapes)
        shapes = _rows(lane, shapes, comp.loop(lane.iterator).free, target.lanes, beside)
    return CompPlan(order, shapes, arrangement.constants[name] if arrangement.moved else None)


def _rows(
    lane: Lane, shapes: tuple[Shape, ...], free: bool, lanes: int, beside: tuple[Shape, ...]
) -> tuple[Shape, ...]:
    """The shapes with what they leave of a row as one vector cut short, of several rows at once in the ways `beside`.
    Where rows begin at different iterations, rows of full vectors begin where they do."""
    rest = LoopShape(lane.most or lanes, lane=True, reduce=lane.reduce, flip=lane.flip, cut=True, scan=lane.scan)
    if lane.reduce and not free:
        # One loop over the row, so that its partial results are joined once.
        return (((lane.iterator, rest),),)
    if not free:
        shapes = tuple(
            tuple((name, replace(x, row=x.lane)) for name, x in shape)
            if all(x.lane or x.span == 1 for _, x in shape)
            else shape
            for shape in shapes
        )
    tiles = tuple((*others, (lane.iterator, rest)) for others in beside) if free else ()
    return (*shapes, *tiles, ((lane.iterator, rest),))


def _size(nest: Nest, plans: dict[str, CompPlan], machine: Machine) -> int:
    """Vectors (or scalars) of all shapes of all comps."""
    size = 0
    for comp in nest.comps:
        vectors = 0
        for shape in plans[comp.comp.name].shapes:
            inner = math.prod(x.span for _, x in shape if x.inner)
            spans = (-(-x.span * inner // machine.lanes) if x.lane else 1 if x.inner else x.span for _, x in shape)
            vectors += math.prod(spans)
        size += max(vectors, 1)
    return size


def _family(nest: Nest, tiling: Tiling) -> str:
    """The spans of the heaviest comp's reduction loops."""
    heavy = nest.heaviest
    written = next(a for a in heavy.accesses if a.write)
    inner = [x for x in heavy.loops if written.stays(x.iterator)]
    return " ".join(f"{x.iterator}:{tiling.spans.get(x.id, 1)}" for x in inner)
