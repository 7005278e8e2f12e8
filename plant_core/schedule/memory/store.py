"""Where computations keep their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import islpy as isl

from plant_core.ir.accesses import access_key, access_map, linear, to_pw_aff
from plant_core.ir.func import Access, Buf, Comp, Expr, Func, Iter, Load
from plant_core.ir.scheduled import Scheduled
from plant_core.schedule.legality import check
from plant_core.schedule.memory import last_writer as flows
from plant_core.schedule.memory.access_sites import (
    Site,
    as_load,
    buffer,
    computation,
    expressions,
    replaced,
    sites,
    usable,
)
from plant_core.schedule.memory.isl_expressions import aff_expr, box, in_context, maps_of, pieces_of, sample
from plant_core.schedule.memory.placement import recheck
from plant_core.schedule.memory.rebase import rebased
from plant_core.support.location import PlantError

_Key = tuple[str, tuple[Expr, ...]]

_REMEDY = "keep more of the iterators as subscripts, use an array of its own, or schedule the statements otherwise"


def store(s: Scheduled, name: str, buf: Buf | str, indices: Sequence[Expr] | None = None) -> Scheduled:
    """Keep the result of `name` in `buf[indices]`; the iterators by default. `buf` may be a new array.

    Before: `c[i, j, k] = a[i, k] * b[k, j] + c[i, j, k - 1]`. After `store(s, "c", C, (i, j))`:
    `C[i, j] = a[i, k] * b[k, j] + C[i, j]`. Reads by Access follow, and so do Loads that only ever get values of
    `name`. Storage may contract, and computations may share an array, as long as no other write lands on an element
    between a write and its reads in the present order: else IllegalSchedule (DG201). An Access outside its
    computation's domain, as `c(i, j, -1)`, gets what the element holds: the value of `c_init`, say. Errors:
    PlantError for subscripts that aren't affine or leave the array. Source: PLANT, 3.3; TIRAMISU's third layer.
    """
    comp = computation(s.func, name)
    if comp.defines is not None:
        raise PlantError(
            f"{name} defines the parameter '{comp.defines}', whose place is fixed",
            loc=comp.loc,
            code="DG211",
            remedy="store other computations",
        )
    places = expressions(indices, name) if indices is not None else tuple(Iter(i) for i in comp.iters)
    func, new = _with_buf(s.func, buf)
    target = Load(new.name, places, comp.target.dtype, comp.target.loc)
    _validate(func, comp, new, target)
    old = buffer(func, comp.target.buf)
    for moved in (old, new):
        flows.refuse_moving(s.func, moved)
    affected = frozenset({old.name, new.name})
    before = replace(s, func=func)
    seen = flows.flow(before, affected)
    func = _redirected(before, seen, comp, old, func)
    comps = tuple(replace(c, target=target) if c.name == name else c for c in func.comps)
    after = rebased(s, _without_unused(replace(func, comps=comps), old), s.nests)
    only = _asked(before.func, affected)
    kept = affected & {b.name for b in after.func.bufs}
    was, now = flows.flow(before, affected, only=only), flows.flow(after, kept, only=only)
    _check(before, after, comp, old, new, was, now)
    recheck(after, *sorted(kept))
    if any(nest.tags for nest in after.nests):
        check(after)
    return after


def _with_buf(func: Func, buf: Buf | str) -> tuple[Func, Buf]:
    if isinstance(buf, str):
        return func, buffer(func, buf)
    buf = usable(buf)
    known = next((b for b in func.bufs if b.name == buf.name), None)
    if known is not None:
        if known != buf:
            raise PlantError(
                f"there is another array '{buf.name}' already", loc=known.loc, code="DG211", remedy="choose a new name"
            )
        return func, known
    taken = {p.name for p in func.params} | {c.name for c in func.comps} | {e.name for e in func.effects}
    if buf.name in taken:
        raise PlantError(f"'{buf.name}' is a parameter or statement", code="DG211", remedy="choose another name")
    params = (*func.params, buf) if buf.kind == "param" else func.params
    return replace(func, bufs=(*func.bufs, buf), params=params), buf


def _validate(func: Func, comp: Comp, buf: Buf, target: Load) -> None:
    if buf.const:
        raise PlantError(f"'{buf.name}' is constant, and {comp.name} would write it", loc=comp.loc, code="DG211")
    if buf.dtype != comp.target.dtype:
        raise PlantError(
            f"{comp.name} computes {comp.target.dtype}, and '{buf.name}' has elements of {buf.dtype}",
            loc=comp.loc,
            code="DG211",
            remedy=f"make '{buf.name}' an array of {comp.target.dtype}",
        )
    if len(target.indices) != len(buf.shape):
        raise PlantError(
            f"'{buf.name}' has {len(buf.shape)} dimensions, and {len(target.indices)} subscripts are given",
            loc=comp.loc,
            code="DG211",
            remedy=f"say which of {comp.name}'s iterators are the subscripts"
            if buf.shape
            else "give no subscripts: ()",
        )
    for index in target.indices:
        used = (linear(index) or (0, {}))[1]
        if to_pw_aff(index, comp) is None or any(n not in comp.iters and not _param(func, n) for n in used):
            raise PlantError(
                f"a subscript of '{buf.name}' isn't affine in {comp.name}'s iterators ({', '.join(comp.iters)})",
                loc=comp.loc,
                code="DG211",
                remedy="give sums of multiples of the iterators and integer parameters, with floordiv and mod",
            )
    inside_array(func, comp, target)


def _param(func: Func, name: str) -> bool:
    return name in {p.name for p in func.params} or name in flows.run_time(func)


def inside_array(func: Func, comp: Comp, access: Load) -> None:
    """PlantError (DG211) where an affine access leaves its array."""
    domain = in_context(comp.domain.set_tuple_name(comp.name), func.context)
    cells = access_map(comp, access)[0].intersect_domain(domain)
    outside = cells.subtract_range(box(buffer(func, access.buf)))
    if not outside.is_empty():
        instance, element, params = sample(outside)
        values = f" for {', '.join(f'{n} = {v}' for n, v in params.items())}" if params else ""
        raise PlantError(
            f"{comp.name}[{','.join(map(str, instance))}] would access "
            f"{access.buf}[{','.join(map(str, element))}]{values}, which is outside the array",
            loc=comp.loc,
            code="DG211",
            remedy="make the array larger, or tell what is known of the parameters with set_constraint",
        )


# --- reads that follow --------------------------------------------------------------------------------------------


def _redirected(s: Scheduled, seen: isl.UnionMap, comp: Comp, old: Buf, func: Func) -> Func:
    """Loads of the old place that only ever get values of `comp` become Accesses of it."""
    parts: dict[str, list[isl.Map]] = {}
    for part in maps_of(seen):
        parts.setdefault(flows.reader_of(part), []).append(part)
    comps = []
    for reader in func.comps:
        numbers = dict(flows.touched(s.func, reader, {old.name}))
        known = {access_key(load): n for n, load in numbers.items()}

        def follow(_: int, site: Site, reader: Comp = reader, known: Mapping[_Key, int] = known) -> Expr | None:
            if not isinstance(site, Load) or site.buf != old.name:
                return None
            origin = parts.get(flows.site_name(reader.name, known[access_key(site)]), [])
            if len(origin) != 1 or origin[0].get_tuple_name(isl.dim_type.out) != comp.name:
                return None
            places = _instance_of(origin[0], reader)
            return None if places is None else Access(comp.name, places, site.dtype, site.loc)

        comps.append(replaced(reader, follow))
    return replace(func, comps=tuple(comps))


def _instance_of(origin: isl.Map, reader: Comp) -> tuple[Expr, ...] | None:
    """The origin's iterators as affine functions of the reader's; None where they aren't one function."""
    if origin.domain_is_wrapping() or not origin.is_single_valued():
        return None
    values = isl.MultiPwAff.from_pw_multi_aff(origin.gist_domain(origin.domain()).as_pw_multi_aff())
    result = []
    for k in range(origin.dim(isl.dim_type.out)):
        pieces = pieces_of(values.get_at(k))
        if len(pieces) != 1:
            return None
        result.append(aff_expr(pieces[0][1], reader.iters))
    return tuple(result)


