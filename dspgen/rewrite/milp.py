"""Exact extraction: a mixed integer programme over e-nodes, solved by HiGHS.

A binary for each e-node; a root's nodes sum to one; a chosen node's operands have chosen nodes. Cycles are excluded by
order variables within strongly connected components. The bound T is at least every unit set's load over its size,
and, on request, keeps every recurrence: a potential p per class with p(node) >= p(operand) + latency, and
p(variable) + T >= p(next). The objective is T first, in whole cycles, then occupied cycles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dspgen.rewrite.greedy import tree_costs
from dspgen.rewrite.problem import CYCLE_WEIGHT, Choice, CyclicChoice, Problem, restrict, topological
from dspgen.rewrite.score import interval


@dataclass(frozen=True, slots=True)
class Budget:
    """In sizes and branch-and-bound nodes, so that results don't depend on the machine's speed.

    `orders`: operands within components; with more, classes that contain each other are put in an order beforehand.
    `gap`: by what share a choice may cost more than the least, where there are over `exact` binaries.
    """

    binaries: int = 1280
    branches: int = 6
    orders: int = 64
    exact: int = 256
    gap: float = 0.01


@dataclass(slots=True)
class _Model:
    cost: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    orders: list[tuple[list[int], dict[int, int]]] = field(default_factory=list)  # components, their order variables

    def variable(self, cost: float, upper: float, *, integer: bool = False, lower: float = 0.0) -> int:
        self.cost.append(cost)
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.cost) - 1

    def row(self, entries: dict[int, float], lower: float, upper: float) -> None:
        self.columns.extend(entries)
        self.values.extend(entries.values())
        self.starts.append(len(self.columns))
        self.row_lower.append(lower)
        self.row_upper.append(upper)


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
    problem = _descending(problem, _LARGEST_COMPONENT)
    if _orders(problem) > budget.orders:
        problem = _descending(problem, 1)
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
    _order_rows(model, problem, binaries)
    if limit is not None:
        _recurrence_rows(model, problem, binaries, bound, limit)
    known = None
    if start is not None and limit is None and all(c in problem.choices[n] for n, c in start.items()):
        known = _columns(model, problem, binaries, bound, start, most)
    gap = _EXACT if count <= budget.exact else budget.gap
    solution = _run(model, budget.branches, gap, feasible=problem is whole, start=known)
    if solution is None:
        return Found(None)
    values, proven = solution
    pick = {}
    for number, found in problem.choices.items():
        for choice, column in zip(found, binaries[number], strict=True):
            if values[column] > 0.5:
                pick[number] = choice
    try:
        return Found(restrict(pick, problem.roots), proven and (problem is whole or count > budget.exact))
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


def _orders(problem: Problem) -> int:
    """How many rows `_order_rows` makes."""
    component = {n: i for i, c in enumerate(_components(problem)) for n in c}
    return sum(
        component[a] == component[n]
        for n, found in problem.choices.items()
        for c in found
        for a in dict.fromkeys(c.node.args)
    )


def _descending(problem: Problem, largest: int) -> Problem:
    """In components too large for order variables, keep the nodes whose operands are cheaper trees than their class.

    That excludes cycles and keeps the cheapest tree of each class.
    """
    component = {n: i for i, c in enumerate(_components(problem)) if len(c) > largest for n in c}
    if not component:
        return problem
    cost, _ = tree_costs(problem)

    def descends(number: int, choice: Choice) -> bool:
        inside = (a for a in choice.node.args if a in component and component[a] == component.get(number))
        return all(cost[a] < cost[number] for a in inside)

    kept = {n: tuple(c for c in found if descends(n, c)) for n, found in problem.choices.items()}
    return replace(problem, choices=kept)


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
    paid = [
        (column, choice.implementation)
        for number, found in problem.choices.items()
        for choice, column in zip(found, binaries[number], strict=True)
        if choice.scale == 1.0 and choice.implementation.total
    ]
    for units in problem.unit_sets:
        inside = set(units)
        fixed = sum(n for i in problem.base for u, n in i.occupancy if set(u) <= inside)
        entries = {bound: -float(len(units))}
        for column, implementation in paid:
            load = sum(n for u, n in implementation.occupancy if set(u) <= inside)
            if load:
                entries[column] = float(load)
        model.row(entries, -_INFINITY, -float(fixed))
    entries = {bound: -float(problem.issue)}
    serial = {bound: -1.0}
    for column, implementation in paid:
        if implementation.occupancy:
            entries[column] = float(sum(n for _, n in implementation.occupancy))
        if implementation.serial:
            serial[column] = float(implementation.serial)
    fixed = sum(n for i in problem.base for _, n in i.occupancy)
    model.row(entries, -_INFINITY, -float(fixed))
    if len(serial) > 1:
        model.row(serial, -_INFINITY, 0.0)


def _order_rows(model: _Model, problem: Problem, binaries: dict[int, list[int]]) -> None:
    """Within a component of n classes, a chosen node's class follows its operands': o(c) >= o(k) + 1 - n (1 - y)."""
    for component in _components(problem):
        if len(component) < 2:
            continue
        size = float(len(component))
        order = {number: model.variable(0.0, size) for number in component}
        model.orders.append((component, order))
        for number in component:
            for choice, column in zip(problem.choices[number], binaries[number], strict=True):
                for arg in dict.fromkeys(choice.node.args):
                    if arg in order:
                        model.row({order[number]: 1.0, order[arg]: -1.0, column: -size - 1.0}, -size, _INFINITY)


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
                    model.row(entries, -far, _INFINITY)
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
            model.row({potential[start]: 1.0, bound: 1.0, potential[recurrence.next]: -1.0}, 0.0, _INFINITY)


def _components(problem: Problem) -> list[list[int]]:
    """Strongly connected components of classes (Tarjan), each sorted."""
    edges = {n: list(dict.fromkeys(a for c in found for a in c.node.args)) for n, found in problem.choices.items()}
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stacked: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in edges:
        if root in index:
            continue
        work = [(root, iter(edges[root]))]
        index[root] = low[root] = len(index)
        stacked.append(root)
        on_stack.add(root)
        while work:
            number, rest = work[-1]
            for child in rest:
                if child not in index:
                    index[child] = low[child] = len(index)
                    stacked.append(child)
                    on_stack.add(child)
                    work.append((child, iter(edges[child])))
                    break
                if child in on_stack:
                    low[number] = min(low[number], index[child])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[number])
                if low[number] == index[number]:
                    component = []
                    while True:
                        member = stacked.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == number:
                            break
                    found.append(sorted(component))
    return found


def _run(
    model: _Model, branches: int, gap: float, *, feasible: bool, start: list[float] | None
) -> tuple[list[float], bool] | None:
    """The columns' values, and whether they are the best but for a relative `gap`; None without a solver or a solution.

    `feasible`: it is known that there is a solution. `start`: the values of one.
    """
    try:
        import highspy
    except ImportError:
        return None
    lp = highspy.HighsLp()
    lp.num_col_ = len(model.cost)
    lp.num_row_ = len(model.row_lower)
    lp.col_cost_ = np.array(model.cost)
    lp.col_lower_ = np.array(model.lower)
    lp.col_upper_ = np.array(model.upper)
    lp.row_lower_ = np.array(model.row_lower)
    lp.row_upper_ = np.array(model.row_upper)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.array(model.starts, dtype=np.int32)
    lp.a_matrix_.index_ = np.array(model.columns, dtype=np.int32)
    lp.a_matrix_.value_ = np.array(model.values)
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    lp.integrality_ = [kinds[i] for i in model.integer]
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("random_seed", 1)
    solver.setOptionValue("mip_max_nodes", branches)
    solver.setOptionValue("mip_rel_gap", gap)
    solver.passModel(lp)
    if start is not None:
        known = highspy.HighsSolution()
        known.col_value = start
        solver.setSolution(known)
        # There is a solution, and a good one.
        solver.setOptionValue("mip_heuristic_run_feasibility_jump", False)
    solver.run()
    if feasible and solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        # Presolving is at times wrong about rows with big constants.
        solver.clearSolver()
        solver.setOptionValue("presolve", "off")
        solver.run()
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    proven = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return list(solver.getSolution().col_value), proven
