"""Boxes of iterations, and what they write: the questions that cutting a nest into blocks asks of its statements."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import islpy as isl

from plant_core.analysis.dependence import Dependence, Flow, flows, live_in, memory_dependences
from plant_core.ir.accesses import Linear, access_map, accesses, all_bufs, from_linear, linear
from plant_core.ir.array_views import Layout, Reach
from plant_core.ir.func import Comp, DType, Extent, Func, Load
from plant_core.ir.quasi_affine import affine_in_parameters, parameters_of
from plant_core.ir.tile_loop import Counter
from plant_core.ir.time_2d1 import Line, position
from plant_core.support.location import PlantError

# constant + sum(factor * iterator); None where it is anything else.
Form = tuple[int, dict[str, int]] | None
Moves = tuple[tuple[tuple[int, int], ...], ...]  # of each subscript the counters that move it, and how far
# Of each statement its coordinate on an axis of tiles, in its iterators (see `bands`).
Axis = Mapping[str, Linear]


# What a size that nothing bounds is taken to be in statements of so many loops: data are larger than near memories.
_LARGE = (1 << 16, 1 << 16, 1 << 12, 1 << 10)
_FEW = 4  # values: loops of fewer iterations are where borders meet
_PART = 1 << 7  # of it one that makes other loops shorter is


class NoBlocks(PlantError):
    """Why a nest can't be cut into such blocks."""


@dataclass(frozen=True, slots=True)
class Use:
    """An access of a comp; `forms`: its subscripts in the comp's iterators."""

    comp: Comp
    access: Load
    forms: tuple[Form, ...]

    @property
    def writes(self) -> bool:
        return self.access is self.comp.target


