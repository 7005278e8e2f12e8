"""Values that find no register wait in memory, stored where they are made, loaded again right before each use; or in
registers of another class, where those of their own can't be stored.

Places in memory lie below the stack pointer of their side. Functions here call nothing: the pointer is moved under them
only where the calling convention leaves nothing below it to functions (`stack_frame.py`). Rows that load and store a
register come from the ISA file by what they do; a pair goes half by half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from dspgen.asmir.ir.function import (
    If,
    Instr,
    Item,
    Jump,
    Loop,
    Mark,
    Mem,
    MemRef,
    OperandValue,
    Phys,
    Place,
    Predicate,
    Reg,
    VReg,
    renamed,
    writes,
)
from dspgen.errors import NoSchedule, Problem
from dspgen.sched.graph.liveness import NOTHING, live_before
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.machine.target_facts import Atom, Facts, displaced
from dspgen.target.isa.model import Instruction, Operand, SemExpr, Side

_ARRAY = "~stack"  # the name that references to this memory carry: no array of the program's
_ALIGN = 128
_SHARE = 0.5  # of the registers of a class that is seldom used, where others' values may wait first


@dataclass(frozen=True, slots=True)
class Frame:
    """A stack pointer is rounded down to a multiple of `alignment`, if that isn't 0, and moved by `size` bytes; what it
    was before is kept `old` bytes below where it was rounded to."""

    size: int
    alignment: int
    old: int


@dataclass(frozen=True, slots=True)
class _Row:
    """An instruction that moves one register to or from memory."""

    instruction: Instruction
    memory: Operand
    register: Operand


class Stack:
    """Places below the stack pointers, handed out downwards, and the code that reaches them.

    `kept` are pointers that the function moves by itself, or that nothing else may.
    """

    def __init__(self, facts: Facts, kit: Kit, below: Sequence[tuple[Side, int]], kept: Set[str] = frozenset()) -> None:
        self.facts, self.kit, self.kept = facts, kit, kept
        self._taken: dict[str, int] = {}
        self._aligned: dict[str, int] = {}
        for side, size in below:
            self._take(self.pointer(side), -(-size // _ALIGN) * _ALIGN, _ALIGN if size else 1)
        self._rows: dict[tuple[str, bool], _Row | None] = {}
        self._given = Counter[str]()  # registers of a class where others' values wait

    def frame(self, pointer: str) -> Frame | None:
        """How the function moves a pointer; None where it leaves it as it is."""
        abi, taken = self.facts.target.abi, self._taken.get(pointer, 0)
        if pointer in self.kept or abi.red_zone is None or taken <= abi.red_zone:
            return None
        given = abi.stack_alignment or _ALIGN
        wanted = max(given, self._aligned.get(pointer, 1))
        word = self._bytes(self.kit.class_of(pointer)) if wanted > given else 0
        old = -(-(taken + word) // word) * word if word else 0
        return Frame(-(-(taken + word) // wanted) * wanted, wanted if word else 0, old)

    @property
    def frames(self) -> tuple[int, ...]:
        """How far each pointer is moved."""
        return tuple(found.size for p in self._taken if (found := self.frame(p)) is not None)

    def can_hold(self, cls: str) -> bool:
        """Whether registers of a class can go to memory and back."""
        store, load = self._row(cls, store=True), self._row(cls, store=False)
        return store is not None and load is not None and _side(store) == _side(load)

    def can_keep(self, cls: str) -> bool:
        """Whether what registers of a class hold can wait, in memory or in registers of another class."""
        return self.can_hold(cls) or bool(self.kit.other_classes(cls))

    def refuge(self, register: VReg) -> int | VReg:
        """Where a register's value may wait: a place in memory, or a register of another class, of which others are
        left to what it is there for."""
        others = [] if self.can_hold(register.cls) else self.kit.other_classes(register.cls)
        if not others:
            return self.place(register.cls)
        cls = min(others, key=lambda c: max(self._given[c.name] / len(c.names), _SHARE))
        self._given[cls.name] += 1
        return self.kit.fresh(cls.name, register.name)

    def place(self, cls: str) -> int:
        """A place for a register of a class (or pair): its distance from the stack pointer, negative."""
        store = self._row(cls, store=True)
        if store is None:
            raise ValueError(f"registers of class {cls} can't be stored")
        pointer = self.pointer(_side(store))
        size = self._bytes(cls) * (2 if self.facts.is_pair(cls) else 1)
        self._take(pointer, -(-(self._taken.get(pointer, 0) + size) // size) * size, _alignment(store))
        return -self._taken[pointer]

    def _take(self, pointer: str, size: int, alignment: int) -> None:
        self._taken[pointer] = max(self._taken.get(pointer, 0), size)
        self._aligned[pointer] = max(self._aligned.get(pointer, 1), alignment)

    def move(self, value: Reg | Phys, cls: str, offset: int, *, store: bool) -> list[Instr]:
        """Store a single register to its place, or load it."""
        row = self._row(cls, store=store)
        if row is None or row.instruction.memory is None:
            raise ValueError(f"registers of class {cls} can't be stored")
        if (frame := self.frame(self.pointer(row.instruction.memory.side))) is not None:
            offset += frame.size
        return self._moved(row, value, cls, offset, "spill" if store else "reload")

    def argument(self, register: VReg, offset: int) -> list[Instr]:
        """Load an argument that is so far from the scalar side's stack pointer, while that is where it was at entry."""
        row = self._row(register.cls, store=False)
        if row is None or _side(row) != "scalar":
            name = self.facts.target.name
            what = f"{name} has no instruction to load an argument of class {register.cls} from the stack"
            raise NoSchedule(Problem("DG302", what, None, "describe one in the ISA file"))
        if not self.facts.is_pair(register.cls):
            return self._moved(row, Reg(register), register.cls, offset, "argument")
        low = self._moved(row, Reg(register, "lo"), register.cls, offset, "argument")
        return [
            *low,
            *self._moved(row, Reg(register, "hi"), register.cls, offset + self._bytes(register.cls), "argument"),
        ]

    def _moved(self, row: _Row, value: Reg | Phys, cls: str, offset: int, comment: str) -> list[Instr]:
        memory = row.instruction.memory
        assert memory is not None
        size = self._bytes(cls)
        access = MemRef(_ARRAY, offset, (), size, 1, size)
        base: VReg | Phys = Phys(self.pointer(memory.side))
        before: list[Instr] = []
        if displaced(offset, memory.scale, memory.side, self.facts) is None:
            register = self.kit.fresh(self.facts.target.address_modes.base_classes[memory.side], "slot")
            before = self.kit.add(register, base, offset)
            base, offset = register, 0
        values: dict[str, OperandValue] = {row.memory.name: Mem(base, offset, access), row.register.name: value}
        made = Instr(row.instruction, tuple(values[o.name] for o in row.instruction.operands))
        return [*before, replace(made, comment=comment)]

    def atoms(self, register: VReg, temporary: VReg, at: int | VReg, wanted: set[Atom], *, store: bool) -> list[Instr]:
        """Move the wanted atoms of `register`, which sit in `temporary`, to or from where its value waits."""
        if isinstance(at, VReg):
            ends = (at, temporary) if store else (temporary, at)
            return self.kit.move(*ends) if wanted & set(self.facts.atoms(register)) else []
        cls = self.facts.classes[register.cls].pair_of or register.cls
        made: list[Instr] = []
        for k, atom in enumerate(self.facts.atoms(register)):
            if atom in wanted:
                part: Literal["", "lo", "hi"] = "lo" if atom[1] == "lo" else "hi" if atom[1] == "hi" else ""
                made += self.move(Reg(temporary, part), cls, at + k * self._bytes(cls), store=store)
        return made

    def pointer(self, side: Side) -> str:
        abi = self.facts.target.abi
        return abi.scalar_stack if side == "scalar" else abi.vector_stack

    def _bytes(self, cls: str) -> int:
        found = self.facts.classes[self.facts.classes[cls].pair_of or cls]
        lanes = self.facts.target.lanes if found.kind == "vector" else 1
        return found.bits // 8 * lanes

    def _row(self, cls: str, *, store: bool) -> _Row | None:
        base = self.facts.classes[cls].pair_of or cls
        key = (base, store)
        if key not in self._rows:
            rows = [r for i in self.facts.target.instructions if (r := self._fitting(i, base, store)) is not None]
            # The stack is aligned, and rows that make use of that take fewer resources.
            rows.sort(key=lambda r: (r.instruction.latency, r.instruction.busy, -_alignment(r), r.instruction.id))
            self._rows[key] = rows[0] if rows else None
        return self._rows[key]

    def _fitting(self, instruction: Instruction, cls: str, store: bool) -> _Row | None:
        if instruction.memory is None or not instruction.compile or len(instruction.semantics) != 1:
            return None
        statement = instruction.semantics[0]
        vector = self.facts.classes[cls].kind == "vector"
        value = statement.value
        if value.type != f"i{self.facts.classes[cls].bits}" or len(instruction.operands) != 2:
            return None
        if value.op != ("v" if vector else "") + ("st" if store else "ld") or (statement.target is None) != store:
            return None
        shape = [a.value if a.op == "int" else None for a in value.args[1:3]] if vector else []
        if vector and shape != [1, 0]:
            return None
        place: SemExpr | None = value.args[-1] if store else statement.target
        memory = next((o for o in instruction.operands if o.kind == "memory"), None)
        register = next((o for o in instruction.operands if o.kind == "register" and cls in o.classes), None)
        if place is None or memory is None or register is None or place.part or place.name != register.name:
            return None
        return _Row(instruction, memory, register)


