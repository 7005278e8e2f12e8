"""The functions of blocks: the statements of a nest, with iterations that begin at 0, on windows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import islpy as isl

from plant_core.analysis.rectangular_hull import Boxes, NoBlocks, accesses_of, in_text
from plant_core.analysis.runtime_parameters import aligned, used_parameters
from plant_core.ir.accesses import add as plus
from plant_core.ir.accesses import children, from_linear, integer, linear, rebuild, sub
from plant_core.ir.func import Buf, Comp, Expr, Func, Iter, Load, Param, ScalarParam
from plant_core.ir.tile_loop import Counter
from plant_core.ir.time_2d1 import Line, Position, schedule_map
from plant_core.scratchpad.boundary_distances import (
    Margins,
    all_name,
    before_name,
    behind_name,
    count_name,
    origin_name,
)
from plant_core.scratchpad.buffers import LAST, ONLY, SHORT, Place, Window
from plant_core.scratchpad.partial_tiles import Cut, Shape
from plant_core.transform.merge_statements import joined


def rest_name(counter: Counter) -> str:
    """The parameter that tells how many smaller batches it has, which come after the larger ones."""
    return f"{counter.name}_rest"


@dataclass(frozen=True, slots=True)
class Pieces:
    """What makes them. `iterators`: by comp, of each counter its iterator of that loop, None where it isn't in it.
    `near`: windows that are more than the block's own; `window_of` tells an access's window, and whether that is all of
    the array; None for arrays without one. `strips`: the counters, outermost loop first, round whose groups of
    iterations short blocks have loops; all comps are in theirs. `margins`: all blocks are told how many iterations they
    have, as short ones are, and those of comps whose iterations are no boxes what is beside them. `cuts`: the comps
    whose iterations are no boxes in blocks of known size."""

    boxes: Boxes
    counters: tuple[Counter, ...]
    iterators: Mapping[str, Sequence[str | None]]
    windows: Collection[Window]
    near: Collection[str]
    window_of: Callable[[Comp, Load], tuple[Window, bool] | None]
    strips: tuple[int, ...]
    margins: Margins | None
    cuts: Mapping[str, Cut]

    def piece(self, place: Place, number: int, comps: Sequence[Comp], shape: Shape) -> Func:
        """The function for the blocks of a shape at a place, in which `comps` run."""
        func = self.boxes.func
        comps = aligned([_Local(self, c, place, shape, p).made() for p in self._parts(place) for c in comps])
        written = {c.target.buf for c in func.comps}
        bufs: dict[str, Buf] = {}
        for window in self.windows:
            kind: Literal["param", "local"] = "param" if window.name in self.near else "local"
            const = window.buf not in written
            buf = self.boxes.bufs[window.buf]
            bufs[window.name] = replace(buf, name=window.name, shape=window.shape, kind=kind, const=const)
        seen = {w.buf for w in self.windows}
        bufs |= {b.name: b for b in func.bufs if b.kind == "local" and b.name not in seen}
        names = {p.name for p in func.params}
        scalars = [p for p in func.params if isinstance(p, ScalarParam) and _reads(comps, p.name)]
        told = [n for of in (origin_name, count_name, rest_name) for n in map(of, self.counters) if _reads(comps, n)]
        numbers = [ScalarParam(n, "i32") for n in told]
        for k, (before, behind) in () if self.margins is None else self.margins.most.items():
            counter = self.counters[k]
            values = {before_name(counter): (0, before), behind_name(counter): tuple(range(behind + 1))}
            left = (before_name(counter), behind_name(counter), all_name(counter))
            numbers += [ScalarParam(n, "i32", values=values.get(n, ())) for n in left if _reads(comps, n)]
        assert names.isdisjoint(n.name for n in numbers)
        self._check_given(comps, {p.name for p in (*scalars, *numbers)})
        touched = {a.buf for c in comps for a in accesses_of(c)}
        used = tuple(b for n, b in bufs.items() if n in touched)
        arrays = [b for b in used if b.kind == "param"]
        params: tuple[Buf | ScalarParam, ...] = (*arrays, *scalars, *numbers)
        made = Func(f"{func.name}_block{number}", params, used, comps, func.loc)
        return joined(made) if self.boxes.axes and shape.like is not None else made

    def _check_given(self, comps: Sequence[Comp], given: Collection[str]) -> None:
        """Raise NoBlocks where statements depend on a parameter that another nest defines."""
        own = {c.defines for c in comps}
        for comp in comps:
            for name in sorted(used_parameters(comp) - own - set(given)):
                raise NoBlocks(f"{comp.name} depends on '{name}', which other statements compute", loc=comp.loc)

    def _parts(self, place: Place) -> list[dict[int, int]]:
        """The parts of a block that come one after the other: of each counter with batches which of them."""
        short = not SHORT.isdisjoint(place)
        batched = [k for k in self.strips if short and self.counters[k].batches is not None]
        return [dict(zip(batched, p, strict=True)) for p in itertools.product((0, 1), repeat=len(batched))]


def _reads(comps: Sequence[Comp], name: str) -> bool:
    return any(name in used_parameters(c) for c in comps)


class _Local:
    """One statement of a piece."""

    def __init__(self, pieces: Pieces, comp: Comp, place: Place, shape: Shape, part: Mapping[int, int]) -> None:
        self.pieces, self.comp, self.place, self.shape, self.part = pieces, comp, place, shape, part
        self.cut = None if comp.name in shape.whole else pieces.cuts.get(comp.name)
        self.short = pieces.margins is not None or not SHORT.isdisjoint(place)
        names = pieces.iterators[comp.name]
        self.counter = {name: k for k, name in enumerate(names) if name is not None}
        strips = [k for k in pieces.strips if self.short]
        self.groups = {name: f"{name}_group" for k in strips if (name := names[k]) is not None}
        self.iters = (*self.groups.values(), *comp.iters)

    def made(self) -> Comp:
        comp, counters = self.comp, self.pieces.counters
        target = self._rewritten(comp.target)
        assert isinstance(target, Load)
        comp = replace(comp, target=target, value=self._rewritten(comp.value))
        if not counters:
            return comp
        counts = [n(c) for c in counters for n in (count_name, rest_name) if c.may_be_short] if self.short else []
        counts += self.pieces.boxes.sizes if self.pieces.margins is not None else []
        ranges = [r for depth, name in enumerate(comp.iters) for r in self._ranges(depth, name)]
        head = f"[{', '.join(counts)}] -> " if counts else ""
        names = "".join(f"_{p}" for p in self.part.values())
        comp = replace(comp, name=f"{comp.name}{names}")
        domain = isl.Set(f"{head}{{ {comp.name}[{', '.join(self.iters)}] : {' and '.join(ranges) or 'true'} }}")
        if self.cut is not None:
            domain = self._left(domain, self.cut)
        if self.pieces.margins is not None and self.comp.name in self.pieces.margins.domains:
            domain = self.pieces.margins.domains[self.comp.name]
        comp = replace(comp, domain=domain, iters=self.iters)
        old = self.pieces.boxes.places[self.comp.name]
        outer = tuple(Line(0, ((name, 1),)) for name in self.groups.values())
        number = sum(p << k for k, p in enumerate(reversed(tuple(self.part.values()))))
        outermost = [number, *(0 for _ in outer)][: len(outer)]
        place = Position((*outermost, *old.constants), (*outer, *old.loops))
        time = schedule_map(comp, place, comp.schedule.dim(isl.dim_type.out) + 2 * len(outer))
        return replace(comp, schedule=time.intersect_domain(domain))

    def _ranges(self, depth: int, name: str) -> list[str]:
        low, high = self.pieces.boxes.ends(self.comp, depth)
        if name in self.counter:
            k = self.counter[name]
            counter = self.pieces.counters[k]
            if name in self.groups:
                count = (count_name, rest_name)[self.part.get(k, 0)](counter)
                return [f"0 <= {self.groups[name]} < {count}", f"0 <= {name} < {self._at_once(k)}"]
            if counter.may_be_short and self.short:
                return [f"0 <= {name} < {counter.group} * {count_name(counter)}"]
            cut = self.cut is not None and self.cut.alone and self.shape.like is None
            whole = cut or counter.extent is not None or self.place[k] not in (LAST, ONLY)
            low, high = 0, (counter.span if whole else counter.last) - 1
        else:
            form = self.pieces.boxes.symbolic(self.comp, depth)
            return [f"{low} <= {name} <= {high if form is None else in_text(form)}"]
        return [f"{low} <= {name} <= {high}"]

    def _left(self, box: isl.Set, cut: Cut) -> isl.Set:
        """What slopes leave of the statement's iterations: of a block like this one, or of any."""
        names, where = [], []
        for name in self.comp.iters:
            where.append(name)
            if name in self.counter:
                k = self.counter[name]
                counter = self.pieces.counters[k]
                first = str(counter.low)
                if counter.several and self.shape.like is not None:
                    first = str(counter.low + counter.span * self.shape.like[k])
                elif counter.several:
                    first = origin_name(counter)
                    names.append(first)
                where[-1] += f" + {first}"
        inside = []
        for k, at in cut.ties.items():
            counter = self.pieces.counters[k]
            first = origin_name(counter)
            if self.shape.like is not None:
                first = str(counter.low + counter.span * self.shape.like[k])
            else:
                names.append(first)
            inside.append(f"{first} <= {in_text(at)} < {first} + {counter.span}")
        head = f"[{', '.join(dict.fromkeys(names))}] -> "
        every = f"{self.comp.name}[{', '.join(self.comp.iters)}]"
        there = isl.Map(f"{head}{{ {every} -> {self.comp.name}[{', '.join(where)}] }}").intersect_domain(box)
        tied = isl.Set(f"{head}{{ {every} : {' and '.join(inside) or 'true'} }}")
        return there.intersect_range(cut.rest).intersect_range(tied).domain().coalesce()

    def _rewritten(self, expr: Expr) -> Expr:
        match expr:
            case Iter(name) if name in self.counter:
                counter = self.pieces.counters[self.counter[name]]
                origin: Expr = Param(origin_name(counter), "i32") if counter.several else integer(counter.low)
                if self.pieces.margins is not None and self.counter[name] in self.pieces.margins.most:
                    origin = sub(origin, Param(before_name(counter), "i32"))
                return plus(self._iteration(name, counter), origin)
            case Load() if (found := self.pieces.window_of(self.comp, expr)) is not None:
                window, whole = found
                if whole:
                    indices = tuple(self._rewritten(i) for i in expr.indices) or (integer(0),)
                else:
                    indices = tuple(self._near(i, d.low) for i, d in zip(expr.indices, window.dims, strict=True))
                return replace(expr, buf=self.shape.one.get(window.name, window.name), indices=indices)
            case _:
                parts = tuple(self._rewritten(p) for p in children(expr))
                return rebuild(expr, parts) if parts else expr

    def _iteration(self, name: str, counter: Counter) -> Expr:
        if name not in self.groups:
            return Iter(name)
        form = {self.groups[name]: self._at_once(self.counter[name]), name: 1, **self._before(self.counter[name])}
        return from_linear((0, form), self.iters)

    def _at_once(self, k: int) -> int:
        """Iterations of a counter's group, or batch of them."""
        counter = self.pieces.counters[k]
        return counter.group if k not in self.part else counter.group * _batches(counter)[self.part[k]]

    def _before(self, k: int) -> dict[str, int]:
        """Iterations of a counter before this part's: a factor of a parameter."""
        counter = self.pieces.counters[k]
        return {count_name(counter): counter.group * _batches(counter)[0]} if self.part.get(k) else {}

    def _near(self, index: Expr, low: int) -> Expr:
        form = linear(index)
        assert form is not None
        constant, factors = form[0] - low, dict(form[1])
        for name, factor in form[1].items():
            if name in self.counter:
                counter = self.pieces.counters[self.counter[name]]
                constant += factor * counter.low
                if name in self.groups:
                    k = self.counter[name]
                    factors[self.groups[name]] = factor * self._at_once(k)
                    for count, each in self._before(k).items():
                        factors[count] = factors.get(count, 0) + factor * each
        return from_linear((constant, factors), self.iters)


def _batches(counter: Counter) -> tuple[int, int]:
    assert counter.batches is not None
    return counter.batches


def alike(a: Func, b: Func) -> bool:
    """Whether two pieces do the same with the same windows."""
    if len(a.comps) != len(b.comps) or a.params != b.params:
        return False
    return all(
        (x.name, x.target, x.value) == (y.name, y.target, y.value) and bool(x.domain.is_equal(y.domain))
        for x, y in zip(a.comps, b.comps, strict=True)
    )
