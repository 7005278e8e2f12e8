"""The machine as its ISA file describes it. Every figure and every name below comes from `isa/*.toml`; what is the same
as in the file, `dspgen.target.schema.tables` explains.

    Target ::= name, lanes, registers, predicates, units, instructions, packets, pipeline, memories, dma, abi, text

An instruction's `semantics` are statements over its operands' names: `d = mac.f32(a, b, c)`. The expression grammar
(parsed by `dspgen.target.isa.semantics` into `SemExpr`):

    statement ::= place "=" expr | store
    place     ::= operand | operand ".lo" | operand ".hi" | REGISTER       a control register is named in upper case
    expr      ::= op "." type "(" expr, ... ")" | place | integer
    store     ::= "st." type "(" m ["," first] "," expr ")" | "vst." type "(" m "," stride "," first "," expr ")"
                | "scatter." type "(" m "," expr "," expr ")"
    loads        "ld." type "(" m ["," first] ")" | "vld." type "(" m "," stride "," first ")"
                | "gather." type "(" m "," expr ")"

`op` is an operation of `dspgen.vecdsl.ir.program.OPS` (that table is the vocabulary), lane-wise where an operand is a
vector.
An operation on vectors works on elements of its own type: on lanes wider than these, on all that they hold. Memory
types: i8 u8 i16 u16 i32 i64, sign- or zero-extended to the register; f32 moves as i32 and f64 as i64. `vld.i32(m, s,
f)`: lane k = element `f + s*k` counted from the access's address; `ld.i64(m, f)` is element `f`. `gather.i32(m, x)`:
lane k = element `x[k]` (signed) counted so; `scatter.i32(m, x, a)` stores lane k of `a` there, in the order of the
lanes. Ops that only ISA files use: `perm.i32(a, b, mode)` and `perm.i16` (shuffle {b:a} by the byte pattern number
`mode` in pattern memory), `branch(t)` (jump to a label or register), `repeat(s, n)` (the end of
a hardware loop: while the control register n is above 1, 1 is taken off it, and after this packet comes the one at the
address in the control register s), `addr(x)` (integer or pointer to address
register), `cat(lo, hi)` (a pair's 64 bits), `trunc(x)`, `sext(x, bits)`, `zext(x, bits)`, `bits(x, high, low)`,
`set_high(x, y)` (y's low 16 bits over x's high half), `rotate.i32(a, x)`
(lane k = lane k + x of `a`, round its end), `slide.i32(a, b, x)` (lane k = lane k + x of `a` followed by `b`, x from 0
to the number of lanes, not included). Operations with compile-time integers (`lane`, `insert`, ...)
take them as their last arguments. A whole pair is its 64 bits: `add.f64(a, b)` on pairs. An address register is a
36-bit or other whole number, kept to its `bits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Side = Literal["scalar", "vector"]


@dataclass(frozen=True, slots=True)
class RegisterClass:
    """`names[i]` is the text of register i. A pair class has `pair_of`; register i is made of halves 2i and 2i+1."""

    name: str
    kind: Literal["scalar", "vector", "address", "offset", "control", "element"]
    names: tuple[str, ...]
    bits: int
    pair_of: str | None = None
    element_of: str | None = None
    side: Side | None = None
    vector: bool = False


@dataclass(frozen=True, slots=True)
class Unit:
    """A group of `count` equal units."""

    name: str
    count: int
    suffix: str
    side: Side
    accepts: tuple[str, ...] = ()
    slots: int = 1

    @property
    def members(self) -> tuple[str, ...]:
        return (self.name,) if self.count == 1 else tuple(f"{self.name}{n}" for n in range(1, self.count + 1))


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand, in text order.

    kind "register": one of `classes`; "immediate": an integer in `imm` (low, high); "memory"; "label".
    A register operand that has `imm` takes an immediate instead. `read` and `write` may both be set (a partial update).
    Under `literal` "high_half", a number is printed as a hexadecimal half.
    """

    name: str
    kind: Literal["register", "immediate", "memory", "label"]
    classes: tuple[str, ...] = ()
    imm: tuple[int, int] | None = None
    read: bool = False
    write: bool = False
    latency: int = 1
    read_cycle: int = 0
    new: bool = False  # written by another instruction of the packet
    forward: bool = True  # of a result: may be another one's new operand
    literal: Literal["", "low_half", "high_half"] = ""
    symbol_bits: tuple[int, int] | None = None
    pair_text: Literal["", "low"] = ""


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """How a memory operand reaches memory."""

    side: Side
    scale: int
    align: int
    bytes: int
    store: bool
    store_latency: int = 1
    force_align: bool = False
    text_unit: int = 1  # bytes that 1 in the text's immediate stands for


