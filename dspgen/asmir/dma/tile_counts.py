"""How many blocks there are, and of how many iterations, where sizes are known at run time only.

What is told here is values of variables, by name (`end`, `lacking`, `smaller` of `transfers`), as terms over those
before them and the function's parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dspgen.asmir.dma.buffer_placement import Moved
from dspgen.asmir.dma.descriptors import I32, ONE, ZERO, amount, both_hold, end, iterations, lacking, smaller
from dspgen.target.isa.model import Dma
from dspgen.vecdsl.ir.program import Const, Op, Term, Var
from plant_core.ir.array_views import Length
from plant_core.ir.tile_loop import Counter

NUMBER = "number of blocks"
ALONE = "one short block"

_FEWEST = 4  # of all counters but one: there are more blocks than it may make smaller without more reason
_MOST_HALVINGS = 3  # of a loop: as many blocks are of like sizes as two have by so many
_WORTH = (1000, 3000, 12000)  # cycles of transfers that computation could hide: of those that are worth a halving more


def measured(counters: Sequence[Counter], windows: Sequence[Moved], dma: Dma) -> Iterator[tuple[str, Term]]:
    """Of counters whose extents are known now: the last block, what it lacks, by how much all blocks are smaller than
    they might be, and how many blocks there are."""
    total: Term = ONE
    for k in sorted(range(len(counters)), key=lambda k: counters[k].hides):
        counter = counters[k]
        if counter.extent is None:
            total = Op("mul", (total, Const(counter.trips, I32)), I32)
            continue
        extent, some, bits = amount(counter.extent), Var(lacking(k), I32), _bits(counter.span)
        yield lacking(k), Op("select", (Op("lt", (ZERO, extent), I32), extent, ZERO), I32)
        if counter.adapts:
            yield from _adapted(k, counters, windows, dma, total)
        else:
            yield end(k), _last_of(some, bits)
        blocks = Op("add", (Var(end(k), I32), ONE), I32)
        up: Term = Op("shl", (blocks, Const(bits, I32)), I32)
        if counter.adapts:
            up = Op("add", (Op("mul", (blocks, iterations(counters, k)), I32), Var(smaller(k), I32)), I32)
        yield lacking(k), Op("sub", (up, some), I32)
        total = Op("mul", (total, blocks), I32)
    yield NUMBER, total


def alone(counters: Sequence[Counter], windows: Sequence[Moved], dma: Dma) -> Iterator[tuple[str, Term]]:
    """Whether `measured` would tell of one block only, a short one (`ALONE`: 0 or 1), and before that what it lacks:
    much sooner told, if less sharply. The ends of all counters must be known to be 0."""
    only: Term = ONE
    short: Term = ZERO
    opened = [(k, c, amount(c.extent)) for k, c in enumerate(counters) if c.extent is not None]
    for k, counter, extent in opened:
        yield lacking(k), Op("sub", (Const(counter.span, I32), Op("max", (extent, ZERO), I32)), I32)
    for k, counter, extent in opened:
        below = counter.span
        if len(opened) > 1:
            only = both_hold(only, Op("lt", (extent, Const(counter.span + 1, I32)), I32))
        if counter.adapts and counter.hides:
            most, moved = round(_WORTH[0] * dma.bytes_per_cycle), _moved(k, counters, windows)
            if len(opened) == 1 and isinstance(moved, Const) and moved.value:
                below = min(below, int(most // moved.value) + 1)
            else:
                bytes_ = Op("mul", (moved, extent), I32)
                only = both_hold(only, Op("lt", (bytes_, Const(most + 1, I32)), I32))
        is_short = Op("lt", (extent, Const(below, I32)), I32)
        short = is_short if short == ZERO else Op("or", (short, is_short), I32)
    yield ALONE, both_hold(only, short)


def _much(moved: Term, worth: int, dma: Dma) -> Term:
    """Whether so many bytes take more cycles than that: 0 or 1."""
    return Op("lt", (Const(round(worth * dma.bytes_per_cycle), I32), moved), I32)


def _adapted(
    k: int, counters: Sequence[Counter], windows: Sequence[Moved], dma: Dma, others: Term
) -> Iterator[tuple[str, Term]]:
    """Blocks of like sizes where there are but few, and smaller ones where there is much to move: 2^h of them or one
    less, as `lacking`, the number of iterations here, tells. `others`: how many blocks the other counters have.

    A block has 2^(h - 1) grains at least, and 2^h blocks less than 2^h grains too many, so that no second one is empty.
    """
    counter, some = counters[k], Var(lacking(k), I32)
    full = counter.span // counter.grain
    most = max(h for h in range(_MOST_HALVINGS + 1) if full // 2 + 1 >= 1 << max(h - 1, 0))
    yield _GRAINS, _whole(some, counter.grain)
    if counter.hides:
        moved = _moved(k, counters, windows)
        yield _BYTES, Op("mul", (moved, some), I32)
        yield _FREE, Op("lt", (others, Const(_FEWEST, I32)), I32)
    halvings: Term = ZERO
    for h in range(_MOST_HALVINGS):
        needed = _more_than(full << h) if h < most else ZERO
        if counter.hides:
            able = _more_than((2 << h) * ((1 << h) - 1))
            much = _much(Var(_BYTES, I32), _WORTH[h], dma)
            wanted = Op("and", (Op("and", (much, able), I32), Var(_FREE, I32)), I32)
            needed = wanted if needed == ZERO else Op("or", (needed, wanted), I32)
        if needed != ZERO:
            halvings = needed if halvings == ZERO else Op("add", (halvings, needed), I32)
    yield _HALVINGS, halvings
    yield end(k), Op("sub", (Op("shl", (ONE, Var(_HALVINGS, I32)), I32), ONE), I32)
    up = Op("add", (Var(_GRAINS, I32), Var(end(k), I32)), I32)
    yield _EACH, Op("shr", (up, Var(_HALVINGS, I32)), I32)
    yield (
        smaller(k),
        Op("sub", (Const(counter.span, I32), Op("mul", (Var(_EACH, I32), Const(counter.grain, I32)), I32)), I32),
    )
    before_last = Op("mul", (Var(_EACH, I32), Var(end(k), I32)), I32)
    some_left = Op("lt", (before_last, Op("max", (Var(_GRAINS, I32), ONE), I32)), I32)
    yield end(k), Op("sub", (Op("add", (Var(end(k), I32), some_left), I32), ONE), I32)
    yield _MANY, _more_than(full << most)
    yield smaller(k), Op("select", (Var(_MANY, I32), ZERO, Var(smaller(k), I32)), I32)
    yield end(k), Op("select", (Var(_MANY, I32), _last_of(some, _bits(counter.span)), Var(end(k), I32)), I32)


def _more_than(number: int) -> Term:
    """Whether there are more grains: 0 or 1."""
    return Op("lt", (Const(number, I32), Var(_GRAINS, I32)), I32)


def _moved(k: int, counters: Sequence[Counter], windows: Sequence[Moved]) -> Term:
    """The bytes to and fro for each iteration of a counter, in the first block of all others."""
    moved: Term = ZERO
    for each in windows:
        ways = each.moves(store=False) + each.moves(store=True)
        if each.rows is not None and each.twice and ways:
            rows, row = zip((each.rows.rows, each.rows.row_bytes), each.rows.whole, strict=True)
            for (one, _), (other, told) in ((rows, row), (row, rows)):
                factor = ways * dict(one.less).get(k, 0)
                if factor:
                    at_once = _at_first(other, k, counters) if told is None else amount(told)
                    bytes_ = Op("mul", (at_once, Const(factor, I32)), I32)
                    moved = bytes_ if moved == ZERO else Op("add", (moved, bytes_), I32)
    return moved


def _at_first(length: Length, but: int, counters: Sequence[Counter]) -> Term:
    """A length in the first block of all counters, where the counter `but` lacks nothing."""
    found: Term = Const(length.full, I32)
    for k, less in length.less:
        if k != but and counters[k].extent is not None:
            only = Op("lt", (Var(end(k), I32), ONE), I32)
            lacks: Term = Op("mul", (only, Var(lacking(k), I32)), I32)
            if counters[k].adapts:
                lacks = Op("select", (only, Var(lacking(k), I32), Var(smaller(k), I32)), I32)
            found = Op("sub", (found, Op("mul", (lacks, Const(less, I32)), I32)), I32)
    return found


def _last_of(some: Term, bits: int) -> Term:
    """The last of the blocks of 2^bits iterations that `some` iterations make."""
    before = Op("shr", (Op("sub", (some, ONE), I32), Const(bits, I32)), I32)
    return Op("select", (some, before, ZERO), I32)


def groups(counters: Sequence[Counter], k: int, last: Term) -> Term:
    """How many groups of iterations a counter's block has, which may be the `last`."""
    counter = counters[k]
    short = Op("sub", (Const(counter.span, I32), Var(lacking(k), I32)), I32)
    return _whole(Op("select", (last, short, iterations(counters, k)), I32), counter.group)


def batches(number: Term, sizes: tuple[int, int]) -> tuple[Term, Term]:
    """How many batches of each size so many groups make, with few groups in excess: as few batches as there may be, of
    which as many are smaller as enough groups for that are lacking."""
    large, small = sizes
    every = _whole(number, large)
    lacking_ = Op("sub", (Op("mul", (every, Const(large, I32)), I32), number), I32)
    smaller_ = Op("min", (Op("shr", (lacking_, Const(_bits(large - small), I32)), I32), every), I32)
    return Op("sub", (every, smaller_), I32), smaller_


def _whole(iterations: Term, group: int) -> Term:
    """How many groups they make, the last of which may lack some."""
    if group == 1:
        return iterations
    return Op("shr", (Op("add", (iterations, Const(group - 1, I32)), I32), Const(_bits(group), I32)), I32)


def _bits(of: int) -> int:
    bits = of.bit_length() - 1
    assert of == 1 << bits
    return bits


_GRAINS, _HALVINGS, _EACH = "grains", "halvings", "grains of a block"
_BYTES, _FREE, _MANY = "bytes", "few others", "many blocks"
