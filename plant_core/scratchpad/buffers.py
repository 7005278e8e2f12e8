"""Blocks of a nest as the code between them needs them: counters over blocks, and windows of the arrays they touch.

Counter ::= name, low, span, trips, last, extent, group, batches, grain, hides     iterations low, low + span, ...
                                                                                  begin a block; the last may be shorter
Window  ::= name, buf, shape, dims, load, store, places
Reach   ::= low, steps, extent, size         elements low + sum(step * counter) and on, of one dimension
Kind    ::= tests, pieces                    of blocks that have less than all iterations of a box
Left    ::= before, behind, every, most      what is left of a loop for blocks whose statements look at its ends
Length  ::= full, less                       shorter by `less` for each iteration that a counter's last block lacks
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from plant_core.ir.accesses import integer
from plant_core.ir.array_views import Layout, Length, Reach
from plant_core.ir.func import Binary, DType, Expr, Extent
from plant_core.ir.tile_loop import Counter

Place = tuple[int, ...]  # of each counter whether a block is its
FIRST, BETWEEN, LAST, ONLY = -1, 0, 1, 2
SHORT_LAST, SHORT_ONLY = 3, 4  # where only the run tells whether the last block is shorter than others, those that are
SHORT_FIRST, SHORT_BETWEEN = 5, 6  # where all blocks are short
SHORT = frozenset({SHORT_FIRST, SHORT_BETWEEN, SHORT_LAST, SHORT_ONLY})
NOTHING = -1  # the piece of blocks that have nothing to do


@dataclass(frozen=True, slots=True)
class Margin:
    """`constant + sum(factor * number of the block along the counter)`."""

    constant: int
    factors: tuple[tuple[int, int], ...]

    def plus(self, constant: int) -> Margin:
        return Margin(self.constant + constant, self.factors)

    def negative(self) -> Margin:
        return Margin(-self.constant, tuple((k, -factor) for k, factor in self.factors))

    def at(self, numbers: Sequence[int]) -> int:
        return self.constant + sum(factor * numbers[k] for k, factor in self.factors)


@dataclass(frozen=True, slots=True)
class Test:
    """Whether a block's margin is `value`, or, if that is None, at least 0."""

    margin: Margin
    value: int | None

    def holds(self, numbers: Sequence[int]) -> bool:
        margin = self.margin.at(numbers)
        return margin >= 0 if self.value is None else margin == self.value


@dataclass(frozen=True, slots=True)
class Kind:
    """Blocks for which all `tests` hold: their pieces by place, NOTHING where there is nothing to do."""

    tests: tuple[Test, ...]
    piece: Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class Left:
    """The parameters that tell how many iterations of a counter are left before a block and behind it, and how many
    with the block's own; `most`: how many before and behind there may be."""

    before: str
    behind: str
    every: str
    most: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Window:
    """What a block touches of an array `buf`, kept in an array `name` of `shape`, row-major, that begins with it.

    `load`: its contents matter before the block; `store`: after it. `outside` False: `buf` has no other place, so that
    there is nothing to move. `in_step`: blocks or other windows share elements of it, so that it is fetched anew for
    each block and put back after it, in the order of the windows.
    `places`: how many it has one after the other, if it slides over them (see `Slide`). `layout`: of what `buf` is a
    view, if it is no array itself. `unless`: of windows before it the margins that are all 0 in blocks that have
    both in one place; those use the other one, and this is not moved. `margin`: of (counter, most, n), a block has n
    elements before it for each iteration of the counter that is left before the block, `most` of these at most.
    """

    name: str
    buf: str
    dtype: DType
    shape: tuple[int, ...]
    dims: tuple[Reach, ...]
    load: bool
    store: bool
    outside: bool = True
    in_step: bool = False
    places: int = 0
    layout: Layout | None = None
    unless: tuple[tuple[Margin, ...], ...] = ()
    margin: tuple[tuple[int, int, int], ...] = ()

    @property
    def array(self) -> str:
        """The array in which its elements lie."""
        return self.buf if self.layout is None else self.layout.array

    @property
    def sized(self) -> bool:
        """Whether it is as large as sizes tell that are known at run time only."""
        return any(reach.size is not None for reach in self.dims)

    @property
    def room(self) -> tuple[int | None, ...]:
        """Of each dimension that is as large as sizes tell the elements that there is room for."""
        return tuple(None if d.size is None else n for d, n in zip(self.dims, self.shape, strict=True))

    def moves_in(self, numbers: Sequence[int]) -> bool:
        """Whether a block has it for itself."""
        return not any(all(margin.at(numbers) == 0 for margin in one) for one in self.unless)

    @property
    def counters(self) -> tuple[int, ...]:
        """The counters on which its place depends."""
        return tuple(sorted({k for d in self.dims for k, _ in d.steps}))


