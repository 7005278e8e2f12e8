"""Nests in blocks, run block by block on the evaluator, their windows moved as the machine does it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from plant_core.interp.func import evaluate
from plant_core.ir.accesses import all_bufs
from plant_core.ir.array_views import Layout, Length
from plant_core.ir.func import Buf
from plant_core.ir.printer import print_expr
from plant_core.ir.tile_loop import Counter
from plant_core.scratchpad.buffers import (
    BETWEEN,
    FIRST,
    LAST,
    NOTHING,
    ONLY,
    SHORT_BETWEEN,
    SHORT_FIRST,
    SHORT_LAST,
    SHORT_ONLY,
    Window,
    rows_of,
)
from plant_core.scratchpad.tiled_func import Blocks

SCALAR = 3  # the value of every scalar parameter

Spans = Mapping[int, int]  # of counters that adapt, the iterations of a block at this run


def iterations(k: int, at: tuple[int, ...], made: Blocks, spans: Spans) -> int:
    counter = made.counters[k]
    return counter.last if at[k] == counter.trips - 1 else spans.get(k, counter.span)


def length(of: Length, at: tuple[int, ...], made: Blocks, spans: Spans) -> int:
    return of.full - sum(n * (made.counters[k].span - iterations(k, at, made, spans)) for k, n in of.less)


def slices(
    window: Window, shape: tuple[int, ...], at: tuple[int, ...], made: Blocks, spans: Spans
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The window's elements in the array, and in itself."""
    far, near = [], []
    for reach in window.dims:
        low = reach.low + sum(
            step // made.counters[k].span * spans.get(k, made.counters[k].span) * at[k] for k, step in reach.steps
        )
        extent = length(reach.extent, at, made, spans) if reach.size is None else shape[len(far)]
        assert (low >= 0 or reach.clipped) and extent >= 0
        size = shape[len(far)] if reach.clipped else low + extent
        begin, end = max(low, 0), max(min(low + extent, size), low, 0)
        far.append(slice(begin, end))
        near.append(slice(begin - low, end - low))
    return tuple(far), tuple(near)


