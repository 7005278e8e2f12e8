"""The branch that ends a block, and others that do the same: one that tests what the code before tests, which then need
not make a number of it; and one that takes a register from its own packet (`predicated_branches.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dspgen.asmir.ir.function import Instr, reads
from dspgen.sched.graph.forwarding import forwards
from dspgen.sched.graph.liveness import Live, remove_dead
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.target_facts import Atom, Facts
from dspgen.sched.modulo.loop_control import Back
from dspgen.sched.straight.list_scheduling import Fitted
from dspgen.target.query.forwarding import new_operand

Form = tuple[list[Instr], Back]  # the code of a block, and what leads from its end


def closings(
    pending: list[Instr], back: Back, live: Live, facts: Facts, kit: Kit, *, alone: bool
) -> tuple[list[Form], Live]:
    """The block as it is best without a look at its packets; then, if it ends `alone`, forms whose branch takes a
    register from its packet. And what is read after the block, as far as `live` told."""
    if back.branch is None:
        return [(pending, back)], live
    best: Form = pending, back
    others: list[Form] = []
    for found in kit.conditions.others(pending, back.branch):
        form = pending, replace(back, branch=found.branch)
        if back.after is not None:
            read = {atom for register, part in reads(found.branch) for atom in facts.atoms(register, part)}
            form = remove_dead(pending, back.after | read, facts), form[1]
        if found.new is not None:
            others.append(form)
        elif back.after is not None:
            best = form
            live = back.after | read
    return [best, *(others if alone else ())], live


def fewer_packets(one: Fitted, other: Fitted, facts: Facts) -> bool:
    """Whether one way takes fewer packets than another, and no more cycles."""
    counts = [(sum(1 for p in x.cycles if p or not facts.unwritten), x.length) for x in (one, other)]
    return counts[0][0] < counts[1][0] and counts[0][1] <= counts[1][1]


def with_branch_at_maker(fitted: Fitted, ops: Sequence[Op], facts: Facts) -> bool:
    """Whether the block's branch, the last of its operations, stands in the packet that makes what it takes from there,
    after the maker was moved there if it can be."""
    branch = ops[-1]
    place = new_operand(branch.instruction)
    assert place is not None
    wanted = {atom for atom, cycle in branch.reads if cycle == 1}
    makers = [k for k, op in enumerate(ops[:-1]) if any(atom in wanted for atom, _ in op.writes)]
    if not makers or len(wanted) != 1 or not forwards(ops[makers[-1]], branch, next(iter(wanted)), facts):
        return False
    maker = ops[makers[-1]]
    at = {id(op): k for k, packet in enumerate(fitted.cycles) for op, _ in packet}
    source, target = at[id(maker)], at[id(branch)]
    if source == target:
        return True
    if maker.touches_memory or maker.ordered or not _last(makers[-1], ops, at, target):
        return False
    packet = [op for op, _ in fitted.cycles[target]] + [maker]
    if len(packet) > facts.issue or not all(op.reservation.simple for op in packet):
        return False
    units = facts.limits.matched([op.reservation.units for op in packet], 0)
    if units is None:
        return False
    fitted.cycles[source] = [(op, unit) for op, unit in fitted.cycles[source] if op is not maker]
    fitted.cycles[target] = list(zip(packet, units, strict=True))
    return True


def _last(maker: int, ops: Sequence[Op], at: dict[int, int], target: int) -> bool:
    """Whether nothing but the branch, and what is in its packet, has anything to do with an operation after it."""
    reads: set[Atom] = {atom for atom, _ in ops[maker].reads}
    writes: set[Atom] = {atom for atom, _ in ops[maker].writes}
    for op in ops[maker + 1 : -1]:
        written = {atom for atom, _ in op.writes}
        if writes & (written | {atom for atom, _ in op.reads}):
            return False
        if reads & written and at[id(op)] < target:
            return False
    return True
