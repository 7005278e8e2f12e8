"""The piece for the block at hand: which one it is, what it is given, and its code as a part of the function."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce

from dspgen.asmir.dma.buffer_placement import Moved
from dspgen.asmir.dma.descriptors import I32, ONE, ZERO, amount, first_of, lacking, left_before, low_half, smaller
from dspgen.asmir.dma.names import at, last
from dspgen.asmir.dma.tile_counts import batches, groups
from dspgen.asmir.ir.function import Function, If, Item, Reg, VReg
from dspgen.asmir.ir.rename import prefixed
from dspgen.asmir.select.code_sections import section, set_variable
from dspgen.asmir.select.emitter import Emitter
from dspgen.target.isa.model import Target
from dspgen.vecdsl.ir.program import Const, Op, Term, Var
from plant_core.ir.tile_loop import Counter
from plant_core.scratchpad.buffers import (
    BETWEEN,
    FIRST,
    LAST,
    NOTHING,
    ONLY,
    SHORT,
    SHORT_FIRST,
    SHORT_LAST,
    SHORT_ONLY,
    Kind,
    Left,
    Place,
    Test,
    Window,
)
from plant_core.support.location import Loc


@dataclass(frozen=True, slots=True)
class Piece:
    """The code of one kind of block; `given`: its inputs by name."""

    function: Function
    given: tuple[tuple[VReg, str], ...]


@dataclass(frozen=True, slots=True)
class BlockedNest:
    """See `plant_core.scratchpad.tiled_func.Blocks`. `outer`: the counters of `Round`s, which come first."""

    counters: tuple[Counter, ...]
    windows: tuple[Moved, ...]
    pieces: tuple[Piece, ...]
    piece: Mapping[Place, int]
    origins: tuple[tuple[str, int], ...]
    counts: tuple[tuple[str, int, int], ...]
    kinds: tuple[Kind, ...] = ()
    outer: int = 0
    loc: Loc | None = None
    left: Mapping[int, Left] = field(default_factory=dict)

    def is_open(self, counter: int) -> bool:
        """Whether only the run tells how many iterations a counter has."""
        return self.counters[counter].extent is not None

    @property
    def open(self) -> bool:
        return any(self.is_open(k) for k in range(len(self.counters)))


@dataclass(frozen=True, slots=True)
class Round:
    """Nests that are done one after the other for each block of a counter."""

    counter: Counter
    nests: tuple[Nest, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    """A nest in blocks of several forms: each for arrays that those before it have no room for."""

    nests: tuple[BlockedNest, ...]


Nest = BlockedNest | Round | OneOf
Around = tuple[list[Item], list[Item]]


def piece_prefix(nest: int, piece: int) -> str:
    """What the labels and registers of a nest's piece begin with in the function that it is a part of."""
    return f"b{nest}.{piece}."


def lone_prefix(nest: int, piece: int) -> str:
    """The same for the copy of a piece that runs where its block is the only one."""
    return f"{piece_prefix(nest, piece)}lone."


