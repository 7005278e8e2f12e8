"""Local variables renamed, expanded and dropped, so that they order no more of the program than their values do."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

import islpy as isl

from plant_core.analysis.dependence import Flow, flows, reduction_of
from plant_core.analysis.runtime_parameters import defined_parameters
from plant_core.ir.accesses import (
    access_key,
    add,
    all_bufs,
    children,
    domain_of,
    from_linear,
    integer,
    read_accesses,
    rebuild,
    sub,
)
from plant_core.ir.func import Buf, Comp, Expr, Extent, Func, Iter, Load, Val
from plant_core.ir.quasi_affine import parameters_of
from plant_core.ir.time_2d1 import Position, line_value, position, shared_depth

_T = TypeVar("_T")

GUESSED_EXTENT = 1000
"""What an extent that depends on parameters counts as against a budget of elements."""


def expand_scalars(
    func: Func, *, array_elements: int = 4096, split_elements: int = 65536, symbolic: int = 0, few: int = 0
) -> Func:
    """Split local variables into webs, give each loop iteration its own copy, and drop Comps that nothing needs.

    Before: `for i { t = a[i]; b[i] = t; t = c[i]; d[i] = t; }`.
    After:  `for i { t[i] = a[i]; b[i] = t[i]; t_1[i] = c[i]; d[i] = t_1[i]; }`.
    Requires: 2d+1 schedules. Ensures: the same contents of every parameter. A variable is expanded over as many of the
    outermost loops around all its accesses as have constant bounds and are crossed by no value of it; local arrays up
    to `array_elements` elements, and split as long as the copies have `split_elements` in all. `symbolic`: scalars are
    expanded over loops of run-time bounds, too, up to so many elements in any case. `few`: arrays of so many elements
    are expanded over the inner loops where all of them would make too many, and those of neighbouring iterations lie
    side by side.
    """
    # Neither dropping nor renaming changes which write a live read sees, so one analysis serves all three steps.
    known = flows(func, local=True)
    func = _without_dead(func, known)
    live = {comp.name for comp in func.comps}
    known = tuple(flow for flow in known if flow.sink in live)
    func, known = _split_webs(func, known, split_elements)
    return _expand(func, known, array_elements, symbolic, few)


# --- dead Comps ---------------------------------------------------------------------------------------------------


def drop_dead(func: Func) -> Func:
    """Without the Comps that write a local variable whose value reaches no parameter."""
    return _without_dead(func, flows(func, local=True))


def _without_dead(func: Func, known: tuple[Flow, ...]) -> Func:
    bufs = all_bufs(func)
    feeds: dict[str, set[str]] = {}
    for flow in known:
        feeds.setdefault(flow.sink, set()).add(flow.source)
    pending = [c.name for c in func.comps if bufs[c.target.buf].kind == "param" or c.defines is not None]
    live = set(pending)
    while pending:
        new = feeds.get(pending.pop(), set()) - live
        live |= new
        pending += sorted(new)
    comps = tuple(comp for comp in func.comps if comp.name in live)
    used = {comp.target.buf for comp in comps} | {a.buf for comp in comps for a in read_accesses(comp)}
    kept = tuple(buf for buf in func.bufs if buf.kind == "param" or buf.name in used)
    return replace(func, comps=comps, bufs=kept)


# --- webs ---------------------------------------------------------------------------------------------------------

_Node = tuple[str, int]
"""A Comp's write (-1) or one of its read accesses (its number in `read_accesses`)."""


@dataclass(frozen=True, slots=True)
class _Web:
    """Writes and reads of one local Buf that exchange values among each other only."""

    buf: Buf
    nodes: tuple[_Node, ...]


def _webs(func: Func, all_flows: tuple[Flow, ...]) -> list[_Web]:
    bufs = all_bufs(func)
    parent: dict[_Node, _Node] = {}
    names: dict[_Node, str] = {}
    for comp in func.comps:
        touched = [(-1, comp.target.buf), *((k, a.buf) for k, a in enumerate(read_accesses(comp)))]
        for number, buf in touched:
            if bufs[buf].kind == "local":
                parent[comp.name, number] = (comp.name, number)
                names[comp.name, number] = buf

    def root(node: _Node) -> _Node:
        while parent[node] != node:
            node = parent[node]
        return node

    for flow in all_flows:
        if bufs[flow.buf].kind == "local":
            parent[root((flow.sink, flow.access))] = root((flow.source, -1))
    for name, number in _accumulations(func, all_flows):
        if (name, number) in parent:
            parent[root((name, number))] = root((name, -1))
    groups: dict[_Node, list[_Node]] = {}
    for node in parent:
        groups.setdefault(root(node), []).append(node)
    return [_Web(bufs[names[nodes[0]]], tuple(nodes)) for nodes in groups.values()]


