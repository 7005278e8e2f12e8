"""Loops in groups with an exit: the same results, wherever the data end the loop, and fewer iterations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.parser import parse_program
from dspgen.vecdsl.ir.printer import print_program
from dspgen.vecdsl.ir.program import Loop, Program
from dspgen.vecdsl.ir.terms import statements
from dspgen.vecdsl.ir.verify import verify
from dspgen.vecdsl.loops.early_exits import NUMBERS, VECTORS, with_early_exits

LANES = 4
HEAD = "program k(n, a, r) { array a f32 %d const array r i32 4 scalar n i32 "
VECTOR = """
  let lane = (iota.i32.v)
  loop i start (const.i32 0) trip %s step 4 min %d {
    carry e = (const.i32.v 2147483647)
    next e = (min.i32.v e:i32.v (select.i32.v (gt.f32.v (ld.f32.v a [i] 1) (const.f32.v 0.5))
      (add.i32.v (bcast.i32.v i:i32) lane:i32.v) (bcast.i32.v n:i32)))
  }
  store.i32 r [0] 1 = %s
}"""
SCALAR = """
  loop i start (const.i32 0) trip %s step 1 min %d {
    carry e = n:i32
    next e = (min.i32 e:i32 (select.i32 (gt.f32 (ld.f32 a [i] 1) (const.f32 0.5)) i:i32 n:i32))
  }
  store.i32 r [0] 1 = e:i32
}"""
FLAG = """
  loop i start (const.i32 0) trip %s step 1 min %d {
    carry s = (const.i32 0)
    carry going = (const.i32 1)
    let on = (ne.i32 going:i32 (const.i32 0))
    let t = (add.i32 s:i32 (select.i32 (ne.i32 on:i32 (const.i32 0)) (const.i32 1) (const.i32 0)))
    store.i32 r [1] 1 mask on:i32 = t:i32
    next s = t:i32
    next going = (select.i32 (and.i32 (ne.i32 on:i32 (const.i32 0)) (gt.f32 (ld.f32 a [i] 1) (const.f32 0.5)))
      (const.i32 0) going:i32)
  }
  store.i32 r [0] 1 = s:i32
}"""
LEAST = "(min.i32 n:i32 (reduce_min.i32 e:i32.v))"


def made(text: str, size: int, length: int | None, *rest: str) -> Program:
    trips = "n:i32" if length is None else f"(const.i32 {length})"
    return verify(parse_program(HEAD % size + text % (trips, length or 0, *rest)))


def grouped(program: Program) -> list[Loop]:
    return [s for s in statements(program.body) if isinstance(s, Loop) and s.going]


@pytest.mark.parametrize("trips", [None, (2, 0), (2, 5)])
@pytest.mark.parametrize(("text", "lanes", "rest"), [(VECTOR, LANES, (LEAST,)), (SCALAR, 1, ()), (FLAG, 1, ())])
def test_groups_keep_the_results(text: str, lanes: int, rest: tuple[str, ...], trips: tuple[int, int] | None) -> None:
    group = VECTORS if lanes > 1 else NUMBERS
    length = None if trips is None else trips[0] * group + trips[1]
    size = (length or 2 * group + 1) * lanes
    program = made(text, size, length, *rest)
    changed = verify(with_early_exits(program, LANES))
    assert grouped(changed)
    assert parse_program(print_program(changed)) == changed
    whole = verify(
        replace(changed, body=tuple(replace(s, going="") if isinstance(s, Loop) else s for s in changed.body))
    )
    for count in [size // lanes] if length is not None else [0, 1, group, size // lanes]:
        for end in (None, 1, group * lanes - 1, group * lanes, size - 1):
            a = np.zeros(size)
            if end is not None:
                a[end:] = 1  # the first of many
            inputs = {"n": count if lanes == 1 else size, "a": a, "r": np.zeros(4)}
            if lanes > 1 and length is None:
                inputs["n"] = count
            wanted = evaluate(program, LANES, inputs, slack=size)["r"]
            for found in (changed, whole):
                np.testing.assert_array_equal(evaluate(found, LANES, inputs, slack=size)["r"], wanted)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LEAST, "(lane.i32.0 e:i32.v)"),  # one lane is read by itself
        ("(bcast.i32.v n:i32)))", "(bcast.i32.v i:i32)))"),  # what it finds where nothing is there changes
        ("(add.i32.v (bcast.i32.v i:i32) lane:i32.v)", "(sub.i32.v lane:i32.v (bcast.i32.v i:i32))"),  # counts down
        ("step 4", "step 2"),  # a later iteration may find a lesser one
    ],
)
def test_what_later_iterations_may_change_runs_to_its_end(old: str, new: str) -> None:
    text = VECTOR % ("n:i32", 0, LEAST)
    assert old in text
    program = verify(parse_program(HEAD % 400 + text.replace(old, new)))
    assert with_early_exits(program, LANES) == program


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" mask on:i32", ""),  # stores go on
        ("(const.i32 0) going:i32)\n  }", "(const.i32 0) (const.i32 1))\n  }"),  # the flag rises again
        ("(const.i32 1) (const.i32 0)))\n    store", "(const.i32 1) (const.i32 2)))\n    store"),  # so does the sum
    ],
)
def test_what_a_flag_does_not_end_runs_to_its_end(old: str, new: str) -> None:
    text = FLAG % ("n:i32", 0)
    assert old in text
    program = verify(parse_program(HEAD % 400 + text.replace(old, new)))
    assert with_early_exits(program, LANES) == program
