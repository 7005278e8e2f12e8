"""Instructions that the scheduler makes up itself, found in the ISA file by what they do: constants, moves, address
arithmetic, counters and branches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dspgen.asmir.ir.function import Imm, Instr, Label, OperandValue, Phys, Predicate, Reg, VReg
from dspgen.errors import NoSchedule, Problem
from dspgen.sched.graph.predicated_branches import Conditions
from dspgen.sched.machine.reservation_table import Closing
from dspgen.sched.machine.target_facts import Facts
from dspgen.target.isa.model import Instruction, Operand, RegisterClass, SemExpr
from dspgen.target.query.hardware_loops import hardware_loops

_WRAPPERS = ("addr", "sext", "zext", "trunc", "mov")


@dataclass(frozen=True, slots=True)
class _Sum:
    """`result = base + amount` (or minus); the amount may be widened on the way."""

    instruction: Instruction
    result: Operand
    base: Operand
    amount: Operand
    sign: int
    unsigned: bool


@dataclass(frozen=True, slots=True)
class _Copy:
    """`result = source`, perhaps widened; `bits` is how many bits of the source count."""

    instruction: Instruction
    result: Operand
    source: Operand
    value: SemExpr


class Kit:
    """Makes instructions on registers of the given classes; names of temporaries are numbered in order of use."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.scalar = facts.target.abi.scalar_class
        self._bits = facts.classes[self.scalar].bits
        self._pair = next((c.name for c in facts.target.registers if c.pair_of == self.scalar), None)
        self._sums: list[_Sum] = []
        self._copies: list[_Copy] = []
        self._highs: list[_Copy] = []
        self._binary: dict[str, list[tuple[Instruction, Operand, Operand, Operand]]] = {}
        self._masks: list[tuple[Instruction, Operand, Operand, Operand]] = []
        self._branches: list[tuple[Instruction, Operand]] = []
        self._count = 0
        self.conditions = Conditions(facts)
        self.saved: set[str] = set()  # registers of the caller's that are on the stack meanwhile
        self.origins: dict[VReg, VReg] = {}  # of a register that holds one value of another: that other
        for instruction in sorted(facts.target.instructions, key=_preference):
            if instruction.compile:
                self._learn(instruction)
        self.loops = hardware_loops(facts.target)  # those for innermost loops, for loops round them, and so on
        self.closing = self._closing()

    def fresh(self, cls: str, hint: str = "s") -> VReg:
        self._count += 1
        return VReg(f"{hint}~{self._count}", cls)

    def version(self, register: VReg) -> VReg:
        """A new register for one of the values of `register`."""
        made = self.fresh(register.cls, register.name)
        self.origins[made] = self.origins.get(register, register)
        return made

    def constant(self, register: VReg, value: int) -> list[Instr]:
        """Put an integer into a scalar register (or pair)."""
        if self.facts.is_pair(register.cls):
            low, high = value & 0xFFFFFFFF, (value >> 32) & 0xFFFFFFFF
            return [*self._constant(Reg(register, "lo"), low), *self._constant(Reg(register, "hi"), high)]
        return self._constant(Reg(register), value)

    def _constant(self, register: Reg, value: int) -> list[Instr]:
        mask = (1 << min(self._bits, 32)) - 1
        cls = self._class(register)
        if (single := self._immediate(cls, value, mask)) is not None:
            copy, imm = single
            return [_make(copy.instruction, {copy.result.name: register, copy.source.name: Imm(imm)})]
        for high in self._highs:
            if cls not in high.result.classes or not _in_range((value >> 16) & 0xFFFF, high.source.imm):
                continue
            low = self._immediate(cls, value & 0xFFFF, 0xFFFF)
            if low is not None:
                copy, imm = low
                return [
                    _make(copy.instruction, {copy.result.name: register, copy.source.name: Imm(imm)}),
                    _make(
                        high.instruction,
                        {high.result.name: register, high.source.name: Imm((value >> 16) & 0xFFFF)},
                    ),
                ]
        raise self._missing(f"put the constant {value} into a register of class {cls}")

    def _immediate(self, cls: str, value: int, mask: int) -> tuple[_Copy, int] | None:
        """A move of an immediate that makes `value` on the bits of `mask`."""
        low = value & 0xFFFF
        signed = value & mask
        if signed > mask >> 1:
            signed -= mask + 1
        for copy in self._copies:
            if cls not in copy.result.classes:
                continue
            for imm in (signed, value & mask, low, low - 0x10000 if low > 0x7FFF else low):
                if _in_range(imm, copy.source.imm) and _evaluate(copy.value, imm) & mask == value & mask:
                    return copy, imm
        return None

    def move(self, target: VReg, source: VReg) -> list[Instr]:
        """Copy a register to another of its class, a pair by halves if need be."""
        for copy in self._copies:
            if target.cls in copy.result.classes and source.cls in copy.source.classes and _plain_copy(copy.value):
                return [_make(copy.instruction, {copy.result.name: Reg(target), copy.source.name: Reg(source)})]
        base = self.facts.classes[target.cls].pair_of
        if base is not None:
            for copy in self._copies:
                if base in copy.result.classes and base in copy.source.classes and _plain_copy(copy.value):
                    names = (copy.result.name, copy.source.name)
                    return [
                        _make(copy.instruction, {names[0]: Reg(target, "lo"), names[1]: Reg(source, "lo")}),
                        _make(copy.instruction, {names[0]: Reg(target, "hi"), names[1]: Reg(source, "hi")}),
                    ]
        raise self._missing(f"copy a register of class {target.cls}")

    def copied(self, instr: Instr) -> VReg | None:
        """The register that an instruction copies as it is, if that is what it does."""
        copy = next((c for c in self._copies if c.instruction.id == instr.instruction.id), None)
        if copy is None or not _plain_copy(copy.value):
            return None
        names = [o.name for o in instr.instruction.operands]
        source = instr.operands[names.index(copy.source.name)]
        return source.vreg if isinstance(source, Reg) and not source.part else None

    def filled(self, instr: Instr) -> tuple[VReg, VReg] | None:
        """The address register that an instruction fills from a scalar one, and that one, if that is what it does."""
        copy = next((c for c in self._copies if c.instruction.id == instr.instruction.id), None)
        if copy is None or instr.predicate is not None or any(e.op not in _WIDENINGS for e in _chain(copy.value)):
            return None
        named = {o.name: value for o, value in zip(instr.instruction.operands, instr.operands, strict=True)}
        to, source = named[copy.result.name], named[copy.source.name]
        if not isinstance(to, Reg) or not isinstance(source, Reg) or to.part or source.part:
            return None
        is_address = self.facts.classes[to.vreg.cls].kind == "address"
        return (to.vreg, source.vreg) if is_address and source.vreg.cls == self.scalar else None

    def shelter(self, name: str, room: Mapping[str, int]) -> tuple[Instr, Instr] | None:
        """Copy a physical register away and back, to the class with the most `room` that can hold it; or None."""
        cls = self.class_of(name)
        for other in sorted(room, key=lambda c: (-room[c], c)):
            out = next((c for c in self._copies if _copies(c, cls, other)), None)
            back = next((c for c in self._copies if _copies(c, other, cls)), None)
            if other != cls and room[other] > 0 and out is not None and back is not None:
                register = Reg(self.fresh(other, "kept"))
                return (
                    _make(out.instruction, {out.result.name: register, out.source.name: Phys(name)}),
                    _make(back.instruction, {back.result.name: Phys(name), back.source.name: register}),
                )
        return None

    def other_classes(self, cls: str) -> list[RegisterClass]:
        """The classes to which registers of an address class can be copied, and back, those first that are in use the
        least."""
        own = self.facts.classes[cls]
        if own.kind not in ("address", "offset"):
            return []
        others = [c for c in self.facts.target.registers if c.kind in (own.kind, "offset", "scalar") and c.name != cls]
        ways = [c for c in others if self._goes(cls, c.name) and self._goes(c.name, cls)]
        return sorted(ways, key=lambda c: (c.kind != "offset", c.side == own.side))

    def _goes(self, source: str, target: str) -> bool:
        return any(_copies(copy, source, target) for copy in self._copies)

    def room(self, cls: str) -> int:
        """Registers of a class that code may use, those of the caller's that can be kept elsewhere included."""
        facts = self.facts
        names = set(facts.classes[cls].names)
        others = {c.name: 1 for c in facts.target.registers if c.kind in ("address", "offset") and c.name != cls}
        kept = [n for n in sorted(names & facts.callers) if n in self.saved or self.shelter(n, others) is not None]
        return len(names - facts.untouchable) + len(kept)

    def unsaved(self, cls: str) -> list[str]:
        """The caller's registers of a class that only the stack can keep, and that are not saved there."""
        callers = [n for n in self.facts.classes[cls].names if n in self.facts.callers and n not in self.saved]
        others = {c.name: 1 for c in self.facts.target.registers if c.kind in ("address", "offset") and c.name != cls}
        return [n for n in callers if self.shelter(n, others) is None]

    def add(self, target: VReg, source: VReg | Phys, amount: int) -> list[Instr]:
        """`target = source + amount` for scalar and address registers (bytes)."""
        if amount == 0 and isinstance(source, VReg):
            return self.move(target, source)
        source_class = source.cls if isinstance(source, VReg) else self.class_of(source.name)
        base: OperandValue = Reg(source) if isinstance(source, VReg) else source
        return self._add(Reg(target), target.cls, base, source_class, amount)

    def add_physical(self, name: str, amount: int) -> list[Instr]:
        """Move a stack pointer by `amount` bytes."""
        cls = self.class_of(name)
        return self._add(Phys(name), cls, Phys(name), cls, amount)

    def align(self, name: str, alignment: int) -> list[Instr]:
        """Round a stack pointer down to a multiple of `alignment`."""
        cls = self.class_of(name)
        for instruction, result, base, amount in self._masks:
            if cls in result.classes and cls in base.classes and _in_range(-alignment, amount.imm):
                values: dict[str, OperandValue] = {result.name: Phys(name), base.name: Phys(name)}
                return [_make(instruction, {**values, amount.name: Imm(-alignment)})]
        raise self._missing(f"round the stack pointer {name} down to a multiple of {alignment} bytes")

    def _add(
        self, result: OperandValue, result_class: str, base: OperandValue, base_class: str, amount: int
    ) -> list[Instr]:
        fitting = [s for s in self._sums if result_class in s.result.classes and base_class in s.base.classes]
        for form in fitting:
            if _in_range(form.sign * amount, form.amount.imm):
                return [_sum(form, result, base, Imm(form.sign * amount))]
        for form in fitting:
            value = form.sign * amount
            if form.unsigned and value < 0:
                continue
            for cls in (self.scalar, self._pair):
                if cls is not None and cls in form.amount.classes:
                    register = self.fresh(cls)
                    return [*self.constant(register, value), _sum(form, result, base, Reg(register))]
        raise self._missing(f"add {amount} to a register of class {base_class}")

    def offset_constant(self, register: VReg, value: int) -> list[Instr]:
        """Put an integer into an address or offset register."""
        for copy in self._copies:
            if register.cls not in copy.result.classes:
                continue
            if _in_range(value, copy.source.imm) and _evaluate(copy.value, value) == value:
                return [_make(copy.instruction, {copy.result.name: Reg(register), copy.source.name: Imm(value)})]
            for cls in (self.scalar, self._pair):
                if cls is None or cls not in copy.source.classes:
                    continue
                if value < 0 and (_has(copy.value, "zext") or self.facts.classes[cls].bits < 64):
                    continue
                source = self.fresh(cls)
                make = _make(copy.instruction, {copy.result.name: Reg(register), copy.source.name: Reg(source)})
                return [*self.constant(source, value), make]
        raise self._missing(f"put the constant {value} into a register of class {register.cls}")

    def binary(self, op: str, target: VReg, first: VReg | int, second: VReg | int) -> list[Instr]:
        """`target = op(first, second)` on 32-bit scalars; an integer becomes an immediate where one fits."""
        for instruction, result, a, b in self._binary.get(op, ()):
            if target.cls not in result.classes:
                continue
            values: dict[str, OperandValue] = {result.name: Reg(target)}
            before: list[Instr] = []
            for operand, value in ((a, first), (b, second)):
                if isinstance(value, VReg):
                    if value.cls not in operand.classes:
                        break
                    values[operand.name] = Reg(value)
                elif _in_range(value, operand.imm):
                    values[operand.name] = Imm(value)
                elif self.scalar in operand.classes:
                    register = self.fresh(self.scalar)
                    before += self.constant(register, value)
                    values[operand.name] = Reg(register)
                else:
                    break
            else:
                return [*before, _make(instruction, values)]
        raise self._missing(f"compute `{op}` on scalars")

    def exceeds(self, target: VReg, trip: VReg, number: int) -> list[Instr]:
        """`target` is not zero where a trip, of which there are 0 or more, is above a number of the same kind."""
        try:
            return self.binary("lt", target, number, trip)
        except NoSchedule:
            least, below = self.fresh(self.scalar), self.fresh(self.scalar)
            return [
                *self.constant(least, number),
                *self.binary("sub", below, least, trip),
                *self.binary("shru", target, below, self._bits - 1),
            ]

    def when(self, condition: VReg, instrs: list[Instr]) -> list[Instr]:
        """The same instructions done only where `condition` is not zero."""
        if any(i.instruction.predicable != "scalar" for i in instrs):
            raise self._missing("do this under a predicate")
        return [replace(i, predicate=Predicate(condition)) for i in instrs]

    def branch(self, label: str, predicate: Predicate | None = None) -> Instr:
        for instruction, operand in self._branches:
            if operand.kind == "label" and (predicate is None or instruction.predicable == "scalar"):
                return Instr(instruction, (Label(label),), predicate)
        raise self._missing("branch to a label")

    def begin_loop(self, height: int, label: str, times: int | VReg) -> list[Instr]:
        """Have the hardware run what begins at `label` so many times; `height` as for `loops`."""
        forms = self.loops[height].beginnings
        for form in forms:
            if isinstance(times, int) and form.times.imm is not None and _in_range(times, form.times.imm):
                values: dict[str, OperandValue] = {form.label.name: Label(label), form.times.name: Imm(times)}
                return [_make(form.instruction, values)]
        for form in forms:
            if self.scalar in form.times.classes:
                register = times if isinstance(times, VReg) else self.fresh(self.scalar)
                before = [] if isinstance(times, VReg) else self.constant(register, times)
                values = {form.label.name: Label(label), form.times.name: Reg(register)}
                return [*before, _make(form.instruction, values)]
        raise self._missing(f"begin a hardware loop of {times} iterations")

    def end_loop(self, height: int) -> Instr:
        """What ends the iterations of such a loop."""
        return Instr(self.loops[height].end, ())

    def _closing(self) -> Closing:
        """A loop's branch and the step of its counter, on machines whose packets limit what goes beside a branch."""
        if self.loops:
            return ()
        counter = VReg("count", self.scalar)
        try:
            branch = self.branch("", Predicate(counter)).instruction
            step = self.add(counter, counter, -1)[0].instruction
        except NoSchedule:
            return ()
        reservation = self.facts.reservation(branch)
        if not any(reservation.units & group for group, _ in self.facts.limits.groups):
            return ()
        return (0, reservation), (max(step.latency, 1), self.facts.reservation(step))

    def branch_register(self, name: str) -> Instr:
        cls = self.class_of(name)
        for instruction, operand in self._branches:
            if operand.kind == "register" and cls in operand.classes:
                return Instr(instruction, (Phys(name),))
        raise self._missing("return through a register")

    def class_of(self, name: str) -> str:
        """A stack pointer is an address, also where it is one of the scalars, too."""
        target = self.facts.target
        stacks = [target.abi.scalar_stack, target.abi.vector_stack]
        found = [c for c in target.registers if name in c.names]
        if not found:
            raise self._missing(f"use the register {name}")
        return next((c.name for c in found if c.kind == "address" and name in stacks), found[0].name)

    def _class(self, register: Reg) -> str:
        base = self.facts.classes[register.vreg.cls].pair_of
        return base if register.part and base is not None else register.vreg.cls

    def _missing(self, what: str) -> NoSchedule:
        name = self.facts.target.name
        return NoSchedule(
            Problem("DG302", f"{name} has no instruction to {what}", None, "describe one in the ISA file")
        )

    def _learn(self, instruction: Instruction) -> None:
        if instruction.memory is not None or len(instruction.semantics) != 1:
            return
        operands = {o.name: o for o in instruction.operands}
        target, value = instruction.semantics[0].target, instruction.semantics[0].value
        if value.op == "branch" and len(instruction.operands) == 1:
            self._branches.append((instruction, instruction.operands[0]))
            return
        if target is None or target.part or target.name not in operands:
            return
        result = operands[target.name]
        inner = _peel(value)
        if inner.op == "place" and not inner.part and inner.name in operands and len(operands) == 2:
            self._copies.append(_Copy(instruction, result, operands[inner.name], value))
        elif value.op == "set_high" and len(value.args) == 2 and value.args[0].name == target.name:
            amount = _peel(value.args[1])
            if amount.name in operands and result.read:
                self._highs.append(_Copy(instruction, result, operands[amount.name], value))
        elif len(value.args) == 2 and len(operands) == 3 and not result.read:
            names = [_peel(a) for a in value.args]
            if any(n.op != "place" or n.part or n.name not in operands for n in names):
                return
            a, b = operands[names[0].name], operands[names[1].name]
            if value.type in ("i32", "i64") and value.op in ("add", "sub"):
                unsigned = _has(value.args[1], "zext")
                sign = 1 if value.op == "add" else -1
                self._sums.append(_Sum(instruction, result, a, b, sign, unsigned))
                if value.op == "add":
                    self._sums.append(_Sum(instruction, result, b, a, 1, _has(value.args[0], "zext")))
            if value.op == "and" and b.imm is not None:
                self._masks.append((instruction, result, a, b))
            if value.type == "i32":
                self._binary.setdefault(value.op, []).append((instruction, result, a, b))


