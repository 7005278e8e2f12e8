"""Dependences between statements as a graph, asked which loops of their ends keep them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import islpy as isl

from plant_core.analysis.statement_facts import Facts
from plant_core.support.components import ordered_components


@dataclass(frozen=True, slots=True)
class Edge:
    """`source` instances that must run before `sink` instances. `relaxed`: updates of one reduction, which may change
    places but not run at once."""

    source: str
    sink: str
    relation: isl.Map
    relaxed: bool
    known: dict[tuple[int, int, int, int], bool] = field(default_factory=dict, compare=False, repr=False)


class Graph:
    """The dependences of some statements, with the cached answers about them."""

    def __init__(self, facts: dict[str, Facts]) -> None:
        self.facts = facts

    def never(self, edge: Edge, a: str, b: str, low: int | None, high: int | None) -> bool:
        """Whether no pair of the edge has (b at the sink) - (a at the source) in [low, high], in loop order."""
        source, sink = self.facts[edge.source], self.facts[edge.sink]
        key = (
            source.iters.index(a),
            sink.iters.index(b),
            -(10**9) if low is None else low,
            10**9 if high is None else high,
        )
        if key not in edge.known:
            edge.known[key] = self._within(edge, a, b, low, high).is_empty()
        return edge.known[key]

    def _within(self, edge: Edge, a: str, b: str, low: int | None, high: int | None) -> isl.Map:
        source, sink = self.facts[edge.source], self.facts[edge.sink]
        result = edge.relation
        local = isl.LocalSpace.from_space(result.get_space())
        for bound, sign in ((low, 1), (high, -1)):
            if bound is None:
                continue
            constraint = isl.Constraint.alloc_inequality(local).set_constant_val(isl.Val(-sign * bound))
            constraint = constraint.set_coefficient_val(
                isl.dim_type.out, sink.iters.index(b), isl.Val(sign * sink.signs[b])
            )
            constraint = constraint.set_coefficient_val(
                isl.dim_type.in_, source.iters.index(a), isl.Val(-sign * source.signs[a])
            )
            result = result.add_constraint(constraint)
        return result

    def kept(self, edge: Edge, a: str, b: str) -> bool:
        """Whether loop `a` around the source and `b` around the sink, made one loop, never run the pair backwards."""
        return self.never(edge, a, b, None, -1)

    def carried(self, edge: Edge, a: str, b: str) -> bool:
        """Whether that loop alone orders every pair."""
        return self.never(edge, a, b, None, 0)

    def aligned(self, edge: Edge, a: str, b: str) -> bool:
        """Whether every pair lies in one iteration of that loop."""
        return self.never(edge, a, b, None, -1) and self.never(edge, a, b, 1, None)

    def inside(self, edge: Edge, a: str, b: str) -> Edge | None:
        """The pairs that lie in one iteration of that loop; None if there are none."""
        if self.carried(edge, a, b):
            return None
        if self.aligned(edge, a, b):
            return edge
        relation = self._within(edge, a, b, 0, 0)
        return None if relation.is_empty() else Edge(edge.source, edge.sink, relation, edge.relaxed)


def components(names: Sequence[str], edges: Iterable[Edge]) -> list[tuple[str, ...]]:
    """The strongly connected components, in an order that keeps all edges and else follows the text."""
    return ordered_components(names, [(e.source, e.sink) for e in edges])
