"""inline: a statement's expression in place of the reads of its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import islpy as isl

from plant_core.analysis.last_writers import last_writers
from plant_core.ir.accesses import (
    access_map,
    all_bufs,
    children,
    domain_of,
    from_ast,
    read_accesses,
    rebuild,
    substitute,
)
from plant_core.ir.c_semantics import dtype_of
from plant_core.ir.func import Access, Alloc, Cast, Comp, Expr, Free, Func, Iter, Load, Memcpy, Ramp
from plant_core.ir.scheduled import Nest, Scheduled, as_written, padded
from plant_core.schedule.legality import check
from plant_core.schedule.memory_conflicts import (
    IN,
    OUT,
    PARAM,
    Facts,
    earlier,
    facts_of,
    lifted,
    lifted_domain,
)
from plant_core.schedule.verbs.time_maps import bad, statement_of
from plant_core.support.location import IllegalSchedule, PlantError


def inline(scheduled: Scheduled, name: str) -> Scheduled:
    """Put a statement's expression in place of every read of its value; the statement goes.

    Before: `for (i) t[i] = a[i] + 1; for (j) b[j] = t[j] * t[j + 1];`
    After: `for (j) b[j] = (a[j] + 1) * (a[j + 1] + 1);`

    PlantError where something else needs the stored value: an array that the caller sees, or an update of it;
    IllegalSchedule where an operand is overwritten before the value is used.
    """
    comp = statement_of(scheduled, name)
    facts = facts_of(scheduled)
    if not isinstance(comp, Comp):
        raise bad(comp, f"{name} computes no value", "inline an assignment")
    _refuse_stored(scheduled, facts, comp)
    origin = scheduled.origin if scheduled.origin is not None else as_written(scheduled.func)
    comps = []
    for other in scheduled.func.comps:
        if other.name != name:
            comps.append(_replaced(scheduled.func, facts, origin, other, comp))
    func = scheduled.func.with_comps(tuple(comps))
    if not _is_used(func, comp.target.buf):
        func = replace(func, bufs=tuple(b for b in func.bufs if b.name != comp.target.buf))
    nests = tuple(n for n in scheduled.nests if n.name != name)
    before = tuple(n for n in origin.nests if n.name != name)
    # The order that defines the meaning stays the old one, without the statement.
    same = None if scheduled.origin is None else replace(origin, func=func, nests=before)
    result = replace(scheduled, func=func, nests=nests, origin=same)
    check(result)
    return result


def _refuse_stored(scheduled: Scheduled, facts: Facts, comp: Comp) -> None:
    buf = comp.target.buf
    if all_bufs(scheduled.func)[buf].kind == "param":
        raise bad(comp, f"{comp.name} writes '{buf}', which the caller sees", "inline statements of local arrays")
    if comp.defines is not None:
        raise bad(
            comp, f"{comp.name} defines the parameter '{comp.defines}'", "inline statements that loops don't need"
        )
    flows = [d for d in facts.dependences if d.kind == "flow" and d.source == comp.name]
    if any(d.sink == comp.name for d in flows):
        raise bad(comp, f"{comp.name} reads what it wrote before, so that its value isn't one expression", "keep it")
    effects = {e.name for e in scheduled.func.effects if not isinstance(e.action, Alloc | Free)}
    if any(d.sink in effects for d in flows):
        raise bad(comp, f"'{buf}' is used by more than assignments", "keep the statement")
    if not flows:
        raise bad(comp, f"nothing reads what {comp.name} computes", "inline a statement that others read")


def _is_used(func: Func, buf: str) -> bool:
    for comp in func.comps:
        if any(a.buf == buf for a in (comp.target, *read_accesses(comp))):
            return True
        names = {a for e in (comp.value, *comp.target.indices) for a in _accessed(e)}
        if any(func.comp(n).target.buf == buf for n in names):
            return True
    for effect in func.effects:
        match effect.action:
            case Memcpy(to=to, source=source) if buf in (to, source):
                return True
            case Alloc(buf=used) | Free(buf=used) if used == buf:
                return True
    return False


def _accessed(expr: Expr) -> set[str]:
    found = {expr.comp} if isinstance(expr, Access) else set()
    return found.union(*map(_accessed, children(expr))) if children(expr) else found


# --- the reads of the value ---------------------------------------------------------------------------------------


def _replaced(func: Func, facts: Facts, origin: Scheduled, consumer: Comp, comp: Comp) -> Comp:
    """The consumer with `comp`'s expression in place of its value."""
    values: dict[Expr, Expr] = {}

    def value_of(expr: Expr) -> Expr | None:
        if not _is_read(expr, comp):
            return None
        key = _key(expr)
        if key not in values:
            found = _instance_read(func, facts, origin, consumer, comp, expr)
            values[key] = expr if found is None else _value(comp, found)
        return values[key]

    value = _rewritten(consumer.value, value_of)
    target = _rewritten_indices(consumer.target, value_of)
    return replace(consumer, value=value, target=target)


