"""A loop's start, trip count and range, from the bounds that the loop tree gives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from dspgen.vecdsl.analysis.integer_ranges import Bounds, Linear, Ranges
from dspgen.vecdsl.build.affine_forms import add, affine, floor_divide, integer_term, scale
from dspgen.vecdsl.ir.constant_folding import make
from dspgen.vecdsl.ir.program import Address, Term
from dspgen.vecdsl.ir.terms import INTEGER, address_term, integer, make_address
from plant_core.ir.func import Binary, Expr
from plant_core.ir.loop_tree import For


@dataclass(frozen=True, slots=True)
class Scope:
    """The tree's iterators as affine forms of program names, and what is known of their values."""

    iterators: dict[str, Address] = field(default_factory=dict)
    ranges: Ranges = field(default_factory=Ranges)


def bounds_of(tree: For, scope: Scope) -> tuple[Term, Term, Bounds]:
    """A For's start, its trip count (which may come out negative for no iterations) and its iterator's bounds."""
    lowers = _forms(tree.lower, "max", scope)
    uppers = _forms(tree.upper, "min", scope)
    if lowers is None or uppers is None:
        start = integer_term(tree.lower, scope.iterators, scope.ranges)
        stop = integer_term(tree.upper, scope.iterators, scope.ranges)
        low, high = scope.ranges.term(start).lowers, scope.ranges.term(stop).uppers
        trip = _ceiling(make("sub", (stop, start), INTEGER), tree.step, scope.ranges)
        return start, trip, Bounds(low, tuple(f.plus(Linear(-1)) for f in high))
    lowers, uppers = _strongest(lowers, scope.ranges, 1), _strongest(uppers, scope.ranges, -1)
    start = _fold_forms("max", lowers)
    gaps = [add(u, low, -1) for u in uppers for low in lowers]
    gaps = _strongest(gaps, scope.ranges, -1)
    exact = [_exact_quotient(g, tree.step) for g in gaps]
    if all(e is not None for e in exact):
        trip = _fold_forms("min", [e for e in exact if e is not None])
    else:
        trip = _ceiling(_fold_forms("min", gaps), tree.step, scope.ranges)
    lasts = [_last(lowers, u, tree.step) for u in uppers]
    return start, trip, Bounds(tuple(map(Linear.of, lowers)), tuple(map(Linear.of, lasts)))


def _last(lowers: list[Address], upper: Address, step: int) -> Address:
    """What an iterator does not exceed below `upper`: its last value, where there is one start to count from."""
    trip = _exact_quotient(add(upper, lowers[0], -1), step) if len(lowers) == 1 else None
    return upper.plus(-1) if trip is None else add(lowers[0], scale(trip.plus(-1), step))


def counted(last: Linear, first: Address, step: int) -> Linear:
    """The number of the iteration whose iterator is `last`, from 0."""
    return last.plus(Linear.of(first), -1).times(Fraction(1, step))


def _forms(expr: Expr, operator: str, scope: Scope) -> list[Address] | None:
    """The affine forms of which a bound is the maximum (minimum), or None."""
    form = affine(expr, scope.iterators, scope.ranges)
    if form is not None:
        return [form]
    if not isinstance(expr, Binary):
        return None
    if expr.op == operator:
        left, right = _forms(expr.left, operator, scope), _forms(expr.right, operator, scope)
        return None if left is None or right is None else list(dict.fromkeys([*left, *right]))
    if expr.op in ("add", "sub"):
        inner = _forms(expr.left, operator, scope)
        outer = affine(expr.right, scope.iterators, scope.ranges)
        if inner is None and expr.op == "add":
            inner = _forms(expr.right, operator, scope)
            outer = affine(expr.left, scope.iterators, scope.ranges)
        if inner is not None and outer is not None:
            return [add(f, outer, 1 if expr.op == "add" else -1) for f in inner]
    return None


def _strongest(forms: list[Address], ranges: Ranges, sign: int) -> list[Address]:
    """The forms without those that another one makes needless: the maximum's (sign 1) or the minimum's (-1)."""
    kept = list(dict.fromkeys(forms))
    for form in list(kept):
        others = [o for o in kept if o != form]
        gaps = [ranges.minimum(scale(add(o, form, -1), sign)) for o in others]
        if any(g is not None and g >= 0 for g in gaps):
            kept.remove(form)
    return kept


def _fold_forms(operator: str, forms: list[Address]) -> Term:
    total = address_term(forms[0])
    for form in forms[1:]:
        total = make(operator, (total, address_term(form)), INTEGER)
    return total


def _exact_quotient(gap: Address, step: int) -> Address | None:
    """ceil(gap / step) where it is affine."""
    if step == 1:
        return gap
    if any(c % step for _, c in gap.terms):
        return None
    return make_address(-(-gap.constant // step), {n: c // step for n, c in gap.terms})


def _ceiling(gap: Term, step: int, ranges: Ranges) -> Term:
    if step == 1:
        return gap
    return floor_divide(not_negative(make("add", (gap, integer(step - 1)), INTEGER), ranges), step, ranges)


def not_negative(term: Term, ranges: Ranges) -> Term:
    low, _ = ranges.interval(term)
    return term if low is not None and low >= 0 else make("max", (term, integer(0)), INTEGER)
