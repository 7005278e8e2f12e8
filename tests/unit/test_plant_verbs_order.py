"""Legality: what check says, loops that carry nothing, arrays of one iteration, bounds read from memory."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl
import pytest

from plant_core.analysis.dependence import memory_dependences
from plant_core.ir.func import (
    Alloc,
    Binary,
    Buf,
    Comp,
    DType,
    Effect,
    Expr,
    Func,
    Iter,
    Load,
    Memcpy,
    Param,
    ScalarParam,
    Val,
)
from plant_core.ir.scheduled import Scheduled, as_written
from plant_core.lang.program import Program
from plant_core.schedule import verbs
from plant_core.schedule.legality import (
    carried,
    carried_by,
    check,
    dependences_in,
    is_parallel,
    is_vectorizable,
    rebase,
)
from plant_core.support.location import IllegalSchedule, Loc, PlantError
from tests.support.plant_builder import Builder, matmul
from tests.support.plant_random import random_func


def moved(scheduled: Scheduled, name: str, relation: str) -> Scheduled:
    return scheduled.with_nest(replace(scheduled.nest(name), relation=isl.Map(relation)))


@pytest.mark.parametrize("seed", range(12))
def test_dependences_in_the_order_of_the_text(seed: int) -> None:
    func = random_func(seed)
    expected = {(d.kind, d.source, d.sink, d.buf, d.reduction): d.relation for d in memory_dependences(func)}
    found = {(d.kind, d.source, d.sink, d.buf, d.reduction): d.relation for d in dependences_in(as_written(func))}
    assert found.keys() == expected.keys()
    assert all(found[key].is_equal(expected[key].intersect(found[key])) for key in found)
    assert all(expected[key].is_subset(found[key]) for key in found)


def test_the_message_names_the_pair_and_both_lines() -> None:
    builder = Builder({"A": (100,)}, params=("n",)).comp("i", "1 <= i < n", [0, "i", 0], "A[i] = A[i - 1]")
    with pytest.raises(IllegalSchedule) as caught:
        check(moved(as_written(builder.func()), "S0", "{ S0[i] -> [0, -i, 0] }"))
    error = caught.value
    assert error.code == "DG201" and error.loc == Loc("t.c", 2, 3) and error.remedy
    assert error.message == (
        "this order breaks the flow dependence through 'A' S0[1] -> S0[2] for n = 3 (t.c:2 and t.c:2)"
    )


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        ("{ S0[i] -> [0, 0, 0] }", "two instances of S0 run at the same time"),
        ("{ S0[i] -> [0, i, 0] : i > 1 }", r"S0\[1\] for n = 2 of t.c:2 is never run"),
        ("{ S0[i] -> [0, i, 0, 0] }", "has not the dimensions"),
    ],
)
def test_a_relation_has_to_fit(relation: str, message: str) -> None:
    builder = Builder({"A": (100,)}, params=("n",)).comp("i", "1 <= i < n", [0, "i", 0], "A[i] = A[i - 1]")
    with pytest.raises(PlantError, match=message):
        check(moved(as_written(builder.func()), "S0", relation))


def test_every_statement_is_scheduled() -> None:
    scheduled = as_written(matmul(4, 4, 4))
    with pytest.raises(PlantError, match="S1 has no loops in the schedule"):
        check(replace(scheduled, nests=scheduled.nests[:1]))


def test_carried() -> None:
    scheduled = as_written(matmul(4, 5, 6), reassoc=True)
    found = carried(scheduled)
    assert {key for key, value in found.items() if value} == {("S1", "k")}
    assert {d.kind for d in found["S1", "k"]} == {"flow", "anti", "output"}
    assert all(d.reduction for d in carried_by(scheduled, "S1", "k"))
    assert is_parallel(scheduled, "S0", "i") and not is_parallel(scheduled, "S1", "k")
    assert is_vectorizable(scheduled, "S1", "k")
    assert not is_vectorizable(replace(scheduled, reassoc=False), "S1", "k")


def test_lanes_read_before_they_write() -> None:
    builder = Builder({"A": (100, 100)})
    builder.comp("i,j", "0 <= i < 9 and 0 <= j < 9", [0, "i", 0, "j", 0], "A[i, j] = A[i + 1, j + 1]")
    scheduled = as_written(builder.func())
    assert is_vectorizable(scheduled, "S0", "j") and is_parallel(scheduled, "S0", "j")
    assert not is_vectorizable(scheduled, "S0", "i")
    swapped = verbs.apply_sch(scheduled, "S0", "{ [i, j] -> [j, i] }")
    assert is_vectorizable(swapped, "S0", "i") and not is_vectorizable(swapped, "S0", "j")
    builder = Builder({"A": (100,)}).comp("i", "0 <= i < 9", [0, "i", 0], "A[i] = A[i + 1]")
    scheduled = as_written(builder.func())
    assert is_vectorizable(scheduled, "S0", "i") and not is_parallel(scheduled, "S0", "i")


def test_a_neighbour_in_the_loop_counts() -> None:
    builder = Builder({"A": (100,), "B": (100,), "C": (100,)})
    builder.comp("i", "1 <= i < 9", [0, "i", 0], "C[i] = 1.0").comp("i", "1 <= i < 9", [0, "i", 1], "A[i] = 2.0")
    builder.comp("i", "1 <= i < 9", [0, "i", 2], "B[i] = A[i - 1]")
    scheduled = as_written(builder.func())
    assert not is_parallel(scheduled, "S0", "i")
    assert is_parallel(verbs.after(scheduled, "S2", "S1", None), "S0", "i")


def overlapped() -> Scheduled:
    builder = Builder({"A": (40,), "B": (40,), "C": (40,)}, local=("B",))
    builder.comp("i", "0 <= i < 34", [0, "i", 0], "B[i] = A[i] * 2.0")
    builder.comp("i", "0 <= i < 32", [1, "i", 0], "C[i] = B[i] + B[i + 2]")
    return verbs.compute_at(verbs.split(as_written(builder.func()), "S1", "i", 8), "S0", "S1", "i_o")


def test_overlapped_tiles_are_parallel_once_they_have_arrays_of_their_own() -> None:
    tiles = overlapped()
    assert not is_parallel(tiles, "S1", "i_o")
    private = tuple(replace(b, alloc_at=("S1", "i_o")) if b.name == "B" else b for b in tiles.func.bufs)
    own = replace(tiles, func=replace(tiles.func, bufs=private))
    assert verbs.tag(own, "S1", "i_o", "parallel").nest("S1").tag("i_o") == "parallel"
    with pytest.raises(IllegalSchedule, match="'B' exists once for every iteration of 'i_o', which leaves out"):
        verbs.after(own, "S1", "S0", None)


def test_what_runs_several_times_may_define_the_meaning() -> None:
    tiles = rebase(overlapped())
    check(tiles)
    done = verbs.split(tiles, "S1", "i_i", 4)
    assert done.origin is tiles.origin
    with pytest.raises(IllegalSchedule, match="flow dependence through 'B'"):
        verbs.shift(done, "S0", "i_o", 1)


def test_the_origin_defines_the_meaning() -> None:
    builder = Builder({"A": (20, 20)})
    builder.comp("i,j", "0 <= i < 8 and 1 <= j < 8", [0, "i", 0, "j", 0], "A[i, j] = A[i, j - 1]")
    builder.comp("i,j", "0 <= i < 8 and 1 <= j < 8", [1, "i", 0, "j", 0], "A[j, i] = 0.0")
    func = builder.func()
    start = as_written(func)
    turned = moved(start, "S1", "{ S1[i, j] -> [-1, i, 0, j, 0] }")
    with pytest.raises(IllegalSchedule):
        check(turned)
    check(rebase(turned))
    with pytest.raises(IllegalSchedule):
        check(replace(start, origin=turned))


# --- bounds that are read from memory -----------------------------------------------------------------------------


def _comp(
    name: str, iters: tuple[str, ...], domain: str, time: str, target: Load, value: Expr, line: int, defines: str | None
) -> Comp:
    schedule = isl.Map(f"{{ {name}[{', '.join(iters)}] -> [{time}] }}")
    return Comp(name, iters, isl.Set(domain), schedule, target, value, Loc("s.c", line), defines)


def _load(buf: str, dtype: DType, *indices: Expr) -> Load:
    return Load(buf, indices, dtype)


def _plus(left: Expr, right: Expr, dtype: DType) -> Binary:
    return Binary("add", left, right, dtype)


def segment_sum() -> Func:
    """PLANT, listing 3.3: `y[i] = sum of x[off[i]] to x[off[i + 1] - 1]`."""
    i, one = Iter("i"), Val(1, "i32")
    y = _load("y", "f32", i)
    element = _load("x", "f32", _plus(Iter("j"), Param("b0", "i32"), "i32"))
    comps = (
        _comp("b0", ("i",), "[m] -> { b0[i] : 0 <= i < m }", "0, i, 0, 0, 0", _load("b0", "i32"),
              _load("off", "i32", i), 2, "b0"),
        _comp("b1", ("i",), "[m] -> { b1[i] : 0 <= i < m }", "0, i, 1, 0, 0", _load("b1", "i32"),
              _load("off", "i32", _plus(i, one, "i32")), 3, "b1"),
        _comp("init", ("i",), "[m] -> { init[i] : 0 <= i < m }", "0, i, 2, 0, 0", y, Val(0.0, "f32"), 4, None),
        _comp("y", ("i", "j"), "[m, b0, b1] -> { y[i, j] : 0 <= i < m and 0 <= j < b1 - b0 }", "0, i, 3, j, 0", y,
              _plus(y, element, "f32"), 5, None),
    )  # fmt: skip
    params = (
        Buf("off", "i32", (11,), "param", True),
        Buf("x", "f32", (100,), "param", True),
        Buf("y", "f32", (10,), "param"),
    )
    local = (Buf("b0", "i32", (), "local"), Buf("b1", "i32", (), "local"))
    return Func("segments", (*params, ScalarParam("m", "i32")), (*params, *local), comps, Loc("s.c", 1))


def test_segments_are_parallel_and_can_be_tiled() -> None:
    program = Program(segment_sum())
    program["b0", "b1", "init", "y"].separate("i", 4).split("i", 4)
    program["y"].separate("j", 8).split("j", 8).tag("i_o", "parallel")
    assert not is_parallel(program.scheduled, "y", "j_o")
    assert {d.buf for d in carried_by(program.scheduled, "y", "j_o")} == {"y"}


def test_a_statement_stays_with_the_bounds_it_reads() -> None:
    with pytest.raises(IllegalSchedule, match=r"anti-dependence through 'b0' y\[0,0\] -> b0\[1\]"):
        verbs.after(as_written(segment_sum()), "y", "init", None)
    with pytest.raises(IllegalSchedule, match="'i' of y can't be vectorized"):
        verbs.tag(as_written(segment_sum()), "y", "i", "vectorize")
    with pytest.raises(PlantError, match="defines the parameter 'b0'"):
        verbs.inline(as_written(segment_sum()), "b0")
    assert verbs.set_constraint(as_written(segment_sum()), "m > 0 and b1 > b0").func.context is not None


def test_one_row_s_bounds_say_nothing_of_another_s() -> None:
    """y[i] = x[b0(i) + j] in place: rows with different bounds may touch each other's elements."""
    func = segment_sum()
    y = func.comp("y")
    target = replace(y.target, buf="x", indices=(_plus(Iter("j"), Param("b0", "i32"), "i32"),))
    changed = replace(y, target=target, value=Val(1.0, "f32"))
    func = func.with_comps((*func.comps[:3], changed))
    assert not is_parallel(as_written(func), "y", "i") and is_parallel(as_written(func), "y", "j")


