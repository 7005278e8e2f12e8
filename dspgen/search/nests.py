"""A function by its loop nests: by which rules these are rewritten, one by one and together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dspgen.backend.stages import Compiled
from dspgen.errors import NoSchedule
from dspgen.options import REWRITE_MODES, RewriteMode
from dspgen.search.candidate_search import Slower
from dspgen.search.lane_support import Lacking
from dspgen.search.plan_search import FEW_NESTS, HOPELESS, SURE, Chooser, Outdone
from dspgen.tiling.candidates import Choice
from dspgen.tiling.loops.loop_arrangements import spaced
from dspgen.tiling.split.index_set_splitting import isolated
from dspgen.tiling.split.statement_splitting import in_parts
from plant_core.ir.func import Func

CLEARLY = 2.0  # times the cycles of cut nests: nests as they are that the model expects to take more aren't tried
GAINED = 1.25  # times the cycles that are enough: what takes more by the fewest rules takes more by all
FAR = 2.0  # times the cycles of unrolled code: nests of which the model expects more are not looked at
SURE_OF_FEW = 4.0  # the same of few nests, which are quick to try; also of what their first code takes


@dataclass(frozen=True, slots=True)
class Chosen:
    """The best code by loop nests, its cycles, and `plain`, those of its nests one by one by the fewest rules that were
    tried; None where they aren't known."""

    best: Compiled
    cycles: int | None
    plain: float | None


def compile_nests(chooser: Chooser, *, known: float = math.inf, sure: float = SURE) -> Chosen:
    """The function by its loop nests, each under the best plan that was found for it.

    Plans are searched with the fewest rules first, only a few of them, and then with all; what is best is tried with
    fewer as well. (Where there is no other code, and nests are many, or do little of the work, with all at once.)
    Several nests are compiled together by those sets of rules that gain cycles in one of them, and by others only if
    that fails. `known` are the cycles of other code by the fewest rules.

    Raises NoSchedule; Outdone where the first nests by the fewest rules take over `sure` times `known`, or more than
    rules make of what is enough.
    """
    best: tuple[Compiled, int | None] | None = None
    surplus = 0.0  # the cycles of the best above those of its nests one by one
    sums: dict[RewriteMode, float] = {}
    refusal: NoSchedule | None = None
    gaining: list[RewriteMode] = []
    vain: list[RewriteMode] = []
    fewer: tuple[Choice, ...] = ()
    few = len(chooser.searches) <= FEW_NESTS
    first = REWRITE_MODES[:1] if min(known, chooser.enough) < math.inf or (few and not chooser.small) else ()
    for mode in dict.fromkeys((*first, chooser.options.rewrite)):
        try:
            found = chooser.choices(mode, enough=sure * known if mode == REWRITE_MODES[0] else math.inf)
        except NoSchedule as error:
            refusal = error
            continue
        (gaining if _gains(found, fewer) else vain).append(mode)
        fewer = found
        sums[mode] = sum(c.cycles for c in found)
        # What was too large tells nothing, and may not be so by more rules.
        told = not any(trial.large for choice in found for trial in choice.trials)
        if mode == REWRITE_MODES[0] and told and sums[mode] > GAINED * chooser.enough:
            raise Outdone(sums[mode])
    for mode in (*reversed(gaining), *reversed(vain)):
        if best is not None and (mode in vain or len(fewer) > FEW_NESTS):
            break
        limit = math.inf if best is None or best[1] is None else best[1]
        if surplus <= 0 and len(fewer) > 1 and sums[mode] + surplus > HOPELESS * limit:
            continue
        try:
            compiled = chooser.compiled(mode, limit)
        except NoSchedule as error:
            refusal = error
            continue
        except Slower:
            continue
        cycles = chooser.cycles(compiled, chooser.func)
        if best is None or (cycles is not None and cycles < limit):
            best = compiled, cycles
            surplus = 0.0 if cycles is None else cycles - sums[mode]
    if best is None:
        assert refusal is not None
        raise refusal
    plain = sums.get(REWRITE_MODES[0], sums.get(chooser.options.rewrite))
    return Chosen(*best, plain if plain and math.isfinite(plain) else None)


def _gains(found: tuple[Choice, ...], fewer: tuple[Choice, ...]) -> bool:
    """Whether it is worth while to compile the nests together by these choices, though there are those by `fewer` rules
    (none: there are not). A nest that is alone was compiled already."""
    if len(found) == 1 or not fewer:
        return True
    return any(c.cycles < f.cycles for c, f in zip(found, fewer, strict=True))


def best_nests(chooser: Chooser, known: float) -> tuple[Chooser, Chosen]:
    """The function by its loop nests as they are, or with guarded ones cut so that their interiors have no guards,
    whichever takes fewer cycles; raises what `compile_nests` does. `known` are the cycles of other code by the fewest
    rules."""
    options = chooser.options
    sure = SURE_OF_FEW if len(chooser.searches) <= FEW_NESTS else SURE
    if chooser.expected > max(FAR, sure) * known:
        raise Outdone(chooser.expected)
    cut = isolated(chooser.func, reassoc=options.fp == "reassoc") if options.vectorize else None
    if cut is None:
        return chooser, compile_nests(chooser, known=known, sure=sure)
    apart = chooser.of(spaced(cut), chooser.scalars)
    try:
        first = compile_nests(apart, known=known, sure=sure)
    except (NoSchedule, Outdone) as reason:
        if isinstance(reason, Outdone) and known == math.inf:
            raise  # it takes more than is enough
        return chooser, compile_nests(chooser, known=known, sure=sure)
    if first.cycles is None or first.cycles * CLEARLY < chooser.expected:
        return apart, first
    try:
        second = compile_nests(chooser, known=min(known, first.plain or math.inf))
    except (NoSchedule, Outdone):
        return apart, first
    return (apart, first) if second.cycles is None or first.cycles <= second.cycles else (chooser, second)


def best_in_parts(chooser: Chooser, chosen: Chosen | None) -> tuple[Func, Mapping[str, str], Chosen] | None:
    """The function with statements that found no lanes in parts, for what its machine does on scalars only, if that
    takes fewer cycles than `chosen`; the parts without lanes, and what lanes lack for them."""
    if not chooser.options.vectorize or (chosen is not None and chosen.cycles is None):
        return None
    laned = {name for c in chosen.best.choices for name in c.candidate.laned} if chosen is not None else set()
    names = {c.name for c in chooser.func.comps} - laned
    parted = in_parts(chooser.func, names, Lacking(chooser.target, chooser.options))
    if parted is None:
        return None
    single = frozenset(parted.single)
    apart = chooser.of(spaced(parted.func), single)
    plain = chosen.plain if chosen is not None else None
    try:
        found = compile_nests(apart, known=math.inf if plain is None else plain)
    except (NoSchedule, Outdone):
        return None
    if found.cycles is None or (chosen is not None and found.cycles >= (chosen.cycles or 0)):
        return None
    return apart.func, parted.single, found
