"""Numbers that an inner loop puts into the same register in each iteration are put there once, before the loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from dspgen.asmir.ir.function import If, Imm, Instr, Item, Reg, VReg, renamed, writes


def constants_apart(body: Sequence[Item], keep: Collection[VReg]) -> tuple[list[Item], list[Item]]:
    """What goes before an innermost loop, and its body without that.

    Before: `loop { s = 4; y = rotate(x, s) }`. After: `s = 4; loop { y = rotate(x, s) }`, and one register for all that
    hold one number. Requires: the registers `keep` pass from one iteration to the next.
    """
    written = Counter(_written(body))
    before, inside = list[Item](), list[Item]()
    same = dict[tuple[str, int, str], VReg]()
    names = dict[VReg, VReg]()
    for item in body:
        match item:
            case Instr(operands=(Reg(vreg, ""), Imm(value))) if (
                written[vreg] == 1 and vreg not in keep and _only_sets(item)
            ):
                first = same.setdefault((item.instruction.id, value, vreg.cls), vreg)
                if first == vreg:
                    before.append(item)
                names[vreg] = first
            case _:
                inside.append(item)
    return before, _renamed(inside, names)


def _written(body: Sequence[Item]) -> list[VReg]:
    found = list[VReg]()
    for item in body:
        match item:
            case Instr():
                found += (register for register, _ in writes(item))
            case If(inside=inner):
                found += _written(inner)
            case _:
                pass
    return found


def _only_sets(instr: Instr) -> bool:
    """Whether its first operand is its whole effect, always."""
    first, semantics = instr.instruction.operands[0], instr.instruction.semantics
    sets = first.write and not first.read and len(semantics) == 1
    return sets and not instr.masked and not instr.ordered and instr.predicate is None


def _renamed(body: Sequence[Item], names: dict[VReg, VReg]) -> list[Item]:
    found = list[Item]()
    for item in body:
        match item:
            case Instr(operands=operands, predicate=predicate):
                if predicate is not None and predicate.register in names:
                    predicate = replace(predicate, register=names[predicate.register])
                found.append(replace(item, operands=tuple(renamed(v, names) for v in operands), predicate=predicate))
            case If(condition, then, otherwise):
                inner = (tuple(_renamed(x, names)) for x in (then, otherwise))
                found.append(If(names.get(condition, condition), *inner))
            case _:
                found.append(item)
    return found
