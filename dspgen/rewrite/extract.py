"""Choosing one node per class: the machine's busiest unit decides, not the sum of operations.

In a software-pipelined loop the cost of a body is its resource bound: over every set S of units, the cycles of the
operations that can run nowhere else, divided by the size of S. `extract` minimises that bound (and the bound by
recurrences through carried variables, where it is higher), and then the cycles in all, by mixed integer programming;
a greedy extraction and the terms as written compete, so that the result is never worse than not rewriting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dspgen.rewrite.graph import EGraph, Node
from dspgen.rewrite.machine import Implementation

CYCLE_WEIGHT = 100.0  # a cycle of the bound against one of total occupancy
INVARIANT_SCALE = 0.05
_NODE_COST = 0.01
_LATENCY_COST = 0.001
_SETS_KEPT = 64

Choices = dict[int, tuple["Choice", ...]]


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to make a class's value. `scale` 1, or less where the loop need not repeat it."""

    node: Node
    implementation: Implementation
    scale: float = 1.0

    @property
    def cost(self) -> float:
        latency = self.implementation.latency
        return self.scale * (self.implementation.total + _LATENCY_COST * latency + _NODE_COST)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A carried variable's name, the class of its value in the next iteration."""

    name: str
    next: int


@dataclass(frozen=True, slots=True)
class Problem:
    """What to choose from. `base` is the occupancy of what is done in any case: the stores."""

    choices: Choices
    roots: tuple[int, ...]
    base: tuple[Implementation, ...]
    recurrences: tuple[Recurrence, ...]
    unit_sets: tuple[tuple[str, ...], ...]
    issue: int


@dataclass(frozen=True, slots=True)
class Score:
    """Cycles an iteration at least, by units and by recurrences; and the total of occupied cycles."""

    resources: float
    recurrence: float
    total: float

    @property
    def key(self) -> tuple[float, float]:
        return (round(max(self.resources, self.recurrence), 6), round(self.total, 6))


@dataclass(frozen=True, slots=True)
class Extraction:
    chosen: dict[int, Node]
    score: Score
    method: str = field(compare=False, default="")


def make_problem(
    egraph: EGraph,
    roots: Sequence[int],
    implement: Callable[[int, Node], Implementation | None],
    invariant: frozenset[Node],
    base: Sequence[Implementation],
    recurrences: Sequence[Recurrence],
    issue: int,
) -> Problem:
    """Drop what the machine can't do, what can't be completed, and what is dominated within its class.

    A class that has nodes in `invariant` keeps those alone. Roots without choices stay without.
    """
    choices: dict[int, list[Choice]] = {}
    for number in _reachable(egraph, roots):
        found = []
        nodes = [n for n in egraph.classes[number] if number not in n.args]
        still = [n for n in nodes if n in invariant]
        for node in still or nodes:
            made = implement(number, node)
            if made is not None:
                found.append(Choice(node, made, INVARIANT_SCALE if node in invariant else 1.0))
        choices[number] = found
        if still and not found:
            choices[number] = [Choice(n, m) for n in nodes if (m := implement(number, n)) is not None]
    _drop_incomplete(choices)
    kept = {c: tuple(_undominated(v)) for c, v in choices.items()}
    sets = _unit_sets([*base, *(c.implementation for v in kept.values() for c in v)])
    return Problem(kept, tuple(roots), tuple(base), tuple(recurrences), sets, issue)


def _reachable(egraph: EGraph, roots: Sequence[int]) -> list[int]:
    seen = dict.fromkeys(roots)
    stack = list(roots)
    while stack:
        for node in egraph.classes[stack.pop()]:
            for arg in node.args:
                if arg not in seen:
                    seen[arg] = None
                    stack.append(arg)
    return sorted(seen)


def _drop_incomplete(choices: dict[int, list[Choice]]) -> None:
    """Keep only nodes from which a finite term can be built."""
    buildable: set[int] = set()
    changed = True
    while changed:
        changed = False
        for number, found in choices.items():
            if number not in buildable and any(all(a in buildable for a in c.node.args) for c in found):
                buildable.add(number)
                changed = True
    for number, found in choices.items():
        choices[number] = [c for c in found if all(a in buildable for a in c.node.args)]


def _undominated(found: list[Choice]) -> list[Choice]:
    """Without choices that need all that another needs, on the same units and no faster."""
    kept: list[Choice] = []
    for index, choice in enumerate(found):
        if not any(_dominates(o, choice, j < index) for j, o in enumerate(found) if j != index):
            kept.append(choice)
    return kept


