"""What a loop tree computes, over NumPy arrays: the check that a tiled program equals the plain one.

A leaf runs the points of its box, the last iterator fastest. All lanes of a vector read before any of them writes,
but for those of a scan, which run in the order of its recurrence. A
tile that reduces over lanes, or splits, adds to partial results that start from the operator's identity and join the
target when the outermost loop over such an iterator ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from plant_core.analysis.dependence import reduction_of
from plant_core.analysis.linear_recurrences import falls
from plant_core.ir import c_semantics
from plant_core.ir.accesses import access_key, all_bufs
from plant_core.ir.func import (
    Binary,
    Buf,
    Call,
    Cast,
    Comp,
    DType,
    Expr,
    Func,
    Iter,
    Load,
    Param,
    ScalarParam,
    Select,
    Unary,
    Val,
)
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tree, vectors_of
from plant_core.support.location import PlantError

Array = npt.NDArray[Any]
_Scope = Mapping[str, Any]
_Index = tuple[int, ...]


def evaluate_tree(
    func: Func, tree: Tree, inputs: Mapping[str, Array | int | float], *, lanes: int = 16
) -> dict[str, Array]:
    """The contents of every non-const array parameter after the run, on vectors of `lanes` elements."""
    memory: dict[str, Array] = {}
    for name, buf in all_bufs(func).items():
        dtype = c_semantics.NUMPY[buf.dtype]
        if buf.kind == "local":
            memory[name] = np.full(buf.extents, np.nan if c_semantics.is_float(buf.dtype) else 0, dtype)
        else:
            memory[name] = np.array(inputs[name], dtype).reshape(buf.extents)
    scalars = {
        p.name: c_semantics.typed(_plain(inputs[p.name]), p.dtype) for p in func.params if isinstance(p, ScalarParam)
    }
    with np.errstate(all="ignore"):
        _Machine(memory, lanes, {}).run(tree, scalars)
    return {p.name: memory[p.name] for p in func.params if isinstance(p, Buf) and not p.const}


def _plain(value: Array | int | float) -> int | float:
    return value.item() if isinstance(value, np.ndarray | np.generic) else value


@dataclass(frozen=True, slots=True)
class _Partial:
    """The partial results of one leaf: for each target element, one for each accumulator that it has."""

    leaf: Leaf
    sums: dict[tuple[_Index, _Index], Any]


@dataclass(frozen=True, slots=True)
class _Machine:
    memory: dict[str, Array]
    lanes: int
    partials: dict[int, _Partial]

    def run(self, tree: Tree, scope: _Scope) -> None:
        match tree:
            case Seq(children=children):
                for child in children:
                    self.run(child, scope)
            case If(condition=condition, then=then):
                if self.value(condition, scope):
                    self.run(then, scope)
            case For():
                self.loop(tree, scope)
            case Leaf():
                self.leaf(tree, scope)

    def loop(self, loop: For, scope: _Scope) -> None:
        begun = [leaf for leaf in _leaves(loop) if _accumulates_in(leaf, loop) and id(leaf) not in self.partials]
        for leaf in begun:
            self.partials[id(leaf)] = _Partial(leaf, {})
        for value in range(int(self.value(loop.lower, scope)), int(self.value(loop.upper, scope)), loop.step):
            self.run(loop.body, {**scope, loop.iterator: value})
        for leaf in begun:
            self.flush(self.partials.pop(id(leaf)))

    def flush(self, partial: _Partial) -> None:
        comp = partial.leaf.comp
        for (index, _), value in partial.sums.items():
            target = self.memory[comp.target.buf]
            old = _stored(target[index], comp.target.dtype)
            target[index] = _combine(comp, old, value)

    def leaf(self, leaf: Leaf, scope: _Scope) -> None:
        comp, tile = leaf.comp, leaf.tile
        origin = [int(self.value(o, scope)) for o in leaf.origin]
        lane = comp.iters.index(tile.lane) if tile.lane is not None else -1
        inner = comp.iters.index(tile.inner) if tile.inner is not None else -1
        period = tile.spans[inner] if inner >= 0 else 1
        if self.lanes % period:
            raise PlantError(f"{period} iterations don't divide {self.lanes} lanes", loc=comp.loc)
        rows = self.lanes // period
        present = int(self.value(leaf.count, scope)) if leaf.count is not None else [*tile.spans, 1][lane]
        across = vectors_of(tile.spans[lane], rows, tile.deal) if lane >= 0 else {}
        steps = {inner: period}
        ranges: list[Sequence[int]] = [range(0, s, steps.get(k, 1)) for k, s in enumerate(tile.spans)]
        if lane >= 0:
            ranges[lane] = tuple(across)
        alone = _accumulates(leaf) and id(leaf) not in self.partials
        if alone:
            self.partials[id(leaf)] = _Partial(leaf, {})
        falling = falls(comp, tile)
        if falling:
            ranges[lane] = ranges[lane][::-1]
        for offset in product(*ranges):
            active = max(0, min(across[offset[lane]], present - offset[lane])) * period if lane >= 0 else 1
            points = []
            for k in range(active):
                part = {lane: k // period * tile.deal, inner: k % period}
                shift = [d + part.get(dim, 0) for dim, d in enumerate(offset)]
                place = [o + d for o, d in zip(origin, shift, strict=True)]
                point = {**scope, **dict(zip(comp.iters, place, strict=True))}
                if all(self.value(g, point) >= 0 for g in leaf.guards):
                    points.append(point)
            if _accumulates(leaf):
                self.accumulate(leaf, points, offset)
            elif tile.scan:
                for point in points[::-1] if falling else points:
                    self.vector(comp, [point])
            else:
                self.vector(comp, points)
        if alone:
            self.flush(self.partials.pop(id(leaf)))

    def vector(self, comp: Comp, points: list[dict[str, Any]]) -> None:
        results = [(self.index(comp.target, p), self.value(comp.value, p)) for p in points]
        for index, value in results:
            self.memory[comp.target.buf][index] = value

    def accumulate(self, leaf: Leaf, points: list[dict[str, Any]], offset: _Index) -> None:
        sums = self.partials[id(leaf)].sums
        split = tuple(d for d, name in zip(offset, leaf.comp.iters, strict=True) if name in leaf.tile.split)
        for k, point in enumerate(points):
            key = self.index(leaf.comp.target, point), (*split, k if leaf.tile.reduce else 0)
            old = sums.get(key, _identity(leaf.comp))
            sums[key] = self.value(leaf.comp.value, {**point, _ACCUMULATOR: (access_key(leaf.comp.target), old)})

    def index(self, access: Load, scope: _Scope) -> _Index:
        index = tuple(int(self.value(i, scope)) for i in access.indices)
        for k, extent in zip(index, self.memory[access.buf].shape, strict=True):
            if not 0 <= k < extent:
                raise PlantError(f"{access.buf}{list(index)} is outside the array", loc=access.loc)
        return index

    def value(self, expr: Expr, scope: _Scope) -> Any:
        match expr:
            case Val(value=value, dtype=dtype):
                return c_semantics.typed(value, dtype)
            case Param(name=name) if name not in scope:
                return int(self.memory[name][()])  # the program defines it: its variable has its value
            case Iter(name=name) | Param(name=name):
                return scope[name]
            case Cast(dtype=dtype, operand=operand):
                return c_semantics.convert(self.value(operand, scope), c_semantics.dtype_of(operand), dtype)
            case Unary(op=op, operand=operand, dtype=dtype):
                return c_semantics.apply_unary(op, self.value(operand, scope), dtype)
            case Binary(op="land", left=left, right=right):
                return int(bool(self.value(left, scope)) and bool(self.value(right, scope)))
            case Binary(op="lor", left=left, right=right):
                return int(bool(self.value(left, scope)) or bool(self.value(right, scope)))
            case Binary(op=op, left=left, right=right):
                kind = c_semantics.dtype_of(left)
                return c_semantics.apply_binary(op, self.value(left, scope), self.value(right, scope), kind)
            case Select(condition=condition, true=true, false=false):
                return self.value(true if self.value(condition, scope) else false, scope)
            case Load(buf=buf, dtype=dtype):
                held = scope.get(_ACCUMULATOR)
                if held is not None and access_key(expr) == held[0]:
                    return held[1]
                return _stored(self.memory[buf][self.index(expr, scope)], dtype)
            case Call(name=name, args=args, dtype=dtype):
                return c_semantics.call(name, dtype, *(self.value(a, scope) for a in args))


_ACCUMULATOR = "="


def _stored(element: Any, dtype: DType) -> Any:
    return c_semantics.NUMPY[dtype](element) if c_semantics.is_float(dtype) else int(element)


def _accumulates(leaf: Leaf) -> bool:
    return leaf.tile.reduce or bool(leaf.tile.split)


def _accumulates_in(leaf: Leaf, loop: For) -> bool:
    """Whether `loop` moves the tile along one of the iterators that it accumulates over."""
    over = {*leaf.tile.split, *({leaf.tile.lane} if leaf.tile.reduce else ())}
    return any(
        _mentions(origin, loop.iterator)
        for name, origin in zip(leaf.comp.iters, leaf.origin, strict=True)
        if name in over
    )


def _mentions(expr: Expr, name: str) -> bool:
    match expr:
        case Iter(name=own):
            return own == name
        case Unary(operand=operand) | Cast(operand=operand):
            return _mentions(operand, name)
        case Binary(left=left, right=right):
            return _mentions(left, name) or _mentions(right, name)
        case _:
            return False


def _leaves(tree: Tree) -> list[Leaf]:
    match tree:
        case Leaf():
            return [tree]
        case Seq(children=children):
            return [leaf for child in children for leaf in _leaves(child)]
        case For(body=inner) | If(then=inner):
            return _leaves(inner)
        case Do():
            return []


def _identity(comp: Comp) -> Any:
    found = reduction_of(comp)
    dtype = comp.target.dtype
    if found is None:
        raise PlantError(f"{comp.name} accumulates in parts but is no reduction", loc=comp.loc)
    match found.op:
        case "add" | "or" | "xor":
            return c_semantics.typed(0, dtype)
        case "mul":
            return c_semantics.typed(1, dtype)
        case "and":
            return c_semantics.wrap(-1, dtype)
        case "min":
            return c_semantics.typed(np.inf, dtype) if c_semantics.is_float(dtype) else c_semantics.limits(dtype)[1]
        case "max":
            return c_semantics.typed(-np.inf, dtype) if c_semantics.is_float(dtype) else c_semantics.limits(dtype)[0]


def _combine(comp: Comp, old: Any, value: Any) -> Any:
    found = reduction_of(comp)
    if found is None:
        raise PlantError(f"{comp.name} accumulates in parts but is no reduction", loc=comp.loc)
    return c_semantics.apply_binary(found.op, old, value, comp.target.dtype)
