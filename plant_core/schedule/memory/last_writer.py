"""Which instance's value every read of some arrays sees, in the present order: what a memory verb has to keep.

The flow of a Scheduled is one relation from reads to the origins of the values read. A read is a site of a statement
at an instance, `S#2[i, j]` (`S#2[i, j] -> A[x]`, wrapped, where any element may be read), or an element of a result at
the end, `final A[x]`. An origin is an instance, `S[i, j]`, or what an element held from the start, `first A[x]`.
After Feautrier's last-writer analysis, by isl.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import islpy as isl

from plant_core.analysis.last_writers import LastWriters, last_writers
from plant_core.ir.accesses import access_key, access_map, domain_of
from plant_core.ir.func import Alloc, Buf, Comp, Effect, Free, Func, Load, Memcpy
from plant_core.ir.scheduled import Scheduled, padded
from plant_core.schedule.memory.access_sites import as_load, buffer, refuse_vectors, sites, statements
from plant_core.schedule.memory.isl_expressions import box, in_context, maps_of, sample
from plant_core.schedule.memory.rebase import length_of
from plant_core.support.location import IllegalSchedule, Loc, PlantError

FINAL = "final "
FIRST = "first "


def site_name(statement: str, number: int) -> str:
    return f"{statement}#{number}"


@dataclass(frozen=True, slots=True)
class Stamp:
    """A statement's runs: `points` maps each to its instance, `times` to its time."""

    points: isl.Map
    times: isl.Map


def stamp(scheduled: Scheduled, statement: Comp | Effect, length: int) -> Stamp:
    domain = in_context(domain_of(statement), scheduled.func.context)
    relation = padded(scheduled.nest(statement.name).relation, length).intersect_domain(domain)
    if relation.is_single_valued():
        return Stamp(isl.Map.identity(domain.get_space().map_from_set()).intersect_domain(domain), relation)
    points = relation.reverse().set_tuple_name(isl.dim_type.in_, statement.name)
    times = isl.Map.identity(points.domain().get_space().map_from_set()).intersect_domain(points.domain())
    return Stamp(points, times.set_tuple_name(isl.dim_type.in_, statement.name).reset_tuple_id(isl.dim_type.out))


def _timed(times: isl.Map, name: str, last: int) -> isl.Map:
    """All reads of an instance come before its write: one more time dimension; and one in front, for the end."""
    count = times.dim(isl.dim_type.out)
    longer = times.insert_dims(isl.dim_type.out, 0, 1).fix_val(isl.dim_type.out, 0, isl.Val(0))
    longer = longer.add_dims(isl.dim_type.out, 1).fix_val(isl.dim_type.out, count + 1, isl.Val(last))
    return longer.set_tuple_name(isl.dim_type.in_, name)


@dataclass(slots=True)
class _Gathered:
    """`unwrap`: for each sink's name, whether its elements are exact, and its runs to instances."""

    sinks: isl.UnionMap
    must: isl.UnionMap
    may: isl.UnionMap
    times: isl.UnionMap
    exact: dict[str, bool]
    points: isl.UnionMap

    def source(self, name: str, cells: isl.Map, stamped: Stamp, exact: bool) -> None:
        relation = stamped.points.apply_range(cells).set_tuple_name(isl.dim_type.in_, name)
        if exact:
            self.must = self.must.union(relation)
        else:
            self.may = self.may.union(relation)

    def sink(self, name: str, cells: isl.Map, stamped: Stamp, exact: bool) -> None:
        relation = stamped.points.apply_range(cells).set_tuple_name(isl.dim_type.in_, name)
        self.sinks = self.sinks.union(relation)
        self.times = self.times.union(_timed(stamped.times, name, 0))
        points = stamped.points.set_tuple_name(isl.dim_type.in_, name).set_tuple_name(isl.dim_type.out, name)
        self.points = self.points.union(points)
        self.exact[name] = exact


def _empty() -> isl.UnionMap:
    return isl.UnionMap("{ }")


def flow(
    scheduled: Scheduled,
    bufs: frozenset[str],
    *,
    only: Mapping[str, Collection[int]] | None = None,
    finals: bool = True,
) -> isl.UnionMap:
    """The flow into the reads of `bufs`; `only` says which sites of a statement are asked for (equal ones are one),
    `finals` whether results at the end are."""
    found = _gather(scheduled, bufs, only)
    if finals:
        _gather_finals(scheduled.func, bufs, length_of(scheduled), found)
    return _run(found)


