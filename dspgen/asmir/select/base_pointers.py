"""Where arrays begin, and address registers made from that.

Pointers come in the ABI's argument registers, or are loaded from a structure at entry. Arithmetic on them happens on
the scalar side, on the low half where a pointer is a register pair, and the sum is moved to an address register: as a
low word alone where the machine has a row for that and all its memories lie below 4 GiB.
Local arrays lie below the stack pointer: functions here call nothing, so the frame need not be taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from dspgen.asmir.ir.function import ArgumentPlace, Item, Mem, MemRef, OperandValue, Phys, Reg, VReg
from dspgen.asmir.select.code_sections import section
from dspgen.asmir.select.emitter import Emitter
from dspgen.errors import NoSchedule, Problem
from dspgen.target.isa.model import Side, Target
from dspgen.target.query.arguments import Member, Place, argument_places, structure_register
from dspgen.target.query.operations import Form
from dspgen.vecdsl.ir.program import ELEM_BYTES, ArrayDecl, Const, Op, Program, Term, Var, VType

I32 = VType("i32", False)
_FRAME_ALIGN = 128
_STRUCTURE = "~arguments"  # the structure of arguments, as an array: no array of the program's
_WORD = 4  # bytes


class Pointers:
    def __init__(self, program: Program, target: Target, emitter: Emitter) -> None:
        self.program = program
        self.target = target
        self.emitter = emitter
        self.base: dict[str, Reg] = {}
        self.frame: dict[str, int] = {}
        self.narrow = _narrow_form(target)
        self.parameters: tuple[VReg, ...] = ()
        self.entry: tuple[Item, ...] = ()

    def inputs(self) -> tuple[tuple[VReg, ArgumentPlace], ...]:
        """Return what the function is given, as virtual registers with their places: its parameters, or the address of
        the structure that `entry` loads them from."""
        abi = self.target.abi
        scalars = {s.name: s.elem for s in self.program.scalars}
        places = argument_places(self.target, [scalars.get(p) for p in self.program.params])
        arrays = {a.name for a in self.program.arrays if not a.local}
        found: dict[VReg, Place] = {}
        for name, place in zip(self.program.params, places, strict=True):
            if name in arrays:
                register = VReg(f"p_{name}", abi.pointer_class)
                self.base[name] = Reg(register)
            elif name in scalars:
                register = VReg(f"s_{name}", self.emitter.classes.of_type(VType(scalars[name], False)))
                self.emitter.names[name] = Reg(register)
            else:
                continue
            found[register] = place
        self.parameters = tuple(found)
        members = {register: place for register, place in found.items() if isinstance(place, Member)}
        if members:
            structure = VReg("arguments", abi.pointer_class)
            self.base[_STRUCTURE] = Reg(structure)
            self.entry = tuple(section(self.emitter, partial(self._load_members, members)))
            found = {structure: structure_register(self.target)}
        given = ((register, place) for register, place in found.items() if not isinstance(place, Member))
        return tuple((r, self._place(r, place) if isinstance(place, str) else place) for r, place in given)

    def _load_members(self, members: Mapping[VReg, Member]) -> None:
        """Load parameters from the structure: each by one row, or a pair of which no row loads both, by halves."""
        bases: dict[Side, dict[int, VReg]] = {}
        for register, member in members.items():
            if self._load_member(Reg(register), member, bases):
                continue
            halves: tuple[Literal["lo", "hi"], ...] = ("lo", "hi")
            half = Member(member.offset, member.size // 2)
            for part in halves if self._is_pair(Reg(register)) else ():
                if not self._load_member(Reg(register, part), half, bases):
                    raise self.emitter.missing("ld", "i32")
                half = Member(half.offset + half.size, half.size)
            if half.offset == member.offset:
                raise self.emitter.missing("ld", "i64" if member.size > _WORD else "i32")

    def _load_member(self, to: Reg, member: Member, bases: dict[Side, dict[int, VReg]]) -> bool:
        """Load one member, if a row does; `bases`: address registers by the byte that they point to."""
        for form in self.emitter.table.forms("ld", "i64" if member.size > _WORD else "i32"):
            memory = form.instruction.memory
            fits = self.emitter.part_class(to) in form.result_operand.classes
            if memory is None or memory.align > member.size or not fits:
                continue
            known = bases.setdefault(memory.side, {})
            reach = self.target.address_modes.plus_imm[memory.side][1] * memory.scale
            near = (s for s in known if 0 <= member.offset - s <= reach and (member.offset - s) % memory.scale == 0)
            start = next(near, member.offset)
            if start not in known:
                known[start] = self.address(_STRUCTURE, memory.side, start, (), ())
            access = MemRef(_STRUCTURE, member.offset, (), member.size, 1, member.size)
            self.emitter.emit(form, {form.result: to, form.args[0]: Mem(known[start], member.offset - start, access)})
            return True
        return False

    def _place(self, register: VReg, first: str) -> str:
        """The physical register of the variable's class that begins at `first`."""
        cls = self.target.register_class(register.cls)
        if cls.pair_of is None or first in cls.names:
            return first
        return cls.names[self.target.register_class(cls.pair_of).names.index(first) // 2]

    def enter(self) -> None:
        """Code at the function's entry: the bases of local arrays."""
        locals_ = [a for a in self.program.arrays if a.local]
        if not locals_:
            return
        stack = self._stack_base()
        below = 0
        for array in locals_:
            below += _aligned(array.size * ELEM_BYTES[array.elem]) + _FRAME_ALIGN
            self.frame[array.name] = below
            self._check_frame(below, array)
            self.base[array.name] = self._offset(stack, -below, array)

    def _check_frame(self, below: int, array: ArrayDecl) -> None:
        memory = self.target.memory(self.target.abi.stack_memory)
        room = memory.size - memory.size // 8
        if below > room:
            own = array.name.isidentifier()
            found = f"the array '{array.name}'" if own else f"the {array.name}"
            remedy = (
                "make it a parameter of the function, or smaller" if own else "use smaller arrays, or --data onchip"
            )
            message = f"{found} doesn't fit the stack: local arrays may take {room} bytes of {memory.name}"
            raise NoSchedule(Problem("DG305", message, None, remedy))

    def _offset(self, stack: Reg, delta: int, array: ArrayDecl) -> Reg:
        emitter = self.emitter
        pointer = Reg(emitter.fresh(stack.vreg.cls, f"p_{array.name}"))
        emitter.names["stack.low"] = self._low(stack)
        emitter.lower(Op("add", (Var("stack.low", I32), Const(delta, I32)), I32), self._low(pointer))
        self._copy_high(stack, pointer)
        return pointer

    def _stack_base(self) -> Reg:
        """The vector side's stack pointer as a pointer value."""
        emitter = self.emitter
        source = Phys(self.target.abi.vector_stack)
        if self.narrow is not None:
            pointer = Reg(emitter.fresh(emitter.classes.scalar.name, "stack"))
            self._from_address(source, pointer, ("trunc", "place"))
            return pointer
        pointer = Reg(emitter.fresh(self.target.abi.pointer_class, "stack"))
        if self._is_pair(pointer):
            self._from_address(source, Reg(pointer.vreg, "lo"), ("trunc",))
            self._from_address(source, Reg(pointer.vreg, "hi"), ("bits",))
        else:
            self._from_address(source, pointer, ("place", "mov", "trunc"))
        return pointer

    def _from_address(self, source: Phys, pointer: Reg, operations: tuple[str, ...]) -> None:
        """By the row that copies an address register, or its low or high word, to a scalar register."""
        cls = self.emitter.part_class(pointer)
        for instruction in self.target.instructions:
            if len(instruction.semantics) != 1 or not instruction.compile or len(instruction.operands) != 2:
                continue
            statement = instruction.semantics[0]
            if statement.target is None or statement.target.part or statement.value.op not in operations:
                continue
            target = next((o for o in instruction.operands if o.name == statement.target.name), None)
            other = next((o for o in instruction.operands if o.name != statement.target.name), None)
            if target is None or other is None or cls not in target.classes:
                continue
            if any(source.name in self.target.register_class(c).names for c in other.classes):
                args: dict[str, OperandValue] = {target.name: pointer, other.name: source}
                self.emitter.emit(Form(instruction, target.name, (other.name,)), args)
                return
        raise self.emitter.missing("address register to pointer", cls)

    def address(self, array: str, side: Side, constant: int, scaled: Sequence[VReg], parts: Sequence[Term]) -> VReg:
        """An address register holding base + constant + the scaled registers + the terms, in bytes."""
        emitter = self.emitter
        base = self.base[array]
        names = []
        for register in scaled:
            names.append(Var(f"scaled.{register.name}", I32))
            emitter.names[names[-1].name] = Reg(register)
        sum_: Term = Var(f"base.{array}", I32)
        emitter.names[f"base.{array}"] = self._low(base)
        addends: list[Term] = [*names, *parts]
        if constant:
            addends.append(Const(constant, I32))
        for addend in addends:
            sum_ = Op("add", (sum_, addend), I32)
        pointer = base
        if addends and self.narrow is not None:
            pointer = Reg(emitter.fresh(emitter.classes.scalar.name, "q"))
            emitter.lower(sum_, pointer)
        elif addends:
            pointer = Reg(emitter.fresh(self.target.abi.pointer_class, "q"))
            emitter.lower(sum_, self._low(pointer))
            self._copy_high(base, pointer)
        return self._to_address(pointer, side)

    def constant(self, value: int) -> VReg:
        """A scalar-side address register that holds a known address."""
        emitter = self.emitter
        narrow = self.narrow is not None or self.target.abi.scalar_class == self.target.abi.pointer_class
        cls = emitter.classes.scalar.name if narrow else self.target.abi.pointer_class
        pointer = Reg(emitter.fresh(cls, "q"))
        emitter.constant(Const(_signed(value), I32), self._low(pointer))
        if self._is_pair(pointer):
            emitter.constant(Const(value >> 32, I32), Reg(pointer.vreg, "hi"))
        return self._to_address(pointer, "scalar")

    def _to_address(self, pointer: Reg, side: Side) -> VReg:
        emitter = self.emitter
        cls = self.target.address_modes.base_classes[side]
        register = emitter.fresh(cls, "a")
        if self.narrow is not None:
            forms, pointer = [self.narrow], self._low(pointer)
        else:
            forms = emitter.table.forms("addr", "")
        for form in forms:
            if cls in form.result_operand.classes and emitter.part_class(pointer) in form.operand(0).classes:
                emitter.emit(form, {form.result: Reg(register), form.args[0]: pointer})
                return register
        raise emitter.missing("addr", self.target.abi.pointer_class)

    def _is_pair(self, pointer: Reg) -> bool:
        return self.target.register_class(pointer.vreg.cls).pair_of is not None

    def _low(self, pointer: Reg) -> Reg:
        return Reg(pointer.vreg, "lo") if self._is_pair(pointer) else pointer

    def _copy_high(self, source: Reg, destination: Reg) -> None:
        if self._is_pair(source):
            self.emitter.move(Reg(destination.vreg, "hi"), Reg(source.vreg, "hi"))


def _narrow_form(target: Target) -> Form | None:
    """The row that makes an address of one scalar register's low word, where the machine has it."""
    if not all(m.base + m.size <= 1 << 32 for m in target.memories):
        return None
    for instruction in target.instructions:
        if not instruction.compile or len(instruction.semantics) != 1 or len(instruction.operands) != 2:
            continue
        statement = instruction.semantics[0]
        value = statement.value
        if value.op != "addr" or statement.target is None or target.abi.scalar_class == target.abi.pointer_class:
            continue
        inner = value.args[0]
        if inner.op == "zext" and inner.args[0].op == "place" and inner.args[1].value == 32:
            return Form(instruction, statement.target.name, (inner.args[0].name,))
    return None


def address_registers(target: Target) -> dict[Side, int]:
    """How many address registers of each side code may use freely."""
    kept = {*target.abi.reserved, *target.abi.callee_saved}
    classes = target.address_modes.base_classes
    return {s: sum(n not in kept for n in target.register_class(c).names) for s, c in classes.items()}


def _signed(value: int) -> int:
    """The low 32 bits, as a signed number."""
    low = value & 0xFFFFFFFF
    return low - ((low & 0x80000000) << 1)


def _aligned(size: int) -> int:
    return -(-size // _FRAME_ALIGN) * _FRAME_ALIGN
