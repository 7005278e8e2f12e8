"""One function out of functions for blocks of a nest: a loop over the blocks, and transfers of their windows.

Before: pieces, each the code for one kind of block, on windows in near memory.
After:  fetch the first block's windows; for each block: start to fetch the next one's, compute, start to put back what
        it wrote, wait for what was fetched. A window that moves has two places, and each block takes the other one.

The words that start a transfer, and the wait for its end, are in `transfers.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial, reduce

from dspgen.asmir.counting import NUMBER, groups, measured
from dspgen.asmir.emitter import Emitter
from dspgen.asmir.ir import Function, If, Item, Loop, Reg, VReg
from dspgen.asmir.pointers import Pointers
from dspgen.asmir.rename import prefixed
from dspgen.asmir.transfers import (
    I32,
    ONE,
    ZERO,
    Engine,
    Moved,
    amount,
    end,
    iterations,
    lacking,
    low_half,
    place_bytes,
    smaller,
)
from dspgen.errors import NoSchedule, Problem
from dspgen.target.model import Dma, Side, Target
from dspgen.target.operations import OperationTable
from dspgen.vecdsl.ir import ArrayDecl, Const, Op, Program, ScalarDecl, Term, Var
from plant_core.loc import Loc
from plant_core.windows import (
    BETWEEN,
    FIRST,
    LAST,
    ONLY,
    SHORT,
    SHORT_FIRST,
    SHORT_LAST,
    SHORT_ONLY,
    Counter,
    Place,
    Window,
)

_FRAME = "frame of the blocks"


@dataclass(frozen=True, slots=True)
class Piece:
    """The code of one kind of block; `given`: its inputs by name."""

    function: Function
    given: tuple[tuple[VReg, str], ...]


@dataclass(frozen=True, slots=True)
class BlockedNest:
    """See `plant_core.blocks.Blocks`."""

    counters: tuple[Counter, ...]
    windows: tuple[Moved, ...]
    pieces: tuple[Piece, ...]
    piece: Mapping[Place, int]
    origins: tuple[tuple[str, int], ...]
    counts: tuple[tuple[str, int], ...]
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Blocked:
    """A function of nests in blocks, one after the other. `arrays`: parameter arrays; `scalars`: the other parameters;
    `params`: all of them in the function's order. Windows of one array that is nowhere else are one place."""

    name: str
    params: tuple[str, ...]
    arrays: tuple[ArrayDecl, ...]
    scalars: tuple[ScalarDecl, ...]
    nests: tuple[BlockedNest, ...]

    @property
    def sized(self) -> list[Window]:
        """Windows of all of an array whose size is known at run time only; of each array those with different rooms."""
        found = (m.window for nest in self.nests for m in nest.windows if m.window.extents)
        return list({(w.buf, w.shape): w for w in found}.values())


def piece_prefix(nest: int, piece: int) -> str:
    """What the labels and registers of a nest's piece begin with in the function that it is a part of."""
    return f"b{nest}.{piece}."


def composed(blocked: Blocked, target: Target) -> Function:
    """The function. Raises NoSchedule where the machine has no engine, too few channels, or too little memory."""
    if target.dma is None:
        what = f"{target.name} has no engine that moves data onto the chip"
        raise NoSchedule(Problem("DG317", what, None, "describe one in [dma]"))
    return _Composer(blocked, target, target.dma).run()


