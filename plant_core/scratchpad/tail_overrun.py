"""Iterations beyond a loop's end that come to nothing: a block that is short may run on to a round number of them.

They read what else is in the windows, which have room for blocks of full size, and write elements that nobody puts
back, as no other iteration has anything to do with them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace

from plant_core.analysis.rectangular_hull import Boxes, NoBlocks, Use
from plant_core.analysis.symbolic_offsets import iterators_of
from plant_core.ir.accesses import children, is_integer
from plant_core.ir.array_views import row_dim
from plant_core.ir.func import Binary, Comp, Expr
from plant_core.ir.tile_loop import Counter

# What comes at a time: vectors along the rows of what is written, or fewer of them, and rows; more vectors where there
# are no rows, and yet more where what they load overlaps with what others do.
_VECTORS = (4, 3)
_ROWS = 8
_MOST_TERMS = 96  # of straight code
_ALONE = (8, 6)
_OVERLAPPING = (16, 12)
SUMS = _ROWS * _VECTORS[0]  # of a larger batch in rows: as many registers hold them
# Groups of a block that may be made smaller.
_LEAST = 4

Iterators = Mapping[str, Sequence[str | None]]


def grouped(
    boxes: Boxes, counters: Sequence[Counter], iterators: Iterators, whole: Collection[str]
) -> tuple[Counter, ...]:
    """The counters, each with how many iterations come at a time in blocks that are shorter than others; and which
    adapt, one of them so as to hide transfers, from row to row if there are rows.

    `iterators`: by comp, of each counter its iterator of that loop, None where it isn't in it. `whole`: the arrays that
    have no window of the block's own.
    """
    rows = [
        None if c.extent is None else _in_rows(boxes, {comp: names[k] for comp, names in iterators.items()}, whole)
        for k, c in enumerate(counters)
    ]
    in_rows = True in rows or any(_few_rows(boxes, c, {names[k] for names in iterators.values()})
                                  for k, c in enumerate(counters))  # fmt: skip
    vectors = _VECTORS if in_rows else _OVERLAPPING if _overlap(boxes) else _ALONE
    sizes = {None: 1, True: _rows(boxes), False: boxes.granule}
    able = [k for k, row in enumerate(rows) if row is not None]
    hiding = rows.index(True) if True in rows else able[0] if able else None
    made = []
    for k, (c, row) in enumerate(zip(counters, rows, strict=True)):
        group = min(c.span, sizes[row])
        grain = group if row is not None else boxes.granule
        even = c.extent is not None and c.span >= _LEAST * grain
        batches = vectors if row is False and c.span >= vectors[0] * group else None
        hides = even and k == hiding
        made.append(replace(c, group=group, batches=batches, grain=grain * even, hides=hides, in_rows=row is True))
    return tuple(made)


def _rows(boxes: Boxes) -> int:
    """How many rows come at a time: half as many where straight code adds up all terms of so many elements only."""
    terms = _VECTORS[0] // 2 * max((_terms(boxes, comp) for comp in boxes.func.comps), default=1)
    return _ROWS // 2 if _ROWS // 2 * terms <= _MOST_TERMS < _ROWS * terms else _ROWS


def _terms(boxes: Boxes, comp: Comp) -> int:
    """How many iterations write the same element; 1 where that is not known."""
    written = {name for index in comp.target.indices for name in iterators_of(index)}
    try:
        ranges = [boxes.range_of(comp, depth) for depth, name in enumerate(comp.iters) if name not in written]
    except NoBlocks:  # data tell
        return 1
    known = [high - low + 1 for low, high in ranges if isinstance(high, int)]
    return math.prod(known) if len(known) == len(ranges) else 1


def _overlap(boxes: Boxes) -> bool:
    """Whether a subscript moves with several loops, so that iterations of one load what those of another do."""
    return any(form is not None and len(form[1]) > 1 for use in boxes.uses for form in use.forms)


def without_batches(counter: Counter) -> Counter:
    """The counter, its iterations in groups that are all alike."""
    if counter.batches is None:
        return counter
    group = counter.group * (counter.batches[0] // 2)
    return replace(counter, group=group, batches=None, grain=group if counter.grain else 0)


def _in_rows(boxes: Boxes, iterators: Mapping[str, str | None], whole: Collection[str]) -> bool | None:
    """Whether a loop goes from row to row of what is written, or, where that has no rows, of what is read; None where
    an iteration in excess would be felt."""
    found = []
    for comp in boxes.func.comps:
        name = iterators[comp.name]
        if name is None:
            continue
        uses = [u for u in boxes.uses if u.comp is comp]
        if comp.target.buf in whole or not own_elements(boxes, comp, iterators) or may_trap(comp.value):
            return None
        if any(form is None or (u.access.buf in whole and name in form[1]) for u in uses for form in u.forms):
            return None
        telling = [u for u in uses if len(u.forms) > 1 and (u.writes or len(comp.target.indices) == 1)]
        before = ((u, row_dim(boxes.bufs[u.access.buf].shape, boxes.granule)) for u in telling)
        found += [form is not None and name in form[1] for u, row in before for form in u.forms[:row]]
    return any(found)


def _few_rows(boxes: Boxes, counter: Counter, names: Set[str | None]) -> bool:
    """Whether a loop of known size goes over a few rows of what is written, as those at the borders of an image."""
    few = counter.extent is None and counter.trips == 1 and counter.span < _ROWS
    before_last = (form for use in boxes.uses if use.writes for form in use.forms[:-1])
    return few and any(form is not None and not names.isdisjoint(form[1]) for form in before_last)


def own_elements(boxes: Boxes, comp: Comp, iterators: Mapping[str, str | None]) -> bool:
    """Whether what a comp writes has a dimension along which every access belongs to one iteration."""
    found = {_place(use, iterators[use.comp.name]) for use in boxes.uses if use.access.buf == comp.target.buf}
    return len(found) == 1 and None not in found


def _place(use: Use, name: str | None) -> tuple[int, int, tuple[tuple[str, int], ...]] | None:
    """The only dimension with an iterator, which is alone there, and the constant and parameters added to it."""
    moving = [d for d, form in enumerate(use.forms) if form is None or name in form[1]]
    if name is None or len(moving) != 1:
        return None
    form = use.forms[moving[0]]
    if form is None or form[1][name] != 1 or any(n in form[1] for n in use.comp.iters if n != name):
        return None
    return moving[0], form[0], tuple(sorted((n, f) for n, f in form[1].items() if n != name))


def may_trap(expr: Expr) -> bool:
    """Whether an expression divides integers, which data might be zero."""
    if isinstance(expr, Binary) and expr.op in ("div", "mod", "floordiv", "floormod") and is_integer(expr.dtype):
        return True
    return any(may_trap(e) for e in children(expr))
