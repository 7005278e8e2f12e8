"""Choosing one node per class: the machine's busiest unit decides, not the sum of operations.

In a software-pipelined loop the cost of a body is its resource bound: over every set S of units, the cycles of the
operations that can run nowhere else, divided by the size of S. `extract` minimises that bound (and the bound by
recurrences through carried variables, where it is higher) in whole cycles, and then the cycles in all. Dominated nodes
are dropped first; a greedy extraction that meets a bound from below is taken; else mixed integer programming competes,
and where that is no proof, or has no answer, the best so far is improved step by step.
Recurrences are then shortened step by step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from dspgen.rewrite.extract.greedy import greedy
from dspgen.rewrite.extract.latency_depth import depth, shallow
from dspgen.rewrite.extract.local_search import improve
from dspgen.rewrite.extract.milp import Budget, search, solve
from dspgen.rewrite.extract.problem import Choice, Problem, restrict
from dspgen.rewrite.extract.prune import least, least_recurrence, prune
from dspgen.rewrite.extract.recurrence_shortening import shorten
from dspgen.rewrite.extract.score import Score, interval, score
from dspgen.rewrite.graph.enodes import Node

_LARGEST = 64  # choices with which recurrences are left to the exact method
_KEPT = 64
_SLACK = 1.02  # greedy may occupy so much more than the least in all, if no initiation interval is lost
_LARGE = 128  # choices of a region that is not pipelined, with which so many cycles may be lost
_LOST = 2
_WAITING = 2.0  # times the cycles of the busiest unit


@dataclass(frozen=True, slots=True)
class Extraction:
    chosen: dict[int, Node]
    score: Score
    method: str = field(compare=False, default="")


_Key = tuple[object, ...]
_Found = tuple[tuple[tuple[int, int], ...], Score, str]
_UNKNOWN: _Found = ((), Score(0.0, 0.0, 0.0), "")
_known: dict[_Key, _Found | None] = {}


def extract(problem: Problem, budget: Budget, *, pipelined: bool, waiting: bool = False) -> Extraction | None:
    """The best choice found, None if no choice is complete. Problems that differ only in names are solved once.

    `pipelined`: iterations overlap, so that latency counts in recurrences only. `waiting`: nothing else runs meanwhile,
    so that the longest path counts where it takes far longer than the busiest unit.
    """
    key = (*_key(problem, budget), pipelined, waiting)
    found = _known.get(key, _UNKNOWN)
    if found is _UNKNOWN:
        if len(_known) >= _KEPT:
            _known.pop(next(iter(_known)), None)
        best = _extract(problem, budget, pipelined, waiting)
        found = None
        if best is not None:
            picks = tuple((n, problem.choices[n].index(c)) for n, c in best[2].items())
            found = (picks, best[0], best[1])
        _known[key] = found
    if found is None:
        return None
    picks, reached, name = found
    return Extraction({n: problem.choices[n][i].node for n, i in picks}, reached, name)


def forget() -> None:
    """Drop what is known."""
    _known.clear()


def _key(problem: Problem, budget: Budget) -> _Key:
    """All that the search looks at."""
    names = {r.name: i for i, r in enumerate(problem.recurrences)}
    choices = tuple(
        (
            number,
            tuple(
                (n.args, c.implementation, c.scale, n.kind, names.get(n.text, -1) if n.kind == "var" else -1)
                for c in found
                for n in (c.node,)
            ),
        )
        for number, found in problem.choices.items()
    )
    nexts = tuple(r.next for r in problem.recurrences)
    return (choices, problem.roots, problem.base, nexts, problem.unit_sets, problem.issue, budget)


def _extract(
    problem: Problem, budget: Budget, pipelined: bool, waiting: bool
) -> tuple[Score, str, dict[int, Choice]] | None:
    pruned = prune(problem, latency=not pipelined)
    chosen = greedy(pruned)
    if chosen is None:
        return None
    candidates: list[tuple[str, dict[int, Choice] | None]] = [("greedy", chosen)]
    reached = score(pruned, chosen, recurrences=False)
    bounds = least(pruned)
    fast = shallow(pruned, chosen, math.ceil(_WAITING * reached.resources)) if waiting else None
    waiting = fast is not None and _waited_for(pruned, fast) > 0
    candidates.append(("shallow", fast))
    if not waiting and not _enough(pruned, reached, bounds, pipelined):
        fewest, most = interval(bounds[0]), interval(reached.resources)
        exact = search(pruned, None, budget, least=fewest, most=most, start=chosen)
        candidates.append(("exact", exact.chosen))
        chosen = exact.chosen or chosen
        if not exact.best:
            start = min(
                (c for _, c in candidates if c is not None), key=lambda c: score(pruned, c, recurrences=False).key
            )
            chosen = improve(pruned, start)
            candidates.append(("improved", chosen))
    found = score(problem, chosen)
    if interval(found.recurrence) > interval(found.resources):
        candidates += _with_recurrences(problem, chosen, found, budget)
    made = [(score(problem, c), name, c) for name, c in candidates if c is not None]
    if waiting:
        made = [(replace(s, depth=_waited_for(problem, c)), name, c) for s, name, c in made]
    return min(made, key=lambda m: m[0].key)


def _waited_for(problem: Problem, chosen: dict[int, Choice]) -> int:
    """The longest path, where that takes far longer than any unit is busy; else 0."""
    found = depth(problem, chosen)
    return found if found >= _WAITING * score(problem, chosen, recurrences=False).resources else 0


def _enough(problem: Problem, found: Score, bounds: tuple[float, float], pipelined: bool) -> bool:
    """Whether greedy's choice is about as good as any can be, by `bounds`: see `least`."""
    bound, total = bounds
    lost = interval(found.resources) - interval(bound)
    if not pipelined and sum(map(len, problem.choices.values())) > _LARGE:
        return lost <= _LOST
    return lost <= 0 and found.total <= total * (_SLACK if pipelined else 1.0) + 1e-6


def _with_recurrences(
    problem: Problem, chosen: dict[int, Choice], found: Score, budget: Budget
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
    return [("shortened", better), ("exact, with recurrences", solve(pruned, limit, budget))]


def as_written(problem: Problem) -> Extraction | None:
    """The only choice there is, where the machine has it."""
    try:
        chosen = restrict({n: found[0] for n, found in problem.choices.items() if found}, problem.roots)
    except KeyError:
        return None
    return Extraction({n: c.node for n, c in chosen.items()}, score(problem, chosen), "as written")
