"""Checks a Function: every register is written before it is read, and operands fit their instruction."""

from __future__ import annotations

from collections.abc import Iterable

from dspgen.asmir.ir.function import Function, If, Imm, Instr, Item, Loop, VReg, reads, writes
from dspgen.target.isa.model import Target

Place = tuple[VReg, str]


class MalformedFunction(ValueError):
    """A linear assembly function that no pass may make."""


def verify(function: Function, target: Target) -> Function:
    """The function itself, or MalformedFunction with the first thing that is wrong."""
    pairs = {c.name for c in target.registers if c.pair_of is not None}
    written: set[Place] = set()
    for register, _ in function.inputs:
        written |= set(_places(register, "", pairs))
    _block(function.entered.body, written, pairs)
    return function


def _places(register: VReg, part: str, pairs: set[str]) -> tuple[Place, ...]:
    if register.cls in pairs:
        return ((register, part),) if part else ((register, "lo"), (register, "hi"))
    return ((register, ""),)


def _block(items: Iterable[Item], written: set[Place], pairs: set[str]) -> None:
    for item in items:
        match item:
            case Instr():
                _instruction(item, written, pairs)
            case Loop():
                if isinstance(item.trip, VReg):
                    _need(item.trip, "", written, pairs, item.label)
                for stream in item.streams:
                    _need(stream.base, "", written, pairs, item.label)
                inside = set(written)
                _block(item.body, inside, pairs)
                if isinstance(item.trip, int) and item.trip > 0:
                    written |= inside
            case If():
                _need(item.condition, "", written, pairs, "if")
                for inner in (item.then, item.otherwise):
                    _block(inner, set(written), pairs)


def _instruction(instr: Instr, written: set[Place], pairs: set[str]) -> None:
    name = instr.instruction.id
    if len(instr.operands) != len(instr.instruction.operands):
        raise MalformedFunction(f"{name} has {len(instr.operands)} operands, not {len(instr.instruction.operands)}")
    for register, part in reads(instr):
        _need(register, part, written, pairs, name)
    for operand, value in zip(instr.instruction.operands, instr.operands, strict=True):
        if isinstance(value, Imm) and operand.imm is not None:
            low, high = operand.imm
            if not low <= value.value <= high:
                raise MalformedFunction(f"{name}: {value.value} is out of range {operand.imm}")
    for register, part in writes(instr):
        if instr.predicate is not None:
            _need(register, part, written, pairs, name)
        written |= set(_places(register, part, pairs))


def _need(register: VReg, part: str, written: set[Place], pairs: set[str], where: str) -> None:
    for place in _places(register, part, pairs):
        if place not in written:
            raise MalformedFunction(f"{where} reads {register.name}{'.' + part if part else ''} before it is written")
