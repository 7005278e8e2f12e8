"""Exact dependences between the instances of a Func's Comps, by isl (Feautrier's last-writer analysis for flow)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal

import islpy as isl

from plant_core.analysis.last_writers import last_writers
from plant_core.analysis.runtime_parameters import for_any_value, used_parameters, varying_parameters
from plant_core.analysis.strided_accesses import same_steps
from plant_core.ir.accesses import access_key, access_map, accesses, domain_of, is_integer, read_accesses
from plant_core.ir.func import Binary, BinaryOp, Cast, Comp, Expr, Func, Load
from plant_core.ir.time_2d1 import (
    Loop,
    Position,
    common_loops,
    every_loop,
    line_value,
    position,
    schedule_map,
    shared_depth,
)
from plant_core.support.memoize import by_identity

Kind = Literal["flow", "anti", "output"]
ReductionOp = Literal["add", "mul", "min", "max", "and", "or", "xor"]


@dataclass(frozen=True, slots=True)
class Dependence:
    """`relation` maps source instances to the sink instances that must follow them, both touching `buf`.

    `reduction`: both ends update the same element as `t = t op e` with one associative and commutative op, and it is
    only through those updates that they depend on each other.
    """

    kind: Kind
    source: str
    sink: str
    buf: str
    relation: isl.Map
    reduction: bool


@dataclass(frozen=True, slots=True)
class Flow:
    """Value-based flow into one read: `access` counts in `read_accesses(sink)`."""

    source: str
    sink: str
    access: int
    buf: str
    relation: isl.Map


# --- reductions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reduction:
    """`target = target op rest`; for `add`, `rest` has subtracted operands negated by their `negative` flag."""

    op: ReductionOp
    rest: tuple[tuple[Expr, bool], ...]


@by_identity
def reduction_of(comp: Comp) -> Reduction | None:
    """How `comp` accumulates into its target, or None. Nested sums such as `(t + a) - b` count."""
    value = comp.value
    target = comp.target
    key = access_key(target)
    if is_integer(target.dtype) and isinstance(value, Cast) and value.dtype == target.dtype:
        value = value.operand
    if not isinstance(value, Binary) or is_integer(value.dtype) != is_integer(target.dtype):
        return None
    widened = value.dtype != target.dtype
    if widened and (not is_integer(target.dtype) or value.op in ("min", "max")):
        return None
    op: ReductionOp
    match value.op:
        case "add" | "sub":
            op = "add"
        case "mul" | "min" | "max" | "and" | "or" | "xor":
            op = value.op
        case _:
            return None
    leaves = _chain(value, op, value.dtype, False)
    mine = [k for k, (leaf, negative) in enumerate(leaves) if not negative and _is_target(leaf, key, value.dtype)]
    if not mine:
        return None
    rest = tuple(leaf for k, leaf in enumerate(leaves) if k != mine[0])
    if any(access_key(a) == key for leaf, _ in rest for a in accesses(leaf)):
        return None
    return Reduction(op, rest)


def _chain(expr: Expr, op: ReductionOp, dtype: str, negative: bool) -> list[tuple[Expr, bool]]:
    if isinstance(expr, Binary) and expr.dtype == dtype:
        if expr.op == op:
            return _chain(expr.left, op, dtype, negative) + _chain(expr.right, op, dtype, negative)
        if expr.op == "sub" and op == "add":
            return _chain(expr.left, op, dtype, negative) + _chain(expr.right, op, dtype, not negative)
    return [(expr, negative)]


def _is_target(expr: Expr, key: tuple[str, tuple[Expr, ...]], dtype: str) -> bool:
    if isinstance(expr, Cast) and expr.dtype == dtype and is_integer(dtype):
        expr = expr.operand
    return isinstance(expr, Load) and access_key(expr) == key


def rebalance_reductions(func: Func, *, reassoc: bool) -> Func:
    """Write every reduction as `t = t op rest`, the target on the left at the top.

    Before: `t = (a + t) - b`. After: `t = t + (a - b)`. Requires: nothing. Ensures: the same values, up to
    reassociation of floats, which is done only where `reassoc` allows it.
    """
    comps = []
    for comp in func.comps:
        found = reduction_of(comp)
        if found is not None and (reassoc or is_integer(comp.target.dtype)):
            comp = replace(comp, value=rebalanced(comp, found))
        comps.append(comp)
    return func.with_comps(tuple(comps))


def rebalanced(comp: Comp, found: Reduction) -> Expr:
    """The value of a reduction as `target op rest`, under the conversion to the target's type where there is one."""
    value = comp.value
    narrow = isinstance(value, Cast)
    inner = value.operand if isinstance(value, Cast) else value
    dtype = inner.dtype if isinstance(inner, Binary) else comp.target.dtype
    leaves = _chain(inner, found.op, dtype, False)
    key = access_key(comp.target)
    target = next(leaf for leaf, negative in leaves if not negative and _is_target(leaf, key, dtype))
    op: BinaryOp = found.op
    positive = [leaf for leaf, negative in found.rest if not negative]
    negative = [leaf for leaf, negative in found.rest if negative]
    if not positive:
        op, positive, negative = "sub", negative, []
    rest = positive[0]
    for leaf in positive[1:]:
        rest = Binary(found.op, rest, leaf, dtype)
    for leaf in negative:
        rest = Binary("sub", rest, leaf, dtype)
    result = Binary(op, target, rest, dtype)
    return Cast(comp.target.dtype, result) if narrow else result


