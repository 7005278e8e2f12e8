"""Panels that a register tile walks through with large strides, copied so that they lie together."""

from __future__ import annotations

from plant_core.analysis.dependence_graph import Graph
from plant_core.analysis.statement_facts import Facts, Touch
from plant_core.ir.scheduled import Scheduled
from plant_core.schedule import memory
from plant_core.schedule.auto.choose import Choice, Nested
from plant_core.schedule.auto.parallel_loops import nests_in
from plant_core.schedule.auto.tile_shapes import Machine, Shape
from plant_core.schedule.verbs import tag
from plant_core.support.location import PlantError

FAR = 32
"""Steps of the inner loop are far apart where this many of them span the first cache."""
LEAST_REUSE = 4
"""How many times a panel is walked through before its copy is worth making."""


def pack(scheduled: Scheduled, graph: Graph, choice: Choice, machine: Machine) -> Scheduled:
    """Copies of what the nests read in vectors that lie far apart, made once for each tile of the vector loop.

    Before: `for j_t { for i_t { for k { ... b[k][j_t + j] ... } } }`.
    After: `for j_t { for x0, x1 { p[x0][x1] = b[x0][j_t + x1]; }  for i_t { for k { ... p[k][j] ... } } }`. Large and
    even rows else fall into few sets of the cache (Goto and van de Geijn, TOMS 2008).
    """
    for nested in nests_in(choice):
        facts = graph.facts[nested.name]
        if _panels(nested.shape):
            for touch in facts.touches:
                if _worthwhile(facts, nested.shape, touch, machine):
                    scheduled = _packed(scheduled, nested, touch)
    return scheduled


def _panels(shape: Shape) -> bool:
    return shape.vector is not None and shape.vector in shape.outer and shape.inner is not None


def _worthwhile(facts: Facts, shape: Shape, touch: Touch, machine: Machine) -> bool:
    if touch.written or not touch.known or touch.stride(shape.vector) != facts.elem:
        return False
    if shape.inner is None or shape.vector is None or abs(touch.stride(shape.inner)) * FAR < machine.first_cache:
        return False
    factors = dict(shape.unroll)
    inside = shape.outer[shape.outer.index(shape.vector) + 1 :]
    reuse = [facts.trips[i] / factors.get(i, 1) for i in inside if not touch.stride(i)]
    panel = facts.trips[shape.inner] * shape.lanes * shape.vectors * facts.elem
    moved = any(touch.stride(i) for i in inside)
    return not moved and max(reuse, default=0) >= LEAST_REUSE and panel > machine.first_cache


def _packed(scheduled: Scheduled, nested: Nested, touch: Touch) -> Scheduled:
    nest = scheduled.nest(nested.name)
    loop = next(name for name in nest.loops if name.startswith(f"{nested.shape.vector}_t"))
    known = {n.name for n in scheduled.nests}
    try:
        packed = memory.cache_identity(scheduled, nested.name, touch.buf, loop, location="heap")
        for copy in packed.nests:
            if copy.name not in known:
                packed = tag(packed, copy.name, copy.loops[-1], "vectorize")
    except PlantError:
        # No constant box holds the panel, or what is read changes meanwhile: the panel stays where it is.
        return scheduled
    return packed