def _dominates(better: Choice, worse: Choice, first: bool) -> bool:
    a, b = better.implementation, worse.implementation
    if a.latency > b.latency or better.scale > worse.scale or a.serial > b.serial:
        return False
    if a.occupancy and sorted(a.occupancy) != sorted(b.occupancy):
        return False
    if not set(better.node.args) <= set(worse.node.args):
        return False
    same = set(better.node.args) == set(worse.node.args) and (a, better.scale) == (b, worse.scale)
    return first or not same


def _unit_sets(implementations: Sequence[Implementation]) -> tuple[tuple[str, ...], ...]:
    """The sets of alternatives, and unions of those that overlap: enough for the exact bound."""
    sets = dict.fromkeys(frozenset(units) for i in implementations for units, _ in i.occupancy)
    queue = list(sets)
    while queue and len(sets) < _SETS_KEPT:
        a = queue.pop(0)
        for b in list(sets):
            union = a | b
            if a & b and union not in sets:
                sets[union] = None
                queue.append(union)
    return tuple(sorted(tuple(sorted(s)) for s in sets))


# -- scores


def score(problem: Problem, chosen: Mapping[int, Choice], *, recurrences: bool = True) -> Score:
    """The bounds of a complete choice; the one by recurrences on request."""
    used = [c.implementation for c in chosen.values() if c.scale == 1.0]
    resources = max((load / len(units) for units, load in loads(problem, used)), default=0.0)
    every = [*problem.base, *used]
    operations = sum(cycles for i in every for _, cycles in i.occupancy)
    serial = sum(i.serial for i in every)
    total = sum(c.cost for c in chosen.values())
    bound = max(resources, operations / problem.issue, float(serial))
    return Score(bound, recurrence_bound(problem, chosen) if recurrences else 0.0, total)


def loads(problem: Problem, used: Sequence[Implementation]) -> list[tuple[tuple[str, ...], int]]:
    """For each set of units, the cycles that fall on it alone."""
    counts: dict[tuple[str, ...], int] = {}
    for implementation in (*problem.base, *used):
        for units, cycles in implementation.occupancy:
            counts[units] = counts.get(units, 0) + cycles
    return [(s, sum(n for units, n in counts.items() if set(units) <= set(s))) for s in problem.unit_sets]


def recurrence_bound(problem: Problem, chosen: Mapping[int, Choice]) -> float:
    """The greatest mean latency of a cycle through carried variables, each of which spans one iteration."""
    if not problem.recurrences:
        return 0.0
    sources = {r.name: i for i, r in enumerate(problem.recurrences)}
    depths: dict[int, dict[int, int]] = {}
    for number in topological(chosen, [r.next for r in problem.recurrences if r.next in chosen]):
        choice = chosen[number]
        if choice.node.kind == "var":
            source = sources.get(choice.node.text)
            depths[number] = {} if source is None else {source: 0}
            continue
        depth: dict[int, int] = {}
        for arg in choice.node.args:
            for source, below in depths[arg].items():
                depth[source] = max(depth.get(source, 0), below + choice.implementation.latency)
        depths[number] = depth
    paths = {
        (source, sink): depth
        for sink, recurrence in enumerate(problem.recurrences)
        for source, depth in depths.get(recurrence.next, {}).items()
    }
    return _cycle_mean(len(problem.recurrences), paths)


def _cycle_mean(count: int, paths: Mapping[tuple[int, int], int]) -> float:
    """By longest walks: exact, as walks of up to `count` edges meet every simple cycle."""
    best = max((float(w) for (i, j), w in paths.items() if i == j), default=0.0)
    edges = [(i, j, w) for (i, j), w in sorted(paths.items()) if i != j]
    if not edges:
        return best
    for start in range(count):
        walk = {start: 0}
        for length in range(1, count + 1):
            step: dict[int, int] = {}
            for i, j, w in edges:
                if i in walk:
                    step[j] = max(step.get(j, 0), walk[i] + w)
            if start in step:
                best = max(best, step[start] / length)
            walk = step
    return best


def topological(chosen: Mapping[int, Choice], roots: Sequence[int]) -> list[int]:
    """Classes that `roots` need, operands first. Raises KeyError for an incomplete choice."""
    order: list[int] = []
    state: dict[int, int] = {}
    for root in roots:
        stack = [root]
        while stack:
            number = stack[-1]
            if state.get(number) == 2:
                stack.pop()
                continue
            if number in state:
                state[number] = 2
                order.append(number)
                stack.pop()
                continue
            state[number] = 1
            for arg in reversed(chosen[number].node.args):
                if arg not in state:
                    stack.append(arg)
                elif state[arg] == 1:
                    raise CyclicChoice(arg)
    return order


