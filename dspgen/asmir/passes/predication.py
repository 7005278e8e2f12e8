"""Operations under a predicate of their own, in place of predicated moves of their results.

Before: `op x, y, t; mov s, d; [p] mov t, d`. After: `mov s, d; [p] op x, y, d`, which reads d where it read s.
Requires: t does not live past the block; variables that do are named in `keep`. What depends on physical registers
(an element register, a shuffle's mode) stays where it is: others may have written them meanwhile.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from dspgen.asmir.ir.function import Instr, Item, VReg, every_instr, of_virtual, overwrites, physical, renamed, writes
from dspgen.asmir.passes.copy_coalescing import item_reads, item_writes, moved


def predicate_operations(items: list[Item], keep: frozenset[VReg] = frozenset()) -> list[Item]:
    """One pass over a block."""
    block: list[Item | None] = list(items)
    touched: dict[VReg, list[int]] = {}
    for k, item in enumerate(items):
        for register in item_reads(item) | item_writes(item).keys():
            touched.setdefault(register, []).append(k)
    set_here = {name for instr in every_instr(items) for name in physical(instr)}
    for k, item in enumerate(items):
        if not isinstance(item, Instr) or item.predicate is None or (move := moved(item)) is None:
            continue
        source, destination = move
        places = touched[source]
        if source in keep or len(places) != 2 or places[1] != k:
            continue
        maker = block[places[0]]
        if not isinstance(maker, Instr) or not _can_wait(maker, item, source, set_here):
            continue
        between = block[places[0] + 1 : k]
        read = item_reads(maker)
        if destination in read or any(read & item_writes(x).keys() for x in between if x is not None):
            continue
        made = _renamed(maker, source, destination)
        copied = _copied_from(block, k, destination, touched)
        if copied is not None and copied != item.predicate.register:
            made = _renamed(made, copied, destination)
        block[places[0]] = None
        block[k] = replace(made, predicate=item.predicate)
        for register in read:
            touched[register] = sorted({*touched[register], k})
    return [item for item in block if item is not None]


def _can_wait(maker: Instr, move: Instr, result: VReg, set_here: AbstractSet[str]) -> bool:
    """Whether an instruction does nothing but make the result, all of it, of virtual registers, and takes the move's
    predicate."""
    if maker.predicate is not None or maker.instruction.memory is not None or not of_virtual(maker, set_here):
        return False
    if any(instr.ordered or instr.masked for instr in (maker, move)):
        return False
    kinds = maker.instruction.predicable == move.instruction.predicable
    return kinds and list(writes(maker)) == [(result, "")] and (result, "") in overwrites(maker)


def _copied_from(block: list[Item | None], before: int, register: VReg, touched: dict[VReg, list[int]]) -> VReg | None:
    """The register that has the same value, since it was just copied."""
    last = max((k for k in touched[register] if k < before), default=None)
    item = None if last is None else block[last]
    if last is None or not isinstance(item, Instr) or item.predicate is not None or (move := moved(item)) is None:
        return None
    source, destination = move
    changed = any(source in item_writes(x) for x in block[last + 1 : before] if x is not None)
    return None if changed or destination != register else source


def _renamed(instr: Instr, old: VReg, new: VReg) -> Instr:
    return replace(instr, operands=tuple(renamed(x, {old: new}) for x in instr.operands))
