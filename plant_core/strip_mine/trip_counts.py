"""How many groups, or batches of groups, a loop of unknown size has: parameters, and what defines them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from plant_core.analysis.runtime_parameters import definition_of
from plant_core.ir.accesses import add, integer, sub
from plant_core.ir.func import Binary, BinaryOp, Comp, Expr, Param
from plant_core.ir.tile_loop import Counter
from plant_core.support.location import Loc

_FEWEST = 2  # groups of a batch
_Of = tuple[Expr, int]  # of an extent, by so many


def at_once(counter: Counter, batch: int) -> int:
    """Iterations of a group, or of a batch: a large one, a small one, or one of those that come where there are fewer
    iterations than that has."""
    if counter.batches is None:
        return counter.group
    return counter.group * (*counter.batches, max(counter.batches[1] // 3, _FEWEST))[batch]


@dataclass(slots=True)
class Counts:
    """The parameters that tell of loops how many groups they have, by what they tell."""

    counts: dict[_Of, str] = field(default_factory=dict)
    alls: dict[_Of, str] = field(default_factory=dict)
    fews: dict[_Of, str] = field(default_factory=dict)
    wholes: dict[_Of, str] = field(default_factory=dict)
    excesses: dict[_Of, str] = field(default_factory=dict)
    least: dict[tuple[str, ...], str] = field(default_factory=dict)
    batched: dict[tuple[Expr, tuple[int, int, int]], tuple[str, str]] = field(default_factory=dict)

    def count(self, counter: Counter) -> str:
        """How many groups there are whole."""
        return self.counts.setdefault((_extent(counter), counter.group), f"groups{len(self.counts)}")

    def every(self, counter: Counter) -> str:
        """How many groups hold all iterations."""
        return self.alls.setdefault((_extent(counter), counter.group), f"all{len(self.alls)}")

    def few(self, counter: Counter) -> str:
        """How many of the smallest batches hold all iterations."""
        return self.fews.setdefault((_extent(counter), at_once(counter, 2)), f"few{len(self.fews)}")

    def enough(self, counter: Counter) -> str:
        """What is above 0 where there are as many iterations as a group, or a smaller batch, has."""
        return self.excesses.setdefault((_extent(counter), at_once(counter, 1)), f"enough{len(self.excesses)}")

    def whole_units(self, counter: Counter, unit: int) -> str:
        """How many times so many iterations there are."""
        return self.wholes.setdefault((_extent(counter), unit), f"units{len(self.wholes)}")

    def batches(self, counter: Counter) -> tuple[str, str]:
        """How many larger batches there are, and how many smaller ones."""
        key = (_extent(counter), (at_once(counter, 0), at_once(counter, 1), counter.group))
        number = len(self.batched)
        return self.batched.setdefault(key, (f"larger{number}", f"smaller{number}"))

    def least_of(self, counts: Sequence[str]) -> str:
        return self.least.setdefault(tuple(counts), f"fewest{len(self.least)}")

    def definitions(self, loc: Loc) -> list[Comp]:
        """The statements that define them, in an order in which each knows of what it needs."""
        made = [count_of(extent, group, name, loc) for (extent, group), name in self.counts.items()]
        made += [count_of(extent, unit, name, loc) for (extent, unit), name in self.wholes.items()]
        made += [_all_of(extent, group, name, loc) for (extent, group), name in self.alls.items()]
        made += [_few_of(extent, batch, name, loc) for (extent, batch), name in self.fews.items()]
        made += [_excess_of(extent, group, name, loc) for (extent, group), name in self.excesses.items()]
        made += [definition_of(name, _least(counts), loc) for counts, name in self.least.items()]
        for (extent, sizes), names in self.batched.items():
            made += _batches_of(extent, sizes, names, loc)
        return made


def _extent(counter: Counter) -> Expr:
    assert counter.extent is not None
    return counter.extent


def _least(names: Sequence[str]) -> Expr:
    """The least of some parameters."""
    found: Expr = Param(names[0], "i32")
    for name in names[1:]:
        found = Binary("min", found, Param(name, "i32"), "i32")
    return found


def count_of(extent: Expr, group: int, name: str, loc: Loc) -> Comp:
    """The statement that defines how many whole groups there are; 0 where there are no iterations."""
    whole = Binary("floordiv", extent, integer(group), "i32")
    return definition_of(name, Binary("max", whole, integer(0), "i32"), loc)


def _all_of(extent: Expr, group: int, name: str, loc: Loc) -> Comp:
    """The statement that defines how many groups hold all iterations; 0 where there are fewer than a group has."""
    whole, every = (Binary("floordiv", add(extent, integer(k)), integer(group), "i32") for k in (0, group - 1))
    return definition_of(name, Binary("min", every, Binary("mul", integer(2), whole, "i32"), "i32"), loc)


def _few_of(extent: Expr, group: int, name: str, loc: Loc) -> Comp:
    """The statement that defines how many groups hold all iterations, of which there is one at least."""
    return definition_of(name, Binary("floordiv", add(extent, integer(group - 1)), integer(group), "i32"), loc)


def _some(of: Expr) -> Expr:
    """1 where a number is above 0, else 0."""
    return Binary("min", Binary("max", of, integer(0), "i32"), integer(1), "i32")


def _excess_of(extent: Expr, group: int, name: str, loc: Loc) -> Comp:
    """The statement that defines what is above 0 where there is a group, without a division."""
    return definition_of(name, add(extent, integer(1 - group)), loc)


def _batches_of(extent: Expr, sizes: tuple[int, int, int], names: Sequence[str], loc: Loc) -> Iterator[Comp]:
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
