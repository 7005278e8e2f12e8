"""Address streams of a modulo-scheduled loop: who advances the register, and each access's displacement.

A stream's accesses are scheduled without regard to its register. Afterwards one access is chosen to advance it by
post-increment; every other access is displaced by as many steps as have been taken, or not yet, when it issues. Where
no choice brings all displacements into range, the accesses are split over several registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dspgen.asmir.ir.function import Mem, MemRef, Mode, Place, Stream, VReg
from dspgen.sched.machine.operations import Op
from dspgen.sched.machine.target_facts import Facts, displaced
from dspgen.target.isa.model import Side

_AHEAD = 8  # steps that an access may be ahead of what advances its register, or behind


@dataclass(frozen=True, slots=True)
class Access:
    """A memory operand on a stream: where it is, its byte offset, bytes per unit, and cycle in the iteration."""

    op: int
    operand: int
    offset: int
    scale: int
    cycle: int
    conditional: bool
    reference: MemRef | None


@dataclass(frozen=True, slots=True)
class Group:
    """Accesses on one register, which starts at the stream's value plus `bias` and is advanced by `leader`.

    `step_register` holds the step in scaled units where it is beyond the immediate's range. `guests` are accesses of
    other streams over the same array: an offset register holds how far they are, in scaled units, from the leader.
    """

    stream: Stream
    base: VReg
    bias: int
    leader: Access
    members: tuple[Access, ...]
    step_register: VReg | None
    guests: tuple[tuple[Access, VReg, int], ...] = ()


def stream_accesses(ops: Sequence[Op], cycles: Sequence[int], bases: set[VReg]) -> dict[VReg, list[Access]]:
    found: dict[VReg, list[Access]] = {}
    for index, op in enumerate(ops):
        for k, value in enumerate(op.operands):
            if isinstance(value, Mem) and isinstance(value.base, VReg) and value.base in bases:
                memory = op.instruction.memory
                scale = memory.scale if memory is not None else 1
                access = Access(index, k, value.offset, scale, cycles[index], op.predicate is not None, value.access)
                found.setdefault(value.base, []).append(access)
    return found


def steps_taken(access: Access, leader: Access, interval: int, update: int) -> int:
    """Steps taken before `access` in iteration k, less k: counted as if the loop had no first and last iteration."""
    if access.op == leader.op:
        return 0
    return (access.cycle - leader.cycle - update) // interval + 1


def can_lead(access: Access, step: int, side: Side, facts: Facts) -> bool:
    """Whether a post-increment of this access can advance the register by `step`."""
    if access.conditional or step % access.scale:
        return False
    return increment(step, access.scale, facts) is not None or side in facts.target.address_modes.offset_classes


def increment(step: int, scale: int, facts: Facts) -> tuple[Mode, int] | None:
    """Post-increment or post-decrement by immediate, or None where a register is needed."""
    modes = facts.target.address_modes
    units = step // scale
    low, high = modes.increment_imm if units > 0 else modes.decrement_imm
    if low <= abs(units) <= high:
        return ("post_inc" if units > 0 else "post_dec"), abs(units)
    return None


def split_stream(
    stream: Stream,
    accesses: Sequence[Access],
    interval: int,
    trip: int | None,
    facts: Facts,
    label: str,
    *,
    keep: bool,
) -> list[Group] | None:
    """Groups that cover the accesses, each within range of its register; None where no access can advance one.

    Unless its value is to be kept, the stream's own register serves the group that starts where it stands.
    """
    groups: list[Group] = []
    rest = list(accesses)
    known: dict[tuple[int, int, int], bool] = {}
    while rest:
        best: tuple[tuple[int, int, int], Access, list[Access]] | None = None
        for leader in rest:
            if not can_lead(leader, stream.step, stream.side, facts):
                continue
            needs_register = increment(stream.step, leader.scale, facts) is None
            rank = (-len(rest), int(needs_register), abs(leader.offset))
            if best is not None and rank >= best[0]:
                continue
            members = [a for a in rest if _reaches(a, leader, stream, interval, trip, facts, known)]
            rank = (-len(members), *rank[1:])
            if best is None or rank < best[0]:
                best = (rank, leader, members)
        if best is None:
            return None
        _, leader, members = best
        base = VReg(f"{stream.base.name}~{label}.{len(groups)}", stream.base.cls)
        if leader.offset == 0 and not keep and all(g.base != stream.base for g in groups):
            base = stream.base
        register = None
        if increment(stream.step, leader.scale, facts) is None:
            cls = facts.target.address_modes.offset_classes[stream.side]
            units = stream.step // leader.scale
            register = VReg(f"step~{label}.{stream.side}.{units}", cls)
        groups.append(Group(stream, base, leader.offset, leader, tuple(members), register))
        rest = [a for a in rest if a not in members]
    return groups


def _reaches(
    access: Access,
    leader: Access,
    stream: Stream,
    interval: int,
    trip: int | None,
    facts: Facts,
    known: dict[tuple[int, int, int], bool],
) -> bool:
    """Whether a displacement reaches the access wherever its leader's steps have taken the register. `known` are the
    answers by distance, steps ahead and scale."""
    if access.op == leader.op and access != leader or _disturbed(access, leader, interval, facts):
        return False
    ahead = steps_taken(access, leader, interval, facts.update)
    key = access.offset - leader.offset, ahead, access.scale
    if key not in known:
        known[key] = _all_reached(key[0], stream, ahead, trip, access.scale, facts)
    return known[key]


def _disturbed(access: Access, leader: Access, interval: int, facts: Facts) -> bool:
    """Whether the access reads the register while its next value is on the way, and may change it at any time."""
    return facts.settled and 0 < (access.cycle - leader.cycle) % interval < facts.update


def _extremes(offset: int, step: int, ahead: int, trip: int | None) -> list[int]:
    """The outermost displacements over all iterations; the first and last ones have fewer steps to count."""
    found = [offset - step * ahead]
    if ahead < 0:
        found.append(offset)
    if ahead > 1 or (ahead == 1 and trip is not None):
        found.append(offset - step)
    return found


def windows_in_reach(
    stream: Stream, accesses: Sequence[Access], interval: int, trip: int | None, facts: Facts
) -> list[tuple[int, int, int]]:
    """Edges (source, target, latency) that keep accesses within reach of few registers: each runs of them, by offset,
    issues within so many steps of the first one, which advances the register."""
    edges: list[tuple[int, int, int]] = []
    high = facts.target.address_modes.plus_imm[stream.side][1]
    update = facts.update
    leader: Access | None = None
    for access in sorted(accesses, key=lambda a: (a.offset, a.op)):
        if leader is not None:
            away = access.offset - leader.offset
            steps = [k for k in range(-_AHEAD, _AHEAD + 1) if _all_reached(away, stream, k, trip, access.scale, facts)]
            if steps and away + _AHEAD // 2 * abs(stream.step) <= high * access.scale and access.op != leader.op:
                edges.append((leader.op, access.op, (steps[0] - 1) * interval + update))
                edges.append((access.op, leader.op, 1 - update - steps[-1] * interval))
                continue
        leader = access if can_lead(access, stream.step, stream.side, facts) else None
    return edges


def _all_reached(away: int, stream: Stream, ahead: int, trip: int | None, scale: int, facts: Facts) -> bool:
    """Whether a displacement reaches what is so far `away` from its leader, so many steps `ahead`."""
    return all(displaced(d, scale, stream.side, facts) is not None for d in _extremes(away, stream.step, ahead, trip))


def merge_groups(
    groups: Sequence[Group],
    interval: int,
    bases: Mapping[str, int],
    offsets: Mapping[str, int],
    facts: Facts,
    label: str,
    trip: int | None,
) -> list[Group]:
    """Groups that fit `bases` registers of each class, where displacements or offset registers (`offsets` of each
    class) allow it.

    Before: one register for each of several streams over one array, at constant distances from each other.
    After:  one register that advances, and displacements or offset registers for the distances.
    """
    result = list(groups)
    vain: set[tuple[VReg, VReg]] = set()
    while (joined := _join_one(result, vain, interval, trip, facts)) is not None:
        result = joined
    steps = {g.step_register for g in groups if g.step_register is not None}
    used: dict[VReg, None] = dict.fromkeys(sorted(steps))
    known: dict[tuple[VReg, VReg], list[tuple[Access, VReg, int]] | None] = {}
    for cls in sorted({g.base.cls for g in groups}):
        while sum(1 for g in result if g.base.cls == cls) > bases.get(cls, 0):
            merged = _merge_one(result, cls, interval, offsets, used, facts, label, known)
            if merged is None:
                break
            result = merged
    return result


def _join_one(
    groups: list[Group], vain: set[tuple[VReg, VReg]], interval: int, trip: int | None, facts: Facts
) -> list[Group] | None:
    """Make the accesses of one group members of another, which displacements reach from there. What was tried in vain
    stays so: groups only grow, and their leaders stay."""
    for k, guest in enumerate(groups):
        for h, host in enumerate(groups):
            if h == k or guest.base.cls != host.base.cls or (guest.base, host.base) in vain:
                continue
            if (joined := _joined(guest, host, interval, trip, facts)) is not None:
                return [joined if n == h else g for n, g in enumerate(groups) if n != k]
            vain.add((guest.base, host.base))
    return None


def _joined(guest: Group, host: Group, interval: int, trip: int | None, facts: Facts) -> Group | None:
    anchor = host.leader.reference
    members = []
    for access in guest.members:
        away = _away(access.reference, anchor)
        if guest.stream.step != host.stream.step or away is None:
            return None
        member = replace(access, offset=host.leader.offset + away)
        if not _reaches(member, host.leader, host.stream, interval, trip, facts, {}):
            return None
        members.append(member)
    return replace(host, members=(*host.members, *members))


def _away(reference: MemRef | None, anchor: MemRef | None) -> int | None:
    """How many bytes one access is after another, where it is the same in all iterations."""
    if anchor is None or reference is None or (anchor.array, anchor.terms) != (reference.array, reference.terms):
        return None
    return reference.constant - anchor.constant


def _merge_one(
    groups: list[Group],
    cls: str,
    interval: int,
    room: Mapping[str, int],
    used: dict[VReg, None],
    facts: Facts,
    label: str,
    known: dict[tuple[VReg, VReg], list[tuple[Access, VReg, int]] | None],
) -> list[Group] | None:
    """Make the accesses of one group guests of another; the choice that takes the fewest new registers. `known`: how
    one group's accesses are guests of another's, whatever other guests that has."""
    best: tuple[int, int, int, list[tuple[Access, VReg, int]]] | None = None
    for k, guest in enumerate(groups):
        if guest.base.cls != cls or guest.guests:
            continue
        for h, host in enumerate(groups):
            if h == k or host.base.cls != cls:
                continue
            pair = guest.base, host.base
            if pair not in known:
                known[pair] = _as_guests(guest, host, interval, facts, label)
            if (found := known[pair]) is None:
                continue
            fresh = {r for _, r, _ in found if r not in used}
            offset_cls = facts.target.address_modes.offset_classes[host.stream.side]
            taken = sum(1 for r in used if r.cls == offset_cls)
            if taken + len(fresh) <= room.get(offset_cls, 0) and (best is None or len(fresh) < best[0]):
                best = (len(fresh), k, h, found)
    if best is None:
        return None
    _, k, h, found = best
    used.update(dict.fromkeys(r for _, r, _ in found))
    host = replace(groups[h], guests=(*groups[h].guests, *found))
    return [host if n == h else g for n, g in enumerate(groups) if n != k]


def _as_guests(
    guest: Group, host: Group, interval: int, facts: Facts, label: str
) -> list[tuple[Access, VReg, int]] | None:
    """The guest's accesses by offset registers from the host's; only where no first or last iteration differs."""
    side = host.stream.side
    if guest.stream.step != host.stream.step or side not in facts.target.address_modes.offset_classes:
        return None
    anchor = host.leader.reference
    update = facts.update
    found = []
    for access in guest.members:
        away = _away(access.reference, anchor)
        if away is None or _disturbed(access, host.leader, interval, facts):
            return None
        ahead = steps_taken(access, host.leader, interval, update)
        distance = away - host.stream.step * ahead
        if ahead not in (0, 1) or distance % access.scale:
            return None
        units = distance // access.scale
        name = f"off~{label}.{side}.{units}"
        found.append((access, VReg(name, facts.target.address_modes.offset_classes[side]), units))
    return found


def place_at(group: Group, access: Access, iteration: int, trip: int | None, interval: int, facts: Facts) -> Place:
    """The memory operand of an access in an iteration; `trip` None: past the first and before the last iterations."""
    side = group.stream.side
    for guest, register, _ in group.guests:
        if guest == access:
            return Place(group.base, "plus", register, None)
    if access == group.leader:
        chosen = increment(group.stream.step, access.scale, facts)
        if chosen is None or group.step_register is not None:
            if group.step_register is None:
                raise ValueError("a stream without a step register")
            return Place(group.base, "post_inc", group.step_register, None)
        mode, amount = chosen
        return Place(group.base, mode, amount, None)
    update = facts.update
    ahead = steps_taken(access, group.leader, interval, update)
    if trip is not None:
        ahead = min(max(iteration + ahead, 0), trip) - iteration
    offset = access.offset - group.bias - group.stream.step * ahead
    found = displaced(offset, access.scale, side, facts)
    if found is None:
        raise ValueError(f"displacement {offset} out of range")
    mode, amount = found
    return Place(group.base, mode, amount, None)
