"""Loops that may end early, in groups of iterations with an exit behind each group.

Before: loop i < n { carry e = limit; next e = min(e, test(i) ? i : limit) }
After:  loop g < n / 16 { carry e, going = 1
          loop i = 16 g, 16 times { the same }
          next going = e < limit ? 0 : 1 }        left where `going` is 0
        loop i = n / 16 * 16, going ? n % 16 : 0 times { the same }

Such a loop is a search for its first iteration with a property, or one whose iterations change nothing once a variable
has a value that it keeps.
Requires: names unique; partial results of reductions not joined across loops yet. Ensures: the same contents of every
parameter array, but for the sign of a zero that iterations behind the last one would have added zeros to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dspgen.vecdsl.ir.constant_folding import make, refold
from dspgen.vecdsl.ir.program import Carried, Const, If, Let, Load, Loop, Op, Program, Stmt, Store, Term, Var
from dspgen.vecdsl.ir.terms import (
    INTEGER,
    Names,
    Substitution,
    block_of,
    children,
    integer,
    leaves,
    names_of,
    own_terms,
    statements,
)
from dspgen.vecdsl.loops.peel_last_iteration import bound_names, renamed

VECTORS, NUMBERS = 16, 32  # iterations of a group, where some value that is carried is a vector, and where none is
_GREATEST = (1 << 31) - 1  # what the least of nothing is
_Lanes = tuple[frozenset[tuple[str, int]], ...]  # for each lane, the lanes of variables of which it is the least


def with_early_exits(program: Program, lanes: int) -> Program:
    """The program with its searches and its flagged loops in groups, where these are long enough."""
    if not any(isinstance(s, Loop) and s.carried for s in statements(program.body)):
        return program
    maker = _Maker(program, lanes)
    return replace(program, body=maker.block(program.body))


class _Maker:
    def __init__(self, program: Program, lanes: int) -> None:
        self.program, self.lanes = program, lanes
        self.names = Names.of(program)
        self.lets = {s.name: s.value for s in statements(program.body) if isinstance(s, Let)}

    def block(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        made = list[Stmt]()
        for stmt in body:
            match stmt:
                case Loop() if _is_long(stmt) and not any(isinstance(s, Loop) for s in statements(stmt.body)):
                    over = self.ending(stmt)
                    made += [stmt] if over is None else self.in_groups(stmt, over)
                case Loop():
                    made.append(replace(stmt, body=self.block(stmt.body)))
                case If():
                    made.append(replace(stmt, then=self.block(stmt.then)))
                case _:
                    made.append(stmt)
        return tuple(made)

    def ending(self, loop: Loop) -> Term | None:
        """The condition, of what the loop carries, under which the iterations that follow change nothing."""
        if not loop.carried or loop.step <= 0:
            return None
        roots = list(_roots(self.program.body, loop))
        return self.found(loop, roots) or _settled(loop, {name for term in roots for name in names_of(term)})

    # Searches

    def found(self, loop: Loop, roots: Sequence[Term]) -> Term | None:
        """The condition under which the least iterations that the loop looks for are all found.

        Later iterations have larger numbers. Of lanes, whose numbers lie within one step, only the least of all is read
        behind the loop.
        """
        if not all(isinstance(s, Let) for s in loop.body):
            return None
        parts = {c.name: _Part.of(c, loop, self) for c in loop.carried}
        widths = {c.name: self.lanes if c.init.type.vector else 1 for c in loop.carried}
        joined = _Joined(widths).groups(roots)
        if joined is None:
            return None
        conditions = list[Term]()
        for group in joined:
            members = [part for name in group if (part := parts[name]) is not None]
            limits = {part.limit for part in members}
            low, high = min(p.low for p in members) if members else 0, max((p.high for p in members), default=0)
            if len(members) < len(group) or len(limits) > 1 or len({p.base for p in members}) > 1:
                return None
            if high - low > loop.step or (len(group) > 1 and any(p.begins is not None for p in members)):
                return None
            least = members[0].variable
            for part in members[1:]:
                least = Op("min", (least, part.variable), least.type)
            if least.type.vector:
                least = Op("reduce_min", (least,), INTEGER)
            conditions += [Op("lt", (least, x), INTEGER) for x in (limits.pop(), members[0].begins) if x is not None]
        condition = conditions[0] if conditions else None
        for other in conditions[1:]:
            assert condition is not None
            condition = Op("and", (condition, other), INTEGER)
        return condition

    def whole(self, term: Term) -> Term:
        """The term with the values of names that the program gives values to, as far as it goes."""
        while isinstance(term, Var) and term.name in self.lets:
            term = self.lets[term.name]
        return term

    # The loop of groups

    def in_groups(self, loop: Loop, over: Term) -> list[Stmt]:
        names, done, size = self.names, list[Stmt](), group_of(loop)
        trip = loop.trip
        if not isinstance(trip, Const):
            trip = Var(names.fresh("trips"), INTEGER)
            done.append(Let(trip.name, loop.trip))
        whole = make("shr", (trip, integer(size.bit_length() - 1)), INTEGER)
        left = make("and", (trip, integer(size - 1)), INTEGER)
        group, going = names.fresh(f"{loop.iterator}_group"), Var(names.fresh("going"), INTEGER)
        inside = {name: names.fresh(name) for name in dict.fromkeys(bound_names((loop,)))}
        has_rest = left != integer(0)
        kept = {c.name: names.fresh(c.name) if has_rest else c.name for c in loop.carried}
        inner = renamed(loop, inside)
        assert isinstance(inner, Loop)
        begun = tuple(
            replace(c, init=Var(kept[old.name], old.init.type))
            for c, old in zip(inner.carried, loop.carried, strict=True)
        )
        inner = replace(
            inner, start=Var(group, INTEGER), trip=integer(size), carried=begun, min_trip=size, max_trip=size
        )
        now = Substitution({c.name: Var(inside[c.name], c.init.type) for c in loop.carried}, {})
        carried = [Carried(kept[c.name], c.init, Var(inside[c.name], c.init.type)) for c in loop.carried]
        again = Op("select", (now.term(over), integer(0), integer(1)), INTEGER)
        most = None if loop.max_trip is None else loop.max_trip // size
        done.append(
            Loop(
                group, loop.start, whole, loop.step * size, (*carried, Carried(going.name, integer(1), again)),
                (inner,), loop.min_trip // size, most, loop.loc, going.name,
            )
        )  # fmt: skip
        if has_rest:
            behind = make("mul", (make("sub", (trip, left), INTEGER), integer(loop.step)), INTEGER)
            start = refold(Op("add", (loop.start, behind), INTEGER))
            rest = tuple(replace(c, init=Var(kept[c.name], c.init.type)) for c in loop.carried)
            times = Op("select", (going, left, integer(0)), INTEGER)
            done.append(replace(loop, start=start, trip=times, carried=rest, min_trip=0, max_trip=size - 1))
        return done


def group_of(loop: Loop) -> int:
    """How many iterations are in a group of the loop's: a power of two."""
    return VECTORS if any(c.init.type.vector for c in loop.carried) else NUMBERS


