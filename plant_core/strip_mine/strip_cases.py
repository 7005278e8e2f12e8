"""Parts of a nest in groups: statements with the iterations that are of certain kinds by some of its loops.

See `groups` for which parts there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import islpy as isl

from plant_core.analysis.rectangular_hull import Boxes, in_text
from plant_core.ir.accesses import add, children, from_linear, integer, linear, rebuild, sub
from plant_core.ir.func import Binary, Buf, Comp, Expr, Func, Iter, Load, Param
from plant_core.ir.tile_loop import Counter
from plant_core.ir.time_2d1 import Line, Position
from plant_core.strip_mine.trip_counts import Counts, at_once

# What a part of a nest does of a loop that is taken apart: its whole groups, or what is left over; where iterations may
# run again, groups of which the last ends where the loop does, or that one alone, all of a loop that is shorter than a
# group, or all of it where one of the loops in groups is so short; batches of either size instead of groups, or where
# there are fewer iterations than a small one has, yet smaller ones; or all of it, whatever others do.
Kind = Literal["whole", "over", "all", "last", "short", "any", "large", "small", "few", "each"]
# Those that come one after the other, of each size.
_MANY: dict[Kind, int] = {"whole": 1, "all": 1, "large": 0, "small": 1, "few": 2}


def conditions_apart(part: Func) -> tuple[Func, dict[str, isl.Set]]:
    """Statements that only run where parameters are right, for any parameters; and by name what is right for these."""
    comps, found = list[Comp](), dict[str, isl.Set]()
    for comp in part.comps:
        right = comp.domain.params()
        bounds = comp.domain.gist_params(right)
        if bounds.params().is_equal(right):
            comps.append(comp)  # loops have no iterations where they aren't
        else:
            comps.append(replace(comp, domain=bounds))
            found[comp.name] = right
    return replace(part, comps=tuple(comps)), found


@dataclass(frozen=True, slots=True)
class Part:
    """The iterations that are of such `kinds` by some of the counters. `units`: how many iterations make a unit, and
    `whole`, where it matters, whether there are whole units only."""

    counts: Counts
    boxes: Boxes
    counters: tuple[Counter, ...]
    iterators: dict[str, list[str | None]]
    kinds: dict[int, Kind]
    units: dict[int, int]
    whole: dict[int, bool]

    @property
    def strips(self) -> list[int]:
        """The counters that have groups."""
        return [k for k, kind in self.kinds.items() if kind != "each"]

    def _along(self, comp: Comp) -> dict[str, int]:
        """The counters that groups are of, or could be, by a statement's iterators."""
        return {name: k for k in self.kinds if (name := self.iterators[comp.name][k]) is not None}

    def of(self, comp: Comp, new: str, shapes: dict[str, tuple[int, ...]], number: int) -> tuple[Comp, Position]:
        """A statement of it, by a new name, and its place."""
        loops = self._along(comp)
        groups = {name: f"{name}_group" for name, k in loops.items() if self.kinds[k] in _MANY}
        iters = (*groups.values(), *comp.iters)
        sizes, ranges = list(self.boxes.sizes), [f"0 <= {g} < {self._number(loops[n])}" for n, g in groups.items()]
        for k, kind in self.kinds.items():
            counter = self.counters[k]
            if kind in ("whole", "over", "last"):
                sizes.append(self.counts.count(counter))
            elif kind in ("large", "small"):
                sizes += self.counts.batches(counter)
            elif kind in ("all", "few"):
                sizes.append(self._number(k))
        if "any" in self.kinds.values():
            plain = [self.counters[k] for k in self.strips if self.counters[k].batches is None]
            sizes.append(self.counts.least_of([self.counts.enough(c) for c in plain]))
            ranges.append(f"{sizes[-1]} <= 0")
        sure = list(comp.sure)
        for depth, name in enumerate(comp.iters):
            low, high = self.boxes.range_of(comp, depth)
            last = str(high) if isinstance(high, int) else in_text(high)
            first = str(low)
            if name in loops and loops[name] in self.strips:
                counter, kind = self.counters[loops[name]], self.kinds[loops[name]]
                if kind == "last":
                    count = self.counts.count(counter)
                    ranges.append(f"{count} > 0 and {counter.group}*{count} < {last} - {low} + 1")
                if kind in ("all", "whole", "large", "small"):  # else there are none
                    sure.append(f"{last} - {low} + 1 >= {at_once(counter, 1)}")
                if kind == "short":
                    ranges.append(f"{last} - {low} + 1 < {at_once(counter, 2)}")
                if kind == "few":
                    ranges.append(f"{at_once(counter, 2)} <= {last} - {low} + 1 < {at_once(counter, 1)}")
                if (whole := self.whole.get(loops[name])) is not None:
                    unit = self.units[loops[name]]
                    sizes.append(self.counts.whole_units(counter, unit))
                    ranges.append(f"{last} - {low} + 1 {'=' if whole else '>='} {unit}*{sizes[-1]} + {int(not whole)}")
                if kind in _MANY or kind == "last":
                    first, last = "0", str(self._at_once(loops[name]) - 1)
                elif kind == "over":
                    first = f"{low} + {counter.group} * {self.counts.count(counter)}"
            ranges.append(f"{first} <= {name} <= {last}")
        names = dict.fromkeys(sizes)  # loops of one length have one count
        domain = isl.Set(f"[{', '.join(names)}] -> {{ {new}[{', '.join(iters)}] : {' and '.join(ranges) or 'true'} }}")
        old = self.boxes.places[comp.name]
        outer = tuple(Line(0, ((g, 1),)) for g in groups.values())
        constants = (number, *(0 for _ in outer), *old.constants[1:])
        target = self._rewritten(comp.target, loops, groups, shapes)
        assert isinstance(target, Load)
        value = self._rewritten(comp.value, loops, groups, shapes)
        made = replace(comp, name=new, iters=iters, domain=domain, target=target, value=value, sure=tuple(sure))
        return made, Position(constants, (*outer, *old.loops))

    def _at_once(self, k: int) -> int:
        """The iterations of a group or batch of the part's."""
        return at_once(self.counters[k], _MANY.get(self.kinds[k], 1))

    def _number(self, k: int) -> str:
        """How many groups or batches come one after the other."""
        counter, kind = self.counters[k], self.kinds[k]
        if kind in ("large", "small"):
            return self.counts.batches(counter)[_MANY[kind]]
        return {"whole": self.counts.count, "all": self.counts.every, "few": self.counts.few}[kind](counter)

    def shape_of(self, buf: Buf) -> tuple[int, ...] | None:
        """An array's extents for one group of iterations; None where it may not be so small."""
        found: set[tuple[tuple[int | None, int], ...]] = set()
        for use in self.boxes.uses:
            if use.access.buf != buf.name:
                continue
            along = self._along(use.comp)
            dims: list[tuple[int | None, int]] = []
            for form in use.forms:
                moving = {} if form is None else {n: f for n, f in form[1].items() if n in along}
                if form is None or (moving and (len(form[1]) > 1 or set(moving.values()) != {1})):
                    return None
                dims.append((along[next(iter(moving))], form[0]) if moving else (None, 0))
            found.add(tuple(dims))
        if len(found) != 1:
            return None
        (dims_of,) = found
        shape = [
            extent if k is None else 1 if self.kinds[k] == "each" else self.counters[k].group
            for (k, _), extent in zip(dims_of, buf.shape, strict=True)
        ]
        return tuple(x for x in shape if isinstance(x, int)) if all(isinstance(x, int) for x in shape) else None

    def _rewritten(
        self, expr: Expr, loops: dict[str, int], groups: dict[str, str], shapes: dict[str, tuple[int, ...]]
    ) -> Expr:
        match expr:
            case Iter(name) if name in groups or (name in loops and self.kinds[loops[name]] == "last"):
                counter = self.counters[loops[name]]
                before = self._before(loops[name], groups.get(name))
                return add(add(before, Iter(name)), integer(counter.low)) if counter.low else add(before, Iter(name))
            case Load() if expr.buf in shapes:
                return replace(expr, indices=tuple(self._within(i, loops) for i in expr.indices))
            case _:
                parts = tuple(self._rewritten(p, loops, groups, shapes) for p in children(expr))
                return rebuild(expr, parts) if parts else expr

    def _before(self, k: int, group: str | None) -> Expr:
        """The iterations before the first one of a group, or of the last one."""
        counter, kind = self.counters[k], self.kinds[k]
        size, extent = integer(self._at_once(k)), counter.extent
        assert extent is not None
        if self.whole.get(k):
            unit = self.units[k]
            extent = Binary("mul", integer(unit), Param(self.counts.whole_units(counter, unit), "i32"), "i32")
        if group is None:
            return sub(extent, size)
        before: Expr = Binary("mul", size, Iter(group), "i32")
        if kind == "small":
            larger = Param(self.counts.batches(counter)[0], "i32")
            before = add(Binary("mul", integer(at_once(counter, 0)), larger, "i32"), before)
        return before if kind == "whole" else Binary("min", before, sub(extent, size), "i32")

    def _within(self, index: Expr, loops: dict[str, int]) -> Expr:
        """A subscript as it is counted from the first iteration of the group."""
        form = linear(index)
        assert form is not None
        name = next((n for n in form[1] if n in loops), None)
        if name is None:
            return index
        if self.kinds[loops[name]] == "each":
            return integer(0)
        if self.kinds[loops[name]] in ("whole", "all", "last"):
            return Iter(name)
        counter = self.counters[loops[name]]
        before = Binary("mul", integer(counter.group), Param(self.counts.count(counter), "i32"), "i32")
        here = from_linear((-counter.low, {name: 1}), (name,))
        return Binary("sub", here, before, "i32")
