"""Lanes by way of memory, on a machine whose vectors have no view of single elements; and vectors of doubles."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest

from dspgen.asmir.legalize.legalize import legalise
from dspgen.asmir.select.emitter import Emitter
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from dspgen.target.query.operations import OperationTable
from dspgen.target.query.views import views
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import (
    Address,
    ArrayDecl,
    Const,
    If,
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
from tests.support.access_programs import Accesses, inputs_for, run_assembly

ROOT = Path(__file__).resolve().parents[2]
I32, VI32 = VType("i32", False), VType("i32", True)
F64, VF64 = VType("f64", False), VType("f64", True)
SIZE = 256


def without_elements(text: str) -> str:
    """An ISA file's text without its element registers, and without the rows and macros that use them."""
    parts = re.split(r"(?m)^(?=\[)", text)
    return "".join(p for p in parts if "SVR" not in p)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Target:
    path = tmp_path_factory.mktemp("isa") / "plain.toml"
    path.write_text(without_elements((ROOT / "isa" / "ft_m7002.toml").read_text()))
    return load_target(str(path), [("lanes", "4")])


def check(program: Program, target: Target, seed: int) -> None:
    inputs = inputs_for(program, seed)
    expected = evaluate(program, target.lanes, inputs)
    found = run_assembly(program, target, inputs)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("seed", [0, 1, 2, 4, 6, 7, 8, 9, 10, 12])
def test_lanes_go_through_memory(plain: Target, seed: int) -> None:
    check(Accesses(seed, plain.lanes).program(), plain, seed)


def test_a_vector_in_memory_is_stored_once(plain: Target) -> None:
    value = Op("add", (Load("a", Address(0), 1, "i32", VI32), Const(1, VI32)), VI32)
    body = tuple(Store("b", Address(k), 1, "i32", Op("lane", (value,), I32, (k,))) for k in range(4))
    arrays = (ArrayDecl("a", "i32", SIZE, False, True), ArrayDecl("b", "i32", SIZE, False))
    program = Program("f", ("a", "b"), arrays, (), body)
    made = legalise(program, Emitter(plain, OperationTable(plain)))
    assert sum(isinstance(s, Store) and s.value.type.vector for s in made.body) <= 4
    check(program, plain, 1)


@pytest.mark.parametrize("readers", ["one branch", "two branches", "a branch and what follows"])
def test_constants_are_written_in_the_only_branch_that_reads_them(plain: Target, readers: str) -> None:
    numbers = Op("iota", (), VI32)

    def stored(place: int) -> Store:
        return Store("b", Address(4 * place), 1, "i32", Op("add", (numbers, Const(place, VI32)), VI32))

    condition = Op("lt", (Load("a", Address(0), 1, "i32", I32), Const(0, I32)), I32)
    nested = If(Op("lt", (Load("a", Address(1), 1, "i32", I32), Const(0, I32)), I32), (stored(0),))
    body: tuple[Stmt, ...] = (If(condition, (nested,)),)
    if readers == "two branches":
        body += (If(Op("le", condition.args, I32), (stored(1),)),)
    elif readers != "one branch":
        body += (stored(1),)
    arrays = (ArrayDecl("a", "i32", SIZE, False, True), ArrayDecl("b", "i32", SIZE, False))
    program = Program("f", ("a", "b"), arrays, (), body)
    made = legalise(program, Emitter(plain, OperationTable(plain)))
    at_entry = any(isinstance(s, Store) and isinstance(s.value, Const) for s in made.body)
    assert at_entry == (readers != "one branch")
    for seed in range(4):
        check(program, plain, seed)


def test_halves_of_lanes_are_extended_where_their_sign_counts() -> None:
    """The lower half of a register that is read as a whole has the upper one above it: all such shifts were of both."""
    target = next(v for v in views(load_target("ft_mt3000")) if v.packed == 2)
    value = Load("n", Address(0), 1, "i32", VI32)
    lanes = [Op("lane", (value,), I32, (k,)) for k in range(4)]
    signs = [Op("shr", (lane, Const(31, I32)), I32) for lane in lanes]
    less = [Op("lt", (lane, Const(0, I32)), I32) for lane in lanes]
    body = tuple(Store("m", Address(k), 1, "i32", term) for k, term in enumerate([*lanes, *signs, *less]))
    arrays = (ArrayDecl("n", "i32", SIZE, False, True), ArrayDecl("m", "i32", SIZE, False))
    check(Program("f", ("n", "m"), arrays, (), body), target, 1)