@dataclass(frozen=True, slots=True)
class Dispatch:
    """For the nest of this `number`: `place` tells where a window of the block at hand is, `high` is the high half of
    all such pointers, where pieces want it."""

    nest: BlockedNest
    number: int
    target: Target
    emitter: Emitter
    place: Callable[[Moved], Term]
    high: Reg | None

    def items(self, around: Around | None = None) -> list[Item]:
        """The pieces, each under the condition that the counters are at one of its places, in a block of its kinds.
        `around`: what comes before and after them, where there is one of them."""
        before, after = around or ([], [])
        if not self.nest.kinds and len(set(self.nest.piece.values())) == 1:
            return [*before, *self.inlined(0), *after]
        if self.nest.open:
            return [*before, *self._by_number(), *after]
        items, kinds = self._kinds()
        ways = {}
        for number in range(len(self.nest.pieces)):
            found: list[Term] = []
            for is_kind, piece in kinds:
                places = [place for place, n in piece.items() if n == number]
                if places:
                    found.append(_all(t for t in (is_kind, self._is_one_of(places)) if t != ONE))
            way = ways[number] = self.emitter.fresh(self.emitter.classes.scalar.name, "way")
            self.emitter.names[f"way.{number}"] = Reg(way)
            items += self._setting(f"way.{number}", _any(found))
        pieces = [If(way, tuple(self.inlined(number))) for number, way in ways.items()]
        if around is None or all(NOTHING not in piece.values() for _, piece in kinds):
            return [*items, *before, *pieces, *after]
        some = self.emitter.fresh(self.emitter.classes.scalar.name, _SOME)
        self.emitter.names[_SOME] = Reg(some)
        items += self._setting(_SOME, _any([Var(f"way.{number}", I32) for number in ways]))
        return [*items, If(some, tuple(before)), *pieces, If(some, tuple(after))]

    def lone(self) -> int | None:
        """The piece for a block that is the only one, and short, as only the run tells; None where none always is, or
        where it is the piece for all others, too."""
        nest = self.nest
        if len(nest.pieces) == 1:
            return None
        closed = (c.trips for c in nest.counters if c.extent is None)
        if not nest.open or nest.kinds or any(trips > 1 for trips in closed):
            return None
        numbers = {n for p, n in nest.piece.items() if not SHORT.isdisjoint(p) and _LONE.issuperset(p)}
        return numbers.pop() if len(numbers) == 1 else None

    def _kinds(self) -> tuple[list[Item], list[tuple[Term, Mapping[Place, int]]]]:
        """What finds out of which kind a block is; of each kind whether it is, and its pieces by place. The rest comes
        last."""
        items: list[Item] = []
        found: list[tuple[Term, Mapping[Place, int]]] = []
        for k, kind in enumerate(self.nest.kinds):
            name = f"kind.{k}"
            self.emitter.names[name] = Reg(self.emitter.fresh(self.emitter.classes.scalar.name, name))
            items += self._setting(name, _all(map(_holds, kind.tests)))
            found.append((Var(name, I32), kind.piece))
        rest = [Op("xor", (is_kind, ONE), I32) for is_kind, _ in found]
        return items, [*found, (_all(rest), self.nest.piece)]

    def _setting(self, name: str, term: Term) -> list[Item]:
        return section(self.emitter, partial(set_variable, self.emitter, name, term))

    def _by_number(self) -> list[Item]:
        """The same where counters have more kinds of blocks: the piece's number is found by asking what tells."""
        scalar = self.emitter.classes.scalar.name
        self.emitter.names |= {n: Reg(self.emitter.fresh(scalar, "way")) for n in (_SHORT, _WAY)}

        def found() -> None:
            short: Term = ZERO
            for k, counter in enumerate(self.nest.counters):
                if self.nest.is_open(k):
                    lacks = Op("lt", (ZERO, Var(lacking(k), I32)), I32)
                    short = Op("or", (short, Op("and", (Var(last(k), I32), lacks), I32)), I32)
                    if counter.adapts:
                        short = Op("or", (short, Op("lt", (ZERO, Var(smaller(k), I32)), I32)), I32)
            set_variable(self.emitter, _SHORT, short)
            set_variable(self.emitter, _WAY, self._asked(self.nest.piece))

        items = section(self.emitter, found)
        for n in range(len(self.nest.pieces)):
            way = self.emitter.names[f"way.{n}"] = Reg(self.emitter.fresh(scalar, "way"))
            items += self._setting(f"way.{n}", Op("eq", (Var(_WAY, I32), Const(n, I32)), I32))
            items.append(If(way.vreg, tuple(self.inlined(n))))
        return items

    def _asked(self, places: Mapping[Place, int]) -> Term:
        """The number of the piece for a block at one of these places."""
        numbers = set(places.values())
        if len(numbers) == 1:
            return Const(numbers.pop(), I32)
        questions: list[tuple[Term, Callable[[Place], bool]]] = [
            (Var(_SHORT, I32), lambda place: not SHORT.isdisjoint(place))
        ]
        for k in range(len(self.nest.counters)):
            first = Op("eq", (Var(at(k), I32), ZERO), I32)
            questions.append((first, partial(_is_at, k, (FIRST, SHORT_FIRST, ONLY, SHORT_ONLY))))
            questions.append((Var(last(k), I32), partial(_is_at, k, (LAST, ONLY, SHORT_LAST, SHORT_ONLY))))
        best: tuple[int, Term, dict[Place, int], dict[Place, int]] | None = None
        for question, holds in questions:
            yes = {p: n for p, n in places.items() if holds(p)}
            no = {p: n for p, n in places.items() if not holds(p)}
            left = len(set(yes.values())) + len(set(no.values()))
            if yes and no and (best is None or left < best[0]):
                best = left, question, yes, no
        assert best is not None
        return Op("select", (best[1], self._asked(best[2]), self._asked(best[3])), I32)

    def _is_one_of(self, places: list[Place]) -> Term:
        """Whether the block is at one of the places: 0 or 1."""
        every = range(len(self.nest.counters))
        sets = [{p[k] for p in places} for k in every]
        if len(places) == math.prod(map(len, sets)):
            known = [{p[k] for p in self.nest.piece} for k in every]
            return _all(_is_any(k, sets[k]) for k in every if sets[k] != known[k])
        singles = [_all(_is_any(k, {p[k]}) for k in every) for p in places]
        return _any(singles)

    def inlined(self, number: int, *, lone: bool = False) -> list[Item]:
        """The code of a piece; or a copy of it, for where its block is the only one."""
        piece = self.nest.pieces[number]
        prefix = (lone_prefix if lone else piece_prefix)(self.number, number)
        origins, counts = dict(self.nest.origins), {n: count for n, *count in self.nest.counts}
        left = {name: k for k, told in self.nest.left.items() for name in (told.before, told.behind, told.every)}

        def given() -> None:
            for register, name in piece.given:
                made = Reg(VReg(prefix + register.name, register.cls))
                moved = next((m for m in self.nest.windows if m.window.name == name), None)
                if moved is not None:
                    low = low_half(made, self.target)
                    self.emitter.lower(self.place(moved), low)
                    if low != made and self.high is not None:
                        self.emitter.move(Reg(made.vreg, "hi"), self.high)
                elif name in origins:
                    first = first_of(self.nest.counters, origins[name], at)
                    lowest = Const(self.nest.counters[origins[name]].low, I32)
                    self.emitter.lower(Op("add", (first, lowest), I32), made)
                elif name in counts:
                    self.emitter.lower(self._count(*counts[name]), made)
                elif name in left:
                    self.emitter.lower(self._left(left[name], name), made)
                else:
                    self.emitter.move(made, self.emitter.names[name])

        return [*section(self.emitter, given), *prefixed(piece.function.body, prefix)]

    def _left(self, k: int, name: str) -> Term:
        """How many iterations of a counter are left, before the block at hand, behind it, or altogether."""
        told, counters = self.nest.left[k], self.nest.counters
        first = first_of(counters, k, at)
        before = left_before(first, told.most[0])
        if name == told.before:
            return before
        extent, own = counters[k].extent, groups(counters, k, Var(last(k), I32))
        assert extent is not None
        rest = Op("sub", (amount(extent), Op("add", (first, own), I32)), I32)
        behind = Op("min", (rest, Const(told.most[1], I32)), I32)
        return behind if name == told.behind else Op("add", (Op("add", (before, own), I32), behind), I32)

    def _count(self, k: int, batch: int) -> Term:
        """How many groups of a counter's iterations the block at hand has, or batches of them."""
        number = groups(self.nest.counters, k, Var(last(k), I32))
        sizes = self.nest.counters[k].batches
        return number if sizes is None else batches(number, sizes)[batch]


