"""Runs linear assembly in order, each instruction after the results of all before it: what packets must equal.

The instructions mean what the ISA file says, through the lowering that the simulator has; loops, streams and conditions
are run as `asmir` describes them. So a program that gives one result here and another as packets was broken between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dspgen.asmir.ir.function import (
    ArgumentPlace,
    Function,
    If,
    Imm,
    Instr,
    Item,
    Jump,
    Label,
    Loop,
    Mark,
    Mem,
    OperandValue,
    Phys,
    Place,
    Reg,
    VReg,
    every_instr,
)
from dspgen.errors import Problem, SourceError
from dspgen.sched.ir.packets import Address, Placed
from dspgen.sim.ir.program import AsmPacket, Assembled
from dspgen.sim.ir.registers import RegisterFile
from dspgen.sim.lowering.load import Argument, load
from dspgen.sim.machine.interpreter import Machine
from dspgen.sim.virtual_registers import VirtualRegisters, with_virtual
from dspgen.target.isa.model import Instruction, Target
from plant_core.support.location import Loc

Array = Any
STEP_LIMIT = 20_000_000
_HERE = Loc("<linear assembly>", 0)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """`outputs` has every array argument after the run, `result_bits` the result register with its pair's high half;
    `steps` counts instructions."""

    outputs: dict[str, Array]
    result_bits: int
    steps: int
    registers: dict[str, Array] = field(default_factory=dict)


def evaluate(
    function: Function,
    target: Target,
    arguments: Sequence[tuple[str, Argument]] = (),
    *,
    placement: Mapping[str, str] | None = None,
    strict: bool = True,
    stack: int = 0,
    limit: int = STEP_LIMIT,
) -> Evaluated:
    """Calls `function` by the machine's calling convention, with arguments as `dspgen.sim.run.simulate` has them.

    `strict`: reading a register that was never written and a misaligned address are errors. Raises SourceError for what
    the machine would refuse of any order of the instructions, and DG426 after `limit` instructions.
    """
    return _Run(function.entered, target, arguments, placement or {}, strict, stack, limit).result()


class _Run:
    def __init__(
        self,
        function: Function,
        target: Target,
        arguments: Sequence[tuple[str, Argument]],
        placement: Mapping[str, str],
        strict: bool,
        stack: int,
        limit: int,
    ) -> None:
        self.function, self.limit, self.steps = function, limit, 0
        instructions = [i for i in every_instr(function.body) if not i.instruction.branch]
        lanes = {i.predicate.register.name for i in instructions if i.predicate is not None and i.predicate.lane}
        self.virtual = with_virtual(target, {(v.name, v.cls) for v in _registers(function)}, lanes)
        self.target = self.virtual.target
        self.file = RegisterFile(self.target)
        rows = {i.id: i for i in target.real.instructions}  # code for a view has the view's rows
        packets = tuple(AsmPacket((_placed(i, rows, self.virtual),), i.loc or _HERE) for i in instructions)
        program = Assembled(function.name, packets, {function.name: 0}, entry=function.name)
        room = max((size for _, size in function.below), default=0)
        self.loaded = load(
            program,
            self.target,
            function=None,
            arguments=arguments,
            placement=placement,
            strict=strict,
            limit=limit,
            stack=stack + room,
        )
        self.machine = Machine(self.loaded.code, self.loaded.memories, self.loaded.start)
        self.uid = {id(i): k for k, i in enumerate(instructions)}

    def result(self) -> Evaluated:
        for vreg, place in self.function.inputs:
            self._enter(vreg, place)
        with np.errstate(all="ignore"):
            self._items(self.function.body)
        outputs = {}
        for name, address, value in self.loaded.places:
            raw = self.loaded.memories.read(address, value.nbytes) or b""
            outputs[name] = np.frombuffer(raw, dtype=value.dtype).reshape(value.shape).copy()
        registers = {c.name: self.machine.registers[c.index] for c in self.loaded.code.cells}
        return Evaluated(outputs, self._result_bits(), self.steps, registers)

    def _result_bits(self) -> int:
        """The register that the calling convention returns a number in, with the other half of its pair above it."""
        abi = self.target.abi
        wide = self.target.register_class(abi.wide_class)
        cells = self._cells(abi.result)
        if wide.pair_of is not None:
            names = self.target.register_class(wide.pair_of).names
            cells = self._cells(wide.names[names.index(abi.result) // 2], wide.name)
        value = shift = 0
        for cell in cells:
            value |= int(self.machine.registers[cell][0]) << shift
            shift += self.file.cells[cell].bits
        return value

    def _cells(self, name: str, cls: str | None = None) -> tuple[int, ...]:
        place = self.file.place(name, (cls,) if cls else None)
        assert place is not None
        return place.cells

    def _vreg(self, vreg: VReg) -> tuple[int, ...]:
        return self._cells(self.virtual.text[vreg.name, vreg.cls], vreg.cls)

    def _enter(self, vreg: VReg, physical: ArgumentPlace) -> None:
        """What is in an argument's place becomes the virtual register's."""
        if isinstance(physical, int):
            at = int(self.machine.registers[self._cells(self.target.abi.scalar_stack)[0]][0]) + physical
            for to in self._vreg(vreg):
                size = self.file.cells[to].bits // 8
                self.machine.registers[to][:] = int.from_bytes(self.loaded.memories.read(at, size) or b"", "little")
                self.machine.written.add(to)
                at += size
            return
        place = self.file.place(physical, (vreg.cls,)) or self.file.place(physical)
        assert place is not None
        cells = self._vreg(vreg)
        for to, source in zip(cells, place.cells, strict=True):
            self.machine.registers[to] = self.machine.registers[source].copy()
            if source in self.machine.written:
                self.machine.written.add(to)

    def _add(self, cell: int, amount: int) -> None:
        spec, old = self.file.cells[cell], self.machine.registers[cell]
        mask = (1 << spec.bits) - 1
        self.machine.registers[cell] = np.array([(int(v) + amount) & mask for v in old], dtype=old.dtype)

    def _scalar(self, vreg: VReg) -> int:
        cells = self._vreg(vreg)
        return sum(int(self.machine.registers[c][0]) << (k * self.file.cells[c].bits) for k, c in enumerate(cells))

    def _items(self, items: Sequence[Item]) -> str | None:
        """Runs items; the mark that control leaves them for, if it does."""
        marks = {item.name: k for k, item in enumerate(items) if isinstance(item, Mark)}
        at = 0
        while at < len(items):
            away = self._item(items[at])
            at += 1
            if away is not None:
                if away not in marks:
                    return away
                at = marks[away]
        return None

    def _item(self, item: Item) -> str | None:
        match item:
            case Instr():
                self._instr(item)
            case Loop():
                for _ in range(self._trip(item)):
                    if (away := self._items(item.body)) is not None:
                        return away
                    for stream in item.streams:
                        self._add(self._vreg(stream.base)[0], stream.step)
            case If(condition, then, otherwise):
                return self._items(then if self._scalar(condition) else otherwise)
            case Jump(branch=branch):
                self._step(branch)
                wanted = branch.predicate
                if wanted is None or (self._scalar(wanted.register) != 0) != wanted.negated:
                    return item.target
            case Mark():
                pass
        return None

    def _trip(self, loop: Loop) -> int:
        """A trip in a register is a signed number; below one it is none."""
        if isinstance(loop.trip, int):
            return loop.trip
        bits = sum(self.file.cells[c].bits for c in self._vreg(loop.trip))
        value = self._scalar(loop.trip)
        return value - (1 << bits) if value >> (bits - 1) else value

    def _instr(self, instr: Instr) -> None:
        self._step(instr)
        self.machine.alone(self.uid[id(instr)])

    def _step(self, instr: Instr) -> None:
        if self.steps >= self.limit:
            problem = Problem("DG426", f"the program still runs after {self.limit} instructions", instr.loc)
            raise SourceError(problem)
        self.steps += 1


def _registers(function: Function) -> Iterator[VReg]:
    yield from (v for v, _ in function.inputs)
    yield from _used(function.body)


def _used(items: Iterable[Item]) -> Iterator[VReg]:
    for item in items:
        match item:
            case Jump(branch=branch):
                yield from _used([branch])
            case Instr(operands=operands, predicate=predicate):
                for value in operands:
                    if isinstance(value, Reg):
                        yield value.vreg
                    elif isinstance(value, Mem) and isinstance(value.base, VReg):
                        yield value.base
                    elif isinstance(value, Place):
                        yield from (r for r in (value.base, value.offset) if isinstance(r, VReg))
                if predicate is not None:
                    yield predicate.register
            case Loop(trip=trip, streams=streams, body=inner):
                if isinstance(trip, VReg):
                    yield trip
                yield from (s.base for s in streams)
                yield from _used(inner)
            case If(condition=condition, inside=inside):
                yield condition
                yield from _used(inside)


def _placed(instr: Instr, rows: Mapping[str, Instruction], virtual: VirtualRegisters) -> Placed:
    own_units = any(isinstance(v, Place) for v in instr.operands)
    row = rows.get(instr.instruction.id, instr.instruction)
    instruction = row if own_units else _in_bytes(row)
    operands = tuple(_operand(value, virtual) for value in instr.operands)
    name, negated = None, False
    if instr.predicate is not None:
        register, negated = instr.predicate.register, instr.predicate.negated
        name = virtual.text[register.name, register.cls]
    return Placed(instruction, instruction.units[0], operands, name, negated, loc=instr.loc or _HERE)


def _in_bytes(instruction: Instruction) -> Instruction:
    """The instruction with offsets counted in bytes, as linear assembly has them."""
    memory = instruction.memory
    return instruction if memory is None else replace(instruction, memory=replace(memory, scale=1))


def _operand(value: OperandValue, virtual: VirtualRegisters) -> str | int | Address:
    match value:
        case Reg(vreg, ""):
            return virtual.text[vreg.name, vreg.cls]
        case Reg(vreg, part):
            return virtual.halves[vreg.name, vreg.cls][part == "hi"]
        case Phys(name):
            return name
        case Imm(number):
            return number
        case Label(name):
            return f"@{name}"
        case Mem(base, offset):
            text = base.name if isinstance(base, Phys) else virtual.text[base.name, base.cls]
            return Address(text, "plus", offset)
        case Place(base, mode, amount):
            text = base.name if isinstance(base, Phys) else virtual.text[base.name, base.cls]
            return Address(text, mode, virtual.text[amount.name, amount.cls] if isinstance(amount, VReg) else amount)
