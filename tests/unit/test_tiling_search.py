"""The search over candidates: order, budget, what other nests taught, and codes that are the same."""

from __future__ import annotations

import math

from dspgen.errors import NoSchedule, Problem
from dspgen.tiling.candidates import Candidate, Plans
from dspgen.tiling.search import Choice, Experience, search
from plant_core.tiles import CompPlan, LoopShape

FALLBACK = Candidate((), float("inf"), "scalar")


def _plans(span: int, *, constants: tuple[int, ...] | None = None) -> Plans:
    return (("S0", CompPlan(("i",), ((("i", LoopShape(span, lane=True)),),), constants)),)


def _laned(title: str, cycles: float, size: int, *, points: int = 1) -> Candidate:
    return Candidate(_plans(16 * size), cycles, title, points=points, size=size)


def _search(
    finalists: list[Candidate],
    cycles: dict[str, float],
    *,
    tries: int = 7,
    experience: Experience | None = None,
    enough: float = math.inf,
) -> tuple[Choice, list[str]]:
    seen: list[str] = []

    def evaluate(candidate: Candidate) -> float:
        seen.append(candidate.title)
        if candidate.title not in cycles:
            raise NoSchedule(Problem("DG303", "no registers"))
        return cycles[candidate.title]

    return search(finalists, FALLBACK, evaluate, tries=tries, experience=experience, enough=enough), seen


def test_the_smallest_and_the_scalar_candidate_are_tried_beyond_the_budget() -> None:
    finalists = [_laned(f"{n}", 100.0 + n, 8 + n) for n in range(6)]
    finalists += [_laned("smallest", 180.0, 1), Candidate((), 300.0, "plain")]
    cycles = {f"{n}": 500.0 for n in range(6)} | {"smallest": 90.0, "plain": 80.0}
    choice, seen = _search(finalists, cycles, tries=2)
    assert seen == ["0", "smallest", "plain"]
    assert choice.candidate.title == "plain"


def test_the_first_that_takes_more_than_enough_ends_the_search() -> None:
    finalists = [_laned("refused", 90.0, 1), _laned("slow", 100.0, 2), _laned("fast", 110.0, 3)]
    choice, seen = _search(finalists, {"slow": 500.0, "fast": 80.0}, enough=499.0)
    assert seen == ["refused", "slow"] and choice.candidate.title == "slow"
    choice, seen = _search(finalists, {"slow": 500.0, "fast": 80.0}, enough=500.0)
    assert choice.candidate.title == "fast"


def test_refused_candidates_do_not_use_up_the_tries() -> None:
    finalists = [_laned(f"{n}", 100.0 + n, 8 + n) for n in range(5)]
    choice, seen = _search(finalists, {"2": 110.0, "3": 90.0, "4": 95.0}, tries=2)
    assert seen == ["0", "1", "2", "3"]
    assert choice.candidate.title == "3"


def test_what_a_nest_taught_saves_trials_in_the_next() -> None:
    experience = Experience()
    first = [_laned("S0(i*:128 k:4)", 100.0, 8, points=8), _laned("S0(i*:16 k:4)", 150.0, 1)]
    _search(first, {"S0(i*:128 k:4)": 300.0, "S0(i*:16 k:4)": 120.0}, experience=experience)
    second = [_laned("S7(i*:128 k:4)", 80.0, 8, points=8), _laned("S7(i*:16 k:4)", 130.0, 1)]
    choice, seen = _search(second, {"S7(i*:16 k:4)": 104.0}, experience=experience)
    assert seen == ["S7(i*:16 k:4)"]
    assert choice.trials[1].refused == "it is slower in a nest like this"


def test_the_same_code_is_made_once() -> None:
    fused = Candidate(_plans(16), 50.0, "S0(i*:16)", whole=True)
    apart = Candidate(_plans(16, constants=(1, 0)), 55.0, "S0(i*:16);", whole=True)
    looped = Candidate(_plans(32, constants=(1, 0)), 56.0, "S0(i*:32)")
    choice, seen = _search([fused, apart, looped], {"S0(i*:16)": 60.0, "S0(i*:32)": 70.0})
    assert seen == ["S0(i*:16)", "S0(i*:32)"]
    assert choice.trials[1].refused == "it makes the same code as another"
