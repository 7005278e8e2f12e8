"""From one scheduled iteration to prolog, kernel and epilog: modulo variable expansion and the flat timeline.

Iteration k starts at cycle k * II. The prolog holds what happens before all stages are busy (and iterations peeled so
that the kernel divides the rest), one pass of the kernel holds `unroll` iterations, the epilog drains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import lcm
from types import MappingProxyType

from dspgen.asmir.ir.function import Instr, Mem, OperandValue, Place, Predicate, Reg, VReg
from dspgen.sched.graph.forwarding import forwards, with_twin
from dspgen.sched.graph.rigid_sections import Envelope, Member, Section, envelope_of
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.graph.values import Values
from dspgen.sched.machine.modulo_schedule import ModuloSchedule
from dspgen.sched.machine.operations import Op, make_op, remade
from dspgen.sched.machine.target_facts import Atom, Facts
from dspgen.sched.modulo.address_streams import Group, place_at

_MOST_UNROLL = 32

NO_ROOM_FOR_BRANCH = "no unit is free for the branch"
NO_ROOM_FOR_COUNTER = "no unit is free for the loop counter"


@dataclass(slots=True)
class Body:
    """A loop body with its values, schedule and address groups. `expanded` are the pieces that were made of it."""

    label: str
    ops: list[Op]
    values: Values
    schedule: ModuloSchedule
    groups: list[Group]
    min_length: int
    expanded: dict[object, Pipelined | str] = field(default_factory=dict)


@dataclass(slots=True)
class Shape:
    """Copies of each web, iterations in a kernel pass, iterations begun before the kernel, passes of the kernel."""

    copies: list[int]
    unroll: int
    before: int
    passes: int

    @property
    def trip(self) -> int:
        return self.before + self.unroll * self.passes


@dataclass(slots=True)
class Pipelined:
    """`constants` and `entry` go before the prolog; registers that `constants` fill stay the same in the loop. A kernel
    that runs several times has a `counter`, or is a hardware loop with an `end`."""

    constants: list[Instr]
    entry: list[Instr]
    prolog: Section
    kernel: list[list[tuple[Op, int]]]
    epilog: Section
    counter: VReg | None
    end: Op | None = None


def live_ranges(body: Body, facts: Facts) -> list[dict[Atom, tuple[int, int]]]:
    """For each web and atom, from the first landing to the last read of one iteration's value."""
    interval, cycles = body.schedule.interval, body.schedule.cycles
    ranges: list[dict[Atom, tuple[int, int]]] = [{} for _ in body.values.webs]
    for index, version in enumerate(body.values.versions):
        web = body.values.web_of[index]
        if web < 0:
            continue
        times: list[int] = []
        late = 0
        if version.writer >= 0:
            times.append(cycles[version.writer] + facts.landing(version.latency))
            times.append(cycles[version.writer] + version.latency)
        elif index in body.values.inherited:
            late = interval
        times += [cycles[reader] + cycle + late for reader, cycle in version.readers]
        if times:
            low, high = ranges[web].get(version.atom, (times[0], times[0]))
            ranges[web][version.atom] = (min(low, *times), max(high, *times))
    return ranges


