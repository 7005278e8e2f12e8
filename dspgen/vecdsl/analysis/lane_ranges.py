"""What numbers the lanes of 32-bit integer terms can hold, of a whole program: from the types of memory and constants
on, through names, and through what loops of known length sum up."""

from __future__ import annotations

from collections.abc import Iterable

from dspgen.vecdsl.analysis.intervals import NARROW_MEMORY, WORD, Interval, interval_of
from dspgen.vecdsl.ir.min_max_select import plain
from dspgen.vecdsl.ir.program import Carried, Const, If, Let, Load, Loop, Op, Program, Stmt, Store, Term, Var


class ValueRanges:
    """Requires: names unique."""

    def __init__(self, program: Program) -> None:
        self._names: dict[str, Interval | None] = {}
        self._lets: dict[str, Term] = {}
        self._sums: dict[str, tuple[Carried, int | None]] = {}
        self._known: dict[int, tuple[Term, Interval | None]] = {}
        self._block(program.body)

    def of(self, term: Term) -> Interval | None:
        """Bounds of the term's value; None where they aren't known to hold without wrapping."""
        known = self._known.get(id(term))
        if known is None:
            known = self._known[id(term)] = term, self._of(term)
        return known[1]

    def _of(self, term: Term) -> Interval | None:
        match term:
            case Const(value):
                return (value, value) if isinstance(value, int) else None
            case Var(name):
                return self._names.get(name)
            case Load():
                found = NARROW_MEMORY.get(term.elem)
                return found if found is None or term.mask is None else (min(found[0], 0), found[1])
            case Op() if term.type.elem == "i32":
                term = plain(term)
                return interval_of(term.name, term.type.elem, [self.of(a) for a in term.args])
            case _:
                return None

    def _block(self, body: Iterable[Stmt]) -> None:
        for stmt in body:
            match stmt:
                case Let(name, value):
                    self._lets[name] = value
                    self._names[name] = self.of(value)
                case Loop():
                    self._loop(stmt)
                case If():
                    self._block(stmt.then)
                case Store():
                    pass

    def _loop(self, loop: Loop) -> None:
        """What is carried is known from the iterations' own share, which must not depend on it."""
        trip = int(loop.trip.value) if isinstance(loop.trip, Const) else loop.max_trip
        self._names |= dict.fromkeys((c.name for c in loop.carried), None)
        self._sums |= {c.name: (c, trip) for c in loop.carried}
        self._block(loop.body)
        found = {c.name: self._carried(c, trip) for c in loop.carried}
        if any(found.values()):
            self._names |= found
            self._known = {}
            self._block(loop.body)

    def _carried(self, carried: Carried, trip: int | None) -> Interval | None:
        start = self.of(carried.init)
        if start is None or carried.init.type.elem != "i32":
            return None
        if (most := self._extreme(carried)) is not None:
            return min(start[0], most[0]), max(start[1], most[1])
        step = None if trip is None else self._change(carried.next, carried.name)
        if step is None or trip is None:
            return None
        low, high = start[0] + min(trip * step[0], 0), start[1] + max(trip * step[1], 0)
        return (low, high) if WORD[0] <= low and high <= WORD[1] else None

    def _extreme(self, carried: Carried) -> Interval | None:
        """What a least or greatest value so far is compared with."""
        following = plain(carried.next) if isinstance(carried.next, Op) else carried.next
        if not isinstance(following, Op) or following.name not in ("min", "max"):
            return None
        others = [a for a in following.args if not (isinstance(a, Var) and a.name == carried.name)]
        return self.of(others[0]) if len(others) == 1 else None

    def _change(self, term: Term, base: str) -> Interval | None:
        """Bounds of a term less the value of a name, where that is a summand of it."""
        match term:
            case Var(name) if name == base:
                return 0, 0
            case Var(name) if name in self._lets:
                return self._change(self._lets[name], base)
            case Var(name) if name in self._sums:
                inner, trip = self._sums[name]
                before, step = self._change(inner.init, base), self._change(inner.next, name)
                if before is None or step is None or trip is None:
                    return None
                return before[0] + min(trip * step[0], 0), before[1] + max(trip * step[1], 0)
            case Op(name="add", args=(a, b)):
                return _sum(self._change(a, base), self.of(b)) or _sum(self._change(b, base), self.of(a))
            case Op(name="sub", args=(a, b)):
                other = self.of(b)
                return _sum(self._change(a, base), None if other is None else (-other[1], -other[0]))
            case _:
                return None


def _sum(a: Interval | None, b: Interval | None) -> Interval | None:
    return None if a is None or b is None else (a[0] + b[0], a[1] + b[1])