def run_blocks(
    made: Blocks, inputs: dict[str, np.ndarray], scalars: Mapping[str, int] = {}, spans: Mapping[int, int] = {}
) -> dict[str, np.ndarray]:
    """As the machine does it: what a block needs is fetched before the last one's results are put back."""
    arrays = {n: np.array(a) for n, a in inputs.items()}
    if any(c.single and c.last < 1 for c in made.counters):
        return arrays  # it is not run
    places = list(itertools.product(*(range(c.trips) for c in made.counters)))
    views = {w.name: view_of(arrays[w.array], w.layout) for w in made.windows if w.outside}
    near = {w.name: np.zeros(w.shape, np.int32) for w in made.windows}
    windows = {w.name: w for w in made.windows}
    fetched: dict[str, tuple[int, ...]] = {}

    def moves(window: Window, at: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(at[k] for k in window.counters)

    def fetch(window: Window, at: tuple[int, ...]) -> np.ndarray:
        contents = np.full(window.shape, 77, arrays[window.array].dtype)
        far, here = slices(window, views[window.name].shape, at, made, spans)
        if window.load and window.moves_in(at):
            contents[here] = views[window.name][far]
            check_rows(window, at, made, spans, arrays[window.array], contents)
        return contents

    in_step = [w for w in made.windows if w.in_step]
    for w in made.windows:
        if w.outside and w not in in_step:
            near[w.name], fetched[w.name] = fetch(w, places[0]), moves(w, places[0])
    for n, at in enumerate(places):
        following = places[n + 1] if n + 1 < len(places) else None
        ahead = {
            w.name: fetch(w, following)
            for w in made.windows
            if following is not None and w.outside and w not in in_step and moves(w, following) != moves(w, at)
        }
        near |= {w.name: fetch(w, at) for w in in_step}
        kinds = tuple(kind(at[k], c, k in spans) for k, c in enumerate(made.counters))
        number = made.piece_of(at) if made.kinds else made.piece[kinds]
        piece = made.pieces[number] if number != NOTHING else replace(made.func, params=(), bufs=(), comps=())
        given: dict[str, np.ndarray | int] = {}
        for p in piece.params:
            if isinstance(p, Buf):
                given[p.name] = shifted(near[p.name], begin(made, windows.get(p.name), at))
            elif p.name in (origins := dict(made.origins)):
                k = origins[p.name]
                given[p.name] = made.counters[k].low + at[k] * spans.get(k, made.counters[k].span)
            elif p.name in (counts := {n: which for n, *which in made.counts}):
                k, batch = counts[p.name]
                given[p.name] = count(made.counters[k], batch, iterations(k, at, made, spans))
            elif p.name in (left := left_at(made, at)):
                given[p.name] = left[p.name]
            else:
                given[p.name] = scalars.get(p.name, SCALAR)
        found = evaluate(piece, given)
        near |= {name: shifted(array, -begin(made, windows.get(name), at)) for name, array in found.items()}
        for w in made.windows:
            if w.store and w.moves_in(at) and (w in in_step or following is None or w.name in ahead):
                far, here = slices(w, views[w.name].shape, at, made, spans)
                views[w.name][far] = near[w.name][here]
        near |= ahead
    written = (p.name for p in made.func.params if isinstance(p, Buf) and not p.const)
    return {name: arrays[name] for name in written if name in arrays}


def view_of(array: np.ndarray, layout: Layout | None) -> np.ndarray:
    """What of an array it is that a window is a part of."""
    if layout is None:
        return array
    strides = [n * array.itemsize for n in layout.strides if isinstance(n, int)]
    return np.lib.stride_tricks.as_strided(array, layout.shape, strides)


def check_rows(
    window: Window, at: tuple[int, ...], made: Blocks, spans: Spans, array: np.ndarray, contents: np.ndarray
) -> None:
    """What transfers fetch and put back, told by rows, is what the window has."""
    shape = all_bufs(made.func)[window.buf].shape
    rows = rows_of(window, shape, array.itemsize)
    known = rows is not None and all(isinstance(n, int) for n in (rows.offset, rows.pitch, *(s for _, s in rows.steps)))
    if rows is None or not known or rows.clips or rows.whole != (None, None):
        return
    far, near = array.reshape(-1).view(np.uint8), np.full(contents.nbytes, 77, np.uint8)
    begin = rows.offset + sum(
        s // made.counters[k].span * spans.get(k, made.counters[k].span) * at[k] for k, s in rows.steps
    )
    for store in (False, True):
        number, size = (length(of, at, made, spans) for of in rows.lengths(store=store))
        source, target = (contents.reshape(-1).view(np.uint8), far.copy()) if store else (far, near)
        pitches = (rows.local_pitch, rows.pitch) if store else (rows.pitch, rows.local_pitch)
        first = (0, begin) if store else (begin, 0)
        unit = rows.element or size
        for i in range(number if size else 0):
            for k in range(size // unit):
                to = first[1] + (k * pitches[1] + i * unit if rows.element else i * pitches[1])
                of = first[0] + i * pitches[0] + k * unit
                target[to : to + unit] = source[of : of + unit]
        if store:
            np.testing.assert_array_equal(target, far, err_msg="what was fetched is put back to where it was")
    everything = slices(window, (), at, made, spans)[1]
    np.testing.assert_array_equal(near.view(contents.dtype).reshape(contents.shape)[everything], contents[everything])


def count(counter: Counter, batch: int, iterations: int) -> int:
    """How many groups of iterations there are, or of which batches."""
    groups = -(-iterations // counter.group)
    if counter.batches is None:
        return groups
    every = -(-groups // counter.batches[0])
    large, small = counter.batches
    smaller = min((every * large - groups) // (large - small), every)
    return smaller if batch else every - smaller


def kind(at: int, counter: Counter, smaller: bool) -> int:
    if smaller and at < counter.trips - 1:
        return SHORT_FIRST if at == 0 else SHORT_BETWEEN
    short = counter.extent is not None and counter.last < counter.span
    if counter.trips == 1:
        return SHORT_ONLY if short else ONLY
    if at == counter.trips - 1:
        return SHORT_LAST if short else LAST
    return FIRST if at == 0 else BETWEEN


def left_at(made: Blocks, at: tuple[int, ...]) -> dict[str, int]:
    """What is left of loops in the block, by the parameters that tell it."""
    found = {}
    for k, told in made.left.items():
        counter = made.counters[k]
        own = iterations(k, at, made, {})
        first, every = at[k] * counter.span, (counter.trips - 1) * counter.span + counter.last
        before, behind = min(first, told.most[0]), min(every - first - own, told.most[1])
        found |= {told.before: before, told.behind: behind, told.every: before + own + behind}
    return found


def begin(made: Blocks, window: Window | None, at: tuple[int, ...]) -> int:
    """How many elements before it a window has for a piece."""
    if window is None:
        return 0
    return sum(min(at[k] * made.counters[k].span, most) * each for k, most, each in window.margin)


def shifted(near: np.ndarray, elements: int) -> np.ndarray:
    """A window with room for so many elements before what is in it, or behind it, and less at the other end."""
    found, given = np.full(near.size, 99, near.dtype), near.reshape(-1)
    if elements < 0:
        found[:elements] = given[-elements:]
    else:
        found[elements:] = given[: near.size - elements]
    return found.reshape(near.shape)


def with_sizes(made: Blocks, sizes: Mapping[str, int], spans: Mapping[int, int] = {}) -> Blocks:
    """The blocks as they are at a run with these sizes."""
    counters = []
    for k, c in enumerate(made.counters):
        extent = max(eval(print_expr(c.extent), {}, dict(sizes)), 0) if c.extent is not None else c.trips * c.span
        span = spans.get(k, c.span)
        trips = max(-(-extent // span), 1)
        known = c if c.extent is None else replace(c, trips=trips, last=extent - (trips - 1) * span)
        counters.append(known)
    return replace(made, counters=tuple(counters))
