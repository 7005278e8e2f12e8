"""How good an extraction is: the least cycles of an iteration, by units and by recurrences, and the cycles in all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dspgen.rewrite.cost.scalarization_cost import Implementation
from dspgen.rewrite.extract.problem import Choice, Problem, topological


@dataclass(frozen=True, slots=True)
class Score:
    """Cycles an iteration at least, by units and by recurrences; and the total of occupied cycles."""

    resources: float
    recurrence: float
    total: float
    depth: int = 0  # of code that is not pipelined

    @property
    def key(self) -> tuple[int, float, float]:
        """Less is better: whole cycles an iteration, then what is occupied, then how full the cycles are."""
        bound = max(self.resources, self.recurrence, self.depth)
        return (interval(bound), round(self.total, 6), round(bound, 6))


def interval(bound: float) -> int:
    """The least initiation interval that keeps a bound."""
    return math.ceil(bound - 1e-6)


def score(problem: Problem, chosen: Mapping[int, Choice], *, recurrences: bool = True) -> Score:
    """The bounds of a complete choice; the one by recurrences on request."""
    used = [c.implementation for c in chosen.values() if c.scale == 1.0]
    resources = max((load / len(units) for units, load in loads(problem, used)), default=0.0)
    every = [*problem.base, *used]
    serial = sum([i.serial for i in every])
    operations = sum([i.total for i in every]) - serial
    total = sum([c.cost for c in chosen.values()])
    bound = max(resources, operations / problem.issue, float(serial))
    return Score(bound, recurrence_bound(problem, chosen) if recurrences else 0.0, total)


def loads(problem: Problem, used: Sequence[Implementation]) -> list[tuple[tuple[str, ...], int]]:
    """For each set of units, the cycles that fall on it alone."""
    counts: dict[tuple[str, ...], int] = {}
    for implementation in (*problem.base, *used):
        for units, cycles in implementation.occupancy:
            counts[units] = counts.get(units, 0) + cycles
    held = [(frozenset(units), n) for units, n in counts.items()]
    return [(s, sum([n for units, n in held if units.issubset(s)])) for s in problem.unit_sets]


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
    return cycle_mean(len(problem.recurrences), paths)


def cycle_mean(count: int, paths: Mapping[tuple[int, int], int]) -> float:
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
