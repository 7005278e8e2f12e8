"""Dependence graphs: of straight code, and of a loop body with iteration distances.

An edge (source, target, latency, distance) says: target's cycle + distance * II >= source's cycle + latency.
Latencies may be negative: a write that lands late may issue before an earlier read of the old value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd

from dspgen.asmir.ir.function import PATTERNS, UNKNOWN, Loop, MemRef, VReg
from dspgen.sched.graph.disjoint_predicates import Guard, guards_of
from dspgen.sched.graph.forwarding import forwards
from dspgen.sched.graph.implicit_registers import glued
from dspgen.sched.graph.values import Values
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.target_facts import Atom, Facts

_FAR = 64  # iterations looked ahead for an overlap before a dependence is taken for granted


@dataclass(slots=True)
class Graph:
    """`successors[i]` and `predecessors[i]` hold (other, latency, distance)."""

    size: int
    successors: list[list[tuple[int, int, int]]]
    predecessors: list[list[tuple[int, int, int]]]


class _Edges:
    def __init__(self) -> None:
        self.latency: dict[tuple[int, int, int], int] = {}

    def add(self, source: int, target: int, latency: int, distance: int = 0) -> None:
        if source == target and distance == 0:
            return
        key = (source, target, distance)
        if self.latency.get(key, latency - 1) < latency:
            self.latency[key] = latency

    def graph(self, size: int) -> Graph:
        successors: list[list[tuple[int, int, int]]] = [[] for _ in range(size)]
        predecessors: list[list[tuple[int, int, int]]] = [[] for _ in range(size)]
        for (source, target, distance), latency in self.latency.items():
            successors[source].append((target, latency, distance))
            predecessors[target].append((source, latency, distance))
        return Graph(size, successors, predecessors)


def straight_graph(ops: Sequence[Op], facts: Facts) -> Graph:
    """All dependences of straight code, by register name, memory and order."""
    edges = _Edges()
    _register_edges(ops, facts, None, edges, loop=False)
    _memory_edges(ops, edges)
    _frame_edges(ops, facts, edges)
    _ordered_edges(ops, edges, loop=False)
    return edges.graph(len(ops))


def loop_graph(ops: Sequence[Op], facts: Facts, values: Values, loop: Loop, own: Collection[Atom] = ()) -> Graph:
    """Dependences of a `loop`'s body whose renamable webs have a register per iteration. Each write of the registers
    `own` lands just as its reader reads it (`windows.with_own_values`)."""
    edges = _Edges()
    tracked: set[Atom] = {v.atom for v in values.versions}
    physical = {a for op in ops for a, _ in (*op.reads, *op.writes) if not isinstance(a[0], VReg)}
    fixed = {a for w in values.webs if w.fixed for a in facts.atoms(w.register)}
    _register_edges(ops, facts, (physical - set(own)) | fixed, edges, loop=True)
    for atom in own:
        for writer, reader, cycles in glued(ops, atom):
            edges.add(writer, reader, cycles)
            edges.add(reader, writer, -cycles)
    _value_edges(ops, facts, values, tracked - fixed, edges)
    _carried_memory_edges(ops, edges, loop)
    _ordered_edges(ops, edges, loop=True)
    return edges.graph(len(ops))


class _History:
    """The writes of a register so far, and the reads since that may have to go before the next one.

    Writes land in their order. Reads and writes of which one is under a predicate and one under its complement may go
    in any order.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.writers: list[tuple[int, int, Guard | None]] = []
        self.readers: list[tuple[int, int, Guard | None]] = []

    def read(self, place: int, cycle: int, guard: Guard | None, early: int = 0) -> Iterator[tuple[int, int, int]]:
        """Dependences (source, target, latency) of a read `cycle` cycles after issue, for which results are wanted
        `early`."""
        yield from self.seen(place, cycle - early, guard)
        self.readers.append((place, cycle, guard))

    def seen(self, place: int, cycle: int, guard: Guard | None) -> Iterator[tuple[int, int, int]]:
        for writer, latency, other in reversed(self.writers):
            if guard is None or guard.complement != other:
                yield writer, place, self.facts.wait(latency, cycle)
                return

    def write(self, place: int, latency: int, guard: Guard | None) -> Iterator[tuple[int, int, int]]:
        landing = self.facts.landing(latency)
        left: list[tuple[int, int, Guard | None]] = []
        for reader, cycle, other in self.readers:
            if guard is not None and guard.complement == other:
                left.append((reader, cycle, other))
            else:
                yield reader, place, cycle + 1 - landing
        if self.writers:
            writer, earlier, _ = self.writers[-1]
            yield writer, place, earlier + 1 - landing
        self.readers = left
        self.writers = [*(self.writers if guard is not None else ()), (place, latency, guard)]


