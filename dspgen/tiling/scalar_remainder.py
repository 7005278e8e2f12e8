"""What is left of a nest for which no tiles are found: its iterations, one by one."""

from __future__ import annotations

import math
from dataclasses import replace

from dspgen.tiling.candidates import Candidate
from dspgen.tiling.loops.loop_nests import CompInfo, Nest
from plant_core.tile_plan.plan import CompPlan, LoopShape, Shape

_MOST_SHORT = 16  # iterations of inner loops that are unrolled


def scalar_candidates(nest: Nest) -> list[Candidate]:
    """The program one iteration at a time: short inner loops unrolled, if there are any, and as it is written."""
    plans = tuple((c.comp.name, CompPlan(order=c.comp.iters, shapes=())) for c in nest.comps)
    shapes = {c.comp.name: _short(c) for c in nest.comps}
    unrolled = tuple((name, replace(plan, shapes=(shapes[name],) if shapes[name] else ())) for name, plan in plans)
    found = [Candidate(unrolled, math.inf, "scalar, short loops unrolled")] if any(shapes.values()) else []
    return [*found, Candidate(plans, math.inf, "scalar")]


def _short(comp: CompInfo) -> Shape:
    """All of the innermost loops of a statement that have few iterations together."""
    shape, number = list[tuple[str, LoopShape]](), 1
    for loop in reversed(comp.loops[1:]):
        number *= loop.extent if loop.known and comp.fixed(loop.iterator) else _MOST_SHORT + 1
        if number > _MOST_SHORT:
            break
        shape.append((loop.iterator, LoopShape(loop.extent)))
    return tuple(x for x in reversed(shape) if x[1].span > 1)