# --- dependences --------------------------------------------------------------------------------------------------


@by_identity
def flows(func: Func, *, reader: str | None = None, local: bool = False) -> tuple[Flow, ...]:
    """Which instance's write each read sees (value-based), one entry for each writer, reader and read access; of one
    `reader` only, if that is given; of `local` variables and arrays only, if that is asked for.
    """
    varying, free = varying_parameters(func), for_any_value(func)
    unsure = {c.name for c in func.comps if varying & used_parameters(c)}
    func = free
    length = max((c.schedule.dim(isl.dim_type.out) for c in func.comps), default=0)
    sinks, must, may, times = _empty(), _empty(), _empty(), _empty()
    names: dict[str, tuple[str, int]] = {}
    seen = _touched(func, None if reader is None else (reader,))
    if local:
        seen &= {b.name for b in func.bufs if b.kind == "local"}
    for number, comp in enumerate(func.comps):
        reads = [(k, a) for k, a in enumerate(read_accesses(comp)) if a.buf in seen and reader in (None, comp.name)]
        written = comp.target.buf in seen
        if not (written or reads):
            continue
        time = schedule_map(comp, position(comp), length)
        if written:
            relation, exact = access_map(comp, comp.target)
            times = times.union(_timed(time, comp.name, 1))
            if exact and comp.name not in unsure:
                must = must.union(relation)
            else:
                may = may.union(relation)
        for k, access in reads:
            name = f"R{number}.{k}"
            names[name] = (comp.name, k)
            sinks = sinks.union(access_map(comp, access)[0].set_tuple_name(isl.dim_type.in_, name))
            times = times.union(_timed(time, name, 0))
    full = last_writers(sinks, must, may, times).dependence
    order = {comp.name: k for k, comp in enumerate(func.comps)}
    found = []
    for relation in _maps(full):
        pair = relation.range().unwrap()
        sink, access_number = names[pair.get_tuple_name(isl.dim_type.in_)]
        source = relation.get_tuple_name(isl.dim_type.in_)
        direct = relation.range_factor_domain().set_tuple_name(isl.dim_type.out, sink)
        found.append(Flow(source, sink, access_number, pair.get_tuple_name(isl.dim_type.out), direct))
    return tuple(sorted(found, key=lambda f: (order[f.source], order[f.sink], f.access, f.buf)))


def _timed(time: isl.Map, name: str, last: int) -> isl.Map:
    """An instance reads all its operands before it writes: one more time dimension."""
    count = time.dim(isl.dim_type.out)
    extended = time.add_dims(isl.dim_type.out, 1).fix_val(isl.dim_type.out, count, isl.Val(last))
    return extended.set_tuple_name(isl.dim_type.in_, name)


def _empty() -> isl.UnionMap:
    return isl.UnionMap("{ }")


def _maps(union: isl.UnionMap) -> list[isl.Map]:
    found: list[isl.Map] = []
    union.foreach_map(found.append)
    return found


