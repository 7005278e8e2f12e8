"""Loops whose sizes are known at run time only, in groups of iterations: boxes of constant size within loops over
groups, and after them what is left over.

Before: S[i, j] for 0 <= i < n, 0 <= j < m
After:  count_n = n / 8, count_m = m / 32
        S[i_group, j_group, i, j] for 0 <= i_group < count_n, 0 <= j_group < count_m, 0 <= i < 8, 0 <= j < 32
        S[i_group, i, j] for 0 <= i_group < count_n, 0 <= i < 8, 32 * count_m <= j < m
        S[i, j_group, j], S[i, j] for 8 * count_n <= i < n

Loops are taken apart so along which each iteration has elements of its own, in nests where other loops are inside, so
that elements of a group may stay in registers. Local arrays of such a size, with an element for each iteration, have
elements for one group's only.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import islpy as isl

from plant_core.affine import add, children, from_linear, integer, linear, rebuild
from plant_core.blocks import strips_of
from plant_core.boxes import Boxes, NoBlocks, accesses_of, in_text
from plant_core.ir import Binary, Buf, Comp, Expr, Func, Iter, Load, Param
from plant_core.schedule import Line, Position, schedule_map
from plant_core.windows import Counter


def in_groups(func: Func, nests: Sequence[Sequence[str]], granule: int, *, reassoc: bool) -> Func | None:
    """The function with its `nests`, each the names of its statements, taken apart where that can be; None where it
    can't anywhere, or a local array's size stays unknown. `granule`: elements of a vector."""
    if func.effects or any(c.defines for c in func.comps):
        return None
    maker = _Maker(func, reassoc)
    for names in nests:
        part = replace(func, comps=tuple(func.comp(n) for n in names))
        others = {a.buf for c in func.comps if c.name not in names for a in accesses_of(c)}
        try:
            maker.nest(Boxes(part, granule), others)
        except NoBlocks:
            maker.as_it_is(part)
    return maker.made()


class _Maker:
    def __init__(self, func: Func, reassoc: bool) -> None:
        self.func, self.reassoc = func, reassoc
        self.bufs = {b.name: b for b in func.bufs}
        self.counts: dict[tuple[Expr, int], str] = {}
        self.placed: list[tuple[Comp, Position]] = []
        self.number = 0
        self.apart = False

    def made(self) -> Func | None:
        used = {a.buf for c, _ in self.placed for a in accesses_of(c)}
        if not self.apart or any(
            self.bufs[n].kind == "local" and not all(isinstance(x, int) for x in self.bufs[n].shape) for n in used
        ):
            return None
        length = max(2 * len(c.iters) + 1 for c, _ in self.placed)
        comps = [self._count(extent, group, name) for (extent, group), name in self.counts.items()]
        first = len(comps)
        placed = [(c, Position((k,), ())) for k, c in enumerate(comps)]
        placed += [(c, replace(p, constants=(p.constants[0] + first, *p.constants[1:]))) for c, p in self.placed]
        params = self.func.comps[0].domain.get_space().params()
        known = [str(params.get_dim_name(isl.dim_type.param, k)) for k in range(params.dim(isl.dim_type.param))]
        every = isl.Set(f"[{', '.join([*known, *self.counts.values()])}] -> {{ : }}").get_space()
        placed = [(replace(c, domain=c.domain.align_params(every)), p) for c, p in placed]
        done = tuple(replace(c, schedule=schedule_map(c, p, length).intersect_domain(c.domain)) for c, p in placed)
        counts = tuple(Buf(n, "i32", (), "local", False, self.func.loc) for n in self.counts.values())
        bufs = tuple(b for b in self.bufs.values() if b.kind == "param" or b.name in used)
        return replace(self.func, bufs=(*bufs, *counts), comps=done)

    def _count(self, extent: Expr, group: int, name: str) -> Comp:
        """How many whole groups there are; not above 0 where there are no iterations."""
        value = Binary("div", extent, integer(group), "i32")
        domain = isl.Set(f"{{ S_{name}[] }}")
        return Comp(
            f"S_{name}",
            (),
            domain,
            isl.Map(f"{{ S_{name}[] -> [0] }}"),
            Load(name, (), "i32"),
            value,
            self.func.loc,
            name,
        )

    def as_it_is(self, part: Func) -> None:
        boxes = Boxes(part, 1, known=())
        for comp in part.comps:
            place = boxes.places[comp.name]
            self.placed.append((comp, replace(place, constants=(self.number, *place.constants[1:]))))
        self.number += 1

    def nest(self, boxes: Boxes, others: set[str]) -> None:
        counters, iterators, strips = strips_of(boxes, reassoc=self.reassoc)
        if not strips or len(strips) == len(boxes.main.iters):
            raise NoBlocks("no loop of it has groups, or none goes over the elements of one", loc=boxes.func.loc)
        parts = []
        for whole in itertools.product((True, False), repeat=len(strips)):
            full = {k for k, is_full in zip(strips, whole, strict=True) if is_full}
            parts.append(_Part(self, boxes, counters, strips, iterators, full))
        local = [b for b in boxes.func.bufs if b.kind == "local" and not all(isinstance(x, int) for x in b.shape)]
        touched = {a.buf for c in boxes.func.comps for a in accesses_of(c)}
        shapes = {}
        for buf in local:
            if buf.name in touched:
                if buf.name in others or (shape := parts[0].shape_of(buf)) is None:
                    raise NoBlocks(f"'{buf.name}' is of use to several groups", loc=boxes.func.loc)
                shapes[buf.name] = shape
        for part in parts:
            for comp in boxes.func.comps:
                self.placed.append(part.of(comp, shapes, self.number))
            self.number += 1
        self.bufs |= {name: replace(self.bufs[name], shape=shape) for name, shape in shapes.items()}
        self.apart = True

    def count(self, counter: Counter) -> str:
        assert counter.extent is not None
        key = (counter.extent, counter.group)
        return self.counts.setdefault(key, f"groups{len(self.counts)}")


@dataclass(frozen=True, slots=True)
class _Part:
    """The iterations that are in whole groups of the counters `full`, and in none of the other `strips`."""

    maker: _Maker
    boxes: Boxes
    counters: tuple[Counter, ...]
    strips: tuple[int, ...]
    iterators: dict[str, list[str | None]]
    full: set[int]

    def of(self, comp: Comp, shapes: dict[str, tuple[int, ...]], number: int) -> tuple[Comp, Position]:
        """A statement of it, and its place."""
        loops = {name: k for k in self.strips if (name := self.iterators[comp.name][k]) is not None}
        groups = {name: f"{name}_group" for name, k in loops.items() if k in self.full}
        iters = (*groups.values(), *comp.iters)
        sizes = [*self.boxes.sizes, *(self.maker.count(self.counters[k]) for k in self.strips)]
        ranges = [f"0 <= {g} < {self.maker.count(self.counters[loops[name]])}" for name, g in groups.items()]
        for depth, name in enumerate(comp.iters):
            low, high = self.boxes.range_of(comp, depth)
            last = str(high) if isinstance(high, int) else in_text(high)
            first = str(low)
            if name in groups:
                first, last = "0", str(self.counters[loops[name]].group - 1)
            elif name in loops:
                counter = self.counters[loops[name]]
                first = f"{low} + {counter.group} * {self.maker.count(counter)}"
            ranges.append(f"{first} <= {name} <= {last}")
        new = f"{comp.name}_{number}"
        domain = isl.Set(f"[{', '.join(sizes)}] -> {{ {new}[{', '.join(iters)}] : {' and '.join(ranges) or 'true'} }}")
        old = self.boxes.places[comp.name]
        outer = tuple(Line(0, ((g, 1),)) for g in groups.values())
        constants = (number, *(0 for _ in outer), *old.constants[1:])
        target = self._rewritten(comp.target, loops, groups, shapes)
        assert isinstance(target, Load)
        value = self._rewritten(comp.value, loops, groups, shapes)
        made = replace(comp, name=new, iters=iters, domain=domain, target=target, value=value)
        return made, Position(constants, (*outer, *old.loops))

    def shape_of(self, buf: Buf) -> tuple[int, ...] | None:
        """An array's extents for one group of iterations; None where it may not be so small."""
        found: set[tuple[tuple[int | None, int], ...]] = set()
        for use in self.boxes.uses:
            if use.access.buf != buf.name:
                continue
            along = {name: k for k in self.strips if (name := self.iterators[use.comp.name][k]) is not None}
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
            self.counters[k].group if k is not None else extent
            for (k, _), extent in zip(dims_of, buf.shape, strict=True)
        ]
        return tuple(x for x in shape if isinstance(x, int)) if all(isinstance(x, int) for x in shape) else None

    def _rewritten(
        self, expr: Expr, loops: dict[str, int], groups: dict[str, str], shapes: dict[str, tuple[int, ...]]
    ) -> Expr:
        match expr:
            case Iter(name) if name in groups:
                counter = self.counters[loops[name]]
                before = Binary("mul", integer(counter.group), Iter(groups[name]), "i32")
                return add(add(before, Iter(name)), integer(counter.low)) if counter.low else add(before, Iter(name))
            case Load() if expr.buf in shapes:
                return replace(expr, indices=tuple(self._within(i, loops, groups) for i in expr.indices))
            case _:
                parts = tuple(self._rewritten(p, loops, groups, shapes) for p in children(expr))
                return rebuild(expr, parts) if parts else expr

    def _within(self, index: Expr, loops: dict[str, int], groups: dict[str, str]) -> Expr:
        """A subscript as it is counted from the first iteration of the group."""
        form = linear(index)
        assert form is not None
        name = next((n for n in form[1] if n in loops), None)
        if name is None:
            return index
        if name in groups:
            return Iter(name)
        counter = self.counters[loops[name]]
        before = Binary("mul", integer(counter.group), Param(self.maker.count(counter), "i32"), "i32")
        here = from_linear((-counter.low, {name: 1}), (name,))
        return Binary("sub", here, before, "i32")
