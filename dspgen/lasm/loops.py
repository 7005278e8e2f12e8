"""Flat code to the scheduler's form: counted innermost loops as Loops, the rest as marks and jumps.

A loop is found by its branch back, however its condition is computed. What the text does for the counter alone goes:
the scheduler counts for itself. Registers that several accesses share, or that an addition advances, become streams,
which the scheduler advances as it likes; all others advance where the text says.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from dspgen.asmir.ir.function import Instr, Item, Jump, Loop, Mark, Mem, OperandValue, Phys, Place, Reg, Stream, VReg
from dspgen.lasm.flat_code import Builder, Code
from dspgen.lasm.if_conversion import Unconvertible, if_converted
from dspgen.lasm.liveness import Atoms, Liveness, read, written
from dspgen.lasm.memory import Memory
from dspgen.lasm.trip_counts import Maker, back_test, count
from dspgen.lasm.values import Atom, Both, Indexed, Start, State, Sum, Widened
from dspgen.target.isa.model import Side, Target
from plant_core.support.location import Loc


@dataclass(frozen=True, slots=True)
class Note:
    """What is worth telling of a place in the text."""

    loc: Loc | None
    kind: str
    message: str


@dataclass(slots=True)
class _Round:
    """A loop body seen once: the state at its end, and before each of its instructions."""

    body: list[Instr]
    end: State
    written: set[Atom]

    def step(self, root: Hashable) -> int | None:
        """How much a root moves in an iteration, None where no one knows."""
        match root:
            case None:
                return 0
            case Start(atom):
                if atom not in self.written:
                    return 0
                value = self.end.of(atom)
                return value.offset if isinstance(value, Sum) and value.root == root else None
            case Indexed(base, index, scale):
                first, second = self.step(base), self.step(index)
                return None if first is None or second is None else first + scale * second
            case Both(low, high):
                return 0 if self.step(low.root) == 0 and self.step(high.root) == 0 else None
            case Widened(value):
                return 0 if self.step(value.root) == 0 else None
            case _:
                return None


class Structure:
    """`items` is the function's body, `notes` what became of its loops."""

    def __init__(self, code: Code, builder: Builder, target: Target, apart: bool) -> None:
        self.code, self.builder, self.target = code, builder, target
        self.memory = Memory(target, apart)
        self.live = Liveness(code, target)
        self.state = State(target)
        self.items: list[Item] = []
        self.notes: list[Note] = []

    def run(self) -> None:
        ends = self._loops()
        k = 0
        while k < len(self.code):
            item = self.code[k]
            if k in ends and self._counted(k, *ends[k]):
                k = ends[k][0] + 1
                continue
            match item:
                case Instr():
                    self.items.append(self.memory.known(item, self.state))
                    self.state.run(item)
                case Mark():
                    self.state.forget()
                    self.items.append(item)
                case Jump():
                    self.items.append(item)
            k += 1

    def _loops(self) -> dict[int, tuple[int, list[Instr]]]:
        """Marks that start an innermost loop of one way in and one branch back, with that branch's place and the body,
        free of branches."""
        marks = {item.name: k for k, item in enumerate(self.code) if isinstance(item, Mark)}
        jumps: dict[str, list[int]] = {}
        for k, item in enumerate(self.code):
            if isinstance(item, Jump):
                jumps.setdefault(item.target, []).append(k)
        found: dict[int, tuple[int, list[Instr]]] = {}
        for name in sorted(jumps, key=lambda n: marks[n]):
            start, places = marks[name], jumps[name]
            end = max(places)
            if end < start:
                continue
            inside = range(start + 1, end)
            inner = [n for n, p in jumps.items() if marks[n] in inside and max(p) > marks[n]]
            if inner:
                self._note(start, end, "a loop in it")
            elif any(marks[n] in inside and p not in inside for n, ps in jumps.items() for p in ps):
                self._note(start, end, "a branch into it")
            elif len(places) > 1:
                self._note(start, end, "several branches back")
            else:
                self._straight(start, end, found)
        return found

    def _straight(self, start: int, end: int, found: dict[int, tuple[int, list[Instr]]]) -> None:
        body = self.code[start + 1 : end]
        plain = [i for i in body if isinstance(i, Instr)]
        try:
            if len(plain) < len(body):
                plain = if_converted(body, self.live.at, self.live.before[start], self.builder, self.target)
            found[start] = (end, plain)
        except Unconvertible as reason:
            self._note(start, end, str(reason))

    def _note(self, start: int, end: int, why: str) -> None:
        mark = self.code[start]
        label = mark.name if isinstance(mark, Mark) else ""
        self.notes.append(Note(self.builder.places.get(label), "not-pipelined", f"loop {label}: {why}"))

    # -- counted loops

    def _counted(self, start: int, end: int, body: list[Instr]) -> bool:
        mark, jump = self.code[start], self.code[end]
        assert isinstance(mark, Mark) and isinstance(jump, Jump)
        round_ = self._round(body)
        test = back_test(round_.end, jump.branch.predicate, round_.step)
        if test is None:
            self._note(start, end, "what its branch tests is no counter")
            return False
        least = self.builder.program.trips.get(mark.name, (1, 0))[0]
        first, limit = (self._entered(s.root) for s in (test.counter, test.limit))
        trip: int | VReg | None = None
        if first is not None and limit is not None and first.root is None and limit.root is None:
            trip = count(test, first.offset + test.counter.offset, limit.offset + test.limit.offset)
        else:
            test = replace(test, counter=_settled(test.counter, first), limit=_settled(test.limit, limit))
            maker = Maker(self.target, self.builder.index, self.builder.fresh)
            trip = maker.trip(
                test, lambda atom: Reg(atom[0], "lo" if atom[1] == "lo" else "hi" if atom[1] else ""), least
            )
            for instr in maker.code if trip is not None else ():
                self.items.append(instr)
                self.state.run(instr)
        if trip is None:
            self._note(start, end, "its trip count takes a division or has to wrap around")
            return False
        self._append(mark.name, round_, trip, self.live.before[end + 1], max(least, 1))
        return True

    def _round(self, body: list[Instr]) -> _Round:
        state = State(self.target, numbered=self.state.numbered, starts=True)
        found = _Round(body, state, set())
        for instr in body:
            found.written |= written(instr, state)
            state.run(instr)
        return found

    def _entered(self, root: Hashable) -> Sum | None:
        """What a root of the loop's body is where the loop is entered."""
        match root:
            case None:
                return Sum(None, 0)
            case Start(atom):
                value = self.state.of(atom)
                return value if isinstance(value, Sum) else Sum(("entered", root, self.state.fresh().root), 0)
            case Indexed(base, index, scale):
                first, second = self._entered(base), self._entered(index)
                if first is None or second is None:
                    return None
                offset = first.offset + scale * second.offset
                return Sum(first.root if second.root is None else Indexed(first.root, second.root, scale), offset)
            case Both(low, high):
                return self._both(low, high)
            case _:
                return None

    def _both(self, low: Sum, high: Sum) -> Sum | None:
        first, second = self._entered(low.root), self._entered(high.root)
        if first is None or second is None:
            return None
        return Sum(Both(Sum(first.root, first.offset + low.offset), Sum(second.root, second.offset + high.offset)), 0)

    def _append(self, label: str, round_: _Round, trip: int | VReg, after: Atoms, least: int) -> None:
        iterator = f"{label}.k"
        state = State(self.target, numbered=self.state.numbered, starts=True)
        kept = self._needed(round_.body, after)
        known: list[tuple[Instr, dict[VReg, Sum]]] = []
        for instr, wanted in zip(round_.body, kept, strict=True):
            made = self.memory.known(instr, state, iterator, round_.step, self._entered)
            values = {r: v for r in _bases(made) if isinstance(v := state.of((r, "")), Sum)}
            if wanted:
                known.append((made, values))
            state.run(instr)
        streams = self._streams(known, round_, after, isinstance(trip, int))
        body = [i for instr, values in known if (i := _restated(instr, values, streams)) is not None]
        loc = self.builder.places.get(label)
        self.items.append(
            Loop(
                label,
                iterator,
                1,
                trip,
                tuple(streams.values()),
                tuple(body),
                min_trip=trip if isinstance(trip, int) else least,
                loc=loc,
            )
        )
        for atom in sorted(round_.written, key=lambda a: (a[0], a[1])):
            step, value = round_.step(Start(atom)), self.state.of(atom)
            if step is not None and isinstance(trip, int) and isinstance(value, Sum):
                self.state.known[atom] = self.state.fitting(Sum(value.root, value.offset + step * trip), atom)
            else:
                self.state.known[atom] = self.state.fresh()

    def _needed(self, body: Sequence[Instr], after: Atoms) -> list[bool]:
        """Which instructions do anything besides counting for the branch back."""
        state = self.state
        needed: set[Atom] = set(after)
        kept = [_acts(i) for i in body]
        changed = True
        while changed:
            changed = False
            for k, instr in enumerate(body):
                if kept[k] or written(instr, state) & needed:
                    kept[k] = True
                    more = read(instr, state) - needed
                    if instr.predicate is not None or instr.masked:
                        more |= written(instr, state) - needed
                    needed |= more
                    changed |= bool(more)
        return kept

    # -- streams

    def _streams(
        self, known: Sequence[tuple[Instr, dict[VReg, Sum]]], round_: _Round, after: Atoms, fixed: bool
    ) -> dict[VReg, Stream]:
        """Registers that the scheduler may advance in its own way: every use is an access or the advance itself."""
        found: dict[VReg, Stream] = {}
        bases = dict.fromkeys(v.base for i, _ in known for v in i.operands if isinstance(v, Place))
        for base in bases:
            if not isinstance(base, VReg) or ((base, "") in after and not fixed):
                continue
            step = round_.step(Start((base, "")))
            sides: list[Side] = []
            advances = 0
            for instr, _ in known:
                use = _use_of(instr, base)
                if use == "access" and instr.instruction.memory is not None:
                    sides.append(instr.instruction.memory.side)
                elif use == "advance":
                    advances += 1
                elif use == "other":
                    sides = []
                    break
            if step and len(set(sides)) == 1 and (len(sides) > 1 or advances):
                found[base] = Stream(base, step, sides[0])
        return found


