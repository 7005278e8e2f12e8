"""Each pass keeps what a program computes, bit for bit, on random programs that alias a lot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspgen.target.load import load_target
from dspgen.vecdsl.analysis.footprint import Footprint, Overlap, loads_in, overlap
from dspgen.vecdsl.analysis.integer_ranges import Ranges
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.parser import parse_program
from dspgen.vecdsl.ir.program import Address, If, Loop, Program, Store
from dspgen.vecdsl.ir.terms import statements
from dspgen.vecdsl.ir.verify import verify
from dspgen.vecdsl.lanes.reverse_stores import straighten
from dspgen.vecdsl.lanes.shuffle_gathers import deal
from dspgen.vecdsl.loops.loop_invariant_motion import hoist
from dspgen.vecdsl.loops.register_promotion import promote
from dspgen.vecdsl.loops.simplify import simplify
from tests.support.vector_programs import LANES, random_inputs, random_program

SHUFFLING = load_target("ft_m7002", [("lanes", str(LANES))])
PASSES: dict[str, Callable[[Program], Program]] = {
    "simplify": simplify,
    "promote": lambda p: promote(p, LANES),
    "hoist": lambda p: hoist(p, LANES, vectors=3, scalars=3),
    "straighten": lambda p: straighten(p, LANES),
    "deal": lambda p: deal(p, SHUFFLING),
    "all": lambda p: simplify(hoist(promote(simplify(p), LANES), LANES)),
}


def same(program: Program, changed: Program, seed: int) -> None:
    inputs = random_inputs(program, seed)
    before = evaluate(program, LANES, inputs)
    after = evaluate(changed, LANES, inputs, slack=LANES * 4)
    for name, values in before.items():
        np.testing.assert_array_equal(after[name], values, err_msg=name)


@pytest.mark.parametrize("name", PASSES)
@settings(max_examples=70)
@given(every=st.booleans(), seed=st.integers(0, 10**9))
def test_pass_keeps_the_results(name: str, every: bool, seed: int) -> None:
    program = verify(random_program(seed, every))
    changed = verify(PASSES[name](program))
    same(program, changed, seed)
    assert PASSES[name](program) == changed


# Each is a program whose accesses meet where address and stride don't tell; `n` is 0 in one of them.
MEETINGS = {
    "an index may reach what a register holds": """
      loop i start (const.i32 0) trip (const.i32 5) step 1 min 5 max 5 {
        store.i32 A [2] 1 = (add.i32 (ld.i32 A [2] 1) (const.i32 1))
        store.i32 A [0] 1 index (ld.i32 C [i] 1) = i:i32 }""",
    "a masked store overwrites a part": """
      store.i32 A [0] 1 = (bcast.i32.v n:i32)
      store.i32 A [0] 1 mask (mask_first.i32.v.2) = (iota.i32.v)""",
    "a scatter overwrites a part": """
      store.i32 A [0] 1 = (bcast.i32.v n:i32)
      store.i32 A [0] 0 index (ld.i32.v C [0] 1) = (iota.i32.v)""",
    "lanes that meet don't read back their own": """
      store.i32 A [0] 1 period 2 jump 0 = (iota.i32.v)
      store.i32 B [0] 1 = (ld.i32.v A [0] 1 period 2 jump 0)""",
    "lanes over two loops read back their own": """
      store.i32 A [0] 1 period 2 jump 3 = (iota.i32.v)
      store.i32 B [0] 1 = (ld.i32.v A [0] 1 period 2 jump 3)""",
    "lanes that aren't loaded are 0": """
      store.i32 A [0] 1 = (ld.i32.v C [0] 1)
      store.i32 B [0] 1 = (ld.i32.v A [0] 1 mask (mask_first.i32.v.2))""",
    "an index reads what a register holds": """
      loop i start (const.i32 0) trip (const.i32 5) step 1 min 5 max 5 {
        store.i32 A [2] 1 = (and.i32 (add.i32 (ld.i32 A [2] 1) i:i32) (const.i32 7))
        store.i32 B [0] 1 index (ld.i32 A [2] 1) = i:i32
        store.i32 B [8] 1 = (ld.i32 C [0] 1 index (ld.i32 A [2] 1)) }""",
    "an index reads before it is overwritten": """
      store.i32 A [0] 1 = (const.i32 3)
      store.i32 B [0] 1 index (ld.i32 A [0] 1) = n:i32
      store.i32 A [0] 1 = (const.i32 1)""",
    "an index wants lanes that are not stored": """
      loop i start (const.i32 0) trip (const.i32 3) step 1 min 3 max 3 {
        store.i32 B [0] 1 = (ld.i32.v A [0] 1 index (ld.i32.v C [0] 1))
        store.i32 C [0] 1 active 2 = (bcast.i32.v i:i32) }""",
    "a load that never runs has any index": """
      loop i start (const.i32 0) trip n:i32 step 1 min 0 {
        store.i32 B [0] 1 = (ld.i32 A [0] 1 index (mul.i32 (const.i32 1000) n:i32))
        store.i32 B [1] 1 = (ld.i32 A [0] 1 index (add.i32 (ld.i32 C [0] 1) (const.i32 9000))) }""",
    "equal indices in different iterations differ": """
      loop i start (const.i32 0) trip (const.i32 4) step 1 min 4 max 4 {
        store.i32 B [i] 1 = (sub.i32
          (ld.i32 A [i] 1 index (ld.i32 C [i] 1)) (ld.i32 A [i + 1] 1 index (ld.i32 C [i] 1)))
      }""",
    "descending scatters": "store.i32 A [6] -1 index (ld.i32.v C [0] 1) = (iota.i32.v)",
    "descending masks": """store.i32 A [6] -1 mask (ld.i32.v C [0] 1) = (iota.i32.v)
      store.i32 B [6] -1 period 2 jump 4 = (iota.i32.v)""",
    "old values kept under either condition": """
      store.i32 A [0] 1 = (select.i32.v (ld.i32.v C [0] 1) (ld.i32.v A [0] 1) (iota.i32.v))
      store.i32 A [4] 1 = (select.i32.v (ld.i32.v C [0] 1) (select.i32.v (iota.i32.v) (iota.i32.v) (ld.i32.v A [4] 1))
        (ld.i32.v A [4] 1))
      store.i32 B [0] 3 = (select.i32.v (ld.i32.v C [0] 1) (ld.i32.v B [0] 3) (iota.i32.v))
      store.i32 B [1] 3 = (select.i32.v (ld.i32.v C [0] 1) (select.i32.v (iota.i32.v) (iota.i32.v) (ld.i32.v B [1] 3))
        (ld.i32.v B [1] 3))""",
    "sums under masks": """
      loop i start (const.i32 0) trip n:i32 step 1 min 0 max 5 {
        store.i32 A [4] 1 mask (ld.i32.v C [i] 1) = (add.i32.v (ld.i32.v A [4] 1) (bcast.i32.v (ld.i32 C [i] 1)))
        store.i32 B [14] 1 mask (mask_first.i32.v.2) = (add.i32.v (ld.i32.v B [14] 1 mask (mask_first.i32.v.2))
          (bcast.i32.v i:i32))
      }
      loop j start (const.i32 0) trip (const.i32 5) step 1 min 5 max 5 {
        store.i32 B [0] 1 mask (lt.i32.v (iota.i32.v) (bcast.i32.v j:i32)) = (add.i32.v (ld.i32.v B [0] 1) (iota.i32.v))
        store.i32 B [8] 1 mask (ld.i32.v C [j] 1) = (ld.i32.v B [2] 1)
      }""",
    "sums under a steady mask that others see": """
      loop i start (const.i32 0) trip (const.i32 5) step 1 min 5 max 5 {
        store.i32 A [4] 1 mask (ld.i32.v C [0] 1) = (add.i32.v (ld.i32.v A [4] 1) (ld.i32.v C [i] 1))
        store.i32 B [0] 1 = (add.i32.v (ld.i32.v B [0] 1) (reverse.i32.v (ld.i32.v A [4] 1)))
        store.i32 A [12] 1 mask (ld.i32.v C [1] 1) = (reverse.i32.v (ld.i32.v A [12] 1))
        store.i32 A [8] 1 mask (ld.i32.v C [1] 1) = (mul.i32.v (ld.i32.v A [8] 1) (bcast.i32.v (ld.i32 A [9] 1)))
      }""",
    "a mask that is overwritten": """
      loop i start (const.i32 0) trip (const.i32 5) step 1 min 5 max 5 {
        store.i32 A [4] 1 mask (ld.i32.v B [0] 1) = (add.i32.v (ld.i32.v A [4] 1) (ld.i32.v C [i] 1))
        store.i32 B [0] 1 = (sub.i32.v (ld.i32.v C [i] 1) (const.i32.v 2))
      }""",
    "sums under two steady masks": """
      loop i start (const.i32 0) trip n:i32 step 1 min 0 max 5 {
        store.i32 A [4] 1 mask (ld.i32.v C [0] 1) = (add.i32.v (ld.i32.v A [4] 1) (ld.i32.v C [i] 1))
        store.i32 A [4] 1 mask (ld.i32.v C [3] 1) = (add.i32.v (ld.i32.v A [4] 1) (iota.i32.v))
      }
      loop j start (const.i32 0) trip (const.i32 5) step 1 min 5 max 5 {
        store.i32 B [3] 1 mask (ld.i32.v C [0] 1) = (mac.i32.v (ld.i32.v C [j] 1) (iota.i32.v) (ld.i32.v B [3] 1))
        store.i32 B [9] 1 mask (ld.i32.v C [2] 1) = (add.i32.v (ld.i32.v B [9] 1) (bcast.i32.v j:i32))
      }""",
    "masked stores on what was stored": """
      store.i32 A [0] 1 = (iota.i32.v)
      store.i32 A [0] 1 mask (ld.i32.v C [0] 1) = (add.i32.v (ld.i32.v A [0] 1) (ld.i32.v C [4] 1))
      store.i32 A [0] 1 mask (ld.i32.v C [4] 1) = (mul.i32.v (ld.i32.v A [0] 1) (ld.i32.v C [0] 1))
      store.i32 B [0] 1 active 3 = (iota.i32.v)
      store.i32 B [0] 1 mask (ld.i32.v C [0] 1) active 3 = (ld.i32.v C [4] 1)
      store.i32 B [4] 1 active 2 = (iota.i32.v)
      store.i32 B [4] 1 mask (ld.i32.v C [0] 1) = (ld.i32.v C [4] 1)""",
    "pairs overwrite both halves": """
      store.i32 A [0] 1 = (iota.i32.v)
      store.i32 A [0] 2 = (pair.i32.v (ld.i32.v C [0] 1) (ld.i32.v C [1] 1))
      store.i32 B [0] 1 = (ld.i32.v A [0] 1)
      store.i32 B [4] 1 = (ld.i32.v A [0] 2)
      store.i32 B [8] 1 = (lo.i32.v (ld_pair.i32.v (ld.i32.v A [0] 2)))""",
}


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("case", MEETINGS)
def test_accesses_that_meet(case: str, name: str) -> None:
    arrays = "array A i32 16 array B i32 16 array C i32 16 scalar n i32"
    program = verify(parse_program(f"program f(A, B, C, n) {{ {arrays} {MEETINGS[case]} }}"))
    values = np.array([3, 0, 2, 1, 0, 5, 2, 2, 1, 0, 0, 3, 1, 2, 3, 0], np.int32)
    inputs = {"A": np.arange(16, dtype=np.int32) * 3 % 7, "B": values[::-1] + 9, "C": values, "n": 0}
    before = evaluate(program, LANES, inputs)
    after = evaluate(verify(PASSES[name](program)), LANES, inputs, slack=LANES * 4)
    for array, expected in before.items():
        np.testing.assert_array_equal(after[array], expected, err_msg=array)


_STEADY, _CHANGING = "(lt.i32.v (iota.i32.v) (const.i32.v 3))", "(lt.i32.v (iota.i32.v) (bcast.i32.v i:i32))"


@pytest.mark.parametrize(
    ("size", "mask", "kept"), [(16, _STEADY, True), (7, _STEADY, True), (16, _CHANGING, True), (7, _CHANGING, False)]
)
def test_masked_sums_stay_in_a_register(size: int, mask: str, kept: bool) -> None:
    """Unless the mask changes, and lanes that aren't written would lie behind the array."""
    program = parse_program(f"""program f(A, C) {{ array A i32 {size} array C i32 16
      loop i start (const.i32 0) trip (const.i32 5) step 1 min 5 max 5 {{
        store.i32 A [4] 1 mask {mask} = (add.i32.v (ld.i32.v A [4] 1) (bcast.i32.v (ld.i32 C [i] 1)))
      }} }}""")
    promoted = verify(promote(verify(program), 4))
    (loop,) = (s for s in promoted.body if isinstance(s, Loop))
    assert any(isinstance(s, Store) for s in loop.body) is not kept


