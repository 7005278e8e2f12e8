"""Whether a schedule keeps every dependence of the order that defines the program's meaning, decided exactly by isl.

An instance may run several times (overlapped tiles) where that does no harm: it must not read what it writes, some run
of a source comes before every run of what reads its value, and everything else is in order for all pairs of runs.
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from plant_core.analysis.dependence import Dependence
from plant_core.ir.accesses import all_bufs, is_integer
from plant_core.ir.loop_tree import Tag
from plant_core.ir.scheduled import Nest, Scheduled
from plant_core.schedule.memory_conflicts import (
    IN,
    OUT,
    PARAM,
    Facts,
    Times,
    agreeing,
    facts_of,
    pairs_in_time,
    statements_of,
    truncated,
    unlifted,
)
from plant_core.support.location import IllegalSchedule, PlantError


def dependences_in(scheduled: Scheduled) -> tuple[Dependence, ...]:
    """Every pair of instances that touch one element, at least one of them writing, in the origin's order."""
    return facts_of(scheduled).dependences


def check(scheduled: Scheduled, *, rearranged: bool = False) -> None:
    """IllegalSchedule (DG201), naming a pair of instances, unless every dependence and every tag's promise is kept.

    Updates of one reduction may change places for integers, and for floats if `scheduled.reassoc`. `rearranged`: the
    caller made the nests of others that were checked, by one-to-one changes of all their times, so that every
    instance still runs, and no two at once; that is slow to find out about relations in many pieces.
    """
    facts = facts_of(scheduled)
    if scheduled.origin is not None and scheduled.origin.nests is not scheduled.nests:
        _check_order(scheduled.origin, facts)
    nests, times = _check_order(scheduled, facts, rearranged=rearranged)
    _check_private(scheduled, facts, nests, times)
    for nest in scheduled.nests:
        for loop, tag in nest.tags:
            _check_tag(scheduled, nest, loop, tag)


def _check_order(
    scheduled: Scheduled, facts: Facts, *, rearranged: bool = False
) -> tuple[dict[str, Nest], dict[str, Times]]:
    nests = _nests(scheduled, facts)
    times = {name: facts.times(nest) for name, nest in nests.items()}
    for name, nest in nests.items():
        _check_nest(facts, nest, times[name], rearranged=rearranged)
    # Values first: of two dependences on one pair, flow is what the reader of a message looks for.
    for number, dependence in sorted(enumerate(facts.dependences), key=lambda item: item[1].kind != "flow"):
        if not _free(scheduled, facts, dependence):
            wrong = _disordered(facts, number, nests, times)
            if wrong is not None:
                raise _illegal(scheduled, dependence, wrong, "this order breaks")
    return nests, times


def carried(scheduled: Scheduled) -> dict[tuple[str, str], tuple[Dependence, ...]]:
    """For each loop, as (statement, loop name): the dependences that it carries.

    These are the ones between different iterations of the loop in one iteration of those around it, of all the
    statements in it; each `relation` has just those pairs.
    """
    return {
        (nest.name, loop): carried_by(scheduled, nest.name, loop) for nest in scheduled.nests for loop in nest.loops
    }


def carried_by(scheduled: Scheduled, name: str, loop: str) -> tuple[Dependence, ...]:
    """The dependences that one loop carries, as in `carried`."""
    data = facts_of(scheduled).data
    found = _carried(scheduled, name, loop)
    return tuple(replace(d, relation=unlifted(pairs, data, d.source, d.sink)) for d, pairs in found)


def is_parallel(scheduled: Scheduled, name: str, loop: str) -> bool:
    """The loop's iterations may run at once, in any order."""
    return not _carried(scheduled, name, loop, first=True)


def is_vectorizable(scheduled: Scheduled, name: str, loop: str) -> bool:
    """The loop's iterations may be lanes, all of them reading before any writes; reductions may be reassociated."""
    return _blocks_lanes(scheduled, name, loop) is None


def rebase(scheduled: Scheduled) -> Scheduled:
    """The same program in the same order, which from now on defines its meaning.

    Requires: a legal schedule. The Comps' own `schedule` stays as it is.
    """
    return replace(scheduled, origin=replace(scheduled, origin=None))


