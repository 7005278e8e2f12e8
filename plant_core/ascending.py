"""Loops that count down as loops that count up."""

from __future__ import annotations

from collections.abc import Sequence

from plant_core.affine import domain_of
from plant_core.ir import Comp, Func
from plant_core.piecewise import affine_in_parameters
from plant_core.schedule import Line, Step, position, restepped


def ascending(func: Func) -> Func:
    """Give loops that count down iterators that count up.

    Before: `for (i = n - 1; i >= 0; i--) a[i]`. After: `for (i = 0; i < n; i++) a[n - 1 - i]`.
    Requires: 2d+1 schedules. Ensures: the same instances in the same order. A loop whose Comps don't all count down by
    one, from ends that are known to differ by a constant, is left as it is.
    """

    def told(members: Sequence[tuple[Comp, str]], depth: int) -> Step | None:
        if not all(_counts_down(comp, iterator, depth) for comp, iterator in members):
            return None
        ends = [affine_in_parameters(domain_of(comp).dim_max(depth)) for comp, _ in members]
        known = [end for end in ends if end is not None]
        if len(known) < len(ends) or any(terms != known[0][1] for _, terms in known):
            return None
        return -1, (*known[0][1].items(), ("", max(constant for constant, _ in known)), ("sign", 1))

    return restepped(func, told)


def _counts_down(comp: Comp, iterator: str, depth: int) -> bool:
    """Whether a loop does so by one, and no other loop of the statement is skewed by it."""
    loops = position(comp).loops
    others = (n for k, line in enumerate(loops) if k != depth for n, _ in line.terms)
    return loops[depth] == Line(0, ((iterator, -1),)) and iterator not in others
