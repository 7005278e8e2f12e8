"""Software pipelining of one loop: unroll factor, initiation interval, address groups, registers; and its report."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dspgen.asmir.ir import Instr, Loop, Stream, VReg
from dspgen.sched.budget import Budget
from dspgen.sched.crowded import no_room
from dspgen.sched.exact_modulo import Solution, exact_modulo_schedule
from dspgen.sched.expand import (
    NO_ROOM_FOR_BRANCH,
    NO_ROOM_FOR_COUNTER,
    Body,
    Pipelined,
    Shape,
    choose_shape,
    expand,
)
from dspgen.sched.facts import Atom, Facts
from dspgen.sched.ir import Dependence, LoopReport, Step
from dspgen.sched.kit import Kit
from dspgen.sched.least import Hopes
from dspgen.sched.list_sched import listed_length
from dspgen.sched.machine import binding_units, group_bounds, resource_bound
from dspgen.sched.modulo import (
    ALL_OR_NONE,
    GAVE_UP,
    ModuloSchedule,
    critical_recurrence,
    longest_path,
    shorten_lifetimes,
)
from dspgen.sched.ops import Op
from dspgen.sched.prepared import HEURISTICS, WAIT_ALIKE, Prepared, ceiling, prepare, scheduled, sparing
from dspgen.sched.pressure import lifetimes, register_excess
from dspgen.sched.straight import straight_ops
from dspgen.sched.streams import Group, merge_groups, split_stream, stream_accesses
from dspgen.sched.unroll import flat_iterations, unrolled, with_conditional_apart
from dspgen.sched.windows import with_own_values

_MOST_COPIES = 8  # body copies tried for a fractional bound
_MOST_OPERATIONS = 256  # in an unrolled body
_GAIN = Fraction(20, 19)  # an unrolled body must be over 5 % faster
_ARITHMETIC = ("mac", "msub", "mul", "add", "sub")
_MOST_WHOLE = 8  # longer intervals tried for a loop with more stages than iterations
_CLOSE = 4  # intervals tried one by one; then each is longer by an eighth, up to that of a loop without overlap
_ALIKE = 2  # times that the next interval lacks as many registers, before a far one is tried, and then none
_MOST_UNKNOWN = 2  # intervals left undecided by the exact scheduler before it stops
_NO_LEADER = "no access can advance its address register"


class FewRegisters(str):
    """What a schedule lacks where that is registers, in words; and how many of which class."""

    cls: str
    lacking: int

    def __new__(cls, text: str, of: str = "", lacking: int = 0) -> FewRegisters:
        made = super().__new__(cls, text)
        made.cls, made.lacking = of, lacking
        return made


@dataclass(slots=True)
class Forms:
    """What a loop may be scheduled as, each form with what goes before it: the first `whole` ones are there from the
    start, the others come where these lack address registers. `advanced` are the streams that additions advance in the
    last of them."""

    loop: Loop
    found: list[tuple[Loop, tuple[Instr, ...], Prepared]]
    whole: int
    advanced: set[VReg] = field(default_factory=set)


@dataclass(slots=True)
class Plan:
    """What was decided for a loop; `streams` are those that its groups advance.

    `loop` does what the given loop does, after `setup`: conditional accesses may have got registers of their own.
    """

    body: Body
    shape: Shape
    report: LoopReport
    streams: tuple[Stream, ...]
    loop: Loop
    setup: tuple[Instr, ...]


def unroll_factor(loop: Loop, single: Prepared) -> int:
    """How many iterations of a loop, made ready as it is, to schedule as one, so that a fractional bound is not rounded
    up much."""
    if not isinstance(loop.trip, int):
        return 1
    size = max(len(single.ops), 1)
    rates: dict[int, Fraction] = {}
    for factor in range(1, _MOST_COPIES + 1):
        if factor > 1 and (factor * size > _MOST_OPERATIONS or loop.trip < 4 * factor):
            break
        rates[factor] = Fraction(max(1, ceiling(single.resource * factor), ceiling(single.recurrence * factor)), factor)
    best = min(rates.values())
    return next(f for f, rate in rates.items() if rate < best * _GAIN)


def _forms_of(
    loop: Loop,
    facts: Facts,
    kit: Kit,
    live_out: Collection[VReg],
    factor: int,
    free: Collection[Atom],
    single: Prepared | None,
) -> Forms:
    """The forms that are there from the start."""
    ready = single if single is not None and factor == 1 else _ready(loop, factor, facts, kit, live_out)
    forms: list[tuple[Loop, tuple[Instr, ...], Prepared]] = [(loop, (), ready)]
    if (separate := with_own_values(loop, free, facts)) is not None:
        prepared = _ready(separate[0], factor, facts, kit, live_out, own=separate[1])
        if prepared.least_interval < forms[0][2].least_interval:
            forms.insert(0, (separate[0], (), prepared))
    return Forms(loop, forms, len(forms))


def _ready(
    loop: Loop,
    factor: int,
    facts: Facts,
    kit: Kit,
    live_out: Collection[VReg],
    *,
    own: Collection[Atom] = (),
    explicit: Collection[VReg] = (),
) -> Prepared:
    return prepare(unrolled(loop, factor) if factor > 1 else loop, facts, kit, live_out, explicit, own)


def plan_loop(
    loop: Loop,
    facts: Facts,
    kit: Kit,
    *,
    live_out: Collection[VReg],
    through: Mapping[str, int],
    least_interval: int,
    factor: int,
    budget: Budget,
    scarce: bool = False,
    exact: dict[object, Solution] | None = None,
    free: Collection[Atom] = (),
    known: dict[object, Forms],
    given: object = None,
    hopes: Hopes | None = None,
    single: Prepared | None = None,
    lacking: list[FewRegisters],
) -> Plan | list[tuple[int, str]]:
    """The best schedule with an interval of at least `least_interval`, or what was tried and why it failed.

    `through` are registers of each class that are occupied across the loop without being used in it; where they are
    `scarce`, schedules whose values wait least come first. With `exact`, the exact scheduler looks for what the others
    have missed, and keeps its answers there. The values that the loop leaves in the physical registers `free` are not
    read. What was tried with other registers is in `known`, for loops of the same label where what else was `given` is
    the same; `single` is the loop made ready as it is. What registers schedules lacked goes into
    `lacking`. Raises NoSchedule where the budget is spent, TooSlow where `hopes` for the function end.
    """
    key = loop.label, factor, frozenset(live_out), given
    made = known[key] = known.get(key) or _forms_of(loop, facts, kit, live_out, factor, free, single)
    loop, forms = made.loop, made.found
    tried: list[tuple[int, str]] = []
    interval = max(forms[0][2].least_interval, least_interval)
    longest = 0
    refused = forms[0][2].least_interval - 1  # no schedule has an interval up to this one
    steps = Steps()
    for attempt in range(budget.patience):
        if hopes is not None:
            hopes.check(loop.label, factor, interval)
        failure, reasons = "", list[str]()
        for form, setup, prepared in forms:
            if interval < prepared.least_interval:
                continue
            found = _at_interval(prepared, interval, facts, kit, through, live_out, budget, scarce)
            if isinstance(found, tuple):
                if exact is not None:
                    found, proven = _missed(prepared, found, least_interval, facts, kit, through, live_out, exact)
                    refused = max(refused, proven)
                found, slower = _quicker_whole(prepared, found, facts, kit, through, live_out, budget, scarce)
                tried += slower
                report = replace(_report(prepared, *found, factor, facts, tried), refused=refused)
                return Plan(*found, report, prepared.loop.streams, form, (*setup, *prepared.setup))
            reasons += found
            lacking += (why for why in found if isinstance(why, FewRegisters))
            failure = failure or (_NO_LEADER if _NO_LEADER in found else found[0])
            if _NO_LEADER in found and len(forms) == made.whole and (apart := with_conditional_apart(loop, kit)):
                forms.append((*apart, _ready(apart[0], factor, facts, kit, live_out)))
            if form is loop and (more := prepared.scattered.keys() - made.advanced):
                made.advanced |= more
                forms.append((loop, (), _ready(loop, factor, facts, kit, live_out, explicit=made.advanced)))
        if refused == interval - 1 and failure == GAVE_UP and all(_refuted(p, interval) for _, _, p in forms):
            refused, failure = interval, "no room between dependent operations for what goes there"
        tried.append((interval, failure))
        if not (step := steps.after(interval, reasons, close=attempt < _CLOSE)):
            break
        interval += step
        if attempt >= _CLOSE and not longest:
            longest = _without_overlap(loop, factor, facts, kit)
        if longest and interval > longest:
            break
    return tried


def _without_overlap(loop: Loop, factor: int, facts: Facts, kit: Kit) -> int:
    """The interval of iterations that follow each other."""
    one = straight_ops(flat_iterations(loop, factor, kit), facts, kit, rename=True)
    return listed_length(one, facts) + facts.branch_delay


@dataclass(slots=True)
class Steps:
    """Why the interval before failed, and how many in a row lacked as many registers as the one before them."""

    before: list[str] = field(default_factory=list)
    alike: int = 0

    def after(self, interval: int, reasons: list[str], *, close: bool) -> int:
        """How much longer the next interval is, 0 where none is worth trying."""
        self.alike = self.alike + 1 if reasons == self.before and _few_registers(reasons) else 0
        self.before = reasons
        if self.alike > _ALIKE:
            return 0
        return 1 if close and self.alike < _ALIKE else max(1, interval // 8)


def _few_registers(reasons: Sequence[str]) -> bool:
    """Whether it is registers that schedules lack, wherever there are any."""
    others = [r for r in reasons if not isinstance(r, FewRegisters)]
    return len(others) < len(reasons) and {GAVE_UP, WAIT_ALIKE, ALL_OR_NONE}.issuperset(others)


def _refuted(prepared: Prepared, interval: int) -> bool:
    """Whether its bounds or its units between dependences leave no schedule."""
    reservations = [op.reservation for op in prepared.ops]
    return prepared.least_interval > interval or no_room(prepared.graph, reservations, interval)


def _at_interval(
    prepared: Prepared,
    interval: int,
    facts: Facts,
    kit: Kit,
    through: Mapping[str, int],
    live_out: Collection[VReg],
    budget: Budget,
    scarce: bool,
) -> tuple[Body, Shape] | list[str]:
    """A schedule with its registers, or what each of the heuristics lacks."""
    failures = []
    for found in _schedules(prepared, interval, facts, kit, through, live_out, budget, scarce):
        if not isinstance(found, str):
            return found
        failures.append(found)
    return failures


def _schedules(
    prepared: Prepared,
    interval: int,
    facts: Facts,
    kit: Kit,
    through: Mapping[str, int],
    live_out: Collection[VReg],
    budget: Budget,
    scarce: bool,
) -> Iterator[tuple[Body, Shape] | str]:
    """What each of the heuristics finds, and the same with values that wait less: that first where registers are
    `scarce`, as other code showed, else where the schedule itself lacks some. Then, for each that lacked registers of
    some class, the same with values of that class made late. Where the branch found no room, all of that with places
    kept for what ends an iteration. Last, why others were not found."""
    missed: list[str] = []
    lacking: list[tuple[object, ModuloSchedule, str]] = []
    trip = prepared.loop.trip if isinstance(prepared.loop.trip, int) else None
    crowded_out = False
    for again in (False, True):
        some = False
        for less in (scarce, not scarce):
            for number in range(len(HEURISTICS)):
                if (again and not crowded_out) or (some and number == len(HEURISTICS) - 1):
                    continue  # the last one is for what the others don't find
                asked = number + len(HEURISTICS) * again
                made = scheduled(prepared, interval, asked, facts, budget, less=less, closing=kit.closing)
                if isinstance(made, str):
                    missed.append(made)
                    continue
                some = True
                attempt = _attempt(prepared, made, trip, facts, kit, through, live_out)
                yield attempt
                if isinstance(attempt, FewRegisters):
                    lacking.append(((interval, asked, less), made, attempt.cls))
                crowded_out |= bool(kit.closing) and attempt in (NO_ROOM_FOR_BRANCH, NO_ROOM_FOR_COUNTER)
    for key, made, cls in lacking:
        if (spared := sparing(prepared, made, cls, facts, key=key)) is not None:
            yield _attempt(prepared, spared, trip, facts, kit, through, live_out)
    yield from missed


def _quicker_whole(
    prepared: Prepared,
    found: tuple[Body, Shape],
    facts: Facts,
    kit: Kit,
    through: Mapping[str, int],
    live_out: Collection[VReg],
    budget: Budget,
    scarce: bool,
) -> tuple[tuple[Body, Shape], list[tuple[int, str]]]:
    """For a loop with more stages than iterations: the schedule that takes the fewest cycles from the first operation
    to the last, at intervals up to the one at which there are no longer more, or none can be quicker; and the smaller
    intervals, which are worse."""
    trip = prepared.loop.trip
    first = found[0].schedule.interval
    if not isinstance(trip, int) or found[0].schedule.stages <= trip or scarce:
        return found, []
    whole: dict[int, int] = {}
    for interval in range(first, first + _MOST_WHOLE):
        if (trip - 1) * interval + longest_path(prepared.graph, interval) >= _whole(found[0], trip):
            break
        tried = _schedules(prepared, interval, facts, kit, through, live_out, budget, scarce)
        made = [f for f in tried if not isinstance(f, str)]
        found = min([found, *made], key=lambda f: _whole(f[0], trip))
        if made:
            whole[interval] = min(_whole(body, trip) for body, _ in made)
        if any(body.schedule.stages <= trip for body, _ in made):
            break
    least, best = _whole(found[0], trip), found[0].schedule.interval
    worse = [(ii, cycles) for ii, cycles in whole.items() if ii < best]
    return found, [
        (ii, f"the whole loop is quicker at {best}: {least} cycles against {cycles}") for ii, cycles in worse
    ]


def _whole(body: Body, trip: int) -> int:
    return (trip - 1) * body.schedule.interval + max(body.schedule.cycles, default=0) + 1


def _missed(
    prepared: Prepared,
    found: tuple[Body, Shape],
    least_interval: int,
    facts: Facts,
    kit: Kit,
    through: Mapping[str, int],
    live_out: Collection[VReg],
    known: dict[object, Solution],
) -> tuple[tuple[Body, Shape], int]:
    """A schedule at a smaller interval, if the exact scheduler finds one that the registers allow; else the same. And
    an interval up to which there is proven to be none, 0 where nothing is proven."""
    trip = prepared.loop.trip if isinstance(prepared.loop.trip, int) else None
    reservations = [op.reservation for op in prepared.ops]
    refused, unknown, sure = 0, 0, True
    if len(reservations) > _MOST_OPERATIONS:
        return found, 0
    for interval in range(prepared.least_interval, found[0].schedule.interval):
        if unknown == _MOST_UNKNOWN:
            break
        schedule = exact_modulo_schedule(prepared.graph, reservations, facts, interval, known=known)
        if schedule == "infeasible" and sure:
            refused = interval
        if isinstance(schedule, str):
            sure &= schedule == "infeasible"
            unknown += schedule == "unknown"
            continue
        sure = False
        if interval < least_interval:
            continue
        shorten_lifetimes(prepared.graph, reservations, schedule, lifetimes(prepared.values, interval))
        attempt = _attempt(prepared, schedule, trip, facts, kit, through, live_out)
        if not isinstance(attempt, str):
            return attempt, refused
    return found, refused


def _attempt(
    prepared: Prepared,
    schedule: ModuloSchedule,
    trip: int | None,
    facts: Facts,
    kit: Kit,
    through: Mapping[str, int],
    live_out: Collection[VReg],
) -> tuple[Body, Shape] | str:
    """Streams, copies and registers for a schedule, or what is lacking."""
    interval = schedule.interval
    groups: list[Group] = []
    unled: list[VReg] = []
    for stream in prepared.loop.streams:
        accesses = stream_accesses(prepared.ops, schedule.cycles, {stream.base}).get(stream.base, [])
        split = split_stream(stream, accesses, interval, trip, facts, prepared.loop.label, keep=stream.base in live_out)
        if split is None:
            unled.append(stream.base)
        groups += split or ()
    prepared.scattered.update(dict.fromkeys(unled))
    if unled:
        prepared.scattered.update(_several(groups))
        return _NO_LEADER
    if groups and interval < facts.update:
        return f"an access can advance its address every {facts.update} cycles"
    several = _several(groups)
    groups = _merged(groups, prepared, interval, facts, kit, through, trip)
    least = max(facts.target.packets.minimum_ii, 1 if kit.loops else facts.branch_delay + 1)
    body = Body(prepared.loop.label, prepared.ops, prepared.values, schedule, groups, least)
    shape = choose_shape(body, facts, trip)
    if shape is None:
        return f"without a trip count, no power of two of copies fits {schedule.stages} stages"
    if (excess := register_excess(body, facts, kit, through, trip)) is not None:
        cls, text, lacking = excess
        prepared.scattered.update((base, None) for base in several if base.cls == cls)
        return FewRegisters(text, cls, lacking)
    if isinstance(made := expand(body, shape, facts, kit, passes=shape.passes), str):
        return made
    return body, shape


def _several(groups: Sequence[Group]) -> dict[VReg, None]:
    """Streams whose accesses are on more than one register."""
    bases = [g.stream.base for g in groups]
    return {base: None for base in bases if bases.count(base) > 1}


def _merged(
    groups: list[Group],
    prepared: Prepared,
    interval: int,
    facts: Facts,
    kit: Kit,
    through: Mapping[str, int],
    trip: int | None,
) -> list[Group]:
    """Address groups within the registers that the loop has for them."""
    room: dict[str, int] = {}
    for cls in facts.target.registers:
        if cls.kind in ("address", "offset"):
            others = sum(1 for w in prepared.values.webs if w.register.cls == cls.name)
            room[cls.name] = kit.room(cls.name) - others - through.get(cls.name, 0)
    return merge_groups(groups, interval, room, room, facts, prepared.loop.label, trip)


def pieces_of(
    plan: Plan, facts: Facts, kit: Kit, passes: int | VReg, first: Mapping[tuple[int, int], VReg] | None = None
) -> Pipelined | str:
    return expand(plan.body, plan.shape, facts, kit, passes=passes, first=first or {})


def _report(
    prepared: Prepared, body: Body, shape: Shape, factor: int, facts: Facts, tried: list[tuple[int, str]]
) -> LoopReport:
    schedule: ModuloSchedule = body.schedule
    ends = [c + 1 for c in schedule.cycles]
    loop = prepared.loop
    reservations = [op.reservation for op in prepared.ops]
    units = [facts.unit_names[schedule.table.unit_of[k]] for k in range(len(prepared.ops))]
    return LoopReport(
        label=loop.label,
        loc=loop.loc,
        pipelined=True,
        ii=schedule.interval,
        res_mii=ceiling(prepared.resource),
        rec_mii=ceiling(prepared.recurrence),
        stages=schedule.stages,
        unroll=factor,
        trip=loop.trip if isinstance(loop.trip, int) else None,
        resource_bounds=group_bounds(reservations, facts),
        tried=tuple(tried),
        prolog=shape.before * schedule.interval,
        epilog=max(max(ends, default=0) - schedule.interval, 0),
        steps=tuple(
            Step(op.instruction, unit, cycle, op.loc, op.comment)
            for op, unit, cycle in zip(prepared.ops, units, schedule.cycles, strict=True)
        ),
        recurrence=tuple(Dependence(*edge) for edge in critical_recurrence(prepared.graph)),
        binding_units=binding_units(reservations, facts)[1],
        arithmetic_mii=ceiling(
            resource_bound([op.reservation for op in prepared.ops if _is_arithmetic(op, facts)], facts)
        ),
    )


def _is_arithmetic(op: Op, facts: Facts) -> bool:
    """Whether it adds or multiplies data: vectors, or scalars in floating point."""
    if op.touches_memory or not op.instruction.semantics:
        return False
    value = op.instruction.semantics[0].value
    vector = any(isinstance(a[0], VReg) and facts.is_vector(a[0]) for a, _ in op.writes)
    return value.op in _ARITHMETIC and (vector or value.type.startswith("f"))
