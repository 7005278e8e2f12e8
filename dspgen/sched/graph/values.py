"""The values of a loop body: which writes must share a register, and which reads see the iteration before.

A virtual register of linear assembly is a variable; each write makes a new version of it. Versions that must be one
register (a predicated write keeps the old value, a pair is used whole) form a web. A web that no iteration inherits
through such a tie can have a register of its own in each iteration, so that only true dependences remain.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from dspgen.asmir.ir.function import Mem, Place, Reg, VReg
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.target_facts import Atom, Facts

_NO_WRITER = -1


@dataclass(slots=True)
class Version:
    """One definition of an atom; `writer` is -1 for the value that an iteration starts with."""

    atom: Atom
    writer: int
    latency: int
    previous: int  # the version before it in the same register, or -1
    readers: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Web:
    """Versions that share a register. `canonical`: the variable's own register holds it before or after the loop."""

    register: VReg
    versions: list[int]
    fixed: bool
    canonical: bool
    invariant: bool
    carried: bool


@dataclass(slots=True)
class Values:
    """`slots[op][k]` is (web, distance) of operand k, the last being the predicate's; (-1, 0) where there is none.

    `offsets` has the same of the offset register that a memory operand (op, k) with a mode has. `inherited[v]` is the
    version that start version v was in the iteration before.
    """

    versions: list[Version]
    web_of: list[int]
    webs: list[Web]
    slots: list[list[tuple[int, int]]]
    inherited: dict[int, int]
    offsets: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)


class _Analysis:
    def __init__(self, ops: Sequence[Op], facts: Facts, excluded: Collection[VReg]) -> None:
        self.ops = ops
        self.facts = facts
        self.excluded = set(excluded)
        self.versions: list[Version] = []
        self.parent: list[int] = []
        self.current: dict[Atom, int] = {}
        self.start: dict[Atom, int] = {}
        self.slot_versions: list[list[int]] = []
        self.offset_versions: dict[tuple[int, int], int] = {}

    def find(self, version: int) -> int:
        while self.parent[version] != version:
            self.parent[version] = self.parent[self.parent[version]]
            version = self.parent[version]
        return version

    def union(self, a: int, b: int) -> None:
        a, b = self.find(a), self.find(b)
        if a != b:
            self.parent[max(a, b)] = min(a, b)

    def new(self, atom: Atom, writer: int, latency: int, previous: int) -> int:
        self.versions.append(Version(atom, writer, latency, previous))
        self.parent.append(len(self.versions) - 1)
        return len(self.versions) - 1

    def now(self, atom: Atom) -> int:
        if atom not in self.current:
            self.current[atom] = self.start[atom] = self.new(atom, _NO_WRITER, 0, -1)
        return self.current[atom]

    def tracked(self, atom: Atom) -> bool:
        return isinstance(atom[0], VReg) and atom[0] not in self.excluded

    def scan(self) -> None:
        for index, op in enumerate(self.ops):
            for atom, cycle in op.reads:
                if self.tracked(atom):
                    self.versions[self.now(atom)].readers.append((index, cycle))
            slots = [self._slot(op, k, written=False) for k in range(len(op.operands))]
            for k, value in enumerate(op.operands):
                if isinstance(value, Place) and isinstance(value.offset, VReg) and value.offset not in self.excluded:
                    self.offset_versions[index, k] = self._of(Reg(value.offset))
            predicate = op.predicate
            slots.append(self._of(Reg(predicate.register)) if predicate is not None else -1)
            for atom, latency in op.writes:
                if not self.tracked(atom):
                    continue
                old = self.now(atom) if atom in op.tied else -1
                self.current[atom] = new = self.new(atom, index, latency, old)
                if old >= 0:
                    self.union(old, new)
            for k, operand in enumerate(op.instruction.operands):
                if operand.write:
                    slots[k] = self._slot(op, k, written=True)
            self.slot_versions.append(slots)

    def _slot(self, op: Op, k: int, *, written: bool) -> int:
        operand, value = op.instruction.operands[k], op.operands[k]
        match value:
            case Reg():
                return self._of(value) if operand.read or written else -1
            case Mem(base=VReg() as base) | Place(base=VReg() as base):
                return self._of(Reg(base))
            case _:
                return -1

    def _of(self, register: Reg) -> int:
        """The version of a register operand now; the halves of a pair used whole become one web."""
        if register.vreg in self.excluded:
            return -1
        found = [self.now(atom) for atom in self.facts.atoms(register.vreg, register.part)]
        for other in found[1:]:
            self.union(found[0], other)
        return found[0]


