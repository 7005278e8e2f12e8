"""Statements in loops of their own, as far as dependences allow (Allen and Kennedy, TOPLAS 1987), in the order of the
text otherwise.

Before: for i { for j S[i, j]; for k, j T[i, k, j] }
After:  for i, j S[i, j]; for i, k, j T[i, k, j]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from plant_core.analysis.dependence import memory_dependences
from plant_core.analysis.dependence_graph import Edge, Graph
from plant_core.analysis.statement_facts import facts_of
from plant_core.ir.c_semantics import is_float
from plant_core.ir.func import Comp, Func
from plant_core.ir.time_2d1 import Position, permuted, position, schedule_map
from plant_core.transform.distribution_alignment import Node, NoStructure, Seq, Shared, Single, structures


def distributed(func: Func, *, reassoc: bool) -> Func | None:
    """The function with its statements in loops of their own, or in those that dependences in a circle make them share;
    None where they are already, or nothing is known of them."""
    if func.effects or any(c.defines for c in func.comps):
        return None
    nests: dict[int, list[Comp]] = {}
    for comp in func.comps:
        nests.setdefault(position(comp).constants[0], []).append(comp)
    placed: list[tuple[Comp, Position]] = []
    first = 0
    for number in sorted(nests):
        comps = tuple(nests[number])
        places = _places(func.with_comps(comps), reassoc, first) if len(comps) > 1 else None
        for comp in comps:
            at = position(comp)
            if places is None:
                placed.append((comp, replace(at, constants=(first, *at.constants[1:]))))
            else:
                placed.append((comp, permuted(comp, at, places.orders[comp.name], places.constants[comp.name])))
        first = placed[-1][1].constants[0] + 1 if places is None else 1 + max(c[0] for c in places.constants.values())
    if all(place == position(comp) for comp, place in placed):
        return None
    placed.sort(key=lambda p: p[1].constants)
    length = max(2 * len(c.iters) + 1 for c in func.comps)
    return func.with_comps(
        tuple(replace(c, schedule=schedule_map(c, p, length).intersect_domain(c.domain)) for c, p in placed)
    )


def _places(func: Func, reassoc: bool, first: int) -> Places | None:
    facts = facts_of(func)
    if facts is None:
        return None
    edges = tuple(
        Edge(d.source, d.sink, d.relation, d.reduction and (reassoc or not is_float(func.comp(d.source).target.dtype)))
        for d in memory_dependences(func)
    )
    try:
        return Places.of(structures(Graph(facts), tuple(facts), edges)[0], tuple(facts), first)
    except NoStructure:
        return None


@dataclass(frozen=True, slots=True)
class Places:
    """Of each statement the order of its loops and its textual positions, as a structure has them."""

    orders: dict[str, tuple[str, ...]]
    constants: dict[str, tuple[int, ...]]

    @staticmethod
    def of(node: Node, names: Sequence[str], first: int) -> Places:
        """`first`: the textual position of the outermost loop."""
        found = Places({name: () for name in names}, {})
        found._visit(node, (), first)
        return found

    def _visit(self, node: Node, prefix: tuple[int, ...], slot: int) -> None:
        """`slot` is the textual position at the depth of `prefix`."""
        match node:
            case Single(name=name, loops=loops):
                self.orders[name] = (*self.orders[name], *loops)
                self.constants[name] = (*prefix, slot, *(0 for _ in loops))
            case Shared(members=members, body=body):
                for name, iterator in members:
                    self.orders[name] = (*self.orders[name], iterator)
                self._visit(body, (*prefix, slot), 0)
            case Seq(children=children):
                for number, child in enumerate(children):
                    self._visit(child, prefix, slot + number)
