"""Puts constants into registers, by whatever rows of the ISA file can: short moves, low and high halves, broadcasts."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dspgen.asmir.ir.function import Imm, Instr, Item, OperandValue, Reg
from dspgen.asmir.select.macros import expand_macro, find_macro
from dspgen.target.isa.model import Instruction, Operand, Target
from dspgen.target.query.instructions import Index
from dspgen.vecdsl.ir.program import ELEM_BYTES, NARROW, Const

if TYPE_CHECKING:
    from dspgen.asmir.select.emitter import Emitter

_WORD_BITS = 32
_WORD = 1 << _WORD_BITS
_JOIN = "d = or.i64(zext(a, 32), shl.i64(b, 32))"  # two words in a register of two


@dataclass(frozen=True, slots=True)
class _Step:
    """One row that makes (a part of) a constant: all of it, sign-extended from `bits`, or the high half."""

    kind: Literal["whole", "high"]
    instruction: Instruction
    result: Operand
    immediate: Operand
    bits: int


class Constants:
    def __init__(self, target: Target, emitter: Emitter) -> None:
        self.target = target
        self.emitter = emitter
        self.joins = Index(target).find(_JOIN, dict.fromkeys("abd", "scalar"))
        self.steps = [s for i in target.instructions if i.compile and (s := _step(i)) is not None]

    def make(self, const: Const, destination: Reg, items: list[Item]) -> None:
        """Append instructions that put `const` into `destination` (every lane of it, for a vector)."""
        if self.emitter.classes.is_pair(self.emitter.part_class(destination)):
            low, high = _words(const)
            self._word(low, Reg(destination.vreg, "lo"), items)
            self._word(high, Reg(destination.vreg, "hi"), items)
            return
        low, high = _words(const)
        if ELEM_BYTES[const.type.elem] * 8 <= _WORD_BITS or high == low >> (_WORD_BITS - 1):
            self._word(low, destination, items)
        else:
            self._double_word(low, high, destination, items)

    def _double_word(self, low: int, high: int, destination: Reg, items: list[Item]) -> None:
        """Two words joined in one register, or in every lane."""
        emitter = self.emitter
        cls, scalar = emitter.part_class(destination), emitter.classes.scalar.name
        if cls != scalar:
            whole = Reg(emitter.fresh(scalar, "k"))
            self._double_word(low, high, whole, items)
            self._spread(("i64", "f64"), whole, destination, items)
            return
        for match in self.joins:
            parts = {name: Reg(emitter.fresh(scalar, "k")) for name in "ab"}
            self._word(low, parts["a"], items)
            self._word(high, parts["b"], items)
            values: dict[str, OperandValue] = {match.binding[n]: r for n, r in {**parts, "d": destination}.items()}
            row = match.instruction
            items.append(Instr(row, tuple(values[o.name] for o in row.operands), None, emitter.loc))
            return
        raise emitter.missing("constant of two words", cls)

    def _spread(self, elems: tuple[str, ...], source: Reg, destination: Reg, items: list[Item]) -> None:
        """A scalar to every lane: by a row, or by a macro."""
        emitter = self.emitter
        cls, scalar = emitter.part_class(destination), emitter.part_class(source)
        for elem in elems:
            for form in emitter.table.forms("bcast", elem):
                if cls in form.result_operand.classes and scalar in form.operand(0).classes:
                    emitter.emit(form, {form.result: destination, form.args[0]: source}, into=items)
                    return
            if (macro := find_macro(emitter, f"bcast.{elem}", cls, [scalar])) is not None:
                saved, emitter.items = emitter.items, items
                expand_macro(emitter, macro, destination, [source], [])
                emitter.items = saved
                return
        raise emitter.missing("constant", cls)

    def _word(self, value: int, destination: Reg, items: list[Item]) -> None:
        cls = self.emitter.part_class(destination)
        for step in self._usable("whole", cls):
            if _reaches(step, value):
                self._emit(step, value, destination, items)
                return
        low = value & 0xFFFF
        low -= (low & 0x8000) << 1
        high = next(iter(self._usable("high", cls)), None)
        for step in self._usable("whole", cls):
            if high is not None and step.bits >= 16 and _reaches(step, low):
                self._emit(step, low, destination, items)
                self._emit(high, (value >> 16) & 0xFFFF, destination, items)
                return
        self._broadcast(value, destination, cls, items)

    def _broadcast(self, value: int, destination: Reg, cls: str, items: list[Item]) -> None:
        emitter = self.emitter
        scalar = emitter.classes.scalar.name
        if cls == scalar:
            raise emitter.missing("constant", cls)
        copy = Reg(emitter.fresh(scalar, "k"))
        self._word(value, copy, items)
        self._spread(("i32",), copy, destination, items)

    def _usable(self, kind: str, cls: str) -> list[_Step]:
        found = [s for s in self.steps if s.kind == kind and cls in s.result.classes]
        return sorted(found, key=lambda s: (s.instruction.latency, -len(s.instruction.units), s.instruction.id))

    def _emit(self, step: _Step, value: int, destination: Reg, items: list[Item]) -> None:
        values: dict[str, OperandValue] = {step.result.name: destination, step.immediate.name: Imm(value)}
        operands = tuple(values[o.name] for o in step.instruction.operands)
        items.append(Instr(step.instruction, operands, None, self.emitter.loc))


def _words(const: Const) -> tuple[int, int]:
    """The low and the high 32 bits, as signed integers."""
    match const.type.elem:
        case "f32":
            bits = struct.unpack("<i", struct.pack("<f", float(const.value)))[0]
        case "f64":
            bits = struct.unpack("<q", struct.pack("<d", float(const.value)))[0]
        case elem if elem in NARROW:
            width = 8 * ELEM_BYTES[elem]
            bits = sum((int(const.value) & ((1 << width) - 1)) << at for at in range(0, _WORD_BITS, width))
        case _:
            bits = int(const.value)
    low = (bits & (_WORD - 1)) - ((bits & (1 << 31)) << 1)
    return low, bits >> 32


def _step(instruction: Instruction) -> _Step | None:
    if len(instruction.operands) != 2 or len(instruction.semantics) != 1:
        return None
    statement = instruction.semantics[0]
    if statement.target is None or statement.target.part:
        return None
    result = next((o for o in instruction.operands if o.name == statement.target.name), None)
    immediate = next((o for o in instruction.operands if o.imm is not None and o is not result), None)
    if result is None or immediate is None:
        return None
    value = statement.value
    places = [a.name for a in value.args if a.op == "place"]
    if value.op == "place" and value.name == immediate.name:
        return _Step("whole", instruction, result, immediate, 0)
    if value.op == "sext" and places == [immediate.name]:
        return _Step("whole", instruction, result, immediate, value.args[1].value)
    if value.op == "set_high" and places == [result.name, immediate.name]:
        return _Step("high", instruction, result, immediate, 16)
    return None


def _reaches(step: _Step, value: int) -> bool:
    low, high = step.immediate.imm or (0, -1)
    return low <= value <= high and (not step.bits or -(1 << (step.bits - 1)) <= value < 1 << (step.bits - 1))
