"""The copies that the analysis chose, put into the schedule."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from plant_core.ir.names import fresh
from plant_core.ir.scheduled import Nest, Scheduled
from plant_core.schedule import memory
from plant_core.schedule.legality import check
from plant_core.schedule.memory.isl_expressions import values_at
from plant_core.schedule.packing.analyse import Candidate, Packing, candidates, in_the_way, ranked
from plant_core.schedule.packing.caches import Caches
from plant_core.schedule.packing.nests import NotStatic, Region, regions
from plant_core.schedule.verbs import tag
from plant_core.support.isl_budget import at_most
from plant_core.support.location import PlantError

OPERATIONS = 4_000_000
"""isl's operations for the analysis of a nest, and for each copy."""


def pack(scheduled: Scheduled, caches: Caches) -> tuple[Scheduled, tuple[Packing, ...]]:
    """Arrays copied where that pays by `analyse`, and what was decided of each loop nest.

    Before: `for i { for j { for k { for l { C[i][j] += A[k][l][i] * B[l][k][j] } } } }`.
    After: `for i { for x0, x1 { p[0][x0][x1] = A[x0][x1][i] } for j { for k { for l { ... p[0][k][l] ... } } } }`.
    Ensures: every value is what it was; a copy that a memory verb refuses is left out, and the next one considered.
    """
    try:
        with at_most(OPERATIONS):
            found = regions(scheduled)
    except (NotStatic, PlantError, isl.Error) as problem:
        return scheduled, (Packing((), 0, None, (), _said(problem)),)
    decided = []
    for region in found:
        try:
            with at_most(OPERATIONS):
                packing = candidates(region, caches)
        except (PlantError, isl.Error) as problem:
            packing = Packing(region.loops, 0, None, (), _said(problem))
        scheduled, packing = _chosen(scheduled, region, packing, caches)
        decided.append(packing)
    return scheduled, tuple(decided)


def _said(problem: Exception) -> str:
    return "isl can't tell what the loops touch" if isinstance(problem, isl.Error) else str(problem)


def _chosen(scheduled: Scheduled, region: Region, packing: Packing, caches: Caches) -> tuple[Scheduled, Packing]:
    """The fourth stage: candidates from the best on, each beside those before it."""
    chosen: list[Candidate] = []
    ended: dict[tuple[object, str], Candidate] = {}
    outside = ""
    for c in ranked(packing.candidates):
        reason = in_the_way(region, c, chosen, caches)
        if not reason:
            try:
                with at_most(OPERATIONS):
                    if not c.loop.depth and not outside:
                        scheduled, outside = _enclosed(scheduled, region)
                    scheduled = _installed(scheduled, region, c, outside)
            except PlantError as problem:
                reason = problem.message
        value = f"{c.benefit} TLB entries for {c.cost} bytes copied"
        if reason:
            c = c.at("selection", f"{value}; {reason}")
        else:
            c = c.at("packed", value)
            chosen.append(c)
        ended[c.loop.key, c.array.name] = c
    everyone = tuple(ended.get((c.loop.key, c.array.name), c) for c in packing.candidates)
    return scheduled, replace(packing, candidates=everyone)


def _installed(scheduled: Scheduled, region: Region, c: Candidate, outside: str) -> Scheduled:
    users = tuple(dict.fromkeys(u.statement for u in region.uses(c.loop, c.array.name)))
    loops = next(p.nest.loops for p in region.placed if p.comp.name == users[0])
    loop = loops[c.loop.depth - 1] if c.loop.depth else outside
    known = {n.name for n in scheduled.nests}
    # Whole boxes are simpler code, but what is written meanwhile must not be copied.
    exact = any(comp.target.buf == c.array.name for comp in scheduled.func.comps)
    packed = memory.cache_identity(
        scheduled, users, c.array.name, loop, location="heap", into=f"packed_{c.array.name}", order=c.order, exact=exact
    )
    if c.order[-1] != len(c.order) - 1:
        return packed  # one side of the copy isn't in the order of its elements, and vectors would be put together
    for copy in packed.nests:
        if copy.name not in known:
            packed = tag(packed, copy.name, copy.loops[-1], "vectorize")
    return packed


def _enclosed(scheduled: Scheduled, region: Region) -> tuple[Scheduled, str]:
    """A loop of one iteration round the nest and the copies in it, for copies that are made once; and its name."""
    place = _place(scheduled.nest(region.placed[0].comp.name))
    inside = [nest for nest in scheduled.nests if nest.loops and _place(nest) == place]
    taken = {loop for nest in inside for loop in nest.loops} | {p.name for p in scheduled.func.params}
    name = fresh("once", taken)
    for nest in inside:
        relation = nest.relation.insert_dims(isl.dim_type.out, 1, 2)
        for dim in (1, 2):
            relation = relation.fix_val(isl.dim_type.out, dim, isl.Val(0))
        scheduled = scheduled.with_nest(replace(nest, loops=(name, *nest.loops), relation=relation))
    check(scheduled)
    return scheduled, name


def _place(nest: Nest) -> list[int]:
    """The statement's positions outside of all loops."""
    return values_at(nest.relation.range(), 0)
