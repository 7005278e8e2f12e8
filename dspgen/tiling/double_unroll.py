"""Tiles with twice as many iterations of a loop at once, to be tried next where as much made the best far better."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dspgen.tiling.candidates import Candidate

_STEPS = 2  # that one candidate may be doubled, one after the other


def with_doubled(candidate: Candidate, ranked: Callable[[int], Iterable[Candidate]], steps: int = _STEPS) -> Candidate:
    """The candidate, with the one that has two of its tiles in each, side by side along a loop that no lanes lie along;
    `ranked` are those of so many vectors, the best first."""
    if not steps or not candidate.laned:
        return candidate
    spans = dict(_spans(candidate))
    for other in ranked(2 * candidate.points):
        more = dict(_spans(other))
        changed = [k for k in more if more[k] != spans.get(k, (1, False))]
        twice = all(more[k] == (2 * spans.get(k, (1, False))[0], False) for k in changed)
        if len(changed) == 1 and twice and more.keys() >= spans.keys() and _alike(candidate, other):
            return replace(candidate, doubled=with_doubled(other, ranked, steps - 1))
    return candidate


def _spans(candidate: Candidate) -> Iterator[tuple[tuple[str, str], tuple[int, bool]]]:
    """Of each statement's loops the iterations at once, and whether lanes lie along it."""
    for name, plan in candidate.plans:
        for iterator, shape in plan.shapes[0] if plan.shapes else ():
            yield (name, iterator), (shape.span, shape.lane)


def _alike(one: Candidate, other: Candidate) -> bool:
    """Whether their loops are in the same order, and their lanes are laid out alike."""
    orders = [[(plan.order, plan.constants) for _, plan in c.plans] for c in (one, other)]
    return orders[0] == orders[1] and one.title.endswith(" cut") == other.title.endswith(" cut")
