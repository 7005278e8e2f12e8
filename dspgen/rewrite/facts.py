"""What rules ask about constants and ranges."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace

from dspgen.rewrite.engine import Fact
from dspgen.rewrite.graph import LOADS, Node, TermGraph, constant_text
from dspgen.rewrite.patterns import COMPARISONS, FLOATS

_WRAP = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767), "u16": (0, 65535)}
_I32 = (-(1 << 31), (1 << 31) - 1)
_RESULTS = {"sext8": _WRAP["i8"], "sext16": _WRAP["i16"], "zext8": _WRAP["u8"], "zext16": _WRAP["u16"],
            "sat8": _WRAP["i8"], "sat16": _WRAP["i16"], "satu8": _WRAP["u8"], "satu16": _WRAP["u16"],
            "mask_first": (0, 1), "mask_period": (0, 1)}  # fmt: skip
# The result is one of the operands' lanes. A shuffle's isn't: its open lanes are anything.
_PASSES = frozenset("bcast lane dup_lane reverse lo hi align even odd zip_lo zip_hi pair bcast_pair mov insert "
                    "transpose concat vec all_min all_max reduce_min reduce_max".split())  # fmt: skip


def facts_of(graph: TermGraph, relations: frozenset[str], still: Set[int] = frozenset()) -> list[Fact]:
    """The facts of these relations. Adds the constants that they name to the graph.

    `still`: the nodes, by number, that the loop around the region need not compute again in each iteration.
    """
    found: list[Fact] = []
    for number, node in enumerate(list(graph.nodes)):
        if node.kind == "const":
            found += _constant_facts(graph, number, node, relations)
        elif "log2" in relations and node.op == "shl" and graph.nodes[node.args[1]].kind == "const":
            count = int(graph.nodes[node.args[1]].text)
            if 1 <= count <= 30:
                power = graph.add(replace(graph.nodes[node.args[1]], text=str(1 << count)))
                found.append(Fact("log2", (power, node.args[1])))
    if relations & {"short16", "flag"}:
        ranges = _ranges(graph)
        for name, (low, high) in (("short16", _WRAP["i16"]), ("flag", (0, 1))):
            if name in relations:
                inside = (n for n, r in enumerate(ranges) if r is not None and low <= r[0] and r[1] <= high)
                found += [Fact(name, (n,)) for n in inside]
    if "factor" in relations:
        found += [Fact("factor", (n,)) for n, node in enumerate(graph.nodes) if is_factor(node)]
    if "reused" in relations:
        found += [Fact("reused", (n,)) for n in _reused(graph, still)]
    if "number" in relations:
        found += [
            Fact("number", (n,), (int(node.text),))
            for n, node in enumerate(graph.nodes)
            if node.kind == "const" and node.elem not in FLOATS
        ]
    return list(dict.fromkeys(found))


def is_factor(node: Node) -> bool:
    """Whether a common factor of this kind is worth taking out: with 0, 1 and -1 any sum is one of products."""
    return node.kind != "const" or float(node.text) not in (0.0, 1.0, -1.0)


def _reused(graph: TermGraph, still: Set[int]) -> list[int]:
    """The factors of subtracted products that are `still`, or that several of these products have."""
    products: dict[int, None] = {}
    for node in graph.nodes:
        if node.kind == "op" and node.op in ("sub", "neg") and graph.nodes[node.args[-1]].op == "mul":
            products[node.args[-1]] = None
    uses = Counter(factor for p in products for factor in set(graph.nodes[p].args))
    return sorted(f for f, count in uses.items() if count > 1 or f in still)


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
        elif node.kind == "vec" and node.elem not in FLOATS:
            lanes = [int(t) for t in node.text.split()]
            found = (min(lanes), max(lanes))
        elif node.kind in LOADS:
            found = _WRAP.get(graph.memories[node.memory].elem)
            if found is not None and node.masked:
                found = (min(found[0], 0), found[1])
        elif node.op in COMPARISONS:
            found = (0, 1)
        elif node.op in ("shr", "shru") and args[0] is None:
            found = _shifted(node, args[1])
        elif node.op in _RESULTS:
            found = _RESULTS[node.op]
        elif node.kind == "op" and args and all(a is not None for a in args):
            found = _computed(node, [a for a in args if a is not None])
        ranges.append(found)
    return ranges


def _shifted(node: Node, count: tuple[int, int] | None) -> tuple[int, int] | None:
    """What a shift leaves of any word."""
    if count is None or count[0] != count[1] or not 0 <= count[0] < 32 or node.elem != "i32":
        return None
    low, high = _I32[0] >> count[0], _I32[1] >> count[0]
    return (low, high) if node.op == "shr" or count[0] == 0 else (0, high - low)


def _computed(node: Node, args: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    low, high = min(a[0] for a in args), max(a[1] for a in args)
    match node.op:
        case op if op in _PASSES:
            pass
        case "min":
            high = min(a[1] for a in args)
        case "max":
            low = max(a[0] for a in args)
        case "and" if args[0][0] >= 0 or args[1][0] >= 0:
            low, high = 0, min(a[1] for a in args if a[0] >= 0)
        case "and" | "or" | "xor" if low >= 0 and high <= 1:
            low, high = 0, 1
        case "mul" | "mul16":
            products = [x * y for x in args[0] for y in args[1]]
            low, high = min(products), max(products)
        case "shr" if args[1][0] == args[1][1] and 0 <= args[1][0] < 32:
            low, high = args[0][0] >> args[1][0], args[0][1] >> args[1][0]
        case "shru" if args[1][0] == args[1][1] and 0 <= args[1][0] < 32 and args[0][0] >= 0:
            low, high = args[0][0] >> args[1][0], args[0][1] >> args[1][0]
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
