"""Liveness of virtual registers on linear assembly, each half of a pair by itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dspgen.asmir.ir.function import If, Instr, Item, Jump, Loop, Place, Reg, VReg, overwrites, reads
from dspgen.sched.machine.target_facts import Atom, Facts

Live = frozenset[Atom]
NOTHING: Live = frozenset()


def live_before(items: Sequence[Item], after: Live, facts: Facts) -> Live:
    """Register atoms whose value before `items` may be read, in them or after them."""
    live = set(after)
    for item in reversed(items):
        match item:
            case Instr():
                killed, read = _uses(item, facts)
                live -= killed
                live |= read
            case Jump(branch=branch, keeps=keeps):
                if not item.conditional:
                    live.clear()
                live |= _uses(branch, facts)[1]
                live.update(a for register in keeps for a in facts.atoms(register))
            case If() | Loop():
                overwritten, read = _of_block(item, facts)
                if overwritten is None:
                    live.clear()
                else:
                    live -= overwritten
                live |= read
    return frozenset(live)


def _of_block(item: If | Loop, facts: Facts) -> tuple[Live | None, Live]:
    """The atoms that code which may run, or run several times, overwrites in any case, None for all that there are,
    and those whose value before it may be read in it; worked out once. (A second run reads no other values from before
    than the first.)"""
    found = facts.blocks.get(id(item))
    if found is None:
        inner = item.then if isinstance(item, If) else item.body
        read = set(live_before(inner, NOTHING, facts))
        if isinstance(item, If):
            read |= live_before(item.otherwise, NOTHING, facts)
            killed: Live | None = NOTHING
            read.update(facts.atoms(item.condition))
        else:
            runs = item.trip > 0 if isinstance(item.trip, int) else None
            killed = _overwritten(inner, facts) if runs else NOTHING
            if runs is False:
                read.clear()
            for register in (*(s.base for s in item.streams), *([] if isinstance(item.trip, int) else [item.trip])):
                read.update(facts.atoms(register))
        found = facts.blocks[id(item)] = (item, killed, frozenset(read))
    return found[1:]


def _overwritten(items: Sequence[Item], facts: Facts) -> Live | None:
    """The atoms that items overwrite in any case; None for all, since they leave for elsewhere."""
    atoms: set[Atom] = set()
    for item in items:
        match item:
            case Instr():
                atoms |= _uses(item, facts)[0]
            case Jump():
                if not item.conditional:
                    return None
            case If() | Loop():
                killed = _of_block(item, facts)[0]
                if killed is None:
                    return None
                atoms |= killed
    return frozenset(atoms)


def live_around(items: Sequence[Item], after: Live, facts: Facts) -> list[Live]:
    """What is live before each item, and after the last, where an item that is no instruction is on either side."""
    live = [after] * (len(items) + 1)
    end = len(items)
    for k in range(len(items) - 1, -1, -1):
        if not isinstance(items[k], Instr):
            live[k + 1] = live_before(items[k + 1 : end], live[end], facts)
            live[k] = live_before((items[k],), live[k + 1], facts)
            end = k
    return live


def registers(live: Collection[Atom]) -> frozenset[VReg]:
    return frozenset(a[0] for a in live if isinstance(a[0], VReg))


def _uses(instr: Instr, facts: Facts) -> tuple[Live, Live]:
    """The atoms that an instruction overwrites and those that it reads, worked out once."""
    found = facts.uses.get(id(instr))
    if found is None:
        killed = frozenset(
            atom
            for register, part in overwrites(instr)
            if not (instr.masked and facts.is_vector(register))
            for atom in facts.atoms(register, part)
        )
        read = frozenset(atom for register, part in reads(instr) for atom in facts.atoms(register, part))
        found = facts.uses[id(instr)] = (instr, killed, read)
    return found[1:]


def predicates_of(items: Sequence[Item]) -> frozenset[VReg]:
    """Registers that some instruction is predicated on."""
    found: set[VReg] = set()
    for item in items:
        match item:
            case Instr(predicate=predicate) | Jump(branch=Instr(predicate=predicate)):
                if predicate is not None:
                    found.add(predicate.register)
            case If(inside=inner) | Loop(body=inner):
                found |= predicates_of(inner)
    return frozenset(found)


def remove_dead(instrs: Sequence[Instr], after: Collection[Atom], facts: Facts) -> list[Instr]:
    """Straight code without the instructions whose results nobody reads."""
    live = set(after)
    kept: list[Instr] = []
    for instr in reversed(instrs):
        if _needed(instr, live, facts):
            kept.append(instr)
            killed, read = _uses(instr, facts)
            live -= killed
            live |= read
    return kept[::-1]


def _needed(instr: Instr, live: set[Atom], facts: Facts) -> bool:
    instruction = instr.instruction
    if instr.ordered or instruction.branch or (instruction.memory is not None and instruction.memory.store):
        return True
    named = {o.name for o in instruction.operands}
    if any(s.target is None or s.target.name not in named for s in instruction.semantics):
        return True
    for operand, value in zip(instruction.operands, instr.operands, strict=True):
        if isinstance(value, Place) and value.updates:
            if not isinstance(value.base, VReg) or not live.isdisjoint(facts.atoms(value.base)):
                return True
        if not operand.write:
            continue
        if not isinstance(value, Reg) or not live.isdisjoint(facts.atoms(value.vreg, value.part)):
            return True
    return False
