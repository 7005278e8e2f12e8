"""In which layouts the arrays of a nest in blocks come onto the chip, where the engine can transpose on the way."""

from __future__ import annotations

import math
from collections.abc import Callable

from dspgen.target.model import Dma
from dspgen.vecdsl.ir import ELEM_BYTES
from plant_core.affine import all_bufs
from plant_core.boxes import accesses_of
from plant_core.ir import Func
from plant_core.layouts import Turned, layouts

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
    ranked = sorted(((_expected(turned, dma, estimate), k) for k, turned in enumerate(found)), key=lambda r: r)
    least = min(known, ranked[0][0])
    ranked = [(cycles, k) for cycles, k in ranked if cycles <= _HOPELESS * least]
    first = [found[k] for cycles, k in ranked if cycles < _CLEARLY * known]
    return [*first, plain, *(found[k] for cycles, k in ranked if cycles >= _CLEARLY * known)]


def _expected(turned: Turned, dma: Dma, estimate: Estimate) -> float:
    func = turned.func
    touched = {a.buf for c in func.comps for a in accesses_of(c)}
    bufs = [b for n, b in all_bufs(func).items() if n in touched and b.kind == "param"]
    if not all(isinstance(n, int) for b in bufs for n in b.shape):
        return 0.0
    moving = sum(
        ELEM_BYTES[b.dtype] * math.prod(b.extents) / dma.pace(transposed=b.name in turned.layouts) for b in bufs
    )
    cycles = estimate(func)
    return max(cycles, moving) if cycles else 0.0
