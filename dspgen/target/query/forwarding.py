"""Rows that take a value from an instruction of their own packet, and the rows that they stand in for.

A row with a `new` operand does what another row does whose operand is read before the packet: its twin. The compiler
chooses the other; where a schedule has the value's maker in the same packet, it becomes the twin. What may be done on
fewer units so, or leaves less room beside it, keeps that room from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dspgen.target.isa.model import Instruction, Operand, Target


def twins(target: Target) -> dict[str, tuple[Instruction, int]]:
    """For rows, by `id`, the twin, and which of its operands is new."""
    plain = [row for row in target.instructions if new_operand(row) is None]
    found: dict[str, tuple[Instruction, int]] = {}
    for row in target.instructions:
        if (place := new_operand(row)) is None:
            continue
        operands = tuple(replace(o, new=False) for o in row.operands)
        for other in plain:
            same = (other.operands, other.semantics, other.memory) == (operands, row.semantics, row.memory)
            if same and other.condition == row.condition and other.id not in found:
                found[other.id] = row, place
    return found


def new_operand(row: Instruction) -> int | None:
    return next((k for k, operand in enumerate(row.operands) if operand.new), None)


def makes_for(row: Instruction, operand: Operand) -> bool:
    """Whether instructions of the same packet may take what the row writes to this operand."""
    return operand.write and operand.forward and all(o.read_cycle <= 0 for o in row.operands)


def maker(name: str, others: Sequence[tuple[Instruction, Sequence[object], bool]]) -> tuple[int, int] | None:
    """Of the instructions of a packet, with their operands and whether they may do nothing, the one that certainly
    writes the register `name`, and by which operand."""
    for number, (row, operands, unsure) in enumerate(others):
        for k, (operand, value) in enumerate(zip(row.operands, operands, strict=True)):
            if value == name and not unsure and makes_for(row, operand):
                return number, k
    return None
