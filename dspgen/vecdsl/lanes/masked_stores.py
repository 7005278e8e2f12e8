"""Stores that write some old values back become masked ones, which need not load these.

Before: `store A [i] 3 = select(c, v, load A [i] 3)`. After: `store A [i] 3 mask c = v`.
Requires: promotion done (it keeps such elements in registers where it can). Ensures: the same memory contents.
"""

from __future__ import annotations

from dataclasses import replace

from dspgen.vecdsl.analysis.footprint import place_of_load, place_of_store
from dspgen.vecdsl.ir.constant_folding import make
from dspgen.vecdsl.ir.program import Const, If, Load, Loop, Op, Stmt, Store, Term, VType
from dspgen.vecdsl.ir.terms import COMPARISONS, as_vector, integer

_EXTENSIONS = {"i8": ("sext8",), "u8": ("zext8", "sext8"), "i16": ("sext16",), "u16": ("zext16", "sext16")}


def mask_stores(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return tuple(map(_stmt, body))


def _stmt(stmt: Stmt) -> Stmt:
    match stmt:
        case Store():
            return _masked(stmt)
        case Loop():
            return replace(stmt, body=mask_stores(stmt.body))
        case If():
            return replace(stmt, then=mask_stores(stmt.then))
        case _:
            return stmt


def _masked(stmt: Store) -> Store:
    if place_of_store(stmt) is None:
        return stmt
    mask: Term | None = None
    value = stmt.value
    while isinstance(value, Op) and value.name == "select":
        condition, first, second = value.args
        if _old(second, stmt):
            value = first
        elif _old(first, stmt):
            condition, value = _compare("eq", condition), second
        else:
            break
        mask = condition if mask is None else make("and", (_truth(mask), _truth(condition)), condition.type)
    return stmt if mask is None else replace(stmt, value=value, mask=mask)


def _old(term: Term, stmt: Store) -> bool:
    """Whether the term is what the store's elements hold already."""
    while isinstance(term, Op) and term.name in _EXTENSIONS.get(stmt.elem, ()):
        term = term.args[0]
    return isinstance(term, Load) and place_of_load(term) == place_of_store(stmt)


def _truth(term: Term) -> Term:
    known = isinstance(term, Op) and (
        term.name in COMPARISONS or (term.name == "and" and all(map(_is_truth, term.args)))
    )
    return term if known or isinstance(term, Const) and term.value in (0, 1) else _compare("ne", term)


def _is_truth(term: Term) -> bool:
    return _truth(term) is term


def _compare(name: str, term: Term) -> Term:
    zero = as_vector(integer(0)) if term.type.vector else integer(0)
    return make(name, (term, zero), VType("i32", term.type.vector))
