"""Scalars freed of their own former values: those of one branch only, and sums of a constant."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from plant_core.analysis.dependence import Flow, flows, reduction_of
from plant_core.ir.accesses import access_key, accesses, children, combined, domain_of, integer, read_accesses, rebuild
from plant_core.ir.c_semantics import is_float
from plant_core.ir.func import Binary, Cast, Comp, Expr, Func, Iter, Load, Param, Select, Val
from plant_core.ir.time_2d1 import Line, Position, position, schedule_map
from plant_core.normalize.scalars.min_max_idioms import plain

# --- one branch's own variables -----------------------------------------------------------------------------------


def without_stale_values(func: Func) -> Func:
    """Let a scalar that a branch assigns and only that branch reads keep nothing where the branch isn't taken.

    Before: `t = c ? a[i] : t; b[i] = c ? t + 1 : b[i];`. After: `t = c ? a[i] : 0; ...`. Requires: 2d+1 schedules.
    Ensures: the same contents of every parameter. What `c` is made of is assigned before, if at all.
    """
    candidates = {c.name: c for c in func.comps if _keeps_old(func, c)}
    if not candidates:
        return func
    known = [f for f in flows(func, local=True) if f.source in candidates]
    comps = {c.name: c for c in func.comps}
    while True:
        kept = {f.source for f in known if not _unseen(f, comps, candidates)} & set(candidates)
        if not kept:
            break
        candidates = {n: c for n, c in candidates.items() if n not in kept}
    return func.with_comps(tuple(_forgetting(c) if c.name in candidates else c for c in func.comps))


def _keeps_old(func: Func, comp: Comp) -> bool:
    scalars = {b.name for b in func.bufs if b.kind == "local" and b.shape == ()}
    match comp.value:
        case Select(condition, new, old, _) if plain(old) == plain(comp.target) and comp.target.buf in scalars:
            if any(a.buf == comp.target.buf for a in (*accesses(condition), *accesses(new))):
                return False
            own = position(comp).constants
            read = {a.buf for a in accesses(condition)}
            writers = (position(c).constants for c in func.comps if c.target.buf in read)
            return all(at < own for at in writers if at[: len(own) - 1] == own[:-1])
    return False


def _unseen(flow: Flow, comps: dict[str, Comp], candidates: dict[str, Comp]) -> bool:
    """Whether the value is read under the writer's own condition only, or to be kept where nothing is kept."""
    source, sink = comps[flow.source], comps[flow.sink]
    own = access_key(read_accesses(sink)[flow.access]) == access_key(sink.target)
    if sink.name in candidates and own:
        return True
    there, here = position(sink).constants, position(source).constants
    if not (isinstance(source.value, Select) and isinstance(sink.value, Select)):
        return False
    if there[:-1] != here[:-1] or there <= here or plain(sink.value.condition) != plain(source.value.condition):
        return False
    elsewhere = [*accesses(sink.value.condition), *accesses(sink.value.false)]
    elsewhere += [a for index in sink.target.indices for a in accesses(index)]
    return all(a.buf != flow.buf for a in elsewhere)


def _forgetting(comp: Comp) -> Comp:
    if not isinstance(comp.value, Select):
        return comp
    dtype = comp.value.dtype
    return replace(comp, value=replace(comp.value, false=Val(0.0 if is_float(dtype) else 0, dtype)))


def decided(func: Func) -> Func:
    """Selections below one of the same condition are its branch's: `c ? (c ? x : y) + z : w` is `c ? x + z : w`."""
    return func.with_comps(tuple(replace(c, value=_decided(c.value, {})) for c in func.comps))


def _decided(expr: Expr, known: dict[Expr, bool]) -> Expr:
    if isinstance(expr, Select):
        condition = plain(expr.condition)
        if condition in known:
            return _decided(expr.true if known[condition] else expr.false, known)
        return replace(
            expr,
            condition=_decided(expr.condition, known),
            true=_decided(expr.true, {**known, condition: True}),
            false=_decided(expr.false, {**known, condition: False}),
        )
    parts = children(expr)
    return rebuild(expr, tuple(_decided(p, known) for p in parts)) if parts else expr


# --- sums of a constant -------------------------------------------------------------------------------------------


