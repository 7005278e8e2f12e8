"""Vectors of which some lanes are stored, on a machine whose stores know no lane predicates."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dspgen.asmir.legalize.legalize import legalise
from dspgen.asmir.select.emitter import Emitter
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from dspgen.target.query.operations import OperationTable
from dspgen.vecdsl.analysis.integer_ranges import readable
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import (
    Address,
    ArrayDecl,
    Const,
    If,
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
from dspgen.vecdsl.ir.terms import children, own_terms, statements
from tests.support.access_programs import inputs_for, run_assembly

I32, VI32 = VType("i32", False), VType("i32", True)


@pytest.fixture(scope="module")
def hexagon() -> Target:
    return load_target("hexagon_v66")


def value(place: int, *terms: tuple[str, int]) -> Term:
    return Op("add", (Load("a", Address(place, terms), 1, "i32", VI32), Const(1, VI32)), VI32)


def over(size: int, body: tuple[Stmt, ...], trip: int = 1) -> Program:
    """A loop over `body`, in which `i` runs, with an array `b` of `size` elements, which alone is stored to."""
    arrays = (ArrayDecl("a", "i32", 512, False, True), ArrayDecl("b", "i32", size, False))
    return Program("f", ("a", "b"), arrays, (), (Loop("i", Const(0, I32), Const(trip, I32), 1, (), body, trip, trip),))


def legal(program: Program, target: Target) -> list[Stmt]:
    made = legalise(program, Emitter(target, OperationTable(target)), readable(program))
    return list(statements(made.body))


def operations(body: list[Stmt]) -> list[str]:
    """The names of all operations, and `ld` for loads of the array that is stored to."""
    found = list[str]()

    def walk(term: Term) -> None:
        if isinstance(term, Op):
            found.append(term.name)
        elif isinstance(term, Load) and term.array == "b":
            found.append("ld")
        for part in children(term):
            walk(part)

    for stmt in body:
        for term in own_terms(stmt):
            walk(term)
    return found


def check(program: Program, target: Target, seed: int = 1) -> None:
    inputs = inputs_for(program, seed)
    expected = evaluate(program, target.lanes, inputs)
    found = run_assembly(program, target, inputs)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def stored(body: list[Stmt]) -> list[Store]:
    return [s for s in body if isinstance(s, Store)]


def test_the_rest_of_a_row_joins_its_vector(hexagon: Target) -> None:
    """Rows of 37 elements up to the array's end: 32 and 5, which are stored with the 27 before them."""
    row = Address(0, (("i", 37),))
    whole = Store("b", row, 1, "i32", value(0, ("i", 37)))
    rest = Store("b", row.plus(32), 1, "i32", value(32, ("i", 37)), 5)
    program = over(37 * 4, (whole, rest), 4)
    body = legal(program, hexagon)
    assert [(s.address.constant, s.active, s.value.type.vector) for s in stored(body)] == [
        (0, None, True),
        (5, None, True),
    ]
    assert "align" in operations(body) and "ld" not in operations(body)
    check(program, hexagon)


def test_what_lies_before_is_loaded(hexagon: Target) -> None:
    program = over(37 * 4, (Store("b", Address(32, (("i", 37),)), 1, "i32", value(0), 5),), 4)
    body = legal(program, hexagon)
    assert [s.address.constant for s in stored(body)] == [5] and operations(body).count("ld") == 1
    check(program, hexagon)


def test_in_place_where_the_array_goes_on(hexagon: Target) -> None:
    program = over(64, (Store("b", Address(3), 1, "i32", value(0), 20),))
    body = legal(program, hexagon)
    assert [(s.address.constant, s.mask) for s in stored(body)] == [(3, None)] and "select" in operations(body)
    check(program, hexagon)


def test_earlier_where_the_array_ends(hexagon: Target) -> None:
    program = over(40, (Store("b", Address(20), 1, "i32", value(0), 20),))
    body = legal(program, hexagon)
    assert [s.address.constant for s in stored(body)] == [8] and {"align", "select"} <= {*operations(body)}
    check(program, hexagon)


@pytest.mark.parametrize("size", [20, 31])
def test_nothing_outside_the_array_is_stored(hexagon: Target, size: int) -> None:
    program = over(size, (Store("b", Address(0), 1, "i32", value(0), 20),))
    assert not any(s.array == "b" and s.value.type.vector for s in stored(legal(program, hexagon)))
    check(program, hexagon)


def test_under_a_mask(hexagon: Target) -> None:
    mask = Op("lt", (value(40), Const(2, VI32)), VI32)
    program = over(64, (Store("b", Address(1), 1, "i32", value(0), mask=mask),))
    body = legal(program, hexagon)
    assert [(s.value.type.vector, s.mask) for s in stored(body)] == [(True, None)] and "ld" in operations(body)
    check(program, hexagon)


def test_old_contents_are_those_after_the_store_before(hexagon: Target) -> None:
    """Each store is over the one before it, in part."""
    mask = Op("lt", (value(40), Const(2, VI32)), VI32)
    body = (
        Store("b", Address(32), 1, "i32", value(0)),
        Store("b", Address(60), 1, "i32", value(7), 9),
        Store("b", Address(40), 1, "i32", value(14), mask=mask),
        Store("b", Address(50), 1, "i32", Load("a", Address(3), 1, "i32", I32)),
        Store("b", Address(64), 1, "i32", value(21), 3),
        Store("b", Address(64), 2, "i32", value(28)),
        Store("b", Address(96), 1, "i32", value(35), 8),
    )
    check(over(160, body), hexagon)


