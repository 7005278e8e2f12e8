"""Values of local scalars written in their readers' place, so that distribution need not store them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import islpy as isl

from plant_core.affine import accesses, all_bufs, children, domain_of, rebuild, substitute
from plant_core.dependence import Flow, flows
from plant_core.ir import Binary, Call, Comp, Expr, Func, Iter, Load, Unary
from plant_core.scalars import drop_dead
from plant_core.schedule import Line, position, shared_depth

MOST_REPEATED = 4
"""Operations of a value that may be computed by several readers."""


def forward_scalars(func: Func) -> Func:
    """Replace reads of a local scalar by its value, where one statement of the same iteration gives it.

    Before: `t = a[i] * b[j]; c[i][j] += t;`. After: `c[i][j] += a[i] * b[j];`. The value's operands must be unchanged
    at every reader; dear values have one reader only.
    """
    while True:
        found = _first(func)
        if found is None:
            return func
        func = drop_dead(_substituted(func, found))


@dataclass(frozen=True, slots=True)
class _Found:
    writer: Comp
    readers: tuple[str, ...]


def _first(func: Func) -> _Found | None:
    bufs = all_bufs(func)
    scalars = {n for n, b in bufs.items() if b.kind == "local" and b.shape == ()}
    candidates = [c for c in func.comps if c.target.buf in scalars]
    if not candidates:
        return None
    known = flows(func)
    for comp in candidates:
        readers = _readers(func, comp, known)
        if readers is not None and _cheap(comp.value, len(readers)) and _unchanged(func, comp, readers):
            return _Found(comp, readers)
    return None


def _readers(func: Func, writer: Comp, known: tuple[Flow, ...]) -> tuple[str, ...] | None:
    """The statements that read the writer's value and no other one, each in the writer's own iteration."""
    sinks = [f for f in known if f.source == writer.name]
    if not sinks or any(a.buf == writer.target.buf for a in accesses(writer.value)):
        return None
    comps = {c.name: c for c in func.comps}
    depth = len(writer.iters)
    for flow in sinks:
        reader = comps[flow.sink]
        others = [f for f in known if f.sink == flow.sink and f.access == flow.access and f.source != writer.name]
        if others or shared_depth(position(writer), position(reader)) < depth:
            return None
        same = isl.Map.universe(flow.relation.get_space())
        for k in range(depth):
            if position(writer).loops[k] != Line(0, ((writer.iters[k], 1),)):
                return None
            same = same.equate(isl.dim_type.in_, k, isl.dim_type.out, k)
        if not flow.relation.is_subset(same) or not domain_of(reader).is_subset(flow.relation.range()):
            return None
    return tuple(dict.fromkeys(f.sink for f in sinks))


def _cheap(expr: Expr, readers: int) -> bool:
    return readers == 1 or _weight(expr) <= MOST_REPEATED


def _weight(expr: Expr) -> int:
    own = 20 if isinstance(expr, Call) or (isinstance(expr, Binary) and expr.op == "div") else 0
    own += 1 if isinstance(expr, Binary | Unary) else 0
    return own + sum(map(_weight, children(expr)))


def _unchanged(func: Func, writer: Comp, readers: tuple[str, ...]) -> bool:
    """Whether nothing that may run between the writer and a reader writes what the value is made of."""
    read = {a.buf for a in accesses(writer.value)}
    order = [c.name for c in func.comps]
    places = {c.name: position(c) for c in func.comps}
    depth = len(writer.iters)
    first = order.index(writer.name)
    for number, comp in enumerate(func.comps):
        if comp.target.buf not in read or number <= first:
            continue
        if shared_depth(places[writer.name], places[comp.name]) < depth:
            continue
        for reader in readers:
            last = order.index(reader)
            together = shared_depth(places[reader], places[comp.name]) > depth
            if number < last or (together and len(places[reader].loops) > depth):
                return False
            if number == last and (len(readers) > 1 or len(places[reader].loops) > depth):
                return False
    return True


def _substituted(func: Func, found: _Found) -> Func:
    writer = found.writer

    def change(expr: Expr, iters: dict[str, Expr]) -> Expr:
        if isinstance(expr, Load) and expr.buf == writer.target.buf:
            return substitute(writer.value, iters)
        parts = children(expr)
        return rebuild(expr, tuple(change(p, iters) for p in parts)) if parts else expr

    comps = []
    for comp in func.comps:
        if comp.name in found.readers:
            iters: dict[str, Expr] = {
                mine: Iter(theirs) for mine, theirs in zip(writer.iters, comp.iters, strict=False)
            }
            comp = replace(comp, value=change(comp.value, iters))
        comps.append(comp)
    return func.with_comps(tuple(comps))
