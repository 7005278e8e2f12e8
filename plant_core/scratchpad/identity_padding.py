"""Sums, least and greatest values of a loop in blocks, in whole groups of iterations: what is read behind the data of a
short block comes to nothing.

Before: S[i] s += x[i] * y[i]                   for 0 <= i < count
After:  groups = (count + 63) / 64
        x[count + l] = 0, y[count + l] = 0      for 0 <= l < 64
        S[i] s += x[i] * y[i]                   for 0 <= i < 64 groups

Windows that are read have room for a group more than a block has. Vectors of partial sums are joined once then, and
nothing asks whether single vectors are left, or a part of one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.analysis.dependence import reduction_of
from plant_core.analysis.rectangular_hull import Boxes, Use
from plant_core.analysis.runtime_parameters import aligned, definition_of
from plant_core.ir.accesses import accesses, add, integer, is_integer, linear, substitute
from plant_core.ir.c_semantics import (
    COMPARISONS,
    Number,
    apply_binary,
    apply_unary,
    call,
    convert,
    dtype_of,
    is_float,
    limits,
    typed,
)
from plant_core.ir.func import (
    Binary,
    BinaryOp,
    Buf,
    Call,
    Cast,
    Comp,
    DType,
    Expr,
    Func,
    Iter,
    Load,
    Param,
    Select,
    Unary,
    Val,
)
from plant_core.ir.tile_loop import Counter
from plant_core.ir.time_2d1 import Line, Position, position, schedule_map
from plant_core.normalize.scalars.min_max_idioms import identity
from plant_core.scratchpad.tail_overrun import Iterators, may_trap, own_elements

_VECTORS = 4  # of a group
_FOLDED = ("add", "min", "max", "and", "or", "xor")


@dataclass(frozen=True, slots=True)
class Behind:
    """What lies behind a block's data in the windows of arrays, by these: a group of equal elements."""

    group: int
    values: Mapping[str, Val]

    def piece(self, made: Func, count: str) -> Func:
        """The function of blocks with `count` iterations, a parameter, in whole groups."""
        groups = f"{count}_groups"
        number = Binary("floordiv", add(Param(count, "i32"), integer(self.group - 1)), integer(self.group), "i32")
        loads = {a.buf: a for c in made.comps for a in accesses(c.value) if a.buf in self.values}
        stored = [_stored(made, loads[name], count, value, self.group) for name, value in self.values.items()]
        first = [definition_of(groups, number, made.loc), *stored]
        length = max(2 * len(c.iters) + 3 for c in made.comps)
        placed = [(c, Position((k, *(0 for _ in c.iters)), _lines(c.iters))) for k, c in enumerate(first)]
        placed += [self._in_groups(c, groups, len(first)) for c in made.comps]
        comps = tuple(replace(c, schedule=schedule_map(c, p, length).intersect_domain(c.domain)) for c, p in placed)
        written = {n: replace(b, const=False) for b in made.bufs if (n := b.name) in self.values}
        params = tuple(written.get(p.name, p) for p in made.params)
        bufs = tuple(written.get(b.name, b) for b in made.bufs)
        number_of = Buf(groups, "i32", (), "local", False, made.loc)
        return replace(made, params=params, bufs=(*bufs, number_of), comps=aligned(comps))

    def _in_groups(self, comp: Comp, groups: str, first: int) -> tuple[Comp, Position]:
        (name,) = comp.iters
        old = position(comp)
        domain = isl.Set(f"[{groups}] -> {{ {comp.name}[{name}] : 0 <= {name} < {self.group} * {groups} }}")
        return replace(comp, domain=domain), Position((first, *old.constants[1:]), old.loops)


def behind(
    boxes: Boxes, counters: Sequence[Counter], iterators: Iterators, whole: Collection[str], *, reassoc: bool
) -> Behind | None:
    """What would have to lie behind the data of blocks of a single loop of unknown length, which adds up, so that
    iterations in excess come to nothing; None where nothing would do. See `excess.grouped` for the arguments."""
    if len(counters) != 1 or counters[0].extent is None or len(boxes.loops) != 1:
        return None
    group = _VECTORS * boxes.granule
    names = {comp: names[0] for comp, names in iterators.items()}
    if counters[0].span % group or any(c.iters != (names[c.name],) for c in boxes.func.comps):
        return None
    moving = [u for u in boxes.uses if any(form is None or names[u.comp.name] in form[1] for form in u.forms)]
    if any(None in use.forms or use.access.buf in whole for use in moving):
        return None
    folded: list[tuple[Comp, BinaryOp]] = []
    for comp in boxes.func.comps:
        op = _op(comp, reassoc)
        if op is not None and not any(use.access is comp.target for use in moving):
            folded.append((comp, op))
        elif may_trap(comp.value) or not own_elements(boxes, comp, names):
            return None
    found: dict[str, Val] = {}
    for comp, op in folded:
        values = _values(boxes, comp, op, names)
        if values is None or any(found.get(n, v) != v for n, v in values.items()):
            return None
        found |= values
    return Behind(group, found) if found else None


