"""Copies between an array and its cache, put round a statement inside one of its loops, and the proof that they keep
every value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.ir.accesses import access_map
from plant_core.ir.func import Buf, Comp, Effect, Expr, Func, Load, Verbatim
from plant_core.ir.loop_tree import Tag
from plant_core.ir.scheduled import Nest, Scheduled
from plant_core.schedule.memory import last_writer as flows
from plant_core.schedule.memory.access_sites import Site, fresh, replaced
from plant_core.schedule.memory.copy_scope import Frame
from plant_core.schedule.memory.isl_expressions import box, in_context, values_at
from plant_core.schedule.memory.placement import recheck
from plant_core.schedule.memory.rebase import rebased, with_slots
from plant_core.support.location import PlantError

SYNC = Verbatim("__syncthreads();")


@dataclass(frozen=True, slots=True)
class Copy:
    """`to = source` for `iters` in a box of `extents`, where `source` (when loading) or `to` (when storing back) is
    one of `cells`, elements of the array from the outer loops' values; None: for all of the box."""

    name: str
    iters: tuple[str, ...]
    extents: tuple[int, ...]
    to: Load
    source: Load
    back: bool
    cells: isl.Map | None


@dataclass(frozen=True, slots=True)
class Plan:
    """For each statement, `use` has the new place of each replaced site, and `target` the one of its result."""

    of: str
    buf: Buf
    copies: tuple[Copy, ...]
    use: Mapping[str, Mapping[int, Load]]
    target: Mapping[str, Load]


@dataclass(frozen=True, slots=True)
class _Thread:
    loop: str
    tag: Tag
    first: int
    count: int


def install(s: Scheduled, frame: Frame, plan: Plan) -> Scheduled:
    """Add the copies, redirect the statements, and check that every read gets the value that it got before.

    IllegalSchedule (DG201) where one doesn't: another statement writes the element between copy and use, say, or the
    layout puts two elements in one place.
    """
    func = replace(s.func, bufs=(*s.func.bufs, plan.buf))
    copies = {c.name: _comp(s.func, frame, c) for c in plan.copies}
    threads = _threads(s, frame) if plan.buf.location == "gpu_shared" else ()
    loads = [c for c in plan.copies if not c.back]
    stores = [c for c in plan.copies if c.back]
    effects, slots = _syncs(func, frame, threads, bool(loads), bool(stores))
    shared = _shared_sync(s, frame) if threads and not stores else None
    if shared is not None:
        effects, slots = (), [0]
    nests, starts, ends = _make_room(s.nests, frame, len(loads), len(stores), slots, shared)
    new: list[Nest] = []
    for k, copy in enumerate(loads):
        position = _moved(starts, -(len(loads) - k) - slots[0])
        new.append(_nest(frame, copies[copy.name], copy, _timed(frame, frame.first, position), threads))
    for k, copy in enumerate(stores):
        position = _moved(ends, 1 + slots[1] + k)
        new.append(_nest(frame, copies[copy.name], copy, _timed(frame, frame.last, position), threads))
    for effect, before, offset in effects:
        position = _moved(starts if before else ends, offset)
        times = _timed(frame, frame.first if before else frame.last, position)
        new.append(Nest(effect.name, frame.outer, times.set_tuple_name(isl.dim_type.in_, effect.name), _tags(frame)))
    comps = tuple(_redirected(c, plan) if c.name in plan.use else c for c in func.comps)
    func = replace(
        func,
        comps=(*comps, *copies.values()),
        effects=(*func.effects, *(e for e, _, _ in effects)),
    )
    after = rebased(s, func, (*nests, *new))
    _inside(func, plan, copies)
    verify(s, after, plan)
    recheck(after, plan.of, plan.buf.name)
    return after


def _redirected(comp: Comp, plan: Plan) -> Comp:
    def place(number: int, site: Site) -> Expr | None:
        load = plan.use[comp.name].get(number)
        return None if load is None else replace(load, loc=site.loc)

    moved = replaced(comp, place)
    target = plan.target.get(comp.name)
    return moved if target is None else replace(moved, target=replace(target, loc=comp.target.loc))


def _comp(func: Func, frame: Frame, copy: Copy) -> Comp:
    names = (*frame.outer, *copy.iters)
    outer = len(frame.outer)
    space = frame.iterations.add_dims(isl.dim_type.set, len(copy.iters))
    domain = space.set_tuple_name(copy.name)
    for k, extent in enumerate(copy.extents):
        domain = domain.lower_bound_val(isl.dim_type.set, outer + k, isl.Val(0))
        domain = domain.upper_bound_val(isl.dim_type.set, outer + k, isl.Val(extent - 1))
    for k, name in enumerate(names):
        domain = domain.set_dim_name(isl.dim_type.set, k, name)
    # The schedule is set with everyone else's, when the program is rebased on the present order.
    pending = isl.Map.from_domain(domain)
    comp = Comp(copy.name, names, domain, pending, copy.to, copy.source, frame.comp.loc)
    if copy.cells is None:
        return comp
    elements, exact = access_map(comp, copy.to if copy.back else copy.source)
    if not exact:
        raise PlantError(
            "a subscript of the copy isn't affine in its loops and the integer parameters",
            loc=frame.comp.loc,
            code="DG214",
        )
    outside = isl.Map.from_domain(domain).add_dims(isl.dim_type.out, outer)
    for k in range(outer):
        outside = outside.equate(isl.dim_type.in_, k, isl.dim_type.out, k)
    needed = elements.intersect(outside.apply_range(copy.cells)).domain().coalesce()
    for k, name in enumerate(names):
        needed = needed.set_dim_name(isl.dim_type.set, k, name)
    return replace(comp, domain=needed, schedule=isl.Map.from_domain(needed))


