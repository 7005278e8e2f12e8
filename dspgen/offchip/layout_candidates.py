"""In which layouts the arrays of a nest in blocks come onto the chip, where the engine can transpose on the way."""

from __future__ import annotations

import math
from collections.abc import Callable

from dspgen.offchip.cost_model import MODERATE
from dspgen.target.isa.model import Dma
from dspgen.vecdsl.ir.program import ELEM_BYTES
from plant_core.analysis.rectangular_hull import accesses_of, largest
from plant_core.ir.accesses import all_bufs
from plant_core.ir.c_semantics import is_float
from plant_core.ir.func import Func, ScalarParam
from plant_core.normalize.loops.specialize_sizes import at_sizes
from plant_core.scratchpad.dma_layouts import Turned, layouts

Estimate = Callable[[Func], float]  # the cycles expected of a nest on the chip, 0 where too little is known
_CLEARLY = 0.95  # of the cycles expected of arrays as they are: views of which more are expected are not tried first
_HOPELESS = 2.0  # times the cycles expected of the best: views of which more are expected are not tried


def turns(func: Func, dma: Dma, estimate: Estimate) -> list[Turned]:
    """The nest on its arrays as they are, and on views of them that are worth a try, those first of which the fewest
    cycles are expected; as they are, if there is little to gain. What is expected is the arithmetic and accesses, or
    the bytes of all arrays."""
    plain = Turned(func, {})
    found = list(layouts(func)) if dma.transpose else []
    if not found or not (known := _expected(plain, dma, estimate)):
        return [plain]
    # Of those that are as good, the ones that turn fewest arrays round, and what is written last.
    written = {c.target.buf for c in func.comps}
    both = [sum(1 + (v.array in written) for v in turned.layouts.values()) for turned in found]
    ranked = [(_expected(turned, dma, estimate), k) for k, turned in enumerate(found)]
    ranked.sort(key=lambda each: (each[0], both[each[1]]))
    least = min(known, ranked[0][0])
    ranked = [(cycles, k) for cycles, k in ranked if cycles <= _HOPELESS * least]
    first = [found[k] for cycles, k in ranked if cycles < _CLEARLY * known]
    return [*first, plain, *(found[k] for cycles, k in ranked if cycles >= _CLEARLY * known)]


def _expected(turned: Turned, dma: Dma, estimate: Estimate) -> float:
    func = _moderate(turned.func)
    touched = {a.buf for c in func.comps for a in accesses_of(c)}
    bufs = [b for n, b in all_bufs(func).items() if n in touched and b.kind == "param"]
    if not all(isinstance(n, int) for b in bufs for n in b.shape):
        return 0.0
    moving = sum(
        ELEM_BYTES[b.dtype] * math.prod(b.extents) / dma.pace(transposed=b.name in turned.layouts) for b in bufs
    )
    cycles = estimate(func)
    return max(cycles, moving) if cycles else 0.0


def _moderate(func: Func) -> Func:
    """The function at moderate sizes, where these are known at run time only."""
    most = largest(func)
    if all(isinstance(n, int) for b in func.bufs for n in b.shape) and not most:
        return func
    names = [p.name for p in func.params if isinstance(p, ScalarParam) and not is_float(p.dtype)]
    return at_sizes(func, {n: min(most.get(n, MODERATE), MODERATE) for n in names})
