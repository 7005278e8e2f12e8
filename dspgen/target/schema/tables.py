"""The ISA file's tables as they are written, and what their keys mean: the reference in docs/isa.md and the comments
that `isa new` writes are these docstrings.

A class stands for a table. Its docstring begins with what the table is; then `key: meaning` for each key, or
`key [unit]: meaning`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dspgen.target.isa.model import Side
from dspgen.target.schema.instructions import Instruction
from dspgen.target.schema.kinds import Figure, Names, Range, Sourced, Words
from dspgen.target.schema.macros import Macro, Rewrite


@dataclass(frozen=True, slots=True)
class Register(Sourced):
    """A class of registers that instructions name alike.

    kind: `scalar`: one number. `vector`: one number a lane. `address`, `offset`: what memory operands are made of.
        `control`: of a use of its own, such as the lane mask. `element`: the lanes of a control register, one by one.
    bits [bits]: the width of a number: of a scalar, of one lane, or of an address.
    names: the registers' texts in order, register 0 first; pairs may go without. Scalars and addresses of the same
        width may share registers, and a class may be some of another's, for operands that must be of these.
    pair_of: the class above whose registers 2k and 2k + 1 are the low and the high half of pair k; `bits` are then
        those of both.
    pair_name: a pair's text, with `{lo}` and `{hi}` for those of its halves, `{lo_number}` and `{hi_number}` for the
        digits these end in.
    element_of: for `element`: the control register whose lanes these are.
    side: for addresses and offsets: the side whose memory accesses they serve, where that isn't either.
    vector: for `control`: it has one number a lane.
    """

    kind: Literal["scalar", "vector", "address", "offset", "control", "element"]
    bits: Figure
    names: Names = Names(())
    pair_of: str | None = None
    pair_name: str = "{hi}:{lo}"
    element_of: str | None = None
    side: Side | None = None
    vector: bool = False


@dataclass(frozen=True, slots=True)
class Unit(Sourced):
    """A group of equal functional units. Rows name the group, or one of its members: NAME1 is the first of NAME.

    count [units]: how many the group has; each takes one instruction a cycle.
    slots [instructions]: how many of its packet's instructions one on it counts for, where its text is longer.
    side: the side that they are on: it decides which predicates their instructions carry, and which address registers.
    suffix: what the text has after a mnemonic to name the unit, `{n}` being the member's number from 1.
    accepts: further suffixes that the assembler takes for it; they are never printed.
    """

    count: Figure
    side: Side
    slots: Figure = Figure(1)
    suffix: str = ""
    accepts: Words = Words(())


@dataclass(frozen=True, slots=True)
class Predicates(Sourced):
    """Registers that decide whether an instruction has an effect: it has if the register isn't 0.

    scalar: those that instructions of the scalar side may carry; branches of loops need them.
    lane: those that vector instructions may carry, a decision for each lane.
    text: what stands before the mnemonic, `{r}` being the register.
    negated: the same for an instruction that has an effect if the register is 0.
    """

    scalar: Names = Names(())
    lane: Names = Names(())
    text: str = "[{r}]"
    negated: str = "[!{r}]"


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on what a packet may hold, beyond one instruction a unit.

    units: the groups of units, or members of groups, that it counts.
    most [instructions]: how many of a packet's instructions may be on them.
    """

    units: Words
    most: Figure


@dataclass(frozen=True, slots=True)
class Packets(Sourced):
    """What is issued in one cycle.

    issue [instructions]: the most that a packet may have.
    minimum_ii [cycles]: the shortest initiation interval of software pipelines; a branch's delay sets another.
    limits: limits on groups of units, by names of your own.
    """

    issue: Figure
    minimum_ii: Figure = Figure(1)
    limits: dict[str, Limit] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pipeline(Sourced):
    """What happens to who comes too early.

    exposed: `true`: nothing waits, so that code has to. `false`: packets wait for the results that they read.
    equals: of exposed pipelines: a register keeps its old value until a result lands. `false`: it may change before.
    branch_delay [packets]: how many packets after a branch are still run.
    """

    exposed: bool
    equals: bool
    branch_delay: Figure


@dataclass(frozen=True, slots=True)
class AddressSide:
    """The memory operands of one side.

    base: the register class of their bases.
    plus: the immediates of `*+BASE[n]`, in units of the access's `scale`; 0 is always one of them.
    minus: those of `*-BASE[n]`.
    offset: the register class of offsets in registers, where there are such.
    """

    base: str
    plus: Range
    minus: Range
    offset: str | None = None


