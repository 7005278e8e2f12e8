"""Where arrays live: in which memory, and for how long."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from plant_core.ir.func import Alloc, Buf, Comp, Effect, Free, Func, Location, Memcpy
from plant_core.ir.scheduled import Nest, Scheduled, padded
from plant_core.schedule.memory import last_writer as flows
from plant_core.schedule.memory.access_sites import as_load, buffer, refuse_location, sites, statements
from plant_core.schedule.memory.copy_scope import frame
from plant_core.schedule.memory.isl_expressions import in_context, sample
from plant_core.schedule.memory.rebase import length_of
from plant_core.support.location import IllegalSchedule, PlantError

_FIXED: frozenset[Location] = frozenset({"stack", "gpu_shared", "gpu_local", "gpu_constant"})


def set_loc(s: Scheduled, buf: str, location: Location) -> Scheduled:
    """Keep the array `buf` in another memory.

    Before: `float t[64];` on the heap. After `set_loc(s, "t", "gpu_shared")`: `__shared__ float t[64];`.
    Errors: IllegalSchedule (DG201) where a value would pass between the GPU blocks ("gpu_shared") or threads
    ("gpu_local") that each have an array of their own then; PlantError (DG216) for a parameter that can't be there,
    a constant memory that statements write, or (DG205) an extent that isn't a number. Source: PLANT, Table 3.2.
    """
    refuse_location(location)
    array = buffer(s.func, buf)
    if array.kind == "param" and location in ("stack", "gpu_shared", "gpu_local"):
        raise PlantError(
            f"'{buf}' comes from the caller, and can't be in '{location}'",
            loc=array.loc,
            code="DG216",
            remedy="copy what is needed of it, with cache_identity",
        )
    if location in _FIXED:
        _ = array.extents
    if location == "gpu_constant":
        for comp in s.func.comps:
            if comp.target.buf == buf:
                raise PlantError(
                    f"{comp.name} writes '{buf}', which can't be in constant memory then",
                    loc=comp.loc,
                    code="DG216",
                    remedy="keep arrays there that no statement writes",
                )
    if location in ("gpu_shared", "gpu_local"):
        _check_threads(s, array, location)
    return with_buf(s, replace(array, location=location))


def with_buf(s: Scheduled, buf: Buf) -> Scheduled:
    """The array of the same name replaced by `buf`, here and in the origin."""

    def changed(func: Func) -> Func:
        bufs = tuple(buf if b.name == buf.name else b for b in func.bufs)
        return replace(func, bufs=bufs, params=tuple(buf if p.name == buf.name else p for p in func.params))

    origin = None if s.origin is None else with_buf(s.origin, buf)
    return replace(s, func=changed(s.func), origin=origin)


def _check_threads(s: Scheduled, buf: Buf, location: Location) -> None:
    kinds = ("gpu_block", "gpu_thread") if location == "gpu_local" else ("gpu_block",)
    for passing in flows.passing(s, frozenset({buf.name})):
        reader, writer = s.nest(passing.reader.split("#")[0]), s.nest(passing.writer)
        first, second = _lanes(reader, kinds), _lanes(writer, kinds)
        if set(first) != set(second):
            raise _passes(s.func, passing, buf, passing.times, f"'{location}' isn't shared by all of them")
        for tag in sorted(first):
            apart = passing.times.subtract(
                isl.Map.universe(passing.times.get_space()).equate(
                    isl.dim_type.in_, 2 + 2 * first[tag], isl.dim_type.out, 2 + 2 * second[tag]
                )
            )
            if not apart.is_empty():
                raise _passes(s.func, passing, buf, apart, f"each {tag[4:].split('_')[0]} has '{location}' to itself")


def _lanes(nest: Nest, kinds: tuple[str, ...]) -> dict[str, int]:
    return {tag: nest.depth(loop) for loop, tag in nest.tags if tag.startswith(kinds)}


def _passes(func: Func, passing: flows.Passing, buf: Buf, times: isl.Map, why: str) -> IllegalSchedule:
    read, written, _ = sample(times)
    reader = passing.reader.split("#")[0]
    ends = {c.name: c.loc for c in statements(func)}
    return IllegalSchedule(
        f"a value passes through '{buf.name}' from {passing.writer} (line {ends[passing.writer].line}) "
        f"at {_loops(written)} to {reader} (line {ends[reader].line}) at {_loops(read)}, but {why}",
        loc=ends[reader],
        code="DG201",
        remedy="choose a memory that lasts longer, or a loop further out",
    )


def _loops(time: tuple[int, ...]) -> str:
    """The loops' values in a time that has a dimension more at either end."""
    return f"[{','.join(map(str, time[2:-1:2]))}]"


def alloc_at(s: Scheduled, buf: str, name: str, loop: str) -> Scheduled:
    """Give each iteration of loop `loop` of statement `name` the local array `buf` to itself.

    Before: `float t[8]; for i { t[..] = ..; .. = t[..] }`. After `alloc_at(s, "t", "S0", "i")`:
    `for i { float t[8]; t[..] = ..; .. = t[..] }`, so that iterations may run in parallel.
    Errors: IllegalSchedule (DG201) where a value passes from one iteration to another, or the array is used outside
    of the loop; PlantError (DG216) for a parameter. Source: PLANT, Table 3.2.
    """
    array = buffer(s.func, buf)
    if array.kind == "param":
        raise PlantError(
            f"'{buf}' comes from the caller, and isn't allocated here",
            loc=array.loc,
            code="DG216",
            remedy="name a local array",
        )
    place = frame(s, name, loop)
    length = length_of(s)
    inside = place.prefixes.range()
    users = [x for x in statements(s.func) if _uses(s.func, x, buf)]
    for user in users:
        domain = in_context(user.domain.set_tuple_name(user.name), s.func.context)
        times = padded(s.nest(user.name).relation.intersect_domain(domain), length)
        prefix = times.project_out(isl.dim_type.out, place.level, length - place.level)
        if not prefix.range().is_subset(inside):
            raise IllegalSchedule(
                f"{user.name} (line {user.loc.line}) uses '{buf}' outside of the loop '{loop}' of {name}",
                loc=user.loc,
                code="DG201",
                remedy="choose a loop further out that has all of its uses",
            )
    for passing in flows.passing(s, frozenset({buf})):
        same = isl.Map.universe(passing.times.get_space())
        for k in range(1, place.level + 1):
            same = same.equate(isl.dim_type.in_, k, isl.dim_type.out, k)
        apart = passing.times.subtract(same)
        if not apart.is_empty():
            raise _passes(s.func, passing, array, apart, f"each iteration of '{loop}' would have it to itself")
    return with_buf(s, replace(array, alloc_at=(name, loop)))


def recheck(s: Scheduled, *names: str) -> None:
    """What `set_loc` and `alloc_at` promised of these arrays, after a change to the program."""
    for name in names:
        array = buffer(s.func, name)
        if array.alloc_at is not None:
            alloc_at(s, name, *array.alloc_at)
        if array.location in ("gpu_shared", "gpu_local"):
            _check_threads(s, array, array.location)


def _uses(func: Func, statement: Comp | Effect, buf: str) -> bool:
    if isinstance(statement, Comp):
        return statement.target.buf == buf or any(as_load(func, x).buf == buf for x in sites(statement))
    match statement.action:
        case Memcpy(to=to, source=source):
            return buf in (to, source)
        case Alloc(buf=name) | Free(buf=name):
            return buf == name
        case _:
            return False