@dataclass(frozen=True, slots=True)
class SemExpr:
    """A parsed semantics expression; `op` "place" has the place's name in `name`, "int" its value in `value`."""

    op: str
    type: str = ""
    args: tuple[SemExpr, ...] = ()
    name: str = ""
    part: Literal["", "lo", "hi"] = ""
    value: int = 0


@dataclass(frozen=True, slots=True)
class SemStatement:
    """`target` None for a store or a branch, whose whole effect is `value`."""

    target: SemExpr | None
    value: SemExpr


@dataclass(frozen=True, slots=True)
class Instruction:
    """One row of the ISA file. `id` is unique; several ids may share a `mnemonic` (forms on other units or operands).

    `units` are the alternatives: each a member name of a Unit (groups are expanded); `spare` are more of these, which
    only packets use. `resources` are (name, first
    cycle, cycles). `suffixes` tell for each of them the text after the mnemonic that selects it, "" where there is
    none. What the lane mask governs has the mask register among its `implicit_reads`. With a `condition` it has an
    effect only if that isn't 0, and reads what it writes, as this may stay.
    """

    id: str
    mnemonic: str
    operands: tuple[Operand, ...]
    units: tuple[str, ...]
    busy: int
    semantics: tuple[SemStatement, ...]
    condition: SemExpr | None = None
    suffixes: tuple[tuple[str, str], ...] = ()
    memory: MemoryAccess | None = None
    resources: tuple[tuple[str, int, int], ...] = ()
    implicit_reads: tuple[str, ...] = ()
    predicable: Literal["none", "scalar", "lane"] = "none"
    branch: bool = False
    label: str = "assumed"
    source: str = ""
    cost: int | None = None  # cycles that choosing instructions counts on the row's units beyond `busy`
    compile: bool = True
    implicit_writes: tuple[str, ...] = ()
    equivalents: tuple[tuple[SemStatement, ...], ...] = ()
    note: str = ""
    text: str = ""  # how it is written, where not as mnemonic and operands; `text_if` and `text_unless`: predicated
    text_if: str = ""
    text_unless: str = ""
    accepts: tuple[str, ...] = ()  # further texts that are read
    packet_end: bool = False  # written after its packet's end, and none of its instructions
    spare: tuple[str, ...] = ()
    # In a view: computes on wider registers, right in the low word; see `dspgen.target.query.views`.
    widened: bool = False

    def operand(self, name: str) -> Operand:
        return next(o for o in self.operands if o.name == name)

    @property
    def all_units(self) -> tuple[str, ...]:
        return (*self.units, *self.spare)

    @property
    def latency(self) -> int:
        return max((o.latency for o in self.operands if o.write), default=0)


@dataclass(frozen=True, slots=True)
class Predicates:
    """Registers that may stand in a predicate; `text` and `negated` hold `{r}`."""

    scalar: tuple[str, ...]
    lane: tuple[str, ...]
    text: str
    negated: str


@dataclass(frozen=True, slots=True)
class PacketLimit:
    """Of a packet's instructions, `most` may be on these units."""

    name: str
    units: frozenset[str]
    most: int


