"""The scheduler: linear assembly in, packets on physical registers out; retried smaller until it fits, never wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from dspgen.asmir.ir.function import Function, Instr, Item, Phys, VReg, instruction_count
from dspgen.errors import NoSchedule, Problem
from dspgen.sched.graph.budget import Budget
from dspgen.sched.graph.implicit_registers import free_after
from dspgen.sched.graph.liveness import NOTHING, live_before, predicates_of
from dspgen.sched.graph.lower_bound import TooSlow, hopes
from dspgen.sched.graph.rigid_sections import Block
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.graph.unroll import copied_predicates, count_loops, flatten_short_loops
from dspgen.sched.ir.packets import Elsewhere, Lessons, Method, Packed, Scheduled
from dspgen.sched.layout.block_layout import Laid, RunsCollide, TooStraight
from dspgen.sched.layout.function_layout import Layout
from dspgen.sched.layout.physical_packets import finished_lines
from dspgen.sched.loops.attempt_state import Settings
from dspgen.sched.loops.loop_plans import Crowded, Unsaved
from dspgen.sched.loops.outer_loops import labels_in_nests
from dspgen.sched.machine.target_facts import Atom, Facts
from dspgen.sched.registers.allocation import Failure, allocate
from dspgen.sched.registers.occupancy import occupancy
from dspgen.sched.registers.spilling import Stack, idle, spilled, worth_spilling
from dspgen.sched.registers.stack_frame import above_frames, moved_by_itself
from dspgen.sched.registers.stack_frame import enter as enter_frame
from dspgen.sched.registers.stack_frame import leave as leave_frame
from dspgen.sched.spill_record import begin_with, told, waiting
from dspgen.sched.straight.block_packing import Searches
from dspgen.target.isa.model import Target

ATTEMPTS = 60
_SMALL, _FEWEST = 400, 4  # operations: larger code is laid out fewer times in proportion, but so often
_SPILLS = 4  # times that registers are put into memory before the order of the text is tried
_LOOK = 200_000
_SPARE = 32  # one register in so many is kept back where they did not suffice
_WORTH = 1.02  # times the cycles of code that lacks registers: other code that takes no more is as good
_OFTEN = 8  # runs of a loop for which the caller's registers are saved sooner than that they follow each other
_MANY, _PART = 16, 6  # blocks, and of how many one, that lack registers for values which live all through the code


def schedule(
    function: Function,
    target: Target,
    *,
    pipeline: bool = True,
    method: Method = "dp",
    attempts: int = ATTEMPTS,
    most: int | None = None,
    look: int = _LOOK,
    times: int = 1,
    lessons: Lessons | None = None,
    limit: float = math.inf,
    largest: int | None = None,
    blocks: Mapping[object, Packed] | None = None,
    instead: Callable[[], float] | None = None,
    elsewhere: Elsewhere | None = None,
) -> Scheduled:
    """Schedule a function for `target`. Raises NoSchedule when registers or instructions are lacking.

    `attempts` bounds how often it is tried anew, each time asking for less (large code less often); `most` bounds the
    operations placed in search of loop schedules, `look` those looked at in search of short straight code; the searches
    for a loop's schedule at one interval give up `times` as late. `method` "order" leaves loops as they are and packs
    what is independent in the order of the text. `lessons`: what schedules of the loops asked for less for; `blocks`:
    how straight code was packed before; `elsewhere`: what made room for values in a schedule of the same code. Straight
    code of over `largest` operations is given up where the order that needs few registers lacks some. Raises TooSlow
    where the intervals of loops, or packets that lack registers, show that it takes about `limit` cycles or more; and
    where values must wait in memory, though other code, of which `instead` tells the cycles, takes hardly more than
    this would without that.
    """
    function = function.entered
    facts = Facts(target)
    settings = Settings(
        pipeline=pipeline,
        method=method,
        budget=Budget(most, times=times),
        searches=Searches(look, earlier=blocks or {}),
        limit=limit,
        instead=instead,
    )
    if lessons is not None:
        settings.learn(lessons)
    if method == "order":
        settings.pipeline, settings.flat_limit = False, 0
    failure: Failure | None = None
    laid: Laid | None = None
    kit = Kit(facts)
    stack = Stack(facts, kit, function.below, moved_by_itself(function, target.abi))
    if elsewhere is not None:
        begin_with(elsewhere, settings, kit, stack)
    size = max(instruction_count(function.body), 1)
    for _ in range(min(attempts, max(attempts * _SMALL // size, _FEWEST))):
        laid, inputs = _laid_out(function, facts, kit, settings, stack, laid)
        found = _allocate(laid.blocks, facts, inputs, [*settings.borrowed, *settings.saved])
        if isinstance(found, dict):
            return _scheduled(function, target, laid, found, facts, settings)
        failure = found[0]
        if (cycles := _cycles(laid)) is not None and cycles >= settings.limit:
            raise TooSlow(cycles)
        if largest is not None and _hopeless(failure, laid, settings, largest):
            break
        if not _relax(function, settings, found, laid, facts, kit, stack):
            break
    raise _no_registers(function, failure, laid)


def _laid_out(
    function: Function, facts: Facts, kit: Kit, settings: Settings, stack: Stack, before: Laid | None
) -> tuple[Laid, dict[VReg, tuple[str, ...]]]:
    """The function in blocks, with fewer of its short loops as straight code where these are too many, and what only
    code around loops uses in memory where loops lack registers. `before` is the last that lacked registers."""
    while True:
        try:
            return _lay_out(function, facts, kit, settings, stack)
        except TooStraight as found:
            _roll(settings, found.flattened)
            _afresh(settings)
        except RunsCollide as found:
            settings.apart_runs.add(found.label)
            _afresh(settings)
        except Unsaved as found:
            _save_some(settings, found, kit, stack)
            _afresh(settings)
        except Crowded as found:
            _check_worth(settings, before)
            settings.spilled.update((register, stack.place(register.cls)) for register in found.idle)
            _afresh(settings)


def _cycles(laid: Laid) -> int | None:
    """None where it is not known how often some of it runs."""
    cycles = 0
    for block in laid.blocks:
        if block.trips is None:
            return None
        cycles += len(block.cycles) * block.trips
    return cycles


def _check_worth(settings: Settings, laid: Laid | None) -> None:
    """Before values wait in memory: raise TooSlow if other code takes hardly more than this does without that, as far
    as it is known how often the parts of this run."""
    cycles = None if laid is None else _cycles(laid)
    if settings.instead is None or (laid is not None and cycles is None):
        return
    settings.limit, settings.instead = min(settings.limit, settings.instead()), None
    if cycles is not None and _WORTH * cycles >= settings.limit:
        raise TooSlow(max(cycles, settings.limit))


def _hopeless(failure: Failure, laid: Laid, settings: Settings, largest: int) -> bool:
    """Whether straight code that is so large lacks registers of a class though it was asked to take few of them; or
    predicates twice those that there are, though they were copied."""
    if failure.predicate and settings.copy_predicates and failure.needed >= 2 * failure.available:
        return True
    piece, block = laid.pieces[failure.block], laid.blocks[failure.block]
    asked = failure.cls in settings.frugal.get(piece, {}) and piece not in laid.flattened
    return asked and sum(map(len, block.cycles)) > largest


def _roll(settings: Settings, flattened: Mapping[str, int]) -> None:
    """Half of the loops stay loops, those that win the least as straight code."""
    settings.rolled.update(sorted(flattened, key=lambda x: flattened[x])[: -(-len(flattened) // 2)])


def _lay_out(
    function: Function, facts: Facts, kit: Kit, settings: Settings, stack: Stack
) -> tuple[Laid, dict[VReg, tuple[str, ...]]]:
    layout = Layout(facts, kit, settings, function.name)
    inputs, entry = _inputs(function, facts, kit, stack)
    layout.pending += entry
    leave: list[Instr] = []
    for name, place in settings.saved.items():
        leave += stack.move(Phys(name), kit.class_of(name), place, store=False)
    layout.pending += enter_frame(stack, kit)
    leave += leave_frame(stack, kit)
    for name in settings.borrowed:
        kept = kit.shelter(name, room_elsewhere(facts, name, settings.borrowed))
        if kept is None:
            raise ValueError(f"{name} was borrowed but can't be kept")
        layout.pending.append(kept[0])
        leave.append(kept[1])
    for name, place in settings.saved.items():
        layout.pending += stack.move(Phys(name), kit.class_of(name), place, store=True)
    layout.body(_prepared(function, kit, settings, stack), live_before(leave, NOTHING, facts))
    return layout.finish(leave, kit.branch_register(facts.target.abi.return_operand)), inputs


def _prepared(function: Function, kit: Kit, settings: Settings, stack: Stack) -> tuple[Item, ...]:
    """The function's body as the settings want it, made once for each choice."""
    key = (settings.flat_limit, settings.copy_predicates, len(settings.spilled), stack.frames)
    if key not in settings.bodies:
        body = above_frames(function.body, stack, kit)
        if settings.copy_predicates:
            body = copied_predicates(body, kit)
        if settings.pipeline:
            flat = flatten_short_loops(body, kit, settings.flat_limit)
            settings.flattens = count_loops(flat) < count_loops(body)
            body = flat
        if settings.spilled:
            inputs = [register for register, _ in function.inputs]
            body = spilled(body, settings.spilled, inputs, stack, settings.temporaries)
        settings.bodies[key] = body
        settings.free = free_after(body, kit.facts)
        settings.nested = frozenset(() if kit.loops else labels_in_nests(body))
        settings.idle = idle(body, stack, settings.temporaries)
        settings.hopes = hopes(body, settings.limit, kit.facts) if settings.limit < math.inf else None
    return settings.bodies[key]


