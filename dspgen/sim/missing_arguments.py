"""Arguments that a program reads and its caller doesn't give: what a fault may come from."""

from __future__ import annotations

from dspgen.sim.cgen.static_states import State, Step, TooManyStates, explore
from dspgen.sim.ir.program import Code
from dspgen.sim.ir.registers import RegisterFile
from dspgen.sim.lowering.load import Loaded
from dspgen.target.isa.model import Target


def unpassed(loaded: Loaded, target: Target) -> str:
    """In words; nothing where each argument register that is read has been written on some way there."""
    code, start, file = loaded.code, loaded.start, RegisterFile(target)
    places = (file.place(name) for name in target.abi.arguments)
    empty = {cell for place in places if place for cell in place.cells} - start.written
    try:
        steps = explore(code, start.entry, target.pipeline.branch_delay) if empty else {}
    except TooManyStates:
        return ""
    written = _written(code, steps)
    found = sorted(
        (op.loc.line, code.cells[cell].name)
        for state, step in steps.items()
        if not state.wait and not step.stalled and state.at < len(code.slots)
        for op in code.slots[state.at].ops
        for cell in empty.intersection(op.reads) - written[state]
    )
    return f"line {found[0][0]} reads {found[0][1]}, an argument that the call doesn't give" if found else ""


def _written(code: Code, steps: dict[State, Step]) -> dict[State, frozenset[int]]:
    """For each state, the cells that something on some way to it has written."""
    known: dict[State, frozenset[int]] = dict.fromkeys(steps, frozenset())
    todo = list(steps)
    while todo:
        state = todo.pop()
        step = steps[state]
        landed = {code.ops[f.uid].writes[f.index].cell for f in step.landing if f.kind == "write"}
        after = known[state] | landed
        followers = list(step.next.values())
        followers += [s for table in step.dispatch.values() for s in table.values() if s is not None]
        for follower in followers:
            if not after <= known[follower]:
                known[follower] |= after
                todo.append(follower)
    return known
