"""The machine's memories, and the faults that both machines report in the same words."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from dspgen.errors import Problem, SourceError
from dspgen.sim.dma import Transfers
from dspgen.sim.ir import Code
from dspgen.target.model import Side, Target

Array = Any
# In a cell's place, for warnings of other kinds; TOGETHER - n: with the store that is op n.
MISALIGNED, FAR, TOGETHER = -1, -2, -3


@dataclass(frozen=True, slots=True)
class Region:
    """A memory with its contents; `shared` tells the sides that reach it."""

    name: str
    base: int
    size: int
    sides: tuple[Side, ...]
    bytes: Array


@dataclass(slots=True)
class MemoryMap:
    """All memories, and behind them the words of the DMA engine. `named` lists (name, address, size) of what was
    placed, for messages."""

    regions: list[Region]
    named: list[tuple[str, int, int]] = field(default_factory=list)
    transfers: Transfers | None = None

    @staticmethod
    def of(target: Target) -> MemoryMap:
        # np.zeros maps pages lazily, so a memory of a gigabyte costs nothing until it is touched.
        found = MemoryMap(
            [Region(m.name, m.base, m.size, m.sides, np.zeros(m.size, dtype=np.uint8)) for m in target.memories]
        )
        if target.dma is not None:
            found.transfers = Transfers(target.dma, partial(_in_one, tuple(found.regions)))
            words = found.transfers.words
            found.regions.append(Region("the words of the DMA engine", target.dma.base, len(words), ("scalar",), words))
        return found

    def find(self, address: int, size: int, side: Side | None) -> tuple[Region, int] | None:
        for region in self.regions:
            offset = address - region.base
            if 0 <= offset and offset + size <= region.size and (side is None or side in region.sides):
                return region, offset
        return None

    def read(self, address: int, size: int) -> bytes | None:
        place = self.find(address, size, None)
        return None if place is None else bytes(place[0].bytes[place[1] : place[1] + size])

    def write(self, address: int, contents: bytes) -> None:
        place = self.find(address, len(contents), None)
        if place is None:
            raise ValueError(f"no memory at {address:#x}")
        place[0].bytes[place[1] : place[1] + len(contents)] = np.frombuffer(contents, dtype=np.uint8)

    def nearest(self, address: int) -> str:
        """What lies closest to an address: a named array, else a memory."""
        spans = [(n, b, s) for n, b, s in self.named] + [(r.name, r.base, r.size) for r in self.regions]
        if not spans:
            return "there is no memory"

        def distance(span: tuple[str, int, int]) -> int:
            _, base, size = span
            return max(base - address, address - (base + size - 1), 0)

        name, base, size = min(spans, key=distance)
        far = distance((name, base, size))
        if far == 0:
            return f"inside {name} ({base:#x}, {size} bytes)"
        where = "before" if address < base else "past the end of"
        return f"{far} bytes {where} {name} ({base:#x}, {size} bytes)"


def _in_one(regions: tuple[Region, ...], address: int, size: int) -> tuple[Array, int] | None:
    for region in regions:
        if region.base <= address and address + size <= region.base + region.size:
            return region.bytes, address - region.base
    return None


def fault(code: Code, kind: str, where: int, detail: int, memories: MemoryMap, limit: int = 0) -> SourceError:
    """The error for a fault: `where` is the op's number (a packet's for "end"), `detail` an address or a cell, for
    "double" with the other op's number."""
    if kind in ("end", "limit"):
        return _program_fault(code, kind, where, limit)
    op = code.ops[where]
    detail &= (1 << 64) - 1
    other = code.ops[detail // len(code.cells)] if kind == "double" else op
    detail = detail % len(code.cells) if kind == "double" else detail
    cell = code.cells[detail].name if kind in ("double", "unwritten", "unsettled") and detail < len(code.cells) else ""
    texts = {
        "outside": ("DG420", f"{op.text} reaches {detail:#x}, {_outside(code, detail, memories)}"),
        "barred": ("DG431", f"{op.text} reaches {detail:#x}, which a transfer is moving: {memories.nearest(detail)}"),
        "early": ("DG433", f"the program returns before it has read that the transfer of {op.text} is done"),
        "transfer": ("DG432", f"{op.text} starts {memories.transfers.refused if memories.transfers else ''}"),
        "misaligned": (
            "DG421",
            f"{op.text} needs a multiple of {op.access.align if op.access else 1}, not {detail:#x}",
        ),
        "double": (
            "DG422",
            f"two writes land on {cell} in one cycle, by {op.text} and by {other.text} of line {other.loc.line}",
        ),
        "branches": ("DG423", f"{op.text} is taken while another taken branch is in its delay slots"),
        "unwritten": ("DG425", f"{op.text} reads {cell}, which was never written"),
        "unsettled": ("DG434", f"{op.text} uses {cell} while a result is on its way there"),
        "begun": ("DG435", f"{op.text} goes back to {detail:#x}, where the loop above it does not begin"),
        "target": ("DG427", f"{op.text} goes to {detail:#x}, which is no label's address{_known(detail, memories)}"),
        "unit": ("DG428", f"{op.text} needs {op.unit} while an earlier instruction still holds it"),
        "port": ("DG428", f"{op.text} needs a port that an earlier instruction holds in that cycle"),
    }
    number, text = texts[kind]
    return SourceError(Problem(number, text, op.loc))


def _outside(code: Code, address: int, memories: MemoryMap) -> str:
    if code.stack is not None and address >= code.stack[1] and memories.find(address, 1, None) is not None:
        return "below the stack pointer, where what interrupts the program may write"
    return f"outside its memory: {memories.nearest(address)}"


def _known(address: int, memories: MemoryMap) -> str:
    inside = any(base <= address < base + size for _, base, size in memories.named)
    return f" ({memories.nearest(address)})" if inside else ""


def _program_fault(code: Code, kind: str, where: int, limit: int) -> SourceError:
    loc = code.slots[min(where, len(code.slots) - 1)].loc
    if kind == "limit":
        return SourceError(Problem("DG426", f"the program still runs after {limit} cycles", loc))
    return SourceError(Problem("DG424", "the program runs off its end: no branch is taken here", loc))


def warning(code: Code, uid: int, cell: int) -> str:
    """What a run that is not strict tells about op `uid`: it read `cell` unwritten, or how its address is amiss."""
    op = code.ops[uid]
    if cell == FAR:
        return f"{op.loc}: {op.text} reaches memory off the chip; machines may not let vectors there"
    if cell <= TOGETHER:
        other = code.ops[TOGETHER - cell]
        beside = f"{other.text} of line {other.loc.line}" if other.loc.line != op.loc.line else other.text
        return f"{op.loc}: {op.text} loads what {beside} stores in the same packet; it gets the old value here"
    if cell != MISALIGNED:
        return f"{op.loc}: {op.text} reads {code.cells[cell].name}, which was never written; it holds zero"
    access = op.access
    align, granule = (access.align, access.granule) if access else (1, 1)
    kept = "is used as it is" if granule == 1 else f"is rounded down to a multiple of {granule}"
    return f"{op.loc}: {op.text} needs a multiple of {align}; the address {kept}"


def float_bits(value: float, double: bool) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0] if double else np.float32(value).view(np.uint32))


def zero_registers(code: Code) -> list[Array]:
    return [np.zeros(max(c.lanes, 1), dtype=f"u{c.storage // 8}") for c in code.cells]
