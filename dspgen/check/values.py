"""From the semantics of an instruction to how its results' terms are made.

Before: `Write(cell, add(read 3, const 4))`. After: a `Value` with the leaf `read 3` and the shape `add(leaf 0, const
4)`. Moves, and the halves of pairs just put together, are seen through, so that copies and spills change no term.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dspgen.sim.ir.program import Node

Compute = Callable[[Sequence[int]], int]


@dataclass(frozen=True, slots=True)
class Leaf:
    """What a term is made from. kind "read": register cell `cell`, one `lane` of it where that is not None, `cycle`
    cycles after issue where the instruction reads anything late; "new": what the packet writes to that cell; "load":
    `lanes` elements (0: one) of `size` bytes, `stride` apart from element `first` on; of each the bytes from `skip` on,
    `width` of them; "gather": elements numbered by `index`; "patterns": bytes of pattern memory from `base` on, `index`
    times `stride` further; "address": the effective address.
    """

    kind: str
    cell: int = -1
    lane: int | None = None
    size: int = 0
    lanes: int = 0
    stride: int = 1
    first: int = 0
    skip: int = 0
    width: int = 0
    base: int = 0
    index: Value | None = None
    cycle: int | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """`leaves`, and the `node` over them as reads of cells 0, 1, ...; `key` is the same for the same computation.

    `plain`: the value is its only leaf. `compute` gives it from whole numbers where it is an integer of few operations.
    `halves`: the values of which it is made lane by lane, low half first.
    """

    leaves: tuple[Leaf, ...]
    node: Node
    key: object
    size: int
    lanes: int
    plain: bool
    compute: Compute | None
    halves: tuple[Value, Value] | None = None


def value_of(node: Node) -> Value:
    node = _seen_through(node)
    leaves: list[Leaf] = []
    shaped = _shaped(node, leaves)
    halves = (value_of(node.args[0]), value_of(node.args[1])) if node.op == "cat" else None
    return Value(
        tuple(leaves),
        shaped,
        _key(shaped),
        max(node.lanes, 1) * node.width // 8,
        node.lanes,
        shaped.op == "read",
        _computed(shaped) if not node.lanes else None,
        halves,
    )


def _seen_through(node: Node) -> Node:
    """The node without what only names its bits anew."""
    while True:
        match node:
            case Node(op="mov" | "retag", args=(inner,)):
                node = inner
            case Node(op="cast", args=(inner,)) if inner.width == node.width and inner.lanes == node.lanes:
                node = inner
            case Node(op="view", args=(inner,)) if inner.op != "cat":
                node = inner
            case Node(op="lo" | "hi", args=(inner,)):
                inner = _seen_through(inner)
                if inner.op == "cat":
                    node = inner.args[node.op == "hi"]
                elif inner.op == "load":
                    return _half_load(node, inner)
                else:
                    return node if inner is node.args[0] else replace(node, args=(inner,))
            case _:
                return node


def _half_load(node: Node, load: Node) -> Node:
    """Half of each element that is loaded; the half's place comes after stride and first."""
    width, whole = node.width // 8, load.width // 8
    stride, first = load.imm[:2]
    skip = width if node.op == "hi" else 0
    return Node("load", node.elem, load.lanes, (), 0, (stride, first, skip, whole))


def _shaped(node: Node, leaves: list[Leaf]) -> Node:
    """The node with its leaves as numbered reads. A pattern that `perm` takes is a leaf of its own, unread."""
    leaf = _leaf(node)
    if leaf is not None:
        leaves.append(leaf)
        return Node("read", node.elem, node.lanes, (), len(leaves) - 1)
    if node.op == "perm":
        first, second = (_shaped(a, leaves) for a in node.args[:2])
        index = value_of(node.args[2])
        leaves.append(Leaf("patterns", size=node.lanes, stride=node.imm[0], base=node.value, index=index))
        return Node("perm", node.elem, node.lanes, (first, second, Node("const", "u64", 0)), 0, node.imm)
    return replace(node, args=tuple(_shaped(a, leaves) for a in node.args))