def _inputs(
    function: Function, facts: Facts, kit: Kit, stack: Stack
) -> tuple[dict[VReg, tuple[str, ...]], list[Instr]]:
    """Registers that arrive in given ones, and code for those that don't: one that is used as a predicate moves to a
    predicate register, one that comes on the stack is loaded."""
    inputs: dict[VReg, tuple[str, ...]] = {}
    entry: list[Instr] = []
    used = predicates_of(function.body)
    for register, name in function.inputs:
        if isinstance(name, int):
            entry += stack.argument(register, name)
            continue
        arrived = VReg(f"{register.name}~in", register.cls) if register in used else register
        places = tuple(str(a[0]) for a in facts.physical(name))
        if len(places) != len(facts.atoms(register)):
            raise NoSchedule(Problem("DG304", f"the argument {register.name} of {function.name} does not fit {name}"))
        inputs[arrived] = places
        if arrived != register:
            entry += kit.move(register, arrived)
    return inputs, entry


def _allocate(
    blocks: Sequence[Block], facts: Facts, inputs: Mapping[VReg, tuple[str, ...]], borrowed: Sequence[str]
) -> dict[VReg, tuple[str, ...]] | list[Failure]:
    avoid = facts.untouchable - set(borrowed)
    given: list[Atom] = [a for r in inputs for a in facts.atoms(r)]
    wanted: dict[Atom, None] = {}
    predicates: dict[VReg, bool] = {}
    allocatable = {n for c in facts.target.registers if c.kind not in ("control", "element") for n in c.names}
    for block in blocks:
        for packet in block.cycles:
            for op, _ in packet:
                if op.predicate is not None:
                    predicates[op.predicate.register] = op.predicate.lane
                for atom, _ in op.writes:
                    if isinstance(atom[0], str) and atom[0] in allocatable:
                        wanted[atom] = None
    found = occupancy(blocks, facts, given, list(wanted))
    return allocate(found, facts, inputs=inputs, predicates=predicates, avoid=avoid)


