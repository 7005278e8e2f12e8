"""List scheduling of one block: straight code between the epilog of one loop and the prolog of the next.

The epilog stands at the top, the prolog as a rigid piece at the bottom; both share packets with the straight code as
far as dependences and units allow. At the block's end every result of the straight code has landed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heappop, heappush

from dspgen.sched.graph.dependence_graph import moves_stack, straight_graph
from dspgen.sched.graph.forwarding import keep_room
from dspgen.sched.graph.rigid_sections import Envelope, Section, shared, touching
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.reservation_table import ReservationTable
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.straight.downsets import Found
from dspgen.sched.straight.instance import Instance, instance_of
from dspgen.sched.straight.late_placement import Values, gather, sink, values_of

_BRANCH = 1 << 30  # the branch's number in the reservation table


@dataclass(slots=True)
class Fitted:
    """The block's packets, the cycle at which the tail starts, a length below which there is no schedule, and how many
    registers of some classes are in use at the worst."""

    cycles: list[list[tuple[Op, int]]]
    tail_at: int
    bound: int = 0
    in_use: dict[str, int] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return len(self.cycles)


class EndsCollide(Exception):
    """The branch that ends a block finds no room in the rigid piece at its bottom, however long the block."""


class Block:
    """A block to be scheduled: straight code, the rigid pieces at its ends, and the branch that may close it."""

    def __init__(
        self, ops: Sequence[Op], facts: Facts, head: Section | None, tail: Section | None, branch: Op | None
    ) -> None:
        self.ops, self.facts, self.head, self.tail, self.branch = ops, facts, head, tail, branch
        self.everything = list(ops) if branch is None else [*ops, branch]
        keep_room(ops, facts)
        self.graph = straight_graph(self.everything, facts)
        self.floor = [_after_head(op, head.envelope, facts) if head is not None else 0 for op in self.everything]
        self.slack = [_before_end(op, tail) for op in ops]
        if branch is not None:
            self.slack.append(1 + facts.branch_delay)
        self.least = 0 if branch is None else 1 + facts.branch_delay
        self.tail_number = len(ops) + (len(head.members) + len(head.blocked) if head is not None else 0)
        if head is not None:
            before = head.envelope
            seen = [t + 1 for t in before.stores.values()]
            self.least = max([self.least, head.length, *before.lands.values(), *before.reads.values(), *seen])
        if tail is not None:
            self.least = max(self.least, tail.length + (_tail_after_head(head, tail) if head is not None else 0))

    @cached_property
    def values(self) -> Values:
        """What its operations make and read."""
        return values_of(self.ops, self.facts)

    def serialised(self, order: Sequence[int], edges: Sequence[tuple[int, int, int]]) -> Block:
        """The same with its operations numbered in a given order, which keeps the dependences, and more of these, in
        the numbers used so far."""
        made = Block([self.ops[k] for k in order], self.facts, self.head, self.tail, self.branch)
        number = {k: at for at, k in enumerate(order)}
        for s, t, latency in edges:
            made.graph.successors[number[s]].append((number[t], latency, 0))
            made.graph.predecessors[number[t]].append((number[s], latency, 0))
        return made

    def instance(self) -> Instance:
        """The block as numbers. Its length may be asked for where nothing but one end, if any, stands at the bottom."""
        return instance_of(
            [op.reservation for op in self.everything],
            self.graph,
            self.floor,
            self.slack,
            self.facts,
            head=self.head,
            tail=self.tail,
            least=self.least,
            pinned=len(self.ops) if self.branch is not None else -1,
        )

    def table(self) -> ReservationTable:
        """What the head takes."""
        table = ReservationTable(self.facts)
        if self.head is not None:
            number = len(self.ops)
            for op, cycle, unit in self.head.members:
                table.take(number, cycle, unit, op.reservation)
                number += 1
            for unit, cycle in self.head.blocked:
                table.hold(number, cycle, unit)
                number += 1
        return table

    def listed(self, rank: Sequence[int], *, window: int | None = None) -> Draft:
        """By list scheduling: of the operations that wait for none, the one of the lowest rank as early as it fits, but
        not before those that were placed `window` operations earlier. Then the ends as early as they fit. Raises
        EndsCollide."""
        table = self.table()
        placed = _placed(self, rank, table, window)
        length = self._after(placed)
        if not (closed := self._close(table, length)) and self.branch is not None and self.tail is not None:
            if not self._close(ReservationTable(self.facts), max(self.least, self.tail.length + self.slack[-1])):
                raise EndsCollide
        while not closed:
            length += 1
            closed = self._close(table, length)
        return Draft(self, placed, table, length)

    def listed_within(self, rank: Sequence[int], latest: Sequence[int], length: int) -> Draft | None:
        """By list scheduling round the ends of a block of this length; None where an operation comes too late."""
        table = self.table()
        if not self._close(table, length):
            return None
        placed = _placed(self, rank, table)
        if any(at > length - late for at, late in zip(placed, latest, strict=False)):
            return None
        return Draft(self, placed, table, length)

    def listed_back(self, rank: Sequence[int], earliest: Sequence[int], length: int) -> Draft | None:
        """By list scheduling from the end of a block of this length: each operation as late as it fits, so that values
        are made when they are wanted; None where one comes too early."""
        table = self.table()
        if not self._close(table, length):
            return None
        size, graph = len(self.ops), self.graph
        latest = self.latest(length)
        waiting = [sum(1 for t, _, _ in graph.successors[k] if t < size) for k in range(size)]
        ready = [(rank[k], -k) for k in range(size) if waiting[k] == 0]
        heapify(ready)
        placed = [0] * size
        while ready:
            op = -heappop(ready)[1]
            at = table.place_back(op, latest[op], earliest[op], self.ops[op].reservation)
            if at < 0:
                return None
            placed[op] = at
            for s, latency, _ in graph.predecessors[op]:
                if at - latency < latest[s]:
                    latest[s] = at - latency
                waiting[s] -= 1
                if waiting[s] == 0:
                    heappush(ready, (rank[s], -s))
        return Draft(self, placed, table, length)

    def placed(self, found: Found) -> Draft:
        """With each operation in a given cycle on a given unit."""
        table = self.table()
        for k, op in enumerate(self.ops):
            table.take(k, found.cycles[k], found.units[k], op.reservation)
        if not self._close(table, found.length):
            raise ValueError(f"the ends of a block do not fit the schedule of {found.length} cycles found for it")
        return Draft(self, found.cycles[: len(self.ops)], table, found.length)

    def latest(self, length: int) -> list[int]:
        """The last cycle of each operation in a block of this length, by its ends and its branch."""
        latest = [length - late for late in self.slack[: len(self.ops)]]
        if self.branch is not None:
            size = len(self.ops)
            for k, latency, _ in self.graph.predecessors[size]:
                latest[k] = min(latest[k], length - self.slack[size] - latency)
        return latest

    def _after(self, placed: Sequence[int]) -> int:
        """The least length with operations in these cycles, before the units that the ends need are looked at."""
        size = len(self.ops)
        length = max([self.least, *(at + late for at, late in zip(placed, self.slack, strict=False))])
        if self.branch is not None:
            waits = (placed[s] + latency for s, latency, _ in self.graph.predecessors[size])
            length = max(length, max([self.floor[size], *waits]) + self.slack[size])
        return length

    def _close(self, table: ReservationTable, length: int) -> bool:
        """Reserve for the tail and the branch at the bottom of a block of this length, if that is possible."""
        if length < self.least:
            return False
        if self.branch is not None and not table.place(
            _BRANCH, length - self.slack[len(self.ops)], self.branch.reservation
        ):
            return False
        if self.tail is None:
            return True
        tail_at = length - self.tail.length
        members = [(self.tail_number + k, *m[1:], m[0].reservation) for k, m in enumerate(self.tail.members)]
        if not table.fits(members, tail_at):
            if self.branch is not None:
                table.remove(_BRANCH)
            return False
        for number, cycle, unit, reservation in members:
            table.take(number, cycle + tail_at, unit, reservation)
        return True


@dataclass(slots=True)
class Draft:
    """The cycle in which each operation of a block issues, in `table` with its unit; packets are made of the best."""

    block: Block
    issue: list[int]
    table: ReservationTable
    length: int
    sunk: bool = False

    def sink(self) -> None:
        """Have values made no sooner than they are wanted."""
        if not self.sunk:
            block = self.block
            sink(block.ops, block.graph, self.issue, block.latest(self.length), self.table, block.values)
            self.sunk = True

    def gather(self) -> None:
        """Have fewer packets, where cycles without any cost none."""
        block, length, ends = self.block, self.length, set[int]()
        if block.head is not None:
            ends.update(cycle for _, cycle, _ in block.head.members)
        if block.tail is not None:
            ends.update(cycle + length - block.tail.length for _, cycle, _ in block.tail.members)
        if block.branch is not None:
            ends.add(length - block.slack[len(block.ops)])
        window = block.floor, block.latest(length)
        gather(block.ops, block.graph, self.issue, window, self.table, ends)

    def packets(self, *, few: bool = False) -> Fitted:
        self.sink()
        block, table, length = self.block, self.table, self.length
        if few and block.facts.unwritten:
            self.gather()
        cycles: list[list[tuple[Op, int]]] = [[] for _ in range(length)]
        for k, op in enumerate(block.ops):
            cycles[self.issue[k]].append((op, table.unit_of[k]))
        number = len(block.ops)
        if block.head is not None:
            for k, (op, cycle, _) in enumerate(block.head.members):
                cycles[cycle].append((op, table.unit_of[number + k]))
        tail_at = length
        if block.tail is not None:
            tail_at -= block.tail.length
            for k, (op, cycle, _) in enumerate(block.tail.members):
                cycles[cycle + tail_at].append((op, table.unit_of[block.tail_number + k]))
        if block.branch is not None:
            cycles[length - block.slack[number]].append((block.branch, table.unit_of[_BRANCH]))
        return Fitted(cycles, tail_at)


def heights_of(block: Block) -> list[int]:
    """The longest path from each operation to the block's end."""
    heights = list(block.slack)
    for k in range(len(heights) - 1, -1, -1):
        for t, latency, _ in block.graph.successors[k]:
            if heights[t] + latency > heights[k]:
                heights[k] = heights[t] + latency
    return heights


