"""Find accesses that step by a parameter, and the iterations of two of them that touch one element."""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from plant_core.ir.accesses import linear, with_param
from plant_core.ir.func import Binary, Cast, Comp, Expr, Load, Unary
from plant_core.ir.time_2d1 import Line, line_value

Polynomial = dict[tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class Multiple:
    """The subscript `stride * steps + rest`; `rest` is the same in all iterations."""

    stride: str
    steps: Line
    rest: frozenset[tuple[tuple[str, ...], int]]


def multiple(index: Expr, iters: tuple[str, ...]) -> Multiple | None:
    """A subscript whose iterators all are multiplied by one parameter; None for any other."""
    found = polynomial(index)
    products = [m for m in found or () if set(m) & set(iters)]
    strides = {name for m in products for name in m if name not in iters}
    if found is None or len(strides) != 1 or any(len(m) != 2 or not strides & set(m) for m in products):
        return None
    (stride,) = strides
    terms = tuple(sorted((next(n for n in m if n != stride), found[m]) for m in products))
    rest = frozenset((m, c) for m, c in found.items() if m not in products and m != (stride,))
    return Multiple(stride, Line(found.get((stride,), 0), terms), rest)


def polynomial(expr: Expr) -> Polynomial | None:
    """Sums of products of iterators and integer parameters: the factor of each product, its names sorted."""
    form = linear(expr)
    if form is not None:
        return {key: c for key, c in [((), form[0]), *(((n,), c) for n, c in form[1].items())] if c}
    match expr:
        case Cast(dtype="i32" | "i64"):
            return polynomial(expr.operand)
        case Unary(op="neg"):
            return _product(polynomial(expr.operand), {(): -1})
        case Binary(op="add" | "sub" | "mul"):
            left, right = polynomial(expr.left), polynomial(expr.right)
            if expr.op == "mul":
                return _product(left, right)
            right = _product(right, {(): 1 if expr.op == "add" else -1})
            if left is None or right is None:
                return None
            total = {m: left.get(m, 0) + right.get(m, 0) for m in {**left, **right}}
            return {m: c for m, c in total.items() if c}
        case _:
            return None


def _product(left: Polynomial | None, right: Polynomial | None) -> Polynomial | None:
    if left is None or right is None:
        return None
    total: Polynomial = {}
    for one, first in left.items():
        for other, second in right.items():
            key = tuple(sorted((*one, *other)))
            total[key] = total.get(key, 0) + first * second
    return {m: c for m, c in total.items() if c}


def same_steps(source: Comp, first: Load, sink: Comp, second: Load, relation: isl.Map) -> isl.Map:
    """The pairs of `relation` that can touch one element by two accesses of one array: where a stride isn't 0, as many
    steps are needed."""
    for one, other in zip(first.indices, second.indices, strict=True):
        if linear(one) is not None or linear(other) is not None:
            continue
        here, there = multiple(one, source.iters), multiple(other, sink.iters)
        if here is None or there is None or here.stride != there.stride or here.rest != there.rest:
            continue
        if _never_zero(source, here.stride) or _never_zero(sink, here.stride):
            relation = relation.intersect(line_value(source, here.steps).eq_map(line_value(sink, there.steps)))
    return relation


def _never_zero(comp: Comp, name: str) -> bool:
    return bool(comp.domain.intersect(parameter_between(comp.domain, name, 0, 0)).is_empty())


def parameter_between(domain: isl.Set, name: str, low: int | None, high: int | None) -> isl.Set:
    """The points at which a parameter lies between two numbers."""
    space = ensure_param(domain.get_space(), name)
    found, place = isl.Set.universe(space), space.find_dim_by_name(isl.dim_type.param, name)
    if low is not None:
        found = found.lower_bound_val(isl.dim_type.param, place, isl.Val(low))
    return found if high is None else found.upper_bound_val(isl.dim_type.param, place, isl.Val(high))


def ensure_param(space: isl.Space, name: str) -> isl.Space:
    """Return the space with a parameter, which it may have already."""
    return space if space.find_dim_by_name(isl.dim_type.param, name) >= 0 else with_param(space, name)
