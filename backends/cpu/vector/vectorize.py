"""Loops tagged `vectorize`: each statement on vectors of iterations, or the compiler's own vectorisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from backends.cpu.ir.alias_analysis import Ranges, nonempty
from backends.cpu.ir.context import Lowering, assignment
from backends.cpu.ir.identity import identity
from backends.cpu.ir.statements import Accumulate, Cell, Get, Guard, Lane, Let, Loop, Op, Put, Reverse, Stmt, Temp
from backends.cpu.passes.constant_folding import at, most_trips, simplified, trip_count
from backends.cpu.vector.compiler_simd import left_to_compiler, rest_of
from backends.cpu.vector.vector_values import PARTIAL, NotVector, VectorValues, apart, mentions, stride_of
from plant_core.analysis.dependence import Reduction, reduction_of
from plant_core.ir.accesses import accesses, add, children, integer, sub
from plant_core.ir.c_semantics import dtype_of, is_float, size_of
from plant_core.ir.func import Binary, Expr, Iter, Load
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tree

_MOST_PIECES = 8
_PIECES_PER_ROUND = 4
_MOST_GATHERED = 2

Scalar = Callable[[Tree, Ranges], tuple[Stmt, ...]]


def vectorized(low: Lowering, loop: For, ranges: Ranges, scalar: Scalar) -> tuple[Stmt, ...]:
    """The loop on vectors; where a statement in it has no vector form, on scalars with the compiler asked to try.

    Before: `vectorize for j in 0..40 { c[j] = a[j]; }`. After: `c[0:16] = a[0:16]; c[16:32] = ...; c[32:40] = ...;`.
    Requires: the loop carries no dependence except through reductions. Ensures: the same values, reductions of floats
    up to their order. `scalar` lowers a tree in the plain way.
    """
    try:
        return _Vectors(low, loop, ranges, scalar).statements()
    except NotVector as reason:
        return left_to_compiler(low, loop, ranges, scalar, str(reason))


@dataclass(frozen=True, slots=True)
class _Piece:
    """`lanes` iterations from `first` on, or `active` of them."""

    first: Expr
    lanes: int
    active: Expr | None = None


@dataclass(slots=True)
class _Vectors:
    low: Lowering
    loop: For
    ranges: Ranges
    scalar: Scalar

    @property
    def per_round(self) -> int:
        """Lanes that are collected one by one make long code, and gain nothing by more of it."""
        return 1 if _scattered(self.loop.body, self.loop.iterator, self.loop.step) else _PIECES_PER_ROUND

    def statements(self) -> tuple[Stmt, ...]:
        per_round = self.per_round
        lanes = self.low.vector_bytes // _widest(self.loop.body)
        if lanes < 2:
            raise NotVector("its elements are as wide as a vector")
        count = trip_count(self.loop)
        if count is None:
            return self.unknown_count(lanes)
        if count <= lanes * (_MOST_GATHERED if per_round == 1 else _MOST_PIECES):
            return self.known_count(self.loop.lower, count, lanes)
        size = lanes * per_round
        middle = self.shifted(self.loop.lower, count // size * size)
        made = self.rounds(self.loop.lower, middle, lanes, per_round)
        return (*made, *self.known_count(middle, count % size, lanes))

    def unknown_count(self, lanes: int) -> tuple[Stmt, ...]:
        """Vectors of which some lanes may be idle; without those, the compiler's loop for the rest."""
        loop = self.loop
        if loop.step != 1:
            raise NotVector("its step isn't 1 and its trip count isn't constant")
        size = lanes * self.per_round
        partial = self.low.vector_bytes == 64
        most = most_trips(loop)
        if partial and most is not None and most <= lanes * _MOST_PIECES:
            pieces = [self.partial(add(loop.lower, integer(k)), lanes) for k in range(0, most, lanes)]
            try:
                return self.tree(loop.body, pieces, self.ranges)
            except NotVector:
                partial = False
        trips = sub(loop.upper, loop.lower)
        if not nonempty(loop.lower, loop.upper, self.ranges, 0):
            trips = Binary("max", trips, integer(0), "i32")
        trips = simplified(trips)
        start = loop.lower
        made: tuple[Stmt, ...] = ()
        for count in dict.fromkeys((self.per_round, 1)):
            size = lanes * count
            if most is not None and most < size:
                continue
            end = simplified(add(loop.lower, _multiple(trips, size)))
            made += self.rounds(start, end, lanes, count)
            start = end
            if partial:
                try:
                    return (*made, *self.partial_rounds(start, lanes))
                except NotVector:
                    partial = False
        rest = replace(loop, lower=start, tag=None)
        return (*made, *left_to_compiler(self.low, rest, self.ranges, self.scalar, None))

    def partial(self, first: Expr, lanes: int) -> _Piece:
        left = Binary("min", sub(self.loop.upper, first), integer(lanes), "i32")
        return _Piece(first, lanes, simplified(Binary("max", left, integer(0), "i32")))

    def partial_rounds(self, lower: Expr, lanes: int) -> tuple[Stmt, ...]:
        loop = self.loop
        inside = {**self.ranges, loop.iterator: (lower, loop.upper)}
        first = Iter(loop.iterator)
        left = Binary("min", sub(loop.upper, first), integer(lanes), "i32")
        body = self.tree(loop.body, [_Piece(first, lanes, simplified(left))], inside)
        return (Loop(loop.iterator, lower, loop.upper, lanes, body),) if body else ()

    def rounds(self, lower: Expr, upper: Expr, lanes: int, count: int) -> tuple[Stmt, ...]:
        loop = self.loop
        first = Iter(loop.iterator)
        pieces = [_Piece(self.shifted(first, k * lanes), lanes) for k in range(count)]
        inside = {**self.ranges, loop.iterator: (lower, upper)}
        body = self.tree(loop.body, pieces, inside)
        return (Loop(loop.iterator, lower, upper, loop.step * lanes * count, body),) if body else ()

    def shifted(self, first: Expr, iterations: int) -> Expr:
        return simplified(add(first, integer(iterations * self.loop.step)))

    def pieces(self, first: Expr, count: int, lanes: int, *, partial: bool) -> list[_Piece]:
        """Vectors for `count` iterations; the last ones on shorter and shorter ones, or on a `partial` one."""
        found: list[_Piece] = []
        done = 0
        while done < count:
            left = count - done
            if partial and left < lanes and left.bit_count() > 1:
                return [*found, _Piece(self.shifted(first, done), lanes, integer(left))]
            while lanes > left:
                lanes //= 2
            found.append(_Piece(self.shifted(first, done), lanes))
            done += lanes
        return found

    def known_count(self, first: Expr, count: int, lanes: int) -> tuple[Stmt, ...]:
        """`count` iterations without a loop."""
        if not count:
            return ()
        if self.low.vector_bytes == 64:
            try:
                return self.tree(self.loop.body, self.pieces(first, count, lanes, partial=True), self.ranges)
            except NotVector:
                pass
        return self.tree(self.loop.body, self.pieces(first, count, lanes, partial=False), self.ranges)

    def tree(self, tree: Tree, pieces: list[_Piece], ranges: Ranges) -> tuple[Stmt, ...]:
        name = self.loop.iterator
        match tree:
            case Seq(children=parts):
                return tuple(s for p in parts for s in self.tree(p, pieces, ranges))
            case If(condition=condition, then=then):
                if mentions(condition, name):
                    raise NotVector("a condition in it differs from lane to lane")
                return (Guard(condition, self.tree(then, pieces, ranges)),)
            case For(iterator=iterator, lower=lower, upper=upper):
                if mentions(lower, name) or mentions(upper, name):
                    raise NotVector("a loop in it differs from lane to lane")
                if tree.tag == "vectorize":
                    raise NotVector("a loop in it is on vectors as well")
                body = self.tree(tree.body, pieces, {**ranges, iterator: (lower, upper)})
                return (Loop(iterator, lower, upper, tree.step, body),) if body else ()
            case Leaf():
                return tuple(s for piece in pieces for s in self.leaf(tree, piece, ranges))
            case Do():
                raise NotVector("it has a statement that isn't an assignment")

    def leaf(self, leaf: Leaf, piece: _Piece, ranges: Ranges) -> tuple[Stmt, ...]:
        if leaf.comp.defines is not None:
            raise NotVector("it computes a value that loops depend on")
        if any(span != 1 for span in leaf.tile.spans):
            raise NotVector("it has a tile in it")
        target, value = assignment(leaf)
        name, step = self.loop.iterator, self.loop.step
        if piece.lanes == 1:
            return self.scalar(at(leaf, {name: piece.first}), ranges)
        values = VectorValues(self.low, name, piece.first, step, piece.lanes, ranges, target, piece.active)
        if piece.active is not None and (piece.lanes, target.dtype) not in PARTIAL:
            raise NotVector("its vectors have no partial form")
        if not any(mentions(i, name) for i in target.indices):
            found = self.reduction(leaf, target, value)
            if found is None:
                raise NotVector("it assigns to one element again and again")
            rest = rest_of(found, target.dtype)
            if rest is None:
                return ()
            vector = values.only_active(values.spread(values.value(rest)), identity(found.op, target.dtype))
            return (Accumulate(Cell(target.buf, target.indices), found.op, vector),)
        if not apart(target, name):
            return self.colliding(leaf, piece, values)
        vector = values.spread(values.value(value))
        stride = values.stride(target)
        if stride == 1:
            return (Put(values.cell(target, 0), vector, piece.active),)
        if piece.active is not None:
            raise NotVector("it writes elements that don't follow one another")
        if stride == -1:
            return (Put(values.cell(target, piece.lanes - 1), Reverse(vector)),)
        whole = Temp(self.low.fresh("v"), vector.dtype, vector.lanes)
        lanes = range(piece.lanes)
        return (Let(whole, vector), *(Put(values.cell(target, k), Lane(whole, k)) for k in lanes))

    def reduction(self, leaf: Leaf, target: Load, value: Expr) -> Reduction | None:
        found = reduction_of(replace(leaf.comp, target=target, value=value))
        if found is not None and self.low.fp == "strict" and is_float(target.dtype):
            raise NotVector("the order of its sum matters")
        return found

    def colliding(self, leaf: Leaf, piece: _Piece, values: VectorValues) -> tuple[Stmt, ...]:
        """Lanes that may meet in one element of memory, one after the other."""
        target, value = assignment(leaf)
        if piece.active is not None:
            raise NotVector("its lanes may write one element")
        found = self.reduction(leaf, target, value)
        rest = value if found is None else rest_of(found, target.dtype)
        if rest is None:
            return ()
        vector = values.spread(values.value(rest))
        whole = Temp(self.low.fresh("v"), vector.dtype, vector.lanes)
        made: list[Stmt] = [Let(whole, vector)]
        for k in range(piece.lanes):
            cell, lane = values.cell(target, k), Lane(whole, k)
            sum_ = lane if found is None else Op(found.op, (Get(cell, target.dtype, 1), lane), target.dtype)
            made.append(Put(cell, sum_))
        return tuple(made)


