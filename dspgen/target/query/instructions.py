"""Finds instructions by what they do: the only way in which the compiler's stages come to name an instruction.

A pattern is semantics text with free names: `d = add.i32(a, b)` finds each row whose whole effect is that sum, however
the row names its operands. A name of the target's registers in a pattern means that register.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dspgen.target.isa.model import Instruction, Operand, SemExpr, SemStatement, Target
from dspgen.target.isa.semantics import parse

Kinds = Mapping[str, str | Collection[str]]


@dataclass(frozen=True, slots=True)
class Match:
    """`binding` gives the operand's name for each of the pattern's names."""

    instruction: Instruction
    binding: dict[str, str]

    def operand(self, name: str) -> Operand:
        return self.instruction.operand(self.binding[name])


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction of a constant's loading; `operands` in text order, None where the destination register stands."""

    instruction: Instruction
    operands: tuple[int | None, ...]


class Index:
    """All rows of a target by the shape of their semantics. Build one for each target and keep it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.registers = {n for c in target.registers for n in c.names}
        self.classes = {c.name: c for c in target.registers}
        self.rows: dict[str, list[tuple[Instruction, tuple[str, ...]]]] = {}
        for row in target.instructions:
            operands = {o.name for o in row.operands}
            for statements in (row.semantics, *row.equivalents):
                shape, names = _canonical(statements, operands)
                self.rows.setdefault(shape, []).append((row, names))

    def find(self, pattern: str, kinds: Kinds | None = None, *, assembler_only: bool = False) -> list[Match]:
        """The matches of `pattern`, quickest result first, then in the file's order.

        `kinds` restricts a name to operands that may be of a register class, or of a kind: scalar, vector, scalar_pair,
        vector_pair, address, offset, control, element, immediate, memory, label; or any of several. Rows that only the
        assembler uses come with `assembler_only`. Commutative operations match as they are written.
        """
        statements = parse(pattern, self.target.lanes)
        shape, names = _canonical(statements, None, self.registers)
        found: list[Match] = []
        for row, operands in self.rows.get(shape, ()):
            if not (row.compile or assembler_only):
                continue
            binding = dict(zip(names, operands, strict=True))
            if all(self._allows(row.operand(binding[name]), wanted) for name, wanted in (kinds or {}).items()):
                found.append(Match(row, binding))
        return sorted(found, key=lambda m: (m.instruction.latency, m.instruction.busy))

    def kinds(self, operand: Operand) -> set[str]:
        """The kinds, and the register classes, that the operand may be."""
        found = set(operand.classes)
        if operand.kind != "register":
            found.add(operand.kind)
        if operand.imm is not None:
            found.add("immediate")
        for name in operand.classes:
            cls = self.classes[name]
            found.add(f"{cls.kind}_pair" if cls.pair_of is not None else cls.kind)
        return found

    def _allows(self, operand: Operand, wanted: str | Collection[str]) -> bool:
        choices = {wanted} if isinstance(wanted, str) else set(wanted)
        return not choices.isdisjoint(self.kinds(operand))

    def move(self, cls: str) -> list[Match]:
        """Copies within a register class. A pair class has none of its own where its halves are moved one by one."""
        kinds = {"d": cls, "a": cls}
        return self._all(("d = mov.i32(a)", "d = mov.i64(a)", "d = mov.f64(a)", "d = a"), kinds)

    def add_immediate(self, cls: str) -> list[Match]:
        """`d = b + a` with `a` an immediate, within a register class: 32-bit, or an address in bytes."""
        patterns = ("d = add.i32(a, b)", "d = add.i32(b, a)", "d = add.i64(a, b)", "d = add.i64(b, a)")
        return self._all(patterns, {"a": "immediate", "b": cls, "d": cls})

    def subtract_immediate(self, cls: str) -> list[Match]:
        """`d = b - a` with `a` an immediate, within a register class."""
        return self._all(("d = sub.i32(b, a)", "d = sub.i64(b, a)"), {"a": "immediate", "b": cls, "d": cls})

    def address_add(self, cls: str) -> list[Match]:
        """`d = b + a` on addresses of class `cls`, `a` a scalar register that is sign-extended, or wide."""
        kinds = {"a": "scalar", "b": cls, "d": cls}
        ways = [f"d = add.i64({pair})" for a in ("sext(a, 32)", "a") for pair in (f"b, {a}", f"{a}, b")]
        return self._all(ways, kinds)

    def branch(self) -> Match | None:
        """The jump to a label `t`."""
        return next(iter(self.find("branch(t)", {"t": "label"})), None)

    def branch_register(self) -> Match | None:
        """The jump to the address in a register `t`."""
        return next(iter(self.find("branch(t)", {"t": ("scalar", "scalar_pair", "address")})), None)

    def load_constant(self, cls: str, value: int) -> list[tuple[Step, ...]]:
        """The ways to put the 32-bit `value` (either sign) into a register of `cls`, or into all lanes; best first."""
        signed = _signed(value, 32)
        single = [(step,) for step in self._one_step(cls, signed)]
        halves: list[tuple[Step, ...]] = []
        for match in self.find("d = set_high(d, x)", {"d": cls, "x": "immediate"}):
            high = self._step(match, "x", (signed >> 16) & 0xFFFF)
            for low in self._one_step(cls, _signed(value, 16)):
                if high is not None:
                    halves.append((low, high))
        return single + halves

    def _one_step(self, cls: str, value: int) -> list[Step]:
        steps: list[Step] = []
        kinds = {"d": cls, "x": "immediate"}
        for pattern in ("d = x", "d = mov.i32(x)", "d = bcast.i32(x)"):
            steps += [s for m in self.find(pattern, kinds) if (s := self._step(m, "x", value))]
        for bits in range(1, 33):
            if _signed(value, bits) == value:
                found = self.find(f"d = sext(x, {bits})", kinds)
                steps += [s for m in found if (s := self._step(m, "x", value))]
            if value == value & ((1 << bits) - 1):
                found = self.find(f"d = zext(x, {bits})", kinds)
                steps += [s for m in found if (s := self._step(m, "x", value))]
        return steps

    def _step(self, match: Match, name: str, value: int) -> Step | None:
        operand = match.operand(name)
        if operand.imm is None or not operand.imm[0] <= value <= operand.imm[1]:
            return None
        row = match.instruction
        fixed = {o.name: o.imm[0] for o in row.operands if o.kind == "immediate" and o.imm is not None}
        fixed[operand.name] = value
        return Step(row, tuple(fixed.get(o.name) for o in row.operands))

    def _all(self, patterns: Collection[str], kinds: Kinds) -> list[Match]:
        return [m for pattern in patterns for m in self.find(pattern, kinds)]


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _canonical(
    statements: tuple[SemStatement, ...], operands: set[str] | None, registers: Collection[str] = ()
) -> tuple[str, tuple[str, ...]]:
    """The statements with their names numbered in order of appearance, and those names.

    `operands` are the names to number; None: all but `registers`.
    """
    numbers: dict[str, int] = {}

    def text(expr: SemExpr) -> str:
        if expr.op == "int":
            return str(expr.value)
        if expr.op != "place":
            return f"{expr.op}.{expr.type}({','.join(text(a) for a in expr.args)})"
        if expr.name not in operands if operands is not None else expr.name in registers:
            return f"{expr.name}.{expr.part}"
        return f"${numbers.setdefault(expr.name, len(numbers))}.{expr.part}"

    parts = [f"{text(s.target) if s.target is not None else ''}={text(s.value)}" for s in statements]
    return ";".join(parts), tuple(numbers)


def remedy_without(op: str, elem: str, target: Target) -> str:
    """How to do without an operation that the machine lacks."""
    if "f64" in (elem, *op.split("_")) and not any(_on(row, "f64") for row in target.instructions):
        return f"{target.name} computes no doubles: use float, with constants like 1.5f and functions like sqrtf"
    if elem in _OPTIONAL and not any(_on(row, elem) for row in target.instructions):
        kinds = ", ".join(c for e, c in _C_TYPES if any(_on(row, e) for row in target.instructions))
        return f"{target.name} has no instructions on {elem}; its types are {kinds}"
    return "describe one in the ISA file, or add a rewrite row for it"


def is_unknown(elem: str, target: Target) -> bool:
    """Whether no row is on elements of a type that a machine may do without, nor on those of its counterpart with or
    without a sign."""
    alike = {elem, elem.replace("u", "i"), elem.replace("i", "u")}
    return elem in _OPTIONAL and not any(_on(row, e) for row in target.instructions for e in alike)


_OPTIONAL = ("i8", "u8", "i16", "u16", "i64", "f64")
_C_TYPES = (("i16", "short"), ("i32", "int"), ("f32", "float"))


def _on(row: Instruction, elem: str) -> bool:
    """Whether a row computes on an element type."""
    waiting = [statement.value for statement in row.semantics]
    while waiting:
        expr = waiting.pop()
        if expr.type == elem:
            return True
        waiting += expr.args
    return False