def choose_shape(body: Body, facts: Facts, trip: int | None) -> Shape | None:
    """Copies and unroll factor with the fewest registers; None where so few have no common one.

    Without a trip, the unroll factor is a power of two. Where a trip is too short for all stages to be busy, the kernel
    is the cycles in which the last iteration starts.
    """
    interval, stages = body.schedule.interval, body.schedule.stages
    needed = []
    for web, ranges in zip(body.values.webs, live_ranges(body, facts), strict=True):
        longest = max((high - low for low, high in ranges.values()), default=0)
        needed.append(1 if web.fixed or web.invariant else longest // interval + 1)
    least = max([*needed, -(-body.min_length // interval)])
    best: tuple[int, int, list[int]] | None = None
    for unroll in range(least, min(2 * least, max(least, _MOST_UNROLL)) + 1):
        if trip is None and unroll & (unroll - 1):
            continue
        copies = [next(d for d in range(n, unroll + 1) if unroll % d == 0) for n in needed]
        if best is None or sum(copies) < best[0]:
            best = (sum(copies), unroll, copies)
    if best is None:
        return None
    _, unroll, copies = best
    if trip is None:
        return Shape(copies, unroll, stages - 1, 4)
    passes, extra = divmod(trip - (stages - 1), unroll)
    if trip < stages - 1 + unroll:
        # All iterations once, one after the other: nothing branches, and no copy comes round again.
        return Shape(needed, 1, trip - 1, 1)
    return Shape(copies, unroll, stages - 1 + extra, passes)


class _Expander:
    def __init__(self, body: Body, shape: Shape, facts: Facts, first: Mapping[tuple[int, int], VReg]) -> None:
        self.body, self.shape, self.facts, self.first = body, shape, facts, first
        self.names: dict[tuple[int, int], VReg] = {}
        self.halves: set[int] = set()
        self.places = {(a.op, a.operand): (g, a) for g in body.groups for a in g.members}
        self.places.update({(a.op, a.operand): (g, a) for g in body.groups for a, _, _ in g.guests})
        self.cache: dict[object, Op] = {}
        self.regular: dict[tuple[int, int], Op] = {}  # of operations that are the same each `periods` iterations
        self.periods = [self._period(index) for index in range(len(body.ops))]
        self.placed = {index for index, _ in self.places}
        self.beginning = {index for index, _ in first}
        self.near = {
            reader
            for version in body.values.versions
            for reader, _ in (version.readers if version.writer >= 0 else ())
            if body.schedule.cycles[reader] == body.schedule.cycles[version.writer]
            and forwards(body.ops[version.writer], body.ops[reader], version.atom, facts)
        }
        for index, web in enumerate(body.values.webs):
            parts = {body.values.versions[v].atom[1] for v in web.versions}
            if not web.canonical and facts.is_pair(web.register.cls) and len(parts) == 1:
                self.halves.add(index)

    def name(self, web: int, iteration: int) -> VReg:
        """The register of a web in an iteration; the last iteration's is the variable's own."""
        found = self.body.values.webs[web]
        copies = self.shape.copies[web]
        copy = iteration % copies
        if found.invariant or (found.canonical and copy == (self.shape.trip - 1) % copies):
            return found.register
        key = (web, copy)
        if key not in self.names:
            register = found.register
            cls = register.cls
            if web in self.halves:
                cls = self.facts.classes[cls].pair_of or cls
            self.names[key] = VReg(f"{register.name}~{self.body.label}.{web}.{copy}", cls)
        return self.names[key]

    def offset(self, index: int, operand: int, iteration: int) -> int | VReg:
        """The offset of a memory operand whose mode is decided."""
        value = self.body.ops[index].operands[operand]
        if (index, operand) in self.body.values.offsets:
            web, distance = self.body.values.offsets[index, operand]
            return self.name(web, iteration - distance)
        return value.offset if isinstance(value, Place) else 0

    def _period(self, index: int) -> int:
        """The iterations after which an operation has the same registers again."""
        values, count = self.body.values, len(self.body.ops[index].operands)
        webs = {web for web, _ in values.slots[index] if web >= 0}
        webs.update(values.offsets[index, k][0] for k in range(count) if (index, k) in values.offsets)
        return lcm(*(self.shape.copies[web] for web in webs))

    def instance(self, index: int, iteration: int, trip: int | None) -> Op:
        """An operation of an iteration; without a `trip`, of one between the first ones and the last ones."""
        if trip is not None and (index in self.placed or (iteration == 0 and index in self.beginning)):
            return self._instance(index, iteration, trip)
        key = index, iteration % self.periods[index]
        if trip is None and index in self.placed:
            key = -1 - index, key[1]
        found = self.regular.get(key)
        if found is None:
            found = self.regular[key] = self._instance(index, iteration, trip)
        return found

    def _instance(self, index: int, iteration: int, trip: int | None) -> Op:
        op, slots = self.body.ops[index], self.body.values.slots[index]
        operands: list[OperandValue] = []
        for k, value in enumerate(op.operands):
            web, distance = slots[k]
            offset = self.offset(index, k, iteration)
            match value:
                case Reg() if iteration == 0 and trip is not None and (index, k) in self.first:
                    operands.append(Reg(self.first[(index, k)], value.part))
                case Reg() if web >= 0:
                    part = "" if web in self.halves else value.part
                    operands.append(Reg(self.name(web, iteration - distance), part))
                case Mem(base=VReg()) if (index, k) in self.places:
                    group, access = self.places[(index, k)]
                    place = place_at(group, access, iteration, trip, self.body.schedule.interval, self.facts)
                    operands.append(place)
                case Place(base=VReg()) if web >= 0:
                    operands.append(replace(value, base=self.name(web, iteration - distance), offset=offset))
                case _:
                    operands.append(value)
        predicate = op.predicate
        if predicate is not None and slots[-1][0] >= 0:
            web, distance = slots[-1]
            predicate = Predicate(self.name(web, iteration - distance), predicate.negated, predicate.lane)
        key = (index, tuple(operands), predicate)
        if key not in self.cache:
            made = remade(op, tuple(operands), predicate, self.facts)
            made.access = op.access
            if index in self.near:
                made = with_twin(made, self.facts)
            self.cache[key] = made
        return self.cache[key]


def expand(
    body: Body,
    shape: Shape,
    facts: Facts,
    kit: Kit,
    *,
    passes: int | VReg,
    first: Mapping[tuple[int, int], VReg] = MappingProxyType({}),
) -> Pipelined | str:
    """The pieces of the pipelined loop, or why they can't be made; the kernel runs `passes` times. They are made once.

    `first` are registers that operands of the first iteration read instead of their own.
    """
    key = tuple(shape.copies), shape.unroll, shape.before, shape.passes, passes, tuple(first.items())
    if key not in body.expanded:
        body.expanded[key] = _expanded(body, shape, facts, kit, passes, first)
    return body.expanded[key]


def _expanded(
    body: Body,
    shape: Shape,
    facts: Facts,
    kit: Kit,
    passes: int | VReg,
    first: Mapping[tuple[int, int], VReg],
) -> Pipelined | str:
    work = _Expander(body, shape, facts, first)
    interval, cycles = body.schedule.interval, body.schedule.cycles
    start = shape.before * interval
    length = shape.unroll * interval
    units = body.schedule.table.unit_of
    once = shape.trip if passes == 1 else None  # then no cycle of the kernel stands for several iterations
    prolog: list[Member] = []
    kernel: list[list[tuple[Op, int]]] = [[] for _ in range(length)]
    epilog: list[Member] = []
    first_pass: list[tuple[Op, int]] = []
    last_pass: list[tuple[Op, int]] = []
    for index in range(len(body.ops)):
        stage = cycles[index] // interval
        for k in range(shape.before - stage):
            prolog.append((work.instance(index, k, shape.trip), cycles[index] + k * interval, units[index]))
        for k in range(max(shape.before - stage, 0), shape.before - stage + shape.unroll):
            op, at = work.instance(index, k, once), cycles[index] + k * interval - start
            kernel[at].append((op, units[index]))
            first_pass.append((op, at))
            last_pass.append((op, at - length))
        for k in range(max(shape.trip - stage, 0), shape.trip):
            at = cycles[index] + (k - shape.trip) * interval
            epilog.append((work.instance(index, k, shape.trip), at, units[index]))
    counter = ending = None
    control: list[Instr] = []
    if passes != 1 and kit.loops:
        control, ending = kit.begin_loop(0, body.label, passes), make_op(kit.end_loop(0), facts)
    elif passes != 1:
        made = _control(body, passes, facts, kit, kernel)
        if isinstance(made, str):
            return made
        counter, control = made
    # Where a trip is too short for all stages to be busy, some operations are in the epilog only.
    ahead = [(op, at + start) for op, at in first_pass] + [(op, at + start + length) for op, at, _ in epilog]
    before = envelope_of([(op, at) for op, at, _ in prolog] + ahead, facts, first=True)
    _keep_from(before, start)
    after = envelope_of([(op, at) for op, at, _ in epilog] + last_pass, facts, first=False)
    end = max((at + 1 for _, at, _ in epilog), default=0)
    return Pipelined(
        _steps(work, kit),
        _entry(work, kit) + control,
        Section(prolog, start, before),
        kernel,
        Section(epilog, end, after, _still_busy(body, units, length, kernel)),
        counter,
        ending,
    )


def _keep_from(envelope: Envelope, start: int) -> None:
    """What the kernel needs, it needs when it starts: nothing lands inside it that its own operations do not write."""
    envelope.reads = {k: min(t, start) for k, t in envelope.reads.items()}
    envelope.lands = {k: min(t, start) for k, t in envelope.lands.items()}
    envelope.loads = {k: min(t, start) for k, t in envelope.loads.items()}
    envelope.stores = {k: min(t, start) for k, t in envelope.stores.items()}
    if envelope.ordered is not None:
        envelope.ordered = min(envelope.ordered, start)


def _still_busy(
    body: Body, units: dict[int, int], length: int, kernel: Sequence[Sequence[tuple[Op, int]]]
) -> list[tuple[int, int]]:
    """Units that operations of the kernel's last cycles hold past its end."""
    held: dict[tuple[int, int], None] = {}
    for at, packet in enumerate(kernel):
        for op, unit in packet:
            for k in range(op.reservation.busy):
                if at + k >= length:
                    held[(unit, at + k - length)] = None
            for resource, first, count in op.reservation.extras:
                for k in range(first, first + count):
                    if at + k >= length:
                        held[(resource, at + k - length)] = None
    return list(held)


def _steps(work: _Expander, kit: Kit) -> list[Instr]:
    """The registers by which addresses advance, and offset registers."""
    units: dict[VReg, int] = {}
    for group in work.body.groups:
        if group.step_register is not None:
            units.setdefault(group.step_register, group.stream.step // group.leader.scale)
        for _, register, offset in group.guests:
            units.setdefault(register, offset)
    return [instr for register, value in units.items() for instr in kit.offset_constant(register, value)]


def _entry(work: _Expander, kit: Kit) -> list[Instr]:
    """What else must be set up before the prolog: address registers, and copies of carried variables."""
    entry: list[Instr] = []
    for group in sorted(work.body.groups, key=lambda g: g.base == g.stream.base):
        if group.base != group.stream.base:
            entry += kit.add(group.base, group.stream.base, group.bias)
    replaced = {v.vreg for op, k in work.first if isinstance(v := work.body.ops[op].operands[k], Reg)}
    for index, web in enumerate(work.body.values.webs):
        first = work.name(index, -1)
        if web.carried and first != web.register and web.register not in replaced:
            entry += kit.move(first, web.register)
    return entry


def _control(
    body: Body, passes: int | VReg, facts: Facts, kit: Kit, kernel: list[list[tuple[Op, int]]]
) -> tuple[VReg, list[Instr]] | str:
    """Put the counter's decrement and the branch into the kernel; returns the counter and its initialisation."""
    length = len(kernel)
    branch_at = length - 1 - facts.branch_delay
    if branch_at < 0:
        return "the kernel is shorter than the branch"
    counter = VReg(f"count~{body.label}", kit.scalar)
    decrement = kit.add(counter, counter, -1)
    branch = make_op(kit.branch(body.label, Predicate(counter)), facts)
    if len(decrement) != 1:
        return "the counter has no one-instruction decrement"
    step = make_op(decrement[0], facts)
    latency = step.longest
    taken: set[tuple[int, int]] = set()
    for at, packet in enumerate(kernel):
        for op, unit in packet:
            for k in range(op.reservation.busy):
                taken.add(((at + k) % length, unit))
            for resource, first, count in op.reservation.extras:
                taken.update((((at + k) % length), resource) for k in range(first, first + count))
    where = _free_slot(branch, [branch_at], taken, facts, kernel)
    if where is None:
        return NO_ROOM_FOR_BRANCH
    kernel[branch_at].append((branch, where[1]))
    taken.add((branch_at, where[1]))
    order = [*range(branch_at - latency, -1, -1), *range(length - 1, max(branch_at - latency, -1), -1)]
    if not facts.equals:  # the branch reads no register that a result is on its way to
        order = [at for at in order if (branch_at - at) % length >= latency or at == branch_at]
    slot = _free_slot(step, order, taken, facts, kernel)
    if slot is None:
        return NO_ROOM_FOR_COUNTER
    kernel[slot[0]].append((step, slot[1]))
    seen = (branch_at - slot[0] - latency) // length
    if seen < -1:
        return "the counter's decrement takes longer than the kernel"
    if isinstance(passes, VReg):
        return counter, kit.add(counter, passes, seen)
    return counter, kit.constant(counter, passes + seen)


def _free_slot(
    op: Op, cycles: Sequence[int], taken: set[tuple[int, int]], facts: Facts, kernel: Sequence[Sequence[tuple[Op, int]]]
) -> tuple[int, int] | None:
    for at in cycles:
        if len(kernel[at]) >= facts.issue:
            continue
        if any(
            ((at + k) % len(kernel), resource) in taken
            for resource, first, count in op.reservation.extras
            for k in range(first, first + count)
        ):
            continue
        closed = facts.limits.closed(sum(facts.limits.start(unit) for _, unit in kernel[at]))
        for unit in op.reservation.alternatives:
            if closed >> unit & 1:
                continue
            if all(((at + k) % len(kernel), unit) not in taken for k in range(op.reservation.busy)):
                return at, unit
    return None
