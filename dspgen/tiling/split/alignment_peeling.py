"""Loops split where their stores become aligned, for machines whose vector stores take no other addresses.

Before: for 1 <= i < 100: y[i] = ...;
After, if two elements make a granule:  for i = 1: y[i] = ...;  for 2 <= i < 100: y[i] = ...;
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from dspgen.tiling.loops.loop_nests import CompInfo, nests
from dspgen.tiling.split.loop_fission import in_two, innermost, one_way
from plant_core.ir.func import Func
from plant_core.ir.time_2d1 import Loop, common_loops

FEWEST_VECTORS = 2

Granule = Callable[[str], int]


def align_stores(func: Func, granule: Granule, lanes: int) -> Func:
    """`func` with the first iterations of innermost loops apart, so that in the others most of the stores that go along
    the loop begin at a granule. `granule(type)`: how many elements make one that vector stores are aligned to.

    Requires: 2d+1 schedules, loops of unit step. Loops of few iterations and of symbolic begin stay.
    """
    if func.effects or any(c.defines for c in func.comps):
        return func
    if all(granule(c.target.dtype) == 1 for c in func.comps):
        return func
    infos = {c.comp.name: c for nest in nests(func) for c in nest.comps}
    for loop in innermost(common_loops(func)):
        if not one_way(func, loop):
            continue
        at = _first_aligned([infos[name] for name, _ in loop.members], loop, granule, lanes)
        if at is not None:
            func = in_two(func, loop, at)
    return func


def _first_aligned(comps: list[CompInfo], loop: Loop, granule: Granule, lanes: int) -> int | None:
    """The iteration from which on most stores are aligned; None where that is the first, or nothing is known."""
    wanted: Counter[int] = Counter()
    for comp, iterator in zip(comps, (i for _, i in loop.members), strict=True):
        if len(comp.loops) != loop.depth + 1:
            return None
        along = comp.loop(iterator)
        if along.low is None or along.high is None or not along.free:
            return None
        if along.high - along.low + 1 < FEWEST_VECTORS * lanes:
            return None
        target = next(a for a in comp.accesses if a.write)
        size = granule(target.elem)
        others = [c for name, c in target.coefficients if name != iterator]
        if target.varies or target.coefficient(iterator) != 1 or any(c % size for c in others):
            continue
        wanted[along.low + -(target.constant + along.low) % size] += 1
    lows = {comp.loop(iterator).low for comp, (_, iterator) in zip(comps, loop.members, strict=True)}
    if not wanted or len(lows) != 1:
        return None
    at, _ = min(wanted.items(), key=lambda item: (-item[1], item[0]))
    return None if at in lows else at
