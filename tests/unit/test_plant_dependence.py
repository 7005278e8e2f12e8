"""Dependences: exact flow, reductions, and the loops that carry them."""

from __future__ import annotations

import islpy as isl
import pytest

from plant_core.analysis.dependence import (
    dependences,
    flows,
    lane_candidates,
    memory_dependences,
    rebalance_reductions,
    reduction_of,
)
from plant_core.interp.func import evaluate
from tests.support.plant_builder import Builder, matmul
from tests.support.plant_random import random_func, random_inputs


def _find(func, kind, source, sink):
    return [d for d in dependences(func) if (d.kind, d.source, d.sink) == (kind, source, sink)]


def test_flow_comes_from_the_last_writer_only():
    func = matmul(4, 5, 6)
    (initial,) = _find(func, "flow", "S0", "S1")
    assert initial.relation.is_equal(isl.Map("{ S0[i, j] -> S1[i, j, 0] : 0 <= i < 4 and 0 <= j < 5 }"))
    assert not initial.reduction
    (carried,) = _find(func, "flow", "S1", "S1")
    assert carried.relation.is_equal(
        isl.Map("{ S1[i, j, k] -> S1[i, j, k + 1] : 0 <= i < 4 and 0 <= j < 5 and 0 <= k < 5 }")
    )
    assert carried.reduction


def test_a_write_in_between_hides_an_earlier_one():
    b = Builder({"A": (8,), "B": (8,)})
    b.comp("i", "0 <= i < 8", [0, "i", 0], "A[i] = 1").comp("i", "0 <= i < 4", [1, "i", 0], "A[2 * i] = 2")
    b.comp("i", "0 <= i < 8", [2, "i", 0], "B[i] = A[i]")
    (first,) = _find(b.func(), "flow", "S0", "S2")
    assert first.relation.is_equal(isl.Map("{ S0[i] -> S2[i] : i mod 2 = 1 and 0 <= i < 8 }"))
    memory = [d for d in memory_dependences(b.func()) if (d.kind, d.source, d.sink) == ("flow", "S0", "S2")]
    assert memory[0].relation.is_equal(isl.Map("{ S0[i] -> S2[i] : 0 <= i < 8 }"))


def test_parameters_stay_symbolic():
    b = Builder({"A": (100,)}, params=("n",)).comp("i", "1 <= i < n", [0, "i", 0], "A[i] = A[i - 1]")
    (flow,) = _find(b.func(), "flow", "S0", "S0")
    assert flow.relation.is_equal(isl.Map("[n] -> { S0[i] -> S0[i + 1] : 1 <= i < n - 1 }"))


@pytest.mark.parametrize(
    ("statement", "op"),
    [
        ("r[0] = r[0] + x[i]", "add"),
        ("r[0] = x[i] + r[0]", "add"),
        ("r[0] = r[0] - x[i]", "add"),
        ("r[0] = (r[0] + x[i]) - x[2 * i]", "add"),
        ("r[0] = r[0] * x[i]", "mul"),
        ("r[0] = max(x[i], r[0])", "max"),
        ("r[0] = x[i] - r[0]", None),
        ("r[0] = r[0] + r[0]", None),
        ("r[0] = r[0] * x[i] + x[i]", None),
        ("r[0] = r[0] + x[i] * r[0]", None),
        ("r[0] = r[1] + x[i]", None),
    ],
)
def test_reductions_are_recognised(statement, op):
    func = Builder({"r": (2,), "x": (20,)}).comp("i", "0 <= i < 10", [0, "i", 0], statement).func()
    found = reduction_of(func.comps[0])
    assert (found and found.op) == op
    marks = {d.reduction for d in dependences(func) if d.source == d.sink}
    assert marks == ({op is not None} if marks else set())


