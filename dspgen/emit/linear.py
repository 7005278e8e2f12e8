"""Linear assembly text: an `asmir` Function before units, packets and registers are chosen.

    .global f / .input hi:lo, n / .gen_var ... / .add_var ... / statements / .size f, .-f

Pairs are written `high:low`, each half a variable of its own. What an `asmir` Loop leaves to the scheduler stands here
as instructions: the counter, its branch, and the advance of each address stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dspgen.asmir.ir.function import (
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
    Predicate,
    Reg,
    Stream,
    VReg,
)
from dspgen.emit.text import format_operand, format_predicate
from dspgen.sched.ir.packets import Address
from dspgen.target.isa.model import Instruction, Operand, Target
from dspgen.target.query.instructions import Index, Match, Step

_INDENT = 8
_LIST_WIDTH = 100


def emit_linear(function: Function, target: Target) -> str:
    """The whole `.sa` file of a function."""
    return _Printer(function.entered, target).text()


class _Printer:
    def __init__(self, function: Function, target: Target) -> None:
        self.function = function
        self.target = target
        self.index = Index(target)
        self.names: dict[VReg, str] = {}
        self.taken = {name for cls in target.registers for name in cls.names}
        self.labels = 0

    def text(self) -> str:
        body = list(self._items(self.function.body))
        head = [self.target.text.global_directive.replace("{name}", self.function.name)]
        head += self._list(".input", [self._whole(v) for v, _ in self.function.inputs])
        arguments = {v for v, _ in self.function.inputs}
        variables = [v for v in self.names if v not in arguments]
        for directive, kinds in ((".gen_var", ("scalar", "vector")), (".add_var", ("address", "offset"))):
            listed = [v for v in variables if self.target.register_class(v.cls).kind in kinds]
            head += self._list(directive, [self._whole(v) for v in listed])
        notes = [f"{self.target.text.comment} {note}" for note in self.function.notes]
        tail = self.target.text.size_directive.replace("{name}", self.function.name)
        return "\n".join([*notes, *head, "", *body, *([tail] if tail else [])]) + "\n"

    def _list(self, directive: str, names: Sequence[str]) -> list[str]:
        lines: list[str] = []
        for name in names:
            if lines and len(lines[-1]) + len(name) + 2 <= _LIST_WIDTH:
                lines[-1] += f", {name}"
            else:
                lines.append(f"{directive} {name}")
        return lines

    def _items(self, items: Iterable[Item]) -> Iterator[str]:
        for item in items:
            match item:
                case Instr():
                    yield from self._statement(item)
                case Loop():
                    yield from self._loop(item)
                case Mark(name):
                    yield f"{name}:"
                case Jump(branch):
                    yield self._instr(branch)
                case If(condition, then, otherwise):
                    yield from self._skip_unless(condition, list(self._items(then)), list(self._items(otherwise)))

    def _statement(self, item: Instr) -> Iterator[str]:
        """An instruction; a place between two units of its access gets an address variable of its own."""
        scale = item.instruction.memory.scale if item.instruction.memory is not None else 1
        operands = list(item.operands)
        for k, value in enumerate(operands):
            if isinstance(value, Mem) and isinstance(value.base, VReg) and (rest := value.offset % scale):
                apart = VReg(f"{value.base.name}.{rest}", value.base.cls)
                yield from self._sum(apart, value.base, rest)
                operands[k] = replace(value, base=apart, offset=value.offset - rest)
        yield self._instr(replace(item, operands=tuple(operands)))

    def _loop(self, loop: Loop) -> Iterator[str]:
        counter = VReg(f"count.{loop.label}", self.target.abi.scalar_class)
        if isinstance(loop.trip, int):
            yield from self._constant(counter, loop.trip)
        else:
            counter = VReg(counter.name, loop.trip.cls)
            yield from self._best(self.index.move(counter.cls), d=Reg(counter), a=Reg(loop.trip))
        body = list(self._loop_body(loop, counter))
        if isinstance(loop.trip, VReg) and loop.min_trip == 0:
            yield from self._skip_unless(loop.trip, body)
        else:
            yield from body

    def _loop_body(self, loop: Loop, counter: VReg) -> Iterator[str]:
        where = f"  {self.target.text.comment} line {loop.loc.line}" if loop.loc is not None else ""
        label = loop.label if loop.label.startswith(".") else f".{loop.label}"
        yield f"{label}: .loop{where}"
        yield from self._items(loop.body)
        for stream in loop.streams:
            yield from self._advance(stream)
        yield from self._sum(counter, counter, -1)
        yield from self._branch(label, Predicate(counter))
        yield " " * _INDENT + ".endloop"

    def _skip_unless(self, condition: VReg, body: list[str], otherwise: Sequence[str] = ()) -> Iterator[str]:
        self.labels += 1
        label = f".skip_{self.labels}"
        yield from self._branch(label, Predicate(condition, negated=True))
        yield from body
        if otherwise:
            yield from self._branch(f"{label}_end", None)
            yield f"{label}:"
            yield from otherwise
            label = f"{label}_end"
        yield f"{label}:"

    def _advance(self, stream: Stream) -> Iterator[str]:
        if stream.step:
            yield from self._sum(stream.base, stream.base, stream.step)

    def _sum(self, result: VReg, register: VReg, amount: int) -> Iterator[str]:
        """`result = register + amount`: by an immediate where one reaches, else through a scalar variable, else by
        several immediates."""
        forms = [(m, 1) for m in self.index.add_immediate(register.cls)]
        forms += [(m, -1) for m in self.index.subtract_immediate(register.cls)]
        ways = self.index.address_add(register.cls) or self.index.find("d = add.i32(a, b)", {"d": register.cls})
        left, source = amount, register
        while left or source != result:
            nearest = _nearest(forms, left)
            if nearest is None:
                break
            match, value, rest = nearest
            if rest and (ways or abs(rest) >= abs(left)):
                break
            yield self._bound(match, a=Imm(value), b=Reg(source), d=Reg(result))
            left, source = rest, result
        else:
            return
        step = VReg(f"step.{register.name}", self.target.abi.scalar_class)
        yield from self._constant(step, left)
        yield from self._best(ways, a=Reg(step), b=Reg(source), d=Reg(result))

    def _constant(self, register: VReg, value: int) -> Iterator[str]:
        for steps in self.index.load_constant(register.cls, value)[:1]:
            yield from (self._step(step, register) for step in steps)

    def _step(self, step: Step, register: VReg) -> str:
        values = [Reg(register) if value is None else Imm(value) for value in step.operands]
        return self._line(step.instruction, values)

    def _branch(self, label: str, predicate: Predicate | None) -> Iterator[str]:
        match = self.index.branch()
        if match is not None:  # else the machine's loops are its hardware's, and .endloop says it all
            yield self._line(match.instruction, [Label(label)], predicate)

    def _best(self, matches: Sequence[Match], **values: OperandValue) -> Iterator[str]:
        for match in matches[:1]:
            yield self._bound(match, **values)

    def _bound(self, match: Match, **values: OperandValue) -> str:
        by_operand = {match.binding[name]: value for name, value in values.items()}
        return self._line(match.instruction, [by_operand[o.name] for o in match.instruction.operands])

    def _instr(self, item: Instr) -> str:
        text = self._line(item.instruction, item.operands, item.predicate)
        words = [f"line {item.loc.line}"] if item.loc is not None else []
        words += [item.comment] if item.comment else []
        return f"{text}  {self.target.text.comment} {', '.join(words)}" if words else text

    def _line(
        self, instruction: Instruction, values: Sequence[OperandValue], predicate: Predicate | None = None
    ) -> str:
        condition = ""
        if predicate is not None:
            condition = format_predicate(self._name(predicate.register), predicate.negated, self.target)
        operands = [
            self._operand(value, operand, instruction)
            for value, operand in zip(values, instruction.operands, strict=True)
        ]
        return f"{' ' * _INDENT}{condition}{instruction.mnemonic} {', '.join(operands)}".rstrip()

    def _operand(self, value: OperandValue, operand: Operand, instruction: Instruction) -> str:
        match value:
            case Reg(vreg, ""):
                return self._whole(vreg)
            case Reg(vreg, part):
                return f"{self._name(vreg)}_{1 if part == 'hi' else 0}"
            case Phys(name) | Label(name):
                return name
            case Imm(number):
                return format_operand(number, operand, self.target)
            case Mem(base, offset):
                return self._address(base, offset, instruction)
            case Place(base, mode, offset):
                amount = self._name(offset) if isinstance(offset, VReg) else offset
                text = base.name if isinstance(base, Phys) else self._name(base)
                return format_operand(Address(text, mode, amount), operand, self.target)

    def _address(self, base: VReg | Phys, offset: int, instruction: Instruction) -> str:
        name = base.name if isinstance(base, Phys) else self._name(base)
        scale = instruction.memory.scale if instruction.memory is not None else 1
        if offset == 0:
            return f"*{name}"
        return f"*{'+' if offset > 0 else '-'}{name}[{abs(offset) // scale}]"

    def _whole(self, vreg: VReg) -> str:
        name = self._name(vreg)
        return name if self.target.register_class(vreg.cls).pair_of is None else f"{name}_1:{name}_0"

    def _name(self, vreg: VReg) -> str:
        """A name that the text can hold: letters, digits and `_`, not a register's, no other variable's."""
        if vreg not in self.names:
            plain = "".join(c if c.isalnum() else "_" for c in vreg.name)
            plain = plain if plain[:1].isalpha() else f"v{plain}"
            tried, k = plain, 1
            while not self.taken.isdisjoint({tried, f"{tried}_0", f"{tried}_1"}):
                k += 1
                tried = f"{plain}_v{k}"
            self.names[vreg] = tried
            self.taken |= {tried, f"{tried}_0", f"{tried}_1"}
        return self.names[vreg]


def _nearest(forms: Sequence[tuple[Match, int]], amount: int) -> tuple[Match, int, int] | None:
    """Of sums (1) and differences (-1) with an immediate the one that comes nearest to `amount`: its immediate, and
    what is left."""
    best: tuple[Match, int, int] | None = None
    for match, sign in forms:
        low, high = match.operand("a").imm or (0, 0)
        value = min(max(sign * amount, low), high)
        rest = amount - sign * value
        if best is None or abs(rest) < abs(best[2]):
            best = (match, value, rest)
    return best
