"""Single lanes of vectors, by way of the machine's element registers: the scalar view of one vector.

The view holds one vector at a time. What it holds is remembered within a block, so that many lanes of one vector are
read after a single move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from dspgen.asmir.ir.function import OperandValue, Phys, Reg, VReg
from dspgen.target.query.crossing import Elements
from dspgen.target.query.operations import Form
from dspgen.vecdsl.ir.program import Const, VType

if TYPE_CHECKING:
    from dspgen.asmir.select.emitter import Emitter

Part = Literal["", "lo", "hi"]


class LaneMoves:
    """Moves between single lanes and the scalar side, appended to the emitter's items."""

    def __init__(self, emitter: Emitter, elements: Elements) -> None:
        self.emitter = emitter
        self.elements = elements
        self.viewed: Reg | None = None

    def forget(self) -> None:
        """The view may hold anything from here on."""
        self.viewed = None

    def written(self, register: VReg) -> None:
        """The vector register has a new value."""
        if self.viewed is not None and self.viewed.vreg == register:
            self.viewed = None

    def read(self, vector: Reg, lane: int, into: Reg | None) -> Reg:
        """Lane `lane` of a vector that is in a register, in a scalar register."""
        elements = self.elements
        if elements.put is None or elements.read is None:
            raise self.emitter.missing("lane", vector.vreg.cls, vector=True)
        scalar = self.emitter.classes.scalar.name
        parts = self._parts(vector)
        destination = into or Reg(self.emitter.fresh(self.emitter.classes.pair_of(scalar) if parts[0] else scalar))
        for part in parts:
            source = Reg(vector.vreg, part or vector.part)
            if self.viewed != source:
                self.emitter.emit(elements.put, _filled(elements.put, Phys(elements.view), source))
                self.viewed = source
            result = Reg(destination.vreg, part or destination.part)
            self.emitter.emit(elements.read, _filled(elements.read, result, Phys(elements.elements[lane])))
        return destination

    def join(self, values: Sequence[Reg], type: VType, into: Reg | None, base: Reg | None, kept: Sequence[bool]) -> Reg:
        """A vector of scalars, lane by lane. Lanes that are `kept` come from the vector `base`."""
        elements = self.elements
        if elements.take is None or elements.write is None or (base is not None and elements.put is None):
            raise self.emitter.missing("vec", type.elem, vector=True)
        destination = into or Reg(self.emitter.fresh(self.emitter.classes.of_type(type)))
        for part in self._parts(destination):
            if base is not None and elements.put is not None:
                source = Reg(base.vreg, part or base.part)
                self.emitter.emit(elements.put, _filled(elements.put, Phys(elements.view), source))
            for lane, value in enumerate(values):
                if not kept[lane]:
                    source = Reg(value.vreg, part or value.part)
                    operands = _filled(elements.write, Phys(elements.elements[lane]), source)
                    self.emitter.emit(elements.write, operands)
            result = Reg(destination.vreg, part or destination.part)
            self.emitter.emit(elements.take, _filled(elements.take, result, Phys(elements.view)))
        self.forget()
        return destination

    def _parts(self, reg: Reg) -> tuple[Part, ...]:
        """The halves that are moved one by one, of a register pair."""
        return ("lo", "hi") if self.emitter.classes.is_pair(self.emitter.part_class(reg)) else ("",)


def constant_lanes(moves: LaneMoves, values: Sequence[int | float], type: VType, scalar: Callable[[Const], Reg]) -> Reg:
    """A vector of constants."""
    registers = [scalar(Const(value, VType(type.elem, False))) for value in values]
    return moves.join(registers, type, None, None, [False] * len(registers))


def _filled(form: Form, result: OperandValue, source: OperandValue) -> dict[str, OperandValue]:
    return {form.result: result, form.args[0]: source}