def _leaf(node: Node) -> Leaf | None:
    width = node.width // 8
    match node.op:
        case "read":
            cycle = node.imm[0] if node.imm else None
            return Leaf("read", node.value, size=max(node.lanes, 1) * width, cycle=cycle)
        case "read_lane":
            cycle = node.imm[1] if len(node.imm) > 1 else None
            return Leaf("read", node.value, node.imm[0], width, cycle=cycle)
        case "new":
            return Leaf("new", node.value, size=max(node.lanes, 1) * width)
        case "address":
            return Leaf("address", size=8)
        case "load":
            stride, first = node.imm[:2]
            skip, whole = node.imm[2:] if len(node.imm) > 2 else (0, width)
            return Leaf("load", size=whole, lanes=node.lanes, stride=stride, first=first, skip=skip, width=width)
        case "gather":
            return Leaf("gather", size=width, lanes=node.lanes, width=width, index=value_of(node.args[0]))
    return None


def _key(node: Node) -> object:
    return (node.op, node.elem, node.lanes, node.value, node.imm, *(_key(a) for a in node.args))


# Whole numbers: addresses, counters, constants. Each function gives the unsigned number of its node's width.


def _computed(node: Node) -> Compute | None:
    """The node as a function of its leaves' numbers, None where it is none of integers alone."""
    mask = (1 << node.width) - 1
    if node.elem[0] == "f":
        return None
    match node.op:
        case "const":
            constant = node.value & mask
            return lambda leaves: constant
        case "read":
            place = node.value
            return None if node.lanes else lambda leaves: leaves[place] & mask
    inner = [_computed(a) for a in node.args]
    if node.lanes or node.op == "perm" or any(f is None for f in inner):
        return None
    args = [f for f in inner if f is not None]
    operation = _integer(node)
    if operation is None:
        return None
    signs = [_signed_reader(a.width) if a.elem[0] == "i" else (lambda v: v) for a in node.args]
    match args:
        case [one]:
            (read,) = signs
            return lambda leaves: operation(read(one(leaves))) & mask
        case [one, two]:
            first, second = signs
            return lambda leaves: operation(first(one(leaves)), second(two(leaves))) & mask
    return None


def _signed_reader(width: int) -> Callable[[int], int]:
    top, span = 1 << (width - 1), 1 << width
    return lambda v: v - span if v & top else v


_PLAIN: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "neg": lambda a: -a,
    "mov": lambda a: a,
    "retag": lambda a: a,
    "min": min,
    "max": max,
    "lt": lambda a, b: int(a < b),
    "gt": lambda a, b: int(a > b),
    "le": lambda a, b: int(a <= b),
    "ge": lambda a, b: int(a >= b),
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
}


def _integer(node: Node) -> Callable[..., int] | None:
    if node.op in _PLAIN:
        return _PLAIN[node.op]
    arg = node.args[0] if node.args else node
    mask, width = (1 << arg.width) - 1, arg.width
    match node.op:
        case "cast":
            return (lambda a: a) if node.elem[0] == "i" and arg.elem[0] == "i" else (lambda a: a & mask)
        case "sext" | "zext":
            bits = node.imm[0]
            if bits >= node.width:
                return lambda a: a
            cut = (1 << bits) - 1
            read = _signed_reader(bits)
            return (lambda a: read(a & cut)) if node.op == "sext" else (lambda a: a & cut)
        case "bits":
            high, low = node.imm
            return lambda a: ((a & mask) >> low) & ((1 << (high - low + 1)) - 1)
        case "set_high":
            return lambda a, b: (a & mask & ~0xFFFF0000) | ((b & 0xFFFF) << 16)
        case "cat":
            return lambda a, b: (a & mask) | ((b & mask) << width)
        case "lo":
            return lambda a: a
        case "hi":
            return lambda a: (a & mask) >> node.width
        case "shl":
            return lambda a, b: a << (b & mask) if b & mask < width else 0
        case "shru":
            return lambda a, b: (a & mask) >> (b & mask) if b & mask < width else 0
        case "shr" if arg.elem[0] == "i":
            return lambda a, b: a >> min(b & mask, width - 1)
    return None
