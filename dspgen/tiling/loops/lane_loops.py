"""Which loop of each comp may lie across the lanes, by the dependences of the comp upon itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from dspgen.tiling.loops.loop_arrangements import Arrangement
from dspgen.tiling.loops.loop_nests import CompInfo, LoopId, LoopInfo, Nest
from plant_core.analysis.dependence import Dependence, reduction_of
from plant_core.analysis.linear_recurrences import recurrence_of, steady
from plant_core.ir.time_2d1 import position

Allowed = Callable[[CompInfo, "Lane"], "Lane | None"]


# Iterations at once that are tried where dependences forbid whole vectors.
_SHORTER = (8, 4, 2)


@dataclass(frozen=True, slots=True)
class Lane:
    """The iterator across a comp's lanes; whether it is a reduction, and whether it runs down the lanes.

    `inner`: lanes of two loops, whose inner one has `period` iterations. `most`: how many iterations at once its
    dependences allow, where these are fewer than the lanes. `scan`: its iterations are those of a recurrence. `deal`:
    so many vectors take turns (`plant_core.ir.loop_tree.Tile`).
    """

    iterator: str
    reduce: bool = False
    flip: bool = False
    inner: str | None = None
    period: int = 1
    most: int | None = None
    scan: bool = False
    deal: int = 1

    @property
    def sign(self) -> int:
        return -1 if self.flip else 1

    @property
    def plain(self) -> bool:
        """Whether all lanes of whole vectors run up one loop."""
        return not (self.flip or self.scan or self.inner is not None or self.most is not None)


def lane_choices(nest: Nest, lanes: int, allowed: Allowed | None = None) -> Iterator[dict[str, Lane]]:
    """Which iterator of each comp lies across the lanes: each loop of the nest in turn, with a short loop inside it
    if one divides the lanes, and none; without recurrences across lanes, and with them.

    `allowed` gives a lane as far as it may be one: as it is, shorter, or None.
    """
    ids: dict[LoopId, None] = {}
    for comp in sorted(nest.comps, key=lambda c: -c.volume):
        for loop in reversed(comp.loops):
            ids[loop.id] = None
    seen: set[tuple[tuple[str, Lane], ...]] = set()
    for primary in ids:
        sharing = [c for c in nest.comps if any(x.id == primary for x in c.loops)]
        falls = any(a.coefficient(_iterator(c, primary)) < 0 for c in sharing for a in c.accesses)
        rows = _in_rows(sharing, primary)
        for flip in (False, True) if falls else (False,):
            shorts = (None, *_short_loops(sharing, primary, lanes)) if not (flip or rows) else (None,)
            for inner, scan in (*((short, 0) for short in shorts), (None, lanes)):
                found = _choice(nest, sharing, primary, inner, flip, scan, allowed)
                key = tuple(sorted(found.items(), key=lambda item: item[0]))
                if found and key not in seen:
                    seen.add(key)
                    yield found
    yield {}


def _choice(
    nest: Nest,
    sharing: Sequence[CompInfo],
    primary: LoopId,
    inner: LoopId | None,
    flip: bool,
    scan: int,
    allowed: Allowed | None,
) -> dict[str, Lane]:
    """With `scan`, recurrences lie across so many lanes where else none or fewer of their iterations run at once."""
    taken = {x.id for c in sharing for x in c.loops}
    lanes: dict[str, Lane] = {}
    for comp in nest.comps:
        own = [x for x in comp.loops if x.id == primary]
        options = own or [x for x in reversed(comp.loops) if x.id not in taken]
        short = next((x for x in comp.loops if x.id == inner), None) if own else None
        found = (_lane(comp, option, flip and bool(own), short) for option in options)
        legal = (y for x in found if x is not None and (y := x if allowed is None else allowed(comp, x)) is not None)
        lane = next(legal, None)
        if scan and (lane is None or lane.most is not None):
            scans = (_scan(comp, option, flip and bool(own), scan) for option in options)
            whole = (
                y for x in scans if x is not None and (y := x if allowed is None else allowed(comp, x)) is not None
            )
            lane = next(whole, lane)
        if lane is not None:
            lanes[comp.comp.name] = lane
    return lanes if inner is None or any(x.inner is not None for x in lanes.values()) else {}


def _short_loops(sharing: Sequence[CompInfo], primary: LoopId, lanes: int) -> Iterator[LoopId]:
    """The loops of all these comps with free and known bounds and so few iterations that they divide the lanes."""

    def is_short(x: LoopInfo) -> bool:
        return x.known and x.free and 1 < x.extent < lanes and lanes % x.extent == 0

    for loop in sharing[0].loops:
        if loop.id != primary and all(any(x.id == loop.id and is_short(x) for x in c.loops) for c in sharing):
            yield loop.id


def _in_rows(sharing: Sequence[CompInfo], primary: LoopId) -> bool:
    """Whether all that the comps write lies side by side along a loop of unknown size, so that it needs no other."""
    loops = [(c, x) for c in sharing for x in c.loops if x.id == primary and not x.known]
    return bool(loops) and all(a.coefficient(x.iterator) == 1 for c, x in loops for a in c.accesses if a.write)


def _iterator(comp: CompInfo, id: LoopId) -> str:
    return next(x.iterator for x in comp.loops if x.id == id)


def _lane(comp: CompInfo, loop: LoopInfo, flip: bool, short: LoopInfo | None) -> Lane | None:
    """None if the loop can't be the comp's lanes: it has one iteration, or all of them write one element."""
    if loop.extent < 2:
        return None
    stays = any(a.stays(loop.iterator) for a in comp.accesses if a.write)
    if short is not None:
        stays = stays or any(a.stays(short.iterator) for a in comp.accesses if a.write)
        return None if stays else Lane(loop.iterator, False, False, short.iterator, short.extent)
    return None if stays and reduction_of(comp.comp) is None else Lane(loop.iterator, stays, flip)


def _scan(comp: CompInfo, loop: LoopInfo, flip: bool, lanes: int) -> Lane | None:
    """The loop across lanes as a recurrence, None if it is none or doesn't go round in them."""
    found = recurrence_of(comp.comp, loop.iterator) if loop.extent > 1 else None
    if found is None or abs(found.distance) >= lanes or lanes % found.distance or (flip and found.distance != 1):
        return None
    return Lane(loop.iterator, flip=flip, scan=True)


