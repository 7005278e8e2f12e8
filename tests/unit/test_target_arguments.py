"""Where calling conventions put arguments of 32 and of 64 bits."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspgen.errors import NoSchedule
from dspgen.target.load import load_target
from dspgen.target.query.arguments import (
    Member,
    argument_places,
    by_structure,
    entry_places,
    structure_alignment,
    structure_bytes,
)
from dspgen.target.query.views import with_arguments

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


MACHINES = (
    "ft_m7002",
    "ft_mt3000",
    "ft_lite",
    *sorted(map(str, (Path(__file__).parent.parent / "isa").glob("*.toml"))),
)
ELEMS = (None, "f32", "i16", "f64", "i64")


@pytest.mark.parametrize("name", MACHINES)
@given(elems=st.lists(st.sampled_from(ELEMS), min_size=9, max_size=20))
def test_structures_are_laid_out_as_c_does(name: str, elems: list[str | None]) -> None:
    target = load_target(name)
    places = argument_places(target, elems)
    assert by_structure(places)
    pointer = target.register_class(target.abi.pointer_class).bits // 8
    types = [ctypes.c_uint64 if (e is None and pointer == 8) or e in ("f64", "i64") else ctypes.c_uint32 for e in elems]
    structure = type("Structure", (ctypes.Structure,), {"_fields_": [(f"m{k}", t) for k, t in enumerate(types)]})
    offsets = [getattr(structure, f"m{k}").offset for k in range(len(elems))]
    assert [p.offset for p in places if isinstance(p, Member)] == offsets
    assert structure_bytes(places) == ctypes.sizeof(structure)
    assert structure_alignment(places) == ctypes.alignment(structure)
    assert entry_places(target, places) == target.abi.arguments[:1]


def test_stack_arguments_take_no_structure() -> None:
    places = argument_places(HEXAGON, [None] * 12)
    assert not by_structure(places) and entry_places(HEXAGON, places) == places


def test_no_register_for_an_address() -> None:
    target = load_target("ft_m7002")
    without = replace(target, abi=replace(target.abi, arguments=()))
    with pytest.raises(NoSchedule, match="passes no address in a register"):
        entry_places(without, argument_places(without, ["f32"]))
