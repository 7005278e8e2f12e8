"""Candidates' titles."""

from __future__ import annotations

import itertools

from dspgen.tiling.cost.cycle_model import Tiling
from dspgen.tiling.loops.lane_loops import Lane
from dspgen.tiling.loops.loop_arrangements import Arrangement


def title_of(arrangement: Arrangement, tiling: Tiling, known: dict[tuple[object, ...], str]) -> str:
    """Short text for traces: comp, order and spans, the lane iterator starred (with a number where so many vectors take
    turns), or `~` where it is flipped, `^` where it is a recurrence, the inner one of two marked `'`. Comps in loops of
    their own are parted by semicolons. `known`: those of single comps in this arrangement."""
    parts = []
    for comp in sorted(arrangement.nest.comps, key=lambda c: arrangement.constants[c.comp.name]):
        name = comp.comp.name
        spans, lane = tiling.along(comp), tiling.lanes.get(name)
        key = (name, lane, *spans.values())
        if key not in known:
            loops = ((i, spans[i]) for i in arrangement.orders[name])
            known[key] = f"{name}({' '.join(f'{i}{_mark(i, lane)}:{span}' for i, span in loops)})"
        parts.append((arrangement.constants[name][0], known[key]))
    grouped = [" ".join(text for _, text in group) for _, group in itertools.groupby(parts, key=lambda p: p[0])]
    return "; ".join(grouped)


def _mark(iterator: str, lane: Lane | None) -> str:
    if lane is None or iterator not in (lane.iterator, lane.inner):
        return ""
    mark = "'" if iterator == lane.inner else "~" if lane.flip else "*" if lane.deal == 1 else f"*{lane.deal}"
    return "^" + mark.strip("*") if lane.scan else mark
