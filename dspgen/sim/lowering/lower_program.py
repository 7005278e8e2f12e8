"""A program's packets as `Code`: each instruction by `lower_instructions.py`, and what they are to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dspgen.sim.ir.program import Assembled, Code, Op, Slot
from dspgen.sim.ir.registers import RegisterFile
from dspgen.sim.lowering.lower_instructions import Lowering, predicate_read
from dspgen.target.isa.model import Target
from dspgen.target.query.hardware_loops import goes_back


def lower(program: Assembled, target: Target, symbols: dict[str, int], code_addresses: dict[int, int]) -> Code:
    """`symbols` gives every label's address; `code_addresses` maps code addresses to packet numbers."""
    registers = RegisterFile(target)
    mask = registers.cell_of(target.mask_register) if target.mask_register else None
    slots: list[Slot] = []
    ops: list[Op] = []
    operands = (o for packet in program.packets for placed in packet.members for o in placed.instruction.operands)
    settling = max((-o.read_cycle for o in operands), default=0)
    back = {(at, k): label for at, k, label in goes_back(program.texts()) if label is not None}
    for at, packet in enumerate(program.packets):
        members = []
        for k, placed in enumerate(packet.members):
            lowering = Lowering(placed, target, registers, symbols, program.labels, back.get((at, k), ""))
            op = lowering.op(len(ops), mask)
            members.append(replace(op, settling=settling) if settling > 0 else op)
            ops.append(members[-1])
        members = [replace(op, new=_makers(op, members)) if op.new else op for op in members]
        ops[len(ops) - len(members) :] = members
        idle_predicate = predicate_read(packet.idle_predicate, packet.idle_negated, target, registers)
        slots.append(Slot(tuple(members), packet.loc, packet.idle, idle_predicate))
    pipeline = target.pipeline
    settled = pipeline.exposed and not pipeline.equals
    cells = tuple(registers.cells)
    return Code(tuple(slots), cells, mask, code_addresses, tuple(ops), not pipeline.exposed, settled)


def _makers(op: Op, packet: Sequence[Op]) -> tuple[tuple[int, int, int], ...]:
    """Which of its packet's results the cells are that the instruction takes from there."""
    found = {w.cell: (o.uid, i) for o in packet if o is not op for i, w in enumerate(o.writes) if o.certain}
    return tuple((cell, *found[cell]) for cell, _, _ in op.new)
