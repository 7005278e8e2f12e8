"""Stage scheduling (A. E. Eichenberger, E. S. Davidson, "Stage scheduling", MICRO 1995): whole intervals between the
operations of a loop's schedule, so that values wait as little as possible.

Operations keep their row, the cycle modulo the interval, and thus their units: only dependences bind. Chains of
operations that hang together are moved as they are, so that the readers of one value in several chains come together.

Before: three chains start side by side; a value that each reads at another link waits from the first to the last.
After:  each chain starts later than the one before, just when the values are there that both read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dspgen.sched.graph.dependence_graph import Graph, all_edges
from dspgen.sched.machine.modulo_schedule import ModuloSchedule
from dspgen.sched.machine.reservation_table import table_like
from dspgen.sched.machine.target_facts import Facts, Reservation
from plant_core.support.milp import LinearProgram

Lifetime = tuple[int, int, Sequence[tuple[int, int]]]

_LENGTH = 0.01  # what an interval more in the length of an iteration costs, in registers
_ROUNDINGS = 4


def with_stages_moved(
    graph: Graph,
    reservations: Sequence[Reservation],
    schedule: ModuloSchedule,
    values: Sequence[Lifetime],
    facts: Facts,
) -> ModuloSchedule | None:
    """The schedule with operations moved by whole intervals so that values wait less; None where they can't. `values`
    as in `shorten_lifetimes`."""
    stages = _least_waits(graph, schedule, values)
    if stages is None:
        return None
    interval = schedule.interval
    rows = [c % interval for c in schedule.cycles]
    best, least = None, _waits(schedule.cycles, values, interval)
    for shift in range(_ROUNDINGS):
        # Distances between stages are whole numbers, so that stages keep them when all are rounded alike.
        whole = [math.floor(s + shift / _ROUNDINGS + 1e-6) for s in stages]
        first = min(whole, default=0)
        cycles = [row + interval * (s - first) for row, s in zip(rows, whole, strict=True)]
        if (waits := _waits(cycles, values, interval)) < least:
            best, least = cycles, waits
    if best is None:
        return None
    table = table_like(schedule.table, facts, interval)
    for op, cycle in enumerate(best):
        table.take(op, cycle, schedule.table.unit_of[op], reservations[op])
    return ModuloSchedule(interval, best, table)


def _least_waits(graph: Graph, schedule: ModuloSchedule, values: Sequence[Lifetime]) -> list[float] | None:
    """Stages in which values wait least, by linear programming, before they are made whole; None without a solver."""
    interval, size = schedule.interval, graph.size
    rows = [c % interval for c in schedule.cycles]
    read = [(writer, readers) for writer, _, readers in values if readers]
    # Stages of operations, ends of values and the last stage, all in intervals.
    cost = [0.0] * size + [1.0] * len(read) + [_LENGTH]
    for writer, _ in read:
        cost[writer] -= 1.0
    end = size + len(read)
    program = LinearProgram()
    for each in cost:
        program.variable(each, float(2 * (schedule.stages + size)))

    def apart(later: int, sooner: int, by: float) -> None:
        program.row({later: 1.0, sooner: -1.0}, by)

    for source, target, latency, distance in all_edges(graph):
        if source != target:
            apart(target, source, -(-(rows[source] - rows[target] + latency) // interval) - distance)
    for index, (_, readers) in enumerate(read):
        for reader, late in readers:
            apart(size + index, reader, (rows[reader] + late) / interval)
    for op in range(size):
        apart(end, op, 0.0)
    solution = program.solve()
    return solution.values[:size] if solution is not None and solution.proven else None


def _waits(cycles: Sequence[int], values: Sequence[Lifetime], interval: int) -> float:
    waits = sum(max(cycles[r] + late for r, late in readers) - cycles[w] for w, _, readers in values if readers)
    return waits + _LENGTH * max(cycles, default=0)
