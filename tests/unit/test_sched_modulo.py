"""Modulo schedules of random bodies, against the exact scheduler and against the rules that any schedule obeys."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import count

import pytest

from dspgen.sched.crowded import no_room
from dspgen.sched.ddg import Graph, all_edges
from dspgen.sched.exact_modulo import exact_modulo_schedule
from dspgen.sched.facts import Facts
from dspgen.sched.modulo import ModuloSchedule, modulo_schedule, modulo_schedule_late
from dspgen.sched.slack import slack_schedule
from dspgen.target.load import load_target
from tests.support.cyclic_graphs import CyclicGraph, cyclic_graph

FACTS = Facts(load_target("ft_m7002"))
SCHEDULERS = (modulo_schedule, modulo_schedule_late, slack_schedule)


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
        for scheduler in SCHEDULERS:
            found = scheduler(body.graph, body.reservations, FACTS, interval)
            if isinstance(found, ModuloSchedule):
                check(body, found)
                return interval
    raise AssertionError


needs_solver = pytest.mark.skipif(find_spec("ortools") is None, reason="OR-Tools is not installed")


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


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_each_scheduler_obeys_the_rules(scheduler: type) -> None:
    done = 0
    for seed in range(100, 160):
        body = cyclic_graph(FACTS, seed)
        found = scheduler(body.graph, body.reservations, FACTS, body.least)
        if isinstance(found, ModuloSchedule):
            check(body, found)
            done += 1
    assert done >= 45


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


def test_what_goes_between_two_operations_takes_its_time() -> None:
    """Sixteen loads before each of two stores in every iteration, in this order: on two units they take 8 + 1 cycles,
    twice, though 34 operations would fit into 17."""
    load = next(i for i in FACTS.target.instructions if i.compile and i.memory is not None and len(i.units) == 2)
    size, reservation = 34, FACTS.reservation(load)
    successors: list[list[tuple[int, int, int]]] = [[] for _ in range(size)]
    predecessors: list[list[tuple[int, int, int]]] = [[] for _ in range(size)]
    first, second = 16, 33
    edges = [(k, first, 0) for k in range(16)] + [(first, k, 0) for k in range(17, 33)]
    edges += [(k, second, 0) for k in range(17, 33)] + [(second, k, 1) for k in range(16)]
    for source, target, distance in edges:
        successors[source].append((target, 1, distance))
        predecessors[target].append((source, 1, distance))
    body = CyclicGraph(Graph(size, successors, predecessors), (reservation,) * size, 17)
    assert [no_room(body.graph, body.reservations, interval) for interval in (17, 18)] == [True, False]
    assert least_found(body) == 18
