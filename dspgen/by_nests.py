"""A function by its loop nests: by which rules these are rewritten, one by one and together."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dspgen.choosing import FEW_NESTS, HOPELESS, SURE, Chooser
from dspgen.errors import NoSchedule
from dspgen.options import REWRITE_MODES, RewriteMode
from dspgen.stages import Compiled
from dspgen.tiling.search import Choice, Slower


@dataclass(frozen=True, slots=True)
class Chosen:
    """The best code by loop nests, its cycles, and `plain`, those of its nests one by one by the fewest rules that were
    tried; None where they aren't known."""

    best: Compiled
    cycles: int | None
    plain: float | None


def compile_nests(chooser: Chooser, *, known: float = math.inf) -> Chosen:
    """The function by its loop nests, each under the best plan that was found for it.

    Plans are searched with the fewest rules first, only a few of them, and then with all; what is best is tried with
    fewer as well. (Where there is no other code, and nests are many, or do little of the work, with all at once.)
    Several nests are compiled together by those sets of rules that gain cycles in one of them, and by others only if
    that fails. `known` are the cycles of other code by the fewest rules.

    Raises NoSchedule; Outdone where the nests by the fewest rules take many times `known`.
    """
    best: tuple[Compiled, int | None] | None = None
    surplus = 0.0  # the cycles of the best above those of its nests one by one
    sums: dict[RewriteMode, float] = {}
    refusal: NoSchedule | None = None
    gaining: list[RewriteMode] = []
    vain: list[RewriteMode] = []
    fewer: tuple[Choice, ...] = ()
    few = len(chooser.searches) <= FEW_NESTS
    first = REWRITE_MODES[:1] if known < math.inf or (few and not chooser.small) else ()
    for mode in dict.fromkeys((*first, chooser.options.rewrite)):
        try:
            found = chooser.choices(mode, enough=SURE * known if mode == REWRITE_MODES[0] else math.inf)
        except NoSchedule as error:
            refusal = error
            continue
        (gaining if _gains(found, fewer) else vain).append(mode)
        fewer = found
        sums[mode] = sum(c.cycles for c in found)
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