# --- positions ----------------------------------------------------------------------------------------------------


def _make_room(
    nests: tuple[Nest, ...], frame: Frame, loads: int, stores: int, slots: list[int], shared: int | None
) -> tuple[tuple[Nest, ...], dict[int, int], dict[int, int]]:
    """The nests with free positions round the statement, and where its first and last position are now."""
    level = frame.level
    firsts = _values(frame.first)
    lasts = _values(frame.last)
    before = {p: loads + slots[0] for p in firsts}
    if shared is not None:
        before = {shared: loads}
    after = {p: stores + sum(slots[1:]) for p in lasts} if stores or sum(slots[1:]) else {}
    nests, place = with_slots(nests, level, before, after)
    starts = {p: place[shared if shared is not None else p] for p in firsts}
    return nests, starts, {p: place[p] for p in lasts}


def _values(ends: isl.Map) -> list[int]:
    return values_at(ends.range(), 0)


def _moved(place: Mapping[int, int], offset: int) -> isl.Map:
    return isl.Map("{ " + "; ".join(f"[{old}] -> [{new + offset}]" for old, new in place.items()) + " }")


def _timed(frame: Frame, ends: isl.Map, position: isl.Map) -> isl.Map:
    """The outer loops' values to time, up to the position inside the loop."""
    prefix = frame.prefixes.range()
    same = isl.Map.identity(prefix.get_space().map_from_set())
    return frame.prefixes.apply_range(same.flat_range_product(ends.apply_range(position))).coalesce()


def _tags(frame: Frame) -> tuple[tuple[str, Tag], ...]:
    return tuple((loop, tag) for loop, tag in frame.nest.tags if loop in frame.outer)


def _nest(frame: Frame, comp: Comp, copy: Copy, times: isl.Map, threads: tuple[_Thread, ...]) -> Nest:
    """The copy's loops: the outer ones, the block's threads if they share the work, then its own."""
    outer, own = len(frame.outer), len(copy.iters)
    t = [f"t{k}" for k in range(outer)]
    e = [f"e{k}" for k in range(own)]
    head = f"[{', '.join(t + e)}]"
    lanes, rest = _shares(e, threads)
    tail = ", ".join(f"{x}, 0" for x in (*lanes, *rest))
    front = isl.Map(f"{{ {head} -> [{', '.join(t)}] }}").apply_range(times)
    relation = front.flat_range_product(isl.Map(f"{{ {head} -> [{tail}] }}")) if tail else front
    relation = relation.set_tuple_name(isl.dim_type.in_, copy.name).intersect_domain(comp.domain)
    loops = (*frame.outer, *(th.loop for th in threads), *copy.iters)
    tags = (*_tags(frame), *((th.loop, th.tag) for th in threads))
    options = tuple((loop, mark) for loop, mark in frame.nest.options if loop in frame.outer)
    return Nest(copy.name, loops, relation.coalesce(), tags, options)


# --- GPU threads --------------------------------------------------------------------------------------------------


def _threads(s: Scheduled, frame: Frame) -> tuple[_Thread, ...]:
    """The thread loops inside the frame's loop; PlantError where the loop is inside one of them."""
    found = []
    domain = in_context(frame.comp.domain.set_tuple_name(frame.comp.name), s.func.context)
    times = frame.nest.relation.intersect_domain(domain).range()
    for depth, loop in enumerate(frame.nest.loops):
        tag = frame.nest.tag(loop)
        if tag is None or not tag.startswith("gpu_thread"):
            continue
        if loop in frame.outer:
            raise PlantError(
                f"the loop '{frame.outer[-1]}' of {frame.comp.name} is inside the thread loop '{loop}', "
                "and a block shares its memory",
                loc=frame.comp.loc,
                code="DG218",
                remedy="cache in a loop outside of the thread loops; reorder first",
            )
        low, high = times.dim_min_val(2 * depth + 1), times.dim_max_val(2 * depth + 1)
        if not (low.is_int() and high.is_int()):
            raise PlantError(
                f"no constant bounds the thread loop '{loop}'", loc=frame.comp.loc, code="DG218", remedy="split it"
            )
        found.append(_Thread(loop, tag, low.to_python(), high.to_python() - low.to_python() + 1))
    return tuple(found)


