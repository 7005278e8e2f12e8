"""Extraction by prices: the cheapest term for each class, where units under pressure cost more from round to round."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from dspgen.rewrite.extract.problem import Choice, CyclicChoice, Problem, restrict
from dspgen.rewrite.extract.score import loads, score

_ROUNDS = 4
_GAIN = 1e-6  # costs that fall by less are as they were: those of classes on a cycle fall without end

Units = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Offer:
    """A choice as the rounds need it: what it costs without units, and which of the holds that choices have."""

    choice: Choice
    args: tuple[int, ...]
    cost: float
    holds: int


_Holds = tuple[tuple[Units, float], ...]  # units, and for how many cycles, scaled


@dataclass(frozen=True, slots=True)
class _Offers:
    """By class; and each kind of holds once, as few of them have many choices."""

    by_class: dict[int, list[_Offer]]
    holds: list[_Holds]
    users: dict[int, list[int]]  # the classes that have an offer over a class


def greedy(problem: Problem, rounds: int = _ROUNDS) -> dict[int, Choice] | None:
    """The best of some rounds: terms are trees at first, then a class's cost is shared among its users so far."""
    offers = _offers(problem)
    prices = {units: 1.0 / len(units) for units in problem.unit_sets}
    best: tuple[tuple[int, float, float], dict[int, Choice]] | None = None
    users: dict[int, int] = {}
    for _ in range(rounds):
        _, pick = _cheapest(offers, prices, users)
        if any(r not in pick for r in problem.roots):
            return best[1] if best is not None else None
        made = []
        for picks in (pick, _with_shared(offers, prices)):
            with suppress(CyclicChoice):
                chosen = restrict(picks, problem.roots)
                made.append((score(problem, chosen, recurrences=False).key, chosen))
        if not made:
            users = {}
            continue
        found, chosen = min(made, key=lambda m: m[0])
        if best is None or found < best[0]:
            best = (found, chosen)
        users = _users(chosen)
        used = [c.implementation for c in chosen.values() if c.scale == 1.0]
        pressures = {units: load / len(units) for units, load in loads(problem, used)}
        top = max(pressures.values(), default=0.0)
        for units, pressure in pressures.items():
            prices[units] *= 1.0 + (pressure / top if top else 0.0)
    return best[1] if best is not None else None


def _users(chosen: Mapping[int, Choice]) -> dict[int, int]:
    users: dict[int, int] = {}
    for choice in chosen.values():
        for arg in choice.node.args:
            users[arg] = users.get(arg, 0) + 1
    return users


def tree_costs(problem: Problem) -> tuple[dict[int, float], dict[int, Choice]]:
    """For each class the least cost of a tree, where a cycle on one of n units costs 1 / n, and the tree's top."""
    return _cheapest(_offers(problem), {units: 1.0 / len(units) for units in problem.unit_sets}, {})


def _offers(problem: Problem) -> _Offers:
    kinds: dict[tuple[object, float], int] = {}
    holds: list[_Holds] = []

    def kind(choice: Choice) -> int:
        occupancy = choice.implementation.occupancy
        found = kinds.setdefault((occupancy, choice.scale), len(holds))
        if found == len(holds):
            holds.append(tuple((tuple(sorted(u)), choice.scale * n) for u, n in occupancy))
        return found

    by_class = {
        number: [_Offer(c, c.node.args, c.cost, kind(c)) for c in found] for number, found in problem.choices.items()
    }
    users: dict[int, list[int]] = {number: [] for number in by_class}
    for number, offered in by_class.items():
        for arg in dict.fromkeys(a for o in offered for a in o.args):
            users[arg].append(number)
    return _Offers(by_class, holds, users)


def _weighed(offers: _Offers, prices: Mapping[Units, float]) -> list[tuple[int, list[tuple[float, _Offer]]]]:
    """Each class's offers, with what each costs by itself at these prices."""
    held = [sum(n * prices.get(u, 1.0) for u, n in holds) for holds in offers.holds]
    return [(number, [(o.cost + held[o.holds], o) for o in found]) for number, found in offers.by_class.items()]


def _with_shared(offers: _Offers, prices: Mapping[Units, float]) -> dict[int, Choice]:
    """For each class the choice whose graph is cheapest, as far as those of its operands are: what several of these
    have in common counts once (each class keeps what its graph is made of)."""
    cost: dict[int, float] = {}
    graphs: dict[int, dict[int, float]] = {}
    pick: dict[int, Choice] = {}

    def improved(number: int, found: list[tuple[float, _Offer]]) -> bool:
        better = False
        for own, offer in found:
            args = offer.args
            most = 0.0
            for arg in args:
                if arg not in graphs or number in graphs[arg]:
                    break
                most = max(most, cost[arg])
            else:
                least = cost.get(number, math.inf) - 1e-9
                if own + most >= least:
                    continue
                graph = {number: own}
                for arg in args:
                    graph.update(graphs[arg])
                total = sum(graph.values())
                if total < least:
                    cost[number], graphs[number], pick[number] = total, graph, offer.choice
                    better = True
        return better

    _settle(offers, prices, improved)
    return pick


def _cheapest(
    offers: _Offers, prices: Mapping[Units, float], users: Mapping[int, int]
) -> tuple[dict[int, float], dict[int, Choice]]:
    cost: dict[int, float] = {}
    shared: dict[int, float] = {}
    pick: dict[int, Choice] = {}

    def improved(number: int, found: list[tuple[float, _Offer]]) -> bool:
        better = False
        least = cost.get(number, math.inf) - _GAIN
        for own, offer in found:
            total = own
            for arg in offer.args:
                if arg not in shared:
                    break
                total += shared[arg]
            else:
                if total < least:
                    least = cost[number] = total
                    shared[number] = total / users.get(number, 1)
                    pick[number] = offer.choice
                    better = True
        return better

    _settle(offers, prices, improved)
    return cost, pick


def _settle(
    offers: _Offers, prices: Mapping[Units, float], improved: Callable[[int, list[tuple[float, _Offer]]], bool]
) -> None:
    """Go through the classes again and again, as long as one is `improved` by its offers: each whose operands were
    since it was looked at."""
    weighed = _weighed(offers, prices)
    waiting = set(offers.by_class)
    while waiting:
        for number, found in weighed:
            if number in waiting:
                waiting.discard(number)
                if improved(number, found):
                    waiting.update(offers.users[number])