def room_elsewhere(facts: Facts, name: str, borrowed: Sequence[str]) -> dict[str, int]:
    """How many scratch registers each other class has, those already keeping a borrowed register's value aside."""
    return {
        c.name: len(set(c.names) - facts.untouchable) - len(borrowed)
        for c in facts.target.registers
        if c.kind not in ("control", "element") and c.pair_of is None and name not in c.names
    }


def _borrow(settings: Settings, failure: Failure, facts: Facts, kit: Kit) -> bool:
    """Use registers that the caller wants kept, if their values can be kept in another class meanwhile."""
    names = [n for n in facts.classes[failure.cls].names if n in facts.callers and n not in settings.borrowed]
    wanted = names[: max(1, failure.needed - failure.available)]
    possible = [n for n in wanted if kit.shelter(n, room_elsewhere(facts, n, [*settings.borrowed, n])) is not None]
    settings.borrowed += possible
    return bool(possible)


def _save(settings: Settings, failure: Failure, facts: Facts, kit: Kit, stack: Stack, *, enough: bool = False) -> bool:
    """Use registers that the caller wants kept, saved on the stack meanwhile; with `enough`, only if that will do.
    Where there were enough, but not side by side, nothing tells how many more it takes: as many again as before."""
    taken = {*settings.borrowed, *settings.saved}
    cls = facts.classes[failure.cls]
    names = [n for n in cls.names if n in facts.callers and n not in taken and stack.can_hold(cls.name)]
    lacking = max(1, failure.needed - failure.available)
    if enough and len(names) < lacking:
        return False
    for name in names[: lacking if failure.needed > failure.available else max(1, len(settings.saved))]:
        settings.saved[name] = stack.place(cls.name)
    kit.saved |= settings.saved.keys()
    return bool(names)


