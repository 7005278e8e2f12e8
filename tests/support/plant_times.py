"""A scheduled program run by enumeration: every instance at each of its times, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import islpy as isl
import numpy as np

from plant_core.analysis.dependence import reduction_of
from plant_core.interp.python_codegen import HELPERS, Source, initial
from plant_core.ir.accesses import access_key, linear, read_accesses
from plant_core.ir.func import Comp, Func, Load
from plant_core.ir.scheduled import Nest, Scheduled, as_written
from plant_core.schedule.memory_conflicts import facts_of, padded, statements_of
from plant_core.support.memoize import by_identity

SET = isl.dim_type.set
_KEPT = 16  # nests, and schedules
_as_written = partial(by_identity, kept=_KEPT)(as_written)
Given = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Run:
    time: tuple[int, ...]
    statement: str
    point: tuple[int, ...]


@partial(by_identity, kept=_KEPT)
def _known(*of: object) -> dict[object, tuple[Run, ...]]:
    """What was enumerated before, by sizes: a verb leaves most nests as they are, and loops are asked for in turn."""
    return {}


def runs_of(func: Func, nest: Nest, given: Given, length: int) -> tuple[Run, ...]:
    known, key = _known(func, nest), (*sorted(given.items()), length)
    if key not in known:
        known[key] = _enumerated(func, nest, given, length)
    return known[key]


def _enumerated(func: Func, nest: Nest, given: Given, length: int) -> tuple[Run, ...]:
    statement = statements_of(func)[nest.name]
    relation = nest.relation.set_tuple_name(isl.dim_type.in_, nest.name)
    relation = padded(relation.intersect_domain(statement.domain.set_tuple_name(nest.name)), length)
    points = relation.wrap()
    for name, value in given.items():
        place = points.find_dim_by_name(isl.dim_type.param, name)
        if place >= 0:
            points = points.fix_val(isl.dim_type.param, place, isl.Val(value))
    points = points.project_out(isl.dim_type.param, 0, points.dim(isl.dim_type.param))
    count, total = len(statement.iters), points.dim(SET)
    found: list[Run] = []

    def add(point: isl.Point) -> None:
        values = tuple(point.get_coordinate_val(SET, k).to_python() for k in range(total))
        found.append(Run(values[count:], nest.name, values[:count]))

    points.foreach_point(add)
    return tuple(found)


def all_runs(scheduled: Scheduled, given: Given | None = None) -> tuple[Run, ...]:
    known, key = _known(scheduled), tuple(sorted((given or {}).items()))
    if key not in known:
        known[key] = _in_order(scheduled, given)
    return known[key]


def _in_order(scheduled: Scheduled, given: Given | None) -> tuple[Run, ...]:
    length = max((n.relation.dim(isl.dim_type.out) for n in scheduled.nests), default=1)
    found = [run for nest in scheduled.nests for run in runs_of(scheduled.func, nest, given or {}, length)]
    number = {nest.name: k for k, nest in enumerate(scheduled.nests)}
    return tuple(sorted(found, key=lambda run: (run.time, number[run.statement], run.point)))


def run(scheduled: Scheduled, inputs: Mapping[str, Any], runs: Sequence[Run] | None = None) -> dict[str, np.ndarray]:
    """The contents of every array parameter after the run."""
    func = scheduled.func
    given = {name: int(value) for name, value in inputs.items() if isinstance(value, int)}
    memory = {buf.name: initial(buf, buf.extents, inputs) for buf in func.bufs}
    source = Source(func)
    texts = []
    for comp in func.comps:
        source.arguments = ", ".join(f"i_{name}" for name in comp.iters)
        element, value = source.element(comp.target), source.expr(comp.value)
        texts += [f"def c_{comp.name}({source.arguments}):", f"    {element} = {value}"]
    scope: dict[str, Any] = {**HELPERS, **source.constants}
    scope.update({f"b_{name}": array for name, array in memory.items()})
    scope.update({f"p_{name}": value for name, value in given.items()})
    exec(compile("\n".join([*source.parts, *texts]), "<runs>", "exec"), scope)
    with np.errstate(all="ignore"):
        for one in all_runs(scheduled, given) if runs is None else runs:
            scope[f"c_{one.statement}"](*one.point)
    return {p.name: memory[p.name] for p in func.params if p.name in memory and not getattr(p, "const", False)}


# --- legality -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Touch:
    run: Run
    write: bool
    own: bool


def _element(comp: Comp, point: tuple[int, ...], access: Load, given: Given) -> tuple[object, ...]:
    values = {**given, **dict(zip(comp.iters, point, strict=True))}
    index = []
    for part in access.indices:
        form = linear(part)
        assert form is not None
        index.append(form[0] + sum(c * values[n] for n, c in form[1].items()))
    return (access.buf, *index)


def conflicts(func: Func, given: Given) -> list[tuple[str, bool, Run, Run, str]]:
    """(kind, both updates of one reduction, earlier instance, later instance, array) in the order of the text."""
    reductions = {c.name: reduction_of(c) for c in func.comps}
    touches: dict[tuple[object, ...], list[Touch]] = {}
    for one in all_runs(_as_written(func), given):
        comp = func.comp(one.statement)
        own = access_key(comp.target) if reductions[comp.name] else None
        places = {(_element(comp, one.point, comp.target, given), True, own is not None)}
        for access in read_accesses(comp):
            places.add((_element(comp, one.point, access, given), False, access_key(access) == own))
        for element, write, is_own in places:
            touches.setdefault(element, []).append(Touch(one, write, is_own))
    found = []
    for element, entries in touches.items():
        for a in entries:
            for b in entries:
                if (a.write or b.write) and a.run.time < b.run.time:
                    kind = "flow" if not b.write else "output" if a.write else "anti"
                    first, second = reductions[a.run.statement], reductions[b.run.statement]
                    mark = a.own and b.own and first is not None and second is not None and first.op == second.op
                    found.append((kind, mark, a.run, b.run, str(element[0])))
    return found


def is_legal(scheduled: Scheduled, given: Given, reorders: bool) -> bool:
    """What `check` decides, spelled out on all pairs of instances; `reorders`: reductions may change places."""
    func = scheduled.func
    times: dict[tuple[str, tuple[int, ...]], list[tuple[int, ...]]] = {}
    taken: set[tuple[str, tuple[int, ...]]] = set()
    for one in all_runs(scheduled, given):
        times.setdefault((one.statement, one.point), []).append(one.time)
        if (one.statement, one.time) in taken:
            return False
        taken.add((one.statement, one.time))
    for one in all_runs(_as_written(func), given):
        mine = times.get((one.statement, one.point))
        if mine is None:
            return False
        comp = func.comp(one.statement)
        reads = {_element(comp, one.point, access, given) for access in read_accesses(comp)}
        if len(mine) > 1 and _element(comp, one.point, comp.target, given) in reads:
            return False
    for kind, mark, a, b, _ in conflicts(func, given):
        if mark and reorders:
            continue
        first, second = times[a.statement, a.point], times[b.statement, b.point]
        if not (min(first) if kind == "flow" else max(first)) < min(second):
            return False
    return True


def sharing(scheduled: Scheduled, name: str, loop: str) -> set[str]:
    """The statements that are in the loop."""
    nest = scheduled.nest(name)
    depth = nest.depth(loop)
    places = facts_of(scheduled).places
    return {n.name for n in scheduled.nests if not places(n, depth).is_disjoint(places(nest, depth))}


def is_parallel(scheduled: Scheduled, given: Given, name: str, loop: str) -> bool:
    """No two runs in different iterations of the loop, in one iteration of those around it, touch one element."""
    func = scheduled.func
    depth = scheduled.nest(name).depth(loop)
    inside = sharing(scheduled, name, loop)
    touched: dict[tuple[object, ...], list[tuple[tuple[int, ...], bool]]] = {}
    for one in all_runs(scheduled, given):
        if one.statement in inside:
            comp = func.comp(one.statement)
            prefix, value = one.time[: 2 * depth + 1], one.time[2 * depth + 1]
            for access in (comp.target, *read_accesses(comp)):
                key = (*prefix, _element(comp, one.point, access, given))
                touched.setdefault(key, []).append(((value,), access is comp.target))
    return all(a[0] == b[0] or not (a[1] or b[1]) for entries in touched.values() for a in entries for b in entries)
