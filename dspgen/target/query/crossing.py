"""How values cross between lanes and between sides: element registers, and word shuffles by patterns in memory.

Read off the rows of the ISA file, like all that the compiler knows of a machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from dspgen.target.isa.model import Instruction, PatternMemory, RegisterClass, Target
from dspgen.target.query.operations import Form, OperationTable


@dataclass(frozen=True, slots=True)
class Elements:
    """The scalar view of one vector: `view` is the register, `elements` its lanes. A row that is lacking is None.

    `put`: vector to view, `take`: view to vector, `read`: element to scalar, `write`: scalar to element.
    """

    view: str
    elements: tuple[str, ...]
    put: Form | None
    take: Form | None
    read: Form | None
    write: Form | None

    @property
    def reads(self) -> bool:
        return self.put is not None and self.read is not None

    @property
    def writes(self) -> bool:
        return self.take is not None and self.write is not None


@dataclass(frozen=True, slots=True)
class WordShuffle:
    """A row that takes each 32-bit lane from one of two vectors, by a pattern in memory: byte k tells where lane k
    comes from, counting through `first` and then `second`. `select` writes the pattern's number to the mode register.
    """

    instruction: Instruction
    result: str
    first: str
    second: str
    select: Form
    memory: PatternMemory

    def modes(self, lanes: int) -> int:
        """How many consecutive mode numbers a pattern of so many lanes takes."""
        return -(-lanes // self.memory.bytes_per_mode)


def elements_of(target: Target, table: OperationTable) -> Elements | None:
    """The element registers that view the machine's vectors, where it has them."""
    vector = next((c for c in target.registers if c.kind == "vector" and c.pair_of is None), None)
    scalar = target.abi.scalar_class
    for cls in target.registers:
        if cls.kind != "element" or cls.element_of is None or vector is None:
            continue
        view = next((c for c in target.registers if cls.element_of in c.names and c is not cls), None)
        if view is None:
            continue
        return Elements(
            cls.element_of,
            cls.names,
            _copy(table, vector, view),
            _copy(table, view, vector),
            _copy(table, cls, target.register_class(scalar)),
            _copy(table, target.register_class(scalar), cls),
        )
    return None


def word_shuffle(target: Target, table: OperationTable) -> WordShuffle | None:
    """The machine's shuffle of 32-bit lanes, where it has one whose patterns the program can write."""
    memory = target.pattern_memory
    if memory is None or 2 * target.lanes > 128:
        return None
    region = next((m for m in target.memories if m.base <= memory.base < m.base + m.size), None)
    if region is None or "scalar" not in region.sides:
        return None
    mode = next((c for c in target.registers if memory.mode_register in c.names), None)
    select = None if mode is None else _copy(table, target.register_class(target.abi.scalar_class), mode)
    if select is None:
        return None
    for row in target.instructions:
        if not row.compile or len(row.semantics) != 1:
            continue
        statement = row.semantics[0]
        value, result = statement.value, statement.target
        if value.op != "perm" or value.type != "i32" or result is None or result.part:
            continue
        names = [a.name for a in value.args if a.op == "place" and not a.part]
        if len(names) == 3 and names[2] == memory.mode_register:
            return WordShuffle(row, result.name, names[0], names[1], select, memory)
    return None


def _copy(table: OperationTable, source: RegisterClass, destination: RegisterClass) -> Form | None:
    for form in table.forms("mov", "i32"):
        if source.name in form.operand(0).classes and destination.name in form.result_operand.classes:
            return form
    return None