def test_overlap_of_lanes_over_two_loops() -> None:
    rows = Footprint("A", Address(0, (("i", 4),)), 4, 4, 2, 1)
    assert overlap(rows, Footprint("A", Address(1, (("j", 2),)), 1, 1), Ranges()) == Overlap.MAYBE
    assert overlap(rows, Footprint("A", Address(2, (("i", 4),)), 1, 2), Ranges()) == Overlap.NEVER
    assert overlap(rows, Footprint("A", Address(5, (("i", 4),)), 1, 1), Ranges()) == Overlap.MAYBE
    assert overlap(rows, rows, Ranges()) == Overlap.SAME


def test_the_first_lanes_of_a_sum_begin_in_a_register() -> None:
    """Where a store of these lanes alone came before, and its value is all that the sum begins with."""
    program = parse_program("""program f(A, C) { array A i32 8 array C i32 16
      store.i32 A [4] 1 active 3 = (const.i32.v 0)
      loop i start (const.i32 0) trip (const.i32 5) step 1 min 5 max 5 {
        store.i32 A [4] 1 active 3 = (add.i32.v (ld.i32.v A [4] 1) (bcast.i32.v (ld.i32 C [i] 1)))
      } }""")
    promoted = verify(promote(verify(program), LANES))
    assert not any(load.array == "A" for load, _ in loads_in(promoted.body))
    assert sum(isinstance(s, Store) for s in promoted.body) == 1
    same(program, promoted, 1)


