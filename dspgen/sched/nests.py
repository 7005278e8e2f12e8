"""Loops round innermost loops, whose runs may overlap."""

from __future__ import annotations

from dataclasses import dataclass

from dspgen.asmir.ir import Instr, Item, Loop, VReg, writes
from dspgen.sched.facts import Facts
from dspgen.sched.live import Live, live_before
from dspgen.sched.unroll import instructions, is_innermost


@dataclass(slots=True)
class Nest:
    """The body of a loop: innermost loops, with straight code before, between and after them."""

    inner: list[Loop]
    straight: list[list[Instr]]  # one more than there are loops
    body: tuple[Item, ...]

    def live_after(self, number: int, live: Live, facts: Facts) -> Live:
        """What is read after an inner loop, `live` being read after the body."""
        at = [k for k, item in enumerate(self.body) if isinstance(item, Loop)][number]
        return live_before(self.body[at + 1 :], live, facts)


def nest_of(loop: Loop) -> Nest | None:
    """A loop with loops in it that may be pipelined and run equally often each time, and no conditionals."""
    inner: list[Loop] = []
    straight: list[list[Instr]] = []
    start = 0
    for k, item in enumerate(loop.body):
        if isinstance(item, Instr):
            continue
        if not isinstance(item, Loop) or not is_innermost(item) or not item.pipeline:
            return None
        if isinstance(item.trip, int) and item.trip <= 1:
            return None
        inner.append(item)
        straight.append(instructions(loop.body[start:k]))
        start = k + 1
    straight.append(instructions(loop.body[start:]))
    trips = {item.trip for item in inner if isinstance(item.trip, VReg)}
    every = [i for piece in straight for i in piece] + [i for item in inner for i in instructions(item.body)]
    if not inner or (trips and any(register in trips for i in every for register, _ in writes(i))):
        return None
    return Nest(inner, straight, loop.body)
