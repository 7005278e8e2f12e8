"""Stores as machines have them: masked in place of old values written back, and contiguous ones for descending lanes.

Before: `store A [a] -1 = v`. After: `store A [a - lanes + 1] 1 = reverse(v)`. Partial vectors stay as they are.
Requires: promotion done (it matches loads and stores by address and stride). Ensures: the same memory contents.
"""

from __future__ import annotations

from dataclasses import replace

from dspgen.vecdsl.ir.program import If, Loop, Op, Program, Stmt, Store, Term
from dspgen.vecdsl.lanes.masked_stores import mask_stores


def straighten(program: Program, lanes: int) -> Program:
    return replace(program, body=_block(mask_stores(program.body), lanes))


def _block(body: tuple[Stmt, ...], lanes: int) -> tuple[Stmt, ...]:
    return tuple(_stmt(s, lanes) for s in body)


def _stmt(stmt: Stmt, lanes: int) -> Stmt:
    match stmt:
        case Store() if _descending(stmt, lanes):
            mask = None if stmt.mask is None else _reversed(stmt.mask)
            return replace(stmt, address=stmt.address.plus(1 - lanes), stride=1, value=_reversed(stmt.value), mask=mask)
        case Loop():
            return replace(stmt, body=_block(stmt.body, lanes))
        case If():
            return replace(stmt, then=_block(stmt.then, lanes))
        case _:
            return stmt


def _descending(stmt: Store, lanes: int) -> bool:
    straight = stmt.stride == -1 and not stmt.period and stmt.index is None
    return straight and stmt.value.type.vector and stmt.active in (None, lanes)


def _reversed(term: Term) -> Term:
    return Op("reverse", (term,), term.type)
