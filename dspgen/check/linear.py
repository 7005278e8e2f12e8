"""Reads linear text for the checker: each instruction on registers that are the text's variables.

The text promises an order and nothing more: no units, no packets, no register is another's. A variable's kind (scalar,
vector, address) follows from its uses; pairs are any two variables, written `high:low`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from dspgen.errors import Problem, SourceError
from dspgen.sched.ir.packets import Address, Placed
from dspgen.sim.ir.program import Cell, Op
from dspgen.sim.ir.registers import Place, RegisterFile
from dspgen.sim.ir.symbols import literal_value
from dspgen.sim.lowering.lower_instructions import lower_one
from dspgen.sim.text.statements import Line, Reader, Token
from dspgen.target.isa.model import Instruction, Operand, RegisterClass, Target
from dspgen.target.query.forwarding import new_operand
from dspgen.target.query.hardware_loops import started_by

Kind = tuple[str, int]  # a register class's kind and bits; offsets are addresses
LISTS = (".input", ".output", ".gen_var", ".add_var")


@dataclass(frozen=True, slots=True)
class LinearCode:
    """`ops` in order, branches as places in it; `inputs` and `outputs` are cells, a pair's low one first."""

    ops: tuple[Op, ...]
    cells: tuple[Cell, ...]
    mask: int | None
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]


