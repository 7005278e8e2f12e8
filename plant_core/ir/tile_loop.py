"""A loop over the tiles of a nest: iterations of a tile, number of tiles, and how the last one differs."""

from __future__ import annotations

from dataclasses import dataclass

from plant_core.ir.func import Expr


@dataclass(frozen=True, slots=True)
class Counter:
    """A loop over blocks of `span` iterations, `trips` of them; iteration `low` is the first, the last has `last`.

    `extent`: how many iterations the loop has, where that is known at run time only (0 and less: none); `trips` and
    `last` are guesses then. There is one block at least, which may have no iterations. `group`: shorter blocks may run
    on to a multiple of so many iterations, as nothing comes of those in excess. `batches`: the groups come so many at a
    time, or so many, of which a few hold hardly too many. `grain`, if not 0: where there are but few blocks, a run may
    take smaller ones, of like sizes, multiples of that; `hides`: also where that makes more of them, so that transfers
    are hidden. `in_rows`: it goes from row to row of the arrays. `single`: blocks are of one iteration of all
    statements, and the nest is only run where there is one.
    """

    name: str
    low: int
    span: int
    trips: int
    last: int
    extent: Expr | None = None
    group: int = 1
    batches: tuple[int, int] | None = None
    grain: int = 0
    hides: bool = False
    in_rows: bool = False
    single: bool = False

    @property
    def several(self) -> bool:
        """Whether it may have more than one block."""
        return self.extent is not None or self.trips > 1

    @property
    def adapts(self) -> bool:
        """Whether its blocks may be smaller than `span`."""
        return self.grain > 0

    @property
    def ragged(self) -> bool:
        """Whether its last block may be shorter."""
        return self.may_be_short or self.last < self.span

    @property
    def may_be_short(self) -> bool:
        """Whether only the run tells if its last block is shorter."""
        return self.extent is not None and not self.single
