"""Linear assembly text to functions that the scheduler takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dspgen.asmir.ir import Function, VReg
from dspgen.errors import Problem, SourceError
from dspgen.lasm.build import Builder, with_keeps, without_idle_marks
from dspgen.lasm.forms import classify
from dspgen.lasm.ir import Program
from dspgen.lasm.live import Liveness
from dspgen.lasm.loops import Note, Structure, without_idle_code
from dspgen.lasm.read import read_linear
from dspgen.target.model import Target


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
    unset = sorted({a[0] for a in live.before[0]} - {v for v, _ in builder.inputs}) if code else []
    notes = [Note(program.loc, "unset", f"{_written_name(v)} may be read before it is written") for v in unset]
    keeps = {name: tuple(dict.fromkeys(sorted(a[0] for a in atoms))) for name, atoms in live.at.items()}
    code = with_keeps(code, keeps)
    sequence = Function(program.name, tuple(builder.inputs), tuple(code))
    structure = Structure(code, builder, target, program.apart)
    structure.run()
    function = replace(sequence, body=without_idle_code(structure.items, target))
    return Linear(program, function, sequence, (*notes, *structure.notes), tuple(builder.arguments))


def _written_name(register: VReg) -> str:
    return register.name.strip(":")
