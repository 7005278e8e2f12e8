"""Limit the instructions of all candidates of a search: a measure of its time that no machine's speed changes."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True)
class CodeBudget:
    """A limit of instructions, in all candidates of a nest by all sets of rules, and how many were made so far."""

    most: float = math.inf
    made: int = 0
    last: int = 0  # of the last candidate

    def spend(self, instructions: int) -> None:
        """Count a candidate's instructions."""
        self.made += instructions
        self.last = instructions

    @property
    def spent(self) -> bool:
        """Tell whether the limit is passed."""
        return self.made > self.most

    @property
    def exhausted(self) -> bool:
        """Tell whether half as much again was made, which is left for statements that have lanes in no code yet."""
        return self.made > 1.5 * self.most
