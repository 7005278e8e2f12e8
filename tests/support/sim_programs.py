"""Random programs for a target, in its own text: every instruction form, predicates, masks, loops and memory."""

from __future__ import annotations

import random
from dataclasses import replace

from dspgen.emit.text import print_lines
from dspgen.sched.ir.packets import Address, LabelLine, Nop, Packet, Placed
from dspgen.sim.ir.registers import RegisterFile
from dspgen.sim.ir.unit_assignment import Candidate, match_units
from dspgen.target.isa.model import Instruction, Operand, Side, Target

ARRAY_BYTES = 8192


def with_bases(target: Target, address: int) -> Target:
    """The target with its first two address registers of each side pointing into the array at `address`."""
    modes = target.address_modes
    values = dict(target.abi.entry_values)
    for side in sorted(modes.base_classes):
        for k, name in enumerate(target.register_class(modes.base_classes[side]).names[:2]):
            values[name] = address + 2048 + 1024 * k
        values[target.register_class(modes.offset_classes[side]).names[0]] = 3
    for k, name in enumerate(target.predicates.scalar[:2]):
        values[name] = k
    return replace(target, abi=replace(target.abi, entry_values=values))


class Generator:
    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        self.random = random.Random(seed)
        self.registers = RegisterFile(target)
        self.landing: set[tuple[int, int]] = set()
        self.time = 0
        modes = target.address_modes
        address = {*modes.base_classes.values(), *modes.offset_classes.values()}
        self.counter = target.predicates.scalar[-1]
        self.usable = [
            i
            for i in target.instructions
            if not i.branch
            and not any(o.write and set(o.classes) & address for o in i.operands)
            and (seed % 10 == 0 or (i.busy == 1 and (i.memory is None or i.memory.force_align or i.memory.align < 4)))
        ]

    def text(self, loops: int = 2) -> str:
        lines: list[LabelLine | Packet | Nop] = [LabelLine("start")]
        lines += self.block(self.random.randint(3, 15))
        for k in range(loops):
            lines += self.loop(f"again{k}")
            lines += self.block(self.random.randint(0, 8))
        lines += self.leave()
        return f"{self.target.text.global_directive.format(name='start')}\n" + print_lines(lines, self.target)

    def block(self, packets: int) -> list[LabelLine | Packet | Nop]:
        out: list[LabelLine | Packet | Nop] = []
        for _ in range(packets):
            if self.random.random() < 0.15:
                cycles = self.random.randint(1, self.target.text.nop_max)
                out.append(Nop(cycles))
                self.time += cycles
            else:
                out.append(self.packet([]))
        return out

    def packet(self, forced: list[Candidate], predicates: list[tuple[str | None, bool]] | None = None) -> Packet:
        members = [[c] for c in forced]
        marks = list(predicates or [(None, False)] * len(forced))
        for _ in range(self.random.randint(0 if forced else 1, 6)):
            form = self.random.choice(self.usable)
            operands = tuple(self.operand(form, o) for o in form.operands)
            trial = [*members, [Candidate(form, u, operands) for u in form.units]]
            matched = match_units(trial)
            if isinstance(matched, int) or len(trial) > self.target.packets.issue or not self.reserve(form, operands):
                continue
            members = trial
            marks.append(self.predicate(form))
        matched = match_units(members)
        assert not isinstance(matched, int)
        self.time += 1
        return Packet(
            tuple(
                Placed(c.instruction, c.unit, c.operands, name, negated)
                for c, (name, negated) in zip(matched, marks, strict=True)
            )
        )

    def reserve(self, form: Instruction, operands: tuple[str | int | Address, ...]) -> bool:
        """Takes the cycles in which the form's results land; False where another result lands there."""
        wanted = set()
        for value, operand in zip(operands, form.operands, strict=True):
            if isinstance(value, Address):
                wanted.add((self.registers.place(value.base).cells[0], self.time + 1))
            elif operand.write:
                place = self.registers.place(str(value), operand.classes)
                wanted |= {(c, self.time + operand.latency) for c in place.cells}
                if self.registers.cell_of(self.counter) in place.cells:
                    return False
        if wanted & self.landing:
            return False
        self.landing |= wanted
        return True

    def predicate(self, form: Instruction) -> tuple[str | None, bool]:
        p = self.target.predicates
        names = {"scalar": p.scalar, "lane": p.lane, "none": ()}[form.predicable]
        if not names or self.random.random() < 0.6:
            return None, False
        return self.random.choice(names), self.random.random() < 0.5

    def operand(self, form: Instruction, operand: Operand) -> str | int | Address:
        if operand.kind == "memory":
            return self.address(form.memory.side)
        if operand.kind == "immediate" or (
            operand.imm is not None and (not operand.classes or self.random.random() < 0.4)
        ):
            low, high = operand.imm or (0, 0)
            if operand.literal:
                return self.random.randint(0, 0x7FFF)
            return self.random.randint(low, high)
        cls = self.target.register_class(self.random.choice(operand.classes))
        if cls.pair_of is not None:
            return self.random.choice(cls.names[2:5])
        return self.random.choice(cls.names[: 8 if cls.kind in ("scalar", "vector") else 2])

    def address(self, side: Side) -> Address:
        modes = self.target.address_modes
        base = self.random.choice(self.target.register_class(modes.base_classes[side]).names[:2])
        mode = self.random.choice(("none", "plus", "minus", "post_inc", "post_dec", "pre_inc", "pre_dec"))
        if mode == "none":
            return Address(base, "none")
        if self.random.random() < 0.3:
            return Address(base, mode, self.target.register_class(modes.offset_classes[side]).names[0])
        low, high = {"plus": modes.plus_imm[side], "minus": modes.minus_imm[side]}.get(mode, modes.increment_imm)
        return Address(base, mode, self.random.randint(low, min(high, 40 if mode == "plus" else 4)))

    # Control: found in the ISA by semantics, so that the generator fits any target

    def form(self, text: str) -> Instruction:
        from dspgen.target.isa.semantics import format_statements

        return next(i for i in self.target.instructions if format_statements(i.semantics) == text)

    def loop(self, label: str) -> list[LabelLine | Packet | Nop]:
        move, less = self.form("d = sext(x, 16)"), self.form("d = sub.i32(b, a)")
        branch = self.form("branch(t)")
        trip = self.random.randint(1, 12)
        out: list[LabelLine | Packet | Nop] = [self.packet([Candidate(move, move.units[0], (trip, self.counter))])]
        out.append(LabelLine(label))
        out += self.block(self.random.randint(0, 6))
        out.append(self.packet([Candidate(less, less.units[0], (1, self.counter, self.counter))]))
        out.append(self.packet([Candidate(branch, branch.units[0], (f"@{label}",))], [(self.counter, False)]))
        left = self.target.pipeline.branch_delay
        while left > 0:
            if self.random.random() < 0.4:
                cycles = self.random.randint(1, min(self.target.text.nop_max, left + 1))
                out.append(Nop(cycles))
                self.time += cycles
                left -= cycles
            else:
                out.append(self.packet([]))
                left -= 1
        return out

    def leave(self) -> list[LabelLine | Packet | Nop]:
        branch = self.form("branch(a)")
        out: list[LabelLine | Packet | Nop] = [Nop(self.target.text.nop_max), Nop(self.target.text.nop_max)]
        out.append(Packet((Placed(branch, branch.units[0], (self.target.abi.return_operand,)),)))
        return [*out, *self.block(1), Nop(self.target.pipeline.branch_delay)]
