"""Random straight blocks for the schedulers: layers of a few kinds of instructions of a machine, so that units are
fought over."""

from __future__ import annotations

import random

from dspgen.asmir.ir.function import Imm, Instr, Mem, MemRef, OperandValue, Reg, VReg
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.straight.prepare import straight_ops
from dspgen.target.isa.model import Instruction, Target


class Blocks:
    """Blocks of one machine; the same seed makes the same block."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.facts = Facts(target)
        self.kit = Kit(self.facts)
        self.rows = [i for i in target.instructions if self._usable(i)]

    def _usable(self, row: Instruction) -> bool:
        if row.branch or not row.compile or row.implicit_reads or self.facts.implicit(row)[1]:
            return False
        kinds = {self.target.register_class(c).kind for o in row.operands for c in o.classes}
        return not kinds & {"control", "element", "address", "offset"}

    def block(self, seed: int) -> list[Op]:
        """10 to 40 operations in layers of 2 to 8, of 3 to 9 rows of the machine."""
        rng = random.Random(seed)
        size = rng.randint(10, 40)
        palette = rng.sample(self.rows, min(len(self.rows), rng.randint(3, 9)))
        width = rng.randint(2, 8)
        made: dict[str, list[tuple[VReg, int]]] = {}  # results by class, with their layers
        instrs = []
        for k in range(size):
            instrs.append(self._instr(rng, rng.choice(palette), k, k // width, made))
        return straight_ops(instrs, self.facts, self.kit, rename=False)

    def _instr(
        self, rng: random.Random, row: Instruction, number: int, layer: int, made: dict[str, list[tuple[VReg, int]]]
    ) -> Instr:
        values: list[OperandValue] = []
        results: list[VReg] = []
        for at, operand in enumerate(row.operands):
            cls = rng.choice(operand.classes) if operand.classes else ""
            match operand.kind:
                case "immediate":
                    low, high = operand.imm or (0, 0)
                    values.append(Imm(max(low, min(high, 1))))
                case "memory":
                    assert row.memory is not None
                    base = VReg(f"p{number}", self.target.address_modes.base_classes[row.memory.side])
                    values.append(Mem(base, 0, MemRef(f"m{number}", 0, (), row.memory.bytes, 1, row.memory.bytes)))
                case "register" if operand.write:
                    fresh = VReg(f"d{number}.{at}", cls)
                    results.append(fresh)
                    values.append(Reg(fresh))
                case _:
                    before = [r for r, of in made.get(cls, ()) if of < layer]
                    near = [r for r, of in made.get(cls, ()) if of == layer - 1]
                    if near and rng.random() < 0.7:
                        values.append(Reg(rng.choice(near)))
                    elif before and rng.random() < 0.8:
                        values.append(Reg(rng.choice(before)))
                    else:
                        values.append(Reg(VReg(f"in{number}.{at}", cls)))
        for fresh in results:
            made.setdefault(fresh.cls, []).append((fresh, layer))
        return Instr(row, tuple(values))
