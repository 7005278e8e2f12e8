"""Loops that the data may end before their last iteration.

Such a loop sets a variable that keeps it from doing anything more: a flag that only becomes 0, or the least iteration
that has a property.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import islpy as isl

from plant_core.analysis.runtime_parameters import aligned, used_parameters
from plant_core.ir.accesses import accesses, substitute
from plant_core.ir.func import Binary, Comp, Expr, Func, Iter, Load, Select, Val
from plant_core.ir.time_2d1 import position, schedule_map


def unavoidable(func: Func, comps: Sequence[Comp]) -> tuple[Comp, ...]:
    """The statements `comps` of `func`, those of loops that end early in their first iteration only."""
    found = [(c, depth) for c in func.comps if (depth := _ended(func, c)) is not None]
    made = []
    for comp in comps:
        for ending, depth in found:
            if _together(comp, ending, depth):
                comp = replace(comp, domain=_first(comp.domain, depth))
        made.append(comp)
    return tuple(made)


def ends_early(func: Func) -> bool:
    """Whether some loop of the function may end early."""
    return any(_ended(func, comp) is not None for comp in func.comps)


def tests(comp: Comp, flag: str) -> bool:
    """Whether the statement sets a variable to whether the flag isn't 0."""
    match comp.value:
        case Binary("ne", Load(buf=read, indices=()), Val(value=0)):
            return read == flag and not comp.target.indices
        case _:
            return False


def guarded(comp: Comp, guards: Collection[str]) -> bool:
    """Whether the statement changes nothing where the variables `guards` are 0."""
    match comp.value:
        case Select(condition=condition, false=Load(buf=kept, indices=indices)):
            return (kept, indices) == (comp.target.buf, comp.target.indices) and _needs(condition, guards)
        case _:
            return False


def flags(func: Func) -> tuple[str, ...]:
    """The local variables that only become 0 in a loop that they end."""
    found = (c.target.buf for c in func.comps if _ended(func, c) is not None and lowered(c))
    return tuple(dict.fromkeys(found))


def with_whole_searches(func: Func) -> Func:
    """The function with searches whose length only the run tells in one part.

    Before: `for (t < 8) e = min(e, c(t) ? t : n); more = e < n ? 0 : 1; if (more > 0) for (8 <= t < n) ...`
    After:  `for (t < n) e = min(e, c(t) ? t : n)`
    """
    for definition in [c for c in func.comps if c.defines is not None]:
        func = _joined(func, definition) or func
    return func


def _joined(func: Func, definition: Comp) -> Func | None:
    """The function with the two parts of a search in one, where `definition` tells whether the second one runs."""
    match definition.value:
        case Select(condition=Binary("lt", Load(name, ()), limit), true=Val(value=0), false=Val(value=1)):
            pass
        case _:
            return None
    guard = definition.defines
    writers = [c for c in func.comps if c.target.buf == name]
    using = [c for c in func.comps if guard in used_parameters(c)]
    if guard is None or len(writers) != 3 or writers[0].value != limit or writers[0].iters or len(using) != 2:
        return None
    first, second = (_search(func, c, name) for c in writers[1:])
    if first is None or second is None:
        return None
    (one, least), (other, least_behind) = first, second
    if {c.name for c in using} != {other.name, least_behind.name} or len(one.iters) != 1 or len(other.iters) != 1:
        return None
    if not used_parameters(one):
        return None
    renamed = substitute(one.value, {one.iters[0]: Iter(other.iters[0])})
    if not isinstance(one.value, Select) or one.value.false != limit or renamed != other.value:
        return None
    numbers, found = _whole(one, other, guard), _whole(least, least_behind, guard)
    if numbers is None or found is None:
        return None
    instead = {other.name: numbers, least_behind.name: found}
    gone = {one.name, least.name, definition.name}
    return replace(func, comps=aligned(tuple(instead.get(c.name, c) for c in func.comps if c.name not in gone)))


