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

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import islpy as isl
import numpy as np

from plant_core.analysis.rectangular_hull import Boxes
from plant_core.ir.accesses import Linear
from plant_core.ir.func import Comp
from plant_core.ir.tile_loop import Counter
from plant_core.scratchpad.buffers import Margin, Test
from plant_core.scratchpad.coherent_buffers import Meeting

# Kinds of blocks that are told apart by their margins; where there are more, those cut by a slope share their code.
_MOST_KINDS = 8
_MOST_TOLD = 1 << 10  # kinds of which it is told what they have; others have parts of statements
_MOST_BLOCKS = 1 << 22  # of which it is looked at each
_MANY_BLOCKS = 1 << 16  # where sizes are compared, more take long however much they have to do
_ALL, _NONE = "all", "none"

At = tuple[int, ...]  # numbers of a block along the counters


@dataclass(frozen=True, slots=True)
class Slope:
    """`along`: the iterators in it."""

    margin: Margin
    least: int
    most: int
    along: frozenset[str] = field(default=frozenset(), compare=False)

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
    bounded otherwise. `alone`: the bounds of the box are among them, so that blocks at its ends are cut as others.
    `ties`: its coordinates along counters that count none of its iterators, which must lie in the block."""

    comp: Comp
    rest: isl.Set
    slopes: tuple[Slope, ...] | None
    alone: bool
    ties: Mapping[int, Linear] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shape:
    """Blocks for which all `tests` hold. `gone`: statements that don't run in them; `whole`: those cut ones that have
    all iterations of a box. The others have the iterations that they have in the block `like`, or, without one,
    those that the block's first iterations tell. `one`: windows that are in the place of another, which is used."""

    tests: tuple[Test, ...]
    gone: frozenset[str]
    whole: frozenset[str]
    like: At | None
    one: Mapping[str, str] = field(default_factory=dict)


_ANY = Shape((), frozenset(), frozenset(), None)


def cut_statements(
    boxes: Boxes, counters: Sequence[Counter], iterators: Mapping[str, Sequence[str | None]], *, alone: bool = False
) -> dict[str, Cut]:
    """The statements of a nest of known size whose iterations are no box of all iterations of their counters."""
    found = {}
    for comp in boxes.func.comps:
        names = iterators[comp.name]
        ties = {k: axis[comp.name] for k, axis in enumerate(boxes.axes) if names[k] is None and counters[k].several}
        rest = boxes.cut.get(comp.name)
        if rest is not None or ties:
            everywhere = isl.Set.universe(comp.domain.get_space())
            bounds = comp.domain.coalesce() if alone else everywhere if rest is None else rest
            slopes = _slopes(boxes, counters, names, comp, bounds)
            if slopes is not None:
                slopes += tuple(s for k, at in ties.items() for s in _tied(boxes, counters, names, comp, k, at))
            found[comp.name] = Cut(comp, bounds, slopes, alone, ties)
    return found


def _tied(
    boxes: Boxes, counters: Sequence[Counter], names: Sequence[str | None], comp: Comp, counter: int, at: Linear
) -> Iterator[Slope]:
    """The coordinate lies in the block."""
    counted = counters[counter]
    for sign, constant in ((1, -counted.low), (-1, counted.low + counted.span - 1)):
        factors = [sign * at[1].get(name, 0) for name in comp.iters]
        moving = {counter: -sign * counted.span}
        yield _slope(boxes, counters, names, comp, constant + sign * at[0], factors, moving)


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
    moving: Mapping[int, int] = {},
) -> Slope:
    """`moving`: what is added for each counter's number besides."""
    least = most = 0
    factors = dict(moving)
    for depth, (name, factor) in enumerate(zip(comp.iters, coefficients, strict=True)):
        low, high = boxes.ends(comp, depth)
        if name in names:
            k = names.index(name)
            constant += factor * counters[k].low
            low, high = 0, counters[k].span - 1
            if factor and counters[k].several:
                factors[k] = factors.get(k, 0) + factor * counters[k].span
        least += min(factor * low, factor * high)
        most += max(factor * low, factor * high)
    factors = {k: factor for k, factor in factors.items() if factor}
    along = frozenset(n for n, factor in zip(comp.iters, coefficients, strict=True) if factor)
    return Slope(Margin(constant, tuple(sorted(factors.items()))), least, most, along)


