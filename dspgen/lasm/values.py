"""What is known of registers' values as linear assembly is read from top to bottom: root + constant, or a comparison.

A root stands for a value that is not known. Two addresses with one root are a known distance apart; a counter that is
its own start plus a constant after an iteration is counted. Integers of scalar registers wrap as the machine's do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from dspgen.asmir.ir.function import Imm, Instr, OperandValue, Phys, Place, Reg, VReg
from dspgen.target.isa.model import Operand, SemExpr, Target

Atom = tuple[VReg, str]
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "ltu", "leu", "gtu", "geu"}


@dataclass(frozen=True, slots=True)
class Sum:
    """`root + offset`; without a root, the integer."""

    root: Hashable
    offset: int

    @property
    def constant(self) -> int | None:
        return self.offset if self.root is None else None


@dataclass(frozen=True, slots=True)
class Compare:
    """1 where `first op second`, else 0; `op` as in the semantics of the ISA file."""

    op: str
    first: Sum
    second: Sum


Value = Sum | Compare


@dataclass(frozen=True, slots=True)
class Start:
    """The root of what a register half holds where the look at a piece of code starts."""

    atom: Atom


@dataclass(frozen=True, slots=True)
class Both:
    """The root of a pair's whole value."""

    low: Sum
    high: Sum


@dataclass(frozen=True, slots=True)
class Indexed:
    """The root of `base + scale * index`, both unknown."""

    base: Hashable
    index: Hashable
    scale: int


@dataclass(frozen=True, slots=True)
class Widened:
    """The root of an unknown scalar widened to an address."""

    value: Sum
    signed: bool


@dataclass(slots=True)
class State:
    """Values of register halves; `numbered` makes the roots of values that are new."""

    target: Target
    known: dict[Atom, Value] = field(default_factory=dict)
    numbered: list[int] = field(default_factory=lambda: [0])
    starts: bool = False  # a register not yet written has the root Start, else a number of its own

    def atoms(self, register: VReg, part: str = "") -> tuple[Atom, ...]:
        if self.target.register_class(register.cls).pair_of is None:
            return ((register, ""),)
        return ((register, part),) if part else ((register, "lo"), (register, "hi"))

    def of(self, atom: Atom) -> Value:
        if atom not in self.known:
            self.known[atom] = Sum(Start(atom), 0) if self.starts else self.fresh()
        return self.known[atom]

    def fresh(self) -> Sum:
        self.numbered[0] += 1
        return Sum(self.numbered[0], 0)

    def forget(self) -> None:
        self.known.clear()

    def address(self, place: Place, scale: int) -> Sum | None:
        """The address that a memory operand reaches, before its own later update."""
        base = self._register(place.base)
        match place.mode:
            case "none" | "post_inc" | "post_dec":
                return base
            case "plus" | "pre_inc":
                return self._moved(base, place.offset, scale)
            case _:
                return self._moved(base, place.offset, -scale)

    def run(self, instr: Instr) -> None:
        """Take note of what an instruction does to the registers."""
        row = instr.instruction
        results: dict[Atom, Value] = {}
        named = dict(zip((o.name for o in row.operands), zip(row.operands, instr.operands, strict=True), strict=True))
        sure = instr.predicate is None and not instr.masked
        for statement in row.semantics:
            place = statement.target
            if place is None or place.name not in named:
                continue
            value = named[place.name][1]
            if not isinstance(value, Reg):
                continue
            atoms = self.atoms(value.vreg, value.part or place.part)
            found = self._evaluate(statement.value, named) if sure and len(atoms) == 1 else None
            for atom in atoms:
                results[atom] = self.fitting(found, atom) if found is not None else self.fresh()
        for operand, value in zip(row.operands, instr.operands, strict=True):
            if isinstance(value, Reg) and operand.write:
                for atom in self.atoms(value.vreg, value.part):
                    if atom not in results and not (operand.read and atom[1]):  # else the half that is left alone
                        results[atom] = self.fresh()
            if isinstance(value, Place) and value.updates and isinstance(value.base, VReg) and row.memory is not None:
                scale = -row.memory.scale if value.mode in ("post_dec", "pre_dec") else row.memory.scale
                moved = self._moved(self._register(value.base), value.offset, scale) if sure else None
                results[(value.base, "")] = moved if moved is not None else self.fresh()
        self.known.update(results)

    def _register(self, base: VReg | Phys) -> Sum | None:
        if isinstance(base, Phys):
            return None
        value = self.of((base, ""))
        return value if isinstance(value, Sum) else None

    def _moved(self, base: Sum | None, offset: int | VReg, scale: int) -> Sum | None:
        if base is None:
            return None
        if isinstance(offset, int):
            return Sum(base.root, base.offset + offset * scale)
        index = self.of((offset, ""))
        if not isinstance(index, Sum):
            return None
        if index.constant is not None:
            return Sum(base.root, base.offset + index.constant * scale)
        return Sum(Indexed(base.root, index.root, scale), base.offset + index.offset * scale)

    def fitting(self, value: Value, atom: Atom) -> Value:
        """A result as its register keeps it: scalars wrap."""
        cls = self.target.register_class(atom[0].cls)
        base = self.target.register_class(cls.pair_of) if cls.pair_of is not None else cls
        if base.kind == "scalar" and isinstance(value, Sum):
            return Sum(value.root, signed(value.offset, base.bits))
        return value

    def _evaluate(self, expr: SemExpr, named: dict[str, tuple[Operand, OperandValue]]) -> Value | None:
        if expr.op == "int":
            return Sum(None, expr.value)
        if expr.op == "place":
            return self._place(expr, named)
        if expr.op in ("sext", "zext"):
            inner = self._evaluate(expr.args[0], named)
            return _widened(inner, expr.args[1].value, expr.op == "sext")
        arguments = [self._evaluate(a, named) for a in expr.args]
        if not all(isinstance(a, Sum) for a in arguments):
            return arguments[0] if expr.op in ("mov", "addr") and len(arguments) == 1 else None
        sums = [a for a in arguments if isinstance(a, Sum)]
        if expr.op in ("mov", "addr"):
            return sums[0]
        if expr.op == "trunc":
            return Sum(None, signed(sums[0].offset, 32)) if sums[0].root is None else None
        if expr.type not in ("i32", "i64", "u32", "") or len(sums) != 2:
            return None
        return _combined(expr.op, sums[0], sums[1], 32 if expr.type in ("i32", "u32") else 64)

    def _place(self, expr: SemExpr, named: dict[str, tuple[Operand, OperandValue]]) -> Value | None:
        match named.get(expr.name, (None, None))[1]:
            case Imm(number):
                return Sum(None, number)
            case Reg(vreg, part):
                found = [self.of(a) for a in self.atoms(vreg, part or expr.part)]
            case _:
                return None
        if len(found) == 1:
            return found[0]
        low, high = found
        if not isinstance(low, Sum) or not isinstance(high, Sum):
            return None
        if low.constant is not None and high.constant is not None:
            return Sum(None, (high.constant << 32) | (low.constant & 0xFFFFFFFF))
        return Sum(Both(low, high), 0)


