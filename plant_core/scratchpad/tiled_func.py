"""Nests in blocks as what comes of cutting them: the functions of their blocks, and loops round several nests."""

from __future__ import annotations

import itertools
import math
from collections import Counter as Counted
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from plant_core.ir.func import Func
from plant_core.ir.tile_loop import Counter
from plant_core.scratchpad.buffers import (
    BETWEEN,
    FIRST,
    LAST,
    NOTHING,
    ONLY,
    SHORT_BETWEEN,
    SHORT_FIRST,
    SHORT_LAST,
    SHORT_ONLY,
    Kind,
    Left,
    Place,
    Window,
)


@dataclass(frozen=True, slots=True)
class Blocks:
    """`counters`, outermost first. `pieces` are the functions of blocks, `piece` tells which one is for the blocks that
    are FIRST, BETWEEN, LAST or ONLY along each counter, and of none of `kinds`, NOTHING if such blocks have nothing to
    do. A piece's parameters are the windows by name, the scalars that it uses, of `origins` (name, counter) the
    iterations that the block begins with, and of `counts` (name, counter, 0 or 1) how many groups of them, or batches
    of the first or second size, it has of a counter whose extent is known at run time, in blocks that may be shorter
    than others. The first `outer` counters go round other nests. `left`: by counter, what is left of its loop. `open`:
    pieces have loops of their own whose sizes are known at run time only. `why` there are no smaller blocks, if that is
    told."""

    func: Func
    counters: tuple[Counter, ...]
    windows: tuple[Window, ...]
    pieces: tuple[Func, ...]
    piece: Mapping[Place, int]
    origins: tuple[tuple[str, int], ...]
    counts: tuple[tuple[str, int, int], ...] = ()
    kinds: tuple[Kind, ...] = ()
    outer: int = 0
    left: Mapping[int, Left] = field(default_factory=dict)
    open: bool = False
    why: str = ""

    @property
    def in_step(self) -> bool:
        """Whether blocks wait for any of their windows."""
        return any(w.in_step for w in self.windows)

    def times(self) -> Counted[int]:
        """How many blocks each piece is for; a guess where sizes are known at run time only."""
        found = Counted[int]()
        if not self.kinds:
            for place, piece in self.piece.items():
                found[piece] += math.prod(
                    max(c.trips - 2, 0) if at == BETWEEN else 1 for c, at in zip(self.counters, place, strict=True)
                )
        else:
            for at in itertools.product(*(range(c.trips) for c in self.counters)):
                found[self.piece_of(at)] += 1
        return found

    def piece_of(self, at: Sequence[int]) -> int:
        """The piece for a block, where sizes are known."""
        place = tuple(_place(c, n) for c, n in zip(self.counters, at, strict=True))
        return next((k.piece for k in self.kinds if all(t.holds(at) for t in k.tests)), self.piece)[place]

    def begins(self, number: int) -> dict[str, int]:
        """What the block in the middle of those that a piece is for begins with, by the name of its `origins`; empty
        where sizes aren't known."""
        if not self.origins or any(c.extent is not None for c in self.counters):
            return {}
        every = itertools.product(*(range(c.trips) for c in self.counters))
        mine = [at for at in every if self.piece_of(at) == number]
        if not mine:
            return {}
        middle = mine[len(mine) // 2]
        return {name: self.counters[k].low + self.counters[k].span * middle[k] for name, k in self.origins}

    def share(self, number: int) -> float:
        """The part of all iterations that one of the pieces does; of all blocks, where these differ in kind."""
        if self.kinds:
            times = self.times()
            return times[number] / sum(n for piece, n in times.items() if piece != NOTHING)
        found = 0.0
        for place, piece in self.piece.items():
            if piece == number:
                found += math.prod(_done(c, at) / _extent(c) for c, at in zip(self.counters, place, strict=True))
        return found


@dataclass(frozen=True, slots=True)
class Around:
    """A loop round several nests, which are done in blocks in each of its iterations: the outermost counter of all that
    is not in another such loop, else the next one."""

    counter: Counter
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """A nest in blocks of several forms: each for arrays that those before it have no room for."""

    parts: tuple[Blocks, ...]


Part = Blocks | Around | Either


def flat(parts: Iterable[Part]) -> list[Blocks]:
    """The nests in their order, each in all its forms."""
    found: list[Blocks] = []
    for part in parts:
        found += [part] if isinstance(part, Blocks) else flat(part.parts)
    return found


def of_first(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The nests in their first form only."""
    return tuple(part.parts[0] if isinstance(part, Either) else part for part in parts)


def places_of(counter: Counter) -> tuple[int, ...]:
    """What a block may be along a counter."""
    if counter.extent is not None:
        shorter = (SHORT_FIRST, SHORT_BETWEEN) if counter.adapts else ()
        short = () if counter.single else (SHORT_LAST, SHORT_ONLY, *shorter)
        return (FIRST, BETWEEN, LAST, ONLY, *short)
    if counter.trips == 1:
        return (ONLY,)
    return (FIRST, LAST) if counter.trips == 2 else (FIRST, BETWEEN, LAST)


def _place(counter: Counter, number: int) -> int:
    if counter.trips == 1:
        return ONLY
    return FIRST if number == 0 else LAST if number == counter.trips - 1 else BETWEEN


def _extent(counter: Counter) -> int:
    return (counter.trips - 1) * counter.span + counter.last


def _done(counter: Counter, place: int) -> int:
    """The iterations of all blocks that are at a place."""
    if place == BETWEEN:
        return (counter.trips - 2) * counter.span
    if place in (SHORT_FIRST, SHORT_BETWEEN):
        return 0
    return counter.last if place in (LAST, ONLY) else counter.span
