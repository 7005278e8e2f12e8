"""List scheduling of one block: straight code between the epilog of one loop and the prolog of the next.

The epilog stands at the top, the prolog as a rigid piece at the bottom; both share packets with the straight code as
far as dependences and units allow. At the block's end every result of the straight code has landed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspgen.sched.ddg import Graph, straight_graph
from dspgen.sched.facts import Facts, Reservation
from dspgen.sched.frugal import frugal_order
from dspgen.sched.live import Live
from dspgen.sched.machine import ReservationTable
from dspgen.sched.ops import Op
from dspgen.sched.sections import Envelope, Section, shared, touching

_BRANCH = 1 << 30  # the branch's number in the reservation table


@dataclass(slots=True)
class Fitted:
    """The block's packets, and the cycle at which the tail starts."""

    cycles: list[list[tuple[Op, int]]]
    tail_at: int


def fit_block(
    ops: Sequence[Op],
    facts: Facts,
    *,
    head: Section | None = None,
    tail: Section | None = None,
    branch: Op | None = None,
    after: Live | None = None,
    in_text_order: bool = False,
) -> Fitted:
    """Schedule a block; `branch`, if any, ends it, with its delay slots filled by the rest.

    `after`, where given, are the registers read later: issue then in an order that needs few registers, or in that of
    the text.
    """
    table = ReservationTable(facts)
    number = len(ops)
    if head is not None:
        for op, cycle, unit in head.members:
            table.take(number, cycle, unit, op.reservation)
            number += 1
        for unit, cycle in head.blocked:
            table.take(number, cycle, unit, Reservation((unit,), 1, ()))
            number += 1
    everything = list(ops) if branch is None else [*ops, branch]
    graph = straight_graph(everything, facts)
    floor = [_after_head(op, head.envelope, facts) if head is not None else 0 for op in everything]
    slack = [_before_tail(op, tail) for op in ops]
    placed = _place(ops, graph, table, floor, slack, facts, after, in_text_order)
    ends = [placed[k] + op.longest for k, op in enumerate(ops)]
    landed = max(ends, default=0)
    if head is not None:
        landed = max([landed, head.length, *head.envelope.lands.values()])
    tail_at = landed
    if tail is not None:
        tail_at = _fit_tail(tail, ops, placed, head, table, facts, number)
        for k, (op, cycle, unit) in enumerate(tail.members):
            table.take(number + k, cycle + tail_at, unit, op.reservation)
    length = max(landed, tail_at + (tail.length if tail is not None else 0))
    branch_at = -1
    if branch is not None:
        branch_at, length = _place_branch(branch, len(ops), graph, placed, floor, table, facts, length)
    cycles: list[list[tuple[Op, int]]] = [[] for _ in range(length)]
    for k, op in enumerate(ops):
        cycles[placed[k]].append((op, table.unit_of[k]))
    if head is not None:
        for k, (op, cycle, _) in enumerate(head.members):
            cycles[cycle].append((op, table.unit_of[len(ops) + k]))
    if tail is not None:
        for k, (op, cycle, _) in enumerate(tail.members):
            cycles[cycle + tail_at].append((op, table.unit_of[number + k]))
    if branch is not None:
        cycles[branch_at].append((branch, table.unit_of[_BRANCH]))
    return Fitted(cycles, tail_at)