def _placed(block: Block, rank: Sequence[int], table: ReservationTable, window: int | None = None) -> list[int]:
    """The cycle of each operation."""
    size, graph = len(block.ops), block.graph
    cycle = [-1] * size
    waiting = [sum(1 for s, _, _ in graph.predecessors[k] if s < size) for k in range(size)]
    ready = [(rank[k], k) for k in range(size) if waiting[k] == 0]
    heapify(ready)
    latest = [0]  # of the operations so far, after each of them
    while ready:
        op = heappop(ready)[1]
        earliest = block.floor[op]
        if window is not None and len(latest) > window:
            earliest = max(earliest, latest[-window])
        for s, latency, _ in graph.predecessors[op]:
            if cycle[s] + latency > earliest:
                earliest = cycle[s] + latency
        at = cycle[op] = table.place_from(op, earliest, block.ops[op].reservation)
        latest.append(max(latest[-1], at))
        for target, _, _ in graph.successors[op]:
            if target < size:
                waiting[target] -= 1
                if waiting[target] == 0:
                    heappush(ready, (rank[target], target))
    return cycle


def _after_head(op: Op, head: Envelope, facts: Facts) -> int:
    """The first cycle at which an operation may issue after a rigid piece, by registers, memory and order."""
    earliest = 0
    for atom, late in op.reads:
        if atom in head.lands:
            earliest = max(earliest, head.lands[atom] - facts.wanted(late) + op.early.get(atom, 0))
    for atom, latency in op.writes:
        landing = facts.landing(latency)
        if atom in head.reads:
            earliest = max(earliest, head.reads[atom] + 1 - landing)
        if atom in head.lands:
            earliest = max(earliest, head.lands[atom] + 1 - landing)
    if op.touches_memory:
        before = touching(head.stores, op)
        if op.is_store:
            before += touching(head.loads, op)
        earliest = max([earliest, *(t + 1 for t in before)])
    if moves_stack(op, facts):
        earliest = max([earliest, *head.stores.values(), *head.loads.values()])
    if op.ordered and head.ordered is not None:
        earliest = max(earliest, head.ordered)
    return earliest


