"""Removes moves that only carry a fresh value into a variable; shifts by nothing are moves.

Before: `op t, ...; ...; mov t, c` with t written once, and c neither read nor written in between.
After:  `op c, ...; ...`, every other reader of t reading c.
Requires: t does not live past the block: no temporary of lowering does; variables that do are named in `keep`.

So are moves to and from the operand that a result takes the place of, as in `mov t, c; add t, x; mov c, t`.
"""

from __future__ import annotations

from dataclasses import replace

from dspgen.asmir.ir.function import (
    If,
    Imm,
    Instr,
    Item,
    Jump,
    Loop,
    Mark,
    Reg,
    VReg,
    overwrites,
    reads,
    renamed,
    writes,
)

_SHIFTS = frozenset({"shl", "shr", "shru"})


def coalesce_moves(items: list[Item], keep: frozenset[VReg] = frozenset()) -> list[Item]:
    """One pass over a block, last move first."""
    block = _Block(items)
    for index in range(len(items) - 1, -1, -1):
        item = block.items[index]
        if isinstance(item, Instr) and item.predicate is None and (move := moved(item)) is not None:
            source, destination = move
            start = None if source in keep or source == destination else block.only_definition(index, source)
            if start is not None and not block.disturbed(start, index, source, destination):
                block.remove(index)
                block.rename(start, source, destination)
                if isinstance(begun := block.items[start], Instr) and moved(begun) == (destination, destination):
                    block.remove(start)
    _in_place(block, keep)
    return [item for item in block.items if item is not None]


def _in_place(block: _Block, keep: frozenset[VReg]) -> None:
    """A register that starts as another one and is changed then is that one: where the other isn't read any more, or
    is given the value back before it is touched again."""
    for index, item in enumerate(block.items):
        if not isinstance(item, Instr) or item.predicate is not None or (move := moved(item)) is None:
            continue
        source, copy = move
        if copy in keep or source == copy or not block.changed(copy, index):
            continue
        back = block.given_back(index, source, copy)
        if back is not None or (source not in keep and block.ends(index, source)):
            block.remove(index)
            if back is not None:
                block.remove(back)
            block.rename(index, copy, source)


class _Block:
    """Items, None where one was taken out, and where each register is read or written."""

    def __init__(self, items: list[Item]) -> None:
        self.items: list[Item | None] = list(items)
        self.reads: list[set[VReg]] = [set() for _ in items]
        self.writes: list[dict[VReg, bool]] = [{} for _ in items]
        self.places: dict[VReg, set[int]] = {}
        for k, item in enumerate(items):
            self._put(k, item)

    def _put(self, k: int, item: Item | None) -> None:
        for register in self.reads[k] | self.writes[k].keys():
            self.places[register].discard(k)
        self.items[k] = item
        self.reads[k] = set() if item is None else item_reads(item)
        self.writes[k] = {} if item is None else item_writes(item)
        for register in self.reads[k] | self.writes[k].keys():
            self.places.setdefault(register, set()).add(k)

    def remove(self, index: int) -> None:
        self._put(index, None)

    def rename(self, start: int, old: VReg, new: VReg) -> None:
        """`new` in the place of `old` from `start` on."""
        for k in sorted(self.places.get(old, ())):
            item = self.items[k]
            if k >= start and item is not None:
                self._put(k, _rename(item, old, new))

    def only_definition(self, before: int, register: VReg) -> int | None:
        """Where `register` is defined, if that is one whole unpredicated write in this block, which others under
        predicates may follow, and nothing else writes it."""
        writers = sorted(k for k in self.places.get(register, ()) if register in self.writes[k])
        if not writers or writers[-1] >= before:
            return None
        first, *others = (self.items[k] for k in writers)
        whole = isinstance(first, Instr) and first.predicate is None and self.writes[writers[0]][register]
        later = all(isinstance(x, Instr) and x.predicate is not None for x in others)
        return writers[0] if whole and later else None

    def changed(self, register: VReg, start: int) -> bool:
        """Whether the write at `start` is the first of the register, and only parts of it depend on later ones."""
        places = sorted(self.places.get(register, ()))
        later = [k for k in places if k > start and register in self.writes[k]]
        onto = (isinstance(self.items[k], Instr) and not self.writes[k][register] for k in later)
        return places[0] == start and bool(later) and all(onto)

    def given_back(self, start: int, source: VReg, copy: VReg) -> int | None:
        """Where the copy is moved back, if the source isn't touched between, and the copy not after."""
        back = max(self.places[copy])
        item = self.items[back]
        whole = isinstance(item, Instr) and item.predicate is None and moved(item) == (copy, source)
        between = any(start < k < back for k in self.places[source])
        return back if whole and not between else None

    def ends(self, start: int, register: VReg) -> bool:
        """Whether the register is of this block, and not touched after `start`."""
        begun = any(self.writes[k].get(register) for k in self.places[register] if k < start)
        return begun and max(self.places[register]) == start

    def disturbed(self, start: int, end: int, source: VReg, destination: VReg) -> bool:
        """Whether the destination is touched between the definition and the move, or written while the source is
        read."""
        touched = self.places.get(destination, set())
        if destination in self.writes[start] or any(start < k < end for k in touched):
            return True
        last_read = max((k for k in self.places[source] if k > end and source in self.reads[k]), default=end)
        return any(end < k <= last_read and destination in self.writes[k] for k in touched)


