"""Candidate plans for one nest: lane loop, loop order and register tile, ranked by a resource model.

The model counts, for one iteration of the innermost remaining loop, the distinct loads, broadcasts, multiply-adds and
stores of the register tile, spreads each over the units that can do it (the ISA file says which), and takes the busiest
unit or the recurrence, whichever is longer. It only ranks: the finalists are compiled and scheduled for real.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dspgen.target.model import Target
from dspgen.tiling.apart import apart
from dspgen.tiling.lanes import Lane, LegalLanes, LoopId, lane_choices
from dspgen.tiling.machine import Machine
from dspgen.tiling.nests import CompInfo, FlatAccess, LoopInfo, Nest
from plant_core.dependence import Dependence, reduction_of
from plant_core.ir import Binary, Call, Cast, Expr, Select, Unary
from plant_core.tiles import CompPlan, LoopShape

_UNROLLS = (1, 2, 3, 4, 6, 8, 9, 12)
_VECTORS = (1, 2, 3, 4, 6, 8, 16)
# For loops of unknown size, whose tiles may never be full.
_FEW = (1, 2, 4)
_MOST_POINTS_UNKNOWN = 16
_MOST_POINTS = 160
_SMALL_POINTS = 72
_MOST_INSTRUCTIONS = 400
_WITHOUT_REDUCTION = 3
_FALLBACKS = 3
_APART = 3
# The share of a large body's loads that hold a register at any one time, about.
_HELD = 0.35
_ENTRY_CYCLES = 45


# Which loops besides the lanes' are unrolled: some that several comps share, only comps' own, or none.
Unrolled = Literal["shared", "own", "none"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan for the comps of one nest, the model's cycles for it, and the vectors (or scalars) of its tile."""

    plans: tuple[tuple[str, CompPlan], ...]
    cycles: float
    title: str
    family: str = ""
    points: int = 1
    size: int = 1  # vectors (or scalars) of the tiles of all shapes together: about what must be scheduled
    unrolled: Unrolled = "shared"
    instead: str = ""  # the title of the candidate that this one stands in for, should that not work out

    @property
    def large(self) -> bool:
        """Slow to schedule."""
        return self.points > _SMALL_POINTS

    @property
    def rank(self) -> tuple[bool, float, int, str]:
        return (self.large, self.cycles, self.points, self.title)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Spans by loop id; the lane loop of each comp, and each comp's loop order."""

    spans: dict[LoopId, int]
    lanes: dict[str, Lane]
    orders: dict[str, tuple[str, ...]]


def candidates(
    nest: Nest, target: Target, machine: Machine, most: int, known: Sequence[Dependence] = ()
) -> list[Candidate]:
    """At most `most` plans: small tiles, the model's best first, then large ones; besides, for what dependences and
    registers forbid, a few that don't unroll loops which several comps share, a few that unroll none, and where loops
    bound each other a few of the first with each comp in loops of its own (the Func has to be `spaced` for these).

    None where bounds depend on other iterators and on unknown sizes: finding the full tiles costs more than they save.
    `known` are the nest's dependences; loops that they keep from the lanes are not tried there.
    """
    if not nest.heaviest.separate and not all(x.known for x in nest.heaviest.loops):
        return []
    legal = LegalLanes(nest, known, target.lanes)
    ranked: dict[tuple[tuple[str, Lane], ...], list[Candidate]] = {}
    fallbacks: dict[Unrolled, list[Candidate]] = {"own": [], "none": []}
    for orders in _orders(nest):
        for lanes in lane_choices(nest, machine, legal.under(orders)):
            here = list(_tiled(nest, lanes, orders, target, machine))
            ranked.setdefault(tuple(sorted(lanes.items(), key=lambda item: item[0])), []).extend(here)
            for unrolled, kept in fallbacks.items():
                kept += sorted((c for c in here if c.unrolled in (unrolled, "none")), key=_rank)[:1]
    found = [c for here in ranked.values() for c in _diverse(sorted(here, key=_rank))]
    chosen = _unique(found)[:most]
    for kept in fallbacks.values():
        chosen += _unique(kept)[:_FALLBACKS]
    if len(nest.comps) > 1 and not all(c.box for c in nest.comps):
        small = [c for c in _unique(found) if not c.large][:_APART]
        chosen += [replace(c, plans=apart(nest, c.plans), title=f"{c.title} apart", instead=c.title) for c in small]
    return sorted(_unique(chosen), key=_rank)