def _value_edges(ops: Sequence[Op], facts: Facts, values: Values, atoms: set[Atom], edges: _Edges) -> None:
    """True dependences of renamable webs, and order within a web."""
    guards, size = guards_of(ops, 2), len(ops)
    histories: dict[tuple[int, Atom], _History] = {}
    for index, version in enumerate(values.versions):
        if version.atom not in atoms or version.writer < 0:
            continue
        history = histories.setdefault((values.web_of[index], version.atom), _History(facts))
        found = [*history.write(version.writer, version.latency, guards.of_write(version.writer))]
        for reader, cycle in version.readers:
            found += history.read(
                reader, cycle, guards.of_read(reader, version.atom), ops[reader].early.get(version.atom, 0)
            )
        for source, target, latency in found:
            near = latency > 0 and source == version.writer and forwards(ops[source], ops[target], version.atom, facts)
            edges.add(source, target, 0 if near else latency)
    for index, version in enumerate(values.versions):
        if version.atom not in atoms or version.writer >= 0 or index not in values.inherited:
            continue
        key = values.web_of[values.inherited[index]], version.atom
        for reader, cycle in version.readers if key in histories else ():
            guard = guards.of_read(size + reader, version.atom)
            wanted = cycle - ops[reader].early.get(version.atom, 0)
            for source, target, latency in histories[key].seen(reader, wanted, guard):
                edges.add(source, target, latency, 1)


def _register_edges(ops: Sequence[Op], facts: Facts, atoms: set[Atom] | None, edges: _Edges, *, loop: bool) -> None:
    """Flow, anti and output dependences by name; over two iterations where `loop`."""
    size = len(ops)
    guards = guards_of(ops, 2 if loop else 1)
    histories: dict[Atom, _History] = {}
    for position in range(size * 2 if loop else size):
        op = ops[position % size]
        for atom, cycle in op.reads:
            if atoms is not None and atom not in atoms:
                continue
            history = histories.setdefault(atom, _History(facts))
            for source, _, latency in history.read(
                position, cycle, guards.of_read(position, atom), op.early.get(atom, 0)
            ):
                if not loop and forwards(ops[source], op, atom, facts):
                    latency = 0
                _add(edges, source, position, latency, size)
        for atom, latency in op.writes:
            if atoms is not None and atom not in atoms:
                continue
            history = histories.setdefault(atom, _History(facts))
            for source, _, wait in history.write(position, latency, guards.of_write(position)):
                _add(edges, source, position, wait, size)


def _add(edges: _Edges, source: int, target: int, latency: int, size: int) -> None:
    if source >= size:
        return
    edges.add(source, target % size, latency, 1 if target >= size else 0)


def _memory_edges(ops: Sequence[Op], edges: _Edges) -> None:
    """Order among the accesses of straight code that may meet, where one of them stores."""
    touching = [(k, op, op.access, *_extent(op.access)) for k, op in enumerate(ops) if op.touches_memory]
    stores = [entry for entry in touching if entry[1].is_store]
    stored = 0  # stores among those looked at
    guards = guards_of(ops)
    for i, (a, first, access, low, high) in enumerate(touching):
        store = first.is_store
        stored += store
        for b, second, other, low_b, high_b in touching[i + 1 :] if store else stores[stored:]:
            if access is not None and other is not None and access.array == other.array:
                if access.terms == other.terms and (low_b >= high or low >= high_b or not _overlap(access, other, 0)):
                    continue
            elif access is not None and other is not None and not may_share(access, other):
                continue
            if (guard := guards.reading[a]) is None or guard.complement != guards.reading[b]:
                edges.add(a, b, _memory_latency(first, second))


def _frame_edges(ops: Sequence[Op], facts: Facts, edges: _Edges) -> None:
    """Where nothing may lie below a stack pointer, it is moved after all accesses above: they may be to the frame, by
    way of other registers."""
    touching: list[int] = []
    for k, op in enumerate(ops):
        if moves_stack(op, facts):
            for earlier in touching:
                edges.add(earlier, k, 0)
        if op.touches_memory:
            touching.append(k)


