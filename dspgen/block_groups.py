"""Nests that may be one block, and what their arrays hold before and after them."""

from __future__ import annotations

from dataclasses import dataclass, field

import islpy as isl

from plant_core.boxes import surely_written
from plant_core.dependence import live_in
from plant_core.ir import Comp, Func


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


def _union(a: isl.Set | None, b: isl.Set | None) -> isl.Set | None:
    return a if b is None else b if a is None else a.union(b).coalesce()
