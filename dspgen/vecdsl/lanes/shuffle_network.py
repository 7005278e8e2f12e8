"""A vector put together from lanes of others, by shuffles of two at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspgen.vecdsl.ir.program import Op, Term, VType


@dataclass(frozen=True, slots=True)
class Part:
    """A vector, and the lane of it that each of some lanes of the result takes."""

    value: Term
    places: dict[int, int]


def joined(parts: Sequence[Part], type: VType, lanes: int) -> Term:
    """The vector whose lanes come from the parts; lanes that none of them names hold anything."""
    only = _joined(parts, type, lanes)
    if all(k == place for k, place in only.places.items()):
        return only.value
    return Op("shuffle", (only.value,), type, tuple(only.places.get(k, -1) for k in range(lanes)))


def shuffles(parts: int, *, placed: bool) -> int:
    """How many shuffles so many parts take; `placed`: one part has its lanes in place."""
    return parts - 1 if parts > 1 else int(not placed)


def _joined(parts: Sequence[Part], type: VType, lanes: int) -> Part:
    """Halves first, so that the shuffles are a tree."""
    if len(parts) == 1:
        return parts[0]
    half = (len(parts) + 1) // 2
    first, second = _joined(parts[:half], type, lanes), _joined(parts[half:], type, lanes)
    places = {**first.places, **{k: lanes + p for k, p in second.places.items()}}
    pattern = tuple(places.get(k, -1) for k in range(lanes))
    return Part(Op("shuffle2", (first.value, second.value), type, pattern), {k: k for k in places})
