"""Array parameters that serve as scratch memory of each iteration, given local copies that can be expanded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import islpy as isl

from plant_core.analysis.dependence import Flow, flows
from plant_core.ir.accesses import (
    access_map,
    accesses,
    all_bufs,
    children,
    domain_of,
    linear,
    read_accesses,
    rebuild,
    write,
)
from plant_core.ir.func import Buf, Comp, Expr, Func, Iter, Load
from plant_core.ir.scheduled import padded
from plant_core.ir.time_2d1 import Line, Position, position, schedule_map, shared_depth
from plant_core.normalize.scalars.scalar_expansion import GUESSED_EXTENT


def privatise_arrays(func: Func, *, most: int) -> Func:
    """Let an array parameter that every iteration of the outer loops writes before it reads live in a local copy.

    `most`: how many elements the copies of all iterations may have; else nothing is won by them.

    Before: `for r { for p { s[p] = 0; for k s[p] += a[r][k]*b[k][p]; }  for p a[r][p] = s[p]; }`.
    After: the same with a local `s_1`, and `if (r == last) for p s[p] = s_1[p];` at the end of the body. Iterations
    then depend on each other through a local only, which expansion takes care of.
    """
    candidates = [p for p in func.params if isinstance(p, Buf) and not p.const and p.shape]
    found = [b for b in candidates if _is_scratch(func, b)]
    if not found:
        return func
    known = flows(func)
    for buf in found:
        depth = _depth(func, buf, known)
        if depth and _elements(func, buf, depth) <= most:
            func = _with_copy(func, buf, depth)
    return func


def _elements(func: Func, buf: Buf, depth: int) -> int:
    count = prod(n if isinstance(n, int) else GUESSED_EXTENT for n in buf.shape)
    domain = domain_of(_users(func, buf.name)[0])
    for k in range(depth):
        low, high = domain.dim_min_val(k), domain.dim_max_val(k)
        count *= high.sub(low).to_python() + 1 if low.is_int() and high.is_int() else GUESSED_EXTENT
    return count


def _users(func: Func, buf: str) -> list[Comp]:
    return [c for c in func.comps if c.target.buf == buf or any(a.buf == buf for a in read_accesses(c))]


def _is_scratch(func: Func, buf: Buf) -> bool:
    """Quickly: whether all that touch the array share a loop whose iterator no subscript has."""
    users = _users(func, buf.name)
    return bool(users) and all(c.iters for c in users) and _shared(users, buf) > 0


def _shared(users: list[Comp], buf: Buf) -> int:
    """How many outer loops all users share that don't move the array's subscripts."""
    places = [position(c) for c in users]
    depth = min(shared_depth(places[0], place) for place in places)
    for k in range(depth):
        if any(place.loops[k] != Line(0, ((comp.iters[k], 1),)) for place, comp in zip(places, users, strict=True)):
            return k
        if any(_moves(comp, buf, comp.iters[k]) for comp in users):
            return k
    return depth


def _moves(comp: Comp, buf: Buf, iterator: str) -> bool:
    for access in (comp.target, *accesses(comp.value)):
        if access.buf == buf.name:
            forms = [linear(index) for index in access.indices]
            if any(form is None or iterator in form[1] for form in forms):
                return True
    return False


def _depth(func: Func, buf: Buf, known: tuple[Flow, ...]) -> int:
    """The number of outer loops whose every iteration writes what it reads, and writes all that any one writes."""
    users = _users(func, buf.name)
    depth = _shared(users, buf)
    for flow in known:
        if flow.buf == buf.name:
            depth = _within(flow, depth)
    if not depth or not all(_covered(c, buf, known) for c in users):
        return 0
    last = _last_iteration(users, depth)
    writers = [c for c in users if c.target.buf == buf.name]
    if last is None or not writers:
        return 0
    everything, at_end = (
        isl.Set(f"{{ {buf.name}[{_dims(buf)}] : false }}"),
        isl.Set(f"{{ {buf.name}[{_dims(buf)}] : false }}"),
    )
    for comp in writers:
        everything = everything.union(write(comp).range())
        at_end = at_end.union(write(comp).intersect_domain(_fixed(domain_of(comp), last)).range())
    return depth if everything.is_subset(at_end) else 0


def _dims(buf: Buf) -> str:
    return ", ".join(f"x{k}" for k in range(len(buf.shape)))


def _within(flow: Flow, depth: int) -> int:
    for k in range(depth):
        same = isl.Map.universe(flow.relation.get_space()).equate(isl.dim_type.in_, k, isl.dim_type.out, k)
        if not flow.relation.is_subset(same):
            return k
    return depth


def _covered(comp: Comp, buf: Buf, known: tuple[Flow, ...]) -> bool:
    """Whether the program itself writes every value of the array that `comp` reads."""
    for k, access in enumerate(read_accesses(comp)):
        if access.buf != buf.name:
            continue
        if not access_map(comp, access)[1]:
            return False
        rest = domain_of(comp)
        for flow in known:
            if flow.sink == comp.name and flow.access == k:
                rest = rest.subtract(flow.relation.range())
        if not rest.is_empty():
            return False
    return True


def _last_iteration(users: list[Comp], depth: int) -> tuple[int, ...] | None:
    """The last values of the first loops, where these are the same numbers for all."""
    found: tuple[int, ...] | None = None
    for comp in users:
        domain = domain_of(comp)
        ends = [domain.dim_max_val(k) for k in range(depth)]
        if not all(end.is_int() for end in ends):
            return None
        values = tuple(end.to_python() for end in ends)
        if found not in (None, values):
            return None
        found = values
    return found


def _fixed(domain: isl.Set, values: tuple[int, ...]) -> isl.Set:
    for k, value in enumerate(values):
        domain = domain.fix_val(isl.dim_type.set, k, isl.Val(value))
    return domain


@dataclass(frozen=True, slots=True)
class _Names:
    buf: str
    comp: str
    iters: tuple[str, ...]


def _with_copy(func: Func, buf: Buf, depth: int) -> Func:
    users = _users(func, buf.name)
    names = _names(func, buf, users[0], depth)
    local = replace(buf, name=names.buf, kind="local")
    comps = [_renamed(c, buf.name, names.buf) for c in func.comps]
    last = _last_iteration(users, depth) or ()
    written = isl.Set(f"{{ {buf.name}[{_dims(buf)}] : false }}")
    for comp in users:
        if comp.target.buf == buf.name:
            written = written.union(write(comp).range())
    count = depth + len(buf.shape)
    domain = written.insert_dims(isl.dim_type.set, 0, depth).set_tuple_name(names.comp)
    domain = _fixed(domain, last).coalesce()
    places = [position(c) for c in users]
    constants = (*places[0].constants[:depth], max(p.constants[depth] for p in places) + 1, *[0] * len(buf.shape))
    indices = tuple(Iter(name) for name in names.iters[depth:])
    comp = Comp(
        names.comp,
        names.iters,
        domain,
        isl.Map.from_domain(domain),
        Load(buf.name, indices, buf.dtype),
        Load(names.buf, indices, buf.dtype),
        users[-1].loc,
    )
    place = Position(constants, tuple(Line(0, ((name, 1),)) for name in names.iters))
    length = max(c.schedule.dim(isl.dim_type.out) for c in func.comps)
    length = max(length, 2 * count + 1)
    comp = replace(comp, schedule=schedule_map(comp, place, length).intersect_domain(domain))
    comps = [replace(c, schedule=padded(c.schedule, length)) for c in comps]
    return replace(func, bufs=(*func.bufs, local), comps=(*comps, comp))


def _names(func: Func, buf: Buf, user: Comp, depth: int) -> _Names:
    taken = {*all_bufs(func), *(p.name for p in func.params), *(c.name for c in func.comps)}
    number = 1
    while f"{buf.name}_{number}" in taken:
        number += 1
    local = f"{buf.name}_{number}"
    dims = tuple(f"{buf.name}_at{k}" for k in range(len(buf.shape)))
    return _Names(local, f"{local}_out", (*user.iters[:depth], *dims))


def _renamed(comp: Comp, old: str, new: str) -> Comp:
    def change(expr: Expr) -> Expr:
        parts = children(expr)
        expr = rebuild(expr, tuple(change(p) for p in parts)) if parts else expr
        return replace(expr, buf=new) if isinstance(expr, Load) and expr.buf == old else expr

    target = change(comp.target)
    return replace(comp, target=target, value=change(comp.value)) if isinstance(target, Load) else comp