_LONE = frozenset({ONLY, SHORT_ONLY})
_SHORT = "short block"
_SOME = "some piece"
_WAY = "way"


def _is_any(k: int, where: set[int]) -> Term:
    """Whether the block is at one of a counter's places."""
    if where == {ONLY}:
        return ONE
    is_first, is_last = Op("eq", (Var(at(k), I32), ZERO), I32), Var(last(k), I32)
    ways: dict[int, Term] = {FIRST: is_first, LAST: is_last}
    if BETWEEN not in where:
        return _any([ways[place] for place in sorted(where)])
    others = [ways[place] for place in (FIRST, LAST) if place not in where]
    return _all(Op("xor", (other, ONE), I32) for other in others)


def _is_at(counter: int, where: Collection[int], place: Place) -> bool:
    return place[counter] in where


def has_place(window: Window) -> Term:
    """Whether the block at hand has a window for itself: 0 or 1."""
    ways = (_all(_holds(Test(margin, 0)) for margin in one) for one in window.unless)
    return _all(Op("xor", (way, ONE), I32) for way in ways)


def _holds(test: Test) -> Term:
    """Whether a test of the block at hand holds: 0 or 1."""
    margin: Term = Const(test.margin.constant - (test.value or 0), I32)
    for k, factor in test.margin.factors:
        margin = Op("add", (margin, Op("mul", (Var(at(k), I32), Const(factor, I32)), I32)), I32)
    if test.value is not None:
        return Op("eq", (margin, ZERO), I32)
    return Op("xor", (Op("lt", (margin, ZERO), I32), ONE), I32)


def _any(terms: Sequence[Term]) -> Term:
    return reduce(lambda a, b: Op("or", (a, b), I32), terms)


def _all(terms: Iterable[Term]) -> Term:
    found: Term = ONE
    for term in terms:
        found = term if found is ONE else Op("and", (found, term), I32)
    return found
