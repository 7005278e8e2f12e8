"""First values of carried variables, read where they come from: the first iteration of a pipelined loop needs no copy.

Before: acc = zero; loop: acc = x * y + acc.   After: the prolog's first instance does acc = x * y + zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dspgen.asmir.ir.function import Imm, Instr, Reg, VReg
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.machine.operations import make_op
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.modulo.address_streams import Group
from dspgen.sched.modulo.modulo_expansion import Body, Shape
from dspgen.sched.straight.prepare import settle_writes


@dataclass(slots=True)
class Initial:
    """`reads[op, operand]` is the register that an operand of a loop's operation reads in its first iteration instead;
    `setup` fills those registers that are new; `replaced` are the variables that need no value before the loop."""

    reads: dict[tuple[int, int], VReg] = field(default_factory=dict)
    setup: list[Instr] = field(default_factory=list)
    replaced: set[VReg] = field(default_factory=set)


def initial_reads(pending: Sequence[Instr], body: Body, shape: Shape, facts: Facts, kit: Kit) -> Initial:
    """What can be read elsewhere, `pending` being the straight code just before the loop."""
    return _initial_reads(_sources(pending, facts, kit), body, shape, kit)


def _initial_reads(sources: Mapping[VReg, VReg | Instr], body: Body, shape: Shape, kit: Kit) -> Initial:
    found = Initial()
    written = {atom[0] for op in body.ops for atom, _ in op.writes}
    constants: dict[Instr, VReg] = {}
    for register, source in sources.items():
        slots = _first_reads(register, body, shape) if register in written else []
        if not slots or (isinstance(source, VReg) and source in written):
            continue
        if isinstance(source, Instr):
            if source not in constants:
                constants[source] = kit.fresh(register.cls, "first")
                found.setup.append(_into(source, constants[source]))
            source = constants[source]
        found.reads.update(dict.fromkeys(slots, source))
        found.replaced.add(register)
    return found


def with_first_inside(pending: Sequence[Instr], body: Body, shape: Shape, facts: Facts, kit: Kit) -> Shape:
    """A shape whose prolog has all first reads of carried variables, if the straight code before makes it worth it."""
    longer = Shape(shape.copies, shape.unroll, shape.before + shape.unroll, shape.passes - 1)
    if shape.passes < 2:
        return shape
    sources = _sources(pending, facts, kit)
    now, then = (_initial_reads(sources, body, s, kit).replaced for s in (shape, longer))
    return longer if len(then) > len(now) else shape


def _sources(pending: Sequence[Instr], facts: Facts, kit: Kit) -> dict[VReg, VReg | Instr]:
    """For variables that straight code leaves with a copy of a register, or with a constant: that register, or the
    instruction without its result."""
    ops = [make_op(instr, facts) for instr in pending]
    settle_writes(ops, facts)
    found: dict[VReg, VReg | Instr] = {}
    copies: dict[VReg, dict[VReg, None]] = {}  # of each register, the variables that may still be copies of it
    for instr, op in zip(pending, ops, strict=True):
        changed = {atom[0] for atom, _ in op.writes if isinstance(atom[0], VReg)}
        for register in changed:
            found.pop(register, None)
            for copy in copies.pop(register, ()):
                if found.get(copy) == register:
                    del found[copy]
        results = [v for o, v in zip(instr.instruction.operands, instr.operands, strict=True) if o.write]
        if op.tied or op.predicate is not None or op.touches_memory or op.ordered or len(results) != 1:
            continue
        result = results[0]
        if not isinstance(result, Reg) or result.part or {atom[0] for atom, _ in op.writes} != {result.vreg}:
            continue
        source = kit.copied(instr)
        if isinstance(source, VReg) and source.cls == result.vreg.cls:
            found[result.vreg] = source
            copies.setdefault(source, {})[result.vreg] = None
        elif all(isinstance(v, Imm) for v in instr.operands if v is not result):
            found[result.vreg] = _into(instr, VReg("", result.vreg.cls))
    return found


def _into(instr: Instr, register: VReg) -> Instr:
    """The instruction with another result."""
    operands = tuple(Reg(register) if isinstance(v, Reg) else v for v in instr.operands)
    return replace(instr, operands=operands)


def _first_reads(register: VReg, body: Body, shape: Shape) -> list[tuple[int, int]]:
    """The operands that read what a variable holds before the loop, in its first iteration; empty where one of them is
    no plain register operand, or issues in the kernel."""
    values = body.values
    readers: dict[int, None] = {}
    for index, version in enumerate(values.versions):
        if version.atom[0] == register and version.writer < 0 and values.web_of[index] >= 0:
            if values.webs[values.web_of[index]].invariant:
                return []
            readers.update(dict.fromkeys(op for op, _ in version.readers))
    found = []
    for index in readers:
        op = body.ops[index]
        if body.schedule.cycles[index] // body.schedule.interval >= shape.before:
            return []
        if any(atom[0] == register for atom in op.tied):
            return []
        slots = [
            k
            for k, (operand, value) in enumerate(zip(op.instruction.operands, op.operands, strict=True))
            if operand.read and isinstance(value, Reg) and value.vreg == register
        ]
        elsewhere = op.predicate is not None and op.predicate.register == register
        elsewhere |= any(register in (getattr(v, "base", None), getattr(v, "offset", None)) for v in op.operands)
        if not slots or elsewhere:
            return []
        found += [(index, k) for k in slots]
    # A write that keeps part of what was there needs it in the variable's own register.
    tied = any(atom[0] == register for op in body.ops for atom in op.tied)
    return [] if tied else found


def with_biased_bases(code: Sequence[Instr], groups: Sequence[Group], facts: Facts, kit: Kit) -> list[Instr]:
    """The code before a loop, with the registers of its address groups filled as they are wanted.

    Before: a = s; b = a + 8.    After: t = s + 8; b = t, so that no address register waits beside b.
    """
    wanted = {g.base: g for g in groups if g.base != g.stream.base}
    made: list[Instr] = []
    sources: dict[VReg, tuple[int, VReg]] = {}  # of address registers: after which instruction, and from where, filled
    for instr in code:
        written = {atom[0] for atom, _ in make_op(instr, facts).writes}
        found = kit.filled(instr)
        base = next((r for r in written if isinstance(r, VReg) and r in wanted), None)
        source = sources.get(wanted[base].stream.base) if base is not None else None
        if base is not None and source is not None:
            at, scalar = source
            moved = kit.fresh(kit.scalar)
            extra = [*kit.add(moved, scalar, wanted[base].bias), _refilled(made[at], base, moved, kit)]
            made[at + 1 : at + 1] = extra
            sources = {a: (n + len(extra) if n > at else n, s) for a, (n, s) in sources.items()}
            continue
        sources = {a: s for a, s in sources.items() if a not in written}
        made.append(instr)
        if found is not None:
            sources[found[0]] = len(made) - 1, found[1]
    return made


def _refilled(instr: Instr, target: VReg, source: VReg, kit: Kit) -> Instr:
    """The same instruction, from one register into another."""
    filled = kit.filled(instr)
    assert filled is not None
    others = {filled[0]: target, filled[1]: source}
    operands = tuple(Reg(others[o.vreg]) if isinstance(o, Reg) and o.vreg in others else o for o in instr.operands)
    return replace(instr, operands=operands)
