"""From a Choice to Nests: relations to time, tags and options."""

from __future__ import annotations

from dataclasses import dataclass, field

import islpy as isl

from plant_core.analysis.dependence_graph import Graph
from plant_core.analysis.statement_facts import Facts
from plant_core.ir.accesses import domain_of
from plant_core.ir.loop_tree import Tag
from plant_core.ir.scheduled import AstOption, Nest
from plant_core.schedule.auto.choose import Around, Choice, Nested, Row
from plant_core.schedule.auto.parallel_loops import nests_in, parallel_loop, pays, worthwhile
from plant_core.schedule.auto.tile_shapes import Machine


@dataclass(frozen=True, slots=True)
class Dim:
    """One loop of a nest. `step` over 1: the loop walks the first iterations of tiles of that many, and a later one of
    the same iterator counts the iterations of a tile from 0. `upward`: it may
    count up where the text counts down. `first`: where the first tile begins."""

    iterator: str
    step: int = 1
    tag: Tag | None = None
    option: AstOption | None = None
    upward: bool = False
    first: int = 0


@dataclass(slots=True)
class _Place:
    """A statement's time so far: positions (one more than loops) and loops."""

    positions: list[int] = field(default_factory=lambda: [0])
    dims: list[Dim] = field(default_factory=list)
    last: list[Dim] = field(default_factory=list)

    def enter(self, dim: Dim) -> None:
        self.dims.append(dim)
        self.positions.append(0)


def build_nests(graph: Graph, choice: Choice, machine: Machine) -> tuple[Nest, ...]:
    """The nests of all statements of `choice`, in the order that the graph's facts have them."""
    places = {name: _Place() for name in graph.facts}
    _walk(graph, choice, places, machine, machine.threads > 1)
    found = []
    for name, place in places.items():
        for dim in place.last:
            place.enter(dim)
        found.append(_nest(graph.facts[name], place))
    return tuple(found)


def _walk(graph: Graph, choice: Choice, places: dict[str, _Place], machine: Machine, threads: bool) -> None:
    match choice:
        case Row(children=children):
            for number, child in enumerate(children):
                for nest in nests_in(child):
                    places[nest.name].positions[-1] = number
                _walk(graph, child, places, machine, threads)
        case Around(shared=shared, body=body, lanes=lanes):
            outside = {name: len(places[name].dims) for name, _ in shared.members}
            parallel = threads and shared.parallel and worthwhile(graph, choice, outside)
            tag: Tag | None = "parallel" if parallel else None
            firsts = {graph.facts[name].firsts.get(iterator) for name, iterator in shared.members}
            first = (firsts.pop() or 0) if len(firsts) == 1 else 0
            for name, iterator in shared.members:
                places[name].enter(Dim(iterator, lanes * choice.step, tag, first=first))
                if lanes > 1:
                    places[name].last.append(Dim(iterator, 1, "vectorize", "isolate"))
            inside = threads and tag is None and (shared.parallel or pays(graph, choice, machine))
            _walk(graph, body, places, machine, inside)
        case Nested():
            _nested(graph, choice, places[choice.name], threads)


def _nested(graph: Graph, nested: Nested, place: _Place, threads: bool) -> None:
    shape = nested.shape
    loops = (*shape.outer, *((shape.inner,) if shape.inner is not None else ()))
    factors = dict(shape.unroll)
    width = shape.lanes * shape.vectors
    facts = graph.facts[nested.name]
    chosen = parallel_loop(graph, nested) if threads else None
    simple = shape.vector is not None and shape.vector == shape.inner and not any(f > 1 for _, f in shape.unroll)
    for loop in loops:
        if loop == nested.entered:
            continue
        parallel = loop == chosen
        step = width if loop == shape.vector else factors.get(loop, 1)
        upward = _unordered(graph, nested, loop)
        if simple and loop == shape.vector and not parallel:
            place.enter(Dim(loop, 1, "vectorize", upward=upward))
            continue
        first = 0 if upward and facts.signs[loop] < 0 else facts.firsts.get(loop, 0)
        place.enter(Dim(loop, step, "parallel" if parallel else None, upward=upward, first=first))
    for loop, factor in shape.unroll:
        if factor > 1:
            place.enter(Dim(loop, 1, "unroll_explicit", "isolate"))
    if shape.vector is not None and all(d.tag != "vectorize" for d in place.dims):
        place.enter(Dim(shape.vector, 1, "vectorize", "isolate"))


def _unordered(graph: Graph, nested: Nested, loop: str) -> bool:
    return all(graph.aligned(e, loop, loop) for e in nested.single.edges)


def _nest(facts: Facts, place: _Place) -> Nest:
    names: list[str] = []
    counts = {d.iterator: sum(e.iterator == d.iterator for e in place.dims) for d in place.dims}
    for dim in place.dims:
        names.append(
            f"{dim.iterator}_t"
            if counts[dim.iterator] > 1 and dim.iterator not in [d.iterator for d in place.dims[: len(names)]]
            else dim.iterator
        )
    tags = tuple((n, d.tag) for n, d in zip(names, place.dims, strict=True) if d.tag is not None)
    options = tuple((n, d.option) for n, d in zip(names, place.dims, strict=True) if d.option is not None)
    return Nest(facts.name, tuple(names), _relation(facts, place), tags, options)


def _relation(facts: Facts, place: _Place) -> isl.Map:
    """Tiles as equations, `i = i_t + i_p`, which isl can put into other constraints; quotients it can't."""
    count = len(place.dims)
    ins = [f"i{k}" for k in range(len(facts.iters))]
    times = ", ".join(f"{place.positions[k]}, t{k}" for k in range(count))
    conditions = []
    for k, dim in enumerate(place.dims):
        sign = (
            -1
            if facts.signs[dim.iterator] < 0 and not any(d.upward and d.iterator == dim.iterator for d in place.dims)
            else 1
        )
        value = f"{sign}*{ins[facts.iters.index(dim.iterator)]}"
        tiles = [n for n, d in enumerate(place.dims[:k]) if d.iterator == dim.iterator]
        if dim.step > 1:
            conditions.append(f"(t{k} - {dim.first}) mod {dim.step} = 0")
        elif tiles:
            outer = tiles[-1]
            conditions.append(f"{value} = t{outer} + t{k} and 0 <= t{k} < {place.dims[outer].step}")
        else:
            conditions.append(f"t{k} = {value}")
    text = f"{{ {facts.name}[{', '.join(ins)}] -> [{times}{', ' if times else ''}{place.positions[count]}]"
    text += (" : " + " and ".join(conditions) if conditions else "") + " }"
    return isl.Map(text).intersect_domain(domain_of(facts.comp))
