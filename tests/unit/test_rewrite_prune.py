"""Pruning of choices, bounds from below, and shorter recurrences, on problems small enough to try every choice."""

from __future__ import annotations

import itertools
import random
import sys

import pytest

from dspgen.rewrite.extract.extract import extract
from dspgen.rewrite.extract.greedy import greedy
from dspgen.rewrite.extract.local_search import improve
from dspgen.rewrite.extract.milp import Budget, search, solve
from dspgen.rewrite.extract.problem import Choices, CyclicChoice, Problem, Recurrence, restrict
from dspgen.rewrite.extract.prune import least, least_recurrence, prune
from dspgen.rewrite.extract.recurrence_shortening import shorten
from dspgen.rewrite.extract.score import interval, score
from tests.support.problems import operation, problem_of, random_problem, variable


def accumulator() -> Problem:
    """c = c + a * b, in one operation or in two, of which the sum is faster."""
    choices = {
        0: variable("c"),
        1: variable("a"),
        2: variable("b"),
        3: (operation("mul", 1, 2, latency=4),),
        4: (operation("add", 0, 3, latency=2), operation("mac", 1, 2, 0, latency=4)),
    }
    return problem_of(choices, (4,), (Recurrence("c", 4),))


def test_what_does_with_less_dominates() -> None:
    pruned = prune(accumulator(), latency=False)
    assert [c.node.op for c in pruned.choices[4]] == ["mac"]
    assert 3 not in pruned.choices


def test_what_is_slower_does_not_dominate() -> None:
    pruned = prune(accumulator(), latency=True)
    assert [c.node.op for c in pruned.choices[4]] == ["add", "mac"]


def test_other_units_are_not_dominated() -> None:
    choices = {**accumulator().choices, 4: (operation("add", 0, 3, units=("U3",)), operation("mac", 1, 2, 0))}
    assert len(prune(problem_of(choices, (4,)), latency=False).choices[4]) == 2


def test_bounds_from_below() -> None:
    bound, total = least(prune(accumulator(), latency=False))
    assert bound == 0.5
    assert 1.0 <= total < 1.1
    assert least_recurrence(accumulator()) == 2.0


def test_a_recurrence_is_shortened() -> None:
    problem = accumulator()
    fused = {n: found[-1] for n, found in problem.choices.items() if n != 3}
    assert score(problem, fused).recurrence == 4.0
    better = shorten(problem, fused, 2)
    assert better is not None
    assert better[4].node.op == "add"
    assert score(problem, better).recurrence == 2.0


def test_what_is_short_already_is_left() -> None:
    problem = accumulator()
    assert shorten(problem, restrict({n: found[0] for n, found in problem.choices.items()}, (4,)), 2) is None


def test_extraction_takes_the_shorter_recurrence() -> None:
    found = extract(accumulator(), Budget(), pipelined=True)
    assert found is not None
    assert found.score.recurrence == 2.0


def test_what_is_used_several_times_counts_once() -> None:
    """Either one long operation on a costly value, or short ones that all take that value."""
    choices = {0: variable("a"), 1: (operation("costly", 0, cycles=10),)}
    choices |= {n: (operation(f"short{n}", 1, n - 1),) for n in range(2, 6)}
    choices[6] = (operation("long", 1, cycles=14), operation("last", 1, 5))
    chosen = greedy(problem_of(choices, (6,)))
    assert chosen is not None and chosen[6].node.op == "last"


def best_of(problem: Problem) -> tuple[int, float]:
    found = []
    for picks in itertools.product(*problem.choices.values()):
        try:
            chosen = restrict(dict(zip(problem.choices, picks, strict=True)), problem.roots)
        except CyclicChoice:
            continue
        reached = score(problem, chosen, recurrences=False)
        found.append((interval(reached.resources), round(reached.total, 6)))
    return min(found)


@pytest.mark.parametrize("seed", range(40))
def test_random_problems(seed: int) -> None:
    problem = random_problem(random.Random(seed))
    best = best_of(problem)
    pruned = prune(problem, latency=True)
    assert best_of(pruned) == best
    bound, total = least(pruned)
    assert interval(bound) <= best[0]
    assert total <= best[1] + 1e-6
    exact = solve(problem, None, Budget())
    assert exact is not None
    reached = score(problem, exact, recurrences=False)
    assert (interval(reached.resources), round(reached.total, 6)) == best
    within = search(problem, None, Budget(), least=interval(bound), most=best[0]).chosen
    assert within is not None and score(problem, within, recurrences=False).key[:2] == best
    for orders in (0, 64):
        known = greedy(problem)
        assert known is not None
        most = interval(score(problem, known, recurrences=False).resources)
        better = search(problem, None, Budget(orders=orders), most=most, start=known).chosen
        assert better is not None
        assert best <= score(problem, better, recurrences=False).key[:2] <= score(problem, known, recurrences=False).key
    ordered = solve(problem, None, Budget(orders=0))
    assert ordered is not None
    assert score(problem, ordered, recurrences=False).key >= reached.key


@pytest.mark.parametrize("seed", range(60))
def test_without_the_exact_method_nothing_is_lost_to_greedy(seed: int) -> None:
    problem = random_problem(random.Random(seed), classes=8 + seed % 12)
    first, rounds = greedy(problem, rounds=1), greedy(problem)
    fallback = extract(problem, Budget(binaries=0), pipelined=True)
    exact = extract(problem, Budget(), pipelined=True)
    assert first is not None and rounds is not None and fallback is not None and exact is not None
    keys = [score(problem, c, recurrences=False).key for c in (rounds, first)]
    assert exact.score.key[:2] <= fallback.score.key[:2]
    assert fallback.score.key <= keys[0] <= keys[1]


@pytest.mark.parametrize("seed", range(20))
def test_steps_only_make_better(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_problem(rng)
    for picks in itertools.islice(itertools.product(*problem.choices.values()), 0, 200, 17):
        try:
            start = restrict(dict(zip(problem.choices, picks, strict=True)), problem.roots)
        except CyclicChoice:
            continue
        before = score(problem, start, recurrences=False).key
        assert score(problem, improve(problem, start), recurrences=False).key <= before
        assert improve(problem, start, work=0) == start


def test_both_halves_of_a_pair_change_together() -> None:
    """One access for two costs more than either of the two."""
    dear = {"units": ("U1",), "cycles": 2}
    choices: Choices = {
        0: variable("a"),
        1: (operation("pair", 0, units=("U1",), cycles=3),),
        2: (operation("one", 0, **dear), operation("lo", 1, cycles=0)),
        3: (operation("other", 0, **dear), operation("hi", 1, cycles=0)),
        4: (operation("add", 2, 3),),
    }
    problem = problem_of(choices, (4,))
    start = restrict({n: found[0] for n, found in choices.items()}, (4,))
    assert {c.node.op for c in improve(problem, start).values()} == {"var", "pair", "lo", "hi", "add"}


def test_a_missing_solver_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    problem = random_problem(random.Random(3))
    assert search(problem, None, Budget()).chosen is None
    found = extract(problem, Budget(branches=59), pipelined=True)
    assert found is not None and found.method != "exact"
