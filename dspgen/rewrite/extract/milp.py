"""Exact extraction: a mixed integer programme over e-nodes, solved by HiGHS.

A binary for each e-node; a root's nodes sum to one; a chosen node's operands have chosen nodes. Cycles are excluded by
order variables within strongly connected components. The bound T is at least every unit set's load over its size,
and, on request, keeps every recurrence: a potential p per class with p(node) >= p(operand) + latency, and
p(variable) + T >= p(next). The objective is T first, in whole cycles, then occupied cycles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from dspgen.rewrite.cost.scalarization_cost import Implementation
from dspgen.rewrite.extract.greedy import tree_costs
from dspgen.rewrite.extract.problem import CYCLE_WEIGHT, Choice, CyclicChoice, Problem, restrict, topological
from dspgen.rewrite.extract.score import interval
from plant_core.support.components import strong_components
from plant_core.support.milp import LinearProgram


@dataclass(frozen=True, slots=True)
class Budget:
    """In sizes and branch-and-bound nodes, so that results don't depend on the machine's speed.

    `orders`: operands within components; with more, classes that contain each other are put in an order beforehand.
    `gap`: by what share a choice may cost more than the least, where there are over `exact` binaries.
    """

    binaries: int = 640
    branches: int = 6
    orders: int = 64
    exact: int = 256
    gap: float = 0.01


@dataclass(slots=True)
class _Model(LinearProgram):
    orders: list[tuple[list[int], dict[int, int]]] = field(default_factory=list)  # components, their order variables


_Components = list[list[int]]

_LARGEST_COMPONENT = 8
_INFINITY = math.inf
_EXACT = 1e-4  # the relative gap that counts as none


def solve(problem: Problem, limit: float | None, budget: Budget) -> dict[int, Choice] | None:
    """The choice of `search`."""
    return search(problem, limit, budget).chosen


@dataclass(frozen=True, slots=True)
class Found:
    """A choice, None where there is none within the budget or no solver; and whether no other can be better, but for
    what the budget allows with over `exact` binaries: the gap, and classes in an order."""

    chosen: dict[int, Choice] | None
    best: bool = False


def search(
    problem: Problem,
    limit: float | None,
    budget: Budget,
    *,
    least: int = 0,
    most: float = math.inf,
    start: Mapping[int, Choice] | None = None,
) -> Found:
    """The best choice within the budget. `limit`: keep recurrences, of which none need be longer.

    `least` and `most`: where the interval is known to lie, in cycles; the tighter, the sooner the search is done.
    `start`: a choice that is known, to be better than.
    """
    whole = problem
    problem, components = _descending(problem, _components(problem), _LARGEST_COMPONENT)
    if _orders(problem, components) > budget.orders:
        problem, components = _descending(problem, components, 1)
    count = sum(len(c) for c in problem.choices.values())
    if count > budget.binaries:
        return Found(None)
    model = _Model()
    highest = most if limit is None else min(most, interval(limit))
    bound = model.variable(CYCLE_WEIGHT, highest, integer=True, lower=float(least))
    binaries = {
        number: [model.variable(c.cost, 1.0, integer=True) for c in found] for number, found in problem.choices.items()
    }
    _choose_rows(model, problem, binaries)
    _unit_rows(model, problem, binaries, bound)
    _order_rows(model, problem, components, binaries)
    if limit is not None:
        _recurrence_rows(model, problem, binaries, bound, limit)
    known = None
    if start is not None and limit is None and all(c in problem.choices[n] for n, c in start.items()):
        known = _columns(model, problem, binaries, bound, start, most)
    gap = _EXACT if count <= budget.exact else budget.gap
    solution = model.solve(budget.branches, gap, start=known, feasible=problem is whole)
    if solution is None:
        return Found(None)
    pick = {}
    for number, found in problem.choices.items():
        for choice, column in zip(found, binaries[number], strict=True):
            if solution.values[column] > 0.5:
                pick[number] = choice
    try:
        return Found(restrict(pick, problem.roots), solution.proven and (problem is whole or count > budget.exact))
    except (KeyError, CyclicChoice):
        return Found(None)


def _columns(
    model: _Model,
    problem: Problem,
    binaries: dict[int, list[int]],
    bound: int,
    chosen: Mapping[int, Choice],
    cycles: float,
) -> list[float]:
    """The columns' values for a choice whose interval is `cycles`."""
    values = [0.0] * len(model.cost)
    values[bound] = cycles
    for number, choice in chosen.items():
        values[binaries[number][problem.choices[number].index(choice)]] = 1.0
    place = {number: i for i, number in enumerate(topological(chosen, problem.roots))}
    for component, columns in model.orders:
        ranked = sorted((n for n in component if n in place), key=place.__getitem__)
        for rank, number in enumerate(ranked):
            values[columns[number]] = float(rank)
    return values


def _orders(problem: Problem, components: _Components) -> int:
    """How many rows `_order_rows` makes."""
    return sum(
        arg in members
        for component in components
        if len(component) > 1
        for members in (frozenset(component),)
        for number in component
        for choice in problem.choices[number]
        for arg in dict.fromkeys(choice.node.args)
    )