class _Composer:
    def __init__(self, blocked: Blocked, target: Target, dma: Dma) -> None:
        self.blocked, self.target, self.dma = blocked, target, dma
        self.emitter = Emitter(target, OperationTable(target))
        self.nest = blocked.nests[0]
        self.offsets: dict[tuple[int, str], int] = {}  # of a nest's window its place in the frame
        frame = max((b for n in blocked.nests for p in n.pieces for _, b in p.function.below), default=0)
        size = self._placed() + frame
        places = (ArrayDecl(_FRAME, "i32", -(-size // 4), True),)
        self.program = Program(blocked.name, blocked.params, (*blocked.arrays, *places), blocked.scalars, ())
        self.pointers = Pointers(self.program, target, self.emitter)
        self.engine: Engine
        self.number = 0

    def _placed(self) -> int:
        """Give each window its place: what lives on from nest to nest first. Returns the bytes of all."""
        kept: dict[str, int] = {}
        size = 0
        for nest in self.blocked.nests:
            for moved in nest.windows:
                if not moved.window.outside and moved.window.buf not in kept:
                    kept[moved.window.buf] = size
                    size += place_bytes(moved.bytes)
        most = size
        for number, nest in enumerate(self.blocked.nests):
            at = size
            for moved in nest.windows:
                if moved.window.outside:
                    self.offsets[number, moved.window.name] = at
                    at += place_bytes(moved.bytes) * (1 + moved.twice)
                else:
                    self.offsets[number, moved.window.name] = kept[moved.window.buf]
            most = max(most, at)
        return most

    def run(self) -> Function:
        inputs = self.pointers.inputs()
        items = self._section(self.pointers.enter)
        nests: list[Item] = []
        for number, nest in enumerate(self.blocked.nests):
            self.number, self.nest = number, nest
            nests += self._whole_nest()
        items += self._where_they_fit(nests)
        below: tuple[tuple[Side, int], ...] = (("vector", max(self.pointers.frame.values(), default=0)),)
        return Function(self.blocked.name, inputs, tuple(items), below=below)

    def _where_they_fit(self, items: list[Item]) -> list[Item]:
        """What is run if there is room for all arrays whose sizes are known at run time only."""
        found: Term = ONE
        for window in self.blocked.sized:
            for extent, most in zip(window.extents, window.shape, strict=True):
                if not isinstance(extent, int):
                    fits = Op("lt", (amount(extent), Const(most + 1, I32)), I32)
                    found = fits if found is ONE else Op("and", (found, fits), I32)
        if found is ONE:
            return items
        register = self.emitter.fresh(self.emitter.classes.scalar.name, "fits")
        self.emitter.names[_FITS] = Reg(register)
        return [*self._section(lambda: self._set(_FITS, found)), If(register, tuple(items))]

    def _whole_nest(self) -> list[Item]:
        nest, name = self.nest, f"{self.blocked.name}_blocks{self.number}"
        self.engine = Engine(name, nest.windows, nest.counters, self.target, self.dma, self.emitter, self.pointers)
        scalar = self.emitter.classes.scalar.name
        for k in range(len(nest.counters)):
            for made in (_at(k), _next(k), _step(k), _last(k)):
                self.emitter.names[made] = Reg(self.emitter.fresh(scalar, made))
        items: list[Item] = []
        trips: int | VReg = math.prod(c.trips for c in nest.counters)
        if any(self._open(k) for k in range(len(nest.counters))):
            items += self._section(self._measure)
            trips = self.emitter.names[NUMBER].vreg
        items += self._section(self._begin)
        if trips == 1:
            items += self._section(partial(self._at_ends, next_=False)) + self._dispatch()
        else:
            body = tuple(self._block())
            least = trips if isinstance(trips, int) else 1
            items.append(Loop(name, f"{name}.k", 1, trips, (), body, min_trip=least, pipeline=False, loc=nest.loc))
        return items + self._section(self._end)

    def _open(self, counter: int) -> bool:
        return self.nest.counters[counter].extent is not None

    # -- code

    def _measure(self) -> None:
        """Find out what is known of blocks when the function runs."""
        known = set[str]()
        for name, term in measured(self.nest.counters, self.nest.windows, self.dma):
            if name not in known:
                self.emitter.names[name] = Reg(self.emitter.fresh(self.emitter.classes.scalar.name, name))
                known.add(name)
            self._set(name, term)

    def _section(self, action: Callable[[], None]) -> list[Item]:
        """What `action` emits; constants are made where they are used."""
        emitter = self.emitter
        saved, sink = emitter.items, emitter.sink
        section: list[Item] = []
        emitter.items = emitter.sink = section
        self._forget()
        action()
        self._forget()
        emitter.items, emitter.sink = saved, sink
        return section

    def _forget(self) -> None:
        self.emitter.values.clear()
        self.emitter.constants.clear()
        self.emitter.forget_registers()

    def _set(self, name: str, term: Term) -> None:
        """Give a variable a new value."""
        self.emitter.values.clear()
        self.emitter.lower(term, self.emitter.names[name])
        self.emitter.values.clear()

    def _if(self, condition: Term, action: Callable[[], None]) -> None:
        register = self.emitter.whole(self.emitter.lower(condition))
        self.emitter.items.append(If(register, tuple(self._section(action))))
        self._forget()

    def _begin(self) -> None:
        emitter = self.emitter
        emitter.names[_FRAME] = low_half(self.pointers.base[_FRAME], self.target)
        for k in range(len(self.nest.counters)):
            self._set(_at(k), ZERO)
        for moved in self.nest.windows:
            if moved.twice:
                name = _near(moved.window)
                emitter.names[name] = Reg(emitter.fresh(emitter.classes.scalar.name, name))
                self._set(name, self._first_place(moved))
                emitter.names[_both(moved.window)] = Reg(emitter.fresh(emitter.classes.scalar.name, "both"))
                twice = Op("add", (Var(name, I32), Var(name, I32)), I32)
                self._set(_both(moved.window), Op("add", (twice, Const(place_bytes(moved.bytes), I32)), I32))
        for moved in self._moved(store=False):
            self.engine.prepare(moved, store=False)
            self._start(moved, self._place(moved), _at, store=False)
        for moved in self._moved(store=True):
            self.engine.prepare(moved, store=True)
        self._wait(self._moved(store=False), store=False)

    def _block(self) -> list[Item]:
        """One turn of the loop over blocks."""
        ends = self._section(lambda: self._at_ends(next_=True))
        fetch = self._section(self._fetch)
        rest = self._section(self._put_back)
        return [*ends, *fetch, *self._dispatch(), *rest]

    def _at_ends(self, *, next_: bool) -> None:
        """Of each counter whether this block is its last, whether the next block is another of it, and that one."""
        counters = self.nest.counters
        for k, counter in enumerate(counters):
            at_end = Var(end(k), I32) if self._open(k) else Const(counter.trips - 1, I32)
            self._set(_last(k), Op("eq", (Var(_at(k), I32), at_end), I32))
        if not next_:
            return
        steps: Term = ONE
        for k in range(len(counters) - 1, -1, -1):
            self._set(_step(k), steps)
            up = Op("add", (Var(_at(k), I32), ONE), I32)
            inner = Op("select", (Var(_last(k), I32), ZERO, up), I32)
            self._set(_next(k), Op("select", (Var(_step(k), I32), inner, Var(_at(k), I32)), I32))
            steps = Op("and", (Var(_step(k), I32), Var(_last(k), I32)), I32)
        self.emitter.names[_FINAL] = Reg(self.emitter.fresh(self.emitter.classes.scalar.name, "final"))
        self._set(_FINAL, steps)

    def _fetch(self) -> None:
        """Start to fetch what the next block needs anew; those first that need not wait for what is put back."""
        moving = [m for m in self._moved(store=False) if m.twice]
        for moved in sorted(moving, key=lambda m: m.window.store):

            def start(moved: Moved = moved) -> None:
                if moved.window.store:
                    self._wait([moved], store=True)
                self._start(moved, self._other(moved), _next, store=False)

            self._if(self._renewed(moved), start)

    def _put_back(self) -> None:
        for moved in self._moved(store=True):
            if moved.twice:

                def start(moved: Moved = moved) -> None:
                    self._wait([moved], store=True)
                    self._start(moved, self._place(moved), _at, store=True)

                self._if(Var(_step(max(moved.window.counters)), I32), start)
        for moved in self.nest.windows:
            if moved.twice:

                def turn(moved: Moved = moved) -> None:
                    if moved.window.load:
                        self._wait([moved], store=False)
                    self._set(_near(moved.window), self._other(moved))

                self._if(self._renewed(moved), turn)
        for k in range(len(self.nest.counters)):
            self._set(_at(k), Var(_next(k), I32))

    def _end(self) -> None:
        stores = self._moved(store=True)
        for moved in stores:
            if not moved.twice:
                self._start(moved, self._place(moved), _at, store=True)
        self._wait(stores, store=True)

    def _start(self, moved: Moved, near: Term, block: Callable[[int], str], *, store: bool) -> None:
        """Start to move a window, if there is anything to move."""
        some = self.engine.empty(moved, block)
        if some is None:
            self.engine.start(moved, near, block, store=store)
        else:
            self._if(some, lambda: self.engine.start(moved, near, block, store=store))

    def _renewed(self, moved: Moved) -> Term:
        """Whether the next block has another window."""
        step = Var(_step(max(moved.window.counters)), I32)
        return Op("and", (step, Op("xor", (Var(_FINAL, I32), ONE), I32)), I32)

    def _other(self, moved: Moved) -> Term:
        return Op("sub", (Var(_both(moved.window), I32), Var(_near(moved.window), I32)), I32)

    def _first_place(self, moved: Moved) -> Term:
        return Op("add", (Var(_FRAME, I32), Const(self.offsets[self.number, moved.window.name], I32)), I32)

    def _place(self, moved: Moved) -> Term:
        """Where the window of the block at hand is: a register tells of two places, what has one needs none."""
        return Var(_near(moved.window), I32) if moved.twice else self._first_place(moved)

    def _moved(self, *, store: bool) -> list[Moved]:
        return [m for m in self.nest.windows if m.moves(store=store)]

    def _wait(self, windows: list[Moved], *, store: bool) -> None:
        self.engine.wait(windows, store=store)
        self._forget()

    # -- pieces

    def _dispatch(self) -> list[Item]:
        """The piece for the block at hand, each under the condition that the counters are at one of its places."""
        places: dict[int, list[Place]] = {}
        for place, number in self.nest.piece.items():
            places.setdefault(number, []).append(place)
        if len(places) == 1:
            return self._inlined(0)
        if any(self._open(k) for k in range(len(self.nest.counters))):
            return self._by_number()
        items: list[Item] = []
        ways = {}
        for number, found in places.items():
            way = ways[number] = self.emitter.fresh(self.emitter.classes.scalar.name, "way")
            self.emitter.names[f"way.{number}"] = Reg(way)
            items += self._section(partial(self._set, f"way.{number}", self._is_one_of(found)))
        for number, way in ways.items():
            items.append(If(way, tuple(self._inlined(number))))
        return items

    def _by_number(self) -> list[Item]:
        """The same where counters have more kinds of blocks: the piece's number is found by asking what tells."""
        scalar = self.emitter.classes.scalar.name
        self.emitter.names |= {n: Reg(self.emitter.fresh(scalar, "way")) for n in (_SHORT, _WAY)}

        def found() -> None:
            short: Term = ZERO
            for k, counter in enumerate(self.nest.counters):
                if self._open(k):
                    lacks = Op("lt", (ZERO, Var(lacking(k), I32)), I32)
                    short = Op("or", (short, Op("and", (Var(_last(k), I32), lacks), I32)), I32)
                    if counter.adapts:
                        short = Op("or", (short, Op("lt", (ZERO, Var(smaller(k), I32)), I32)), I32)
            self._set(_SHORT, short)
            self._set(_WAY, self._asked(self.nest.piece))

        items = self._section(found)
        for n in range(len(self.nest.pieces)):
            way = self.emitter.names[f"way.{n}"] = Reg(self.emitter.fresh(scalar, "way"))
            items += self._section(partial(self._set, f"way.{n}", Op("eq", (Var(_WAY, I32), Const(n, I32)), I32)))
            items.append(If(way.vreg, tuple(self._inlined(n))))
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
            first = Op("eq", (Var(_at(k), I32), ZERO), I32)
            questions.append((first, partial(_is_at, k, (FIRST, SHORT_FIRST, ONLY, SHORT_ONLY))))
            questions.append((Var(_last(k), I32), partial(_is_at, k, (LAST, ONLY, SHORT_LAST, SHORT_ONLY))))
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
            return _all(self._is_any(k, sets[k]) for k in every if sets[k] != known[k])
        singles = [_all(self._is_any(k, {p[k]}) for k in every) for p in places]
        return reduce(lambda a, b: Op("or", (a, b), I32), singles)

    def _is_any(self, k: int, where: set[int]) -> Term:
        if where == {ONLY}:
            return ONE
        first, last = Op("eq", (Var(_at(k), I32), ZERO), I32), Var(_last(k), I32)
        ways: dict[int, Term] = {FIRST: first, LAST: last}
        if BETWEEN not in where:
            return reduce(lambda a, b: Op("or", (a, b), I32), [ways[at] for at in sorted(where)])
        others = [ways[at] for at in (FIRST, LAST) if at not in where]
        return _all(Op("xor", (other, ONE), I32) for other in others)

    def _inlined(self, number: int) -> list[Item]:
        piece = self.nest.pieces[number]
        prefix = piece_prefix(self.number, number)
        origins, counts = dict(self.nest.origins), dict(self.nest.counts)

        def given() -> None:
            for register, name in piece.given:
                made = Reg(VReg(prefix + register.name, register.cls))
                moved = next((m for m in self.nest.windows if m.window.name == name), None)
                if moved is not None:
                    self.emitter.lower(self._place(moved), low_half(made, self.target))
                    if low_half(made, self.target) != made and self.pointers.narrow is None:
                        self.emitter.move(Reg(made.vreg, "hi"), Reg(self.pointers.base[_FRAME].vreg, "hi"))
                elif name in origins:
                    counter = self.nest.counters[origins[name]]
                    each = iterations(self.nest.counters, origins[name])
                    steps = Op("mul", (Var(_at(origins[name]), I32), each), I32)
                    self.emitter.lower(Op("add", (steps, Const(counter.low, I32)), I32), made)
                elif name in counts:
                    last = Var(_last(counts[name]), I32)
                    self.emitter.lower(groups(self.nest.counters, counts[name], last), made)
                else:
                    self.emitter.move(made, self.emitter.names[name])

        return [*self._section(given), *prefixed(piece.function.body, prefix)]


_FINAL = "final"
_FITS = "fits"
_SHORT = "short block"
_WAY = "way"


def _is_at(counter: int, where: Collection[int], place: Place) -> bool:
    return place[counter] in where


def _all(terms: Iterable[Term]) -> Term:
    found: Term = ONE
    for term in terms:
        found = term if found is ONE else Op("and", (found, term), I32)
    return found


def _at(counter: int) -> str:
    return f"block.{counter}"


def _next(counter: int) -> str:
    return f"next.{counter}"


def _step(counter: int) -> str:
    return f"step.{counter}"


def _last(counter: int) -> str:
    return f"last.{counter}"


def _near(window: Window) -> str:
    return f"near.{window.name}"


def _both(window: Window) -> str:
    return f"both.{window.name}"
