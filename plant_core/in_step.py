"""Windows of arrays that blocks share elements of, in place: each block's are fetched right before it, when what blocks
before it wrote is in the array, and put back right after it.

Within a block, an array may have several such windows, which are copies. So no statement may read through one what the
block has written through another, and those are put back last whose elements others have old copies of.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import islpy as isl

from plant_core.affine import access_map
from plant_core.boxes import Boxes, NoBlocks, Use
from plant_core.components import ordered_components
from plant_core.schedule import schedule_map
from plant_core.windows import Window

Shared = Sequence[tuple[Use, Window]]


def put_back_order(shared: Shared, times: Mapping[str, isl.Map], boxes: Boxes) -> list[Window]:
    """The windows in an order to put them back in. `shared`: all accesses to them, with their windows; `times`: of each
    statement its blocks. Raises NoBlocks where copies would differ in a way that matters."""
    windows = {w.name: w for _, w in shared}
    edges = []
    for (one, first), (other, second) in itertools.permutations(shared, 2):
        if first.buf != second.buf or first.name == second.name or not one.writes:
            continue
        if other.writes:
            if _meet(one, second, times):
                edges.append((second.name, first.name))
        elif _passes(one, other, times, boxes):
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
    return [windows[name] for part in order for name in part]


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
