"""Loads worth having in the graph for rules to use, and the shapes of accesses that rules are made for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dspgen.rewrite.cost.operation_costs import Machine
from dspgen.rewrite.graph.enodes import LOADS, Node, TermGraph
from dspgen.rewrite.graph.region import lane_offset, load_elements
from dspgen.rewrite.rules.shapes import MOST_LOADS, Shape
from dspgen.vecdsl.ir.program import Address

Readable = Callable[[str, Address, int, int], bool]


def propose_loads(
    graph: TermGraph, machine: Machine, readable: Readable | None, alignment: Callable[[int, int], int]
) -> None:
    """Add loads that rules may use: partners of strided ones, aligned windows, vectors of scalars to spread.

    They touch memory that the program may not read: only what `readable` allows, or what the region's loads cover.
    `alignment(memory, constant)` is an address's, in bytes.
    """
    allowed = _covering(graph, machine.lanes) if readable is None else readable
    lanes = machine.lanes
    for node in [n for n in graph.nodes if n.kind == "ld"]:
        memory = graph.memories[node.memory]
        _propose_parts(graph, machine, node, allowed, alignment)
        if node.op != "ld":
            continue

        def can(low: int, high: int, node: Node = node) -> bool:
            memory = graph.memories[node.memory]
            return allowed(memory.array, Address(0, memory.terms), low, high)

        here = node.constant
        if node.vector and node.stride in (2, 4) and machine.has_load("ld_pair", node.stride, vector=True):
            best = max((here, here - 1), key=lambda c: (alignment(node.memory, c), c))
            span = node.stride * (lanes - 1) + 1
            if can(best, best + span):
                graph.add(replace(node, constant=best))
                graph.add(replace(node, constant=best + 1))
        if node.vector and node.stride == 2 and machine.has("even", node.elem, vector=True):
            if can(here, here + 2 * lanes - 1):
                graph.add(replace(node, stride=1))
                graph.add(replace(node, stride=1, constant=here + lanes))
        if node.vector and node.stride == 1 and machine.has("align", node.elem, vector=True):
            want = machine.load_alignment(memory.elem)
            start = next((c for c in range(here, here - lanes, -1) if alignment(node.memory, c) >= want), None)
            if start is not None and start != here and can(start, start + 2 * lanes - 1):
                graph.add(replace(node, constant=start))
                graph.add(replace(node, constant=start + lanes))
    if machine.has("dup_lane", "i32", vector=True):
        _propose_spreads(graph, machine, allowed, alignment)


def _propose_parts(
    graph: TermGraph, machine: Machine, node: Node, allowed: Readable, alignment: Callable[[int, int], int]
) -> None:
    """The contiguous loads that one of irregular places can be made of, and the whole one of which one is masked."""
    memory, lanes = graph.memories[node.memory], machine.lanes

    def add(*places: int, stride: int = 1) -> None:
        span = stride * (lanes - 1)
        if all(allowed(memory.array, Address(0, memory.terms), p, p + span) for p in places):
            for place in places:
                graph.add(Node("ld", "ld", node.elem, True, memory=node.memory, constant=place, stride=stride))

    if node.op == "ldm" and node.vector and node.stride > 0:
        add(node.constant, stride=node.stride)
    if node.op == "ld2" and node.stride == 1:
        rows = lanes // node.period
        add(*(node.constant + r * (node.jump - node.period) for r in range(rows)))
        add(*(node.constant + r * node.jump for r in range(rows)))
    if node.op == "ld" and node.stride == 4 and machine.has("even", node.elem, vector=True):
        if machine.has_load("ld", 2, vector=True):
            add(node.constant, node.constant + 2 * lanes, stride=2)
    offsets = _irregular(graph, node, lanes)
    if offsets and any(machine.has(op, node.elem, vector=True) for op in ("shuffle", "shuffle2")):
        low, high = node.constant + min(offsets), node.constant + max(offsets)
        want = machine.load_alignment(memory.elem)
        aligned = next((c for c in range(low, low - lanes, -1) if alignment(node.memory, c) >= want), low)
        for start in dict.fromkeys((aligned, low)):
            count = (high - start) // lanes + 1
            if count <= MOST_LOADS:
                add(*(start + n * lanes for n in range(count)))


def _irregular(graph: TermGraph, node: Node, lanes: int) -> tuple[int, ...]:
    """How far from its address a vector load reads on each lane, where that is known and not contiguous; else ()."""
    if not node.vector or node.op not in ("ld", "ld2", "ldx") or (node.op == "ld" and node.stride in (0, 1)):
        return ()
    index = graph.nodes[node.args[0]] if node.indexed else None
    if index is not None and index.kind != "vec":
        return ()
    extra = [0] * lanes if index is None else [int(t) for t in index.text.split()]
    return tuple(lane_offset(k, node.stride, node.period, node.jump) + extra[k] for k in range(lanes))


def shapes_of(graph: TermGraph, lanes: int) -> tuple[Shape, ...]:
    """The shapes of irregular loads that lie within a few contiguous ones of the graph."""
    there = {(n.memory, n.constant, n.elem) for n in graph.nodes if n.op == "ld" and n.vector and n.stride == 1}
    found: dict[Shape, None] = {}
    for node in graph.nodes:
        if node.kind != "ld" or not (offsets := _irregular(graph, node, lanes)):
            continue
        words = [node.op + ".T", "?m ?c", str(node.stride)]
        words += [f"{node.period} {node.jump}"] if node.period else []
        words += [f"[{graph.nodes[node.args[0]].text.replace(' ', ',')}]"] if node.indexed else []
        for start in range(min(offsets) - lanes + 1, min(offsets) + 1):
            count = (max(offsets) - start) // lanes + 1
            places = (node.constant + start + n * lanes for n in range(count))
            if count <= MOST_LOADS and all((node.memory, p, node.elem) in there for p in places):
                found[Shape(f"({' '.join(words)})", offsets, start, count)] = None
    return tuple(sorted(found))


def _propose_spreads(
    graph: TermGraph, machine: Machine, allowed: Readable, alignment: Callable[[int, int], int]
) -> None:
    """Vector loads over scalars that are broadcast."""
    spread = {n.args[0] for n in graph.nodes if n.op == "bcast" and graph.nodes[n.args[0]].op == "ld"}
    covered: dict[int, int] = {}
    for number in sorted(spread, key=lambda n: (graph.nodes[n].memory, graph.nodes[n].constant)):
        node = graph.nodes[number]
        memory = graph.memories[node.memory]
        if node.constant < covered.get(node.memory, -(1 << 62)):
            continue
        want = machine.load_alignment(memory.elem)
        candidates = range(node.constant, node.constant - machine.lanes, -1)
        start = next((c for c in candidates if alignment(node.memory, c) >= want), None)
        if start is not None and allowed(memory.array, Address(0, memory.terms), start, start + machine.lanes - 1):
            graph.add(replace(node, vector=True, constant=start, stride=1))
            covered[node.memory] = start + machine.lanes


def _covering(graph: TermGraph, lanes: int) -> Readable:
    """Elements that some load of the region reads."""
    covered: dict[tuple[str, tuple[tuple[str, int], ...]], set[int]] = {}
    for node in graph.nodes:
        if node.kind in LOADS and not node.masked and (touched := load_elements(node, lanes)) is not None:
            memory = graph.memories[node.memory]
            covered.setdefault((memory.array, memory.terms), set()).update(touched)

    def readable(array: str, address: Address, low: int, high: int) -> bool:
        have = covered.get((array, address.terms), set())
        return all(address.constant + e in have for e in range(low, high + 1))

    return readable
