"""Static machine states: what is in flight at each point of a program, so that landing needs no run-time queue.

A state is a packet (or a later cycle of one), the writes and stores in flight with the cycles they have left, and the
taken branch in flight, if any. All of these follow from the path to it, and paths that agree over the last few cycles
meet in one state, so a loop has as many states as packets, plus the few of its first iteration. The C generator makes
one piece of straight code of each state; predicates, masks, addresses and values stay run-time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dspgen.sim.ir import Code, Op

STATE_LIMIT = 60_000
RETURN = -1


@dataclass(frozen=True, slots=True)
class InFlight:
    """A write or store of op `uid` that lands when `left` cycles have passed; `copy` tells issues of one op apart."""

    left: int
    uid: int
    index: int
    store: bool
    copy: int


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

    `next` maps (branch op or None, whether a predicated no-operation ran short) to the following state; where a
    branch from a register lands, `dispatch` maps each packet it may go to, and RETURN, to a state or None.
    `refused`: (op's place in the packet, kind of fault) where a unit or port is taken.
    """

    state: State
    copies: tuple[int, ...] = ()
    landing: tuple[InFlight, ...] = ()
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
    step = Step(state)
    if state.wait:
        _advance(code, step, state, list(state.flight), {None: state.branch}, {False: state.wait - 1})
        return step
    if state.at >= len(code.slots):
        step.off_end = True
        return step
    slot = code.slots[state.at]
    flight = list(state.flight)
    held = dict.fromkeys(state.held)
    copies: list[int] = []
    branches: dict[int | None, Branch | None] = {None: state.branch}
    for place, op in enumerate(slot.ops):
        if (kind := _reserve(op, held)) is not None:
            step.refused = (place, kind)
            step.copies = tuple(copies)
            return step
        copies.append(_free_copy(op, flight))
        flight += [InFlight(w.latency, op.uid, i, False, copies[-1]) for i, w in enumerate(op.writes)]
        flight += [InFlight(s.latency, op.uid, i, True, copies[-1]) for i, s in enumerate(op.stores)]
        if op.branch is not None and state.branch is None:
            branches[place] = Branch(1 + delay, op.branch if isinstance(op.branch, int) else None)
            if op.predicate is None:
                branches.pop(None, None)
    step.copies = tuple(copies)
    lengths = {False: max(slot.idle, 1) - 1}
    if slot.idle_predicate is not None and slot.idle > 1:
        lengths[True] = 0
    _advance(code, step, State(state.at, 0, (), None, tuple(held)), flight, branches, lengths)
    return step


def _reserve(op: Op, held: dict[tuple[str, int], None]) -> str | None:
    if op.busy > 1 or any(name == op.unit for name, _ in held):
        for k in range(op.busy):
            if (op.unit, k) in held:
                return "unit"
        held.update(((op.unit, k), None) for k in range(op.busy))
    for name, first, cycles in op.resources:
        wanted = [("port " + name, first + k) for k in range(cycles)]
        if any(w in held for w in wanted):
            return "port"
        held.update((w, None) for w in wanted)
    return None


def _free_copy(op: Op, flight: list[InFlight]) -> int:
    taken = {f.copy for f in flight if f.uid == op.uid}
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
    step.landing = tuple(f for f in flight if f.left == 1)
    later = tuple(InFlight(f.left - 1, f.uid, f.index, f.store, f.copy) for f in flight if f.left > 1)
    held = tuple(sorted((name, k - 1) for name, k in state.held if k > 0))
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
            if not landed.store and (op.predicate is None or op.predicate.lane):
                out |= 1 << op.writes[landed.index].cell
        followers = list(step.next.values())
        followers += [s for table in step.dispatch.values() for s in table.values() if s is not None]
        for follower in followers:
            if known[follower] & out != known[follower]:
                known[follower] &= out
                todo.append(follower)
    return known
