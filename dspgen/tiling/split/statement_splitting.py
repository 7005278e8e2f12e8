"""Statements in parts, where some of their operations are better done one by one than on lanes.

Before: for i: x[i] = a[i] / (b[i] * c[i] + 1) + c[i] * d[i];   (no division on the lanes)
After:  for i { t[i] = b[i] * c[i] + 1; u[i] = a[i] / t[i]; x[i] = u[i] + c[i] * d[i]; }

The parts may then lie in loops of their own (loop distribution; Allen and Kennedy, "Optimizing Compilers for Modern
Architectures", 2001, 6.2), those in the middle without lanes; what they pass on lies in local arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import islpy as isl

from plant_core.ir.accesses import access_map, accesses, all_bufs, children, from_linear, rebuild
from plant_core.ir.func import (
    Binary,
    Buf,
    Call,
    Cast,
    Comp,
    Expr,
    Func,
    Iter,
    Load,
    Param,
    Select,
    Unary,
    Val,
    Verbatim,
)
from plant_core.ir.time_2d1 import Position, position, schedule_map

Lacks = Callable[[Expr], bool]

# Elements of one array of values in between.
_MOST_ELEMENTS = 8192
# Values passed on by the parts of one statement.
_MOST_VALUES = 8
# Operations left to the lanes for each value that goes through memory: with fewer there is nothing to gain.
_FEWEST_OPERATIONS = 2


@dataclass(frozen=True, slots=True)
class Parted:
    """`func` with statements in parts; `single`: those parts that have no lanes, and their first operation that lanes
    lack."""

    func: Func
    single: Mapping[str, str]


def in_parts(func: Func, names: Collection[str], lacks: Lacks) -> Parted | None:
    """`func` with each operation of the comps `names` that `lacks` tells in a statement of its own, where enough of its
    statement is left to the lanes; None where that is nowhere so.

    Requires: 2d+1 schedules. Ensures: the same contents of every parameter.
    """
    if func.effects or any(c.defines for c in func.comps):
        return None
    parting = _Parting(func, lacks)
    found = [parting.comp(c) if c.name in names else [c] for c in func.comps]
    room = max((len(parts) for parts in found), default=1)
    if room == 1:
        return None
    comps: list[Comp] = []
    for old, parts in zip(func.comps, found, strict=True):
        place = position(old)
        length = old.schedule.dim(isl.dim_type.out)
        for k, part in enumerate(parts):
            constants = [room * c for c in place.constants]
            constants[len(old.iters)] += k - len(parts) + 1
            schedule = schedule_map(part, Position(tuple(constants), place.loops), length)
            comps.append(replace(part, schedule=schedule.intersect_domain(part.domain)))
    changed = replace(func, comps=tuple(comps), bufs=(*func.bufs, *parting.bufs))
    return Parted(changed, {c.name: _lacked(c.value, lacks) for c in comps if c.name in parting.single})


@dataclass(slots=True)
class _Parting:
    func: Func
    lacks: Lacks
    bufs: list[Buf] = field(default_factory=list)
    single: set[str] = field(default_factory=set)

    def comp(self, comp: Comp) -> list[Comp]:
        """The comp's parts in their order, itself the last."""
        ranges = _ranges(comp)
        if ranges is None or not any(self.lacks(e) for e in operations(comp.value)):
            return [comp]
        made = _Parts(self, comp, ranges)
        value = made.outer(comp.value, sure=True)
        values = len(made.bufs)
        kept = sum(not self.lacks(e) for e in operations(comp.value))
        if not 0 < values <= _MOST_VALUES or kept < _FEWEST_OPERATIONS * values:
            return [comp]
        self.bufs += made.bufs
        last = replace(comp, value=value)
        self.single |= made.single
        if any(self.lacks(e) for e in operations(value)):
            self.single.add(comp.name)
        return [*made.parts, last]

    def fresh(self, name: str, more: list[Buf]) -> str:
        used = {*all_bufs(self.func), *(p.name for p in self.func.params), *(b.name for b in (*self.bufs, *more))}
        number, found = 1, f"{name}_1"
        while found in used:
            number += 1
            found = f"{name}_{number}"
        return found


