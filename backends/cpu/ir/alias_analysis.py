"""Whether two pieces of memory are provably the same, or provably apart."""

from __future__ import annotations

from collections.abc import Mapping

from backends.cpu.ir.statements import Cell
from plant_core.ir.accesses import Linear, accesses, linear
from plant_core.ir.func import Binary, Expr

Ranges = Mapping[str, tuple[Expr, Expr]]
"""For each iterator around a place, from the outermost in: its lower bound and its exclusive upper bound."""

Key = tuple[str, tuple[tuple[int, tuple[tuple[str, int], ...]], ...]]
_STEPS = 64


def key_of(cell: Cell) -> Key | None:
    """Equal for two cells that are the same wherever their iterators are; None where a subscript isn't affine."""
    forms = []
    for index in cell.indices:
        form = linear(index)
        if form is None or any(True for _ in accesses(index)):
            return None
        forms.append((form[0], tuple(sorted(form[1].items()))))
    return cell.buf, tuple(forms)


def names_in(key: Key) -> set[str]:
    return {name for _, terms in key[1] for name, _ in terms}


def disjoint(a: Key, a_lanes: int, b: Key, b_lanes: int, ranges: Ranges) -> bool:
    """Whether `a_lanes` elements from `a` on and `b_lanes` from `b` on have none in common."""
    if a[0] != b[0]:
        return True
    last = len(a[1]) - 1
    for place, (one, two) in enumerate(zip(a[1], b[1], strict=True)):
        above, below = (b_lanes, a_lanes) if place == last else (1, 1)
        gap = _difference(one, two)
        if at_least(gap, above, ranges) or at_least(_negated(gap), below, ranges):
            return True
    return False


def at_least(form: Linear, bound: int, ranges: Ranges) -> bool:
    """Whether `form` is `bound` or more wherever the iterators are within their ranges."""
    return _at_least(form, bound, ranges, list(ranges)[::-1], [_STEPS])


def nonempty(lower: Expr, upper: Expr, ranges: Ranges, least: int = 1) -> bool:
    """Whether a loop provably runs at least once, or `upper` is `least` or more above `lower`."""
    return all(
        at_least(_difference(_flat(high), _flat(low)), least, ranges)
        for low in bounds(lower, "max")
        for high in bounds(upper, "min")
    ) and bool(bounds(lower, "max") and bounds(upper, "min"))


def _at_least(form: Linear, bound: int, ranges: Ranges, order: list[str], budget: list[int]) -> bool:
    budget[0] -= 1
    if not form[1]:
        return form[0] >= bound
    inner = next((name for name in order if name in form[1]), None)
    if inner is None or budget[0] < 0:
        return False
    factor = form[1][inner]
    lower, upper = ranges[inner]
    rest = order[order.index(inner) + 1 :]
    ends = bounds(lower, "max") if factor > 0 else bounds(upper, "min")
    shift = 0 if factor > 0 else -1
    return any(_at_least(_replaced(form, inner, (e[0] + shift, e[1])), bound, ranges, rest, budget) for e in ends)


def bounds(expr: Expr, op: str) -> list[Linear]:
    """The affine operands of a `min` or `max`, each a bound on its own; empty where one of them isn't affine."""
    if isinstance(expr, Binary) and expr.op == op:
        left, right = bounds(expr.left, op), bounds(expr.right, op)
        return left + right if left and right else []
    form = linear(expr)
    return [] if form is None else [form]


def _replaced(form: Linear, name: str, by: Linear) -> Linear:
    factor = form[1][name]
    terms = {n: c for n, c in form[1].items() if n != name}
    for other, c in by[1].items():
        terms[other] = terms.get(other, 0) + factor * c
    return form[0] + factor * by[0], {n: c for n, c in terms.items() if c}


_Flat = tuple[int, tuple[tuple[str, int], ...]]


def _flat(form: Linear) -> _Flat:
    return form[0], tuple(sorted(form[1].items()))


def _difference(a: _Flat, b: _Flat) -> Linear:
    terms = dict(a[1])
    for name, c in b[1]:
        terms[name] = terms.get(name, 0) - c
    return a[0] - b[0], {n: c for n, c in terms.items() if c}


def _negated(form: Linear) -> Linear:
    return -form[0], {n: -c for n, c in form[1].items()}
