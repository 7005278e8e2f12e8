"""Which registers are occupied in which cycle, on finished packets: liveness with landings and delay slots.

A result lands some cycles after its issue, perhaps in the next block. A register is occupied from the landing of a
value to its last read; the old value may be read until the new one lands. Kernels, whose results land in their own
next round, are looked at as a first round (entered from the prolog) followed by steady ones, so that a value is known
to be overwritten in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from dspgen.sched.graph.rigid_sections import Block
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.target_facts import Atom, Facts


@dataclass(slots=True)
class _Stretch:
    """A block as analysed: for each cycle the atoms read, landed and overwritten, as bit sets."""

    block: int
    length: int
    successors: list[int] = field(default_factory=list)
    predecessors: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    lands: list[int] = field(default_factory=list)
    kills: list[int] = field(default_factory=list)
    own_after: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    after: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    live: list[int] = field(default_factory=list)


@dataclass
class Occupancy:
    """Interference of atoms as bit sets over `atoms`, found where it is asked for, which crowded code does not come to;
    `cycles` has for each block the occupied atoms of each cycle."""

    atoms: list[Atom]
    interference: Callable[[], list[int]]
    at_entry: int
    cycles: list[list[int]]

    @cached_property
    def neighbours(self) -> list[int]:
        return self.interference()


def occupancy(blocks: Sequence[Block], facts: Facts, inputs: Sequence[Atom], outputs: Sequence[Atom]) -> Occupancy:
    """Liveness of all atoms; `inputs` hold values at entry, `outputs` are read after the last block."""
    index: dict[Atom, int] = {}
    for atom in (*inputs, *outputs):
        index.setdefault(atom, len(index))
    for block in blocks:
        for packet in block.cycles:
            for op, _ in packet:
                for atom, _ in (*op.reads, *op.writes):
                    index.setdefault(atom, len(index))
    stretches = _layout(blocks, facts)
    for stretch in stretches:
        _own_events(stretch, blocks[stretch.block], facts, index)
    _carry_over(stretches)
    wanted = sum(1 << index[a] for a in outputs)
    _backward(stretches, wanted)
    given = sum(1 << index[a] for a in inputs)
    interference = partial(_interference, stretches, len(index), given)
    return Occupancy(list(index), interference, given, _cycles(stretches, len(blocks), given))


def _layout(blocks: Sequence[Block], facts: Facts) -> list[_Stretch]:
    longest = max((op.longest for b in blocks for p in b.cycles for op, _ in p), default=1)
    stretches: list[_Stretch] = []
    first: list[int] = []
    last: list[int] = []
    for number, block in enumerate(blocks):
        first.append(len(stretches))
        rounds = 1 + (-(-longest // len(block.cycles)) if block.steady else 0)
        # Results may land in the very cycle after the return; they must not meet there either.
        leaves = block.target is None and not (block.through and number + 1 < len(blocks))
        for _ in range(rounds):
            stretches.append(_Stretch(number, len(block.cycles) + int(leaves)))
        last.append(len(stretches) - 1)
    at_label = {label: number for number, block in enumerate(blocks) for label in block.labels}
    for number, block in enumerate(blocks):
        for k in range(first[number], last[number] + 1):
            successors = []
            if block.target is not None:
                target = at_label[block.target]
                successors.append(min(k + 1, last[number]) if target == number and block.steady else first[target])
            if block.through and number + 1 < len(blocks):
                successors.append(first[number + 1])
            stretches[k].successors = successors
    for k, stretch in enumerate(stretches):
        for successor in stretch.successors:
            stretches[successor].predecessors.append(k)
    return stretches


def _own_events(stretch: _Stretch, block: Block, facts: Facts, index: dict[Atom, int]) -> None:
    length = stretch.length
    stretch.reads, stretch.lands, stretch.kills = [0] * length, [0] * length, [0] * length
    after: dict[int, list[int]] = {}
    for at, packet in enumerate(block.cycles):
        for op, _ in packet:
            _op_events(op, at, stretch, after, facts, index)
    stretch.own_after = {offset: (r, w, k) for offset, (r, w, k) in sorted(after.items())}
    stretch.after = dict(stretch.own_after)


def _op_events(
    op: Op, at: int, stretch: _Stretch, after: dict[int, list[int]], facts: Facts, index: dict[Atom, int]
) -> None:
    length = stretch.length
    for atom, late in op.reads:
        bit = 1 << index[atom]
        if at + late < length:
            stretch.reads[at + late] |= bit
        else:
            after.setdefault(at + late - length, [0, 0, 0])[0] |= bit
    for atom, latency in op.writes:
        bit = 1 << index[atom]
        landing = facts.landing(latency)
        over = max([landing, *(late + 1 for read, late in op.reads if read == atom)])  # the instruction's own value
        for time in range(at + landing, at + max(latency, landing) + 1):
            kill = time == at + over and atom not in op.tied
            if time < length:
                stretch.lands[time] |= bit
                if kill:
                    stretch.kills[time] |= bit
            else:
                entry = after.setdefault(time - length, [0, 0, 0])
                entry[1] |= bit
                if kill:
                    entry[2] |= bit


def _carry_over(stretches: list[_Stretch]) -> None:
    """Bring reads and landings past a block's end to their cycle in the blocks after it."""
    changed = True
    while changed:
        changed = False
        for stretch in stretches:
            after = dict(stretch.own_after)
            for offset, events in _arriving(stretches, stretch).items():
                if offset >= stretch.length:
                    old = after.get(offset - stretch.length, (0, 0, 0))
                    after[offset - stretch.length] = (old[0] | events[0], old[1] | events[1], old[2] | events[2])
            if after != stretch.after:
                stretch.after = after
                changed = True
    for stretch in stretches:
        for offset, (reads, lands, kills) in _arriving(stretches, stretch).items():
            if offset < stretch.length:
                stretch.reads[offset] |= reads
                stretch.lands[offset] |= lands
                if offset > 0:
                    stretch.kills[offset] |= kills


