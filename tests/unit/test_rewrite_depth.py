"""Terms that are waited for least, on problems small enough to try every choice."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from dspgen.rewrite.extract.extract import extract
from dspgen.rewrite.extract.greedy import greedy
from dspgen.rewrite.extract.latency_depth import depth, shallow
from dspgen.rewrite.extract.milp import Budget
from dspgen.rewrite.extract.problem import Choice, CyclicChoice, Problem, restrict
from tests.support.problems import operation, problem_of, random_problem, variable


def every(problem: Problem) -> Iterator[dict[int, Choice]]:
    for picks in itertools.product(*problem.choices.values()):
        try:
            yield restrict(dict(zip(problem.choices, picks, strict=True)), problem.roots)
        except CyclicChoice:
            continue


@pytest.mark.parametrize("seed", range(40))
def test_no_term_is_less_deep(seed: int) -> None:
    problem = random_problem(random.Random(seed))
    least = min(depth(problem, chosen) for chosen in every(problem))
    start = greedy(problem)
    assert start is not None
    for limit in range(least + 3):
        found = shallow(problem, start, limit)
        assert found is not None
        assert depth(problem, found) <= max(limit, least)


def test_what_is_early_enough_stays_as_it_was() -> None:
    slow, fast = operation("slow", 0, latency=9), operation("fast", 0, cycles=3, latency=2)
    problem = problem_of(
        {
            0: variable("a"),
            1: (slow, fast),
            2: (slow, fast),
            3: (operation("late", 2, latency=20),),
            4: (operation("add", 1, 3),),
        },
        (4,),
    )
    start = restrict({n: found[0] for n, found in problem.choices.items()}, (4,))
    found = shallow(problem, start, 0)
    assert found is not None
    assert (found[1].node.op, found[2].node.op, depth(problem, found)) == ("slow", "fast", 23)


def test_latency_decides_where_units_have_little_to_do() -> None:
    """In a loop the operation that occupies less; in straight code the faster one."""
    problem = problem_of(
        {0: variable("a"), 1: (operation("less", 0, latency=9), operation("faster", 0, cycles=2, latency=4))}, (1,)
    )
    ops = {}
    for waiting in (True, False):
        found = extract(problem, Budget(), pipelined=not waiting, waiting=waiting)
        assert found is not None
        ops[waiting] = found.chosen[1].op
    assert ops == {True: "faster", False: "less"}
