"""Two stores at neighbouring places become one of a pair where that keeps the results."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dspgen.rewrite.optimize import optimise
from dspgen.target.load import load_target
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import (
    Address,
    ArrayDecl,
    Const,
    Let,
    Load,
    Loop,
    Op,
    Program,
    Stmt,
    Store,
    Term,
    Var,
    VType,
)
from dspgen.vecdsl.ir.terms import statements
from dspgen.vecdsl.ir.verify import verify

LANES = 4
MACHINE = load_target("ft_m7002", [("lanes", str(LANES))])
F = VType("f32", True)
S = VType("f32", False)
N = VType("i32", False)
SIZE = 256


def program(*body: Stmt) -> Program:
    arrays = tuple(ArrayDecl(n, "f32", SIZE, False) for n in "AB")
    return Program("p", ("A", "B"), arrays, (), body)


def load(array: str, constant: int, stride: int = 1, type: VType = F) -> Load:
    return Load(array, Address(constant), stride, "f32", type)


def store(array: str, constant: int, value: Term, stride: int = 1) -> Store:
    return Store(array, Address(constant), stride, "f32", value)


def pairs(given: Program) -> list[Store]:
    """The pair stores of the rewritten program, which is checked to do the same."""
    changed = verify(optimise(given, MACHINE).program)
    values = np.random.default_rng(5)
    inputs = {n: values.uniform(-2, 2, SIZE).astype(np.float32) for n in "AB"}
    before, after = evaluate(given, LANES, inputs), evaluate(changed, LANES, inputs, slack=4 * LANES)
    for name in before:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-4, atol=1e-4, err_msg=name)
    found = [s for s in statements(changed.body) if isinstance(s, Store)]
    return [s for s in found if isinstance(s.value, Op) and s.value.name == "pair"]


def product(constant: int, stride: int = 1, type: VType = F) -> Op:
    x = load("A", constant, stride, type)
    return Op("mul", (x, x), type)


@pytest.mark.parametrize(("stride", "apart"), [(1, LANES), (2, 1), (4, 1)])
@pytest.mark.parametrize("upward", [True, False])
def test_neighbours_become_a_pair(stride: int, apart: int, upward: bool) -> None:
    places = (8, 8 + apart) if upward else (8 + apart, 8)
    (found,) = pairs(program(*(store("B", p, product(p), stride) for p in places)))
    assert (found.address.constant, found.stride) == (8, stride)


def test_scalar_neighbours_become_a_pair_where_they_are_aligned() -> None:
    def both(place: int) -> Program:
        return program(*(store("B", p, product(p, 1, S), 1) for p in (place, place + 1)))

    assert len(pairs(both(8))) == 1
    assert not pairs(both(9))


def test_others_stay_apart() -> None:
    assert not pairs(program(store("B", 8, product(0), 2), store("B", 10, product(4), 2)))
    assert not pairs(program(store("B", 8, product(0)), store("A", 8 + LANES, product(4))))


def test_a_load_between_keeps_the_first_store_where_it_is() -> None:
    between = store("A", 0, load("B", 9))
    assert not pairs(program(store("B", 8, product(0)), between, store("B", 8 + LANES, product(4))))


def test_a_store_over_the_first_one_keeps_it_there() -> None:
    over = store("B", 10, load("A", 32))
    assert not pairs(program(store("B", 8, product(0)), over, store("B", 8 + LANES, product(4))))


def test_the_value_is_that_of_the_old_place() -> None:
    changed = store("A", 0, load("A", 64))
    assert len(pairs(program(store("B", 8, product(0)), changed, store("B", 8 + LANES, product(4))))) == 1


def test_pairs_in_a_loop_over_what_it_stores() -> None:
    def at(constant: int) -> Address:
        return Address(constant, (("i", 2 * LANES),))

    even, odd = (Load("A", at(c), 2, "f32", F) for c in (0, 1))
    body = (
        Let("d", Op("sub", (even, odd), F)),
        Store("A", at(0), 2, "f32", Op("add", (even, odd), F)),
        Store("A", at(1), 2, "f32", Var("d", F)),
    )
    assert len(pairs(program(Loop("i", Const(0, N), Const(4, N), 1, (), body, 4, 4)))) == 1


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_loads_and_stores(seed: int) -> None:
    source = random.Random(seed)
    body: list[Stmt] = []
    for number in range(10):
        array, stride, type = source.choice("AB"), source.choice((1, 1, 2, 4)), source.choice((F, F, S))
        place = source.choice((0, 1, 2, 3, LANES, LANES + 1, 2 * LANES, 3 * LANES))
        value = Op(
            "add",
            (load(source.choice("AB"), source.randrange(16), 1, type), product(source.randrange(16), 1, type)),
            type,
        )
        if source.random() < 0.3:
            body.append(Let(f"x{number}", value))
        body.append(store(array, place, value, stride if type.vector else 1))
    pairs(program(*body))


def test_a_complex_product_over_what_it_reads() -> None:
    """Both parts need both pairs, and the first store overwrites what the second part reads."""

    def parts(place: int) -> tuple[Op, Op]:
        low = Op("ld_pair", (load("A", place, 2),), F)
        return Op("lo", (low,), F), Op("hi", (low,), F)

    (a, b), (c, d) = parts(0), parts(32)
    real = Op("sub", (Op("mul", (a, c), F), Op("mul", (b, d), F)), F)
    imaginary = Op("add", (Op("mul", (a, d), F), Op("mul", (b, c), F)), F)
    shifted = store("B", 64, load("A", 1))
    pairs(program(store("A", 0, real), shifted, store("A", 32, imaginary), store("B", 16, real)))
    pairs(program(store("A", 0, real, 2), store("A", 1, imaginary, 2)))


def test_two_vectors_of_each_array_change_places() -> None:
    """The pair that the last stores want must be loaded before the first ones."""
    places = (0, LANES)
    kept = [Let(f"t{p}", load("A", p)) for p in places]
    out = [store("B", p, Var(f"t{p}", F)) for p in places]
    pairs(program(*kept, *(store("A", p, load("B", p)) for p in places), *out))


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_copies(seed: int) -> None:
    """Values that are stored as they were loaded, at once or later, once or twice."""
    source = random.Random(seed)
    body: list[Stmt] = []
    known: list[Var] = []
    for number in range(12):
        place = source.choice((0, 1, LANES, LANES + 1, 2 * LANES, 3 * LANES))
        loaded = load(source.choice("AB"), place)
        if source.random() < 0.5:
            body.append(Let(f"x{number}", loaded))
            known.append(Var(f"x{number}", F))
        else:
            value = source.choice(known) if known and source.random() < 0.8 else loaded
            body.append(store(source.choice("AB"), source.choice((0, 1, 2, 3)) * LANES, value))
    pairs(program(*body))