def test_another_read_of_the_target_is_an_ordinary_dependence():
    b = Builder({"a": (9,)}).comp("t,i", "0 <= t < 3 and 1 <= i < 9", [0, "t", 0, "i", 0], "a[i] = a[i] + a[i - 1]")
    assert {d.reduction for d in dependences(b.func()) if d.kind == "flow"} == {True, False}


def test_two_statements_of_one_reduction():
    b = Builder({"r": (1,), "x": (20,)})
    b.comp("i", "0 <= i < 10", [0, "i", 0], "r[0] = r[0] + x[i]").comp(
        "i", "0 <= i < 10", [0, "i", 1], "r[0] = r[0] - x[i]"
    )
    assert all(d.reduction for d in dependences(b.func()))
    b.comp("i", "0 <= i < 10", [0, "i", 2], "r[0] = r[0] * x[i]")
    assert not all(d.reduction for d in dependences(b.func()))


def test_rebalancing_keeps_the_value():
    b = Builder({"r": (1,), "x": (20,)}, dtype="i32")
    b.comp("i", "0 <= i < 9", [0, "i", 0], "r[0] = (x[i] - x[i + 1]) + (r[0] - x[2 * i])")
    func = b.func()
    new = rebalance_reductions(func, reassoc=False)
    assert new.comps[0].value.left == func.comps[0].target
    inputs = random_inputs(func, 1)
    assert (evaluate(func, inputs)["r"] == evaluate(new, inputs)["r"]).all()


def test_floats_are_rebalanced_only_on_request():
    func = (
        Builder({"r": (1,), "x": (20,)}).comp("i", "0 <= i < 9", [0, "i", 0], "r[0] = (r[0] + x[i]) + x[i + 1]").func()
    )
    assert rebalance_reductions(func, reassoc=False) == func
    assert rebalance_reductions(func, reassoc=True).comps[0].value.left == func.comps[0].target


def _kinds(func, **options):
    return {tuple(c.loop.members): c.kind for c in lane_candidates(func, **options)}


def test_lane_candidates_of_a_matrix_product():
    assert _kinds(matmul(4, 4, 4)) == {
        (("S0", "i"), ("S1", "i")): "parallel",
        (("S0", "j"), ("S1", "j")): "parallel",
        (("S1", "k"),): "reduction",
    }
    assert (("S1", "k"),) not in _kinds(matmul(4, 4, 4), reassoc=False)
    assert (("S1", "k"),) in _kinds(matmul(4, 4, 4, "i32"), reassoc=False)


def test_a_recurrence_is_no_lane_loop_but_an_overtaking_read_is():
    recurrence = Builder({"a": (9,)}).comp("i", "1 <= i < 9", [0, "i", 0], "a[i] = a[i - 1]").func()
    shift = Builder({"a": (9,)}).comp("i", "0 <= i < 8", [0, "i", 0], "a[i] = a[i + 1]").func()
    assert _kinds(recurrence) == {}
    assert _kinds(shift) == {(("S0", "i"),): "parallel"}


def test_flow_is_a_part_of_memory_flow():
    for seed in range(25):
        func = random_func(seed)
        memory = isl.UnionMap("{ }")
        for d in memory_dependences(func):
            if d.kind == "flow":
                memory = memory.union(d.relation)
        for d in dependences(func):
            if d.kind == "flow":
                assert isl.UnionMap.from_map(d.relation).is_subset(memory), seed


@pytest.mark.parametrize("seed", range(6))
def test_dependences_of_some_statements_are_those_among_all(seed):
    func = random_func(seed)

    def same(some, every):
        assert [(d.source, d.sink, d.buf) for d in some] == [(d.source, d.sink, d.buf) for d in every]
        assert all(a.relation.is_equal(b.relation) for a, b in zip(some, every, strict=True))

    for comp in func.comps:
        touching = [d for d in memory_dependences(func) if comp.name in (d.source, d.sink)]
        same(memory_dependences(func, of={comp.name}), touching)
        same(flows(func, reader=comp.name), [f for f in flows(func) if f.sink == comp.name])
