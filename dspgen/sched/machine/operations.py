"""One instruction as the scheduler sees it: what it reads, writes, touches in memory and occupies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dspgen.asmir.ir.function import (
    PATTERNS,
    Instr,
    Label,
    Mem,
    MemRef,
    OperandValue,
    Phys,
    Place,
    Predicate,
    Reg,
    VReg,
)
from dspgen.sched.machine.target_facts import Atom, Facts, Reservation
from dspgen.target.isa.model import Instruction
from plant_core.support.location import Loc

_PATTERNS_READ = MemRef(PATTERNS, 0, (), 0, 1, 1 << 20)


@dataclass(slots=True, eq=False)
class Op:
    """`reads` are (atom, cycles after issue), an atom once for each cycle that it is read in; what is `early` is wanted
    so many cycles sooner; `writes` are (atom, latency);
    `tied` writes keep part of the old value: under a predicate, unless it is the first `half` of a write whose other
    half is under the complement; and of vectors where lanes are `masked`."""

    instruction: Instruction
    operands: tuple[OperandValue, ...]
    predicate: Predicate | None
    loc: Loc | None
    comment: str
    ordered: bool
    reads: tuple[tuple[Atom, int], ...]
    writes: tuple[tuple[Atom, int], ...]
    tied: frozenset[Atom]
    reservation: Reservation
    access: MemRef | None
    half: bool = False
    masked: bool = False
    early: Mapping[Atom, int] = field(default_factory=dict)

    def copy(self) -> Op:
        """The same, apart from it."""
        return Op(
            self.instruction, self.operands, self.predicate, self.loc, self.comment, self.ordered,
            self.reads, self.writes, self.tied, self.reservation, self.access, self.half, self.masked, self.early,
        )  # fmt: skip

    @property
    def is_store(self) -> bool:
        return self.instruction.memory is not None and self.instruction.memory.store

    @property
    def touches_memory(self) -> bool:
        """Loads and stores, and shuffles by a pattern in memory."""
        return self.instruction.memory is not None or self.access is not None

    @property
    def longest(self) -> int:
        """Cycles from issue until all results have landed, all registers are read, loads see what is stored, and all
        units are free."""
        busy = max([self.reservation.busy, *(first + count for _, first, count in self.reservation.extras)])
        times = [*(latency for _, latency in self.writes), *(cycle for _, cycle in self.reads)]
        return max([busy, self.seen, *times])

    @property
    def seen(self) -> int:
        """Cycles from issue until loads see what it stores; 1 of what stores nothing."""
        memory = self.instruction.memory
        return memory.store_latency if memory is not None and memory.store else 1


def make_op(instr: Instr, facts: Facts) -> Op:
    """An operation of its own, from what was worked out when the instruction was first seen."""
    known = facts.operations.get(id(instr))
    if known is None:
        op = build_op(
            instr.instruction, instr.operands, instr.predicate, facts, instr.loc, instr.comment, ordered=instr.ordered
        )
        op.masked = instr.masked
        settle_ties(op, facts)
        known = facts.operations[id(instr)] = instr, op
    return known[1].copy()


def build_op(
    instruction: Instruction,
    operands: tuple[OperandValue, ...],
    predicate: Predicate | None,
    facts: Facts,
    loc: Loc | None = None,
    comment: str = "",
    *,
    ordered: bool = False,
) -> Op:
    reads: dict[tuple[Atom, int], None] = {}
    writes: dict[Atom, int] = {}
    tied: set[Atom] = set()
    early: dict[Atom, int] = {}
    access: MemRef | None = None
    for operand, value in zip(instruction.operands, operands, strict=True):
        match value:
            case Reg(vreg=register, part=part):
                atoms = facts.atoms(register, part)
            case Phys(name=name):
                atoms = facts.physical(name)
            case Mem(base=base) | Place(base=base):
                access = value.access
                for atom in _base_atoms(base, facts):
                    reads[atom, 0] = None
                if isinstance(value, Place):
                    tied.update(_update(value, facts, reads, writes))
                continue
            case _:
                continue
        if operand.read:
            for atom in atoms:
                # What its own packet makes is in its register when it has landed, and no sooner.
                reads[atom, 1 if operand.new else max(operand.read_cycle, 0)] = None
                if operand.read_cycle < 0:
                    early[atom] = max(early.get(atom, 0), -operand.read_cycle)
        if operand.write:
            for atom in atoms:
                writes[atom] = operand.latency
                if operand.read:
                    tied.add(atom)
    if facts.reads_patterns(instruction):
        access = _PATTERNS_READ
    implicit_reads, implicit_writes = facts.implicit(instruction)
    for atom in implicit_reads:
        reads[atom, 0] = None
    for atom in implicit_writes:
        writes.setdefault(atom, max(instruction.latency, 1))
    if predicate is not None:
        for atom in facts.atoms(predicate.register):
            reads[atom, 0] = None
        tied.update(writes)
    return Op(
        instruction,
        operands,
        predicate,
        loc,
        comment,
        ordered,
        tuple(reads),
        tuple(writes.items()),
        frozenset(tied),
        facts.reservation(instruction),
        access,
        early=early,
    )


def settle_ties(op: Op, facts: Facts) -> None:
    """Ties as `half` and `masked` say."""
    if op.half:
        results = [v for o, v in zip(op.instruction.operands, op.operands, strict=True) if o.write and not o.read]
        op.tied = op.tied - {a for v in results if isinstance(v, Reg) for a in facts.atoms(v.vreg, v.part)}
    if op.masked:
        op.tied = op.tied | {a for a, _ in op.writes if isinstance(a[0], VReg) and facts.is_vector(a[0])}


def remade(op: Op, operands: tuple[OperandValue, ...], predicate: Predicate | None, facts: Facts) -> Op:
    """The operation on other operands."""
    made = build_op(op.instruction, operands, predicate, facts, op.loc, op.comment, ordered=op.ordered)
    made.half, made.masked = op.half, op.masked
    settle_ties(made, facts)
    return made


def relabelled(op: Op, names: Mapping[str, str], facts: Facts) -> Op:
    """The operation, with other labels for those that `names` has."""
    if not any(isinstance(v, Label) and v.name in names for v in op.operands):
        return op
    operands = tuple(Label(names.get(v.name, v.name)) if isinstance(v, Label) else v for v in op.operands)
    return remade(op, operands, op.predicate, facts)


def _base_atoms(base: VReg | Phys, facts: Facts) -> tuple[Atom, ...]:
    return facts.atoms(base) if isinstance(base, VReg) else facts.physical(base.name)


def _update(
    place: Place, facts: Facts, reads: dict[tuple[Atom, int], None], writes: dict[Atom, int]
) -> tuple[Atom, ...]:
    """What a mode reads and writes besides its base; the atoms of the base if it advances it."""
    if isinstance(place.offset, VReg):
        for atom in facts.atoms(place.offset):
            reads[atom, 0] = None
    if not place.updates:
        return ()
    base = _base_atoms(place.base, facts)
    for atom in base:
        writes[atom] = facts.target.address_modes.update_latency
    return base
