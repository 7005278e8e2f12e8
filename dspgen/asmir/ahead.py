"""What code may do before it has its data: the part of straight code that computes numbers and addresses only.

Before: `a = base + 16; x = load a; s = 3; y = shift x, s`, to be run once the data are there.
After:  `a = base + 16; s = 3` before that, `x = load a; y = shift x, s` after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from dspgen.asmir.ir import Instr, Item, Phys, VReg, reads, writes


def ahead(items: Sequence[Item], room: Callable[[str], int]) -> tuple[list[Item], list[Item]]:
    """What can be done before whatever the rest waits for, and the rest, both in their order. Results stay in their
    registers meanwhile: `room` tells for how many there is room in a class."""
    taken: dict[str, int] = {}
    before: list[Item] = []
    kept: list[Item] = []
    read: set[VReg] = set()  # by what is kept
    written: set[VReg] = set()
    set_here = {name for item in items if isinstance(item, Instr) for name in _physical(item)}
    for k, item in enumerate(items):
        if not isinstance(item, Instr):
            return before, [*kept, *items[k:]]
        uses, results = {r for r, _ in reads(item)}, {r for r, _ in writes(item)}
        fits = all(taken.get(r.cls, 0) < room(r.cls) for r in results)
        if fits and _computes(item, set_here) and not uses & written and not results & (read | written):
            before.append(item)
            for result in results:
                taken[result.cls] = taken.get(result.cls, 0) + 1
        else:
            kept.append(item)
            read |= uses
            written |= results
    return before, kept


def _computes(instr: Instr, set_here: AbstractSet[str]) -> bool:
    """Whether it does nothing but make registers of registers, none of them physical ones that may be `set_here`."""
    if instr.ordered or instr.masked or instr.instruction.memory is not None or not list(writes(instr)):
        return False
    return not list(_physical(instr)) and set_here.isdisjoint(instr.instruction.implicit_reads)


def _physical(instr: Instr) -> Iterator[str]:
    """The physical registers that it names, or writes without naming them."""
    yield from (v.name for v in instr.operands if isinstance(v, Phys))
    yield from instr.instruction.implicit_writes