@dataclass(slots=True)
class _Parts:
    """The parts of one comp that come before it."""

    parting: _Parting
    of: Comp
    ranges: list[tuple[int, int]]
    parts: list[Comp] = field(default_factory=list)
    bufs: list[Buf] = field(default_factory=list)
    single: set[str] = field(default_factory=set)

    def outer(self, expr: Expr, *, sure: bool) -> Expr:
        """`expr` with the operations that lanes lack taken out, but for one that is the whole of it. `sure`: it is
        evaluated in any case."""
        if self.parting.lacks(expr):
            return self.inner(expr, sure=sure)
        parts: list[Expr] = []
        for part, always in _parts_of(expr):
            if self.parting.lacks(part) and self._may(part, sure=sure and always):
                parts.append(self._kept(self.inner(part, sure=sure and always), single=True))
            else:
                parts.append(self.outer(part, sure=sure and always))
        return rebuild(expr, tuple(parts)) if parts else expr

    def inner(self, expr: Expr, *, sure: bool) -> Expr:
        """An operation that lanes lack on values that are there, its operands that lanes have taken out."""
        parts: list[Expr] = []
        for part, always in _parts_of(expr):
            if self.parting.lacks(part):
                parts.append(self.inner(part, sure=sure and always))
            elif any(True for _ in operations(part)) and self._may(part, sure=sure and always):
                parts.append(self._kept(self.outer(part, sure=sure and always), single=False))
            else:
                parts.append(part)
        return rebuild(expr, tuple(parts))

    def _may(self, expr: Expr, *, sure: bool) -> bool:
        """Whether the value may be computed in any case: no access is outside its array."""
        return sure or all(self._inside(a) for a in accesses(expr))

    def _inside(self, access: Load) -> bool:
        relation, exact = access_map(self.of, access)
        touched = relation.range()
        for k, extent in enumerate(all_bufs(self.parting.func)[access.buf].shape):
            low, high = touched.dim_min_val(k), touched.dim_max_val(k)
            if not (exact and isinstance(extent, int) and low.is_int() and high.is_int()):
                return False
            if low.to_python() < 0 or high.to_python() >= extent:
                return False
        return True

    def _kept(self, value: Expr, *, single: bool) -> Load:
        """The value in an array of its own, by a part of its own."""
        shape = tuple(high - low + 1 for low, high in self.ranges)
        dtype = "i32" if isinstance(value, Iter) else value.dtype
        buf = Buf(self.parting.fresh(f"{self.of.name}_part", self.bufs), dtype, shape, "local", loc=self.of.loc)
        self.bufs.append(buf)
        pairs = zip(self.of.iters, self.ranges, strict=True)
        index = tuple(from_linear((-low, {name: 1})) for name, (low, _) in pairs)
        kept = Load(buf.name, index, dtype, self.of.loc)
        name = buf.name
        domain = self.of.domain
        domain = domain.set_tuple_name(name) if domain.has_tuple_name() else domain
        self.parts.append(replace(self.of, name=name, target=kept, value=value, domain=domain))
        if single:
            self.single.add(name)
        return kept


def _lacked(expr: Expr, lacks: Lacks) -> str:
    """The first operation that lanes lack, in words."""
    found = next(e for e in operations(expr) if lacks(e))
    match found:
        case Binary(op=op) | Unary(op=op):
            return f"`{op}` of type {_dtype(_parts_of(found)[0][0])}"
        case Cast(dtype=dtype, operand=operand):
            return f"conversion of {_dtype(operand)} to {dtype}"
        case _:
            return f"`{type(found).__name__.lower()}`"


def _dtype(expr: Expr) -> str:
    return "i32" if isinstance(expr, Iter | Verbatim) else expr.dtype


def _ranges(comp: Comp) -> list[tuple[int, int]] | None:
    """The least and the greatest value of each iterator; None where they aren't known, or make too many elements."""
    found, elements = [], 1
    for k in range(len(comp.iters)):
        low, high = comp.domain.dim_min_val(k), comp.domain.dim_max_val(k)
        if not (low.is_int() and high.is_int()):
            return None
        found.append((low.to_python(), high.to_python()))
        elements *= max(found[-1][1] - found[-1][0] + 1, 0)
    return found if comp.iters and 1 < elements <= _MOST_ELEMENTS else None


def _parts_of(expr: Expr) -> list[tuple[Expr, bool]]:
    """The operands, and whether each is evaluated whenever the operation is."""
    match expr:
        case Select(condition=condition, true=true, false=false):
            return [(condition, True), (true, False), (false, False)]
        case Binary(op="land" | "lor", left=left, right=right):
            return [(left, True), (right, False)]
        case Binary() | Unary() | Cast() | Call():
            return [(part, True) for part in children(expr)]
        case _:
            return []


def operations(expr: Expr) -> Iterator[Expr]:
    """The operations of a value, not those of subscripts."""
    if isinstance(expr, Val | Iter | Param | Load):
        return
    yield expr
    for part, _ in _parts_of(expr):
        yield from operations(part)
