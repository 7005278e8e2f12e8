"""Assembled programs, and the typed value graphs that both machines run.

    Assembled ::= packets, labels, data, entry
    Op        ::= predicate, condition, address, writes, stores, branch    one instruction with its operands resolved
    Node      ::= op.elem[lanes](args)                            one value

A `Node` is an array of `lanes` elements (a scalar where `lanes` is 0) of `elem`: i8 .. u64, f32, f64. The Python
machine evaluates nodes with NumPy and the native one prints them as C, so the two can't drift apart in meaning.
Leaves: `const` (value), `read` (register cell `value`), `new` (what the packet writes to that cell), `read_lane` (lane
`imm[0]` of that cell), `address` (the instruction's effective address), `load` (`imm` = stride, first element);
`gather` loads the elements that its argument numbers. `cast` resizes integers lane by lane, `view` regroups the same
bits, `splat` copies a scalar to all lanes, `cat` joins low and high halves of a pair. In an instruction that reads
operands after its issue, `read` and `read_lane` end their `imm` with the cycle from issue at which they read; elsewhere
all is read at issue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dspgen.sched.ir.packets import Placed
from dspgen.target.isa.model import Instruction, Side
from plant_core.support.location import Loc


@dataclass(frozen=True, slots=True)
class AsmPacket:
    """What issues together. `idle` is the length of a no-operation in it (0: none), under its own predicate."""

    members: tuple[Placed, ...]
    loc: Loc
    idle: int = 0
    idle_predicate: str | None = None
    idle_negated: bool = False


@dataclass(frozen=True, slots=True)
class DataItem:
    """Bytes of a data section; `symbols` are (name, offset) into them, `fixups` are (offset, size, symbol, addend)."""

    contents: bytes
    align: int
    symbols: tuple[tuple[str, int], ...]
    fixups: tuple[tuple[int, int, str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Assembled:
    """`labels` maps a label to the packet it stands before; `entry` is the first `.global` label that is code.

    `external` are symbols that the text uses and does not define.
    """

    file: str
    packets: tuple[AsmPacket, ...]
    labels: dict[str, int]
    data: tuple[DataItem, ...] = ()
    entry: str | None = None
    warnings: tuple[str, ...] = ()
    external: tuple[str, ...] = ()

    def texts(self) -> Iterator[list[tuple[Instruction, tuple[object, ...]]]]:
        """Each packet's rows with their operands."""
        return ([(placed.instruction, placed.operands) for placed in packet.members] for packet in self.packets)


@dataclass(frozen=True, slots=True)
class Cell:
    """One physical register: `lanes` elements (0: a scalar) of `bits`, kept in `storage` bits each."""

    index: int
    name: str
    lanes: int
    bits: int
    storage: int


@dataclass(frozen=True, slots=True)
class Node:
    op: str
    elem: str
    lanes: int
    args: tuple[Node, ...] = ()
    value: int = 0
    imm: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        return int(self.elem[1:])


def read_cycle(node: Node) -> int:
    """The cycle from issue at which the last register is read that the node is made of."""
    at = {"read": 0, "read_lane": 1}.get(node.op)
    own = node.imm[at] if at is not None and len(node.imm) > at else 0
    return max((own, *(read_cycle(a) for a in node.args)))


@dataclass(frozen=True, slots=True)
class Write:
    """`value`, as unsigned elements of the cell's storage, lands in the cell (or in one lane) after `latency`. All that
    it is made of has been read `cycle` cycles after issue."""

    cell: int
    lane: int | None
    latency: int
    value: Node
    masked: bool

    @property
    def cycle(self) -> int:
        return read_cycle(self.value)


@dataclass(frozen=True, slots=True)
class Store:
    """Lane k of `value` goes to element `first + stride * k` from the effective address after `latency` cycles; with an
    `index`, to element `index[k]`, lane after lane. `cycle` as in `Write`."""

    value: Node
    stride: int
    first: int
    latency: int
    masked: bool
    index: Node | None = None

    @property
    def cycle(self) -> int:
        return read_cycle(self.value)


