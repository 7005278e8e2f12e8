"""What is expected of a nest in blocks of a size: the cycles of transfers and arithmetic; and which sizes there are."""

from __future__ import annotations

import itertools
import math
from collections import Counter as Counted
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from dspgen.asmir.dma.buffer_placement import may_slide, place_bytes, room_of, sliding_step, window_bytes
from dspgen.errors import Problem
from dspgen.options import Options
from dspgen.target.isa.model import Dma, Target
from dspgen.tiling.cost.lower_bound import arithmetic_cycles
from dspgen.tiling.split.index_set_splitting import isolated
from dspgen.vecdsl.ir.program import ELEM_BYTES
from plant_core.analysis.rectangular_hull import Boxes, NoBlocks
from plant_core.ir.func import Buf, Func
from plant_core.ir.tile_loop import Counter
from plant_core.scratchpad.buffers import Window
from plant_core.scratchpad.footprints import Rooms
from plant_core.scratchpad.tile_nest import blocks
from plant_core.scratchpad.tiled_func import Blocks

# Cycles of the code between two blocks, and of starting a block's loops; and of that part in which nothing is moved.
BETWEEN_BLOCKS = 300
_IDLE = 30
# What each kind of blocks that are shorter than others adds to the arithmetic: tiles fit them less well.
_SHORTER = 0.02
# How much longer arithmetic takes without lanes, for each of them, where slopes cut rows off.
RAGGED = 8
_FEWEST = 8  # iterations of a loop in a block
_MOST_SIZES = 2048  # of tiles of a band that are looked at
_FEW_SIZES = 3  # where a loop has more, it is looked first whether any of them fits
_ROWS = (32, 16, 8, 1)  # iterations of the other loops in blocks that have loops of unknown size whole
_COLUMNS = (64, *_ROWS)  # where the innermost one is the other one
_LENGTHS = (2048, 512, 128, 32)  # or of a loop by itself
# Of the last two loops of unknown size in blocks of guarded nests.
_GUARDED = ((64, 256), (32, 256), (32, 128), (16, 64), (8, 32))
_LONG = (640, 1024, 320)  # elements: rooms that are longer are as good, of nests with guards, others, and columns
CUT = (1,)  # what bounds blocks of all loops is less
MODERATE = 256  # iterations of a short loop of unknown size


class Judge(Protocol):
    """The cycles of the code of each piece, None where not known, infinite where there is none, or where one of the
    pieces clearly takes more than there are `enough` for it."""

    def __call__(self, blocks: Blocks, enough: Sequence[float] = (), /) -> Sequence[float | None]: ...


@dataclass(frozen=True, slots=True)
class Sizes:
    """Iterations of each loop in a block, the order of the loops over blocks, and the cycles that the model expects.
    `rooms`: the shapes that there is room for of windows as large as sizes tell, `longest` the elements of these along
    each dimension of unknown size. `bounding`: less is better, as arrays may be larger; `small`: where loops are short.
    `places`: of windows that slide how many places they have."""

    spans: tuple[int, ...]
    order: tuple[int, ...]
    cycles: float
    rooms: Rooms
    bounding: tuple[int, ...]
    small: tuple[int, int, int]
    places: Mapping[str, int] = field(default_factory=dict)
    in_step: bool = False
    longest: float = math.inf

    def made(self, boxes: Boxes, options: Options, spare: int) -> Blocks:
        """Raises NoBlocks."""
        found = blocks(
            boxes,
            self.spans,
            self.order,
            reassoc=options.fp == "reassoc",
            rooms=self.rooms,
            in_step=self.in_step,
            spare=spare if self.places else 0,
        )
        if _hides_interior(found, options):
            raise NoBlocks("it matters where a block begins, and the whole nest has an interior", loc=boxes.func.loc)
        return replace(found, windows=placed(found.windows, self.places))


def _hides_interior(made: Blocks, options: Options) -> bool:
    """Whether blocks are told where they begin, so that guards are asked that hold in most of the nest as a whole."""
    told = made.open and len(made.left) < len(made.counters)
    return told and isolated(made.func, reassoc=options.fp == "reassoc", any_size=True) is not None