def signed(value: int, bits: int) -> int:
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def _widened(value: Value | None, bits: int, is_signed: bool) -> Value | None:
    if not isinstance(value, Sum):
        return None
    if value.constant is None:
        return Sum(Widened(value, is_signed), 0) if bits >= 32 else None
    low = value.constant & ((1 << bits) - 1)
    return Sum(None, signed(low, bits) if is_signed else low)


_ON_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "set_high": lambda a, b: (a & 0xFFFF) | ((b & 0xFFFF) << 16),
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << (b & 31),
    "shr": lambda a, b: a >> (b & 31),
    "shru": lambda a, b: (a & 0xFFFFFFFF) >> (b & 31),
    "min": min,
    "max": max,
}


def _combined(op: str, a: Sum, b: Sum, bits: int) -> Value | None:
    if op == "add" and (a.root is None or b.root is None):
        return Sum(a.root if b.root is None else b.root, signed(a.offset + b.offset, bits))
    if op == "sub" and (b.root is None or a.root == b.root):
        return Sum(a.root if b.root is None else None, signed(a.offset - b.offset, bits))
    if op in _COMPARISONS and bits == 32:
        if a.constant is not None and b.constant is not None:
            return Sum(None, int(compares(op, a.constant, b.constant)))
        return Compare(op, a, b)
    if op in _ON_INTEGERS and bits == 32 and a.constant is not None and b.constant is not None:
        return Sum(None, signed(_ON_INTEGERS[op](a.constant, b.constant), bits))
    return None


def compares(op: str, a: int, b: int) -> bool:
    """A comparison of 32-bit integers by the name that semantics give it."""
    if op.endswith("u") and op not in ("eq", "ne"):
        a, b, op = a & 0xFFFFFFFF, b & 0xFFFFFFFF, op[:-1]
    results = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    return results[op]