def _rank(candidate: Candidate) -> tuple[bool, float, int, str]:
    return candidate.rank


def _tiled(
    nest: Nest, lanes: dict[str, Lane], orders: dict[str, tuple[str, ...]], target: Target, machine: Machine
) -> Iterator[Candidate]:
    for spans in _spans(nest, lanes, orders, target):
        choice = _Choice(spans, lanes, orders)
        cycles = _model(nest, choice, machine)
        if cycles is None:
            continue
        plans = _plans(nest, choice, target)
        yield Candidate(
            plans,
            cycles,
            _title(nest, choice),
            _family(nest, choice),
            _points(nest.heaviest, choice, target.lanes),
            _size(dict(plans)[nest.heaviest.comp.name], target.lanes),
            _unrolled(nest, choice),
        )


def _unique(found: Sequence[Candidate]) -> list[Candidate]:
    unique: dict[tuple[tuple[str, CompPlan], ...], Candidate] = {}
    for candidate in sorted(found, key=lambda c: c.rank[1:]):
        unique.setdefault(candidate.plans, candidate)
    return list(unique.values())


def _unrolled(nest: Nest, choice: _Choice) -> Unrolled:
    ids = [x.id for c in nest.comps for x in c.loops]
    lanes = {c.loop(choice.lanes[c.comp.name].iterator).id for c in nest.comps if c.comp.name in choice.lanes}
    wide = [id for id, span in choice.spans.items() if span > 1 and id not in lanes]
    return "shared" if any(ids.count(id) > 1 for id in wide) else "own" if wide else "none"


def _diverse(ranked: list[Candidate]) -> list[Candidate]:
    """The best of each way to unroll the reductions, since the model is weakest where it compares these; a few of the
    best where there are none."""
    taken: dict[tuple[str, bool], int] = {}
    kept = []
    for candidate in ranked:
        key = (candidate.family, candidate.large)
        taken[key] = taken.get(key, 0) + 1
        if taken[key] <= (1 if candidate.family else _WITHOUT_REDUCTION):
            kept.append(candidate)
    return kept


def scalar_candidate(nest: Nest) -> Candidate:
    """The program as written, one iteration at a time."""
    plans = tuple((c.comp.name, CompPlan(order=c.comp.iters, shapes=())) for c in nest.comps)
    return Candidate(plans, float("inf"), "scalar")


def _orders(nest: Nest) -> Iterator[dict[str, tuple[str, ...]]]:
    """The original order, and the one with each comp's reduction loops innermost."""
    original = {c.comp.name: c.comp.iters for c in nest.comps}
    yield original
    sunk: dict[str, tuple[str, ...]] = {}
    for comp in nest.comps:
        target = next((a for a in comp.accesses or () if a.write), None)
        iters = comp.comp.iters
        if target is None or reduction_of(comp.comp) is None:
            sunk[comp.comp.name] = iters
            continue
        inner = [i for i in iters if target.coefficient(i) == 0]
        sunk[comp.comp.name] = (*(i for i in iters if i not in inner), *inner)
    if sunk != original:
        yield sunk


