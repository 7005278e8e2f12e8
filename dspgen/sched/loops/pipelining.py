"""Software pipelining of one loop: unroll factor, initiation interval, address groups, registers; and its report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dspgen.asmir.ir.function import Instr, Loop, Stream, VReg
from dspgen.sched.graph.budget import Budget
from dspgen.sched.graph.implicit_registers import with_own_values
from dspgen.sched.graph.lower_bound import Hopes
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.graph.unroll import flat_iterations, unrolled, with_conditional_apart
from dspgen.sched.ir.packets import Dependence, LoopReport, Step
from dspgen.sched.loops.attempts import MOST_OPERATIONS, NO_LEADER, Attempts, FewRegisters
from dspgen.sched.loops.loop_body import WAIT_ALIKE, Prepared, ceiling, prepare
from dspgen.sched.machine.modulo_schedule import ModuloSchedule
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.reservation_table import binding_units, group_bounds, resource_bound
from dspgen.sched.machine.target_facts import Atom, Facts
from dspgen.sched.modulo.energetic_bound import no_room
from dspgen.sched.modulo.exact import Solution
from dspgen.sched.modulo.modulo import ALL_OR_NONE, GAVE_UP, critical_recurrence
from dspgen.sched.modulo.modulo_expansion import (
    Body,
    Pipelined,
    Shape,
    expand,
)
from dspgen.sched.straight.list_scheduling import listed_length
from dspgen.sched.straight.prepare import straight_ops

_MOST_COPIES = 8  # body copies tried for a fractional bound
_GAIN = Fraction(20, 19)  # an unrolled body must be over 5 % faster
_ARITHMETIC = ("mac", "msub", "mul", "add", "sub")
_CLOSE = 4  # intervals tried one by one; then each is longer by an eighth, up to that of a loop without overlap
_ALIKE = 2  # times that the next interval lacks as many registers, before a far one is tried, and then none


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
        if factor > 1 and (factor * size > MOST_OPERATIONS or loop.trip < 4 * factor):
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
    nested: bool = False,
    exact: dict[object, Solution] | None = None,
    free: Collection[Atom] = (),
    known: dict[object, Forms],
    given: object = None,
    hopes: Hopes | None = None,
    single: Prepared | None = None,
    lacking: list[FewRegisters],
) -> Plan | list[tuple[int, str]]:
    """The best schedule with an interval of at least `least_interval`, or what was tried and why it failed.

    `through`, `scarce`, `nested`: see `Attempts`. With `exact`, the exact scheduler looks for what the others have
    missed, and keeps its answers there. The values that the loop leaves in the physical registers `free` are not read.
    What was tried with other registers is in `known`, for loops of the same label where what else was `given` is the
    same; `single` is the loop made ready as it is. What registers schedules lacked goes into `lacking`. Raises
    NoSchedule where the budget is spent, TooSlow where `hopes` for the function end.
    """
    key = loop.label, factor, frozenset(live_out), given
    made = known[key] = known.get(key) or _forms_of(loop, facts, kit, live_out, factor, free, single)
    loop, forms = made.loop, made.found
    tried: list[tuple[int, str]] = []
    interval = max(forms[0][2].least_interval, least_interval)
    longest = 0
    refused = forms[0][2].least_interval - 1  # no schedule has an interval up to this one
    steps, attempts = Steps(), Attempts(facts, kit, through, live_out, budget, scarce, nested)
    for attempt in range(budget.patience):
        if hopes is not None:
            hopes.check(loop.label, factor, interval)
        failure, reasons = "", list[str]()
        for form, setup, prepared in forms:
            if interval < prepared.least_interval:
                continue
            found = attempts.at_interval(prepared, interval)
            if isinstance(found, tuple):
                if exact is not None:
                    found, proven = attempts.missed(prepared, found, least_interval, exact)
                    refused = max(refused, proven)
                found, slower = attempts.quicker(prepared, found)
                tried += slower
                report = replace(_report(prepared, *found, factor, facts, tried), refused=refused)
                return Plan(*found, report, prepared.loop.streams, form, (*setup, *prepared.setup))
            reasons += found
            lacking += (why for why in found if isinstance(why, FewRegisters))
            failure = failure or (NO_LEADER if NO_LEADER in found else found[0])
            if NO_LEADER in found and len(forms) == made.whole and (apart := with_conditional_apart(loop, kit)):
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
