"""Renaming, expansion and dead Comps; loops of steps other than one."""

from __future__ import annotations

import numpy as np
import pytest

from plant_core.analysis.dependence import lane_candidates, rebalance_reductions
from plant_core.interp.func import evaluate
from plant_core.ir.time_2d1 import common_loops, normalise_loops
from plant_core.normalize.scalars.scalar_expansion import drop_dead, expand_scalars
from tests.support.plant_builder import Builder
from tests.support.plant_random import random_func, random_inputs


def _shapes(func):
    return {b.name: b.shape for b in func.bufs if b.kind == "local"}


def test_a_scalar_becomes_an_array_over_its_common_loops():
    b = Builder({"x": (20,), "r": (10,), "sum": ()}, local=("sum",))
    b.comp("i", "2 <= i < 10", [0, "i", 0], "sum = 0.0")
    b.comp("i,k", "2 <= i < 10 and 10 <= k < 20", [0, "i", 1, "k", 0], "sum = sum + x[k] * x[k - i]")
    b.comp("i", "2 <= i < 10", [0, "i", 2], "r[i] = sum")
    func = expand_scalars(b.func())
    assert _shapes(func) == {"sum": (8,)}
    assert [c.kind for c in lane_candidates(func)] == ["parallel", "reduction"]
    assert lane_candidates(b.func())[0].kind != "parallel"


@pytest.mark.parametrize(
    ("extent", "shape"), [(3, (3, 5, 10)), (10, (10, 10)), (40, (40,))], ids=["few", "more", "a row"]
)
def test_a_small_array_is_expanded_over_the_inner_loops_that_there_is_room_for(extent, shape):
    b = Builder({"x": (10, 40), "r": (5, 10), "t": (extent,)}, local=("t",))
    b.comp("i,j,k", f"0 <= i < 5 and 0 <= j < 10 and 0 <= k < {extent}", [0, "i", 0, "j", 0, "k", 0], "t[k] = x[j, k]")
    b.comp("i,j", "0 <= i < 5 and 0 <= j < 10", [0, "i", 0, "j", 1], f"r[i, j] = t[0] + t[{extent - 1}]")
    func = expand_scalars(b.func(), array_elements=400, few=16)
    assert _shapes(func) == {"t": shape}
    inputs = {"x": np.arange(400, dtype=np.float32).reshape(10, 40), "r": np.zeros((5, 10), np.float32)}
    np.testing.assert_array_equal(evaluate(func, inputs)["r"], evaluate(b.func(), inputs)["r"])


def test_a_value_that_crosses_iterations_is_not_expanded():
    b = Builder({"x": (10,), "r": (10,), "s": ()}, local=("s",))
    b.comp("", "", [0], "s = 0.0")
    b.comp("i", "0 <= i < 10", [1, "i", 0], "s = s + x[i]").comp("i", "0 <= i < 10", [1, "i", 1], "r[i] = s")
    assert _shapes(expand_scalars(b.func())) == {"s": ()}


def test_a_symbolic_loop_is_not_expanded():
    b = Builder({"x": (10,), "r": (10,), "s": ()}, local=("s",), params=("n",))
    b.comp("i", "0 <= i < n", [0, "i", 0], "s = x[i]").comp("i", "0 <= i < n", [0, "i", 1], "r[i] = s")
    assert _shapes(expand_scalars(b.func())) == {"s": ()}


def test_disjoint_webs_get_names_of_their_own():
    b = Builder({"x": (10,), "r": (10,), "t": (), "t_1": ()}, local=("t",))
    b.comp("i", "0 <= i < 10", [0, "i", 0], "t = x[i]").comp("i", "0 <= i < 10", [0, "i", 1], "r[i] = t")
    b.comp("i", "0 <= i < 10", [1, "i", 0], "t = r[i]").comp("i", "0 <= i < 10", [1, "i", 1], "x[i] = t + t_1")
    assert list(_shapes(expand_scalars(b.func()))) == ["t", "t_2"]


def test_arrays_are_split_within_a_budget():
    b = Builder({"x": (10,), "r": (10,), "t": (10,)}, local=("t",))
    for k, (target, value) in enumerate([("t[i]", "x[i]"), ("r[i]", "t[i]"), ("t[i]", "r[i] + 1"), ("x[i]", "t[i]")]):
        b.comp("i", "0 <= i < 10", [k, "i", 0], f"{target} = {value}")
    assert list(_shapes(expand_scalars(b.func()))) == ["t", "t_1"]
    assert list(_shapes(expand_scalars(b.func(), split_elements=9))) == ["t"]


