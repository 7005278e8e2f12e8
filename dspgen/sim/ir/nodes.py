"""Nodes that lowering makes: constants, other widths, and scalars for all lanes."""

from __future__ import annotations

from dspgen.sim.ir.program import Node
from dspgen.sim.ir.symbols import signed


def const(value: int, elem: str) -> Node:
    return Node("const", elem, 0, (), value & ((1 << int(elem[1:])) - 1))


def cast(node: Node, elem: str) -> Node:
    """Resizes to `elem`'s width; widening follows `elem`'s sign unless the node is known to be unsigned."""
    width = int(elem[1:])
    if node.width == width:
        return node if node.elem == elem else Node("retag", elem, node.lanes, (node,))
    if node.op == "const":
        return const(signed(node.value, node.width) if node.elem[0] == "i" else node.value, elem)
    return Node("cast", elem, node.lanes, (node,))


def splat(node: Node, lanes: int) -> Node:
    return node if node.lanes == lanes or lanes == 0 else Node("splat", node.elem, lanes, (node,))


def words(node: Node, bits: int, lanes: int) -> Node:
    """A vector of narrower elements as the words of its register, of `lanes` lanes and `bits` bits in all."""
    if node.lanes > lanes and node.lanes * node.width == bits:
        return Node("view", f"i{bits // lanes}", lanes, (node,))
    return node
