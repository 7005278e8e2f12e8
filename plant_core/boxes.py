"""Boxes of iterations, and what they write: the questions that cutting a nest into blocks asks of its statements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import islpy as isl

from plant_core.affine import access_map
from plant_core.ir import Comp, Func, Load
from plant_core.loc import PlantError
from plant_core.windows import Reach


class NoBlocks(PlantError):
    """Why a nest can't be cut into such blocks."""


def most_often(func: Func) -> Comp:
    """The statement that runs most often."""
    return max(func.comps, key=lambda c: (volume(c), len(c.iters)))


def volume(comp: Comp) -> int:
    """The iterations of the box round its domain."""
    ranges = (ends_of(comp, d) for d in range(len(comp.iters)))
    return math.prod(high - low + 1 for low, high in ranges)


def ends_of(comp: Comp, depth: int) -> tuple[int, int]:
    """The first and the last iteration of a loop. Raises NoBlocks where they are known at run time only."""
    low, high = comp.domain.dim_min_val(depth), comp.domain.dim_max_val(depth)
    if not low.is_int() or not high.is_int():
        raise NoBlocks(
            f"blocks need constant sizes, and the bounds of {comp.iters[depth]} are known at run time only",
            loc=comp.loc,
            code="DG205",
            remedy="give the parameters' values with -D NAME=VALUE",
        )
    return int(low.to_python()), int(high.to_python())


def cover(writes: Sequence[tuple[Comp, Load]], shape: Sequence[int]) -> bool:
    """Whether the statements write every element of an array."""
    left: isl.Set | None = None
    for comp, access in writes:
        where, exact = access_map(comp, access)
        if not exact:
            continue
        elements = where.intersect_domain(comp.domain).range()
        if left is None:
            left = isl.Set.universe(elements.get_space())
            for d, extent in enumerate(shape):
                left = left.lower_bound_val(isl.dim_type.set, d, isl.Val(0))
                left = left.upper_bound_val(isl.dim_type.set, d, isl.Val(extent - 1))
        left = left.subtract(elements)
    return left is not None and bool(left.is_empty())


def apart(dims: Sequence[Reach]) -> bool:
    """Whether windows at different places have no element in common: each counter moves a dimension of its own far
    enough."""
    counters = {k for d in dims for k, _ in d.steps}
    return all(
        any(len(d.steps) == 1 and d.steps[0][0] == k and abs(d.steps[0][1]) >= d.extent.full for d in dims)
        for k in counters
    )