def test_sums_that_nobody_reads_are_not_carried() -> None:
    program = parse_program("""program f(A, C) { array A i32 16 array C i32 16
      loop i start (const.i32 0) trip (const.i32 5) step 1 min 5 max 5 {
        carry s = (const.i32 0)
        let t = (add.i32 s:i32 (ld.i32 C [i] 1))
        store.i32 A [i] 1 = (ld.i32 C [i] 1)
        next s = t:i32
      } }""")
    promoted = verify(promote(verify(program), LANES))
    (loop,) = [s for s in promoted.body if isinstance(s, Loop)]
    assert (loop.carried, len(loop.body)) == ((), 1)


@pytest.mark.parametrize("written", [True, False])
def test_sums_of_loops_that_may_not_run(written: bool) -> None:
    """Where they were written before, they are inside their array: nothing is stored before the loop, and all after
    it. Else a loop that doesn't run touches nothing."""
    place, start = ("4*j", "store.i32 A [4*j] 1 = (const.i32.v 0)") if written else ("n", "")
    program = parse_program(f"""program f(A, C, n, m) {{ array A i32 16 array C i32 16 scalar n i32 scalar m i32
      let trip = (max.i32 m:i32 (const.i32 0))
      loop j start (const.i32 0) trip (const.i32 1) step 1 min 1 max 1 {{
        {start}
        loop i start (const.i32 0) trip trip:i32 step 1 min 0 max 16 {{
          store.i32 A [{place}] 1 = (add.i32.v (ld.i32.v A [{place}] 1) (bcast.i32.v (ld.i32 C [i] 1)))
        }} }} }}""")
    (around,) = (s for s in verify(promote(verify(program), LANES)).body if isinstance(s, Loop))
    assert any(isinstance(s, If) for s in around.body) is not written
    assert sum(isinstance(s, Store) for s in around.body) == int(written)


def test_sums_of_loops_within_each_other_that_may_not_run() -> None:
    """What was written before the outer one is inside its array in the inner one, too."""
    program = parse_program("""program f(A, C, n, m) { array A i32 16 array C i32 16 scalar n i32 scalar m i32
      let trip = (max.i32 m:i32 (const.i32 0))
      store.i32 A [n] 1 = (const.i32.v 0)
      loop j start (const.i32 0) trip trip:i32 step 1 min 0 max 4 {
        loop i start (const.i32 0) trip trip:i32 step 1 min 0 max 4 {
          store.i32 A [n] 1 = (add.i32.v (ld.i32.v A [n] 1) (bcast.i32.v (ld.i32 C [4*j + i] 1)))
        } } }""")
    promoted = verify(promote(verify(program), LANES))
    assert not any(isinstance(s, If) for s in statements(promoted.body))
    assert not any(isinstance(s, Store) for x in promoted.body if isinstance(x, Loop) for s in statements(x.body))
