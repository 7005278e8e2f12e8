"""First-order recurrences: statements whose value is linear in the element that they wrote some iterations ago.

Such a chain is the prefix of an associative operation: `x = a x' + b` composes as pairs (a, b), and least and greatest
elements as themselves, so that many of its iterations can run at once (Blelloch, Prefix Sums and Their Applications).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import islpy as isl

from plant_core.ir.accesses import access_key, accesses, is_integer, linear
from plant_core.ir.c_semantics import dtype_of, is_float, size_of
from plant_core.ir.func import Binary, Cast, Comp, DType, Expr, Load, Select, Unary, Val
from plant_core.ir.loop_tree import Tile
from plant_core.ir.time_2d1 import position
from plant_core.support.memoize import by_identity

Family = Literal["linear", "min", "max"]
_WORDS = ("i32", "u32", "f32", "f64")


@dataclass(frozen=True, slots=True)
class Recurrence:
    """`target = factor * access + term`, or `target = min(access, term)` (`max` so too).

    `access` reads what the statement wrote `distance` iterations of the loop ago; where that is negative, the
    iterations with greater numbers come first. `factor` None is 1, `term` None 0. Neither reads `access`.
    """

    family: Family
    access: Load
    distance: int
    factor: Expr | None
    term: Expr | None


@by_identity
def recurrence_of(comp: Comp, iterator: str) -> Recurrence | None:
    """How `comp` continues itself along the loop over `iterator`, or None. Integers wrap round, so that only their low
    bits matter where the target is narrow."""
    near = {access_key(a): a for a in accesses(comp.value) if a.buf == comp.target.buf}
    step = _step(comp, iterator)
    ago = [(a, _distance(comp.target, a, iterator)) for a in near.values()]
    found = [(a, d) for a, d in ago if d is not None and d * step > 0]
    if len(found) != 1 or comp.defines is not None:
        return None
    access, distance = found[0]
    if any(access_key(a) == access_key(access) for i in comp.target.indices for a in accesses(i)):
        return None
    reader = _Reader(access, comp.target.dtype)
    if (form := reader.linear(comp.value)) is not None and form.factor is not None:
        return Recurrence("linear", access, distance, None if _is(form.factor, 1) else form.factor, form.term)
    return _extremum(comp.value, reader, access, distance)


def steady(recurrence: Recurrence, comp: Comp, iterator: str) -> isl.Map:
    """The pairs of instances `distance` iterations of the loop apart, at one place of all others."""
    pairs = isl.Map.universe(comp.domain.get_space().map_from_set())
    local = isl.LocalSpace.from_space(pairs.get_space())
    for k, name in enumerate(comp.iters):
        step = isl.Constraint.alloc_equality(local).set_coefficient_val(isl.dim_type.in_, k, isl.Val(1))
        step = step.set_coefficient_val(isl.dim_type.out, k, isl.Val(-1))
        far = recurrence.distance if name == iterator else 0
        pairs = pairs.add_constraint(step.set_constant_val(isl.Val(far)))
    return pairs


def _step(comp: Comp, iterator: str) -> int:
    """Which way the loop runs; 0 where its schedule is of more than the iterator."""
    line = position(comp).loops[comp.iters.index(iterator)]
    return line.terms[0][1] if [name for name, _ in line.terms] == [iterator] else 0


def falls(comp: Comp, tile: Tile) -> bool:
    """Whether the tile is of a recurrence that runs from its last iteration down."""
    found = recurrence_of(comp, tile.lane) if tile.scan and tile.lane is not None else None
    return found is not None and found.distance < 0


def _distance(target: Load, access: Load, iterator: str) -> int | None:
    """How many iterations ago the target's element was what `access` reads now, where that is so in each iteration."""
    far: int | None = None
    for written, read in zip(target.indices, access.indices, strict=True):
        here, there = linear(written), linear(read)
        if here is None or there is None or _nonzero(here[1]) != _nonzero(there[1]):
            return None
        behind, step = here[0] - there[0], here[1].get(iterator, 0)
        if step == 0:
            if behind:
                return None
            continue
        if behind % step or (far is not None and behind // step != far):
            return None
        far = behind // step
    return far or None


def _nonzero(coefficients: dict[str, int]) -> dict[str, int]:
    return {name: c for name, c in coefficients.items() if c}


@dataclass(frozen=True, slots=True)
class _Linear:
    """`factor * x + term`; None is 0."""

    factor: Expr | None
    term: Expr | None


@dataclass(frozen=True, slots=True)
class _Reader:
    access: Load
    dtype: DType

    def free(self, expr: Expr) -> bool:
        key = access_key(self.access)
        return all(access_key(a) != key for a in accesses(expr))

    def linear(self, expr: Expr) -> _Linear | None:
        """The expression's low bits, where it is an integer; None where it isn't linear in the access."""
        if self.free(expr):
            return _Linear(None, expr) if self._keeps(dtype_of(expr)) else None
        match expr:
            case Load() if access_key(expr) == access_key(self.access):
                return _Linear(Val(1.0 if is_float(self.dtype) else 1, self.dtype), None)
            case Cast(dtype=dtype, operand=operand):
                found = self.linear(operand) if self._keeps(dtype) and self._keeps(dtype_of(operand)) else None
                return None if found is None else _Linear(_cast(found.factor, dtype), _cast(found.term, dtype))
            case Unary(op="neg", operand=operand, dtype=dtype):
                found = self.linear(operand)
                return None if found is None else _Linear(_negated(found.factor, dtype), _negated(found.term, dtype))
            case Binary() if self._keeps(expr.dtype):
                return self._binary(expr)
            case Select(condition=condition, true=true, false=false) if self.free(condition):
                yes, no = self.linear(true), self.linear(false)
                if yes is None or no is None:
                    return None
                zero = Val(0.0 if is_float(expr.dtype) else 0, expr.dtype)
                choose = [
                    Select(condition, a or zero, b or zero, expr.dtype) if a is not None or b is not None else None
                    for a, b in ((yes.factor, no.factor), (yes.term, no.term))
                ]
                return _Linear(*choose)
            case _:
                return None

    def _binary(self, expr: Binary) -> _Linear | None:
        left, right = self.linear(expr.left), self.linear(expr.right)
        if left is None or right is None:
            return None
        dtype = expr.dtype
        match expr.op:
            case "add":
                return _Linear(_sum(left.factor, right.factor, dtype), _sum(left.term, right.term, dtype))
            case "sub":
                factor = _sum(left.factor, _negated(right.factor, dtype), dtype)
                return _Linear(factor, _difference(left.term, right.term, dtype))
            case "mul":
                if left.factor is not None and right.factor is not None:
                    return None
                by, of = (left.term, right) if left.factor is None else (right.term, left)
                return _Linear(_product(of.factor, by, dtype), _product(of.term, by, dtype))
            case "div" if is_float(dtype) and right.factor is None and right.term is not None:
                parts = [None if p is None else Binary("div", p, right.term, dtype) for p in (left.factor, left.term)]
                return _Linear(*parts)
            case _:
                return None

    def _keeps(self, dtype: DType) -> bool:
        """Whether values of this type have all the bits of the target that matter."""
        if is_float(self.dtype):
            return dtype == self.dtype
        return is_integer(dtype) and dtype != "i64" and size_of(dtype) >= size_of(self.dtype)


def _extremum(value: Expr, reader: _Reader, access: Load, distance: int) -> Recurrence | None:
    """`min(min(x, a), b)` and its like, of numbers as wide as a register."""
    if reader.dtype not in _WORDS or not isinstance(value, Binary) or value.op not in ("min", "max"):
        return None
    op, rest = value.op, list[Expr]()
    while isinstance(value, Binary) and value.op == op and value.dtype == reader.dtype:
        value, other = (value.left, value.right) if reader.free(value.right) else (value.right, value.left)
        if not reader.free(other):
            return None
        rest.append(other)
    if not isinstance(value, Load) or access_key(value) != access_key(access):
        return None
    term = rest[0]
    for part in rest[1:]:
        term = Binary(op, term, part, reader.dtype)
    return Recurrence("min" if op == "min" else "max", access, distance, None, term)


def _is(expr: Expr | None, value: int) -> bool:
    while isinstance(expr, Cast):
        expr = expr.operand
    return isinstance(expr, Val) and expr.value == value


def _cast(expr: Expr | None, dtype: DType) -> Expr | None:
    match expr:
        case None:
            return None
        case Val(value=1):
            return replace(expr, dtype=dtype)
        case _:
            return expr if dtype_of(expr) == dtype else Cast(dtype, expr)


def _negated(expr: Expr | None, dtype: DType) -> Expr | None:
    return None if expr is None else Unary("neg", expr, dtype)


def _sum(left: Expr | None, right: Expr | None, dtype: DType) -> Expr | None:
    if left is None or right is None:
        return left if right is None else right
    return Binary("add", left, right, dtype)


def _difference(left: Expr | None, right: Expr | None, dtype: DType) -> Expr | None:
    if right is None or left is None:
        return left if right is None else _negated(right, dtype)
    return Binary("sub", left, right, dtype)


def _product(left: Expr | None, right: Expr | None, dtype: DType) -> Expr | None:
    if left is None or right is None:
        return None
    if _is(left, 1) or _is(right, 1):
        return right if _is(left, 1) else left
    return Binary("mul", left, right, dtype)