def _multiple(trips: Expr, of: int) -> Expr:
    """The largest multiple of `of` that isn't more than `trips`, which isn't negative."""
    return Binary("mul", Binary("div", trips, integer(of), "i32"), integer(of), "i32")


def _scattered(tree: Tree, name: str, step: int) -> bool:
    """Whether statements read or write elements of different places from lane to lane."""
    match tree:
        case Seq(children=parts):
            return any(_scattered(p, name, step) for p in parts)
        case For(body=inner) | If(then=inner):
            return _scattered(inner, name, step)
        case Leaf():
            return any(
                abs(stride_of(a, name, step) or 2) > 1
                for e in assignment(tree)
                for a in accesses(e)
                if mentions(a, name)
            )
        case Do():
            return False


def _widest(tree: Tree) -> int:
    """Bytes of the widest element that the statements compute with, subscripts aside."""
    match tree:
        case Seq(children=parts):
            return max(map(_widest, parts), default=1)
        case For(body=inner) | If(then=inner):
            return _widest(inner)
        case Leaf():
            target, value = assignment(tree)
            return max(size_of(target.dtype), _widest_in(value))
        case Do():
            return 1


def _widest_in(expr: Expr) -> int:
    inside = () if isinstance(expr, Load) else children(expr)
    return max(size_of(dtype_of(expr)), *map(_widest_in, inside)) if inside else size_of(dtype_of(expr))
