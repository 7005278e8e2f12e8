"""Loops that leave out some iterations in their middle, as a loop before these and one behind them.

Before: for i: for -10 <= k <= 10: if (k < -2 || k > 2) s[i] += x[i + k];
After:  for i: { for -10 <= k <= -3: s[i] += x[i + k];  for 3 <= k <= 10: s[i] += x[i + k]; }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

import islpy as isl

from plant_core.ir.func import Comp, Func
from plant_core.ir.time_2d1 import Line, Loop, Position, common_loops, every_loop, position, schedule_map

_MOST = 4  # loops that one loop becomes


def without_gaps(func: Func) -> Func:
    """`func` with loops in parts where all their statements leave out the same iterations in between.

    Requires: 2d+1 schedules, loops of unit step. Ensures: the same instances in the same order.
    """
    if func.effects or any(c.defines for c in func.comps):
        return func
    for loop in every_loop(common_loops(func)):
        begins = _begins([func.comp(name) for name, _ in loop.members], loop)
        if begins:
            return without_gaps(_apart(func, loop, begins[0]))
    return func


def _begins(comps: Sequence[Comp], loop: Loop) -> list[int]:
    """The first iterations behind each gap; none where there are too many gaps, or the loop doesn't just count up."""
    if any(position(c).loops[loop.depth] != Line(0, ((i, 1),)) for c, (_, i) in zip(comps, loop.members, strict=True)):
        return []
    if all(c.domain.n_basic_set() == 1 for c in comps) and len(comps) == 1:
        return []
    reached = reduce(isl.Set.union, (_iterations(c, loop.depth) for c in comps)).coalesce()
    low, high = reached.dim_min_val(0), reached.dim_max_val(0)
    if not (low.is_int() and high.is_int()):
        return []
    missing = isl.Set(f"{{ [k] : {low} <= k <= {high} }}").subtract(reached).coalesce()
    found: list[int] = []
    while not missing.is_empty():
        if len(found) == _MOST - 1:
            return []
        gap = int(missing.dim_min_val(0).to_python())
        behind = reached.lower_bound_val(isl.dim_type.set, 0, isl.Val(gap)).coalesce().dim_min_val(0)
        found.append(int(behind.to_python()))
        missing = missing.lower_bound_val(isl.dim_type.set, 0, behind).coalesce()
    return found


def _iterations(comp: Comp, depth: int) -> isl.Set:
    """The values of an iterator, whatever the others and the parameters are."""
    domain = comp.domain.reset_tuple_id()
    domain = domain.project_out(isl.dim_type.set, depth + 1, len(comp.iters) - depth - 1)
    domain = domain.project_out(isl.dim_type.set, 0, depth)
    return domain.project_out(isl.dim_type.param, 0, domain.dim(isl.dim_type.param))


def _apart(func: Func, loop: Loop, at: int) -> Func:
    """The loop in two, its iterations from `at` on behind the others."""
    members = {name for name, _ in loop.members}
    taken = {c.name for c in func.comps}
    comps: list[Comp] = []
    for comp in func.comps:
        place = position(comp)
        constants = place.constants
        if comp.name not in members:
            if _follows(constants, loop):
                comp = _placed(comp, comp.name, comp.domain, Position(_next(constants, loop.depth), place.loops))
            comps.append(comp)
            continue
        before = comp.domain.upper_bound_val(isl.dim_type.set, loop.depth, isl.Val(at - 1)).coalesce()
        behind = comp.domain.lower_bound_val(isl.dim_type.set, loop.depth, isl.Val(at)).coalesce()
        if not before.is_empty():
            comps.append(_placed(comp, comp.name, before, Position(constants, place.loops)))
        if not behind.is_empty():
            name = comp.name if before.is_empty() else next(n for n in _names(comp.name) if n not in taken)
            taken.add(name)
            comps.append(_placed(comp, name, behind, Position(_next(constants, loop.depth), place.loops)))
    order = {c.name: position(c).constants for c in comps}
    return func.with_comps(tuple(sorted(comps, key=lambda c: order[c.name])))


def _follows(constants: tuple[int, ...], loop: Loop) -> bool:
    """Tell whether a statement comes behind the loop in the loops around both."""
    *around, at = loop.prefix
    return constants[: loop.depth] == tuple(around) and constants[loop.depth] > at


def _next(constants: tuple[int, ...], depth: int) -> tuple[int, ...]:
    """Return the constants of a place in the order of the text, one further at `depth`."""
    return (*constants[:depth], constants[depth] + 1, *constants[depth + 1 :])


def _names(wanted: str) -> Iterator[str]:
    while True:
        wanted += "_behind"
        yield wanted


def _placed(comp: Comp, name: str, domain: isl.Set, place: Position) -> Comp:
    made = replace(comp, name=name, domain=domain.set_tuple_name(name))
    # Not on the domain alone, where isl would tell the place of a loop of one iteration by a constant.
    return replace(made, schedule=schedule_map(made, place, comp.schedule.dim(isl.dim_type.out)))
