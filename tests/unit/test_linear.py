"""Linear programs."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plant_core.support.milp import LinearProgram


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    program = LinearProgram()
    x = program.variable(1.0, 10.0)
    program.row({x: 2.0}, 3.0)
    solution = program.solve()
    assert solution is not None and solution.proven and solution.values == [1.5]
    assert capfd.readouterr() == ("", "")


def test_no_solution() -> None:
    program = LinearProgram()
    x = program.variable(1.0, 1.0, integer=True)
    program.row({x: 1.0}, 2.0)
    assert program.solve(10) is None


def test_a_better_solution_than_the_start_is_given_back() -> None:
    """Four vectors come from loads of their own or from three loads of pairs, two loads a cycle: HiGHS 1.16.0 solves
    this by presolving, names the right cost, and gives the start back."""
    program = LinearProgram()
    cycles = program.variable(100.0, 4.0, integer=True, lower=2.0)
    pairs = [program.variable(1.018, 1.0, integer=True) for _ in range(2)]
    pairs.append(program.variable(1.0, 1.0, integer=True))
    singles = [program.variable(1.0, 1.0, integer=True) for _ in range(4)]
    ways = (((0,), 0), ((2, 1), 1), ((0, 2), 2), ((1,), 3))
    halves = 0
    for choices, single in ways:
        taken = {singles[single]: 1.0}
        for pair in choices:
            half = program.variable(0.0, 1.0, integer=True)
            program.row({half: 1.0, pairs[pair]: -1.0}, -math.inf, 0.0)
            taken[half] = 1.0
            halves += 1
        program.row(taken, 1.0)
    program.row({cycles: 2.0, **dict.fromkeys((*pairs, *singles), -1.0)}, 3.0)
    start = [4.0, *[0.0] * 3, *[1.0] * 4, *[0.0] * halves]
    solution = program.solve(6, 1e-4, start=start)
    assert solution is not None and solution.proven
    assert sum(c * v for c, v in zip(program.cost, solution.values, strict=True)) == pytest.approx(302.036)


small = st.integers(-3, 3)


@given(
    st.lists(st.tuples(small, st.tuples(small, small, small, small)), min_size=1, max_size=4),
    st.tuples(small, small, small, small),
)
def test_whole_unknowns(rows: list[tuple[int, tuple[int, ...]]], cost: tuple[int, ...]) -> None:
    """The solver finds what trying all finds, from each start."""
    program = LinearProgram()
    unknowns = [program.variable(float(c), 1.0, integer=True) for c in cost]
    for least, factors in rows:
        program.row({u: float(f) for u, f in zip(unknowns, factors, strict=True)}, float(least))
    kept = [
        values
        for values in itertools.product((0, 1), repeat=len(cost))
        if all(sum(map(int.__mul__, factors, values)) >= least for least, factors in rows)
    ]
    best = min((sum(map(int.__mul__, cost, values)) for values in kept), default=math.inf)
    for start in (None, *kept):
        found = program.solve(100, start=start)
        if not kept:
            assert found is None
        else:
            assert found is not None and found.proven
            assert sum(c * v for c, v in zip(cost, found.values, strict=True)) == pytest.approx(best, abs=1e-6)
