"""Describe views of arrays: the dimension of rows, the elements that a tile reaches, the layout of a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plant_core.ir.func import Expr, Extent


@dataclass(frozen=True, slots=True)
class Length:
    """`full`; for each (counter, n) of `less` shorter by n for each iteration that the counter's last block lacks."""

    full: int
    less: tuple[tuple[int, int], ...] = ()

    def times(self, factor: int) -> Length:
        return Length(self.full * factor, tuple((k, n * factor) for k, n in self.less))


@dataclass(frozen=True, slots=True)
class Reach:
    """Of one dimension of an array the elements from `low + sum(step * counter)` on, `extent` of them; `clipped`: less
    those that lie outside the array. `size`: of all of a dimension whose size is known at run time only; `extent` is
    then what there is room for."""

    low: int
    steps: tuple[tuple[int, int], ...]
    extent: Length
    clipped: bool = False
    size: Expr | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """A view, of a `shape`, of all of an array `array`: so many of the array's elements lie between neighbours along
    each of its dimensions."""

    array: str
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]


def row_dim(shape: Sequence[Extent], granule: int) -> int:
    """The dimension along which an array's rows lie: the last one, or the one before those that are of known size and
    less than a vector of `granule` elements together, and so lie side by side in one."""
    size = 1
    for d in range(len(shape) - 1, 0, -1):
        length = shape[d]
        if not isinstance(length, int) or size * length >= granule:
            return d
        size *= length
    return 0