def _accumulations(func: Func, known: tuple[Flow, ...]) -> list[_Node]:
    """The reads by which reductions continue what several statements accumulate together: in one variable their
    updates may change places, in several they may not."""
    own: dict[str, tuple[str, int]] = {}
    for comp in func.comps:
        found = reduction_of(comp)
        if found is not None:
            keys = [access_key(a) for a in read_accesses(comp)]
            own[comp.name] = (found.op, keys.index(access_key(comp.target)))
    onward: dict[str, set[str]] = {}
    for flow in known:
        same = flow.source in own and flow.sink in own and own[flow.source][0] == own[flow.sink][0]
        if same and flow.access == own[flow.sink][1]:
            onward.setdefault(flow.source, set()).add(flow.sink)
    return [(name, number) for name, (_, number) in own.items() if name in _reached(onward, name)]


def _reached(onward: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    pending = [start]
    while pending:
        new = onward.get(pending.pop(), set()) - found
        found |= new
        pending += sorted(new)
    return found


_Place = tuple[int | None, ...]
"""The elements that a web has, by dimension: the one that all its subscripts are, None where they aren't constant."""


def _place(func: Func, web: _Web) -> _Place:
    found: list[set[int | None]] = [set() for _ in web.buf.shape]
    for name, number in web.nodes:
        comp = func.comp(name)
        access = comp.target if number < 0 else read_accesses(comp)[number]
        for values, index in zip(found, access.indices, strict=True):
            values.add(index.value if isinstance(index, Val) and isinstance(index.value, int) else None)
    return tuple(values.pop() if len(values) == 1 else None for values in found)


def _apart(one: _Place, other: _Place) -> bool:
    """Whether webs have no element in common, so that they are in nobody's way."""
    return any(a is not None and b is not None and a != b for a, b in zip(one, other, strict=True))


def _split_webs(func: Func, known: tuple[Flow, ...], budget: int) -> tuple[Func, tuple[Flow, ...]]:
    """A Buf of its own for each web that has elements in common with others; of webs that have none, and of others the
    first in text order, keep the name."""
    taken = set(all_bufs(func)) | {p.name for p in func.params}
    defined = defined_parameters(func)
    # The Bufs that a local variable became, each with where the webs in it are.
    made: dict[str, dict[str, list[_Place]]] = {}
    renamed: dict[_Node, str] = {}
    added: dict[str, list[Buf]] = {}
    for web in _webs(func, known):
        name = web.buf.name
        if name in defined:
            continue
        place = _place(func, web)
        home = made.setdefault(name, {name: []})
        if (found := next((n for n, webs in home.items() if all(_apart(place, w) for w in webs)), None)) is not None:
            home[found].append(place)
            renamed |= dict.fromkeys(web.nodes if found != name else (), found)
            continue
        if _elements(web.buf.shape) > budget and web.buf.shape:
            continue
        budget -= _elements(web.buf.shape) if web.buf.shape else 0
        number = 1
        while f"{name}_{number}" in taken:
            number += 1
        new = f"{name}_{number}"
        taken.add(new)
        home[new] = [place]
        added.setdefault(name, []).append(replace(web.buf, name=new))
        renamed |= dict.fromkeys(web.nodes, new)
    if not renamed:
        return func, known
    comps = tuple(_rename(comp, renamed) for comp in func.comps)
    bufs = tuple(b for buf in func.bufs for b in (buf, *added.get(buf.name, ())))
    moved = tuple(replace(f, buf=renamed.get((f.sink, f.access), f.buf)) for f in known)
    return replace(func, comps=comps, bufs=bufs), moved


def _rename(comp: Comp, renamed: dict[_Node, str]) -> Comp:
    names = {
        access_key(access): renamed[comp.name, k]
        for k, access in enumerate(read_accesses(comp))
        if (comp.name, k) in renamed
    }

    def change(expr: Expr) -> Expr:
        parts = children(expr)
        new = rebuild(expr, tuple(change(p) for p in parts)) if parts else expr
        if isinstance(expr, Load) and isinstance(new, Load) and access_key(expr) in names:
            return replace(new, buf=names[access_key(expr)])
        return new

    target = replace(
        comp.target,
        buf=renamed.get((comp.name, -1), comp.target.buf),
        indices=tuple(change(i) for i in comp.target.indices),
    )
    return replace(comp, target=target, value=change(comp.value))


# --- expansion ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Expansion:
    """New subscripts of a Buf in each Comp, and their extents, before its own or `last`."""

    extents: tuple[Extent, ...]
    subscripts: dict[str, tuple[Expr, ...]]
    last: bool = False

    def within(self, extents: tuple[Extent, ...], most: int, *, least: int) -> _Expansion | None:
        """Over so many of the innermost loops, `least` at least, that there are `most` elements, with the Buf's own
        `extents`."""
        for k in range(min(len(self.extents), len(self.extents) + 1 - least)):
            if _elements((*self.extents[k:], *extents)) <= most:
                return replace(
                    self, extents=self.extents[k:], subscripts={n: s[k:] for n, s in self.subscripts.items()}
                )
        return None

    def joined(self, own: tuple[_T, ...], new: tuple[_T, ...]) -> tuple[_T, ...]:
        return (*own, *new) if self.last else (*new, *own)


def _expand(func: Func, known: tuple[Flow, ...], array_elements: int, symbolic: int, few: int) -> Func:
    defined = defined_parameters(func)
    places = {comp.name: position(comp) for comp in func.comps}
    expansions: dict[str, _Expansion] = {}
    for buf in func.bufs:
        if buf.kind != "local" or buf.name in defined:
            continue
        users = [c for c in func.comps if c.target.buf == buf.name or any(a.buf == buf.name for a in read_accesses(c))]
        found = _expansion(buf, users, places, [f for f in known if f.buf == buf.name], symbolic > 0)
        most, last = array_elements if buf.shape else symbolic or sys.maxsize, 1 < _elements(buf.shape) <= few
        if found is not None and (found := found.within(buf.shape, most, least=0 if last else len(found.extents))):
            expansions[buf.name] = replace(found, last=last)
    if not expansions:
        return func
    bufs = tuple(
        replace(buf, shape=found.joined(buf.shape, found.extents)) if (found := expansions.get(buf.name)) else buf
        for buf in func.bufs
    )
    comps = tuple(_resubscript(comp, expansions) for comp in func.comps)
    return replace(func, comps=comps, bufs=bufs)


def _expansion(
    buf: Buf, users: list[Comp], places: dict[str, Position], values: list[Flow], symbolic: bool
) -> _Expansion | None:
    if not users:
        return None
    depth = len(users[0].iters)
    for comp in users:
        depth = min(depth, shared_depth(places[users[0].name], places[comp.name]))
    comps = {comp.name: comp for comp in users}
    for flow in values:
        depth = _kept_within(flow, comps[flow.source], comps[flow.sink], places, depth)
    extents: list[Extent] = []
    subscripts: dict[str, list[Expr]] = {comp.name: [] for comp in users}
    for k in range(depth):
        iterators = _iterators(users, places, k)
        bounds = _bounds(users, iterators)
        if bounds is None and symbolic:
            bounds = _symbolic_bounds(users, iterators)
        if iterators is None or bounds is None:
            break
        low, high = bounds
        extents.append(high - low + 1 if isinstance(high, int) else add(high, integer(1 - low)))
        for comp in users:
            subscripts[comp.name].append(sub(Iter(iterators[comp.name]), integer(low)))
    if not extents:
        return None
    return _Expansion(tuple(extents), {name: tuple(found) for name, found in subscripts.items()})


def _kept_within(flow: Flow, source: Comp, sink: Comp, places: dict[str, Position], depth: int) -> int:
    """How many of the first `depth` loops no value of `flow` crosses."""
    for k in range(depth):
        first = line_value(source, places[source.name].loops[k])
        second = line_value(sink, places[sink.name].loops[k])
        if not flow.relation.is_subset(first.eq_map(second)):
            return k
    return depth


def _iterators(users: list[Comp], places: dict[str, Position], depth: int) -> dict[str, str] | None:
    """Each Comp's iterator of the common loop at `depth`, if the Comps agree on what its value is at a given time."""
    found: dict[str, str] = {}
    forms = set()
    for comp in users:
        line = places[comp.name].loops[depth]
        if not line.terms:
            # A loop of one iteration, which isl writes as its number.
            found[comp.name] = comp.iters[depth]
            forms.add((0, 1))
            continue
        if len(line.terms) != 1 or line.terms[0][0] not in comp.iters:
            return None
        found[comp.name] = line.terms[0][0]
        forms.add((line.constant, line.terms[0][1]))
    return found if len(forms) == 1 else None


def _bounds(users: list[Comp], iterators: dict[str, str] | None) -> tuple[int, Extent] | None:
    if iterators is None:
        return None
    lows, highs = [], []
    for comp in users:
        domain = domain_of(comp)
        if domain.is_empty():
            continue
        dim = comp.iters.index(iterators[comp.name])
        low, high = _constant_bounds(domain, dim)
        if low is None or high is None:
            return None
        lows.append(low)
        highs.append(high)
    return (min(lows), max(highs)) if lows else None


def _symbolic_bounds(users: list[Comp], iterators: dict[str, str] | None) -> tuple[int, Extent] | None:
    """Bounds of which the lower one is a number and the upper one affine in parameters, the same for all users, or no
    lower than that of some, which is one for few parameters only."""
    if iterators is None:
        return None
    found: set[tuple[int, tuple[tuple[str, int], ...]]] = set()
    lows, others = [], list[tuple[isl.Set, int]]()
    for comp in users:
        domain = domain_of(comp)
        if domain.is_empty():
            continue
        dim = comp.iters.index(iterators[comp.name])
        low, high = domain.dim_min_val(dim), domain.dim_max(dim)
        if not low.is_int():
            return None
        lows.append(low.to_python())
        if high.n_piece() != 1:
            others.append((domain, dim))
            continue
        aff = high.get_pieces()[0][1]
        names = [aff.get_dim_name(isl.dim_type.param, k) for k in range(aff.dim(isl.dim_type.param))]
        factors = [aff.get_coefficient_val(isl.dim_type.param, k) for k in range(len(names))]
        if aff.dim(isl.dim_type.div) or not all(v.is_int() for v in (*factors, aff.get_constant_val())):
            return None
        terms = tuple((n, v.to_python()) for n, v in zip(names, factors, strict=True) if not v.is_zero())
        found.add((aff.get_constant_val().to_python(), tuple(sorted(terms))))
    if len({terms for _, terms in found}) != 1:
        return None
    constant, terms = max(found)
    bound = " + ".join([str(constant), *(f"{factor}*{name}" for name, factor in terms)])
    for domain, dim in others:
        names = [f"i{k}" for k in range(domain.dim(isl.dim_type.set))]
        head = f"[{', '.join(parameters_of(domain))}] -> "
        if not domain.reset_tuple_id().is_subset(isl.Set(f"{head}{{ [{', '.join(names)}] : i{dim} <= {bound} }}")):
            return None
    return min(lows), from_linear((constant, dict(terms)), ())


def _elements(extents: tuple[Extent, ...]) -> int:
    return prod(n if isinstance(n, int) else GUESSED_EXTENT for n in extents)


def _constant_bounds(domain: isl.Set, dim: int) -> tuple[int | None, int | None]:
    low, high = domain.dim_min_val(dim), domain.dim_max_val(dim)
    return (
        low.to_python() if low.is_int() else None,
        high.to_python() if high.is_int() else None,
    )


def _resubscript(comp: Comp, expansions: dict[str, _Expansion]) -> Comp:
    def change(expr: Expr) -> Expr:
        parts = children(expr)
        new = rebuild(expr, tuple(change(p) for p in parts)) if parts else expr
        if isinstance(new, Load) and new.buf in expansions:
            found = expansions[new.buf]
            return replace(new, indices=found.joined(new.indices, found.subscripts[comp.name]))
        return new

    target = change(comp.target)
    return replace(comp, target=target, value=change(comp.value)) if isinstance(target, Load) else comp
