"""Loops that count down as loops that count up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import islpy as isl

from plant_core.analysis.dependence import carrying, memory_dependences
from plant_core.ir.accesses import domain_of, linear, read_accesses
from plant_core.ir.func import Comp, Func
from plant_core.ir.quasi_affine import affine_in_parameters
from plant_core.ir.time_2d1 import (
    Line,
    Loop,
    Step,
    common_loops,
    every_loop,
    position,
    restepped,
    schedule_map,
)


def ascending(func: Func, *, straightening: bool = False) -> Func:
    """Give loops that count down iterators that count up; `straightening`: where more subscripts rise then.

    Before: `for (i = n - 1; i >= 0; i--) a[i]`. After: `for (i = 0; i < n; i++) a[n - 1 - i]`.
    Requires: 2d+1 schedules. Ensures: the same instances in the same order. A loop whose Comps don't all count down by
    one, from ends that are known to differ by a constant, is left as it is.
    """

    def told(members: Sequence[tuple[Comp, str]], depth: int) -> Step | None:
        if not all(_counts_down(comp, iterator, depth) for comp, iterator in members):
            return None
        if straightening and sum(_rising(comp, iterator) for comp, iterator in members) >= 0:
            return None
        ends = [affine_in_parameters(domain_of(comp).dim_max(depth)) for comp, _ in members]
        known = [end for end in ends if end is not None]
        if len(known) < len(ends) or any(terms != known[0][1] for _, terms in known):
            return None
        return -1, (*known[0][1].items(), ("", max(constant for constant, _ in known)), ("sign", 1))

    return restepped(func, told)


def _counts_down(comp: Comp, iterator: str, depth: int) -> bool:
    """Whether a loop does so by one, and no other loop of the statement is skewed by it."""
    loops = position(comp).loops
    others = (n for k, line in enumerate(loops) if k != depth for n, _ in line.terms)
    return loops[depth] == Line(0, ((iterator, -1),)) and iterator not in others


def _rising(comp: Comp, iterator: str) -> int:
    """How many subscripts rise with an iterator, less those that fall."""
    forms = (linear(index) for access in (comp.target, *read_accesses(comp)) for index in access.indices)
    steps = (form[1].get(iterator, 0) for form in forms if form is not None)
    return sum((step > 0) - (step < 0) for step in steps)


def turned(func: Func) -> Func:
    """Run loops that count down the other way where no iteration depends on another.

    Before: `for (i = n - 1; i >= 0; i--) a[i] = b[i]`. After: `for (i = 0; i < n; i++) a[i] = b[i]`.
    Requires: 2d+1 schedules. Ensures: the same contents of every array.
    """
    comps = {comp.name: comp for comp in func.comps}
    falling = [loop for loop in every_loop(common_loops(func)) if _may_turn(loop, comps)]
    if not falling or func.effects:
        return func
    carried = set[tuple[int, ...]]()
    for dependence in memory_dependences(func):
        carried.update(carrying(dependence, comps[dependence.source], comps[dependence.sink], lanes=False))
    for loop in falling:
        if loop.prefix in carried:
            continue
        for name, iterator in loop.members:
            place = position(comps[name])
            lines = (*place.loops[: loop.depth], Line(0, ((iterator, 1),)), *place.loops[loop.depth + 1 :])
            comps[name] = replace(
                comps[name],
                schedule=schedule_map(
                    comps[name], replace(place, loops=lines), comps[name].schedule.dim(isl.dim_type.out)
                ),
            )
    made = tuple(comps[c.name] for c in func.comps)
    return func if made == func.comps else func.with_comps(made)


def _may_turn(loop: Loop, comps: Mapping[str, Comp]) -> bool:
    return all(_counts_down(comps[name], iterator, loop.depth) for name, iterator in loop.members)
