"""Results of several vectors that are stored next to each other, as one vector: the same arrays, in one store."""

from __future__ import annotations

import numpy as np
import pytest

from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import Address, ArrayDecl, Let, Load, Op, Program, Stmt, Store, Term, Var, VType
from dspgen.vecdsl.ir.terms import statements
from dspgen.vecdsl.ir.verify import verify
from dspgen.vecdsl.loops.transpose_reduce import with_joined_rows

LANES = 8
VECTOR, SCALAR = VType("i32", True), VType("i32", False)


def row(k: int, op: str = "add", array: str = "a") -> Term:
    return Op(f"reduce_{op}", (Load(array, Address(LANES * k), 1, "i32", VECTOR),), SCALAR)


def element(k: int, array: str = "y") -> Load:
    return Load(array, Address(k), 1, "i32", SCALAR)


def store(k: int, value: Term) -> Store:
    return Store("y", Address(k), 1, "i32", value)


def program(body: list[Stmt]) -> Program:
    arrays = tuple(ArrayDecl(name, "i32", 256, False) for name in "axyz")
    return verify(Program("f", tuple("axyz"), arrays, (), tuple(body)))


def joined(before: Program) -> int:
    """How many stores of vectors there are, once it is known that the program does the same."""
    after = verify(with_joined_rows(before, LANES))
    generator = np.random.default_rng(0)
    inputs = {name: generator.integers(-99, 99, 256).astype(np.int32) for name in "axyz"}
    expected, got = (evaluate(p, LANES, inputs) for p in (before, after))
    for name in expected:
        np.testing.assert_array_equal(got[name], expected[name], err_msg=name)
    return sum(isinstance(s, Store) and s.value.type.vector for s in statements(after.body))


@pytest.mark.parametrize("count", [4, 7, 8, 16])
@pytest.mark.parametrize("op", ["add", "min", "max"])
def test_rows_are_joined_at_once(count: int, op: str) -> None:
    # Of seven, four are a power of two, and three are too few.
    assert joined(program([store(k, row(k, op)) for k in range(count)])) == max(count // LANES, 1)


def test_what_is_done_to_results_is_done_to_all() -> None:
    def value(k: int) -> Term:
        product = Op("mul", (row(k), element(k, "x")), SCALAR)
        return Op("sub", (element(k), Op("add", (product, element(7, "z")), SCALAR)), SCALAR)

    assert joined(program([store(k, value(k)) for k in range(8)])) == 1


def test_results_with_names_keep_them() -> None:
    body: list[Stmt] = []
    for k in range(4):
        body += [Let(f"s{k}", Op("add", (element(k), row(k)), SCALAR)), store(k, Var(f"s{k}", SCALAR))]
    body += [Store("z", Address(k), 1, "i32", Var(f"s{k}", SCALAR)) for k in range(4)]
    assert joined(program(body)) == 1


def test_others_stay_as_they_are() -> None:
    apart = [store(2 * k, row(k)) for k in range(4)]
    overwritten = [store(k, row(k, array="y")) for k in range(4)]
    shifted = [store(k + 1, Op("add", (element(k), row(k)), SCALAR)) for k in range(4)]
    different = [store(k, row(k, "add" if k else "max")) for k in range(4)]
    no_rows = [store(k, element(k, "x")) for k in range(4)]
    for body in (apart, overwritten, shifted, different, no_rows):
        assert joined(program(list(body))) == 0
