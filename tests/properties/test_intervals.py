"""Intervals and ends of loops of sets of instances, against the sets' points."""

from __future__ import annotations

import random

import islpy as isl
from hypothesis import given, settings
from hypothesis import strategies as st

from plant_core.analysis.parametric_loops import intervals_of
from plant_core.analysis.rectangular_hull import NoBlocks, ends_of
from plant_core.ir.func import Comp, Load, Val
from plant_core.support.location import Loc

NIGHTLY = settings().max_examples > 100
SEEDS = st.integers(0, 2**40)
SIDE = 7


def _form(rng: random.Random, names: list[str]) -> str:
    name = rng.choice(names)
    part = rng.choice([name, f"{rng.randint(2, 3)}*{name}", f"floor({name}/2)", f"-{name}", f"{name}", "0"])
    return f"{part} + {rng.randint(-3, 6)}"


def _points(rng: random.Random) -> isl.Set:
    """Draw a set of pairs, in a parameter."""
    ranges = [f"{rng.randint(-2, 2)} <= {name} <= {rng.randint(2, SIDE)}" for name in ("i", "j") if rng.random() < 0.9]
    for _ in range(rng.randint(0, 3)):
        left = rng.choice(["i", "j", "2*j", "3*i"])
        ranges.append(f"{left} {rng.choice(['<=', '>=', '<=', '>=', '='])} {_form(rng, ['i', 'n', 'n', 'j'])}")
    if rng.random() < 0.2:
        ranges.append(f"(i + j) mod {rng.randint(2, 3)} = 0")
    found = isl.Set(f"[n] -> {{ S[i, j] : {' and '.join(ranges) or 'true'} }}")
    return found


def _at(points: isl.Set, n: int) -> list[tuple[int, int]]:
    box = isl.Set(f"[n] -> {{ S[i, j] : n = {n} and -40 <= i, j <= 40 }}")
    found = list[tuple[int, int]]()

    def add(point: isl.Point) -> None:
        i, j = (int(point.get_coordinate_val(isl.dim_type.set, k).to_python()) for k in range(2))
        found.append((i, j))

    points.intersect(box).fix_val(isl.dim_type.param, 0, isl.Val(n)).foreach_point(add)
    return found


def _number(value: isl.PwAff, n: int) -> int:
    """A piecewise function of the parameter, at its value."""
    at = value.intersect_params(isl.Set(f"[n] -> {{ : n = {n} }}"))
    return int(at.max_val().to_python())


def check_intervals(seed: int) -> None:
    rng = random.Random(seed)
    points = _points(rng)
    intervals = intervals_of(points)
    order, target = isl.Map("{ S[i, j] -> [i, j] }"), Load("a", (), "i32")
    comp = Comp("S", ("i", "j"), points, order, target, Val(0, "i32"), Loc("", 1, 1))
    ends = {}
    for k in range(2 if points.is_bounded() else 0):
        try:
            ends[k] = ends_of(comp, k)
        except NoBlocks:
            pass
    for n in (-3, 0, 1, 4, 9):
        found = _at(points, n)
        for k, interval in intervals.items():
            own = {p[k] for p in found}
            numbers = set(range(_number(interval.base, n), _number(interval.upper, n) + 1))
            assert not own or own == {v for v in numbers if -40 <= v <= 40}, (points, k, n, own, numbers)
            others = {p[1 - k] for p in found}
            assert len(found) == len(own) * len(others), (points, k, n)
        for k, (low, high, form) in ends.items():
            last = high if form is None else form[0] + form[1].get("n", 0) * n
            assert all(low <= p[k] <= last for p in found), (points, k, n, low, last)


@settings(max_examples=20_000 if NIGHTLY else 100)
@given(seed=SEEDS)
def test_intervals_and_ends(seed: int) -> None:
    check_intervals(seed)
