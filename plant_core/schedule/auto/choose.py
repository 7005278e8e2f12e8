"""The cheapest structure with a shape for each nest, by the model of `shapes`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from plant_core.analysis.dependence_graph import Graph
from plant_core.analysis.statement_facts import Facts
from plant_core.schedule.auto.tile_shapes import Machine, Shape, best_shape, cycles, plain_cost
from plant_core.transform.distribution_alignment import Node, Seq, Shared, Single


@dataclass(frozen=True, slots=True)
class Nested:
    """One statement in its Shape. `entered`: a loop of it that an Around has entered already."""

    name: str
    shape: Shape
    single: Single
    entered: str | None = None


@dataclass(frozen=True, slots=True)
class Around:
    """A shared loop. `lanes`: its iterations go across vector lanes of this many, in the innermost place. `step`: it
    walks over tiles of that many iterations, which the nests inside unroll."""

    shared: Shared
    body: Choice
    lanes: int = 1
    step: int = 1


@dataclass(frozen=True, slots=True)
class Row:
    children: tuple[Choice, ...]


Choice = Nested | Around | Row


def choose(graph: Graph, nodes: list[Node], machine: Machine) -> Choice:
    """The cheapest of several structures, with its shapes."""
    found = [_Chooser(graph, machine).choice(node, {}) for node in nodes]
    return min(found, key=lambda pair: pair[1])[0]


class _Chooser:
    def __init__(self, graph: Graph, machine: Machine) -> None:
        self.graph = graph
        self.machine = machine

    def choice(self, node: Node, around: dict[str, tuple[str, ...]]) -> tuple[Choice, float]:
        """`around`: the loops outside, for each statement."""
        match node:
            case Single(name=name, loops=loops, edges=edges):
                facts = self.graph.facts[name]
                outside = around.get(name, ())
                if not loops:
                    cost = plain_cost(facts, outside, self.machine)
                    shape = Shape((), None, cost=cost)
                else:
                    shape = best_shape(self.graph, name, loops, edges, outside, self.machine)
                return Nested(name, shape, node), facts.points * shape.cost
            case Seq(children=children):
                pairs = [self.choice(child, around) for child in children]
                return Row(tuple(c for c, _ in pairs)), sum(cost for _, cost in pairs)
            case Shared():
                return self.shared(node, around)

    def shared(self, node: Shared, around: dict[str, tuple[str, ...]]) -> tuple[Choice, float]:
        inside = {name: (*around.get(name, ()), i) for name, i in node.members}
        body, cost = self.choice(node.body, inside)
        best: tuple[Choice, float] = Around(node, body), cost
        if node.parallel:
            lanes = self.machine.vector_bytes // max(self.graph.facts[n].elem for n, _ in node.members)
            across = self.across(node, lanes, around)
            if across is not None and across[1] < best[1]:
                best = across
        return best

    def across(self, node: Shared, lanes: int, around: dict[str, tuple[str, ...]]) -> tuple[Choice, float] | None:
        """The shared loop's iterations across lanes, everything inside it walked in the order it has in text."""
        if any(self.graph.facts[n].trips[i] < lanes for n, i in node.members):
            return None
        body, total = self.plain(node.body, dict(node.members), lanes, around)
        return Around(node, body, lanes), total

    def plain(
        self, node: Node, vector: dict[str, str], lanes: int, around: dict[str, tuple[str, ...]]
    ) -> tuple[Choice, float]:
        match node:
            case Seq(children=children):
                pairs = [self.plain(child, vector, lanes, around) for child in children]
                return Row(tuple(c for c, _ in pairs)), sum(cost for _, cost in pairs)
            case Shared(members=members, body=body):
                inside = {name: (*around.get(name, ()), i) for name, i in members}
                choice, cost = self.plain(body, vector, lanes, inside)
                return Around(node, choice), cost
            case Single(name=name, loops=loops):
                facts = self.graph.facts[name]
                order = (*around.get(name, ()), *loops)
                inner = order[-1] if order else None
                shape = Shape(loops[:-1], loops[-1] if loops else None)
                cost = self.lane_cost(facts, inner, vector[name], lanes, order)
                return Nested(name, replace(shape, cost=cost), node), facts.points * cost

    def lane_cost(self, facts: Facts, inner: str | None, vector: str, lanes: int, order: tuple[str, ...]) -> float:
        return cycles(facts, Shape(order[:-1], inner, (), vector, 1, lanes), order, self.machine, inner is not None)