def _settled(value: Sum, entered: Sum | None) -> Sum:
    """The value as a number where its root is one when the loop is entered."""
    constant = entered.constant if entered is not None else None
    return value if constant is None else Sum(None, value.offset + constant)


def _acts(instr: Instr) -> bool:
    """Whether an instruction has effects other than on variables."""
    row = instr.instruction
    named = {o.name for o in row.operands}
    if row.memory is not None and row.memory.store:
        return True
    if any(s.target is None or s.target.name not in named for s in row.semantics) or row.implicit_writes:
        return True
    return any(o.write and isinstance(v, Phys) for o, v in zip(row.operands, instr.operands, strict=True))


def without_idle_code(items: Sequence[Item], target: Target) -> tuple[Item, ...]:
    """The items without instructions between the loops whose results nothing reads: what only counted for a loop."""
    state = State(target)
    found = list(items)
    while True:
        live = Liveness(found, target)
        kept = [
            item
            for k, item in enumerate(found)
            if not isinstance(item, Instr) or _acts(item) or written(item, state) & live.before[k + 1]
        ]
        if len(kept) == len(found):
            return tuple(kept)
        found = kept


def _bases(instr: Instr) -> list[VReg]:
    return [v.base for v in instr.operands if isinstance(v, Place) and isinstance(v.base, VReg)]