def _is_long(loop: Loop) -> bool:
    """Whether it has two groups, or may have them."""
    return loop.max_trip is None or loop.max_trip >= 2 * group_of(loop)


@dataclass(frozen=True, slots=True)
class _Part:
    """A carried variable that becomes the least of itself, of a `limit`, and of numbers `base + low` to `base + high`
    in some iterations. What it `begins` with, unless that is no less than any number."""

    variable: Term
    limit: Term
    base: tuple[tuple[str, int], ...]
    low: int
    high: int
    begins: Term | None

    @staticmethod
    def of(carried: Carried, loop: Loop, maker: _Maker) -> _Part | None:
        variable = Var(carried.name, carried.init.type)
        if variable.type.elem != "i32":
            return None
        begins = None if carried.init == Const(_GREATEST, variable.type) else carried.init
        operands = list(_least_of(carried.next, maker))
        if operands.count(variable) != 1 or (begins is not None and variable.type.vector):
            return None
        bound = set(bound_names((loop,)))
        limits, numbers = set[Term](), list[_Number]()
        for operand in operands:
            if operand == variable:
                continue
            if not isinstance(operand, Op) or operand.name != "select":
                return None
            test, number, limit = operand.args
            found = _Number.of(number, loop.iterator, bound, maker)
            if found is None or found.turns != 1 or _names(test, maker) & {c.name for c in loop.carried}:
                return None
            numbers.append(found)
            limit = maker.whole(limit)
            limit = maker.whole(limit.args[0]) if isinstance(limit, Op) and limit.name == "bcast" else limit
            limits.add(integer(int(limit.value)) if isinstance(limit, Const) else limit)
        if len(limits) != 1 or len({n.base for n in numbers}) != 1:
            return None
        limit = limits.pop()
        if limit.type != INTEGER or _names(limit, maker) & bound or any(isinstance(x, Load) for x in leaves(limit)):
            return None
        return _Part(
            variable, limit, numbers[0].base, min(n.low for n in numbers), max(n.high for n in numbers), begins
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Number:
    """`turns` times a loop's iterator, and names that the loop leaves alone, plus `low` to `high` in some lane."""

    turns: int
    base: tuple[tuple[str, int], ...]
    low: int
    high: int

    @staticmethod
    def of(term: Term, iterator: str, bound: set[str], maker: _Maker) -> _Number | None:
        match term:
            case Const(value=value):
                return _Number(0, (), int(value), int(value))
            case Var(name) if name == iterator:
                return _Number(1, (), 0, 0)
            case Var(name) if name in maker.lets:
                return _Number.of(maker.lets[name], iterator, bound, maker)
            case Var(name) if name not in bound and not term.type.vector:
                return _Number(0, ((name, 1),), 0, 0)
            case Op(name="iota"):
                return _Number(0, (), 0, maker.lanes - 1)
            case Op(name="bcast", args=(inner,)):
                return _Number.of(inner, iterator, bound, maker)
            case Op(name="add", args=(left, right)):
                a, b = (_Number.of(x, iterator, bound, maker) for x in (left, right))
                if a is None or b is None:
                    return None
                return _Number(a.turns + b.turns, tuple(sorted((*a.base, *b.base))), a.low + b.low, a.high + b.high)
            case _:
                return None


def _least_of(term: Term, maker: _Maker) -> Iterator[Term]:
    term = maker.whole(term)
    if isinstance(term, Op) and term.name == "min":
        for arg in term.args:
            yield from _least_of(arg, maker)
    else:
        yield term


def _names(term: Term, maker: _Maker) -> set[str]:
    """All names that it depends on, by those that the program gives values to as well."""
    found, waiting = set[str](), list(names_of(term))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += names_of(maker.lets[name]) if name in maker.lets else ()
    return found


@dataclass(frozen=True, slots=True)
class _Joined:
    """Which of the variables, of so many lanes each, are read as parts of one least value only, with all their
    lanes."""

    widths: Mapping[str, int]

    def groups(self, roots: Sequence[Term]) -> list[list[str]] | None:
        """The variables that all the terms join; None where one is read otherwise than as the least of its lanes."""
        places: dict[str, list[int]] = {name: [] for name in self.widths}
        count = 0
        known = dict[int, _Lanes | None]()
        for root in roots:
            for read in self._reads(root, known):
                for lane in read:
                    count += 1
                    for name in sorted({n for n, _ in lane}):
                        if sum(n == name for n, _ in lane) != self.widths[name]:
                            return None
                        places[name].append(count)
        groups = dict[tuple[int, ...], list[str]]()
        for name, found in places.items():
            groups.setdefault(tuple(found), []).append(name)
        return list(groups.values())

    def _reads(self, term: Term, known: dict[int, _Lanes | None]) -> Iterator[_Lanes]:
        """What the variables are read as, in the largest terms that only join and move lanes."""
        lanes = self._lanes(term, known)
        if lanes is not None:
            yield lanes
            return
        for child in children(term):
            yield from self._reads(child, known)

    def _lanes(self, term: Term, known: dict[int, _Lanes | None]) -> _Lanes | None:
        if id(term) not in known:
            known[id(term)] = self._joined(term, known)
        return known[id(term)]

    def _joined(self, term: Term, known: dict[int, _Lanes | None]) -> _Lanes | None:
        match term:
            case Var(name) if name in self.widths:
                return tuple(frozenset({(name, k)}) for k in range(self.widths[name]))
            case Op(name="reduce_min", args=(inner,)):
                lanes = self._lanes(inner, known)
                return None if lanes is None else (frozenset().union(*lanes),)
            case Op(name="min" | "even" | "odd" as op, args=(left, right)):
                a, b = (self._lanes(x, known) for x in (left, right))
                if a is None and b is None:
                    return None
                # Of a value that has nothing to do with these variables, nothing is known.
                nothing: _Lanes = (frozenset(),) * len(a or b or ())
                a, b = a or nothing, b or nothing
                if op == "min":
                    return tuple(x | y for x, y in zip(a, b, strict=True))
                return (*a, *b)[0 if op == "even" else 1 :: 2]
            case _:
                return None


def _roots(body: Sequence[Stmt], loop: Loop) -> Iterator[Term]:
    """The terms of statements other than the loop, each whole."""
    for stmt in body:
        if stmt is loop:
            yield from (loop.start, loop.trip, *(c.init for c in loop.carried))
            continue
        yield from own_terms(stmt)
        if isinstance(stmt, Store):
            yield from (Var(name, INTEGER) for name, _ in stmt.address.terms)
        if isinstance(stmt, Loop):
            yield from (c.next for c in stmt.carried)
        yield from _roots(block_of(stmt), loop)


# Flags


def _settled(loop: Loop, read: set[str]) -> Term | None:
    """The condition, of a variable that keeps its value, under which iterations change nothing that is read."""
    for flag in loop.carried:
        if flag.init.type != INTEGER:
            continue
        for value in (0, 1):
            if _changes_nothing(loop, flag.name, integer(value), read):
                return Op("eq", (Var(flag.name, INTEGER), integer(value)), INTEGER)
    return None


def _changes_nothing(loop: Loop, flag: str, value: Const, read: set[str]) -> bool:
    known = Substitution({flag: value}, {})
    for stmt in loop.body:
        match stmt:
            case Let():
                found = _folded(stmt.value, known)
                if isinstance(found, Const | Var):
                    known.terms[stmt.name] = found
            case Store():
                if stmt.mask is None or not _is_zero(_folded(stmt.mask, known)):
                    return False
            case If():
                if not _is_zero(_folded(stmt.condition, known)):
                    return False
            case _:
                return False
    for carried in loop.carried:
        old = value if carried.name == flag else Var(carried.name, carried.init.type)
        if _folded(carried.next, known) != old and (carried.name == flag or carried.name in read):
            return False
    return True


def _folded(term: Term, known: Substitution) -> Term:
    folded = refold(known.term(term))
    match folded:
        case Op(name="add", args=(kept, Const(value=0))):
            return kept
        case _:
            return folded


def _is_zero(term: Term) -> bool:
    return isinstance(term, Const) and not term.value
