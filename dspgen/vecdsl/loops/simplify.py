"""Small cleanups: constant terms, loops of one or no iteration, conditions that are decided, names nobody needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dspgen.vecdsl.analysis.integer_ranges import Ranges, trip_range
from dspgen.vecdsl.ir.constant_folding import placed, refold
from dspgen.vecdsl.ir.program import Carried, Const, If, Let, Load, Loop, Op, Program, Stmt, Store, Term, Var
from dspgen.vecdsl.ir.terms import (
    INTEGER,
    Names,
    Substitution,
    index_names,
    integer,
    is_atom,
    leaves,
    linear_address,
    names_of,
    own_terms,
    statements,
)


def simplify(program: Program) -> Program:
    """Computes what is known and drops what does nothing.

    Before: `for i = 3, trip 1 { let a = 2 * 4; A[i] = a }`. After: `A[3] = 8`.
    Requires: a program that `verify` passes. Ensures: the same stores happen in the same order.
    """
    cleaner = _Cleaner(program)
    body = cleaner.block(program.body, Ranges(), Substitution({}, {}))
    return replace(program, body=drop_unused(body))


class _Cleaner:
    def __init__(self, program: Program) -> None:
        self.names = Names.of(program)
        self.indices = index_names(program)

    def block(self, body: tuple[Stmt, ...], ranges: Ranges, known: Substitution) -> tuple[Stmt, ...]:
        """`known` grows: names are unique, so what holds of one holds wherever it is in scope."""
        done = list[Stmt]()
        for stmt in body:
            match stmt:
                case Let():
                    bound = self.bind(stmt.name, self.term(stmt.value, known), known)
                    ranges = ranges.after(bound[0]) if bound else ranges
                    done += bound
                case Store():
                    done += self.store(stmt, known)
                case If():
                    condition = self.term(stmt.condition, known)
                    verdict = decide(condition, ranges)
                    then = () if verdict is False else self.block(stmt.then, ranges, known)
                    done += then if verdict else [If(condition, then)] if then else []
                    _join_last(done)
                case Loop():
                    done += self.loop(stmt, ranges, known)
        return tuple(done)

    def store(self, stmt: Store, known: Substitution) -> list[Stmt]:
        value, address = self.term(stmt.value, known), known.address(stmt.address)
        index, mask = (None if t is None else self.term(t, known) for t in (stmt.index, stmt.mask))
        new = replace(stmt, address=address, value=value, index=index, mask=mask)
        if isinstance(mask, Const):
            if not mask.value:
                return []
            new = replace(new, mask=None)
        return [placed(new, self.indices)]

    def term(self, term: Term, known: Substitution) -> Term:
        return refold(known.term(term), self.indices)

    def bind(self, name: str, value: Term, known: Substitution) -> list[Stmt]:
        """Remembers an atom under the name; binds the name to anything larger."""
        if is_atom(value):
            known.terms[name] = value
            return []
        return [Let(name, value)]

    def loop(self, loop: Loop, ranges: Ranges, known: Substitution) -> list[Stmt]:
        start, trip = self.term(loop.start, known), self.term(loop.trip, known)
        low, high = trip_range(ranges, trip)
        low = max(low, loop.min_trip)
        if loop.max_trip is not None:
            high = loop.max_trip if high is None else min(high, loop.max_trip)
        if low == high:
            trip = integer(low)
        before = list[Stmt]()
        carried = list[Carried]()
        for c in loop.carried:
            initial = self.term(c.init, known)
            if high == 0 or c.next == Var(c.name, c.init.type):
                before += self.bind(c.name, initial, known)
            else:
                carried.append(Carried(c.name, initial, c.next))
        if high == 0:
            return before
        first = linear_address(start)
        if low == high == 1 and first is not None and all(n in self.indices for n, _ in first.terms):
            known.addresses[loop.iterator] = first
            known.terms[loop.iterator] = start
            return before + self.once(loop.body, carried, ranges, known)
        new = Loop(loop.iterator, start, trip, loop.step, (), (), low, high, loop.loc)
        body = self.block(loop.body, ranges.inside(new), known)
        following = tuple(Carried(c.name, c.init, self.term(c.next, known)) for c in carried)
        going = loop.going if any(c.name == loop.going for c in following) else ""
        return [*before, replace(new, body=body, carried=following, going=going)]

    def once(self, body: tuple[Stmt, ...], carried: list[Carried], ranges: Ranges, known: Substitution) -> list[Stmt]:
        """The body of a loop's only iteration; its carried names mean one value in it and another after it."""
        done, inside = list[Stmt](), dict[str, Term]()
        for c in carried:
            value = c.init
            if not is_atom(value):
                value = Var(self.names.fresh(c.name), value.type)
                done.append(Let(value.name, c.init))
            inside[c.name] = value
        local = Substitution({**known.terms, **inside}, known.addresses)
        done += self.block(body, ranges, local)
        final = [(c.name, self.term(c.next, local)) for c in carried]
        for name, value in final:
            done += self.bind(name, value, known)
        return done