class Boxes:
    """What cutting one nest into blocks asks of it, whatever the sizes of the blocks.

    Local arrays that are `kept` are of use to others. `known`: its dependences, found here where they aren't given.
    `around`: of the outermost loops, which have other nests in them, too, the first iteration and how many there are.
    `layouts`: of what array each of its arrays is a view that is none itself.
    `axes`: what is counted, if that isn't the loops round the main statement. `anywhere` tells whether vectors of a
    type may be stored at any place.
    """

    def __init__(
        self,
        func: Func,
        granule: int,
        kept: Collection[str] = (),
        known: Sequence[Dependence] | None = None,
        around: Sequence[tuple[int, int]] = (),
        layouts: Mapping[str, Layout] | None = None,
        axes: Sequence[Axis] = (),
        anywhere: Callable[[DType], bool] = lambda dtype: True,
    ) -> None:
        self.layouts, self.anywhere = layouts or {}, anywhere
        self.func, self.granule, self.kept, self.around = func, granule, frozenset(kept), tuple(around)
        self.axes = tuple(axes)
        self.known = memory_dependences(func) if known is None else known
        self.bufs = all_bufs(func)
        self.places = {c.name: position(c) for c in func.comps}
        self.written = {c.target.buf for c in func.comps}
        self.uses = [
            Use(comp, access, tuple(linear(i) for i in access.indices))
            for comp in func.comps
            for access in accesses_of(comp)
        ]
        self._ends: dict[tuple[str, int], tuple[int, int, Linear | None]] = {}
        self._live: dict[str, bool] = {}

    @cached_property
    def main(self) -> Comp:
        """The statement that runs most often."""
        return max(self.func.comps, key=lambda c: (self._volume(c), len(c.iters)))

    @cached_property
    def loops(self) -> list[tuple[str, int, int]]:
        """The loops round the main statement, outermost first: iterator, first iteration of any statement that is in
        the loop, too, and how many there are up to the last one. With axes these."""
        if self.axes:
            found = [self._axis_loop(k) for k in range(len(self.axes))]
            least = min(low for _, low, _ in found)  # where blocks begin alike, windows may be in one place
            return [(name, least, number + low - least) for name, low, number in found]
        place = self.places[self.main.name]
        found = []
        for depth, name in enumerate(self.main.iters):
            if place.loops[depth] != Line(0, ((name, 1),)):
                break
            ends = [self.ends(c, depth) for c in self.func.comps if self.shares(c, depth)]
            if self.sizes:
                ends = [self.ends(self.main, depth)]
            low = min(low for low, _ in ends)
            number = max(high for _, high in ends) - low + 1
            found.append((name, *(self.around[depth] if depth < len(self.around) else (low, number))))
        return found

    def _axis_loop(self, number: int) -> tuple[str, int, int]:
        axis, ends = self.axes[number], list[int]()
        for comp in self.func.comps:
            at = f"{{ {comp.name}[{', '.join(comp.iters)}] -> [{in_text(axis[comp.name])}] }}"
            counted = comp.domain.apply(isl.Map(at)).coalesce()
            if not counted.is_empty():
                ends += [int(v.to_python()) for v in (counted.dim_min_val(0), counted.dim_max_val(0))]
        name = next(names for c in self.func.comps if None not in (names := self.counted(c)))[number]
        assert name is not None
        return name, min(ends), max(ends) - min(ends) + 1

    def counted(self, comp: Comp) -> list[str | None]:
        """Of each axis the iterator that is the statement's coordinate on it, and on no axis before."""
        found: list[str | None] = []
        for axis in self.axes:
            name = alone(axis[comp.name])
            found.append(None if name in found else name)
        return found

    @cached_property
    def cut(self) -> dict[str, isl.Set]:
        """The statements whose iterations are no box, or a part only of a loop that others run in all of: what tells
        theirs from that box's."""
        found = {}
        for comp in self.func.comps:
            ranges = []
            for depth, name in enumerate(comp.iters):
                low, high = self.ends(comp, depth)
                counter = self._counter(comp, depth)
                if counter is not None:
                    _, low, number = self.loops[counter]
                    high = low + number - 1
                ranges.append(f"{low} <= {name} <= {high}")
            box = isl.Set(f"{{ {comp.name}[{', '.join(comp.iters)}] : {' and '.join(ranges) or 'true'} }}")
            if not box.is_equal(comp.domain):
                found[comp.name] = comp.domain.coalesce().gist(box)
        return found

    def _counter(self, comp: Comp, depth: int) -> int | None:
        """Which of `loops` counts an iterator of the statement."""
        if self.axes:
            counted = self.counted(comp)
            return counted.index(comp.iters[depth]) if comp.iters[depth] in counted else None
        return depth if depth < len(self.loops) and self.shares(comp, depth) else None

    def plane_of(self, access: Load, moves: Moves, counters: Sequence[Counter]) -> tuple[int, ...]:
        """The constants of the subscripts before the last two, if nothing is written to the array, and only counters of
        single iterations move these."""
        forms = [linear(index) for index in access.indices[:-2]]
        movers = [counters[k] for steps in moves[:-2] for k, _ in steps]
        if access.buf in self.written or not movers or not all(c.single for c in movers):
            return ()
        alone = all(form is not None and len(form[1]) == len(m) for form, m in zip(forms, moves, strict=False))
        return tuple(form[0] for form in forms if form is not None) if alone else ()

    def shares(self, comp: Comp, depth: int) -> bool:
        """Whether a statement is in the main one's loop of a depth."""
        prefix = self.places[self.main.name].constants[: depth + 1]
        return len(comp.iters) > depth and self.places[comp.name].constants[: depth + 1] == prefix

    @cached_property
    def flows(self) -> list[Dependence]:
        """Those by which local arrays and variables pass values on."""
        return [d for d in self.known if d.kind == "flow" and self.bufs[d.buf].kind == "local"]

    @cached_property
    def flows_by_value(self) -> tuple[Flow, ...]:
        """Those by which local arrays and variables pass values on that nothing overwrites in between."""
        return flows(self.func, local=True)

    @cached_property
    def sizes(self) -> dict[str, int]:
        return assumed(self.func)

    def ends(self, comp: Comp, depth: int) -> tuple[int, int]:
        """The first and the last iteration of a loop; a guess of the last where it is `symbolic`."""
        return self._found(comp, depth)[:2]

    def range_of(self, comp: Comp, depth: int) -> tuple[int, int | Linear]:
        """The first and the last iteration as it is."""
        low, high, form = self._found(comp, depth)
        return low, high if form is None else form

    def counted_range(self, counter: Counter) -> tuple[int, int | Linear]:
        """The same of the main statement's loop that is counted."""
        return self.range_of(self.main, self.main.iters.index(counter.name))

    def symbolic(self, comp: Comp, depth: int) -> Linear | None:
        """The last iteration of a loop in the integer parameters, where it depends on them."""
        return self._found(comp, depth)[2]

    def _found(self, comp: Comp, depth: int) -> tuple[int, int, Linear | None]:
        key = (comp.name, depth)
        if key not in self._ends:
            low, high, form = ends_of(comp, depth)
            if form is not None:
                high = max(form[0] + sum(f * self.sizes[name] for name, f in form[1].items()), low)
            self._ends[key] = low, high, form
        return self._ends[key]

    def is_box(self, comp: Comp) -> bool:
        """Whether the bounds of its loops are independent of each other."""
        ranges = []
        for depth, name in enumerate(comp.iters):
            low, high = self.ends(comp, depth)
            form = self.symbolic(comp, depth)
            ranges.append(f"{low} <= {name} <= {high if form is None else in_text(form)}")
        head = f"[{', '.join(self.sizes)}] -> " if self.sizes else ""
        box = isl.Set(f"{head}{{ {comp.name}[{', '.join(comp.iters)}] : {' and '.join(ranges) or 'true'} }}")
        return bool(box.is_equal(comp.domain))

    @cached_property
    def guarded(self) -> bool:
        """Whether sizes are known at run time only, and not all statements have boxes of iterations."""
        return bool(self.sizes) and not all(map(self.is_box, self.func.comps))

    def is_live(self, buf: str) -> bool:
        """Whether an element of the array may be read before it is written."""
        if self.around:  # what other nests wrote since this one last ran
            return any(u.access.buf == buf and not u.writes for u in self.uses)
        if buf not in self._live:
            self._live[buf] = meets(live_in(self.func, buf, doubt=True), self.bufs[buf].shape)
        return self._live[buf]

    def _volume(self, comp: Comp) -> int:
        """The iterations of the box round its domain."""
        ranges = (self.ends(comp, d) for d in range(len(comp.iters)))
        return math.prod(high - low + 1 for low, high in ranges)