def _save_some(settings: Settings, wanted: Unsaved, kit: Kit, stack: Stack) -> None:
    """Save the caller's registers that a loop lacks, or as many as there are: once for each call, where values that
    wait in memory are loaded again for each use."""
    names = kit.unsaved(wanted.cls) if stack.can_hold(wanted.cls) else []
    for name in names[: wanted.lacking]:
        settings.saved[name] = stack.place(wanted.cls)
    kit.saved |= settings.saved.keys()
    if len(names) <= wanted.lacking:
        settings.unsavable.add(wanted.cls)


def _spill(function: Function, settings: Settings, failure: Failure, laid: Laid, kit: Kit, stack: Stack) -> bool:
    """Put values that crowd the block into memory."""
    _check_worth(settings, laid)
    pressure = _by_origin(failure, kit)
    pipelined = [label for label in laid.intervals if label not in settings.plain]
    body = _prepared(function, kit, settings, stack)
    settings.spills += 1
    amount = max(1, failure.needed - failure.available) + 2 * settings.spills
    chosen = worth_spilling(body, pressure, stack, settings.temporaries, pipelined, amount)
    for register in chosen:
        settings.spilled[register] = stack.refuge(register)
    return bool(chosen)


def _put_aside(settings: Settings, failure: Failure, laid: Laid, kit: Kit, stack: Stack) -> bool:
    """Before a loop takes longer, put values into memory that only code around loops uses."""
    around = sorted(_by_origin(failure, kit).keys() & settings.idle.keys(), key=settings.idle.__getitem__)
    if around:
        _check_worth(settings, laid)
    chosen = around[: max(1, failure.needed - failure.available) + failure.available // _SPARE]
    settings.spilled.update((register, stack.place(register.cls)) for register in chosen)
    return bool(chosen)


def _by_origin(failure: Failure, kit: Kit) -> dict[VReg, int]:
    """In how many cycles of the crowded place each register is in the way; of pieces of one register together."""
    pressure: dict[VReg, int] = {}
    for register, cycles in failure.pressure:
        origin = kit.origins.get(register, register)
        pressure[origin] = pressure.get(origin, 0) + cycles
    return pressure


def _relax(
    function: Function,
    settings: Settings,
    failures: Sequence[Failure],
    laid: Laid,
    facts: Facts,
    kit: Kit,
    stack: Stack,
) -> bool:
    """Ask for less where registers ran out, the worst place first; False when nothing is left to give up. The straight
    pieces among the places are all relaxed at once, since each round costs a layout of the whole function."""
    failure = failures[0]
    if failure.predicate and not settings.copy_predicates:
        settings.copy_predicates = True
        return True
    if not failure.predicate and _borrow(settings, failure, facts, kit):
        return True
    if _everywhere(failures, laid) and (
        _save(settings, failure, facts, kit, stack)
        or (settings.spills < _SPILLS and _spill(function, settings, failure, laid, kit, stack))
    ):
        return _afresh(settings)
    crowded = [laid.flattened.get(laid.pieces[f.block], {}) for f in failures]
    if any(crowded):
        for flattened in crowded:
            _roll(settings, flattened)
        return _afresh(settings)
    owners = [x for x in laid.owners[failure.block] if x in laid.intervals and x not in settings.plain]
    patient = set(owners) - settings.scarce if not failure.predicate else set()
    if patient:
        settings.scarce |= patient
        return _afresh(settings)
    if overlapped := _crowded_runs(failures, laid, settings):
        trips = laid.blocks[failure.block].trips
        if (trips is None or trips >= _OFTEN) and _save(settings, failure, facts, kit, stack, enough=True):
            return True
        settings.apart_runs |= overlapped
        return _afresh(settings)
    if _relax_pieces(failures, laid, settings):
        return True
    if not failure.predicate and _save(settings, failure, facts, kit, stack, enough=True):
        return True
    if owners and not failure.predicate and _put_aside(settings, failure, laid, kit, stack):
        return _afresh(settings)
    if owners:
        lacking = max(1, failure.needed - failure.available)
        found = [settings.lengthen(x, laid.intervals[x], failure.cls, lacking, _lacking(failure)) for x in owners]
        return _afresh(settings) if any(found) else True
    piece = laid.pieces[failure.block]
    if settings.flat_limit and settings.flattens:
        settings.flat_limit = 0
        return _afresh(settings)
    if not failure.predicate and _save(settings, failure, facts, kit, stack):
        return True
    if settings.spills >= _SPILLS and piece >= 0 and piece not in settings.textual:
        settings.spills = 0
        settings.textual.add(piece)
        return True
    if not failure.predicate and _spill(function, settings, failure, laid, kit, stack):
        return True
    if piece >= 0 and piece not in settings.textual:
        # Others that lack predicates as well were asked for less before it came to this.
        others = (laid.pieces[f.block] for f in failures if f.predicate and not laid.owners[f.block])
        settings.textual |= {piece, *(p for p in others if p >= 0)}
        return True
    unpipelined = [label for label in laid.intervals if label not in settings.plain]
    for label in unpipelined:
        settings.plain[label] = laid.intervals[label], _lacking(failure)
    return bool(unpipelined) and _afresh(settings)


def _everywhere(failures: Sequence[Failure], laid: Laid) -> bool:
    """Whether registers are lacking in so much of the code that it is for values which live all through it."""
    return not failures[0].predicate and len(failures) >= max(_MANY, len(laid.blocks) // _PART)


def _crowded_runs(failures: Sequence[Failure], laid: Laid, settings: Settings) -> set[str]:
    """The outer loops whose runs overlap at the worst place; where runs of several loops do, at any place that has
    already been asked to do with less. Of loops that overlap within each other, the outermost."""
    crowded = set()
    for k, failure in enumerate(failures):
        frugal = failure.cls in settings.frugal.get(laid.pieces[failure.block], {})
        for label in laid.overlapped.keys() & laid.owners[failure.block]:
            if frugal if laid.overlapped[label] > 1 else k == 0:
                crowded.add(label)
    return {label for label in crowded if laid.inside.get(label) not in crowded}


def _lacking(failure: Failure) -> str:
    return (
        f"{failure.needed} registers of class {failure.cls} needed with the code around it, {failure.available} there"
    )


def _relax_pieces(failures: Sequence[Failure], laid: Laid, settings: Settings) -> bool:
    """Each straight piece asks for less in its own next way; False where none has one left."""
    changed = False
    for failure in failures:
        piece, cls = laid.pieces[failure.block], failure.cls
        if piece < 0:
            continue
        without = settings.frugal.setdefault(piece, {})
        if cls not in without:
            # What the loops beside it take; and landings and pairs do not fit perfectly.
            hidden = failure.needed - laid.blocks[failure.block].in_use.get(cls, failure.available)
            without[cls] = max(1, hidden) + failure.available // _SPARE
        elif piece not in settings.apart and laid.owners[failure.block]:
            settings.apart.add(piece)
        else:
            continue
        changed = True
    return changed


def _afresh(settings: Settings) -> bool:
    """Straight pieces change with the loops between them: what was learnt of them no longer holds."""
    settings.frugal.clear()
    settings.apart.clear()
    settings.textual.clear()
    return True


def _no_registers(function: Function, failure: Failure | None, laid: Laid | None) -> NoSchedule:
    if failure is None or laid is None:
        return NoSchedule(Problem("DG303", f"no schedule was found for {function.name}"))
    owners = laid.owners[failure.block]
    report = next((r for r in laid.reports if r.label in owners), None)
    where = f"loop {report.label} of {function.name}" if report is not None else function.name
    return NoSchedule(
        Problem(
            "DG303",
            f"{where} needs {failure.needed} registers of class {failure.cls} at once; {failure.available} are there",
            report.loc if report is not None else None,
            "use smaller register tiles, or split the loop",
        )
    )


def _scheduled(
    function: Function,
    target: Target,
    laid: Laid,
    registers: Mapping[VReg, tuple[str, ...]],
    facts: Facts,
    settings: Settings,
) -> Scheduled:
    lines = finished_lines(laid.blocks, registers, facts)
    used = {name for names in registers.values() for name in names}
    order = [n for c in target.registers if c.pair_of is None for n in c.names]
    return Scheduled(
        function.name,
        lines,
        tuple(laid.reports),
        _cycles(laid),
        tuple(dict.fromkeys(n for n in order if n in used)),
        tuple(b.report for b in laid.blocks if b.report is not None),
        tuple(waiting(settings)),
        settings.searches.cut,
        settings.lessons(),
        settings.searches.packed,
        told(settings),
    )
