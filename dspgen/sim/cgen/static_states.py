"""Static machine states: what is in flight at each point of a program, so that landing needs no run-time queue.

A state is a packet (or a later cycle of one), the writes and stores in flight with the cycles they have left, and the
taken branch in flight, if any. All of these follow from the path to it, and paths that agree over the last few cycles
meet in one state, so a loop has as many states as packets, plus the few of its first iteration. The C generator makes
one piece of straight code of each state; predicates, masks, addresses and values stay run-time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dspgen.sim.ir.program import Code, Op
from dspgen.sim.machine.in_flight import InFlight, reserve, started
from dspgen.sim.machine.interlock import blocked

STATE_LIMIT = 60_000
RETURN = -1


@dataclass(frozen=True, slots=True)
class Branch:
    """A taken branch with `left` cycles to go; `target` None where a register gave it at run time."""

    left: int
    target: int | None


@dataclass(frozen=True, slots=True)
class State:
    """`wait` cycles are left over of packet `at` (0: it issues now). `held`: (unit or port, cycles from now)."""

    at: int
    wait: int
    flight: tuple[InFlight, ...] = ()
    branch: Branch | None = None
    held: tuple[tuple[str, int], ...] = ()


@dataclass(slots=True)
class Step:
    """One state's cycle. `copies[i]` is the copy number of the packet's i-th op; `landing` lands at the cycle's end.
    `reading` are registers that instructions in flight read in it. In a `stalled` one nothing issues.

    `next` maps (branch op or None, whether a predicated no-operation ran short) to the following state; where a
    branch from a register lands, `dispatch` maps each packet it may go to, and RETURN, to a state or None.
    `refused`: (op's place in the packet, kind of fault) where a unit or port is taken.
    """

    state: State
    copies: tuple[int, ...] = ()
    landing: tuple[InFlight, ...] = ()
    reading: tuple[InFlight, ...] = ()
    stalled: bool = False
    next: dict[tuple[int | None, bool], State] = field(default_factory=dict)
    dispatch: dict[tuple[int | None, bool], dict[int, State | None]] = field(default_factory=dict)
    refused: tuple[int, str] | None = None
    off_end: bool = False


class TooManyStates(Exception):
    """The program's paths differ too much for static states."""


def explore(code: Code, entry: int, delay: int) -> dict[State, Step]:
    """Every state reachable from `entry`, in order of discovery."""
    first = State(entry, 0)
    steps: dict[State, Step] = {}
    todo = [first]
    while todo:
        state = todo.pop()
        if state in steps:
            continue
        if len(steps) >= STATE_LIMIT:
            raise TooManyStates
        step = steps[state] = _step(code, state, delay)
        followers = list(step.next.values())
        followers += [s for table in step.dispatch.values() for s in table.values() if s is not None]
        todo += [s for s in reversed(followers) if s not in steps]
    return steps


def _step(code: Code, state: State, delay: int) -> Step:
    step = Step(state, reading=tuple(f for f in state.flight if f.kind == "read" and f.left == 0))
    if state.wait:
        _advance(code, step, state, list(state.flight), {None: state.branch}, {False: state.wait - 1})
        return step
    if state.at >= len(code.slots):
        step.off_end = True
        return step
    slot = code.slots[state.at]
    if code.interlocked and blocked(code, slot, state.flight, state.held):
        step.stalled = True
        _land(step, state.flight)
        step.next[None, False] = State(state.at, 0, _later(state.flight), state.branch, _held(state.held))
        return step
    flight = list(state.flight)
    held = dict.fromkeys(state.held)
    copies: list[int] = []
    branches: dict[int | None, Branch | None] = {None: state.branch}
    for place, op in enumerate(slot.ops):
        if (kind := reserve(op, held)) is not None:
            step.refused = (place, kind)
            step.copies = tuple(copies)
            return step
        copies.append(_free_copy(op, flight))
        flight += started(op, copies[-1])
        if op.branch is not None and state.branch is None:
            slots = delay if op.again is None else 0
            branches[place] = Branch(1 + slots, op.branch if isinstance(op.branch, int) else None)
            if op.certain and op.again is None:
                branches.pop(None, None)
    step.copies = tuple(copies)
    lengths = {False: max(slot.idle, 1) - 1}
    if slot.idle_predicate is not None and slot.idle > 1:
        lengths[True] = 0
    _advance(code, step, State(state.at, 0, (), None, tuple(held)), flight, branches, lengths)
    return step


def _free_copy(op: Op, flight: list[InFlight]) -> int:
    taken = {f.copy for f in flight if f.uid == op.uid and f.kind != "settle"}
    return next(k for k in range(len(taken) + 1) if k not in taken)


def _advance(
    code: Code,
    step: Step,
    state: State,
    flight: list[InFlight],
    branches: dict[int | None, Branch | None],
    lengths: dict[bool, int],
) -> None:
    """Ends the cycle: what is due lands, all else comes a cycle nearer, for each way the cycle may have gone."""
    _land(step, flight)
    later, held = _later(flight), _held(state.held)
    for taken, branch in branches.items():
        for short, wait in lengths.items():
            key = (taken, short)
            if branch is not None and branch.left == 1:
                if branch.target is None:
                    targets = sorted(set(code.addresses.values()))
                    table: dict[int, State | None] = {t: State(t, 0, later, None, held) for t in targets}
                    step.dispatch[key] = table | {RETURN: None}
                else:
                    step.next[key] = State(branch.target, 0, later, None, held)
                continue
            moved = None if branch is None else Branch(branch.left - 1, branch.target)
            at = state.at if wait else state.at + 1
            step.next[key] = State(at, wait, later, moved, held)


def _land(step: Step, flight: Sequence[InFlight]) -> None:
    step.landing = tuple(f for f in flight if f.left == 1 and f.kind in ("write", "store"))


def _later(flight: Sequence[InFlight]) -> tuple[InFlight, ...]:
    return tuple(moved for f in flight if (moved := f.later()) is not None)


def _held(held: Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, k - 1) for name, k in held if k > 0))


def always_written(code: Code, steps: dict[State, Step], entry: State, initial: frozenset[int]) -> dict[State, int]:
    """For each state, a bit set of the cells that every path to it has written: the others need a run-time check."""
    everything = (1 << len(code.cells)) - 1
    known = dict.fromkeys(steps, everything)
    known[entry] = sum(1 << c for c in initial)
    todo = [entry]
    while todo:
        state = todo.pop()
        step = steps[state]
        out = known[state]
        for landed in step.landing:
            op = code.ops[landed.uid]
            if landed.kind == "write" and not op.unsure:
                out |= 1 << op.writes[landed.index].cell
        followers = list(step.next.values())
        followers += [s for table in step.dispatch.values() for s in table.values() if s is not None]
        for follower in followers:
            if known[follower] & out != known[follower]:
                known[follower] &= out
                todo.append(follower)
    return known
