"""Values as terms: what a program computes, told apart by how it is computed and not by what it happens to be.

    Term   ::= constant | unknown | shape(leaf term, ...) | merge(mask, new, old) | lanes | lane | bytes
    memory ::= byte address -> code: byte k of a term, or a byte that was there at the start

Equal terms have equal numbers (hash-consing), so that two programs on the same `Terms` can be compared value by value.
Integers that follow from sizes and addresses are constants; a term is evaluated, on the arrays' first contents, only
where a branch, a predicate or an address asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dspgen.sim.ir.program import Node
from dspgen.sim.ir.semantics import compile_node

Array = Any
Key = tuple[Any, ...]
BYTES = 4096  # codes of a term's bytes: term * BYTES + byte
KEPT = -1  # a lane that keeps what it had
UNKNOWN = 0  # the term of a register that was never written
UNKNOWN_BYTE = 0  # the code of a byte of it, and of stack memory before it is written


def first_byte(address: int) -> int:
    """The code of what a byte of memory holds at the start."""
    return -address - 1


@dataclass(frozen=True, slots=True)
class Mask:
    """Which of `lanes` lanes a value goes to: those whose bit of `term` is set (`bits`), or whose lane of it isn't
    zero (`negated`: is zero)."""

    term: int
    lanes: int
    bits: bool = False
    negated: bool = False


class Terms:
    """All terms of one comparison. `initial` reads what memory holds at the start, zeros where there is none."""

    def __init__(self, initial: Callable[[int], int]) -> None:
        self.initial = initial
        self.keys: list[Key] = [("unknown",)]
        self.sizes: list[int] = [0]
        self._numbers: dict[Key, int] = {("unknown",): UNKNOWN}
        self._shapes: dict[Any, int] = {}
        self._nodes: list[Node] = []
        self._run: dict[int, tuple[_Slots, Callable[[], Array]]] = {}
        self._values: dict[int, Array] = {}
        self.constants: dict[int, int] = {}

    def constant(self, value: int) -> int:
        number = self._intern(("constant", value), 8)
        self.constants[number] = value
        return number

    def shape(self, key: Any, node: Node) -> int:
        """The number of a shape; `node` is how to evaluate it, its leaves as reads of cells 0, 1, ..."""
        number = self._shapes.get(key)
        if number is None:
            number = self._shapes[key] = len(self._nodes)
            self._nodes.append(node)
        return number

    def apply(self, shape: int, leaves: Sequence[int], size: int) -> int:
        return self._intern(("apply", shape, *leaves), size)

    def merge(self, mask: Mask, new: int, old: int, size: int) -> int:
        """`new` in the lanes that `mask` selects, `old` in the others; as one value where they are the same.

        One scalar in all lanes of the mask decides as a predicate does: by its value.
        """
        if new == old:
            return new
        key = self.keys[mask.term]
        if key[0] == "apply" and not mask.bits and self._nodes[key[1]].op == "splat":
            return new if self.selected(mask).all() else old
        if mask.negated:
            mask, new, old = replace(mask, negated=False), old, new
        new, old = self._chosen(mask, new, 2), self._chosen(mask, old, 3)
        return new if new == old else self._intern(("merge", mask, new, old), size)

    def _chosen(self, mask: Mask, term: int, part: int) -> int:
        """What is left of a term in the lanes that the mask selects (2), or in the others (3)."""
        key = self.keys[term]
        while key[0] == "merge" and key[1] == mask:
            term = int(key[part])
            key = self.keys[term]
        return term

    def insert(self, lane: int, lanes: int, new: int, old: int, size: int) -> int:
        """`old` with one of its lanes anew. Whatever the order in which lanes are set, it is one term."""
        key = self.keys[old]
        base, parts = (key[1], list(key[2])) if key[0] == "lanes" else (old, [KEPT] * lanes)
        parts[lane] = new
        return self._intern(("lanes", base if KEPT in parts else UNKNOWN, tuple(parts)), size)

    def lane(self, term: int, lane: int, size: int) -> int:
        """One lane of a vector: what was set there, if it was."""
        key = self.keys[term]
        if key[0] == "lanes":
            if key[2][lane] != KEPT:
                return int(key[2][lane])
            term = int(key[1])
        return self._intern(("lane", lane, size, term), size)

    def of_bytes(self, codes: tuple[int, ...]) -> int:
        """The term whose bytes these are."""
        first = codes[0]
        if first > 0 and first % BYTES == 0:
            term = first // BYTES
            size = self.sizes[term]
            if (size == len(codes) or term in self.constants) and codes == tuple(range(first, first + len(codes))):
                return term
        return self._intern(("bytes", codes), len(codes))

    def _intern(self, key: Key, size: int) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.keys)
            self.keys.append(key)
            self.sizes.append(size)
        return number

    # Values

    def value(self, term: int, size: int) -> Array:
        """The term's bytes on the first contents of memory, as many as are wanted."""
        todo = [(term, False)]
        while todo:
            number, ready = todo.pop()
            if number in self._values:
                continue
            if not ready:
                todo.append((number, True))
                todo += [(n, False) for n in self._parts(number)]
                continue
            self._values[number] = self._compute(number)
        found = self._values[term]
        if len(found) < size:
            found = np.concatenate([found, np.zeros(size - len(found), np.uint8)])
        return found[:size]

    def integer(self, term: int, size: int) -> int:
        known = self.constants.get(term)
        if known is not None:
            return known
        return int.from_bytes(self.value(term, size).tobytes(), "little")

    def _parts(self, term: int) -> list[int]:
        key = self.keys[term]
        match key[0]:
            case "apply":
                return list(key[2:])
            case "merge":
                return [key[1].term, key[2], key[3]]
            case "lanes":
                return [key[1], *(part for part in key[2] if part != KEPT)]
            case "lane":
                return [key[3]]
            case "bytes":
                return sorted({code // BYTES for code in key[1] if code > 0})
        return []

    def _compute(self, term: int) -> Array:
        key = self.keys[term]
        match key[0]:
            case "constant":
                return np.frombuffer((key[1] & ((1 << 64) - 1)).to_bytes(8, "little"), np.uint8)
            case "apply":
                return self._applied(key[1], key[2:])
            case "merge":
                return self._merged(key[1], key[2], key[3], self.sizes[term])
            case "lanes":
                whole, width = self.value(key[1], self.sizes[term]).copy(), self.sizes[term] // len(key[2])
                for k, part in enumerate(key[2]):
                    if part != KEPT:
                        whole[k * width : (k + 1) * width] = self.value(part, width)
                return whole
            case "lane":
                return self.value(key[3], key[2] * (key[1] + 1))[key[2] * key[1] :]
            case "bytes":
                return np.array([self._byte(code) for code in key[1]], np.uint8)
        return np.zeros(max(self.sizes[term], 8), np.uint8)

    def _byte(self, code: int) -> int:
        if code == UNKNOWN_BYTE:
            return 0
        if code < 0:
            return self.initial(-code - 1)
        return int(self.value(code // BYTES, code % BYTES + 1)[-1])

    def _merged(self, mask: Mask, new: int, old: int, size: int) -> Array:
        chosen = self.selected(mask)
        return np.where(np.repeat(chosen, size // len(chosen)), self.value(new, size), self.value(old, size))

    def selected(self, mask: Mask) -> Array:
        """For each lane, whether the mask selects it."""
        if mask.bits:
            value = self.integer(mask.term, 8)
            return np.array([value >> k & 1 for k in range(mask.lanes)], dtype=bool)
        size = max(self.sizes[mask.term], 4 * mask.lanes)
        found = self.value(mask.term, size).view(f"u{size // mask.lanes}") != 0
        return ~found if mask.negated else found

    def _applied(self, shape: int, leaves: Sequence[int]) -> Array:
        if shape not in self._run:
            slots = _Slots()
            self._run[shape] = slots, compile_node(self._nodes[shape], slots)
        slots, run = self._run[shape]
        slots.fill(self, leaves, self._nodes[shape])
        with np.errstate(all="ignore"):
            return np.frombuffer(np.ascontiguousarray(run()).tobytes(), np.uint8)


class _Slots:
    """The state that a shape's node reads: its leaves, in the place of registers."""

    def __init__(self) -> None:
        self.registers: list[Array] = []
        self.held: dict[tuple[int, int], Array] = {}
        self.forwarded: dict[int, Array] = {}
        self.address = 0
        self._patterns: Array = None

    def fill(self, terms: Terms, leaves: Sequence[int], node: Node) -> None:
        self._wanted: dict[int, Node] = {}
        self._collect(node)
        while len(self.registers) < len(leaves):
            self.registers.append(None)
        for k, leaf in enumerate(leaves):
            read = self._wanted.get(k)
            if read is None:
                self._patterns = terms.value(leaf, terms.sizes[leaf])
                continue
            width = read.width // 8
            size = max(read.lanes, 1) * width
            self.registers[k] = terms.value(leaf, size).view(f"u{width}")

    def _collect(self, node: Node) -> None:
        if node.op == "read":
            self._wanted[node.value] = node
        for arg in node.args:
            self._collect(arg)

    def gather(self, size: int, lanes: int, stride: int, first: int) -> Array:
        raise AssertionError("a load is a leaf")

    def gather_at(self, size: int, index: Array) -> Array:
        raise AssertionError("a gather is a leaf")

    def patterns(self, address: int, count: int) -> Array:
        return self._patterns[:count]
