"""What rules ask about constants and ranges."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

from dspgen.rewrite.egraph.engine import Fact
from dspgen.rewrite.graph.enodes import LOADS, Node, TermGraph, constant_text
from dspgen.rewrite.graph.patterns import FLOATS
from dspgen.vecdsl.analysis.intervals import NARROW_MEMORY, WORD, Interval, interval_of
from dspgen.vecdsl.ir.program import NARROW

_EVERY_BIT = (1 << 32) - 1
_SPANS: dict[str, Interval] = {
    "short16": NARROW_MEMORY["i16"],
    "short31": (-(1 << 30), (1 << 30) - 1),
    "flag": (0, 1),
}


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
    joining = ("or", "xor") if "apart" in relations else ()
    joined = [node.args for node in graph.nodes if node.op in joining and node.elem == "i32"]
    ranges = _ranges(graph) if relations & _SPANS.keys() or joined else []
    if relations & _SPANS.keys():
        for name, (low, high) in _SPANS.items():
            if name in relations:
                inside = (n for n, r in enumerate(ranges) if r is not None and low <= r[0] and r[1] <= high)
                found += [Fact(name, (n,)) for n in inside]
    if joined:
        set_bits = _set_bits(graph, ranges)
        found += [Fact("apart", (a, b)) for a, b in joined if not set_bits[a] & set_bits[b]]
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
        if whole != WORD[0]:
            fact("negated", -whole)
        if whole > 1 and whole & (whole - 1) == 0 and whole < 1 << 31:
            fact("log2", whole.bit_length() - 1)
        if node.elem == "i32":
            divided, masked = relations & DIVIDING, relations & MASKING
            for relation, *values in (*(dividing(whole) if divided else ()), *(masking(whole) if masked else ())):
                names = tuple(graph.add(replace(node, text=str(v))) for v in values)
                found.append(Fact(relation, names))
    return found


DIVIDING = frozenset({"signed_factor", "wide_signed_factor", "unsigned_factor", "wide_unsigned_factor"})


def dividing(constant: int) -> Iterator[tuple[str, int, int, int]]:
    """Relations of a divisor, or of its size where it is below zero, to a factor and a shift that divide by it."""
    size, word = abs(constant), constant % (1 << 32)
    if 1 < size < 1 << 31:
        factor, shift = _rounded_up(size, 1)
        yield "wide_signed_factor" if factor >> 31 else "signed_factor", size, _signed(factor), shift
    if word & (word - 1):
        factor, shift = _rounded_up(word, 0)
        if factor >> 32:
            yield "wide_unsigned_factor", constant, _signed(factor), shift - 1
        else:
            yield "unsigned_factor", constant, _signed(factor), shift


MASKING = frozenset({"low_bits", "high_bits", "mid_bits", "several_bits"})
MOST_RUNS = 4


def masking(constant: int) -> Iterator[tuple[str, *tuple[int, ...]]]:
    """The relation of a constant whose bits lie side by side to where they begin, and how many there are; of one with a
    few such runs to its lowest and the rest, and these two's own relations."""
    word = constant & _EVERY_BIT
    low = (word & -word).bit_length() - 1
    lowest = word & ~(word + (word & -word))
    count = lowest.bit_length() - low
    if not 0 < word < _EVERY_BIT:
        return
    if lowest != word:
        if (word & ~(word << 1)).bit_count() <= MOST_RUNS:
            yield "several_bits", constant, _signed(lowest), _signed(word - lowest)
            yield from masking(_signed(lowest))
            yield from masking(_signed(word - lowest))
    elif not low:
        yield "low_bits", constant, count
    elif low + count == 32:
        yield "high_bits", constant, low
    else:
        yield "mid_bits", constant, low, count


def _rounded_up(divisor: int, sign: int) -> tuple[int, int]:
    """2 ** (32 + shift) / divisor, rounded up, with the least shift that makes it exact enough for all words; `sign` is
    1 where these have one."""
    shift = 0
    while True:
        power = 1 << (32 + shift)
        factor = power // divisor + 1
        if factor * divisor - power <= 1 << (shift + sign):
            return factor, shift
        shift += 1


def _signed(word: int) -> int:
    return (word + (1 << 31)) % (1 << 32) - (1 << 31)


def _single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _ranges(graph: TermGraph) -> list[Interval | None]:
    """For integer nodes, bounds of the value where they are known to hold without wrapping."""
    ranges: list[Interval | None] = []
    for node in graph.nodes:
        found: Interval | None = None
        # Lanes of several elements have no number of their own, whatever type their users give them.
        args = [None if graph.nodes[a].elem in NARROW else ranges[a] for a in node.args]
        if node.elem in NARROW:
            pass
        elif node.kind == "const" and node.elem not in FLOATS:
            found = (int(node.text), int(node.text))
        elif node.kind == "vec" and node.elem not in FLOATS:
            lanes = [int(t) for t in node.text.split()]
            found = (min(lanes), max(lanes))
        elif node.kind in LOADS:
            found = NARROW_MEMORY.get(graph.memories[node.memory].elem)
            if found is not None and node.masked:
                found = (min(found[0], 0), found[1])
        elif node.kind == "op":
            found = interval_of(node.op, node.elem, args)
        ranges.append(found)
    return ranges


def _set_bits(graph: TermGraph, ranges: Sequence[Interval | None]) -> list[int]:
    """For each node the bits of a word that may be set in it, as far as is known."""
    found: list[int] = []
    for node, span in zip(graph.nodes, ranges, strict=True):
        word = _EVERY_BIT if span is None or span[0] < 0 else (1 << span[1].bit_length()) - 1
        args = [found[a] for a in node.args]
        if span is not None and span[0] == span[1]:
            word = span[0] & _EVERY_BIT
        elif node.op in ("or", "xor"):
            word &= args[0] | args[1]
        elif node.op == "and":
            word &= args[0] & args[1]
        elif node.op == "select":
            word &= args[1] | args[2]
        elif node.op == "shl" and (count := graph.nodes[node.args[1]]).kind == "const" and 0 <= int(count.text) < 32:
            word &= args[0] << int(count.text)
        found.append(word)
    return found
