"""The last iteration of a loop apart, where vectors of it would reach beyond an array and those of others don't.

Before: loop i < 62 { store y[126 i .. 126 i + 126) }, in vectors that hold 128 elements.
After:  loop i < 61 { the same, with room for whole vectors }; loop of one iteration { the same }, by other means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dspgen.target.isa.model import Target
from dspgen.target.query.operations import OperationTable
from dspgen.target.query.subword_access import turns
from dspgen.vecdsl.analysis.integer_ranges import readable
from dspgen.vecdsl.ir.program import Address, Carried, Const, If, Let, Load, Loop, Op, Program, Stmt, Store, Term, Var
from dspgen.vecdsl.ir.terms import Names, integer, statements

_LEAST = 4  # iterations from which on it pays


def with_last_rows_apart(program: Program, target: Target) -> Program:
    """Of outermost loops, on machines whose stores take no lanes' predicates. Requires: names unique."""
    machine = turns(target)
    masked = any(f.instruction.predicable == "lane" for f in OperationTable(target).forms("vst", "i32"))
    if masked or not machine.stores:
        return program
    names, body = Names.of(program), list[Stmt]()
    for stmt in program.body:
        if isinstance(stmt, Loop) and _gains(program, stmt, target):
            body += _parted(stmt, names)
        else:
            body.append(stmt)
    return replace(program, body=tuple(body))


def _gains(program: Program, loop: Loop, target: Target) -> bool:
    """Whether some partial vector has room for a whole one in all iterations but the last."""
    if (
        loop.carried
        or not isinstance(loop.trip, Const)
        or not isinstance(loop.start, Const)
        or loop.trip.value < _LEAST
    ):
        return False
    machine = turns(target)
    shorter = replace(loop, trip=integer(int(loop.trip.value) - 1), min_trip=loop.min_trip - 1)
    less = replace(program, body=tuple(shorter if s is loop else s for s in program.body))
    inside, before = readable(replace(less, body=(shorter,))), readable(program)
    for store in (s for s in statements(loop.body) if isinstance(s, Store)):
        contiguous = store.stride == 1 or machine.reaches(store.elem, store.stride, store=True)
        if store.active is not None and store.plain and contiguous:
            window = store.array, store.address, 0, store.stride * machine.lanes - 1
            if not before(*window) and inside(*window):
                return True
    return False


def _parted(loop: Loop, names: Names) -> list[Stmt]:
    assert isinstance(loop.trip, Const) and isinstance(loop.start, Const)
    trip = int(loop.trip.value) - 1
    first = replace(loop, trip=integer(trip), min_trip=trip, max_trip=trip)
    start = integer(int(loop.start.value) + trip * loop.step)
    last = replace(loop, start=start, trip=integer(1), min_trip=1, max_trip=1)
    bound = dict.fromkeys(bound_names((last,)))
    return [first, renamed(last, {name: names.fresh(name) for name in bound})]


def bound_names(body: tuple[Stmt, ...]) -> Iterator[str]:
    for stmt in statements(body):
        if isinstance(stmt, Let):
            yield stmt.name
        elif isinstance(stmt, Loop):
            yield stmt.iterator
            yield from (c.name for c in stmt.carried)


def renamed(stmt: Stmt, names: Mapping[str, str]) -> Stmt:
    """The statement with other names for those that it binds."""

    def term(old: Term) -> Term:
        match old:
            case Var(name) if name in names:
                return Var(names[name], old.type)
            case Load():
                index = None if old.index is None else term(old.index)
                mask = None if old.mask is None else term(old.mask)
                return replace(old, address=address(old.address), index=index, mask=mask)
            case Op():
                return replace(old, args=tuple(map(term, old.args)))
            case _:
                return old

    def address(old: Address) -> Address:
        return Address(old.constant, tuple(sorted((names.get(n, n), c) for n, c in old.terms)))

    match stmt:
        case Let(name, value):
            return Let(names[name], term(value))
        case Store():
            index = None if stmt.index is None else term(stmt.index)
            mask = None if stmt.mask is None else term(stmt.mask)
            return replace(stmt, address=address(stmt.address), value=term(stmt.value), index=index, mask=mask)
        case Loop():
            return replace(
                stmt,
                iterator=names[stmt.iterator],
                start=term(stmt.start),
                trip=term(stmt.trip),
                carried=tuple(Carried(names[c.name], term(c.init), term(c.next)) for c in stmt.carried),
                body=tuple(renamed(s, names) for s in stmt.body),
            )
        case If():
            return If(term(stmt.condition), tuple(renamed(s, names) for s in stmt.then))
