"""Shuffles of whole lanes as patterns, done by the machine's word shuffle with its patterns in memory.

A pattern has, for each lane, the lane of the concatenation of two vectors that it takes; -1 where any will do. The
patterns that a function uses are written at its entry. A mode register tells the shuffle which one to use; what it
holds is remembered within a block, and set before a loop that uses one pattern only.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dspgen.asmir.ir.function import (
    PATTERNS,
    If,
    Instr,
    Item,
    Jump,
    Loop,
    Mark,
    Mem,
    MemRef,
    OperandValue,
    Phys,
    Reg,
    VReg,
)
from dspgen.errors import NoSchedule, Problem
from dspgen.target.query.crossing import WordShuffle
from dspgen.target.query.operations import Form
from dspgen.vecdsl.ir.program import Const, Op, VType

if TYPE_CHECKING:
    from dspgen.asmir.select.emitter import Emitter

I32 = VType("i32", False)
_WORD = 4
_KEPT = 24  # words of patterns in registers, while patterns are written
_STEPS = 3  # words that differ from the one before by the same: then each is a sum
Pattern = tuple[int, ...]
MakeAddress = Callable[[int], VReg]


def pattern_of(op: Op, lanes: int) -> Pattern | None:
    """Where the lanes of a shuffling operation come from, or None for another operation."""
    match op.name, op.imm:
        case "align", (k,):
            return tuple(range(k, k + lanes))
        case "even", _:
            return tuple(range(0, 2 * lanes, 2))
        case "odd", _:
            return tuple(range(1, 2 * lanes, 2))
        case "zip_lo", _:
            return tuple(k // 2 + (k % 2) * lanes for k in range(lanes))
        case "zip_hi", _:
            return tuple(k // 2 + (k % 2) * lanes for k in range(lanes, 2 * lanes))
        case "reverse", _:
            return tuple(range(lanes - 1, -1, -1))
        case "dup_lane", (k,):
            return (k,) * lanes
        case (("shuffle" | "shuffle2"), pattern):
            return pattern
        case "transpose", (rows,):
            columns = lanes // rows
            return tuple(k % rows * columns + k // rows for k in range(lanes))
        case "concat", (count,):
            return tuple(k if k < count else lanes + k - count for k in range(lanes))
        case _:
            return None


class Shuffles:
    """Emits shuffles; `entry` takes what must be done at the function's entry."""

    def __init__(self, emitter: Emitter, machine: WordShuffle) -> None:
        self.emitter = emitter
        self.machine = machine
        self.entry: list[Item] = []
        self.address: MakeAddress | None = None
        self._numbers: dict[Pattern, int] = {}
        self._words: dict[bytes, Reg] = {}
        self._steps: dict[int, Reg] = {}
        self._bases: dict[int, VReg] = {}
        self._mode: int | None = None

    def forget(self) -> None:
        """The mode register may hold anything from here on."""
        self._mode = None

    def emit(self, first: Reg, second: Reg, pattern: Pattern, into: Reg) -> None:
        """`into` = the shuffle of two vectors of 32-bit lanes by `pattern`."""
        emitter, machine = self.emitter, self.machine
        number = self._number(pattern)
        if self._mode != number:
            select = machine.select
            values: dict[str, OperandValue] = {
                select.result: Phys(machine.memory.mode_register),
                select.args[0]: emitter.constant(Const(number, I32)),
            }
            emitter.emit(select, values)
            self._mode = number
        named: dict[str, OperandValue] = {machine.result: into, machine.first: first, machine.second: second}
        operands = tuple(named[o.name] for o in machine.instruction.operands)
        emitter.items.append(Instr(machine.instruction, operands, None, emitter.loc))

    def _number(self, pattern: Pattern) -> int:
        """The mode number of the pattern, or of one that agrees with it where it doesn't care; its bytes are written at
        the function's entry."""
        for known, number in self._numbers.items():
            if _agrees(pattern, known):
                return number
        step = max(1, -(-_padded(len(pattern)) // self.machine.memory.bytes_per_mode))
        number = len(self._numbers) * step
        self._check_room((number + step) * self.machine.memory.bytes_per_mode)
        words = self._whole(pattern)
        whole = tuple(b for word in words for b in word)[: len(pattern)]
        self._numbers[whole] = number
        self._write(words, number)
        return number

    def _whole(self, pattern: Pattern) -> list[bytes]:
        """The pattern's bytes by words; where it doesn't care, those that are in registers already."""
        padded = (*pattern, *(-1 for _ in range(_padded(len(pattern)) - len(pattern))))
        parts = [padded[k : k + _WORD] for k in range(0, len(padded), _WORD)]
        made: dict[int, bytes] = {}
        for k in sorted(range(len(parts)), key=lambda k: parts[k].count(-1)):
            there = (w for w in (*made.values(), *self._words) if _agrees(parts[k], w))
            made[k] = next(there, bytes(_WORD * k + j if p < 0 else p for j, p in enumerate(parts[k])))
        return [made[k] for k in range(len(parts))]

    def _check_room(self, size: int) -> None:
        memory = self.machine.memory
        region = next(m for m in self.emitter.target.memories if m.base <= memory.base < m.base + m.size)
        if memory.base + size > region.base + region.size:
            message = f"more shuffle patterns than {region.name} holds"
            raise NoSchedule(Problem("DG309", message, self.emitter.loc, "use smaller tiles, or rewriting less"))

    def _write(self, words: Sequence[bytes], number: int) -> None:
        """Store the pattern's bytes, a word at a time, or two where both are new."""
        emitter = self.emitter
        single, double = next(iter(emitter.table.forms("st", "i32")), None), self._double_form()
        if single is None:
            raise emitter.missing("store", "i32")
        saved, emitter.items = emitter.items, self.entry
        start = number * self.machine.memory.bytes_per_mode
        steps = Counter(_difference(one, other) for one, other in itertools.pairwise(dict.fromkeys(words)))
        for step, times in steps.items():
            if times >= _STEPS and step not in self._steps and self._sum_form() is not None:
                self._steps[step] = emitter.constant(Const(step, I32), Reg(self._fresh()))
        k = 0
        while k < len(words):
            two = len({*words[k : k + 2]} - self._words.keys()) == 2 and (start + k * _WORD) % (2 * _WORD) == 0
            if two and double is not None:
                pair = Reg(emitter.fresh(emitter.classes.pair_of(emitter.classes.scalar.name), "pattern"))
                self._keep(words[k], replace(pair, part="lo"))
                self._keep(words[k + 1], replace(pair, part="hi"))
                self._store(double, pair, start + k * _WORD, 2 * _WORD)
            else:
                if words[k] not in self._words:
                    self._keep(words[k], Reg(self._fresh()))
                self._store(single, self._words[words[k]], start + k * _WORD, _WORD)
            k += 2 if two and double is not None else 1
        emitter.items = saved

    def _store(self, form: Form, value: Reg, offset: int, size: int) -> None:
        base, beyond = self._base(offset, form)
        access = MemRef(PATTERNS, offset, (), size, 1, size)
        self.emitter.emit(form, {form.args[0]: Mem(base, beyond, access), form.args[1]: value})

    def _double_form(self) -> Form | None:
        """A store of two words from a pair of registers, the low one first."""
        scalar = self.emitter.classes.scalar.name
        pairs = {c.name for c in self.emitter.target.registers if c.pair_of == scalar}
        forms = self.emitter.table.forms("st", "i64")
        return next((f for f in forms if pairs & {*f.instruction.operand(f.args[1]).classes}), None)

    def _fresh(self) -> VReg:
        return self.emitter.fresh(self.emitter.classes.scalar.name, "pattern")

    def _keep(self, contents: bytes, made: Reg) -> None:
        """Put a word of a pattern into a register: as another one and a step where these are there, or a constant."""
        if len(self._words) == _KEPT:
            del self._words[next(iter(self._words))]
        form, known = self._sum_form(), tuple(self._words.items())
        self._words[contents] = made
        for word, register in reversed(known):
            if form is not None and (step := self._steps.get(_difference(word, contents))) is not None:
                self.emitter.emit(form, {form.result: made, form.args[0]: register, form.args[1]: step})
                return
        self.emitter.constant(Const(int.from_bytes(contents, "little", signed=True), I32), made)

    def _sum_form(self) -> Form | None:
        scalar = self.emitter.classes.scalar.name
        sums = self.emitter.table.forms("add", "i32")
        return next(
            (f for f in sums if all(scalar in f.instruction.operand(n).classes for n in (f.result, *f.args))), None
        )

    def _base(self, offset: int, form: Form) -> tuple[VReg, int]:
        """An address register from which the patterns' byte `offset` is reached, and how far it is from there."""
        if self.address is None:
            raise self.emitter.missing("shuffle", "i32", vector=True)
        scale = form.instruction.memory.scale if form.instruction.memory is not None else 1
        reach = self.emitter.target.address_modes.plus_imm["scalar"][1] * scale
        start = next((s for s in self._bases if 0 <= offset - s <= reach), offset)
        if start not in self._bases:
            self._bases[start] = self.address(self.machine.memory.base + start)
        return self._bases[start], offset - start

    def hoisted(self, body: list[Item]) -> tuple[list[Item], list[Item]]:
        """What sets the mode before the loop, and the loop's body without it, where the body uses one mode only."""
        modes = [item for item in body if self._selects(item)]
        first = modes[0] if modes else None
        if not isinstance(first, Instr) or any(self._selects_below(item) for item in body):
            return [], body
        if any(not isinstance(m, Instr) or m.operands != first.operands for m in modes):
            return [], body
        source = next((o.vreg for o in first.operands if isinstance(o, Reg)), None)
        if any(_writes(item, source) for item in body):
            return [], body
        return [first], [item for item in body if not self._selects(item)]

    def _selects(self, item: Item) -> bool:
        """Whether an instruction writes the mode register."""
        return isinstance(item, Instr) and any(
            o.write and v == Phys(self.machine.memory.mode_register)
            for o, v in zip(item.instruction.operands, item.operands, strict=True)
        )

    def _selects_below(self, item: Item) -> bool:
        match item:
            case Loop(body=inner) | If(inside=inner):
                return any(self._selects(x) or self._selects_below(x) for x in inner)
            case _:
                return False


def _agrees(pattern: Pattern, whole: Sequence[int]) -> bool:
    return all(p in (-1, k) for p, k in zip(pattern, whole, strict=True))


def _difference(one: bytes, other: bytes) -> int:
    """Of two words, as the 32-bit number that leads from one to the other."""
    step = (int.from_bytes(other, "little") - int.from_bytes(one, "little")) % (1 << 32)
    return step - (1 << 32) if step >> 31 else step


def _writes(item: Item, register: VReg | None) -> bool:
    match item:
        case Instr():
            return any(
                o.write and isinstance(v, Reg) and v.vreg == register
                for o, v in zip(item.instruction.operands, item.operands, strict=True)
            )
        case Loop(body=inner) | If(inside=inner):
            return any(_writes(x, register) for x in inner)
        case Mark() | Jump():
            return False


def _padded(size: int) -> int:
    return -(-size // _WORD) * _WORD