class CyclicChoice(Exception):
    """A choice of nodes that is no term."""


# -- greedy


def greedy(problem: Problem, rounds: int = 6) -> dict[int, Choice] | None:
    """The cheapest tree for each class at unit prices, which rise where the pressure is highest; best of the rounds."""
    prices = {units: 1.0 / len(units) for units in problem.unit_sets}
    best: tuple[tuple[float, float], dict[int, Choice]] | None = None
    for _ in range(rounds):
        chosen = _cheapest(problem, prices)
        if chosen is None:
            return None
        found = score(problem, chosen, recurrences=False).key
        if best is None or found < best[0]:
            best = (found, chosen)
        used = [c.implementation for c in chosen.values() if c.scale == 1.0]
        pressures = {units: load / len(units) for units, load in loads(problem, used)}
        top = max(pressures.values(), default=0.0)
        for units, pressure in pressures.items():
            prices[units] *= 1.0 + (pressure / top if top else 0.0)
    return best[1] if best is not None else None


def _cheapest(problem: Problem, prices: Mapping[tuple[str, ...], float]) -> dict[int, Choice] | None:
    _, pick = tree_costs(problem, prices)
    if any(r not in pick for r in problem.roots):
        return None
    return restrict(pick, problem.roots)


def tree_costs(
    problem: Problem, prices: Mapping[tuple[str, ...], float] | None = None
) -> tuple[dict[int, float], dict[int, Choice]]:
    """For each class the least cost of a tree, at the prices of units (1 over their number), and its top."""
    prices = prices or {units: 1.0 / len(units) for units in problem.unit_sets}
    own: dict[int, list[float]] = {}
    for number, found in problem.choices.items():
        own[number] = [
            c.cost + c.scale * sum(n * prices.get(tuple(sorted(u)), 1.0) for u, n in c.implementation.occupancy)
            for c in found
        ]
    cost: dict[int, float] = {}
    pick: dict[int, Choice] = {}
    changed = True
    while changed:
        changed = False
        for number, found in problem.choices.items():
            for choice, weight in zip(found, own[number], strict=True):
                if any(a not in cost for a in choice.node.args):
                    continue
                total = weight + sum(cost[a] for a in choice.node.args)
                if total < cost.get(number, float("inf")) - 1e-12:
                    cost[number], pick[number] = total, choice
                    changed = True
    return cost, pick


def restrict(pick: Mapping[int, Choice], roots: Sequence[int]) -> dict[int, Choice]:
    """The part of a choice that the roots need, operands first."""
    return {number: pick[number] for number in topological(pick, roots)}


# -- the best of all


Solve = Callable[[Problem, float | None], dict[int, Choice] | None]


def extract(problem: Problem, written: Mapping[int, Node], solve: Solve) -> Extraction | None:
    """The best choice found, None if no choice is complete.

    `written` are the nodes as the program has them; `solve(problem, limit)` is the exact method, which may give
    up; with a limit it minds recurrences, and that many cycles are known to be enough.
    """
    candidates = [("as written", _as_written(problem, written)), ("greedy", greedy(problem))]
    if candidates[1][1] is None:
        return None
    exact = solve(problem, None)
    candidates.append(("exact", exact))
    if exact is not None:
        scores = [score(problem, c) for _, c in candidates if c is not None]
        limit = min(max(s.resources, s.recurrence) for s in scores)
        if limit > scores[-1].resources:
            candidates.append(("exact, with recurrences", solve(problem, limit)))
    scored = [(score(problem, c), name, c) for name, c in candidates if c is not None]
    best, name, chosen = min(scored, key=lambda s: s[0].key)
    return Extraction({n: c.node for n, c in chosen.items()}, best, name)


def as_written(problem: Problem, written: Mapping[int, Node]) -> Extraction | None:
    """The program's own nodes, where the machine has them all."""
    chosen = _as_written(problem, written)
    return (
        None
        if chosen is None
        else Extraction({n: c.node for n, c in chosen.items()}, score(problem, chosen), "as written")
    )


def _as_written(problem: Problem, written: Mapping[int, Node]) -> dict[int, Choice] | None:
    pick = {}
    for number, node in written.items():
        for choice in problem.choices.get(number, ()):
            if choice.node == node:
                pick[number] = choice
    try:
        return restrict(pick, problem.roots)
    except (KeyError, CyclicChoice):
        return None
