"""Loops that the data may end before their last iteration.

Such a loop sets a variable that keeps it from doing anything more: a flag that only becomes 0, or the least iteration
that has a property.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import islpy as isl

from plant_core.affine import accesses
from plant_core.ir import Binary, Comp, Expr, Func, Iter, Load, Select, Val
from plant_core.schedule import position


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
