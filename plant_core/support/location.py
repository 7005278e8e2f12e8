"""Source places, and the errors that carry them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Loc:
    """A place in the user's file; line and column count from 1."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class PlantError(Exception):
    """A program or a schedule that `plant_core` can't take, with its place and remedy."""

    def __init__(self, message: str, *, loc: Loc | None = None, code: str = "DG200", remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.loc = loc
        self.code = code
        self.remedy = remedy


class IllegalSchedule(PlantError):
    """A schedule that reverses a dependence; the message names the pair of instances."""
