"""Points of sets, counted in closed form."""

from __future__ import annotations

import random

import islpy as isl
import pytest

from dspgen.tiling import bound
from dspgen.tiling.bound import count


@pytest.mark.parametrize("seed", range(30))
def test_slices_between_corners_are_a_polynomial(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    names = "ijkl"[: draw.randint(2, 4)]
    bounds = [f"0 <= {x} < {draw.randint(3, 14)}" for x in names]
    for _ in range(draw.randint(1, 4)):
        a, b = draw.sample(names, 2)
        bounds.append(f"{a} {draw.choice(['<', '<=', '>'])} {b} + {draw.randint(-4, 4)}")
    points = isl.Set(f"{{ [{', '.join(names)}] : {' and '.join(bounds)} }}")
    expected = int(points.count_val().to_python())
    monkeypatch.setattr(bound, "_FEW", 0)
    assert count(points) == expected


def test_large_simplices_take_no_time() -> None:
    points = isl.Set("{ [i, j, k] : 0 <= i < 3000 and 0 <= j < i and 0 <= k < j }")
    assert count(points) == 3000 * 2999 * 2998 // 6


def test_slopes_that_meet_between_integers_are_counted_slice_by_slice() -> None:
    points = isl.Set("{ [i, j] : 0 <= i < 101 and 0 <= 2 * j <= i }")
    assert count(points) == sum(i // 2 + 1 for i in range(101))
    assert count(isl.Set("{ [i, j] : 0 <= i < 9000 and 0 <= 3 * j <= i }")) == sum(i // 3 + 1 for i in range(9000))