@dataclass(frozen=True, slots=True)
class AddressModes(Sourced):
    """What memory operands may be.

    scalar: those of the scalar side.
    vector: those of the vector side.
    increment: the immediates of `*BASE++[n]` and `*++BASE[n]`, in units of the access's `scale`.
    decrement: those of `*BASE--[n]` and `*--BASE[n]`.
    update_latency [cycles]: from issue until the base that these write can be read.
    """

    scalar: AddressSide
    vector: AddressSide
    increment: Range
    decrement: Range
    update_latency: Figure = Figure(1)


@dataclass(frozen=True, slots=True)
class Memory(Sourced):
    """A memory at a fixed place of the address space.

    base [bytes]: its first address.
    size [bytes]: how much it holds.
    bytes_per_cycle [bytes a cycle]: the most that the core can move to and from it; bounds on cycles count with it.
    sides: the sides whose loads and stores reach it. Arrays are placed in memories that both reach.
    onchip: whether it is as near as the chip's own memory; what isn't is left to `[dma]`, where there is one.
    purpose: `patterns`: it holds shuffle patterns, and no array is placed there.
    """

    base: Figure
    size: Figure
    bytes_per_cycle: Figure
    sides: tuple[Side, ...]
    onchip: bool
    purpose: Literal["data", "patterns"] = "data"


@dataclass(frozen=True, slots=True)
class Dma(Sourced):
    """The engine that moves data between memories.

    startup [cycles]: from a transfer's start until it begins, at least.
    bytes_per_cycle [bytes a cycle]: how fast it moves.
    base [bytes]: the address of the first channel's first word.
    words: what a channel's words say, in the machine's order: `source`, `source_step`, `destination`,
        `destination_step`, `rows`, `row_bytes`, `go`; and `element`, if it transposes.
    channels [channels]: how many rows of words there are, one after the other.
    word_bytes [bytes]: the size of a word.
    transpose: whether it can make columns of rows.
    transposed_bytes_per_cycle [bytes a cycle]: how fast it moves what it transposes, `bytes_per_cycle` by default.
    """

    startup: Figure
    bytes_per_cycle: Figure
    base: Figure
    words: Words
    channels: Figure = Figure(1)
    word_bytes: Figure = Figure(4)
    transpose: bool = False
    transposed_bytes_per_cycle: Figure | None = None


