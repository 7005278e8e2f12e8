"""What code finds out about its blocks where sizes are known at run time only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspgen.asmir.dma.buffer_placement import Moved
from dspgen.asmir.dma.descriptors import end, lacking, smaller
from dspgen.asmir.dma.tile_counts import ALONE, NUMBER, alone, batches, measured
from dspgen.target.load import load_target
from dspgen.vecdsl.ir.program import Const, Op, Term, Var, VType
from plant_core.ir.array_views import Length, Reach
from plant_core.ir.func import Param
from plant_core.ir.tile_loop import Counter
from plant_core.scratchpad.buffers import Window, rows_of

FT = load_target("ft_m7002")
SIGNED = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "lt": lambda a, b: int(a < b),
    "select": lambda c, a, b: a if c else b,
}


def value(term: Term, known: Mapping[str, int]) -> int:
    match term:
        case Const(value=number):
            return int(number)
        case Var(name):
            return known[name]
        case Op(name, args):
            return int(SIGNED[name](*(value(a, known) for a in args)))
    raise AssertionError(term)


def found(counters: Sequence[Counter], windows: Sequence[Moved], sizes: Mapping[str, int]) -> dict[str, int]:
    assert FT.dma is not None
    known = dict(sizes)
    for name, term in measured(counters, windows, FT.dma):
        known[name] = value(term, known)
    return known


def counter(name: str, span: int, group: int, grain: int, *, hides: bool) -> Counter:
    return Counter(name, 0, span, 1, span, Param(name, "i32"), group, None, grain, hides)


def moved(*spans: int) -> Moved:
    """A window of which every counter moves one dimension."""
    dims = tuple(Reach(0, ((k, s),), Length(s, ((k, 1),))) for k, s in enumerate(spans))
    window = Window("a", "a", "f32", spans, dims, True, True, True)
    return Moved(window, rows_of(window, tuple(Param(n, "i32") for n in "nm"), 4))


@given(
    n=st.integers(-3, 3000),
    m=st.integers(-3, 3000),
    rows=st.sampled_from([8, 16, 64, 256]),
    columns=st.sampled_from([16, 64, 256]),
    grains=st.tuples(st.sampled_from([0, 1, 8]), st.sampled_from([0, 16])),
)
def test_blocks_are_all_of_a_loop(n: int, m: int, rows: int, columns: int, grains: tuple[int, int]) -> None:
    """They fit, all but the last are multiples of a grain, only a first one may be empty, and few are of like sizes."""
    counters = (
        counter("n", rows, grains[0] or 1, grains[0], hides=grains[0] > 0),
        counter("m", columns, grains[1] or 1, grains[1], hides=False),
    )
    known = found(counters, [moved(rows, columns)], {"n": n, "m": m})
    total = 1
    for k, (c, size) in enumerate(zip(counters, (n, m), strict=True)):
        size, least = max(size, 0), known.get(smaller(k), 0)
        each, number = c.span - least, known[end(k)] + 1
        last = c.span - known[lacking(k)]
        assert 0 <= last <= each <= c.span and each % max(c.grain, 1) == 0
        assert (number - 1) * each + last == size and (last > 0 or number == 1)
        fewest = max(-(-size // c.span), 1)
        assert number >= fewest and (number <= 2 * fewest or c.hides)
        if number > 1 and least:
            assert number <= 8
        total *= number
    assert known[NUMBER] == total


@given(
    n=st.integers(-3, 300),
    m=st.integers(-3, 300),
    rows=st.sampled_from([8, 64, 256]),
    columns=st.sampled_from([16, 256]),
    grains=st.tuples(st.sampled_from([0, 8]), st.sampled_from([0, 16])),
)
def test_a_short_block_alone_is_told_at_once(n: int, m: int, rows: int, columns: int, grains: tuple[int, int]) -> None:
    """It is the only one as measured, too, and lacks as much; where none is hidden, each such block is told."""
    counters = (
        counter("n", rows, grains[0] or 1, grains[0], hides=grains[0] > 0),
        counter("m", columns, grains[1] or 1, grains[1], hides=False),
    )
    known = {"n": n, "m": m} | {name(k): 0 for name in (end, smaller) for k in range(2)}
    assert FT.dma is not None
    for name, term in alone(counters, [moved(rows, columns)], FT.dma):
        known[name] = value(term, known)
    told = found(counters, [moved(rows, columns)], {"n": n, "m": m})
    short = told[NUMBER] == 1 and (told[lacking(0)] > 0 or told[lacking(1)] > 0)
    if known[ALONE]:
        assert short and all(known[lacking(k)] == told[lacking(k)] for k in range(2))
    elif not counters[0].hides:
        assert not short


@pytest.mark.parametrize(("n", "number"), [(20, 1), (40, 2), (64, 2), (128, 4), (512, 8), (4096, 64)])
def test_much_to_move_comes_in_smaller_blocks(n: int, number: int) -> None:
    """Rows of 64 columns: 512 bytes to move each, 32 cycles; from 64 rows in a block on, there are as many as fit."""
    counters = (counter("n", 64, 8, 8, hides=True), counter("m", 64, 16, 16, hides=False))
    known = found(counters, [moved(64, 64)], {"n": n, "m": 64})
    assert known[end(0)] + 1 == number


@given(groups=st.integers(0, 200), sizes=st.sampled_from([(4, 3), (8, 7), (16, 12)]))
def test_batches_hold_all_groups(groups: int, sizes: tuple[int, int]) -> None:
    larger, smaller_ = (value(t, {"g": groups}) for t in batches(Var("g", VType("i32", False)), sizes))
    large, small = sizes
    held, fewest = larger * large + smaller_ * small, -(-groups // large)
    assert larger + smaller_ == fewest and groups <= held <= fewest * large
    assert held - groups < large - small or not larger