def dependences(func: Func) -> tuple[Dependence, ...]:
    """Flow dependences from last writers only; anti and output dependences between all pairs."""
    reductions = {comp.name: reduction_of(comp) for comp in func.comps}
    joined: dict[tuple[str, str, str, bool], isl.Map] = {}
    comps = {comp.name: comp for comp in func.comps}
    for flow in flows(func):
        sink = comps[flow.sink]
        accumulates = access_key(read_accesses(sink)[flow.access]) == access_key(sink.target)
        mark = accumulates and _both_reduce(comps[flow.source], sink, reductions)
        key = (flow.source, flow.sink, flow.buf, mark)
        joined[key] = joined[key].union(flow.relation) if key in joined else flow.relation
    found = [Dependence("flow", a, b, buf, m.coalesce(), mark) for (a, b, buf, mark), m in joined.items()]
    found += [d for d in memory_dependences(func) if d.kind != "flow"]
    return tuple(found)


_Touch = tuple[Comp, Load, isl.Map, bool]


@dataclass(slots=True)
class _Touches:
    """The accesses to one Buf: (Comp, access, relation, is the reduction's own access) for writes, and for reads."""

    writes: list[_Touch]
    reads: list[_Touch]


def memory_dependences(func: Func, *, of: Collection[str] | None = None) -> tuple[Dependence, ...]:
    """Every ordered pair of instances that touch one element, at least one of them writing; at least one of them of the
    statements `of`, if these are given.

    What uses a parameter that the program defines reads the variable of that name.
    """
    defined = {c.defines: c.target for c in func.comps if c.defines is not None}
    originals = {comp.name: comp for comp in func.comps}
    func = for_any_value(func)
    reductions = {comp.name: reduction_of(comp) for comp in func.comps}
    touches: dict[str, _Touches] = {}
    seen = _touched(func, of) | set(defined)
    for comp in func.comps:
        own = access_key(comp.target) if reductions[comp.name] else None
        if comp.target.buf in seen:
            relation = access_map(comp, comp.target)[0]
            entry = touches.setdefault(comp.target.buf, _Touches([], []))
            entry.writes.append((comp, comp.target, relation, own is not None))
        for access in read_accesses(comp):
            if access.buf not in seen:
                continue
            entry = touches.setdefault(access.buf, _Touches([], []))
            entry.reads.append((comp, access, access_map(comp, access)[0], access_key(access) == own))
        for name in sorted(used_parameters(originals[comp.name]) & set(defined)):
            entry = touches.setdefault(name, _Touches([], []))
            entry.reads.append((comp, defined[name], access_map(comp, defined[name])[0], False))
    order = _Order(func)
    found: dict[tuple[Kind, str, str, str, bool], isl.Map] = {}
    for buf, touch in touches.items():
        pairs: tuple[tuple[Kind, list[_Touch], list[_Touch]], ...] = (
            ("flow", touch.writes, touch.reads),
            ("anti", touch.reads, touch.writes),
            ("output", touch.writes, touch.writes),
        )
        for kind, sources, sinks in pairs:
            for a, first, source_map, source_own in sources:
                for b, second, sink_map, sink_own in sinks:
                    if of is not None and a.name not in of and b.name not in of:
                        continue
                    before = order.before(a, b)
                    if before is None:
                        continue
                    relation = source_map.apply_range(sink_map.reverse()).intersect(before)
                    relation = same_steps(a, first, b, second, relation)
                    if relation.is_empty():
                        continue
                    mark = source_own and sink_own and _both_reduce(a, b, reductions)
                    key = (kind, a.name, b.name, buf, mark)
                    found[key] = found[key].union(relation) if key in found else relation
    return tuple(Dependence(k, a, b, buf, m.coalesce(), mark) for (k, a, b, buf, mark), m in found.items())


def _touched(func: Func, of: Collection[str] | None) -> set[str]:
    """The Bufs that statements read or write: those named, or all."""
    found = (c for c in func.comps if of is None or c.name in of)
    return {a.buf for c in found for a in (c.target, *read_accesses(c))}


def _both_reduce(a: Comp, b: Comp, reductions: dict[str, Reduction | None]) -> bool:
    first, second = reductions[a.name], reductions[b.name]
    return first is not None and second is not None and first.op == second.op and a.target.dtype == b.target.dtype


class _Order:
    """The original order of two Comps' instances, as a relation; made once for each pair."""

    def __init__(self, func: Func) -> None:
        self._places: dict[str, Position] = {comp.name: position(comp) for comp in func.comps}
        self._known: dict[tuple[str, str], isl.Map | None] = {}

    def before(self, a: Comp, b: Comp) -> isl.Map | None:
        """Pairs of an instance of `a` and a later one of `b`; None if there are none."""
        key = (a.name, b.name)
        if key not in self._known:
            self._known[key] = _before(a, self._places[a.name], b, self._places[b.name])
        return self._known[key]


