"""What the user is told when something is wrong: `file:line:col: error[DGnnn]: what`, the line, a caret, a remedy.

Numbers: DG0xx front end, DG1xx ISA files, DG2xx schedules, DG3xx no code for it, DG4xx simulation, DG5xx usage.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from plant_core.support.location import Loc, PlantError

Severity = Literal["error", "warning"]
_WIDTH, _CUT = 110, "..."  # of a source line, what is shown at most; and what stands for the rest


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with the user's input, or looks wrong."""

    code: str
    message: str
    loc: Loc | None = None
    remedy: str = ""
    severity: Severity = "error"

    def render(self) -> str:
        where = f"{self.loc}: " if self.loc else ""
        message = "\n".join(_shown(line) for line in self.message.split("\n"))
        lines = [f"{where}{self.severity}[{self.code}]: {message}"]
        if self.loc and (text := _source_line(self.loc)) is not None:
            text, column = _clipped(text, self.loc.column)
            lines += [f"  {text}", "  " + _caret_indent(text, column) + "^"]
        if self.remedy:
            lines.append(f"help: {self.remedy}")
        return "\n".join(lines)


class DspgenError(Exception):
    """The user's input is at fault (exit status 2). Holds at least one Problem."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems[0].message)
        self.problems = problems

    def __reduce__(self) -> tuple[object, ...]:
        """As it is, whatever it was made of: errors go from one process to another."""
        return Exception.__new__, (type(self), *self.args), self.__dict__

    def render(self) -> str:
        return "\n".join(p.render() for p in self.problems)


def problems_of(error: DspgenError | PlantError) -> tuple[Problem, ...]:
    """What is wrong, told in one way wherever it was found."""
    if isinstance(error, DspgenError):
        return error.problems
    return (Problem(error.code, error.message, error.loc, error.remedy),)


class SourceError(DspgenError):
    """The C, assembly or linear assembly text can't be taken."""


class IsaError(DspgenError):
    """The ISA file is wrong."""


class OutOfBounds(DspgenError):
    """Generated code accesses memory outside of its arrays, so that it is not verified (exit status 1)."""


class NoSchedule(DspgenError):
    """The machine can't run this: a missing operation, too few registers, too little memory."""


class TooHard(NoSchedule):
    """A longer search for the schedules of loops than a candidate among others may take."""


class TooLarge(NoSchedule):
    """More code than a candidate among others may make; `times` as much, or more."""

    def __init__(self, problem: Problem, times: float = 1.0) -> None:
        super().__init__(problem)
        self.times = times


def _source_line(loc: Loc) -> str | None:
    try:
        lines = Path(loc.file).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return _shown(lines[loc.line - 1]) if 1 <= loc.line <= len(lines) else None


def _shown(text: str) -> str:
    """Without what would move a terminal's cursor, or worse."""
    return "".join(c if c == "\t" or unicodedata.category(c)[0] != "C" else "\ufffd" for c in text)


def _clipped(text: str, column: int) -> tuple[str, int]:
    """What a long line has round a column, and the column in that."""
    first = max(min(column - 1 - _WIDTH // 2, len(text) - _WIDTH), 0)
    if len(text) <= _WIDTH + 2 * len(_CUT):
        return text, column
    before, after = _CUT * (first > 0), _CUT * (first + _WIDTH < len(text))
    return before + text[first : first + _WIDTH] + after, column - first + len(before)


def _caret_indent(text: str, column: int) -> str:
    return "".join("\t" if c == "\t" else " " for c in text[: max(column - 1, 0)])