def _alignment(row: _Row) -> int:
    return 1 if row.instruction.memory is None else row.instruction.memory.align


def _side(row: _Row) -> Side:
    if row.instruction.memory is None:
        raise ValueError(f"{row.instruction.id} reaches no memory")
    return row.instruction.memory.side


def spilled(
    items: Sequence[Item],
    places: Mapping[VReg, int | VReg],
    inputs: Sequence[VReg],
    stack: Stack,
    temporaries: set[VReg],
) -> tuple[Item, ...]:
    """The same code with the given registers' values elsewhere (`Stack.refuge`); what carries them for a moment is in
    `temporaries`."""
    given: list[Item] = []
    live = live_before(items, NOTHING, stack.facts)
    for register in inputs:
        if register in places:
            wanted = {a for a in stack.facts.atoms(register) if a in live}
            given += stack.atoms(register, register, places[register], wanted, store=True)
    return (*given, *_rewritten(items, places, stack, temporaries))


def groups(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Items one by one, but runs of ordered instructions whole: nothing may come between those."""
    run: list[Item] = []
    for item in items:
        if isinstance(item, Instr) and item.ordered:
            run.append(item)
            continue
        if run:
            yield run
        run = []
        yield [item]
    if run:
        yield run


def mentioned(item: Item) -> dict[VReg, None]:
    """Registers that an instruction names, or that a loop or conditional itself looks at."""
    found: dict[VReg, None] = {}
    match item:
        case Instr():
            for value in item.operands:
                match value:
                    case Reg(vreg=register) | Mem(base=VReg() as register):
                        found[register] = None
                    case Place(base=base, offset=offset):
                        found.update((r, None) for r in (base, offset) if isinstance(r, VReg))
                    case _:
                        pass
            if item.predicate is not None:
                found[item.predicate.register] = None
        case Jump(branch=Instr(predicate=Predicate(register=register))):
            found[register] = None
        case Loop(trip=VReg() as trip):
            found[trip] = None
        case If(condition=condition):
            found[condition] = None
        case _:
            pass
    return found


def _rewritten(
    items: Sequence[Item], places: Mapping[VReg, int | VReg], stack: Stack, temporaries: set[VReg]
) -> tuple[Item, ...]:
    result: list[Item] = []
    for group in groups(items):
        names: dict[VReg, VReg] = {}
        for item in group:
            for register in mentioned(item):
                if register in places and register not in names:
                    names[register] = stack.kit.fresh(register.cls, register.name)
        temporaries.update(names.values())
        instrs = [i for i in group if isinstance(i, Instr)]
        reads, writes = _touched(instrs, stack.facts)
        for item in group:
            match item:
                case (
                    Loop(trip=VReg() as register)
                    | If(condition=register)
                    | Jump(branch=Instr(predicate=Predicate(register=register)))
                ):
                    reads.update(stack.facts.atoms(register))
                case _:
                    pass
        for register, temporary in names.items():
            result += stack.atoms(register, temporary, places[register], reads, store=False)
        for item in group:
            match item:
                case Instr():
                    result.append(_renamed(item, names))
                case Jump(branch=branch):
                    result.append(replace(item, branch=_renamed(branch, names)))
                case Mark():
                    result.append(item)
                case Loop(trip=trip):
                    body = _rewritten(item.body, places, stack, temporaries)
                    result.append(
                        replace(item, body=body, trip=names.get(trip, trip) if isinstance(trip, VReg) else trip)
                    )
                case If(condition=condition):
                    then, otherwise = (_rewritten(x, places, stack, temporaries) for x in (item.then, item.otherwise))
                    condition = names.get(condition, condition)
                    result.append(replace(item, condition=condition, then=then, otherwise=otherwise))
        for register, temporary in names.items():
            result += stack.atoms(register, temporary, places[register], writes, store=True)
    return tuple(result)


def _touched(instrs: Sequence[Instr], facts: Facts) -> tuple[set[Atom], set[Atom]]:
    """Atoms whose old value counts, and atoms written. Under a predicate or lane mask part of the old value stays."""
    read = {a for a in live_before(instrs, NOTHING, facts)}
    written: set[Atom] = set()
    for instr in instrs:
        for register, part in writes(instr):
            atoms = facts.atoms(register, part)
            written.update(atoms)
            partly = instr.masked or instr.ordered
            if instr.predicate is not None or (partly and facts.classes[register.cls].kind == "vector"):
                read.update(atoms)
    return read, written


def _renamed(instr: Instr, names: Mapping[VReg, VReg]) -> Instr:
    operands = tuple(renamed(value, names) for value in instr.operands)
    predicate = instr.predicate
    if predicate is not None:
        predicate = replace(predicate, register=names.get(predicate.register, predicate.register))
    return replace(instr, operands=operands, predicate=predicate)


@dataclass(slots=True)
class _Use:
    """Where a register is named: how often (loops count more), from which group to which, and in which loops."""

    weight: int
    first: int
    last: int
    loops: set[str]


def uses(items: Sequence[Item]) -> dict[VReg, _Use]:
    found: dict[VReg, _Use] = {}
    fixed: set[VReg] = set()
    _count(items, (), [0], found, fixed)
    return {r: u for r, u in found.items() if r not in fixed}


def _count(
    items: Sequence[Item], loops: tuple[str, ...], at: list[int], found: dict[VReg, _Use], fixed: set[VReg]
) -> None:
    for group in groups(items):
        at[0] += 1
        for item in group:
            for register in mentioned(item):
                use = found.setdefault(register, _Use(0, at[0], at[0], set()))
                use.weight += 8 ** len(loops)
                use.last = at[0]
                use.loops.update(loops)
            match item:
                case Loop():
                    fixed.update(s.base for s in item.streams)
                    _count(item.body, (*loops, item.label), at, found, fixed)
                case If():
                    for inner in (item.then, item.otherwise):
                        _count(inner, loops, at, found, fixed)
                case Instr() | Mark() | Jump():
                    pass


def idle(items: Sequence[Item], stack: Stack, temporaries: set[VReg]) -> dict[VReg, int]:
    """Registers that may be in memory and that no loop uses but those that only control others, with how often they are
    used."""
    busy = set(_pipelinable(items))
    return {
        r: use.weight
        for r, use in uses(items).items()
        if r not in temporaries and use.loops.isdisjoint(busy) and stack.can_hold(r.cls)
    }


def _pipelinable(items: Sequence[Item]) -> Iterator[str]:
    for item in items:
        if isinstance(item, Loop):
            if item.pipeline:
                yield item.label
            yield from _pipelinable(item.body)
        elif isinstance(item, If):
            yield from _pipelinable(item.inside)


def worth_spilling(
    items: Sequence[Item],
    pressure: Mapping[VReg, int],
    stack: Stack,
    temporaries: set[VReg],
    pipelined: Sequence[str],
    amount: int,
) -> list[VReg]:
    """Up to `amount` registers whose values had best wait elsewhere: long in the way (`pressure`), seldom used."""
    table = uses(items)
    candidates = [
        r
        for r in pressure
        if r in table
        and r not in temporaries
        and table[r].last - table[r].first > 1
        and stack.can_keep(r.cls)
        and table[r].loops.isdisjoint(pipelined)
    ]
    order = {r: k for k, r in enumerate(candidates)}
    candidates.sort(key=lambda r: (-(pressure[r] * 1024 // table[r].weight), order[r]))
    return candidates[:amount]
