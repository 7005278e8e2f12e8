"""Where windows lie in near memory: one place, two that blocks take in turns, or a row of them that overlap.

Blocks that follow each other may have a part of a window in common (the halo of a stencil). A window that slides has it
in place: the next block's window begins where this one's part in common with it lies, and the rest is fetched behind
it. After the last place all of a window is fetched to the first one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dspgen.vecdsl.ir.program import ELEM_BYTES
from plant_core.ir.array_views import Length
from plant_core.ir.symbolic_sizes import Size
from plant_core.ir.tile_loop import Counter
from plant_core.scratchpad.buffers import Rows, Slide, Window, rows_of, slide_of

_ALIGN = 256  # bytes; a vector's at least lie between two windows


@dataclass(frozen=True, slots=True)
class Slid:
    """A window's places, each `step` bytes after the one before it, and what a window has in common with the next one:
    the first `kept` of the `word` (rows, or bytes of one) by which transfers tell its size, that are `far` bytes in the
    array and `near` bytes in the window. Places `apart` bytes from each other don't meet. See
    `plant_core.scratchpad.buffers.Slide`."""

    counter: int
    places: int
    step: int
    word: str
    kept: int
    far: int
    near: int
    apart: int
    anew: bool

    @property
    def last(self) -> int:
        """Where the last place is, from the first one."""
        return (self.places - 1) * self.step


@dataclass(frozen=True, slots=True)
class Moved:
    """A window, its rows (None: nothing is moved), and its places, if it slides over them. `outer` counters stay as
    they are while the nest's blocks come and go."""

    window: Window
    rows: Rows | None
    slid: Slid | None = None
    outer: int = 0

    @property
    def twice(self) -> bool:
        """Whether there is another place for the next block's."""
        if self.rows is None or self.window.in_step:
            return False
        return any(k >= self.outer for k in self.window.counters)

    @property
    def place(self) -> int:
        """The bytes of one place, with what lies between it and the next."""
        return place_bytes(window_bytes(self.window))

    @property
    def room(self) -> int:
        """The bytes of all of its places."""
        if self.slid is not None:
            return self.place + self.slid.last
        return self.place * (1 + self.twice)

    def moves(self, *, store: bool) -> bool:
        return self.rows is not None and (self.window.store if store else self.window.load)


def moved(window: Window, shape: tuple[Size, ...], counters: Sequence[Counter], outer: int = 0) -> Moved:
    """A window of an array of a `shape`, which is rows of bytes in it."""
    if not window.outside:
        return Moved(window, None, outer=outer)
    rows = rows_of(window, shape, ELEM_BYTES[window.dtype])
    assert rows is not None
    return Moved(window, rows, _slid(window, rows, counters), outer)


def may_slide(window: Window, counters: Sequence[Counter]) -> Slide | None:
    """How the window may slide, if it may at places that are aligned as others are."""
    slide = slide_of(window, counters)
    return None if slide is None or sliding_step(window, slide) % _ALIGN else slide


def room_of(window: Window, slide: Slide | None) -> int:
    """The bytes of all places of a window, if it slides so."""
    place = place_bytes(window_bytes(window))
    if window.places and slide is not None:
        return place + (window.places - 1) * sliding_step(window, slide)
    return place * (2 if window.counters and not window.in_step else 1)


def sliding_step(window: Window, slide: Slide) -> int:
    """How many bytes a place lies after the one before it."""
    return slide.step * math.prod(window.shape[slide.dim + 1 :]) * ELEM_BYTES[window.dtype]


def _slid(window: Window, rows: Rows, counters: Sequence[Counter]) -> Slid | None:
    slide = may_slide(window, counters)
    if not window.places or slide is None or not isinstance(rows.pitch, int):
        return None
    word, length = ("rows", rows.rows) if rows.rows != Length(1) else ("row_bytes", rows.row_bytes)
    kept = slide.kept * length.full // window.dims[slide.dim].extent.full
    pitches = (rows.pitch, rows.local_pitch) if word == "rows" else (1, 1)
    step = sliding_step(window, slide)
    far, near = (kept * pitch for pitch in pitches)
    apart = step * (1 + -(-slide.kept // slide.step))
    return Slid(slide.counter, window.places, step, word, kept, far, near, apart, slide.anew)


def place_bytes(size: int) -> int:
    """The bytes that a window's place takes, with what lies between it and the next."""
    return (size // _ALIGN + 2) * _ALIGN


def window_bytes(window: Window) -> int:
    """The bytes of one place of a window."""
    return ELEM_BYTES[window.dtype] * math.prod(window.shape)
