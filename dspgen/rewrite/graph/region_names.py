"""Which names a program's regions read and bind, and which arrays it stores to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dspgen.vecdsl.ir.program import If, Let, Load, Loop, Stmt, Store, Term, Var
from dspgen.vecdsl.ir.terms import children, leaves, own_terms, statements, terms_in


def names_of(terms: Iterable[Term]) -> set[str]:
    """The variables in the terms, at any depth."""
    found: set[str] = set()
    seen: set[int] = set()
    stack = list(terms)
    while stack:
        term = stack.pop()
        if id(term) in seen:
            continue
        seen.add(id(term))
        if isinstance(term, Var):
            found.add(term.name)
        stack.extend(children(term))
    return found


def addressing_names(body: Iterable[Stmt]) -> set[str]:
    """The names in the addresses of loads and stores, at any depth: what they stand for is no term of any region."""
    found = {name for stmt in statements(body) if isinstance(stmt, Store) for name, _ in stmt.address.terms}
    loads = (leaf for term in terms_in(body) for leaf in leaves(term) if isinstance(leaf, Load))
    return found | {name for load in loads for name, _ in load.address.terms}


def region_names(body: tuple[Stmt, ...], ends: tuple[Term, ...]) -> Iterator[set[str]]:
    """The names that each region reads: regions end at loops, at Ifs and at the block's end, where `ends` follow."""
    terms: list[Term] = []
    for stmt in body:
        match stmt:
            case Let() | Store():
                terms += own_terms(stmt)
            case Loop():
                yield names_of([*terms, stmt.start, stmt.trip, *(c.init for c in stmt.carried)])
                terms = []
                yield from region_names(stmt.body, tuple(c.next for c in stmt.carried))
            case If():
                yield names_of([*terms, stmt.condition])
                terms = []
                yield from region_names(stmt.then, ())
    yield names_of([*terms, *ends])


def bound_names(body: Iterable[Stmt]) -> set[str]:
    """Lets, iterators and carried variables, at any depth."""
    found: set[str] = set()
    for stmt in body:
        match stmt:
            case Let(name):
                found.add(name)
            case Loop():
                found |= {stmt.iterator, *(c.name for c in stmt.carried)} | bound_names(stmt.body)
            case If():
                found |= bound_names(stmt.then)
            case Store():
                pass
    return found


def stored_arrays(body: Iterable[Stmt]) -> set[str]:
    found: set[str] = set()
    for stmt in body:
        match stmt:
            case Store():
                found.add(stmt.array)
            case Loop():
                found |= stored_arrays(stmt.body)
            case If():
                found |= stored_arrays(stmt.then)
            case Let():
                pass
    return found