@dataclass(frozen=True, slots=True)
class Passing:
    """When values pass between two statements: `times` maps the read's time to the write's, a leading 0 and a last
    dimension (0 for reads, 1 for writes) added to each."""

    reader: str
    writer: str
    times: isl.Map


def passing(scheduled: Scheduled, bufs: frozenset[str]) -> tuple[Passing, ...]:
    """Every flow between statements through `bufs`, by time; finals and initial contents left out."""
    found = _gather(scheduled, bufs, None)
    if found.sinks.is_empty():
        return ()
    times = {m.get_tuple_name(isl.dim_type.in_): m for m in maps_of(found.times)}
    result = []
    for part in maps_of(_solve(found).dependence):
        reader, writer = part.range().unwrap().get_tuple_name(isl.dim_type.in_), part.get_tuple_name(isl.dim_type.in_)
        if not reader.startswith(FINAL):
            pair = part.range_factor_domain().reverse()
            result.append(Passing(reader, writer, pair.apply_domain(times[reader]).apply_range(times[writer])))
    return tuple(result)


def _gather(scheduled: Scheduled, bufs: frozenset[str], only: Mapping[str, Collection[int]] | None) -> _Gathered:
    func = scheduled.func
    length = length_of(scheduled)
    found = _Gathered(_empty(), _empty(), _empty(), _empty(), {}, _empty())
    for comp in func.comps:
        refuse_vectors(comp, bufs)
        stamped: Stamp | None = None
        for number, load in touched(func, comp, bufs, only):
            stamped = stamped or stamp(scheduled, comp, length)
            relation, exact = access_map(comp, load)
            found.sink(site_name(comp.name, number), _valid(func, load, relation, exact), stamped, exact)
        if comp.target.buf in bufs:
            stamped = stamped or stamp(scheduled, comp, length)
            relation, exact = access_map(comp, comp.target)
            found.source(comp.name, _valid(func, comp.target, relation, exact), stamped, exact)
            found.times = found.times.union(_timed(stamped.times, comp.name, 1))
            found.points = found.points.union(stamped.points.set_tuple_name(isl.dim_type.in_, comp.name))
    for effect in func.effects:
        _gather_effect(scheduled, effect, bufs, length, found)
    return found


def _valid(func: Func, load: Load, relation: isl.Map, exact: bool) -> isl.Map:
    """An access that may be anywhere is somewhere in its array."""
    return relation if exact else relation.intersect_range(box(buffer(func, load.buf)))


def touched(
    func: Func, comp: Comp, bufs: Collection[str], only: Mapping[str, Collection[int]] | None = None
) -> list[tuple[int, Load]]:
    """The sites of `comp` that read `bufs`, each element's first one, as Loads."""
    wanted = None if only is None else only.get(comp.name)
    seen: set[object] = set()
    result = []
    for number, site in enumerate(sites(comp)):
        if wanted is not None and number not in wanted:
            continue
        load = as_load(func, site)
        if load.buf not in bufs:
            continue
        key = access_key(load)
        if wanted is None and key in seen:
            continue
        seen.add(key)
        result.append((number, load))
    return result


def _gather_effect(scheduled: Scheduled, effect: Effect, bufs: frozenset[str], length: int, found: _Gathered) -> None:
    func = scheduled.func
    match effect.action:
        case Memcpy(to=to, source=source):
            pass
        case Alloc(buf=name) | Free(buf=name):
            to, source = name, ""
        case _:
            return
    if to not in bufs and source not in bufs:
        return
    stamped = stamp(scheduled, effect, length)
    domain = domain_of(effect)
    if source in bufs:
        cells = isl.Map.from_domain_and_range(domain, box(buffer(func, source)))
        found.sink(site_name(effect.name, 0), cells, stamped, False)
    if to in bufs:
        cells = isl.Map.from_domain_and_range(domain, box(buffer(func, to)))
        found.source(effect.name, cells, stamped, True)
        found.times = found.times.union(_timed(stamped.times, effect.name, 1))
        found.points = found.points.union(stamped.points.set_tuple_name(isl.dim_type.in_, effect.name))


