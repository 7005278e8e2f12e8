"""The loop tree that the AST generator makes and every backend reads.

    Tree ::= For(iterator, lower, upper, step, body) | If(condition, then) | Seq(children) | Leaf

`upper` is exclusive. Bounds and conditions are integer `Expr`s over enclosing iterators and integer parameters, with
`min`, `max` and `floordiv`. A `Leaf` runs one `Tile` of one Comp: the points of a box, whose first point (its origin)
is `origin` (one affine `Expr` of the tree's iterators for each iterator of the Comp).
"""

from __future__ import annotations

from dataclasses import dataclass

from plant_core.ir import Comp, Expr


@dataclass(frozen=True, slots=True)
class Tile:
    """The box of iterations that one leaf runs at once.

    `spans` has, for each iterator of the Comp, how many consecutive iterations the box covers (1: just the origin).
    `lane` names the iterator whose iterations lie across vector lanes, if any: a span of 61 on 16 lanes is three full
    vectors and one of 13 active lanes. `reduce` tells that the lane loop is a reduction (a partial sum for each lane,
    reduced after the loop). `flip` lays each vector's iterations across the lanes in descending order. `split` names
    further reduction iterators whose points accumulate separately. The points
    run with the last iterator fastest; all lanes of one vector at once.
    """

    spans: tuple[int, ...]
    lane: str | None = None
    reduce: bool = False
    split: tuple[str, ...] = ()
    flip: bool = False


@dataclass(frozen=True, slots=True)
class Leaf:
    comp: Comp
    origin: tuple[Expr, ...]
    tile: Tile


@dataclass(frozen=True, slots=True)
class For:
    iterator: str
    lower: Expr
    upper: Expr
    step: int
    body: Tree


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: Tree


@dataclass(frozen=True, slots=True)
class Seq:
    children: tuple[Tree, ...]


Tree = For | If | Seq | Leaf
