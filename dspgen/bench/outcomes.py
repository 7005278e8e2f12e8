"""What became of one way of compiling one kernel, and how such figures are summed up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dspgen.errors import DspgenError, Problem, problems_of
from dspgen.internal_error import message_of
from plant_core.support.location import PlantError

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Cycles, and what else is known; without cycles `problems` tell why."""

    cycles: int | None
    facts: Row = field(default_factory=dict)
    details: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def outcome_or_refusal(work: Callable[[], Outcome]) -> Outcome:
    """What `work` finds; where it can't be done, why."""
    try:
        return work()
    except (DspgenError, PlantError) as error:
        return Outcome(None, problems=problems_of(error))


def first_refusal(
    kernel: str, outcomes: Iterable[Outcome], on_refusal: Callable[[str, DspgenError], None]
) -> str | None:
    """The reason of the first of a kernel's outcomes that was refused, which `on_refusal` is told of."""
    problems = next((o.problems for o in outcomes if o.problems), ())
    if not problems:
        return None
    error = DspgenError(*problems)
    on_refusal(kernel, error)
    return message_of(error)


def geometric_mean(ratios: Iterable[float | None]) -> float | None:
    """Of those that are known; None where none is."""
    known = [r for r in ratios if r is not None]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else None
