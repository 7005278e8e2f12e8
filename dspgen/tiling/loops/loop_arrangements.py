"""Ways to put the comps of one nest in order: which loops they share, and which of their loops is inside which.

Before: for i { a[i] = b[i] + x[i]; b[i + 1] = c[i] * y[i]; }
After:  for i: b[i + 1] = c[i] * y[i];  for i: a[i] = b[i] + x[i];
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from dspgen.tiling.loops.loop_nests import ROOM, CompInfo, LoopId, Nest
from plant_core.analysis.dependence import Dependence, reduction_of
from plant_core.analysis.dependence_graph import Edge, Graph
from plant_core.analysis.statement_facts import facts_of
from plant_core.ir.c_semantics import is_float
from plant_core.ir.func import Func
from plant_core.ir.time_2d1 import Position, position, schedule_map
from plant_core.transform.distribution_alignment import NoStructure, structures
from plant_core.transform.loop_distribution import Places

_STRUCTURES = 3


@dataclass(frozen=True, slots=True)
class Arrangement:
    """`nest`: its comps with their loops as they are shared; `constants`: each comp's textual positions; `orders`: its
    iterators, outermost first; `moved`: whether the positions are others than those of the text; `turned`: whether two
    loops that all comps share are exchanged."""

    nest: Nest
    constants: dict[str, tuple[int, ...]]
    orders: dict[str, tuple[str, ...]]
    moved: bool = False
    turned: bool = False


def spaced(func: Func) -> Func:
    """The same order of execution, with room between nests for one textual position for each comp of a nest, and for
    what comes before strips of it and after them."""
    room = len(func.comps) + ROOM
    comps = []
    for comp in func.comps:
        place = position(comp)
        moved = Position((place.constants[0] * room, *place.constants[1:]), place.loops)
        schedule = schedule_map(comp, moved, comp.schedule.dim(isl.dim_type.out))
        comps.append(replace(comp, schedule=schedule))
    return func.with_comps(tuple(comps))


def arrangements(nest: Nest, func: Func, known: Sequence[Dependence], *, reassoc: bool) -> Iterator[Arrangement]:
    """The nest as it is written, with reductions innermost, with reductions outside of what they write, with the last
    two loops that all comps share exchanged where neither is a reduction's, and distributed into loops of its own for
    each group of comps that depend on each other. Requires: `func` is `spaced`.
    """
    written = _as_written(nest)
    seen: list[tuple[dict[str, tuple[int, ...]], dict[str, tuple[str, ...]]]] = []
    for base in (written, *_distributed(nest, func, known, reassoc)):
        for orders in (base.orders, _moved(base, inside=True), _moved(base, inside=False)):
            if (base.constants, orders) not in seen:
                seen.append((base.constants, orders))
                yield replace(base, orders=orders)
    if (turned := _turned(written)) is not None:
        yield turned


def _turned(base: Arrangement) -> Arrangement | None:
    ids = [[c.loop(i).id for i in base.orders[c.comp.name]] for c in base.nest.comps]
    shared = sum(1 for here in itertools.takewhile(lambda x: len(set(x)) == 1, zip(*ids, strict=False)) if here)
    depth = min(shared, *(_moving(c, base.orders[c.comp.name]) for c in base.nest.comps))
    if depth < 2 or not all(c.box for c in base.nest.comps):
        return None
    orders = {n: (*o[: depth - 2], o[depth - 1], o[depth - 2], *o[depth:]) for n, o in base.orders.items()}
    return replace(base, orders=orders, turned=True)


def _moving(comp: CompInfo, order: Sequence[str]) -> int:
    """How many of the outermost loops move what the comp writes."""
    target = next(a for a in comp.accesses if a.write)
    return sum(1 for _ in itertools.takewhile(lambda i: not target.stays(i), order))


def _as_written(nest: Nest) -> Arrangement:
    constants = {c.comp.name: position(c.comp).constants for c in nest.comps}
    return Arrangement(nest, constants, {c.comp.name: c.comp.iters for c in nest.comps})


def _moved(base: Arrangement, *, inside: bool) -> dict[str, tuple[str, ...]]:
    """The orders with each comp's reduction loops innermost, or just outside the last loop that moves the target."""
    orders = {}
    for comp in base.nest.comps:
        order = base.orders[comp.comp.name]
        target = next(a for a in comp.accesses if a.write)
        inner = [i for i in order if target.stays(i)] if reduction_of(comp.comp) is not None else []
        outer = [i for i in order if i not in inner]
        last = [] if inside or not inner else outer[-1:]
        orders[comp.comp.name] = (*outer[: len(outer) - len(last)], *inner, *last)
    return orders


def _distributed(nest: Nest, func: Func, known: Sequence[Dependence], reassoc: bool) -> Iterator[Arrangement]:
    """Comps that don't depend on each other in a circle each in loops of their own, in an order that suits."""
    # Groups that may write the same are in order already, and stay together.
    if len(nest.comps) < 2 or any(a.write and a.varies and a.start is not None for c in nest.comps for a in c.accesses):
        return
    names = nest.names
    facts = facts_of(func.with_comps(tuple(c for c in func.comps if c.name in names)))
    if facts is None:
        return
    edges = tuple(
        Edge(d.source, d.sink, d.relation, d.reduction and (reassoc or not is_float(facts[d.source].comp.target.dtype)))
        for d in known
        if d.source in names and d.sink in names
    )
    try:
        nodes = structures(Graph(facts), tuple(facts), edges)
    except NoStructure:
        return
    first = min(position(c.comp).constants[0] for c in nest.comps)
    for node in nodes[:_STRUCTURES]:
        yield _arranged(nest, Places.of(node, names, first))


def _arranged(nest: Nest, places: Places) -> Arrangement:
    comps = []
    for comp in nest.comps:
        order, constants = places.orders[comp.comp.name], places.constants[comp.comp.name]
        loops = tuple(replace(comp.loop(i), id=_id(constants, depth)) for depth, i in enumerate(order))
        comps.append(replace(comp, loops=loops))
    return Arrangement(Nest(tuple(comps), nest.own), places.constants, dict(places.orders), True)


def _id(constants: tuple[int, ...], depth: int) -> LoopId:
    return constants[: depth + 1]
