"""From classified statements to flat code: instructions on virtual registers, marks and jumps.

A variable of a pair is a half of one register of the pair's class, so each half can be read and written by itself.
Where the text pairs a variable with another than its own partner, the pair is put together before the instruction and
taken apart after it. The return is a jump to the end, where results go to their register.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from dspgen.asmir.ir.function import (
    ArgumentPlace,
    Imm,
    Instr,
    Jump,
    Label,
    Mark,
    OperandValue,
    Phys,
    Place,
    Predicate,
    Reg,
    VReg,
)
from dspgen.errors import Problem, SourceError
from dspgen.lasm.ir import Group, Program
from dspgen.lasm.row_inference import Classes, Use
from dspgen.sim.ir.symbols import literal_value
from dspgen.sim.text.statements import Token
from dspgen.target.isa.model import Instruction, Operand, Target
from dspgen.target.query.forwarding import new_operand
from dspgen.target.query.hardware_loops import registers_of_end, started_by
from dspgen.target.query.instructions import Index
from plant_core.support.location import Loc

_WORD = 4

Code = list[Instr | Mark | Jump]
Part = Literal["lo", "hi"]


class Builder:
    """`code` is the function's flat code, `inputs` the variables that arrive in registers.

    `arguments` are the inputs as (register, name) in the machine's and the program's words; `places`: where labels are;
    `stack_used`: it names a stack pointer, so it may keep things below it.
    """

    def __init__(self, program: Program, classes: Classes, target: Target) -> None:
        self.program, self.classes, self.target = program, classes, target
        self.index = Index(target)
        self.code: Code = []
        self.inputs: list[tuple[VReg, ArgumentPlace]] = []
        self.problems: list[Problem] = []
        self.halves: dict[str, tuple[VReg, Part]] = {}
        self.end = f"{program.name}_end"
        self.places: dict[str, Loc] = {}
        self.arguments: list[tuple[str, str]] = []
        self.stack_used = False
        self._count = 0
        self._pair_class = {c.pair_of: c.name for c in target.registers if c.pair_of is not None}
        self._masked = False
        self._make_pairs()

    def run(self) -> None:
        self._masked = self._writes_mask()
        self._arrive()
        labels = {s.word for s in self.program.statements if s.kind == "label"}
        while self.end in labels:
            self.end += "_"
        for k, statement in enumerate(self.program.statements):
            if statement.kind == "label":
                self.code.append(Mark(statement.word))
                self.places[statement.word] = statement.loc
            elif statement.kind == "return":
                self._leave(statement.loc)
            elif (use := self.classes.uses.get(k)) is not None:
                self._instruction(use)
        if any(isinstance(c, Jump) and c.target == self.end for c in self.code):
            self.code.append(Mark(self.end))
        self._results()
        if self.problems:
            raise SourceError(*self.problems)

    def fresh(self, cls: str, hint: str) -> VReg:
        self._count += 1
        return VReg(f"{hint}~{self._count}", cls)

    def register(self, name: str) -> Reg:
        """Where a variable is."""
        if name in self.halves:
            vreg, part = self.halves[name]
            return Reg(vreg, part)
        return Reg(VReg(name, self.classes.of[name]))

    def move(self, to: Reg | Phys, source: Reg | Phys, cls: str, loc: Loc) -> list[Instr]:
        """Copy a single register of a class."""
        for match in self.index.move(cls)[:1]:
            values = {match.binding["d"]: to, match.binding["a"]: source}
            row = match.instruction
            return [Instr(row, tuple(values[o.name] for o in row.operands), loc=loc, masked=self._is_masked(row))]
        problem = Problem("DG302", f"{self.target.name} has no instruction to copy a register of class {cls}", loc)
        raise SourceError(problem)

    # -- pairs

    def _make_pairs(self) -> None:
        """The first partner that the text gives a variable is its own; inputs' come first, then the declared ones."""
        inputs = [g for g in self.program.inputs if len(g.names) == 2]
        for group in (*inputs, *self.program.pairs):
            self._pair(group.names[0], group.names[1])
        for use in self.classes.uses.values():
            for operand, token in zip(use.row.operands, use.line.operands, strict=True):
                names = token.text.split(":") if token.kind == "name" else []
                if len(names) == 2:
                    self._pair(names[0], names[1])
                elif operand.pair_text == "low" and len(names) == 1 and names[0] in self.classes.of:
                    self._pair("", names[0])

    def _pair(self, high: str, low: str) -> None:
        cls = self.classes.of.get(low)
        if cls not in self._pair_class or high == low or high in self.halves or low in self.halves:
            return
        if high and self.classes.of.get(high, cls) != cls:
            return
        vreg = VReg(f"{high}:{low}", self._pair_class[cls])
        self.halves[low] = (vreg, "lo")
        if high:
            self.halves[high] = (vreg, "hi")

    def _whole(self, high: str, low: str) -> VReg | None:
        """The register of a pair, if the two are partners."""
        first, second = self.halves.get(high), self.halves.get(low)
        if first is None or second is None or first[0] != second[0] or (first[1], second[1]) != ("hi", "lo"):
            return None
        return first[0]

    # -- the ends of the function

    def _arrive(self) -> None:
        abi = self.target.abi
        inputs = self.program.inputs
        found = abi.places([len(group.names) == 2 for group in inputs])
        if None in found:
            what = f"{len(inputs)} inputs; arguments come in {len(abi.arguments)} registers"
            self.problems.append(Problem("DG346", what, inputs[len(abi.arguments)].loc))
        results = self._result_names() if self.program.outputs else ()
        for group, place in zip(inputs, found, strict=True):
            if isinstance(place, int):
                self._arrive_on_stack(group, place)
            if not isinstance(place, str):
                continue
            names = [n for n in reversed(group.names)]
            places = self._argument(place, len(names), group)
            self.arguments.append((self._register_text(places), ":".join(group.names)))
            if any(n not in self.classes.of for n in names):
                continue
            whole = self._whole(*group.names) if len(names) == 2 else None
            if whole is not None and not set(places) & set(results):
                self.inputs.append((whole, self._register_text(places)))
                continue
            for name, single in zip(names, places, strict=True):
                self._arrive_single(name, single, single in results, group.loc)

    def _arrive_on_stack(self, group: Group, place: int) -> None:
        self.arguments.append((f"stack+{place}", ":".join(group.names)))
        for k, name in enumerate(reversed(group.names)):
            if name in self.classes.of:
                register, cls = self.register(name), self.classes.of[name]
                arrived = VReg(f"{name}~in", cls) if register.part else register.vreg
                self.inputs.append((arrived, place + _WORD * k))
                if register.part:
                    self.code += self.move(register, Reg(arrived), cls, group.loc)

    def _arrive_single(self, name: str, place: str, shared: bool, loc: Loc) -> None:
        """One half or one register; by a copy where it is part of a pair, or comes where a result has to go."""
        register, cls = self.register(name), self.classes.of[name]
        if shared:
            self.code += self.move(register, Phys(place), cls, loc)
        elif register.part:
            arrived = VReg(f"{name}~in", cls)
            self.inputs.append((arrived, place))
            self.code += self.move(register, Reg(arrived), cls, loc)
        else:
            self.inputs.append((register.vreg, place))

    def _argument(self, place: str, count: int, group: Group) -> tuple[str, ...]:
        """The registers of an argument, low half first."""
        cls = next(c for c in self.target.registers if c.pair_of is None and place in c.names)
        at = cls.names.index(place)
        if count == 2 and at + 1 >= len(cls.names):
            self.problems.append(Problem("DG346", f"no pair starts at {place}", group.loc))
            return (place, place)
        return cls.names[at : at + count]

    def _register_text(self, places: tuple[str, ...]) -> str:
        """The name of a register, or of the pair that two make."""
        for pair in self.target.registers:
            if pair.pair_of is not None and len(places) == 2:
                names = self.target.register_class(pair.pair_of).names
                if places[0] in names and names.index(places[0]) % 2 == 0:
                    return pair.names[names.index(places[0]) // 2]
        return ":".join(reversed(places))

    def _result_names(self) -> tuple[str, ...]:
        widest = max((len(g.names) for g in self.program.outputs), default=1)
        return self._argument(self.target.abi.result, widest, self.program.outputs[0])

    def _results(self) -> None:
        if not self.program.outputs:
            return
        group = self.program.outputs[0]
        if len(self.program.outputs) > 1:
            what = "a function returns one value, in one register or pair"
            self.problems.append(Problem("DG346", what, self.program.outputs[1].loc))
            return
        for name, place in zip(reversed(group.names), self._result_names(), strict=False):
            cls = self.classes.of.get(name, "")
            if place not in self.target.register_class(cls or self.target.abi.scalar_class).names:
                what = f"{name} can't be returned: results go to {place}"
                self.problems.append(Problem("DG346", what, group.loc))
                return
            self.code += self.move(Phys(place), self.register(name), cls or self.target.abi.scalar_class, group.loc)

    def _leave(self, loc: Loc, predicate: Predicate | None = None) -> None:
        branch = self.index.branch()
        if branch is None:
            self.problems.append(Problem("DG302", f"{self.target.name} has no branch to a label", loc))
            return
        self.code.append(Jump(Instr(branch.instruction, (Label(self.end),), predicate, loc), ()))

    # -- instructions

    def _instruction(self, use: Use) -> None:
        line, row = use.line, use.row
        if started_by(row) or registers_of_end(row):
            what = (
                f"{line.word} belongs to a hardware loop: write the loop with a branch, and the scheduler makes it one"
            )
            self.problems.append(Problem("DG345", what, line.loc))
            return
        if new_operand(row) is not None:
            what = f"{line.word} takes a value from its own packet: that is left to the scheduler"
            self.problems.append(Problem("DG344", what, line.loc, "write the instruction that reads the register"))
            return
        predicate = self._predicate(use)
        if row.branch:
            target = line.operands[0].text
            if target in {s.word for s in self.program.statements if s.kind == "label"}:
                self.code.append(Jump(Instr(row, (Label(target),), predicate, line.loc), ()))
            else:
                self._leave(line.loc, predicate)
            return
        before: list[Instr] = []
        after: list[Instr] = []
        operands = tuple(
            self._operand(operand, token, use, before, after)
            for operand, token in zip(row.operands, line.operands, strict=True)
        )
        made = Instr(row, operands, predicate, line.loc, masked=self._is_masked(row))
        self.code += [*before, made, *after]

    def _predicate(self, use: Use) -> Predicate | None:
        line = use.line
        if line.predicate is None:
            return None
        register = self.register(line.predicate)
        lane = use.row.predicable == "lane"
        if register.part:
            cls = self.classes.of[line.predicate]
            copy = self.fresh(cls, line.predicate)
            self.code += self.move(Reg(copy), register, cls, line.loc)
            return Predicate(copy, line.negated, lane)
        return Predicate(register.vreg, line.negated, lane)

    def _operand(
        self, operand: Operand, token: Token, use: Use, before: list[Instr], after: list[Instr]
    ) -> OperandValue:
        if token.kind == "int":
            return Imm(literal_value(operand, token.value, hexadecimal=token.hexadecimal))
        if token.address is not None:
            address = token.address
            offset = address.offset if isinstance(address.offset, int) else self.register(address.offset).vreg
            named = address.base in self.program.declared
            base = self.register(address.base).vreg if named else Phys(address.base)
            self.stack_used |= not named
            place = Place(base, address.mode, offset, None)
            return self._steps_apart(place, use, before, after)
        names = token.text.split(":")
        if any(n not in self.classes.of for n in names):
            known = {n for c in self.target.registers for n in c.names}
            sign = f"{token.addend:+d}" if token.addend else ""
            abi = self.target.abi
            self.stack_used |= token.text in (abi.scalar_stack, abi.vector_stack)
            return Phys(token.text) if token.text in known else Label(f"{token.text}{sign}")
        if len(names) == 1 and operand.pair_text == "low" and self._takes_pair(operand):
            names = [self._partner(names[0]), names[0]]
        if len(names) == 1:
            return self.register(names[0])
        whole = self._whole(names[0], names[1])
        if whole is not None:
            return Reg(whole)
        return self._put_together(operand, names[0], names[1], use, before, after)

    def _steps_apart(self, place: Place, use: Use, before: list[Instr], after: list[Instr]) -> Place:
        """A step beyond the mode's range is an addition of its own, where the text has it."""
        memory, modes = use.row.memory, self.target.address_modes
        if memory is None or not place.updates or not isinstance(place.offset, int) or not isinstance(place.base, VReg):
            return place
        down = place.mode in ("post_dec", "pre_dec")
        low, high = modes.decrement_imm if down else modes.increment_imm
        if low <= place.offset <= high:
            return place
        amount = -place.offset * memory.scale if down else place.offset * memory.scale
        predicate = self._predicate(use) if use.row.predicable == "scalar" else None
        made = [replace(i, predicate=predicate) for i in self.advance(place.base, amount, use.line.loc)]
        (before if place.mode in ("pre_inc", "pre_dec") else after).extend(made)
        return replace(place, mode="none", offset=0)

    def advance(self, register: VReg, amount: int, loc: Loc) -> list[Instr]:
        """`register += amount`, in bytes."""
        step = self.fresh(self.target.abi.scalar_class, "step")
        ways = self.index.address_add(register.cls) or self.index.find(
            "d = add.i64(a, b)", {"a": step.cls, "b": register.cls, "d": register.cls}
        )
        for match in ways[:1]:
            for steps in self.index.load_constant(step.cls, amount)[:1]:
                code = [
                    Instr(s.instruction, tuple(Reg(step) if v is None else Imm(v) for v in s.operands), loc=loc)
                    for s in steps
                ]
                values: dict[str, OperandValue] = {
                    match.binding["a"]: Reg(step),
                    match.binding["b"]: Reg(register),
                    match.binding["d"]: Reg(register),
                }
                row = match.instruction
                return [*code, Instr(row, tuple(values[o.name] for o in row.operands), loc=loc)]
        what = f"{self.target.name} has no instruction to add {amount} to a register of class {register.cls}"
        raise SourceError(Problem("DG302", what, loc))

    def _takes_pair(self, operand: Operand) -> bool:
        return all(c in self._pair_class.values() for c in operand.classes)

    def _partner(self, low: str) -> str:
        """The variable in the high half above `low`, or the name under which that half is kept."""
        vreg = self.halves[low][0] if low in self.halves else None
        return next((n for n, (v, part) in self.halves.items() if v == vreg and part == "hi"), self._hidden(low))

    def _hidden(self, low: str) -> str:
        name = f"{low}~high"
        if low in self.halves and self.halves[low][1] == "lo":
            self.halves[name] = (self.halves[low][0], "hi")
            self.classes.of[name] = self.classes.of[low]
        return name

    def _put_together(
        self, operand: Operand, high: str, low: str, use: Use, before: list[Instr], after: list[Instr]
    ) -> Reg:
        cls, loc = self.classes.of[low], use.line.loc
        pair = self.fresh(self._pair_class[cls], f"{high}:{low}")
        parts: tuple[tuple[Part, str], ...] = (("lo", low), ("hi", high))
        keeps = operand.read or use.line.predicate is not None or self._is_masked(use.row)
        for part, name in parts:
            if keeps:
                before += self.move(Reg(pair, part), self.register(name), cls, loc)
            if operand.write:
                after += self.move(self.register(name), Reg(pair, part), cls, loc)
        return Reg(pair)

    def _writes_mask(self) -> bool:
        mask = self.target.mask_register
        return mask is not None and any(
            operand.write and token.text == mask
            for use in self.classes.uses.values()
            for operand, token in zip(use.row.operands, use.line.operands, strict=True)
        )

    def _is_masked(self, row: Instruction) -> bool:
        """Whether the mask may keep a vector result of a row as it was: not where nothing ever sets it."""
        return self._masked and any(
            o.write and any(self.target.register_class(c).kind == "vector" for c in o.classes) for o in row.operands
        )


def without_idle_marks(code: Sequence[Instr | Mark | Jump]) -> Code:
    """The code without marks that no jump names, and without what no control reaches."""
    named = {c.target for c in code if isinstance(c, Jump)}
    result: Code = []
    reached = True
    for item in code:
        if isinstance(item, Mark):
            if item.name not in named:
                continue
            reached = True
        if not reached:
            continue
        result.append(item)
        if isinstance(item, Jump) and not item.conditional:
            reached = False
    kept = {c.target for c in result if isinstance(c, Jump)}
    return result if kept == named else without_idle_marks(result)


def with_keeps(code: Code, live: dict[str, tuple[VReg, ...]]) -> Code:
    """The jumps with the registers that the code at their marks may read."""
    return [replace(c, keeps=live.get(c.target, ())) if isinstance(c, Jump) else c for c in code]
