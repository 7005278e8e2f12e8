"""Masks of lanes before or from a place on, where one predicate governs several lanes: windows of tables, each alike in
the lanes of a group.

A table is a run of ones and a run of zeros, so that its window at `H - n` is the mask `lane < n`. Where a group is cut,
the whole groups are selected by one window, and the group that is cut by one of a single group, from what its own lanes
are of both values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from dspgen.vecdsl.analysis.congruence import Congruences
from dspgen.vecdsl.analysis.integer_ranges import Ranges, with_inner_loops
from dspgen.vecdsl.ir.program import ELEM_BYTES, Address, ArrayDecl, Const, Load, Op, Program, Stmt, Store, Term, VType
from dspgen.vecdsl.ir.terms import Names, linear_address, make_address, map_terms, terms_in

FARTHEST = 4  # vectors that a mask's place may be away from the first lane: tables are twice as long at most
WORDS, WORD = VType("i32", True), VType("i32", False)
Pattern = tuple[int, ...]
Kind = Literal["before", "from", "at"]  # lanes before a place, from it on, or of the group there


@dataclass(frozen=True, slots=True)
class _Cut:
    """A mask that holds in the lanes before `place`, or from there on."""

    place: Address
    before: bool


def group_masks(program: Program, lanes: int, group: int, joins: Callable[[Pattern], bool]) -> Program:
    """Selects by masks of the first or the last lanes as selects by masks that are alike in groups of `group` lanes.

    Before: `select(lane < n, a, b)`, n odd, of lanes in twos.
    After: `select(alike(ones[n - 1]), a, select(alike(one[n - 1]), a0 b1 a2 b3 ..., b))`.
    Requires: `joins(pattern)` tells whether the machine has a shuffle of two vectors. Ensures: the same values. Masks
    stay whose place isn't known modulo the group, or may be far from the lanes.
    """
    selects = (t for t in terms_in(program.body) if isinstance(t, Op) and t.name == "select")
    if group == 1 or all(_cut(t.args[0]) is None for t in selects):
        return program
    worker = _Worker(program, lanes, group, joins)
    body = tuple(map_terms(s, worker.term) for s in program.body)
    arrays = tuple(ArrayDecl(name, "i32", 2 * span, True) for (_, span), name in worker.tables.items())
    filled = [s for (kind, span), name in worker.tables.items() for s in _stores(name, kind, span, lanes, group)]
    return replace(program, arrays=(*program.arrays, *arrays), body=(*filled, *body))


def _stores(name: str, kind: Kind, span: int, lanes: int, group: int) -> list[Stmt]:
    """What fills a table, which changes at `span`."""
    vectors: list[Stmt] = []
    for k in range(0, 2 * span, lanes):
        holds = k < span if kind == "before" else k >= span and kind == "from"
        vectors.append(Store(name, Address(k), 1, "i32", Const(-1 if holds else 0, WORDS)))
    single = [Store(name, Address(span + k), 1, "i32", Const(-1, WORD)) for k in range(group) if kind == "at"]
    return [*vectors, *single]


@dataclass(slots=True)
class _Worker:
    """`tables`: their names, by what they are for and where they change."""

    program: Program
    lanes: int
    group: int
    joins: Callable[[Pattern], bool]
    tables: dict[tuple[Kind, int], str] = field(default_factory=dict)
    done: dict[Term, Term] = field(default_factory=dict)
    names: Names = field(init=False)
    congruences: Congruences = field(init=False)
    ranges: Ranges = field(init=False)

    def __post_init__(self) -> None:
        self.names = Names.of(self.program)
        self.congruences = Congruences(self.program)
        self.ranges = with_inner_loops(Ranges(), self.program.body)

    def term(self, term: Term) -> Term:
        if not isinstance(term, Op):
            return term
        if term not in self.done:
            args = tuple(map(self.term, term.args))
            same = all(new is old for new, old in zip(args, term.args, strict=True))
            made = term if same else replace(term, args=args)
            self.done[term] = self._select(made) if term.name == "select" else made
        return self.done[term]

    def _select(self, op: Op) -> Op:
        cut = _cut(op.args[0])
        if cut is None or ELEM_BYTES[op.type.elem] != ELEM_BYTES["i32"]:
            return op
        rest = self.congruences.modulo(cut.place, self.group)
        span = None if rest is None else self._span(cut.place)
        if rest is None or span is None:
            return op
        _, chosen, other = op.args
        whole = cut.place.plus(-rest)
        if rest:
            pattern = tuple(k if (k % self.group < rest) == cut.before else self.lanes + k for k in range(self.lanes))
            if not self.joins(pattern):
                return op
            joined = Op("shuffle2", (chosen, other), op.type, pattern)
            other = Op("select", (self._window("at", span, whole), joined, other), op.type)
        inside = whole.plus(self.group) if rest and not cut.before else whole
        return replace(op, args=(self._window("before" if cut.before else "from", span, inside), chosen, other))

    def _window(self, kind: Kind, span: int, place: Address) -> Term:
        """The mask that changes at a place between groups."""
        if (kind, span) not in self.tables:
            self.tables[kind, span] = self.names.fresh(f"lanes_{kind}")
        at = make_address(span - place.constant, {n: -c for n, c in place.terms})
        return Op("alike", (Load(self.tables[kind, span], at, 1, "i32", WORDS),), WORDS)

    def _span(self, place: Address) -> int | None:
        """Where a table must change so that all windows for masks that change near the place lie in it."""
        low, high = self.ranges.minimum(place), self.ranges.maximum(place)
        if low is None or high is None:
            return None
        # The place may be rounded up, and down.
        farthest = max(high - high % -self.group, self.lanes - (low - low % self.group))
        span = self.lanes * -(-farthest // self.lanes)
        return span if span <= FARTHEST * self.lanes else None


def _cut(mask: Term) -> _Cut | None:
    """The mask as one of the first or the last lanes; what isn't 0 holds."""
    match mask:
        case Op("mask_first", (), imm=(count,)):
            return _Cut(Address(count), True)
        case Op("lt", (Op("iota"), limit)) | Op("shr", (Op("sub", (Op("iota"), limit)), Const(31))):
            place = _same(limit)
            return None if place is None else _Cut(place, True)
        case Op("add", (Op("shr", (Op("add", (Op("iota"), limit)), Const(31))), Const(1))):
            place = _same(limit)
            return (
                None if place is None else _Cut(make_address(-place.constant, {n: -c for n, c in place.terms}), False)
            )
        case _:
            return None


def _same(term: Term) -> Address | None:
    """The value that all lanes have, as an affine form."""
    match term:
        case Const(int() as value):
            return Address(value)
        case Op("bcast", (inner,)):
            return linear_address(inner)
        case _:
            return None
