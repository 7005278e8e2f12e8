"""What the loop around a region need not compute again in each iteration."""

from __future__ import annotations

from collections.abc import Sequence, Set

from dspgen.rewrite.graph.enodes import EGraph, Memory, Node


def invariant_nodes(
    egraph: EGraph, memories: Sequence[Memory], varying: Set[str], stored: Set[str]
) -> dict[int, tuple[Node, ...]]:
    """Of each class that has any, the nodes that stay the same over a loop: `varying` are the names that it changes,
    `stored` the arrays that it writes."""
    fixed = [not any(n in varying for n, _ in m.terms) and m.array not in stored for m in memories]
    users: dict[int, list[tuple[int, int]]] = {}
    nodes: list[Node] = []
    waiting: list[int] = []  # of each node, how many operands are not known to stay the same; -1: it does not itself
    ready: list[int] = []
    still: set[int] = set()
    whole: dict[int, list[int]] = {}
    for number, members in egraph.classes.items():
        order = whole[number] = []
        for node in members:
            if node.kind == "var":
                same = node.text not in varying
            else:
                same = node.memory < 0 or fixed[node.memory]
            args = set(node.args)
            if same and not args:
                ready.append(number)
            elif same:
                for arg in args:
                    users.setdefault(arg, []).append((number, len(nodes)))
            order.append(len(nodes))
            waiting.append(len(args) if same else -1)
            nodes.append(node)
    while ready:
        number = ready.pop()
        if number in still:
            continue
        still.add(number)
        for user, index in users.get(number, ()):
            waiting[index] -= 1
            if not waiting[index]:
                ready.append(user)
    return {n: tuple(nodes[i] for i in order if not waiting[i]) for n, order in whole.items() if n in still}
