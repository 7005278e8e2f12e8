"""Registers that instructions read by implication, such as the mode of a shuffle: a value for each reader.

Before: mode = m; shuffle a; shuffle b; mode = n; shuffle c: no shuffle may go before one that has another mode.
After:  mode = m; shuffle a; mode = m; shuffle b; mode = n; shuffle c, each mode landing just as its shuffle reads it:
        since no two shuffles issue in one cycle, these pairs may go in any order, and overlap.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from dspgen.asmir.ir.function import If, Instr, Item, Jump, Loop, Mark, Phys, loops_in
from dspgen.sched.graph.unroll import instructions
from dspgen.sched.machine.operations import Op, make_op
from dspgen.sched.machine.target_facts import Atom, Facts


def free_after(items: Sequence[Item], facts: Facts) -> dict[str, frozenset[Atom]]:
    """For each loop, by label, the physical registers written in its body whose values nothing after it reads."""
    found: dict[str, frozenset[Atom]] = {}
    if not any(_touched(i, facts)[1] for loop in loops_in(tuple(items)) for i in loop.body if isinstance(i, Instr)):
        return found
    marks: dict[str, frozenset[Atom]] = {}
    while True:
        before = dict(marks)
        _states_before(items, frozenset(), facts, found, marks)
        if marks == before:
            return found


def _states_before(
    items: Sequence[Item],
    after: frozenset[Atom],
    facts: Facts,
    found: dict[str, frozenset[Atom]],
    marks: dict[str, frozenset[Atom]],
) -> frozenset[Atom]:
    """Physical registers whose value before `items` may be read, as far as what may be read at `marks` is known."""
    live = after
    for item in reversed(items):
        match item:
            case Instr():
                read, written = _touched(item, facts)
                live = (live if item.predicate is not None else live - written) | read
            case If(then=then, otherwise=otherwise):
                after = live
                for inner in (then, otherwise):
                    live |= _states_before(inner, after, facts, found, marks)
            case Loop(label=label, body=body):
                written = frozenset(a for i in body if isinstance(i, Instr) for a in _touched(i, facts)[1])
                found[label] = written - live
                for _ in range(2):
                    live |= _states_before(body, live, facts, found, marks)
            case Mark(name):
                marks[name] = live
            case Jump():
                live = (live if item.conditional else frozenset()) | marks.get(item.target, frozenset())
    return live


def _touched(instr: Instr, facts: Facts) -> tuple[frozenset[Atom], frozenset[Atom]]:
    """Physical registers that an instruction reads, and those that it writes."""
    reads, writes = facts.implicit(instr.instruction)
    named = [
        (o, v.name) for o, v in zip(instr.instruction.operands, instr.operands, strict=True) if isinstance(v, Phys)
    ]
    return (
        frozenset([*reads, *(a for o, name in named if o.read for a in facts.physical(name))]),
        frozenset([*writes, *(a for o, name in named if o.write for a in facts.physical(name))]),
    )


def with_own_values(loop: Loop, free: Collection[Atom], facts: Facts) -> tuple[Loop, frozenset[Atom]] | None:
    """The loop with a write for each reader of those of the `free` registers that allow it, and these; None if none.

    Requires: registers are read in the cycle in which results land (EQ), else a write might land early.
    """
    if not facts.equals:
        return None
    ops = [make_op(instr, facts) for instr in instructions(loop.body)]
    chosen = frozenset(atom for atom in free if _separable(ops, atom))
    if not chosen:
        return None
    body: list[Item] = []
    current: dict[Atom, Instr] = {}
    for instr, op in zip(instructions(loop.body), ops, strict=True):
        if mine := chosen.intersection(a for a, _ in op.writes):
            current.update(dict.fromkeys(mine, instr))
            continue
        body += [current[a] for a, _ in op.reads if a in chosen]
        body.append(instr)
    return replace(loop, body=tuple(body)), chosen


def _separable(ops: Sequence[Op], atom: Atom) -> bool:
    """Whether each read follows a write of a value that never changes, which does nothing else, and no two reads can
    be in one cycle."""
    changed = {a for op in ops for a, _ in op.writes}
    writers = [op for op in ops if any(a == atom for a, _ in op.writes)]
    readers = [op for op in ops if any(a == atom for a, _ in op.reads)]
    for op in writers:
        more = len(op.writes) > 1 or op.tied or op.predicate is not None or op.touches_memory or op.ordered
        if more or any(a in changed for a, _ in op.reads):
            return False
    units = {op.reservation.alternatives for op in readers}
    times = {late for op in readers for a, late in op.reads if a == atom}
    first = next((op for op in ops if op in writers or op in readers), None)
    return first in writers and len(units) == 1 and all(len(u) == 1 for u in units) and len(times) == 1


def glued(ops: Sequence[Op], atom: Atom) -> list[tuple[int, int, int]]:
    """Each write of a register with a value for each reader, its reader, and the cycles between the two."""
    found = []
    writer = latency = -1
    for index, op in enumerate(ops):
        for read, late in op.reads:
            if read == atom:
                found.append((writer, index, latency - late))
        for written, cycles in op.writes:
            if written == atom:
                writer, latency = index, cycles
    return found
