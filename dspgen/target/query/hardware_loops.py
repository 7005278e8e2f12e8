"""Hardware loops: what begins one, and what ends its iterations, read off the semantics of the rows.

A row begins a loop with `n = times; s = addr(t)`: a control register counts, another one has where iterations begin. A
row that ends its packet goes back there, by `repeat(s, n)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dspgen.target.isa.model import Instruction, Operand, SemExpr, Target


@dataclass(frozen=True, slots=True)
class Beginning:
    """A row that begins a loop: the operands with the label of its first packet and with how often it runs."""

    instruction: Instruction
    label: Operand
    times: Operand


@dataclass(frozen=True, slots=True)
class HardwareLoop:
    """A pair of control registers, the row that goes back, and those that begin."""

    start: str
    count: str
    end: Instruction
    beginnings: tuple[Beginning, ...]


def hardware_loops(target: Target) -> tuple[HardwareLoop, ...]:
    """Those that the compiler may use, in the order of the rows that end them."""
    found: list[HardwareLoop] = []
    for row in target.instructions:
        if row.compile and (ends := registers_of_end(row)) is not None:
            beginnings = tuple(b for r in target.instructions if r.compile for b in _beginnings(r, *ends))
            if beginnings:
                found.append(HardwareLoop(*ends, row, beginnings))
    return tuple(found)


def registers_of_end(row: Instruction) -> tuple[str, str] | None:
    """The registers with a loop's start and its count, of a row that ends iterations."""
    for statement in row.semantics:
        if statement.value.op == "repeat":
            start, count = statement.value.args
            return start.name, count.name
    return None


def started_by(row: Instruction) -> tuple[tuple[str, Operand], ...]:
    """The control registers that a row fills with the place of a label, each with that operand."""
    labels = {o.name: o for o in row.operands if o.kind == "label"}
    return tuple(
        (s.target.name, labels[s.value.args[0].name])
        for s in row.semantics
        if s.target is not None and s.value.op == "addr" and s.value.args[0].name in labels
    )


def goes_back(
    packets: Iterable[Iterable[tuple[Instruction, tuple[object, ...]]]],
) -> Iterator[tuple[int, int, str | None]]:
    """Of code in the order of its text, packets of instructions with operands: packet and member of each end of a loop,
    and the label that it goes back to, None where no loop is begun above. That is the one of what begins a loop last
    before it, as code for hardware loops has it; machines go by what was run, which may differ."""
    begun: dict[str, str] = {}
    for at, packet in enumerate(packets):
        started: dict[str, str] = {}
        for k, (row, operands) in enumerate(packet):
            if (ends := registers_of_end(row)) is not None:
                yield at, k, begun.get(ends[0])
            for register, label in started_by(row):
                started[register] = str(operands[row.operands.index(label)]).removeprefix("@")
        begun |= started


def _beginnings(row: Instruction, start: str, count: str) -> Iterator[Beginning]:
    """The row, if beginning a loop of these registers is all that it does."""
    label = next((operand for register, operand in started_by(row) if register == start), None)
    times = [_operand(row, s.value) for s in row.semantics if s.target is not None and s.target.name == count]
    if label is not None and len(row.semantics) == 2 and len(row.operands) == 2 and times and times[0] is not None:
        yield Beginning(row, label, times[0])


def _operand(row: Instruction, value: SemExpr) -> Operand | None:
    if value.op != "place" or value.part:
        return None
    return next((o for o in row.operands if o.name == value.name), None)