def _before_end(op: Op, tail: Section | None) -> int:
    """How many cycles before the block's end the operation must issue: all of it lands within the block, and before
    what the tail does with the same registers and arrays."""
    if tail is None:
        return op.longest
    envelope = tail.envelope
    least = max(op.longest, 1)
    for atom, latency in op.writes:
        if atom in envelope.reads:
            least = max(least, tail.length + latency - envelope.reads[atom])
        if atom in envelope.lands:
            least = max(least, tail.length + latency + 1 - envelope.lands[atom])
    for atom, late in op.reads:
        if atom in envelope.lands:
            least = max(least, tail.length + late + 1 - envelope.lands[atom])
    if op.touches_memory:
        after = touching(envelope.stores, op)
        if op.is_store:
            after += touching(envelope.loads, op)
        least = max([least, *(tail.length + op.seen - t for t in after)])
    if op.ordered and envelope.ordered is not None:
        least = max(least, tail.length + op.longest - envelope.ordered)
    return least


def _tail_after_head(head: Section, tail: Section) -> int:
    before, after = head.envelope, tail.envelope
    at = max(0, head.length - tail.length, *(t - tail.length for t in (*before.lands.values(), *before.reads.values())))
    at = max([at, *(t + 1 - tail.length for t in before.stores.values())])
    for atom, time in before.lands.items():
        if atom in after.reads:
            at = max(at, time - after.reads[atom])
        if atom in after.lands:
            at = max(at, time + 1 - after.lands[atom])
    for atom, time in before.reads.items():
        if atom in after.lands:
            at = max(at, time + 1 - after.lands[atom])
    for first, second in (
        (before.stores, after.loads),
        (before.stores, after.stores),
        (before.loads, after.stores),
    ):
        for time, later in shared(first, second):
            at = max(at, time + 1 - later)
    if before.ordered is not None and after.ordered is not None:
        at = max(at, before.ordered - after.ordered)
    return at


def listed_length(ops: Sequence[Op], facts: Facts) -> int:
    """Cycles in which operations issue, by list scheduling along the longest paths."""
    block = Block(ops, facts, None, None, None)
    return max(_placed(block, [-h for h in heights_of(block)], block.table()), default=-1) + 1