def moved(instr: Instr) -> tuple[VReg, VReg] | None:
    """From which whole register to which one the instruction moves a value, if that is all it does."""
    semantics = instr.instruction.semantics
    if len(semantics) != 1:
        return None
    target, value = semantics[0].target, semantics[0].value
    by_name = {o.name: v for o, v in zip(instr.instruction.operands, instr.operands, strict=True)}
    if value.op == "mov" or (value.op in _SHIFTS and by_name.get(value.args[1].name) == Imm(0)):
        value = value.args[0]
    if target is None or target.part or value.op != "place" or value.part:
        return None
    source, destination = by_name.get(value.name), by_name.get(target.name)
    match source, destination:
        case Reg(vreg=s, part=""), Reg(vreg=d, part="") if s.cls == d.cls:
            return s, d
        case _:
            return None


def item_reads(item: Item) -> set[VReg]:
    match item:
        case Instr():
            kept = set(item_writes(item)) if item.predicate is not None else set()
            return {register for register, _ in reads(item)} | kept
        case Loop():
            inside = {r for x in item.body for r in item_reads(x)} | {s.base for s in item.streams}
            return inside | ({item.trip} if isinstance(item.trip, VReg) else set())
        case If():
            return {r for x in item.inside for r in item_reads(x)} | {item.condition}
        case Jump(branch=branch, keeps=keeps):
            return item_reads(branch) | set(keeps)
        case Mark():
            return set()


def item_writes(item: Item) -> dict[VReg, bool]:
    """Registers written, and whether wholly."""
    match item:
        case Instr():
            whole = {register for register, part in overwrites(item) if not part}
            return {register: register in whole for register, _ in writes(item)}
        case Loop():
            return {r: False for x in item.body for r in item_writes(x)} | {s.base: False for s in item.streams}
        case If():
            return {r: False for x in item.inside for r in item_writes(x)}
        case Mark() | Jump():
            return {}


def _rename(item: Item, old: VReg, new: VReg) -> Item:
    match item:
        case Instr():
            operands = tuple(renamed(x, {old: new}) for x in item.operands)
            predicate = item.predicate
            if predicate is not None and predicate.register == old:
                predicate = replace(predicate, register=new)
            return replace(item, operands=operands, predicate=predicate)
        case Loop():
            trip = new if item.trip == old else item.trip
            return replace(item, trip=trip, body=tuple(_rename(x, old, new) for x in item.body))
        case If():
            condition = new if item.condition == old else item.condition
            then, otherwise = (tuple(_rename(x, old, new) for x in inner) for inner in (item.then, item.otherwise))
            return replace(item, condition=condition, then=then, otherwise=otherwise)
        case Jump(branch=branch, keeps=keeps):
            changed = _rename(branch, old, new)
            assert isinstance(changed, Instr)
            return replace(item, branch=changed, keeps=tuple(new if r == old else r for r in keeps))
        case Mark():
            return item
