"""Unsigned narrow memory through signed accesses, for machines whose loads extend the sign only.

Before: `ld.u16 A [..]`. After: `zext16 (ld.i16 A [..])`; stores move the same bits.
Requires: `elems` names types (u8, u16) that the machine can't load and whose signed counterpart it can.
Ensures: the same values and the same memory contents.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import cast

from dspgen.vecdsl.ir.program import Elem, If, Load, Loop, Op, Program, Stmt, Store, Term, Var
from dspgen.vecdsl.ir.terms import map_leaves, map_terms

EXTENSIONS: dict[Elem, str] = {"u8": "zext8", "u16": "zext16"}


def signed_memory(program: Program, elems: Container[str]) -> Program:
    if not any(a.elem in elems for a in program.arrays):
        return program
    arrays = tuple(replace(a, elem=_signed(a.elem)) if a.elem in elems else a for a in program.arrays)

    def extended(leaf: Var | Load) -> Term:
        if isinstance(leaf, Var) or leaf.elem not in elems:
            return leaf
        return Op(EXTENSIONS[leaf.elem], (replace(leaf, elem=_signed(leaf.elem)),), leaf.type)

    body = tuple(_stored(map_terms(s, lambda t: map_leaves(t, extended)), elems) for s in program.body)
    return replace(program, arrays=arrays, body=body)


def _stored(stmt: Stmt, elems: Container[str]) -> Stmt:
    match stmt:
        case Store() if stmt.elem in elems:
            return replace(stmt, elem=_signed(stmt.elem))
        case Loop():
            return replace(stmt, body=tuple(_stored(s, elems) for s in stmt.body))
        case If():
            return replace(stmt, then=tuple(_stored(s, elems) for s in stmt.then))
        case _:
            return stmt


def _signed(elem: Elem) -> Elem:
    return cast(Elem, elem.replace("u", "i"))
