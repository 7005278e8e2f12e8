"""Short loops split in twos, for machines with two elements in a lane that access lanes at equal distances.

Before: for j: for k < 4: y[8j + k] = ...;
After:  for j: for m < 2: for k < 2: y[8j + 2m + k] = ...;   with j and k across the lanes, and m unrolled
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import islpy as isl

from dspgen.tiling.loops.loop_nests import CompInfo, nests
from dspgen.tiling.split.loop_fission import fresh, innermost
from dspgen.tiling.split.row_strips import tidied
from plant_core.ir.accesses import from_linear
from plant_core.ir.func import Comp, Func, Load
from plant_core.ir.time_2d1 import Line, Loop, Position, common_loops, position, schedule_map

Distances = Callable[[str, bool], Collection[int]]  # of a type's loads, or stores


def in_twos(func: Func, size: int, distances: Distances) -> Func:
    """`func` with innermost loops of twice `size` iterations as two loops, where all they access lies at distances that
    the machine has. Requires: 2d+1 schedules, loops of unit step."""
    if size == 1 or func.effects or any(c.defines for c in func.comps):
        return func
    infos = {c.comp.name: c for nest in nests(func) for c in nest.comps}
    changed: dict[str, str] = {}
    for loop in innermost(common_loops(func)):
        if all(_suits(infos[name], loop, iterator, size, distances) for name, iterator in loop.members):
            changed |= dict(loop.members)
    room = max((c.schedule.dim(isl.dim_type.out) for c in func.comps), default=0) + 2
    taken = {p.name for p in func.params}
    comps = (_in_two(c, changed.get(c.name), size, room, taken) for c in func.comps)
    return func.with_comps(tuple(comps)) if changed else func


def _suits(info: CompInfo, loop: Loop, iterator: str, size: int, distances: Distances) -> bool:
    if len(info.loops) != loop.depth + 1 or loop.depth == 0 or not info.box:
        return False
    along, around = info.loop(iterator), info.loops[loop.depth - 1].iterator
    here = position(info.comp).loops[loop.depth] == Line(0, ((iterator, 1),))
    if along.low != 0 or along.extent != 2 * size or not here:
        return False
    apart = False
    for access in info.accesses:
        step = access.coefficient(iterator)
        if access.varies or step not in (0, 1) or access.write and not step:
            return False
        distance = access.coefficient(around)
        if step and distance not in distances(access.elem, access.write):
            return False
        apart |= access.write and distance != along.extent
    return apart


def _in_two(comp: Comp, iterator: str | None, size: int, room: int, taken: set[str]) -> Comp:
    place = position(comp)
    if iterator is None:
        return replace(comp, schedule=schedule_map(comp, place, room).intersect_domain(comp.domain))
    outer = fresh(f"{iterator}_two", {*comp.iters} | taken)
    at = comp.iters.index(iterator)
    iters = (*comp.iters[:at], outer, *comp.iters[at:])
    domain = comp.domain.insert_dims(isl.dim_type.set, at, 1).set_dim_name(isl.dim_type.set, at, outer)
    for dim, most in ((at, 1), (at + 1, size - 1)):
        domain = domain.drop_constraints_involving_dims(isl.dim_type.set, dim, 1)
        domain = domain.lower_bound_val(isl.dim_type.set, dim, isl.Val(0))
        domain = domain.upper_bound_val(isl.dim_type.set, dim, isl.Val(most))
    values = {iterator: from_linear((0, {outer: size, iterator: 1}), set(iters))}
    target = tidied(comp.target, values, iters)
    assert isinstance(target, Load)
    new = replace(
        comp,
        iters=iters,
        domain=domain.set_tuple_name(comp.name) if comp.domain.has_tuple_name() else domain,
        target=target,
        value=tidied(comp.value, values, iters),
    )
    constants = (*place.constants[: at + 1], 0, *place.constants[at + 1 :])
    lines = (*place.loops[:at], Line(0, ((outer, 1),)), *place.loops[at:])
    return replace(new, schedule=schedule_map(new, Position(constants, lines), room).intersect_domain(new.domain))
