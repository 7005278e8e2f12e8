"""The road for data that lie off the chip: nests in blocks whose windows the DMA engine fetches and puts back.

Neighbouring nests whose data fit on the chip may be one block together. Which are, and how large the blocks of others
are, is what a model of transfers and arithmetic expects the fewest cycles of. Each kind of block is then compiled as a
function of its own, by the road for data on the chip.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from dspgen.asmir.blocks import Blocked, BlockedNest, Piece, composed, place_bytes, window_bytes
from dspgen.asmir.transfers import Moved
from dspgen.errors import NoSchedule, Problem
from dspgen.options import Options
from dspgen.rewrite.optimise import Remark
from dspgen.sched.schedule import schedule
from dspgen.stages import CANDIDATE_LOOK, Compiled, polished, schedule_remarks
from dspgen.target.model import Target
from dspgen.tiling.bound import bound
from dspgen.tiling.nests import nests
from dspgen.vecdsl.ir import ELEM_BYTES, ArrayDecl, ScalarDecl
from plant_core.affine import read_accesses
from plant_core.blocks import Blocks, blocks, loops_to_block, windows
from plant_core.boxes import NoBlocks
from plant_core.dependence import Dependence, memory_dependences
from plant_core.ir import Buf, Func
from plant_core.windows import Counter, Window, rows_of

# Cycles of the code between two blocks, and of starting a block's loops.
_BETWEEN = 200
# The part of the near memory that is left to local arrays of the blocks.
_SPARE = 4
_TRIED = 40
_FEWEST = 8  # iterations of a loop in a block


@dataclass(frozen=True, slots=True)
class Sizes:
    """Iterations of each loop in a block, the order of the loops over blocks, and the cycles that the model expects."""

    spans: tuple[int, ...]
    order: tuple[int, ...]
    cycles: float


def compile_blocked(
    func: Func, source: Func, target: Target, options: Options, compiled: Callable[[Func], Compiled]
) -> Compiled:
    """`func`, canonical, in blocks. `compiled` makes code for data on the chip. Raises NoSchedule."""
    made = _parts(func, source, target, options)
    pieces = [[compiled(piece) for piece in m.pieces] for m in made]
    function = composed(_blocked(made, source, pieces), target)
    scheduled = schedule(function, target, pipeline=options.pipeline, look=CANDIDATE_LOOK)
    titles = tuple(
        f"{_title(m)}: {', '.join(dict.fromkeys(t for c in code for t in c.tiles))}"
        for m, code in zip(made, pieces, strict=True)
    )
    remarks = tuple(Remark(m.func.comps[0].loc, "blocks", _told(m)) for m in made)
    inner = tuple(dict.fromkeys(r for code in pieces for c in code for r in c.remarks))
    found = replace(pieces[0][0], source=source, assembly=function, scheduled=scheduled, tiles=titles)
    after = polished(found, target, options)
    return replace(after, remarks=(*remarks, *inner, *schedule_remarks(after.scheduled)))


@dataclass(frozen=True, slots=True)
class _Cut:
    """A function's first nests in parts, and the cycles that the model expects of them."""

    cycles: float
    parts: tuple[Blocks, ...]


def _parts(func: Func, source: Func, target: Target, options: Options) -> tuple[Blocks, ...]:
    """The nests in blocks, or neighbours as one block: the cheapest way through the function."""
    names = [nest.names for nest in nests(func)]
    cuts: list[_Cut | None] = [_Cut(0.0, ())]
    refusal: NoSchedule | None = None
    for end in range(1, len(names) + 1):
        best: _Cut | None = None
        for begin in reversed(range(end)):
            part = replace(func, comps=tuple(func.comp(name) for found in names[begin:end] for name in found))
            kept = _kept(func, part)
            try:
                found = _in_blocks(part, source, kept, target, options, single=end - begin == 1)
            except NoSchedule as reason:
                if end - begin > 1:
                    break
                refusal = refusal or reason
                continue
            before = cuts[begin]
            if before is not None and (best is None or before.cycles + found.cycles < best.cycles):
                best = _Cut(before.cycles + found.cycles, (*before.parts, *found.parts))
        cuts.append(best)
    if cuts[-1] is None:
        assert refusal is not None
        raise refusal
    return cuts[-1].parts


def _kept(func: Func, part: Func) -> set[str]:
    """The part's local arrays that others use, too."""
    inside = {c.name for c in part.comps}
    used = [{a.buf for a in (c.target, *read_accesses(c))} for c in func.comps if c.name not in inside]
    mine = {a.buf for c in part.comps for a in (c.target, *read_accesses(c))}
    return {b.name for b in func.bufs if b.kind == "local"} & mine & set().union(*used)


