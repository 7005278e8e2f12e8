"""Iterative modulo scheduling (B. R. Rau, "Iterative Modulo Scheduling", 1996), then a pass that shortens lifetimes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from heapq import heappop, heappush

from dspgen.sched.graph.dependence_graph import Graph, all_edges
from dspgen.sched.machine.modulo_schedule import ModuloSchedule
from dspgen.sched.machine.reservation_table import Closing, ReservationTable, loop_table
from dspgen.sched.machine.target_facts import Facts, Reservation

Edge = tuple[int, int, int, int]  # source, target, latency, distance in iterations

GAVE_UP = "no schedule found in the search budget"
ALL_OR_NONE = "all or none of its operations are on cycles of dependences"
LONGER = "a dependence cycle is longer"
_BUDGET = 6  # operations placed, per operation of the body, before an interval is given up


def recurrence_bound(graph: Graph) -> Fraction:
    """The largest latency over distance of any cycle of dependences."""
    return _rate(critical_recurrence(graph))


def critical_recurrence(graph: Graph) -> list[Edge]:
    """The cycle of dependences with the largest latency over distance, in order; none where no cycle takes time."""
    edges = _cyclic_edges(graph)
    nodes = sorted({e[0] for e in edges} | {e[1] for e in edges})
    number = {node: k for k, node in enumerate(nodes)}
    compact = [(number[a], number[b], latency, distance) for a, b, latency, distance in edges]
    critical: list[Edge] = []
    while (worse := _worse_cycle(len(nodes), compact, _rate(critical))) is not None:
        critical = worse
    return [(nodes[a], nodes[b], latency, distance) for a, b, latency, distance in critical]


def _rate(cycle: Sequence[Edge]) -> Fraction:
    return Fraction(sum(e[2] for e in cycle), sum(e[3] for e in cycle)) if cycle else Fraction(0)


def _worse_cycle(size: int, edges: list[Edge], bound: Fraction) -> list[Edge] | None:
    """A cycle whose ratio exceeds `bound`, or None (Bellman and Ford on latency - bound * distance)."""
    p, q = bound.numerator, bound.denominator
    reach = [0] * size
    via: list[Edge | None] = [None] * size
    for _ in range(size + 1):
        last = -1
        for edge in edges:
            a, b, latency, distance = edge
            value = reach[a] + latency * q - distance * p
            if value > reach[b]:
                reach[b] = value
                via[b] = edge
                last = b
        if last < 0:
            return None
        if (found := _parent_cycle(via, last)) is not None:
            return found
    return None


def _parent_cycle(via: list[Edge | None], node: int) -> list[Edge] | None:
    """The cycle that the chain of best edges into `node` closes, if it does."""
    seen: dict[int, None] = {}
    while node not in seen:
        seen[node] = None
        edge = via[node]
        if edge is None:
            return None
        node = edge[0]
    start, cycle = node, list[Edge]()
    while True:
        edge = via[node]
        if edge is None:
            return None
        cycle.append(edge)
        node = edge[0]
        if node == start:
            break
    if sum(e[3] for e in cycle) <= 0:
        raise ValueError("a dependence cycle within one iteration")
    return cycle[::-1]


def _cyclic_edges(graph: Graph) -> list[Edge]:
    """The edges inside strongly connected components (Tarjan, without recursion)."""
    component = _components(graph)
    return [e for e in all_edges(graph) if component[e[0]] == component[e[1]]]


def _components(graph: Graph) -> list[int]:
    order: list[int] = [-1] * graph.size
    low: list[int] = [0] * graph.size
    component: list[int] = [-1] * graph.size
    stack: list[int] = []
    counter = found = 0
    for root in range(graph.size):
        if order[root] >= 0:
            continue
        work = [(root, 0)]
        while work:
            node, edge = work.pop()
            if edge == 0:
                order[node] = low[node] = counter
                counter += 1
                stack.append(node)
            successors = graph.successors[node]
            descended = False
            while edge < len(successors):
                other = successors[edge][0]
                edge += 1
                if order[other] < 0:
                    work += [(node, edge), (other, 0)]
                    descended = True
                    break
                if component[other] < 0:
                    low[node] = min(low[node], order[other])
            if descended:
                continue
            if low[node] == order[node]:
                while True:
                    member = stack.pop()
                    component[member] = found
                    if member == node:
                        break
                found += 1
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[node])
    return component


def modulo_schedule(
    graph: Graph,
    reservations: Sequence[Reservation],
    facts: Facts,
    interval: int,
    *,
    times: int = 1,
    closing: Closing = (),
) -> ModuloSchedule | str:
    """A schedule at this initiation interval, or why there is none. It gives up `times` as late. What is `closing` each
    iteration keeps its place."""
    heights = _heights(graph, interval)
    if heights is None:
        return LONGER
    table = loop_table(facts, interval, closing)
    return _iterative(graph, reservations, facts, interval, heights, [0] * graph.size, times, table)


def modulo_schedule_cyclic(
    graph: Graph,
    reservations: Sequence[Reservation],
    facts: Facts,
    interval: int,
    *,
    times: int = 1,
    closing: Closing = (),
) -> ModuloSchedule | str:
    """Like `modulo_schedule`, but operations on cycles of dependences come first, at the cycles that they can have at
    the earliest: they find the units free that others may take at any time."""
    heights, soonest = _heights(graph, interval), _heights(_backward(graph), interval, backward=True)
    if heights is None or soonest is None:
        return LONGER
    component = _components(graph)
    sizes = Counter(component)
    cyclic = [sizes[c] > 1 for c in component]
    if all(cyclic) or not any(cyclic):
        return ALL_OR_NONE
    above = max(heights) + 1
    worth = [h + above if c else h for h, c in zip(heights, cyclic, strict=True)]
    first = [s if c else 0 for s, c in zip(soonest, cyclic, strict=True)]
    return _iterative(graph, reservations, facts, interval, worth, first, times, loop_table(facts, interval, closing))


def _iterative(
    graph: Graph,
    reservations: Sequence[Reservation],
    facts: Facts,
    interval: int,
    heights: Sequence[int],
    first: Sequence[int],
    times: int,
    table: ReservationTable,
) -> ModuloSchedule | str:
    """Operations in the order of `heights`, none before its `first` cycle."""
    cycle: list[int | None] = [None] * graph.size
    last_tried = [-1] * graph.size
    budget = times * (_BUDGET * graph.size + 64)
    key = [(-heights[k], len(reservations[k].alternatives), k) for k in range(graph.size)]
    waiting = sorted(key)
    while waiting:
        if budget == 0:
            return GAVE_UP
        budget -= 1
        op = heappop(waiting)[2]
        earliest = first[op]
        for source, latency, distance in graph.predecessors[op]:
            at = cycle[source]
            if at is not None and source != op:
                earliest = max(earliest, at + latency - distance * interval)
        placed = table.place_around(op, earliest, reservations[op])
        if placed is None:
            placed = earliest if last_tried[op] < earliest else last_tried[op] + 1
            placed, victims = cleared(table, placed, reservations[op], heights)
            for victim in victims:
                table.remove(victim)
                cycle[victim] = None
                heappush(waiting, key[victim])
            if not table.place(op, placed, reservations[op]):
                return "the units of one operation are always taken"
        cycle[op] = placed
        last_tried[op] = max(last_tried[op], placed)
        for target, latency, distance in graph.successors[op]:
            at_target = cycle[target]
            if at_target is not None and target != op and at_target < placed + latency - distance * interval:
                table.remove(target)
                cycle[target] = None
                heappush(waiting, key[target])
    cycles = [c for c in cycle if c is not None]
    _normalise(cycles, table)
    return ModuloSchedule(interval, cycles, table)


def cleared(
    table: ReservationTable, cycle: int, reservation: Reservation, worth: Sequence[int]
) -> tuple[int, list[int]]:
    """The first cycle from this one on in which an operation finds room once others make it, and these others."""
    for at in range(cycle, cycle + (table.interval or 1)):
        if (victims := table.blockers(at, reservation, worth)) is not None:
            return at, victims
    return cycle, []


def modulo_schedule_late(
    graph: Graph,
    reservations: Sequence[Reservation],
    facts: Facts,
    interval: int,
    *,
    times: int = 1,
    closing: Closing = (),
) -> ModuloSchedule | str:
    """Like `modulo_schedule`, from the end of the iteration: everything as late as its readers allow."""
    heights = _heights(_backward(graph), interval, backward=True)
    if heights is None:
        return LONGER
    before = loop_table(facts, interval, closing, backward=True)
    found = _iterative(_backward(graph), reservations, facts, interval, heights, [0] * graph.size, times, before)
    if isinstance(found, str):
        return found
    end = max(found.cycles, default=0)
    # Where a branch ends the iterations, the latest start at which the kernel's has room.
    for shift in range(interval if closing else 1):
        table = loop_table(facts, interval, closing)
        cycles = [end + shift - c for c in found.cycles]
        if all(table.place(op, cycle, reservations[op]) for op, cycle in enumerate(cycles)):
            return ModuloSchedule(interval, cycles, table)
    return "no schedule found from the end of the iteration"


def _backward(graph: Graph) -> Graph:
    return Graph(graph.size, graph.predecessors, graph.successors)


def _normalise(cycles: list[int], table: ReservationTable) -> None:
    """Cycles are kept as they are: rows are modulo the interval, so whole intervals before the first can go."""
    interval = table.interval or 1
    shift = min(cycles, default=0) // interval * interval
    if shift:
        for op in range(len(cycles)):
            cycles[op] -= shift
            table.cycle_of[op] -= shift


def _heights(graph: Graph, interval: int, *, backward: bool = False) -> list[int] | None:
    """Longest path to the end of the iteration, cycles of dependences included; None if one does not fit. `backward`:
    successors come earlier in the text."""
    heights = [0] * graph.size
    order = range(graph.size) if backward else range(graph.size - 1, -1, -1)
    for _ in range(graph.size + 1):
        changed = False
        for node in order:
            best = heights[node]
            for target, latency, distance in graph.successors[node]:
                value = heights[target] + latency - distance * interval
                if value > best:
                    best = value
            if best > heights[node]:
                heights[node] = best
                changed = True
        if not changed:
            return heights
    return None


def longest_path(graph: Graph, interval: int) -> int:
    """The cycles from the first issue of an iteration to the last, at least; 0 where a dependence cycle is longer."""
    return max(_heights(graph, interval) or [], default=-1) + 1


def shorten_lifetimes(
    graph: Graph,
    reservations: Sequence[Reservation],
    schedule: ModuloSchedule,
    values: Sequence[tuple[int, int, Sequence[tuple[int, int]]]],
    *,
    weights: Sequence[int] = (),
    passes: int = 4,
) -> None:
    """Move operations within their slack so that values wait less in registers.

    `values` are (writer, latency, ((reader, cycles from its issue to the read, distances included), ...)); `weights`,
    if any, tell how much each of them matters.
    """
    interval, table, cycles = schedule.interval, schedule.table, schedule.cycles
    touched: dict[int, dict[int, tuple[int, int, Sequence[tuple[int, int]], int]]] = {}  # of each operation
    for index, (writer, latency, readers) in enumerate(values):
        for op in (writer, *(reader for reader, _ in readers)):
            touched.setdefault(op, {})[index] = writer, latency, readers, weights[index] if weights else 1
    affected = {op: list(found.values()) for op, found in touched.items()}

    def cost(op: int) -> int:
        total = 0
        for writer, latency, readers, weight in affected[op]:
            start = end = cycles[writer] + latency
            for reader, late in readers:
                if (read := cycles[reader] + late) > end:
                    end = read
            total += weight * (2 * (end - start) + 12 * ((end - start) // interval))
        return total

    before = [_waits(edges, k, interval) for k, edges in enumerate(graph.predecessors)]
    after = [_waits(edges, k, interval) for k, edges in enumerate(graph.successors)]
    for round_number in range(passes):
        moved = False
        order = sorted(range(graph.size), key=lambda k: (-cycles[k], k) if round_number % 2 == 0 else (cycles[k], k))
        for op in order:
            if op not in affected:
                continue
            here = cycles[op]
            early = max([0, here - 2 * interval, *[cycles[s] + wait for s, wait in before[op]]])
            late = min([here + 2 * interval, *[cycles[t] - wait for t, wait in after[op]]])
            if early >= here >= late:
                continue
            now = cost(op)
            for ahead, end in ((1, late), (-1, early)):
                if (end - here) * ahead <= 0:
                    continue
                # The cost is linear in pieces: if the next cycle is no better, the far ones seldom are.
                cycles[op] = here + ahead
                better = cost(op) < now
                cycles[op] = here
                best = table.farthest(op, end, reservations[op]) if better else here
                cycles[op] = best
                if best != here and cost(op) < now:
                    table.remove(op)
                    table.place(op, best, reservations[op])
                    moved = True
                    break
                cycles[op] = here
        if not moved:
            break
    _normalise(cycles, table)


def _waits(edges: Sequence[tuple[int, int, int]], op: int, interval: int) -> list[tuple[int, int]]:
    """The other ends of an operation's dependences, and the cycles between the two within one iteration."""
    return [(other, latency - distance * interval) for other, latency, distance in edges if other != op]
