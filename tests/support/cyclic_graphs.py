"""Random loop bodies as dependence graphs alone: operations of a machine, latencies, cycles over iterations."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction

from dspgen.sched.graph.dependence_graph import Graph
from dspgen.sched.machine.reservation_table import resource_bound
from dspgen.sched.machine.target_facts import Facts, Reservation
from dspgen.sched.modulo.modulo import recurrence_bound


@dataclass(frozen=True, slots=True)
class CyclicGraph:
    graph: Graph
    reservations: tuple[Reservation, ...]
    least: int  # the minimum initiation interval


def cyclic_graph(facts: Facts, seed: int) -> CyclicGraph:
    """A body of 8 to 40 operations in layers, crowded on few units; up to five cycles over iterations, whose bound is
    near that of the units, so that neither leaves the other much room."""
    rng = random.Random(seed)
    rows = [i for i in facts.target.instructions if i.compile and not i.branch and i.units]
    kinds = [rng.choice(rows) for _ in range(rng.randint(2, 6))]
    longer = [i for i in rows if i.busy > 1 or i.resources]
    kinds += [rng.choice(longer)] if longer and rng.random() < 0.5 else []
    size = rng.randint(8, 40)
    chosen = [rng.choice(kinds) for _ in range(size)]
    latencies = [max(i.latency, 1) for i in chosen]
    edges: dict[tuple[int, int, int], int] = {}
    width = rng.randint(2, 8)
    for node in range(width, size):
        for _ in range(rng.randint(0, 2)):
            source = rng.randrange(max(0, node - 2 * width), node)
            edges[(source, node, 0)] = latencies[source]
    reservations = tuple(facts.reservation(i) for i in chosen)
    units = resource_bound(reservations, facts)
    for _ in range(rng.randint(1, 5)):
        target = rng.randrange(size)
        reach = _longest_paths(size, edges, target)
        source = rng.choice([k for k, length in enumerate(reach) if length >= 0])
        length = reach[source] + latencies[source]
        distance = max(1, -(-length // max(1, round(units * rng.choice((1, 1, Fraction(3, 2)))))))
        edges[(source, target, distance)] = latencies[source]
    for _ in range(rng.randint(0, 3)):  # a write that must not land before an earlier read
        source, target = rng.randrange(size), rng.randrange(size)
        edges.setdefault((source, target, 1), 1 - latencies[target])
    successors: list[list[tuple[int, int, int]]] = [[] for _ in range(size)]
    predecessors: list[list[tuple[int, int, int]]] = [[] for _ in range(size)]
    for (source, target, distance), latency in edges.items():
        successors[source].append((target, latency, distance))
        predecessors[target].append((source, latency, distance))
    graph = Graph(size, successors, predecessors)
    bound = max(units, recurrence_bound(graph))
    return CyclicGraph(graph, reservations, max(1, -(-bound.numerator // bound.denominator)))


def _longest_paths(size: int, edges: dict[tuple[int, int, int], int], start: int) -> list[int]:
    """The longest way from `start` within an iteration, -1 where there is none; edges go forward."""
    reach = [-1] * size
    reach[start] = 0
    for node in range(start, size):
        for (source, target, distance), latency in edges.items():
            if source == node and distance == 0 and reach[node] >= 0:
                reach[target] = max(reach[target], reach[node] + latency)
    return reach
