"""Which of the vectors that take turns each value belongs to: the one that it is stored with, lane by lane."""

from __future__ import annotations

from collections.abc import Iterable

from dspgen.vecdsl.analysis.demanded_lanes import passes_lanes
from dspgen.vecdsl.ir.program import Let, Loop, Op, Program, Stmt, Store, Term, Var
from dspgen.vecdsl.ir.terms import block_of, statements

_Place = tuple[str, tuple[tuple[str, int], ...], int]


def turn_numbers(program: Program) -> tuple[dict[str, int], dict[Store, int]]:
    """The numbers of names, and of stores; not those of what belongs to several, or to none."""
    stores = _of_stores(program.body)
    found: dict[str, set[int]] = {}
    before = -1
    while before != (before := sum(map(len, found.values()))):
        _block(program.body, found, stores)
    return {name: next(iter(numbers)) for name, numbers in found.items() if len(numbers) == 1}, stores


def _of_stores(body: Iterable[Stmt]) -> dict[Store, int]:
    """Stores of one array at one variable place, a stride of elements apart: counted from the first one on."""
    groups: dict[_Place, list[Store]] = {}
    for stmt in statements(body):
        if isinstance(stmt, Store) and stmt.value.type.vector and stmt.plain and stmt.stride > 1:
            groups.setdefault((stmt.array, stmt.address.terms, stmt.stride), []).append(stmt)
    found: dict[Store, int] = {}
    for (_, _, stride), members in groups.items():
        first = min(s.address.constant for s in members)
        found |= {s: (s.address.constant - first) % stride for s in members}
    return found


def _block(body: Iterable[Stmt], found: dict[str, set[int]], stores: dict[Store, int]) -> None:
    for stmt in reversed(list(body)):
        if isinstance(stmt, Loop):
            for carried in stmt.carried:
                _term(carried.next, found.get(carried.name, set()), found)
        _block(block_of(stmt), found, stores)
        match stmt:
            case Let():
                _term(stmt.value, found.get(stmt.name, set()), found)
            case Store() if stmt in stores:
                _term(stmt.value, {stores[stmt]}, found)
            case _:
                pass


def _term(term: Term, numbers: set[int], found: dict[str, set[int]]) -> None:
    if isinstance(term, Var):
        found.setdefault(term.name, set()).update(numbers)
    elif isinstance(term, Op) and passes_lanes(term):
        for arg in term.args:
            _term(arg, numbers, found)
