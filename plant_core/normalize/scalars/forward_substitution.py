"""Values of local scalars written in their readers' place, so that distribution need not store them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import islpy as isl

from plant_core.analysis.dependence import Flow, flows
from plant_core.ir.accesses import accesses, all_bufs, children, domain_of, read_accesses, rebuild, substitute
from plant_core.ir.func import Binary, Call, Comp, Expr, Func, Iter, Load, Unary
from plant_core.ir.time_2d1 import Line, position, shared_depth

MOST_REPEATED = 4
"""Operations of a value that may be computed by several readers."""


def forward_scalars(func: Func) -> Func:
    """Replace reads of a local scalar by its value, where one statement of the same iteration gives it.

    Before: `t = a[i] * b[j]; c[i][j] += t;`. After: `c[i][j] += a[i] * b[j];`. The value's operands must be unchanged
    at every reader; dear values have one reader only.
    """
    while found := _found(func):
        func = _substituted(func, found)
    return func


@dataclass(frozen=True, slots=True)
class _Found:
    writer: Comp
    readers: tuple[str, ...]


def _found(func: Func) -> list[_Found]:
    """The values to put in their readers' place now: none of them is made of another."""
    scalars = {n for n, b in all_bufs(func).items() if b.kind == "local" and b.shape == ()}
    candidates = [c for c in func.comps if c.target.buf in scalars and c.defines is None]
    known = flows(func, local=True) if candidates else ()
    found: list[_Found] = []
    changed: set[str] = set()
    for comp in candidates:
        readers = _readers(func, comp, known)
        if readers is None or comp.name in changed or any(f.writer.name in readers for f in found):
            continue
        if _cheap(comp.value, len(readers)) and _unchanged(func, comp, readers):
            found.append(_Found(comp, readers))
            changed.update(readers)
    return found


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


def _substituted(func: Func, found: list[_Found]) -> Func:
    gone = {f.writer.name for f in found}
    comps = tuple(_with_values(c, [f.writer for f in found if c.name in f.readers]) for c in func.comps)
    comps = tuple(comp for comp in comps if comp.name not in gone)
    used = {a.buf for comp in comps for a in (comp.target, *read_accesses(comp))}
    return replace(func, comps=comps, bufs=tuple(b for b in func.bufs if b.kind == "param" or b.name in used))


def _with_values(comp: Comp, writers: list[Comp]) -> Comp:
    """`comp` with the values of `writers` in place of what it reads of them."""
    values = {w.target.buf: (w, dict(zip(w.iters, map(Iter, comp.iters), strict=False))) for w in writers}

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.buf in values:
            writer, iters = values[expr.buf]
            return substitute(writer.value, iters)
        parts = children(expr)
        return rebuild(expr, tuple(map(change, parts))) if parts else expr

    target = replace(comp.target, indices=tuple(map(change, comp.target.indices)))
    return replace(comp, target=target, value=change(comp.value)) if writers else comp
