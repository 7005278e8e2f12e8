"""What rules ask about constants and ranges, and loads worth having in the graph for rules to use."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace

from dspgen.rewrite.egraph import Fact
from dspgen.rewrite.graph import Node, TermGraph, constant_text
from dspgen.rewrite.machine import Machine
from dspgen.rewrite.patterns import COMPARISONS, FLOATS
from dspgen.rewrite.region import load_elements
from dspgen.vecdsl.ir import Address

Readable = Callable[[str, Address, int, int], bool]
_WRAP = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767), "u16": (0, 65535)}
_I32 = (-(1 << 31), (1 << 31) - 1)
_RESULTS = {"sext8": _WRAP["i8"], "sext16": _WRAP["i16"], "zext8": _WRAP["u8"], "zext16": _WRAP["u16"]}
_PASSES = frozenset({"bcast", "lane", "dup_lane", "reverse", "lo", "hi", "align", "even", "odd", "zip_lo", "zip_hi",
                     "pair", "bcast_pair", "mov", "min", "max", "insert"})  # fmt: skip


def facts_of(graph: TermGraph, relations: frozenset[str]) -> list[Fact]:
    """The facts of these relations. Adds the constants that they name to the graph."""
    found: list[Fact] = []
    for number, node in enumerate(list(graph.nodes)):
        if node.kind == "const":
            found += _constant_facts(graph, number, node, relations)
        elif "log2" in relations and node.op == "shl" and graph.nodes[node.args[1]].kind == "const":
            count = int(graph.nodes[node.args[1]].text)
            if 1 <= count <= 30:
                power = graph.add(replace(graph.nodes[node.args[1]], text=str(1 << count)))
                found.append(Fact("log2", (power, node.args[1])))
    if "short16" in relations:
        low, high = _WRAP["i16"]
        ranges = _ranges(graph)
        found += [Fact("short16", (n,)) for n, r in enumerate(ranges) if r is not None and low <= r[0] and r[1] <= high]
    return list(dict.fromkeys(found))


def _constant_facts(graph: TermGraph, number: int, node: Node, relations: frozenset[str]) -> list[Fact]:
    found = []

    def fact(relation: str, value: int | float) -> None:
        if relation in relations:
            other = graph.add(replace(node, text=constant_text(value, node.elem)))
            found.append(Fact(relation, (number, other)))

    if node.elem in FLOATS:
        value = float(node.text)
        if node.elem == "f32":
            value = _single(value)
        if value and not math.isnan(value):
            fact("negated", -value)
        if math.isfinite(value) and 1e-30 < abs(value) < 1e30:
            fact("reciprocal", 1.0 / value)
            if math.frexp(value)[0] in (0.5, -0.5):
                fact("inverse", 1.0 / value)
    else:
        whole = int(node.text)
        if whole != _I32[0]:
            fact("negated", -whole)
        if whole > 1 and whole & (whole - 1) == 0 and whole < 1 << 31:
            fact("log2", whole.bit_length() - 1)
    return found


def _single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _ranges(graph: TermGraph) -> list[tuple[int, int] | None]:
    """For integer nodes, bounds of the value where they are known to hold without wrapping."""
    ranges: list[tuple[int, int] | None] = []
    for node in graph.nodes:
        found: tuple[int, int] | None = None
        args = [ranges[a] for a in node.args]
        if node.kind == "const" and node.elem not in FLOATS:
            found = (int(node.text), int(node.text))
        elif node.kind in ("ld", "ld_pair"):
            found = _WRAP.get(graph.memories[node.memory].elem)
        elif node.op in COMPARISONS:
            found = (0, 1)
        elif node.op in _RESULTS:
            found = _RESULTS[node.op]
        elif node.kind == "op" and args and all(a is not None for a in args):
            found = _computed(node, [a for a in args if a is not None])
        ranges.append(found)
    return ranges


def _computed(node: Node, args: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    low, high = min(a[0] for a in args), max(a[1] for a in args)
    match node.op:
        case op if op in _PASSES:
            pass
        case "add":
            low, high = args[0][0] + args[1][0], args[0][1] + args[1][1]
        case "sub":
            low, high = args[0][0] - args[1][1], args[0][1] - args[1][0]
        case "neg":
            low, high = -args[0][1], -args[0][0]
        case "select":
            low, high = min(a[0] for a in args[1:]), max(a[1] for a in args[1:])
        case _:
            return None
    return (low, high) if _I32[0] <= low and high <= _I32[1] else None


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


def _propose_spreads(
    graph: TermGraph, machine: Machine, allowed: Readable, alignment: Callable[[int, int], int]
) -> None:
    """Vector loads over scalars that are broadcast."""
    spread = {n.args[0] for n in graph.nodes if n.op == "bcast" and graph.nodes[n.args[0]].kind == "ld"}
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
        if node.kind in ("ld", "ld_pair"):
            memory = graph.memories[node.memory]
            covered.setdefault((memory.array, memory.terms), set()).update(load_elements(node, lanes))

    def readable(array: str, address: Address, low: int, high: int) -> bool:
        have = covered.get((array, address.terms), set())
        return all(address.constant + e in have for e in range(low, high + 1))

    return readable
