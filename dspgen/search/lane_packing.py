"""Which view of the machine a function's code is for: with as many elements in each lane as take the fewest cycles."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from dspgen.backend.stages import Compiled, OnStage, Stages, expected_cycles, fitting_views
from dspgen.errors import NoSchedule
from dspgen.options import REWRITE_MODES, Options
from dspgen.rewrite.optimize import Remark
from dspgen.search.full_unroll import GOOD, MOST_CYCLES, Unrolled, best_unrolled, depends_on_parameters
from dspgen.search.plan_search import SURE, Chooser, Outdone
from dspgen.target.isa.model import Target
from dspgen.tiling.cost.lower_bound import bound
from plant_core.ir.func import Func

Made = tuple[Compiled, tuple[Remark, ...]]
OPTIMISM = 1.1  # times the model's cycles for a view of the machine: what takes no more is not compared with it


def best_view(
    source: Func,
    target: Target,
    choosers: Callable[[Func, Target], Chooser],
    code: Callable[[View, OnStage], Made],
    seen: OnStage,
) -> Made:
    """The code for the machine's view that takes the fewest cycles, of those with as many elements in each lane as
    the function's types allow. Views are not compiled that the model expects to take longer than what was found, or
    whose nests take many times the cycles of another's. `code` makes it by what `choosers` makes of a view. Raises
    Outdone where that takes clearly more cycles than are enough for the choosers."""
    found = [View(source, choosers(source, view)) for view in fitting_views(source, target)]
    if len(found) == 1:
        return code(found[0], seen)
    if all(v.chooser.expected for v in found):
        found = _screened(sorted(found, key=lambda v: v.chooser.expected))
    best, outdone = Best(), list[Outdone]()
    for view in found:
        if best.made is None or best.cost > OPTIMISM * view.chooser.expected:
            cost = partial(expected_cycles, target=view.chooser.target, known=view.chooser.sizes)
            try:
                best.offer(partial(code, view), cost)
            except Outdone as reason:
                outdone.append(reason)
    if best.made is None:
        raise [*best.refusals, *outdone][0]
    return best.told(seen)


@dataclass(slots=True)
class Best:
    """The code of the least cost of what is offered, the first of that, and the stages that it went through; and why
    others were refused."""

    cost: float = math.inf
    made: Made | None = None
    stages: Stages = field(default_factory=list)
    refusals: list[NoSchedule] = field(default_factory=list)

    def offer(self, make: Callable[[OnStage], Made], cost: Callable[[Compiled], float]) -> None:
        stages: Stages = []
        try:
            made = make(lambda *stage: stages.append(stage))
        except NoSchedule as refusal:
            self.refusals.append(refusal)
            return
        took = cost(made[0])
        if self.made is None or took < self.cost:
            self.cost, self.made, self.stages = took, made, stages

    def told(self, seen: OnStage) -> Made:
        """The code, its stages told; there must be one."""
        assert self.made is not None
        for stage in self.stages:
            seen(*stage)
        return self.made


@dataclass(slots=True)
class View:
    """A function for one view of the machine: its nests' plans, and the function unrolled where that is made first."""

    source: Func
    chooser: Chooser
    known: tuple[bool, Unrolled | None] | None = None

    def early(self) -> tuple[bool, Unrolled | None]:
        """Whether unrolled code is made before nests, since the model expects these to be far from the bound; and the
        best unrolled code then."""
        if self.known is None:
            source, chooser = self.source, self.chooser
            target, options, expected = chooser.target, chooser.options, chooser.expected
            worth = worth_unrolling(source, expected, expected, target, options)
            self.known = worth, best_unrolled(source, target, options, math.inf) if worth else None
        return self.known


def _screened(found: list[View]) -> list[View]:
    """Those whose nests take the fewest cycles without rewriting first, and none that takes many times as many, or is
    expected to take longer; all as they come where there is unrolled code to compare with."""
    try:
        if found[0].early()[1] is not None:
            return found
    except NoSchedule:
        return found
    plain: list[float] = []
    least = math.inf
    for view in found:
        if least <= OPTIMISM * view.chooser.expected:
            plain.append(math.inf)
            continue
        try:
            plain.append(sum(c.cycles for c in view.chooser.choices(REWRITE_MODES[0], enough=SURE * least)))
        except (NoSchedule, Outdone):
            plain.append(math.inf)
        least = min(least, plain[-1] or math.inf)
    ranked = sorted((p, k) for k, p in enumerate(plain) if p <= SURE * least)
    return [found[k] for _, k in ranked] if math.isfinite(least) else found


def worth_unrolling(source: Func, cycles: float, plain: float | None, target: Target, options: Options) -> bool:
    """Whether unrolled code may be better than nests of so many cycles (0: not known). What it is worth is told by
    `plain`, those without rewriting, so that it is tried with more rules wherever it is with fewer."""
    if not cycles or cycles > MOST_CYCLES or options.tile == "one" or depends_on_parameters(source):
        return False
    return plain is None or bound(source, target, data="onchip", values={}).cycles < GOOD * plain
