"""Subscripts that step by a parameter, `a[p * i + q]`: told apart where p isn't 0, and affine where p is 1."""

from __future__ import annotations

from dataclasses import dataclass, replace

import islpy as isl

from plant_core.ir.accesses import children, domain_of, from_linear, linear, rebuild, with_param
from plant_core.ir.func import Binary, Cast, Comp, Expr, Func, Load, Param, ScalarParam, Unary, Val
from plant_core.ir.time_2d1 import Line, Position, line_value, position, schedule_map

MOST_COMPS = 6
"""Statements of a nest that is there once for each kind of stride."""

_Poly = dict[tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class Multiple:
    """The subscript `stride * steps + rest`; `rest` is the same in all iterations."""

    stride: str
    steps: Line
    rest: frozenset[tuple[tuple[str, ...], int]]


def multiple(index: Expr, iters: tuple[str, ...]) -> Multiple | None:
    """A subscript whose iterators all are multiplied by one parameter; None for any other."""
    found = _poly(index)
    products = [m for m in found or () if set(m) & set(iters)]
    strides = {name for m in products for name in m if name not in iters}
    if found is None or len(strides) != 1 or any(len(m) != 2 or not strides & set(m) for m in products):
        return None
    (stride,) = strides
    terms = tuple(sorted((next(n for n in m if n != stride), found[m]) for m in products))
    rest = frozenset((m, c) for m, c in found.items() if m not in products and m != (stride,))
    return Multiple(stride, Line(found.get((stride,), 0), terms), rest)


def _poly(expr: Expr) -> _Poly | None:
    """Sums of products of iterators and integer parameters: the factor of each product, its names sorted."""
    form = linear(expr)
    if form is not None:
        return {key: c for key, c in [((), form[0]), *(((n,), c) for n, c in form[1].items())] if c}
    match expr:
        case Cast(dtype="i32" | "i64"):
            return _poly(expr.operand)
        case Unary(op="neg"):
            return _product(_poly(expr.operand), {(): -1})
        case Binary(op="add" | "sub" | "mul"):
            left, right = _poly(expr.left), _poly(expr.right)
            if expr.op == "mul":
                return _product(left, right)
            right = _product(right, {(): 1 if expr.op == "add" else -1})
            if left is None or right is None:
                return None
            total = {m: left.get(m, 0) + right.get(m, 0) for m in {**left, **right}}
            return {m: c for m, c in total.items() if c}
        case _:
            return None


def _product(left: _Poly | None, right: _Poly | None) -> _Poly | None:
    if left is None or right is None:
        return None
    total: _Poly = {}
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
    return bool(comp.domain.intersect(_where(comp.domain, name, 0, 0)).is_empty())


def _where(domain: isl.Set, name: str, low: int | None, high: int | None) -> isl.Set:
    """The points at which a parameter lies between two numbers."""
    space = _with(domain.get_space(), name)
    found, place = isl.Set.universe(space), space.find_dim_by_name(isl.dim_type.param, name)
    if low is not None:
        found = found.lower_bound_val(isl.dim_type.param, place, isl.Val(low))
    return found if high is None else found.upper_bound_val(isl.dim_type.param, place, isl.Val(high))


def _with(space: isl.Space, name: str) -> isl.Space:
    return space if space.find_dim_by_name(isl.dim_type.param, name) >= 0 else with_param(space, name)


def by_strides(func: Func) -> Func:
    """Nests that step through arrays by a parameter, once for each kind of stride: 1, larger, and others.

    Before: `for i: a[s * i] = b[s * i];`. After: `if (s == 1) for i: a[i] = b[i]; if (s >= 2) for i: ...; if (s <= 0)
    for i: ...`. Requires: 2d+1 schedules. Ensures: the same instances in the same order; of the versions of a nest,
    one has instances.
    """
    groups: dict[int, list[Comp]] = {}
    for comp in func.comps:
        groups.setdefault(position(comp).constants[0], []).append(comp)
    chosen = {key: name for key, comps in groups.items() if (name := _stride(func, comps)) is not None}
    if not chosen or func.effects:
        return func
    for name in sorted(set(chosen.values())):
        # isl wants the same parameters in all domains.
        groups = {key: [_knowing(c, name) for c in comps] for key, comps in groups.items()}
    taken = {c.name for c in func.comps}
    result: list[Comp] = []
    for key in sorted(groups):
        if key not in chosen:
            result += [_moved(c, 3 * key) for c in groups[key]]
            continue
        for number, (suffix, low, high) in enumerate((("_unit", 1, 1), ("_strided", 2, None), ("", None, 0))):
            for comp in groups[key]:
                name = _fresh(comp.name + suffix, taken) if suffix else comp.name
                domain = comp.domain.intersect(_where(comp.domain, chosen[key], low, high)).set_tuple_name(name)
                if domain.is_empty():
                    continue
                version = replace(comp, name=name, domain=domain)
                version = _with_unit(version, chosen[key]) if number == 0 else version
                result.append(_moved(version, 3 * key + number, position(comp)))
    return func.with_comps(tuple(result))


def _knowing(comp: Comp, name: str) -> Comp:
    return replace(comp, domain=comp.domain.align_params(_with(comp.domain.get_space().params(), name)))


def _stride(func: Func, comps: list[Comp]) -> str | None:
    """The parameter by which the nest's subscripts step."""
    params = {p.name for p in func.params if isinstance(p, ScalarParam) and p.dtype == "i32"}
    if len(comps) > MOST_COMPS or any(c.defines is not None for c in comps):
        return None
    for comp in comps:
        for index in (i for e in (comp.target, comp.value) for a in _loads(e) for i in a.indices):
            found = None if linear(index) is not None else multiple(index, comp.iters)
            if found is not None and found.stride in params:
                return found.stride
    return None


def _loads(expr: Expr) -> list[Load]:
    own = [expr] if isinstance(expr, Load) else []
    return own + [load for part in children(expr) for load in _loads(part)]


def _fresh(wanted: str, taken: set[str]) -> str:
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted


def _moved(comp: Comp, first: int, place: Position | None = None) -> Comp:
    """The statement at another outermost textual position."""
    place = position(comp) if place is None else place
    length = comp.schedule.dim(isl.dim_type.out)
    moved = Position((first, *place.constants[1:]), place.loops)
    return replace(comp, schedule=schedule_map(comp, moved, length).intersect_domain(domain_of(comp)))


def _with_unit(comp: Comp, name: str) -> Comp:
    """The statement with 1 for a parameter."""
    target = _tidied(comp.target, name, comp.iters)
    assert isinstance(target, Load)
    return replace(comp, target=target, value=_tidied(comp.value, name, comp.iters))


def _tidied(expr: Expr, name: str, iters: tuple[str, ...]) -> Expr:
    if isinstance(expr, Param) and expr.name == name:
        return Val(1, expr.dtype)
    parts = tuple(_tidied(p, name, iters) for p in children(expr))
    if isinstance(expr, Load):
        forms = [(part, linear(part)) for part in parts]
        parts = tuple(part if form is None else from_linear(form, set(iters)) for part, form in forms)
    return rebuild(expr, parts) if parts else expr
