"""Packets with physical registers, units and address modes, from blocks and a register assignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dspgen.asmir.ir.function import Imm, Label, Phys, Place, Reg, VReg
from dspgen.sched.graph.rigid_sections import Block
from dspgen.sched.ir.packets import Address, CommentLine, LabelLine, Nop, Packet, Placed, StraightReport
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.target_facts import Facts
from dspgen.target.isa.model import Target
from dspgen.target.query.forwarding import new_operand
from dspgen.target.query.instructions import Index
from plant_core.support.memoize import few_by_identity

Line = LabelLine | CommentLine | Packet | Nop


def finished_lines(
    blocks: Sequence[Block], registers: Mapping[VReg, tuple[str, ...]], facts: Facts
) -> tuple[Line, ...]:
    names, moves = _register_names(facts), _moves(facts.target)
    lines: list[Line] = []
    for block in blocks:
        lines += [LabelLine(label) for label in block.labels]
        if block.report is not None:
            lines.append(CommentLine(_told(block.report)))
        idle = 0
        cycles = block.cycles if block.end is None else _with_end(block.cycles, block.end, facts)
        for packet in cycles:
            members = sorted(packet, key=lambda member: member[1])
            placed = _needed(
                [_placed(op, _unit(op, unit, facts), registers, names) for op, unit in members], moves, facts
            )
            if not placed:
                idle += 1
                continue
            if idle:
                lines.append(Nop(idle))
                idle = 0
            lines.append(Packet(placed))
        if idle:
            lines.append(Nop(idle))
    return tuple(lines)


@few_by_identity
def _moves(target: Target) -> dict[str, tuple[int, int]]:
    """The rows that copy a whole register at once, with the places of their operands. Between the read and the write
    of slower ones, the register may have another value."""
    index = Index(target)
    found: dict[str, tuple[int, int]] = {}
    for cls in target.registers:
        for match in index.move(cls.name):
            places = [o.name for o in match.instruction.operands]
            if len(places) == 2 and match.instruction.latency == 1 and match.operand("a").read_cycle <= 0:
                found[match.instruction.id] = places.index(match.binding["d"]), places.index(match.binding["a"])
    return found


def _needed(members: Sequence[Placed], moves: Mapping[str, tuple[int, int]], facts: Facts) -> tuple[Placed, ...]:
    """A packet without what copies registers to themselves. Where packets wait by themselves it stays: what the copy
    waits for makes the cycles that are told."""
    if not facts.target.pipeline.exposed or any(new_operand(m.instruction) is not None for m in members):
        return tuple(members)
    at = [moves.get(m.instruction.id) for m in members]
    return tuple(m for m, a in zip(members, at, strict=True) if a is None or m.operands[a[0]] != m.operands[a[1]])


def _with_end(cycles: Sequence[Sequence[tuple[Op, int]]], end: Op, facts: Facts) -> list[list[tuple[Op, int]]]:
    """The packets with what ends the last of them; where packets wait by themselves, none is made for it alone."""
    found = [list(packet) for packet in cycles]
    while len(found) > 1 and not found[-1] and not facts.target.pipeline.exposed:
        found.pop()
    if not found:
        found.append([])
    found[-1].append((end, facts.reservation(end.instruction).alternatives[0]))
    return found


def _unit(op: Op, unit: int, facts: Facts) -> str:
    return facts.unit_names[facts.unit_for(op.instruction, unit)]


def _told(report: StraightReport) -> str:
    proof = "proven optimal" if report.optimal else f"{report.bound} at least"
    return f"straight code: {report.cycles} cycles, {proof}"


def _register_names(facts: Facts) -> dict[tuple[str, ...], str]:
    """The text of each pair by its halves."""
    names: dict[tuple[str, ...], str] = {}
    for cls in facts.target.registers:
        if cls.pair_of is not None:
            for name in cls.names:
                names[tuple(str(a[0]) for a in facts.physical(name))] = name
    return names


def _placed(
    op: Op, unit: str, registers: Mapping[VReg, tuple[str, ...]], names: Mapping[tuple[str, ...], str]
) -> Placed:
    def text(register: VReg, part: str = "") -> str:
        atoms = registers[register]
        if part:
            return atoms[0] if part == "lo" else atoms[1]
        return names[atoms] if len(atoms) > 1 else atoms[0]

    operands: list[str | int | Address] = []
    for value in op.operands:
        match value:
            case Reg(vreg=register, part=part):
                operands.append(text(register, part))
            case Phys(name=name):
                operands.append(name)
            case Imm(value=number):
                operands.append(number)
            case Label(name=name):
                operands.append("@" + name)
            case Place(base=base, mode=mode, offset=offset):
                register_name = base.name if isinstance(base, Phys) else text(base)
                amount = text(offset) if isinstance(offset, VReg) else offset
                operands.append(Address(register_name, mode, amount))
            case _:
                raise ValueError(f"an operand of {op.instruction.mnemonic} was never placed")
    predicate = op.predicate
    return Placed(
        op.instruction,
        unit,
        tuple(operands),
        text(predicate.register) if predicate is not None else None,
        predicate.negated if predicate is not None else False,
        op.loc,
        op.comment,
    )
