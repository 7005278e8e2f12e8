"""The ISA file's instructions as they are written; see `tables.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dspgen.target.isa.model import Side
from dspgen.target.schema.kinds import Figure, Label, Range, Sourced, Words


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of an instruction; operands stand in the order of the text. `a = "X"` is short for
    `a = { reg = "X" }`, `"memory"` and `"target"` for `{ memory = true }` and `{ target = true }`.

    reg: the register classes, or groups of classes, that it may be of.
    imm: the integers that it may be; with `reg` as well, it may be either.
    memory: it is a place in memory: `*+BASE[n]`, `*-BASE[n]`, `*BASE++[n]`, `*BASE--[n]`, `*++BASE[n]`, `*--BASE[n]`.
    target: it is a label.
    latency [cycles]: from issue until what is written to it can be read; the row's `latency` where it isn't given.
    read_cycle [cycles]: from issue until it is read; in pipelines that wait it may be below 0: results are wanted so
        much sooner.
    new: it is what another instruction of the packet writes to the register, not what was there before.
    forward: of results: instructions of the same packet can take it as a `new` operand.
    literal: how a number in the text becomes the operand's value. `low_half`: its low 16 bits. `high_half`: its bits
        31:16, where it is decimal or above 0xFFFF; a hexadecimal number up to 0xFFFF is the half itself.
    symbol_bits: a symbol may stand here, for these bits of its address: [high, low].
    pair_text: `low`: the text names a pair by its low half's register alone.
    """

    reg: Words = Words(())
    imm: Range | None = None
    memory: bool = False
    target: bool = False
    latency: Figure | None = None
    read_cycle: Figure = Figure(0)
    new: bool = False
    forward: bool = True
    literal: Literal["", "low_half", "high_half"] = ""
    symbol_bits: Range | None = None
    pair_text: Literal["", "low"] = ""


@dataclass(frozen=True, slots=True)
class Access:
    """How an instruction reaches memory.

    scale [bytes]: what 1 in an immediate or in an offset register stands for.
    text_unit [bytes]: what 1 in the immediate stands for as it is written, where that isn't `scale`.
    bytes [bytes]: how much it moves, on all lanes together; just what its semantics load or store.
    align [bytes]: its address must be a multiple of this, a power of two.
    side: whose memories and address registers it uses, where those aren't its unit's.
    store_latency [cycles]: from a store's issue until a load finds what it wrote.
    force_align: another address is rounded down to a multiple of `align`; otherwise it is an error.
    """

    scale: Figure
    bytes: Figure
    align: Figure = Figure(1)
    text_unit: Figure | None = None
    side: Side | None = None
    store_latency: Figure = Figure(1)
    force_align: bool = False


@dataclass(frozen=True, slots=True)
class Reservation:
    """Something besides the unit that an instruction takes, such as a port or a path that several units share: one
    instruction has it at a time.

    name: any word; rows that share the thing use the same.
    first [cycles]: from issue until it is taken.
    cycles [cycles]: how long it is held.
    """

    name: str
    first: Figure = Figure(0)
    cycles: Figure = Figure(1)


@dataclass(frozen=True, slots=True)
class Instruction(Sourced):
    """One form of an instruction: what it does and when, and how it is written. NAME is the row's own; rows of one
    mnemonic differ in units or operands.

    units: the groups of units, or members of groups, that can run it, each alone.
    spare: further units that can run it: packets use them, but code is chosen as if there were `units` alone.
    semantics: what it does, as statements on its operands; see Semantics.
    condition: an expression of semantics: it has an effect only if this isn't 0 at issue.
    label: how the row's figures are known; see `label` elsewhere.
    source: where they come from, in words.
    operands: its operands by name, in the order of the text.
    mnemonic: its word in the text; NAME where it isn't given.
    text: how it is written where that isn't its mnemonic and its operands, `{name}` being an operand: each of them
        once, in their order; see Texts by templates. Macros and linear assembly keep to the mnemonic.
    text_if: the same under a predicate, `{predicate}` being its register; where it isn't given, `predicates.text`, a
        blank and `text`.
    text_unless: the same for an effect if the register is 0.
    accepts: further ways to write it, as `text`, that the assembler takes; they are never printed.
    latency [cycles]: from issue until results can be read; 1: by the next packet.
    busy [cycles]: how long it keeps its unit.
    memory: for loads and stores: how it reaches memory.
    resources: what it takes besides its unit.
    implicit_reads: control registers that it reads without naming them, beyond those of its semantics.
    predicate: predicates that it may carry, if not those of its unit's side: of scalar registers, of lanes, or none.
    cost [cycles]: what code selection counts for it on its units, beyond `busy`; `[cost]` wins over it.
    compile: `false`: the assembler and the simulator know it, the compiler doesn't use it.
    equivalents: the same effect in other words, by which code selection finds it too.
    packet_end: it is written after what closes its packet and is none of the packet's instructions: the end of a
        hardware loop, with `repeat` for its semantics.
    masked: whether it leaves alone the lanes that `mask_register` masks; where it isn't given, vector instructions do.
    note: anything to remember.
    """

    units: Words
    semantics: str
    label: Label
    source: str
    spare: Words = Words(())
    operands: dict[str, Operand] = field(default_factory=dict)
    mnemonic: str | None = None
    text: str = ""
    text_if: str = ""
    text_unless: str = ""
    accepts: Words = Words(())
    condition: str = ""
    latency: Figure = Figure(1)
    busy: Figure = Figure(1)
    memory: Access | None = None
    resources: tuple[Reservation, ...] = ()
    implicit_reads: Words = Words(())
    predicate: Literal["none", "scalar", "lane"] | None = None
    cost: Figure | None = None
    compile: bool = True
    equivalents: Words = Words(())
    packet_end: bool = False
    masked: bool | None = None
    note: str = ""
