"""Values of integer parameters for a short run that tells code by its cycles: some vectors and a rest along inner
loops, few iterations of those around them."""

from __future__ import annotations

from plant_core.boxes import NoBlocks, assumed, ends_of
from plant_core.ir import Func, ScalarParam
from plant_core.values import is_float

# Iterations of the loops of a statement, outermost first, by how many it has; of deeper ones the outer have few.
_CAPS = {1: (300,), 2: (37, 70), 3: (3, 70, 21)}
_OUTER = 3
_ALIKE = {1: 300, 2: 50, 3: 19}  # where one parameter bounds several loops


def trial_sizes(func: Func) -> dict[str, int]:
    """A value for each integer parameter: no more than arrays of known size allow; 0 for those that bound no loop."""
    found = {p.name: 0 for p in func.params if isinstance(p, ScalarParam) and not is_float(p.dtype)}
    most = assumed(func)
    caps: dict[str, set[tuple[int, int]]] = {}  # by parameter, depth and cap
    deepest = 0
    for comp in func.comps:
        count = len(comp.iters)
        deepest = max(deepest, count)
        inner = _CAPS.get(min(count, 3), ())
        limits = (*(_OUTER for _ in range(count - len(inner))), *inner)
        for depth, limit in enumerate(limits):
            for name in _bounds(func, comp.name, depth) & found.keys():
                caps.setdefault(name, set()).add((depth, limit))
    for name, known in caps.items():
        alike = len({depth for depth, _ in known}) > 1
        cap = _ALIKE[min(deepest, 3)] if alike else max(limit for _, limit in known)
        found[name] = max(min(most.get(name, cap), cap), 0)
    return found


def _bounds(func: Func, name: str, depth: int) -> set[str]:
    """The parameters that the last iteration of a loop depends on."""
    comp = func.comp(name)
    try:
        form = ends_of(comp, depth)[2]
    except NoBlocks:
        form = None
    return set() if form is None else set(form[1])
