"""Which instances of a scheduled program touch the same memory, in the order that defines its meaning.

`facts_of` makes all of it once for each program and order, as chains of verbs ask again after every step. An integer
that a statement reads from memory and that then stands in domains as a parameter (`Comp.defines`) is one more
iterator here: it may differ between two instances, unless they lie in the same iteration of the loops that define it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import islpy as isl

from plant_core.analysis.dependence import Dependence, Kind, Reduction, reduction_of
from plant_core.ir.accesses import access_key, access_map, all_bufs, children, domain_of, read_accesses
from plant_core.ir.func import Access, Alloc, Comp, Effect, Expr, Free, Func, Memcpy, Param, Verbatim
from plant_core.ir.quasi_affine import constants_of
from plant_core.ir.scheduled import Nest, Scheduled, as_written, padded
from plant_core.support.location import PlantError

OUT, IN, PARAM = isl.dim_type.out, isl.dim_type.in_, isl.dim_type.param


@dataclass(frozen=True, slots=True)
class Touch:
    """`relation` maps a statement's instances to the elements of one Buf; `own`: it is a reduction's own access."""

    statement: str
    relation: isl.Map
    write: bool
    own: bool


@dataclass(frozen=True, slots=True)
class Clock:
    """One time for each instance: `parts` has the first dimensions of `relation` as functions of the instance.

    Those are the dimensions that come before any piecewise one: functions in pieces are slow to compare, so that the
    dimensions from there on are compared as the relation has them.
    """

    relation: isl.Map
    parts: tuple[isl.PwAff, ...]

    @staticmethod
    def of(relation: isl.Map) -> Clock:
        values = isl.MultiPwAff.from_pw_multi_aff(relation.as_pw_multi_aff())
        parts: list[isl.PwAff] = []
        for k in range(relation.dim(OUT)):
            part = _everywhere(relation, k, values.get_at(k))
            if part is None:
                break
            parts.append(part)
        return Clock(relation, tuple(parts))

    def before(self, later: Clock, pairs: isl.Map) -> isl.Map:
        """The pairs of which the first instance runs before the second."""
        found = isl.Map.empty(pairs.get_space())
        for here, there in self._levels(later):
            found = found.union(pairs.intersect(here.lt_map(there)))
            pairs = pairs.intersect(here.eq_map(there))
            if pairs.is_empty():
                return found.coalesce()
        return found.union(self._ordered(later, pairs, isl.Map.lex_lt)).coalesce()

    def disordered(self, later: Clock, pairs: isl.Map) -> isl.Map:
        """Some of the pairs of which the first instance doesn't run before the second; empty if there are none."""
        for here, there in self._levels(later):
            wrong = pairs.intersect(here.gt_map(there))
            if not wrong.is_empty():
                return wrong
            pairs = pairs.intersect(here.eq_map(there))
            if pairs.is_empty():
                return pairs
        return self._ordered(later, pairs, isl.Map.lex_ge)

    def _levels(self, later: Clock) -> Iterator[tuple[isl.PwAff, isl.PwAff]]:
        """The same dimension of both times, as far as both are functions; zeros follow the last one."""
        for k in range(max(self.relation.dim(OUT), later.relation.dim(OUT))):
            here, there = self._part(k), later._part(k)
            if here is None or there is None:
                return
            yield here, there

    def _part(self, k: int) -> isl.PwAff | None:
        if k < len(self.parts):
            return self.parts[k]
        return self.parts[0].sub(self.parts[0]).coalesce() if k >= self.relation.dim(OUT) and self.parts else None

    def _ordered(self, later: Clock, pairs: isl.Map, order: Callable[[isl.Space], isl.Map]) -> isl.Map:
        length = max(self.relation.dim(OUT), later.relation.dim(OUT))
        first, second = padded(self.relation, length), padded(later.relation, length)
        return pairs_in_time(pairs, first, second, order(isl.Space.alloc(pairs.get_ctx(), 0, length, length).domain()))

    def never_before(self, later: Clock) -> bool:
        """Constant positions alone tell that nothing here runs before anything there."""
        for here, there in zip(self.parts, later.parts, strict=False):
            first, second = constants_of(here), constants_of(there)
            if not first or not second:
                return False
            if min(value for _, value in first) > max(value for _, value in second):
                return True
            if len({value for _, value in (*first, *second)}) > 1:
                return False
        return False


