"""What code may do before it has its data: the part of straight code that computes numbers and addresses only.

Before: `a = base + 16; x = load a; s = 3; if c { t = s + 1; y = shift x, t }`, to be run once the data are there.
After:  `a = base + 16; s = 3; t = s + 1` before that, `x = load a; if c { y = shift x, t }` after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from dspgen.asmir.ir.function import If, Instr, Item, Jump, Loop, VReg, every_instr, of_virtual, physical, reads, writes

_MOST = 36  # instructions: what waits for short transfers is not to wait for these


def ahead(
    items: Sequence[Item], room: Callable[[str], int], later: Sequence[Item] = ()
) -> tuple[list[Item], list[Item]]:
    """What can be done before whatever the rest waits for, up to the first loop, and the rest, both in their order.
    What the rest reads stays in registers meanwhile: `room` tells for how many there is room in a class. Of what is
    done under a condition, what neither others read or write nor what comes `later` is done in any case."""
    found = _Ahead(items, room, later)
    kept = found.walk(items, None)
    return found.before, kept


class _Ahead:
    def __init__(self, items: Sequence[Item], room: Callable[[str], int], later: Sequence[Item]) -> None:
        self.room, self.touched = room, _touched([*items, *later])
        self.before: list[Item] = []
        self.made: set[VReg] = set()  # by what goes ahead
        self.read: set[VReg] = set()  # by what is kept
        self.written: set[VReg] = set()
        self.set_here = {name for instr in every_instr(items) for name in physical(instr)}
        # Reads of each register that are not ahead themselves.
        self.left = Counter(r for instr in every_instr(items) for r, _ in reads(instr))
        self.left.update(_told(items))
        self.ended = False

    def walk(self, items: Sequence[Item], own: Counter[VReg] | None) -> list[Item]:
        """What is kept of items; `own`: how often they touch each register, if they run under a condition."""
        kept: list[Item] = []
        for item in items:
            if not self.ended and isinstance(item, Instr) and self._may_go(item, own):
                self._go(item)
                continue
            if not self.ended and isinstance(item, If):
                self.read.add(item.condition)
                then, otherwise = (tuple(self.walk(x, _touched(x))) for x in (item.then, item.otherwise))
                item = replace(item, then=then, otherwise=otherwise)
            elif isinstance(item, Instr):
                self.read |= {r for r, _ in reads(item)}
                self.written |= {r for r, _ in writes(item)}
            else:
                self.ended = True
            kept.append(item)
        return kept

    def _may_go(self, instr: Instr, own: Counter[VReg] | None) -> bool:
        uses, results = {r for r, _ in reads(instr)}, {r for r, _ in writes(instr)}
        if len(self.before) >= _MOST:
            return False
        if not _computes(instr, self.set_here) or uses & self.written or results & (self.read | self.written):
            return False
        if own is not None and any(own[r] != self.touched[r] for r in results):
            return False
        made = {r for r in self.made | results if self.left[r] > sum(r == used for used, _ in reads(instr))}
        held = Counter(r.cls for r in made)
        return all(held[r.cls] <= self.room(r.cls) for r in results)

    def _go(self, instr: Instr) -> None:
        self.before.append(instr)
        self.left.subtract(r for r, _ in reads(instr))
        self.made |= {r for r, _ in writes(instr)}


def _told(items: Sequence[Item]) -> Iterator[VReg]:
    """The registers that tell where control goes, and those that loops count in, or that are kept for jumps."""
    for item in items:
        match item:
            case Loop(trip=trip, streams=streams, body=body):
                yield from (trip,) if isinstance(trip, VReg) else ()
                yield from (s.base for s in streams)
                yield from _told(body)
            case If(condition=condition, inside=inside):
                yield condition
                yield from _told(inside)
            case Jump(keeps=keeps):
                yield from keeps
            case _:
                pass


def _touched(items: Sequence[Item]) -> Counter[VReg]:
    """How often each register is read or written."""
    found = Counter(_told(items))
    for instr in every_instr(items):
        found.update(r for r, _ in reads(instr))
        found.update(r for r, _ in writes(instr))
    return found


def _computes(instr: Instr, set_here: AbstractSet[str]) -> bool:
    """Whether it does nothing but make registers of registers, none of them physical ones that may be `set_here`."""
    if instr.ordered or instr.masked or instr.instruction.memory is not None or not list(writes(instr)):
        return False
    return of_virtual(instr, set_here)