def _without_unused(func: Func, old: Buf) -> Func:
    """A local array that nothing mentions any more is dropped."""
    used = {c.target.buf for c in func.comps} | {as_load(func, x).buf for c in func.comps for x in sites(c)}
    named = {e.action.to for e in func.effects if hasattr(e.action, "to")}
    named |= {e.action.source for e in func.effects if hasattr(e.action, "source")}
    named |= {e.action.buf for e in func.effects if hasattr(e.action, "buf")}
    if old.kind == "param" or old.name in used | named:
        return func
    return replace(func, bufs=tuple(b for b in func.bufs if b.name != old.name))


# --- legality -----------------------------------------------------------------------------------------------------


def _asked(func: Func, affected: frozenset[str]) -> dict[str, frozenset[int]]:
    return {c.name: frozenset(n for n, _ in flows.touched(func, c, affected)) for c in func.comps}


def _check(
    before: Scheduled, after: Scheduled, comp: Comp, old: Buf, new: Buf, was: isl.UnionMap, now: isl.UnionMap
) -> None:
    func = after.func
    what = f"storing {comp.name} in '{new.name}'"
    loads: set[str] = set()
    for reader in before.func.comps:
        for number, site in enumerate(sites(reader)):
            name = flows.site_name(reader.name, number)
            if isinstance(site, Load):
                loads.add(name)
            else:
                _check_access(func, before, reader, site, name, comp, was, now, what)
    finals = {flows.FINAL + old.name} - {flows.FINAL + new.name}
    memory = {flows.site_name(e.name, 0) for e in func.effects}
    kept = loads | finals | memory
    flows.require_equal(func, flows.pick(was, kept), flows.pick(now, kept), what=what, remedy=_REMEDY)
    _check_results(func, comp, new, was, now, what)