def _gather_finals(func: Func, bufs: frozenset[str], length: int, found: _Gathered) -> None:
    for buf in func.bufs:
        if buf.name not in bufs or buf.kind != "param" or buf.const:
            continue
        cells = in_context(box(buf), func.context)
        name = FINAL + buf.name
        renamed = cells.set_tuple_name(name)
        same = isl.Map.identity(cells.get_space().map_from_set()).intersect_domain(cells)
        end = isl.Map.from_domain(renamed).add_dims(isl.dim_type.out, length + 2)
        for k in range(length + 2):
            end = end.fix_val(isl.dim_type.out, k, isl.Val(1 if k == 0 else 0))
        found.sinks = found.sinks.union(same.set_tuple_name(isl.dim_type.in_, name))
        found.times = found.times.union(end)
        identity = isl.Map.identity(renamed.get_space().map_from_set()).intersect_domain(renamed)
        found.points = found.points.union(identity)
        found.exact[name] = True


def _solve(found: _Gathered) -> LastWriters:
    try:
        return last_writers(found.sinks, found.must, found.may, found.times)
    except isl.Error as error:
        readers = sorted({m.get_tuple_name(isl.dim_type.in_).split("#")[0] for m in maps_of(found.sinks)})
        raise PlantError(
            f"isl can't tell which values {', '.join(readers)} read",
            code="DG200",
            remedy="leave these arrays as they are",
        ) from error


def _run(found: _Gathered) -> isl.UnionMap:
    if found.sinks.is_empty():
        return _empty()
    result = _solve(found)
    flows = _empty()
    for part in maps_of(result.dependence):
        # writer -> [reader -> element]
        pair = part.range().unwrap()
        reader = pair.get_tuple_name(isl.dim_type.in_)
        if found.exact[reader]:
            flows = flows.union(part.range_factor_domain().reverse())
        else:
            flows = flows.union(part.reverse())
    flows = flows.apply_range(found.points)
    for part in maps_of(result.no_source):
        reader, buf = part.get_tuple_name(isl.dim_type.in_), part.get_tuple_name(isl.dim_type.out)
        if found.exact[reader]:
            flows = flows.union(part.set_tuple_name(isl.dim_type.out, FIRST + buf))
        else:
            ends = part.range_map().set_tuple_name(isl.dim_type.out, FIRST + buf)
            flows = flows.union(ends)
    return _to_instances(flows, found)


def _to_instances(flows: isl.UnionMap, found: _Gathered) -> isl.UnionMap:
    """Runs of readers as instances, the element kept beside them where it isn't exact."""
    result = _empty()
    for part in maps_of(flows):
        if part.domain_is_wrapping():
            reader = part.domain().unwrap().get_tuple_name(isl.dim_type.in_)
            to = _points(found, reader)
            cells = part.domain().unwrap().range()
            same = isl.Map.identity(cells.get_space().map_from_set()).intersect_domain(cells)
            result = result.union(part.apply_domain(to.product(same)))
        else:
            to = _points(found, part.get_tuple_name(isl.dim_type.in_))
            result = result.union(part.apply_domain(to))
    return result.coalesce()


def _points(found: _Gathered, name: str) -> isl.Map:
    for part in maps_of(found.points):
        if part.get_tuple_name(isl.dim_type.in_) == name:
            return part
    raise PlantError(f"the reads of '{name}' weren't gathered", code="DG299")


def through(flows: isl.UnionMap, copies: Iterable[str]) -> isl.UnionMap:
    """Origins that are copies replaced by the origins of what they copied."""
    names = frozenset(copies)
    result = flows
    for _ in range(8):
        done, pending = _empty(), _empty()
        for part in maps_of(result):
            name = part.get_tuple_name(isl.dim_type.out)
            if name in names:
                pending = pending.union(part.set_tuple_name(isl.dim_type.out, site_name(name, 0)))
            else:
                done = done.union(part)
        if pending.is_empty():
            break
        result = done.union(pending.apply_range(flows))
    return result


def pick(flows: isl.UnionMap, readers: Collection[str]) -> isl.UnionMap:
    """The part of `flows` into the reads with these names."""
    result = _empty()
    for part in maps_of(flows):
        if reader_of(part) in readers:
            result = result.union(part)
    return result


def reader_of(part: isl.Map) -> str:
    if part.domain_is_wrapping():
        return str(part.domain().unwrap().get_tuple_name(isl.dim_type.in_))
    return str(part.get_tuple_name(isl.dim_type.in_))


def readers(flows: isl.UnionMap) -> frozenset[str]:
    return frozenset(map(reader_of, maps_of(flows)))


# --- differences --------------------------------------------------------------------------------------------------