def _search(func: Func, comp: Comp, name: str) -> tuple[Comp, Comp] | None:
    """What makes the numbers that a search looks for the least of, and the statement that finds it."""
    if not _least(func, comp, name) or not isinstance(comp.value, Select) or not isinstance(comp.value.true, Load):
        return None
    made = comp.value.true.buf
    if sum(a.buf == made for c in func.comps for a in accesses(c.value)) != 2:
        return None
    return next(c for c in func.comps if c.target.buf == made), comp


def _whole(one: Comp, other: Comp, guard: str) -> Comp | None:
    """The second of two statements with the iterations of both, which are not below those of the first."""
    params = isl.Set(f"[{guard}] -> {{ : {guard} > 0 }}")
    free = other.domain.project_out(isl.dim_type.param, other.domain.find_dim_by_name(isl.dim_type.param, guard), 1)
    if not other.domain.is_equal(free.intersect_params(params)):
        return None
    before = one.domain.set_tuple_name(other.name)
    if not before.lex_ge_set(free).is_empty():
        return None
    domain = free.union(before).coalesce()
    time = schedule_map(other, position(other), other.schedule.dim(isl.dim_type.out))
    return replace(other, domain=domain, schedule=time.intersect_domain(domain))


def _needs(condition: Expr, variables: Collection[str]) -> bool:
    match condition:
        case Binary("land", left, right):
            return _needs(left, variables) or _needs(right, variables)
        case Binary("ne", Load(buf=read, indices=()), Val(value=0)):
            return read in variables
        case _:
            return False


def _ended(func: Func, comp: Comp) -> int | None:
    """How many loops are around the one that `comp` may end."""
    name = comp.target.buf
    local = any(b.name == name and b.kind == "local" and not b.shape for b in func.bufs)
    starts = [c for c in func.comps if c.target.buf == name and name not in {x.buf for x in accesses(c.value)}]
    if not local or not comp.iters or not starts or not (lowered(comp) or _least(func, comp, name)):
        return None
    depth = max(len(c.iters) for c in starts)
    return depth if depth < len(comp.iters) else None


def lowered(comp: Comp) -> bool:
    """Whether the statement sets a variable to 0, or leaves it alone."""
    match comp.value:
        case Select(true=Val(value=0), false=Load(buf=kept, indices=())):
            return kept == comp.target.buf
        case _:
            return False


def _least(func: Func, comp: Comp, name: str) -> bool:
    match comp.value:
        case Select(
            condition=Binary("lt", Load(first, ()), Load(second, ())), true=Load(less, ()), false=Load(kept, ())
        ) if (first, second) == (less, kept) and kept == name:
            made = [c for c in func.comps if c.target.buf == less]
            return len(made) == 1 and isinstance(made[0].value, Select) and isinstance(made[0].value.true, Iter)
        case _:
            return False


def _together(comp: Comp, other: Comp, depth: int) -> bool:
    """Whether they are in the same loop below `depth` others."""
    if len(comp.iters) <= depth:
        return False
    return position(comp).constants[: depth + 1] == position(other).constants[: depth + 1]


def _first(domain: isl.Set, depth: int) -> isl.Set:
    """The points whose coordinate behind `depth` others is the least that there is beside these."""
    dims, name = domain.dim(isl.dim_type.set), domain.get_tuple_name()
    outer = domain.reset_tuple_id().project_out(isl.dim_type.set, depth + 1, dims - depth - 1)
    least = isl.Map.from_range(outer).move_dims(isl.dim_type.in_, 0, isl.dim_type.out, 0, depth).lexmin()
    kept = least.move_dims(isl.dim_type.out, 0, isl.dim_type.in_, 0, depth).range()
    kept = kept.insert_dims(isl.dim_type.set, depth + 1, dims - depth - 1)
    return domain.intersect(kept.set_tuple_name(name))
