"""Windows of arrays that blocks share elements of, in place: each block's are fetched right before it, when what blocks
before it wrote is in the array, and put back right after it.

Within a block, an array may have several such windows. Where two are in one place, the block uses one for both (the
panels of a decomposition: in blocks on the diagonal what is read is what is written). Otherwise they are copies: no
statement may read through one what the block has written through another, and those are put back last whose elements
others have old copies of.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.analysis.rectangular_hull import Boxes, NoBlocks, Use
from plant_core.ir.accesses import access_map
from plant_core.ir.time_2d1 import schedule_map
from plant_core.scratchpad.buffers import Margin, Window
from plant_core.support.components import ordered_components

Shared = Sequence[tuple[Use, Window]]


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two windows of an array that are in one place in the blocks where all margins are 0; `first` is used there."""

    first: str
    second: str
    margins: tuple[Margin, ...]


def meetings(windows: Sequence[Window]) -> tuple[Meeting, ...]:
    """Of windows in step, those first that are put back."""
    found = []
    for first, second in itertools.combinations(sorted(windows, key=lambda w: not w.store), 2):
        if first.buf == second.buf and (margins := _between(first, second)) is not None:
            found.append(Meeting(first.name, second.name, margins))
    return tuple(found)


def _with_meetings(window: Window, found: Sequence[Meeting]) -> Window:
    return replace(window, unless=tuple(m.margins for m in found if m.second == window.name))


def _between(first: Window, second: Window) -> tuple[Margin, ...] | None:
    """How far windows are from each other along each dimension, where that differs from block to block; None where they
    are never in one place."""
    if first.shape != second.shape:
        return None
    found = []
    for one, other in zip(first.dims, second.dims, strict=True):
        steps = dict(one.steps)
        for k, step in other.steps:
            steps[k] = steps.get(k, 0) - step
        factors = tuple((k, step) for k, step in sorted(steps.items()) if step)
        constant = one.low - other.low
        if one.extent != other.extent or constant % (math.gcd(*(f for _, f in factors)) or math.inf):
            return None
        if factors:
            found.append(Margin(constant, factors))
    return tuple(found)


def put_back_order(
    shared: Shared, times: Mapping[str, isl.Map], boxes: Boxes, meet: Sequence[Meeting] = ()
) -> list[Window]:
    """The windows in an order to put them back in. `shared`: all accesses to them, with their windows; `times`: of each
    statement its blocks; `meet`: those that are used one for the other where they are in one place. Raises NoBlocks
    where copies would differ in a way that matters."""
    windows = {w.name: w for _, w in shared}
    places = {frozenset((m.first, m.second)): m.margins for m in meet}
    edges = []

    def apart(first: Window, second: Window) -> Mapping[str, isl.Map]:
        margins = places.get(frozenset((first.name, second.name)))
        return times if margins is None else _but_where_one(margins, times)

    for (one, first), (other, second) in itertools.permutations(shared, 2):
        if first.buf != second.buf or first.name == second.name or not one.writes:
            continue
        if other.writes:
            if _meet(one, second, apart(first, second)):
                edges.append((second.name, first.name))
        elif _passes(one, other, apart(first, second), boxes):
            raise NoBlocks(
                f"`{boxes.func.name}` can't be cut into blocks: a block would read of '{first.buf}' what it wrote",
                loc=boxes.func.loc,
            )
    order = ordered_components(list(windows), edges)
    if any(len(part) > 1 for part in order):
        raise NoBlocks(
            f"`{boxes.func.name}` can't be cut into blocks: two parts of an array that blocks write overlap",
            loc=boxes.func.loc,
        )
    return [_with_meetings(windows[name], meet) for part in order for name in part]


def _but_where_one(margins: Sequence[Margin], times: Mapping[str, isl.Map]) -> Mapping[str, isl.Map]:
    """Of each statement the blocks in which two windows are not in one place."""
    depth = next(iter(times.values())).dim(isl.dim_type.out)
    sums = (" + ".join([str(m.constant), *(f"{f} * b{k}" for k, f in m.factors)]) for m in margins)
    numbers = ", ".join(f"b{k}" for k in range(depth))
    one = isl.Set(f"{{ [{numbers}] : {' and '.join(f'{each} = 0' for each in sums) or 'true'} }}")
    return {name: time.subtract_range(one) for name, time in times.items()}


def _elements(use: Use) -> isl.Map:
    return access_map(use.comp, use.access)[0].intersect_domain(use.comp.domain)


def _meet(use: Use, window: Window, times: Mapping[str, isl.Map]) -> bool:
    """Whether a block may write an element that another window of it has, too."""
    written = _elements(use).apply_domain(times[use.comp.name])
    depth = written.dim(isl.dim_type.in_)
    block = [f"b{k}" for k in range(depth)]
    names = [f"e{d}" for d in range(len(window.dims))]
    bounds = []
    for name, reach in zip(names, window.dims, strict=True):
        low = " + ".join([str(reach.low), *(f"{step} * b{k}" for k, step in reach.steps)])
        bounds.append(f"{low} <= {name} < {low} + {reach.extent.full}")
    box = isl.Map(f"{{ [{', '.join(block)}] -> {window.buf}[{', '.join(names)}] : {' and '.join(bounds) or 'true'} }}")
    return not written.intersect(box).is_empty()


def _passes(source: Use, sink: Use, times: Mapping[str, isl.Map], boxes: Boxes) -> bool:
    """Whether a statement of a block may read what another, or an earlier instance of it, wrote in that block."""
    pairs = _elements(source).apply_range(_elements(sink).reverse())
    pairs = pairs.intersect(times[source.comp.name].apply_range(times[sink.comp.name].reverse()))
    length = max(2 * len(u.comp.iters) + 1 for u in (source, sink))
    before, after = (schedule_map(u.comp, boxes.places[u.comp.name], length) for u in (source, sink))
    return not pairs.intersect(before.lex_lt_map(after)).is_empty()
