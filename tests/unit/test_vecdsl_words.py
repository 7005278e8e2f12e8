"""Vectors that take turns, by words: the same results, in whole accesses that stay inside their arrays."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dspgen.target.load import load_target
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import (
    Address,
    ArrayDecl,
    Carried,
    Const,
    Elem,
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
from dspgen.vecdsl.ir.terms import leaves, statements, terms_in
from dspgen.vecdsl.ir.verify import verify
from dspgen.vecdsl.lanes.subword_access import by_words

TARGET = load_target("hexagon_v66")
LANES = TARGET.lanes
VI32, I32 = VType("i32", True), VType("i32", False)
NUMPY = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32}


def program(seed: int) -> Program:
    """Rows of turns: a result's elements from windows of an input, summed up in a loop or at once, perhaps in place."""
    pick = random.Random(seed)
    read, written = pick.choice(list(NUMPY)), pick.choice(list(NUMPY))
    narrow = max(4 // np.dtype(NUMPY[read]).itemsize, 4 // np.dtype(NUMPY[written]).itemsize)
    deal = pick.choice([d for d in (2, 4) if d >= narrow])
    count = pick.choice([deal * LANES, pick.randrange(deal, deal * LANES)])
    taps, row = pick.randrange(1, 4), count + pick.randrange(8)
    before, after = pick.randrange(3), pick.choice((0, 0, 40))
    in_place = read == written and pick.random() < 0.4
    inputs = ArrayDecl("x", read, before + 3 * row + taps + after, False)  # type: ignore[arg-type]
    outputs = inputs if in_place else ArrayDecl("y", written, 3 * count + pick.choice((0, 200)), False)  # type: ignore[arg-type]
    taps = 1 if in_place else taps
    width, first = (row, before) if in_place else (count, 0)
    body: list[Stmt] = []
    looped = not in_place and pick.random() < 0.5
    starts = [t for t in range(deal) if t < count]
    for turn in starts:
        active = -(-(count - turn) // deal)
        place = Address(before + turn, (("r", row),))
        if looped:
            moved = Address(place.constant, (("r", row), ("t", 1)))
            term: Term = Load("x", moved, deal, read, VI32)  # type: ignore[arg-type]
            total = Op("add", (Var(f"s{turn}", VI32), term), VI32)
            carried = (Carried(f"s{turn}", Const(3, VI32), total),)
            body.append(
                Loop("t" if turn == 0 else f"t{turn}", Const(0, I32), Const(taps, I32), 1, carried, (), taps, taps)
            )
            if turn:
                body[-1] = renamed(body[-1], turn, row, before, deal, read)  # type: ignore[arg-type]
            value: Term = Var(f"s{turn}", VI32)
        else:
            value = Const(5, VI32)
            for tap in range(taps):
                value = Op("sub", (Load("x", place.plus(tap), deal, read, VI32), value), VI32)  # type: ignore[arg-type]
        target = Address(first + turn, (("r", width),))
        body.append(
            Store(outputs.name, target, deal, written, value, None if active == LANES else active)  # type: ignore[arg-type]
        )
    if not in_place and not looped and pick.random() < 0.5:
        pick.shuffle(body)
    rows = Loop("r", Const(0, I32), Const(3, I32), 1, (), tuple(body), 3, 3)
    arrays = (inputs,) if in_place else (inputs, outputs)
    return verify(Program("f", tuple(a.name for a in arrays), arrays, (), (rows,)))


def renamed(loop: Loop, turn: int, row: int, before: int, deal: int, elem: Elem) -> Loop:
    place = Address(before + turn, (("r", row), (f"t{turn}", 1)))
    total = Op("add", (Var(f"s{turn}", VI32), Load("x", place, deal, elem, VI32)), VI32)
    return Loop(loop.iterator, loop.start, loop.trip, 1, (Carried(f"s{turn}", Const(3, VI32), total),), (), 1, 9)


@pytest.mark.parametrize("seed", range(150))
def test_results_stay(seed: int) -> None:
    before = program(seed)
    after = verify(by_words(before, TARGET))
    source = np.random.default_rng(seed)
    values = {a.name: source.integers(-(2**31), 2**31, a.size).astype(NUMPY[a.elem]) for a in before.arrays}
    # The unused lanes of a row's vectors may lie anywhere in what follows; words may not.
    wanted = evaluate(before, LANES, values, slack=600)
    if not any(
        isinstance(x, Load) and x.stride > 1 and x.elem[0] != "w" for t in terms_in(after.body) for x in leaves(t)
    ):
        found = evaluate(after, LANES, values)
    else:
        found = evaluate(after, LANES, values, slack=600)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


def test_bytes_are_loaded_and_stored_once_by_words() -> None:
    lets = tuple(
        Let(f"v{k}", Op("add", (Load("x", Address(k), 4, "u8", VI32), Load("x", Address(k + 1), 4, "u8", VI32)), VI32))
        for k in range(4)
    )
    stores = tuple(Store("y", Address(k), 4, "u8", Var(f"v{k}", VI32)) for k in range(4))
    arrays = (ArrayDecl("x", "u8", 4 * LANES + 4, False), ArrayDecl("y", "u8", 4 * LANES, False))
    after = by_words(Program("f", ("x", "y"), arrays, (), (*lets, *stores)), TARGET)
    loads = {x for t in terms_in(after.body) for x in leaves(t) if isinstance(x, Load)}
    assert {(x.elem, x.address.constant) for x in loads} == {("w8", 0), ("w8", 4)}
    assert [s.elem for s in statements(after.body) if isinstance(s, Store)] == ["w8"]
