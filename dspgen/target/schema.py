"""The ISA file's tables as they are written. `Figure` is an integer or an expression; the loader makes it an integer.

`Words` is one text or a list of texts. A pattern such as `X{0..63}` in `Names` stands for all its names; its bounds may
be expressions. Every table takes `label` (published | mined | derived | assumed) and `source` beside its figures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NewType

from dspgen.target.model import Side

Figure = NewType("Figure", int)
Words = NewType("Words", tuple)  # type: ignore[type-arg]
Names = NewType("Names", tuple)  # type: ignore[type-arg]
Range = NewType("Range", tuple)  # type: ignore[type-arg]
Label = Literal["published", "mined", "derived", "assumed"]


@dataclass(frozen=True, slots=True)
class Register:
    kind: Literal["scalar", "vector", "address", "offset", "control", "element"]
    bits: Figure
    names: Names = Names(())
    pair_of: str | None = None
    pair_name: str = "{hi}:{lo}"
    element_of: str | None = None
    side: Side | None = None
    vector: bool = False
    label: Label = "assumed"
    source: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    count: Figure
    side: Side
    suffix: str = ""
    accepts: Words = Words(())
    label: Label = "assumed"
    source: str = ""


@dataclass(frozen=True, slots=True)
class Operand:
    reg: Words = Words(())
    imm: Range | None = None
    memory: bool = False
    target: bool = False
    latency: Figure | None = None
    read_cycle: Figure = Figure(0)
    literal: Literal["", "low_half", "high_half"] = ""
    symbol_bits: Range | None = None
    pair_text: Literal["", "low"] = ""


@dataclass(frozen=True, slots=True)
class Access:
    scale: Figure
    bytes: Figure
    align: Figure = Figure(1)
    side: Side | None = None
    store_latency: Figure = Figure(1)
    force_align: bool = False


@dataclass(frozen=True, slots=True)
class Reservation:
    name: str
    first: Figure = Figure(0)
    cycles: Figure = Figure(1)


@dataclass(frozen=True, slots=True)
class Instruction:
    units: Words
    semantics: str
    label: Label
    source: str
    operands: dict[str, Operand] = field(default_factory=dict)
    mnemonic: str | None = None
    latency: Figure = Figure(1)
    busy: Figure = Figure(1)
    memory: Access | None = None
    resources: tuple[Reservation, ...] = ()
    implicit_reads: Words = Words(())
    predicate: Literal["none", "scalar", "lane"] | None = None
    cost: Figure | None = None
    compile: bool = True
    equivalents: Words = Words(())
    masked: bool | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Predicates:
    scalar: Names = Names(())
    lane: Names = Names(())
    text: str = "[{r}]"
    negated: str = "[!{r}]"
    label: Label = "assumed"
    source: str = ""


@dataclass(frozen=True, slots=True)
class Limit:
    units: Words
    most: Figure


@dataclass(frozen=True, slots=True)
class Packets:
    issue: Figure
    minimum_ii: Figure = Figure(1)
    limits: dict[str, Limit] = field(default_factory=dict)
    label: Label = "assumed"
    source: str = ""


@dataclass(frozen=True, slots=True)
class Pipeline:
    exposed: bool
    equals: bool
    branch_delay: Figure
    label: Label = "assumed"
    source: str = ""


@dataclass(frozen=True, slots=True)
class AddressSide:
    base: str
    offset: str
    plus: Range
    minus: Range


@dataclass(frozen=True, slots=True)
class AddressModes:
    scalar: AddressSide
    vector: AddressSide
    increment: Range
    decrement: Range
    update_latency: Figure = Figure(1)
    label: Label = "assumed"
    source: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    base: Figure
    size: Figure
    bytes_per_cycle: Figure
    sides: tuple[Side, ...]
    onchip: bool
    purpose: Literal["data", "patterns"] = "data"
    label: Label = "assumed"
    source: str = ""


@dataclass(frozen=True, slots=True)
class Dma:
    """`words` of a channel: source, source_step, destination, destination_step, rows, row_bytes, go; and element, if it
    transposes."""

    startup: Figure
    bytes_per_cycle: Figure
    base: Figure
    words: Words
    channels: Figure = Figure(1)
    word_bytes: Figure = Figure(4)
    transpose: bool = False
    label: Label = "assumed"
    source: str = ""


@dataclass(frozen=True, slots=True)
class Abi:
    arguments: Names
    scalar_class: str
    pointer_class: str
    wide_class: str
    result: str
    return_address: str
    return_operand: str
    scalar_stack: str
    vector_stack: str
    stack_memory: str
    callee_saved: Names = Names(())
    reserved: Names = Names(())
    entry_values: dict[str, Figure] = field(default_factory=dict)
    label: Label = "assumed"
    source: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    parallel: str
    comment: str
    nop: str
    nop_max: Figure
    comment_alternatives: Words = Words(())
    label: str = "{name}:"
    global_directive: str = ".global {name}"
    size_directive: str = ".size {name}, .-{name}"
    case_sensitive: bool = True
    source: str = ""


@dataclass(frozen=True, slots=True)
class Patterns:
    base: Figure
    bytes_per_mode: Figure
    mode_register: str
    label: Label = "assumed"
    source: str = ""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Lines repeated with `{index}` from `first` up to, not including, `end`."""

    index: str
    end: Figure
    lines: Words
    first: Figure = Figure(0)


@dataclass(frozen=True, slots=True)
class Fold:
    """Lines for each joint of a balanced tree over `count` places: `{left}` and `{right}` are joined into `{left}`."""

    count: Figure
    lines: Words


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a macro's body, a repetition of lines, or a tree of them."""

    text: str = ""
    repeat: Repeat | None = None
    fold: Fold | None = None


@dataclass(frozen=True, slots=True)
class Macro:
    implements: str
    result: str
    result_class: str
    body: tuple[Line, ...]
    operands: dict[str, str] = field(default_factory=dict)
    temporaries: dict[str, str] = field(default_factory=dict)
    ordered: bool = True
    setup: tuple[Line, ...] = ()
    packed: Figure = Figure(0)
    pattern: str = ""
    label: Label = "assumed"
    source: str = ""


@dataclass(frozen=True, slots=True)
class Tree:
    """A balanced tree of the two-place `op` over `leaf` with `{index}` from 0 up to `count`."""

    op: str
    leaf: str
    count: Figure
    index: str = "k"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """`let` names terms for the right side, each in terms of the earlier ones."""

    left: str
    right: str = ""
    let: dict[str, str] = field(default_factory=dict)
    tree: Tree | None = None
    when: str = ""
    why: str = ""
    packed: Figure = Figure(0)


@dataclass(frozen=True, slots=True)
class Isa:
    name: str
    lanes: Figure
    registers: dict[str, Register]
    units: dict[str, Unit]
    instructions: dict[str, Instruction]
    packets: Packets
    pipeline: Pipeline
    address_modes: AddressModes
    memories: dict[str, Memory]
    abi: Abi
    text: Text
    description: str = ""
    predicates: Predicates = field(default_factory=Predicates)
    groups: dict[str, Words] = field(default_factory=dict)
    dma: Dma | None = None
    pattern_memory: Patterns | None = None
    macros: dict[str, Macro] = field(default_factory=dict)
    rewrites: dict[str, Rewrite] = field(default_factory=dict)
    cost: dict[str, Figure] = field(default_factory=dict)
    mask_register: str | None = None
