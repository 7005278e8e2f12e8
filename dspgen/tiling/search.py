"""Choosing each nest's plan: the model's finalists are compiled and scheduled, and the fewest cycles win.

`evaluate` is handed in by the pipeline: it runs vectorizer and scheduler on one candidate and returns its cycles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dspgen.errors import NoSchedule
from dspgen.tiling.candidates import Candidate
from plant_core.loc import IllegalSchedule, PlantError

# How far above the best a candidate's predicted cycles may be and still be tried; the prediction is the model's cycles
# times the least ratio of scheduled to modelled cycles seen so far, for small tiles at most 1, since it differs from
# one way of tiling to another. Large tiles must be expected to win.
_MARGIN = 1.15
_MARGIN_LARGE = 0.9
# The vectors of all candidates tried: these are about the work of compiling them.
_MOST_WORK = 640

Evaluate = Callable[[Candidate], float]


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one candidate: its scheduled cycles, or why it was refused."""

    title: str
    estimate: float
    cycles: float | None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen for the nest of `comps`, and every candidate's fate."""

    comps: tuple[str, ...]
    candidate: Candidate
    trials: tuple[Trial, ...]


def search(
    finalists: Sequence[Candidate], fallback: Candidate, evaluate: Evaluate, *, most: int | None = None
) -> Choice:
    """The best of `finalists` by `evaluate`; `fallback` (evaluated last) where none of them works out. No more are
    tried once `most` of them have worked out.

    Raises what the fallback's own evaluation raises: then the machine can't run the nest at all.
    """
    trials: list[Trial] = []
    best: tuple[float, Candidate] | None = None
    ratio, work = math.inf, 0
    for candidate in finalists:
        if sum(t.cycles is not None for t in trials) == most:
            trials.append(Trial(candidate.title, candidate.cycles, None, "enough others were tried"))
            continue
        if any(t.title == candidate.instead and t.cycles is not None for t in trials):
            trials.append(
                Trial(candidate.title, candidate.cycles, None, "its like worked out without taking loops apart")
            )
            continue
        margin, scale = (_MARGIN_LARGE, ratio) if candidate.large else (_MARGIN, min(ratio, 1.0))
        if best is not None and candidate.cycles * scale > margin * best[0]:
            trials.append(Trial(candidate.title, candidate.cycles, None, "the model expects it to be slower"))
            continue
        if best is not None and work + candidate.size > _MOST_WORK:
            trials.append(Trial(candidate.title, candidate.cycles, None, "over the budget of code to try"))
            continue
        work += candidate.size
        try:
            cycles = evaluate(candidate)
        except (NoSchedule, IllegalSchedule, PlantError) as refusal:
            trials.append(Trial(candidate.title, candidate.cycles, None, str(refusal)))
            continue
        trials.append(Trial(candidate.title, candidate.cycles, cycles))
        ratio = min(ratio, cycles / candidate.cycles)
        if best is None or cycles < best[0]:
            best = (cycles, candidate)
    if best is None:
        cycles = evaluate(fallback)
        trials.append(Trial(fallback.title, fallback.cycles, cycles))
        best = (cycles, fallback)
    return Choice(tuple(name for name, _ in fallback.plans), best[1], tuple(trials))
