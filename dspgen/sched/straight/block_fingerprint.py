"""What a block looks like to the scheduler, whatever its registers are called: blocks that look alike are packed alike.

A function is laid out again and again until its registers suffice, and most of its straight code is the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dspgen.asmir.ir.function import VReg
from dspgen.sched.graph.liveness import Live
from dspgen.sched.graph.rigid_sections import Envelope, Section
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.target_facts import Atom

Key = tuple[object, ...]
_Renamed = Callable[[Atom], Atom | tuple[int, str, str]]


class _Numbers(dict[VReg, int]):
    """Registers by the order in which they are first asked for."""

    def __missing__(self, register: VReg) -> int:
        return self.setdefault(register, len(self))


def key_of(ops: Sequence[Op], head: Section | None, tail: Section | None, branch: Op | None, after: Live | None) -> Key:
    """All that packets depend on. Registers are told by the order in which they occur, those that only pass through
    by how many there are of each class."""
    numbers = _Numbers()
    known: dict[Atom, Atom | tuple[int, str, str]] = {}

    def renamed(atom: Atom) -> Atom | tuple[int, str, str]:
        found = known.get(atom)
        if found is None:
            register, part = atom
            found = known[atom] = (numbers[register], register.cls, part) if isinstance(register, VReg) else atom
        return found

    code = tuple([_of_op(op, renamed) for op in ops])
    ends = _of_section(head, renamed), _of_section(tail, renamed), None if branch is None else _of_op(branch, renamed)
    if after is None:
        return code, ends, None
    through: dict[str, int] = {}
    read = []
    for atom in after:
        if (found := known.get(atom)) is not None:
            read.append(found)
        elif isinstance(register := atom[0], VReg):
            through[register.cls] = through.get(register.cls, 0) + 1
    return code, ends, frozenset(read), frozenset(through.items())


def _of_op(op: Op, renamed: _Renamed) -> Key:
    predicate = op.predicate
    guard = None if predicate is None else (renamed((predicate.register, "")), predicate.negated, predicate.lane)
    return (
        op.instruction.id,
        tuple([(renamed(a), cycle) for a, cycle in op.reads]),
        tuple([(renamed(a), latency) for a, latency in op.writes]),
        frozenset([renamed(a) for a in op.tied]) if op.tied else None,
        op.access,
        guard,
        op.ordered,
        op.half,
        op.masked,
        tuple([(renamed(a), cycles) for a, cycles in op.early.items()]) if op.early else None,
    )


def _of_section(section: Section | None, renamed: _Renamed) -> Key | None:
    if section is None:
        return None
    members = tuple([(_of_op(op, renamed), cycle, unit) for op, cycle, unit in section.members])
    return members, section.length, tuple(section.blocked), _of_envelope(section.envelope, renamed)


def _of_envelope(envelope: Envelope, renamed: _Renamed) -> Key:
    return (
        _of_times(envelope.reads, renamed),
        _of_times(envelope.lands, renamed),
        frozenset(envelope.loads.items()),
        frozenset(envelope.stores.items()),
        envelope.ordered,
    )


def _of_times(times: Mapping[Atom, int], renamed: _Renamed) -> Key:
    return tuple([(renamed(a), t) for a, t in times.items()])
