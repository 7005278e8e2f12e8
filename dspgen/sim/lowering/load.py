"""Puts a program, its data and its arguments into a machine: addresses, initial registers and memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dspgen.errors import Problem, SourceError
from dspgen.sim.ir.memory import MemoryMap, float_bits, zero_registers
from dspgen.sim.ir.program import Assembled, Code, DataItem, Start
from dspgen.sim.ir.registers import RegisterFile
from dspgen.sim.ir.symbols import split_symbol
from dspgen.sim.lowering.lower_program import lower
from dspgen.target.isa.model import Memory, Target
from dspgen.target.query.arguments import (
    Member,
    Place,
    argument_places,
    by_structure,
    structure_alignment,
    structure_bytes,
    structure_register,
)
from plant_core.support.memoize import few_by_identity

Array = Any
Argument = Any  # a NumPy array, or an int or float, Python's or NumPy's
ALIGN = 128
GUARD = 1024  # bytes kept free beside an array, at least: code may read before and behind it
GUARDS = (1 << 16, 1 << 14, 1 << 12)  # the most of these that there is room for: what runs over an end meets no array
PACKET_BYTES = 32
STACK = "the stack"  # its name among the objects
WORD = 0xFFFFFFFF
STRUCTURE = "the structure of arguments"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Ready to run. `places` gives each array argument's address; `structure` that of the structure that holds all
    arguments, if one does."""

    code: Code
    memories: MemoryMap
    start: Start
    places: tuple[tuple[str, int, Array], ...]
    structure: int = 0


