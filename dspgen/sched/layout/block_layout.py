"""A function laid out as blocks, and why it can't be laid out so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dspgen.sched.graph.rigid_sections import Block
from dspgen.sched.ir.packets import LoopReport


class RunsCollide(Exception):
    """The branch back of an outer loop finds no room where runs of its inner loop overlap."""

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self.label = label


class TooStraight(Exception):
    """A piece that loops were made straight for has too many operations to find registers; the cycles that each won."""

    def __init__(self, flattened: Mapping[str, int]) -> None:
        super().__init__(flattened)
        self.flattened = flattened


@dataclass(slots=True)
class Laid:
    blocks: list[Block]
    reports: list[LoopReport]
    owners: list[tuple[str, ...]]  # for each block, the loops whose prolog, kernel or epilog is in it
    pieces: list[int]  # for each block, the number of the straight piece that it is, -1 for kernels
    intervals: dict[str, int]
    overlapped: dict[str, int] = field(default_factory=dict)  # outer loops in which so many runs of inner ones overlap
    inside: dict[str, str] = field(default_factory=dict)  # of those, loops that overlap in a nest with the one around
    flattened: dict[int, dict[str, int]] = field(default_factory=dict)  # short loops in each straight piece: cycles won

    def since(self, first: int) -> list[tuple[Block, tuple[str, ...], int]]:
        """The blocks from `first` on, with their owners and pieces."""
        return list(zip(self.blocks[first:], self.owners[first:], self.pieces[first:], strict=True))
