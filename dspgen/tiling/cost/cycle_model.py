"""How many cycles a register tile takes, about: the pressure on the busiest unit, or the recurrence.

The model counts, for one iteration of the innermost remaining loop, the distinct loads, broadcasts, multiply-adds and
stores of the register tile, spreads each over the units that can do it (the ISA file says which), and takes the busiest
unit or the recurrence, whichever is longer. It only ranks: the finalists are compiled and scheduled for real.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dspgen.target.query.operations import bits_elem
from dspgen.tiling.cost.unit_pressure import Across, Machine
from dspgen.tiling.loops.lane_loops import Lane
from dspgen.tiling.loops.loop_nests import CompInfo, FlatAccess, LoopId, LoopInfo, Nest
from plant_core.analysis.dependence import reduction_of
from plant_core.analysis.linear_recurrences import recurrence_of
from plant_core.ir.func import Binary, Call, Cast, Comp, Expr, Select, Unary

_MOST_INSTRUCTIONS = 400
# The share of a large body's loads that hold a register at any one time, about.
_HELD = 0.35
# Rows whose vectors are joined together, at least, and cycles of that and of each; see `vecdsl.joined_rows`.
_ROWS_AT_ONCE, _TOGETHER, _JOINED = 4, 12.0, 4.0
_ENTRY_CYCLES = 45
_STRAIGHT_CYCLES = 30.0  # from the first load of code without loops to its last store


@dataclass(frozen=True, slots=True)
class Tiling:
    """Spans by loop id; the lane loop of each comp, and each comp's loop order."""

    spans: dict[LoopId, int]
    lanes: dict[str, Lane]
    orders: dict[str, tuple[str, ...]]
    known: dict[str, dict[str, int]] = field(default_factory=dict, compare=False, repr=False)  # see `along`

    def span(self, comp: CompInfo, iterator: str) -> int:
        """Iterations of a loop that a full tile of the comp covers."""
        return self.along(comp)[iterator]

    def along(self, comp: CompInfo) -> dict[str, int]:
        """Iterations of each of the comp's loops that a full tile of it covers."""
        name = comp.comp.name
        if name not in self.known:
            lane = self.lanes.get(name)
            found = self.known[name] = {}
            for loop in comp.loops:
                span = self.spans.get(loop.id, 1)
                found[loop.iterator] = min(span, max(loop.extent, 1)) if loop.free else span
            if lane is not None and lane.inner is not None:
                found[lane.inner] = lane.period
        return self.known[name]

    def points(self, comp: CompInfo, lanes: int) -> int:
        """Vectors, or scalars, of a full tile of the comp."""
        lane = self.lanes.get(comp.comp.name)
        points = 1
        for loop in comp.loops:
            span = self.span(comp, loop.iterator)
            if lane is not None and loop.iterator == lane.iterator:
                points *= vectors_of(span, lane, lanes)
            elif lane is None or loop.iterator != lane.inner:
                points *= span
        return points