def test_rows_that_nobody_shares_stay_in_one_array():
    b = Builder({"x": (10,), "t": (2, 10)}, local=("t",))
    for k, (target, value) in enumerate([("t[0, i]", "x[i]"), ("t[1, i]", "x[i] + 1"), ("x[i]", "t[0, i] + t[1, i]")]):
        b.comp("i", "0 <= i < 10", [k, "i", 0], f"{target} = {value}")
    assert list(_shapes(expand_scalars(b.func()))) == ["t"]
    b.comp("i", "0 <= i < 10", [3, "i", 0], "t[1, i] = x[i]").comp("i", "0 <= i < 10", [4, "i", 0], "x[i] = t[1, i]")
    assert list(_shapes(expand_scalars(b.func()))) == ["t", "t_1"]


def test_what_nothing_needs_is_dropped():
    b = Builder({"x": (10,), "r": (10,), "s": (), "t": ()}, local=("s", "t"))
    b.comp("i", "0 <= i < 10", [0, "i", 0], "s = x[i]").comp("i", "0 <= i < 10", [0, "i", 1], "t = s")
    b.comp("i", "0 <= i < 10", [0, "i", 2], "r[i] = x[i]")
    func = drop_dead(b.func())
    assert [c.name for c in func.comps] == ["S2"] and _shapes(func) == {}


def test_strided_loops_count_by_one():
    b = Builder({"A": (100,), "B": (100,)}, dtype="i32")
    b.comp("i", "3 <= i < 40 and (i - 3) mod 4 = 0", [0, "i", 0], "B[i] = A[2 * i] + i")
    b.comp(
        "i,j",
        "3 <= i < 40 and (i - 3) mod 4 = 0 and i <= j < 50 and (j - i) mod 2 = 0",
        [0, "i", 1, "j", 0],
        "B[j] = A[i] + j",
    )
    func = normalise_loops(b.func())
    assert [str(c.domain) for c in func.comps] == [
        "{ S0[i] : 0 <= i <= 9 }",
        "{ S1[i, j] : 0 <= i <= 9 and 2i <= j <= 23 }",
    ]
    inputs = random_inputs(b.func(), 0)
    assert (evaluate(b.func(), inputs)["B"] == evaluate(func, inputs)["B"]).all()


def test_a_stride_of_some_comps_only_is_left():
    b = Builder({"A": (100,)})
    b.comp("i", "0 <= i < 40", [0, "i", 0], "A[i] = 1").comp(
        "i", "0 <= i < 40 and i mod 2 = 0", [0, "i", 1], "A[i] = 2"
    )
    func = b.func()
    assert normalise_loops(func) is func


def test_loops_are_shared_by_equal_prefixes():
    b = Builder({"A": (100,)})
    b.comp("i", "0 <= i < 4", [0, "i", 0], "A[i] = 1")
    b.comp("i,j", "0 <= i < 4 and 0 <= j < 4", [0, "i", 1, "j", 0], "A[i] = 1")
    b.comp("i,l", "0 <= i < 4 and 0 <= l < 4", [0, "i", 2, "l", 0], "A[i] = 1")
    b.comp("m", "0 <= m < 4", [1, "m", 0], "A[m] = 1")
    first, second = common_loops(b.func())
    assert first.members == (("S0", "i"), ("S1", "i"), ("S2", "i"))
    assert [c.members for c in first.children] == [(("S1", "j"),), (("S2", "l"),)]
    assert second.members == (("S3", "m"),)


@pytest.mark.parametrize("seed", range(0, 120, 3))
def test_random_programs_keep_their_meaning(seed):
    func = random_func(seed)
    inputs = random_inputs(func, seed)
    expected = evaluate(func, inputs)
    for change in (
        lambda f: rebalance_reductions(f, reassoc=False),
        normalise_loops,
        expand_scalars,
        lambda f: expand_scalars(normalise_loops(rebalance_reductions(f, reassoc=False))),
    ):
        got = evaluate(change(func), inputs)
        assert all(np.array_equal(expected[name], got[name]) for name in expected)
