"""The exact modulo scheduler: whether a loop body has a schedule at an initiation interval, decided by CP-SAT.

Each operation's cycle is written as `stage * interval + row` (A. E. Eichenberger and E. S. Davidson, "Efficient
Formulation for Optimal Modulo Schedulers", PLDI 1997); an interval is refused only with a proof. Optional: it needs
the `exact` extra, and serves `--sched exact` and the tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from dspgen.sched.graph.dependence_graph import Graph, all_edges
from dspgen.sched.machine.group_limits import Limits
from dspgen.sched.machine.modulo_schedule import ModuloSchedule
from dspgen.sched.machine.reservation_table import ReservationTable, resource_bound
from dspgen.sched.machine.solver_process import apart
from dspgen.sched.machine.target_facts import Facts, Reservation
from dspgen.sched.modulo.modulo import recurrence_bound

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntVar, LinearExpr

EFFORT = 4.0  # CP-SAT's deterministic time for one interval, about a second each

Verdict = Literal["infeasible", "unknown"]
Solution = tuple[list[int], dict[int, int]] | Verdict  # cycles, and units of operations that hold one for long


@dataclass(frozen=True, slots=True)
class Life:
    """Times between which a register is occupied: from the least to the greatest of (operation, cycles after it)."""

    times: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class RegisterLimit:
    """Registers of one class: at most `room` of `lives` may be occupied in any row of the kernel."""

    room: int
    lives: tuple[Life, ...]


@dataclass(slots=True)
class _Model:
    """`rows[op][r]` is true where the operation issues in row r; `cycles[op]` is its cycle."""

    model: CpModel
    interval: int
    rows: list[list[IntVar]] = field(default_factory=list)
    units: dict[int, list[tuple[IntVar, int]]] = field(default_factory=dict)  # of operations that hold one for long
    stages: list[IntVar] = field(default_factory=list)
    cycles: list[LinearExpr] = field(default_factory=list)


def exact_modulo_schedule(
    graph: Graph,
    reservations: Sequence[Reservation],
    facts: Facts,
    interval: int,
    *,
    limits: Iterable[RegisterLimit] = (),
    effort: float = EFFORT,
    known: dict[object, Solution] | None = None,
) -> ModuloSchedule | Verdict:
    """A schedule at this interval within the register limits; "infeasible" is proven, "unknown" where effort ran out.

    `known` keeps what was found, for when the same is asked again. Raises ImportError without the `exact` extra.
    """
    if max(resource_bound(reservations, facts), recurrence_bound(graph)) > interval:
        return "infeasible"
    if any(r.busy > interval or any(count > interval for _, _, count in r.extras) for r in reservations):
        return "infeasible"
    if any(
        source == target and latency > distance * interval for source, target, latency, distance in all_edges(graph)
    ):
        return "infeasible"
    asked = tuple(reservations), tuple(limits), effort, interval
    key = (*asked, tuple(all_edges(graph)))
    known = {} if known is None else known
    if key not in known:
        machine = tuple(reservations), facts.issue, facts.limits
        known[key] = apart(solved, graph, *machine, interval, tuple(limits), effort)
    found = known[key]
    return found if isinstance(found, str) else _placed(list(found[0]), found[1], reservations, facts, interval)


def solved(
    graph: Graph,
    reservations: Sequence[Reservation],
    issue: int,
    packets: Limits,
    interval: int,
    limits: Sequence[RegisterLimit],
    effort: float,
) -> Solution:
    """The cycles, and the units of operations that hold one for long; in this process."""
    from ortools.sat.python import cp_model

    work = _Model(cp_model.CpModel(), interval)
    last = _horizon(graph, interval)
    for op in range(graph.size):
        rows = [work.model.new_bool_var(f"row{op}.{r}") for r in range(interval)]
        work.model.add_exactly_one(rows)
        stage = work.model.new_int_var(0, last // interval, f"stage{op}")
        work.rows.append(rows)
        work.stages.append(stage)
        work.cycles.append(interval * stage + sum(r * rows[r] for r in range(1, interval)))
    for source, target, latency, distance in all_edges(graph):
        if source != target:
            work.model.add(work.cycles[target] + distance * interval >= work.cycles[source] + latency)
    _resources(work, reservations, issue, packets)
    for limit in limits:
        _registers(work, limit, last)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = effort
    solver.parameters.random_seed = 0
    status = solver.solve(work.model)
    if status == cp_model.INFEASIBLE:
        return "infeasible"
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return "unknown"
    cycles = [solver.value(c) for c in work.cycles]
    units = {
        op: next(unit for chosen, unit in choice if solver.boolean_value(chosen)) for op, choice in work.units.items()
    }
    return _compact(graph, cycles, interval), units


def _compact(graph: Graph, cycles: Sequence[int], interval: int) -> list[int]:
    """The earliest cycles from 0 on with every operation in the same row: the fewest stages for these rows."""
    found = [c % interval for c in cycles]
    waiting = list(range(graph.size))
    while waiting:
        source = waiting.pop()
        for target, latency, distance in graph.successors[source]:
            late = found[source] + latency - distance * interval - found[target]
            if target != source and late > 0:
                found[target] += -(-late // interval) * interval
                waiting.append(target)
    return found


def _horizon(graph: Graph, interval: int) -> int:
    """A last cycle that loses no schedule: where no operation issues for longer than any latency and one interval
    more, all later ones may move up by an interval."""
    longest = max([1, *(latency for _, _, latency, _ in all_edges(graph))])
    return (longest + interval) * (graph.size + 1)


def _resources(work: _Model, reservations: Sequence[Reservation], issue: int, packets: Limits) -> None:
    """Issue width, resources beside units, and units: those that no instruction tells apart are counted together."""
    model, interval = work.model, work.interval
    if len(reservations) > issue:
        for row in range(interval):
            model.add(sum(rows[row] for rows in work.rows) <= issue)
    held: dict[int, list[list[IntVar]]] = {}
    for op, reservation in enumerate(reservations):
        for resource, first, count in reservation.extras:
            table = held.setdefault(resource, [[] for _ in range(interval)])
            for row in range(interval):
                for k in range(first, first + count):
                    table[(row + k) % interval].append(work.rows[op][row])
    for table in held.values():
        for cell in table:
            model.add(sum(cell) <= 1)
    groups = _unit_groups(reservations, packets)
    usage: list[list[list[IntVar]]] = [[[] for _ in range(interval)] for _ in groups]
    starts: list[list[list[IntVar]]] = [[[] for _ in range(interval)] for _ in packets.groups]
    for op, reservation in enumerate(reservations):
        mine = [g for g, units in enumerate(groups) if units[0] in reservation.alternatives]
        for row in range(interval):
            choice = [work.rows[op][row]]
            if len(mine) > 1:
                choice = [model.new_bool_var(f"unit{op}.{row}.{g}") for g in mine]
                model.add(sum(choice) == work.rows[op][row])
            for g, chosen in zip(mine, choice, strict=True):
                if reservation.busy > 1:
                    work.units.setdefault(op, []).append((chosen, groups[g][0]))
                for k in range(reservation.busy):
                    usage[g][(row + k) % interval].append(chosen)
                for cells, (limited, _) in zip(starts, packets.groups, strict=True):
                    cells[row] += [chosen] * packets.weight(groups[g][0], limited)
    for cells, (_, most) in zip(starts, packets.groups, strict=True):
        for cell in cells:
            model.add(sum(cell) <= most)
    for g, units in enumerate(groups):
        for cell in usage[g]:
            if len(cell) > len(units):
                model.add(sum(cell) <= len(units))


def _unit_groups(reservations: Sequence[Reservation], packets: Limits) -> list[tuple[int, ...]]:
    """Units that serve the same operations, each for one cycle, and count for the same limits; a unit that is held
    longer stands alone."""
    users: dict[int, list[int]] = {}
    alone: set[int] = set()
    for op, reservation in enumerate(reservations):
        for unit in reservation.alternatives:
            users.setdefault(unit, []).append(op)
            if reservation.busy > 1:
                alone.add(unit)
    groups: dict[tuple[object, ...], list[int]] = {}
    for unit, ops in sorted(users.items()):
        limited = tuple(packets.weight(unit, units) for units, _ in packets.groups)
        groups.setdefault((*ops, unit if unit in alone else None, limited), []).append(unit)
    return [tuple(units) for units in groups.values()]


def _registers(work: _Model, limit: RegisterLimit, last: int) -> None:
    """In each row, the values that are alive: of one life s to e, all k with s <= row + k * interval <= e."""
    model, interval = work.model, work.interval
    alive: list[list[LinearExpr | int]] = [[] for _ in range(interval)]
    for number, life in enumerate(limit.lives):
        margin = max(abs(after) for _, after in life.times) + interval
        ends = []
        for end in ("from", "to"):
            stage = model.new_int_var(-(margin // interval) - 1, (last + margin) // interval + 1, f"{end}{number}")
            rows = [model.new_bool_var(f"{end}{number}.{r}") for r in range(interval)]
            model.add_exactly_one(rows)
            at = interval * stage + sum(r * rows[r] for r in range(1, interval))
            for op, after in life.times:
                if end == "from":
                    model.add(at <= work.cycles[op] + after)
                else:
                    model.add(at >= work.cycles[op] + after)
            ends.append((stage, rows))
        (first, first_rows), (final, final_rows) = ends
        for row in range(interval):
            late = sum(first_rows[row + 1 :])
            early = sum(final_rows[:row])
            alive[row].append(final - early - first - late + 1)
    for row in range(interval):
        if alive[row]:
            model.add(sum(alive[row]) <= limit.room)


def _placed(
    cycles: list[int], units: dict[int, int], reservations: Sequence[Reservation], facts: Facts, interval: int
) -> ModuloSchedule | Verdict:
    """The table of a solution; operations that hold a unit for one cycle find theirs by matching."""
    table = ReservationTable(facts, interval)
    for op, unit in units.items():
        table.take(op, cycles[op], unit, reservations[op])
    for op, cycle in enumerate(cycles):
        if op not in units and not table.place(op, cycle, reservations[op]):
            return "unknown"
    return ModuloSchedule(interval, cycles, table)
