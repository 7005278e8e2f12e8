"""Loops tagged `vectorize`: each statement on vectors of iterations, or the compiler's own vectorisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from backends.cpu.alias import Ranges
from backends.cpu.context import Lowering, assignment
from backends.cpu.fold import at, most_trips, simplified, trip_count
from backends.cpu.identity import identity
from backends.cpu.ir import Accumulate, Cell, Guard, Lane, Let, Loop, Put, Reverse, Stmt, Temp
from backends.cpu.simd import left_to_compiler, rest_of
from backends.cpu.vector_values import PARTIAL, NotVector, VectorValues, mentions
from plant_core.affine import add, children, integer, sub
from plant_core.dependence import reduction_of
from plant_core.ir import Binary, Expr, Iter, Load
from plant_core.tree import Do, For, If, Leaf, Seq, Tree
from plant_core.values import dtype_of, is_float, size_of

_MOST_PIECES = 8
_PIECES_PER_ROUND = 4

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

    def statements(self) -> tuple[Stmt, ...]:
        lanes = self.low.vector_bytes // _widest(self.loop.body)
        if lanes < 2:
            raise NotVector("its elements are as wide as a vector")
        count = trip_count(self.loop)
        if count is None:
            return self.unknown_count(lanes)
        if count <= lanes * _MOST_PIECES:
            pieces = self.pieces(self.loop.lower, count, lanes)
            return self.tree(self.loop.body, pieces, self.ranges) if pieces else ()
        rounds = count // (lanes * _PIECES_PER_ROUND)
        middle = self.shifted(self.loop.lower, rounds * lanes * _PIECES_PER_ROUND)
        made = self.rounds(self.loop.lower, middle, lanes, _PIECES_PER_ROUND)
        rest = self.pieces(middle, count % (lanes * _PIECES_PER_ROUND), lanes)
        return (*made, *(self.tree(self.loop.body, rest, self.ranges) if rest else ()))

    def unknown_count(self, lanes: int) -> tuple[Stmt, ...]:
        """Vectors of which some lanes may be idle; without those, the compiler's loop for the rest."""
        loop = self.loop
        if loop.step != 1:
            raise NotVector("its step isn't 1 and its trip count isn't constant")
        size = lanes * _PIECES_PER_ROUND
        partial = self.low.vector_bytes == 64
        most = most_trips(loop)
        if partial and most is not None and most <= lanes * _MOST_PIECES:
            pieces = [self.partial(add(loop.lower, integer(k)), lanes) for k in range(0, most, lanes)]
            try:
                return self.tree(loop.body, pieces, self.ranges)
            except NotVector:
                partial = False
        trips = Binary("max", sub(loop.upper, loop.lower), integer(0), "i32")
        whole = Binary("mul", Binary("floordiv", trips, integer(size), "i32"), integer(size), "i32")
        middle = add(loop.lower, whole)
        made = self.rounds(loop.lower, middle, lanes, _PIECES_PER_ROUND) if most is None or most >= size else ()
        if made and partial:
            try:
                return (*made, *self.partial_rounds(middle, lanes))
            except NotVector:
                pass
        rest = replace(loop, lower=middle if made else loop.lower, tag=None)
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

    def pieces(self, first: Expr, count: int, lanes: int) -> list[_Piece]:
        found, done = [], 0
        while done < count:
            while lanes > count - done:
                lanes //= 2
            found.append(_Piece(self.shifted(first, done), lanes))
            done += lanes
        return found

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
            found = reduction_of(replace(leaf.comp, target=target, value=value))
            if found is None:
                raise NotVector("it assigns to one element again and again")
            if self.low.fp == "strict" and is_float(target.dtype):
                raise NotVector("the order of its sum matters")
            rest = rest_of(found, target.dtype)
            if rest is None:
                return ()
            vector = values.only_active(values.spread(values.value(rest)), identity(found.op, target.dtype))
            return (Accumulate(Cell(target.buf, target.indices), found.op, vector),)
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
