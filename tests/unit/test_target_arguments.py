"""Where calling conventions put arguments of 32 and of 64 bits."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspgen.target.load import load_target
from dspgen.target.views import with_arguments

HEXAGON = load_target("hexagon_v66")


@pytest.mark.parametrize(
    ("wide", "places"),
    [
        ("n", ["r0"]),
        ("wnw", ["r0", "r2", "r4"]),
        ("nwn", ["r0", "r2", "r4"]),
        ("nnnnnwn", ["r0", "r1", "r2", "r3", "r4", 0, 8]),  # r5 is passed over, and not taken afterwards
        ("nwnwnwnwn", ["r0", "r2", "r4", 0, 8, 16, 24, 32, 40]),
    ],
)
def test_pairs_begin_at_low_halves(wide: str, places: list[str | int]) -> None:
    """As clang calls functions for Hexagon."""
    assert list(HEXAGON.abi.places([w == "w" for w in wide])) == places


def test_arguments_that_come_in_a_pair_each() -> None:
    abi = load_target("ft_m7002").abi
    assert abi.places([True, False, True]) == abi.arguments[:3]
    assert abi.places([False] * (len(abi.arguments) + 1))[-1] is None


@given(st.lists(st.booleans(), max_size=16))
def test_places_do_not_overlap(wide: list[bool]) -> None:
    places = HEXAGON.abi.places(wide)
    below = [(place, 8 if w else 4) for place, w in zip(places, wide, strict=True) if isinstance(place, int)]
    assert all(place % size == 0 for place, size in below)
    assert all(first + size <= second for (first, size), (second, _) in pairwise(below))
    names = [int(p[1:]) for p in places if isinstance(p, str)]
    assert all(first + w <= second - 1 for (first, w), (second, _) in pairwise(zip(names, wide, strict=False)))


def test_parts_of_functions_have_more_registers() -> None:
    target = load_target("hexagon_v66")
    wide = [False, True, True, True]
    places = with_arguments(target, wide).abi.places(wide)
    assert all(isinstance(place, str) for place in places) and len({*places}) == 4
