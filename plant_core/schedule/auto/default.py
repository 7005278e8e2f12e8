"""The default schedule of a program that comes without one."""

from __future__ import annotations

from plant_core.analysis.dependence import memory_dependences
from plant_core.analysis.dependence_graph import Edge, Graph
from plant_core.analysis.early_exits import ends_early
from plant_core.analysis.statement_facts import facts_of
from plant_core.ir.c_semantics import is_float
from plant_core.ir.func import Func
from plant_core.ir.loop_tree import Tag
from plant_core.ir.scheduled import Nest, Scheduled, as_written
from plant_core.normalize.schedule_form import prepare
from plant_core.schedule.auto.build import build_nests
from plant_core.schedule.auto.choose import choose
from plant_core.schedule.auto.fusion import fuse
from plant_core.schedule.auto.panel_packing import pack
from plant_core.schedule.auto.tile_shapes import Machine
from plant_core.schedule.verbs import tag
from plant_core.support.location import IllegalSchedule
from plant_core.transform.distribution_alignment import NoStructure, structures


def default_schedule(
    func: Func, *, reassoc: bool = True, machine: Machine | None = None, panels: bool = True
) -> Scheduled:
    """A legal schedule that the model of `shapes` thinks fast, or the text's own order.

    `machine`: what the code will run on; where it has several threads, outermost parallel loops are tagged so.
    `reassoc`: reductions of floats may be reordered. Without `panels` no array is copied.
    The result's Func has local scalars renamed and expanded; it computes the same as `func`. Programs whose loops are
    bounded by data, or ended by them, keep the order of the text, with tags.
    """
    machine = machine or Machine()
    if func.effects or any(comp.defines for comp in func.comps) or ends_early(func):
        return _in_text_order(func, reassoc=reassoc, threads=machine.threads)
    wide = prepare(func, reassoc=reassoc)
    facts = facts_of(wide)
    if facts is None or not wide.comps:
        return _in_text_order(func, reassoc=reassoc, threads=machine.threads)
    graph = Graph(facts)
    edges = tuple(
        Edge(d.source, d.sink, d.relation, d.reduction and (reassoc or not is_float(facts[d.source].comp.target.dtype)))
        for d in memory_dependences(wide)
    )
    try:
        nodes = structures(graph, tuple(facts), edges)
    except NoStructure:
        return _in_text_order(func, reassoc=reassoc, threads=machine.threads)
    choice = fuse(wide, graph, edges, choose(graph, nodes, machine), machine)
    scheduled = Scheduled(wide, build_nests(graph, choice, machine), reassoc)
    return pack(scheduled, graph, choice, machine) if panels else scheduled


def _in_text_order(func: Func, *, reassoc: bool, threads: int) -> Scheduled:
    """The order of the text, its outermost parallel loops and its innermost independent ones tagged."""
    scheduled = as_written(func, reassoc=reassoc)
    for nest in scheduled.nests:
        if threads > 1:
            scheduled = _tagged(scheduled, nest, nest.loops, "parallel")
        scheduled = _tagged(scheduled, nest, nest.loops[-1:], "vectorize")
    return scheduled


def _tagged(scheduled: Scheduled, nest: Nest, loops: tuple[str, ...], mark: Tag) -> Scheduled:
    for loop in loops:
        if scheduled.nest(nest.name).tag(loop) is not None:
            return scheduled
        try:
            return tag(scheduled, nest.name, loop, mark)
        except IllegalSchedule:
            continue
    return scheduled
