"""Scheduled code as its text reads, without the text: for the many candidates of which nothing but the cycles is asked.

What is emitted is verified and simulated as text; see `parse.py`.
"""

from __future__ import annotations

from dataclasses import replace

from dspgen.emit.text import nop_mnemonic
from dspgen.sched.ir.packets import Address, LabelLine, Nop, Packet, Placed, Scheduled
from dspgen.sim.ir.program import AsmPacket, Assembled
from dspgen.sim.ir.symbols import literal_value
from dspgen.target.isa.model import Instruction, Operand, Target
from plant_core.support.location import Loc

_HALF = 0xFFFF


def packets_of(scheduled: Scheduled, target: Target) -> Assembled:
    """The packets and labels, by the rows of `target`: the machine itself, whatever view of it was compiled for."""
    rows = {row.id: row for row in target.instructions}
    packets: list[AsmPacket] = []
    labels: dict[str, int] = {}
    place, idle = Loc(scheduled.name, 1), bool(nop_mnemonic(target))
    for line in scheduled.lines:
        match line:
            case LabelLine(name):
                labels[name] = len(packets)
            case Nop(cycles):
                packets += [AsmPacket((), place, cycles)] * idle
            case Packet(()):
                packets += [AsmPacket((), place, 1)] * idle
            case Packet(members):
                packets.append(AsmPacket(tuple([_read(m, rows[m.instruction.id], place) for m in members]), place))
            case _:
                pass
    labels.setdefault(scheduled.name, 0)
    return Assembled(scheduled.name, tuple(packets), labels)


def _read(placed: Placed, row: Instruction, place: Loc) -> Placed:
    given = zip(placed.operands, placed.instruction.operands, row.operands, strict=True)
    operands = tuple([_value(value, written, operand) for value, written, operand in given])
    return replace(placed, instruction=row, operands=operands, loc=place, comment="")


def _value(value: str | int | Address, written: Operand, operand: Operand) -> str | int | Address:
    """What is read where a value was `written` as one row's operand has it."""
    if not isinstance(value, int):
        return value
    half = written.literal == "high_half"
    return literal_value(operand, value & _HALF if half else value, hexadecimal=half)
