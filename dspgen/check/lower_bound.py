"""How few cycles any schedule of packets' instructions could take, knowing nothing of the schedulers.

Packets are run on given arguments. Each instruction that issues waits for the results that it reads, through registers
(each write is a new value) and through memory, and for nothing else. Two kinds of bounds come of that: the longest
chain of waits, and, for each set of units, the one that Rim and Jain build on ("Lower-bound performance estimation for
the high-level synthesis scheduling problem", 1994): instructions that can't issue before cycle e, and are followed by
chains of t cycles, need a place each on these units between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dspgen.check.equivalence import entered
from dspgen.check.packets import Packets
from dspgen.sim.ir.program import Assembled, Op
from dspgen.sim.lowering.load import Argument
from dspgen.target.isa.model import Target

_BEGINS = 256  # times that are tried as the first of a set's instructions


@dataclass(frozen=True, slots=True)
class Least:
    """`cycles` from entry through the delay slots of the return; `chain`: by the longest chain alone; `units`: those
    that bind, empty where the chain does."""

    cycles: int
    chain: int
    units: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Event:
    """An instruction that issued: whom it waits for, and how long from that one's issue on."""

    op: Op
    waits: dict[int, int]


class _Watched(Packets):
    """Packets that remember who wrote what is read."""

    events: list[_Event]

    def watch(self) -> None:
        self.events = []
        self.issued: dict[tuple[int, int], int] = {}
        self.writers: dict[int, list[tuple[int, int, int | None]]] = {}
        self.bytes: dict[int, tuple[int, int]] = {}

    def _reserve(self, op: Op) -> None:
        super()._reserve(op)
        self.issued[op.uid, self.time] = len(self.events)
        self.events.append(_Event(op, {}))

    def _reads(self, op: Op, cells: Sequence[int], since: int) -> None:
        super()._reads(op, cells, since)
        for cell in cells:
            read = op.lane_read(cell)
            for source, latency, lane in self.writers.get(cell, ()):
                if read is None or lane is None or lane == read:
                    self._wait(self.issued[op.uid, since], source, latency - (self.time - since))

    def _reach(self, op: Op) -> None:
        super()._reach(op)
        if not op.stores:
            places = {a for low, high in self.state.touched for a in range(low, high)}
            for source, latency in {self.bytes[a] for a in places if a in self.bytes}:
                self._wait(self.issued[op.uid, self.time], source, latency)

    def _wait(self, event: int, source: int, latency: int) -> None:
        """What issued later, read late, is left out: a bound stays one without it."""
        if source < event:
            waits = self.events[event].waits
            waits[source] = max(latency, waits.get(source, 0))

    def _land(self) -> None:
        for effect in self.flight.get(self.time, ()):
            made = self.issued[effect.op.uid, effect.issued], self.time - effect.issued
            if effect.cell < 0:
                self.bytes.update(dict.fromkeys(effect.codes, made))
                continue
            part = bool(effect.masks) or effect.lane is not None
            self.writers[effect.cell] = [*(self.writers.get(effect.cell, ()) if part else ()), (*made, effect.lane)]
        super()._land()


def least_cycles(
    program: Assembled,
    target: Target,
    arguments: Sequence[tuple[str, Argument]],
    *,
    stack: int = 0,
    cycles: int = 20_000,
) -> Least | None:
    """None for a run that takes more than so many cycles, or that the machine refuses."""
    loaded, state = entered(program, target, arguments, stack=stack)
    run = _Watched(state, loaded.code, target.pipeline.branch_delay, loaded.start.return_address)
    run.watch()
    run.run(loaded.start.entry, cycles, loaded.memories)
    if run.problems:
        return None
    early, tails = _chains(run.events)
    busy = np.array([e.op.busy for e in run.events])
    units = _units(run.events, target)
    chain = int((early + tails).max(initial=0)) + 1
    least = Least(max(chain, 1 + target.pipeline.branch_delay), chain, ())
    for share, most in _shares(units, target):
        chosen = np.array([u <= share for u in units])
        found = _between(early[chosen], tails[chosen], busy[chosen], most)
        if found > least.cycles:
            least = Least(found, chain, tuple(sorted(share)))
    return least


def _chains(events: Sequence[_Event]) -> tuple[np.ndarray, np.ndarray]:
    """The first cycle in which each can issue, and the cycles of the longest chain that begins with its issue."""
    early, tails = np.zeros(len(events), int), np.zeros(len(events), int)
    for k, event in enumerate(events):
        early[k] = max((early[s] + latency for s, latency in event.waits.items()), default=0)
    for k in reversed(range(len(events))):
        for source, latency in events[k].waits.items():
            tails[source] = max(tails[source], latency + tails[k])
    return early, tails


def _units(events: Sequence[_Event], target: Target) -> list[frozenset[str]]:
    """All units that an instruction of the same name can be on."""
    named: dict[str, frozenset[str]] = {}
    for row in target.instructions:
        named[row.mnemonic] = named.get(row.mnemonic, frozenset()) | frozenset(row.all_units)
    return [named[e.op.text] for e in events]


def _shares(used: Sequence[frozenset[str]], target: Target) -> list[tuple[frozenset[str], int]]:
    """Sets of units, and how many instructions can start on each in a cycle."""
    kinds = list(dict.fromkeys(used))
    every = frozenset[str]().union(*kinds)
    found = {kind: len(kind) for kind in kinds}
    found |= {a | b: len(a | b) for a in kinds for b in kinds if a & b}
    found[every] = min(target.packets.issue, len(every))
    return [*found.items(), *((limit.units, limit.most) for limit in target.packets.limits)]


def _between(early: np.ndarray, tails: np.ndarray, busy: np.ndarray, most: int) -> int:
    """The least cycles of instructions that share `most` units."""
    order = np.argsort(-tails, kind="stable")
    early, tails, busy = early[order], tails[order], busy[order]
    best, longest = 0, int(busy.max(initial=1))
    begins = np.unique(early)
    for begin in begins[:: max(1, len(begins) // _BEGINS)]:
        later = early >= begin
        taken = np.cumsum(busy[later])
        cycles = begin + -(-taken // most) - longest + 1 + tails[later]
        best = max(best, int(cycles.max(initial=0)))
    return best