def expected(
    dma: Dma,
    counters: Sequence[Counter],
    found: Sequence[Window],
    work: float,
    outer: int = 0,
    busy: int | None = None,
) -> float:
    """The cycles of blocks whose arithmetic takes `work`, `outer` of whose counters go round other nests, too. `busy`:
    how many have anything to do, if not all."""
    moving = first = last = waiting = 0.0
    number = math.prod(c.trips for c in counters)
    busy = number if busy is None else busy
    rounds = math.prod(c.trips for c in counters[:outer])
    for window in found:
        inner = max(window.counters, default=-1)
        times = busy if window.in_step else math.prod(c.trips for c in counters[: max(inner + 1, outer)])
        each = window_bytes(window) / dma.pace(transposed=window.layout is not None)
        if window.in_step:
            waiting += times * (each + dma.startup) * (window.load + window.store)
            continue
        slide = may_slide(window, counters) if window.places else None
        if slide is not None:
            trips = counters[slide.counter].trips
            again = times - times // trips * -(-trips // window.places)
            moving -= again * each * slide.kept / window.dims[slide.dim].extent.full
        moving += times * each * (window.load + window.store)
        first += rounds * each * window.load
        last += rounds * each * window.store
    ends = rounds * dma.startup * (any(w.load for w in found) + any(w.store for w in found))
    shorter = math.prod(2 if c.last < c.span else 1 for c in counters) - 1
    return (
        max(work * (1 + shorter * _SHORTER) + busy * BETWEEN_BLOCKS, moving)
        + number * _IDLE
        + first
        + last
        + ends
        + waiting
    )


def placed(found: Sequence[Window], places: Mapping[str, int]) -> tuple[Window, ...]:
    return tuple(replace(w, places=places.get(w.name, 0)) for w in found)


def sliding_places(counters: Sequence[Counter], found: Sequence[Window], room: int) -> dict[str, int]:
    """How many places there is room for of windows that slide; all of them do, or none."""
    slides = {w.name: slide for w in found if (slide := may_slide(w, counters)) is not None}
    left = room - sum(room_of(replace(w, places=1), slides.get(w.name)) for w in found)
    steps = sum(sliding_step(w, slides[w.name]) for w in found if w.name in slides)
    if not steps:
        return {}
    most = 1 + left // steps
    if any(most < slide.least for slide in slides.values()):
        return {}
    return {n: min(most, max(counters[s.counter].trips, s.least)) for n, s in slides.items()}