# --- order --------------------------------------------------------------------------------------------------------


def _nests(scheduled: Scheduled, facts: Facts) -> dict[str, Nest]:
    nests = {nest.name: nest for nest in scheduled.nests}
    statements = statements_of(facts.func)
    for name in (*statements, *nests):
        if name not in nests or name not in statements:
            what = "has no loops in the schedule" if name in statements else "is in the schedule, not in the program"
            raise PlantError(f"{name} {what}", code="DG210", remedy="schedule every statement of the program, once")
    return nests


def _free(scheduled: Scheduled, facts: Facts, dependence: Dependence) -> bool:
    return dependence.reduction and (scheduled.reassoc or is_integer(all_bufs(facts.func)[dependence.buf].dtype))


def _check_nest(facts: Facts, nest: Nest, times: Times, *, rearranged: bool) -> None:
    key = (-1, id(nest.relation))
    if key in facts.verdicts:
        return
    if not rearranged:
        _check_complete(facts, nest, times)
    if not times.single:
        _check_repeats(facts, nest.name, times)
    facts.verdict(key, (nest.relation,), lambda: isl.Map.empty(nest.relation.get_space()))


def _check_complete(facts: Facts, nest: Nest, times: Times) -> None:
    statement = facts.statement(nest.name)
    missing = facts.domain(nest.name).subtract(times.relation.domain())
    if not missing.is_empty():
        raise IllegalSchedule(
            f"{_instance(nest.name, missing, len(statement.iters))} of {statement.loc.file}:{statement.loc.line} "
            "is never run",
            loc=statement.loc,
            code="DG201",
            remedy="map every instance of the statement to a time",
        )
    if not _is_injective(facts, times.relation):
        raise IllegalSchedule(
            f"two instances of {nest.name} run at the same time",
            loc=statement.loc,
            code="DG201",
            remedy="use a transformation that keeps different iterations apart",
        )


def _is_injective(facts: Facts, relation: isl.Map) -> bool:
    if not facts.data:
        return bool(relation.is_injective())
    same = agreeing(facts.func, facts.data, relation.apply_range(relation.reverse()))
    one = isl.Map.universe(same.get_space())
    for k in range(same.dim(IN) - len(facts.data)):
        one = one.equate(IN, k, OUT, k)
    return bool(same.is_subset(one))


def _check_repeats(facts: Facts, name: str, times: Times) -> None:
    """What runs again must find what it read before: it can't be an instance that changes its own operands."""
    repeated = times.relation.subtract(times.earliest.relation).domain()
    for buf, touches in facts.touches.items():
        for first in touches:
            for second in touches:
                if first.statement == second.statement == name and first.write and not second.write:
                    again = first.relation.intersect(second.relation).domain().intersect(repeated)
                    if not again.is_empty():
                        statement = facts.statement(name)
                        raise IllegalSchedule(
                            f"{_instance(name, again, len(statement.iters))} would run several times, and each time "
                            f"updates '{buf}'",
                            loc=statement.loc,
                            code="DG201",
                            remedy="compute it once: without overlap between the iterations that use it",
                        )


def _disordered(facts: Facts, number: int, nests: dict[str, Nest], times: dict[str, Times]) -> isl.Map | None:
    dependence = facts.dependences[number]
    relations = nests[dependence.source].relation, nests[dependence.sink].relation
    source, sink = times[dependence.source], times[dependence.sink]

    def decide() -> isl.Map:
        first = source.earliest if dependence.kind == "flow" else source.latest
        return first.disordered(sink.earliest, facts.pairs[number])

    return facts.verdict((number, id(relations[0]), id(relations[1])), relations, decide)


