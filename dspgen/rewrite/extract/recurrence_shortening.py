"""Shorter recurrences for more operations: a chosen term is changed where its path from a carried variable is too long.

A chain of `mac`s through an accumulator has the latency of each on its path; `add(c, mul(a, b))` takes the product off
the path. How many to change is what the search over limits finds: units then have as much to do as the path is long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dspgen.rewrite.extract.greedy import tree_costs
from dspgen.rewrite.extract.problem import Choice, CyclicChoice, Problem, apart_from_variables, restrict
from dspgen.rewrite.extract.score import Score, interval, score

_PASSES = 32

Chosen = dict[int, Choice]


def shorten(problem: Problem, chosen: Chosen, bound: int) -> Chosen | None:
    """The best found by changing `chosen` step by step, for the initiation interval; None if nothing is better.

    `problem` has choices that are faster, though they occupy more. Each carried variable is seen by itself.
    No extraction has a shorter interval than `bound`.
    """
    costs, picks = tree_costs(problem)
    apart = dict.fromkeys(apart_from_variables(problem), _NONE)
    first = _both(score(problem, chosen))
    low, high = bound, first - 1
    best: Chosen | None = None
    while low <= high:
        limit = (low + high) // 2
        found = _within(problem, chosen, limit, costs, picks, apart)
        reached = first if found is None else _both(score(problem, found))
        if found is not None and reached <= high:
            best, high = found, reached - 1
        else:
            low = limit + 1
    return best


def _both(found: Score) -> int:
    return interval(max(found.resources, found.recurrence))


def _within(
    problem: Problem,
    chosen: Chosen,
    limit: int,
    costs: Mapping[int, float],
    picks: Mapping[int, Choice],
    apart: Mapping[int, int],
) -> Chosen | None:
    """Change one class on each path that is longer than `limit`, until none is; the cheapest for what it gains. `apart`
    are the depths of classes that no variable leads to."""
    for _ in range(_PASSES):
        merged = {**picks, **chosen}
        changed: Chosen = {}
        late = False
        for recurrence in problem.recurrences:
            depths = _Depths(merged, recurrence.name, apart)
            if recurrence.next not in chosen or depths.of(recurrence.next) <= limit:
                continue
            late = True
            swap = _swap(problem, chosen, depths, recurrence.next, limit, costs)
            if swap is not None:
                changed[swap[0]] = swap[1]
        if not late:
            return chosen
        if not changed:
            return None
        try:
            chosen = restrict({**merged, **changed}, problem.roots)
        except CyclicChoice:
            return None
    return None


def _swap(
    problem: Problem, chosen: Chosen, depths: _Depths, end: int, limit: int, costs: Mapping[int, float]
) -> tuple[int, Choice] | None:
    excess = depths.of(end) - limit
    best: tuple[float, float] | None = None
    found: tuple[int, Choice] | None = None
    for number in depths.path(end):
        for choice in problem.choices.get(number, ()):
            gain = depths.of(number) - depths.through(choice, number)
            if gain <= 0:
                continue
            fresh = [a for a in dict.fromkeys(choice.node.args) if a not in chosen]
            price = choice.cost - chosen[number].cost + sum(costs[a] for a in fresh)
            rank = (price / min(gain, excess), price)
            if best is None or rank < best:
                best, found = rank, (number, choice)
    return found


_FAR = 1 << 20
_NONE = -_FAR


class _Depths:
    """The latency from one carried variable to each class, by the choices made; `_NONE` where there is no path."""

    def __init__(self, choices: Mapping[int, Choice], name: str, apart: Mapping[int, int]) -> None:
        self.choices = choices
        self.name = name
        self.known = dict(apart)

    def of(self, root: int) -> int:
        stack, entered = [root], set[int]()
        while stack:
            number = stack[-1]
            if number in self.known:
                stack.pop()
                continue
            choice = self.choices[number]
            missing = [a for a in choice.node.args if a not in self.known]
            if not missing:
                self.known[number] = self._own(choice)
                stack.pop()
            elif number in entered:
                self.known[number] = _FAR  # a cycle: no term
                stack.pop()
            else:
                entered.add(number)
                stack.extend(missing)
        return self.known[root]

    def _own(self, choice: Choice) -> int:
        if choice.node.kind == "var":
            return 0 if choice.node.text == self.name else _NONE
        deepest = max((self.known[a] for a in choice.node.args), default=_NONE)
        return deepest if abs(deepest) >= _FAR else deepest + choice.implementation.latency

    def through(self, choice: Choice, number: int) -> int:
        """The depth of class `number` if it took `choice`."""
        if choice.node.kind != "op" or number in choice.node.args:
            return _FAR
        for arg in choice.node.args:
            self.of(arg)
        return self._own(choice)

    def path(self, end: int) -> Sequence[int]:
        """The classes of the longest path to `end`, without the variable."""
        found = []
        number = end
        while (choice := self.choices[number]).node.args:
            found.append(number)
            number = max(choice.node.args, key=self.of)
        return found