def rooms_of(
    counters: Sequence[Counter], found: Sequence[Window], room: int, lanes: int
) -> dict[str, tuple[int, ...]] | None:
    """The shapes that there is room for of windows as large as sizes tell that are known at run time only, alike in
    all such dimensions; None where the windows don't fit."""
    fixed = [w for w in found if not w.sized]
    left = room - sum(room_of(w, may_slide(w, counters) if w.places else None) for w in fixed)
    sized = [w for w in found if w.sized]

    def shapes(most: int) -> dict[str, tuple[int, ...]]:
        return {w.name: tuple(n if m is None else most for n, m in zip(w.shape, w.room, strict=True)) for w in sized}

    def fits(most: int) -> bool:
        return sum(room_of(replace(w, shape=shapes(most)[w.name]), None) for w in sized) <= left

    most, step = 0, 1 << left.bit_length()
    while sized and (step := step // 2) >= lanes:
        most += step if fits(most + step) else 0
    return shapes(most) if left >= 0 and (most or not sized) else None


def bounding(boxes: Boxes, order: Sequence[int], found: Sequence[Window]) -> tuple[int, ...]:
    """By how much blocks bound the size of arrays: those that have any loop whole more than others, and yet more those
    that have all of the arrays; then by how many arrays, all or a part of which is whole, those first that have whole
    rows, and how long these may be."""
    sized = [w for w in found if w.sized]
    kind = 0
    if sized and not any(w.counters for w in found):
        kind = 3
    elif order and len(order) == len(boxes.loops) and boxes.guarded:
        kind = 2  # bounds nothing, but lines of single elements at borders take longer in smaller blocks
    elif (order and len(order) < len(boxes.loops)) or any(not w.counters and len(w.shape) > 1 for w in sized):
        kind = 1
    longest = 0
    columns = kind == 1 and any(w.room[-1] is None for w in sized)
    if kind == 1:
        longest = int(min(_LONG[2 if columns else not boxes.guarded], longest_of(sized)))
    return kind, sum(not w.counters for w in sized), len(sized), columns, -longest


def longest_of(found: Sequence[Window]) -> float:
    """The elements that there is room for along each dimension of unknown size."""
    return min((n for w in found if w.sized for n in w.room if n is not None), default=math.inf)


def room_beside(touched: Sequence[set[str]], bufs: Mapping[str, Buf], room: int, boxes: Boxes) -> int:
    """The bytes for a nest's windows, of `room`, where there are local arrays that other nests share, each of which
    has `touched` its arrays: these keep their places meanwhile, and what they take of more than a sixth of the room,
    half of what is left to local arrays of blocks, windows have less."""
    mine = {use.access.buf for use in boxes.uses}
    times = Counted(name for arrays in touched for name in arrays)
    others = (bufs[n] for n, count in sorted(times.items()) if count > 1 and n not in mine and bufs[n].kind == "local")
    taken = sum(place_bytes(array_bytes(b)) for b in others if all(isinstance(x, int) for x in b.shape))
    return room - max(taken - room // 6, 0)


def small(counters: Sequence[Counter], found: Sequence[Window], *, hidden: bool) -> tuple[int, int, int]:
    """How many blocks loops of a moderate length have; then the length of the rows that are moved, the longer the less;
    then into how many parts such loops cut sums, which each block takes up where the one before it left them, unless
    that is `hidden` behind transfers."""
    blocks = [-(-min(MODERATE, _extent(c)) // c.span) for c in counters]
    along = {k for w in found if w.store for k in w.counters}
    parts = 1 if hidden else math.prod(n for k, n in enumerate(blocks) if k not in along)
    return math.prod(blocks), -sum(w.shape[-1] for w in found if w.outside), parts


def inner_first(spans: Sequence[int]) -> tuple[int, ...]:
    """The less, the longer inner loops are in blocks of single iterations of another loop; alike for other blocks."""
    return tuple(-span for span in reversed(spans)) if 1 in spans else ()


def enough_for_each(made: Blocks, target: Target, room: float) -> list[float]:
    """The cycles of each piece from which on all of them have no `room`, if the others do what they do as fast as the
    machine's units allow."""
    times = made.times()
    least = [arithmetic_cycles(piece, target, made.begins(k)) for k, piece in enumerate(made.pieces)]
    others = room - sum(times[k] * each for k, each in enumerate(least))
    return [each + max(others, 0.0) / max(times[k], 1) for k, each in enumerate(least)]


def most_different(ways: Iterable[Sizes], known: Sequence[tuple[int, ...]], limits: Sequence[float]) -> list[Sizes]:
    """Other sizes than those known, those first that differ most from all of them: of what is expected to take no more
    cycles than the first limit, then than the next, then of the rest."""

    def rank(sizes: Sizes) -> tuple[int, float, float]:
        far = min(sum(abs(math.log2(a / b)) for a, b in zip(sizes.spans, k, strict=True)) for k in known)
        return sum(sizes.cycles > limit for limit in limits), -far, sizes.cycles

    return sorted((w for w in ways if w.spans not in known), key=rank)


def _extent(counter: Counter) -> int:
    return (counter.trips - 1) * counter.span + counter.last


Way = tuple[tuple[int, ...], tuple[int, ...]]  # spans of all loops, and which of them are counted, outermost first


def ways_of(boxes: Boxes, may_fit: Callable[[Sequence[Sequence[int]], Sequence[tuple[int, ...]]], bool]) -> list[Way]:
    """Blocks that are looked at, none of which are all of the nest; of all loops only if data of any size `may_fit`."""
    outer = len(boxes.around)
    try:
        every = range(len(boxes.loops))
        known = [bool(boxes.axes) or boxes.symbolic(boxes.main, d) is None for d in every]
        sizes = [spans_of(extent, k) for (_, _, extent), k in zip(boxes.loops, known, strict=True)]
    except NoBlocks:
        return []
    if any(len(layout.shape) > 2 for layout in boxes.layouts.values()):
        sizes = [[*s, 1] if s[-1] > 1 else s for s in sizes]  # one plane at once can be turned round
    elif boxes.sizes and any(len(boxes.bufs[use.access.buf].shape) > 2 for use in boxes.uses):
        sizes = [s if k else [*s[:-1], 1] for s, k in zip(sizes, known, strict=True)]  # or is rows
    sizes[:outer] = [[1]] * outer
    if boxes.axes:
        sizes = with_halves(sizes, _MOST_SIZES)
    inner = [tuple(every)] if boxes.axes else itertools.permutations(every[outer:])
    orders = [(*range(outer), *o) for o in inner]
    extents = [extent if k else None for (_, _, extent), k in zip(boxes.loops, known, strict=True)]
    whole = list(_whole_loops(boxes, known)) if boxes.sizes and not boxes.layouts else []
    if any(len(s) > _FEW_SIZES for s in sizes) and not may_fit(sizes, orders):
        return whole
    if whole and boxes.guarded and not any(known):
        return whole  # those of all loops are among them
    ways = [way for spans in itertools.product(*sizes) for way in in_orders(spans, extents, orders)]
    if not (outer or boxes.axes or None in extents):
        ways += [(spans, tuple(every)) for spans in in_thirds([e for _, _, e in boxes.loops])]
    return [*ways, *whole]


def _whole_loops(boxes: Boxes, known: Sequence[bool]) -> Iterator[Way]:
    """Blocks of few iterations that have all of one or several loops of unknown size; or of known size, where not all
    iterations are boxes: those with guards may be cut in all loops of unknown size."""
    unknown = [k for k, is_known in enumerate(known) if not is_known]
    guards = boxes.guarded
    if guards and len(unknown) == 1 == len(known):
        yield from (((length,), (0,)) for length in _LENGTHS)
    for last in _GUARDED if guards and len(unknown) > 1 else ():
        spans = dict(zip(unknown[-2:], last, strict=True))
        every = enumerate(boxes.loops)
        yield tuple(extent if known[k] else spans.get(k, 1) for k, (_, _, extent) in every), tuple(unknown)
    guarded = guards and len(unknown) == 1 < len(known)
    for number in range(0 if guarded else 1, len(unknown) + 1):
        for whole in itertools.combinations(unknown, number):
            few = tuple(k for k in unknown if k not in whole) or ((0,) if known[0] else ())
            long = not whole and len(few) == 1
            columns = bool(whole) and few == (unknown[-1],)
            for rows in ((*_LENGTHS, *_ROWS) if long else _COLUMNS if columns else _ROWS) if few else ():
                every = enumerate(boxes.loops)
                yield tuple(min(rows, _whole(e, known[k])) if k in few else e for k, (_, _, e) in every), few


def spans_of(extent: int, known: bool) -> list[int]:
    """Halves of a loop, halves of these, and so on; powers of two where its size is a guess."""
    found = [_whole(extent if known else max(extent, _FEWEST), known)]
    while found[-1] > _FEWEST:
        found.append(_even(-(-found[-1] // 2)))
    return found


def _whole(extent: int, known: bool) -> int:
    """All iterations of a loop; where its size is a guess, a power of two, by which blocks are counted."""
    return extent if known else 1 << max(extent, 1).bit_length() - 1


def _even(span: int) -> int:
    """A few iterations more, so that tiles divide it that have a power of two of them: a sixteenth at most."""
    granule = 1 << max((span // 16).bit_length() - 1, 0)
    return -(-span // granule) * granule


def in_thirds(extents: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """One of the loops in three parts, the others whole: blocks in thirds of several loops are of too many kinds."""
    for k, extent in enumerate(extents):
        if extent > 3 * _FEWEST:
            yield tuple(_even(-(-e // 3)) if n == k else e for n, e in enumerate(extents))


def in_orders(
    spans: tuple[int, ...], extents: Sequence[int | None], orders: Sequence[tuple[int, ...]]
) -> Iterator[Way]:
    """These spans with the orders that make different blocks, the first of those that are alike: a loop that is whole
    in a block is the same at any place. `extents` has None where they are known at run time only."""
    seen: set[tuple[int, ...]] = set()
    for order in orders:
        cut = tuple(k for k in order if (extent := extents[k]) is None or spans[k] < extent)
        if cut not in seen:
            seen.add(cut)
            yield spans, order


def with_halves(sizes: Sequence[list[int]], most: int) -> list[list[int]]:
    """Spans of loops with the halves of those that are the least, since tiles of few steps have few rows in common with
    others; fewer of them where there would be over `most` sizes of tiles."""
    found = [[*spans, *(spans[-1] >> k for k in range(1, spans[-1].bit_length()))] for spans in sizes]
    while math.prod(map(len, found)) > most:
        found = [spans[::2] if len(spans) > 2 else spans for spans in found]
    return found


def array_bytes(buf: Buf) -> int:
    """The bytes of an array of known size."""
    return math.prod(buf.extents or (1,)) * ELEM_BYTES[buf.dtype]


def problem(func: Func, refusal: NoBlocks | None, source: Func) -> Problem:
    """Why a nest of a function can't be cut."""
    why = "the data of no block fit on the chip" if refusal is None else refusal.message
    remedy = "compile with --data onchip, for arrays that are in on-chip memory already"
    if any(not isinstance(n, int) for buf in func.bufs for n in buf.shape):
        remedy = "give the parameters' values with -D NAME=VALUE"
    return Problem("DG318", why, func.comps[0].loc or source.loc, remedy)


def why_whole(refusal: NoBlocks | None, ways: Iterable[Sizes]) -> str:
    """Why a nest is one block; empty where that isn't known."""
    if refusal is not None:
        return refusal.message.rpartition(": ")[2]
    names = sorted({name for w in ways if w.spans for name in w.rooms})
    return f"smaller ones would touch all of {', '.join(names)}" if names else ""
