"""Linear assembly text to functions that the scheduler takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dspgen.asmir.ir.function import Function, Instr, Item, Loop, Mem, OperandValue, Place
from dspgen.errors import Problem, SourceError
from dspgen.lasm.flat_code import Builder, with_keeps, without_idle_marks
from dspgen.lasm.ir import Program
from dspgen.lasm.liveness import Liveness
from dspgen.lasm.loops import Note, Structure, without_idle_code
from dspgen.lasm.read import read_linear
from dspgen.lasm.row_inference import classify
from dspgen.lasm.warnings import behind_branches, unset
from dspgen.target.isa.model import Side, Target

_SCRATCH = 4096  # bytes that a program which names a stack pointer may use below it


@dataclass(frozen=True, slots=True)
class Linear:
    """A function of a linear assembly file; `arguments` are (register, name as written) of its inputs.

    `sequence` is the same function as it stands in the text: instructions, marks and jumps.
    """

    program: Program
    function: Function
    sequence: Function
    notes: tuple[Note, ...]
    arguments: tuple[tuple[str, str], ...]


def linear_functions(text: str | bytes, target: Target, file: str = "<text>") -> tuple[Linear, ...]:
    """The functions of a file. Raises SourceError (DG34x) with what is wrong, each at its place."""
    problems: list[Problem] = []
    found = []
    for program in read_linear(text, target, file):
        try:
            found.append(_linear(program, target))
        except SourceError as error:
            problems += error.problems
    if problems:
        raise SourceError(*problems)
    return tuple(found)


def _linear(program: Program, target: Target) -> Linear:
    builder = Builder(program, classify(program, target), target)
    builder.run()
    code = without_idle_marks(builder.code)
    live = Liveness(code, target)
    notes = [*behind_branches(program, builder.classes), *unset(code, builder, target)]
    keeps = {name: tuple(dict.fromkeys(sorted(a[0] for a in atoms))) for name, atoms in live.at.items()}
    code = with_keeps(code, keeps)
    below: tuple[tuple[Side, int], ...] = (("scalar", _SCRATCH), ("vector", _SCRATCH)) if builder.stack_used else ()
    sequence = Function(program.name, tuple(builder.inputs), tuple(code), below=below)
    structure = Structure(code, builder, target, program.apart)
    structure.run()
    body = tuple(_reachable(i, target) for i in without_idle_code(structure.items, target))
    function = replace(sequence, body=body)
    return Linear(program, function, sequence, (*notes, *structure.notes), tuple(builder.arguments))


def _reachable(item: Item, target: Target) -> Item:
    """Offsets beyond a mode's range as plain ones, which the scheduler brings into range."""
    if isinstance(item, Loop):
        return replace(item, body=tuple(_reachable(i, target) for i in item.body))
    if not isinstance(item, Instr) or item.instruction.memory is None:
        return item
    memory, modes = item.instruction.memory, target.address_modes
    operands: list[OperandValue] = []
    for value in item.operands:
        if isinstance(value, Place) and isinstance(value.offset, int) and value.mode in ("plus", "minus"):
            table = modes.plus_imm if value.mode == "plus" else modes.minus_imm
            low, high = table[memory.side]
            if not min(low, 0) <= value.offset <= high:
                offset = value.offset * memory.scale * (1 if value.mode == "plus" else -1)
                value = Mem(value.base, offset, value.access)
        operands.append(value)
    return replace(item, operands=tuple(operands))
