"""Values that an instruction takes from its own packet: stores of what is just being made, say.

Where a schedule has the maker and the reader in one packet, the reader becomes its row's twin (`target.forwarding`).
"""

from __future__ import annotations

from collections.abc import Sequence

from dspgen.asmir.ir.function import Reg
from dspgen.sched.machine.operations import Op, build_op
from dspgen.sched.machine.target_facts import Atom, Facts
from dspgen.target.query.forwarding import makes_for, new_operand


def forwards(maker: Op, reader: Op, atom: Atom, facts: Facts) -> bool:
    """Whether the reader may stand in the packet in which the maker writes the register, and, if it is what it has a
    twin of, in any later one: a result that others wait for longer would leave packets between in which it may not."""
    place = new_operand(reader.instruction)
    if place is None:
        twin = facts.twins.get(reader.instruction.id)
        place = twin[1] if twin is not None else None
    if place is None or _unsure(maker) or reader.predicate is not None or maker.masked or reader.masked:
        return False
    value = reader.operands[place]
    if not isinstance(value, Reg) or facts.atoms(value.vreg, value.part) != (atom,) or atom in reader.early:
        return False
    if sum(read == atom for read, _ in reader.reads) != 1 or any(written == atom for written, _ in reader.writes):
        return False
    for operand, made in zip(maker.instruction.operands, maker.operands, strict=True):
        if isinstance(made, Reg) and facts.atoms(made.vreg, made.part) == (atom,) and operand.write:
            return operand.latency == 1 and makes_for(maker.instruction, operand)
    return False


def _unsure(op: Op) -> bool:
    """Whether it may do nothing."""
    return op.predicate is not None or op.instruction.condition is not None


def with_twin(op: Op, facts: Facts) -> Op:
    """The reader as it is written in its value's packet."""
    made = build_op(
        facts.twins[op.instruction.id][0], op.operands, op.predicate, facts, op.loc, op.comment, ordered=op.ordered
    )
    made.access = op.access
    return made


def makers_of(ops: Sequence[Op], facts: Facts) -> dict[int, int]:
    """Of operations in the order of the text: which may take a value from their packet, and what makes that."""
    last: dict[Atom, int] = {}
    found: dict[int, int] = {}
    for k, op in enumerate(ops if facts.twins else ()):
        for atom, _ in op.reads if op.instruction.id in facts.twins else ():
            if (maker := last.get(atom)) is not None and forwards(ops[maker], op, atom, facts):
                found[k] = maker
        last.update(dict.fromkeys((atom for atom, _ in op.writes), k))
    return found


def keep_room(ops: Sequence[Op], facts: Facts) -> None:
    """What may become its twin takes the twin's units, where these leave less room than its own."""
    for k in makers_of(ops, facts) if facts.units_of_twins else ():
        twin = facts.twins[ops[k].instruction.id][0]
        if (ops[k].instruction.id, facts.reservation(twin).alternatives[0]) in facts.units_of_twins:
            ops[k].reservation = facts.reservation(twin)


def with_twins(packets: list[list[tuple[Op, int]]], ops: Sequence[Op], facts: Facts) -> list[list[tuple[Op, int]]]:
    """The packets of straight code, whose operations are in the order of the text."""
    taken = {id(ops[k]): id(ops[maker]) for k, maker in makers_of(ops, facts).items()}
    if not taken:
        return packets
    found = []
    for packet in packets:
        here = {id(op) for op, _ in packet}
        near = {k for k in here if taken.get(k) in here}
        found.append([(with_twin(op, facts) if id(op) in near else op, unit) for op, unit in packet])
    return found
