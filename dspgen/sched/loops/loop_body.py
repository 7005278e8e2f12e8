"""A loop body made ready for modulo scheduling, and its schedules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dspgen.asmir.ir.function import Instr, Loop, Mem, Stream, VReg
from dspgen.sched.graph.budget import Budget
from dspgen.sched.graph.dependence_graph import Graph, loop_graph
from dspgen.sched.graph.forwarding import keep_room
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.graph.unroll import instructions, legal_offsets, with_advances, without_idle_streams
from dspgen.sched.graph.values import Values, analyse
from dspgen.sched.machine.modulo_schedule import ModuloSchedule
from dspgen.sched.machine.operations import Op, make_op
from dspgen.sched.machine.reservation_table import Closing, resource_bound, table_like
from dspgen.sched.machine.target_facts import Atom, Facts, Reservation
from dspgen.sched.modulo.address_streams import Access, can_lead, stream_accesses, windows_in_reach
from dspgen.sched.modulo.modulo import (
    modulo_schedule,
    modulo_schedule_cyclic,
    modulo_schedule_late,
    recurrence_bound,
    shorten_lifetimes,
)
from dspgen.sched.modulo.pressure import lifetimes
from dspgen.sched.modulo.slack import slack_schedule
from dspgen.sched.modulo.stage_scheduling import Lifetime, with_stages_moved
from dspgen.sched.straight.prepare import settle_writes, with_places

HEURISTICS = (modulo_schedule, modulo_schedule_late, slack_schedule, modulo_schedule_cyclic)
_NUMBERS = range(2 * len(HEURISTICS))  # the second half: with places for what ends an iteration
_APART = 1 << 32  # an interval that is longer than any
_VAIN = 2  # intervals at which a heuristic failed though there was a schedule, before it is asked no more
_DEAR = 8  # times as much as others do values of a class that lacks registers matter
WAIT_ALIKE = "its values can't wait less"


@dataclass(slots=True)
class Prepared:
    """A loop body ready for modulo scheduling, after `setup`. `scattered` are streams whose accesses one register did
    not serve where a schedule failed for lack of address registers."""

    loop: Loop
    ops: list[Op]
    values: Values
    graph: Graph
    resource: Fraction
    recurrence: Fraction
    explicit: set[VReg] = field(default_factory=set)
    setup: tuple[Instr, ...] = ()
    scattered: dict[VReg, None] = field(default_factory=dict)
    schedules: dict[tuple[int, int, bool], ModuloSchedule | str] = field(default_factory=dict)  # see `scheduled`
    spared: dict[object, ModuloSchedule | None] = field(default_factory=dict)  # see `sparing`
    number: int | None = None  # see `_number_of`

    def in_vain(self, number: int, *, less: bool) -> str | None:
        """What a heuristic lacked, if it failed so often where there was a schedule that it isn't worth asking: where
        another one found it, or, for values that wait `less`, itself."""
        tried = ((i, made) for (i, n, x), made in self.schedules.items() if (n, x) == (number, less))
        failed = [(i, made) for i, made in tried if isinstance(made, str)]
        often = sum(self.has(i, number if less else None) for i, _ in failed) >= _VAIN
        return failed[-1][1] if often else None

    def has(self, interval: int, number: int | None = None) -> bool:
        """Whether a heuristic, or any of them, found a schedule at this interval."""
        asked = _NUMBERS if number is None else (number,)
        return any(isinstance(self.schedules.get((interval, n, False)), ModuloSchedule) for n in asked)

    @property
    def least_interval(self) -> int:
        return max(1, ceiling(self.resource), ceiling(self.recurrence))


def prepare(
    loop: Loop,
    facts: Facts,
    kit: Kit,
    live_out: Collection[VReg],
    explicit: Collection[VReg],
    own: Collection[Atom] = (),
) -> Prepared:
    """Operations, values and dependences of an innermost loop; `explicit` streams are advanced by additions, and the
    physical registers `own` are written for each reader."""
    loop = without_idle_streams(loop, live_out, facts)
    forced = {*explicit, *_unled_streams(loop, facts)}
    loop, setup = with_advances(loop, forced, kit)
    bases = {s.base for s in loop.streams}
    body = legal_offsets(instructions(loop.body), facts, kit, bases)
    ops = [make_op(i, facts) for i in body]
    settle_writes(ops, facts)
    ops = [_placed(op, bases, facts) for op in ops]
    keep_room(ops, facts)
    values = analyse(ops, facts, live_out, bases)
    graph = loop_graph(ops, facts, values, loop, own)
    reservations = [op.reservation for op in ops]
    resource, recurrence = resource_bound(reservations, facts), recurrence_bound(graph)
    return Prepared(loop, ops, values, graph, resource, recurrence, set(forced), setup)


def _placed(op: Op, bases: Collection[VReg], facts: Facts) -> Op:
    """Modes for memory operands that are not on streams."""
    if any(isinstance(v, Mem) and v.base in bases for v in op.operands):
        return op
    return with_places(op, facts)


def _unled_streams(loop: Loop, facts: Facts) -> list[VReg]:
    """Streams that no access can advance, or that are also used otherwise."""
    ops = [make_op(i, facts) for i in instructions(loop.body)]
    bases = {s.base for s in loop.streams}
    found = stream_accesses(ops, [0] * len(ops), bases)
    result = []
    for stream in loop.streams:
        accesses = found.get(stream.base, [])
        led = any(can_lead(a, stream.step, stream.side, facts) for a in accesses)
        reads = sum(1 for op in ops for atom, _ in op.reads if atom[0] == stream.base)
        written = any(atom[0] == stream.base for op in ops for atom, _ in op.writes)
        if not led or written or reads != len({a.op for a in accesses}):
            result.append(stream.base)
    return result


def scheduled(
    prepared: Prepared, interval: int, number: int, facts: Facts, budget: Budget, *, less: bool, closing: Closing = ()
) -> ModuloSchedule | str:
    """The schedule of one heuristic, made once; if so wanted, with values that wait `less`. From the number of
    heuristics on they are numbered again, with places for what is `closing` an iteration."""
    key = interval, number, less
    if key in prepared.schedules:
        return prepared.schedules[key]
    graph, reservations = prepared.graph, [op.reservation for op in prepared.ops]
    again, which = divmod(number, len(HEURISTICS))
    heuristic, kept = HEURISTICS[which], closing if again else ()
    made: ModuloSchedule | str | None
    # Bodies that are alike but for their registers' names have the same schedules.
    asked = (heuristic, kept, interval, budget.times, _number_of(prepared, facts))
    if budget.times == 1 and (lacking := prepared.in_vain(number, less=less)) is not None:
        made = lacking
    elif less:
        made = before = scheduled(prepared, interval, number, facts, budget, less=False, closing=closing)
        if not isinstance(before, str):
            reach = _within_reach(prepared, interval, facts)
            question = (*asked, None if reach is graph else _edges(reach))
            made = facts.loops.schedules.get(question)
            if made is None:
                graphs = (graph,) if reach is graph else (reach, graph)
                values = lifetimes(prepared.values, interval)
                made = facts.loops.schedules[question] = _waiting_less(graphs, reservations, before, values, facts)
    else:
        budget.spend(len(reservations))
        made = facts.loops.schedules.get(asked)
        if made is None:
            made = heuristic(graph, reservations, facts, interval, times=budget.times, closing=kept)
            if not isinstance(made, str):
                shorten_lifetimes(graph, reservations, made, lifetimes(prepared.values, interval))
            facts.loops.schedules[asked] = made
    prepared.schedules[key] = made
    return made


def _waiting_less(
    graphs: Sequence[Graph],
    reservations: Sequence[Reservation],
    schedule: ModuloSchedule,
    values: Sequence[Lifetime],
    facts: Facts,
) -> ModuloSchedule | str:
    """The schedule with values that wait less, by the first of `graphs` that allows it."""
    for graph in graphs:
        if (moved := with_stages_moved(graph, reservations, schedule, values, facts)) is not None:
            shorten_lifetimes(graph, reservations, moved, values)
            return moved
    return WAIT_ALIKE


def _number_of(prepared: Prepared, facts: Facts) -> int:
    """One for all bodies that are alike to whatever makes schedules of them."""
    if prepared.number is None:
        # Reads of the next iteration are told from others by the interval.
        values = _told(lifetimes(prepared.values, _APART))
        body = tuple([op.reservation for op in prepared.ops]), values, *_edges(prepared.graph)
        prepared.number = facts.loops.number(body)
    return prepared.number


def _told(values: Sequence[Lifetime]) -> tuple[object, ...]:
    return tuple([(writer, latency, tuple(readers)) for writer, latency, readers in values])


def _edges(graph: Graph) -> tuple[object, ...]:
    return tuple(map(tuple, graph.successors)), tuple(map(tuple, graph.predecessors))


def sparing(
    prepared: Prepared, schedule: ModuloSchedule, cls: str, facts: Facts, *, key: object
) -> ModuloSchedule | None:
    """The schedule, found under `key`, with values of the class `cls` made just before they are read, whatever others
    then wait; None where that changes nothing."""
    if (key, cls) not in prepared.spared:
        dear = [
            facts.counted_as(v.atom[0].cls) == cls if isinstance(v.atom[0], VReg) else False
            for v in prepared.values.versions
            if v.writer >= 0
        ]
        made: ModuloSchedule | None = None
        if any(dear):
            reservations, interval = [op.reservation for op in prepared.ops], schedule.interval
            values, table = lifetimes(prepared.values, interval), schedule.table
            units = tuple([table.unit_of[k] for k in range(len(reservations))])
            ends = tuple(
                [(k, c, table.unit_of[k], table.reservation_of(k)) for k, c in table.cycle_of.items() if k < 0]
            )
            here = tuple(schedule.cycles), units, ends, interval, tuple(dear)
            question = (*here, _number_of(prepared, facts))
            if question not in facts.loops.spared:
                table = table_like(schedule.table, facts, interval)
                for op, cycle in enumerate(schedule.cycles):
                    table.take(op, cycle, units[op], reservations[op])
                changed = ModuloSchedule(interval, list(schedule.cycles), table)
                weights = [_DEAR if d else 1 for d in dear]
                shorten_lifetimes(prepared.graph, reservations, changed, values, weights=weights)
                facts.loops.spared[question] = changed if changed.cycles != schedule.cycles else None
            made = facts.loops.spared[question]
        prepared.spared[key, cls] = made
    return prepared.spared[key, cls]


def _within_reach(prepared: Prepared, interval: int, facts: Facts) -> Graph:
    """The dependences, and what keeps accesses within reach of few address registers."""
    loop, ops = prepared.loop, prepared.ops
    trip = loop.trip if isinstance(loop.trip, int) else None
    accesses = stream_accesses(ops, [0] * len(ops), {s.base for s in loop.streams})
    alike: dict[object, tuple[Stream, list[Access]]] = {}
    for stream in loop.streams:
        for access in accesses.get(stream.base, []):
            place = access.reference
            key: object = stream.base
            if place is not None:
                # Streams at a constant distance may end on one register.
                key, access = (place.array, place.terms, stream.step), replace(access, offset=place.constant)
            alike.setdefault(key, (stream, []))[1].append(access)
    edges = [e for s, found in alike.values() for e in windows_in_reach(s, found, interval, trip, facts)]
    if not edges:
        return prepared.graph
    graph = prepared.graph
    successors, predecessors = [list(x) for x in graph.successors], [list(x) for x in graph.predecessors]
    for source, target, latency in edges:
        successors[source].append((target, latency, 0))
        predecessors[target].append((source, latency, 0))
    return Graph(graph.size, successors, predecessors)


def ceiling(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
