"""Scheduled code: packets on physical registers and units, and what the scheduler has to say about its loops.

    Scheduled ::= name, lines: (LabelLine | Packet | Nop)*, loops: LoopReport*

Every `Packet` issues in one cycle; a `Nop` idles `cycles`. Text and simulator see nothing but these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from dspgen.target.isa.model import Instruction
from plant_core.support.location import Loc

# How packets are found: the first that list scheduling makes; the shortest that a search within its budget finds; or
# the same, proven shortest where the exact solver can.
Method = Literal["dp", "list", "exact", "order"]


@dataclass(frozen=True, slots=True)
class Address:
    """A memory operand: base register, mode, and an immediate (scaled units) or an offset register.

    mode: "none" `*AR`, "plus" `*+AR[x]`, "minus" `*-AR[x]`, "post_inc" `*AR++[x]`, "post_dec" `*AR--[x]`,
    "pre_inc" `*++AR[x]`, "pre_dec" `*--AR[x]`.
    """

    base: str
    mode: Literal["none", "plus", "minus", "post_inc", "post_dec", "pre_inc", "pre_dec"]
    offset: int | str = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """One instruction of a packet. Operands: register name, integer, `Address`, or label (after `@`), in text order."""

    instruction: Instruction
    unit: str
    operands: tuple[str | int | Address, ...]
    predicate: str | None = None
    negated: bool = False
    loc: Loc | None = None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Packet:
    members: tuple[Placed, ...]


@dataclass(frozen=True, slots=True)
class Nop:
    cycles: int


@dataclass(frozen=True, slots=True)
class LabelLine:
    name: str


@dataclass(frozen=True, slots=True)
class CommentLine:
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of an iteration: `cycle` from the iteration's start; its stage is `cycle // ii`."""

    instruction: Instruction
    unit: str
    cycle: int
    loc: Loc | None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Dependence:
    """Between two steps, by number: `target`, `distance` iterations on, issues `latency` cycles after `source`."""

    source: int
    target: int
    latency: int
    distance: int


@dataclass(frozen=True, slots=True)
class LoopReport:
    """One loop's schedule. `tried` has (ii, why it failed) for each ii that did. Cycles are of one kernel iteration.

    A pipelined loop has its `steps`, the cycle of dependences that makes `rec_mii`, in order, and the units that make
    `res_mii` (none where the width of packets does).
    """

    label: str
    loc: Loc | None
    pipelined: bool
    ii: int
    res_mii: int
    rec_mii: int
    stages: int
    unroll: int
    trip: int | None
    resource_bounds: tuple[tuple[str, int], ...] = ()
    tried: tuple[tuple[int, str], ...] = ()
    prolog: int = 0
    epilog: int = 0
    steps: tuple[Step, ...] = ()
    recurrence: tuple[Dependence, ...] = ()
    binding_units: tuple[str, ...] = ()
    arithmetic_mii: int = 0  # what the body's additions and multiplications of data take, and nothing else of it
    source_mii: int | None = None  # the same of the statements as they were written, where that is known
    refused: int = 0  # the exact scheduler has proven that there is no schedule up to this interval

    @property
    def least(self) -> int:
        """The minimum initiation interval."""
        return max(self.res_mii, self.rec_mii, 1)

    @property
    def bound(self) -> int:
        """An interval below which there is no schedule, whatever the registers."""
        return max(self.least, self.refused + 1)

    @property
    def optimal(self) -> bool:
        return self.pipelined and self.ii <= self.bound


@dataclass(frozen=True, slots=True)
class StraightReport:
    """A block of straight code, with what it shares packets with of the loops before and after it: its cycles, and a
    bound that no schedule of it can go below, whatever the registers."""

    operations: int
    cycles: int
    bound: int

    @property
    def optimal(self) -> bool:
        return self.cycles <= self.bound


@dataclass(frozen=True, slots=True)
class Lessons:
    """What registers did not suffice for, by the labels of a function's loops; see
    `dspgen.sched.loops.attempt_state.Settings`."""

    least_interval: Mapping[str, int] = field(default_factory=dict)
    squeeze: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    bumps: Mapping[str, int] = field(default_factory=dict)
    plain: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    scarce: frozenset[str] = frozenset()
    apart_runs: frozenset[str] = frozenset()
    rolled: frozenset[str] = frozenset()
    copy_predicates: bool = False

    def under(self, prefix: str) -> Lessons:
        """Those for code that took the function over, its labels with a prefix."""
        return Lessons(
            {prefix + k: v for k, v in self.least_interval.items()},
            {prefix + k: v for k, v in self.squeeze.items()},
            {prefix + k: v for k, v in self.bumps.items()},
            {prefix + k: v for k, v in self.plain.items()},
            frozenset(prefix + k for k in self.scarce),
            frozenset(prefix + k for k in self.apart_runs),
            frozenset(prefix + k for k in self.rolled),
            self.copy_predicates,
        )

    def __or__(self, other: Lessons) -> Lessons:
        return Lessons(
            {**self.least_interval, **other.least_interval},
            {**self.squeeze, **other.squeeze},
            {**self.bumps, **other.bumps},
            {**self.plain, **other.plain},
            self.scarce | other.scarce,
            self.apart_runs | other.apart_runs,
            self.rolled | other.rolled,
            self.copy_predicates or other.copy_predicates,
        )


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What made room for values in registers: the caller's that were `saved` on the stack, or `borrowed`, kept in other
    registers, meanwhile; and values that were `spilled`: name, class, and whether it waits in a register of another."""

    saved: tuple[str, ...] = ()
    borrowed: tuple[str, ...] = ()
    spilled: tuple[tuple[str, str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Packed:
    """A block's packets, each operation by its number: straight code first, then head, tail and branch; and whether the
    search for them was `cut` short."""

    cycles: list[list[tuple[int, int]]]
    tail_at: int
    bound: int
    in_use: dict[str, int]
    cut: bool


@dataclass(frozen=True, slots=True)
class Scheduled:
    """`cycles` is the estimate from entry through the return's delay slots, None where a trip is unknown. `cut`: a
    search for shorter straight code ended with its budget, so that with a larger one it might find more. `blocks`: how
    straight code was packed, for whoever schedules some of it again."""

    name: str
    lines: tuple[LabelLine | CommentLine | Packet | Nop, ...]
    loops: tuple[LoopReport, ...]
    cycles: int | None
    registers_used: tuple[str, ...] = ()
    straight: tuple[StraightReport, ...] = ()
    waiting: tuple[str, ...] = ()  # what waits elsewhere for lack of registers, in words
    cut: bool = False
    lessons: Lessons = field(default_factory=Lessons)
    blocks: Mapping[object, Packed] = field(default_factory=dict, compare=False, repr=False)
    elsewhere: Elsewhere = field(default_factory=Elsewhere, compare=False, repr=False)
