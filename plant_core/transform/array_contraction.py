"""Local arrays with an element for each iteration, as small as what one iteration has.

Before: for i: for j: { s[i][j] = 0; for k: s[i][j] += a[i][k] * b[k][j]; c[i][j] = s[i][j]; }
After:  for i: for j: { s[0][0] = 0; for k: s[0][0] += a[i][k] * b[k][j]; c[i][j] = s[0][0]; }
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from plant_core.ir.accesses import all_bufs, children, integer, linear, read_accesses, rebuild
from plant_core.ir.func import Comp, Expr, Func, Load
from plant_core.ir.time_2d1 import Line, position, shared_depth


def contracted(nest: Func, names: Collection[str], *, only_known: bool = False) -> Func:
    """The statements of one nest with the arrays of these names, which nothing else uses, as small as can be, if all
    their accesses in an iteration of the outermost loops are to the same place by these; `only_known`: of those before
    the first one of unknown size. Requires: 2d+1 schedules; no element is read that wasn't written. Ensures: the same
    contents of every parameter."""
    bufs, made = all_bufs(nest), dict[str, tuple[int, ...]]()
    for name in sorted(names):
        dims = _moving(nest, name, only_known)
        if dims:
            made[name] = dims
    if not made:
        return nest
    comps = tuple(
        replace(c, target=_only_load(_at_first(c.target, made)), value=_at_first(c.value, made)) for c in nest.comps
    )
    small = {
        n: replace(bufs[n], shape=tuple(1 if d in made[n] else x for d, x in enumerate(bufs[n].shape))) for n in made
    }
    return replace(nest, comps=comps, bufs=tuple(small.get(b.name, b) for b in nest.bufs))


def _moving(nest: Func, name: str, only_known: bool) -> tuple[int, ...]:
    """The dimensions in which an array's place is told by the outermost loops, round all statements that use it; none
    where these don't tell it alike."""
    users = [(c, a) for c in nest.comps for a in (c.target, *read_accesses(c)) if a.buf == name]
    if not users:
        return ()
    shared = _shared([c for c, _ in users])
    if only_known:
        shared = min(shared, *(_known(c) for c, _ in users))
    found: set[tuple[tuple[object, ...], ...]] = set()
    for comp, access in users:
        around = {n: k for k, n in enumerate(comp.iters[:shared])}
        found.add(tuple(_told(index, comp, around) for index in access.indices))
    if len(found) != 1:
        return ()
    (dims,) = found
    by = {d: dim[0] for d, dim in enumerate(dims) if dim}
    # Each of the outermost loops has its dimension, so that no iteration comes back to an element.
    return tuple(by) if sorted(map(repr, by.values())) == [repr(k) for k in range(len(by))] else ()


def _told(index: Expr, comp: Comp, around: dict[str, int]) -> tuple[object, ...]:
    """Which of the loops around tells a subscript, and what is added to it; nothing where others do."""
    form = linear(index)
    if form is None:
        return ()
    loops = [n for n in form[1] if n in comp.iters]
    if len(loops) != 1 or loops[0] not in around or abs(form[1][loops[0]]) != 1:
        return ()
    more = tuple(sorted((n, f) for n, f in form[1].items() if n != loops[0]))
    return around[loops[0]], form[1][loops[0]], form[0], more


def _shared(comps: Sequence[Comp]) -> int:
    """How many loops, in the order of the iterators, are around all of these statements."""
    places = [position(c) for c in comps]
    depth = min(shared_depth(places[0], place) for place in places)
    for comp, place in zip(comps, places, strict=True):
        plain = [place.loops[k] == Line(0, ((n, 1),)) for k, n in enumerate(comp.iters)]
        depth = min(depth, plain.index(False) if False in plain else depth)
    return depth


def _known(comp: Comp) -> int:
    """How many loops there are before the first one of unknown size."""
    ends = [(comp.domain.dim_min_val(k), comp.domain.dim_max_val(k)) for k in range(len(comp.iters))]
    known = [low.is_int() and high.is_int() for low, high in ends]
    return known.index(False) if False in known else len(known)


def _at_first(expr: Expr, dims: dict[str, tuple[int, ...]]) -> Expr:
    parts = children(expr)
    changed = rebuild(expr, tuple(_at_first(p, dims) for p in parts)) if parts else expr
    if isinstance(changed, Load) and changed.buf in dims:
        indices = tuple(integer(0) if d in dims[changed.buf] else x for d, x in enumerate(changed.indices))
        return replace(changed, indices=indices)
    return changed


def _only_load(expr: Expr) -> Load:
    assert isinstance(expr, Load)
    return expr
