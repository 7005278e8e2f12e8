"""A linear assembly program as it is written.

    Program   ::= name, inputs, declared names, outputs, statements
    Statement ::= label | instruction | return                 in the order of the text

    .global f / .input hi:lo, n / .gen_var a, b1:b0 / .add_var x, y / .output r / .no_mdep
    .name: .loop ... [c]BRANCH .name / .endloop / .size f, .-f

Each instruction sees the results of all that stand before it. A name is a variable with a register of its own, each
half of a pair `high:low` too. In another spelling a function starts with `@f`, `@ret` returns, and `LABEL: min, max`
bounds the trips of the loop at that label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dspgen.sim.text.statements import Line
from plant_core.support.location import Loc

Kind = Literal["input", "general", "address"]


@dataclass(frozen=True, slots=True)
class Declared:
    """A variable, and the directive that declares it; `other` is the half that it is paired with there, if any."""

    name: str
    kind: Kind
    loc: Loc


@dataclass(frozen=True, slots=True)
class Group:
    """One entry of a directive's list: a name, or the two of a pair, high half first."""

    names: tuple[str, ...]
    loc: Loc


@dataclass(frozen=True, slots=True)
class Statement:
    """`word` is the label's name; an instruction has its whole line."""

    kind: Literal["label", "instruction", "return"]
    loc: Loc
    word: str = ""
    line: Line | None = None


@dataclass(frozen=True, slots=True)
class Marked:
    """What `.loop` and `.endloop` enclose: statements from `start` to before `end`."""

    label: str
    loc: Loc
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Program:
    """`pairs` are the pairs that directives declare, `trips` the bounds (least, most) of the loop at a label.

    `apart`: memory reached through different variables never overlaps (`.no_mdep`).
    """

    file: str
    name: str
    loc: Loc
    inputs: tuple[Group, ...]
    declared: dict[str, Declared]
    pairs: tuple[Group, ...]
    outputs: tuple[Group, ...]
    statements: tuple[Statement, ...]
    trips: dict[str, tuple[int, int]]
    apart: bool = False
    loops: tuple[Marked, ...] = ()