def _key(expr: Expr) -> Expr:
    return replace(expr, loc=None) if isinstance(expr, Load | Access) else expr


def _is_read(expr: Expr, comp: Comp) -> bool:
    match expr:
        case Access(comp=name):
            return name == comp.name
        case Load(buf=buf):
            return buf == comp.target.buf
        case _:
            return False


def _rewritten(expr: Expr, value_of: Callable[[Expr], Expr | None]) -> Expr:
    found = value_of(expr)
    if found is not None and found is not expr:
        # The value's own operands are not reads of it, but what stood in the subscripts may be.
        return found
    parts = children(expr)
    if not parts:
        return expr
    new = tuple(_rewritten(p, value_of) for p in parts)
    if isinstance(expr, Ramp) and new != parts:
        raise PlantError("a vector of a value can't be written as an expression", code="DG215", remedy="inline first")
    return rebuild(expr, new) if new != parts else expr


def _rewritten_indices(target: Load, value_of: Callable[[Expr], Expr | None]) -> Load:
    return replace(target, indices=tuple(_rewritten(i, value_of) for i in target.indices))


def _value(comp: Comp, instance: Mapping[str, Expr]) -> Expr:
    value = substitute(comp.value, instance)
    return value if dtype_of(value) == comp.target.dtype else Cast(comp.target.dtype, value)


def _instance_read(
    func: Func, facts: Facts, origin: Scheduled, consumer: Comp, comp: Comp, expr: Expr
) -> dict[str, Expr] | None:
    """For each iterator of `comp`, its value in the instance that `consumer` reads; None if it reads none of them."""
    if isinstance(expr, Access):
        load = Load(comp.name, expr.indices, expr.dtype)
        read, exact = access_map(consumer, load)
        if not exact or not read.range().is_subset(domain_of(comp)):
            raise _not_one(consumer, comp, "may access instances outside of its domain")
        read = read.intersect_domain(lifted_domain(func, consumer, ()))
        _check_pure(facts, origin, consumer, comp, read)
        return dict(zip(comp.iters, expr.indices, strict=True))
    assert isinstance(expr, Load)
    read, exact = access_map(consumer, expr)
    sources = _last_writers(facts, origin, consumer, read)
    if comp.name not in sources:
        return None
    if not exact or len(sources) > 1:
        others = ", ".join(sorted(set(sources) - {comp.name})) or "any element"
        raise _not_one(consumer, comp, f"reads '{comp.target.buf}', which may have values of others ({others})")
    found = sources[comp.name].reverse().coalesce()
    domain = lifted_domain(func, consumer, ())
    if not found.is_single_valued() or not domain.is_subset(found.domain()):
        raise _not_one(consumer, comp, f"reads elements of '{comp.target.buf}' that {comp.name} doesn't always write")
    _check_pure(facts, origin, consumer, comp, found)
    return _as_expressions(func, consumer, comp, found.gist_domain(domain))


def _not_one(consumer: Comp, comp: Comp, what: str) -> PlantError:
    return bad(comp, f"{comp.name} can't be inlined: {consumer.name} {what}", "keep the statement")


