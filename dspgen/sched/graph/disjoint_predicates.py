"""Operations of which at most one takes effect: under a predicate and under its complement.

The two are under the same register, which nothing writes between them; of lane predicates, that holds lane by lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspgen.asmir.ir.function import Reg, VReg
from dspgen.sched.machine.operations import Op, settle_ties
from dspgen.sched.machine.target_facts import Atom, Facts


@dataclass(frozen=True, slots=True)
class Guard:
    """The predicate of an operation; `version` counts the writes of its register before."""

    register: VReg
    version: int
    lane: bool
    negated: bool

    @property
    def complement(self) -> Guard:
        return Guard(self.register, self.version, self.lane, not self.negated)


@dataclass(slots=True)
class Guards:
    """Of each operation, by its place, the guard under which it writes and the one under which it reads: None without
    a predicate, and where nothing is under the complement. Under a predicate of lanes it may read any lane."""

    ops: Sequence[Op]
    writing: list[Guard | None]
    reading: list[Guard | None]

    def of_write(self, place: int) -> Guard | None:
        """The guard under which others may go before or after; the first half of a write makes a new value."""
        return None if self.ops[place % len(self.ops)].half else self.writing[place]

    def of_read(self, place: int, atom: Atom) -> Guard | None:
        """The same of a register that it reads; the predicate's is read in any case."""
        predicate = self.ops[place % len(self.ops)].predicate
        return None if predicate is None or predicate.register == atom[0] else self.reading[place]


def guards_of(ops: Sequence[Op], rounds: int = 1) -> Guards:
    """The guards of a sequence of operations, or of so many rounds of it, one after the other."""
    found: list[Guard | None] = [None for _ in range(len(ops) * rounds)]
    if all(op.predicate is None for op in ops):
        return Guards(ops, found, found)
    versions: dict[VReg | str, int] = {}
    for place in range(len(found)):
        op = ops[place % len(ops)]
        if (p := op.predicate) is not None:
            found[place] = Guard(p.register, versions.get(p.register, 0), p.lane, p.negated)
        for register in {atom[0] for atom, _ in op.writes}:
            versions[register] = versions.get(register, 0) + 1
    known = {guard for guard in found if guard is not None}
    writing = [guard if guard is not None and guard.complement in known else None for guard in found]
    return Guards(ops, writing, [None if guard is None or guard.lane else guard for guard in writing])


def join_halves(ops: Sequence[Op], facts: Facts) -> None:
    """Marks writes under a predicate that keep nothing of the old value, since what is under the complement writes the
    same register before anything reads it but under the predicate.

    Before: [p] x = a; [!p] x = b: each keeps what it does not write.
    After:  the first makes a new value of x, and the second is its other half.
    """
    guards = guards_of(ops)
    for k, op in enumerate(ops):
        guard = guards.writing[k]
        if guard is None or op.masked:
            continue
        whole = {
            atom
            for operand, value in zip(op.instruction.operands, op.operands, strict=True)
            if operand.write and not operand.read and isinstance(value, Reg)
            for atom in facts.atoms(value.vreg, value.part)
        }
        if whole and all(_completed(atom, k, guard, ops, guards) for atom in whole):
            op.half = True
            settle_ties(op, facts)


def _completed(atom: Atom, k: int, guard: Guard, ops: Sequence[Op], guards: Guards) -> bool:
    """Whether the other half of a write comes before any reader that might see what was there."""
    for later in range(k + 1, len(ops)):
        op = ops[later]
        if any(a == atom for a, _ in op.reads) and guards.of_read(later, atom) != guard:
            return False
        if any(a == atom for a, _ in op.writes) and guards.writing[later] != guard:
            return guards.writing[later] == guard.complement and not op.masked
    return False