def _check_private(scheduled: Scheduled, facts: Facts, nests: dict[str, Nest], times: dict[str, Times]) -> None:
    """What an array that each iteration of a loop has to itself carries must not leave the iteration."""
    for buf in scheduled.func.bufs:
        if buf.alloc_at is None:
            continue
        depth = scheduled.nest(buf.alloc_at[0]).depth(buf.alloc_at[1])
        for number, dependence in enumerate(facts.dependences):
            if dependence.buf != buf.name or dependence.kind != "flow":
                continue
            here = depth < min(len(nests[dependence.source].loops), len(nests[dependence.sink].loops))
            first = truncated(times[dependence.source].relation, 2 * depth + 2)
            second = truncated(times[dependence.sink].relation, 2 * depth + 2)
            needed = facts.pairs[number].apply_range(second)
            lost = needed.subtract(first) if here else needed
            if not lost.is_empty():
                wrong = facts.pairs[number].intersect(lost.apply_range(second.reverse()))
                what = f"'{buf.name}' exists once for every iteration of '{buf.alloc_at[1]}', which leaves out"
                raise _illegal(scheduled, dependence, wrong, what)


# --- tags ---------------------------------------------------------------------------------------------------------


Carried = list[tuple[Dependence, isl.Map]]


def _group(scheduled: Scheduled, facts: Facts, nest: Nest, depth: int) -> list[Nest]:
    """The nests that share the loop at `depth` of `nest`."""
    mine = facts.places(nest, depth)
    return [n for n in scheduled.nests if n is nest or not facts.places(n, depth).is_disjoint(mine)]


def _carried(scheduled: Scheduled, name: str, loop: str, *, first: bool = False, data: bool = False) -> Carried:
    """The dependences that a loop carries; `first`: one is enough; `data`: those of data parameters too, of which
    every iteration has its own otherwise."""
    facts = facts_of(scheduled)
    nest = scheduled.nest(name)
    depth = nest.depth(loop)
    group = {n.name: n for n in _group(scheduled, facts, nest, depth)}
    hidden = {b.name for b in scheduled.func.bufs if b.alloc_at and _is_inside(scheduled, b.alloc_at, depth)}
    if not data:
        hidden |= {c.target.buf for c in facts.func.comps if c.defines is not None}
    found: Carried = []
    for number, (dependence, pairs) in enumerate(_with_repeats(facts, group)):
        if dependence.source not in group or dependence.sink not in group or dependence.buf in hidden:
            continue
        ends = group[dependence.source], group[dependence.sink]
        result = _apart_pairs(facts, min(number, len(facts.dependences)), pairs, ends, depth)
        if result is not None:
            found.append((dependence, result))
            if first:
                break
    return found


def _is_inside(scheduled: Scheduled, place: tuple[str, str], depth: int) -> bool:
    return scheduled.nest(place[0]).depth(place[1]) >= depth


def _with_repeats(facts: Facts, group: dict[str, Nest]) -> list[tuple[Dependence, isl.Map]]:
    """All dependences, and those of an instance that runs several times with itself."""
    found = list(zip(facts.dependences, facts.pairs, strict=True))
    for name, nest in group.items():
        if not facts.times(nest).single:
            same = facts.domain(name).identity()
            for buf, touches in facts.touches.items():
                if any(t.write and t.statement == name for t in touches):
                    found.append((Dependence("output", name, name, buf, same, False), same))
    return found


def _apart_pairs(facts: Facts, number: int, pairs: isl.Map, ends: tuple[Nest, Nest], depth: int) -> isl.Map | None:
    relations = ends[0].relation, ends[1].relation
    key = (number, id(relations[0]), id(relations[1]), depth)
    return facts.verdict(key, relations, lambda: _apart(facts, pairs, *ends, depth))


def _apart(facts: Facts, pairs: isl.Map, first: Nest, second: Nest, depth: int) -> isl.Map:
    """Those that run in different iterations of the loop at `depth`, in one iteration of the loops around it."""
    count = 2 * depth + 2
    a, b = truncated(facts.times(first).relation, count), truncated(facts.times(second).relation, count)
    space = isl.Space.alloc(a.get_ctx(), 0, count, count)
    apart = isl.Map.universe(space)
    for k in range(count - 1):
        apart = apart.equate(IN, k, OUT, k)
    apart = apart.subtract(apart.equate(IN, count - 1, OUT, count - 1))
    return pairs_in_time(pairs, a, b, apart)


