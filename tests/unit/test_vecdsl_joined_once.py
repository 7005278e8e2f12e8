"""Sums that conditions add to, joined behind these: the same arrays, by fewer joins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import (
    Address,
    ArrayDecl,
    Carried,
    If,
    Let,
    Load,
    Loop,
    Op,
    Program,
    ScalarDecl,
    Stmt,
    Store,
    Term,
    Var,
    VType,
)
from dspgen.vecdsl.ir.terms import integer, statements, terms_in
from dspgen.vecdsl.ir.verify import verify
from dspgen.vecdsl.loops.reduction_sinking import join_once

LANES = 8
VECTOR, SCALAR = VType("i32", True), VType("i32", False)
CONDITIONS = "pqr"


def row(k: int, array: str = "a") -> Term:
    return Load(array, Address(LANES * k), 1, "i32", VECTOR)


def join(vector: Term, op: str = "add") -> Term:
    return Op(f"reduce_{op}", (vector,), SCALAR)


def var(name: str) -> Var:
    return Var(name, SCALAR)


def more(name: str, term: Term, op: str = "add") -> Term:
    return Op(op, (var(name), term), SCALAR)


def store(value: Term, k: int = 0, array: str = "y") -> Store:
    return Store(array, Address(k), 1, "i32", value)


def joins(body: list[Stmt]) -> int:
    """How many sums across lanes there are, once it is known that the program does the same whatever holds."""
    arrays = tuple(ArrayDecl(name, "i32", 64, False) for name in "axyz")
    scalars = tuple(ScalarDecl(name, "i32") for name in CONDITIONS)
    before = verify(Program("f", (*"axyz", *CONDITIONS), arrays, scalars, tuple(body)))
    after = verify(join_once(before))
    generator = np.random.default_rng(0)
    memory = {name: generator.integers(-99, 99, 64).astype(np.int32) for name in "axyz"}
    for number in range(8):
        held: dict[str, object] = {name: 3 * (number >> k & 1) for k, name in enumerate(CONDITIONS)}
        expected, got = (evaluate(p, LANES, memory | held) for p in (before, after))
        for name in expected:
            np.testing.assert_array_equal(got[name], expected[name], err_msg=f"{name} for {held}")
    return sum(_joins(t) for t in terms_in(after.body))


def _joins(term: Term) -> int:
    own = isinstance(term, Op) and term.name.startswith("reduce_")
    return own + sum(map(_joins, term.args if isinstance(term, Op) else ()))


def begun(op: str = "add") -> list[Stmt]:
    return [Let("s", join(row(0), op)), store(var("s"))]


@pytest.mark.parametrize("op", ["add", "min", "max"])
def test_a_condition_adds_in_lanes(op: str) -> None:
    assert joins([*begun(op), If(var("p"), (store(more("s", join(row(1), op), op)),))]) == 1


def test_conditions_within_and_after_each_other() -> None:
    inner = If(var("q"), (Let("u", more("t", join(row(2)))), store(var("u"))))
    outer = If(var("p"), (Let("t", more("s", join(row(1)))), store(var("t")), inner))
    assert joins([*begun(), outer]) == 1
    # What comes after one reads the sum from memory.
    again = If(var("r"), (Let("v", Op("add", (Load("y", Address(0), 1, "i32", SCALAR), join(row(3))), SCALAR)),
                          store(var("v"))))  # fmt: skip
    assert joins([*begun(), outer, again]) == 2


def test_two_sums_under_one_condition() -> None:
    other: list[Stmt] = [Let("o", join(row(3))), store(var("o"), array="z")]
    body = (store(more("s", join(row(1)))), store(more("o", join(row(2))), array="z"))
    assert joins([*begun(), *other, If(var("p"), body)]) == 2


def test_what_vectors_are_loaded_from_may_be_stored_to_under_the_condition() -> None:
    first: list[Stmt] = [Let("s", Op("add", (Load("a", Address(3), 1, "i32", SCALAR), join(row(0))), SCALAR))]
    change = Store("a", Address(0), 1, "i32", row(5))
    body = (Let("t", more("s", join(row(1)))), Store("a", Address(8), 1, "i32", row(6)), store(var("t")))
    assert joins([*first, store(var("s")), If(var("p"), (change, *body))]) == 1


def test_a_sum_that_a_loop_carries_on_is_the_one_before_the_condition() -> None:
    first: list[Stmt] = [Let("s", more("c", join(row(0)))), store(var("s"))]
    body = (*first, If(var("p"), (store(more("s", join(row(1)))),)))
    loop = Loop("i", integer(0), integer(3), 1, (Carried("c", integer(1), var("s")),), body)
    assert joins([loop, store(var("c"), 5)]) == 2


@pytest.mark.parametrize(
    "body",
    [
        (store(more("s", join(row(1), "max"))),),  # another operation across lanes
        (store(Op("sub", (var("s"), join(row(1))), SCALAR)),),  # not added
        (store(more("s", join(row(1))), 1),),  # stored elsewhere
        (store(more("s", join(row(1)))), store(var("s"), 4)),  # read again
        (store(more("s", join(row(1)))), Store("x", Address(0), 1, "i32", row(0, "y"))),  # read from memory
        (store(var("q")), store(more("s", join(row(1))))),  # written over
    ],
)
def test_what_else_is_done_with_a_sum_keeps_it(body: tuple[Stmt, ...]) -> None:
    assert joins([*begun(), If(var("p"), body)]) == 2


def test_a_condition_may_ask_for_the_sum() -> None:
    for condition in (var("s"), Load("y", Address(0), 1, "i32", SCALAR)):
        assert joins([*begun(), If(condition, (store(more("s", join(row(1)))),))]) == 2


@given(st.recursive(st.just([]), lambda inner: st.lists(st.tuples(st.sampled_from("stxapqr"), inner), max_size=3)))
def test_any_mix_does_the_same(shape: list[tuple[str, object]]) -> None:
    """Sums, stores and conditions at random: the letter tells which, what is in it the statements of a condition."""
    count = 0

    def block(parts: object, sums: list[str]) -> tuple[Stmt, ...]:
        nonlocal count
        out: list[Stmt] = []
        assert isinstance(parts, list)
        for letter, inner in parts:
            count += 1
            name = f"v{count}"
            if letter in "st":
                value = join(row(count % 7))
                out += [Let(name, more(sums[-1], value) if sums and letter == "s" else value), store(var(name))]
                sums = [*sums, name]
            elif letter in "xa":
                out.append(
                    Store(letter, Address(8 * (count % 5)), 1, "i32", row(count % 3, "y" if count % 4 == 0 else "a"))
                )
            out.append(If(var(letter if letter in CONDITIONS else "p"), block(inner, sums)))
        return tuple(out)

    joins([*begun(), *block(shape, ["s"])])


def test_a_loop_round_conditions_is_gone_through() -> None:
    inner = (*begun(), If(var("p"), (store(more("s", join(row(1)))),)))
    made = [Loop("i", integer(0), integer(3), 1, (), inner, 3, 3)]
    assert joins(made) == 1
    assert any(isinstance(s, Loop) for s in statements(made))
