"""The program in the form in which vectorization sees most of it."""

from __future__ import annotations

import sys

from plant_core.analysis.dependence import rebalance_reductions
from plant_core.analysis.runtime_parameters import varying_parameters
from plant_core.ir.func import Func
from plant_core.ir.time_2d1 import normalise_loops
from plant_core.normalize.loops.index_set_splitting import without_gaps
from plant_core.normalize.loops.loop_reversal import ascending, turned
from plant_core.normalize.loops.rebase_loops import relative
from plant_core.normalize.loops.symbolic_strides import by_strides
from plant_core.normalize.loops.untile import untiled
from plant_core.normalize.scalars.accumulate_in_place import sums_in_place
from plant_core.normalize.scalars.argmin_argmax import with_positions
from plant_core.normalize.scalars.expand_carried_scalars import expand_carried, expand_running, with_carried_loads
from plant_core.normalize.scalars.forward_substitution import forward_scalars
from plant_core.normalize.scalars.min_max_idioms import unconditional_updates, with_extrema
from plant_core.normalize.scalars.narrow_floats import in_singles
from plant_core.normalize.scalars.privatize_scalars import decided, without_constant_sums, without_stale_values
from plant_core.normalize.scalars.scalar_expansion import expand_scalars
from plant_core.support.memoize import by_identity

_FEW = 16  # elements of a local array: rather one of each iteration than a row


@by_identity
def canonical(func: Func, *, reassoc: bool, symbolic: bool = False, updates: bool = False) -> Func:
    """Loops of unit step and without gaps, which count up where their order or their subscripts allow; extrema and
    reductions written as such; scalars in their readers' places, or one for each iteration, where `symbolic` also of
    loops whose trips are known at run time only; with `updates`, elements that are updated by way of a variable are so
    in memory.

    Requires: 2d+1 schedules. Ensures: the same contents of every parameter, up to the reassociation of floats where
    `reassoc`.
    """
    func = untiled(in_singles(func), reassoc=reassoc)
    func = relative(ascending(normalise_loops(func), straightening=True))
    if varying_parameters(func):
        # What the other forms rest on holds for parameters of one value.
        return expand_scalars(rebalance_reductions(forward_scalars(func), reassoc=reassoc))
    func = with_carried_loads(without_gaps(func))
    func = decided(forward_scalars(without_stale_values(func)))
    func = with_extrema(func, reassoc=reassoc)
    func = with_positions(func, reassoc=reassoc)
    func = rebalance_reductions(unconditional_updates(func, reassoc=reassoc), reassoc=reassoc)
    func = expand_carried(without_constant_sums(func, reassoc=reassoc))
    func = _summed(expand_running(func, reassoc=reassoc), reassoc=reassoc, updates=updates)
    return turned(by_strides(expand_scalars(func, symbolic=sys.maxsize if symbolic else 0, few=_FEW)))


def _summed(func: Func, *, reassoc: bool, updates: bool) -> Func:
    """With sums in place, and without loops over strips; where updates in memory do without some of these, they are
    there."""
    made = sums_in_place(func, updates=True)
    whole = untiled(made, reassoc=reassoc)
    if updates or whole is not made:
        return whole
    return untiled(sums_in_place(func, updates=False), reassoc=reassoc)