def _spans(
    nest: Nest, lanes: dict[str, Lane], orders: dict[str, tuple[str, ...]], target: Target
) -> Iterator[dict[LoopId, int]]:
    """Register tiles: spans for the lane loop and the loops of the heaviest comp."""
    heavy = nest.heaviest
    lane_ids = {c.loop(lanes[c.comp.name].iterator).id for c in nest.comps if c.comp.name in lanes}
    written = next((a for a in heavy.accesses or () if a.write), None)
    options: list[list[tuple[LoopId, int]]] = []
    order = orders[heavy.comp.name]
    for iterator in order:
        loop = heavy.loop(iterator)
        if loop.id in lane_ids:
            most = -(-loop.extent // target.lanes)
            vectors = [v for v in (_VECTORS if loop.known else _FEW) if v <= most]
            spans = sorted({min(v * target.lanes, loop.extent) for v in vectors} | _full(loop, target))
        elif not lanes:
            spans = [1]
        elif not loop.known:
            spans = list(_FEW)
        elif written is not None and written.coefficient(iterator) == 0:
            spans = sorted({1, 2, 4, *([loop.extent] if loop.extent <= 8 else [])} & set(range(1, loop.extent + 1)))
        else:
            spans = [u for u in _UNROLLS if u <= loop.extent]
        options.append([(loop.id, s) for s in spans])
    others = {
        c.loop(lanes[c.comp.name].iterator).id: min(c.loop(lanes[c.comp.name].iterator).extent, target.lanes)
        for c in nest.comps
        if c.comp.name in lanes
    }
    known = all(x.known for x in heavy.loops)
    most_spanned = len(options) if known else 2
    for combination in itertools.product(*options):
        if sum(span > 1 for _, span in combination) > most_spanned:
            continue
        points = 1
        for id, span in combination:
            points *= -(-span // target.lanes) if id in lane_ids else span
        if points <= (_MOST_POINTS if known else _MOST_POINTS_UNKNOWN):
            yield {**others, **dict(combination)}


def _full(loop: LoopInfo, target: Target) -> set[int]:
    """The whole extent as one ragged row of vectors, when short."""
    return {loop.extent} if loop.known and loop.extent <= 16 * target.lanes else set()


def _model(nest: Nest, choice: _Choice, machine: Machine) -> float | None:
    """Cycles of the whole nest; None if a tile needs more registers than there are."""
    total = 0.0
    for comp in nest.comps:
        if comp is not nest.heaviest and _only_begins(comp, nest.heaviest):
            continue
        cycles = _comp_cycles(comp, choice, machine)
        if cycles is None:
            return None
        total += cycles
    return total


def _only_begins(comp: CompInfo, heavy: CompInfo) -> bool:
    """Whether the comp just sets a constant that the heaviest comp accumulates upon: a register's start."""
    return not comp.accesses or (
        len(comp.accesses) == 1
        and comp.comp.target.buf == heavy.comp.target.buf
        and reduction_of(heavy.comp) is not None
    )


def _comp_cycles(comp: CompInfo, choice: _Choice, machine: Machine) -> float | None:
    name = comp.comp.name
    lane = choice.lanes.get(name)
    order = choice.orders[name]
    spans = {i: min(choice.spans.get(comp.loop(i).id, 1), max(comp.loop(i).extent, 1)) for i in order}
    tiles = {i: -(-max(comp.loop(i).extent, 1) // spans[i]) for i in order}
    inner = next((i for i in reversed(order) if tiles[i] > 1), None)
    share, entries = 1.0, 1  # whole tiles' worth of work, and how many tiles there are with the remainders
    for iterator in order:
        share *= max(comp.loop(iterator).extent, 1) / spans[iterator]
        entries *= tiles[iterator] if iterator != inner else 1
    vectors = -(-spans[lane.iterator] // machine.lanes) if lane else 1
    body, registers = _body_cycles(comp, spans, lane, vectors, inner, machine)
    if registers > machine.vector_registers - 4:
        return None
    overhead = _ENTRY_CYCLES if inner is not None else 10.0
    if lane is not None and lane.reduce:
        sums = _sums(spans, lane.iterator)
        if sums * 2 * machine.lanes > _MOST_INSTRUCTIONS:
            return None
        overhead += sums * (machine.lanes + 4)
    return share * max(body, 1.0) + entries * overhead


def _sums(spans: dict[str, int], lane: str) -> int:
    """Vectors that a tile reduces to one number each at its end, about a cycle a lane."""
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
) -> tuple[float, int]:
    """Cycles of one innermost iteration, and the vector registers it needs about."""
    points = 1
    for iterator, span in spans.items():
        points *= vectors if lane and iterator == lane.iterator else span
    pressure: dict[str, float] = {}
    elem = comp.comp.target.dtype
    for op, count in operation_counts(comp.comp.value).items():
        machine.add(pressure, op, elem, lane is not None, count * points)
    registers = 0
    streamed, sums = 0, 0
    groups: dict[tuple[str, tuple[tuple[str, int], ...]], list[FlatAccess]] = {}
    for access in comp.accesses or ():
        groups.setdefault((access.buf, access.coefficients), []).append(access)
    accumulators = 0
    for members in groups.values():
        distinct = _distinct(members, spans, lane, vectors, machine.lanes)
        first = members[0]
        invariant = inner is None or first.coefficient(inner) == 0
        written = any(a.write for a in members)
        if written and invariant and inner is not None:
            accumulators += distinct if not (lane and lane.reduce) else points
            continue
        if invariant:
            registers += distinct
            if inner is not None and not written:
                continue
        else:
            streamed += distinct
            sums += distinct if written else 0
        stride = None if lane is None else lane.sign * first.coefficient(lane.iterator)
        machine.add_access(pressure, first, stride, distinct, written, read=any(not a.write for a in members))
    latency = machine.latency("mac", elem, vector=lane is not None)
    recurrence = points / accumulators * latency if accumulators else 0.0
    body = max(max(pressure.values(), default=0.0), recurrence, 1.0)
    if sums and not accumulators:
        # Chains of one iteration run on through the next ones.
        accumulators = round(points * latency / body)
    return body, registers + accumulators + max(min(streamed, 12), round(_HELD * streamed))


def _distinct(
    members: list[FlatAccess],
    spans: dict[str, int],
    lane: Lane | None,
    vectors: int,
    lanes: int,
) -> int:
    """How many different vectors (or scalars) the tile touches through these accesses."""
    first = members[0]
    offsets = {a.constant for a in members}
    for iterator, coefficient in first.coefficients:
        if lane and iterator == lane.iterator:
            steps = [coefficient * lanes * k for k in range(vectors)]
        else:
            steps = [coefficient * k for k in range(spans.get(iterator, 1))]
        offsets = {o + s for o in offsets for s in steps}
    return len(offsets)


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


def _plans(nest: Nest, choice: _Choice, target: Target) -> tuple[tuple[str, CompPlan], ...]:
    """Shapes for full tiles first, then for the remainders of each loop, in all combinations.

    Where a size is unknown there are full tiles, and below these just rows of vectors.
    """
    plans = []
    for comp in nest.comps:
        name = comp.comp.name
        lane = choice.lanes.get(name)
        per_loop: list[list[tuple[str, LoopShape]]] = []
        for iterator in comp.comp.iters:
            loop = comp.loop(iterator)
            span = min(choice.spans.get(loop.id, 1), max(loop.extent, 1))
            is_lane = lane is not None and lane.iterator == iterator
            if span == 1 and not is_lane:
                continue
            sizes = [span]
            if loop.known and loop.free and loop.extent % span:
                sizes.append(loop.extent % span)
            if is_lane and span > target.lanes and not (comp.box and span == loop.extent):
                sizes.append(target.lanes)
            like = LoopShape(span)
            if is_lane and lane is not None:
                like = LoopShape(span, lane=True, reduce=lane.reduce, flip=lane.flip)
            per_loop.append([(iterator, replace(like, span=s)) for s in dict.fromkeys(sizes)])
        shapes = tuple(tuple(c) for c in itertools.product(*per_loop)) if per_loop else ()
        if not all(x.known and x.free for x in comp.loops):
            rows = [tuple(s for s in shape if s[1].lane) for shape in shapes]
            shapes = tuple(dict.fromkeys((*shapes[:1], *(r for r in rows if r))))
        plans.append((name, CompPlan(order=choice.orders[name], shapes=shapes)))
    return tuple(plans)


def _size(plan: CompPlan, lanes: int) -> int:
    return sum(math.prod(-(-x.span // lanes) if x.lane else x.span for _, x in shape) for shape in plan.shapes)


def _points(comp: CompInfo, choice: _Choice, lanes: int) -> int:
    """Vectors, or scalars, of a tile of the comp."""
    lane = choice.lanes.get(comp.comp.name)
    points = 1
    for loop in comp.loops:
        span = choice.spans.get(loop.id, 1)
        points *= -(-span // lanes) if lane and lane.iterator == loop.iterator else span
    return points


def _family(nest: Nest, choice: _Choice) -> str:
    """The spans of the heaviest comp's reduction loops."""
    heavy = nest.heaviest
    written = next((a for a in heavy.accesses or () if a.write), None)
    inner = [x for x in heavy.loops if written is not None and written.coefficient(x.iterator) == 0]
    return " ".join(f"{x.iterator}:{choice.spans.get(x.id, 1)}" for x in inner)


def _title(nest: Nest, choice: _Choice) -> str:
    """Short text for traces: comp, order and spans, the lane iterator starred, or `~` where it is flipped."""
    parts = []
    for comp in nest.comps:
        name = comp.comp.name
        lane = choice.lanes[name].iterator if name in choice.lanes else ""
        loops = []
        for iterator in choice.orders[name]:
            span = choice.spans.get(comp.loop(iterator).id, 1)
            star = ("~" if choice.lanes[name].flip else "*") if iterator == lane else ""
            loops.append(f"{iterator}{star}:{span}")
        parts.append(f"{name}({' '.join(loops)})")
    return " ".join(parts)