def _op(comp: Comp, reassoc: bool) -> BinaryOp | None:
    """What joins the terms that a statement adds up."""
    reduction = reduction_of(comp)
    if reduction is None or not (reassoc or is_integer(comp.target.dtype)) or reduction.op not in _FOLDED:
        return None
    return reduction.op


def _values(boxes: Boxes, comp: Comp, op: BinaryOp, names: Mapping[str, str | None]) -> dict[str, Val] | None:
    """What the arrays that a sum reads must have where its terms are to change nothing."""
    reduction = reduction_of(comp)
    assert reduction is not None
    arrays: dict[str, Load] = {}
    for term, _ in reduction.rest:
        arrays |= {access.buf: access for access in accesses(term)}
    for name in arrays:
        uses = [u for u in boxes.uses if u.access.buf == name]
        if boxes.bufs[name].kind != "param" or name in boxes.written or not all(_alone(u, names) for u in uses):
            return None
        if not boxes.anywhere(boxes.bufs[name].dtype):
            return None
        if len({(u.forms[0] or (0,))[0] for u in uses}) != 1:
            return None
    for value in dict.fromkeys((0, identity(op, comp.target.dtype).value)) if arrays else ():
        fills = {n: Val(value, a.dtype) for n, a in arrays.items() if _holds(value, a.dtype)}
        if len(fills) == len(arrays) and all(_is_neutral(t, op, fills) for t, _ in reduction.rest):
            return fills
    return None


def _is_neutral(term: Expr, op: BinaryOp, fills: Mapping[str, Val]) -> bool:
    """Whether a term changes nothing where arrays have such elements."""
    value, dtype = _value(term, fills), dtype_of(term)
    return value is not None and bool(value == typed(identity(op, dtype).value, dtype))


def _holds(value: int | float, dtype: DType) -> bool:
    """Whether an element of the type can have the value."""
    return is_float(dtype) or (math.isfinite(value) and limits(dtype)[0] <= value <= limits(dtype)[1])


def _value(expr: Expr, fills: Mapping[str, Val]) -> Number | None:
    """The value of a term where arrays have such elements; None where it depends on others."""
    match expr:
        case Val(value, dtype):
            return typed(value, dtype)
        case Load(buf) if buf in fills:
            return typed(fills[buf].value, expr.dtype)
        case Cast(dtype, operand):
            found = _value(operand, fills)
            return None if found is None else convert(found, dtype_of(operand), dtype)
        case Unary(op, operand, dtype):
            found = _value(operand, fills)
            return None if found is None else apply_unary(op, found, dtype)
        case Binary(op, left, right, dtype):
            values = _value(left, fills), _value(right, fills)
            if op in ("mul", "and") and is_integer(dtype) and 0 in values:
                return 0
            if values[0] is None or values[1] is None or may_trap(expr):
                return None
            return apply_binary(op, values[0], values[1], dtype_of(left) if op in COMPARISONS else dtype)
        case Select(condition, true, false):
            chosen = _value(condition, fills)
            return None if chosen is None else _value(true if chosen else false, fills)
        case Call(name, args, dtype):
            known = [_value(a, fills) for a in args]
            return None if None in known else call(name, dtype, *(k for k in known if k is not None))
        case _:
            return None


def _alone(use: Use, names: Mapping[str, str | None]) -> bool:
    """Whether an access has one subscript, an iteration's number and a constant."""
    if len(use.forms) != 1 or (form := use.forms[0]) is None:
        return False
    return form[1] == {names[use.comp.name]: 1}


def _lines(names: Sequence[str]) -> tuple[Line, ...]:
    return tuple(Line(0, ((name, 1),)) for name in names)


def _stored(made: Func, load: Load, count: str, value: Val, group: int) -> Comp:
    """The statement that stores a group of elements behind a window's data."""
    name = f"S_behind_{load.buf}"
    (index,) = load.indices
    domain = isl.Set(f"{{ {name}[l] : 0 <= l < {group} }}")
    form = linear(index)
    assert form is not None
    target = replace(load, indices=(substitute(add(index, Param(count, "i32")), {n: Iter("l") for n in form[1]}),))
    return Comp(name, ("l",), domain, isl.Map(f"{{ {name}[l] -> [0, l, 0] }}"), target, value, made.loc)
