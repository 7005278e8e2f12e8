"""Linear assembly: selected instructions on virtual registers, in sequential semantics.

    Function ::= name, inputs: (VReg, physical)*, body: Item*
    Item     ::= Instr | Loop | If
    Loop     ::= label, trip, streams, body: Item*
    Instr    ::= instruction (a row of the ISA file), operands in text order, predicate

Virtual registers are mutable variables, as in any linear assembly: an accumulator is one `VReg` that its instruction
reads and writes. Each instruction sees all earlier results; units, packets and latencies are the scheduler's work.

A `Mem` operand is `stream + offset` bytes. The stream is an address register; inside a Loop that lists it in `streams`
it advances by `step` bytes at the end of each iteration of that Loop, and the scheduler decides how: by post-increment
of one access, or by an address addition. After the loop it has advanced `trip * step` bytes. A stream that the loop
does not list is constant in it. `access` says what memory the operand touches, for exact dependences.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dspgen.target.model import Instruction, Side
from plant_core.loc import Loc

PATTERNS = "shuffle patterns"  # the array that accesses to pattern memory name


@dataclass(frozen=True, slots=True, order=True)
class VReg:
    """A virtual register of a register class of the target; a pair class has parts."""

    name: str
    cls: str


@dataclass(frozen=True, slots=True)
class Reg:
    """A register operand. `part` selects a half of a pair-class VReg where the instruction wants a single."""

    vreg: VReg
    part: Literal["", "lo", "hi"] = ""


@dataclass(frozen=True, slots=True)
class Phys:
    """A physical register by name: control registers, stack pointers, the return address."""

    name: str


@dataclass(frozen=True, slots=True)
class Imm:
    value: int


@dataclass(frozen=True, slots=True)
class MemRef:
    """The bytes an access touches: for lane k < count, `size` bytes at byte `constant + sum(c*iterator) + k*stride`
    of `array`, for the iterators' values in this iteration (`terms`: iterator name, bytes). All in bytes."""

    array: str
    constant: int
    terms: tuple[tuple[str, int], ...]
    stride: int
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class Mem:
    base: VReg | Phys
    offset: int
    access: MemRef | None


@dataclass(frozen=True, slots=True)
class Label:
    name: str


OperandValue = Reg | Phys | Imm | Mem | Label


@dataclass(frozen=True, slots=True)
class Predicate:
    """`register` true when not zero (a lane predicate: each lane by its own)."""

    register: VReg
    negated: bool = False
    lane: bool = False


@dataclass(frozen=True, slots=True)
class Instr:
    instruction: Instruction
    operands: tuple[OperandValue, ...]
    predicate: Predicate | None = None
    loc: Loc | None = None
    comment: str = ""
    ordered: bool = False  # keeps its place among `ordered` instructions of its block, each after the other's results


@dataclass(frozen=True, slots=True)
class Stream:
    base: VReg
    step: int
    side: Side


@dataclass(frozen=True, slots=True)
class Loop:
    """`trip` iterations: an int, or a scalar register whose value is at least `min_trip` (0 possible: guard it).

    `iterator` is the name that MemRefs use, advancing by `step` an iteration. `pipeline` False: no software pipeline.
    """

    label: str
    iterator: str
    step: int
    trip: int | VReg
    streams: tuple[Stream, ...]
    body: tuple[Item, ...]
    min_trip: int = 0
    pipeline: bool = True
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class If:
    """Runs `then` where `condition` (a scalar register) is not zero."""

    condition: VReg
    then: tuple[Item, ...]


Item = Instr | Loop | If


@dataclass(frozen=True, slots=True)
class Function:
    """`inputs` are live at entry in the given physical registers, by the machine's calling convention.

    The frame (bytes taken from each stack pointer at entry and given back at exit) is in `frame`; `below` are the bytes
    under each stack pointer that local arrays use without its being moved.
    """

    name: str
    inputs: tuple[tuple[VReg, str], ...]
    body: tuple[Item, ...]
    frame: tuple[tuple[Side, int], ...] = ()
    notes: tuple[str, ...] = field(default=())
    below: tuple[tuple[Side, int], ...] = ()


def instruction_count(items: tuple[Item, ...]) -> int:
    """Instructions of a body, those of its loops once."""
    total = 0
    for item in items:
        match item:
            case Instr():
                total += 1
            case Loop(body=inner) | If(then=inner):
                total += instruction_count(inner)
    return total
