"""Instructions of a machine with sample operands: registers, the ends of immediates' ranges, places in memory."""

from __future__ import annotations

from collections.abc import Iterator

from dspgen.sched.ir.packets import Address, Placed
from dspgen.sim.ir.symbols import literal_value
from dspgen.target.isa.model import Instruction, Operand, Target

LABEL = "a_label"
SAMPLES = 6
_Value = str | int | Address


def placed(row: Instruction, target: Target, n: int) -> Placed:
    """The row with its n-th samples."""
    values = tuple(_sample(row, k, operand, target, n) for k, operand in enumerate(row.operands))
    return Placed(row, row.units[0], values)


def _sample(row: Instruction, k: int, operand: Operand, target: Target, n: int) -> _Value:
    """The n-th sample of the k-th operand."""
    match operand.kind:
        case "label":
            return f"@{LABEL}"
        case "memory":
            found = list(_places(row, target))
            return found[n % len(found)]
    if operand.imm is not None and (n % 2 or not operand.classes):
        number = operand.imm[n // 2 % 2]
        return literal_value(operand, number, hexadecimal=operand.literal == "high_half")
    names = [r for cls in operand.classes for r in target.register_class(cls).names]
    return names[(k - n) % len(names)]


def _places(row: Instruction, target: Target) -> Iterator[Address]:
    """Places in memory of all modes that code is made with."""
    side, modes = row.memory.side if row.memory is not None else "scalar", target.address_modes
    base = target.register_class(modes.base_classes[side]).names[-1]
    yield Address(base, "none")
    if (high := modes.plus_imm[side][1]) > 0:
        yield Address(base, "plus", high)
    if (high := modes.minus_imm[side][1]) > 0:
        yield Address(base, "minus", high)
    if not target.text.address or target.text.address_update:
        yield Address(base, "post_inc", modes.increment_imm[1])
        yield Address(base, "post_dec", modes.decrement_imm[1])
    if not target.text.address and side in modes.offset_classes:
        yield Address(base, "plus", target.register_class(modes.offset_classes[side]).names[0])
