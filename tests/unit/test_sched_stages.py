"""Whole intervals between the operations of a loop's schedule: values wait less, all else holds."""

from __future__ import annotations

import random

import pytest

from dspgen.sched.graph.dependence_graph import Graph, all_edges
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.modulo.modulo import modulo_schedule
from dspgen.sched.modulo.stage_scheduling import with_stages_moved
from dspgen.target.load import load_target
from tests.support.cyclic_graphs import CyclicGraph, cyclic_graph
from tests.unit.test_sched_modulo import check

FACTS = Facts(load_target("ft_m7002"))
Values = list[tuple[int, int, list[tuple[int, int]]]]


def _waits(cycles: list[int], values: Values) -> int:
    return sum(max(cycles[r] + late for r, late in readers) - cycles[w] for w, _, readers in values)


@pytest.mark.parametrize("seed", range(60))
def test_values_wait_no_longer_and_all_else_holds(seed: int) -> None:
    body, rng = cyclic_graph(FACTS, seed), random.Random(seed)
    interval = body.least + rng.randint(0, 4)
    found = modulo_schedule(body.graph, body.reservations, FACTS, interval)
    if isinstance(found, str):
        return
    read: dict[int, list[tuple[int, int]]] = {}
    for source, target, latency, distance in all_edges(body.graph):
        if latency > 0 and target != source:
            read.setdefault(source, []).append((target, distance * interval))
    values: Values = [(source, 1, readers) for source, readers in read.items()]
    moved = with_stages_moved(body.graph, body.reservations, found, values, FACTS)
    if moved is not None:
        check(body, moved)
        assert min(moved.cycles) in range(interval)
        assert [c % interval for c in moved.cycles] == [c % interval for c in found.cycles]
        assert _waits(moved.cycles, values) < _waits(found.cycles, values)


def test_chains_that_share_what_they_read_start_one_after_the_other() -> None:
    """Chain k reads load k + n with its n-th link: so as in a convolution of several rows at once."""
    rows = {i.id: i for i in FACTS.target.instructions}
    chains, links, interval = 3, 8, 8
    loads = chains + links - 1
    reservations = [FACTS.reservation(rows["VLDW"])] * loads
    reservations += [FACTS.reservation(rows["VFMULAS32"])] * (chains * links)
    edges = []
    for chain in range(chains):
        for link in range(links):
            op = loads + chain * links + link
            edges.append((chain + link, op, 8))
            edges += [(op - 1, op, 6)] if link else []
    size = len(reservations)
    successors: list[list[tuple[int, int, int]]] = [[] for _ in range(size)]
    predecessors: list[list[tuple[int, int, int]]] = [[] for _ in range(size)]
    values: Values = [(op, 1, []) for op in range(size)]
    for source, target, latency in edges:
        successors[source].append((target, latency, 0))
        predecessors[target].append((source, latency, 0))
        values[source][2].append((target, 0))
    values = [v for v in values if v[2]]
    body = CyclicGraph(Graph(size, successors, predecessors), tuple(reservations), interval)
    found = modulo_schedule(body.graph, body.reservations, FACTS, interval)
    assert not isinstance(found, str)
    moved = with_stages_moved(body.graph, body.reservations, found, values, FACTS)
    assert moved is not None
    check(body, moved)
    least = 8 * loads + 6 * chains * (links - 1)
    assert _waits(moved.cycles, values) < 1.5 * least < _waits(found.cycles, values)
