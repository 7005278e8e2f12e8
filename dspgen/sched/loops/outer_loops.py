"""Loops round innermost loops, whose runs may overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from dspgen.asmir.ir.function import If, Instr, Item, Loop, VReg, loops_in, writes
from dspgen.sched.graph.liveness import Live, live_before
from dspgen.sched.graph.unroll import instructions, is_innermost
from dspgen.sched.machine.target_facts import Facts

HIGHEST = 3  # loops within each other whose runs overlap in one more


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


def nest_of(loop: Loop, inside: Callable[[Loop], bool]) -> Nest | None:
    """A loop with loops in it that run equally often each time, and no conditionals: such as may be pipelined, and
    nests, where they may be `inside` this one."""
    inner: list[Loop] = []
    straight: list[list[Instr]] = []
    start = 0
    for k, item in enumerate(loop.body):
        if isinstance(item, Instr):
            continue
        if not isinstance(item, Loop) or (isinstance(item.trip, int) and item.trip <= 1):
            return None
        if not (item.pipeline if is_innermost(item) else inside(item) and nest_of(item, inside) is not None):
            return None
        inner.append(item)
        straight.append(instructions(loop.body[start:k]))
        start = k + 1
    straight.append(instructions(loop.body[start:]))
    if not inner:
        return None
    trips = {item.trip for item in loops_in(loop.body) if isinstance(item.trip, VReg)}
    if trips and any(register in trips for i in instructions_of(loop.body) for register, _ in writes(i)):
        return None
    return Nest(inner, straight, loop.body)


def labels_in_nests(items: Sequence[Item]) -> Iterator[str]:
    """The innermost loops of which runs may overlap."""
    for item in items:
        if isinstance(item, If):
            yield from labels_in_nests(item.inside)
        elif isinstance(item, Loop):
            if nest_of(item, lambda loop: height(loop) <= HIGHEST) is not None:
                yield from (loop.label for loop in loops_in(item.body) if is_innermost(loop))
            else:
                yield from labels_in_nests(item.body)


def height(loop: Loop) -> int:
    """How many loops are within each other, the given one among them."""
    return 1 + max((height(item) for item in loop.body if isinstance(item, Loop)), default=0)


def instructions_of(items: Sequence[Item]) -> Iterator[Instr]:
    """The instructions among items that have no conditionals, and in their loops."""
    for item in items:
        if isinstance(item, Instr):
            yield item
        elif isinstance(item, Loop):
            yield from instructions_of(item.body)


def relabelled_loops(items: Sequence[Item], suffix: str, *, pipeline: bool) -> tuple[Item, ...]:
    """Items whose loops have other labels, and are not pipelined unless so told."""
    return tuple(
        replace(
            item,
            label=f"{item.label}{suffix}",
            body=relabelled_loops(item.body, suffix, pipeline=pipeline),
            pipeline=item.pipeline and pipeline,
        )
        if isinstance(item, Loop)
        else item
        for item in items
    )
