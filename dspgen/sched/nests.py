"""Loops round one innermost loop, whose runs may overlap."""

from __future__ import annotations

from dataclasses import dataclass

from dspgen.asmir.ir import Instr, Loop
from dspgen.sched.unroll import instructions, is_innermost


@dataclass(slots=True)
class Nest:
    """The body of a loop: straight code, one innermost loop, straight code."""

    before: list[Instr]
    inner: Loop
    after: list[Instr]


def nest_of(loop: Loop) -> Nest | None:
    """The parts of a loop with one loop of known trip in it, which may be pipelined, and no conditionals."""
    inner = [k for k, item in enumerate(loop.body) if not isinstance(item, Instr)]
    if len(inner) != 1:
        return None
    found = loop.body[inner[0]]
    if not isinstance(found, Loop) or not is_innermost(found) or not found.pipeline or not isinstance(found.trip, int):
        return None
    if found.trip <= 1:
        return None
    return Nest(instructions(loop.body[: inner[0]]), found, instructions(loop.body[inner[0] + 1 :]))
