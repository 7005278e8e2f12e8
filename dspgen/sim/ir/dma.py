"""The DMA engine: transfers between memories, on their way while the core runs on.

A channel is a few words of memory, in the order of the ISA file's `dma.words`; a store of anything but 0 to its `go`
starts what the others describe, and `go` reads as 0 once that is done:

    rows of row_bytes bytes, from source, source + source_step, ... to destination, destination + destination_step, ...
    element not 0: transposed; element k of row i goes to destination + k * destination_step + i * element

The engine does one transfer after the other: each begins no earlier than `startup` cycles after its start and then
moves `bytes_per_cycle`, both directions together; `transposed_bytes_per_cycle` of what it transposes. From the start
until the core has read `go` as 0, the core must not touch what is written, nor write what is read; so it does not
matter when the bytes move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dspgen.target.isa.model import Dma

Array = Any
Find = Callable[[int, int], tuple[Array, int] | None]  # the memory that has so many bytes at an address, and where


class Stray(Protocol):
    """How bytes to be read or written are outside of all that a program may access; empty where they aren't."""

    def __call__(self, address: int, size: int, *, store: bool) -> str: ...


FIELDS = 5  # of a span in `Transfers.table`


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes [low + i * step, low + i * step + row_bytes) for i under `rows`; `written`, not read, by a transfer."""

    low: int
    rows: int
    row_bytes: int
    step: int
    written: bool

    @property
    def high(self) -> int:
        return self.low + (self.rows - 1) * self.step + self.row_bytes

    def meets(self, low: int, high: int) -> bool:
        """Whether it has a byte of [low, high). Of its rows that begin before `high` the last reaches farthest."""
        if high <= self.low or low >= self.high:
            return False
        row = min((high - 1 - self.low) // self.step, self.rows - 1)
        return self.low + row * self.step + self.row_bytes > low

    def overlaps(self, other: Span) -> bool:
        few, many = sorted((self, other), key=lambda span: span.rows)
        return any(many.meets(few.low + i * few.step, few.low + i * few.step + few.row_bytes) for i in range(few.rows))


@dataclass(frozen=True, slots=True)
class _Transfer:
    """`element` 0: rows to rows. `uid`: of the instruction that started it."""

    channel: int
    uid: int
    done: int
    source: Span
    destination: Span
    element: int


def table_size(dma: Dma) -> int:
    """Elements of `Transfers.table`."""
    return 2 + 2 * FIELDS * dma.channels


class _Refused(Exception):
    pass


@dataclass(slots=True)
class Transfers:
    """The engine and its words. `table` tells the native machine the spans on their way: how many, then FIELDS each;
    its last element is for the native machine to tell that it met one. `refused`: what could not be started,
    `strayed` where that is outside of all arrays. Unless
    `strict`, transfers outside of all arrays are warned of, by the instructions that start them."""

    dma: Dma
    find: Find
    stray: Stray
    strict: bool = True
    warnings: dict[int, str] = field(default_factory=dict)
    words: Array = field(init=False)
    table: Array = field(init=False)
    running: list[_Transfer] = field(default_factory=list)
    free: int = 0
    refused: str = ""
    strayed: bool = False

    def __post_init__(self) -> None:
        self.words = np.zeros(self.dma.size, dtype=np.uint8)
        self.table = np.zeros(table_size(self.dma), dtype=np.uint64)

    def loaded(self, now: int, offset: int, size: int) -> None:
        """The core reads words in cycle `now`: those that tell whether a transfer is done tell it."""
        for transfer in [
            t for t in self.running if t.done <= now and self.dma.has_go(t.channel, offset, offset + size)
        ]:
            self._end(transfer)

    def stored(self, now: int, offset: int, size: int, uid: int) -> bool:
        """Instruction `uid` has written words by cycle `now`; False where that starts what can't be done."""
        try:
            for channel in range(self.dma.channels):
                if self.dma.has_go(channel, offset, offset + size) and self._word(channel, "go"):
                    self._start(channel, now, uid)
        except _Refused as reason:
            self.refused = str(reason)
        return not self.refused

    def bars(self, low: int, high: int, *, store: bool) -> bool:
        """Whether the core must keep away from a byte of [low, high)."""
        return any(t.destination.meets(low, high) or (store and t.source.meets(low, high)) for t in self.running)

    def _word(self, channel: int, word: str) -> int:
        if word not in self.dma.words:
            return 0
        at = self.dma.place(channel, word)
        return int.from_bytes(self.words[at : at + self.dma.word_bytes].tobytes(), "little")

    def _step(self, channel: int, word: str) -> int:
        bits = 8 * self.dma.word_bytes
        value = self._word(channel, word)
        return value - (1 << bits) if value >> (bits - 1) else value

    def _start(self, channel: int, now: int, uid: int) -> None:
        if any(t.channel == channel for t in self.running):
            raise _Refused(f"a transfer on channel {channel} before it has read that the last one is done")
        rows, size, element = (self._word(channel, w) for w in ("rows", "row_bytes", "element"))
        if not rows or not size:
            raise _Refused(f"a transfer of {rows} rows of {size} bytes")
        if element and (not self.dma.transpose or size % element):
            raise _Refused(f"a transfer of rows of {size} bytes that transposes elements of {element}")
        source = self._span(channel, uid, "source", rows, size)
        if element:
            destination = self._span(channel, uid, "destination", size // element, rows * element)
        else:
            destination = self._span(channel, uid, "destination", rows, size)
        for other in self.running:
            if destination.overlaps(other.source) or any(s.overlaps(other.destination) for s in (source, destination)):
                raise _Refused(f"a transfer that meets what the one of channel {other.channel} moves")
        pace = self.dma.pace(transposed=bool(element))
        self.free = max(now + self.dma.startup, self.free) - (-rows * size // pace)
        self.running.append(_Transfer(channel, uid, self.free, source, destination, element))
        self._tell()

    def _span(self, channel: int, uid: int, word: str, rows: int, size: int) -> Span:
        written = word == "destination"
        low, step = self._word(channel, word), self._step(channel, f"{word}_step")
        if rows > 1 and step < size:
            raise _Refused(f"a transfer with {word} rows of {size} bytes that begin {step} bytes apart")
        span = Span(low, rows, size, max(step, 1), written)
        if self.find(low, span.high - low) is None:
            raise _Refused(f"a transfer whose {word} reaches from {low:#x} up to {span.high:#x}, not inside one memory")
        if stray := self.stray(low, span.high - low, store=written):
            if self.strict:
                self.strayed = True
                raise _Refused(f"a transfer that {stray}")
            self.warnings.setdefault(uid, stray)
        return span

    def _end(self, transfer: _Transfer) -> None:
        self.running.remove(transfer)
        source, destination = self._view(transfer.source), self._view(transfer.destination)
        if transfer.element:
            rows, size = source.shape
            kept = source.reshape(rows, size // transfer.element, transfer.element).transpose(1, 0, 2)
            destination[:] = kept.reshape(destination.shape)
        else:
            destination[:] = source
        at = self.dma.place(transfer.channel, "go")
        self.words[at : at + self.dma.word_bytes] = 0
        self._tell()

    def _view(self, span: Span) -> Array:
        place = self.find(span.low, span.high - span.low)
        assert place is not None
        memory, at = place
        shape, strides = (span.rows, span.row_bytes), (span.step, 1)
        return np.lib.stride_tricks.as_strided(memory[at : at + span.high - span.low], shape, strides)

    def _tell(self) -> None:
        spans = [s for t in self.running for s in (t.source, t.destination)]
        self.table[0] = len(spans)
        for k, s in enumerate(spans):
            at = 1 + k * FIELDS
            self.table[at : at + FIELDS] = (s.low, s.rows, s.row_bytes, s.step, s.written)