@dataclass(frozen=True, slots=True)
class Access:
    """How an instruction touches memory: `force` drops the address bits below `align`.

    Elsewhere a misaligned address is a fault in strict runs; in others the bits below `granule` are dropped. `home`:
    the address ranges of the memories made for the side, where it reaches others too.
    """

    side: Side
    align: int
    force: bool
    granule: int
    home: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PredicateRead:
    cell: int
    lane: bool
    negated: bool


@dataclass(frozen=True, slots=True)
class Again:
    """When a hardware loop's iterations end with another one to come: while the cell `count` is above 1. The cell
    `start` holds the `address` of the packet that iterations begin with, or the loop was begun for another one."""

    start: int
    address: int
    count: int


@dataclass(frozen=True, slots=True)
class Op:
    """One instruction, ready to run. `branch` is a packet number, or the node with a code address; it is taken after
    its delay slots, or under `again` with the next packet.

    `reads` are the cells read at issue; `late` are (cell, cycles from issue) of those read after it, by cycle; `early`
    (cell, cycles) those whose results have to be there so much sooner; `parts` (cell, lane) those of which only one
    lane is read. An interlock remembers results `settling` cycles for `early` readers. `new` are (cell, uid, number) of
    what it takes from writes of its own packet. With a `condition` it does nothing where that is 0; registers are read
    in any case.
    """

    uid: int
    text: str
    loc: Loc
    predicate: PredicateRead | None
    masked: bool
    address: Node | None
    access: Access | None
    writes: tuple[Write, ...]
    stores: tuple[Store, ...]
    branch: int | Node | None
    reads: tuple[int, ...]
    unit: str
    busy: int
    resources: tuple[tuple[str, int, int], ...] = ()
    late: tuple[tuple[int, int], ...] = ()
    again: Again | None = None
    early: tuple[tuple[int, int], ...] = ()
    settling: int = 0
    new: tuple[tuple[int, int, int], ...] = ()
    condition: Node | None = None
    parts: tuple[tuple[int, int], ...] = ()

    def lane_read(self, cell: int) -> int | None:
        """The only lane that it reads of a cell; None where it reads all."""
        return next((lane for part, lane in self.parts if part == cell), None)

    @property
    def unsure(self) -> bool:
        """Whether it may do nothing at all."""
        return self.condition is not None or (self.predicate is not None and not self.predicate.lane)

    @property
    def certain(self) -> bool:
        """Whether it does all that it does in any case."""
        return self.condition is None and self.predicate is None

    @property
    def after_makers(self) -> bool:
        """Whether it comes after those of its packet that it takes values from."""
        return bool(self.new)


@dataclass(frozen=True, slots=True)
class Slot:
    """A packet, ready to run; `idle` as in `AsmPacket`."""

    ops: tuple[Op, ...]
    loc: Loc
    idle: int
    idle_predicate: PredicateRead | None


@dataclass(frozen=True, slots=True)
class Code:
    """A program on a machine. `addresses` maps code addresses that a register may hold to packets.

    `interlocked`: packets wait for what they need (`dspgen.sim.machine.interlock`). `settled`: a register must not be
    read or written again while a result is on its way to it. `stack`, where functions may not write below their stack
    pointer: its cell, the stack's lowest address, and how many bytes below the pointer they may.
    """

    slots: tuple[Slot, ...]
    cells: tuple[Cell, ...]
    mask_cell: int | None
    addresses: dict[int, int]
    ops: tuple[Op, ...] = field(default=())
    interlocked: bool = False
    settled: bool = False
    stack: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """How a run begins: `registers` as raw arrays by cell, the cells that count as written, where to start and stop."""

    registers: list[Any]
    written: frozenset[int]
    entry: int
    return_address: int
    strict: bool
    limit: int
