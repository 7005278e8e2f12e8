"""How iterations end: a hardware loop, or a counter with a branch."""

from __future__ import annotations

from dataclasses import dataclass

from dspgen.asmir.ir.function import If, Instr, Item, Jump, Loop, Mark, Predicate, VReg
from dspgen.sched.graph.liveness import NOTHING, Live
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.machine.target_facts import Facts


@dataclass(frozen=True, slots=True)
class Back:
    """What leads from the end of a block to `target`: a branch, which may read a register, or the `end` of a hardware
    loop. A branch without a target leaves the function. `after` is what may be read behind it, on either way, where
    that is known."""

    target: str | None = None
    branch: Instr | None = None
    read: VReg | None = None
    end: Instr | None = None
    after: Live | None = None


NOT_BACK = Back()


class LoopControl:
    """How one loop counts: in hardware where there is a loop for its height, which is how many loops are within each
    other inside it. Where predicates are few (`apart`), a counter lives elsewhere, and is looked at just before the
    branch."""

    def __init__(self, loop: Loop, kit: Kit, *, apart: bool) -> None:
        height = _height(loop.body)
        self.label, self.kit = loop.label, kit
        self.height = height if height is not None and height < len(kit.loops) else None
        self.counter = None if self.height is not None else kit.fresh(kit.scalar, f"n.{loop.label}")
        self.predicate = self.counter
        if self.counter is not None and apart:
            self.predicate = kit.fresh(kit.scalar, f"again.{loop.label}")

    def kept(self, facts: Facts) -> Live:
        """What its iterations leave to the next one."""
        return NOTHING if self.counter is None else frozenset(facts.atoms(self.counter))

    def begin(self, times: int | VReg) -> list[Instr]:
        """What goes before the loop, which runs so many times."""
        if self.height is not None:
            return self.kit.begin_loop(self.height, self.label, times)
        assert self.counter is not None
        return self.kit.move(self.counter, times) if isinstance(times, VReg) else self.kit.constant(self.counter, times)

    def begin_after_first(self, trip: VReg) -> tuple[list[Instr], VReg]:
        """What goes before it where an iteration of `trip` is done elsewhere, and the number of those that are left."""
        left = self.counter or self.kit.fresh(self.kit.scalar, "left")
        setup = self.kit.add(left, trip, -1)
        return (setup if self.height is None else [*setup, *self.begin(left)]), left

    def end(self) -> tuple[list[Instr], Back]:
        """What an iteration does for it, and how it ends."""
        kit, counter, predicate = self.kit, self.counter, self.predicate
        if self.height is not None:
            return [], Back(self.label, end=kit.end_loop(self.height))
        assert counter is not None and predicate is not None
        step = kit.add(predicate, counter, -1) if predicate != counter else []
        branch = kit.branch(self.label, Predicate(predicate))
        return [*step, *kit.add(counter, counter, -1)], Back(self.label, branch, predicate)


def _height(body: tuple[Item, ...]) -> int | None:
    """How many loops are within each other; None where jumps lead where they like."""
    highest = 0
    for item in body:
        match item:
            case Mark() | Jump():
                return None
            case Loop(body=inner):
                found = _height(inner)
                if found is None:
                    return None
                highest = max(highest, found + 1)
            case If(inside=inner):
                found = _height(inner)
                if found is None:
                    return None
                highest = max(highest, found)
            case Instr():
                pass
    return highest
