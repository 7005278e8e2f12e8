"""The operations against independent definitions: exact rationals, Python integers, C's rules."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspgen.vecdsl.build.lanes import Lanes
from dspgen.vecdsl.ir.evaluate import OutOfBounds, evaluate_term
from dspgen.vecdsl.ir.parser import parse_term
from dspgen.vecdsl.ir.program import OPS, Address, Load, Var, VType
from dspgen.vecdsl.ir.semantics import _CROSS, _LANE, Modular, fused

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
INTS = st.integers(-(2**31), 2**31 - 1)


def scalar(text: str, **names: object) -> object:
    value = evaluate_term(parse_term(text), 4, names, {})
    assert isinstance(value, np.ndarray)
    return value.item()


def test_every_operation_has_a_meaning() -> None:
    assert {n for n in OPS if n not in _LANE and n not in _CROSS} == {"ld_pair"}


@given(FLOATS, FLOATS, FLOATS)
def test_fused_single_rounds_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    got = fused(np.float32(a).reshape(()), np.float32(b).reshape(()), np.float32(c).reshape(())).item()
    if math.isinf(got):
        assert abs(exact) >= Fraction(2) ** 128 - Fraction(2) ** 103
        return
    below, above = (np.nextafter(np.float32(got), np.float32(s * np.inf)).item() for s in (-1, 1))
    distance = abs(exact - Fraction(got))
    for other in (below, above):
        if math.isfinite(other):
            assert distance <= abs(exact - Fraction(other))


def test_fused_rounds_ties_and_double_rounding_cases() -> None:
    one = np.float32(1)
    small = np.float32(2.0**-24)
    # 1 + 2^-24 is a tie that goes to even; the least bit more must go up, though double precision can't hold it.
    assert fused(one, one, small).item() == 1.0
    tiny = np.float32(2.0**-60)
    c = np.asarray(np.float32(1.0 + 2.0**-23))
    assert fused(np.asarray(small), one, c).item() == 1.0 + 2.0**-22
    product = fused(np.asarray(np.float32(2.0**-24 + 2.0**-47)), one, np.asarray(one)).item()
    assert product == 1.0 + 2.0**-23
    assert fused(np.asarray(tiny), one, np.asarray(one)).item() == 1.0


@given(st.floats(allow_nan=False, allow_infinity=False), FLOATS, FLOATS)
def test_fused_double(a: float, b: float, c: float) -> None:
    arrays = [np.asarray(x, dtype=np.float64) for x in (a, b, c)]
    got = fused(*arrays).item()
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if math.isfinite(got) and exact:
        assert got == float(exact)


@given(INTS, INTS)
def test_integers_wrap_and_divide_as_in_c(a: int, b: int) -> None:
    def wrap(x: int) -> int:
        return (x + 2**31) % 2**32 - 2**31

    names = {"a": np.int32(a), "b": np.int32(b)}
    assert scalar("(mul.i32 a:i32 b:i32)", **names) == wrap(a * b)
    assert scalar("(mac.i32 a:i32 b:i32 b:i32)", **names) == wrap(a * b + b)
    assert scalar("(nmac.i32 a:i32 b:i32 b:i32)", **names) == wrap(b - a * b)
    assert scalar("(mulhi.i32 a:i32 b:i32)", **names) == a * b >> 32
    assert scalar("(ltu.i32 a:i32 b:i32)", **names) == int(a % 2**32 < b % 2**32)
    assert scalar("(shru.i32 a:i32 b:i32)", **names) == wrap(a % 2**32 >> b % 32)
    assert scalar("(div.u32 a:i32 b:i32)", **names) == (a % 2**32 // (b % 2**32) if b else 0)
    if b:
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        assert scalar("(div.i32 a:i32 b:i32)", **names) == wrap(quotient)
        assert scalar("(mod.i32 a:i32 b:i32)", **names) == wrap(a - quotient * b)
    low_a, low_b = ((x + 2**15) % 2**16 - 2**15 for x in (a, b))
    assert scalar("(mac16.i32 a:i32 b:i32 a:i32)", **names) == wrap(low_a * low_b + a)


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("(sext8.i32 x:i32)", 0x1FF, -1),
        ("(zext16.i32 x:i32)", -1, 65535),
        ("(cvt_u32_f32.f32 x:i32)", -1, 2.0**32),
        ("(cvt_f32_i32.i32 x:f32)", -2.9, -2),
        ("(cvt_f32_i32.i32 x:f32)", 1e20, 2**31 - 1),
        ("(cvt_f32_i32.i32 x:f32)", float("nan"), 0),
        ("(rcp_est.f32 x:f32)", 3.0, 0.3330078125),
        ("(rsqrt_est.f32 x:f32)", 0.0, float("inf")),
        ("(mov.i32 x:f32)", 1.0, 0x3F800000),
        ("(and.f32 x:f32 (mov.f32 (const.i32 2147483647)))", -1.5, 1.5),
        ("(reduce_add.i32 (add.i32.v (bcast.i32.v x:i32) (iota.i32.v)))", 5, 26),
        ("(lane.i32.3 (mask_first.i32.v.3))", 0, 0),
        ("(lane.i32.2 (mask_first.i32.v.3))", 0, 1),
        ("(lane.i32.1 (align.i32.v.3 (iota.i32.v) (bcast.i32.v x:i32)))", 9, 9),
        ("(lane.i32.3 (zip_hi.i32.v (iota.i32.v) (neg.i32.v (iota.i32.v))))", 0, -3),
        ("(lane.i32.1 (odd.i32.v (iota.i32.v) (bcast.i32.v x:i32)))", 7, 3),
        ("(hi.i32 (pair.i32 (const.i32 1) x:i32))", 8, 8),
    ],
)
def test_single_operations(text: str, value: float, expected: float) -> None:
    typed = np.float32(value) if ":f32" in text else np.int32(value)
    assert scalar(text, x=typed) == expected


@pytest.mark.parametrize(("stride", "high"), [(1, [4, 5, 6, 7]), (2, [1, 3, 5, 7]), (4, [1, 5, 9, 13])])
def test_pair_loads(stride: int, high: list[int]) -> None:
    term = parse_term(f"(hi.i32.v (ld_pair.i32.v (ld.i32.v A [0] {stride})))")
    assert np.asarray(evaluate_term(term, 4, {}, {"A": np.arange(16, dtype=np.int32)})).tolist() == high


def test_loads_stay_inside_their_array_but_for_the_slack() -> None:
    load = Load("A", Address(2), 1, "i16", VType("i32", True))
    memory = {"A": np.array([1, 2, -3, 4], dtype=np.int16)}
    with pytest.raises(OutOfBounds):
        evaluate_term(load, 4, {}, memory)
    assert np.asarray(evaluate_term(load, 4, {}, memory, slack=2)).tolist() == [-3, 4, 0, 0]


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_modular_arithmetic(a: int, b: int, c: int) -> None:
    term = parse_term("(sub.f32 (msub.f32 a:f32 b:f32 c:f32) (nmac.f32 a:f32 a:f32 c:f32))")
    value = evaluate_term(term, 4, {"a": a, "b": b, "c": c}, {}, arithmetic=Modular(101))
    assert np.asarray(value).item() == (a * b - c - (c - a * a)) % 101
    with pytest.raises(ValueError, match="no meaning"):
        evaluate_term(parse_term("(sqrt.f32 a:f32)"), 4, {"a": a}, {}, arithmetic=Modular())


@pytest.mark.parametrize("count", [-3, 0, 1, 3, 4, 9, 2**31 - 1])
def test_the_mask_of_lanes_that_are_present(count: int) -> None:
    mask = Lanes(4, {}, present=Var("n", VType("i32", False))).mask()
    assert mask is not None
    found = np.asarray(evaluate_term(mask, 4, {"n": np.asarray(count, np.int32)}, {}))
    assert (found != 0).tolist() == [k < count for k in range(4)]
