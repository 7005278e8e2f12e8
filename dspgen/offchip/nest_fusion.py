"""Nests that may be one block, and what their arrays hold before and after them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import islpy as isl

from plant_core.analysis.dependence import live_in
from plant_core.analysis.rectangular_hull import surely_written
from plant_core.ir.func import Comp, Func


@dataclass(slots=True)
class Group:
    """A nest, or neighbours: its arrays, and of each, once asked for, what is read before and what is written."""

    comps: tuple[Comp, ...]
    work: float
    touched: set[str]
    written: set[str]
    rest: tuple[Group, Group] | None = None  # the first nest, and those after it
    _live: dict[str, isl.Set | None] = field(default_factory=dict)
    _sure: dict[str, isl.Set | None] = field(default_factory=dict)

    def before(self, after: Group) -> Group:
        """This nest, and then those."""
        return Group(
            (*self.comps, *after.comps),
            self.work + after.work,
            self.touched | after.touched,
            self.written | after.written,
            (self, after),
        )

    def sure(self, buf: str) -> isl.Set | None:
        """The elements that are written, whatever the data."""
        if buf not in self._sure:
            if self.rest is None:
                self._sure[buf] = surely_written(self.comps, buf)
            else:
                self._sure[buf] = _union(*(part.sure(buf) for part in self.rest))
        return self._sure[buf]

    def live(self, func: Func, buf: str) -> isl.Set | None:
        """The elements that may be read before they are written."""
        if buf not in self._live:
            if self.rest is None:
                self._live[buf] = live_in(func.with_comps(self.comps), buf, doubt=True)
            else:
                first, after = self.rest
                later, written = after.live(func, buf), first.sure(buf)
                if later is not None and written is not None:
                    later = later.subtract(written)
                self._live[buf] = _union(first.live(func, buf), later)
        return self._live[buf]


Way = tuple[tuple[int, int], ...]  # parts of a function, each from a nest up to another


def cheapest(
    groups: Sequence[Group],
    least: Callable[[Group], float],
    alone: Callable[[int], float],
    together: Callable[[int, int, Group], float | None],
) -> Way | None:
    """The way through a function's nests that takes the fewest cycles, by dynamic programming over where parts end;
    None where each way has a part that takes infinitely many. A nest by itself takes as many as `alone` tells, which is
    asked only where the best way has that nest at the `least` cycles that it can take; neighbours as many as `together`
    tells, None where more of them can't be either."""
    singles = [least(group) for group in groups]
    several: dict[tuple[int, int], float] = {}
    for end in range(2, len(groups) + 1):
        group = groups[end - 1]
        for begin in reversed(range(end - 1)):
            group = groups[begin].before(group)
            cycles = together(begin, end, group)
            if cycles is None:
                break
            several[begin, end] = cycles
    known: set[int] = set()
    while (way := _shortest(singles, several)) is not None:
        unknown = [begin for begin, end in way if end - begin == 1 and begin not in known]
        if not unknown:
            break
        for number in unknown:
            known.add(number)
            singles[number] = alone(number)
    return way


def _shortest(singles: Sequence[float], several: Mapping[tuple[int, int], float]) -> Way | None:
    best: list[tuple[float, Way]] = [(0.0, ())]
    for end in range(1, len(singles) + 1):
        cuts = [
            (end - 1, singles[end - 1]),
            *((b, several[b, end]) for b in range(end - 2, -1, -1) if (b, end) in several),
        ]
        best.append(min(((best[b][0] + n, (*best[b][1], (b, end))) for b, n in cuts), key=lambda found: found[0]))
    return best[-1][1] if math.isfinite(best[-1][0]) else None


def _union(a: isl.Set | None, b: isl.Set | None) -> isl.Set | None:
    return a if b is None else b if a is None else a.union(b).coalesce()