def require_equal(func: Func, wanted: isl.UnionMap, got: isl.UnionMap, *, what: str, remedy: str) -> None:
    """IllegalSchedule (DG201), with a read, the instance whose value it needs, and what it would see instead."""
    if wanted.is_equal(got):
        return
    missing = wanted.subtract(got)
    extra = got.subtract(wanted)
    first = maps_of(missing if not missing.is_empty() else extra)[0]
    reader, origin, params = sample(first.coalesce())
    raise IllegalSchedule(
        _message(func, first, reader, origin, params, extra, lost=not missing.is_empty(), what=what),
        loc=_loc(func, reader_of(first)),
        code="DG201",
        remedy=remedy,
    )


def _message(
    func: Func,
    part: isl.Map,
    reader: tuple[int, ...],
    origin: tuple[int, ...],
    params: dict[str, int],
    extra: isl.UnionMap,
    *,
    lost: bool,
    what: str,
) -> str:
    name, source = reader_of(part), part.get_tuple_name(isl.dim_type.out)
    values = f" for {', '.join(f'{n} = {v}' for n, v in params.items())}" if params else ""
    if part.domain_is_wrapping():
        reader = reader[: part.domain().unwrap().dim(isl.dim_type.in_)]
    sink = _instance(func, name, reader)
    if not lost:
        return f"{what}: {sink} would see a value of {_instance(func, source, origin)}{values}"
    instead = ""
    for other in maps_of(extra):
        if other.get_space().domain().is_equal(part.get_space().domain()):
            hit = other.intersect_domain(_point(part.domain().get_space(), reader, params))
            if not part.domain_is_wrapping() and not hit.is_empty():
                _, writer, _ = sample(hit)
                instead = f", and would see {_instance(func, other.get_tuple_name(isl.dim_type.out), writer)}'s"
                break
    pair = f"{_instance(func, source, origin)} -> {sink}"
    return f"{what}: {pair}{values}: the second needs the value of the first{instead}"


def _point(space: isl.Space, values: tuple[int, ...], params: dict[str, int]) -> isl.Set:
    point = isl.Set.universe(space)
    if space.dim(isl.dim_type.set) != len(values):
        return point
    for k, value in enumerate(values):
        point = point.fix_val(isl.dim_type.set, k, isl.Val(value))
    for k in range(space.dim(isl.dim_type.param)):
        name = space.get_dim_name(isl.dim_type.param, k)
        point = point.fix_val(isl.dim_type.param, k, isl.Val(params.get(name, 0)))
    return point


def _instance(func: Func, name: str, values: tuple[int, ...]) -> str:
    text = ",".join(map(str, values))
    if name.startswith(FINAL):
        return f"the result {name[len(FINAL) :]}[{text}]"
    if name.startswith(FIRST):
        return f"{name[len(FIRST) :]}[{text}] as it was at the start"
    statement = name.split("#")[0]
    where = _loc(func, name)
    return f"{statement}[{text}]" + (f" (line {where.line})" if where is not None else "")


def _loc(func: Func, name: str) -> Loc | None:
    if name.startswith((FINAL, FIRST)):
        return None
    statement = name.split("#")[0]
    return next((s.loc for s in statements(func) if s.name == statement), None)


# --- parameters known only at run time ----------------------------------------------------------------------------


def run_time(func: Func) -> frozenset[str]:
    """The parameters that computations define."""
    return frozenset(c.defines for c in func.comps if c.defines is not None)


def refuse_moving(func: Func, buf: Buf) -> None:
    """Where elements written depend on run-time values, two iterations' elements can't be told apart."""
    unknown = run_time(func)
    for comp in func.comps:
        if comp.target.buf != buf.name or not unknown:
            continue
        relation = access_map(comp, comp.target)[0]
        free = isl.Map.universe(relation.get_space())
        cells = relation.gist(isl.Map.from_domain_and_range(domain_of(comp), free.range()))
        for k in range(cells.dim(isl.dim_type.param)):
            if cells.get_dim_name(isl.dim_type.param, k) in unknown and cells.involves_dims(isl.dim_type.param, k, 1):
                raise PlantError(
                    f"{comp.name} writes elements of '{buf.name}' that depend on "
                    f"'{cells.get_dim_name(isl.dim_type.param, k)}', which is known only at run time",
                    loc=comp.loc,
                    code="DG213",
                    remedy="leave this array where it is",
                )