def _everywhere(relation: isl.Map, k: int, value: isl.PwAff) -> isl.PwAff | None:
    """The one affine function, if there is one, that has `value`, dimension k of `relation`, in all its domain."""
    pieces = value.get_pieces()
    if len(pieces) == 1:
        return isl.PwAff.from_aff(pieces[0][1])
    only = relation.project_out(OUT, k + 1, relation.dim(OUT) - k - 1).project_out(OUT, 0, k)
    for _, aff in pieces:
        if only.is_subset(isl.Map.from_aff(aff).set_tuple_id(IN, only.get_tuple_id(IN))):
            return isl.PwAff.from_aff(aff)
    return None


def pairs_in_time(pairs: isl.Map, first: isl.Map, second: isl.Map, wanted: isl.Map) -> isl.Map:
    """The pairs of instances of which some times, by the two relations, are one of the `wanted` pairs of times.

    The times are looked at first: their constraints are simpler than those that they put on the instances.
    """
    found = first.reverse().apply_range(pairs).apply_range(second).intersect(wanted)
    if found.is_empty():
        return isl.Map.empty(pairs.get_space())
    return first.apply_range(found).apply_range(second.reverse()).intersect(pairs)


@dataclass(frozen=True, slots=True)
class Times:
    """When a statement runs: all its times, and of each instance the earliest and the latest."""

    relation: isl.Map
    earliest: Clock
    latest: Clock
    single: bool
    """Every instance has one time."""


class _Same:
    """A key that is one object and no other; objects that are equal would take long to compare."""

    __slots__ = ("value",)

    def __init__(self, value: Func | Scheduled) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(slots=True)
class Facts:
    """What legality needs to know of a program and of the order that defines it.

    `pairs` are the dependences' relations with data parameters as iterators, `dependences` without.
    """

    func: Func
    data: tuple[str, ...]
    touches: dict[str, list[Touch]]
    dependences: tuple[Dependence, ...] = ()
    pairs: tuple[isl.Map, ...] = ()
    verdicts: dict[tuple[int, ...], tuple[tuple[isl.Map, ...], isl.Map | None]] = field(default_factory=dict)
    known_times: dict[int, tuple[isl.Map, Times]] = field(default_factory=dict)
    known_places: dict[tuple[int, int], tuple[isl.Map, isl.Set]] = field(default_factory=dict)

    def statement(self, name: str) -> Comp | Effect:
        return statements_of(self.func)[name]

    def domain(self, name: str) -> isl.Set:
        return lifted_domain(self.func, self.statement(name), self.data)

    def times(self, nest: Nest) -> Times:
        """The nest's relation on its statement's domain; PlantError where the two don't fit."""
        key = id(nest.relation)
        if key not in self.known_times:
            if len(self.known_times) > 2000:
                self.known_times.clear()
            self.known_times[key] = (nest.relation, self._times(nest))
        return self.known_times[key][1]

    def places(self, nest: Nest, depth: int) -> isl.Set:
        """The positions of the nest's loops from the outermost to the one at `depth`.

        A statement with fewer loops may still be in a loop, at its iteration 0, where its own position is the loop's.
        """
        key = (id(nest.relation), depth)
        if key not in self.known_places:
            if len(self.known_places) > 2000:
                self.known_places.clear()
            found = truncated(self.times(nest).relation, 2 * depth + 1).range()
            for k in reversed(range(depth)):
                found = found.project_out(isl.dim_type.set, 2 * k + 1, 1)
            self.known_places[key] = (nest.relation, found)
        return self.known_places[key][1]

    def verdict(
        self, key: tuple[int, ...], relations: tuple[isl.Map, ...], decide: Callable[[], isl.Map]
    ) -> isl.Map | None:
        """The pairs that `decide` finds, None for none; remembered for `key`, whose ids are of `relations`."""
        if key not in self.verdicts:
            if len(self.verdicts) > 20_000:
                self.verdicts.clear()
            wrong = decide()
            self.verdicts[key] = (relations, None if wrong.is_empty() else wrong)
        return self.verdicts[key][1]

    def _times(self, nest: Nest) -> Times:
        statement = self.statement(nest.name)
        relation = nest.relation
        if relation.dim(OUT) != 2 * len(nest.loops) + 1 or relation.dim(IN) != len(statement.iters):
            raise PlantError(
                f"the relation of {nest.name} has not the dimensions of its instances and loops",
                loc=statement.loc,
                code="DG202",
                remedy="map every iterator of the statement to a position before, between and after its loops",
            )
        relation = lifted(relation.set_tuple_name(IN, nest.name), self.data, nest.name)
        relation = relation.intersect_domain(self.domain(nest.name)).coalesce()
        single = relation.is_single_valued()
        if single:
            only = Clock.of(relation)
            return Times(relation, only, only, True)
        return Times(relation, Clock.of(relation.lexmin()), Clock.of(relation.lexmax()), False)


