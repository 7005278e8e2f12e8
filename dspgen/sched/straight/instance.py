"""A block of straight code as numbers: what its operations wait for, what they occupy, and where it may end.

An operation issues at its `release` or later, and at the block's length less its `slack` or earlier. Rigid pieces at
the block's ends are no more than units that are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from dspgen.sched.graph.dependence_graph import Graph
from dspgen.sched.graph.rigid_sections import Section
from dspgen.sched.machine.group_limits import Limits, bits
from dspgen.sched.machine.target_facts import Facts, Reservation


@dataclass(frozen=True, slots=True)
class Version:
    """A value in a register of `cls`: occupied from `landing` cycles after its writer's issue (writer -1: from the
    start) to the last of its readers, a bit set; to the end and beyond where it `outlives` the block."""

    cls: str
    writer: int
    landing: int
    readers: int
    outlives: bool


@dataclass(slots=True)
class Instance:
    """`successors` and `predecessors` have (other, latency), towards later operations only; latencies may be negative.

    Masks are bit sets of units, extra resources and what starts (`group_limits.py`): `before[t]` taken in cycle t,
    `behind[t]` taken t cycles before the end (from 1). `pinned`, if not -1, issues at the length less its slack
    exactly. The block is `least` cycles long or more. `versions` and `room` (registers of each class) limit registers,
    where given.
    """

    size: int
    successors: list[list[tuple[int, int]]]
    predecessors: list[list[tuple[int, int]]]
    release: list[int]
    slack: list[int]
    reservations: list[Reservation]
    issue: int
    least: int = 0
    pinned: int = -1
    limits: Limits = Limits()
    units: int = -1  # what of a mask are units
    before: list[int] = field(default_factory=list)
    before_issued: list[int] = field(default_factory=list)
    behind: list[int] = field(default_factory=lambda: [0])
    behind_issued: list[int] = field(default_factory=lambda: [0])
    versions: tuple[Version, ...] = ()
    room: dict[str, int] = field(default_factory=dict)

    @property
    def few_slots(self) -> bool:
        """Whether the operations and the ends have more units than a packet has slots."""
        every = 0
        for reservation in self.reservations:
            every |= reservation.units
        for mask in (*self.before, *self.behind):
            every |= mask & self.units
        return self.issue < every.bit_count()

    def taken(self, length: int) -> tuple[list[int], list[int]] | None:
        """Units taken and operations issued by the ends, cycle by cycle; None where the ends clash at this length."""
        for back in range(max(1, length - len(self.before) + 1), len(self.behind)):
            mask, count = self.behind[back], self.behind_issued[back]
            cycle = length - back
            if not mask and not count:
                continue
            if cycle < 0 or self.before[cycle] & mask or self.before_issued[cycle] + count > self.issue:
                return None
            if not self.limits.keep(self.before[cycle] | mask):
                return None
        return self.overlaid(length)

    def overlaid(self, length: int) -> tuple[list[int], list[int]]:
        """The same as `taken`, also where the ends clash."""
        span = max(length, len(self.before), 1)
        masks = self.before + [0] * (span - len(self.before))
        issued = self.before_issued + [0] * (span - len(self.before_issued))
        for back in range(1, min(length + 1, len(self.behind))):
            masks[length - back] |= self.behind[back]
            issued[length - back] += self.behind_issued[back]
        return masks, issued

    def in_use(self, issue: Sequence[int], length: int) -> dict[str, int]:
        """How many registers of each limited class its values take at the worst, where operations issue in the given
        cycles, the branch, which makes no value, left out."""
        change: dict[str, list[int]] = {cls: [0] * (length + 2) for cls in self.room}
        for version in self.versions:
            first = min(0 if version.writer < 0 else issue[version.writer] + version.landing, length)
            last = length if version.outlives else first
            for k in bits(version.readers):
                last = max(last, issue[k])
            change[version.cls][first] += 1
            change[version.cls][last + 1] -= 1
        return {cls: max(accumulate(steps)) for cls, steps in change.items()}

    def dependences(self) -> tuple[object, ...]:
        """Equal for instances with the same schedules, registers apart."""
        return (
            tuple(map(tuple, self.successors)),
            tuple(self.release),
            tuple(self.slack),
            tuple(self.reservations),
            self.least,
            self.pinned,
            tuple(self.before),
            tuple(self.before_issued),
            tuple(self.behind),
            tuple(self.behind_issued),
        )

    def key(self) -> tuple[object, ...]:
        """Equal for instances with the same schedules."""
        return (*self.dependences(), self.versions, tuple(self.room.items()))


def instance_of(
    reservations: Sequence[Reservation],
    graph: Graph,
    release: Sequence[int],
    slack: Sequence[int],
    facts: Facts,
    *,
    head: Section | None,
    tail: Section | None,
    least: int,
    pinned: int,
) -> Instance:
    made = Instance(
        len(reservations),
        [[(t, latency) for t, latency, _ in edges] for edges in graph.successors],
        [[(s, latency) for s, latency, _ in edges] for edges in graph.predecessors],
        list(release),
        list(slack),
        list(reservations),
        facts.issue,
        least,
        pinned,
        facts.limits,
        (1 << len(facts.target.unit_members)) - 1,
    )
    if head is not None:
        for op, cycle, unit in head.members:
            _take(made.before, made.before_issued, cycle, unit, op.reservation)
            made.before[cycle] |= facts.limits.start(unit)
        for unit, cycle in head.blocked:
            _take(made.before, made.before_issued, cycle, unit, Reservation((unit,), 1, ()))
            made.before_issued[cycle] -= 1
    if tail is not None:
        masks: list[int] = []
        issued: list[int] = []
        for op, cycle, unit in tail.members:
            _take(masks, issued, cycle, unit, op.reservation)
            masks[cycle] |= facts.limits.start(unit)
        # What stays taken after the block's end is no concern of the block.
        made.behind = [0, *reversed((masks + [0] * tail.length)[: tail.length])]
        made.behind_issued = [0, *reversed((issued + [0] * tail.length)[: tail.length])]
    return made


def _take(masks: list[int], issued: list[int], cycle: int, unit: int, reservation: Reservation) -> None:
    spans = [(unit, 0, reservation.busy), *reservation.extras]
    span = max(first + count for _, first, count in spans)
    grow = cycle + span - len(masks)
    masks += [0] * grow
    issued += [0] * (len(masks) - len(issued))
    issued[cycle] += 1
    for resource, first, count in spans:
        for k in range(first, first + count):
            masks[cycle + k] |= 1 << resource
