"""Slack modulo scheduling (R. A. Huff, "Lifetime-Sensitive Modulo Scheduling", PLDI 1993): the operation with the
least room is placed next, near its readers or its sources; what stands in its way is taken out again.

It is for the bodies that defeat `modulo_schedule`: long recurrences whose operations also crowd a unit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dspgen.sched.graph.dependence_graph import Graph
from dspgen.sched.machine.modulo_schedule import ModuloSchedule
from dspgen.sched.machine.reservation_table import Closing, ReservationTable, loop_table
from dspgen.sched.machine.target_facts import Facts, Reservation
from dspgen.sched.modulo.modulo import GAVE_UP, LONGER, cleared

_BUDGET = 3  # operations forced into their places, per operation of the body, before an interval is given up
_LARGE = 128  # operations; of larger bodies no more are forced, since each takes longer there
_FAR = 1 << 20
_NEVER = 1 << 62


def slack_schedule(
    graph: Graph,
    reservations: Sequence[Reservation],
    facts: Facts,
    interval: int,
    *,
    times: int = 1,
    closing: Closing = (),
) -> ModuloSchedule | str:
    """A schedule at this initiation interval, or why there is none. It gives up `times` as late. What is `closing` each
    iteration keeps its place."""
    distance = least_distances(graph, interval)
    if distance is None:
        return LONGER
    work = _Slack(distance, reservations, interval, loop_table(facts, interval, closing))
    budget = times * (_BUDGET * min(graph.size, _LARGE) + 64)
    while not work.placed.all():
        if work.forced > budget:
            return GAVE_UP
        if not work.step():
            return "the units of one operation are always taken"
    first = (int(work.cycle.min()) if graph.size else 0) // interval * interval
    cycles = [work.table.cycle_of[k] - first for k in range(graph.size)]
    for op, cycle in enumerate(cycles):
        work.table.cycle_of[op] = cycle
    return ModuloSchedule(interval, cycles, work.table)


def least_distances(graph: Graph, interval: int) -> np.ndarray | None:
    """How many cycles after each operation (rows) each other must issue at least; None where one must follow itself."""
    reach = _within_one(graph)
    sums = np.empty_like(reach)
    for source, targets in enumerate(graph.successors):
        later = [(t, latency - d * interval) for t, latency, d in targets if not _within(source, t, d)]
        if not later:
            continue
        # No path leaves one operation twice.
        onward = (reach[[t for t, _ in later]] + np.array([[w] for _, w in later], dtype=np.int32)).max(axis=0)
        if onward[source] > 0:
            return None
        np.add(reach[:, source : source + 1], onward, out=sums)
        np.maximum(reach, sums, out=reach)
    reach[reach < -_FAR // 2] = -_FAR
    return reach


def _within(source: int, target: int, distance: int) -> bool:
    """Whether a dependence is one from an operation to a later one of its iteration."""
    return distance == 0 and source < target


def _within_one(graph: Graph) -> np.ndarray:
    """The distances by dependences within one iteration."""
    reach = np.full((graph.size, graph.size), -_FAR, dtype=np.int32)
    np.fill_diagonal(reach, 0)
    for source in reversed(range(graph.size)):
        row = reach[source]
        for target, latency, distance in graph.successors[source]:
            if _within(source, target, distance):
                np.maximum(row, reach[target] + np.int32(latency), out=row)
    return reach


class _Slack:
    """A partial schedule: `early` and `late` are where each operation may issue, given those that are placed."""

    def __init__(
        self, reach: np.ndarray, reservations: Sequence[Reservation], interval: int, table: ReservationTable
    ) -> None:
        self.reach, self.reservations, self.interval = reach, reservations, interval
        self.back = np.ascontiguousarray(reach.T)
        self.table = table
        size = len(reservations)
        self.placed = np.zeros(size, dtype=bool)
        self.cycle = np.zeros(size, dtype=np.int32)
        self.first = reach.max(axis=0, initial=0)
        height = reach.max(axis=1, initial=0)
        self.last = int((self.first + height).max(initial=0)) + interval - 1 - height
        # Where each operation may issue, given those that are placed, but for what one bound that was taken out again.
        self.early, self.late = self.first.copy(), self.last.copy()
        self.freed: list[int] = []
        self.last_tried = np.full(size, -1, dtype=np.int32)
        self.forced = 0
        self.readers = (reach > 0).sum(axis=1)
        self.worth = self.readers.tolist()
        self.sources = (reach > 0).sum(axis=0)
        use: dict[int, int] = {}
        for reservation in reservations:
            for unit in reservation.alternatives if len(reservation.alternatives) == 1 else ():
                use[unit] = use.get(unit, 0) + reservation.busy
        crowded = {unit for unit, cycles in use.items() if 10 * cycles >= 9 * interval}
        room = [1 if crowded.intersection(r.alternatives) else 2 for r in reservations]
        self.weight = np.array(room, dtype=np.int64) * _FAR

    def step(self) -> bool:
        """Place one more operation; False where its units can't be freed."""
        early, late = self._bounds()
        # The least room, and of those with as much the one that is late first.
        room = (late - early) * self.weight + late
        room[self.placed] = _NEVER
        op = int(room.argmin())
        at = self._free_cycle(op, int(early[op]), int(late[op]))
        if at is None:
            self.forced += 1
            at = self._forced(op, int(early[op]))
            if at is None:
                return False
        self.placed[op] = True
        self.cycle[op] = self.last_tried[op] = at
        np.maximum(self.early, self.reach[op] + at, out=self.early)
        np.minimum(self.late, at - self.back[op], out=self.late)
        return True

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        if self.freed:
            freed, self.freed = np.array(self.freed), []
            at = self.cycle[freed, None]
            placed = np.flatnonzero(self.placed)
            cycles = self.cycle[placed]
            bound = np.flatnonzero((self.early == self.reach[freed] + at).any(axis=0))
            sums = self.back[bound[:, None], placed] + cycles
            self.early[bound] = np.maximum(self.first[bound], sums.max(axis=1, initial=-4 * _FAR))
            bound = np.flatnonzero((self.late == at - self.back[freed]).any(axis=0))
            sums = cycles - self.reach[bound[:, None], placed]
            self.late[bound] = np.minimum(self.last[bound], sums.min(axis=1, initial=4 * _FAR))
        return self.early, self.late

    def _free_cycle(self, op: int, early: int, late: int) -> int | None:
        """The first cycle with room: from the early end where it reads more of what is placed than it is read by."""
        end = min(late, early + self.interval - 1)
        order = range(early, end + 1)
        if self.sources[op] < self.readers[op]:
            order = range(end, early - 1, -1)
        for at in order:
            if self.table.place(op, at, self.reservations[op]):
                return at
        return None

    def _forced(self, op: int, early: int) -> int | None:
        """Place it all the same: what takes its units, or no longer agrees with it, is to be placed anew."""
        at = early if self.last_tried[op] < early else int(self.last_tried[op]) + 1
        at, victims = cleared(self.table, at, self.reservations[op], self.worth)
        for victim in victims:
            self._remove(victim)
        if not self.table.place(op, at, self.reservations[op]):
            return None
        wrong = self.placed & ((self.cycle < at + self.reach[op]) | (self.cycle + self.back[op] > at))
        wrong[op] = False
        for other in np.flatnonzero(wrong):
            self._remove(int(other))
        return at

    def _remove(self, op: int) -> None:
        self.table.remove(op)
        self.placed[op] = False
        self.freed.append(op)