def shapes(
    cuts: Mapping[str, Cut],
    counters: Sequence[Counter],
    names: Collection[str],
    meet: Sequence[Meeting] = (),
    *,
    few: bool = False,
) -> list[Shape] | None:
    """The kinds of blocks, those without anything to do or the most frequent last; its tests need not be asked. If
    there are many, or shall be `few`, all that are neither whole nor empty are one without a block to be like, and that
    comes last. `names`: of all statements; `meet`: windows that are in one place in some blocks. None where kinds don't
    tell in which."""
    trips = tuple(c.trips for c in counters)
    number = int(np.prod(trips, dtype=np.int64))
    slopes = list(dict.fromkeys(s for c in cuts.values() for s in c.slopes or ()))
    if not slopes or any(c.slopes is None for c in cuts.values()) or number > _MOST_BLOCKS:
        return None if meet else [_ANY]
    found: list[tuple[int, Shape]] = []
    states = [_states(s, trips) for s in slopes]
    met = [_together(m, trips) for m in meet]
    first, several = _different([each.reshape(number) for each in (*states, *met)])
    if meet and len(first) > _MOST_TOLD:
        return None
    often = np.argsort(-several, kind="stable")[:_MOST_TOLD]
    first, several = first[often], several[often]
    codes = np.stack([each.reshape(number)[first] for each in (*states, *met)])
    for code, where, times in zip(codes.T, first, several, strict=True):
        key = tuple(_state(s, int(c)) for s, c in zip(slopes, code[: len(slopes)], strict=True))
        shape = _shape(cuts, slopes, key, tuple(int(x) for x in np.unravel_index(int(where), trips)))
        one: dict[str, str] = {}
        for m, together in zip(meet, code[len(slopes) :], strict=True):
            if together:
                one.setdefault(m.second, m.first)
        found.append((int(times), replace(shape, one=one)))
    found.sort(key=lambda f: -f[0])
    idle = [shape for _, shape in found if shape.gone >= set(names)]
    active = [shape for _, shape in found if not shape.gone >= set(names)]
    if meet and len({shape.tests for shape in active}) < len(active):
        return None
    if len(found) <= _MOST_KINDS and not few:
        return [*(shape for _, shape in found[1:]), replace(found[0][1], tests=())]
    if len(idle) > 1 and len(active) < _MOST_KINDS and not few:
        return [*active, replace(idle[0], tests=())]
    if meet:
        return None
    return [*[s for _, s in found if s.gone | s.whole == set(cuts)][: _MOST_KINDS - 1], _ANY]


def _different(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Of each column that differs from all others where it is first, and how often it is there; in their order."""
    code, most = np.zeros(rows[0].shape, np.int64), 1
    for row in rows:
        low, wide = int(row.min()), int(row.max() - row.min()) + 1
        if most * wide >= 1 << 62:
            code = np.unique(code, return_inverse=True)[1]
            most = int(code.max()) + 1
        code, most = code * wide + (row - low), most * wide
    _, first, several = np.unique(code, return_index=True, return_counts=True)
    return first, several


def _together(meeting: Meeting, trips: At) -> np.ndarray:
    """Of each block whether it has two windows in one place."""
    found = np.ones(trips, np.int64)
    for margin in meeting.margins:
        found &= _grid(margin, trips) == 0
    return found


@dataclass(frozen=True, slots=True)
class Busy:
    """How many blocks have anything to do, and about which part of all iterations is in blocks where a slope cuts rows
    of arrays off."""

    blocks: int
    ragged: float


def busy(boxes: Boxes, counters: Sequence[Counter], iterators: Mapping[str, Sequence[str | None]]) -> Busy:
    """What a nest that is no box has in blocks; all alike where slopes don't tell, or
    where there are many."""
    trips = tuple(c.trips for c in counters)
    number = int(np.prod(trips, dtype=np.int64))
    cuts = cut_statements(boxes, counters, iterators)
    if number > _MANY_BLOCKS or any(c.slopes is None for c in cuts.values()):
        return Busy(number, 0.0)
    found = np.zeros(trips, np.bool_)
    whole = ragged = 0.0
    for comp in boxes.func.comps:
        forms = [u.forms[-1] for u in boxes.uses if u.comp is comp and u.forms]
        rows = {name for form in forms if form is not None for name in form[1]}
        runs, cut = np.ones(trips, np.bool_), np.zeros(trips, np.bool_)
        for slope in cuts[comp.name].slopes or () if comp.name in cuts else ():
            states = _states(slope, trips)
            runs &= states >= -slope.most
            if slope.along & rows:
                cut |= states < -slope.least
        found |= runs
        if len(comp.iters) == len(boxes.main.iters):
            ragged += np.count_nonzero(runs & cut) / 2
            whole += np.count_nonzero(runs & ~cut)
    return Busy(int(np.count_nonzero(found)), ragged / max(ragged + whole, 1))


def _states(slope: Slope, trips: At) -> np.ndarray:
    """Of each block what it has of a slope: its margin, or one beyond all that matter."""
    found: np.ndarray = np.clip(_grid(slope.margin, trips), -slope.most - 1, -slope.least)
    return found


def _grid(margin: Margin, trips: At) -> np.ndarray:
    grid = np.full(trips, margin.constant, np.int64)
    for k, factor in margin.factors:
        along = [1] * len(trips)
        along[k] = trips[k]
        grid += factor * np.arange(trips[k], dtype=np.int64).reshape(along)
    return grid


def _state(slope: Slope, margin: int) -> object:
    return _ALL if margin >= -slope.least else _NONE if margin < -slope.most else margin


def _shape(cuts: Mapping[str, Cut], slopes: Sequence[Slope], states: Sequence[object], like: At) -> Shape:
    known = dict(zip(slopes, states, strict=True))
    gone = frozenset(n for n, c in cuts.items() if any(known[s] == _NONE for s in c.slopes or ()))
    whole = frozenset(n for n, c in cuts.items() if all(known[s] == _ALL for s in c.slopes or ()))
    return Shape(tuple(s.test(known[s]) for s in slopes), gone, whole, like)