def accesses_of(comp: Comp) -> Iterator[Load]:
    """What it writes, and all that it reads."""
    yield comp.target
    for index in comp.target.indices:
        yield from accesses(index)
    yield from accesses(comp.value)


def alone(form: Linear) -> str | None:
    """The iterator that a form is."""
    return next(iter(form[1])) if form[0] == 0 and list(form[1].values()) == [1] else None


def in_text(form: Linear) -> str:
    """As isl reads it."""
    return " + ".join([str(form[0]), *(f"{factor}*{name}" for name, factor in sorted(form[1].items()))])


def ends_of(comp: Comp, depth: int) -> tuple[int, int, Linear | None]:
    """The first and the last iteration of a loop, the last in the integer parameters where it depends on them. Raises
    NoBlocks where they are anything else."""
    low, high = comp.domain.dim_min_val(depth), comp.domain.dim_max_val(depth)
    form = None if high.is_int() else affine_in_parameters(comp.domain.dim_max(depth)) or _highest(comp, depth)
    if not low.is_int() or (form is None and not high.is_int()):
        raise NoBlocks(
            f"blocks need constant sizes, and the bounds of {comp.iters[depth]} are known at run time only",
            loc=comp.loc,
            code="DG205",
            remedy="give the parameters' values with -D NAME=VALUE",
        )
    return int(low.to_python()), int(high.to_python()) if form is None else 0, form


def _highest(comp: Comp, depth: int) -> Linear | None:
    """The last iteration of a loop that is another one for few parameters only, as of a union of parts."""
    name, iters = comp.iters[depth], ", ".join(comp.iters)
    head = f"[{', '.join(parameters_of(comp.domain))}] -> "
    for where, value in comp.domain.dim_max(depth).coalesce().get_pieces():
        form = affine_in_parameters(isl.PwAff.alloc(where, value))
        within = None if form is None else isl.Set(f"{head}{{ {comp.name}[{iters}] : {name} <= {in_text(form)} }}")
        if within is not None and comp.domain.is_subset(within):
            return form
    return None


