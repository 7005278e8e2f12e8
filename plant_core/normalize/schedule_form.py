"""The program brought to the form in which its freedom shows, before it is scheduled."""

from __future__ import annotations

from plant_core.analysis.dependence import rebalance_reductions
from plant_core.ir.func import Func
from plant_core.ir.time_2d1 import normalise_loops
from plant_core.normalize.privatize_arrays import privatise_arrays
from plant_core.normalize.scalars.forward_substitution import forward_scalars
from plant_core.normalize.scalars.min_max_idioms import unconditional_updates, with_extrema
from plant_core.normalize.scalars.scalar_expansion import expand_scalars

MOST_EXPANDED = 1 << 24
"""Elements that one expanded local variable may have."""


def prepare(func: Func, *, reassoc: bool) -> Func:
    """Loops of unit step, extrema and reductions recognised, scratch arrays and scalars local, renamed and expanded."""
    func = forward_scalars(with_extrema(normalise_loops(func), reassoc=reassoc))
    func = rebalance_reductions(unconditional_updates(func, reassoc=reassoc), reassoc=reassoc)
    func = privatise_arrays(func, most=MOST_EXPANDED)
    return expand_scalars(func, array_elements=MOST_EXPANDED, split_elements=MOST_EXPANDED, symbolic=MOST_EXPANDED)
