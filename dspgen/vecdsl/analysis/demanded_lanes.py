"""How many lanes of each value are of use: those that a store with fewer active lanes reads, and no more."""

from __future__ import annotations

from collections.abc import Iterable

from dspgen.vecdsl.ir.program import OPS, Let, Loop, Op, Program, Stmt, Store, Term, Var, lanes_of
from dspgen.vecdsl.ir.terms import block_of, children, own_terms


def passes_lanes(op: Op) -> bool:
    """Whether each lane of the result depends on the same lane of the arguments only."""
    return op.type.vector and OPS[op.name].kind in ("lane", "bits")


def lanes_wanted(op: Op, number: int, count: int, lanes: int) -> int:
    """How many first lanes of an argument are of use where `count` of the result are."""
    if not passes_lanes(op):
        whole = lanes_of(op.args[number].type, lanes)
        return -(-count * whole // lanes_of(op.type, lanes)) if op.name in ("view", "join") else whole
    match op.args[0]:
        case Op(name="mask_first", imm=(first,)) if op.name == "select" and number == 1:
            return min(count, first)
        case _:
            return count


def demands(program: Program, lanes: int) -> dict[str, int]:
    """For each Let that is used, the first lanes of it that are."""
    found: dict[str, int] = {}
    _block(program.body, found, lanes)
    return found


def _block(body: Iterable[Stmt], found: dict[str, int], lanes: int) -> None:
    """Uses come after what they use, so that a walk upwards knows all of a Let's."""
    for stmt in reversed(list(body)):
        if isinstance(stmt, Loop):
            _loop(stmt, found, lanes)
            continue
        _block(block_of(stmt), found, lanes)
        for term in own_terms(stmt):
            count = lanes_of(term.type, lanes)
            if isinstance(stmt, Let):
                count = found.get(stmt.name, 0)
            elif isinstance(stmt, Store) and stmt.active is not None:
                count = min(stmt.active, count)
            _term(term, count, found, lanes)


def _loop(loop: Loop, found: dict[str, int], lanes: int) -> None:
    """What an iteration carries to the next one is of use there as far as it is of use in the end."""
    before: dict[str, int] | None = None
    while before != found:
        before = dict(found)
        for carried in loop.carried:
            _term(carried.next, found.get(carried.name, 0), found, lanes)
        _block(loop.body, found, lanes)
    for carried in loop.carried:
        _term(carried.init, found.get(carried.name, 0), found, lanes)
    for bound in (loop.start, loop.trip):
        _term(bound, lanes, found, lanes)


def _term(term: Term, count: int, found: dict[str, int], lanes: int) -> None:
    if isinstance(term, Var):
        found[term.name] = max(found.get(term.name, 0), count)
        return
    if isinstance(term, Op):
        for number, arg in enumerate(term.args):
            _term(arg, lanes_wanted(term, number, count, lanes), found, lanes)
        return
    for child in children(term):
        _term(child, lanes_of(child.type, lanes), found, lanes)