def _preference(instruction: Instruction) -> tuple[int, int, int, str]:
    return (instruction.latency, instruction.busy, -len(instruction.units), instruction.id)


def _make(instruction: Instruction, values: dict[str, OperandValue]) -> Instr:
    return Instr(instruction, tuple(values[o.name] for o in instruction.operands))


def _sum(form: _Sum, result: OperandValue, base: OperandValue, amount: OperandValue) -> Instr:
    return _make(form.instruction, {form.result.name: result, form.base.name: base, form.amount.name: amount})


def _in_range(value: int, imm: tuple[int, int] | None) -> bool:
    return imm is not None and imm[0] <= value <= imm[1]


def _peel(expr: SemExpr) -> SemExpr:
    while expr.op in _WRAPPERS and expr.args:
        expr = expr.args[0]
    return expr


def _has(expr: SemExpr, op: str) -> bool:
    return any(e.op == op for e in _chain(expr))


def _chain(expr: SemExpr) -> Iterator[SemExpr]:
    yield expr
    while expr.op in _WRAPPERS and expr.args:
        expr = expr.args[0]
        yield expr


def _copies(copy: _Copy, source: str, target: str) -> bool:
    return source in copy.source.classes and target in copy.result.classes and _plain_copy(copy.value)


_WIDENINGS = ("mov", "place", "addr", "sext", "zext")


def _plain_copy(expr: SemExpr) -> bool:
    return all(e.op in ("mov", "place") for e in _chain(expr))


def _evaluate(expr: SemExpr, value: int) -> int:
    """A chain of widenings applied to an immediate."""
    match expr.op:
        case "sext" | "zext":
            inner, bits = _evaluate(expr.args[0], value), expr.args[1].value
            low = inner & ((1 << bits) - 1)
            return low - (1 << bits) if expr.op == "sext" and low >> (bits - 1) else low
        case "trunc":
            return _evaluate(expr.args[0], value) & 0xFFFFFFFF
        case "mov" | "addr":
            return _evaluate(expr.args[0], value)
        case _:
            return value