def _arriving(stretches: list[_Stretch], stretch: _Stretch) -> dict[int, tuple[int, int, int]]:
    """Events from all predecessors; a value is overwritten for sure only if it is on every way in."""
    found: dict[int, tuple[int, int, int]] = {}
    offsets = sorted({o for p in stretch.predecessors for o in stretches[p].after})
    for offset in offsets:
        events = [stretches[p].after.get(offset, (0, 0, 0)) for p in stretch.predecessors]
        reads = lands = 0
        kills = -1
        for r, w, k in events:
            reads |= r
            lands |= w
            kills &= k
        found[offset] = (reads, lands, kills)
    return found


def _backward(stretches: list[_Stretch], wanted: int) -> None:
    for stretch in stretches:
        stretch.live = [0] * stretch.length
    changed = True
    while changed:
        changed = False
        for stretch in reversed(stretches):
            live = 0 if stretch.successors else wanted
            for successor in stretch.successors:
                live |= stretches[successor].live[0]
            live &= ~stretch.after.get(0, (0, 0, 0))[2]
            for at in range(stretch.length - 1, -1, -1):
                live |= stretch.reads[at]
                if stretch.live[at] != live:
                    stretch.live[at] = live
                    changed = True
                live &= ~stretch.kills[at]


def _cycles(stretches: list[_Stretch], blocks: int, given: int) -> list[list[int]]:
    cycles: list[list[int]] = [[] for _ in range(blocks)]
    for number, stretch in enumerate(stretches):
        row = cycles[stretch.block]
        for at in range(stretch.length):
            occupied = stretch.live[at] | stretch.lands[at]
            if number == 0 and at == 0:
                occupied |= given
            if at < len(row):
                row[at] |= occupied
            else:
                row.append(occupied)
    return cycles


def _interference(stretches: list[_Stretch], atoms: int, given: int) -> list[int]:
    neighbours = [0] * atoms
    ends = [0] * len(stretches)
    for number, stretch in enumerate(stretches):
        if stretch.length:
            ends[number] = stretch.live[-1] | stretch.lands[-1]
    for number, stretch in enumerate(stretches):
        before = -1
        for predecessor in stretch.predecessors:
            before &= ends[predecessor]
        if not stretch.predecessors or number == 0:
            before = 0
        for at in range(stretch.length):
            occupied = stretch.live[at] | stretch.lands[at]
            if number == 0 and at == 0:
                occupied |= given
            fresh = occupied & ~before
            before = occupied
            while fresh:
                low = fresh & -fresh
                neighbours[low.bit_length() - 1] |= occupied
                fresh ^= low
    return _both_ways(neighbours)


def _both_ways(neighbours: Sequence[int]) -> list[int]:
    """A relation as bit sets, made symmetric, with nothing next to itself."""
    size = len(neighbours)
    width = -(-size // 8)
    rows = np.frombuffer(b"".join(n.to_bytes(width, "little") for n in neighbours), np.uint8).reshape(size, width)
    cells = np.unpackbits(rows, axis=1, count=size, bitorder="little")
    cells |= cells.T.copy()
    np.fill_diagonal(cells, 0)
    return [int.from_bytes(row.tobytes(), "little") for row in np.packbits(cells, axis=1, bitorder="little")]
