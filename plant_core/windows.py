"""Blocks of a nest as the code between them needs them: counters over blocks, and windows of the arrays they touch.

Counter ::= name, low, span, trips, last     iterations low, low + span, ... begin a block; the last is shorter
Window  ::= name, buf, shape, dims, load, store
Reach   ::= low, steps, extent               elements low + sum(step * counter) and on, of one dimension
Length  ::= full, less                       shorter by `less` in the last block of a counter
"""

from __future__ import annotations

from dataclasses import dataclass

from plant_core.ir import DType

Place = tuple[int, ...]  # of each counter whether a block is its
FIRST, BETWEEN, LAST, ONLY = -1, 0, 1, 2


@dataclass(frozen=True, slots=True)
class Counter:
    """A loop over blocks of `span` iterations, `trips` of them; iteration `low` is the first, the last has `last`."""

    name: str
    low: int
    span: int
    trips: int
    last: int


@dataclass(frozen=True, slots=True)
class Length:
    """`full`, and for each (counter, n) of `less` shorter by n in that counter's last block."""

    full: int
    less: tuple[tuple[int, int], ...] = ()

    def times(self, factor: int) -> Length:
        return Length(self.full * factor, tuple((k, n * factor) for k, n in self.less))


@dataclass(frozen=True, slots=True)
class Reach:
    """Of one dimension of an array the elements from `low + sum(step * counter)` on, `extent` of them."""

    low: int
    steps: tuple[tuple[int, int], ...]
    extent: Length


@dataclass(frozen=True, slots=True)
class Window:
    """What a block touches of an array `buf`, kept in an array `name` of `shape`, row-major, that begins with it.

    `load`: its contents matter before the block; `store`: after it. `outside` False: `buf` has no other place, so that
    there is nothing to move.
    """

    name: str
    buf: str
    dtype: DType
    shape: tuple[int, ...]
    dims: tuple[Reach, ...]
    load: bool
    store: bool
    outside: bool = True

    @property
    def counters(self) -> tuple[int, ...]:
        """The counters on which its place depends."""
        return tuple(sorted({k for d in self.dims for k, _ in d.steps}))


@dataclass(frozen=True, slots=True)
class Rows:
    """A window as rows of bytes: `rows` of `row_bytes`, `pitch` apart in the array and `local_pitch` in the window.
    The first begins at byte `offset + sum(step * counter)` of the array."""

    offset: int
    steps: tuple[tuple[int, int], ...]
    rows: Length
    row_bytes: Length
    pitch: int
    local_pitch: int


def rows_of(window: Window, shape: tuple[int, ...], size: int) -> Rows | None:
    """The window of an array of `shape`, elements of `size` bytes, as rows; None where it is more than that."""
    strides = [size]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    local = [size]
    for extent in reversed(window.shape[1:]):
        local.insert(0, local[0] * extent)
    offset = sum(d.low * s for d, s in zip(window.dims, strides, strict=True))
    steps: dict[int, int] = {}
    for reach, stride in zip(window.dims, strides, strict=True):
        for counter, step in reach.steps:
            steps[counter] = steps.get(counter, 0) + step * stride
    # Runs of bytes, outermost first: how many, how far apart in the array and in the window.
    runs: list[tuple[Length, int, int]] = []
    for reach, stride, pitch in zip(reversed(window.dims), reversed(strides), reversed(local), strict=True):
        if reach.extent == Length(1):
            continue
        if runs and (joined := _joined(runs[0], reach.extent, stride, pitch)) is not None:
            runs[0] = joined
        else:
            runs.insert(0, (reach.extent, stride, pitch))
    if not runs or runs[-1][1] != size:
        runs.append((Length(1), size, size))
    if len(runs) > 2:
        return None
    row = runs[-1][0].times(size)
    if len(runs) == 1:
        return Rows(offset, tuple(sorted(steps.items())), Length(1), row, 0, 0)
    return Rows(offset, tuple(sorted(steps.items())), runs[0][0], row, runs[0][1], runs[0][2])


def _joined(inner: tuple[Length, int, int], outer: Length, stride: int, pitch: int) -> tuple[Length, int, int] | None:
    """A run of runs as one run, where they follow each other in the array and in the window alike."""
    length, step, local = inner
    if length.less or stride != step * length.full or pitch != local * length.full:
        return None
    return outer.times(length.full), step, local
