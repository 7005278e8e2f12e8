"""Vectors stored whole though only some of their lanes run, where what the others write is surely written again.

Before: loop i < 61 { store y[126 i ..] active 126 }; store y[126 * 61 ..] active 126, in vectors of 128 elements.
After:  loop i < 61 { store y[126 i ..] }; store y[126 * 61 ..] active 126.
Requires: names unique. Ensures: the same contents of all arrays in the end; nothing reads an element meanwhile that
should have kept what it held, and nothing outside the array is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dspgen.target.isa.model import Target
from dspgen.target.query.operations import OperationTable
from dspgen.vecdsl.analysis.integer_ranges import readable
from dspgen.vecdsl.analysis.touched_elements import lane_elements
from dspgen.vecdsl.ir.program import Address, Const, If, Load, Loop, Program, Stmt, Store, lanes_of
from dspgen.vecdsl.ir.terms import Substitution, leaves, terms_in
from dspgen.vecdsl.lanes.interleaved_stores import active_lanes


def whole_where_overwritten(program: Program, target: Target) -> Program:
    """On machines whose stores know no lanes' predicates, so that stores of some lanes are dear."""
    rows = OperationTable(target).forms("vst", "i32")
    if not rows or any(f.instruction.predicable == "lane" for f in rows):
        return program
    worker = _Worker(target.lanes, readable(program))
    return replace(program, body=worker.block(program.body, lambda left: False))


@dataclass(frozen=True, slots=True)
class _Left:
    """Elements of an array, counted from the variable part of an address, that must still be written."""

    array: str
    terms: tuple[tuple[str, int], ...]
    elements: frozenset[int]

    def at(self, name: str, value: int) -> _Left:
        """The same, where an iterator has a value."""
        return self._moved(name, value, keep=False)

    def before(self, name: str, step: int) -> _Left:
        """The same, told by the iterator's value an iteration later."""
        return self._moved(name, -step, keep=True)

    def _moved(self, name: str, value: int, *, keep: bool) -> _Left:
        by = dict(self.terms).get(name, 0) * value
        terms = self.terms if keep else tuple(t for t in self.terms if t[0] != name)
        return _Left(self.array, terms, frozenset(e + by for e in self.elements))


_NOTHING = Substitution({}, {})
_Follow = Callable[[_Left], bool]


@dataclass(frozen=True, slots=True)
class _Worker:
    lanes: int
    inside: Callable[[str, Address, int, int], bool]

    def block(self, body: tuple[Stmt, ...], follow: _Follow) -> tuple[Stmt, ...]:
        """`follow` tells whether what is run after the block writes all that is left."""
        out: list[Stmt] = []
        for position, stmt in enumerate(body):
            rest = body[position + 1 :]

            def later(left: _Left, rest: Sequence[Stmt] = rest) -> bool:
                after = self._scanned(left, rest, _NOTHING)
                return after is not None and (not after.elements or follow(after))

            match stmt:
                case Store() if (left := self._left(stmt)) is not None and later(left):
                    out.append(replace(stmt, active=None))
                case Loop():
                    out.append(replace(stmt, body=self.block(stmt.body, self._around(stmt, later))))
                case If():
                    out.append(replace(stmt, then=self.block(stmt.then, lambda left: False)))
                case _:
                    out.append(stmt)
        return tuple(out)

    def _around(self, loop: Loop, later: _Follow) -> _Follow:
        """What follows a loop's body: the body again, and after the last iteration what is behind the loop."""

        def follow(left: _Left) -> bool:
            if not isinstance(loop.trip, Const) or not isinstance(loop.start, Const) or _reads((loop,), left.array):
                return False
            trip, start = int(loop.trip.value), int(loop.start.value)
            if trip > 1:
                again = self._scanned(left.before(loop.iterator, loop.step), loop.body, _NOTHING)
                if again is None or again.elements:
                    return False
            return later(left.at(loop.iterator, start + (trip - 1) * loop.step))

        return follow

    def _left(self, store: Store) -> _Left | None:
        """What a contiguous store of some lanes would write besides; None of others, or where it isn't in the array."""
        count, whole = active_lanes(store, self.lanes), lanes_of(store.value.type, self.lanes)
        if not store.value.type.vector or not store.plain or store.stride != 1 or count >= whole:
            return None
        if not self.inside(store.array, store.address, 0, whole - 1):
            return None
        first = store.address.constant
        return _Left(store.array, store.address.terms, frozenset(range(first + count, first + whole)))

    def _scanned(self, left: _Left, body: Sequence[Stmt], known: Substitution) -> _Left | None:
        """What the statements leave unwritten, iterators having `known` values; None where they may read some of it."""
        for stmt in body:
            if not left.elements:
                return left
            if _reads((stmt,), left.array):
                return None
            match stmt:
                case Store() if stmt.array == left.array and stmt.plain:
                    place = known.address(stmt.address)
                    if place.terms == left.terms:
                        count = active_lanes(stmt, self.lanes) if stmt.value.type.vector else 1
                        written = lane_elements(replace(stmt, address=place), count)
                        left = replace(left, elements=left.elements.difference(written))
                case Loop() if stmt.min_trip > 0 and isinstance(stmt.start, Const):
                    first = {**known.addresses, stmt.iterator: Address(int(stmt.start.value))}
                    scanned = self._scanned(left, stmt.body, Substitution({}, first))
                    assert scanned is not None
                    left = scanned
                case _:
                    pass
        return left


def _reads(body: Sequence[Stmt], array: str) -> bool:
    return any(isinstance(leaf, Load) and leaf.array == array for term in terms_in(body) for leaf in leaves(term))