def _margin(target: Target) -> int:
    """Bytes kept free before the first array: two vectors at least."""
    widest = max((c.bits // 8 for c in target.registers if c.kind == "vector"), default=0)
    return max(GUARD, -(-2 * widest * target.lanes // ALIGN) * ALIGN)


def entry_stack(target: Target) -> int:
    """The scalar side's stack pointer at entry; what lies above it is the caller's."""
    memory = target.memory(target.abi.stack_memory)
    return (memory.base + memory.size - min(4096, memory.size // 32)) & ~(ALIGN - 1)


def vector_stack(target: Target) -> int:
    """The vector side's stack pointer at entry, where it has one of its own."""
    memory = target.memory(target.abi.stack_memory)
    return (memory.base + memory.size - memory.size // 16) & ~(ALIGN - 1)


def bits_of(name: str, value: Argument) -> tuple[int, bool]:
    """A number's bits, and whether there are 64 of them."""
    if isinstance(value, np.ndarray):
        value = value[()]
    if isinstance(value, np.float64):
        return float_bits(float(value), True), True
    if isinstance(value, np.float16 | np.float32 | float):
        return float_bits(float(value), False), False
    if isinstance(value, int | np.integer | np.bool_):
        return int(value) & ((1 << 64) - 1), isinstance(value, np.int64 | np.uint64)
    text = f"argument {name} is neither an array nor a number: {type(value).__name__}"
    raise SourceError(Problem("DG430", text))


def places_of(target: Target, arguments: Sequence[tuple[str, Argument]]) -> tuple[Place, ...]:
    """Where the calling convention puts each argument; see `argument_places`."""
    return argument_places(target, [_elem(name, value) for name, value in arguments])


def _elem(name: str, value: Argument) -> str | None:
    """A type of a number's size; None for an array."""
    if isinstance(value, np.ndarray) and value.ndim:
        return None
    return "i64" if bits_of(name, value)[1] else "i32"


@dataclass(slots=True)
class _Placer:
    """Hands out memory from the bottom of each memory, `guard` bytes apart; the top of the stack's memory stays free,
    with `stack` bytes or more below the vector side's stack pointer. `used`: the ranges of addresses handed out."""

    target: Target
    next: dict[str, int]
    stack: int
    guard: int

    @staticmethod
    def of(target: Target, stack: int, guard: int) -> _Placer:
        margin = max(_margin(target), guard)
        return _Placer(target, {m.name: m.base + margin for m in target.memories}, stack, guard)

    def end(self, memory: Memory) -> int:
        room = memory.size // 16
        stack = room + max(room, self.stack) if memory.name == self.target.abi.stack_memory else 0
        return memory.base + memory.size - stack

    def used(self) -> dict[str, list[tuple[int, int]]]:
        """The addresses handed out in each memory, with the guards around, and the stack's."""
        found = {m.name: [(m.base, min(self.next[m.name], self.end(m)))] for m in self.target.memories}
        stack = self.target.memory(self.target.abi.stack_memory)
        found[stack.name].append((self.end(stack), stack.base + stack.size))
        return found

    def candidates(self) -> list[Memory]:
        both = [m for m in self.target.memories if set(m.sides) == {"scalar", "vector"} and m.purpose == "data"]
        return sorted(both, key=lambda m: not m.onchip)

    def place(self, item: _Item) -> tuple[str, int]:
        """The memory and the address."""
        if item.memory is not None:
            known = [m for m in self.target.memories if m.name == item.memory]
            if not known:
                names = ", ".join(m.name for m in self.target.memories)
                text = f"{item.name}: there is no memory {item.memory}"
                raise SourceError(Problem("DG430", text, remedy=f"it has {names}"))
        else:
            known = self.candidates()
        for candidate in known:
            at = -(-self.next[candidate.name] // item.align) * item.align
            if at + item.size <= self.end(candidate):
                self.next[candidate.name] = at + item.size + self.guard
                return candidate.name, at
        where = item.memory or "any memory that both sides reach"
        raise SourceError(Problem("DG430", f"{item.name} ({item.size} bytes) does not fit {where}"))


@dataclass(frozen=True, slots=True)
class _Item:
    """What is to be placed, in a `memory` or in any."""

    name: str
    size: int
    align: int
    memory: str | None = None


def _placed(target: Target, stack: int, items: Sequence[_Item]) -> tuple[_Placer, list[int]]:
    """Addresses of all, as far apart as there is room for in the memories that they lie in anyway."""

    def attempt(guard: int) -> tuple[_Placer, list[tuple[str, int]]]:
        placer = _Placer.of(target, stack, guard)
        return placer, [placer.place(item) for item in items]

    placer, places = attempt(GUARD)
    for guard in GUARDS:
        try:
            farther, others = attempt(guard)
        except SourceError:
            continue
        if [memory for memory, _ in others] == [memory for memory, _ in places]:
            placer, places = farther, others
            break
    return placer, [address for _, address in places]


def load(
    program: Assembled,
    target: Target,
    *,
    function: str | None,
    arguments: Sequence[tuple[str, Argument]],
    placement: Mapping[str, str],
    strict: bool,
    limit: int,
    stack: int = 0,
    readable: Mapping[str, tuple[int, ...]] | None = None,
) -> Loaded:
    """Builds fresh memories and registers. `readable`: the bytes before and behind an array that may be read, where
    accesses are held to arrays, data and the stack; None: all memory may be accessed. Raises SourceError where the call
    does not fit the machine."""
    arrays = [(n, np.ascontiguousarray(v)) for n, v in arguments if isinstance(v, np.ndarray) and v.ndim > 0]
    items = [_Item(_name(d), max(len(d.contents), 1), max(d.align, 8)) for d in program.data]
    items += [_Item(n, max(v.nbytes, 1), ALIGN, placement.get(n)) for n, v in arrays]
    passed_in = places_of(target, arguments)
    if by_structure(passed_in):
        items.append(_Item(STRUCTURE, structure_bytes(passed_in), structure_alignment(passed_in)))
    placer, addresses = _placed(target, stack, items)
    memories = MemoryMap.of(target, placer.used())
    symbols, code_addresses, code_end = _code_addresses(program, target)
    for k, name in enumerate(program.external, 1):
        symbols[name] = code_end + PACKET_BYTES * k
        memories.named.append((f"{name}, which is not defined in this file,", symbols[name], PACKET_BYTES))
    symbols |= _write_data(program, memories, addresses, symbols)
    places = []
    for (name, value), address in zip(arrays, addresses[len(program.data) :], strict=False):
        memories.write(address, value.tobytes())
        memories.named.append((name, address, value.nbytes))
        places.append((name, address, value))
    lowest = placer.end(target.memory(target.abi.stack_memory))
    code = _code(program, target, symbols, code_addresses, lowest)
    setter = _Setter(target, RegisterFile(target), zero_registers(code), set())
    top = setter.machine_state(code_end)
    structure = addresses[-1] if by_structure(passed_in) else 0
    passed = setter.call(
        [*zip(passed_in, arguments, strict=True)], {n: a for n, a, _ in places}, memories, top, structure
    )
    if readable is None:
        memories.place_regions()
    else:
        _place_objects(memories, target, items, addresses, readable)
        _place_stack(memories, target, lowest, stack, passed, readable.get(STACK, (0, 0)))
    if memories.transfers is not None:
        memories.transfers.strict = strict
    entry = _entry(program, function)
    start = Start(setter.registers, frozenset(setter.written), entry, code_end, strict, limit)
    return Loaded(code, memories, start, tuple(places), structure)


def _place_objects(
    memories: MemoryMap,
    target: Target,
    items: Sequence[_Item],
    addresses: Sequence[int],
    readable: Mapping[str, tuple[int, ...]],
) -> None:
    """Lets arrays and data be accessed, and memories that no array is placed in."""
    for item, address in zip(items, addresses, strict=True):
        memories.place_object(item.name, address, item.size, *readable.get(item.name, (0, 0)))
    purposes = {m.name: m.purpose for m in target.memories}
    for region in memories.regions:
        if purposes.get(region.name) != "data":
            memories.place_object(region.name, region.base, region.size)


def _place_stack(
    memories: MemoryMap, target: Target, lowest: int, stack: int, passed: int, padding: tuple[int, ...]
) -> None:
    """Lets the stack be accessed, and `padding` bytes before and after it be read: where it is told how much the
    function takes, so much below each stack pointer, and the arguments that are `passed` there; else all that is free
    for stacks."""
    memory = target.memory(target.abi.stack_memory)
    if not stack:
        memories.place_object(STACK, lowest, memory.base + memory.size - lowest, *padding)
        return
    tops = {entry_stack(target): passed}
    if target.abi.vector_stack != target.abi.scalar_stack:
        tops.setdefault(vector_stack(target), 0)
    for top, above in tops.items():
        region = memories.find(top - 1, 1, None)
        low = max(top - stack, lowest, region[0].base if region is not None else 0)
        memories.place_object(STACK, low, top + above - low, *padding)


def _code(
    program: Assembled, target: Target, symbols: dict[str, int], code_addresses: dict[int, int], lowest: int
) -> Code:
    """The program on the machine, made once for all runs; `lowest`: the stack's lowest address."""
    known = _codes(program, target)
    key = (tuple(symbols.items()), tuple(code_addresses.items()), lowest)
    if key not in known:
        code = lower(program, target, symbols, code_addresses)
        if (
            target.abi.red_zone is not None
            and (pointer := RegisterFile(target).cell_of(target.abi.scalar_stack)) is not None
        ):
            code = replace(code, stack=(pointer, lowest, target.abi.red_zone))
        known[key] = code
    return known[key]


@few_by_identity
def _codes(program: Assembled, target: Target) -> dict[object, Code]:
    """What is made of a program, by what places of data tell."""
    return {}


def _entry(program: Assembled, function: str | None) -> int:
    if function is None:
        return program.labels[program.entry] if program.entry is not None else 0
    if function not in program.labels:
        raise SourceError(Problem("DG429", f"{program.file}: there is no label {function}"))
    return program.labels[function]


def _code_addresses(program: Assembled, target: Target) -> tuple[dict[str, int], dict[int, int], int]:
    """Code lives where no memory is; the address after it is where the function returns to."""
    size = (len(program.packets) + 2 + len(program.external)) * PACKET_BYTES
    base = 0x10000
    for memory in sorted(target.memories, key=lambda m: m.base):
        if base < memory.base + memory.size and memory.base < base + size:
            base = -(-(memory.base + memory.size) // 0x10000) * 0x10000
    symbols = {name: base + PACKET_BYTES * at for name, at in program.labels.items()}
    named = {split_symbol(o)[0] for o in _symbol_operands(program)} | {f[2] for d in program.data for f in d.fixups}
    taken = sorted(program.labels[n] for n in named if n in program.labels)
    end = base + (len(program.packets) + 1) * PACKET_BYTES
    return symbols, {base + PACKET_BYTES * at: at for at in taken}, end


def _symbol_operands(program: Assembled) -> list[str]:
    """Symbols whose address the program computes with; labels of branches are not among them."""
    return [
        value
        for packet in program.packets
        for placed in packet.members
        for value, operand in zip(placed.operands, placed.instruction.operands, strict=True)
        if isinstance(value, str) and value.startswith("@") and operand.kind != "label"
    ]


def _name(item: DataItem) -> str:
    return item.symbols[0][0] if item.symbols else "data"


def _write_data(
    program: Assembled, memories: MemoryMap, bases: Sequence[int], code: Mapping[str, int]
) -> dict[str, int]:
    """Put data at their addresses; gives all symbols' addresses."""
    symbols = dict(code)
    for base, item in zip(bases, program.data, strict=False):
        symbols |= {n: base + offset for n, offset in item.symbols}
    for base, item in zip(bases, program.data, strict=False):
        contents = bytearray(item.contents)
        for offset, size, name, addend in item.fixups:
            value = (symbols[name] + addend) & ((1 << (8 * size)) - 1)
            contents[offset : offset + size] = value.to_bytes(size, "little")
        memories.write(base, bytes(contents))
    return symbols


@dataclass(slots=True)
class _Setter:
    """Writes initial register values and remembers which cells then count as written."""

    target: Target
    file: RegisterFile
    registers: list[Array]
    written: set[int]

    def set(self, name: str, value: int, classes: tuple[str, ...] | None = None) -> None:
        place = self.file.place(name, classes) or self.file.place(name)
        if place is None:
            raise SourceError(Problem("DG430", f"{self.target.name}: there is no register {name}"))
        for cell in place.cells:
            spec = self.file.cells[cell]
            kept = value & ((1 << spec.bits) - 1)
            if place.lane is not None:
                self.registers[cell][place.lane] = kept
            else:
                self.registers[cell][:] = kept
            value >>= spec.bits
            self.written.add(cell)

    def call(
        self,
        arguments: Sequence[tuple[Place, tuple[str, Argument]]],
        places: Mapping[str, int],
        memories: MemoryMap,
        top: int,
        structure: int,
    ) -> int:
        """Arguments in their places: in registers, in memory from the scalar side's stack pointer, `top`, on, or in a
        structure; gives how many bytes from the stack pointer on."""
        passed = 0
        pointer = self.target.register_class(self.target.abi.pointer_class)
        if by_structure([place for place, _ in arguments]):
            self._wide(structure_register(self.target), structure, pointer.name)
        for place, (name, value) in arguments:
            if isinstance(place, str):
                if name in places:
                    self._wide(place, places[name], pointer.name)
                else:
                    self._scalar(place, name, value)
                continue
            bits, wide = (places[name], pointer.pair_of is not None) if name in places else bits_of(name, value)
            size = place.size if isinstance(place, Member) else 8 if wide else 4
            at = structure + place.offset if isinstance(place, Member) else top + place
            memories.write(at, (bits & ((1 << 8 * size) - 1)).to_bytes(size, "little"))
            if not isinstance(place, Member):
                passed = max(passed, place + size)
        return passed

    def _wide(self, register: str, value: int, class_name: str) -> None:
        cls = self.target.register_class(class_name)
        if cls.pair_of is None:
            self.set(register, value)
            return
        low = self.target.register_class(cls.pair_of).names.index(register)
        self.set(cls.names[low // 2], value, (class_name,))

    def _scalar(self, register: str, name: str, value: Argument) -> None:
        bits, wide = bits_of(name, value)
        if wide:
            self._wide(register, bits, self.target.abi.wide_class)
        else:
            self.set(register, bits)

    def machine_state(self, return_address: int) -> int:
        """Return address, stacks, the lane mask, and what the calling convention promises at entry; gives the scalar
        side's stack pointer."""
        target, abi = self.target, self.target.abi
        top = entry_stack(target)
        self.set(abi.scalar_stack, top)
        if abi.vector_stack != abi.scalar_stack:
            self.set(abi.vector_stack, vector_stack(target))
        self.set(abi.return_address, return_address)
        if target.mask_register is not None:
            self.set(target.mask_register, (1 << target.lanes) - 1)
        for name, value in abi.entry_values.items():
            self.set(name, value)
        for name in (*abi.callee_saved, *abi.reserved):
            place = self.file.place(name)
            self.written |= set(place.cells) if place else set()
        return top