def without_constant_sums(func: Func, *, reassoc: bool) -> Func:
    """Let the readers of a scalar that each iteration adds the same to work its value out for themselves.

    Before: `for i in 0..n { s = s + 2.0; a[i] = s * b[i]; }`. After: `for i { a[i] = (s + 2.0 * (i + 1)) * b[i]; }
    s = s + 2.0 * n;`. Requires: 2d+1 schedules of unit step. Ensures: the same contents of every parameter, for floats
    up to rounding and only where `reassoc`. The loop runs as often in each iteration of those around it.
    """
    if func.effects:
        return func
    for comp in func.comps:
        free = reassoc or not is_float(comp.target.dtype)
        if free and (found := _constant_sum(func, comp)) is not None:
            return without_constant_sums(_worked_out(func, comp, *found), reassoc=reassoc)
    return func


def _constant_sum(func: Func, comp: Comp) -> tuple[Expr, int, int] | None:
    """What each iteration adds, the first iteration and their number."""
    scalars = {b.name for b in func.bufs if b.kind == "local" and b.shape == ()}
    value = comp.value.operand if isinstance(comp.value, Cast) else comp.value
    found = reduction_of(comp)
    if comp.target.buf not in scalars or not comp.iters or found is None or not isinstance(value, Binary):
        return None
    if value.op != "add" or len(found.rest) != 1 or found.rest[0][1] or not isinstance(found.rest[0][0], Val | Param):
        return None
    own = position(comp)
    readers = [c for c in func.comps if c is not comp and any(a.buf == comp.target.buf for a in accesses(c.value))]
    inside = [c for c in readers if position(c).constants[:-1] == own.constants[:-1]]
    writers = [c for c in func.comps if c.target.buf == comp.target.buf and c is not comp]
    shared = [c for c in (*readers, *writers) if position(c).constants[: len(comp.iters)] == own.constants[:-1]]
    if not inside or len(shared) != len(inside) or any(c in writers for c in shared):
        return None
    range_ = _steady(comp)
    lines = (position(c).loops[-1] == Line(0, ((c.iters[-1], 1),)) for c in (comp, *inside))
    return (found.rest[0][0], *range_) if range_ is not None and all(lines) else None


def _steady(comp: Comp) -> tuple[int, int] | None:
    """The first iteration and the number of iterations of the innermost loop, where these are always the same."""
    domain, last = domain_of(comp), len(comp.iters) - 1
    low, high = domain.dim_min_val(last), domain.dim_max_val(last)
    if not low.is_int() or not high.is_int():
        return None
    around = domain.eliminate(isl.dim_type.set, last, 1)
    box = around.lower_bound_val(isl.dim_type.set, last, low).upper_bound_val(isl.dim_type.set, last, high)
    return (low.to_python(), high.to_python() - low.to_python() + 1) if box.is_subset(domain) else None


def _worked_out(func: Func, comp: Comp, step: Expr, low: int, count: int) -> Func:
    own = position(comp)
    total, dtype = comp.target, step.dtype if isinstance(step, Val | Param) else comp.target.dtype

    def after(steps: Expr) -> Expr:
        number = steps if dtype == "i32" else Cast(dtype, steps)
        old: Expr = total if dtype == total.dtype else Cast(dtype, total)
        value = Binary("add", old, Binary("mul", step, number, dtype), dtype)
        return value if dtype == total.dtype else Cast(total.dtype, value)

    comps = []
    for other in func.comps:
        place = position(other)
        if other is comp:
            continue
        if place.constants[:-1] == own.constants[:-1]:
            done = 1 if place.constants > own.constants else 0
            steps = combined((Iter(other.iters[-1]), 1), (integer(done - low), 1))
            other = replace(other, value=_replaced(other.value, total.buf, after(steps)))
        comps.append(other)
    level = len(comp.iters) - 1
    order = [c.name for c in comps if position(c).constants[: level + 1] == own.constants[: level + 1]]
    domain = domain_of(comp).project_out(isl.dim_type.set, level, 1).set_tuple_name(comp.name)
    moved = replace(comp, iters=comp.iters[:-1], domain=domain, value=after(integer(count)))
    new = [(c, Position(_doubled(position(c).constants), position(c).loops)) for c in comps]
    behind = (*(2 * c for c in own.constants[:level]), 2 * own.constants[level] + 1)
    new.insert([c.name for c in comps].index(order[-1]) + 1, (moved, Position(behind, own.loops[:level])))
    length = max(2 * len(c.iters) + 1 for c in func.comps)
    timed = (replace(c, schedule=schedule_map(c, p, length).intersect_domain(domain_of(c))) for c, p in new)
    return func.with_comps(tuple(timed))


def _doubled(constants: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(2 * c for c in constants)


def _replaced(expr: Expr, scalar: str, value: Expr) -> Expr:
    if isinstance(expr, Load) and expr.buf == scalar:
        return value
    parts = children(expr)
    return rebuild(expr, tuple(_replaced(p, scalar, value) for p in parts)) if parts else expr
