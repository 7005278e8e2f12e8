"""Statements and loops split where that breaks the circles of dependences that keep loops from the lanes.

`split_reads` (node splitting): a value that a later iteration overwrites is read beforehand, by a statement of its own.
Before: for i { a[i] = b[i] * c[i]; d[i] = a[i] + a[i + 1]; }
After:  for i { t[i] = a[i + 1]; a[i] = b[i] * c[i]; d[i] = a[i] + t[i]; }

`split_loops` (index-set splitting): a loop whose dependences all cross one iteration is two loops, of which none
carries them.
Before: for i < 100: a[i] = a[99 - i] + b[i];
After:  for i < 50: a[i] = a[99 - i] + b[i];  for 50 <= i < 100: a[i] = a[99 - i] + b[i];
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.analysis.dependence import Dependence, flows, memory_dependences
from plant_core.ir.accesses import access_key, accesses, all_bufs, children, from_linear, read_accesses, rebuild
from plant_core.ir.func import Buf, Comp, Expr, Func, Load
from plant_core.ir.time_2d1 import Line, Loop, Position, common_loops, position, schedule_map, shared_depth
from plant_core.support.components import strong_components

# Elements that the values read beforehand may take up.
_MOST_ELEMENTS = 65536
_FEWEST_ITERATIONS = 4


def split(func: Func) -> Func:
    """`func` with reads and loops split where it helps; the same contents of every parameter. Requires: 2d+1 schedules,
    loops of unit step."""
    if func.effects or any(c.defines for c in func.comps):
        return func
    return split_loops(split_reads(func))


# --- reads --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Read:
    """An access of `reader` whose value is to be fetched before `writer` runs, in the loops that both share."""

    reader: Comp
    access: Load
    writer: Comp


def split_reads(func: Func) -> Func:
    """Reads of old values in statements of their own, where these take statements out of a circle."""
    known = _hard(memory_dependences(func))
    for read in _candidates(func, known):
        if read.reader.name not in _circle(known, read.writer.name):
            continue
        changed = _with_read(func, read)
        if changed is None or not _same_flow(func, changed, read):
            continue
        other = {c.name for c in changed.comps if c not in func.comps}
        after = [d for d in known if d.source not in other and d.sink not in other]
        after += _hard(memory_dependences(changed, of=other))
        if read.reader.name not in _circle(after, read.writer.name) or _inside(after) < _inside(known):
            func, known = changed, after
    return func


def _hard(known: Sequence[Dependence]) -> list[Dependence]:
    return [d for d in known if not d.reduction]


def _candidates(func: Func, known: Sequence[Dependence]) -> Iterator[_Read]:
    """Reads whose element another statement of a shared loop overwrites later, that statement being first in it."""
    comps = {c.name: c for c in func.comps}
    for d in known:
        reader, writer = comps[d.source], comps[d.sink]
        depth = shared_depth(position(reader), position(writer))
        if d.kind != "anti" or reader is writer or depth == 0 or depth != len(reader.iters):
            continue
        for access in dict.fromkeys(read_accesses(reader)):
            if access.buf == d.buf and access.indices and access_key(access) != access_key(reader.target):
                yield _Read(reader, access, writer)


def _circles(known: Sequence[Dependence]) -> list[list[str]]:
    return strong_components((), ((d.source, d.sink) for d in known))


def _circle(known: Sequence[Dependence], name: str) -> frozenset[str]:
    """The statements that depend on this one and it on them."""
    found = next((c for c in _circles(known) if name in c), [name])
    return frozenset(found)


def _inside(known: Sequence[Dependence]) -> int:
    """How many dependences lie within circles of several statements."""
    place = {n: k for k, part in enumerate(_circles(known)) for n in part}
    return sum(place[d.source] == place[d.sink] and d.source != d.sink for d in known)


def _with_read(func: Func, read: _Read) -> Func | None:
    """The access in a statement of its own, before all others in the innermost loop of the reader; None where the
    values would be too many to keep, or how many is not known."""
    reader = next(c for c in func.comps if c.name == read.reader.name)
    if not any(access_key(a) == access_key(read.access) for a in accesses(reader.value)):
        return None
    ranges = [(reader.domain.dim_min_val(k), reader.domain.dim_max_val(k)) for k in range(len(reader.iters))]
    if not all(low.is_int() and high.is_int() for low, high in ranges):
        return None
    lows = [low.to_python() for low, _ in ranges]
    shape = tuple(high.to_python() - low + 1 for (_, high), low in zip(ranges, lows, strict=True))
    elements = 1
    for extent in shape:
        elements *= extent
    if not 0 < elements <= _MOST_ELEMENTS:
        return None
    names = {*all_bufs(func), *(p.name for p in func.params)}
    buf = Buf(fresh(f"{read.access.buf}_old", names), read.access.dtype, shape, "local", loc=reader.loc)
    index = tuple(from_linear((-low, {name: 1})) for name, low in zip(reader.iters, lows, strict=True))
    kept = Load(buf.name, index, read.access.dtype, read.access.loc)
    name = fresh(f"{reader.name}_read", {c.name for c in func.comps})
    place = position(reader)
    depth = len(reader.iters)
    first = min(p.constants[depth] for c in func.comps if shared_depth(p := position(c), place) >= depth)
    earlier = Position((*place.constants[:depth], first - 1), place.loops)
    fetch = replace(reader, name=name, target=kept, value=read.access, domain=named(reader.domain, name))
    schedule = schedule_map(fetch, earlier, reader.schedule.dim(isl.dim_type.out)).intersect_domain(fetch.domain)
    fetch = replace(fetch, schedule=schedule)
    using = replace(reader, value=_replaced(reader.value, read.access, kept))
    comps: list[Comp] = []
    for comp in func.comps:
        comps += [fetch, using] if comp is reader else [comp]
    return replace(func, comps=tuple(comps), bufs=(*func.bufs, buf))


def named(domain: isl.Set, name: str) -> isl.Set:
    return domain.set_tuple_name(name) if domain.has_tuple_name() else domain


def _replaced(expr: Expr, old: Load, new: Load) -> Expr:
    if isinstance(expr, Load) and access_key(expr) == access_key(old):
        return new
    parts = children(expr)
    return rebuild(expr, tuple(_replaced(p, old, new) for p in parts)) if parts else expr


def fresh(name: str, used: set[str]) -> str:
    number, found = 0, name
    while found in used:
        number += 1
        found = f"{name}_{number}"
    return found


def _same_flow(before: Func, after: Func, read: _Read) -> bool:
    """Whether the statement that reads beforehand sees what the reader saw."""
    fetch = next(c for c in after.comps if c.name not in {b.name for b in before.comps})
    reader = read.reader.name
    number = [access_key(a) for a in read_accesses(before.comp(reader))].index(access_key(read.access))
    then = {f.source: f.relation for f in flows(before, reader=reader) if f.access == number}
    now = {f.source: f.relation for f in flows(after, reader=fetch.name)}
    if then.keys() != now.keys():
        return False
    return all(then[n].is_equal(now[n].set_tuple_name(isl.dim_type.out, reader)) for n in then)


# --- loops --------------------------------------------------------------------------------------------------------


def split_loops(func: Func) -> Func:
    """Innermost loops in two at an iteration that all their dependences cross."""
    known = _hard(memory_dependences(func))
    for loop in innermost(common_loops(func)):
        at = _crossing(func, loop, known)
        if at is not None:
            func = in_two(func, loop, at)
    return func


def innermost(loops: Sequence[Loop]) -> Iterator[Loop]:
    """The loops that hold no others."""
    for loop in loops:
        if loop.children:
            yield from innermost(loop.children)
        else:
            yield loop


def _crossing(func: Func, loop: Loop, known: Sequence[Dependence]) -> int | None:
    """The first iteration of the second half; None where there are no such dependences, or none but these cross."""
    iterators = dict(loop.members)
    if any(len(func.comp(name).iters) != loop.depth + 1 for name in iterators):
        return None
    if any(position(func.comp(n)).loops[loop.depth] != Line(0, ((i, 1),)) for n, i in loop.members):
        return None
    lasts, firsts = [], []
    for d in known:
        if not {d.source, d.sink} <= iterators.keys() or (d.kind == "anti" and d.source == d.sink):
            continue
        pairs = d.relation
        for k in range(loop.depth):
            pairs = pairs.equate(isl.dim_type.in_, k, isl.dim_type.out, k)
        same = pairs.equate(isl.dim_type.in_, loop.depth, isl.dim_type.out, loop.depth)
        if (pairs := pairs.subtract(same)).is_empty():
            continue
        lasts.append(pairs.domain().dim_max_val(loop.depth))
        firsts.append(pairs.range().dim_min_val(loop.depth))
    if not lasts or not all(v.is_int() for v in (*lasts, *firsts)):
        return None
    at = int(min(v.to_python() for v in firsts))
    domains = [func.comp(name).domain for name in iterators]
    ends = [(d.dim_min_val(loop.depth), d.dim_max_val(loop.depth)) for d in domains]
    if not all(low.is_int() and high.is_int() for low, high in ends):
        return None
    longest = max(max(at - low.to_python(), high.to_python() - at + 1) for low, high in ends)
    return at if max(v.to_python() for v in lasts) < at and longest >= _FEWEST_ITERATIONS else None


def one_way(func: Func, loop: Loop) -> bool:
    """Whether an iteration has one number in all statements of the loop, and these go up in all of them, or down."""
    lines = [(position(func.comp(name)).loops[loop.depth], iterator) for name, iterator in loop.members]
    return any(all(line == Line(0, ((iterator, step),)) for line, iterator in lines) for step in (1, -1))


def in_two(func: Func, loop: Loop, at: int) -> Func:
    """`func` with the loop in two, its iterations from `at` on apart: all positions doubled, those of the half that
    runs later are odd. Requires: `one_way(func, loop)`."""
    members = dict(loop.members)
    names = {c.name for c in func.comps}
    comps: list[Comp] = []
    for comp in func.comps:
        place = position(comp)
        doubled = Position(tuple(2 * c for c in place.constants), place.loops)
        if comp.name not in members:
            comps.append(_placed(comp, comp.domain, doubled, comp.name))
            continue
        before = comp.domain.upper_bound_val(isl.dim_type.set, loop.depth, isl.Val(at - 1))
        after = comp.domain.lower_bound_val(isl.dim_type.set, loop.depth, isl.Val(at))
        constants = list(doubled.constants)
        constants[loop.depth] += 1
        name = fresh(f"{comp.name}_then", names)
        names.add(name)
        first, second = (before, after) if place.loops[loop.depth].terms[0][1] > 0 else (after, before)
        halves = ((first, doubled, comp.name), (second, replace(doubled, constants=tuple(constants)), name))
        comps += [_placed(comp, d, p, n) for d, p, n in halves if not d.is_empty()]
    return func.with_comps(tuple(comps))


def _placed(comp: Comp, domain: isl.Set, place: Position, name: str) -> Comp:
    new = replace(comp, name=name, domain=named(domain, name))
    schedule = schedule_map(new, place, comp.schedule.dim(isl.dim_type.out)).intersect_domain(new.domain)
    return replace(new, schedule=schedule)