def _place(
    ops: Sequence[Op],
    graph: Graph,
    table: ReservationTable,
    floor: Sequence[int],
    slack: Sequence[int],
    facts: Facts,
    after: Live | None,
    in_text_order: bool,
) -> list[int]:
    """The cycle of each operation: by longest path first, or (frugal with registers) none before its predecessor."""
    size = len(ops)
    heights = [0] * size
    for k in range(size - 1, -1, -1):
        heights[k] = max([slack[k], *(heights[t] + latency for t, latency, _ in graph.successors[k] if t < size)])
    cycle = [-1] * size
    waiting = [sum(1 for s, _, _ in graph.predecessors[k] if s < size) for k in range(size)]
    ready = [k for k in range(size) if waiting[k] == 0]
    in_order = after is not None or in_text_order
    rank = [-h for h in heights]
    if in_text_order:
        rank = list(range(size))
    elif after is not None:
        room = {c.name: len(set(c.names) - facts.untouchable) for c in facts.target.registers}
        rank = frugal_order(ops, graph, heights, facts, after, room)
    last = 0
    while ready:
        op = min(ready, key=lambda k: (rank[k], k))
        ready.remove(op)
        earliest = max([floor[op], 0, *(cycle[s] + latency for s, latency, _ in graph.predecessors[op])])
        at = max(earliest, last) if in_order else earliest
        while not table.place(op, at, ops[op].reservation):
            at += 1
        cycle[op] = at
        last = at if in_order else 0
        for target, _, _ in graph.successors[op]:
            if target < size:
                waiting[target] -= 1
                if waiting[target] == 0:
                    ready.append(target)
    return cycle


def _after_head(op: Op, head: Envelope, facts: Facts) -> int:
    """The first cycle at which an operation may issue after a rigid piece, by registers, memory and order."""
    earliest = 0
    for atom, late in op.reads:
        if atom in head.lands:
            earliest = max(earliest, head.lands[atom] - late)
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
    if op.ordered and head.ordered is not None:
        earliest = max(earliest, head.ordered)
    return earliest


def _before_tail(op: Op, tail: Section | None) -> int:
    """How many cycles before the tail's end the operation should issue: its height above the tail."""
    if tail is None:
        return op.longest
    height = op.longest
    for atom, latency in op.writes:
        if atom in tail.envelope.reads:
            height = max(height, tail.length + latency - tail.envelope.reads[atom])
    return height


def _fit_tail(
    tail: Section,
    ops: Sequence[Op],
    placed: Sequence[int],
    head: Section | None,
    table: ReservationTable,
    facts: Facts,
    number: int,
) -> int:
    """The earliest start of the tail: its inputs are there, its units are free, and nothing lands after its end."""
    at = 0
    envelope = tail.envelope
    for k, op in enumerate(ops):
        at = max(at, placed[k] + op.longest - tail.length, placed[k] + 1 - tail.length)
        for atom, latency in op.writes:
            if atom in envelope.reads:
                at = max(at, placed[k] + latency - envelope.reads[atom])
            if atom in envelope.lands:
                at = max(at, placed[k] + latency + 1 - envelope.lands[atom])
        for atom, late in op.reads:
            if atom in envelope.lands:
                at = max(at, placed[k] + late + 1 - envelope.lands[atom])
        if op.touches_memory:
            after = touching(envelope.stores, op)
            if op.is_store:
                after += touching(envelope.loads, op)
            at = max([at, *(placed[k] + 1 - t for t in after)])
        if op.ordered and envelope.ordered is not None:
            at = max(at, placed[k] + op.longest - envelope.ordered)
    if head is not None:
        at = max(at, _tail_after_head(head, tail))
    members = [(number + k, cycle, unit, op.reservation) for k, (op, cycle, unit) in enumerate(tail.members)]
    while not table.fits(members, at):
        at += 1
    return at


def _tail_after_head(head: Section, tail: Section) -> int:
    before, after = head.envelope, tail.envelope
    at = max(0, head.length - tail.length, *(t - tail.length for t in before.lands.values()), 0)
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


def _place_branch(
    branch: Op,
    index: int,
    graph: Graph,
    placed: Sequence[int],
    floor: Sequence[int],
    table: ReservationTable,
    facts: Facts,
    length: int,
) -> tuple[int, int]:
    """Where the branch issues, and the block's length with its delay slots."""
    at = max([floor[index], length - 1 - facts.branch_delay, 0])
    for source, latency, _ in graph.predecessors[index]:
        if source < len(placed):
            at = max(at, placed[source] + latency)
    while not table.place(_BRANCH, at, branch.reservation):
        at += 1
    return at, max(length, at + 1 + facts.branch_delay)