def assumed(func: Func) -> dict[str, int]:
    """Of each integer parameter that decides how often statements run, the value that sizes of blocks are chosen for:
    the largest, but a small one where it is what another loop is shorter by, as the size of a filter is."""
    shorter = set().union(*(_shortening(comp.domain) for comp in func.comps))
    few = max(unbounded(func) // _PART, 1)
    return {name: min(value, few) if name in shorter else value for name, value in largest(func).items()}


def largest(func: Func) -> dict[str, int]:
    """Of each integer parameter that decides how often statements run, the largest value for which arrays of known size
    have all elements that are accessed, or a large one. Statements that run for a few values only tell nothing, if
    there are others."""
    found, small = dict[str, int](), dict[str, int]()
    large = unbounded(func)
    for comp in func.comps:
        right, runs = right_sizes(func, comp, tuple(accesses_of(comp))), comp.domain.params()
        for name in parameters_of(right):
            most, last = _most(right, name), _most(runs, name)
            if most is not None and most == last and most < _FEW:
                small[name] = max(small.get(name, most), most)
            else:
                found[name] = min(found.get(name, large), large if most is None else most)
    return small | found


def _most(params: isl.Set, name: str) -> int | None:
    """The largest value of a parameter; None where there is none."""
    k = params.find_dim_by_name(isl.dim_type.param, name)
    if k < 0:
        return None
    most = isl.Set.from_params(params).move_dims(isl.dim_type.set, 0, isl.dim_type.param, k, 1).dim_max_val(0)
    return int(most.to_python()) if most.is_int() else None


def unbounded(func: Func) -> int:
    """What a size is taken to be that nothing bounds."""
    return _LARGE[min(max((len(c.iters) for c in func.comps), default=0), len(_LARGE) - 1)]


def _shortening(domain: isl.Set) -> set[str]:
    """The parameters with which a loop has fewer iterations the larger they are."""
    found = set[str]()

    def look(sign: int, piece: isl.Set, end: isl.Aff) -> None:
        for k in range(end.dim(isl.dim_type.param)):
            if sign * end.get_coefficient_val(isl.dim_type.param, k).sgn() < 0:
                found.add(str(end.get_dim_name(isl.dim_type.param, k)))

    for depth in range(domain.dim(isl.dim_type.set)):
        if domain.dim_is_bounded(isl.dim_type.set, depth):
            domain.dim_max(depth).foreach_piece(partial(look, 1))
            domain.dim_min(depth).foreach_piece(partial(look, -1))
    return found


def right_sizes(func: Func, comp: Comp, made: Sequence[Load]) -> isl.Set:
    """The values of parameters for which a statement runs, and arrays of known size have all elements of the accesses
    that are `made`, those that aren't affine aside."""
    inside = comp.domain
    for access in made:
        shape = func.buf(access.buf).shape
        where, exact = access_map(comp, access)
        if exact:
            inside = inside.intersect(where.intersect_range(_all_of(where.range().get_space(), shape)).domain())
    return comp.domain.params().intersect(comp.domain.subtract(inside).params().complement())


def surely_written(comps: Sequence[Comp], buf: str) -> isl.Set | None:
    """The elements of an array that the statements write, whatever the data; None where there are none."""
    found: isl.Set | None = None
    for comp in comps:
        if comp.target.buf == buf:
            where, exact = access_map(comp, comp.target)
            if exact:
                elements = where.intersect_domain(comp.domain).range()
                found = elements if found is None else found.union(elements)
    return found


def covers(elements: isl.Set | None, shape: Sequence[Extent]) -> bool:
    """Whether these are surely all elements of an array, whatever the parameters in its extents."""
    extents = [linear(extent) if not isinstance(extent, int) else (extent, {}) for extent in shape]
    if elements is None or None in extents:
        return False
    indices = [f"x{d}" for d in range(len(shape))]
    inside = [f"0 <= {x} < {in_text(e)}" for x, e in zip(indices, extents, strict=True) if e is not None]
    names = sorted({name for e in extents if e is not None for name in e[1]})
    text = f"[{', '.join(names)}] -> {{ [{', '.join(indices)}] : {' and '.join(inside) or 'true'} }}"
    return bool(isl.Set(text).is_subset(elements.reset_tuple_id()))


def meets(elements: isl.Set | None, shape: Sequence[Extent]) -> bool:
    """Whether any of these may be an element of an array."""
    return elements is not None and not elements.intersect(_all_of(elements.get_space(), shape)).is_empty()


def _all_of(space: isl.Space, shape: Sequence[Extent]) -> isl.Set:
    """Elements of an array, and beyond in dimensions whose size isn't known."""
    whole = isl.Set.universe(space)
    for d, extent in enumerate(shape):
        if not isinstance(extent, int):
            continue
        whole = whole.lower_bound_val(isl.dim_type.set, d, isl.Val(0))
        whole = whole.upper_bound_val(isl.dim_type.set, d, isl.Val(extent - 1))
    return whole


def apart(dims: Sequence[Reach]) -> bool:
    """Whether windows at different places have no element in common: each counter moves a dimension of its own far
    enough."""
    counters = {k for d in dims for k, _ in d.steps}
    return all(
        any(len(d.steps) == 1 and d.steps[0][0] == k and abs(d.steps[0][1]) >= d.extent.full for d in dims)
        for k in counters
    )


def counters_of(boxes: Boxes, spans: Sequence[int], order: Sequence[int]) -> tuple[Counter, ...]:
    """The counters of blocks of `spans` iterations of the loops, these in `order`."""
    counters = []
    for k in order:
        name, low, extent = boxes.loops[k]
        depth = boxes.main.iters.index(name) if not boxes.axes else 0
        form = None if boxes.axes else boxes.symbolic(boxes.main, depth)
        span = min(spans[k], extent) if form is None else spans[k]
        trips = -(-extent // span)
        number = None if form is None else from_linear((form[0] - low + 1, form[1]), ())
        single = number is not None and span == 1 and all(boxes.shares(c, depth) for c in boxes.func.comps)
        counters.append(Counter(name, low, span, trips, extent - (trips - 1) * span, number, single=single))
    return tuple(counters)
