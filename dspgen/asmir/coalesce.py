"""Removes moves that only carry a fresh value into a variable.

Before: `op t, ...; ...; mov t, c` with t written once, and c neither read nor written in between.
After:  `op c, ...; ...`, every other reader of t reading c.
Requires: t does not live past the block: no temporary of lowering does; variables that do are named in `keep`.
"""

from __future__ import annotations

from dataclasses import replace

from dspgen.asmir.ir import If, Instr, Item, Jump, Loop, Mark, Mem, OperandValue, Reg, VReg


def coalesce_moves(items: list[Item], keep: frozenset[VReg] = frozenset()) -> list[Item]:
    """One pass over a block, last move first."""
    items = list(items)
    index = len(items) - 1
    while index >= 0:
        item = items[index]
        if isinstance(item, Instr) and (move := _plain_move(item)) is not None:
            source, destination = move
            start = None if source in keep else _only_definition(items, index, source)
            if start is not None and not _disturbed(items, start, index, source, destination):
                for k in range(start, len(items)):
                    items[k] = _rename(items[k], source, destination)
                del items[index]
        index -= 1
    return items


def _plain_move(instr: Instr) -> tuple[VReg, VReg] | None:
    semantics = instr.instruction.semantics
    if len(semantics) != 1 or instr.predicate is not None:
        return None
    target, value = semantics[0].target, semantics[0].value
    value = value.args[0] if value.op == "mov" else value
    if target is None or target.part or value.op != "place" or value.part:
        return None
    by_name = {o.name: v for o, v in zip(instr.instruction.operands, instr.operands, strict=True)}
    source, destination = by_name.get(value.name), by_name.get(target.name)
    match source, destination:
        case Reg(vreg=s, part=""), Reg(vreg=d, part="") if s.cls == d.cls and s != d:
            return s, d
        case _:
            return None


def _only_definition(items: list[Item], before: int, register: VReg) -> int | None:
    """Where `register` is defined, if that is one whole unpredicated write in this block and nothing else writes it."""
    found: int | None = None
    for k, item in enumerate(items):
        writes = _writes(item)
        if register not in writes:
            continue
        whole = isinstance(item, Instr) and item.predicate is None and writes[register]
        if found is not None or not whole or k >= before:
            return None
        found = k
    return found


def _disturbed(items: list[Item], start: int, end: int, source: VReg, destination: VReg) -> bool:
    """Whether the destination is touched between the definition and the move, or written while the source is read."""
    first = items[start]
    if destination in _writes(first):
        return True
    for k in range(start + 1, end):
        if destination in _reads(items[k]) or destination in _writes(items[k]):
            return True
    last_read = max((k for k in range(end + 1, len(items)) if source in _reads(items[k])), default=end)
    return any(destination in _writes(items[k]) for k in range(end + 1, last_read + 1))


def _registers(value: OperandValue) -> tuple[VReg, ...]:
    match value:
        case Reg(vreg=r):
            return (r,)
        case Mem(base=VReg() as base):
            return (base,)
        case _:
            return ()


def _reads(item: Item) -> set[VReg]:
    match item:
        case Instr():
            found = {
                r
                for o, x in zip(item.instruction.operands, item.operands, strict=True)
                if o.read or o.kind == "memory"
                for r in _registers(x)
            }
            if item.predicate is not None:
                found.add(item.predicate.register)
                found |= set(_writes(item))
            return found
        case Loop():
            inside = {r for x in item.body for r in _reads(x)} | {s.base for s in item.streams}
            return inside | ({item.trip} if isinstance(item.trip, VReg) else set())
        case If():
            return {r for x in item.then for r in _reads(x)} | {item.condition}
        case Jump(branch=branch, keeps=keeps):
            return _reads(branch) | set(keeps)
        case Mark():
            return set()


def _writes(item: Item) -> dict[VReg, bool]:
    """Registers written, and whether wholly."""
    match item:
        case Instr():
            return {
                x.vreg: not x.part and not o.read
                for o, x in zip(item.instruction.operands, item.operands, strict=True)
                if o.write and isinstance(x, Reg)
            }
        case Loop():
            return {r: False for x in item.body for r in _writes(x)} | {s.base: False for s in item.streams}
        case If():
            return {r: False for x in item.then for r in _writes(x)}
        case Mark() | Jump():
            return {}


def _rename(item: Item, old: VReg, new: VReg) -> Item:
    match item:
        case Instr():
            operands = tuple(_renamed(x, old, new) for x in item.operands)
            predicate = item.predicate
            if predicate is not None and predicate.register == old:
                predicate = replace(predicate, register=new)
            return replace(item, operands=operands, predicate=predicate)
        case Loop():
            trip = new if item.trip == old else item.trip
            return replace(item, trip=trip, body=tuple(_rename(x, old, new) for x in item.body))
        case If():
            condition = new if item.condition == old else item.condition
            return replace(item, condition=condition, then=tuple(_rename(x, old, new) for x in item.then))
        case Jump(branch=branch, keeps=keeps):
            renamed = _rename(branch, old, new)
            assert isinstance(renamed, Instr)
            return replace(item, branch=renamed, keeps=tuple(new if r == old else r for r in keeps))
        case Mark():
            return item


def _renamed(value: OperandValue, old: VReg, new: VReg) -> OperandValue:
    if isinstance(value, Reg) and value.vreg == old:
        return Reg(new, value.part)
    if isinstance(value, Mem) and value.base == old:
        return replace(value, base=new)
    return value
