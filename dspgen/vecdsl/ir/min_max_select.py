"""Selections between what is compared, as the least, the greatest or the magnitude that they are."""

from __future__ import annotations

from dspgen.vecdsl.ir.program import Const, Op, Term

_LESS, _GREATER = ("lt", "le"), ("gt", "ge")


def plain(op: Op) -> Op:
    """An integer selection as `min`, `max` or `abs`, where it is one; any other operation as it is."""
    if op.name != "select" or op.type.elem != "i32":
        return op
    condition, first, second = op.args
    if not isinstance(condition, Op) or condition.name not in (*_LESS, *_GREATER):
        return op
    left, right = condition.args
    if left.type.elem != "i32":
        return op
    if condition.name in _GREATER:
        left, right = right, left
    # Now the first is taken where left < right, or where both are the same.
    if (first, second) == (left, right):
        return Op("min", (left, right), op.type)
    if (first, second) == (right, left):
        return Op("max", (left, right), op.type)
    if _zero(right) and second == left and _negated(first, left):
        return Op("abs", (left,), op.type)
    if _zero(left) and first == right and _negated(second, right):
        return Op("abs", (right,), op.type)
    return op


def _zero(term: Term) -> bool:
    return isinstance(term, Const) and term.value == 0


def _negated(term: Term, of: Term) -> bool:
    match term:
        case Op(name="neg", args=(inner,)):
            return inner == of
        case Op(name="sub", args=(zero, inner)):
            return _zero(zero) and inner == of
        case _:
            return False