def _check_access(
    func: Func,
    before: Scheduled,
    reader: Comp,
    site: Access,
    name: str,
    comp: Comp,
    was: isl.UnionMap,
    now: isl.UnionMap,
    what: str,
) -> None:
    seen = flows.pick(now, {name})
    if seen.is_empty():
        return
    producer = computation(func, site.comp)
    wanted, exact = access_map(reader, Load(producer.name, site.indices, site.dtype))
    if not exact:
        flows.require_equal(func, flows.pick(was, {name}), seen, what=what, remedy=_REMEDY)
        return
    domain = in_context(producer.domain.set_tuple_name(producer.name), func.context)
    wanted = wanted.intersect_range(domain).set_tuple_name(isl.dim_type.in_, name)
    read = in_context(reader.domain.set_tuple_name(name), func.context)
    meant = isl.UnionMap.from_map(wanted.intersect_domain(read))
    got = seen.intersect_domain(meant.domain())
    flows.require_equal(func, meant, got, what=what, remedy=_REMEDY)
    others = flows.pick(was, {name}).subtract_domain(meant.domain())
    rest = seen.subtract_domain(meant.domain())
    for part in maps_of(others):
        writer = part.get_tuple_name(isl.dim_type.out)
        if writer != comp.name and not writer.startswith(flows.FIRST):
            kept = isl.UnionMap.from_map(part)
            flows.require_equal(func, kept, kept.intersect(rest), what=what, remedy=_REMEDY)


def _check_results(func: Func, comp: Comp, new: Buf, was: isl.UnionMap, now: isl.UnionMap, what: str) -> None:
    """Other computations' results in the new array may be overwritten only by updates that read them."""
    name = flows.FINAL + new.name
    lost = flows.pick(was, {name}).subtract(flows.pick(now, {name}))
    read = now.range()
    for part in maps_of(lost):
        writer = part.get_tuple_name(isl.dim_type.out)
        if writer == comp.name or writer.startswith(flows.FIRST):
            continue
        unread = isl.UnionMap.from_map(part).subtract_range(read)
        if not unread.is_empty():
            flows.require_equal(func, unread, isl.UnionMap("{ }"), what=what, remedy=_REMEDY)
