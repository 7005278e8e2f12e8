"""The strongly connected components of a graph: nodes that lie on circles together (R. Tarjan, 1972)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from heapq import heappop, heappush
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def strong_components(names: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> list[list[Node]]:
    """Each component after all that it leads to; nodes that only `edges` name belong to it."""
    into: dict[Node, list[Node]] = {name: [] for name in names}
    for source, sink in edges:
        into.setdefault(source, []).append(sink)
        into.setdefault(sink, [])
    number: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    waiting: list[Node] = []
    inside: set[Node] = set()
    found: list[list[Node]] = []
    for root in into:
        if root in number:
            continue
        path = [(root, iter(into[root]))]
        number[root] = lowest[root] = len(number)
        waiting.append(root)
        inside.add(root)
        while path:
            node, rest = path[-1]
            for sink in rest:
                if sink not in number:
                    number[sink] = lowest[sink] = len(number)
                    waiting.append(sink)
                    inside.add(sink)
                    path.append((sink, iter(into[sink])))
                    break
                if sink in inside:
                    lowest[node] = min(lowest[node], number[sink])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    cut = waiting.index(node)
                    found.append(waiting[cut:])
                    inside.difference_update(waiting[cut:])
                    del waiting[cut:]
    return found


def ordered_components(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[tuple[str, ...]]:
    """The components of `names` in an order that keeps all edges and else that of the names."""
    place = {name: k for k, name in enumerate(names)}
    members = [tuple(sorted(part, key=place.__getitem__)) for part in strong_components(names, edges)]
    home = {name: k for k, part in enumerate(members) for name in part}
    after: dict[int, set[int]] = {k: set() for k in range(len(members))}
    for source, sink in edges:
        if home[source] != home[sink]:
            after[home[source]].add(home[sink])
    missing = [0] * len(members)
    for sinks in after.values():
        for k in sinks:
            missing[k] += 1
    ready: list[tuple[int, int]] = []
    for k, own in enumerate(members):
        if not missing[k]:
            heappush(ready, (place[own[0]], k))
    found: list[tuple[str, ...]] = []
    while ready:
        _, k = heappop(ready)
        found.append(members[k])
        for later in after[k]:
            missing[later] -= 1
            if not missing[later]:
                heappush(ready, (place[members[later][0]], later))
    return found
