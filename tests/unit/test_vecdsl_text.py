"""Text of the vector DSL reads back to equal values, and what can't be read is refused with its place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspgen.errors import SourceError
from dspgen.vecdsl.ir.parser import parse_program, parse_term
from dspgen.vecdsl.ir.printer import print_program, print_term
from dspgen.vecdsl.ir.program import OPS, Address, Const, If, Let, Load, Loop, Op, Program, Store, Term, Var, VType
from dspgen.vecdsl.ir.verify import InvalidProgram, verify
from plant_core.support.location import Loc
from tests.support.vector_programs import random_program

F, FV, N, NV = VType("f32", False), VType("f32", True), VType("i32", False), VType("i32", True)


@given(seed=st.integers(0, 10**9), every=st.booleans())
def test_programs_read_back(seed: int, every: bool) -> None:
    program = random_program(seed, every)
    located = replace(program, body=tuple(_with_loc(s, seed) for s in program.body))
    assert parse_program(print_program(located)) == located


def _with_loc(stmt: object, seed: int) -> object:
    if isinstance(stmt, Store | Loop):
        return replace(stmt, loc=Loc('my "odd" file.c', seed % 90 + 1, 3))
    return stmt


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("(const.i32 -5)", Const(-5, N)),
        ("(const.f32.v 0.1)", Const(0.1, FV)),
        ("(const.f64 -inf)", Const(float("-inf"), VType("f64", False))),
        ("acc:f32.v", Var("acc", FV)),
        ("(ld.f32.v A [64*i + j + 3] 1)", Load("A", Address(3, (("i", 64), ("j", 1))), 1, "f32", FV)),
        ("(ld.i16 x [-i + 7] 1)", Load("x", Address(7, (("i", -1),)), 1, "i16", N)),
        ("(ld.i32.i64 x [0] 1)", Load("x", Address(0), 1, "i32", VType("i64", False))),
        ("(lt.f32.v a:f32.v b:f32.v)", Op("lt", (Var("a", FV), Var("b", FV)), NV)),
        ("(lane.f32.3 a:f32.v)", Op("lane", (Var("a", FV),), F, (3,))),
        ("(align.f32.v.5 a:f32.v b:f32.v)", Op("align", (Var("a", FV), Var("b", FV)), FV, (5,))),
    ],
)  # fmt: skip
def test_terms(text: str, term: Term) -> None:
    assert print_term(term) == text
    assert parse_term(text) == term


@pytest.mark.parametrize("name", OPS)
def test_every_operation_reads_back(name: str) -> None:
    arity = 3 if OPS[name].arity < 0 else OPS[name].arity
    elem = "f32" if arity else "i32"
    term = Op(name, tuple(Var(f"x{k}", VType(elem, True)) for k in range(arity)), NV, (2, -1))
    assert parse_term(print_term(replace(term, type=NV))) == term


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("(frob.i32 a:i32)", "unknown operation 'frob'", 2),
        ("(add.i32 a:i32)", "'add' takes 2 operands, 1 were given", 2),
        ("(add.q7 a:i32 b:i32)", "'q7' is not an element type", 2),
        ("(add.i32 a b:i32)", "variable 'a' needs its type", 10),
        ("(const.i32 1.5)", "'1.5' is not a number of type i32", 12),
        ("(ld.f32 A [i*j] 1)", "'i*j' can't stand in an address", 12),
        ("(lane.f32.x a:f32.v)", "'x' are not immediates of 'lane'", 2),
        ("(neg.i32 a:i32", "expected 'more text', found 'the end'", 1),
    ],
)
def test_bad_text(text: str, message: str, column: int) -> None:
    with pytest.raises(SourceError, match="^" + message.replace("*", r"\*")) as error:
        parse_term(text)
    loc = error.value.problems[0].loc
    assert loc is not None and loc.column == column


GOOD = """program f(A, n) {
  array A f32 16
  local array T f32 4
  scalar n i32
  let x = (ld.f32 A [0] 1)
  loop i start (const.i32 0) trip n:i32 step 1 min 0 {
    carry c = x:f32
    store.f32 A [i] 1 = c:f32
    next c = (add.f32 c:f32 x:f32)
  }
  store.f32 A [1] 1 active 2 = (bcast.f32.v c:f32)
}
"""


def test_a_good_program_is_verified() -> None:
    assert isinstance(verify(parse_program(GOOD)), Program)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("let x =", "let n =", "bound twice"),
        ("A [i] 1", "A [j] 1", "'j' in an address"),
        ("A [0] 1", "B [0] 1", "unknown array 'B'"),
        ("(add.f32 c:f32 x:f32)", "(const.i32 0)", "the next value of 'c'"),
        ("(add.f32 c:f32 x:f32)", "(shl.f32 c:f32 x:f32)", "'shl' of type"),
        ("= c:f32", "= (bcast.f32 c:f32)", "'bcast' of type"),
        ("= x:f32", "= y:f32", "variable 'y'"),
        ("let x = (ld.f32 A [0] 1)", "let x = (const.f32 -0.0)", "neither -0.0"),
        ("trip n:i32", "trip (const.i32 -1)", "outside its declared range"),
        ("step 1", "step 0", "step 0"),
        ("active 2", "active 0", "active lanes"),
        ("array A f32 16", "array A f32 16 const", "const array"),
        ("program f(A, n)", "program f(A)", "the parameters"),
        ("store.f32 A [i]", "store.i32 A [i]", "holds f32"),
    ],
)
def test_bad_programs_are_refused(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(InvalidProgram, match=message):
        verify(parse_program(GOOD.replace(old, new, 1)))


def test_names_of_a_block_end_with_it() -> None:
    program = parse_program(GOOD)
    inside = If(Const(1, N), (Let("y", Const(1.0, F)),))
    leaking = replace(program, body=(*program.body, inside, Store("A", Address(0), 1, "f32", Var("y", F))))
    with pytest.raises(InvalidProgram, match="variable 'y'"):
        verify(leaking)
