"""Every verb: the loops that it makes, what it refuses, and arguments that make no sense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from textwrap import dedent

import islpy as isl
import pytest

from plant_core.ir.accesses import integer
from plant_core.ir.func import Access, Binary, Func, Iter, Param
from plant_core.ir.printer import print_expr
from plant_core.ir.scheduled import Scheduled, as_written
from plant_core.lang.program import Program
from plant_core.schedule import verbs
from plant_core.schedule.legality import check
from plant_core.support.location import IllegalSchedule, PlantError
from tests.support.plant_builder import Builder, matmul
from tests.support.plant_loops import loops


def expect(scheduled: Scheduled, text: str) -> None:
    assert loops(scheduled).strip() == dedent(text).strip()


def one(statement: str = "A[i] = A[i] + 1.0", **more: object) -> Scheduled:
    builder = Builder({"A": (100,), "B": (100,)}, params=("n",))
    return as_written(builder.comp("i", "0 <= i < n", [0, "i", 0], statement).func())


def stencil() -> Scheduled:
    builder = Builder({"A": (20, 20)})
    builder.comp("t,i", "0 <= t < 8 and 1 <= i < 9", [0, "t", 0, "i", 0], "A[t + 1, i] = A[t, i - 1] + A[t, i + 1]")
    return as_written(builder.func())


def producer(reader: str = "C[i] = B[i] + B[i + 2]", local: tuple[str, ...] = ("B",)) -> Scheduled:
    builder = Builder({"A": (40,), "B": (40,), "C": (40,)}, local=local)
    builder.comp("i", "0 <= i < 34", [0, "i", 0], "B[i] = A[i] * 2.0")
    return as_written(builder.comp("i", "0 <= i < 32", [1, "i", 0], reader).func())


# --- split, tile, reorder -----------------------------------------------------------------------------------------


def test_split() -> None:
    done = verbs.split(one(), "S0", "i", 4)
    assert done.nest("S0").loops == ("i_o", "i_i")
    expect(
        done,
        """
        for (int c1 = 0; c1 <= floord(n - 1, 4); c1 += 1)
          for (int c3 = 0; c3 <= min(3, n - 4 * c1 - 1); c3 += 1)
            S0(4 * c1 + c3);
        """,
    )


def test_split_names_and_marks() -> None:
    tagged = verbs.tag(verbs.option(one(), "S0", "i", "separate"), "S0", "i", "parallel")
    done = verbs.split(tagged, "S0", "i", 4, outer="block", inner="i")
    assert done.nest("S0").loops == ("block", "i")
    assert done.nest("S0").tags == (("block", "parallel"),) and done.nest("S0").options == (("block", "separate"),)
    lanes = verbs.split(verbs.tag(one(), "S0", "i", "vectorize"), "S0", "i", 8)
    assert lanes.nest("S0").tags == (("i_i", "vectorize"),)
    twice = verbs.split(verbs.split(one(), "S0", "i", 8, outer="i", inner="i_o"), "S0", "i", 2)
    assert twice.nest("S0").loops == ("i_o2", "i_i", "i_o")


def test_shared_loops_stay_shared_when_split_together() -> None:
    done = verbs.tile(as_written(matmul(8, 8, 3)), ("S0", "S1"), "i", "j", 4, 8)
    expect(
        done,
        """
        for (int c1 = 0; c1 <= 1; c1 += 1)
          for (int c5 = 0; c5 <= 3; c5 += 1)
            for (int c7 = 0; c7 <= 7; c7 += 1) {
              S0(4 * c1 + c5, c7);
              for (int c9 = 0; c9 <= 2; c9 += 1)
                S1(4 * c1 + c5, c7, c9);
            }
        """,
    )
    assert done.nest("S1").loops == ("i_o", "j_o", "i_i", "j_i", "k")


def test_splitting_one_of_two_that_share_a_loop_is_judged_by_its_order() -> None:
    with pytest.raises(IllegalSchedule, match=r"through 'C' S0\[1,0\] -> S1\[1,0,0\] \(t.c:2 and t.c:3\)"):
        verbs.split(as_written(matmul(8, 8, 3)), "S1", "i", 4)


def test_tile_takes_names() -> None:
    done = verbs.tile(stencil_apart(), "S0", {"i": 2, "j": 3}, names={"i": ("it", "ii")})
    assert done.nest("S0").loops == ("it", "j_o", "ii", "j_i")


def stencil_apart() -> Scheduled:
    builder = Builder({"A": (20, 20)})
    builder.comp("i,j", "0 <= i < 6 and 0 <= j < 6", [0, "i", 0, "j", 0], "A[i, j] = A[i, j] + 1.0")
    return as_written(builder.func())


def test_tiling_a_stencil_needs_skewing() -> None:
    with pytest.raises(IllegalSchedule, match="flow dependence through 'A'"):
        verbs.tile(stencil(), "S0", "t", "i", 4, 4)
    done = verbs.tile(verbs.skew(stencil(), "S0", "t", "i", 1), "S0", "t", "i", 4, 4)
    assert done.nest("S0").loops == ("t_o", "i_o", "t_i", "i_i")


def test_reorder() -> None:
    apart = verbs.after(as_written(matmul(4, 5, 6)), "S1", "S0", None)
    done = verbs.reorder(apart, "S1", "k", "i")
    assert done.nest("S1").loops == ("k", "j", "i")
    expect(
        done,
        """
        {
          for (int c1 = 0; c1 <= 3; c1 += 1)
            for (int c3 = 0; c3 <= 4; c3 += 1)
              S0(c1, c3);
          for (int c1 = 0; c1 <= 5; c1 += 1)
            for (int c3 = 0; c3 <= 4; c3 += 1)
              for (int c5 = 0; c5 <= 3; c5 += 1)
                S1(c5, c3, c1);
        }
        """,
    )
    with pytest.raises(IllegalSchedule, match=r"S0\[0,1\] -> S0\[1,0\]|S0\[0,2\] -> S0\[1,1\]"):
        verbs.reorder(stencil(), "S0", "i", "t")


def test_reductions_change_places_only_where_that_is_allowed() -> None:
    builder = Builder({"r": (1,), "x": (20, 20)})
    builder.comp("i,j", "0 <= i < 9 and 0 <= j < 9", [0, "i", 0, "j", 0], "r[0] = r[0] + x[i, j]")
    with pytest.raises(IllegalSchedule) as caught:
        verbs.reorder(as_written(builder.func()), "S0", "j", "i")
    assert "reassoc" in caught.value.remedy
    assert verbs.reorder(as_written(builder.func(), reassoc=True), "S0", "j", "i").nest("S0").loops == ("j", "i")
    builder.dtype = "i32"
    verbs.reorder(as_written(builder.func()), "S0", "j", "i")


# --- fuse, skew, shift, separate ----------------------------------------------------------------------------------


def test_fuse() -> None:
    builder = Builder({"A": (50, 50)}, params=("n",))
    builder.comp("i,j", "0 <= i < n and i <= j < i + 5", [0, "i", 0, "j", 0], "A[i, j] = 1.0")
    done = verbs.fuse(as_written(builder.func()), "S0", "i", "j", into="f")
    assert done.nest("S0").loops == ("f",)
    expect(
        done,
        """
        for (int c1 = 0; c1 < 5 * n; c1 += 1)
          S0(c1 / 5, c1 - 4 * (c1 / 5));
        """,
    )


def test_fuse_needs_a_constant_extent() -> None:
    builder = Builder({"A": (50, 50)})
    builder.comp("i,j", "0 <= i < 9 and 0 <= j <= i", [0, "i", 0, "j", 0], "A[i, j] = 1.0")
    with pytest.raises(PlantError, match="number of iterations of 'j' is not one constant"):
        verbs.fuse(as_written(builder.func()), "S0", "i", "j")


def test_skew_and_shift() -> None:
    done = verbs.shift(verbs.skew(stencil(), "S0", "t", "i", 2), "S0", "t", 1)
    expect(
        done,
        """
        for (int c1 = 1; c1 <= 8; c1 += 1)
          for (int c3 = 2 * c1 - 1; c3 <= 2 * c1 + 6; c3 += 1)
            S0(c1 - 1, -2 * c1 + c3 + 2);
        """,
    )
    amount = Binary("add", Param("n", "i32"), integer(1), "i32")
    expect(
        verbs.shift(one(), "S0", "i", amount),
        """
        for (int c1 = n + 1; c1 <= 2 * n; c1 += 1)
          S0(-n + c1 - 1);
        """,
    )
    with pytest.raises(IllegalSchedule, match="flow"):
        verbs.shift(_fused(), "S1", "i", -1)


def _fused() -> Scheduled:
    builder = Builder({"A": (40,), "B": (40,)}).comp("i", "0 <= i < 9", [0, "i", 0], "A[i] = 1.0")
    return as_written(builder.comp("i", "0 <= i < 9", [0, "i", 1], "B[i] = A[i]").func())


def test_separate() -> None:
    done = verbs.split(verbs.separate(one(), "S0", "i", 4), "S0", "i", 4)
    first = done.nest("S0").relation.intersect_range(isl.Set("{ [0, o, 0, i, 0] }")).domain()
    rest = done.nest("S0").relation.intersect_range(isl.Set("{ [1, o, 0, i, 0] }")).domain()
    domain = done.func.comps[0].domain
    assert first.intersect(domain).is_equal(isl.Set("[n] -> { S0[i] : 0 <= i < 4*floor(n/4) }"))
    assert rest.intersect(domain).is_equal(isl.Set("[n] -> { S0[i] : 4*floor(n/4) <= i < n and n > 0 }"))
    expect(
        verbs.set_constraint(done, "n mod 4 = 0 and n > 0"),
        """
        for (int c1 = 0; c1 < n / 4; c1 += 1)
          for (int c3 = 0; c3 <= 3; c3 += 1)
            S0(4 * c1 + c3);
        """,
    )


def test_separate_keeps_what_comes_after() -> None:
    done = verbs.separate(producer(), "S0", "i", 8)
    done = verbs.separate(done, "S1", "i", 5)
    places = {nest.name: nest.relation.intersect_domain(nest_domain(done, nest.name)) for nest in done.nests}
    parts = {"S0": isl.Map("{ S0[i] -> [0, i, 0] : 0 <= i < 32; S0[i] -> [1, i, 0] : 32 <= i < 34 }")}
    parts["S1"] = isl.Map("{ S1[i] -> [2, i, 0] : 0 <= i < 30; S1[i] -> [3, i, 0] : 30 <= i < 32 }")
    assert all(places[name].is_equal(parts[name]) for name in parts)


def nest_domain(scheduled: Scheduled, name: str) -> isl.Set:
    return scheduled.func.comp(name).domain


# --- after, compute_at, inline ------------------------------------------------------------------------------------


def test_after_shares_loops_and_keeps_third_statements_apart() -> None:
    builder = Builder({"A": (40,), "B": (40,), "C": (40,)})
    builder.comp("i", "0 <= i < 8", [0, "i", 0], "A[i] = 1.0")
    builder.comp("i", "0 <= i < 8", [0, "i", 1], "B[i] = 2.0")
    builder.comp("i", "0 <= i < 8", [1, "i", 1], "C[i] = A[i]")
    expect(
        verbs.after(as_written(builder.func()), "S2", "S0", "i"),
        """
        for (int c1 = 0; c1 <= 7; c1 += 1) {
          S0(c1);
          S2(c1);
          S1(c1);
        }
        """,
    )


def test_after_refuses_what_comes_too_early() -> None:
    with pytest.raises(IllegalSchedule, match=r"flow dependence through 'B' S0\[1\] -> S1\[0\]|S0\[2\] -> S1\[0\]"):
        verbs.after(producer(), "S1", "S0", "i")
    done = verbs.after(verbs.shift(producer(), "S1", "i", 2), "S1", "S0", "i")
    assert loops(done).count("for") == 1


def test_compute_at_overlaps() -> None:
    done = verbs.compute_at(verbs.split(producer(), "S1", "i", 8), "S0", "S1", "i_o")
    assert done.nest("S0").loops == ("i_o", "i")
    expect(
        done,
        """
        for (int c1 = 0; c1 <= 3; c1 += 1) {
          for (int c3 = 8 * c1; c3 <= 8 * c1 + 9; c3 += 1)
            S0(c3);
          for (int c3 = 0; c3 <= 7; c3 += 1)
            S1(8 * c1 + c3);
        }
        """,
    )
    with pytest.raises(IllegalSchedule, match="several iterations of 'i_o' read the same"):
        verbs.compute_at(verbs.split(producer(), "S1", "i", 8), "S0", "S1", "i_o", overlapped=False)


def test_compute_at_drops_what_nothing_reads() -> None:
    done = verbs.compute_at(producer("C[i] = B[i]"), "S0", "S1", "i")
    assert done.func.comp("S0").domain.is_equal(isl.Set("{ S0[i] : 0 <= i < 32 }"))
    with pytest.raises(IllegalSchedule, match="the function returns values of S0 that S1 doesn't"):
        verbs.compute_at(producer("C[i] = B[i]", ()), "S0", "S1", "i")


def test_what_updates_its_own_operands_runs_once() -> None:
    builder = Builder({"B": (40,), "C": (40,)}, local=())
    builder.comp("i", "0 <= i < 34", [0, "i", 0], "B[i] = B[i] * 2.0")
    builder.comp("i", "0 <= i < 32", [1, "i", 0], "C[i] = B[i] + B[i + 2]")
    with pytest.raises(IllegalSchedule, match="would run several times, and each time updates 'B'"):
        verbs.compute_at(as_written(builder.func()), "S0", "S1", "i")


def test_inline() -> None:
    done = verbs.inline(producer("C[i] = B[i] + B[i + 2]"), "S0")
    assert [c.name for c in done.func.comps] == ["S1"] and [b.name for b in done.func.bufs] == ["A", "C"]
    assert print_expr(done.func.comps[0].value) == "A[i] * 2.0f + A[i + 2] * 2.0f"


def test_inline_nests() -> None:
    builder = Builder({"A": (40,), "B": (40,), "C": (40,), "D": (40,)}, local=("B", "C"))
    builder.comp("i", "0 <= i < 20", [0, "i", 0], "B[2 * i] = A[i]")
    builder.comp("i,j", "0 <= i < 20 and 0 <= j < 1", [1, "i", 0, "j", 0], "C[i] = B[2 * i] + B[2 * i]")
    builder.comp("i", "0 <= i < 20", [2, "i", 0], "D[i] = C[19 - i]")
    done = verbs.inline(verbs.inline(as_written(builder.func()), "S0"), "S1")
    assert print_expr(done.func.comps[0].value) == "A[19 - i] + A[19 - i]"


def test_inline_follows_accesses() -> None:
    written = producer()
    consumer = written.func.comp("S1")
    value = Binary("add", Access("S0", (Iter("i"),), "f32"), Access("S0", (integer(3),), "f32"), "f32")
    func = written.func.with_comps((written.func.comp("S0"), replace(consumer, value=value)))
    assert print_expr(verbs.inline(as_written(func), "S0").func.comps[0].value) == "A[i] * 2.0f + A[3] * 2.0f"
    outside = replace(consumer, value=Access("S0", (Binary("add", Iter("i"), integer(10), "i32"),), "f32"))
    with pytest.raises(PlantError, match="outside of its domain"):
        verbs.inline(as_written(func.with_comps((func.comp("S0"), outside))), "S0")


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["B[i] = A[i]", "A[i] = 0.0", "C[i] = B[i]"], "S1 overwrites 'A' in between"),
        (["B[i] = A[i]", "B[i] = B[i] + 1.0", "C[i] = B[i]"], None),
        (["B[i] = B[i] + A[i]", "C[i] = B[i]"], None),
        (["B[i + 1] = B[i] + A[i]", "C[i] = B[i]"], "reads what it wrote before|values of others|doesn't always"),
        (["B[i] = A[i]", "C[i] = B[i + 1]"], "doesn't always write"),
        (["C[i] = A[i]", "B[i] = C[i]"], "which the caller sees"),
        (["B[i] = A[i]", "C[i] = A[i]"], "nothing reads"),
        (["B[0] = A[i]", "C[i] = B[0]"], None),
    ],
)
def test_inline_refuses_what_has_no_one_value(statements: list[str], message: str | None) -> None:
    builder = Builder({"A": (40,), "B": (40,), "C": (40,)}, local=("B",))
    for place, statement in enumerate(statements):
        builder.comp("i", "0 <= i < 20", [place, "i", 0], statement)
    if message is None:
        verbs.inline(as_written(builder.func()), "S0")
    else:
        with pytest.raises(PlantError, match=message):
            verbs.inline(as_written(builder.func()), "S0")


# --- tag, option, apply_sch, set_constraint -----------------------------------------------------------------------


def test_tag_is_checked_again_by_later_verbs() -> None:
    builder = Builder({"A": (20, 20)})
    builder.comp("i,j", "1 <= i < 9 and 0 <= j < 9", [0, "i", 0, "j", 0], "A[i, j] = A[i - 1, j] + 1.0")
    tagged = verbs.tag(as_written(builder.func()), "S0", "j", "parallel")
    assert verbs.tag(tagged, "S0", "j", None).nest("S0").tags == ()
    skewed = verbs.skew(tagged, "S0", "i", "j", 1)
    with pytest.raises(IllegalSchedule, match=r"the loop 'j' of S0 can't be parallel.*S0\[1,0\] -> S0\[2,0\]"):
        verbs.reorder(skewed, "S0", "j", "i")
    with pytest.raises(IllegalSchedule, match="'i' of S0 can't be vectorized"):
        verbs.tag(tagged, "S0", "i", "vectorize")
    assert verbs.tag(tagged, "S0", "i", "unroll").nest("S0").tag("i") == "unroll"


def test_apply_sch() -> None:
    done = verbs.apply_sch(stencil(), "S0", "{ [t, i] -> [t, i + t] }")
    assert done.nest("S0").loops == ("t", "t1")
    named = verbs.apply_sch(done, "S0", "{ [t, i] -> [floor(t/2), floor(i/2), t, i] }", loops=["a", "b", "t", "i"])
    assert named.nest("S0").loops == ("a", "b", "t", "i")
    with pytest.raises(IllegalSchedule, match="two instances of S0 run at the same time"):
        verbs.apply_sch(stencil(), "S0", "{ [t, i] -> [t] }")
    with pytest.raises(IllegalSchedule, match="flow"):
        verbs.apply_sch(stencil(), "S0", "{ [t, i] -> [-t, i] }")
    with pytest.raises(IllegalSchedule, match="is never run"):
        verbs.apply_sch(stencil(), "S0", "{ [t, i] -> [t, i] : i > 4 }")


def test_set_constraint_reaches_legality() -> None:
    builder = Builder({"A": (100,)}, params=("n", "m"))
    func = builder.comp("i", "0 <= i < n", [0, "i", 0], "A[i + m] = A[i] + 1.0").func()
    builder_access = func.comps[0].target.indices
    assert builder_access
    with pytest.raises(IllegalSchedule, match="for m = 1, n = 2|for n = 2, m = 1"):
        verbs.tag(as_written(func), "S0", "i", "parallel")
    far = verbs.set_constraint(as_written(func), isl.Set("[n, m] -> { : m >= n }"))
    assert verbs.tag(far, "S0", "i", "parallel").nest("S0").tag("i") == "parallel"


# --- bad arguments ------------------------------------------------------------------------------------------------


BAD: list[tuple[Callable[[Scheduled], object], str]] = [
    (lambda s: verbs.split(s, "S9", "i", 4), "no statement 'S9'"),
    (lambda s: verbs.split(s, "S1", "x", 4), "no loop 'x'"),
    (lambda s: verbs.split(s, "S1", "i", 0), "not a whole number from 1 on"),
    (lambda s: verbs.split(s, "S1", "i", 2.5), "not a whole number"),  # type: ignore[arg-type]
    (lambda s: verbs.split(s, "S1", "i", True), "not a whole number"),
    (lambda s: verbs.split(s, "S1", "i", 4, outer="k"), "has a loop 'k' already"),
    (lambda s: verbs.split(s, "S1", "i", 4, outer="a", inner="a"), "has a loop 'a' already"),
    (lambda s: verbs.split(s, "S1", "i", 4, outer="1a"), "can't name a loop"),
    (lambda s: verbs.split(s, (), "i", 4), "at least one statement"),
    (lambda s: verbs.split(s, ("S0", "S0"), "i", 4), "each once"),
    (lambda s: verbs.fuse(s, "S1", "i", "k"), "not the loop right inside 'i'"),
    (lambda s: verbs.fuse(s, "S1", "i", "i"), "not the loop right inside 'i'"),
    (lambda s: verbs.reorder(s, "S1"), "have to be named"),
    (lambda s: verbs.reorder(s, "S1", "i", "i"), "each once"),
    (lambda s: verbs.reorder(s, "S0", "i", "k"), "no loop 'k'"),
    (lambda s: verbs.tile(s, "S1", "i", "k", 4, 4), "not consecutive"),
    (lambda s: verbs.tile(s, "S1", "j", "i", 4, 4), "not consecutive"),
    (lambda s: verbs.tile(s, "S1", "i", "j", 4), "then a factor for each"),
    (lambda s: verbs.tile(s, "S1", "i", "j", 4, "x"), "not a whole number"),
    (lambda s: verbs.tile(s, "S1", {"i": -1}), "not a whole number from 1 on"),
    (lambda s: verbs.tile(s, "S1", {}), "no loop to tile"),
    (lambda s: verbs.tile(s, "S1", {"i": 4}, names={"j": ("a", "b")}), "isn't tiled"),
    (lambda s: verbs.skew(s, "S1", "i", "i", 1), "skewed by itself"),
    (lambda s: verbs.skew(s, "S1", "i", "j", 0.5), "not a whole number"),  # type: ignore[arg-type]
    (lambda s: verbs.shift(s, "S1", "i", Iter("j")), "not an affine expression of integer parameters"),
    (lambda s: verbs.shift(s, "S1", "i", Param("q", "i32")), "not an affine expression of integer parameters"),
    (lambda s: verbs.after(s, "S1", "S1", None), "after itself"),
    (lambda s: verbs.after(s, "S0", "S1", "k"), "too few"),
    (lambda s: verbs.after(s, "S0", "S1", "q"), "no loop 'q'"),
    (lambda s: verbs.separate(s, "S1", "k", -3), "not a whole number from 1 on"),
    (lambda s: verbs.compute_at(s, "S1", "S1", "i"), "two different statements|can't be computed"),
    (lambda s: verbs.compute_at(s, "S1", "S0", "i"), "doesn't read"),
    (lambda s: verbs.tag(s, "S1", "i", "fast"), "no tag 'fast'"),  # type: ignore[arg-type]
    (lambda s: verbs.option(s, "S1", "i", "fast"), "no option 'fast'"),  # type: ignore[arg-type]
    (lambda s: verbs.apply_sch(s, "S1", "{ [i] -> [i] }"), "1 dimensions in, and S1 has 3 loops"),
    (lambda s: verbs.apply_sch(s, "S1", "{ [i -> "), "not a map that isl can read"),
    (lambda s: verbs.apply_sch(s, "S1", "{ [i, j, k] -> [a, j, k] }"), "one new time"),
    (lambda s: verbs.apply_sch(s, "S1", "{ [i, j, k] -> [i, j, k] }", loops=["a"]), "1 names are given for 3"),
    (lambda s: verbs.apply_sch(s, "S1", "[q] -> { [i, j, k] -> [i + q, j, k] }"), "'q' in the map is no integer"),
    (lambda s: verbs.apply_sch(s, "S1", "{ [[i] -> [j]] -> [i] }"), "not a map of loops"),
    (lambda s: verbs.apply_sch(s, "S1", 3), "not a map of loops"),  # type: ignore[arg-type]
    (lambda s: verbs.apply_sch(s, "S1", "{ [i, j, k] -> [k, i, j] }", loops="abc"), "doesn't name loops"),
    (lambda s: verbs.reorder(s, "S1", ["i", "j"]), "doesn't name loops"),  # type: ignore[arg-type]
    (lambda s: verbs.split(s, 3, "i", 4), "doesn't name statements"),  # type: ignore[arg-type]
    (lambda s: verbs.tile(s, "S1", {"i": 4}, names={"i": ("a",)}), "has two parts, not 1"),  # type: ignore[dict-item]
    (lambda s: verbs.tile(s, "S1", {"i": 4}, names=3), "doesn't name parts"),  # type: ignore[arg-type]
    (lambda s: verbs.set_constraint(s, None), "is not a constraint"),  # type: ignore[arg-type]
    (lambda s: verbs.set_constraint(s, "n > 0"), "'n' is no integer parameter"),
    (lambda s: verbs.set_constraint(s, "n >"), "not a constraint"),
    (lambda s: verbs.set_constraint(s, "1 < 0"), "no parameters satisfy"),
]


@pytest.mark.parametrize(("verb", "message"), BAD)
def test_bad_arguments(verb: Callable[[Scheduled], object], message: str) -> None:
    scheduled = as_written(matmul(4, 5, 6))
    with pytest.raises(PlantError, match=message) as caught:
        verb(scheduled)
    assert caught.value.remedy and not isinstance(caught.value, IllegalSchedule)


def test_a_marked_loop_does_not_vanish() -> None:
    tagged = verbs.tag(as_written(matmul(4, 5, 6)), "S0", "j", "parallel")
    with pytest.raises(PlantError, match="'j' of S0 is marked 'parallel'"):
        verbs.fuse(tagged, ("S0", "S1"), "i", "j")


# --- the handle ---------------------------------------------------------------------------------------------------


def test_program_chains() -> None:
    program = Program(matmul(64, 64, 64), reassoc=True)
    program["S0", "S1"].tile("i", "j", 32, 32)
    program["S1"].after("S0", "i_i").split("k", 8).reorder("k_o", "j_i", "k_i").tag("i_o", "parallel")
    assert program["S1"].loops == ("i_o", "j_o", "i_i", "k_o", "j_i", "k_i")
    assert program["S1"].nest.tag("i_o") == "parallel"
    check(program.scheduled)


def test_program_stays_as_it_was_when_a_verb_raises() -> None:
    program = Program(stencil().func)
    before = program.scheduled
    with pytest.raises(IllegalSchedule):
        program["S0"].reorder("i", "t")
    assert program.scheduled is before and program.statements == ("S0",)
    with pytest.raises(PlantError, match="no statement 'T'"):
        program["T"]


def test_program_inlines() -> None:
    func: Func = producer().func
    program = Program(func)
    assert program["S0"].inline()["S1"].split("i", 8).loops == ("i_o", "i_i")
    with pytest.raises(PlantError, match="for one statement"):
        Program(func)["S0", "S1"].inline()


# --- names and sizes that isl has trouble with -------------------------------------------------------------------


def test_a_parameter_may_be_called_what_isl_reserves() -> None:
    def renamed(relation: isl.Map | isl.Set) -> isl.Map | isl.Set:
        return relation.set_dim_name(isl.dim_type.param, 0, "mod")

    func = one().func
    comp = func.comps[0]
    comp = replace(comp, domain=renamed(comp.domain), schedule=renamed(comp.schedule))
    params = tuple(replace(p, name="mod") if p.name == "n" else p for p in func.params)
    scheduled = as_written(replace(func, comps=(comp,), params=params))
    done = verbs.shift(scheduled, "S0", "i", Binary("mul", integer(2), Param("mod", "i32"), "i32"))
    relation = done.nest("S0").relation
    assert relation.find_dim_by_name(isl.dim_type.param, "mod") == 0
    assert relation.set_dim_name(isl.dim_type.param, 0, "n").is_equal(isl.Map("[n] -> { S0[i] -> [0, i + 2n, 0] }"))
    verbs.shift(scheduled, "S0", "i", 10**30)


def test_a_new_loop_is_not_called_like_a_parameter() -> None:
    with pytest.raises(PlantError, match="'n' is a parameter of kernel"):
        verbs.split(one(), "S0", "i", 4, outer="n")


def time_tiled() -> Program:
    """A fused stencil in three dimensions, skewed and tiled in all four."""
    builder = Builder({"A": (50, 50, 50), "B": (50, 50, 50)}, params=("T", "n"))
    for target, source, last in (("B", "A", 0), ("A", "B", 1)):
        near = [f"{source}[i{a}, j{b}, k{c}]" for a, b, c in (("", "", ""), (" - 1", "", ""), ("", "", " + 1"))]
        builder.comp(
            "t,i,j,k", "0 <= t < T and 1 <= i < n and 1 <= j < n and 1 <= k < n",
            [0, "t", last, "i", 0, "j", 0, "k", 0], f"{target}[i, j, k] = {' + '.join(near)}",
        )  # fmt: skip
    scheduled = as_written(builder.func())
    for name, late in (("S0", 0), ("S1", 1)):
        time = f"2t + {late}"
        text = f"{name}[t, i, j, k] -> [0, {time}, 0, {time} + i, 0, {time} + j, 0, {time} + k, {late}]"
        scheduled = scheduled.with_nest(replace(scheduled.nest(name), relation=isl.Map(f"{{ {text} }}")))
    program = Program(scheduled)
    program["S0", "S1"].tile("t", "i", "j", "k", 8, 16, 16, 16)
    return program


def test_separate_in_time_tiles_is_decided_soon() -> None:
    program = time_tiled()
    program["S0", "S1"].separate("k_i", 4).split("k_i", 4).tag("k_i_i", "vectorize")
    with pytest.raises(PlantError, match="too many to tell its whole parts from the rest"):
        program["S0", "S1"].separate("t_i", 4)


def test_remedies_fit() -> None:
    builder = Builder({"r": (1,), "x": (20,)}, dtype="i32").comp("i", "0 <= i < 9", [0, "i", 0], "r[0] = r[0] + x[i]")
    with pytest.raises(IllegalSchedule) as caught:
        verbs.tag(as_written(builder.func()), "S0", "i", "parallel")
    assert "reassoc" not in caught.value.remedy
    builder = Builder({"A": (20,), "t": (1,)}, local=("t",)).comp("i", "0 <= i < 9", [0, "i", 0], "t[0] = A[i]")
    with pytest.raises(IllegalSchedule) as caught:
        verbs.tag(as_written(builder.comp("i", "0 <= i < 9", [0, "i", 1], "A[i] = t[0]").func()), "S0", "i", "parallel")
    assert "alloc_at" in caught.value.remedy
