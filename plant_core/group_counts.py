"""The statements that define how many groups, or batches of groups, a loop of unknown size has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plant_core.affine import add, integer, sub
from plant_core.defined import definition_of
from plant_core.ir import Binary, BinaryOp, Comp, Expr, Param
from plant_core.loc import Loc


def count_of(extent: Expr, group: int, name: str, loc: Loc) -> Comp:
    """The statement that defines how many whole groups there are; 0 where there are no iterations."""
    whole = Binary("floordiv", extent, integer(group), "i32")
    return definition_of(name, Binary("max", whole, integer(0), "i32"), loc)


def all_of(extent: Expr, group: int, name: str, loc: Loc) -> Comp:
    """The statement that defines how many groups hold all iterations; 0 where there are fewer than a group has."""
    whole, every = (Binary("floordiv", add(extent, integer(k)), integer(group), "i32") for k in (0, group - 1))
    return definition_of(name, Binary("min", every, Binary("mul", integer(2), whole, "i32"), "i32"), loc)


def few_of(extent: Expr, group: int, name: str, loc: Loc) -> Comp:
    """The statement that defines how many groups hold all iterations, of which there is one at least."""
    return definition_of(name, Binary("floordiv", add(extent, integer(group - 1)), integer(group), "i32"), loc)


def _some(of: Expr) -> Expr:
    """1 where a number is above 0, else 0."""
    return Binary("min", Binary("max", of, integer(0), "i32"), integer(1), "i32")


def excess_of(extent: Expr, group: int, name: str, loc: Loc) -> Comp:
    """The statement that defines what is above 0 where there is a group, without a division."""
    return definition_of(name, add(extent, integer(1 - group)), loc)


def batches_of(extent: Expr, sizes: tuple[int, int, int], names: Sequence[str], loc: Loc) -> Iterator[Comp]:
    """The statements that define how many large batches there are, and how many small ones; none of fewer iterations
    than a small one has. `sizes`: the iterations of a large one, a small one and a group. There are as few as hold all
    groups, as many of them small as enough groups for that are lacking; two small ones in place of one large one that
    would lack iterations.
    """
    large, small, group = sizes

    def op(name: BinaryOp, left: Expr, right: Expr | int) -> Expr:
        return Binary(name, left, integer(right) if isinstance(right, int) else right, "i32")

    groups = op("floordiv", add(extent, integer(group - 1)), group)
    every = op("floordiv", add(groups, integer(large // group - 1)), large // group)
    lacking = sub(op("mul", every, large // group), groups)
    enough = op("min", op("floordiv", lacking, (large - small) // group), every)
    between = op("mul", _some(sub(integer(large), extent)), _some(sub(extent, integer(small))))
    any_ = _some(add(sub(extent, integer(small)), integer(1)))
    larger, smaller = names
    yield definition_of(smaller, op("mul", add(enough, op("mul", between, 2)), any_), loc)
    yield definition_of(larger, op("mul", op("max", sub(every, Param(smaller, "i32")), 0), any_), loc)
