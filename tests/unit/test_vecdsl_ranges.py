"""Interval reasoning over iterators, and what vector tails may touch."""

from __future__ import annotations

import pytest

from dspgen.vecdsl.analysis.footprint import Footprint, Overlap, overlap
from dspgen.vecdsl.analysis.integer_ranges import Ranges, over_reads, readable
from dspgen.vecdsl.analysis.integer_ranges import with_inner_loops as inside
from dspgen.vecdsl.build.affine_forms import _magic
from dspgen.vecdsl.ir.parser import parse_program, parse_term
from dspgen.vecdsl.ir.program import Address
from dspgen.vecdsl.loops.simplify import decide

TRIANGLE = parse_program("""program f(A, B, n) {
  array A f32 64
  array B f32 64
  scalar n i32
  loop i start (const.i32 0) trip (const.i32 16) step 4 min 16 max 16 {
    let t = (sub.i32 (const.i32 64) i:i32)
    loop k start (const.i32 0) trip t:i32 step 1 min 1 max 64 {
      store.f32 B [i] 1 active 3 = (add.f32.v (ld.f32.v A [i + k] 1) (ld.f32.v A [k] -1))
    }
  }
  loop m start (const.i32 60) trip (const.i32 4) step -2 min 4 max 4 {
    store.f32 B [m] 1 = (ld.f32 A [m] 1)
  }
  loop p start (const.i32 0) trip n:i32 step 1 min 0 {
    store.f32 B [p] 1 = (ld.f32 A [p] 1)
  }
}""")


def test_triangular_and_symbolic_bounds() -> None:
    test = readable(TRIANGLE)
    both = Address(0, (("i", 1), ("k", 1)))
    assert test("A", both, 0, 0) and not test("A", both, 0, 1) and not test("A", both, -1, 0)
    assert test("A", Address(0, (("m", 1),)), -54, 3) and not test("A", Address(0, (("m", 1),)), -55, 0)
    assert not test("A", Address(0, (("p", 1),)), 0, 0)
    assert test("A", Address(0, (("p", 0),)[:0]), 0, 63)


def test_over_reads_of_vector_tails() -> None:
    assert over_reads(TRIANGLE, 16) == {"A": (15, 15), "B": (0, 0)}


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("(min.i32 (const.i32 9) (sub.i32 (const.i32 20) i:i32))", 0, 9),
        ("(max.i32 (const.i32 3) i:i32)", 3, 60),
        ("(shr.i32 (add.i32 i:i32 (const.i32 3)) (const.i32 2))", 0, 15),
        ("(div.i32 i:i32 (const.i32 7))", 0, 8),
        ("(and.i32 i:i32 (const.i32 7))", 0, 7),
        ("(mul.i32 i:i32 (const.i32 -2))", -120, 0),
        ("(lt.i32 i:i32 k:i32)", 0, 1),
        ("(sub.i32 (add.i32 n:i32 i:i32) n:i32)", 0, 60),
    ],
)
def test_terms(text: str, low: int, high: int) -> None:
    found = inside(Ranges(), TRIANGLE.body).interval(parse_term(text))
    if "min" in text:
        assert found == (-40, 9)
    else:
        assert found == (low, high)


def test_bounds_half_a_number_apart_do_not_dominate_each_other() -> None:
    """From the greater of y - 7 and y / 2 to the lesser of y + 1 and y / 2 + 2: once where y is 0 or 15."""
    nest = parse_program("""program f(A) {
      array A f32 16
      loop y start (const.i32 0) trip (const.i32 16) step 1 min 16 max 16 {
        store.f32 A [y] 1 = (const.f32 0.0)
      }
    }""")
    half = "(shr.i32 y:i32 (const.i32 1))"
    start = f"(max.i32 (sub.i32 y:i32 (const.i32 7)) {half})"
    stop = f"(min.i32 (add.i32 y:i32 (const.i32 1)) (add.i32 {half} (const.i32 2)))"
    ranges = inside(Ranges(), nest.body)
    low, high = ranges.interval(parse_term(f"(sub.i32 {stop} {start})"))
    assert low is not None and high is not None and low <= 1 and high >= 2


@pytest.mark.parametrize(
    "text",
    [
        "(mul.i32 i:i32 (const.i32 200000000))",
        "(shl.i32 (add.i32 i:i32 (const.i32 1)) (const.i32 28))",
        "(sub.i32 (const.i32 -2147483648) i:i32)",
    ],
)
def test_terms_that_may_wrap_have_no_range(text: str) -> None:
    ranges = inside(Ranges(), TRIANGLE.body)
    assert ranges.interval(parse_term(text)) == (None, None)
    assert decide(parse_term(f"(gt.i32 (add.i32 {text} (const.i32 1)) {text})"), ranges) is None
    assert ranges.interval(parse_term(f"(shr.i32 {text} (const.i32 28))")) == (-8, 7)


def test_unknown_values_have_no_range() -> None:
    assert Ranges().interval(parse_term("(add.i32 n:i32 (const.i32 1))")) == (None, None)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((0, 1, 16), (16, 1, 16), Overlap.NEVER),
        ((0, 1, 16), (15, 1, 1), Overlap.MAYBE),
        ((0, 2, 16), (1, 2, 16), Overlap.NEVER),
        ((0, 2, 16), (2, 2, 16), Overlap.MAYBE),
        ((3, 1, 4), (3, 1, 4), Overlap.SAME),
        ((3, -1, 4), (0, 1, 4), Overlap.MAYBE),
        ((3, -1, 4), (4, 1, 4), Overlap.NEVER),
    ],
)
def test_overlap_at_known_distance(a: tuple[int, ...], b: tuple[int, ...], expected: Overlap) -> None:
    first, second = (Footprint("A", Address(c, (("i", 8),)), s, n) for c, s, n in (a, b))
    assert overlap(first, second, Ranges()) == expected


def test_overlap_by_ranges_and_divisibility() -> None:
    ranges = inside(Ranges(), TRIANGLE.body)
    low = Footprint("A", Address(0, (("k", 1),)), 1, 4)
    assert overlap(low, Footprint("A", Address(67, (("i", 1),)), 1, 1), ranges) == Overlap.NEVER
    assert overlap(low, Footprint("A", Address(66, (("i", 1),)), 1, 1), ranges) == Overlap.MAYBE
    even, odd = Footprint("A", Address(0, (("n", 2),)), 2, 4), Footprint("A", Address(1, (("k", 4),)), 2, 4)
    assert overlap(even, odd, ranges) == Overlap.NEVER
    assert overlap(low, Footprint("B", Address(0, (("k", 1),)), 1, 4), ranges) == Overlap.NEVER


@pytest.mark.parametrize("divisor", [3, 5, 6, 7, 9, 10, 11, 100])
def test_division_by_multiplication(divisor: int) -> None:
    for most in (1, 63, 1000):
        found = _magic(most, divisor)
        assert found is not None
        factor, shift = found
        assert all(n * factor >> shift == n // divisor and n * factor < 2**31 for n in range(most + 1))