def statements_of(func: Func) -> dict[str, Comp | Effect]:
    """Comps and Effects by name."""
    found: dict[str, Comp | Effect] = {comp.name: comp for comp in func.comps}
    found.update((effect.name, effect) for effect in func.effects)
    return found


def facts_of(scheduled: Scheduled) -> Facts:
    """The facts of the order that defines `scheduled`'s meaning."""
    return _facts(_Same(scheduled.origin if scheduled.origin is not None else scheduled.func))


@lru_cache(maxsize=16)
def _facts(key: _Same) -> Facts:
    origin = key.value if isinstance(key.value, Scheduled) else as_written(key.value)
    func = resolved(origin.func)
    data = tuple(sorted({c.defines for c in func.comps if c.defines is not None}))
    facts = Facts(func, data, _touches(func, data))
    times = {nest.name: facts.times(nest) for nest in origin.nests}
    private = _private(func, origin)
    found = _memory_dependences(func, data, facts.touches, times, private)
    facts.dependences = tuple(d for d, _ in found)
    facts.pairs = tuple(pairs for _, pairs in found)
    return facts


def resolved(func: Func) -> Func:
    """`func` with memory accesses in place of accesses to other statements' values."""
    if not any(_has_access(c.value) or any(map(_has_access, c.target.indices)) for c in func.comps):
        return func
    from plant_core.normalize.bind_storage import resolve

    return resolve(func)


def _has_access(expr: Expr) -> bool:
    return isinstance(expr, Access) or any(map(_has_access, children(expr)))


# --- what touches what --------------------------------------------------------------------------------------------


def lifted(relation: isl.Map, data: tuple[str, ...], name: str) -> isl.Map:
    """Of a map from `name`'s instances: the parameters `data` as iterators after its own."""
    for parameter in data:
        place = relation.find_dim_by_name(PARAM, parameter)
        count = relation.dim(IN)
        if place >= 0:
            relation = relation.move_dims(IN, count, PARAM, place, 1)
        else:
            relation = relation.insert_dims(IN, count, 1)
    return relation.set_tuple_name(IN, name)


def lifted_domain(func: Func, statement: Comp | Effect, data: tuple[str, ...]) -> isl.Set:
    domain = domain_of(statement)
    if func.context is not None:
        domain = domain.intersect_params(func.context.params())
    return lifted(isl.Map.from_domain(domain), data, statement.name).domain() if data else domain


def _touches(func: Func, data: tuple[str, ...]) -> dict[str, list[Touch]]:
    found: dict[str, list[Touch]] = {}

    def add(name: str, buf: str, relation: isl.Map, *, write: bool, own: bool = False) -> None:
        found.setdefault(buf, []).append(Touch(name, lifted(relation, data, name), write, own))

    for comp in func.comps:
        own = access_key(comp.target) if reduction_of(comp) else None
        add(comp.name, comp.target.buf, access_map(comp, comp.target)[0], write=True, own=own is not None)
        for access in read_accesses(comp):
            add(comp.name, access.buf, access_map(comp, access)[0], write=False, own=access_key(access) == own)
    bufs = all_bufs(func)
    for effect in func.effects:
        match effect.action:
            case Memcpy(to=to, source=source):
                add(effect.name, source, _everything(effect, source, len(bufs[source].shape)), write=False)
                touched = [to]
            case Alloc(buf=buf) | Free(buf=buf):
                touched = [buf]
            case Verbatim(text="__syncthreads();"):
                # A barrier orders what a block's threads share, and nothing else.
                touched = [b.name for b in bufs.values() if b.location == "gpu_shared"]
            case Verbatim():
                touched = list(bufs)
        for name in touched:
            add(effect.name, name, _everything(effect, name, len(bufs[name].shape)), write=True)
    for parameter in data:
        buf = next(c.target.buf for c in func.comps if c.defines == parameter)
        for statement in statements_of(func).values():
            if _mentions(statement, parameter):
                add(statement.name, buf, _everything(statement, buf, len(bufs[buf].shape)), write=False)
    return found


def _everything(statement: Comp | Effect, buf: str, rank: int) -> isl.Map:
    relation = isl.Map.from_domain(domain_of(statement)).add_dims(OUT, rank)
    return relation.set_tuple_name(OUT, buf)


def _mentions(statement: Comp | Effect, parameter: str) -> bool:
    place = statement.domain.find_dim_by_name(PARAM, parameter)
    if place >= 0 and statement.domain.involves_dims(PARAM, place, 1):
        return True
    return isinstance(statement, Comp) and any(_has_param(e, parameter) for e in (statement.target, statement.value))


