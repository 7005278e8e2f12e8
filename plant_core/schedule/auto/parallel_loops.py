"""Which loops run in parallel: the outermost that carries nothing, where the work is worth its start and traffic."""

from __future__ import annotations

from math import prod

from plant_core.analysis.dependence_graph import Graph
from plant_core.analysis.statement_facts import Facts
from plant_core.schedule.auto.choose import Around, Choice, Nested, Row
from plant_core.schedule.auto.tile_shapes import Machine

SMALLEST_REGION = 60_000.0
"""Cycles of work that make a parallel region worth its start."""
TRANSFER = 20.0
"""Cycles for a cache line that another core has written."""


def nests_in(choice: Choice) -> tuple[Nested, ...]:
    match choice:
        case Nested():
            return (choice,)
        case Around(body=body):
            return nests_in(body)
        case Row(children=children):
            return tuple(nest for child in children for nest in nests_in(child))


def parallel_loop(graph: Graph, nested: Nested) -> str | None:
    """The outermost loop of a nest that carries no dependence and has work enough in each region."""
    facts, shape = graph.facts[nested.name], nested.shape
    left = list(nested.single.edges)
    entries = _entries(facts, nested)
    for loop in (*shape.outer, *((shape.inner,) if shape.inner is not None else ())):
        free = loop != nested.entered and all(graph.aligned(e, loop, loop) for e in left)
        if free and facts.points * shape.cost / entries >= SMALLEST_REGION:
            return str(loop)
        left = [kept for e in left if (kept := graph.inside(e, loop, loop)) is not None]
        entries *= max(1, facts.trips[loop])
    return None


def worthwhile(graph: Graph, around: Around, outside: dict[str, int]) -> bool:
    """Whether one run of a shared loop has work enough; `outside` has how many loops are around it, for each name."""
    work = 0.0
    for nest in nests_in(around.body):
        facts = graph.facts[nest.name]
        loops = [i for i in facts.iters if i not in nest.single.loops and i != around.shared.iterator(nest.name)]
        entries = prod(max(1, facts.trips[i]) for i in loops[: outside[nest.name]])
        work += facts.points * nest.shape.cost / entries
    return work >= SMALLEST_REGION


def _entries(facts: Facts, nested: Nested) -> float:
    return float(prod(max(1, facts.trips[i]) for i in facts.iters if i not in nested.single.loops))


def pays(graph: Graph, around: Around, machine: Machine) -> bool:
    """Whether parallel nests inside a sequential loop gain more than it costs to bring what they have written back to
    the one core that runs the other nests, in every iteration."""
    inside = _covered(around.body)
    shared = [n for n, covered in inside if covered or parallel_loop(graph, n) is not None]
    alone = [n for n, covered in inside if not covered and parallel_loop(graph, n) is None]
    gained = lost = 0.0
    for nest in shared:
        facts = graph.facts[nest.name]
        gained += facts.points * nest.shape.cost / _entries(facts, nest) * (1 - 1 / machine.threads)
        for touch in facts.touches:
            if touch.written and any(t.buf == touch.buf for n in alone for t in graph.facts[n.name].touches):
                moved = min(_reach(graph.facts[nest.name], nest, touch.strides), *_reaches(graph, alone, touch.buf))
                lost += moved * (1 - 1 / machine.threads) / machine.line * TRANSFER
    return gained >= lost


def _covered(choice: Choice) -> list[tuple[Nested, bool]]:
    """The nests, each with whether it lies in a shared loop that carries nothing."""
    match choice:
        case Nested():
            return [(choice, False)]
        case Around(shared=shared, body=body):
            return [(nest, covered or shared.parallel) for nest, covered in _covered(body)]
        case Row(children=children):
            return [pair for child in children for pair in _covered(child)]


def _reaches(graph: Graph, nests: list[Nested], buf: str) -> list[float]:
    found = [(graph.facts[n.name], n, t) for n in nests for t in graph.facts[n.name].touches if t.buf == buf]
    return [max(_reach(facts, nest, touch.strides) for facts, nest, touch in found)]


def _reach(facts: Facts, nested: Nested, strides: dict[str, int]) -> float:
    """Bytes that an access comes by in one run of the nest."""
    return facts.elem * float(prod(max(1, facts.trips[i]) for i in nested.single.loops if strides.get(i)))