# --- statements that assign nothing -------------------------------------------------------------------------------


def test_effects_have_an_order_too() -> None:
    builder = Builder({"A": (8,), "B": (8,)}, local=("B",)).comp("i", "0 <= i < 8", [2, "i", 0], "B[i] = A[i]")
    func = builder.func()
    effects = (
        Effect("alloc", (), isl.Set("{ alloc[] }"), isl.Map("{ alloc[] -> [0, 0, 0] }"), Alloc("B"), Loc("t.c", 8)),
        Effect("copy", (), isl.Set("{ copy[] }"), isl.Map("{ copy[] -> [3, 0, 0] }"), Memcpy("A", "B"), Loc("t.c", 9)),
    )
    scheduled = as_written(replace(func, effects=effects))
    check(scheduled)
    with pytest.raises(IllegalSchedule, match="dependence through 'B'"):
        verbs.after(scheduled, "alloc", "S0", None)
    with pytest.raises(IllegalSchedule, match=r"S0\[0\] -> copy\[\]"):
        verbs.after(scheduled, "copy", "alloc", None)


# --- when two statements run ------------------------------------------------------------------------------------


def overwritten() -> Scheduled:
    builder = Builder({"A": (9,), "B": (9,)}).comp("i", "0 <= i < 9", [0, "i", 0], "B[i] = A[i]")
    return as_written(builder.comp("i", "0 <= i < 9", [1, "i", 0], "A[i] = 0.0").func())


def test_what_runs_again_reads_again() -> None:
    """Its last run counts where an operand is overwritten."""
    again = moved(overwritten(), "S0", "{ S0[i] -> [0, i, 0]; S0[i] -> [2, i, 0] }")
    with pytest.raises(IllegalSchedule, match=r"anti-dependence through 'A' S0\[0\] -> S1\[0\]"):
        check(again)
    check(moved(again, "S0", "{ S0[i] -> [-1, i, 0]; S0[i] -> [0, i, 0] }"))


def test_one_time_is_no_order() -> None:
    with pytest.raises(IllegalSchedule, match="anti-dependence"):
        check(moved(overwritten(), "S1", "{ S1[i] -> [0, i, 0] }"))


def test_positions_in_pieces_are_compared() -> None:
    halves = "{ S0[i] -> [0, i, 0] : i < 4; S0[i] -> [1, i, 0] : i >= 4 }"
    check(moved(moved(overwritten(), "S0", halves), "S1", "{ S1[i] -> [2, i, 0] }"))
    with pytest.raises(IllegalSchedule, match=r"S0\[[4-8]\] -> S1\[[4-8]\]"):
        check(moved(moved(overwritten(), "S0", halves), "S1", "{ S1[i] -> [0, i, 1] }"))
