"""What a program that ran well may owe to luck: told of text that isn't ours, with the lines.

A register that is read while a write to it is in flight holds its old value, and programs rely on that. It is luck
where control comes to the reader in two ways, and the write is still in flight on one and has landed on the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from dspgen.sim.cgen.static_states import State, Step, TooManyStates, explore
from dspgen.sim.ir.program import Code, Op
from dspgen.sim.ir.registers import RegisterFile
from dspgen.sim.lowering.load import Loaded
from dspgen.sim.machine.interpreter import Outcome
from dspgen.target.isa.model import Target


def lucky(loaded: Loaded, outcome: Outcome, target: Target) -> list[str]:
    """Warnings, those of the text in its order, then those of this run's end."""
    found: list[tuple[int, str]] = []
    try:
        steps = explore(loaded.code, loaded.start.entry, target.pipeline.branch_delay)
    except TooManyStates:
        steps = {}
    found += _reads_by_path(loaded.code, steps)
    found += _branches_in_flight(loaded.code, steps)
    return list(dict.fromkeys(text for _, text in sorted(found))) + list(_lost(loaded, outcome, target))


def _reads_by_path(code: Code, steps: dict[State, Step]) -> Iterator[tuple[int, str]]:
    """Reads that get a register before a write of it lands on one way, and after it on another."""
    early: dict[tuple[int, int], set[int]] = {}  # (reader, cell) -> writers in flight
    for state in steps:
        for op in _issuing(code, steps, state):
            for cell in _cells(op):
                if flying := _writers(code, state, cell):
                    early.setdefault((op.uid, cell), set()).update(flying)
    watched = {cell for _, cell in early}
    landed = _last_landed(code, steps, watched)
    told: set[tuple[int, int]] = set()
    for state in steps:
        for op in _issuing(code, steps, state):
            for cell in _cells(op):
                late = early.get((op.uid, cell), set()) & landed[state].get(cell, frozenset())
                late -= _writers(code, state, cell)
                if late and (op.uid, cell) not in told:
                    told.add((op.uid, cell))
                    writer = code.ops[min(late)]
                    text = f"{op.loc}: {op.text} reads {code.cells[cell].name} on one way before and on another after "
                    yield op.loc.line, text + f"the result of line {writer.loc.line} lands there"


def _issuing(code: Code, steps: dict[State, Step], state: State) -> tuple[Op, ...]:
    idle = state.wait or steps[state].stalled
    return code.slots[state.at].ops if not idle and state.at < len(code.slots) else ()


def _writers(code: Code, state: State, cell: int) -> set[int]:
    return {f.uid for f in state.flight if f.kind == "write" and code.ops[f.uid].writes[f.index].cell == cell}


def _last_landed(code: Code, steps: dict[State, Step], watched: set[int]) -> dict[State, dict[int, frozenset[int]]]:
    """For each state and watched cell, the instructions whose result it may hold."""
    known: dict[State, dict[int, frozenset[int]]] = {state: {} for state in steps}
    todo = list(steps)
    while todo:
        state = todo.pop()
        after = dict(known[state])
        for f in steps[state].landing:
            op = code.ops[f.uid]
            if f.kind == "write" and (cell := op.writes[f.index].cell) in watched:
                kept = after.get(cell, frozenset()) if not op.certain else frozenset()
                after[cell] = kept | {f.uid}
        followers = list(steps[state].next.values())
        followers += [s for table in steps[state].dispatch.values() for s in table.values() if s is not None]
        for follower in followers:
            merged = {c: known[follower].get(c, frozenset()) | uids for c, uids in after.items()}
            if any(merged[c] != known[follower].get(c) for c in merged):
                known[follower] |= merged
                todo.append(follower)
    return known


def _cells(op: Op) -> tuple[int, ...]:
    return (*op.reads, *((op.predicate.cell,) if op.predicate is not None else ()))


def _branches_in_flight(code: Code, steps: dict[State, Step]) -> Iterator[tuple[int, str]]:
    """Branches that may be taken in the delay slots of another: a fault as soon as they are."""
    told: set[int] = set()
    for state in steps:
        if state.branch is None:
            continue
        for op in _issuing(code, steps, state):
            if op.branch is not None and op.uid not in told:
                told.add(op.uid)
                yield (
                    op.loc.line,
                    f"{op.loc}: {op.text} stands in the delay slots of another branch; both must not be taken",
                )


def _lost(loaded: Loaded, outcome: Outcome, target: Target) -> Iterator[str]:
    """Registers that a caller relies on and that came back with another value."""
    file, abi = RegisterFile(target), target.abi
    for name in dict.fromkeys((*abi.callee_saved, abi.scalar_stack, abi.vector_stack, *abi.entry_values)):
        place = file.place(name)
        for cell in place.cells if place else ():
            if (outcome.registers[cell] != loaded.start.registers[cell]).any():
                yield f"{name} is not at the return what it was at entry: a caller may rely on it"
