"""The DMA engine of a run on terms: transfers move terms from memory to memory, byte by byte.

Times are left to the simulator: a transfer takes what its rows hold as it starts, and is done when the core first asks
whether it is. So both texts ask once, and packets that touch what moves, or read it before they have asked, are told
from those that don't. What the engine's words mean stands in `dspgen.sim.ir.dma`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dspgen.sim.ir.dma import Span
from dspgen.target.isa.model import Dma

Codes = dict[int, int]  # of bytes of memory, by their addresses


@dataclass(frozen=True, slots=True)
class _Transfer:
    channel: int
    source: Span
    destination: Span
    codes: Codes


class Engine:
    """`bytes_at` reads so many codes from an address on, `number` is what a word's codes come to; `zero` are the codes
    of a word that is 0. `refused`: why a transfer could not be started."""

    def __init__(
        self,
        dma: Dma,
        bytes_at: Callable[[int, int], tuple[int, ...]],
        number: Callable[[tuple[int, ...]], int],
        zero: tuple[int, ...],
    ) -> None:
        self.dma, self.bytes_at, self.number, self.zero = dma, bytes_at, number, zero
        self.words = range(dma.base, dma.base + dma.size)
        self.running: list[_Transfer] = []
        self.refused = ""

    def asked(self, low: int, count: int) -> Codes:
        """What changes in memory as the core reads from `low` on: all of a transfer that it asks about is done."""
        changed: Codes = {}
        first = low - self.dma.base
        for transfer in [t for t in self.running if self.dma.has_go(t.channel, first, first + count)]:
            self.running.remove(transfer)
            go = self.dma.base + self.dma.place(transfer.channel, "go")
            changed |= transfer.codes | dict(zip(range(go, go + self.dma.word_bytes), self.zero, strict=True))
        return changed

    def stored(self, low: int, high: int) -> None:
        """The core has written [low, high): that starts transfers if a word in it says so."""
        for channel in range(self.dma.channels):
            if self.dma.has_go(channel, low - self.dma.base, high - self.dma.base) and self._word(channel, "go"):
                self._start(channel)

    def bars(self, low: int, high: int, *, store: bool) -> bool:
        """Whether the core must keep away from a byte of [low, high)."""
        return any(t.destination.meets(low, high) or (store and t.source.meets(low, high)) for t in self.running)

    def _start(self, channel: int) -> None:
        if any(t.channel == channel for t in self.running):
            self.refused = f"a transfer on channel {channel} before it has asked whether the last one is done"
            return
        rows, size, element = (self._word(channel, w) for w in ("rows", "row_bytes", "element"))
        if not rows or not size:
            self.refused = "a transfer of nothing"
            return
        landed = (size // element, rows * element) if element else (rows, size)
        source = self._span(channel, "source", (rows, size), written=False)
        destination = self._span(channel, "destination", landed, written=True)
        for other in self.running:
            if destination.overlaps(other.source) or any(s.overlaps(other.destination) for s in (source, destination)):
                self.refused = f"a transfer that meets what the one of channel {other.channel} moves"
                return
        self.running.append(_Transfer(channel, source, destination, self._moved(source, destination, element)))

    def _moved(self, source: Span, destination: Span, element: int) -> Codes:
        codes: Codes = {}
        width = element or source.row_bytes
        down, along = (element, destination.step) if element else (destination.step, 0)
        for i in range(source.rows):
            row = self.bytes_at(source.low + i * source.step, source.row_bytes)
            for k in range(source.row_bytes // width):
                at = destination.low + i * down + k * along
                codes.update(zip(range(at, at + width), row[k * width : (k + 1) * width], strict=True))
        return codes

    def _span(self, channel: int, word: str, shape: tuple[int, int], *, written: bool) -> Span:
        low, step, bits = self._word(channel, word), self._word(channel, f"{word}_step"), 8 * self.dma.word_bytes
        return Span(low, *shape, max(step - (1 << bits) * (step >> (bits - 1)), 1), written)

    def _word(self, channel: int, word: str) -> int:
        if word not in self.dma.words:
            return 0
        return self.number(self.bytes_at(self.dma.base + self.dma.place(channel, word), self.dma.word_bytes))
