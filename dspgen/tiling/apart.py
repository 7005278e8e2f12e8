"""The comps of one nest each in loops of their own, which their dependences on each other may leave to be tiled freely.

Before: for i { s[i] = 0; for j <= i: s[i] += a[i][j]; r[i] = s[i]; }
After:  for i: s[i] = 0;  for i: for j <= i: s[i] += a[i][j];  for i: r[i] = s[i];
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from dspgen.tiling.nests import Nest
from plant_core.ir import Func
from plant_core.schedule import Position, position, schedule_map
from plant_core.tiles import CompPlan


def spaced(func: Func) -> Func:
    """The same order of execution, with room between nests for one textual position for each comp of a nest."""
    room = len(func.comps)
    comps = []
    for comp in func.comps:
        place = position(comp)
        moved = Position((place.constants[0] * room, *place.constants[1:]), place.loops)
        schedule = schedule_map(comp, moved, comp.schedule.dim(isl.dim_type.out))
        comps.append(replace(comp, schedule=schedule))
    return func.with_comps(tuple(comps))


def apart(nest: Nest, plans: tuple[tuple[str, CompPlan], ...]) -> tuple[tuple[str, CompPlan], ...]:
    """The plans with each comp at a position of its own, in the order of the text. Requires: the Func was `spaced`."""
    places = {c.comp.name: position(c.comp).constants for c in nest.comps}
    number = {name: k for k, name in enumerate(sorted(places, key=lambda n: places[n]))}
    return tuple(
        (name, replace(plan, constants=(places[name][0] + number[name], *places[name][1:]))) for name, plan in plans
    )