class LegalLanes:
    """Whether one vector of iterations keeps the dependences of a comp on itself, and those that the loop carries
    back to a comp further up in its body, in a given arrangement.

    This is what no tile can do without; a whole plan is still to be checked. The comps `scalars` have no lanes.
    """

    def __init__(
        self, nest: Nest, known: Sequence[Dependence], lanes: int, scalars: Collection[str] = frozenset()
    ) -> None:
        self._scalars = scalars
        names = set(nest.names)
        self._known = [d for d in known if not d.reduction and {d.source, d.sink} <= names]
        self._lanes = lanes
        self._own: dict[tuple[str, tuple[str, ...], Lane, int], bool] = {}

    def at_once(self, comp: CompInfo, iterator: str, arrangement: Arrangement) -> bool:
        """Whether a tile may hold two iterations of one of a comp's loops, as far as other comps are concerned."""
        return not self._runs_back(comp, arrangement, iterator, 1)

    def under(self, arrangement: Arrangement) -> Allowed:
        back: dict[tuple[str, str], bool] = {}

        def allowed(comp: CompInfo, lane: Lane) -> Lane | None:
            order = arrangement.orders[comp.comp.name]
            place = comp.comp.name, lane.iterator
            if place not in back:
                back[place] = comp.comp.name in self._scalars or self._runs_back(
                    comp, arrangement, lane.iterator, self._lanes - 1
                )
            if back[place]:
                return None
            if not self.breaks_own(comp, order, lane, self._lanes * lane.deal // lane.period):
                return lane
            if lane.deal > 1:
                return None
            widths = (
                [w for w in _SHORTER if w < self._lanes]
                if lane.inner is None and not (lane.reduce or lane.scan)
                else []
            )
            most = next((w for w in widths if not self.breaks_own(comp, order, lane, w)), None)
            return None if most is None else replace(lane, most=most)

        return allowed

    def breaks_own(self, comp: CompInfo, order: tuple[str, ...], lane: Lane, most: int) -> bool:
        """Whether a dependence of the comp on itself forbids `most` iterations of the loop at once."""
        name = comp.comp.name
        key = (name, order, lane, most)
        if key not in self._own:
            if lane.inner is not None:
                # Groups are lanes of their own; what lies in one group is left to the check of the plan.
                order = tuple(n for n in order if n != lane.inner)
            own = [d for d in self._known if d.source == d.sink == name]
            if lane.scan and (found := recurrence_of(comp.comp, lane.iterator)) is not None:
                kept = steady(found, comp.comp, lane.iterator)
                own = [replace(d, relation=d.relation.subtract(kept)) if d.kind == "flow" else d for d in own]
            steps = {name: _step(comp, name) for name in order} if own else {}
            self._own[key] = any(self._broken(d, comp.comp.iters, order, steps, lane, most - 1) for d in own)
        return self._own[key]

    def _runs_back(self, comp: CompInfo, arrangement: Arrangement, iterator: str, far: int) -> bool:
        """Whether the loop, where its neighbours share it, carries a dependence, over so many iterations at most, to a
        comp that runs first in its body, or in that of further loops that they share."""
        orders = arrangement.orders
        loop = comp.loop(iterator)
        depth = comp.loops.index(loop)
        sharing = {
            c.comp.name: c for c in arrangement.nest.comps if len(c.loops) > depth and c.loops[depth].id == loop.id
        }
        still = all(orders[n][: depth + 1] == _names(c)[: depth + 1] for n, c in sharing.items())
        pairs = (d for d in self._known if d.source != d.sink and {d.source, d.sink} <= set(sharing))
        return still and any(self._backwards(d, sharing, arrangement, depth, far) for d in pairs)

    def _backwards(
        self, dependence: Dependence, comps: dict[str, CompInfo], arrangement: Arrangement, depth: int, far: int
    ) -> bool:
        places, orders = arrangement.constants, arrangement.orders
        source, sink = comps[dependence.source], comps[dependence.sink]
        shared = depth + 1
        for one, other in zip(source.loops[shared:], sink.loops[shared:], strict=False):
            as_written = all(orders[c.comp.name][: shared + 1] == _names(c)[: shared + 1] for c in (source, sink))
            if one.id != other.id or not as_written:
                break
            shared += 1
        if places[dependence.sink][shared] >= places[dependence.source][shared]:
            return False
        pairs = dependence.relation
        for level in range(shared):
            a, b = (c.comp.iters.index(c.loops[level].iterator) for c in (source, sink))
            if level != depth:
                pairs = pairs.equate(isl.dim_type.in_, a, isl.dim_type.out, b)
        a, b = (c.comp.iters.index(c.loops[depth].iterator) for c in (source, sink))
        return any(not _apart(pairs, a, b, low, high).is_empty() for low, high in self._row(far))

    def _broken(
        self,
        dependence: Dependence,
        iters: tuple[str, ...],
        order: tuple[str, ...],
        steps: dict[str, int],
        across: Lane,
        far: int,
    ) -> bool:
        """Whether two instances in one row of lanes run the wrong way round: outside it they are at one place, and
        inside it the later one comes first, or at once, which only suits a read before a write, and two writes in the
        order of the lanes."""
        deltas = dependence.relation.deltas()
        place = order.index(across.iterator)
        for name in order[:place]:
            deltas = _within(deltas, iters.index(name), 0, 0)
        lane = iters.index(across.iterator)
        low, high = (_within(deltas, lane, a, b) for a, b in self._row(far))
        deltas = low.union(high)
        for name in order[place + 1 :]:
            inner = iters.index(name)
            back = (None, -1) if steps[name] > 0 else (1, None)
            if steps[name] == 0:
                return False
            if not _within(deltas, inner, *back).is_empty():
                return True
            deltas = _within(deltas, inner, 0, 0)
        if dependence.kind == "output" and across.inner is None and not across.flip:
            deltas = _within(deltas, lane, None, -1)
        return dependence.kind != "anti" and not deltas.is_empty()

    def _row(self, far: int) -> tuple[tuple[int, int], tuple[int, int]]:
        return (-far, -1), (1, far)


def _names(comp: CompInfo) -> tuple[str, ...]:
    return tuple(x.iterator for x in comp.loops)


def _step(comp: CompInfo, iterator: str) -> int:
    """Which way the loop over `iterator` runs; 0 where its schedule is of more than this iterator."""
    line = position(comp.comp).loops[comp.comp.iters.index(iterator)]
    return line.terms[0][1] if [name for name, _ in line.terms] == [iterator] else 0


def _within(deltas: isl.Set, dim: int, low: int | None, high: int | None) -> isl.Set:
    if low is not None:
        deltas = deltas.lower_bound_val(isl.dim_type.set, dim, isl.Val(low))
    return deltas if high is None else deltas.upper_bound_val(isl.dim_type.set, dim, isl.Val(high))


def _apart(pairs: isl.Map, a: int, b: int, low: int, high: int) -> isl.Map:
    """The pairs whose dimension `b` at the sink is `low` to `high` more than `a` at the source."""
    local = isl.LocalSpace.from_space(pairs.get_space())
    for bound, sign in ((low, 1), (high, -1)):
        constraint = isl.Constraint.alloc_inequality(local).set_constant_val(isl.Val(-sign * bound))
        constraint = constraint.set_coefficient_val(isl.dim_type.out, b, isl.Val(sign))
        pairs = pairs.add_constraint(constraint.set_coefficient_val(isl.dim_type.in_, a, isl.Val(-sign)))
    return pairs