def _shares(e: list[str], threads: tuple[_Thread, ...]) -> tuple[list[str], list[str]]:
    """Which thread copies an element, and in which round: the last coordinate across x, the one before across y.

    Threads that find no coordinate of their own share the first one.
    """
    if not threads:
        return [], e
    if not e:
        return [str(t.first) for t in threads], []
    taken: dict[int, int] = {}
    lanes: dict[str, str] = {}
    for number, thread in enumerate(sorted(threads, key=lambda t: t.tag)):
        k = max(len(e) - 1 - number, 0)
        inner = taken.get(k, 1)
        lanes[thread.loop] = f"{thread.first} + floor({e[k]}/{inner}) mod {thread.count}"
        taken[k] = inner * thread.count
    rounds = [f"floor({x}/{taken[k]})" if k in taken else x for k, x in enumerate(e)]
    return [lanes[t.loop] for t in threads], rounds


def _syncs(
    func: Func, frame: Frame, threads: tuple[_Thread, ...], loads: bool, stores: bool
) -> tuple[tuple[tuple[Effect, bool, int], ...], list[int]]:
    """Barriers, with the side of the statement and the offset of their position; how many positions they take up
    just before the statement, just after it, and after the copies back."""
    if not threads:
        return (), [0, 0, 0]
    again = not (frame.nest.tag(frame.outer[-1]) or "").startswith("gpu_block")
    found: list[tuple[Effect, bool, int]] = []
    slots = [0, 0, 0]

    def add(before: bool, offset: int) -> None:
        name = fresh(replace(func, effects=(*func.effects, *(e for e, _, _ in found))), f"sync_{frame.comp.name}")
        found.append((_barrier(name, frame), before, offset))

    if loads:
        slots[0] = 1
        add(True, -1)
    if stores or again:
        slots[1] = 1
        add(False, 1)
    if stores and again:
        slots[2] = 1
        add(False, 3)
    return tuple(found), slots


def _barrier(name: str, frame: Frame) -> Effect:
    domain = frame.iterations.set_tuple_name(name)
    for k, loop in enumerate(frame.outer):
        domain = domain.set_dim_name(isl.dim_type.set, k, loop)
    return Effect(name, frame.outer, domain, isl.Map.from_domain(domain), SYNC, frame.comp.loc)


def _shared_sync(s: Scheduled, frame: Frame) -> int | None:
    """The position of a barrier that stands just before the statement already."""
    firsts = _values(frame.first)
    for effect in s.func.effects:
        nest = s.nest(effect.name)
        if effect.action != SYNC or nest.loops != frame.outer or len(firsts) != 1:
            continue
        there = isl.Map.from_range(nest.relation.range())
        wanted = _timed(frame, frame.first, _moved({firsts[0]: firsts[0]}, -1)).range()
        if there.range().is_equal(wanted):
            return firsts[0] - 1
    return None


# --- checks -------------------------------------------------------------------------------------------------------


def _inside(func: Func, plan: Plan, copies: Mapping[str, Comp]) -> None:
    """PlantError (DG211) where a copy or a use leaves an array."""
    arrays = {b.name: b for b in func.bufs}
    for comp in (*copies.values(), *(c for c in func.comps if c.target == plan.target.get(c.name))):
        loads = [comp.target, *([comp.value] if comp.name in copies and isinstance(comp.value, Load) else [])]
        for load in loads:
            cells, exact = access_map(comp, load)
            if exact and not in_context(cells.domain(), func.context).is_empty():
                known = cells.intersect_domain(in_context(cells.domain(), func.context))
                if not known.range().is_subset(box(arrays[load.buf])):
                    raise PlantError(
                        f"{comp.name} would access '{load.buf}' outside the array",
                        loc=comp.loc,
                        code="DG211",
                        remedy="make the extents fit the subscripts",
                    )


def verify(before: Scheduled, after: Scheduled, plan: Plan) -> None:
    """IllegalSchedule (DG201) unless every read of the array, and its final contents, have the origins they had.

    Where the statements don't write the array, only what they read themselves can have changed.
    """
    affected = frozenset({plan.of})
    writes = bool(plan.target)
    asked = {c.name: frozenset(n for n, _ in flows.touched(before.func, c, affected)) for c in before.func.comps}
    if not writes:
        asked = {c: numbers & frozenset(plan.use.get(c, ())) for c, numbers in asked.items()}
    was = flows.flow(before, affected, only=asked, finals=writes)
    now = flows.flow(after, affected | {plan.buf.name}, only=asked, finals=writes)
    flows.require_equal(
        after.func,
        was,
        flows.pick(flows.through(now, [c.name for c in plan.copies]), flows.readers(was)),
        what=f"caching '{plan.of}' in '{plan.buf.name}'",
        remedy="cache in a loop further in, or schedule the statements that write the array outside of the loop",
    )
