"""Choosing one node per class: the machine's busiest unit decides, not the sum of operations.

In a software-pipelined loop the cost of a body is its resource bound: over every set S of units, the cycles of the
operations that can run nowhere else, divided by the size of S. `extract` minimises that bound (and the bound by
recurrences through carried variables, where it is higher) in whole cycles, and then the cycles in all. Dominated nodes
are dropped first; a greedy extraction that meets a bound from below is taken; else mixed integer programming competes.
Recurrences are then shortened step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dspgen.rewrite.graph import Node
from dspgen.rewrite.greedy import greedy
from dspgen.rewrite.problem import Choice, CyclicChoice, Problem, restrict
from dspgen.rewrite.prune import least, least_recurrence, prune
from dspgen.rewrite.score import Score, interval, score
from dspgen.rewrite.shorten import shorten

_LARGEST = 64  # choices with which recurrences are left to the exact method
_SLACK = 1.02  # greedy may occupy so much more than the least in all, if no initiation interval is lost


@dataclass(frozen=True, slots=True)
class Extraction:
    chosen: dict[int, Node]
    score: Score
    method: str = field(compare=False, default="")


Solve = Callable[[Problem, float | None], dict[int, Choice] | None]


def extract(problem: Problem, written: Mapping[int, Node], solve: Solve) -> Extraction | None:
    """The best choice found, None if no choice is complete.

    `written` are the nodes as the program has them; `solve(problem, limit)` is the exact method, which may give
    up; with a limit it minds recurrences, and that many cycles are known to be enough.
    """
    pruned = prune(problem, latency=False)
    chosen = greedy(pruned)
    if chosen is None:
        return None
    candidates = [("greedy", chosen), ("as written", _as_written(problem, written))]
    if not _enough(pruned, score(pruned, chosen, recurrences=False)):
        exact = solve(pruned, None)
        candidates.append(("exact", exact))
        chosen = exact or chosen
    found = score(problem, chosen)
    if interval(found.recurrence) > interval(found.resources):
        candidates += _with_recurrences(problem, chosen, found, solve)
    scored = [(score(problem, c), name, c) for name, c in candidates if c is not None]
    best, name, chosen = min(scored, key=lambda s: s[0].key)
    return Extraction({n: c.node for n, c in chosen.items()}, best, name)


def _enough(problem: Problem, found: Score) -> bool:
    bound, total = least(problem)
    return interval(found.resources) <= interval(bound) and found.total <= total * _SLACK


def _with_recurrences(
    problem: Problem, chosen: dict[int, Choice], found: Score, solve: Solve
) -> list[tuple[str, dict[int, Choice] | None]]:
    """`found` is the score of `chosen`, whose recurrences are longer than its units are busy."""
    pruned = prune(problem, latency=True)
    bound = max(interval(least(pruned)[0]), interval(least_recurrence(pruned)))
    if interval(found.recurrence) <= bound:
        return []
    better = shorten(pruned, chosen, bound)
    reached = found if better is None else score(problem, better)
    limit = max(reached.resources, reached.recurrence)
    if interval(limit) <= bound or sum(map(len, pruned.choices.values())) > _LARGEST:
        return [("shortened", better)]
    return [("shortened", better), ("exact, with recurrences", solve(pruned, limit))]


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