def _join_last(done: list[Stmt]) -> None:
    """Two Ifs under one condition at the end become one."""
    match done[-2:]:
        case [If(condition, first), If(again, second)] if condition == again:
            if not any(isinstance(x, Load) for x in leaves(condition)):
                done[-2:] = [If(condition, (*first, *second))]
        case _:
            pass


def decide(condition: Term, ranges: Ranges) -> bool | None:
    """Whether a scalar condition always holds (True) or never (False)."""
    match condition:
        case Op(name="lt" | "le" | "gt" | "ge" | "eq" | "ne", args=(left, right)) if left.type == INTEGER:
            low, high = ranges.difference(left, right)
            return _sign_decides(condition.name, low, high)
        case Op(name="and" | "or", args=(left, right)) if _is_truth(left) and _is_truth(right):
            verdicts = decide(left, ranges), decide(right, ranges)
            absorbing = condition.name == "or"
            if absorbing in verdicts:
                return absorbing
            return None if None in verdicts else not absorbing
        case _:
            low, high = ranges.interval(condition)
            return _sign_decides("ne", low, high)


def _sign_decides(comparison: str, low: int | None, high: int | None) -> bool | None:
    """What `x comparison 0` is for every x in low..high, if it is the same for all."""
    negative, positive = high is not None and high < 0, low is not None and low > 0
    not_negative, not_positive = low is not None and low >= 0, high is not None and high <= 0
    sure, never = {
        "lt": (negative, not_negative),
        "le": (not_positive, positive),
        "gt": (positive, not_positive),
        "ge": (not_negative, negative),
        "eq": (not_negative and not_positive, negative or positive),
        "ne": (negative or positive, not_negative and not_positive),
    }[comparison]
    return True if sure else False if never else None


def _is_truth(term: Term) -> bool:
    """Whether the term can only be 0 or 1."""
    if isinstance(term, Const):
        return term.value in (0, 1)
    if not isinstance(term, Op):
        return False
    if term.name in ("and", "or"):
        return all(map(_is_truth, term.args))
    return term.name in ("lt", "ltu", "gt", "le", "ge", "eq", "ne")


def drop_unused(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Without names that no store, bound or condition depends on, and without the blocks that this empties."""
    while True:
        needed = _needed(body)
        smaller = _keep(body, needed)
        if smaller == body:
            return body
        body = smaller


def _needed(body: tuple[Stmt, ...]) -> set[str]:
    uses = dict[str, list[str]]()
    waiting = list[str]()
    for stmt in statements(body):
        match stmt:
            case Let():
                uses[stmt.name] = list(names_of(stmt.value))
            case Store():
                waiting += [name for name, _ in stmt.address.terms]
                waiting += [name for term in own_terms(stmt) for name in names_of(term)]
            case If():
                waiting += names_of(stmt.condition)
            case Loop():
                waiting += [*names_of(stmt.start), *names_of(stmt.trip), *([stmt.going] if stmt.going else [])]
                for c in stmt.carried:
                    uses[c.name] = [*names_of(c.init), *names_of(c.next)]
    needed = set[str]()
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += uses.get(name, [])
    return needed


def _keep(body: Iterable[Stmt], needed: set[str]) -> tuple[Stmt, ...]:
    kept = list[Stmt]()
    for stmt in body:
        match stmt:
            case Let():
                if stmt.name in needed:
                    kept.append(stmt)
            case Store():
                kept.append(stmt)
            case If():
                if then := _keep(stmt.then, needed):
                    kept.append(replace(stmt, then=then))
            case Loop():
                inside = _keep(stmt.body, needed)
                carried = tuple(c for c in stmt.carried if c.name in needed)
                if inside or carried:
                    kept.append(replace(stmt, body=inside, carried=carried))
    return tuple(kept)