@dataclass(frozen=True, slots=True)
class Packets:
    """`issue` instructions at most, and of these as many on groups of units as the `limits` say; what units share
    beyond that is a resource of their rows."""

    issue: int
    minimum_ii: int = 1
    limits: tuple[PacketLimit, ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    exposed: bool
    equals: bool
    branch_delay: int


@dataclass(frozen=True, slots=True)
class AddressModes:
    """What `mem` operands may be. Ranges are in scaled units; `increment_imm` of a post-increment by immediate."""

    plus_imm: dict[Side, tuple[int, int]]
    minus_imm: dict[Side, tuple[int, int]]
    increment_imm: tuple[int, int]
    decrement_imm: tuple[int, int]
    update_latency: int
    base_classes: dict[Side, str]
    offset_classes: dict[Side, str]


@dataclass(frozen=True, slots=True)
class Memory:
    name: str
    base: int
    size: int
    bytes_per_cycle: int
    sides: tuple[Side, ...]
    onchip: bool
    label: str = "assumed"
    purpose: Literal["data", "patterns"] = "data"


_WORD = 4  # bytes of an argument in memory
DMA_WORDS = ("source", "source_step", "destination", "destination_step", "rows", "row_bytes", "go")


@dataclass(frozen=True, slots=True)
class Dma:
    """The engine that moves data between memories, and the words at `base` by which the core tells it what to move:
    of each channel those that `words` names, `word_bytes` each. See `dspgen.sim.ir.dma` for what they say."""

    startup: int
    bytes_per_cycle: int
    transpose: bool
    base: int
    channels: int
    words: tuple[str, ...]
    word_bytes: int
    transposed_bytes_per_cycle: int

    def pace(self, *, transposed: bool) -> int:
        """The bytes that it moves in a cycle."""
        return self.transposed_bytes_per_cycle if transposed else self.bytes_per_cycle

    def place(self, channel: int, word: str) -> int:
        """Where a channel's word lies, in bytes from `base`."""
        return (channel * len(self.words) + self.words.index(word)) * self.word_bytes

    def has_go(self, channel: int, low: int, high: int) -> bool:
        """Whether a byte of a channel's `go` lies in [low, high), from `base`."""
        at = self.place(channel, "go")
        return low < at + self.word_bytes and at < high

    @property
    def size(self) -> int:
        """Bytes of all channels' words."""
        return self.channels * len(self.words) * self.word_bytes


@dataclass(frozen=True, slots=True)
class Abi:
    """Where arguments, result, return address and stacks live."""

    arguments: tuple[str, ...]
    scalar_class: str
    pointer_class: str
    wide_class: str
    result: str
    return_address: str
    return_operand: str
    scalar_stack: str
    vector_stack: str
    callee_saved: tuple[str, ...]
    stack_memory: str
    reserved: tuple[str, ...] = ()
    entry_values: dict[str, int] = field(default_factory=dict)
    stack_arguments: int | None = None
    stack_alignment: int | None = None
    red_zone: int | None = None
    wide_registers: int = 1  # how many of `arguments` an argument of 64 bits takes

    def places(self, wide: Sequence[bool]) -> tuple[str | int | None, ...]:
        """Where arguments, of 64 bits or not, are at entry: in a register, which is a pair's low half if it begins one,
        or bytes from the scalar side's stack pointer; None if nowhere.

        A pair passes over a register that is no low half; what doesn't fit sends all after it to the stack.
        """
        found: list[str | int | None] = []
        taken, below = 0, self.stack_arguments
        for double in wide:
            step, size = (self.wide_registers, 2 * _WORD) if double else (1, _WORD)
            start = -(-taken // step) * step
            taken = start + step
            if taken <= len(self.arguments):
                found.append(self.arguments[start])
            elif below is None:
                found.append(None)
            else:
                found.append(-(-below // size) * size)
                below = -(-below // size) * size + size
        return tuple(found)


@dataclass(frozen=True, slots=True)
class TextSyntax:
    """The scheduled text: packets, comments, directives."""

    parallel: str
    comment: str
    comment_alternatives: tuple[str, ...]
    nop: str
    nop_max: int
    label: str
    global_directive: str
    size_directive: str
    case_sensitive: bool = True
    packet_open: str = ""
    packet_close: str = ""
    separator: str = ""
    address: str = ""
    address_update: str = ""


@dataclass(frozen=True, slots=True)
class Toolchain:
    assemble: str
    link: str
    run: str
    start: str
    argument: str
    output: str
    data: str
    counter: str
    overhead: int
    packages: tuple[str, ...]
    compile: str = ""
    rivals: tuple[tuple[str, str], ...] = ()
    halide: str = ""
    support: str = ""
    stack_argument: str = ""


@dataclass(frozen=True, slots=True)
class PatternMemory:
    base: int
    bytes_per_mode: int
    mode_register: str


@dataclass(frozen=True, slots=True)
class Macro:
    """An operation of the vector DSL done by a fixed sequence of instructions, run alone from start to end.

    `implements` is the operation's name; `body` are assembly lines with `{name}` for its operands, temporaries and
    immediates; `temporaries` maps a name to its register class. Lines are separate packets, in order, each waiting for
    all earlier results; where `ordered` is False they only have to keep the order that registers ask for. A number in a
    line is the operand's value, without the rule that `Operand.literal` has for text. `setup` are lines of the same
    kind, always in order, that run once before the code that uses the macro (a shuffle pattern, say). With `packed`, it
    is for vectors of so many elements in each lane only. It is for compile-time integers that are multiples of
    `multiple`. `pattern`: those that it is for, as of one shuffle.
    """

    implements: str
    result: str
    result_class: str
    operands: tuple[tuple[str, str], ...]
    temporaries: tuple[tuple[str, str], ...]
    body: tuple[str, ...]
    ordered: bool = True
    setup: tuple[str, ...] = ()
    packed: int = 0
    multiple: int = 1
    pattern: tuple[int, ...] = ()

    def fits(self, integers: Sequence[int]) -> bool:
        """Whether it is for these compile-time integers; in a shuffle by them, -1 is any lane."""
        if not self.pattern:
            return all(n % self.multiple == 0 for n in integers)
        pairs = list(zip(self.pattern, integers, strict=False))
        return len(self.pattern) == len(integers) and all(want in (have, -1) for have, want in pairs)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rewrite row of the ISA file's own: left and right are terms in the vector DSL's text. `packed`: see Macro."""

    name: str
    left: str
    right: str
    when: str = ""
    why: str = ""
    packed: int = 0


@dataclass(frozen=True, slots=True)
class Target:
    """A machine, or a view of one (see `dspgen.target.query.views`): of `machine`, with `packed` elements in each
    lane."""

    name: str
    path: str
    description: str
    lanes: int
    registers: tuple[RegisterClass, ...]
    units: tuple[Unit, ...]
    instructions: tuple[Instruction, ...]
    predicates: Predicates
    packets: Packets
    pipeline: Pipeline
    address_modes: AddressModes
    memories: tuple[Memory, ...]
    dma: Dma | None
    abi: Abi
    text: TextSyntax
    toolchain: Toolchain | None = None
    pattern_memory: PatternMemory | None = None
    macros: tuple[Macro, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    mask_register: str | None = None
    provenance: tuple[tuple[str, str, str], ...] = ()  # (key, label, source) of tables other than instructions
    packed: int = 1
    machine: Target | None = None

    def register_class(self, name: str) -> RegisterClass:
        return next(c for c in self.registers if c.name == name)

    def instruction(self, id: str) -> Instruction:
        return next(i for i in self.instructions if i.id == id)

    def memory(self, name: str) -> Memory:
        return next(m for m in self.memories if m.name == name)

    @property
    def real(self) -> Target:
        """The machine itself, of a view."""
        return self.machine or self

    @property
    def unit_members(self) -> tuple[str, ...]:
        return tuple(m for u in self.units for m in u.members)