@dataclass(frozen=True, slots=True)
class Abi(Sourced):
    """How functions are called.

    arguments: the registers of arguments, in order; of a pair, its low half, or both if it may be two arguments.
    scalar_class: the register class of 32-bit integers and floats.
    pointer_class: the class of arguments that are addresses.
    wide_class: the class of arguments of 64 bits.
    result: the register that a number is returned in.
    return_address: the register that holds it at entry, as the caller sets it.
    return_operand: what the branch that returns names.
    scalar_stack: the scalar side's stack pointer, an address register.
    vector_stack: the vector side's stack pointer; may be the same.
    stack_memory: the memory that stacks are in.
    callee_saved: registers that must be as they were when the function returns.
    reserved: registers that compiled code must not use for anything else, such as stack pointers.
    entry_values: control registers with the values that they have at entry.
    stack_arguments: bytes from the scalar side's stack pointer to the first argument without a register, 4 or 8 each;
        where it isn't given, more arguments than registers come in one structure, its address in the first register.
    stack_alignment: bytes that stack pointers are multiples of; where it isn't given, as many as any access wants.
    red_zone: bytes below the stack pointers that functions may use without moving these; where it isn't given, all.
    """

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
    stack_arguments: Figure | None = None
    stack_alignment: Figure | None = None
    red_zone: Figure | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """How scheduled code is written.

    parallel: what stands before each member of a packet but the first.
    comment: what begins a comment.
    nop: the word of the instruction that lets cycles pass; may be empty where packets wait by themselves.
    nop_max [cycles]: how many one of them can pass; if more than 1, it takes the number as its operand.
    comment_alternatives: further marks of comments that the assembler takes.
    label: a label's line, `{name}` being its name.
    global_directive: the line that makes a function known to others; may be empty.
    size_directive: the line after a function; may be empty.
    case_sensitive: whether names in small and in capital letters differ.
    packet_open: what stands before a packet's members, where packets are bracketed and not joined by `parallel`.
    packet_close: what stands after them.
    separator: what may stand between members besides a new line, in bracketed packets.
    address: a place in memory in an instruction's `text`, with `{base}` and `{offset}`, a number that may be below 0.
    address_update: the same where the base is advanced afterwards.
    source: where this is known from, in words.
    """

    parallel: str
    comment: str
    nop: str
    nop_max: Figure
    comment_alternatives: Words = Words(())
    label: str = "{name}:"
    global_directive: str = ".global {name}"
    size_directive: str = ".size {name}, .-{name}"
    case_sensitive: bool = True
    packet_open: str = ""
    packet_close: str = ""
    separator: str = ""
    address: str = ""
    address_update: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Toolchain(Sourced):
    """Tools from elsewhere that assemble, link and run code, for `run --runner qemu`. `{name}` in texts is filled in.

    assemble: the command that makes `{object}` of `{source}`.
    link: the command that makes `{program}` of `{objects}`.
    run: the command that runs `{program}`, whose output are the bytes of all outputs.
    start: the text of a program that calls `{function}`, with the texts below for `{arguments}`, `{outputs}`, `{data}`.
    argument: puts `{value}`, a label or a number, into the `{register}` of an argument.
    stack_argument: puts it `{offset}` bytes from the stack pointer; `{arguments}` begins with these.
    output: writes `{bytes}` bytes from `{address}` on to the program's output.
    data: reserves an array `{name}` with the contents of `{file}`, and a guard behind it.
    counter: the label of the word to which `start` writes how many packets were run.
    overhead [packets]: how many of them are none of the function's.
    compile: the command that makes `{object}` of the C text `{source}`.
    rivals: commands like it, by names of your own, that code is compared with: other compilers, or other flags.
    halide: the target that Halide compiles the same kernels for, as one more rival.
    support: C text with what rivals' code calls from elsewhere.
    packages: what is to be installed for the tools.
    """

    assemble: str
    link: str
    run: str
    start: str
    argument: str
    output: str
    data: str
    counter: str
    stack_argument: str = ""
    overhead: Figure = Figure(0)
    compile: str = ""
    rivals: dict[str, str] = field(default_factory=dict)
    halide: str = ""
    support: str = ""
    packages: Words = Words(())


@dataclass(frozen=True, slots=True)
class Patterns(Sourced):
    """The memory of shuffle patterns, for `perm` in semantics: a byte for each lane of a result.

    base [bytes]: the address of mode 0's pattern.
    bytes_per_mode [bytes]: from one mode's pattern to the next.
    mode_register: the control register that holds the mode's number.
    """

    base: Figure
    bytes_per_mode: Figure
    mode_register: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Isa:
    """The file as a whole: the keys without tables come first.

    name: the machine's name.
    description: the machine in one line.
    lanes: how many numbers a vector has; `lanes` may stand in expressions.
    mask_register: the control register that masks lanes, bit k for lane k.
    registers: the register classes.
    groups: names for several register classes together, for operands that may be of any of them.
    predicates: registers that decide whether an instruction has an effect.
    units: the functional units.
    packets: what is issued in one cycle.
    pipeline: what happens to who comes too early.
    address_modes: what memory operands may be.
    memories: the memories.
    dma: the engine that moves data between memories.
    pattern_memory: the memory of shuffle patterns.
    abi: how functions are called.
    text: how code is written.
    toolchain: tools from elsewhere that run code.
    instructions: what the units do.
    macros: operations that take several instructions.
    rewrites: rules of the machine's own.
    cost: figures of `cost` by instruction, for tuning; they win over the rows' own.
    """

    name: str
    description: str = ""
    lanes: Figure
    mask_register: str | None = None
    registers: dict[str, Register]
    groups: dict[str, Words] = field(default_factory=dict)
    predicates: Predicates = field(default_factory=Predicates)
    units: dict[str, Unit]
    packets: Packets
    pipeline: Pipeline
    address_modes: AddressModes
    memories: dict[str, Memory]
    dma: Dma | None = None
    pattern_memory: Patterns | None = None
    abi: Abi
    text: Text
    toolchain: Toolchain | None = None
    instructions: dict[str, Instruction]
    macros: dict[str, Macro] = field(default_factory=dict)
    rewrites: dict[str, Rewrite] = field(default_factory=dict)
    cost: dict[str, Figure] = field(default_factory=dict)
