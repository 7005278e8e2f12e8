"""Whether blocks of nests of any size fit, and what other blocks have room for the arrays that they have none for.

Windows have room for what is left of loops before a block (`plant_core.scratchpad.boundary_distances`), which is known
once blocks are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from dspgen.asmir.dma.buffer_placement import may_slide, room_of
from dspgen.offchip.cost_model import Sizes, array_bytes, longest_of, rooms_of
from plant_core.analysis.rectangular_hull import Boxes, NoBlocks
from plant_core.scratchpad.tile_nest import windows
from plant_core.scratchpad.tiled_func import Blocks

_ENOUGH = 8192  # elements: with room for so many along each dimension no others are looked for
_MUCH = 4  # times as many elements as others have room for
_STACK = 8  # the part of near memory, one of so many, that local arrays may not take


@dataclass(frozen=True, slots=True)
class Near:
    """A near memory of `size` bytes, of which windows may have `room`, of machines with so many `lanes`."""

    size: int
    room: int
    lanes: int

    @property
    def most(self) -> int:
        """The bytes that windows and local arrays may take together."""
        return self.size - self.size // _STACK


def fitting(sizes: Sizes, boxes: Boxes, near: Near, make: Callable[[Sizes], Blocks]) -> tuple[Sizes, Blocks]:
    """Blocks as `make` makes them, with room for shorter arrays where what is left of loops needs that. Raises
    NoBlocks."""
    made = make(sizes)
    if made.left and (taken := _bytes(made)) > near.most:
        sizes = _in_less(sizes, boxes, near, near.room * near.most // taken - near.room // (2 * _STACK))
        made = make(sizes)
        if _bytes(made) > near.most:
            raise _no_room(boxes)
    return sizes, made


def longer(ways: Iterable[Sizes], least: Sizes) -> Sizes | None:
    """The next ones with room for much longer arrays than the `least`; None where these are as good as any."""
    if not least.spans or least.longest >= _ENOUGH:
        return None
    found = (w for w in ways if w.spans and w.longest >= _MUCH * least.longest)
    return min(found, key=lambda w: w.cycles, default=None)


def has_room_for_all(other: Blocks, made: Blocks) -> bool:
    """Whether blocks have room for all arrays that others `made` have room for."""
    least = {(w.buf, d): n for w in made.windows if w.sized for d, n in enumerate(w.room) if n is not None}
    most = [((w.buf, d), n) for w in other.windows if w.sized for d, n in enumerate(w.room) if n is not None]
    return all(least.get(where, 0) and n >= least[where] for where, n in most)


def _bytes(made: Blocks) -> int:
    """What windows take in near memory, and where several loops are cut the piece that has the most local arrays."""
    local = (sum(array_bytes(b) for b in piece.bufs if b.kind == "local") for piece in made.pieces)
    windows = sum(room_of(w, may_slide(w, made.counters) if w.places else None) for w in made.windows)
    return windows + (max(local, default=0) if len(made.left) > 1 else 0)


def _in_less(sizes: Sizes, boxes: Boxes, near: Near, room: int) -> Sizes:
    """The same with less room for arrays of unknown size. Raises NoBlocks where there are none."""
    counters, found = windows(boxes, sizes.spans, sizes.order)
    rooms = rooms_of(counters, found, room, near.lanes)
    if not rooms:
        raise _no_room(boxes)
    longest = longest_of([replace(w, shape=rooms[w.name]) for w in found if w.sized])
    return replace(sizes, rooms=rooms, longest=longest)


def _no_room(boxes: Boxes) -> NoBlocks:
    return NoBlocks("the data of a block don't fit beside what is left of loops", loc=boxes.func.loc)
