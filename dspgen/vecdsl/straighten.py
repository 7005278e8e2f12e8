"""Descending vector stores become contiguous ones of reversed lanes, which every vector machine has.

Before: `store A [a] -1 = v`. After: `store A [a - lanes + 1] 1 = reverse(v)`. Partial vectors stay as they are.
Requires: promotion done (it matches loads and stores by address and stride). Ensures: the same memory contents.
"""

from __future__ import annotations

from dataclasses import replace

from dspgen.vecdsl.ir import If, Loop, Op, Program, Stmt, Store


def straighten(program: Program, lanes: int) -> Program:
    return replace(program, body=_block(program.body, lanes))


def _block(body: tuple[Stmt, ...], lanes: int) -> tuple[Stmt, ...]:
    return tuple(_stmt(s, lanes) for s in body)


def _stmt(stmt: Stmt, lanes: int) -> Stmt:
    match stmt:
        case Store() if stmt.stride == -1 and stmt.value.type.vector and stmt.active in (None, lanes):
            reversed_ = Op("reverse", (stmt.value,), stmt.value.type)
            return replace(stmt, address=stmt.address.plus(1 - lanes), stride=1, value=reversed_)
        case Loop():
            return replace(stmt, body=_block(stmt.body, lanes))
        case If():
            return replace(stmt, then=_block(stmt.then, lanes))
        case _:
            return stmt
