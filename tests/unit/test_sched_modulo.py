"""Modulo schedules of random bodies, against the exact scheduler and against the rules that any schedule obeys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest

from dspgen.sched.graph.dependence_graph import Graph, all_edges
from dspgen.sched.loops.attempts import FewRegisters
from dspgen.sched.loops.loop_body import HEURISTICS
from dspgen.sched.loops.pipelining import Steps
from dspgen.sched.machine.modulo_schedule import ModuloSchedule
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.modulo.energetic_bound import no_room
from dspgen.sched.modulo.exact import exact_modulo_schedule
from dspgen.sched.modulo.modulo import GAVE_UP, modulo_schedule, modulo_schedule_cyclic
from dspgen.sched.modulo.slack import least_distances
from dspgen.target.load import load_target
from tests.support.cyclic_graphs import CyclicGraph, cyclic_graph

FACTS = Facts(load_target("ft_m7002"))


def check(body: CyclicGraph, found: ModuloSchedule) -> None:
    """Every dependence holds, and no unit or other resource is held twice in a row of the kernel."""
    interval = found.interval
    for source, target, latency, distance in all_edges(body.graph):
        assert found.cycles[target] + distance * interval >= found.cycles[source] + latency
    held: set[tuple[int, int]] = set()
    for op, reservation in enumerate(body.reservations):
        unit, at = found.table.unit_of[op], found.cycles[op]
        assert unit in reservation.alternatives
        spans = [(unit, 0, reservation.busy), *reservation.extras]
        cells = [((at + k) % interval, r) for r, first, n in spans for k in range(first, first + n)]
        assert len(set(cells)) == len(cells) and not held.intersection(cells)
        held.update(cells)


def least_found(body: CyclicGraph) -> int:
    for interval in count(body.least):
        for scheduler in HEURISTICS:
            found = scheduler(body.graph, body.reservations, FACTS, interval)
            if isinstance(found, ModuloSchedule):
                check(body, found)
                return interval
    raise AssertionError


def plainly(graph: Graph, interval: int) -> list[list[int]] | None:
    """`least_distances`, by all paths through one operation after the other."""
    none = -(1 << 20)
    reach = [[0 if i == j else none for j in range(graph.size)] for i in range(graph.size)]
    for source, target, latency, distance in all_edges(graph):
        reach[source][target] = max(reach[source][target], latency - distance * interval)
    for k in range(graph.size):
        for row in reach:
            if row[k] > none:
                row[:] = [max(a, row[k] + b) if b > none else a for a, b in zip(row, reach[k], strict=True)]
    return None if any(reach[k][k] > 0 for k in range(graph.size)) else reach


def test_distances_are_the_longest_paths() -> None:
    for seed in range(40):
        graph = cyclic_graph(FACTS, seed).graph
        for interval in (1, 3, 8, 20):
            found = least_distances(graph, interval)
            assert (None if found is None else found.tolist()) == plainly(graph, interval)


needs_solver = pytest.mark.needs_tool("ortools")


@needs_solver
@pytest.mark.parametrize("first", [0, 50])
def test_no_interval_is_missed_that_there_is(first: int) -> None:
    """The exact scheduler finds no shorter one for at least 95 of 100."""
    missed = 0
    for seed in range(first, first + 50):
        body = cyclic_graph(FACTS, seed)
        found = least_found(body)
        shorter = [
            exact_modulo_schedule(body.graph, body.reservations, FACTS, interval, effort=1.0)
            for interval in range(body.least, found)
        ]
        for schedule in shorter:
            if isinstance(schedule, ModuloSchedule):
                check(body, schedule)
        missed += any(verdict != "infeasible" for verdict in shorter)
    assert missed <= 2


@pytest.mark.parametrize("scheduler", HEURISTICS)
def test_each_scheduler_obeys_the_rules(scheduler: type) -> None:
    done = 0
    for seed in range(100, 160):
        body = cyclic_graph(FACTS, seed)
        found = scheduler(body.graph, body.reservations, FACTS, body.least)
        if isinstance(found, ModuloSchedule):
            check(body, found)
            done += 1
    assert done >= 35


@needs_solver
def test_below_the_bound_is_proven_infeasible() -> None:
    for seed in range(8):
        body = cyclic_graph(FACTS, seed)
        if body.least > 1:
            assert exact_modulo_schedule(body.graph, body.reservations, FACTS, body.least - 1) == "infeasible"


def test_no_interval_is_refuted_that_there_is() -> None:
    for seed in range(200, 240):
        body = cyclic_graph(FACTS, seed)
        assert not no_room(body.graph, body.reservations, least_found(body))


def on_two_units(size: int, edges: Sequence[tuple[int, int, int, int]], least: int) -> CyclicGraph:
    """Loads and stores, one like the other, and edges of (source, target, latency, distance)."""
    load = next(i for i in FACTS.target.instructions if i.compile and i.memory is not None and len(i.units) == 2)
    successors: list[list[tuple[int, int, int]]] = [[] for _ in range(size)]
    predecessors: list[list[tuple[int, int, int]]] = [[] for _ in range(size)]
    for source, target, latency, distance in edges:
        successors[source].append((target, latency, distance))
        predecessors[target].append((source, latency, distance))
    return CyclicGraph(Graph(size, successors, predecessors), (FACTS.reservation(load),) * size, least)


def test_what_goes_between_two_operations_takes_its_time() -> None:
    """Sixteen loads before each of two stores in every iteration, in this order: on two units they take 8 + 1 cycles,
    twice, though 34 operations would fit into 17."""
    first, second = 16, 33
    edges = [(k, first, 1, 0) for k in range(16)] + [(first, k, 1, 0) for k in range(17, 33)]
    edges += [(k, second, 1, 0) for k in range(17, 33)] + [(second, k, 1, 1) for k in range(16)]
    body = on_two_units(34, edges, 17)
    assert [no_room(body.graph, body.reservations, interval) for interval in (17, 18)] == [True, False]
    assert least_found(body) == 18


def test_what_may_go_anywhere_leaves_room_for_cycles_of_dependences() -> None:
    """Sums in memory: each store waits for two loads, and the next iteration's loads of sums for all stores. That
    leaves the sums 10 of 24 cycles to be loaded in; what is added to them has all 24."""
    edges = []
    for added, total, store in ((k, k + 1, k + 2) for k in range(0, 48, 3)):
        edges += [(added, store, 14, 0), (total, store, 14, 0)]
        edges += [(store, k, 1, 1) for k in range(1, 48, 3)]
    body = on_two_units(48, edges, 24)
    found = [find(body.graph, body.reservations, FACTS, 24) for find in (modulo_schedule, modulo_schedule_cyclic)]
    assert [isinstance(f, ModuloSchedule) for f in found] == [False, True]
    assert least_found(body) == 24


def test_far_intervals_come_soon_where_registers_stay_lacking() -> None:
    few, other = FewRegisters("18 registers of class ARS needed, 7 available"), FewRegisters("10 needed")
    lacking, steps = [few, GAVE_UP], Steps()
    assert [steps.after(80, lacking, close=True) for _ in range(4)] == [1, 1, 10, 0]
    steps = Steps()
    assert [steps.after(80, reasons, close=True) for reasons in (lacking, [other], lacking, lacking)] == [1] * 4
    steps = Steps()
    assert [steps.after(80, [GAVE_UP, GAVE_UP], close=k < 4) for k in range(6)] == [1] * 4 + [10] * 2
