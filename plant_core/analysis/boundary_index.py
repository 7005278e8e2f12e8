"""Subscripts that fold a line onto an array: that wrap round its end, stop there or turn back.

`(i + lag) % 60` is the line `i + lag`, folded: from 0 to 59 it stays what it is, from 60 to 118 it is 60 less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import islpy as isl

from plant_core.ir.accesses import Linear
from plant_core.ir.func import Comp
from plant_core.ir.time_2d1 import Line, line_value

MOST_PIECES = 6
"""Pieces of a fold in each of which the subscript is a line, or a number."""


@dataclass(frozen=True, slots=True)
class Fold:
    """`line`, affine in a statement's iterators, and what the subscript is at each value of it: `{ [l] -> [v] }`."""

    line: Linear
    relation: isl.Map


@dataclass(frozen=True, slots=True)
class Stretch:
    """Values of a line from `low` to `high`, where the subscript is `first` and `slope` more for each."""

    low: int
    high: int
    first: int
    slope: int

    def at(self, place: int) -> int:
        return self.first + self.slope * (place - self.low)

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the greatest subscript."""
        one, other = self.first, self.at(self.high)
        return min(one, other), max(one, other)


def fold_of(comp: Comp, values: Sequence[isl.PwAff]) -> Fold | None:
    """A line in the iterators of a statement that tells a subscript, given in parts of the statement's iterations;
    None where none does, whatever the parameters are. Of several it is the one that the subscript follows longest."""
    parts = [v.as_map().set_tuple_name(isl.dim_type.in_, comp.name) for v in values]
    whole = reduce(isl.Map.union, parts).coalesce()
    found: list[tuple[int, Fold]] = []
    for line in _lines(comp, values):
        along = line_value(comp, Line(line[0], tuple(line[1].items()))).as_map()
        relation = _numbers(along.intersect_domain(whole.domain()).reverse().apply_range(whole))
        if relation.is_single_valued():
            found.append((_length(relation.intersect(isl.Map("{ [l] -> [l] }"))), Fold(line, relation.coalesce())))
    return max(found, key=lambda each: each[0])[1] if found else None


def _lines(comp: Comp, values: Sequence[isl.PwAff]) -> list[Linear]:
    """What the pieces of a subscript are, but for quotients in them."""
    found: list[Linear] = []
    for _, aff in (piece for value in values for piece in value.get_pieces()):
        params = aff.dim(isl.dim_type.param)
        factors = [aff.get_coefficient_val(isl.dim_type.in_, k) for k in range(len(comp.iters))]
        constant = aff.get_constant_val()
        if (params and aff.involves_dims(isl.dim_type.param, 0, params)) or not constant.is_int():
            continue
        if not all(f.is_int() for f in factors):
            continue
        terms = {n: int(f.to_python()) for n, f in zip(comp.iters, factors, strict=True) if not f.is_zero()}
        if (line := (int(constant.to_python()), terms)) not in found:
            found.append(line)
    return found


def _numbers(relation: isl.Map) -> isl.Map:
    """A relation whatever the parameters are."""
    return relation.project_out(isl.dim_type.param, 0, relation.dim(isl.dim_type.param)).reset_tuple_id(
        isl.dim_type.in_
    )


def stretches(relation: isl.Map, extent: int) -> tuple[Stretch, ...] | None:
    """The pieces of a fold onto an array of so many elements, one behind the other; None where there are too many.

    Requires: the relation is single-valued. Values of the line that don't occur belong to the piece before them.
    """
    domain = relation.domain()
    low, high = domain.dim_min_val(0), domain.dim_max_val(0)
    if not (low.is_int() and high.is_int()):
        return None
    place, last = int(low.to_python()), int(high.to_python())
    found: list[Stretch] = []
    while place <= last:
        if len(found) == MOST_PIECES:
            return None
        found.append(_from(relation, place, last))
        place = found[-1].high + 1
    _lengthen(found)
    inside = all(0 <= s.ends[0] and s.ends[1] < extent for s in found)
    return tuple(found) if inside else None


def alike(fold: Fold, extent: int) -> list[Fold]:
    """The fold, and those by lines a number apart that the subscript is in other pieces, those first that it follows
    longer."""
    parts = stretches(fold.relation, extent) or ()
    lengths = {p.first - p.low: p.high - p.low for p in sorted(parts, key=lambda p: p.high - p.low) if p.slope == 1}
    found = sorted({0: 0, **lengths}, key=lambda by: (-lengths.get(by, 0), abs(by)))
    return [_moved(fold, by) for by in found]


def _moved(fold: Fold, by: int) -> Fold:
    along = isl.Map(f"{{ [l] -> [l + {by}] }}")
    return Fold((fold.line[0] + by, fold.line[1]), fold.relation.apply_domain(along)) if by else fold


def as_one(relation: isl.Map, ways: Sequence[Fold]) -> Fold | None:
    """Of ways to tell a subscript the one that agrees with a fold in the fewest values of the line together."""
    both = [(relation.union(way.relation).coalesce(), way) for way in ways]
    found = [(_length(union), Fold(way.line, union)) for union, way in both if union.is_single_valued()]
    return min(found, key=lambda each: each[0])[1] if found else None


def longest(parts: Sequence[Stretch]) -> int | None:
    """Which piece has all the subscripts that the others have; None where none does."""
    number = max(range(len(parts)), key=lambda k: parts[k].high - parts[k].low)
    low, high = parts[number].ends
    alone = parts[number].slope and all(low <= p.ends[0] and p.ends[1] <= high for p in parts)
    return number if alone else None


def _from(relation: isl.Map, place: int, last: int) -> Stretch:
    """The piece that begins at a place."""
    first, later = _at(relation, place), relation.intersect_domain(_range(place + 1, last))
    if later.is_empty():
        return Stretch(place, last, first, 0)
    following = int(later.domain().dim_min_val(0).to_python())
    step, rest = divmod(_at(relation, following) - first, following - place)
    if rest or abs(step) > 1:
        return Stretch(place, following - 1, first, 0)
    straight = isl.Map(f"{{ [l] -> [{first} + {step} * (l - {place})] }}")
    others = later.subtract(straight).domain().coalesce()
    end = last if others.is_empty() else int(others.dim_min_val(0).to_python()) - 1
    return Stretch(place, end, first, step)


def _lengthen(parts: list[Stretch]) -> None:
    """Have the longest piece begin as early as it may, where the one before it stops at its first subscript."""
    number = max(range(len(parts)), key=lambda k: parts[k].high - parts[k].low)
    part = parts[number]
    if not number or not part.slope:
        return
    before = parts[number - 1]
    if before.at(before.high) == part.at(before.high):
        parts[number] = Stretch(before.high, part.high, part.at(before.high), part.slope)
        parts[number - 1 : number] = [replace(before, high=before.high - 1)] if before.high > before.low else []


def _length(relation: isl.Map) -> int:
    """From the first value of a line to the last one; 0 where it has none, or no ends."""
    domain = relation.domain().coalesce()
    if domain.is_empty():
        return 0
    low, high = domain.dim_min_val(0), domain.dim_max_val(0)
    return int(high.to_python() - low.to_python() + 1) if low.is_int() and high.is_int() else 0


def _at(relation: isl.Map, place: int) -> int:
    return int(relation.intersect_domain(_range(place, place)).range().dim_min_val(0).to_python())


def _range(low: int, high: int) -> isl.Set:
    return isl.Set(f"{{ [l] : {low} <= l <= {high} }}")
