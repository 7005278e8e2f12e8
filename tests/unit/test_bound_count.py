"""Points of sets, counted in closed form."""

from __future__ import annotations

import random

import islpy as isl
import pytest

from dspgen.tiling.cost import lower_bound as bound
from dspgen.tiling.cost.lower_bound import count


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


def test_what_lies_round_a_box_is_counted_by_its_sides() -> None:
    sides = "i <= 0 or i >= 5999 or j <= 0 or j >= 6999"
    points = isl.Set(f"{{ [i, j, k] : 0 <= i < 6000 and 0 <= j < 7000 and 0 <= k < 8000 and ({sides}) }}")
    assert count(points) == (6000 * 7000 - 5998 * 6998) * 8000


@pytest.mark.parametrize("seed", range(20))
def test_pieces_may_overlap(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    pieces = []
    for _ in range(draw.randint(2, 4)):
        low = [draw.randint(0, 5) for _ in range(2)]
        sides = [f"{a} <= {x} < {a + draw.randint(1, 6)}" for a, x in zip(low, "ij", strict=True)]
        slope = f"i {draw.choice(['<=', '>'])} {draw.choice(['', '2 * '])}j + {draw.randint(-3, 5)}"
        pieces.append(" and ".join([*sides, draw.choice([slope, "0 <= k"]), "0 <= k < 3"]))
    points = isl.Set(f"{{ [i, j, k] : {' or '.join(f'({p})' for p in pieces)} }}")
    expected = int(points.count_val().to_python())
    monkeypatch.setattr(bound, "_FEW", 0)
    assert count(points) == expected
