"""Statements in an order in which shuffles by one pattern follow each other, so that the mode is written seldom."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dspgen.asmir.select.shuffles import Pattern, pattern_of
from dspgen.vecdsl.ir.program import Let, Load, Op, Stmt, Store, Term
from dspgen.vecdsl.ir.terms import children, gives_pair, names_of, own_terms

if TYPE_CHECKING:
    from dspgen.asmir.select.emitter import Emitter


def by_mode(body: tuple[Stmt, ...], emitter: Emitter) -> tuple[Stmt, ...]:
    """The block `by_pattern` on machines whose shuffles take their patterns from a mode."""
    return body if emitter.shuffles is None else by_pattern(body, emitter.target.lanes)


def by_pattern(body: tuple[Stmt, ...], lanes: int) -> tuple[Stmt, ...]:
    """The block with its runs of Lets and Stores in an order that changes shuffle patterns seldom.

    Before: the first vector's shuffles by patterns p and q, then the second one's. After: both by p, then both by q.
    Ensures: every name is bound before its uses; accesses that may touch the same elements keep their order.
    """
    done, run = list[Stmt](), list[Stmt]()
    for stmt in body:
        if isinstance(stmt, Let | Store):
            run.append(stmt)
            continue
        done += [*_ordered(run, lanes), stmt]
        run = []
    return (*done, *_ordered(run, lanes))


def _ordered(run: list[Stmt], lanes: int) -> list[Stmt]:
    patterns = [_patterns(stmt, lanes) for stmt in run]
    wanted = [p for some in patterns for p in some]
    if len(set(wanted)) < 2 or len(set(wanted)) == len(wanted):
        return run
    waiting = _waiting(run, lanes)
    followers: list[list[int]] = [[] for _ in run]
    for k, before in enumerate(waiting):
        for other in before:
            followers[other].append(k)
    order, mode, ready = list[int](), set[Pattern](), [k for k, before in enumerate(waiting) if not before]
    while ready:
        chosen = next((k for k in ready if patterns[k] <= mode), ready[0])
        mode = patterns[chosen] or mode
        order.append(chosen)
        ready.remove(chosen)
        for k in followers[chosen]:
            waiting[k].discard(chosen)
            if not waiting[k]:
                insort(ready, k)
    return [run[k] for k in order]


def _patterns(stmt: Stmt, lanes: int) -> set[Pattern]:
    return {p for term in own_terms(stmt) for p in _patterns_in(term, lanes)}


def _patterns_in(term: Term, lanes: int) -> Iterator[Pattern]:
    if isinstance(term, Op) and (found := pattern_of(term, lanes)) is not None:
        yield found
    for child in children(term):
        yield from _patterns_in(child, lanes)


def _waiting(run: list[Stmt], lanes: int) -> list[set[int]]:
    """For each statement the earlier ones that it has to follow."""
    found, bound = list[set[int]](), dict[str, int]()
    pairs = any(_has_pair(term) for stmt in run for term in own_terms(stmt))
    vector, scalar = (2 * lanes, 2) if pairs else (lanes, 1)
    stored, loaded = dict[str, list[tuple[int, Store]]](), dict[str, list[tuple[int, Load]]]()  # of each array, so far
    for number, stmt in enumerate(run):
        needs = {bound[n] for term in own_terms(stmt) for n in names_of(term) if n in bound}
        loads = [x for term in own_terms(stmt) for x in _loads_in(term)]
        for load in loads:
            needs |= {k for k, s in stored.get(load.array, ()) if not _apart(s, load, vector, scalar)}
        if isinstance(stmt, Store):
            before = (*stored.get(stmt.array, ()), *loaded.get(stmt.array, ()))
            needs |= {k for k, x in before if not _apart(stmt, x, vector, scalar)}
            stored.setdefault(stmt.array, []).append((number, stmt))
        for load in loads:
            loaded.setdefault(load.array, []).append((number, load))
        if isinstance(stmt, Let):
            bound[stmt.name] = number
        found.append(needs)
    return found


def _has_pair(term: Term) -> bool:
    return gives_pair(term) or any(_has_pair(child) for child in children(term))


def _loads_in(term: Term) -> Iterator[Load]:
    if isinstance(term, Load):
        yield term
    for child in children(term):
        yield from _loads_in(child)


def _apart(a: Load | Store, b: Load | Store, vector: int, scalar: int) -> bool:
    """Whether two accesses to an array surely touch different elements; at most so many follow each one's first."""
    if a.address.terms != b.address.terms or not (_contiguous(a) and _contiguous(b)):
        return False
    first, second = sorted((a, b), key=lambda x: x.address.constant)
    return second.address.constant - first.address.constant >= (vector if _wide(first) else scalar)


def _contiguous(access: Load | Store) -> bool:
    return not access.period and access.index is None and (access.stride == 1 or not _wide(access))


def _wide(access: Load | Store) -> bool:
    return (access.value if isinstance(access, Store) else access).type.vector
