"""A modulo schedule of a loop body: the interval, the cycle of each operation, and its reservation table."""

from __future__ import annotations

from dataclasses import dataclass

from dspgen.sched.machine.reservation_table import ReservationTable


@dataclass(slots=True)
class ModuloSchedule:
    """Cycle and unit of each operation of one iteration, from cycle 0; the next iteration starts `interval` later."""

    interval: int
    cycles: list[int]
    table: ReservationTable

    @property
    def stages(self) -> int:
        return max(self.cycles, default=0) // self.interval + 1