def test_lanes_beyond_an_immediates_range_go_through_memory(tmp_path: Path) -> None:
    """A row takes lanes 0 and 1 only: others are none of its operations."""
    row = """
[instructions.TAKE]
units = "VMAC1"
operands = { a = "VR", k = { imm = [0, 1] }, d = "R" }
semantics = "d = lane.i32(a, k)"
latency = 3
label = "assumed"
source = "made up"
"""
    path = tmp_path / "some.toml"
    path.write_text(without_elements((ROOT / "isa" / "ft_m7002.toml").read_text()) + row)
    target = load_target(str(path), [("lanes", "4")])
    vector = Load("a", Address(0), 1, "i32", VI32)
    body = tuple(Store("b", Address(k), 1, "i32", Op("lane", (vector,), I32, (k,))) for k in range(4))
    arrays = (ArrayDecl("a", "i32", SIZE, False, True), ArrayDecl("b", "i32", SIZE, False))
    program = Program("f", ("a", "b"), arrays, (), body)
    emitter = Emitter(target, OperationTable(target))
    taken = [emitter.choose(Op("lane", (Var("x", VI32),), I32, (k,))) is not None for k in range(4)]
    assert taken == [True, True, False, False]
    check(program, target, 1)


class Doubles:
    """One random program of vectors of doubles."""

    def __init__(self, seed: int, lanes: int) -> None:
        self.random = random.Random(seed)
        self.lanes = lanes

    def program(self) -> Program:
        body = tuple(self.store() for _ in range(self.random.randint(1, 3)))
        trip = self.random.choice((1, 3, 6))
        loop = Loop("i", Const(0, I32), Const(trip, I32), self.random.choice((1, self.lanes)), (), body, trip, trip)
        arrays = [ArrayDecl(n, "f64", SIZE, False, n == "a") for n in ("a", "b")]
        return Program("f", ("a", "b"), tuple(arrays), (), (loop,))

    def address(self) -> Address:
        return Address(SIZE // 4 + self.random.choice((0, 1, 5)), (("i", 1),) if self.random.random() < 0.8 else ())

    def store(self) -> Stmt:
        pick = self.random.random()
        if pick < 0.2:
            name = self.random.choice(("reduce_add", "lane"))
            imm = (self.random.randrange(self.lanes),) if name == "lane" else ()
            return Store("b", self.address(), 1, "f64", Op(name, (self.vector(2),), F64, imm))
        active = self.random.randrange(1, self.lanes) if pick < 0.4 else None
        stride = self.random.choice((1, 1, 1, 2, -1))
        return Store("b", self.address(), stride, "f64", self.vector(2), active)

    def vector(self, depth: int) -> Term:
        pick = self.random.random()
        if depth == 0 or pick < 0.2:
            if pick < 0.05:
                return Const(0.5, VF64)
            if pick < 0.1:
                return Op("bcast", (Load("a", self.address(), 1, "f64", F64),), VF64)
            stride = self.random.choice((1, 1, 1, 2, -1, 0))
            return Load(self.random.choice("ab"), self.address(), stride, "f64", VF64)
        if pick < 0.3:
            test = Op("mask_first", (), VI32, (self.random.randrange(self.lanes),))
            return Op("select", (test, self.vector(depth - 1), self.vector(depth - 1)), VF64)
        if pick < 0.4:
            test = Op("lt", (self.vector(depth - 1), self.vector(depth - 1)), VI32)
            return Op("select", (test, self.vector(depth - 1), Const(2.0, VF64)), VF64)
        name = self.random.choice(("mul", "mac", "msub", "add", "sub"))
        count = 3 if name in ("mac", "msub") else 2
        return Op(name, tuple(self.vector(depth - 1) for _ in range(count)), VF64)


DOUBLES = load_target("ft_m7002", [("lanes", "4")])


@pytest.mark.parametrize("seed", range(16))
def test_vectors_of_doubles(seed: int) -> None:
    check(Doubles(seed, 4).program(), DOUBLES, seed)


@pytest.mark.parametrize("seed", range(4))
def test_vectors_of_doubles_without_elements(plain: Target, seed: int) -> None:
    check(Doubles(seed, plain.lanes).program(), plain, seed)
