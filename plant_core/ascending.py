"""Loops that count down as loops that count up."""

from __future__ import annotations

from plant_core.affine import domain_of
from plant_core.boxes import affine_in_parameters
from plant_core.ir import Comp, Func
from plant_core.schedule import Line, common_loops, position, restep


def ascending(func: Func) -> Func:
    """Give loops that count down iterators that count up.

    Before: `for (i = n - 1; i >= 0; i--) a[i]`. After: `for (i = 0; i < n; i++) a[n - 1 - i]`.
    Requires: 2d+1 schedules. Ensures: the same instances in the same order. A loop whose Comps don't all count down by
    one, from ends that are known to differ by a constant, is left as it is.
    """
    comps = {comp.name: comp for comp in func.comps}
    pending = list(common_loops(func))
    while pending:
        loop = pending.pop(0)
        pending[:0] = loop.children
        members = [(comps[name], iterator) for name, iterator in loop.members]
        if not all(_counts_down(c, n, loop.depth) for c, n in members):
            continue
        ends = [affine_in_parameters(domain_of(c).dim_max(loop.depth)) for c, _ in members]
        known = [end for end in ends if end is not None]
        if len(known) < len(ends) or any(terms != known[0][1] for _, terms in known):
            continue
        start = (*known[0][1].items(), ("", max(constant for constant, _ in known)), ("sign", 1))
        for comp, iterator in members:
            comps[comp.name] = restep(comp, iterator, loop.depth, -1, start)
    if all(comps[c.name] is c for c in func.comps):
        return func
    return func.with_comps(tuple(comps[c.name] for c in func.comps))


def _counts_down(comp: Comp, iterator: str, depth: int) -> bool:
    """Whether a loop does so by one, and no other loop of the statement is skewed by it."""
    loops = position(comp).loops
    others = (n for k, line in enumerate(loops) if k != depth for n, _ in line.terms)
    return loops[depth] == Line(0, ((iterator, -1),)) and iterator not in others
