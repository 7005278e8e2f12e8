"""Array initialisers: which element gets which expression, and the statements' domains that store them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import islpy as isl
from pycparser import c_ast

from dspgen.frontend.parse.error_codes import fail
from dspgen.frontend.scop.affine_sets import Nest
from plant_core.support.location import Loc

Size = Callable[[c_ast.Node], int | None]


def elements(
    init: c_ast.InitList, shape: Sequence[int], size: Size, place: Callable[[c_ast.Node], Loc]
) -> dict[int, c_ast.Node]:
    """Row-major positions and their expressions; later designators win. An outermost extent of 0 is open."""
    found: dict[int, c_ast.Node] = {}
    _fill(init, tuple(shape), 0, found, size, place)
    return found


def _fill(
    init: c_ast.InitList,
    shape: tuple[int, ...],
    base: int,
    found: dict[int, c_ast.Node],
    size: Size,
    place: Callable[[c_ast.Node], Loc],
) -> None:
    inner = shape[1:]
    stride = math.prod(inner)
    cursor = 0
    for item in init.exprs or []:
        value, rank = item, len(inner)
        if isinstance(item, c_ast.NamedInitializer):
            cursor, rank = _designated(item, shape, size, place)
            value = item.expr
        if not isinstance(value, c_ast.InitList):
            found[base + cursor] = value
            cursor += 1
        elif rank == 0:
            if len(value.exprs) != 1 or isinstance(value.exprs[0], c_ast.InitList):
                fail("DG018", "too many braces around a value", place(value))
            found[base + cursor] = value.exprs[0]
            cursor += 1
        else:
            part = shape[len(shape) - rank :]
            cursor = -(-cursor // stride) * stride if rank == len(inner) else cursor
            _fill(value, part, base + cursor, found, size, place)
            cursor += math.prod(part)


def _designated(
    item: c_ast.NamedInitializer, shape: tuple[int, ...], size: Size, place: Callable[[c_ast.Node], Loc]
) -> tuple[int, int]:
    cursor = 0
    for level, name in enumerate(item.name):
        node = name.expr if isinstance(name, c_ast.ArrayDesignator) else name
        position = size(node)
        if position is None:
            fail("DG018", "a designator must be a constant", place(node))
        cursor += position * math.prod(shape[level + 1 :])
    return cursor, len(shape) - len(item.name)


def position(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    found = []
    for extent in reversed(shape):
        flat, index = divmod(flat, extent)
        found.append(index)
    return tuple(reversed(found))


def box(nest: Nest, names: Sequence[str], shape: Sequence[int]) -> Nest:
    """The nest with one loop over each dimension of an array."""
    for name, extent in zip(names, shape, strict=True):
        nest = nest.entered(name)
        own = nest.variable(name)
        nest = nest.within(own.ge_set(nest.constant(0))).within(own.lt_set(nest.constant(extent)))
    return nest


def points(nest: Nest, positions: Sequence[tuple[int, ...]]) -> isl.Set:
    """The points of the nest whose innermost iterators have one of these values, which are sorted."""
    found = isl.Set.empty(nest.domain.get_space())
    if not positions:
        return found
    depth = len(nest.iters) - len(positions[0])
    for row, group in itertools.groupby(positions, key=lambda p: p[:-1]):
        for first, last in _runs([p[-1] for p in group]):
            part = nest.universe()
            for offset, index in enumerate(row):
                part = part.fix_val(isl.dim_type.set, depth + offset, isl.Val(index))
            part = part.lower_bound_val(isl.dim_type.set, len(nest.iters) - 1, isl.Val(first))
            found = found.union(part.upper_bound_val(isl.dim_type.set, len(nest.iters) - 1, isl.Val(last)))
    return found.coalesce()


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
