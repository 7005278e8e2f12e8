"""What the scheduler asks of a target again and again, worked out once: register atoms, units as numbers, latencies."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from dspgen.asmir.ir.function import If, Instr, Loop, Mode, VReg
from dspgen.sched.machine.group_limits import Limits, bits
from dspgen.target.isa.model import Instruction, RegisterClass, Side, Target
from dspgen.target.query.forwarding import twins
from plant_core.support.memoize import by_identity

if TYPE_CHECKING:
    from dspgen.sched.machine.modulo_schedule import ModuloSchedule
    from dspgen.sched.machine.operations import Op

# An atom is the smallest piece of a register that can be written alone: (VReg, "" | "lo" | "hi"), or (name, "") for a
# physical register that an instruction names itself.
Atom = tuple[VReg | str, str]

_TARGETS_KEPT = 32
_SCHEDULES_KEPT = 4096  # of loops, of some kilobytes
_PREDICATES = {False: "scalar predicate", True: "lane predicate"}


@dataclass(frozen=True, slots=True)
class Reservation:
    """Resources of an instruction: one of `alternatives` for `busy` cycles, and all of `extras` (id, first, cycles).

    `related` are the units that moving other operations about could make free. As bit sets, `units` are the
    alternatives and `reachable` the related ones; a `simple` one takes one unit for one cycle.
    """

    alternatives: tuple[int, ...]
    busy: int
    extras: tuple[tuple[int, int, int], ...]
    related: tuple[int, ...] = ()
    units: int = field(init=False, compare=False, repr=False)
    reachable: int = field(init=False, compare=False, repr=False)
    simple: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", sum(1 << u for u in self.alternatives))
        object.__setattr__(self, "reachable", sum(1 << u for u in self.related))
        object.__setattr__(self, "simple", self.busy == 1 and not self.extras)


@dataclass(frozen=True, slots=True)
class LoopSchedules:
    """Modulo schedules of loop bodies, or what they lack, by all that they depend on (`loop_body.py`): bodies are told
    by numbers."""

    bodies: dict[object, int] = field(default_factory=dict)
    schedules: dict[object, ModuloSchedule | str] = field(default_factory=dict)
    spared: dict[object, ModuloSchedule | None] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    def number(self, body: object) -> int:
        """Return the number of a body, and of all that are equal to it. None is given twice, also after `drop`."""
        if body not in self.bodies:
            self.bodies[body] = next(self.numbers)
        return self.bodies[body]

    def drop(self) -> None:
        """Drop all bodies and schedules."""
        for kept in (self.bodies, self.schedules, self.spared):
            kept.clear()


@partial(by_identity, kept=_TARGETS_KEPT)
def _all_loops_of(target: Target) -> LoopSchedules:
    return LoopSchedules()


def _loops_of(target: Target) -> LoopSchedules:
    """Return the schedules of all functions, as candidates have many loops in common; dropped where they are many."""
    found = _all_loops_of(target)
    if len(found.schedules) > _SCHEDULES_KEPT:
        found.drop()
    return found


class Facts:
    """Facts about one target; and what instructions are to the scheduler, worked out once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.equals = target.pipeline.equals
        self.settled = target.pipeline.exposed and not self.equals  # registers may change before a result lands
        # From an access that advances its base until others find it advanced; interlocks make them wait.
        self.update = target.address_modes.update_latency if target.pipeline.exposed else 1
        # Packets wait by themselves: a cycle in which nothing issues is not written, and is no packet.
        self.unwritten = not target.pipeline.exposed and not target.text.nop.strip()
        self.branch_delay = target.pipeline.branch_delay
        self.issue = target.packets.issue
        self.classes: dict[str, RegisterClass] = {c.name: c for c in target.registers}
        self._counted = {name: self._counted_as(name) for name in self.classes}
        self._pairs = frozenset(c.name for c in target.registers if c.pair_of is not None)
        names = list(target.unit_members)
        for instruction in target.instructions:
            for name, _, _ in instruction.resources:
                if name not in names:
                    names.append(name)
        self._long = {m: u.slots - 1 for u in target.units if u.slots > 1 for m in u.members}
        names += [f"{member}, slot {k + 2}" for member, more in self._long.items() for k in range(more)]
        self.unit_names = tuple(names)
        self._unit_id = {name: k for k, name in enumerate(names)}
        self.limits = self._limits()
        self._related = self._related_units()
        self._reservations: dict[str, Reservation] = {}
        # Rows that take values from their packet, for those that don't; and the units of the latter that are free where
        # one of the former's is, of rows whose own don't do.
        self.units_of_twins: dict[tuple[str, int], int] = {}
        self.twins = {id: found for id, found in twins(target).items() if self._keeps_room(id, found[0])}
        self._implicit: dict[str, tuple[tuple[Atom, ...], tuple[Atom, ...]]] = {}
        self._phys = self._physical_atoms()
        # What instructions overwrite and read (`liveness.py`), and their operations (`operations.py`), by the object's
        # number; it is kept beside them.
        self.uses: dict[int, tuple[Instr, frozenset[Atom], frozenset[Atom]]] = {}
        self.blocks: dict[int, tuple[If | Loop, frozenset[Atom] | None, frozenset[Atom]]] = {}
        self.operations: dict[int, tuple[Instr, Op]] = {}
        self.loops = _loops_of(target)
        abi = target.abi
        kept = (*abi.reserved, *abi.callee_saved, abi.scalar_stack, abi.vector_stack, abi.return_address)
        fixed = {a[0] for n in (*abi.reserved, abi.return_address) if n for a in self.physical(n)}
        self.callers = frozenset(
            a[0] for n in abi.callee_saved for a in self.physical(n) if isinstance(a[0], str) and a[0] not in fixed
        )
        self._caller_classes = {
            n: self.counted_as(c.name) for c in reversed(target.registers) if c.pair_of is None for n in c.names
        }
        self.untouchable = frozenset(a[0] for n in kept if n for a in self.physical(n) if isinstance(a[0], str))

    def is_pair(self, cls: str) -> bool:
        return cls in self._pairs

    def counted_as(self, cls: str) -> str:
        """The class whose registers those of a class take: of pairs, their halves'; of some of another's, that one."""
        return self._counted[cls]

    def predicate_class(self, lane: bool) -> str:
        """What a predicate, of a scalar or of lanes, counts as besides its class."""
        return _PREDICATES[lane]

    def _counted_as(self, cls: str) -> str:
        found = self.classes[self.classes[cls].pair_of or cls]
        wider = [c for c in self.classes.values() if c.kind == found.kind and {*found.names} < {*c.names}]
        return max(wider, key=lambda c: len(c.names), default=found).name

    def counted_at(self, atom: Atom) -> str:
        """The class of a virtual register's atom, or of one of the caller's registers; "" of others."""
        register = atom[0]
        if isinstance(register, VReg):
            return self.counted_as(register.cls)
        return self._caller_classes.get(register, "") if register in self.callers else ""

    def predicates_without(self, kept: Set[str]) -> dict[str, int]:
        """How many registers can be a predicate of either kind, if these can't."""
        allowed = {_PREDICATES[False]: self.target.predicates.scalar, _PREDICATES[True]: self.target.predicates.lane}
        return {kind: len(set(names) - kept) for kind, names in allowed.items()}

    def is_vector(self, register: VReg) -> bool:
        return self.classes[register.cls].kind == "vector"

    def atoms(self, register: VReg, part: str = "") -> tuple[Atom, ...]:
        """The atoms of a virtual register, or of one half of it."""
        if register.cls in self._pairs:
            return ((register, part),) if part else ((register, "lo"), (register, "hi"))
        return ((register, ""),)

    def physical(self, name: str) -> tuple[Atom, ...]:
        return self._phys.get(name, ((name, ""),))

    def reservation(self, instruction: Instruction) -> Reservation:
        found = self._reservations.get(instruction.id)
        if found is None:
            units = tuple(self._unit_id[u] for u in instruction.all_units)
            extras = tuple((self._unit_id[n], first, count) for n, first, count in instruction.resources)
            found = Reservation(units, max(instruction.busy, 1), extras, self._related[units[0]] if units else ())
            self._reservations[instruction.id] = found
        return found

    def implicit(self, instruction: Instruction) -> tuple[tuple[Atom, ...], tuple[Atom, ...]]:
        """Control registers that an instruction reads and writes without naming them."""
        found = self._implicit.get(instruction.id)
        if found is None:
            operands = {o.name for o in instruction.operands}
            reads: dict[Atom, None] = {}
            for name in instruction.implicit_reads:
                reads.update(dict.fromkeys(self.physical(name)))
            mask = self.target.mask_register
            if mask is not None and self._masked(instruction):
                reads.update(dict.fromkeys(self.physical(mask)))
            writes: dict[Atom, None] = {}
            for statement in instruction.semantics:
                place = statement.target
                if place is not None and place.op == "place" and place.name not in operands:
                    writes.update(dict.fromkeys(self.physical(place.name)))
            found = (tuple(reads), tuple(writes))
            self._implicit[instruction.id] = found
        return found

    def unit_for(self, instruction: Instruction, unit: int) -> int:
        """The unit of an instruction that stands where its twin may stand."""
        return self.units_of_twins.get((instruction.id, unit), unit)

    def _keeps_room(self, plain: str, twin: Instruction) -> bool:
        """Whether a row may stand wherever its twin may: on the same units, or on others that are free there."""
        row = self.target.instruction(plain)
        mine, units = self.reservation(row), self.reservation(twin)
        if mine.units & ~units.units == 0:
            return True
        if not mine.simple or not units.simple:
            return False
        found: dict[tuple[str, int], int] = {}
        for unit in bits(units.units):
            here = [group for group in self.limits.groups if group[0] >> unit & 1]
            alone = [group for group, most in here if most == 1]
            free = [
                other
                for other in bits(mine.units)
                if any(group >> other & 1 for group in alone)
                and all((group in here) for group in self.limits.groups if group[0] >> other & 1)
            ]
            if not free or unit in self.limits.more:
                return False
            found[plain, unit] = free[0]
        self.units_of_twins |= found
        return True

    def reads_patterns(self, instruction: Instruction) -> bool:
        """Whether it shuffles by a pattern in memory."""
        memory = self.target.pattern_memory
        return memory is not None and memory.mode_register in instruction.implicit_reads

    def landing(self, latency: int) -> int:
        """From when on a write of this latency may disturb the register."""
        return latency if self.equals else min(latency, 1)

    def wait(self, latency: int, cycle: int) -> int:
        """The least cycles from a writer's issue to a reader's who reads `cycle` cycles after that. An interlock has to
        know the writer first."""
        return latency - cycle if self.target.pipeline.exposed else max(latency - cycle, 1)

    def wanted(self, cycle: int) -> int:
        """How late a value may come for a reader who reads `cycle` cycles after issue, whenever its writer issues."""
        return cycle if self.target.pipeline.exposed else 0

    def _limits(self) -> Limits:
        """The file's, and the packets' width where some instructions take more than one slot of it."""
        groups = [(sum(1 << self._unit_id[u] for u in x.units), x.most) for x in self.target.packets.limits]
        more: dict[int, int] = {}
        first = len(self.unit_names) - sum(self._long.values())
        for member, slots in self._long.items():
            more[self._unit_id[member]] = (1 << first + slots) - (1 << first)
            first += slots
        if more:
            members = (1 << len(self.target.unit_members)) - 1
            groups.append((sum(more.values()) | members, self.issue))
        return Limits(len(self.unit_names), tuple(g for g in groups if g[0].bit_count() > g[1]), more)

    def _related_units(self) -> dict[int, tuple[int, ...]]:
        """For each unit, those connected with it by instructions that can run on either."""
        group = {k: k for k in range(len(self.unit_names))}
        for instruction in self.target.instructions:
            units = [self._unit_id[u] for u in instruction.all_units]
            joined = {group[u] for u in units}
            if len(joined) > 1:
                group = {u: min(joined) if g in joined else g for u, g in group.items()}
        return {u: tuple(v for v in group if group[v] == group[u]) for u in group}

    def _masked(self, instruction: Instruction) -> bool:
        if instruction.memory is not None and instruction.memory.store and instruction.memory.side == "vector":
            return True
        return any(o.write and any(self.classes[c].kind == "vector" for c in o.classes) for o in instruction.operands)

    def _physical_atoms(self) -> dict[str, tuple[Atom, ...]]:
        atoms: dict[str, tuple[Atom, ...]] = {}
        elements: dict[str, list[str]] = {}
        for cls in self.target.registers:
            if cls.kind == "element" and cls.element_of is not None:
                elements.setdefault(cls.element_of, []).extend(cls.names)
        for cls in self.target.registers:
            for k, name in enumerate(cls.names):
                if cls.pair_of is not None:
                    single = self.classes[cls.pair_of].names
                    atoms[name] = ((single[2 * k], ""), (single[2 * k + 1], ""))
                elif name in elements:
                    atoms[name] = tuple((e, "") for e in elements[name])
                else:
                    atoms[name] = ((name, ""),)
        return atoms


def displaced(offset: int, scale: int, side: Side, facts: Facts) -> tuple[Mode, int] | None:
    """Mode and immediate that reach `offset` bytes from a register, or None."""
    modes = facts.target.address_modes
    if offset % scale:
        return None
    units = offset // scale
    if units == 0:
        return "none", 0
    low, high = modes.plus_imm[side] if units > 0 else modes.minus_imm[side]
    if low <= abs(units) <= high:
        return ("plus" if units > 0 else "minus"), abs(units)
    return None