def _descending(problem: Problem, components: _Components, largest: int) -> tuple[Problem, _Components]:
    """In components too large for order variables, keep the nodes whose operands are cheaper trees than their class.

    That excludes cycles and keeps the cheapest tree of each class. Also the components that are left.
    """
    component = {n: i for i, c in enumerate(components) if len(c) > largest for n in c}
    if not component:
        return problem, components
    cost, _ = tree_costs(problem)

    def descends(number: int, choice: Choice) -> bool:
        inside = (a for a in choice.node.args if a in component and component[a] == component.get(number))
        return all(cost[a] < cost[number] for a in inside)

    kept = {n: tuple(c for c in found if descends(n, c)) for n, found in problem.choices.items()}
    left = replace(problem, choices=kept)
    return left, _components(left)


def _choose_rows(model: _Model, problem: Problem, binaries: dict[int, list[int]]) -> None:
    roots = set(problem.roots)
    for number, found in problem.choices.items():
        own = binaries[number]
        model.row(dict.fromkeys(own, 1.0), 1.0 if number in roots else 0.0, 1.0)
        users: dict[int, list[int]] = {}
        for choice, column in zip(found, own, strict=True):
            for arg in dict.fromkeys(choice.node.args):
                users.setdefault(arg, []).append(column)
        for arg, columns in users.items():
            entries = dict.fromkeys(columns, 1.0)
            for column in binaries[arg]:
                entries[column] = entries.get(column, 0.0) - 1.0
            model.row(entries, -_INFINITY, 0.0)


def _unit_rows(model: _Model, problem: Problem, binaries: dict[int, list[int]], bound: int) -> None:
    """T * |S| >= the load of S, for each set; T * issue >= all; T >= the macros' cycles."""
    columns: dict[Implementation, list[int]] = {}
    for number, found in problem.choices.items():
        for choice, column in zip(found, binaries[number], strict=True):
            if choice.scale == 1.0 and choice.implementation.total:
                columns.setdefault(choice.implementation, []).append(column)

    def row(room: int, load: Callable[[Implementation], int]) -> None:
        entries = {bound: -float(room)}
        for implementation, own in columns.items():
            if held := load(implementation):
                entries.update(dict.fromkeys(own, float(held)))
        model.row(dict(sorted(entries.items())), -_INFINITY, -float(sum(map(load, problem.base))))

    for units in problem.unit_sets:
        row(len(units), partial(_load, frozenset(units)))
    row(problem.issue, lambda i: sum(n for _, n in i.occupancy))
    if any(i.serial for i in columns):
        row(1, lambda i: i.serial)


def _load(inside: frozenset[str], implementation: Implementation) -> int:
    return sum(n for units, n in implementation.occupancy if inside.issuperset(units))


def _order_rows(model: _Model, problem: Problem, components: _Components, binaries: dict[int, list[int]]) -> None:
    """Within a component of n classes, a chosen node's class follows its operands': o(c) >= o(k) + 1 - n (1 - y)."""
    for component in components:
        if len(component) < 2:
            continue
        size = float(len(component))
        order = {number: model.variable(0.0, size) for number in component}
        model.orders.append((component, order))
        for number in component:
            for choice, column in zip(problem.choices[number], binaries[number], strict=True):
                for arg in dict.fromkeys(choice.node.args):
                    if arg in order:
                        model.row({order[number]: 1.0, order[arg]: -1.0, column: -size - 1.0}, -size)


def _recurrence_rows(model: _Model, problem: Problem, binaries: dict[int, list[int]], bound: int, limit: float) -> None:
    """Potentials for the classes that depend on carried variables; they need not span more than `limit` for each."""
    names = {r.name for r in problem.recurrences}
    dependent: dict[int, set[str]] = {}
    changed = True
    while changed:
        changed = False
        for number, found in problem.choices.items():
            now = {c.node.text for c in found if c.node.kind == "var" and c.node.text in names}
            now = now.union(*(dependent.get(a, ()) for c in found for a in c.node.args))
            if now != dependent.get(number, set()):
                dependent[number] = now
                changed = True
    crossed = any(len(dependent.get(r.next, ())) > 1 for r in problem.recurrences)
    far = limit * (len(problem.recurrences) if crossed else 1)
    potential = {number: model.variable(0.0, far) for number in sorted(dependent)}
    for number in potential:
        for choice, column in zip(problem.choices[number], binaries[number], strict=True):
            for arg in dict.fromkeys(choice.node.args):
                if arg in potential:
                    entries = {
                        potential[number]: 1.0,
                        potential[arg]: -1.0,
                        column: -far - choice.implementation.latency,
                    }
                    model.row(entries, -far)
    for recurrence in problem.recurrences:
        start = next(
            (
                n
                for n in potential
                if any(c.node.kind == "var" and c.node.text == recurrence.name for c in problem.choices[n])
            ),
            None,
        )
        if start is not None and recurrence.next in potential and start != recurrence.next:
            model.row({potential[start]: 1.0, bound: 1.0, potential[recurrence.next]: -1.0}, 0.0)


def _components(problem: Problem) -> _Components:
    """Strongly connected components of classes, each sorted."""
    edges = ((n, a) for n, found in problem.choices.items() for c in found for a in dict.fromkeys(c.node.args))
    return [sorted(c) for c in strong_components(problem.choices, edges)]