def test_a_branch_between_stores(hexagon: Target) -> None:
    """What a condition's block may have stored is loaded."""
    inner = If(Op("lt", (Load("a", Address(0), 1, "i32", I32), Const(9, I32)), I32), (
        Store("b", Address(20), 1, "i32", value(9)),
    ))  # fmt: skip
    body = (Store("b", Address(0), 1, "i32", value(0)), inner, Store("b", Address(32), 1, "i32", value(3), 4))
    program = over(80, body)
    assert "ld" in operations(legal(program, hexagon))
    check(program, hexagon)


BETWEEN = {
    "one element": Store("b", Address(10), 1, "i32", Load("a", Address(3), 1, "i32", I32)),
    "a vector": Store("b", Address(20), 1, "i32", value(9)),
    "some lanes": Store("b", Address(28), 1, "i32", value(9), 3),
    "a mask": Store("b", Address(8), 1, "i32", value(9), mask=Op("lt", (value(40), Const(2, VI32)), VI32)),
    "every second": Store("b", Address(5), 2, "i32", value(9)),
    "an index": Store("b", Address(10), 1, "i32", value(9), index=Op("iota", (), VI32)),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_a_store_between_is_seen(hexagon: Target, name: str) -> None:
    body = (Store("b", Address(0), 1, "i32", value(0)), BETWEEN[name], Store("b", Address(32), 1, "i32", value(3), 4))
    program = over(160, body)
    assert "ld" in operations(legal(program, hexagon))
    check(program, hexagon)


class Stores:
    """One random program of stores to one array, near each other and near its ends."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.trip = self.random.choice((1, 2, 3))
        self.step = self.random.choice((0, 29, 32, 37, 64)) if self.trip > 1 else 0
        self.room = self.random.choice((33, 64, 75, 100))

    def program(self) -> Program:
        body = tuple(self.store() for _ in range(self.random.randint(1, 6)))
        end = max(self.end(s) for s in body)
        spare = self.random.choice((0, 0, 1, 30, 64))
        return over(max(end + (self.trip - 1) * self.step, 32) + spare, body, self.trip)

    def end(self, store: Store) -> int:
        count = (store.active or 32) if store.value.type.vector else 1
        return store.address.constant + (count - 1) * store.stride + 1

    def store(self) -> Store:
        terms = (("i", self.step),) if self.step else ()
        address = Address(self.random.choice((0, 32, self.random.randrange(self.room))), terms)
        place = self.random.randrange(64)
        pick = self.random.random()
        if pick < 0.1:
            return Store("b", address, 1, "i32", Load("a", Address(place), 1, "i32", I32))
        stored = self.random.choice((value(place, *terms), Load("b", Address(0), 1, "i32", VI32), Const(3, VI32)))
        active = None if pick < 0.4 else self.random.randrange(1, 33)
        mask = Op("lt", (value(place), Const(2, VI32)), VI32) if self.random.random() < 0.3 else None
        stride = 2 if pick > 0.95 else 1
        return Store("b", address, stride, "i32", stored, active, mask=mask)


@pytest.mark.parametrize("seed", range(40))
def test_random_stores(hexagon: Target, seed: int) -> None:
    check(Stores(seed).program(), hexagon, seed)


def test_lane_predicates_are_used_where_there_are_some(ft_m7002: Target) -> None:
    program = over(64, (Store("b", Address(16), 1, "i32", value(0), 5),))
    body = legal(program, ft_m7002)
    assert [s.active for s in stored(body)] == [5] and not any(isinstance(s, Let) for s in body)


@pytest.mark.parametrize(("count", "stride"), [(8, 16), (5, 3), (15, 7), (3, -40), (8, 1), (1, 9)])
@pytest.mark.parametrize("name", ["ft_m7002", "hexagon_v66"])
@pytest.mark.parametrize("copied", [False, True])
def test_strided_vectors_longer_than_their_loop_load_only_its_lanes(
    name: str, count: int, stride: int, copied: bool
) -> None:
    """The first lanes are loaded as scalars, where windows under masks would be as many as there are lanes; a copy of
    the mask tells as much as the mask itself."""
    target = load_target(name)
    last = (count - 1) * abs(stride)
    first = Let("first", Op("mask_first", (), VI32, (count,)))
    lets = (first, Let("again", Var("first", VI32))) if copied else (first,)
    load = Load("a", Address(last if stride < 0 else 0), stride, "i32", VI32, mask=Var(lets[-1].name, VI32))
    arrays = (ArrayDecl("a", "i32", last + 1, False, True), ArrayDecl("b", "i32", target.lanes, False))
    body = (*lets, Store("b", Address(0), 1, "i32", load))
    program = Program("f", ("a", "b"), arrays, (), body)
    check(program, target)
    loads = [s.value for s in legal(program, target) if isinstance(s, Let) and isinstance(s.value, Load)]
    windows = {k * stride - k for k in range(count)}
    assert len(windows) <= 2 or not any(load.type.vector for load in loads if load.array == "a")
