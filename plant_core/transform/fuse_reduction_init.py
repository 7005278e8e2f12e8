"""What begins sums in a nest of its own, in the loops of the nest that adds to them.

Before: for j: y[j] = 0;  for i, j: y[j] += a[i][j] * x[i]
After:  for j: { y[j] = 0; for i: y[j] += a[i][j] * x[i] }
"""

from __future__ import annotations

from dataclasses import replace

import islpy as isl

from plant_core.analysis.dependence import memory_dependences, reduction_of
from plant_core.ir.func import Comp, Func, Iter
from plant_core.ir.time_2d1 import Line, Position, position, schedule_map


def with_sums_begun(func: Func) -> Func:
    """`func` with such nests as one, where they follow each other, are a statement each, and no dependence forbids it;
    an element's terms are added in the order that they were. Requires: 2d+1 schedules."""
    if func.effects:
        return func
    nests: dict[int, list[Comp]] = {}
    for comp in func.comps:
        nests.setdefault(position(comp).constants[0], []).append(comp)
    numbers = sorted(nests)
    for first, second in zip(numbers, numbers[1:], strict=False):
        if len(nests[first]) == len(nests[second]) == 1:
            made = _one(func, nests[first][0], nests[second][0])
            if made is not None:
                return with_sums_begun(made)
    return func


def _one(func: Func, begins: Comp, adds: Comp) -> Func | None:
    """Both nests as one; None where that can't be."""
    if begins.defines or adds.defines or reduction_of(adds) is None or begins.target.buf != adds.target.buf:
        return None
    along, kept = _plain(begins), _plain(adds)
    if along is None or kept is None or set(along) != set(begins.iters) or len(kept) == len(adds.iters):
        return None
    if any(place.loops != _loops(c) for c in (begins, adds) for place in (position(c),)):
        return None
    # The loops of the first nest, then those that go over the terms.
    order = (*(kept[along.index(name)] for name in begins.iters), *(n for n in adds.iters if n not in kept))
    names = ", ".join
    turned = isl.Map(f"{{ {adds.name}[{names(adds.iters)}] -> {adds.name}[{names(order)}] }}")
    after = replace(adds, iters=order, domain=adds.domain.set_tuple_name(adds.name).apply(turned))
    number, depth = position(begins).constants[0], len(begins.iters)
    inner = (0,) * (len(order) - depth)
    length = adds.schedule.dim(isl.dim_type.out)
    begun = _placed(begins, (number, *(0 for _ in begins.iters)), length)
    added = _placed(after, (number, *((0,) * (depth - 1)), 1, *inner), length)
    times = {c.name: c.schedule for c in func.comps} | {
        begins.name: begun.schedule,
        adds.name: turned.apply_range(added.schedule),
    }
    for d in memory_dependences(func):
        if not d.relation.intersect(times[d.source].lex_ge_map(times[d.sink])).is_empty():
            return None
    instead = {begins.name: begun, adds.name: added}
    return func.with_comps(tuple(instead.get(c.name, c) for c in func.comps))


def _plain(comp: Comp) -> list[str] | None:
    """The iterators that are the target's subscripts, each of them one."""
    found = [index.name for index in comp.target.indices if isinstance(index, Iter)]
    return found if len(set(found)) == len(comp.target.indices) > 0 else None


def _loops(comp: Comp) -> tuple[Line, ...]:
    return tuple(Line(0, ((name, 1),)) for name in comp.iters)


def _placed(comp: Comp, constants: tuple[int, ...], length: int) -> Comp:
    time = schedule_map(comp, Position(constants, _loops(comp)), length)
    return replace(comp, schedule=time.intersect_domain(comp.domain))