@dataclass(frozen=True, slots=True)
class Slide:
    """What blocks that follow each other along `counter` have in common of a window that is only read: the window moves
    by `step` elements of dimension `dim`, its outermost, and `kept` of them are the next one's first. Where that lies
    `step` elements further on, it has them already. After the last place it goes back to the first one, and as the
    new place must not meet the one at hand, there are `least` places; where outer counters begin anew at any of
    them, the last place is where it goes from one of the first."""

    counter: int
    dim: int
    step: int
    kept: int
    least: int
    anew: bool


def slide_of(window: Window, counters: Sequence[Counter]) -> Slide | None:
    """None where there is nothing in common."""
    if window.store or window.in_step or not window.load or not window.outside or window.sized or not window.counters:
        return None
    if window.layout is not None or any(reach.clipped for reach in window.dims):
        return None
    if any(c.extent is not None for c in counters):
        return None
    k = window.counters[-1]
    moving = [d for d, reach in enumerate(window.dims) if any(c == k for c, _ in reach.steps)]
    if len(moving) > 1 or moving[0] == len(window.dims) - 1:  # what is read beyond a window would be of the next one
        return None
    if any(reach.extent != Length(1) for reach in window.dims[: moving[0]]):
        return None
    reach = window.dims[moving[0]]
    step = dict(reach.steps)[k]
    kept = reach.extent.full - step
    if step <= 0 or kept <= 0:
        return None
    anew = any(c.several for c in counters[:k])
    return Slide(k, moving[0], step, kept, 2 + (1 + anew) * -(-kept // step), anew)


@dataclass(frozen=True, slots=True)
class Clip:
    """How a window is cut off where its `reach` leaves the `size` elements of a dimension: each element less takes
    `each` off the `word` that tells its length, and at the low end moves it by `far` bytes in the array, by `near` in
    the window."""

    reach: Reach
    size: Extent
    word: Literal["rows", "row_bytes"]
    each: int
    far: Extent
    near: int


@dataclass(frozen=True, slots=True)
class Rows:
    """A window as rows of bytes: `rows` of `row_bytes`, `pitch` apart in the array and `local_pitch` in the window.
    The first begins at byte `offset + sum(step * counter)` of the array. `whole`: how many rows there are, or of how
    many bytes, where only sizes that are known at run time tell. `sizes`: without them above 0, there is nothing to
    move.
    `element`: 0, or its bytes where the array's rows are the window's columns, which begin an element after each other;
    `local_pitch` is from one of the window's rows to the next then."""

    offset: Extent
    steps: tuple[tuple[int, Extent], ...]
    rows: Length
    row_bytes: Length
    pitch: Extent
    local_pitch: int
    whole: tuple[Expr | None, Expr | None] = (None, None)
    sizes: tuple[Extent, ...] = ()
    element: int = 0
    clips: tuple[Clip, ...] = ()

    def lengths(self, *, store: bool) -> tuple[Length, Length]:
        """How many rows a transfer reads, and of how many bytes: the array's, or those of a window that is put back."""
        if not (self.element and store):
            return self.rows, self.row_bytes
        columns = self.row_bytes
        return Length(columns.full // self.element, tuple((k, n // self.element) for k, n in columns.less)), (
            self.rows.times(self.element)
        )


def rows_of(window: Window, shape: tuple[Extent, ...], size: int) -> Rows | None:
    """The window of an array of `shape`, elements of `size` bytes, as rows; None where it is more than that."""
    if window.sized and window.layout is not None:
        return None
    strides: list[Extent] = [size]
    for extent in reversed(shape[1:]):
        strides.insert(0, times(strides[0], extent))
    if window.layout is not None:
        strides = [times(stride, size) for stride in window.layout.strides]
    local = [size]
    for extent in reversed(window.shape[1:]):
        local.insert(0, local[0] * extent)
    offset: Extent = 0
    for reach, stride in zip(window.dims, strides, strict=True):
        offset = _plus(offset, times(stride, reach.low))
    steps: dict[int, Extent] = {}
    for reach, stride in zip(window.dims, strides, strict=True):
        for counter, step in reach.steps:
            steps[counter] = _plus(steps.get(counter, 0), times(stride, step))
    # Runs of bytes, outermost first: how many, how far apart in the array and in the window.
    runs: list[_Run] = []
    cut: list[int | None] = []  # of each run the dimension along which it is cut off
    for d in reversed(range(len(window.dims))):
        reach, stride, pitch = window.dims[d], strides[d], local[d]
        if reach.extent == Length(1) and not (reach.clipped or reach.size):
            continue
        many = reach.size or reach.extent
        joined = _joined(runs[0], many, stride, pitch) if runs and cut[0] is None else None
        if joined is not None:
            runs[0] = joined
        else:
            runs.insert(0, (many, stride, pitch))
            cut.insert(0, None)
        cut[0] = d if reach.clipped else None
    element = 0
    if window.layout is not None and any(stride == size != pitch for _, stride, pitch in runs):
        # Its columns, which are rows of the array, come last; it is not cut off at the ends of its array.
        element = size
        runs.sort(key=lambda run: run[1] == size)
    if not runs or runs[-1][1] != size:
        runs.append((Length(1), size, size))
        cut.append(None)
    if len(runs) > 2 or (element and len(runs) == 2 and runs[0][2] != size):
        return None
    row, row_bytes = _told(_times(runs[-1][0], size))
    clips = []
    for at, clipped in enumerate(cut):
        if clipped is not None:
            several = at < len(runs) - 1
            each = 1 if several else row.full // window.dims[clipped].extent.full
            word: Literal["rows", "row_bytes"] = "rows" if several else "row_bytes"
            clips.append(Clip(window.dims[clipped], shape[clipped], word, each, strides[clipped], local[clipped]))
    moves = tuple(sorted(steps.items(), key=lambda s: s[0]))
    sizes = tuple(n for n, reach in zip(shape, window.dims, strict=True) if not isinstance(n, int) and not reach.steps)
    rows, number = (Length(1), None) if len(runs) == 1 else _told(runs[0][0])
    far = 0 if len(runs) == 1 else runs[0][1]
    near = runs[-1][2] if element else 0 if len(runs) == 1 else runs[0][2]
    return Rows(offset, moves, rows, row, far, near, (number, row_bytes), sizes, element, tuple(clips))


_Many = Length | Expr  # as many as sizes tell that are known at run time only
_Run = tuple[_Many, Extent, int]


def _told(many: _Many) -> tuple[Length, Expr | None]:
    return (many, None) if isinstance(many, Length) else (Length(0), many)


def _times(many: _Many, factor: int) -> _Many:
    return many.times(factor) if isinstance(many, Length) else _expr(times(many, factor))


def times(a: Extent, b: Extent) -> Extent:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if 0 in (a, b):
        return 0
    if 1 in (a, b):
        return b if a == 1 else a
    return Binary("mul", _expr(a), _expr(b), "i32")


def _plus(a: Extent, b: Extent) -> Extent:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if 0 in (a, b):
        return b if a == 0 else a
    return Binary("add", _expr(a), _expr(b), "i32")


def _expr(of: Extent) -> Expr:
    return integer(of) if isinstance(of, int) else of


def _joined(inner: _Run, outer: _Many, stride: Extent, pitch: int) -> _Run | None:
    """A run of runs as one run, where they follow each other in the array and in the window alike."""
    length, step, local = inner
    if (
        not isinstance(length, Length)
        or length.less
        or stride != times(step, length.full)
        or pitch != local * length.full
    ):
        return None
    return _times(outer, length.full), step, local