def vectors_of(span: int, lane: Lane, lanes: int) -> int:
    run = lanes * lane.deal
    return -(-span * lane.period // lanes) if lane.deal == 1 else span // run * lane.deal + min(span % run, lane.deal)


@dataclass(frozen=True, slots=True)
class _Cycles:
    """Those of a comp's tiles, and those of beginning and ending its loops."""

    tiles: float
    entries: float


@dataclass(slots=True)
class Known:
    """What is known of single comps in the same orders: the cycles of their tiles, their accesses by what they have in
    common, how many vectors of each of these a tile touches, and their operations."""

    cycles: dict[tuple[object, ...], _Cycles | None] = field(default_factory=dict)
    alike: dict[str, list[list[FlatAccess]]] = field(default_factory=dict)
    distinct: dict[tuple[object, ...], int] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    def operations(self, comp: CompInfo) -> dict[str, int]:
        name = comp.comp.name
        if name not in self.counts:
            self.counts[name] = operation_counts(comp.comp.value)
        return self.counts[name]

    def groups(self, comp: CompInfo) -> list[list[FlatAccess]]:
        name = comp.comp.name
        if name not in self.alike:
            found: dict[tuple[object, ...], list[FlatAccess]] = {}
            for access in comp.accesses:
                # Of elements that aren't affine it is not known which are the same.
                apart = access if access.start is None else access.start
                found.setdefault((access.buf, access.coefficients, apart), []).append(access)
            self.alike[name] = list(found.values())
        return self.alike[name]

    def touched(
        self, members: Sequence[FlatAccess], spans: dict[str, int], lane: Lane | None, vectors: int, lanes: int
    ) -> int:
        """As `_distinct`; of the spans only those matter that the elements depend on."""
        first = members[0]
        along = [spans.get(i, 1) for i, _ in first.coefficients] + [spans.get(i, 1) for i in sorted(first.varies)]
        key = (id(first), lane, vectors, *along)  # accesses live as long as the nest
        if key not in self.distinct:
            self.distinct[key] = _distinct(members, spans, lane, vectors, lanes)
        return self.distinct[key]


def working(nest: Nest) -> tuple[CompInfo, ...]:
    """The comps that take time: not those that only begin what the heaviest one accumulates."""
    heavy = nest.heaviest
    return tuple(c for c in nest.comps if c is heavy or not _only_begins(c, heavy))


def in_registers(nest: Nest, lanes: Mapping[str, Lane]) -> frozenset[str]:
    """The nest's own arrays whose elements stay in registers, as all that touch them share their loops and lanes."""
    users: dict[str, set[object]] = {}
    for comp in nest.comps:
        lane, ids = lanes.get(comp.comp.name), {x.iterator: x.id for x in comp.loops}
        across = (
            None
            if lane is None
            else (ids[lane.iterator], replace(lane, iterator="", inner=None), lane.inner and ids[lane.inner])
        )
        for access in comp.accesses:
            users.setdefault(access.buf, set()).add((*ids.values(), across))
    return frozenset(name for name in nest.own if len(users[name]) == 1)


def nest_cycles(
    comps: Sequence[CompInfo], choice: Tiling, machine: Machine, known: Known, registers: frozenset[str]
) -> float | None:
    """Cycles of a nest whose `working` comps these are, and `registers` the arrays that need no memory; None if a tile
    needs more registers than there are. `known`: those of single comps in the same orders."""
    total = 0.0
    entries: dict[tuple[LoopId, ...], float] = {}  # of loops that comps share
    for comp in comps:
        name = comp.comp.name
        key = (name, choice.lanes.get(name), registers, *choice.along(comp).values())
        if key not in known.cycles:
            known.cycles[key] = _comp_cycles(comp, choice, machine, registers, known)
        cycles = known.cycles[key]
        if cycles is None:
            return None
        total += cycles.tiles
        loops = tuple(x.id for x in comp.loops)
        entries[loops] = max(entries.get(loops, 0.0), cycles.entries)
    return total + sum(entries.values())


def _only_begins(comp: CompInfo, heavy: CompInfo) -> bool:
    """Whether the comp just sets a constant that the heaviest comp accumulates upon: a register's start."""
    return not comp.accesses or (
        len(comp.accesses) == 1
        and comp.comp.target.buf == heavy.comp.target.buf
        and reduction_of(heavy.comp) is not None
    )


def _comp_cycles(
    comp: CompInfo, choice: Tiling, machine: Machine, kept: frozenset[str], known: Known
) -> _Cycles | None:
    name = comp.comp.name
    lane = choice.lanes.get(name)
    order = choice.orders[name]
    spans = {i: choice.along(comp)[i] for i in order}
    tiles = {i: -(-max(comp.loop(i).extent, 1) // spans[i]) for i in order}
    inner = next((i for i in reversed(order) if tiles[i] > 1), None)
    share, entries = 1.0, 1  # whole tiles' worth of work, and how many tiles there are with the remainders
    for iterator in order:
        share *= max(comp.loop(iterator).extent, 1) / spans[iterator]
        entries *= tiles[iterator] if iterator != inner else 1
    vectors = vectors_of(spans[lane.iterator], lane, machine.lanes) if lane else 1
    found = _body_cycles(comp, spans, lane, vectors, inner, machine, kept, known)
    if found is None:
        return None
    body, before, depth = found
    joining = 0.0
    overhead = before + (_ENTRY_CYCLES if inner is not None else _STRAIGHT_CYCLES)
    if inner is not None and entries > 1 and _leaves_over(comp.loop(inner), spans[inner]):
        # One run can't overlap the next, and what the innermost loop leaves over is not pipelined.
        overhead += 2 * depth
    if lane is not None and lane.reduce:
        sums = _sums(spans, lane.iterator)
        if sums * 2 * machine.lanes > _MOST_INSTRUCTIONS:
            return None
        # Tiles of other nests and machines are told from each other without how often that is.
        if not machine.joins_rows or not comp.box or not all(x.known for x in comp.loops):
            joining = sums * (machine.lanes + 4.0)
        elif inner is None or all(a.stays(inner) for a in comp.accesses if a.write):
            joining = _joins(sums, machine)
        else:
            body += _joins(sums, machine)
    return _Cycles(share * max(body, 1.0) + entries * joining, entries * overhead)


def _joins(sums: int, machine: Machine) -> float:
    """Cycles in which so many vectors are reduced to one number each where several are joined together: about one a
    lane, less for powers of two of them."""
    cycles = 0.0
    while sums >= _ROWS_AT_ONCE:
        here = min(1 << sums.bit_length() - 1, machine.lanes)
        cycles += _TOGETHER + _JOINED * here
        sums -= here
    return cycles + sums * (machine.lanes + 4.0)


def _leaves_over(loop: LoopInfo, span: int) -> bool:
    """Whether some iterations of a loop of known size don't fill a tile."""
    return loop.known and loop.free and loop.extent % span != 0


def _sums(spans: dict[str, int], lane: str) -> int:
    """Vectors that a tile reduces to one number each at its end."""
    sums = 1
    for iterator, span in spans.items():
        if iterator != lane:
            sums *= span
    return sums


def _body_cycles(
    comp: CompInfo,
    spans: dict[str, int],
    lane: Lane | None,
    vectors: int,
    inner: str | None,
    machine: Machine,
    kept: frozenset[str],
    known: Known,
) -> tuple[float, float, float] | None:
    """Cycles of one innermost iteration, and of what is loaded before the first; its longest chain of operations. None
    where it needs more vector registers, about, than there are. `kept`: arrays whose elements are registers."""
    most = machine.registers - 4
    points = 1
    for iterator, span in spans.items():
        points *= _steps(lane, iterator, span, vectors)
    registers, accumulators, streamed, sums, results = 0, 0, 0, 0, 1
    found = []
    for members in known.groups(comp):
        distinct = known.touched(members, spans, lane, vectors, machine.lanes)
        invariant, written = inner is None or members[0].stays(inner), any(a.write for a in members)
        made = points if lane and lane.reduce and invariant else distinct
        results = max(results, made if written else 1)
        if written and invariant and inner is not None:
            accumulators += made
            continue
        registers += distinct if invariant else 0
        streamed += 0 if invariant else distinct
        sums += distinct if written and not invariant else 0
        found.append((members, distinct, invariant, written))
    registers += max(min(streamed, 12), round(_HELD * streamed))
    if registers + accumulators > most:
        return None
    pressure: dict[str, float] = {}
    before: dict[str, float] = {}
    elem = comp.comp.target.dtype
    for op, count in known.operations(comp).items():
        machine.add(pressure, op, elem, lane is not None, count * points)
    steps, chains = _scan_steps(comp, lane, machine.lanes)
    machine.add_scan(pressure, elem, steps * chains * points)
    # Far apart, lanes beyond a loop would be outside of the array.
    few = lane is not None and lane.inner is None and comp.loop(lane.iterator).extent < machine.lanes
    for members, distinct, invariant, written in found:
        first = members[0]
        how = across(first, lane, machine.lanes)
        if few and how is not None and how.stride is not None and 2 * abs(how.stride) >= machine.lanes:
            how = Across(None)
        if invariant and inner is not None and not written:
            if how is not None and how.stride is None:  # loads in rows hardly count
                machine.add_access(before, first, how, distinct, written, read=True)
        elif first.buf not in kept:
            machine.add_access(pressure, first, how, distinct, written, read=any(not a.write for a in members))
    latency = machine.latency("mac", elem, vector=lane is not None)
    recurrence = points / accumulators * latency if accumulators else 0.0
    body = max(max(pressure.values(), default=0.0), recurrence, steps * machine.step_latency(elem), 1.0)
    if sums and not accumulators and registers + round(points * latency / body) > most:
        return None  # chains of one iteration run on through the next ones
    return body, max(before.values(), default=0.0), points / results * latency


def _scan_steps(comp: CompInfo, lane: Lane | None, lanes: int) -> tuple[int, int]:
    """Steps of prefixes that a recurrence takes, and how many values each has."""
    found = recurrence_of(comp.comp, lane.iterator) if lane is not None and lane.scan else None
    if found is None:
        return 0, 0
    return (lanes // abs(found.distance)).bit_length() - 1, 1 if found.factor is None or found.term is None else 2


def _distinct(
    members: Sequence[FlatAccess],
    spans: dict[str, int],
    lane: Lane | None,
    vectors: int,
    lanes: int,
) -> int:
    """How many different vectors (or scalars) the tile touches through these accesses."""
    irregular = 1
    for iterator in members[0].varies:
        irregular *= _steps(lane, iterator, spans.get(iterator, 1), vectors)
    return len(_offsets(members, spans, lane, vectors, lanes)) * irregular


def _offsets(
    members: Sequence[FlatAccess], spans: dict[str, int], lane: Lane | None, vectors: int, lanes: int
) -> set[int]:
    """Where these are, in elements, as far as they are affine."""
    first = members[0]
    offsets = {a.constant for a in members}
    for iterator, coefficient in first.coefficients:
        if iterator in first.varies or (lane and iterator == lane.inner):
            continue
        if lane and iterator == lane.iterator:
            run = lanes // lane.period * lane.deal
            steps = [coefficient * (k // lane.deal * run + k % lane.deal) for k in range(vectors)]
        else:
            steps = [coefficient * k for k in range(spans.get(iterator, 1))]
        offsets = {o + s for o in offsets for s in steps}
    return offsets


def rows(comp: CompInfo, choice: Tiling, lanes: int) -> int:
    """How many rows of vectors a tile touches: accesses that lie no more than a vector apart are in one."""
    lane = choice.lanes.get(comp.comp.name)
    spans = {i: choice.span(comp, i) for i in choice.orders[comp.comp.name]}
    vectors = vectors_of(spans[lane.iterator], lane, lanes) if lane else 1
    groups: dict[tuple[object, ...], list[FlatAccess]] = {}
    for access in comp.accesses:
        how = across(access, lane, lanes)
        if how is not None and how.stride != 0:
            groups.setdefault((access.buf, access.coefficients, access.varies, access.start), []).append(access)
    count = 0
    for members in groups.values():
        found = sorted(_offsets(members, spans, lane, vectors, lanes))
        count += 1 + sum(b - a > lanes for a, b in itertools.pairwise(found))
    return count


def _steps(lane: Lane | None, iterator: str, span: int, vectors: int) -> int:
    """How many vectors or scalars of a tile lie along a loop."""
    if lane is None:
        return span
    return vectors if iterator == lane.iterator else 1 if iterator == lane.inner else span


def across(access: FlatAccess, lane: Lane | None, lanes: int) -> Across | None:
    """How the access lies across the lanes; None where there are none."""
    if lane is None:
        return None
    if lane.iterator in access.varies or lane.inner in access.varies:
        return Across(None)
    outer = access.coefficient(lane.iterator) * lane.sign * lane.deal
    if lane.inner is None:
        return Across(outer, 1, outer * (lanes - 1))
    inner = access.coefficient(lane.inner)
    if outer == inner * lane.period:
        return Across(inner, 1, inner * (lanes - 1))
    pieces = -(-lanes // lane.period)
    return Across(inner, pieces, inner * (lane.period - 1) + outer * (pieces - 1))


def pair_unit(machine: Machine, comp: Comp, accesses: int) -> int:
    """How many elements lie between places where pairs of vectors may be, for a statement of which so many accesses go
    along its vectors; 1 where its arithmetic binds, so that nothing is won by pairs."""
    unit, elem = machine.pair_granule(comp.target.dtype), comp.target.dtype
    memory, arithmetic = dict[str, float](), dict[str, float]()
    machine.add(memory, "vld", bits_elem(elem), True, accesses)
    for op, count in operation_counts(comp.value).items():
        before = dict(arithmetic)
        machine.add(arithmetic, op, elem, True, count)
        if arithmetic == before:
            return 1  # it is spelled out, in many instructions
    return unit if max(memory.values(), default=0.0) > max(arithmetic.values(), default=0.0) else 1


def operation_counts(value: Expr) -> dict[str, int]:
    """Arithmetic of one statement instance, with a product below a sum fused into it."""
    counts: dict[str, int] = {}

    def note(op: str) -> None:
        counts[op] = counts.get(op, 0) + 1

    def walk(expr: Expr, fused: bool) -> None:
        match expr:
            case Binary(op="add" | "sub", left=left, right=right):
                note("mac")
                takes = [isinstance(x, Binary) and x.op == "mul" for x in (left, right)]
                walk(left, takes[0] and not takes[1])
                walk(right, takes[1])
            case Binary(op=op, left=left, right=right):
                if not fused:
                    note(op)
                walk(left, False)
                walk(right, False)
            case Unary(op=op, operand=operand):
                note(op)
                walk(operand, False)
            case Cast(operand=operand):
                walk(operand, fused)
            case Select(condition=c, true=t, false=f):
                note("select")
                for x in (c, t, f):
                    walk(x, False)
            case Call(args=args):
                for x in args:
                    walk(x, False)
            case _:
                pass

    walk(value, False)
    return counts
