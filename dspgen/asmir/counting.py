"""How many blocks there are, and of how many iterations, where sizes are known at run time only.

What is told here is values of variables, by name (`end`, `lacking`, `smaller` of `transfers`), as terms over those
before them and the function's parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dspgen.asmir.places import Moved
from dspgen.asmir.transfers import I32, ONE, ZERO, amount, end, iterations, lacking, smaller
from dspgen.target.model import Dma
from dspgen.vecdsl.ir import Const, Op, Term, Var
from plant_core.windows import Counter, Length

NUMBER = "number of blocks"

_FEWEST = 4  # blocks are halved while there are no more than so many
_LEAST_GROUPS = 2  # that a block has
_WORTH = 2000  # cycles of transfers: those that computation could hide take more than some blocks' control


def measured(counters: Sequence[Counter], windows: Sequence[Moved], dma: Dma) -> Iterator[tuple[str, Term]]:
    """Of counters whose extents are known now: the last block, what it lacks, by how much all blocks are smaller than
    they might be, and how many blocks there are."""
    total: Term = ONE
    adapting = [k for k, c in enumerate(counters) if c.adapts]
    for k in [*(k for k, c in enumerate(counters) if not c.adapts), *adapting]:
        counter = counters[k]
        if counter.extent is None:
            total = Op("mul", (total, Const(counter.trips, I32)), I32)
            continue
        extent, some, bits = amount(counter.extent), Var(lacking(k), I32), _bits(counter.span)
        yield lacking(k), Op("select", (Op("lt", (ZERO, extent), I32), extent, ZERO), I32)
        yield end(k), _last_of(some, bits)
        if counter.adapts:
            yield smaller(k), ZERO
            yield from _adapted(k, counters, windows, dma, total)
        blocks = Op("add", (Var(end(k), I32), ONE), I32)
        up: Term = Op("shl", (blocks, Const(bits, I32)), I32)
        if counter.adapts:
            up = Op("add", (Op("mul", (blocks, iterations(counters, k)), I32), Var(smaller(k), I32)), I32)
        yield lacking(k), Op("sub", (up, some), I32)
        total = Op("mul", (total, blocks), I32)
    yield NUMBER, total


def _adapted(
    k: int, counters: Sequence[Counter], windows: Sequence[Moved], dma: Dma, others: Term
) -> Iterator[tuple[str, Term]]:
    """Smaller blocks where there would be few, and much to move: `lacking` is the number of iterations here, `others`
    that of blocks of the other counters."""
    counter, some = counters[k], Var(lacking(k), I32)
    spans: list[int] = []
    while (span := counter.span >> (len(spans) + 1)) >= _LEAST_GROUPS * counter.group:
        spans.append(span)
    moved: Term = ZERO
    for each in windows:
        ways = each.moves(store=False) + each.moves(store=True)
        if each.rows is not None and each.twice and ways:
            for one, other in ((each.rows.rows, each.rows.row_bytes), (each.rows.row_bytes, each.rows.rows)):
                factor = ways * dict(one.less).get(k, 0)
                if factor:
                    bytes_ = Op("mul", (_at_first(other, k, counters), Const(factor, I32)), I32)
                    moved = bytes_ if moved == ZERO else Op("add", (moved, bytes_), I32)
    worth = Op("lt", (Const(round(_WORTH * dma.bytes_per_cycle), I32), Op("mul", (moved, some), I32)), I32)
    yield _WORTHY, Op("and", (worth, Op("lt", (others, Const(_FEWEST, I32)), I32)), I32)
    for span in spans:
        few = Op("and", (Var(_WORTHY, I32), Op("lt", (some, Const(_FEWEST * span + 1, I32)), I32)), I32)
        yield _FEW, few
        less = Const(counter.span - span, I32)
        yield smaller(k), Op("select", (Var(_FEW, I32), less, Var(smaller(k), I32)), I32)
        yield end(k), Op("select", (Var(_FEW, I32), _last_of(some, _bits(span)), Var(end(k), I32)), I32)


def _at_first(length: Length, but: int, counters: Sequence[Counter]) -> Term:
    """A length in the first block of all counters, where the counter `but` lacks nothing."""
    found: Term = Const(length.full, I32)
    for k, less in length.less:
        if k != but and counters[k].extent is not None:
            only = Op("lt", (Var(end(k), I32), ONE), I32)
            lacks = Op("mul", (only, Op("mul", (Var(lacking(k), I32), Const(less, I32)), I32)), I32)
            found = Op("sub", (found, lacks), I32)
    return found


def _last_of(some: Term, bits: int) -> Term:
    """The last of the blocks of 2^bits iterations that `some` iterations make."""
    before = Op("shr", (Op("sub", (some, ONE), I32), Const(bits, I32)), I32)
    return Op("select", (some, before, ZERO), I32)


def groups(counters: Sequence[Counter], k: int, last: Term) -> Term:
    """How many groups of iterations a counter's block has, which may be the `last`."""
    counter, bits = counters[k], _bits(counters[k].group)
    short = Op("sub", (Const(counter.span, I32), Var(lacking(k), I32)), I32)
    count: Term = Op("select", (last, short, iterations(counters, k)), I32)
    if not bits:
        return count
    return Op("shr", (Op("add", (count, Const(counter.group - 1, I32)), I32), Const(bits, I32)), I32)


def _bits(of: int) -> int:
    bits = of.bit_length() - 1
    assert of == 1 << bits
    return bits


_WORTHY = "many bytes"
_FEW = "few blocks"
