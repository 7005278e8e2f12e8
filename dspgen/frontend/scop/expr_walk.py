"""Walks over expressions of the polyhedral program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from plant_core.ir.func import Binary, Call, Cast, Expr, Iter, Load, Param, Select, Unary, Val


def children(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Val() | Iter() | Param():
            return ()
        case Cast(_, operand) | Unary(_, operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Select(condition, true, false):
            return (condition, true, false)
        case Call(_, args):
            return args
        case Load(_, indices):
            return indices
        case _:
            return ()


def rebuild(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression with `change` done to each of its direct operands."""
    match expr:
        case Val() | Iter() | Param():
            return expr
        case Cast() | Unary():
            return replace(expr, operand=change(expr.operand))
        case Binary():
            return replace(expr, left=change(expr.left), right=change(expr.right))
        case Select():
            return replace(expr, condition=change(expr.condition), true=change(expr.true), false=change(expr.false))
        case Call():
            return replace(expr, args=tuple(change(a) for a in expr.args))
        case Load():
            return replace(expr, indices=tuple(change(i) for i in expr.indices))
        case _:
            return expr


def accesses(expr: Expr) -> Iterator[Load]:
    """Every array element or variable that the expression reads, in order."""
    if isinstance(expr, Load):
        yield expr
    for child in children(expr):
        yield from accesses(child)


def parameters(expr: Expr) -> Iterator[Param]:
    if isinstance(expr, Param):
        yield expr
    for child in children(expr):
        yield from parameters(child)


def without_places(expr: Expr) -> Expr:
    """The expression with no source places, for comparing."""
    bare = rebuild(expr, without_places)
    return replace(bare, loc=None) if isinstance(bare, Load) else bare
