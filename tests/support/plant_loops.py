"""The loops of a schedule as text, by isl alone."""

from __future__ import annotations

import islpy as isl

from plant_core.ir.scheduled import Scheduled
from plant_core.schedule.memory_conflicts import lifted_domain, padded, statements_of


def loops(scheduled: Scheduled) -> str:
    length = max(n.relation.dim(isl.dim_type.out) for n in scheduled.nests)
    statements = statements_of(scheduled.func)
    total = isl.UnionMap("{ }")
    for nest in scheduled.nests:
        relation = nest.relation.intersect_domain(lifted_domain(scheduled.func, statements[nest.name], ()))
        total = total.union(isl.UnionMap.from_map(padded(relation, length)))
    context = scheduled.func.context
    build = isl.AstBuild.from_context(isl.Set("{ : }") if context is None else context.params())
    return str(build.node_from_schedule_map(total).to_C_str())
