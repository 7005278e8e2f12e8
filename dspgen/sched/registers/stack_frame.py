"""Frames: stack pointers moved at entry and back at exit, where nothing may be kept below them.

What lies on the stack is told by its distance from the pointer at entry, or from what that is rounded down to where it
isn't aligned for all that lies there. Then the old pointer is kept in the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dspgen.asmir.ir.function import (
    Function,
    If,
    Instr,
    Item,
    Jump,
    Loop,
    Mark,
    Mem,
    OperandValue,
    Phys,
    Place,
    Reg,
    VReg,
    every_instr,
)
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.registers.spilling import Stack
from dspgen.target.isa.model import Abi


def pointers(abi: Abi) -> tuple[str, ...]:
    return tuple(dict.fromkeys((abi.scalar_stack, abi.vector_stack)))


def moved_by_itself(function: Function, abi: Abi) -> frozenset[str]:
    """The stack pointers that a function's own code moves."""
    names = pointers(abi)
    found = set()
    for instr in every_instr(function.body):
        for operand, value in zip(instr.instruction.operands, instr.operands, strict=True):
            written = operand.write and isinstance(value, Phys) and value.name
            advanced = isinstance(value, Place) and value.updates and isinstance(value.base, Phys) and value.base.name
            found |= {name for name in (written, advanced) if name in names}
    return frozenset(found)


def enter(stack: Stack, kit: Kit) -> list[Instr]:
    """Code that moves the stack pointers as the function begins."""
    made: list[Instr] = []
    for name in pointers(stack.facts.target.abi):
        if (frame := stack.frame(name)) is None:
            continue
        cls = kit.class_of(name)
        old = kit.fresh(cls, "caller")
        if frame.alignment:
            made += [*kit.add(old, Phys(name), 0), *kit.align(name, frame.alignment)]
        made += kit.add_physical(name, -frame.size)
        if frame.alignment:
            made += stack.move(Reg(old), cls, -frame.old, store=True)
    return made


def leave(stack: Stack, kit: Kit) -> list[Instr]:
    """Code that puts the stack pointers back, after the last use of the frame."""
    made: list[Instr] = []
    for name in pointers(stack.facts.target.abi):
        if (frame := stack.frame(name)) is None:
            continue
        if frame.alignment:
            made += stack.move(Phys(name), kit.class_of(name), -frame.old, store=False)
        else:
            made += kit.add_physical(name, frame.size)
    return made


def above_frames(items: Sequence[Item], stack: Stack, kit: Kit) -> tuple[Item, ...]:
    """The same code with what the stack pointers were, rounded down, in place of what they are."""
    before: list[Item] = []
    names: dict[str, VReg] = {}
    for instr in every_instr(items):
        for value in instr.operands:
            name = _named(value)
            frame = stack.frame(name) if name is not None and name not in names else None
            if name is not None and frame is not None:
                names[name] = kit.fresh(kit.class_of(name), "frame")
                before += kit.add(names[name], Phys(name), frame.size)
    return (*before, *_with_registers(items, names)) if names else tuple(items)


def _named(value: OperandValue) -> str | None:
    match value:
        case Phys(name=name) | Mem(base=Phys(name=name)) | Place(base=Phys(name=name)):
            return name
        case _:
            return None


def _with_registers(items: Sequence[Item], names: dict[str, VReg]) -> tuple[Item, ...]:
    def changed(value: OperandValue) -> OperandValue:
        register = names.get(_named(value) or "")
        match value:
            case Phys() if register is not None:
                return Reg(register)
            case Mem() | Place() if register is not None:
                return replace(value, base=register)
            case _:
                return value

    def instruction(instr: Instr) -> Instr:
        return replace(instr, operands=tuple(map(changed, instr.operands)))

    made: list[Item] = []
    for item in items:
        match item:
            case Instr():
                made.append(instruction(item))
            case Jump(branch=branch):
                made.append(replace(item, branch=instruction(branch)))
            case Loop(body=body):
                made.append(replace(item, body=_with_registers(body, names)))
            case If(then=then, otherwise=otherwise):
                then, otherwise = _with_registers(then, names), _with_registers(otherwise, names)
                made.append(replace(item, then=then, otherwise=otherwise))
            case Mark():
                made.append(item)
    return tuple(made)
