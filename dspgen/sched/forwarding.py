"""Values that an instruction takes from its own packet: stores of what is just being made, say.

Where a schedule has the maker and the reader in one packet, the reader becomes its row's twin (`target.forwarding`).
"""

from __future__ import annotations

from collections.abc import Sequence

from dspgen.asmir.ir import Reg
from dspgen.sched.facts import Atom, Facts
from dspgen.sched.ops import Op, build_op
from dspgen.target.forwarding import makes_for


def forwards(maker: Op, reader: Op, atom: Atom, facts: Facts) -> bool:
    """Whether the reader may stand in the packet in which the maker writes the register, or in any later one: a result
    that others wait for longer would leave packets between in which it may not."""
    twin = facts.twins.get(reader.instruction.id)
    if twin is None or maker.predicate is not None or reader.predicate is not None or maker.masked or reader.masked:
        return False
    value = reader.operands[twin[1]]
    if not isinstance(value, Reg) or facts.atoms(value.vreg, value.part) != (atom,) or atom in reader.early:
        return False
    if sum(read == atom for read, _ in reader.reads) != 1 or any(written == atom for written, _ in reader.writes):
        return False
    for operand, made in zip(maker.instruction.operands, maker.operands, strict=True):
        if isinstance(made, Reg) and facts.atoms(made.vreg, made.part) == (atom,) and operand.write:
            return operand.latency == 1 and makes_for(maker.instruction, operand)
    return False


def with_twin(op: Op, facts: Facts) -> Op:
    """The reader as it is written in its value's packet."""
    made = build_op(
        facts.twins[op.instruction.id][0], op.operands, op.predicate, facts, op.loc, op.comment, ordered=op.ordered
    )
    made.access = op.access
    return made


def with_twins(packets: list[list[tuple[Op, int]]], ops: Sequence[Op], facts: Facts) -> list[list[tuple[Op, int]]]:
    """The packets of straight code, whose operations are in the order of the text."""
    if not facts.twins:
        return packets
    last: dict[Atom, Op] = {}
    taken: dict[int, Op] = {}
    for op in ops:
        for atom, _ in op.reads if op.instruction.id in facts.twins else ():
            if (maker := last.get(atom)) is not None and forwards(maker, op, atom, facts):
                taken[id(op)] = maker
        last.update(dict.fromkeys((atom for atom, _ in op.writes), op))
    found = []
    for packet in packets:
        here = {id(op) for op, _ in packet}
        near = {k for k in here if k in taken and id(taken[k]) in here}
        found.append([(with_twin(op, facts) if id(op) in near else op, unit) for op, unit in packet])
    return found
