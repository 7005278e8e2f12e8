"""The loop nests of a schedule, and which part of each array a loop touches.

    Region ::= loops: Loop*, placed: Placed*      what stands in one outermost loop
    Loop   ::= key, name, members: statement*     one loop, and the statements inside it

A loop's working set of an array is the box round all elements that one run of the loop touches, with the loops outside
of it fixed: the largest such box.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod

import islpy as isl

from plant_core.ir.accesses import access_key, access_map, all_bufs, domain_of
from plant_core.ir.c_semantics import size_of
from plant_core.ir.func import Buf, Comp, Func, Load
from plant_core.ir.loop_tree import Tag
from plant_core.ir.scheduled import Nest, Scheduled
from plant_core.schedule.memory.access_sites import as_load, refuse_vectors, sites
from plant_core.schedule.memory.isl_expressions import in_context, span, values_at
from plant_core.support.location import Loc, PlantError

IN, OUT = isl.dim_type.in_, isl.dim_type.out


class NotStatic(Exception):
    """What an array's part depends on isn't known before the program runs."""


@dataclass(frozen=True, slots=True)
class Use:
    """An access of a statement, by the values of all its loops: `cells` maps them to elements. `exact`: only those."""

    statement: str
    load: Load
    written: bool
    cells: isl.Map
    exact: bool


@dataclass(frozen=True, slots=True)
class Placed:
    """A statement in its loops. `key` has its positions, one before each loop; `values` maps instances to the loops'
    values."""

    comp: Comp
    nest: Nest
    key: tuple[int, ...]
    values: isl.Map
    uses: tuple[Use, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """`key`: the positions before this loop and those outside; `tag` if any statement inside says so."""

    key: tuple[int, ...]
    name: str
    members: tuple[str, ...]
    tag: Tag | None
    loc: Loc

    @property
    def depth(self) -> int:
        """How many loops are outside of it."""
        return len(self.key) - 1

    def holds(self, other: Loop) -> bool:
        """Whether `other` is this loop or inside it."""
        return other.key[: len(self.key)] == self.key


class Region:
    """One outermost loop with all that is inside it; what its loops touch is computed when asked for."""

    def __init__(self, func: Func, placed: tuple[Placed, ...]) -> None:
        self.placed = placed
        self.bufs = all_bufs(func)
        self._known: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = {}

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """From the outside in, in the order of the text."""
        keys = sorted({p.key[: d + 1] for p in self.placed for d in range(len(p.nest.loops))})
        return tuple(map(self._loop, keys))

    def _loop(self, key: tuple[int, ...]) -> Loop:
        inside = [p for p in self.placed if len(p.nest.loops) >= len(key) and p.key[: len(key)] == key]
        names = [p.nest.loops[len(key) - 1] for p in inside]
        tags = [tag for p, name in zip(inside, names, strict=True) if (tag := p.nest.tag(name)) is not None]
        return Loop(key, names[0], tuple(p.comp.name for p in inside), tags[0] if tags else None, inside[0].comp.loc)

    @cached_property
    def tensors(self) -> tuple[Buf, ...]:
        """The arrays that are used, in the order of their first use."""
        names = dict.fromkeys(u.load.buf for p in self.placed for u in p.uses)
        return tuple(self.bufs[name] for name in names if self.bufs[name].shape)

    def inside(self, loop: Loop) -> Iterator[Loop]:
        """The loop itself, and those inside it."""
        return (other for other in self.loops if loop.holds(other))

    def uses(self, loop: Loop, tensor: str) -> list[Use]:
        return [u for p in self.placed if p.comp.name in loop.members for u in p.uses if u.load.buf == tensor]

    def working_set(self, tensor: str, loop: Loop, *, once: bool = False) -> tuple[int, ...]:
        """Extents of the part of an array that one run of the loop touches; `once`: that one iteration touches."""
        depth = loop.depth + once
        known = tensor, (*loop.key, depth)
        if known not in self._known:
            self._known[known] = self._box(self.uses(loop, tensor), depth, self.bufs[tensor])
        return self._known[known]

    def _box(self, uses: list[Use], depth: int, buf: Buf) -> tuple[int, ...]:
        if not uses:
            return tuple(0 for _ in buf.shape)
        if not all(u.exact for u in uses):
            return static_extents(buf)
        cells = reduce(isl.Map.union, [fixed(u.cells, depth) for u in uses])
        return tuple(min(_extent(cells, k), n) for k, n in enumerate(static_extents(buf)))

    def size(self, tensor: str, loop: Loop, *, once: bool = False) -> int:
        """Bytes of the working set."""
        return prod(self.working_set(tensor, loop, once=once)) * elem(self.bufs[tensor])

    def trips(self, loop: Loop) -> int:
        """The most iterations that one run of the loop has."""
        lines = []
        for p in self.placed:
            if p.comp.name in loop.members:
                line = isl.Map.from_range(p.values.range())
                line = line.project_out(OUT, loop.depth + 1, line.dim(OUT) - loop.depth - 1)
                lines.append(line.move_dims(IN, 0, OUT, 0, loop.depth))
        times = reduce(isl.Map.union, lines)
        stride = max(int(times.get_range_stride_info(0).get_stride().to_python()), 1)
        return (_extent(times, 0) - 1) // stride + 1

    def runs(self, loop: Loop, within: Loop) -> int:
        """How often `loop` is run in one run of `within`, by the most trips of the loops between."""
        return prod(self.trips(o) for o in self.inside(within) if o.holds(loop) and o is not loop)


def elem(buf: Buf) -> int:
    return size_of(buf.dtype)


def static_extents(buf: Buf) -> tuple[int, ...]:
    fixed = tuple(n for n in buf.shape if isinstance(n, int))
    if len(fixed) != len(buf.shape):
        raise NotStatic(f"the extents of '{buf.name}' depend on parameters")
    return fixed


def fixed(cells: isl.Map, depth: int) -> isl.Map:
    """What is touched with the outermost `depth` loops fixed."""
    return cells.project_out(IN, depth, cells.dim(IN) - depth)


def _extent(cells: isl.Map, dim: int) -> int:
    found = span(cells, dim)
    if found is None:
        raise NotStatic("no constant bounds what a loop touches")
    return found + 1


def strides(extents: tuple[int, ...]) -> tuple[int, ...]:
    """Elements from one subscript to the next, of a row-major array."""
    return tuple(prod(extents[k + 1 :]) for k in range(len(extents)))


def steps(use: Use, loop: int) -> tuple[int, ...] | None:
    """By how much each subscript grows from one value of the loop at this depth to the next; None where it varies."""
    found = []
    for aff in _subscripts(use):
        if len(aff) != 1 or aff[0].involves_dims(isl.dim_type.div, 0, aff[0].dim(isl.dim_type.div)):
            return None
        step = aff[0].get_coefficient_val(IN, loop)
        if not step.is_int():
            return None
        found.append(int(step.to_python()))
    return tuple(found)


def deepest(use: Use) -> tuple[int, ...]:
    """For each subscript the depth of the innermost loop that it moves with, -1 for none."""
    count = use.cells.dim(IN)
    return tuple(
        max((d for d in range(count) if any(aff.involves_dims(IN, d, 1) for aff in pieces)), default=-1)
        for pieces in _subscripts(use)
    )


def _subscripts(use: Use) -> list[list[isl.Aff]]:
    if not use.cells.is_single_valued():
        raise NotStatic(f"'{use.load.buf}' is read in several places by one iteration")
    whole = isl.MultiPwAff.from_pw_multi_aff(use.cells.as_pw_multi_aff())
    return [[aff for _, aff in whole.get_at(k).coalesce().get_pieces()] for k in range(use.cells.dim(OUT))]


# --- from a schedule ----------------------------------------------------------------------------------------------


def regions(scheduled: Scheduled) -> tuple[Region, ...]:
    """The outermost loops of a program in the order of time; NotStatic where positions or bounds aren't constants."""
    func = scheduled.func
    if func.effects or any(comp.defines for comp in func.comps):
        raise NotStatic("loops are bounded by data, or memory is managed by hand")
    placed = [_placed(scheduled, comp) for comp in func.comps]
    groups: dict[int, list[Placed]] = {}
    for p in sorted((p for p in placed if p.nest.loops), key=lambda p: p.key):
        groups.setdefault(p.key[0], []).append(p)
    return tuple(Region(func, tuple(group)) for _, group in sorted(groups.items()))


