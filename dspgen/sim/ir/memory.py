"""The machine's memories, and the faults that both machines report in the same words."""

from __future__ import annotations

import struct
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dspgen.errors import Problem, SourceError
from dspgen.sim.ir.dma import Transfers
from dspgen.sim.ir.program import Code, Op
from dspgen.target.isa.model import Side, Target

Array = Any
# In a cell's place, for warnings of other kinds; TOGETHER - n: with the store that is op n.
MISALIGNED, FAR, STRAY, TOGETHER = -1, -2, -3, -4
SIZE_SHIFT = 44  # of the bytes of an access, above its address, in one word
WHOLE = 8 << 20  # bytes of a memory up to which all of it is allocated


@dataclass(frozen=True, slots=True)
class Region:
    """Addresses of a memory that are allocated, with their contents; `sides` tells the sides that reach it."""

    name: str
    base: int
    size: int
    sides: tuple[Side, ...]
    bytes: Array


@dataclass(frozen=True, slots=True)
class MemoryObject:
    """What a program may access: bytes [low, high); [read_low, read_high) may be read. All of them lie in `region`."""

    name: str
    low: int
    high: int
    read_low: int
    read_high: int
    region: Region

    def bounds(self, *, store: bool) -> tuple[int, int]:
        return (self.low, self.high) if store else (self.read_low, self.read_high)


@dataclass(slots=True, weakref_slot=True)
class MemoryMap:
    """All memories, as far as they are allocated, and behind them the words of the DMA engine. `named` lists (name,
    address, size) of what was placed, for messages; `objects` are what the program may access; `whole` has the
    range of addresses of each memory, whatever is allocated."""

    regions: list[Region]
    named: list[tuple[str, int, int]] = field(default_factory=list)
    transfers: Transfers | None = None
    objects: list[MemoryObject] = field(default_factory=list)
    whole: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(target: Target, used: Mapping[str, Sequence[tuple[int, int]]] | None = None) -> MemoryMap:
        """The memories of a machine; of those larger than WHOLE only the `used` ranges of addresses, by memory."""
        ranges = [
            (m, low, high)
            for m in target.memories
            for low, high in (_merged((used or {}).get(m.name, ())) if m.size > WHOLE else [(m.base, m.base + m.size)])
        ]
        # np.zeros maps pages lazily, so what is not touched takes addresses only.
        found = MemoryMap(
            [Region(m.name, low, high - low, m.sides, np.zeros(high - low, dtype=np.uint8)) for m, low, high in ranges],
            whole=tuple((m.base, m.base + m.size) for m in target.memories),
        )
        if target.dma is not None:
            # Not held by its engine, so that memories go with their last user, and not when garbage is looked for.
            held = weakref.proxy(found)
            found.transfers = Transfers(
                target.dma,
                lambda address, size: held.bytes_at(address, size),
                lambda address, size, *, store: held.stray_transfer(address, size, store=store),
            )
            words = found.transfers.words
            name = "the words of the DMA engine"
            found.regions.append(Region(name, target.dma.base, len(words), ("scalar",), words))
        return found

    def find(self, address: int, size: int, side: Side | None) -> tuple[Region, int] | None:
        """Where the bytes are allocated, in a memory that the side reaches; None where they aren't."""
        for region in self.regions:
            offset = address - region.base
            if 0 <= offset and offset + size <= region.size and (side is None or side in region.sides):
                return region, offset
        return None

    def object_at(self, address: int, size: int, side: Side | None, *, store: bool) -> MemoryObject | None:
        """The object that has all of the bytes, or may be read there."""
        for found in self.objects:
            low, high = found.bounds(store=store)
            if low <= address and address + size <= high and (side is None or side in found.region.sides):
                return found
        return None

    def bytes_at(self, address: int, size: int) -> tuple[Array, int] | None:
        """The contents of the memory that has the bytes, and where they are in it."""
        place = self.find(address, size, None)
        return None if place is None else (place[0].bytes, place[1])

    def stray_transfer(self, address: int, size: int, *, store: bool) -> str:
        """How a transfer reaches outside of every object; empty where it does not."""
        if self.object_at(address, size, None, store=store) is not None:
            return ""
        return self.stray(address, size, store=store)

    def place_object(self, name: str, low: int, size: int, before: int = 0, after: int = 0, spare: int = 0) -> None:
        """Let `size` bytes from `low` be accessed, some bytes before and after them be read, and `spare` of the bytes
        after them be written as well."""
        region = self.find(low, size, None)
        assert region is not None
        end = region[0].base + region[0].size
        read_low, read_high = max(low - before, region[0].base), min(low + size + after, end)
        written = min(low + size + spare, end)
        self.objects.append(MemoryObject(name, low, written, read_low, read_high, region[0]))

    def place_regions(self) -> None:
        """Let all memory be accessed."""
        for r in self.regions:
            self.place_object(r.name, r.base, r.size)

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

    def stray(self, address: int, size: int, *, store: bool) -> str:
        """How far an access is outside of the object closest to it."""
        end = address + size

        def distance(x: MemoryObject) -> tuple[int, int]:
            return max(x.low - end, address - x.high, 0), max(x.low - address, end - x.high)

        access = f"{'writes' if store else 'reads'} {size} bytes at {address:#x}"
        near = min(self.objects, key=distance, default=None)
        if near is None:
            return f"{access}, where there is no array"
        before, after = near.low - address, end - near.high
        ways = [f"{before} bytes before"] if before > 0 else []
        ways += [f"{after} bytes past the end of"] if after > 0 else []
        text = f"{access}, up to {' and '.join(ways)} {near.name} ({near.low:#x}, {near.high - near.low} bytes)"
        allowed = near.low - near.read_low, near.read_high - near.high
        if store or not any(allowed):
            return text
        return f"{text}, of which {allowed[0]} bytes before and {allowed[1]} bytes past the end may be read"


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of ranges of addresses, as ranges apart from each other."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        elif high > low:
            found.append((low, high))
    return found