def _has_param(expr: Expr, parameter: str) -> bool:
    return (isinstance(expr, Param) and expr.name == parameter) or any(
        _has_param(part, parameter) for part in children(expr)
    )


def _private(func: Func, origin: Scheduled) -> dict[str, int]:
    """How many dimensions of time tell the copies of each private Buf apart."""
    found = {}
    for buf in func.bufs:
        nest = next((n for n in origin.nests if buf.alloc_at is not None and n.name == buf.alloc_at[0]), None)
        if buf.alloc_at is not None and nest is not None and buf.alloc_at[1] in nest.loops:
            found[buf.name] = 2 * nest.depth(buf.alloc_at[1]) + 2
    return found


# --- dependences --------------------------------------------------------------------------------------------------


def truncated(relation: isl.Map, length: int) -> isl.Map:
    """The first `length` dimensions of time."""
    count = relation.dim(OUT)
    return relation.project_out(OUT, length, count - length) if count > length else padded(relation, length)


def _memory_dependences(
    func: Func,
    data: tuple[str, ...],
    touches: dict[str, list[Touch]],
    times: dict[str, Times],
    private: dict[str, int],
) -> list[tuple[Dependence, isl.Map]]:
    reductions: dict[str, tuple[Reduction | None, str]] = {
        comp.name: (reduction_of(comp), comp.target.dtype) for comp in func.comps
    }
    found: dict[tuple[Kind, str, str, str, bool], isl.Map] = {}
    for buf, entries in touches.items():
        for first in entries:
            for second in entries:
                # What runs again computes the same again: the first time counts.
                clocks = times[first.statement].earliest, times[second.statement].earliest
                if not (first.write or second.write) or clocks[0].never_before(clocks[1]):
                    continue
                pairs = first.relation.apply_range(second.relation.reverse())
                if buf in private:
                    copies = (truncated(clock.relation, private[buf]) for clock in clocks)
                    pairs = pairs.intersect(next(copies).apply_range(next(copies).reverse()))
                if pairs.is_empty():
                    continue
                kind: Kind = "flow" if not second.write else "output" if first.write else "anti"
                mark = first.own and second.own and _both_reduce(reductions, first.statement, second.statement)
                key = (kind, first.statement, second.statement, buf, mark)
                found[key] = found[key].union(pairs) if key in found else pairs
    result = []
    for (kind, a, b, buf, mark), pairs in found.items():
        start, end = times[a].earliest, times[b].earliest
        pairs = pairs.intersect_domain(start.relation.domain()).intersect_range(end.relation.domain())
        pairs = start.before(end, agreeing(func, data, pairs))
        if not pairs.is_empty():
            result.append((Dependence(kind, a, b, buf, unlifted(pairs, data, a, b), mark), pairs))
    return result


def unlifted(pairs: isl.Map, data: tuple[str, ...], source: str, sink: str) -> isl.Map:
    """Pairs of instances without data parameters among their iterators."""
    count = len(data)
    if not count:
        return pairs
    pairs = pairs.project_out(IN, pairs.dim(IN) - count, count).project_out(OUT, pairs.dim(OUT) - count, count)
    return pairs.set_tuple_name(IN, source).set_tuple_name(OUT, sink)


def _both_reduce(reductions: dict[str, tuple[Reduction | None, str]], a: str, b: str) -> bool:
    first, second = reductions[a], reductions[b]
    return first[0] is not None and second[0] is not None and first[0].op == second[0].op and first[1] == second[1]


def agreeing(func: Func, data: tuple[str, ...], pairs: isl.Map) -> isl.Map:
    """Those of the pairs in which data parameters are equal in the same iterations of the loops that define them."""
    counts = pairs.dim(IN) - len(data), pairs.dim(OUT) - len(data)
    universe = isl.Map.universe(pairs.get_space())
    for k, parameter in enumerate(data):
        depth = min(len(c.iters) for c in func.comps if c.defines == parameter)
        either = universe.equate(IN, counts[0] + k, OUT, counts[1] + k)
        for loop in range(min(depth, *counts)):
            either = either.union(universe.subtract(universe.equate(IN, loop, OUT, loop)))
        pairs = pairs.intersect(either)
    return pairs


def earlier(first: isl.Map, second: isl.Map) -> isl.Map:
    """Pairs of which some time of the first is before some time of the second."""
    length = max(first.dim(OUT), second.dim(OUT))
    return padded(first, length).lex_lt_map(padded(second, length))