def analyse(ops: Sequence[Op], facts: Facts, live_out: Collection[VReg], excluded: Collection[VReg]) -> Values:
    """The values of a loop body in program order; `excluded` registers (address streams) are left out."""
    work = _Analysis(ops, facts, excluded)
    work.scan()
    carried, wanted = _join_iterations(work, set(live_out))
    return _collect(work, carried, wanted)


def _join_iterations(work: _Analysis, live_out: set[VReg]) -> tuple[dict[VReg, None], dict[VReg, None]]:
    """Unite what iterations hand on; returns the carried registers, and those that outside code sees."""
    written = {v.atom for v in work.versions if v.writer >= 0}
    carried: dict[VReg, None] = {}
    wanted: dict[VReg, None] = {}
    for atom in dict.fromkeys([*work.start, *work.current]):
        register = atom[0]
        if not isinstance(register, VReg) or not any(a in written for a in work.facts.atoms(register)):
            continue
        inherited = any(
            a in work.start and (work.versions[work.start[a]].readers or _is_tied(work, work.start[a]))
            for a in work.facts.atoms(register)
        )
        if inherited:
            carried[register] = None
        if inherited or register in live_out:
            wanted[register] = None
    for register in wanted:
        atoms = work.facts.atoms(register)
        outs = [work.now(a) for a in atoms]
        for other in outs[1:]:
            work.union(outs[0], other)
    changed = True
    while changed:
        changed = False
        for register in wanted:
            for atom in work.facts.atoms(register):
                start = work.start.get(atom)
                if start is None or work.find(start) == work.find(work.current[atom]):
                    continue
                root = work.find(start)
                if any(v.writer >= 0 and work.find(k) == root for k, v in enumerate(work.versions)):
                    work.union(start, work.current[atom])
                    changed = True
    return carried, wanted


def _is_tied(work: _Analysis, version: int) -> bool:
    return any(v.previous == version for v in work.versions)


def _collect(work: _Analysis, carried: dict[VReg, None], wanted: dict[VReg, None]) -> Values:
    inherited: dict[int, int] = {}
    members: dict[int, list[int]] = {}
    for index in range(len(work.versions)):
        members.setdefault(work.find(index), []).append(index)
    out_roots = {work.find(work.current[a]): r for r in wanted for a in work.facts.atoms(r) if a in work.current}
    webs: list[Web] = []
    web_of = [-1] * len(work.versions)
    moved: dict[int, int] = {}
    for root, versions in members.items():
        register = work.versions[root].atom[0]
        if not isinstance(register, VReg):
            continue
        starts = [v for v in versions if work.versions[v].writer < 0]
        has_writer = len(starts) < len(versions)
        if not has_writer and register in carried:
            # The start of an iteration is the end of the one before: same web, one iteration back.
            for version in starts:
                inherited[version] = moved[version] = work.current[work.versions[version].atom]
            continue
        for version in starts:
            if has_writer:
                inherited[version] = work.current[work.versions[version].atom]
        webs.append(
            Web(
                register,
                versions,
                fixed=bool(starts) and has_writer,
                canonical=root in out_roots or not has_writer,
                invariant=not has_writer,
                carried=has_writer and register in carried and root in out_roots,
            )
        )
        latest: dict[Atom, int] = {}
        for version in versions:
            web_of[version] = len(webs) - 1
            found = work.versions[version]
            if found.writer >= 0:
                found.previous = latest.get(found.atom, -1)
            latest[found.atom] = version
    for version, target in moved.items():
        web_of[version] = web_of[target]
    slots = [[(web_of[v], 1 if v in moved else 0) if v >= 0 else (-1, 0) for v in row] for row in work.slot_versions]
    offsets = {key: (web_of[v], 1 if v in moved else 0) for key, v in work.offset_versions.items()}
    return Values(work.versions, web_of, webs, slots, inherited, offsets)
