"""What it costs to do an operation lane by lane on the scalar side, where the machine has nothing better.

A vector goes into the machine's scalar view of one vector and comes back from it whole; the scalar side reads and
writes single elements of the view. Without a view it goes through memory, word by word. Each function gives the
instructions that such a sequence takes, or None where the machine lacks one of them. Elements wider than a register
have no such way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dspgen.target.isa.model import Instruction, Target
from dspgen.target.query.crossing import word_shuffle
from dspgen.target.query.operations import Form, OperationTable


@dataclass(frozen=True, slots=True)
class Implementation:
    """Cycles on one unit of each set of alternatives; `serial` cycles in which macro instructions follow each other."""

    occupancy: tuple[tuple[tuple[str, ...], int], ...] = ()
    latency: int = 0
    serial: int = 0
    total: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.serial + sum(cycles for _, cycles in self.occupancy))

    def times(self, count: int) -> Implementation:
        """`count` independent ones, each as late as one."""
        return Implementation(tuple((u, n * count) for u, n in self.occupancy), self.latency, self.serial * count)

    def before(self, other: Implementation) -> Implementation:
        """This one, then `other`, which needs its result."""
        merged: dict[tuple[str, ...], int] = {}
        for units, cycles in (*self.occupancy, *other.occupancy):
            merged[units] = merged.get(units, 0) + cycles
        return Implementation(tuple(merged.items()), self.latency + other.latency, self.serial + other.serial)


FREE = Implementation()


def of_row(row: Instruction) -> Implementation:
    """One instruction; `cost` is what the ISA file's user counts for it beyond the cycles that it takes."""
    occupancy = [(row.units, row.busy + (row.cost or 0))] if row.units else []
    occupancy += [((name,), cycles) for name, _, cycles in row.resources]
    return Implementation(tuple(occupancy), row.latency)


def in_turn(*steps: Implementation | None) -> Implementation | None:
    """One after the other; None if one is missing."""
    total = FREE
    for step in steps:
        if step is None:
            return None
        total = total.before(step)
    return total


class Lanewise:
    """The moves between the sides of one target, found in its rows."""

    def __init__(self, target: Target, table: OperationTable, scalar: str, vector: str | None) -> None:
        self.lanes = target.lanes
        self.scalar = scalar
        elements = next((c for c in target.registers if c.kind == "element" and c.element_of is not None), None)
        view = target.register_class(elements.element_of) if elements is not None and elements.element_of else None
        self.to_view = self.from_view = self.read = self.write = None
        moves = table.forms("mov", "i32")
        if elements is not None and view is not None and vector is not None:
            self.to_view = _move(moves, vector, view.name)
            self.from_view = _move(moves, view.name, vector)
            self.read = _move(moves, elements.name, scalar)
            self.write = _move(moves, scalar, elements.name)
        if vector is not None and None in (self.to_view, self.from_view, self.read, self.write):
            self.to_view, self.from_view = _store(table, "vst", vector), _load(table, "vld", vector)
            self.read, self.write = _load(table, "ld", scalar), _store(table, "st", scalar)
        self.address = _address(target, table, scalar)
        shuffle = word_shuffle(target, table)
        self.shuffle: Implementation | None = None
        if shuffle is not None:
            self.shuffle = of_row(shuffle.select.instruction).before(of_row(shuffle.instruction))

    def spread(self, each: Implementation | None, *, taken: int = 0, made: bool = True) -> Implementation | None:
        """For each lane `each`, with `taken` vectors read element by element before and, if `made`, one written."""
        if each is None:
            return None
        steps: list[Implementation | None] = []
        for _ in range(taken):
            steps += [self.to_view, self.read and self.read.times(self.lanes)]
        steps.append(each.times(self.lanes))
        if made:
            steps += [self.write and self.write.times(self.lanes), self.from_view]
        return in_turn(*steps)

    def reduced(self, join: Implementation | None) -> Implementation | None:
        """All lanes joined into one scalar, two by two."""
        if join is None:
            return None
        levels = max(1, (self.lanes - 1).bit_length())
        joins = Implementation(join.times(self.lanes - 1).occupancy, join.latency * levels, join.serial)
        return in_turn(self.to_view, self.read and self.read.times(self.lanes), joins)

    def one(self) -> Implementation | None:
        """One lane as a scalar."""
        return in_turn(self.to_view, self.read)

    def rearranged(self, taken: int) -> Implementation | None:
        """The lanes of `taken` vectors in any order: one shuffle, else each lane by itself."""
        return self.shuffle if self.shuffle is not None else self.spread(FREE, taken=taken)

    def windows(self, whole: Implementation | None, stride: int) -> Implementation | None:
        """A strided load by as many contiguous ones as its elements span, shuffled into one."""
        count = -(-(abs(stride) * (self.lanes - 1) + 1) // self.lanes)
        if whole is None or self.shuffle is None or not 0 < count <= max(1, self.lanes // 2):
            return None
        return whole.times(count).before(self.shuffle.times(max(1, count - 1)))

    def inserted(self) -> Implementation | None:
        """A vector with one lane replaced."""
        return in_turn(self.to_view, self.write, self.from_view)


def _move(moves: Sequence[Form], source: str, destination: str) -> Implementation | None:
    for form in moves:
        if source in form.operand(0).classes and destination in form.result_operand.classes:
            return of_row(form.instruction)
    return None


def _load(table: OperationTable, op: str, cls: str) -> Implementation | None:
    """A load of contiguous words to a register of the class."""
    forms = (f for f in table.forms(op, "i32") if cls in f.result_operand.classes and f.shape[:1] in ((), (1,)))
    return next((of_row(f.instruction) for f in forms), None)


def _store(table: OperationTable, op: str, cls: str) -> Implementation | None:
    """A store of contiguous words from a register of the class."""
    forms = (f for f in table.forms(op, "i32") if cls in f.operand(1).classes and f.shape[:1] in ((), (1,)))
    return next((of_row(f.instruction) for f in forms), None)


def _address(target: Target, table: OperationTable, scalar: str) -> Implementation | None:
    """The place of an element whose number is in a scalar register: scaled, added to the base, moved over."""
    base = target.address_modes.base_classes["scalar"]
    moved = next((r for r in target.instructions if r.compile and _makes_address(r, base)), None)
    steps = [
        next((of_row(f.instruction) for f in table.forms(op, "i32") if scalar in f.result_operand.classes), None)
        for op in ("shl", "add")
    ]
    return in_turn(*steps, None if moved is None else of_row(moved))


def _makes_address(row: Instruction, base: str) -> bool:
    if len(row.semantics) != 1:
        return False
    (statement,) = row.semantics
    if statement.target is None or statement.value.op != "addr":
        return False
    return any(o.name == statement.target.name and base in o.classes for o in row.operands)
