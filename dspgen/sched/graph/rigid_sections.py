"""Rigid pieces of scheduled code, and what they ask of the code around them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dspgen.asmir.ir.function import MemRef
from dspgen.sched.ir.packets import StraightReport
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.target_facts import Atom, Facts

Member = tuple[Op, int, int]  # operation, cycle, unit


@dataclass(slots=True)
class Envelope:
    """Extreme times of reads, landings, loads and stores, relative to the start (or the end) of a piece.

    `loads` and `stores` are by array, None for accesses that may touch anything.
    """

    reads: dict[Atom, int] = field(default_factory=dict)
    lands: dict[Atom, int] = field(default_factory=dict)
    loads: dict[str | None, int] = field(default_factory=dict)
    stores: dict[str | None, int] = field(default_factory=dict)
    ordered: int | None = None


@dataclass(slots=True)
class Section:
    """Operations at fixed cycles within `length` cycles; `blocked` (unit, cycle) are still taken by earlier ones."""

    members: list[Member]
    length: int
    envelope: Envelope
    blocked: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Block:
    """Straight packets; control enters at the top. With `target`, a branch in it takes effect at its end, or what is
    written at the `end` of its last packet.

    `through`: control may also go on to the next block. `trips`: how often the block runs in all (None: not known).
    `steady`: a kernel, whose results in flight at its end land in its next round. `in_use`: how many registers of some
    classes its straight code is known to take.
    """

    labels: list[str]
    cycles: list[list[tuple[Op, int]]]
    target: str | None = None
    through: bool = True
    trips: int | None = 1
    steady: bool = False
    report: StraightReport | None = None
    in_use: dict[str, int] = field(default_factory=dict)
    end: Op | None = None


def stand_still(block: Block, cycles: int) -> None:
    """Let a block end so many cycles after its last store of unknown place, if it has any; or later, as it does."""
    starts = [at for at, packet in enumerate(block.cycles) for op, _ in packet if op.is_store and op.access is None]
    if starts:
        block.cycles = [*block.cycles, *([] for _ in range(max(starts) + cycles - len(block.cycles)))]


def envelope_of(members: Iterable[tuple[Op, int]], facts: Facts, *, first: bool) -> Envelope:
    """The earliest times (`first`) or the latest ones; the latest `lands` and `stores` are those from
    which results are readable, and the last before."""
    found = Envelope()
    pick = min if first else max
    for op, cycle in members:
        for atom, late in op.reads:
            at = cycle + (facts.wanted(late) - op.early.get(atom, 0) if first else late)
            found.reads[atom] = pick(found.reads.get(atom, at), at)
        for atom, latency in op.writes:
            landing = cycle + (facts.landing(latency) if first else latency)
            found.lands[atom] = pick(found.lands.get(atom, landing), landing)
        if op.touches_memory:
            array = _table_key(op.access)
            table = found.stores if op.is_store else found.loads
            at = cycle if first else cycle + op.seen - 1
            table[array] = pick(table.get(array, at), at)
        if op.ordered:
            at = cycle if first else cycle + op.longest
            found.ordered = at if found.ordered is None else pick(found.ordered, at)
    return found


def _table_key(access: MemRef | None) -> str | None:
    return None if access is None or access.shared else access.array


def touching(table: dict[str | None, int], op: Op) -> list[int]:
    """Times in `table` of accesses that may meet the array of `op`."""
    if _table_key(op.access) is None or op.access is None:
        return list(table.values())
    return [table[key] for key in (op.access.array, None) if key in table]


def shared(a: dict[str | None, int], b: dict[str | None, int]) -> Iterable[tuple[int, int]]:
    """Pairs of times of accesses that may meet."""
    for key, time in a.items():
        for other, time_other in b.items():
            if key is None or other is None or key == other:
                yield time, time_other
