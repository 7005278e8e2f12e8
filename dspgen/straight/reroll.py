"""Loops found again in unrolled code: stretches that differ in addresses only, each address moving at its own pace.

Before: `let t1 = A[0] * s; store B[0] t1; let t2 = A[16] * s; store B[16] t2; ...`. After: one loop over them, with
addresses affine in its iterator. Requires: a stretch uses no name that another one binds. Ensures: the same statements
in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dspgen.vecdsl.ir.program import Address, Let, Load, Loop, Op, Stmt, Store, Term, Var
from dspgen.vecdsl.ir.terms import Names, integer

FEWEST = 3  # iterations of a loop that is worth one

Stretch = tuple[Let | Store, ...]


def rerolled(stretches: Sequence[Stretch], names: Names) -> list[Stmt]:
    """All stretches in their order, runs of equal ones as loops."""
    shapes = [_shape(s) for s in stretches]
    out: list[Stmt] = []
    at = 0
    while at < len(stretches):
        count = _run(shapes[at:])
        if count < FEWEST:
            out += stretches[at]
            at += 1
            continue
        (_, first), (_, second) = shapes[at], shapes[at + 1]
        iterator = names.fresh("r")
        paces = [b - a for a, b in zip(first, second, strict=True)]
        moved = _Moved(iterator, paces)
        body = tuple(moved.stmt(s) for s in stretches[at])
        loc = next((s.loc for s in stretches[at] if isinstance(s, Store)), None)
        out.append(Loop(iterator, integer(0), integer(count), 1, (), body, count, count, loc))
        at += count
    return out


def _run(shapes: Sequence[tuple[tuple[object, ...], list[int]]]) -> int:
    """How many stretches, from the first on, have one shape and addresses in arithmetic progression."""
    count = 1
    (shape, first), *rest = shapes
    paces: list[int] | None = None
    for (other, numbers), (_, before) in zip(rest, shapes, strict=False):
        if other != shape:
            break
        steps = [b - a for a, b in zip(before, numbers, strict=True)]
        if paces is not None and steps != paces:
            break
        paces = steps
        count += 1
    return count


def _shape(stretch: Stretch) -> tuple[tuple[object, ...], list[int]]:
    """The stretch without the names that it binds and without the constants of addresses, and these constants."""
    names: dict[str, str] = {}
    numbers: list[int] = []

    def term(old: Term) -> Term:
        match old:
            case Var():
                return replace(old, name=names.get(old.name, old.name))
            case Load():
                numbers.append(old.address.constant)
                return replace(old, address=Address(0))
            case Op():
                return replace(old, args=tuple(term(a) for a in old.args))
            case _:
                return old

    out: list[object] = []
    for stmt in stretch:
        if isinstance(stmt, Let):
            out.append(Let("", term(stmt.value)))
            names[stmt.name] = f"%{len(names)}"
        else:
            value = term(stmt.value)
            numbers.append(stmt.address.constant)
            out.append(replace(stmt, address=Address(0), value=value, loc=None))
    return tuple(out), numbers


class _Moved:
    """Statements with each address, in the order of `_shape`, moving with the iterator."""

    def __init__(self, iterator: str, paces: Sequence[int]) -> None:
        self.iterator = iterator
        self.paces = iter(paces)

    def stmt(self, stmt: Let | Store) -> Let | Store:
        if isinstance(stmt, Let):
            return Let(stmt.name, self.term(stmt.value))
        value = self.term(stmt.value)
        return replace(stmt, value=value, address=self.address(stmt.address))

    def address(self, address: Address) -> Address:
        pace = next(self.paces)
        return Address(address.constant, ((self.iterator, pace),)) if pace else address

    def term(self, term: Term) -> Term:
        match term:
            case Load():
                return replace(term, address=self.address(term.address))
            case Op():
                return replace(term, args=tuple(self.term(a) for a in term.args))
            case _:
                return term
