"""A limit on the search for loop schedules, counted in operations placed: the same input always gets as far."""

from __future__ import annotations

from dataclasses import dataclass

from dspgen.errors import Problem, TooHard

_PATIENCE = 16  # intervals tried beyond a loop's bound
_LESS_PATIENCE = 2
_PLENTY = 40_000  # operations, after which loops get less patience


@dataclass(slots=True)
class Budget:
    """`spent` operations so far, in all attempts at all loops; with `most`, there is no code beyond that. The searches
    for a schedule at one interval give up `times` as late."""

    most: int | None = None
    spent: int = 0
    times: int = 1

    @property
    def patience(self) -> int:
        """How many intervals may be tried for a loop."""
        return _PATIENCE if self.spent < _PLENTY else _LESS_PATIENCE

    def spend(self, operations: int) -> None:
        """Raises TooHard beyond `most`."""
        self.spent += operations
        if self.most is not None and self.spent > self.most:
            raise TooHard(Problem("DG308", f"the plan's loops need over {self.most} operations placed"))
