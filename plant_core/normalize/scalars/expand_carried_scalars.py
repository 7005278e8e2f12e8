"""Scalars whose values reach the next iteration of a loop, kept in arrays of one element for each iteration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

import islpy as isl

from plant_core.analysis.dependence import Flow, flows, memory_dependences
from plant_core.analysis.linear_recurrences import recurrence_of
from plant_core.ir.accesses import (
    access_key,
    access_map,
    accesses,
    children,
    domain_of,
    integer,
    is_integer,
    read_accesses,
    rebuild,
    sub,
)
from plant_core.ir.func import Buf, Comp, Expr, Func, Iter, Load
from plant_core.ir.time_2d1 import Line, Position, line_value, position, schedule_map

MOST_ELEMENTS = 1 << 16
"""Elements that the array of one scalar may have."""


def expand_carried(func: Func) -> Func:
    """Give every iteration its own element of a scalar that the next iteration reads, and write it first.

    Before: `x = b[n-1]; for i { a[i] = b[i] + x; x = b[i]; }`. After: `x[0] = b[n-1]; for i { x[i+1] = b[i];
    a[i] = b[i] + x[i]; }`. Requires: 2d+1 schedules of unit step. Ensures: the same contents of every parameter.
    Left as they are: loops whose bounds aren't numbers, and scalars that are made of their own former values, which no
    copies could free.
    """
    for buf in func.bufs:
        if buf.kind == "local" and buf.shape == () and not func.effects and _crosses(func, buf):
            known = flows(func, local=True)
            found = _expansion(func, buf, known)
            if found is not None:
                func = _ahead(_expanded(func, buf, found), found) or func
    return func


def expand_running(func: Func, *, reassoc: bool) -> Func:
    """Give every iteration its own element of a scalar that runs on by a recurrence, where others in its loop read it.

    Before: `for i { s = s + x[i]; y[i] = s; }`. After: `for i { s[i+1] = s[i] + x[i]; y[i] = s[i+1]; }`. Requires: 2d+1
    schedules of unit step. Ensures: the same contents of every parameter. Left as they are: floats without `reassoc`,
    whose order no lanes could keep, and loops inside others, which may keep a scalar each.
    """
    for buf in func.bufs:
        if buf.kind != "local" or buf.shape != () or func.effects or not (reassoc or is_integer(buf.dtype)):
            continue
        writers = [c for c in func.comps if c.target.buf == buf.name and c.iters]
        if len(writers) != 1 or len(writers[0].iters) != 1:
            continue
        name = writers[0].name
        found = _expansion(func, buf, flows(func, local=True), running=True)
        if found is None or not any(c != name and n >= 0 and c in found.inside for c, n in found.offsets):
            continue
        new = _expanded(func, buf, found)
        if recurrence_of(new.comp(name), writers[0].iters[0]) is not None:
            func = new
    return func


def _crosses(func: Func, buf: Buf) -> bool:
    """Whether a Comp may read the scalar before the last one that writes it in the same body: what comes cheap."""
    writers = [position(c).constants for c in func.comps if c.target.buf == buf.name and c.iters]
    readers = [(c.name, position(c).constants) for c in func.comps if any(a.buf == buf.name for a in accesses(c.value))]
    return any(r[: len(w) - 1] == w[:-1] and r < w for w in writers for _, r in readers)


# --- loads at a carried subscript ---------------------------------------------------------------------------------


def with_carried_loads(func: Func) -> Func:
    """Carry the element that the next iteration reads along with its subscript.

    Before: `for i { a[i] = b[i] + b[k]; k = i; }`. After: `v = b[k]; for i { a[i] = b[i] + v; k = i; v = b[i]; }`, the
    last load only where the subscript's next value is known to be inside the array. Requires: 2d+1 schedules of unit
    step. Ensures: the same contents of every parameter. Left as they are: arrays that the function writes.
    """
    if func.effects:
        return func
    written = {c.target.buf for c in func.comps}
    for buf in func.bufs:
        if buf.kind != "local" or buf.shape or buf.dtype != "i32" or not _crosses(func, buf):
            continue
        found = _expansion(func, buf, flows(func, local=True))
        loads = [a for c in func.comps for a in accesses(c.value) if _follows(a, buf.name) and a.buf not in written]
        if found is not None and loads:
            carried = _with_load(func, buf, found, loads[0])
            if carried is not None:
                return with_carried_loads(carried)
    return func


def _follows(access: Load, scalar: str) -> bool:
    return len(access.indices) == 1 and isinstance(access.indices[0], Load) and access.indices[0].buf == scalar


def _with_load(func: Func, buf: Buf, found: _Expansion, load: Load) -> Func | None:
    """The value of `load` in a scalar that every writer of its subscript sets too."""
    key = access_key(load)
    readers = [c for c in func.comps if any(access_key(a) == key for a in accesses(c.value))]
    writers = [c for c in func.comps if c.target.buf == buf.name]
    writer = func.comp(found.writer)
    at = {c.name: position(c) for c in func.comps}
    safe = all(_known_inside(func, w, load) for w in writers)
    for reader in readers:
        ahead = at[reader.name].constants < at[writer.name].constants
        if at[reader.name].constants[:-1] != at[writer.name].constants[:-1] or not ahead:
            return None
        if not safe and not _where(reader).is_equal(_where(writer)):
            return None
    if len(writers) != 2 or any(c.iters for c in writers if c is not writer):
        return None
    taken = {b.name for b in func.bufs} | {p.name for p in func.params} | {c.name for c in func.comps}
    names = (f"{load.buf}_{buf.name}_{n}" for n in count(1))
    scalar = next(n for n in names if n not in taken)
    comps = []
    for comp in func.comps:
        if comp in readers:
            comp = replace(comp, value=_exchanged(comp.value, key, Load(scalar, (), load.dtype, load.loc)))
        place = at[comp.name]
        comps.append((comp, Position(tuple(2 * c for c in place.constants), place.loops)))
        if comp.target.buf == buf.name:
            name = f"{comp.name}_{scalar}"
            domain = domain_of(comp).set_tuple_name(name)
            if comp.iters and not safe:
                high = isl.Val(found.low + found.count - 2)
                domain = domain.upper_bound_val(isl.dim_type.set, found.depth, high)
            made = replace(
                comp,
                name=name,
                domain=domain,
                target=Load(scalar, (), load.dtype, load.loc),
                value=replace(load, indices=(comp.value,)),
            )
            constants = (*(2 * c for c in place.constants[:-1]), 2 * place.constants[-1] + 1)
            comps.append((made, Position(constants, place.loops)))
    length = max(2 * len(c.iters) + 1 for c, _ in comps)
    timed = (replace(c, schedule=schedule_map(c, p, length).intersect_domain(domain_of(c))) for c, p in comps)
    new = Buf(scalar, load.dtype, (), "local", loc=load.loc)
    return replace(func, comps=tuple(timed), bufs=(*func.bufs, new))


def _where(comp: Comp) -> isl.Set:
    return domain_of(comp).set_tuple_name("X")


def _known_inside(func: Func, writer: Comp, load: Load) -> bool:
    """Whether the subscript that `writer` sets is an element of the array in every iteration."""
    extent = func.buf(load.buf).shape[0]
    reached, exact = access_map(writer, replace(load, indices=(writer.value,)))
    if not exact or not isinstance(extent, int):
        return False
    low, high = reached.range().dim_min_val(0), reached.range().dim_max_val(0)
    return bool(low.is_int() and high.is_int() and low.to_python() >= 0 and high.to_python() < extent)


def _exchanged(expr: Expr, key: tuple[str, tuple[Expr, ...]], value: Expr) -> Expr:
    if isinstance(expr, Load) and access_key(expr) == key:
        return value
    parts = children(expr)
    return rebuild(expr, tuple(_exchanged(p, key, value) for p in parts)) if parts else expr


# --- expansion ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Expansion:
    """The loop at `depth` of `writer`, from iteration `low`, `count` of them; the element of each access to the scalar
    (by Comp, and -1 for its write or the read's number): `iterator - low + offset`, or just a number outside."""

    writer: str
    depth: int
    low: int
    count: int
    offsets: dict[tuple[str, int], int]
    inside: frozenset[str]


def _expansion(func: Func, buf: Buf, known: tuple[Flow, ...], *, running: bool = False) -> _Expansion | None:
    """`running`: the writer may continue its own value, if it does so directly."""
    comps = {c.name: c for c in func.comps}
    at = {c.name: position(c) for c in func.comps}
    mine = [f for f in known if f.buf == buf.name]
    inner = [c for c in func.comps if c.target.buf == buf.name and c.iters]
    if len(inner) != 1:
        return None
    writer = inner[0]
    depth = len(writer.iters) - 1
    prefix = at[writer.name].constants[: depth + 1]
    inside = {name for name, place in at.items() if len(place.loops) > depth and place.constants[: depth + 1] == prefix}
    touching = [c for c in func.comps if c.target.buf == buf.name or any(a.buf == buf.name for a in accesses(c.value))]
    if any(_line(at[c.name], c, depth) != Line(0, ((c.iters[depth], 1),)) for c in touching if c.name in inside):
        return None
    low, high = domain_of(writer).dim_min_val(depth), domain_of(writer).dim_max_val(depth)
    if not low.is_int() or not high.is_int() or _recurs(writer.name, inside, known, running):
        return None
    first, number = low.to_python(), high.to_python() - low.to_python() + 1
    if number + 1 > MOST_ELEMENTS:
        return None
    offsets: dict[tuple[str, int], int] = {}
    for comp in touching:
        if comp.target.buf == buf.name:
            offsets[comp.name, -1] = 1 if comp.name in inside else 0
        for k, access in enumerate(read_accesses(comp)):
            if access.buf == buf.name:
                after = at[comp.name].constants > at[writer.name].constants
                outside = number if after else 0
                offsets[comp.name, k] = (1 if after else 0) if comp.name in inside else outside
    found = _Expansion(writer.name, depth, first, number, offsets, frozenset(inside))
    # What a subscript of the target reads has no offset.
    exact = all((f.sink, f.access) in offsets and _same_element(found, comps[f.source], comps[f.sink], f) for f in mine)
    return found if exact else None


def _line(place: Position, comp: Comp, depth: int) -> Line:
    return place.loops[depth]


def _recurs(writer: str, inside: set[str], known: tuple[Flow, ...], directly: bool) -> bool:
    """Whether the writer's value is made of what it wrote before, within the loop; its own statement may `directly`."""
    onward: dict[str, set[str]] = {}
    for flow in known:
        if flow.source in inside and flow.sink in inside and not (directly and flow.source == flow.sink == writer):
            onward.setdefault(flow.source, set()).add(flow.sink)
    reached: set[str] = set()
    pending = [writer]
    while pending:
        new = onward.get(pending.pop(), set()) - reached
        reached |= new
        pending += sorted(new)
    return writer in reached


def _same_element(found: _Expansion, source: Comp, sink: Comp, flow: Flow) -> bool:
    written = _element(found, source, -1)
    read = _element(found, sink, flow.access)
    return bool(flow.relation.is_subset(written.eq_map(read)))


def _element(found: _Expansion, comp: Comp, access: int) -> isl.PwAff:
    offset = found.offsets[comp.name, access]
    if comp.name not in found.inside:
        return line_value(comp, Line(offset, ()))
    return line_value(comp, Line(offset - found.low, ((comp.iters[found.depth], 1),)))


def _expanded(func: Func, buf: Buf, found: _Expansion) -> Func:
    def subscript(comp: Comp, number: int) -> Expr:
        offset = found.offsets[comp.name, number]
        return (
            sub(Iter(comp.iters[found.depth]), integer(found.low - offset))
            if comp.name in found.inside
            else integer(offset)
        )

    comps = []
    for comp in func.comps:
        keys = {access_key(a): k for k, a in enumerate(read_accesses(comp)) if a.buf == buf.name}

        def change(expr: Expr, comp: Comp = comp, keys: dict[tuple[str, tuple[Expr, ...]], int] = keys) -> Expr:
            parts = children(expr)
            new = rebuild(expr, tuple(change(p) for p in parts)) if parts else expr
            if isinstance(new, Load) and isinstance(expr, Load) and access_key(expr) in keys:
                return replace(new, indices=(subscript(comp, keys[access_key(expr)]),))
            return new

        target = comp.target
        if target.buf == buf.name:
            target = replace(target, indices=(subscript(comp, -1),))
        comps.append(replace(comp, target=target, value=change(comp.value)))
    bufs = tuple(replace(b, shape=(found.count + 1,)) if b.name == buf.name else b for b in func.bufs)
    return replace(func, comps=tuple(comps), bufs=bufs)


def _ahead(func: Func, found: _Expansion) -> Func | None:
    """The writer put before all that read the scalar in its body; None where other dependences forbid it."""
    at = {c.name: position(c) for c in func.comps}
    writer = func.comp(found.writer)
    level = found.depth + 1
    readers = {name for name, number in found.offsets if number >= 0 and name in found.inside}
    first = min((at[name].constants[level] for name in readers), default=0)
    own = at[writer.name].constants[level]
    between = {n for n in found.inside if first <= at[n].constants[level] < own}
    for dependence in memory_dependences(func):
        if dependence.sink != writer.name or dependence.source not in between:
            continue
        source = func.comp(dependence.source)
        pairs = dependence.relation
        for k in range(level):
            first_value = line_value(source, at[source.name].loops[k])
            pairs = pairs.intersect(first_value.eq_map(line_value(writer, at[writer.name].loops[k])))
        if not pairs.is_empty():
            return None
    comps = []
    for comp in func.comps:
        place = at[comp.name]
        constants = [2 * c + 1 if k == level else c for k, c in enumerate(place.constants)]
        if comp.name == writer.name:
            constants[level] = 2 * first
        length = comp.schedule.dim(isl.dim_type.out)
        moved = schedule_map(comp, Position(tuple(constants), place.loops), length)
        comps.append(replace(comp, schedule=moved.intersect_domain(domain_of(comp))))
    names = [c.name for c in comps]
    start = min(names.index(n) for n in between) if between else names.index(writer.name)
    moved_comp = comps.pop(names.index(writer.name))
    comps.insert(start, moved_comp)
    return func.with_comps(tuple(comps))