def fault(
    code: Code,
    kind: str,
    where: int,
    detail: int,
    memories: MemoryMap,
    limit: int = 0,
    *,
    size: int = 1,
    store: bool = False,
) -> SourceError:
    """The error for a fault: `where` is the op's number (a packet's for "end"), `detail` an address or a cell, for
    "double" with the other op's number; `size` and `store` tell of the access that is "outside"."""
    if kind in ("end", "limit"):
        return _program_fault(code, kind, where, limit)
    op = code.ops[where]
    detail &= (1 << 64) - 1
    other = code.ops[detail // len(code.cells)] if kind == "double" else op
    detail = detail % len(code.cells) if kind == "double" else detail
    cell = code.cells[detail].name if kind in ("double", "unwritten", "unsettled") and detail < len(code.cells) else ""
    texts = {
        "outside": _outside(code, op, detail, size, memories, store=store),
        "barred": ("DG431", f"{op.text} reaches {detail:#x}, which a transfer is moving: {memories.nearest(detail)}"),
        "early": ("DG433", f"the program returns before it has read that the transfer of {op.text} is done"),
        "transfer": _transfer(op, memories.transfers),
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


def _transfer(op: Op, transfers: Transfers | None) -> tuple[str, str]:
    """The number and the text of a transfer that can't be started."""
    refused = transfers.refused if transfers is not None else ""
    return "DG436" if transfers is not None and transfers.strayed else "DG432", f"{op.text} starts {refused}"


def _outside(code: Code, op: Op, address: int, size: int, memories: MemoryMap, *, store: bool) -> tuple[str, str]:
    """The number and the text of an access outside of all that it may reach."""
    inside = any(low <= address and address + size <= high for low, high in memories.whole)
    if inside and memories.object_at(address, size, None, store=store) is None:
        return "DG436", f"{op.text} {memories.stray(address, size, store=store)}"
    if code.stack is not None and address >= code.stack[1] and memories.find(address, 1, None) is not None:
        why = "below the stack pointer, where what interrupts the program may write"
    else:
        why = f"outside its memory: {memories.nearest(address)}"
    return "DG420", f"{op.text} reaches {address:#x}, {why}"


def _known(address: int, memories: MemoryMap) -> str:
    inside = any(base <= address < base + size for _, base, size in memories.named)
    return f" ({memories.nearest(address)})" if inside else ""


def _program_fault(code: Code, kind: str, where: int, limit: int) -> SourceError:
    loc = code.slots[min(where, len(code.slots) - 1)].loc
    if kind == "limit":
        return SourceError(Problem("DG426", f"the program still runs after {limit} cycles", loc))
    return SourceError(Problem("DG424", "the program runs off its end: no branch is taken here", loc))


def warning(code: Code, uid: int, cell: int, memories: MemoryMap, access: int = 0) -> str:
    """What a run that is not strict tells about op `uid`: it read `cell` unwritten, or how its address is amiss.
    `access`: what `stray_access` makes of the first access outside of every object."""
    op = code.ops[uid]
    if cell == STRAY:
        address, size = (access & ((1 << SIZE_SHIFT) - 1)) - 1, access >> SIZE_SHIFT
        return f"{op.loc}: {op.text} {memories.stray(address, size, store=bool(op.stores))}"
    if cell == FAR:
        return f"{op.loc}: {op.text} reaches memory off the chip; machines may not let vectors there"
    if cell <= TOGETHER:
        other = code.ops[TOGETHER - cell]
        beside = f"{other.text} of line {other.loc.line}" if other.loc.line != op.loc.line else other.text
        return f"{op.loc}: {op.text} loads what {beside} stores in the same packet; it gets the old value here"
    if cell != MISALIGNED:
        return f"{op.loc}: {op.text} reads {code.cells[cell].name}, which was never written; it holds zero"
    align, granule = (op.access.align, op.access.granule) if op.access else (1, 1)
    kept = "is used as it is" if granule == 1 else f"is rounded down to a multiple of {granule}"
    return f"{op.loc}: {op.text} needs a multiple of {align}; the address {kept}"


def transfer_warnings(code: Code, memories: MemoryMap) -> list[str]:
    """What a run that is not strict tells about transfers."""
    strays = memories.transfers.warnings if memories.transfers is not None else {}
    ops = sorted((code.ops[uid] for uid in strays), key=lambda op: op.uid)
    return [f"{op.loc}: {op.text} starts a transfer that {strays[op.uid]}" for op in ops]


def stray_access(address: int, size: int) -> int:
    """An access as one word that is not 0."""
    return size << SIZE_SHIFT | address + 1


def float_bits(value: float, double: bool) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0] if double else np.float32(value).view(np.uint32))


def zero_registers(code: Code) -> list[Array]:
    return [np.zeros(max(c.lanes, 1), dtype=f"u{c.storage // 8}") for c in code.cells]