def moves_stack(op: Op, facts: Facts) -> bool:
    """Whether it moves a pointer below which nothing may lie."""
    abi = facts.target.abi
    return abi.red_zone is not None and any(a[0] in (abi.scalar_stack, abi.vector_stack) for a, _ in op.writes)


def _extent(ref: MemRef | None) -> tuple[int, int]:
    return (0, 0) if ref is None else _hull(ref)


def _carried_memory_edges(ops: Sequence[Op], edges: _Edges, loop: Loop) -> None:
    """The same in a loop's body, over its iterations."""
    touching = [(k, op) for k, op in enumerate(ops) if op.touches_memory]
    guards = guards_of(ops)
    for i, (a, first) in enumerate(touching):
        for b, second in touching[i:]:
            if not first.is_store and not second.is_store:
                continue
            guard = guards.reading[a]
            apart = guard is not None and guard.complement == guards.reading[b]
            if a != b and not apart and overlap_distance(first.access, second.access, loop, 0) == 0:
                edges.add(a, b, _memory_latency(first, second))
            for x, earlier, y, later in ((a, first, b, second), (b, second, a, first)):
                distance = overlap_distance(earlier.access, later.access, loop, 1)
                if distance is not None:
                    edges.add(x, y, _memory_latency(earlier, later), distance)


def _memory_latency(first: Op, second: Op) -> int:
    """A load issues when it sees the store; of two stores the later lands last; a load is past when a store issues."""
    if first.is_store:
        return max(first.seen - (second.seen - 1 if second.is_store else 0), 1)
    return 1


def overlap_distance(first: MemRef | None, second: MemRef | None, loop: Loop, least: int) -> int | None:
    """The least d >= `least` at which `second`, d iterations after `first`, may touch its bytes; None if never."""
    if first is None or second is None:
        return least
    if first.array != second.array:
        return least if may_share(first, second) else None
    names = [name for name, _ in first.terms]
    if first.terms != second.terms or (least and any(n.startswith(UNKNOWN) or n in loop.varying for n in names)):
        return least
    advance = dict(first.terms).get(loop.iterator, 0) * loop.step
    if advance == 0:
        return least if _overlap(first, second, 0) else None
    low_a, high_a = _hull(first)
    low_b, high_b = _hull(second)
    # Hulls overlap where low_b + advance * d < high_a and high_b + advance * d > low_a.
    if advance > 0:
        from_d, to_d = -((high_b - low_a - 1) // advance), (high_a - low_b - 1) // advance
    else:
        from_d, to_d = -((high_a - low_b - 1) // -advance), (high_b - low_a - 1) // -advance
    start = max(from_d, least)
    for d in range(start, min(to_d, start + _FAR) + 1):
        if _overlap(first, second, advance * d):
            return d
    return start + _FAR + 1 if to_d > start + _FAR else None


def may_share(first: MemRef, second: MemRef) -> bool:
    """Whether accesses to different arrays may meet all the same."""
    if first.shared:
        return second.shared or second.array == PATTERNS
    return second.shared and first.array == PATTERNS


def _hull(ref: MemRef) -> tuple[int, int]:
    reach = (ref.count - 1) * ref.stride
    return ref.constant + min(reach, 0), ref.constant + max(reach, 0) + ref.size


def _overlap(first: MemRef, second: MemRef, shift: int) -> bool:
    low_a, high_a = _hull(first)
    low_b, high_b = _hull(second)
    if low_b + shift >= high_a or high_b + shift <= low_a:
        return False
    period = gcd(first.stride if first.count > 1 else 0, second.stride if second.count > 1 else 0)
    if period == 0:
        return True
    offset = (second.constant + shift - first.constant) % abs(period)
    return offset < first.size or abs(period) - offset < second.size


def _ordered_edges(ops: Sequence[Op], edges: _Edges, *, loop: bool) -> None:
    chain = [k for k, op in enumerate(ops) if op.ordered]
    for a, b in zip(chain, chain[1:], strict=False):
        edges.add(a, b, ops[a].longest)
    if loop and chain:
        edges.add(chain[-1], chain[0], ops[chain[-1]].longest, 1)


def all_edges(graph: Graph) -> Iterable[tuple[int, int, int, int]]:
    for source, targets in enumerate(graph.successors):
        for target, latency, distance in targets:
            yield source, target, latency, distance
