"""Nests that run for some values of the parameters only, below conditions that tell of several of them at once.

Before: if (m >= 96 and 2 * u == m) A; if (m >= 96 and 2 * u < m) B; if (32 <= m <= 95) C; if (m <= 31) D
After:  if (m >= 96) { if (2 * u == m) A; if (2 * u < m) B; }
        if (m < 96) { if (m >= 32) C; if (m <= 31) D; }

So that where one of them ran, the others are not asked one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import islpy as isl

from plant_core.ir.accesses import negated
from plant_core.ir.func import Expr
from plant_core.ir.loop_tree import If, Seq, Tree

_FEWEST = 3  # nests, among which it is worth while to ask once more


@dataclass(frozen=True, slots=True)
class Nest:
    """A nest, and the parameters for which it runs; whether it `defines` some for those after it."""

    known: isl.Set
    tree: Tree
    defines: bool = False


def chosen(nests: Sequence[Nest], context: isl.Set, condition_of: Callable[[isl.Set], Expr]) -> list[Tree]:
    """The trees of the nests, one after the other, below their conditions. `context` is what is known of parameters;
    `condition_of` makes an expression of a set."""
    space = context.get_space()
    for nest in nests:
        space = space.align_params(nest.known.get_space())
    chooser = _Chooser(context.align_params(space), condition_of)
    found: list[Tree] = []
    for alone, some in groupby(nests, key=lambda nest: nest.defines or bool(nest.known.plain_is_universe())):
        aligned = [Nest(nest.known.align_params(space), nest.tree) for nest in some]
        for together in ([n] for n in aligned) if alone else (aligned,):
            found += chooser.trees(together, isl.Set.universe(space))
    return found


@dataclass(slots=True)
class _Chooser:
    context: isl.Set
    condition_of: Callable[[isl.Set], Expr]

    def trees(self, nests: Sequence[Nest], told: isl.Set) -> list[Tree]:
        """The nests where `told` is known besides the context."""
        if len(nests) >= _FEWEST and (split := self._split(nests, told)) is not None:
            half, number = split
            condition = self.condition_of(half)
            ways = (condition, half, nests[:number]), (negated(condition), half.complement(), nests[number:])
            return [If(asked, _all(self.trees(some, told.intersect(holds)))) for asked, holds, some in ways]
        found: list[Tree] = []
        for same in _alike(nests):
            asked, trees = self._asked(same[0].known, told), [n.tree for n in same]
            found += trees if asked is None else [If(asked, _all(trees))]
        return found

    def _asked(self, known: isl.Set, told: isl.Set) -> Expr | None:
        """The condition of a nest, as far as it is not told already; none that asks for more than that."""
        left = known.gist(told.intersect(self.context))
        if left.plain_is_universe():
            return None
        simple = left.n_basic_set() == 1 and _size(left) <= _size(known) and known.is_subset(left)
        return self.condition_of(left if simple else known)

    def _split(self, nests: Sequence[Nest], told: isl.Set) -> tuple[isl.Set, int] | None:
        """A half of all parameters in which the first ones lie and the others do not, and how many the first ones are,
        as close to a half of them as can be; None where there is none."""
        here = [nest.known.intersect(told).intersect(self.context) for nest in nests]
        best: tuple[int, isl.Set, int] | None = None
        for half in _halves(nests):
            inside = [bool(k.is_subset(half)) for k in here]
            outside = [bool(k.is_disjoint(half)) for k in here]
            number = inside.index(False) if False in inside else len(nests)
            if 0 < number < len(nests) and all(outside[number:]):
                uneven = max(number, len(nests) - number)
                if best is None or uneven < best[0]:
                    best = uneven, half, number
        return None if best is None else best[1:]


def _alike(nests: Sequence[Nest]) -> list[list[Nest]]:
    """Neighbours that run for the same parameters."""
    found: list[list[Nest]] = []
    for nest in nests:
        if found and nest.known.is_equal(found[-1][0].known):
            found[-1].append(nest)
        else:
            found.append([nest])
    return found


def _halves(nests: Sequence[Nest]) -> Iterator[isl.Set]:
    """The halves of all parameters on either side of what conditions ask."""
    for nest in nests:
        for piece in nest.known.get_basic_sets():
            for constraint in piece.get_constraints():
                if constraint.dim(isl.dim_type.div):
                    continue
                every, value = isl.BasicSet.universe(piece.get_space()), constraint.get_aff()
                for side in (value, value.neg()) if constraint.is_equality() else (value,):
                    half = isl.Set.from_basic_set(every.add_constraint(isl.Constraint.inequality_from_aff(side)))
                    yield half
                    yield half.complement()


def _size(of: isl.Set) -> int:
    return sum(piece.n_constraint() for piece in of.get_basic_sets())


def _all(trees: Sequence[Tree]) -> Tree:
    return trees[0] if len(trees) == 1 else Seq(tuple(trees))
