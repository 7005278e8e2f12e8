"""The search over candidates: order, budget, what other nests taught, and codes that are the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from dspgen.errors import NoSchedule, Problem, TooHard, TooLarge
from dspgen.options import TILERS, Tiler
from dspgen.search.candidate_search import Experience, Slower, search
from dspgen.search.code_budget import CodeBudget
from dspgen.search.work_partition import alike, in_parts, neighbours
from dspgen.tiling.candidates import Candidate, Choice
from dspgen.tiling.register_tiles import Plans
from plant_core.tile_plan.plan import CompPlan, LoopShape

FALLBACK = Candidate((), float("inf"), "scalar")


def _plans(span: int, *, constants: tuple[int, ...] | None = None) -> Plans:
    return (("S0", CompPlan(("i",), ((("i", LoopShape(span, lane=True)),),), constants)),)


def _laned(title: str, cycles: float, size: int, *, points: int = 1) -> Candidate:
    return Candidate(_plans(16 * size), cycles, title, points=points, size=size)


def test_nests_that_are_alike_are_searched_in_one_part() -> None:
    rows, columns = _laned("S0(i:1 j*:32)", 40, 2), _laned("S3(i*:16 j:1)", 9, 1)
    finalists = [[rows], [columns], [replace(rows, title="S7(i:1 j*:32)")], [], [columns], []]
    assert alike(finalists, 2) == [[0, 2], [1, 3, 4, 5]]
    assert in_parts(lambda numbers: [10 * n for n in numbers], [[0, 2, 5], [1, 3, 4]]) == [0, 10, 20, 30, 40, 50]
    assert [list(part) for part in neighbours(5, 2)] == [[0, 1], [2, 3, 4]]


def _search(
    finalists: list[Candidate],
    cycles: dict[str, float],
    *,
    tries: int = 7,
    experience: Experience | None = None,
    enough: float = math.inf,
    least: dict[str, float] | None = None,
    before: Choice | None = None,
    tiler: Tiler = "feedback",
) -> tuple[Choice, list[str]]:
    """The choice, and which candidates were scheduled; `least` are the cycles that code takes at least."""
    seen: list[str] = []

    def evaluate(candidate: Candidate, limit: float) -> float:
        if (bound := (least or {}).get(candidate.title, 0.0)) >= limit:
            raise Slower(bound)
        seen.append(candidate.title)
        if candidate.title not in cycles:
            raise NoSchedule(Problem("DG303", "no registers"))
        return cycles[candidate.title]

    choice = search(
        finalists, [FALLBACK], evaluate, tries=tries, experience=experience, enough=enough, before=before, tiler=tiler
    )  # fmt: skip
    return choice, seen


def test_each_candidate_is_begun_beside_the_one_before_it_unless_that_is_in_vain() -> None:
    finalists = [_laned("good", 100.0, 1), _laned("next", 104.0, 2), _laned("hopeless", 190.0, 3)]
    told: list[tuple[str, str, float]] = []

    def evaluate(candidate: Candidate, limit: float) -> float:
        told.append(("tried", candidate.title, limit))
        return {"good": 100.0, "next": 90.0}[candidate.title]

    def begin(candidate: Candidate, limit: float) -> Callable[[], None]:
        told.append(("begun", candidate.title, limit))
        return lambda: told.append(("dropped", candidate.title, 0.0))

    search(finalists, [FALLBACK], evaluate, begin=begin)
    assert told == [
        ("begun", "next", 208.0),
        ("tried", "good", 200.0),
        ("tried", "next", 100.0),
    ]
    told.clear()
    finalists[1] = _laned("unwanted", 130.0, 2)
    search(finalists, [FALLBACK], evaluate, begin=begin)
    assert told == [("begun", "unwanted", 260.0), ("tried", "good", 200.0), ("dropped", "unwanted", 0.0)]


def test_beside_other_nests_a_third_tile_must_be_expected_to_win() -> None:
    finalists = [_laned("1", 100.0, 1), _laned("2", 100.0, 2), _laned("3", 100.0, 3), _laned("4", 90.0, 4)]
    cycles = {"1": 100.0, "2": 98.0, "3": 97.0, "4": 95.0}
    tried: dict[bool, list[str]] = {True: [], False: []}
    for several, titles in tried.items():

        def evaluate(candidate: Candidate, limit: float, titles: list[str] = titles) -> float:
            titles.append(candidate.title)
            return cycles[candidate.title]

        search(finalists, [FALLBACK], evaluate, several=several)
    assert tried == {False: ["4", "1", "2", "3"], True: ["4", "1"]}


def test_the_smallest_and_the_scalar_candidate_are_tried_beyond_the_budget() -> None:
    finalists = [_laned(f"{n}", 100.0 + n, 8 + n) for n in range(6)]
    finalists += [_laned("smallest", 180.0, 1), Candidate((), 300.0, "plain")]
    cycles = {f"{n}": 500.0 for n in range(6)} | {"smallest": 90.0, "plain": 80.0}
    choice, seen = _search(finalists, cycles, tries=2)
    assert seen == ["0", "smallest", "plain"]
    assert choice.candidate.title == "plain"


@pytest.mark.parametrize(("expected", "tried"), [(69.0, True), (71.0, False)])
def test_a_large_tile_that_should_be_much_better_does_not_come_last(expected: float, tried: bool) -> None:
    finalists = [_laned(f"{n}", 100.0 + n, 4 + n) for n in range(6)]
    finalists.append(_laned("large", expected, 30, points=1000))
    cycles = {f"{n}": 100.0 for n in range(6)} | {"large": 80.0}
    choice, seen = _search(finalists, cycles, tries=3)
    assert ("large" in seen) == tried and (choice.candidate.title == "large") == tried


def test_the_first_that_takes_more_than_enough_ends_the_search() -> None:
    finalists = [_laned("refused", 90.0, 1), _laned("slow", 100.0, 2), _laned("fast", 110.0, 3)]
    choice, seen = _search(finalists, {"slow": 500.0, "fast": 80.0}, enough=499.0)
    assert seen == ["refused", "slow"] and choice.candidate.title == "slow"
    choice, seen = _search(finalists, {"slow": 500.0, "fast": 80.0}, enough=500.0)
    assert choice.candidate.title == "fast"


def test_code_that_surely_takes_more_than_enough_ends_the_search_unscheduled() -> None:
    finalists = [_laned("refused", 90.0, 1), _laned("slow", 300.0, 2), _laned("fast", 310.0, 3)]
    with pytest.raises(Slower) as bound:
        _search(finalists, {"slow": 500.0, "fast": 80.0}, enough=499.0, least={"slow": 500.0})
    assert bound.value.cycles == 500.0
    choice, seen = _search(finalists, {"slow": 510.0, "fast": 80.0}, enough=500.0, least={"slow": 500.0})
    assert seen == ["refused", "slow"] and choice.cycles == 510.0
    finalists[1] = _laned("slow", 100.0, 2)
    choice, seen = _search(finalists, {"fast": 80.0}, enough=499.0, least={"slow": 500.0})
    assert seen == ["refused", "fast"] and choice.cycles == 80.0, "far from the model: others go first"


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


def test_code_that_cannot_win_is_not_scheduled() -> None:
    finalists = [_laned("fast", 100.0, 2), _laned("slow", 101.0, 3), _laned("faster", 102.0, 3)]
    cycles = {"fast": 120.0, "slow": 130.0, "faster": 110.0}
    choice, seen = _search(finalists, cycles, least={"slow": 120.0, "faster": 119.0})
    assert seen == ["fast", "faster"] and choice.candidate.title == "faster"
    assert choice.trials[1].refused == "its code takes 120 cycles at least"


def test_code_far_from_the_model_waits_for_something_to_compare_it_with() -> None:
    finalists = [_laned("wrong", 100.0, 2), _laned("worse", 101.0, 3), _laned("right", 102.0, 3)]
    cycles = {"wrong": 400.0, "worse": 900.0, "right": 110.0}
    choice, seen = _search(finalists, cycles, least={"wrong": 300.0, "worse": 800.0})
    assert seen == ["right"] and choice.candidate.title == "right"
    choice, seen = _search(finalists[:2], cycles, least={"wrong": 300.0, "worse": 800.0})
    assert seen == ["wrong"] and choice.candidate.title == "wrong"


def test_the_plan_that_fewer_rules_chose_goes_first() -> None:
    finalists = [_laned("a", 100.0, 2), _laned("b", 101.0, 3), _laned("c", 102.0, 3)]
    cycles = {"a": 130.0, "b": 140.0, "c": 110.0}
    _, seen = _search(finalists, cycles, before=Choice(("S0",), finalists[2], ()))
    assert seen == ["c", "a", "b"]


def test_of_tiles_that_were_much_too_large_the_smallest_is_tried_last_and_the_others_only_if_it_works_out() -> None:
    finalists = [_laned(f"S0(i*:{16 * n})", 100.0 + k, n) for k, n in enumerate((8, 4, 2, 1))]

    def evaluate(candidate: Candidate, limit: float) -> float:
        seen.append(candidate.size)
        if candidate.size > 1:
            raise TooLarge(Problem("DG308", "too much"), times)
        return 110.0

    times = 2.0
    seen: list[int] = []
    first = search(finalists, [FALLBACK], evaluate)
    assert seen == [8, 1, 4, 2] and first.candidate.size == 1
    seen = []
    again = search(finalists, [FALLBACK], evaluate, before=first)
    assert seen == [1, 2] and again.candidate.size == 1
    # Those that were a little too large keep their place.
    times = 1.1
    seen = []
    search(finalists, [FALLBACK], evaluate, before=search(finalists, [FALLBACK], evaluate))
    assert seen[4:] == [1, 8, 4, 2]


GRID = [(i, j) for i in range(1, 13) for j in range(16, 193, 16)]


def grid() -> dict[str, float]:
    """Cycles of tiles of which those in the middle are best; the model thinks the opposite."""
    return {f"S(i:{i} j*:{j})": 100.0 + abs(i - 8) * 7 + abs(j - 64) for i, j in GRID}


@pytest.mark.parametrize("tiler", TILERS)
def test_ways_of_searching(tiler: Tiler) -> None:
    cycles = grid()
    tiles = sorted((_laned(t, 1000 - c, k) for k, (t, c) in enumerate(cycles.items(), 1)), key=lambda c: c.rank)
    choice, asked = _search(tiles, cycles, tiler=tiler)
    assert len(asked) == len(set(asked)) == sum(t.tried for t in choice.trials)
    found = cycles[choice.candidate.title]
    if tiler == "exhaustive":
        assert len(asked) == len(GRID) and found == min(cycles.values())
    elif tiler == "evolve":
        assert len(asked) < len(GRID) and found <= sorted(cycles.values())[9]
    elif tiler == "model":
        assert asked == [tiles[0].title] == [choice.candidate.title]
    else:
        assert choice.candidate.title in asked


def test_breeding_from_what_is_refused_ends() -> None:
    with pytest.raises(NoSchedule):
        _search([_laned(t, c, 1) for t, c in grid().items()], {}, tiler="evolve")


def test_scalar_code_is_looked_at_where_the_first_is_refused() -> None:
    finalists = [
        _laned("0", 100.0, 8),
        _laned("smallest", 110.0, 1),
        _laned("1", 120.0, 4),
        Candidate((), 300.0, "plain"),
    ]
    choice, seen = _search(finalists, {"smallest": 90.0, "1": 80.0, "plain": 85.0}, least={"smallest": 86.0})
    assert seen == ["0", "plain", "1", "plain"]
    assert choice.candidate.title == "1"
    _, seen = _search(finalists, {"0": 95.0, "smallest": 90.0, "1": 80.0, "plain": 85.0})
    assert seen == ["0", "smallest", "1", "plain"]


def test_what_is_refused_is_tried_with_fewer_vectors() -> None:
    """At once, besides what there is time for, and as long as these are refused as well."""
    fewest = _laned("fewest", 90.0, 8)
    fewer = replace(_laned("fewer", 70.0, 16), instead=fewest)
    finalists = [replace(_laned("many", 50.0, 64), instead=fewer), _laned("other", 80.0, 8)]
    choice, seen = _search(finalists, {"fewest": 85.0, "other": 95.0}, tries=2)
    assert seen == ["many", "fewer", "fewest", "other"]
    assert choice.candidate is fewest
    again, seen = _search(finalists, {"fewest": 80.0, "other": 95.0}, before=choice)
    assert seen[0] == "fewest" and again.candidate is fewest
    _, seen = _search(finalists, {"many": 60.0, "fewer": 50.0, "fewest": 40.0, "other": 95.0})
    assert "fewer" not in seen


def test_what_was_refused_is_no_lighter_code() -> None:
    """Where the cycles of the scalar code that is left are not known."""
    choice, _ = _search([_laned("refused", 90.0, 1)], {"scalar": math.inf})
    assert choice.candidate is FALLBACK and choice.light is None


@pytest.mark.parametrize(("half", "tried"), [(120.0, True), (105.0, False)])
def test_the_double_of_the_best_is_tried_where_doubling_won_much(half: float, tried: bool) -> None:
    twice = _laned("four", 50.0, 4)
    best = replace(_laned("two", 50.0, 2), doubled=twice)
    finalists = [replace(_laned("one", 50.0, 1), doubled=best), best]
    choice, seen = _search(finalists, {"one": half, "two": 100.0, "four": 90.0}, tries=2)
    assert seen == ["one", "two", "four"][: 2 + tried] and choice.candidate == (twice if tried else best)


def test_straight_code_is_preferred_beside_other_nests() -> None:
    """What is about as good without loops overlaps with the code before it and after it."""
    finalists = [_laned("loops", 100.0, 1), replace(_laned("straight", 100.0, 2), whole=True)]
    finalists.append(replace(_laned("slow", 100.0, 4), whole=True))
    cycles = {"loops": 90.0, "straight": 99.0, "slow": 120.0}
    best = {
        several: search(finalists, [FALLBACK], lambda c, limit: cycles[c.title], several=several)
        for several in (False, True)
    }
    assert [best[several].candidate.title for several in (False, True)] == ["loops", "straight"]


@pytest.mark.parametrize("refusal", [TooLarge(Problem("DG308", "large"), 1.3), TooHard(Problem("DG308", "hard"))])
def test_the_least_tile_gets_more_room_where_none_with_lanes_works_out_for_want_of_it(refusal: NoSchedule) -> None:
    finalists = [_laned("wide", 100.0, 4), _laned("least", 120.0, 2), Candidate((), 600.0, "plain")]
    seen: list[tuple[str, int]] = []

    def evaluate(candidate: Candidate, limit: float, needed: int = 2) -> float:
        seen.append((candidate.title, candidate.room))
        if candidate.laned and candidate.room < needed:
            raise refusal
        return 200.0 if candidate.laned else 600.0

    choice = search(finalists, [FALLBACK], evaluate)
    assert (choice.candidate.title, choice.cycles) == ("least", 200.0)
    assert [room for title, room in seen if title == "least"][-1] > 1 and {
        room for title, room in seen if title == "wide"
    } == {1}
    seen.clear()
    choice = search(finalists, [FALLBACK], lambda candidate, limit: evaluate(candidate, limit, needed=1))
    assert all(room == 1 for _, room in seen)  # nobody asks for room where lanes work out without
    choice = search(finalists, [FALLBACK], lambda candidate, limit: evaluate(candidate, limit, needed=99))
    assert choice.candidate.title == "plain"


def test_only_the_smallest_tile_and_scalar_code_are_tried_once_the_budget_of_code_is_spent() -> None:
    code = CodeBudget(most=1000)
    finalists = [_laned(f"large{k}", 90.0 + k, 8 + k) for k in range(6)]
    finalists += [_laned("least", 120.0, 1), Candidate((), 600.0, "plain")]
    seen: list[str] = []

    def evaluate(candidate: Candidate, limit: float) -> float:
        seen.append(candidate.title)
        code.spend(600)
        raise NoSchedule(Problem("DG303", "no registers"))

    with pytest.raises(NoSchedule):
        search(finalists, [FALLBACK], evaluate, code=code)
    assert seen == ["large0", "plain", "least", "plain", "scalar"]
    assert code.spent and code.made == 600 * len(seen)


def test_one_and_a_half_times_the_budget_is_left_for_statements_without_lanes() -> None:
    for made, room in ((1400, True), (1600, False)):
        code = CodeBudget(most=1000)
        finalists = [_laned("only", 100.0, 4), Candidate((), 600.0, "plain")]

        def evaluate(candidate: Candidate, limit: float, code: CodeBudget = code, made: int = made) -> float:
            code.spend(made if candidate.laned else 0)
            if candidate.laned and candidate.room == 1:
                raise TooHard(Problem("DG308", "hard"))
            return 200.0 if candidate.laned else 600.0

        choice = search(finalists, [FALLBACK], evaluate, code=code)
        assert choice.candidate.title == ("only" if room else "plain")


def test_no_larger_code_gets_room_where_the_least_lacks_registers() -> None:
    code = CodeBudget()
    made = {"wide": 1500, "least": 900, "other": 1100}
    finalists = [_laned("wide", 100.0, 4), _laned("least", 120.0, 2), _laned("other", 110.0, 3)]
    finalists.append(Candidate((), 600.0, "plain"))
    with_room: list[str] = []

    def evaluate(candidate: Candidate, limit: float) -> float:
        code.spend(made.get(candidate.title, 10))
        if not candidate.laned:
            return 600.0
        if candidate.room == 1:
            raise TooHard(Problem("DG308", "hard"))
        with_room.append(candidate.title)
        raise NoSchedule(Problem("DG303", "no registers"))

    choice = search(finalists, [FALLBACK], evaluate, code=code)
    assert choice.candidate.title == "plain" and with_room == ["least"]


@pytest.mark.parametrize("needed", [2, 99])
def test_statements_without_lanes_get_more_room_than_those_that_work_out(needed: int) -> None:
    both = (*_plans(16), ("S1", _plans(16)[0][1]))
    without = (*_plans(16), ("S1", CompPlan(("i",), ((("i", LoopShape(1)),),))))
    finalists = [Candidate(both, 90.0, "both", size=2), Candidate(without, 100.0, "one", size=1)]
    finalists += [Candidate(both, 95.0, "wide", size=4), Candidate((), 300.0, "plain")]
    seen: list[tuple[str, int]] = []

    def evaluate(candidate: Candidate, limit: float) -> float:
        seen.append((candidate.title, candidate.room))
        if "S1" in candidate.laned and candidate.room < needed:
            raise TooLarge(Problem("DG308", "large"), 1.3)
        return {"both": 200.0, "wide": 200.0, "one": 500.0, "plain": 900.0}[candidate.title]

    choice = search(finalists, [FALLBACK], evaluate)
    assert choice.candidate.title == ("both" if needed == 2 else "one")
    roomy = [title for title, room in seen if room > 1]
    assert roomy == (["both"] if needed == 2 else ["both", "wide"])