@by_identity
def _before(a: Comp, at: Position, b: Comp, bt: Position) -> isl.Map | None:
    depth = shared_depth(at, bt)
    spaces = domain_of(a).get_space().map_from_domain_and_range(domain_of(b).get_space())
    equal = isl.Map.universe(spaces)
    result: isl.Map | None = None
    for k in range(depth):
        first, second = line_value(a, at.loops[k]), line_value(b, bt.loops[k])
        later = equal.intersect(first.lt_map(second))
        result = later if result is None else result.union(later)
        equal = equal.intersect(first.eq_map(second))
    if at.constants[depth] < bt.constants[depth]:
        result = equal if result is None else result.union(equal)
    return result


# --- which loops carry what ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LaneCandidate:
    """A loop whose iterations may lie across vector lanes: all independent, or only updating reductions."""

    loop: Loop
    kind: Literal["parallel", "reduction"]


def lane_candidates(
    func: Func, *, reassoc: bool = True, known: tuple[Dependence, ...] | None = None
) -> tuple[LaneCandidate, ...]:
    """Loops that carry no dependence ("parallel"), or none but reductions that may be reordered ("reduction").

    `known`: the Func's memory dependences, if they are at hand.
    """
    comps = {comp.name: comp for comp in func.comps}
    blocked: set[tuple[int, ...]] = set()
    reducing: set[tuple[int, ...]] = set()
    for dependence in memory_dependences(func) if known is None else known:
        a, b = comps[dependence.source], comps[dependence.sink]
        free = dependence.reduction and (reassoc or is_integer(a.target.dtype))
        for prefix in carrying(dependence, a, b, lanes=True):
            (reducing if free else blocked).add(prefix)
    result: list[LaneCandidate] = []
    for loop in every_loop(common_loops(func)):
        if loop.prefix not in blocked:
            result.append(LaneCandidate(loop, "reduction" if loop.prefix in reducing else "parallel"))
    return tuple(result)


def carrying(dependence: Dependence, a: Comp, b: Comp, *, lanes: bool) -> list[tuple[int, ...]]:
    """The loops, by their prefixes, in whose different iterations dependent instances of `a` and `b` lie; `lanes`: if
    these iterations are lanes of one vector."""
    at, bt = position(a), position(b)
    rest = dependence.relation
    found = []
    depth = shared_depth(at, bt)
    equal = [line_value(a, at.loops[k]).eq_map(line_value(b, bt.loops[k])) for k in range(depth)]
    for k in range(depth):
        carried = rest.subtract(equal[k])
        # One vector reads all its operands before it writes: what only overtakes itself along this loop may be lanes.
        overtakes = lanes and dependence.kind == "anti" and a.name == b.name
        overtakes = overtakes and all(carried.is_subset(m) for m in equal[k + 1 :])
        if not carried.is_empty() and not overtakes:
            found.append(at.constants[: k + 1])
        rest = rest.intersect(equal[k])
        if rest.is_empty():
            break
    return found


def live_in(func: Func, buf: str, *, doubt: bool = False) -> isl.Set | None:
    """The elements of an array whose first access is a read: those with a read that no write precedes. None: there are
    none. Accesses at places that depend on data are left out; with `doubt`, they may read anything and write nothing.
    """
    touching = [
        (comp, found)
        for comp in func.comps
        if (found := [a for a in read_accesses(comp) if a.buf == buf]) or comp.target.buf == buf
    ]
    if not any(found for _, found in touching):
        return None
    reads = isl.UnionMap.empty(func.comps[0].domain.get_space().params())
    writes, schedule = reads, reads
    for comp, found in touching:
        schedule = schedule.union(isl.UnionMap.from_map(comp.schedule.intersect_domain(comp.domain)))
        for access in found:
            relation, exact = access_map(comp, access)
            if exact or doubt:
                reads = reads.union(isl.UnionMap.from_map(relation))
        if comp.target.buf == buf:
            relation, exact = access_map(comp, comp.target)
            if exact or not doubt:
                writes = writes.union(isl.UnionMap.from_map(relation))
    if reads.is_empty():
        return None
    nothing = isl.UnionMap.empty(reads.get_space())
    elements = [m.range() for m in _maps(last_writers(reads, writes, nothing, schedule).no_source)]
    return None if not elements else reduce(isl.Set.union, elements)
