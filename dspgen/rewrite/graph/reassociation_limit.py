"""How long the sums of a region are, which decides whether they may be regrouped.

Regrouping a chain of n terms makes about n**3 / 6 nodes of it, in every way that it may be split in three.
"""

from __future__ import annotations

from dspgen.rewrite.graph.enodes import TermGraph

LONGEST = 16
_ADDENDS = {"add": (0, 1), "mac": (2,)}


def chains(graph: TermGraph) -> list[int]:
    """The terms of each sum that is no part of another one, where it has more than two."""
    count: dict[int, int] = {}
    inner: set[tuple[int, str]] = set()
    for number, node in enumerate(graph.nodes):
        places = _ADDENDS.get(node.op)
        if node.kind != "op" or places is None:
            continue
        parts = [node.args[p] for p in places]
        count[number] = sum(count.get(part, 1) for part in parts) + (len(node.args) - len(parts) > 0)
        inner.update((part, node.elem) for part in parts)
    return sorted(n for i, n in count.items() if (i, graph.nodes[i].elem) not in inner and n > 2)


def regrouped(graph: TermGraph, nodes: int) -> bool:
    """Whether regrouping all sums stays within so many nodes, and none of them is longer than `LONGEST`."""
    found = chains(graph)
    return bool(found) and found[-1] <= LONGEST and sum(n**3 for n in found) <= 6 * nodes