class _Variables(RegisterFile):
    """The target's registers, and a cell for each variable."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.own: dict[str, int] = {}

    def add(self, name: str, cls: RegisterClass) -> None:
        like = self.cells[self._own[cls.name][0]]
        self.own[name] = len(self.cells)
        self.cells.append(replace(like, index=self.own[name], name=name))

    def place(self, name: str, classes: tuple[str, ...] | None = None) -> Place | None:
        parts = name.split(":")
        if all(part in self.own for part in parts):
            return Place(self.target.registers[0], tuple(self.own[part] for part in reversed(parts)))
        return super().place(name, classes)


@dataclass(slots=True)
class _Linear:
    target: Target
    file: str
    lists: dict[str, list[str]] = field(default_factory=lambda: {word: [] for word in LISTS})
    lines: list[Line] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    forms: list[list[Instruction]] = field(default_factory=list)
    kinds: dict[str, set[Kind]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def read(self, text: str) -> None:
        nop = self.target.text.nop.split()[:1]
        reader = Reader(self.target, self.file, frozenset([*(i.mnemonic for i in self.target.instructions), *nop]))
        for line in reader.lines(text):
            if line.kind == "label":
                self.labels[line.word] = len(self.lines)
            elif line.kind == "directive":
                if line.word in self.lists:
                    self.lists[line.word] += [n.replace(" ", "") for n in line.rest.split(",") if n.strip()]
            elif line.word not in nop:
                self.lines.append(line)
        self.problems += reader.problems

    def variables(self) -> dict[str, set[Kind]]:
        """Each variable with the kinds that its declaration allows."""
        known: dict[str, set[Kind]] = {}
        kinds = {_kind(c) for c in self.target.registers if c.pair_of is None}
        general = {k for k in kinds if k[0] in ("scalar", "vector")}
        address = {k for k in kinds if k[0] == "address"}
        for word, allowed in ((".input", general), (".gen_var", general), (".add_var", address)):
            for name in self.lists[word]:
                for part in name.split(":"):
                    known[part] = set(allowed)
        return known

    def resolve(self) -> None:
        """A form for each instruction and a kind for each variable, by their uses, to a fixed point."""
        self.kinds = self.variables()
        rows: dict[str, list[Instruction]] = {}
        for row in self.target.instructions:
            # Hardware loops, and what comes from its own packet, are the scheduler's.
            if not started_by(row) and not row.packet_end and new_operand(row) is None:
                rows.setdefault(row.mnemonic, []).append(row)
        self.forms = [list(rows.get(line.word, ())) for line in self.lines]
        changed = True
        while changed and not self.problems:
            changed = False
            for k, line in enumerate(self.lines):
                changed |= self._narrow(k, line)

    def _narrow(self, k: int, line: Line) -> bool:
        fitting = [(form, uses) for form in self.forms[k] if (uses := self._uses(form, line)) is not None]
        if not fitting:
            self.problems.append(Problem("DG457", f"no form of {line.word} takes these operands", line.loc))
            return False
        changed = len(fitting) != len(self.forms[k])
        self.forms[k] = [form for form, _ in fitting]
        for name in fitting[0][1]:
            allowed = set().union(*(uses[name] for _, uses in fitting))
            if not self.kinds[name] <= allowed:
                self.kinds[name] &= allowed
                changed = True
        return changed

    def _uses(self, form: Instruction, line: Line) -> dict[str, set[Kind]] | None:
        """The kinds that the form gives each variable of the line; None where it doesn't fit."""
        if len(form.operands) != len(line.operands):
            return None
        found: dict[str, set[Kind]] = {}
        for operand, token in zip(form.operands, line.operands, strict=True):
            if not self._operand(operand, token, found):
                return None
        if line.predicate is not None and line.predicate in self.kinds:
            wanted = "vector" if form.predicable == "lane" else "scalar"
            _meet(found, line.predicate, {k for k in self.kinds[line.predicate] if k[0] == wanted})
        return found if all(kinds & self.kinds[name] for name, kinds in found.items()) else None

    def _operand(self, operand: Operand, token: Token, found: dict[str, set[Kind]]) -> bool:
        classes = [self.target.register_class(c) for c in operand.classes]
        match token.kind:
            case "int":
                value = literal_value(operand, token.value, hexadecimal=token.hexadecimal)
                return operand.imm is not None and (bool(operand.literal) or operand.imm[0] <= value <= operand.imm[1])
            case "memory":
                assert token.address is not None
                for name in (token.address.base, token.address.offset):
                    if isinstance(name, str) and name in self.kinds:
                        _meet(found, name, {k for k in self.kinds[name] if k[0] == "address"})
                return operand.kind == "memory"
            case "name":
                parts = token.text.split(":")
                if operand.kind == "label":
                    return token.text in self.labels
                if not all(part in self.kinds for part in parts):
                    return any(token.text in c.names for c in classes)
                bases = [c.pair_of for c in classes if c.pair_of is not None]
                fitting = [self.target.register_class(b) for b in bases] if len(parts) == 2 else []
                fitting = fitting or [c for c in classes if c.pair_of is None and len(parts) == 1]
                for part in parts:
                    _meet(found, part, {_kind(c) for c in fitting})
                return bool(fitting)
        return False

    def code(self) -> LinearCode:
        registers = _Variables(self.target)
        lanes = []
        for name, kinds in self.kinds.items():
            kind = min(kinds) if kinds else ("scalar", 0)
            cls = next(c for c in self.target.registers if c.pair_of is None and _kind(c) == kind)
            registers.add(name, cls)
            lanes += [name] if kind[0] == "vector" else []
        predicates = replace(self.target.predicates, lane=(*self.target.predicates.lane, *lanes))
        target = replace(self.target, predicates=predicates)
        ops = []
        for k, (line, forms) in enumerate(zip(self.lines, self.forms, strict=True)):
            placed = Placed(forms[0], forms[0].units[0], self._values(forms[0], line), line.predicate, line.negated)
            ops.append(lower_one(replace(placed, loc=line.loc), k, target, registers, self.labels))
        mask = registers.cell_of(target.mask_register) if target.mask_register else None
        inputs, outputs = (
            tuple(tuple(registers.own[p] for p in reversed(n.split(":")) if p in registers.own) for n in self.lists[w])
            for w in (".input", ".output")
        )
        return LinearCode(tuple(ops), tuple(registers.cells), mask, inputs, outputs)

    def _values(self, form: Instruction, line: Line) -> tuple[str | int | Address, ...]:
        values: list[str | int | Address] = []
        for operand, token in zip(form.operands, line.operands, strict=True):
            if token.kind == "int":
                values.append(literal_value(operand, token.value, hexadecimal=token.hexadecimal))
            elif token.kind == "memory" and token.address is not None:
                values.append(token.address)
            else:
                values.append(f"@{token.text}" if operand.kind == "label" else token.text)
        return tuple(values)


def read_linear(text: str, target: Target, file: str = "<linear>") -> LinearCode:
    """Raises SourceError (DG457) for text whose instructions the ISA file doesn't have."""
    linear = _Linear(target, file)
    linear.read(text)
    linear.resolve()
    if linear.problems:
        raise SourceError(*linear.problems)
    return linear.code()


def _kind(cls: RegisterClass) -> Kind:
    return ("address" if cls.kind == "offset" else cls.kind, cls.bits)


def _meet(found: dict[str, set[Kind]], name: str, kinds: Iterable[Kind]) -> None:
    found[name] = found[name] & set(kinds) if name in found else set(kinds)
