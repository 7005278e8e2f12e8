"""The loop tree that the AST generator makes and every backend reads.

    Tree ::= For(iterator, lower, upper, step, body, tag) | If(condition, then) | Seq(children) | Leaf | Do

`upper` is exclusive. Bounds and conditions are integer `Expr`s over enclosing iterators and integer parameters, with
`min`, `max` and `floordiv`. A `Leaf` runs one `Tile` of one Comp: the points of a box, whose first point (its origin)
is `origin` (one affine `Expr` of the tree's iterators for each iterator of the Comp).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from plant_core.ir.func import Action, Comp, Expr, Load
from plant_core.support.location import Loc

Tag = Literal[
    "parallel", "vectorize", "unroll", "unroll_explicit",
    "gpu_block_x", "gpu_block_y", "gpu_block_z", "gpu_thread_x", "gpu_thread_y", "gpu_thread_z",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tile:
    """The box of iterations that one leaf runs at once.

    `spans` has, for each iterator of the Comp, how many consecutive iterations the box covers (1: just the origin).
    `lane` names the iterator whose iterations lie across vector lanes, if any: a span of 61 on 16 lanes is three full
    vectors and one of 13 active lanes. `reduce` tells that the lane loop is a reduction (a partial sum for each lane,
    reduced after the loop). `flip` lays each vector's iterations across the lanes in descending order. `split` names
    further reduction iterators whose points accumulate separately. The points
    run with the last iterator fastest; all lanes of one vector at once.

    `inner` names a second iterator across the lanes, whose span p divides their number: lane k of a vector is iteration
    k // p of `lane` and k % p of `inner`.

    `deal` is how many vectors take turns: of each run of `deal` times as many iterations as there are lanes, lane k of
    vector r has iteration r + k * deal (of the last run, which may be shorter, as far as it goes).

    `scan` tells that the lane loop is a recurrence (`plant_core.analysis.linear_recurrences`), whose iterations run
    one after the other in its direction, or so that it comes to the same.
    """

    spans: tuple[int, ...]
    lane: str | None = None
    reduce: bool = False
    split: tuple[str, ...] = ()
    flip: bool = False
    inner: str | None = None
    scan: bool = False
    deal: int = 1


def vectors_of(span: int, lanes: int, deal: int = 1) -> dict[int, int]:
    """The vectors that `span` iterations on `lanes` lanes make: the first iteration of each, and how many it has, which
    lie `deal` apart."""
    found: dict[int, int] = {}
    for start in range(0, span, deal * lanes):
        end = min(span, start + deal * lanes)
        found |= {first: -(-(end - first) // deal) for first in range(start, min(start + deal, end))}
    return found


@dataclass(frozen=True, slots=True)
class Leaf:
    """`target` and `value`, where given, are the Comp's with the tree's iterators in them: the assignment to make at a
    tile of one instance. A Comp that `defines` a parameter declares it here, for the rest of the enclosing Seq.

    `count`, where given, is how many iterations of the lane loop are there at run time, from 1 to its span: a row that
    may be cut short. `guards` are expressions of the Comp's iterators that are at least 0 at the points of the box that
    run; the others don't.
    """

    comp: Comp
    origin: tuple[Expr, ...]
    tile: Tile
    target: Load | None = None
    value: Expr | None = None
    count: Expr | None = None
    guards: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Do:
    """An Effect. An `Alloc`ed buffer lives to its `Free`, or to the end of the enclosing Seq."""

    action: Action
    loc: Loc


@dataclass(frozen=True, slots=True)
class For:
    """`tag` is a promise about the loop that legality checks have made good; a backend may use it or not.

    `reduction`: the loop carries updates of reductions, which may be reordered, and nothing else.
    """

    iterator: str
    lower: Expr
    upper: Expr
    step: int
    body: Tree
    tag: Tag | None = None
    reduction: bool = False


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: Tree


@dataclass(frozen=True, slots=True)
class Seq:
    children: tuple[Tree, ...]


Tree = For | If | Seq | Leaf | Do
