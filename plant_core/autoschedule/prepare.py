"""The program brought to the form in which its freedom shows, before it is scheduled."""

from __future__ import annotations

from plant_core.autoschedule.forward import forward_scalars
from plant_core.autoschedule.privatise import privatise_arrays
from plant_core.canonical.idioms import unconditional_updates, with_extrema
from plant_core.dependence import rebalance_reductions
from plant_core.ir import Func
from plant_core.scalars import expand_scalars
from plant_core.schedule import normalise_loops

MOST_EXPANDED = 1 << 24
"""Elements that one expanded local variable may have."""


def prepare(func: Func, *, reassoc: bool) -> Func:
    """Loops of unit step, extrema and reductions recognised, scratch arrays and scalars local, renamed and expanded."""
    func = forward_scalars(with_extrema(normalise_loops(func), reassoc=reassoc))
    func = rebalance_reductions(unconditional_updates(func, reassoc=reassoc), reassoc=reassoc)
    func = privatise_arrays(func, most=MOST_EXPANDED)
    return expand_scalars(func, array_elements=MOST_EXPANDED, split_elements=MOST_EXPANDED, symbolic=MOST_EXPANDED)