def _in_blocks(func: Func, source: Func, kept: set[str], target: Target, options: Options, *, single: bool) -> _Cut:
    known = memory_dependences(func) if single else ()
    refusal: NoBlocks | None = None
    ways = _sizes(func, kept, target, known, single=single)
    for sizes in sorted(ways, key=lambda s: s.cycles)[:_TRIED]:
        try:
            made = blocks(
                func,
                sizes.spans,
                sizes.order,
                granule=target.lanes,
                reassoc=options.fp == "reassoc",
                known=known,
                kept=kept,
            )
        except NoBlocks as reason:
            refusal = reason
        else:
            return _Cut(sizes.cycles, (made,))
    why = "the data of no block fit on the chip" if refusal is None else refusal.message
    remedy = "compile with --data onchip, for arrays that are in on-chip memory already"
    raise NoSchedule(Problem("DG318", why, func.comps[0].loc or source.loc, remedy))


def _title(made: Blocks) -> str:
    spans = ", ".join(f"{c.name} {c.span}" for c in made.counters if c.trips > 1)
    return f"blocks of {spans}" if spans else "one block"


def _told(made: Blocks) -> str:
    number = math.prod(c.trips for c in made.counters)
    sizes = ", ".join(f"{w.name} {window_bytes(w)}{' twice' if w.counters else ''}" for w in made.windows)
    return f"{_title(made)}, {number} of them; bytes on the chip: {sizes}"


def _blocked(made: Sequence[Blocks], source: Func, pieces: Sequence[Sequence[Compiled]]) -> Blocked:
    arrays = tuple(
        ArrayDecl(p.name, p.dtype, math.prod(p.extents), False, p.const) for p in source.params if isinstance(p, Buf)
    )
    scalars = tuple(ScalarDecl(p.name, p.dtype) for p in source.params if not isinstance(p, Buf))
    found = tuple(_nest(m, source, code) for m, code in zip(made, pieces, strict=True))
    return Blocked(source.name, tuple(p.name for p in source.params), arrays, scalars, found)


def _nest(made: Blocks, source: Func, pieces: Sequence[Compiled]) -> BlockedNest:
    shapes = {p.name: p.extents for p in source.params if isinstance(p, Buf)}
    moved = []
    for window in made.windows:
        rows = rows_of(window, shapes[window.buf], ELEM_BYTES[window.dtype]) if window.outside else None
        moved.append(Moved(window, rows, window_bytes(window)))
    inlined = []
    for piece, code in zip(made.pieces, pieces, strict=True):
        names = [p.name for p in piece.params]
        given = tuple((r, n) for (r, _), n in zip(code.assembly.inputs, names, strict=True))
        inlined.append(Piece(code.assembly, given))
    loc = made.func.comps[0].loc
    return BlockedNest(made.counters, tuple(moved), tuple(inlined), made.piece, made.origins, loc)


def _sizes(
    func: Func, kept: set[str], target: Target, known: tuple[Dependence, ...], *, single: bool
) -> Iterator[Sizes]:
    """Sizes whose windows fit, with what the model expects of them; for several nests none but all iterations."""
    loops = loops_to_block(func) if single else []
    memory = target.memory(target.abi.stack_memory)
    room = memory.size - memory.size // _SPARE - (0 if single else _local_bytes(func, kept))
    work = bound(func, target, data="onchip", values={}).arithmetic
    shapes = {b.name: b.extents for b in func.bufs}
    ways = [
        (spans, order)
        for spans in itertools.product(*(_spans(extent) for _, _, extent in loops))
        for order in itertools.permutations(range(len(loops)))
    ]
    for spans, order in [((), ()), *ways]:
        try:
            counters, found = windows(func, spans, order, granule=target.lanes, known=known, kept=kept)
        except NoBlocks:
            continue
        if any(w.outside and rows_of(w, shapes[w.buf], ELEM_BYTES[w.dtype]) is None for w in found):
            continue
        if sum(place_bytes(window_bytes(w)) * (2 if w.counters else 1) for w in found) <= room:
            yield Sizes(spans, order, _expected(counters, found, work, target))


def _local_bytes(func: Func, kept: set[str]) -> int:
    used = {a.buf for c in func.comps for a in (c.target, *read_accesses(c))} - kept
    found = [b for b in func.bufs if b.kind == "local" and b.name in used]
    return sum(place_bytes(math.prod(b.extents) * ELEM_BYTES[b.dtype]) for b in found)


def _spans(extent: int) -> list[int]:
    """Halves of a loop, halves of these, and so on."""
    found = [extent]
    while found[-1] > _FEWEST:
        found.append(-(-found[-1] // 2))
    return found


def _expected(counters: Sequence[Counter], found: Sequence[Window], work: int, target: Target) -> float:
    dma = target.dma
    assert dma is not None
    moving = first = last = 0.0
    number = math.prod(c.trips for c in counters)
    for window in found:
        inner = max(window.counters, default=-1)
        times = math.prod(c.trips for c in counters[: inner + 1])
        each = window_bytes(window) / dma.bytes_per_cycle
        moving += times * each * (window.load + window.store)
        first += each * window.load
        last += each * window.store
    ends = dma.startup * (any(w.load for w in found) + any(w.store for w in found))
    return max(work + number * _BETWEEN, moving) + first + last + ends