def _placed(scheduled: Scheduled, comp: Comp) -> Placed:
    nest = scheduled.nest(comp.name)
    func = scheduled.func
    relation = nest.relation.intersect_domain(in_context(domain_of(comp), func.context))
    times = relation.range()
    try:
        found = [values_at(times, 2 * depth) for depth in range(len(nest.loops))]
    except PlantError:
        raise NotStatic(f"the positions of {comp.name} aren't constants") from None
    if any(len(positions) != 1 for positions in found):
        raise NotStatic(f"{comp.name} has several places in one loop")
    count = relation.dim(OUT)
    names = [f"t{k}" for k in range(count)]
    pick = isl.Map(f"{{ [{', '.join(names)}] -> [{', '.join(names[1 : 2 * len(nest.loops) : 2])}] }}")
    values = relation.apply_range(pick).coalesce()
    reverse = values.reverse()
    uses = tuple(_uses(func, comp, lambda cells: reverse.apply_range(cells).coalesce()))
    return Placed(comp, nest, tuple(positions[0] for positions in found), values, uses)


def _uses(func: Func, comp: Comp, by_values: Callable[[isl.Map], isl.Map]) -> Iterator[Use]:
    seen: set[object] = set()
    loads = [(as_load(func, site), False) for site in sites(comp)]
    for load, written in (*loads, (comp.target, True)):
        key = access_key(load), written
        if key in seen:
            continue
        seen.add(key)
        cells, exact = access_map(comp, load)
        try:
            refuse_vectors(comp, frozenset({load.buf}))
        except PlantError:
            exact = False
        yield Use(comp.name, load, written, by_values(cells), exact)