def _last_writers(facts: Facts, origin: Scheduled, consumer: Comp, read: isl.Map) -> dict[str, isl.Map]:
    """Which instances' values a read of `consumer` sees: `writer[i] -> consumer[j]` for each writer."""
    buf = read.get_tuple_name(OUT)
    length = max(n.relation.dim(OUT) for n in origin.nests) + 1
    sink = "read " + consumer.name
    times = _at(origin.nest(consumer.name), length, 0).set_tuple_name(IN, sink)
    every = isl.UnionMap.from_map(times)
    sources = isl.UnionMap.empty(read.get_space().params())
    for touch in facts.touches.get(buf, []):
        if touch.write:
            relation = touch.relation
            if facts.data:
                count = relation.dim(IN) - len(facts.data)
                relation = relation.project_out(IN, count, len(facts.data)).set_tuple_name(IN, touch.statement)
            sources = sources.union(isl.UnionMap.from_map(relation))
            every = every.union(isl.UnionMap.from_map(_at(origin.nest(touch.statement), length, 1)))
    reads = isl.UnionMap.from_map(read.set_tuple_name(IN, sink))
    nothing = isl.UnionMap.empty(reads.get_space())
    found: dict[str, isl.Map] = {}

    def add(relation: isl.Map) -> None:
        pairs = relation.range_factor_domain()
        found[pairs.get_tuple_name(IN)] = pairs.set_tuple_name(OUT, consumer.name)

    last_writers(reads, sources, nothing, every).dependence.foreach_map(add)
    return dict(sorted(found.items()))


def _at(nest: Nest, length: int, last: int) -> isl.Map:
    relation = padded(nest.relation.set_tuple_name(IN, nest.name), length - 1).add_dims(OUT, 1)
    return relation.fix_val(OUT, length - 1, isl.Val(last))


def _check_pure(facts: Facts, origin: Scheduled, consumer: Comp, comp: Comp, read: isl.Map) -> None:
    """IllegalSchedule where an operand of the value is overwritten between the value's place and its use."""
    times = {nest.name: facts.times(nest).relation for nest in origin.nests}
    uses = lifted(lifted(read, facts.data, consumer.name).reverse(), facts.data, comp.name)
    unordered = uses.subtract(earlier(times[comp.name], times[consumer.name]))
    if not unordered.is_empty():
        raise _overwritten(consumer, comp, f"the value is used before {comp.name} runs")
    for buf, touches in facts.touches.items():
        for operand in (t for t in touches if not t.write and t.statement == comp.name):
            for other in (t for t in touches if t.write):
                later = earlier(times[comp.name], times[other.statement])
                clobbered = operand.relation.apply_range(other.relation.reverse()).intersect(later)
                if clobbered.is_empty():
                    continue
                between = clobbered.apply_range(earlier(times[other.statement], times[consumer.name]))
                if not between.is_disjoint(uses):
                    raise _overwritten(consumer, comp, f"{other.statement} overwrites '{buf}' in between")


def _overwritten(consumer: Comp, comp: Comp, why: str) -> IllegalSchedule:
    return IllegalSchedule(
        f"the expression of {comp.name} has another value where {consumer.name} uses it: {why} "
        f"({comp.loc.file}:{comp.loc.line} and {consumer.loc.file}:{consumer.loc.line})",
        loc=comp.loc,
        code="DG201",
        remedy="keep the statement, or give the overwritten values an array of their own",
    )


def _as_expressions(func: Func, consumer: Comp, comp: Comp, found: isl.Map) -> dict[str, Expr]:
    """The instance of `comp` as expressions in `consumer`'s iterators."""
    names: dict[str, Expr] = {name: Iter(name) for name in consumer.iters}
    context = isl.Map.from_domain(lifted_domain(func, consumer, ()))
    build = isl.AstBuild.from_context(_as_parameters(context, consumer).params())
    function = _as_parameters(found, consumer).as_pw_multi_aff()
    return {name: from_ast(build.expr_from_pw_aff(function.get_at(k)), names) for k, name in enumerate(comp.iters)}


def _as_parameters(relation: isl.Map, consumer: Comp) -> isl.Set:
    """The range of a map from the consumer's instances, its iterators being parameters of their names."""
    count = len(consumer.iters)
    for k, name in enumerate(consumer.iters):
        relation = relation.set_dim_name(IN, k, name)
    return relation.move_dims(PARAM, relation.dim(PARAM), IN, 0, count).range()
