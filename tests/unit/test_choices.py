"""Conditions of several nests at once: which nest runs for which parameters, and how many questions that takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import islpy as isl
from hypothesis import given
from hypothesis import strategies as st

from plant_core.ir.accesses import from_ast
from plant_core.ir.c_semantics import integer_of
from plant_core.ir.func import Expr, Free, Param
from plant_core.ir.loop_tree import Do, If, Seq, Tree
from plant_core.strip_mine.version_dispatch import Nest, chosen
from plant_core.support.location import Loc

_SIZES = ("n", "m", "u")
_HERE = Loc("nests.c", 1, 1)


def _condition(known: isl.Set) -> Expr:
    given = {name: Param(name, "i32") for name in _SIZES}
    return from_ast(isl.AstBuild.from_context(isl.Set("{ : }")).expr_from_set(known), given)


def _nests(conditions: Sequence[str]) -> list[Nest]:
    """One for each condition, which tells its number when it runs."""
    head = f"[{', '.join(_SIZES)}] -> "
    return [Nest(isl.Set(f"{head}{{ : {c} }}"), Do(Free(str(k)), _HERE)) for k, c in enumerate(conditions)]


def _run(trees: Sequence[Tree], sizes: Mapping[str, int]) -> tuple[list[int], int]:
    """The numbers of those that run, in their order, and how many conditions are asked."""
    ran: list[int] = []
    asked = 0
    for tree in trees:
        match tree:
            case Do(Free(name)):
                ran.append(int(name))
            case Seq(children):
                inner, more = _run(children, sizes)
                ran, asked = ran + inner, asked + more
            case If(condition, then):
                asked += 1
                if integer_of(condition, sizes):
                    inner, more = _run([then], sizes)
                    ran, asked = ran + inner, asked + more
            case _:
                raise AssertionError(tree)
    return ran, asked


def _wanted(nests: Sequence[Nest], sizes: Mapping[str, int]) -> list[int]:
    here = isl.Set(f"[{', '.join(_SIZES)}] -> {{ : {' and '.join(f'{n} = {v}' for n, v in sizes.items())} }}")
    return [k for k, nest in enumerate(nests) if not nest.known.intersect(here).is_empty()]


def test_where_one_of_several_ran_the_others_are_not_asked_one_by_one() -> None:
    nests = _nests(
        [
            "m >= 96 and 2 u = m",
            "m >= 96 and 2 u = m",
            "m >= 96 and 2 u < m",
            "32 <= m <= 95",
            "16 <= m <= 31",
            "m < 16",
        ]
    )
    known = isl.Set("[m, u] -> { : 2 u <= m <= 2 u + 1 }")
    trees = chosen(nests, known, _condition)
    for m in (5, 20, 40, 96, 97, 200):
        sizes = {"n": 0, "m": m, "u": m // 2}
        ran, asked = _run(trees, sizes)
        assert ran == _wanted(nests, sizes)
        assert asked <= (4 if m >= 96 else 6)


def test_neighbours_under_the_same_condition_are_asked_once() -> None:
    trees = chosen(_nests(["n >= 4", "n >= 4"]), isl.Set("{ : }"), _condition)
    assert len(trees) == 1
    assert _run(trees, {"n": 4, "m": 0, "u": 0}) == ([0, 1], 1)


def test_a_condition_does_not_come_before_what_defines_its_parameter() -> None:
    (define,) = _nests(["n >= 1"])
    rest = _nests(["n >= 1 and u >= 5", "n >= 1 and u <= 4", "n >= 1 and u <= 2"])
    trees = chosen([Nest(define.known, define.tree, defines=True), *rest], isl.Set("{ : }"), _condition)
    assert isinstance(trees[0], If)
    assert trees[0].then == define.tree


_bound = st.builds(
    lambda a, b, c, op: f"{a} n + {b} m {op} {c}",
    st.integers(-2, 2), st.integers(-2, 2), st.integers(-6, 6), st.sampled_from(["<=", ">=", "="]),
)  # fmt: skip
_any_condition = st.lists(_bound, min_size=1, max_size=3).map(" and ".join)


@given(st.lists(_any_condition, min_size=1, max_size=6), st.sampled_from(["true", "n >= 0", "0 <= m <= n"]))
def test_nests_run_just_where_they_would_by_themselves(conditions: list[str], known: str) -> None:
    nests = _nests(conditions)
    told = isl.Set(f"[n, m] -> {{ : {known} }}")
    trees = chosen(nests, told, _condition)
    for n in range(-4, 5, 2):
        for m in range(-3, 5, 2):
            sizes = {"n": n, "m": m, "u": 0}
            if integer_of(_condition(told), sizes) if known != "true" else True:
                assert _run(trees, sizes)[0] == _wanted(nests, sizes)
