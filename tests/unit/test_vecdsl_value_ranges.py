"""What values can be, by the types of memory, through names and what loops sum up."""

from __future__ import annotations

import pytest

from dspgen.vecdsl.analysis.lane_ranges import ValueRanges
from dspgen.vecdsl.ir.min_max_select import plain
from dspgen.vecdsl.ir.parser import parse_program, parse_term
from dspgen.vecdsl.ir.program import Op, Store
from dspgen.vecdsl.ir.terms import statements

BYTE, SHORT, NUMBER = "(ld.u8.v x [i] 1)", "(ld.i16.v z [i] 1)", "(ld.i32.v w [i] 1)"


def program(value: str, before: str = "") -> str:
    return f"""program f(x, z, w, y, n)
{{
  array x u8 640 const
  array z i16 640 const
  array w i32 640 const
  array y i32 640
  scalar n i32
  loop i start (const.i32 0) trip (const.i32 5) step 1 min 5 max 5 {{
    {before}
    store.i32 y [i] 1 = {value}
  }}
}}
"""


def range_of(value: str, before: str = "") -> tuple[int, int] | None:
    parsed = parse_program(program(value, before))
    store = next(s for s in statements(parsed.body) if isinstance(s, Store))
    return ValueRanges(parsed).of(store.value)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (f"(add.i32.v {BYTE} {SHORT})", (-32768, 33022)),
        (f"(shr.i32.v (sub.i32.v {BYTE} {BYTE}) (const.i32.v 2))", (-64, 63)),
        (f"(shl.i32.v {BYTE} (const.i32.v 3))", (0, 2040)),
        (f"(abs.i32.v {SHORT})", (0, 32768)),
        (f"(mul.i32.v {SHORT} {SHORT})", (-1073709056, 1073741824)),
        (f"(mul.i32.v {NUMBER} {BYTE})", None),
        (f"(and.i32.v {NUMBER} (const.i32.v 63))", (0, 63)),
        (f"(shr.i32.v {NUMBER} (const.i32.v 24))", (-128, 127)),
        (f"(select.i32.v (gt.i32.v {SHORT} (const.i32.v 255)) (const.i32.v 255) {SHORT})", (-32768, 255)),
        ("(bcast.i32.v n:i32)", None),
    ],
)
def test_ranges(value: str, wanted: tuple[int, int] | None) -> None:
    assert range_of(value) == wanted


def loop(start: str, following: str, trip: str = "(const.i32 9)", most: str = " max 9") -> str:
    return f"""loop t start (const.i32 0) trip {trip} step 1 min 0{most} {{
      carry s = {start}
      next s = {following}
    }}"""


def test_sums_of_loops_of_known_length() -> None:
    added = f"(add.i32.v s:i32.v {BYTE})"
    assert range_of("s:i32.v", loop("(const.i32.v 1)", added)) == (1, 9 * 255 + 1)
    assert range_of("s:i32.v", loop(SHORT, f"(sub.i32.v s:i32.v {BYTE})")) == (-32768 - 9 * 255, 32767)
    assert range_of("s:i32.v", loop("(const.i32.v 1)", f"(max.i32.v s:i32.v {BYTE})")) == (0, 255)
    assert range_of("s:i32.v", loop("(const.i32.v 1)", added, "n:i32", "")) is None
    assert range_of("s:i32.v", loop("(const.i32.v 1)", f"(mul.i32.v s:i32.v {BYTE})")) is None
    assert range_of("s:i32.v", loop("(const.i32.v 1)", "(add.i32.v s:i32.v s:i32.v)")) is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("(select.i32 (lt.i32 a:i32 b:i32) a:i32 b:i32)", "min"),
        ("(select.i32 (ge.i32 a:i32 b:i32) a:i32 b:i32)", "max"),
        ("(select.i32 (gt.i32 a:i32 b:i32) b:i32 a:i32)", "min"),
        ("(select.i32 (lt.i32 a:i32 (const.i32 0)) (neg.i32 a:i32) a:i32)", "abs"),
        ("(select.i32 (ge.i32 a:i32 (const.i32 0)) a:i32 (sub.i32 (const.i32 0) a:i32))", "abs"),
        ("(select.i32 (lt.i32 a:i32 b:i32) b:i32 (const.i32 0))", "select"),
        ("(select.i32 (eq.i32 a:i32 b:i32) a:i32 b:i32)", "select"),
    ],
)
def test_selections(text: str, wanted: str) -> None:
    term = parse_term(text)
    assert isinstance(term, Op)
    assert plain(term).name == wanted