def _blocks_lanes(scheduled: Scheduled, name: str, loop: str) -> tuple[Dependence, isl.Map] | None:
    facts = facts_of(scheduled)
    nest = scheduled.nest(name)
    depth = nest.depth(loop)
    innermost = all(len(n.loops) == depth + 1 for n in _group(scheduled, facts, nest, depth))
    for dependence, pairs in _carried(scheduled, name, loop, data=True):
        reads_first = dependence.kind == "anti" and dependence.source == dependence.sink and innermost
        if not reads_first and not _free(scheduled, facts, dependence):
            return dependence, pairs
    return None


def _check_tag(scheduled: Scheduled, nest: Nest, loop: str, tag: Tag) -> None:
    nest.depth(loop)
    if tag in ("unroll", "unroll_explicit"):
        return
    if tag == "vectorize":
        blocking = _blocks_lanes(scheduled, nest.name, loop)
    else:
        found = _carried(scheduled, nest.name, loop, first=True)
        blocking = found[0] if found else None
    if blocking is not None:
        how = "vectorized" if tag == "vectorize" else "parallel" if tag == "parallel" else f"a {tag} loop"
        what = f"the loop '{loop}' of {nest.name} can't be {how}: it carries"
        raise _illegal(scheduled, *blocking, what)


# --- messages -----------------------------------------------------------------------------------------------------


def _illegal(scheduled: Scheduled, dependence: Dependence, wrong: isl.Map, what: str) -> IllegalSchedule:
    func = scheduled.func
    statements = statements_of(func)
    a, b = statements[dependence.source], statements[dependence.sink]
    point = _sample(wrong.wrap())
    first = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(wrong.dim(IN))]
    second = [point.get_coordinate_val(isl.dim_type.set, wrong.dim(IN) + k).to_python() for k in range(wrong.dim(OUT))]
    pair = f"{_named(a.name, first[: len(a.iters)])} -> {_named(b.name, second[: len(b.iters)])}{_given(wrong, point)}"
    lines = f"{a.loc.file}:{a.loc.line} and {b.loc.file}:{b.loc.line}"
    kind = {"flow": "flow", "anti": "anti-", "output": "output"}[dependence.kind]
    return IllegalSchedule(
        f"{what} the {kind}{'' if kind.endswith('-') else ' '}dependence through '{dependence.buf}' {pair} ({lines})",
        loc=b.loc,
        code="DG201",
        remedy=_remedy(scheduled, dependence, tagged="carries" in what),
    )


def _remedy(scheduled: Scheduled, dependence: Dependence, *, tagged: bool) -> str:
    buf = all_bufs(scheduled.func)[dependence.buf]
    if dependence.reduction and not scheduled.reassoc and not is_integer(buf.dtype):
        return "it is a reduction: allow floats to be reassociated (reassoc=True), which changes their rounding"
    if tagged and dependence.reduction:
        return "it is a reduction: put the mark on a loop that its target depends on, or reduce in parts"
    if tagged and buf.kind == "local" and buf.alloc_at is None:
        return f"give each iteration an array '{buf.name}' of its own (alloc_at), or put the mark on another loop"
    if tagged:
        return "put the mark on another loop, or skew the loops so that this one carries nothing"
    if dependence.source != dependence.sink:
        both = f'["{dependence.source}", "{dependence.sink}"]'
        return f"transform both statements together, as {both}, or give them loops of their own first (after)"
    return "skew or shift the loops first, so that the first of the two stays before the second"


def _sample(points: isl.Set) -> isl.Point:
    """One of the points, the first in lexicographic order where there are no parameters."""
    if points.dim(PARAM) == 0 and points.is_bounded():
        points = points.lexmin()
    return points.sample_point()


def _named(name: str, values: list[int]) -> str:
    return f"{name}[{','.join(map(str, values))}]"


def _instance(name: str, points: isl.Set, count: int) -> str:
    point = _sample(points)
    values = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(count)]
    return _named(name, values) + _given(points, point)


def _given(region: isl.Set | isl.Map, point: isl.Point) -> str:
    """The values that the parameters have at a sample."""
    values = []
    for k in range(region.dim(PARAM)):
        values.append(f"{region.get_dim_name(PARAM, k)} = {point.get_coordinate_val(PARAM, k).to_python()}")
    return f" for {', '.join(values)}" if values else ""
