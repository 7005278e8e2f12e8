"""Linear assembly: selected instructions on virtual registers, in sequential semantics.

    Function ::= name, inputs: (VReg, physical)*, body: Item*
    Item     ::= Instr | Loop | If | Mark | Jump
    Loop     ::= label, trip, streams, body: Item*
    If       ::= condition: VReg, then: Item*, otherwise: Item*
    Instr    ::= instruction (a row of the ISA file), operands in text order, predicate
    Jump     ::= branch: Instr, to a Mark of the same function

Virtual registers are mutable variables, as in any linear assembly: an accumulator is one `VReg` that its instruction
reads and writes. Each instruction sees all earlier results; units, packets and latencies are the scheduler's work.

A `Mem` operand is `stream + offset` bytes. The stream is an address register; inside a Loop that lists it in `streams`
it advances by `step` bytes at the end of each iteration of that Loop, and the scheduler decides how: by post-increment
of one access, or by an address addition. After the loop it has advanced `trip * step` bytes. A stream that the loop
does not list is constant in it. `access` says what memory the operand touches, for exact dependences.

A `Place` is a memory operand as programmers write it, with its mode: its register advances where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from dspgen.target.isa.model import Instruction, Side
from plant_core.support.location import Loc

Mode = Literal["none", "plus", "minus", "post_inc", "post_dec", "pre_inc", "pre_dec"]
UPDATES = ("post_inc", "post_dec", "pre_inc", "pre_dec")  # modes that advance their register

UNKNOWN = "?"  # begins a MemRef's name for an iterator whose loop is gone, and that starts elsewhere each time
PATTERNS = "shuffle patterns"  # the array that accesses to pattern memory name


class VReg(NamedTuple):
    """A virtual register of a register class of the target; a pair class has parts. (No dataclass, whose hash is ten
    times slower: the scheduler's tables are by register.)"""

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
    of `array`, for the iterators' values in this iteration (`terms`: iterator name, bytes). All in bytes.

    Arrays are apart from each other, but for the `shared` ones, which may overlap each other and shuffle patterns.
    """

    array: str
    constant: int
    terms: tuple[tuple[str, int], ...]
    stride: int
    count: int
    size: int
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Mem:
    base: VReg | Phys
    offset: int
    access: MemRef | None


@dataclass(frozen=True, slots=True)
class Place:
    """A memory operand with its mode decided; `offset` in scaled units, or the register that holds them."""

    base: VReg | Phys
    mode: Mode
    offset: int | VReg
    access: MemRef | None

    @property
    def updates(self) -> bool:
        """Whether it advances its register."""
        return self.mode in UPDATES


@dataclass(frozen=True, slots=True)
class Label:
    name: str


OperandValue = Reg | Phys | Imm | Mem | Place | Label


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
    masked: bool = False  # the lane mask may switch lanes off: vector results keep these as they were


@dataclass(frozen=True, slots=True)
class Stream:
    base: VReg
    step: int
    side: Side


@dataclass(frozen=True, slots=True)
class Loop:
    """`trip` iterations: an int, or a scalar register whose value is at least `min_trip` (0 possible: guard it).

    `iterator` is the name that MemRefs use, advancing by `step` an iteration. `pipeline` False: no software pipeline.
    `fixed`: the iterator has the same first value whenever the loop is entered. `varying`: names that MemRefs use of
    values that the body makes anew in each iteration, which may be any.
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
    fixed: bool = True
    varying: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class If:
    """Runs `then` where `condition` (a scalar register) is not zero, and where it is, `otherwise`."""

    condition: VReg
    then: tuple[Item, ...]
    otherwise: tuple[Item, ...] = ()

    @property
    def inside(self) -> tuple[Item, ...]:
        """All that it may run."""
        return (*self.then, *self.otherwise)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the code that jumps of its function name. Code that comes from above is there so many cycles after the
    last store of unknown place before it, if that is in the same straight code; no sooner, as it would have to wait."""

    name: str
    idle: int = 0


@dataclass(frozen=True, slots=True)
class Jump:
    """A branch to the Mark that it names; without a predicate, control never goes on to the next item.

    `keeps` are the registers whose values the code there may read (or more of them).
    """

    branch: Instr
    keeps: tuple[VReg, ...]

    @property
    def target(self) -> str:
        return next(v.name for v in self.branch.operands if isinstance(v, Label))

    @property
    def conditional(self) -> bool:
        return self.branch.predicate is not None


Item = Instr | Loop | If | Mark | Jump


ArgumentPlace = str | int  # a physical register, or bytes from the scalar side's stack pointer at entry


@dataclass(frozen=True, slots=True)
class Function:
    """`inputs` are live at entry in the given places, by the machine's calling convention. They are the parameters, or
    the address of a structure from which `entry` loads the `parameters` before anything of `body` runs.

    `below` are the bytes under each stack pointer, as it is at entry, that local arrays use.
    """

    name: str
    inputs: tuple[tuple[VReg, ArgumentPlace], ...]
    body: tuple[Item, ...]
    notes: tuple[str, ...] = field(default=())
    below: tuple[tuple[Side, int], ...] = ()
    parameters: tuple[VReg, ...] = ()
    entry: tuple[Item, ...] = ()

    @property
    def entered(self) -> Function:
        """The same with `entry` as a part of its body."""
        return replace(self, body=(*self.entry, *self.body), entry=()) if self.entry else self


def every_instr(items: Sequence[Item]) -> Iterator[Instr]:
    """The instructions of items and of what is inside of them, branches of jumps among them."""
    for item in items:
        match item:
            case Instr():
                yield item
            case Jump(branch=branch):
                yield branch
            case Loop(body=inner) | If(inside=inner):
                yield from every_instr(inner)
            case Mark():
                pass


Use = tuple[VReg, str]  # a register and its part, as in `Reg`


def reads(instr: Instr) -> Iterator[Use]:
    """Operands, bases and offsets of addresses, the predicate. What a predicate keeps is not among them."""
    for operand, value in zip(instr.instruction.operands, instr.operands, strict=True):
        match value:
            case Reg(vreg=register, part=part) if operand.read:
                yield register, part
            case Mem(base=VReg() as base):
                yield base, ""
            case Place(base=base, offset=offset):
                yield from ((r, "") for r in (base, offset) if isinstance(r, VReg))
            case _:
                pass
    if instr.predicate is not None:
        yield instr.predicate.register, ""


def writes(instr: Instr) -> Iterator[Use]:
    """Results, and the bases that a mode advances."""
    for operand, value in zip(instr.instruction.operands, instr.operands, strict=True):
        if isinstance(value, Reg) and operand.write:
            yield value.vreg, value.part
        elif isinstance(value, Place) and value.updates and isinstance(value.base, VReg):
            yield value.base, ""


def overwrites(instr: Instr) -> Iterator[Use]:
    """Results that do not depend on what was there before, unless by a lane mask."""
    if instr.predicate is None:
        for operand, value in zip(instr.instruction.operands, instr.operands, strict=True):
            if isinstance(value, Reg) and operand.write and not operand.read:
                yield value.vreg, value.part


def physical(instr: Instr) -> Iterator[str]:
    """The physical registers that it names, or writes without naming them."""
    yield from (v.name for v in instr.operands if isinstance(v, Phys))
    yield from instr.instruction.implicit_writes


def of_virtual(instr: Instr, touched: AbstractSet[str]) -> bool:
    """Whether what it does depends on virtual registers only: it names no physical ones, and reads none without naming
    them that are among the `touched`."""
    return not any(physical(instr)) and touched.isdisjoint(instr.instruction.implicit_reads)


def renamed(value: OperandValue, names: Mapping[VReg, VReg]) -> OperandValue:
    """The operand with other registers for those that `names` has."""
    match value:
        case Reg(vreg=register, part=part):
            return Reg(names.get(register, register), part)
        case Mem(base=VReg() as base):
            return replace(value, base=names.get(base, base))
        case Place(base=base, offset=offset):
            return replace(
                value,
                base=names.get(base, base) if isinstance(base, VReg) else base,
                offset=names.get(offset, offset) if isinstance(offset, VReg) else offset,
            )
        case _:
            return value


def instruction_count(items: tuple[Item, ...]) -> int:
    """Instructions of a body, those of its loops once."""
    total = 0
    for item in items:
        match item:
            case Instr() | Jump():
                total += 1
            case Loop(body=inner) | If(inside=inner):
                total += instruction_count(inner)
    return total


def loops_in(items: tuple[Item, ...]) -> Iterator[Loop]:
    """The loops of a body at any depth, in text order, outer ones first."""
    for item in items:
        if isinstance(item, Loop):
            yield item
            yield from loops_in(item.body)
        elif isinstance(item, If):
            yield from loops_in(item.inside)
