"""Which loop of each comp may lie across the lanes: by its strides, and by the dependences of the comp upon itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import islpy as isl

from dspgen.tiling.machine import Machine
from dspgen.tiling.nests import CompInfo, LoopInfo, Nest
from plant_core.dependence import Dependence, reduction_of
from plant_core.schedule import position

LoopId = tuple[int, ...]
Order = dict[str, tuple[str, ...]]
Allowed = Callable[[CompInfo, str], bool]


@dataclass(frozen=True, slots=True)
class Lane:
    """The iterator across a comp's lanes; whether it is a reduction, and whether it runs down the lanes."""

    iterator: str
    reduce: bool = False
    flip: bool = False

    @property
    def sign(self) -> int:
        return -1 if self.flip else 1


def lane_choices(nest: Nest, machine: Machine, allowed: Allowed | None = None) -> Iterator[dict[str, Lane]]:
    """Which iterator of each comp lies across the lanes: each loop of the nest in turn, and none.

    A comp has no lanes where `allowed` says no to the loop.
    """
    ids: dict[LoopId, None] = {}
    for comp in sorted(nest.comps, key=lambda c: -c.volume):
        for loop in reversed(comp.loops):
            ids[loop.id] = None
    seen: set[tuple[tuple[str, Lane], ...]] = set()
    for primary in ids:
        sharing = [c for c in nest.comps if any(x.id == primary for x in c.loops)]
        taken = {x.id for c in sharing for x in c.loops}
        falls = any(a.coefficient(_iterator(c, primary)) < 0 for c in sharing for a in c.accesses or ())
        for flip in (False, True) if falls else (False,):
            lanes: dict[str, Lane] = {}
            for comp in nest.comps:
                own = [x for x in comp.loops if x.id == primary]
                options = own or [x for x in reversed(comp.loops) if x.id not in taken]
                found = (_lane(comp, option, flip and bool(own), machine) for option in options)
                legal = (x for x in found if x is not None and (allowed is None or allowed(comp, x.iterator)))
                if (lane := next(legal, None)) is not None:
                    lanes[comp.comp.name] = lane
            key = tuple(sorted(lanes.items(), key=lambda item: item[0]))
            if lanes and key not in seen:
                seen.add(key)
                yield lanes
    yield {}


def _iterator(comp: CompInfo, id: LoopId) -> str:
    return next(x.iterator for x in comp.loops if x.id == id)


def _lane(comp: CompInfo, loop: LoopInfo, flip: bool, machine: Machine) -> Lane | None:
    """None if the loop can't be the comp's lanes by its strides."""
    if comp.accesses is None or loop.extent < 2:
        return None
    lane = Lane(loop.iterator, False, flip)
    for access in comp.accesses:
        stride = access.coefficient(loop.iterator) * lane.sign
        if access.write:
            if stride == 0:
                if reduction_of(comp.comp) is None:
                    return None
                lane = Lane(loop.iterator, True, lane.flip)
            elif not machine.has_vector_access(stride, access.elem, store=True):
                return None
        elif stride and not machine.has_vector_access(stride, access.elem, store=False):
            return None
    return lane


class LegalLanes:
    """Whether one vector of iterations keeps the dependences of a comp on itself, and those that the loop carries
    back to a comp further up in its body, in given loop orders.

    This is what no tile can do without; a whole plan is still to be checked.
    """

    def __init__(self, nest: Nest, known: Sequence[Dependence], lanes: int) -> None:
        self._comps = {c.comp.name: c for c in nest.comps}
        self._known = [d for d in known if not d.reduction and {d.source, d.sink} <= set(self._comps)]
        self._lanes = lanes
        self._own: dict[tuple[str, tuple[str, ...], str], bool] = {}

    def under(self, orders: Order) -> Allowed:
        def allowed(comp: CompInfo, iterator: str) -> bool:
            return not (
                self._breaks_own(comp, orders[comp.comp.name], iterator) or self._runs_back(comp, orders, iterator)
            )

        return allowed

    def _breaks_own(self, comp: CompInfo, order: tuple[str, ...], iterator: str) -> bool:
        name = comp.comp.name
        key = (name, order, iterator)
        if key not in self._own:
            steps = {name: _step(comp, name) for name in order}
            own = (d for d in self._known if d.source == d.sink == name)
            self._own[key] = any(self._broken(d, comp.comp.iters, order, steps, iterator) for d in own)
        return self._own[key]

    def _runs_back(self, comp: CompInfo, orders: Order, iterator: str) -> bool:
        """Whether the loop, in its original place, carries a dependence to a comp that runs first in its body."""
        loop = comp.loop(iterator)
        depth = comp.loops.index(loop)
        sharing = {n for n, c in self._comps.items() if len(c.loops) > depth and c.loops[depth].id == loop.id}
        still = all(orders[n][: depth + 1] == self._comps[n].comp.iters[: depth + 1] for n in sharing)
        pairs = (d for d in self._known if d.source != d.sink and {d.source, d.sink} <= sharing)
        return still and any(self._backwards(d, depth) for d in pairs)

    def _backwards(self, dependence: Dependence, depth: int) -> bool:
        source, sink = self._comps[dependence.source].comp, self._comps[dependence.sink].comp
        if position(sink).constants[depth + 1] >= position(source).constants[depth + 1]:
            return False
        pairs = dependence.relation
        for kind, iters in ((isl.dim_type.in_, source.iters), (isl.dim_type.out, sink.iters)):
            pairs = pairs.project_out(kind, depth + 1, len(iters) - depth - 1).set_tuple_name(kind, "")
        deltas = pairs.deltas()
        for outer in range(depth):
            deltas = _within(deltas, outer, 0, 0)
        return not self._in_a_row(deltas, depth).is_empty()

    def _broken(
        self,
        dependence: Dependence,
        iters: tuple[str, ...],
        order: tuple[str, ...],
        steps: dict[str, int],
        iterator: str,
    ) -> bool:
        """Whether two instances in one row of `lanes` run the wrong way round: outside it they are at one place, and
        inside it the later one comes first, or at once, which only suits a read before a write."""
        deltas = dependence.relation.deltas()
        place = order.index(iterator)
        for name in order[:place]:
            deltas = _within(deltas, iters.index(name), 0, 0)
        deltas = self._in_a_row(deltas, iters.index(iterator))
        for name in order[place + 1 :]:
            inner = iters.index(name)
            back = (None, -1) if steps[name] > 0 else (1, None)
            if steps[name] == 0:
                return False
            if not _within(deltas, inner, *back).is_empty():
                return True
            deltas = _within(deltas, inner, 0, 0)
        return dependence.kind != "anti" and not deltas.is_empty()

    def _in_a_row(self, deltas: isl.Set, lane: int) -> isl.Set:
        far = self._lanes - 1
        return _within(deltas, lane, -far, -1).union(_within(deltas, lane, 1, far))


def _step(comp: CompInfo, iterator: str) -> int:
    """Which way the loop over `iterator` runs; 0 where its schedule is of more than this iterator."""
    line = position(comp.comp).loops[comp.comp.iters.index(iterator)]
    return line.terms[0][1] if [name for name, _ in line.terms] == [iterator] else 0


def _within(deltas: isl.Set, dim: int, low: int | None, high: int | None) -> isl.Set:
    if low is not None:
        deltas = deltas.lower_bound_val(isl.dim_type.set, dim, isl.Val(low))
    return deltas if high is None else deltas.upper_bound_val(isl.dim_type.set, dim, isl.Val(high))
