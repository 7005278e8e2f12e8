"""Nests that are no boxes (triangles, bands, statements that run in a part of a loop), in blocks: what is left of each
statement in a block, told by where the block is.

A statement's iterations are a box less what its slopes cut off. A slope is one affine condition; as seen from a block,
only its margin, a sum over the numbers of the block, differs from block to block:

Margin ::= constant + sum(factor * number of the block along a counter)
Slope  ::= margin + sum(coefficient * iterator of the block) >= 0, where the sum is between `least` and `most`

So blocks with the same margins have iterations of the same shape, those far to one side of a slope have all, and those
far to the other have none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl
import numpy as np

from plant_core.boxes import Boxes
from plant_core.ir import Comp
from plant_core.windows import Counter, Margin, Test

# Kinds of blocks that are told apart by their margins; where there are more, those cut by a slope share their code.
_MOST_KINDS = 8
_MOST_BLOCKS = 1 << 22  # of which it is looked at each
_ALL, _NONE = "all", "none"

At = tuple[int, ...]  # numbers of a block along the counters


@dataclass(frozen=True, slots=True)
class Slope:
    margin: Margin
    least: int
    most: int

    def test(self, state: object) -> Test:
        if state == _ALL:
            return Test(self.margin.plus(self.least), None)
        if state == _NONE:
            return Test(self.margin.negative().plus(-self.most - 1), None)
        assert isinstance(state, int)
        return Test(self.margin, state)


@dataclass(frozen=True, slots=True)
class Cut:
    """A statement that is no box: what is left of one in it, `rest`, and the slopes that bound it; None where it is
    bounded otherwise. `alone`: the bounds of the box are among them, so that blocks at its ends are cut as others."""

    comp: Comp
    rest: isl.Set
    slopes: tuple[Slope, ...] | None
    alone: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """Blocks for which all `tests` hold. `gone`: statements that don't run in them; `whole`: those cut ones that have
    all iterations of a box. The others have the iterations that they have in the block `like`, or, without one,
    those that the block's first iterations tell."""

    tests: tuple[Test, ...]
    gone: frozenset[str]
    whole: frozenset[str]
    like: At | None


_ANY = Shape((), frozenset(), frozenset(), None)


def cut_statements(
    boxes: Boxes, counters: Sequence[Counter], iterators: Mapping[str, Sequence[str | None]], *, alone: bool = False
) -> dict[str, Cut]:
    """The statements of a nest of known size whose iterations are no box of all iterations of their counters."""
    found = {}
    for comp in boxes.func.comps:
        if (rest := boxes.cut.get(comp.name)) is not None:
            bounds = comp.domain.coalesce() if alone else rest
            found[comp.name] = Cut(comp, bounds, _slopes(boxes, counters, iterators[comp.name], comp, bounds), alone)
    return found


def _slopes(
    boxes: Boxes, counters: Sequence[Counter], names: Sequence[str | None], comp: Comp, rest: isl.Set
) -> tuple[Slope, ...] | None:
    parts = rest.get_basic_sets()
    if len(parts) != 1 or parts[0].dim(isl.dim_type.div):
        return None
    found = []
    for constraint in parts[0].remove_redundancies().get_constraints():
        coefficients = [
            int(constraint.get_coefficient_val(isl.dim_type.set, d).to_python()) for d in range(len(comp.iters))
        ]
        constant = int(constraint.get_constant_val().to_python())
        for sign in (1, -1) if constraint.is_equality() else (1,):
            found.append(_slope(boxes, counters, names, comp, sign * constant, [sign * c for c in coefficients]))
    return tuple(found)


def _slope(
    boxes: Boxes,
    counters: Sequence[Counter],
    names: Sequence[str | None],
    comp: Comp,
    constant: int,
    coefficients: Sequence[int],
) -> Slope:
    least = most = 0
    factors: dict[int, int] = {}
    for depth, (name, factor) in enumerate(zip(comp.iters, coefficients, strict=True)):
        low, high = boxes.ends(comp, depth)
        if name in names:
            k = names.index(name)
            constant += factor * counters[k].low
            low, high = 0, counters[k].span - 1
            if factor and counters[k].several:
                factors[k] = factor * counters[k].span
        least += min(factor * low, factor * high)
        most += max(factor * low, factor * high)
    return Slope(Margin(constant, tuple(sorted(factors.items()))), least, most)


def shapes(cuts: Mapping[str, Cut], counters: Sequence[Counter], *, few: bool = False) -> list[Shape]:
    """The kinds of blocks, the most frequent last; its tests need not be asked. If there are many, or shall be `few`,
    all that are neither whole nor empty are one without a block to be like, and that comes last."""
    trips = tuple(c.trips for c in counters)
    number = int(np.prod(trips, dtype=np.int64))
    slopes = list(dict.fromkeys(s for c in cuts.values() for s in c.slopes or ()))
    if not cuts or any(c.slopes is None for c in cuts.values()) or number > _MOST_BLOCKS:
        return [_ANY]
    counts: dict[tuple[object, ...], int] = {}
    like: dict[tuple[object, ...], At] = {}
    states = [_states(s, trips) for s in slopes]
    codes, first, several = np.unique(
        np.stack(states).reshape(len(slopes), number), axis=1, return_index=True, return_counts=True
    )
    for code, where, times in zip(codes.T, first, several, strict=True):
        key = tuple(_state(s, int(c)) for s, c in zip(slopes, code, strict=True))
        counts[key] = int(times)
        like[key] = tuple(int(x) for x in np.unravel_index(int(where), trips))
    found = [_shape(cuts, slopes, key, like[key]) for key in sorted(counts, key=lambda k: -counts[k])]
    if len(found) <= _MOST_KINDS and not few:
        return [*found[1:], replace(found[0], tests=())]
    return [*[s for s in found if s.gone | s.whole == set(cuts)][: _MOST_KINDS - 1], _ANY]


def _states(slope: Slope, trips: At) -> np.ndarray:
    """Of each block what it has of a slope: its margin, or one beyond all that matter."""
    grid = np.full(trips, slope.margin.constant, np.int64)
    for k, factor in slope.margin.factors:
        along = [1] * len(trips)
        along[k] = trips[k]
        grid += factor * np.arange(trips[k], dtype=np.int64).reshape(along)
    return np.clip(grid, -slope.most - 1, -slope.least)


def _state(slope: Slope, margin: int) -> object:
    return _ALL if margin >= -slope.least else _NONE if margin < -slope.most else margin


def _shape(cuts: Mapping[str, Cut], slopes: Sequence[Slope], states: Sequence[object], like: At) -> Shape:
    known = dict(zip(slopes, states, strict=True))
    gone = frozenset(n for n, c in cuts.items() if any(known[s] == _NONE for s in c.slopes or ()))
    whole = frozenset(n for n, c in cuts.items() if all(known[s] == _ALL for s in c.slopes or ()))
    return Shape(tuple(s.test(known[s]) for s in slopes), gone, whole, like)
