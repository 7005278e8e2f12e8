"""Operations that the ISA file spells out as a sequence of instructions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dspgen.asmir.ir.function import Imm, Instr, Mem, OperandValue, Phys, Reg
from dspgen.errors import NoSchedule, Problem
from dspgen.target.isa.model import Instruction, Macro, Operand, Target
from dspgen.target.schema.expressions import ExpressionError, evaluate

if TYPE_CHECKING:
    from dspgen.asmir.select.emitter import Emitter

_MEMORY = re.compile(r"^\*\+?\{(?P<base>\w+)\}(?:\[(?P<offset>.+)\])?$")
_PLACE = re.compile(r"^\{(?P<name>\w+)(?:\.(?P<part>lo|hi))?\}$")


def expand_macro(emitter: Emitter, macro: Macro, destination: Reg, args: Sequence[Reg], imm: Sequence[int]) -> None:
    """Append the macro's instructions, in their order, with its places filled in."""
    places: dict[str, Reg] = {macro.result: destination}
    numbers: dict[str, int] = {}
    registers, immediates = iter(args), iter(imm)
    for name, cls in macro.operands:
        if cls == "immediate":
            numbers[name] = next(immediates)
        else:
            places[name] = next(registers)
    if macro.setup and macro.implements not in emitter.prepared:
        emitter.prepared.add(macro.implements)
        emitter.sink += _expanded(emitter, macro, macro.setup, {}, {}, ordered=True)
    made = _expanded(emitter, macro, macro.body, places, numbers, ordered=macro.ordered)
    emitter.items += made
    emitter.count(len(made))


def _expanded(
    emitter: Emitter,
    macro: Macro,
    lines: Sequence[str],
    places: dict[str, Reg],
    numbers: dict[str, int],
    *,
    ordered: bool,
) -> list[Instr]:
    temporaries = {name: Reg(emitter.fresh(cls, name)) for name, cls in macro.temporaries}
    return [_instruction(emitter, macro, line, {**temporaries, **places}, numbers, ordered) for line in lines]


def find_macro(
    emitter: Emitter, operation: str, result_class: str, argument_classes: Sequence[str], imm: Sequence[int] = ()
) -> Macro | None:
    """The macro for an operation such as `reduce_add.f32` on values of these register classes; `imm` are the
    compile-time integers, for macros that do one pattern of them only."""
    for macro in emitter.target.macros:
        if not macro.fits(imm):
            continue
        registers = [cls for _, cls in macro.operands if cls != "immediate"]
        if (macro.implements, macro.result_class, registers) == (operation, result_class, list(argument_classes)):
            return macro
    return None


def _instruction(
    emitter: Emitter, macro: Macro, line: str, places: dict[str, Reg], numbers: dict[str, int], ordered: bool
) -> Instr:
    mnemonic, _, rest = line.strip().partition(" ")
    texts = [t.strip() for t in rest.split(",")] if rest.strip() else []
    for instruction in emitter.target.instructions:
        if mnemonic not in (instruction.id, instruction.mnemonic) or len(instruction.operands) != len(texts):
            continue
        values = [
            _memory(instruction, t, places, numbers) if o.kind == "memory" else _operand(emitter, o, t, places, numbers)
            for o, t in zip(instruction.operands, texts, strict=True)
        ]
        if all(v is not None for v in values):
            return Instr(instruction, tuple(v for v in values if v is not None), None, emitter.loc, ordered=ordered)
    raise NoSchedule(
        Problem("DG307", f"no instruction of {emitter.target.name} fits `{line}` of the macro `{macro.implements}`")
    )


def _operand(
    emitter: Emitter, operand: Operand, text: str, places: dict[str, Reg], numbers: dict[str, int]
) -> OperandValue | None:
    if (found := _PLACE.match(text)) is not None and found["name"] in places:
        reg = places[found["name"]]
        part = found["part"] or reg.part
        reg = Reg(reg.vreg, "lo" if part == "lo" else "hi" if part == "hi" else "")
        return reg if emitter.part_class(reg) in operand.classes else None
    number = _number(text, numbers)
    if number is not None:
        return Imm(number) if operand.imm is not None and operand.imm[0] <= number <= operand.imm[1] else None
    filled = _filled(text, numbers)
    return Phys(filled) if _names(emitter.target, operand, filled) else None


def _memory(
    instruction: Instruction, text: str, places: dict[str, Reg], numbers: dict[str, int]
) -> OperandValue | None:
    """`*{base}` or `*+{base}[offset]`, the offset in units of the access."""
    found = _MEMORY.match(text)
    if found is None or instruction.memory is None or found["base"] not in places:
        return None
    offset = _number(found["offset"], numbers) if found["offset"] else 0
    return None if offset is None else Mem(places[found["base"]].vreg, offset * instruction.memory.scale, None)


def _number(text: str, numbers: dict[str, int]) -> int | None:
    filled = _filled(text, numbers)
    if re.fullmatch(r"[-+*()0-9x a-fA-F<]+", filled) is None:
        return None
    return _evaluate(filled)


def _filled(text: str, numbers: dict[str, int]) -> str:
    """Braces around an expression of the macro's immediates give way to its value."""

    def value(match: re.Match[str]) -> str:
        try:
            return str(evaluate(match[1], numbers))
        except ExpressionError:
            return match[0]

    return re.sub(r"\{([^{}]+)\}", value, text)


def _evaluate(text: str) -> int | None:
    """Integers, with `1<<n - 1`-like expressions spelled `(1<<n)-1`."""
    if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", text.strip()):
        return int(text, 0)
    try:
        value = evaluate(text, {})
    except ValueError:
        return None
    return int(value)


def _names(target: Target, operand: Operand, text: str) -> bool:
    return any(text in target.register_class(c).names for c in operand.classes)


__all__ = ["expand_macro", "find_macro"]
