"""The loop structure of a Func, read off its 2d+1 schedules: which comps share which loops, and how long these are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import islpy as isl

from plant_core.analysis.symbolic_offsets import iterators_of, with_starts
from plant_core.ir.accesses import all_bufs, linear, reads
from plant_core.ir.func import Comp, Func, Load
from plant_core.ir.quasi_affine import is_one_constant

LoopId = tuple[int, ...]
UNKNOWN_EXTENT = 256

ROOM = 24  # textual places that a strip of rows takes beside each statement


@dataclass(frozen=True, slots=True)
class LoopInfo:
    """One loop of one comp. `id` is the prefix of static schedule constants: comps with equal ids share the loop."""

    id: tuple[int, ...]
    iterator: str
    low: int | None
    high: int | None
    free: bool = True  # whether its bounds depend on no other loop
    most: int | None = None  # iterations, where a constant bounds them

    @property
    def known(self) -> bool:
        """Whether its least and greatest values are constants."""
        return self.low is not None and self.high is not None

    @property
    def extent(self) -> int:
        """Iterations between the least and the greatest value; a guess where a size is symbolic."""
        if self.low is None or self.high is None:
            return UNKNOWN_EXTENT
        return max(self.high - self.low + 1, 0)


@dataclass(frozen=True, slots=True)
class FlatAccess:
    """`buf[constant + sum(coefficient * iterator) + ...]`, flattened; `write` for the target of the statement.

    `varies`: the iterators on which the element depends in another way: data, symbolic strides, remainders, the lesser
    of two values; `start`: equal for accesses that depend on these alike, None where that is not known.
    """

    buf: str
    constant: int
    coefficients: tuple[tuple[str, int], ...]
    elem: str
    write: bool
    varies: frozenset[str] = frozenset()
    start: tuple[object, ...] | None = ()

    def coefficient(self, iterator: str) -> int:
        return next((number for name, number in self.coefficients if name == iterator), 0)

    def stays(self, iterator: str) -> bool:
        """Whether it is one element along the loop over `iterator`."""
        return iterator not in self.varies and self.coefficient(iterator) == 0


@dataclass(frozen=True, slots=True)
class CompInfo:
    comp: Comp
    loops: tuple[LoopInfo, ...]
    accesses: tuple[FlatAccess, ...]
    box: bool = True  # whether the domain is the product of its iterators' ranges, all of them constant
    settled: bool = True  # whether it is such a product, be the ranges known or not

    @property
    def separate(self) -> bool:
        """Whether no iterator's bounds depend on another's, be the sizes known or not."""
        return all(x.free for x in self.loops)

    def fixed(self, iterator: str) -> bool:
        """Whether a loop has the same constant range in all iterations of the others."""
        return self.box or (self.settled and self.loop(iterator).known)

    def loop(self, iterator: str) -> LoopInfo:
        for x in self.loops:
            if x.iterator == iterator:
                return x
        raise KeyError(iterator)

    def continues(self, iterator: str, other: str, least: int) -> bool:
        """Whether what is written goes on along a loop where another one ends, of known size, so many at least."""
        written, inner = next(a for a in self.accesses if a.write), self.loop(other)
        step = written.coefficient(other)
        long = inner.known and inner.extent >= least
        return long and step != 0 and written.coefficient(iterator) == step * inner.extent

    @property
    def volume(self) -> int:
        result = 1
        for loop in self.loops:
            result *= max(loop.extent, 1)
        return result


@dataclass(frozen=True)
class Nest:
    """The comps below one top-level loop (or one statement outside loops). `own`: local arrays of which each iteration
    writes one element before it reads it, and none but that: values that need no memory where its statements share
    their loops."""

    comps: tuple[CompInfo, ...]
    own: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.comp.name for c in self.comps)

    @property
    def in_versions(self) -> bool:
        """Whether there are several loops of unknown size one after the other, so that which of them run at all makes
        versions of the code."""
        ends = {c.loops[-1].id for c in self.comps if c.loops and not c.loops[-1].known}
        return len(ends) > 1

    @cached_property
    def heaviest(self) -> CompInfo:
        return max(self.comps, key=lambda c: c.volume)


def static_constants(comp: Comp) -> tuple[int, ...]:
    """The constants c0, c1, ... of `S[i, j] -> [c0, i, c1, j, c2, ...]`, as far as the comp's own depth."""
    dims = comp.schedule.range()
    found = []
    for depth in range(len(comp.iters) + 1):
        value = dims.plain_get_val_if_fixed(isl.dim_type.set, 2 * depth)
        found.append(0 if value.is_nan() else int(value.to_python()))
    return tuple(found)


def nests(func: Func) -> tuple[Nest, ...]:
    """The nests of `func` in their order of execution."""
    groups: dict[int, list[CompInfo]] = {}
    for comp in func.comps:
        constants = static_constants(comp)
        groups.setdefault(constants[0], []).append(_info(func, comp, constants))
    return tuple(Nest(tuple(groups[key]), _own(func, groups[key])) for key in sorted(groups))


