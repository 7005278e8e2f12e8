"""What one attempt at a function hands to the next: what did not fit, and what was found already."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from dspgen.asmir.ir.function import Item, Loop, VReg
from dspgen.sched.graph.budget import Budget
from dspgen.sched.graph.lower_bound import Hopes
from dspgen.sched.ir.packets import Lessons, Method
from dspgen.sched.loops.loop_body import Prepared
from dspgen.sched.loops.pipelining import Forms, Plan
from dspgen.sched.machine.target_facts import Atom
from dspgen.sched.modulo.exact import Solution
from dspgen.sched.straight.block_packing import Searches

_BUMPS = 4  # longer intervals tried for a loop before it is left unpipelined


@dataclass(slots=True)
class Settings:
    """What earlier attempts at register allocation taught: per loop and per straight block (by number)."""

    least_interval: dict[str, int] = field(default_factory=dict)
    squeeze: dict[str, dict[str, int]] = field(default_factory=dict)  # registers of each class a loop must do without
    scarce: set[str] = field(default_factory=set)  # loops whose values are to wait less, since registers lacked
    bumps: dict[str, int] = field(default_factory=dict)
    plain: dict[str, tuple[int, str]] = field(default_factory=dict)  # loops given up: last interval, and why
    frugal: dict[int, dict[str, int]] = field(default_factory=dict)  # registers that a straight block must do without
    apart: set[int] = field(default_factory=set)
    apart_runs: set[str] = field(default_factory=set)  # outer loops in which runs of the inner one do not overlap
    textual: set[int] = field(default_factory=set)  # straight blocks that keep the order of the text
    pipeline: bool = True
    method: Method = "dp"
    flat_limit: int = 64
    flattens: bool = False
    copy_predicates: bool = False
    borrowed: list[str] = field(default_factory=list)  # registers of the caller's, saved while they are used
    saved: dict[str, int] = field(default_factory=dict)  # the same, saved on the stack: their places
    unsavable: set[str] = field(default_factory=set)  # classes of which no more are saved
    spilled: dict[VReg, int | VReg] = field(default_factory=dict)  # registers whose values wait elsewhere, and where
    spills: int = 0  # how many times registers were chosen for it since the order of the text was last taken
    temporaries: set[VReg] = field(default_factory=set)  # what carries those values between stack and instructions
    plans: dict[object, Plan | list[tuple[int, str]]] = field(default_factory=dict)  # of earlier attempts
    checked: set[object] = field(default_factory=set)  # of these, with how many values elsewhere
    texts: dict[str, list[object]] = field(default_factory=dict)  # of loops, by label, as these attempts had them
    singles: dict[object, Prepared] = field(default_factory=dict)  # loops made ready as they are
    forms: dict[object, Forms] = field(default_factory=dict)  # of loops, and their schedules, whatever the registers
    bodies: dict[object, tuple[Item, ...]] = field(default_factory=dict)
    rolled: set[str] = field(default_factory=set)  # short loops that stay loops: as straight code they did not fit
    flat_lengths: dict[object, int] = field(default_factory=dict)  # of short loops as straight code
    free: dict[str, frozenset[Atom]] = field(default_factory=dict)  # physical registers whose values end with a loop
    nested: frozenset[str] = frozenset()  # loops whose runs may overlap
    proofs: dict[object, Solution] = field(default_factory=dict)  # of the exact scheduler of loops
    idle: dict[VReg, int] = field(default_factory=dict)  # what only code around loops uses, and how often that is
    budget: Budget = field(default_factory=Budget)
    searches: Searches = field(default_factory=Searches)
    limit: float = math.inf  # cycles: with so many, or more, the code is of no use
    instead: Callable[[], float] | None = None  # the cycles of other code that would do; not asked yet
    hopes: Hopes | None = None  # of the body as it is now, where there is a limit

    def text(self, loop: Loop) -> object:
        """What tells this loop from others, and from what it was before values in it came to wait elsewhere."""
        known, text = self.texts.setdefault(loop.label, []), (loop.body, loop.streams)
        if text not in known:
            known.append(text)
        return loop.label, known.index(text)

    def lengthen(self, label: str, interval: int, cls: str, lacking: int, why: str) -> bool:
        """A loop of this interval asks for fewer registers, then for a longer interval, and is given up in the end;
        whether it is."""
        bumps = self.bumps[label] = self.bumps.get(label, 0) + 1
        squeezed = self.squeeze.setdefault(label, {})
        squeezed[cls] = squeezed.get(cls, 0) + lacking
        if bumps > 1:
            self.least_interval[label] = interval + 1 + interval // 8
        if bumps > _BUMPS:
            self.plain[label] = interval, why
        return label in self.plain

    def lessons(self) -> Lessons:
        """What was learnt of loops."""
        return Lessons(
            dict(self.least_interval),
            {label: dict(squeezed) for label, squeezed in self.squeeze.items()},
            dict(self.bumps),
            dict(self.plain),
            frozenset(self.scarce),
            frozenset(self.apart_runs),
            frozenset(self.rolled),
            self.copy_predicates,
        )

    def learn(self, lessons: Lessons) -> None:
        """Begin with what was learnt elsewhere."""
        self.least_interval.update(lessons.least_interval)
        self.squeeze.update({label: dict(squeezed) for label, squeezed in lessons.squeeze.items()})
        self.bumps.update(lessons.bumps)
        self.plain.update(lessons.plain)
        self.scarce |= lessons.scarce
        self.apart_runs |= lessons.apart_runs
        self.rolled |= lessons.rolled
        self.copy_predicates |= lessons.copy_predicates
