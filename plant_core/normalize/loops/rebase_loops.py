"""Loops over what lies round an outer iteration, as loops of few iterations.

Before: `for (i = 0; i < n; i++) for (j = max(i - 1, 0); j <= min(i + 1, n - 1); j++) y[i] += x[j]`
After:  `for (i = 0; i < n; i++) for (j = 0; j < 3; j++) if (0 <= i + j - 1 < n) y[i] += x[i + j - 1]`
"""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from plant_core.ir.accesses import domain_of
from plant_core.ir.func import Comp, Func
from plant_core.ir.time_2d1 import Line, Step, position, restepped

_MOST = 32  # iterations
_LESS = 2  # times as many has the loop in all, at least


def relative(func: Func) -> Func:
    """Give loops whose bounds follow an outer iterator, at few iterations' distance, iterators that count from there.

    Requires: 2d+1 schedules. Ensures: the same instances in the same order.
    """

    def told(members: Sequence[tuple[Comp, str]], depth: int) -> Step | None:
        if not all(_counts_up(comp, iterator, depth) for comp, iterator in members):
            return None
        ways = []
        for outer in range(depth):
            ranges = [_distance(comp, depth, outer) for comp, _ in members]
            if all(r is not None for r in ranges):
                low, high = min(r[0] for r in ranges if r), max(r[1] for r in ranges if r)
                ways.append((high - low + 1, outer, low))
        if not ways:
            return None
        number, outer, low = min(ways)
        every = [_distance(comp, depth, None) for comp, _ in members]
        if number > _MOST or any(r is not None and r[1] - r[0] + 1 < _LESS * number for r in every):
            return None
        return 1, ((outer, 1), ("", low), ("sign", 1))

    return restepped(func, told)


def _counts_up(comp: Comp, iterator: str, depth: int) -> bool:
    """Whether a loop and those round it do so by one, each by its own iterator."""
    lines = position(comp).loops[: depth + 1]
    return lines == tuple(Line(0, ((name, 1),)) for name in comp.iters[: depth + 1]) and comp.iters[depth] == iterator


def _distance(comp: Comp, depth: int, outer: int | None) -> tuple[int, int] | None:
    """The least and the greatest value of an iterator, less an outer one; None where there is none."""
    domain = domain_of(comp)
    local = isl.LocalSpace.from_space(domain.get_space())
    value = isl.Aff.var_on_domain(local, isl.dim_type.set, depth)
    if outer is not None:
        value = value.sub(isl.Aff.var_on_domain(local, isl.dim_type.set, outer))
    low, high = domain.min_val(value), domain.max_val(value)
    return (int(low.to_python()), int(high.to_python())) if low.is_int() and high.is_int() else None
