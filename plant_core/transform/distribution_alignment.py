"""Which loops statements share, and which loop of each is which: distribution and alignment.

    Node ::= Seq(children) | Shared(members, body) | Single(statement, loops)

After Allen and Kennedy's codegen (TOPLAS 1987): statements are distributed into the strongly connected components of
their dependences. A component of several statements gets one common loop, for which each statement gives one of its
own (so that LU's division and update meet in the update's k); the dependences inside one iteration of it decide the
rest. A component of one statement keeps its loops free, for the nest's own choice of order and tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plant_core.analysis.dependence_graph import Edge, Graph, components

MOST_ALIGNMENTS = 6
"""How many alignments of one component's loops are worked out."""


@dataclass(frozen=True, slots=True)
class Single:
    """One statement, its remaining loops in text order, and the dependences on itself among them."""

    name: str
    loops: tuple[str, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """A loop around several statements: `members` gives (statement, its iterator). `parallel`: it carries nothing."""

    members: tuple[tuple[str, str], ...]
    body: Node
    parallel: bool

    def iterator(self, name: str) -> str:
        return dict(self.members)[name]


@dataclass(frozen=True, slots=True)
class Seq:
    children: tuple[Node, ...]


Node = Single | Shared | Seq


class NoStructure(Exception):
    """No alignment of a component's loops keeps its dependences."""


def structures(graph: Graph, names: Sequence[str], edges: Sequence[Edge]) -> list[Node]:
    """The ways to distribute and align the statements, the most like the text first. Raises NoStructure."""
    free = {name: graph.facts[name].iters for name in names}
    return _Search(graph).sequence(tuple(names), tuple(edges), free)


class _Search:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def sequence(self, names: tuple[str, ...], edges: tuple[Edge, ...], free: dict[str, tuple[str, ...]]) -> list[Node]:
        """All the components in order; where several have a choice, each takes its own, the others their first."""
        options = []
        for members in components(names, edges):
            inner = tuple(e for e in edges if e.source in members and e.sink in members)
            options.append(self.component(members, inner, free))
        count = max(len(found) for found in options)
        results = []
        for k in range(count):
            chosen = tuple(found[min(k, len(found) - 1)] for found in options)
            results.append(chosen[0] if len(chosen) == 1 else Seq(chosen))
        return results

    def component(
        self, members: tuple[str, ...], edges: tuple[Edge, ...], free: dict[str, tuple[str, ...]]
    ) -> list[Node]:
        if len(members) == 1:
            name = members[0]
            return [Single(name, free[name], edges)]
        found: list[Node] = []
        for chosen in self.alignments(members, edges, free):
            rest = {name: tuple(i for i in free[name] if i != chosen[name]) for name in members}
            inside = []
            parallel = True
            for edge in edges:
                a, b = chosen[edge.source], chosen[edge.sink]
                parallel = parallel and self.graph.aligned(edge, a, b)
                if (kept := self.graph.inside(edge, a, b)) is not None:
                    inside.append(kept)
            try:
                bodies = self.sequence(members, tuple(inside), rest)
            except NoStructure:
                continue
            pairs = tuple((name, chosen[name]) for name in members)
            found += [Shared(pairs, body, parallel) for body in bodies[:2]]
            if len(found) >= MOST_ALIGNMENTS:
                break
        if not found:
            raise NoStructure(", ".join(members))
        return found

    def alignments(
        self, members: tuple[str, ...], edges: tuple[Edge, ...], free: dict[str, tuple[str, ...]]
    ) -> Iterator[dict[str, str]]:
        """Assignments of a loop to each member that keep every dependence, the outermost loops first."""
        chosen: dict[str, str] = {}

        def extend(k: int) -> Iterator[dict[str, str]]:
            if k == len(members):
                yield dict(chosen)
                return
            name = members[k]
            for iterator in free[name]:
                chosen[name] = iterator
                if all(self.fits(edge, chosen) for edge in edges if name in (edge.source, edge.sink)):
                    yield from extend(k + 1)
                del chosen[name]

        yield from extend(0)

    def fits(self, edge: Edge, chosen: dict[str, str]) -> bool:
        if edge.source not in chosen or edge.sink not in chosen:
            return True
        a, b = chosen[edge.source], chosen[edge.sink]
        return edge.relaxed or self.graph.kept(edge, a, b)
