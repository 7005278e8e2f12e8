"""A choice made better step by step: what extraction falls back on where the exact method has no answer.

A step changes the node of one class, and with it those of all other classes that could share what the change makes
anew (both halves of a pair load, say). Steps are taken as long as the score gets less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dspgen.rewrite.extract.greedy import tree_costs
from dspgen.rewrite.extract.problem import Choice, CyclicChoice, Problem, restrict
from dspgen.rewrite.extract.score import score

WORK = 60_000  # classes looked at, in all trials together

_Chosen = dict[int, Choice]
_Key = tuple[int, float, float]


def improve(problem: Problem, chosen: Mapping[int, Choice], work: int = WORK) -> _Chosen:
    """The best found from `chosen` within the budget, by pressure on units, then by what is occupied in all.

    Ensures: its score is not above that of `chosen`.
    """
    best = dict(chosen)
    reached = _key(problem, best)
    if not any(len(found) > 1 for found in problem.choices.values()):
        return best
    _, picks = tree_costs(problem)
    users: dict[int, dict[int, None]] = {}
    for number, found in problem.choices.items():
        for arg in (a for c in found for a in c.node.args):
            users.setdefault(arg, {})[number] = None
    changed = True
    while changed and work > 0:
        changed = False
        for number in sorted(best):
            for choice in problem.choices[number]:
                if number not in best or choice == best[number] or work <= 0:
                    continue
                for trial in _trials(problem, picks, users, best, number, choice):
                    work -= len(trial)
                    key = _key(problem, trial)
                    if key < reached:
                        best, reached, changed = trial, key, True
    return best


def _key(problem: Problem, chosen: Mapping[int, Choice]) -> _Key:
    return score(problem, chosen, recurrences=False).key


def _trials(
    problem: Problem,
    picks: Mapping[int, Choice],
    users: Mapping[int, Iterable[int]],
    chosen: _Chosen,
    number: int,
    choice: Choice,
) -> list[_Chosen]:
    """The change alone, and with all that can share its new operands; `users` are the classes that may have one."""
    merged = {**picks, **chosen}
    fresh = frozenset(a for a in choice.node.args if a not in chosen)
    sharing = {n: _sharing(problem, n, fresh, chosen) for a in fresh for n in users[a] if n in chosen}
    along = {n: c for n, c in sharing.items() if c is not None}
    found = []
    for changes in ({number: choice}, {**along, number: choice} if along.keys() - {number} else None):
        if changes is None:
            continue
        try:
            found.append(restrict({**merged, **changes}, problem.roots))
        except (CyclicChoice, KeyError):
            continue
    return found


def _sharing(problem: Problem, number: int, fresh: frozenset[int], chosen: _Chosen) -> Choice | None:
    """A choice of the class over `fresh` and what is there already."""
    for choice in problem.choices[number]:
        args = choice.node.args
        if not fresh.isdisjoint(args) and all(a in fresh or a in chosen for a in args):
            return choice
    return None