def _own(func: Func, comps: Sequence[CompInfo]) -> frozenset[str]:
    """See `Nest`. Requires: the comps are in the order of the text."""
    names = {c.comp.name for c in comps}
    elsewhere = {a.buf for c in func.comps if c.name not in names for a in (c.target, *(a for a, _ in reads(c)))}
    elements: dict[str, list[object]] = {}
    for comp in comps:
        for access in sorted(comp.accesses, key=lambda a: a.write):
            element = access.constant, *(access.coefficient(i) for i in comp.comp.iters)
            known = not access.varies and (access.write or access.buf in elements)
            elements.setdefault(access.buf, []).append(element if known else None)
    local = {b.name for b in func.bufs if b.kind == "local"} - elsewhere
    return frozenset(
        name for name in elements.keys() & local if None not in elements[name] and len(set(elements[name])) == 1
    )


def _info(func: Func, comp: Comp, constants: tuple[int, ...]) -> CompInfo:
    loops = []
    tied = _tied(comp.domain)
    for depth, iterator in enumerate(comp.iters):
        low, high, end = _range(comp.domain, depth, free=depth not in tied)
        most = None if low is None or end is None else max(end - low + 1, 0)
        loops.append(LoopInfo(constants[: depth + 1], iterator, low, high, depth not in tied, most))
    flats = [_flat(func, a, write) for a, write in [*((a, False) for a, _ in reads(comp)), (comp.target, True)]]
    box = _is_box(comp.domain, loops)
    settled = box or (not tied and _is_one(comp.domain))
    return CompInfo(comp, tuple(loops), tuple(dict.fromkeys(flats)), box, settled)


def _is_one(domain: isl.Set) -> bool:
    """Whether it is one basic set without strides."""
    parts = domain.coalesce().get_basic_sets()
    return len(parts) == 1 and parts[0].dim(isl.dim_type.div) == 0


def _tied(domain: isl.Set) -> set[int]:
    """The dimensions that share a constraint with another."""
    dims = range(domain.dim(isl.dim_type.set))
    found: set[int] = set()
    for piece in domain.get_basic_sets():
        for constraint in piece.get_constraints():
            here = [d for d in dims if constraint.involves_dims(isl.dim_type.set, d, 1)]
            if len(here) > 1:
                found.update(here)
    return found


def _is_box(domain: isl.Set, loops: list[LoopInfo]) -> bool:
    """Of constant extents: a symbolic size makes no box."""
    if any(x.low is None or x.high is None for x in loops):
        return False
    box = isl.Set.universe(domain.get_space())
    for d, loop in enumerate(loops):
        for bounded, value in ((isl.Set.lower_bound_val, loop.low), (isl.Set.upper_bound_val, loop.high)):
            box = bounded(box, isl.dim_type.set, d, isl.Val.int_from_si(box.get_ctx(), value))
    return bool(box.is_subset(domain))


def _flat(func: Func, access: Load, write: bool) -> FlatAccess:
    """Row-major; dimensions that aren't affine, or lie before one of unknown extent, only tell what they vary with."""
    constant, coefficients, varies = 0, dict[str, int](), set[str]()
    starts: tuple[object, ...] = ()
    known = True
    for dim, (extent, index) in enumerate(zip(all_bufs(func)[access.buf].shape, access.indices, strict=True)):
        if isinstance(extent, int):
            constant, coefficients = constant * extent, {n: c * extent for n, c in coefficients.items()}
        else:
            varies.update(coefficients)
            known = known and not coefficients
            constant, coefficients = 0, {}
        index, parts = with_starts(index)
        form = linear(index)
        if form is None:
            varies.update(iterators_of(index))
            known = False
            continue
        starts = (*starts, (dim, frozenset(parts.items()))) if parts else starts
        varies.update(name for part in parts for name in iterators_of(part))
        constant += form[0]
        for name, coefficient in form[1].items():
            coefficients[name] = coefficients.get(name, 0) + coefficient
    terms = tuple(sorted((n, c) for n, c in coefficients.items() if c))
    start = (starts if known else None) if varies else ()
    return FlatAccess(access.buf, constant, terms, access.dtype, write, frozenset(varies), start)


def _range(domain: isl.Set, dim: int, *, free: bool) -> tuple[int | None, int | None, int | None]:
    """The least and the greatest value, None where it is no constant, or sizes tell that it is less, of a loop that is
    `free` of others; and a constant that no value is above, if there is one."""
    low, high = domain.dim_min_val(dim), domain.dim_max_val(dim)
    bounded = high.is_int() and not (
        free and domain.dim(isl.dim_type.param) and not is_one_constant(domain.dim_max(dim))
    )
    return (
        int(low.to_python()) if low.is_int() else None,
        int(high.to_python()) if bounded else None,
        int(high.to_python()) if high.is_int() else None,
    )