def _use_of(instr: Instr, register: VReg) -> str:
    """How an instruction uses an address register: "access", "advance", "other", or "" for not at all."""
    places = [v for v in instr.operands if isinstance(v, Place) and register in (v.base, v.offset)]
    named = [v for v in instr.operands if isinstance(v, Reg) and v.vreg == register]
    if not places and not named:
        return ""
    if places and not named:
        plain = all(v.base == register and isinstance(v.offset, int) for v in places)
        return "access" if plain and not (instr.predicate and any(v.updates for v in places)) else "other"
    row = instr.instruction
    others = [v for v in instr.operands if isinstance(v, Reg) and v.vreg != register]
    reads = any(o.read and v in named for o, v in zip(row.operands, instr.operands, strict=True))
    writes = any(o.write and v in named for o, v in zip(row.operands, instr.operands, strict=True))
    alone = instr.predicate is None and not places and row.memory is None and len(row.operands) == len(named) + 1
    return "advance" if reads and writes and alone and len(others) <= 1 else "other"


def _restated(instr: Instr, values: dict[VReg, Sum], streams: dict[VReg, Stream]) -> Instr | None:
    """The instruction with its accesses on streams as offsets; None for what advances one."""
    if any(_use_of(instr, base) == "advance" for base in streams):
        return None
    memory = instr.instruction.memory
    operands: list[OperandValue] = []
    for value in instr.operands:
        if isinstance(value, Place) and isinstance(value.base, VReg) and value.base in streams and memory is not None:
            offset = values[value.base].offset + _displacement(value) * memory.scale
            operands.append(Mem(value.base, offset, value.access))
        else:
            operands.append(value)
    return replace(instr, operands=tuple(operands))


def _displacement(place: Place) -> int:
    """How far in front of its register an access lies, in units."""
    assert isinstance(place.offset, int)
    if place.mode in ("plus", "pre_inc"):
        return place.offset
    return -place.offset if place.mode in ("minus", "pre_dec") else 0
