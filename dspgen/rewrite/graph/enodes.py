"""E-nodes: the operations of a region as plain values, before saturation (one node per term) and after (classes)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dspgen.rewrite.graph.patterns import FLOATS, result_elem
from dspgen.vecdsl.ir.program import OPS, PAIRS, Elem, VType

NodeKind = Literal["const", "vec", "var", "ld", "ld_pair", "op"]
LOADS = ("ld", "ld_pair")


@dataclass(frozen=True, slots=True)
class Memory:
    """What all loads of one array at one state of memory, with one variable part of the address, have in common.

    `version` is 1 + the index of the region's last statement before that may write what is read here; 0 for none.
    """

    array: str
    version: int
    terms: tuple[tuple[str, int], ...]
    elem: Elem


@dataclass(frozen=True, slots=True)
class Node:
    """`elem` is the type that names the operation (comparisons: the operands'); `args` are numbers of classes.

    "const" has its value in `text` (exact: repr), "vec" those of its lanes, "var" its name. Loads have `memory`,
    `constant` and `stride`; `op` is "ld", then "2" where there are `period` and `jump`, "x" with an index, "m" with a
    mask, and `args` are the index and the mask, as far as there are any. A shuffle's `imm` is its whole pattern.
    """

    kind: NodeKind
    op: str
    elem: Elem
    vector: bool
    args: tuple[int, ...] = ()
    imm: tuple[int, ...] = ()
    text: str = ""
    memory: int = -1
    constant: int = 0
    stride: int = 0
    period: int = 0
    jump: int = 0

    @property
    def indexed(self) -> bool:
        return self.kind == "ld" and "x" in self.op

    @property
    def masked(self) -> bool:
        return self.kind == "ld" and "m" in self.op

    @property
    def type(self) -> VType:
        return VType(result_elem(self.op, self.elem) if self.kind == "op" else self.elem, self.vector)  # type: ignore[arg-type]

    @property
    def pair(self) -> bool:
        return self.op in PAIRS

    @property
    def moves_bits(self) -> bool:
        return self.kind == "op" and OPS[self.op].kind == "bits"


@dataclass(slots=True)
class TermGraph:
    """Terms of a region, each once; `nodes[i].args` come before i. `roots` are node numbers."""

    nodes: list[Node] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    _numbers: dict[Node, int] = field(default_factory=dict)
    _memory_numbers: dict[Memory, int] = field(default_factory=dict)

    def add(self, node: Node) -> int:
        number = self._numbers.get(node)
        if number is None:
            number = self._numbers[node] = len(self.nodes)
            self.nodes.append(node)
        return number

    def memory(self, memory: Memory) -> int:
        number = self._memory_numbers.get(memory)
        if number is None:
            number = self._memory_numbers[memory] = len(self.memories)
            self.memories.append(memory)
        return number


@dataclass(frozen=True, slots=True)
class EGraph:
    """A saturated graph: `classes[c]` are equal nodes over classes; `of_node[i]` is the class of the i-th term.

    The term graph may have grown since; its later nodes are no part of this one. `reason`: why saturation stopped;
    "memory" where a process of its own ran out of it, "none" where there was none.
    """

    classes: dict[int, tuple[Node, ...]]
    of_node: tuple[int, ...]
    reason: Literal["saturated", "budget", "memory", "none"]
    iterations: int = 0

    @property
    def size(self) -> int:
        return sum(len(nodes) for nodes in self.classes.values())


def unsaturated(graph: TermGraph) -> EGraph:
    """The e-graph of the terms as they are."""
    return EGraph({i: (n,) for i, n in enumerate(graph.nodes)}, tuple(range(len(graph.nodes))), "none")


def load_op(period: int, *, indexed: bool, masked: bool) -> str:
    """The name of a load of this shape."""
    return "ld" + "2" * bool(period) + "x" * indexed + "m" * masked


def constant_text(value: int | float, elem: str) -> str:
    """The exact text of a constant; one text per value and type."""
    return repr(float(value)) if elem in FLOATS else str(int(value))


def class_types(egraph: EGraph, graph: TermGraph) -> dict[int, VType]:
    """The type of each class. Operations on bits tell least: a float's may be written as an integer's."""
    types: dict[int, VType] = {}
    for node, number in zip(graph.nodes, egraph.of_node, strict=False):
        types.setdefault(number, node.type)
    for number, nodes in egraph.classes.items():
        if number not in types and nodes:
            types[number] = next((n for n in nodes if not n.moves_bits), nodes[0]).type
    return types
