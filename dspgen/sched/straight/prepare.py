"""Straight code before scheduling: operations from instructions, memory operands with modes, registers renamed."""

from __future__ import annotations

from collections.abc import Sequence

from dspgen.asmir.ir.function import Imm, Instr, Mem, OperandValue, Place, Predicate, Reg, VReg, renamed
from dspgen.sched.graph.disjoint_predicates import join_halves
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.graph.unroll import legal_offsets
from dspgen.sched.machine.operations import Op, make_op, remade, settle_ties
from dspgen.sched.machine.target_facts import Atom, Facts, displaced


def straight_ops(instrs: Sequence[Instr], facts: Facts, kit: Kit, *, rename: bool) -> list[Op]:
    """Operations for a block; with `rename`, each value of a variable but its last gets a register of its own."""
    ops = [make_op(i, facts) for i in legal_offsets(instrs, facts, kit)]
    settle_writes(ops, facts)
    if rename:
        ops = _renamed(ops, facts, kit)
    return [with_places(op, facts) for op in ops]


def settle_writes(ops: Sequence[Op], facts: Facts) -> None:
    """Where code changes the lane mask, a vector result keeps the lanes that are off; and writes that are two halves
    keep nothing."""
    _tie_masked(ops, facts)
    join_halves(ops, facts)


def _tie_masked(ops: Sequence[Op], facts: Facts) -> None:
    mask = facts.target.mask_register
    if mask is None:
        return
    atoms = set(facts.physical(mask))
    setters = [op for op in ops if any(a in atoms for a, _ in op.writes)]
    if not setters:
        return
    only_ordered = all(op.ordered for op in setters)
    every = only_ordered  # whether all lanes are on; code that changes that by itself leaves them on
    full: dict[Atom, bool] = {}
    for op in ops:
        if any(a in atoms for a, _ in op.writes):
            sources = [full.get(a, False) for a, _ in op.reads]
            every = only_ordered and op.predicate is None and bool(sources) and all(sources)
        if not every and (op.ordered or not only_ordered):
            op.masked = True
            settle_ties(op, facts)
        for atom, _ in op.writes:
            full[atom] = _is_all_ones(op)


def _is_all_ones(op: Op) -> bool:
    """Whether the operation puts -1 into a register."""
    semantics = op.instruction.semantics
    if op.predicate is not None or op.reads or len(semantics) != 1 or semantics[0].value.op not in ("place", "sext"):
        return False
    return any(isinstance(v, Imm) and v.value == -1 for v in op.operands)


def with_places(op: Op, facts: Facts) -> Op:
    """The operation with its constant offsets as address modes."""
    if not any(isinstance(v, Mem) for v in op.operands):
        return op
    operands: list[OperandValue] = []
    for value in op.operands:
        memory = op.instruction.memory
        if isinstance(value, Mem) and memory is not None:
            found = displaced(value.offset, memory.scale, memory.side, facts)
            if found is None:
                raise ValueError(f"offset {value.offset} of {op.instruction.mnemonic} was not brought into range")
            mode, amount = found
            operands.append(Place(value.base, mode, amount, value.access))
        else:
            operands.append(value)
    return remade(op, tuple(operands), op.predicate, facts)


def _renamed(ops: list[Op], facts: Facts, kit: Kit) -> list[Op]:
    """Give every whole definition but the last one of a register a name of its own."""
    last: dict[VReg, int] = {}
    for k, op in enumerate(ops):
        for register in _whole_writes(op, facts):
            last[register] = k
    names: dict[VReg, VReg] = {}
    result = []
    for k, op in enumerate(ops):
        whole = _whole_writes(op, facts)
        before = dict(names)
        for register in whole:
            if last[register] == k:
                names.pop(register, None)
            else:
                names[register] = kit.version(register)
        result.append(_with_names(op, before, names, facts))
    return result


def _whole_writes(op: Op, facts: Facts) -> list[VReg]:
    written: dict[VReg, list[Atom]] = {}
    for atom, _ in op.writes:
        if isinstance(atom[0], VReg) and atom not in op.tied:
            written.setdefault(atom[0], []).append(atom)
    return [r for r, atoms in written.items() if len(atoms) == len(facts.atoms(r))]


def _with_names(op: Op, reads: dict[VReg, VReg], writes: dict[VReg, VReg], facts: Facts) -> Op:
    if not reads and not writes:
        return op
    operands = tuple(
        renamed(value, writes if operand.write and isinstance(value, Reg) else reads)
        for operand, value in zip(op.instruction.operands, op.operands, strict=True)
    )
    predicate = op.predicate
    if predicate is not None:
        register = reads.get(predicate.register, predicate.register)
        predicate = Predicate(register, predicate.negated, predicate.lane)
    return remade(op, operands, predicate, facts)
