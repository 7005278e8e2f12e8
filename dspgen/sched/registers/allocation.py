"""Register allocation on finished packets: greedy colouring of the interference graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from dspgen.asmir.ir.function import VReg
from dspgen.sched.machine.group_limits import bits
from dspgen.sched.machine.target_facts import Atom, Facts
from dspgen.sched.registers.occupancy import Occupancy


@dataclass(frozen=True, slots=True)
class Failure:
    """No register is left for one of `cls`; `block` is where most of that class are occupied, `needed` how many."""

    cls: str
    block: int
    needed: int
    available: int
    predicate: bool = False
    pressure: tuple[tuple[VReg, int], ...] = ()  # registers of the class in that block: cycles that they are in the way


_ROUNDS = 40  # with which an allocation is tried again
_COLOURED = 20_000  # registers, in all these rounds
_STALE = 12  # rounds in a row in which as many registers or more found no place as in the best one before them


class _Nodes:
    """Virtual registers with their atoms and the places (physical atom names) that each may take."""

    def __init__(
        self,
        facts: Facts,
        found: Occupancy,
        predicates: Mapping[VReg, bool],
        avoid: frozenset[str],
    ) -> None:
        self.facts = facts
        self.found = found
        self.atoms: dict[VReg, list[int]] = {}
        self.fixed: dict[int, str] = {}
        number = {atom: k for k, atom in enumerate(found.atoms)}
        for k, (register, _) in enumerate(found.atoms):
            if isinstance(register, str):
                self.fixed[k] = register
            elif register not in self.atoms:
                self.atoms[register] = [number.get(a, -1) for a in facts.atoms(register)]
        self.predicates = predicates
        self._avoid = avoid
        self._places: dict[tuple[str, bool, bool], list[tuple[str, ...]]] = {}
        self.special = {*facts.target.predicates.scalar, *facts.target.predicates.lane}  # what can be a predicate
        self.partner = _partners(facts)
        self.paired = any(facts.is_pair(r.cls) for r in self.atoms)

    def avoided(self, cls: str) -> frozenset[str]:
        """Registers of a class that are not to be used, inputs' own places apart."""
        return self._avoid.intersection(self.facts.classes[cls].names)

    def places(self, register: VReg) -> list[tuple[str, ...]]:
        scalar = register in self.predicates and not self.predicates[register]
        lane = register in self.predicates and self.predicates[register]
        key = (register.cls, scalar, lane)
        if key not in self._places:
            cls = self.facts.classes[register.cls]
            places: list[tuple[str, ...]] = [(name,) for name in cls.names]
            if cls.pair_of is not None:
                single = self.facts.classes[cls.pair_of].names
                places = [(single[2 * k], single[2 * k + 1]) for k in range(len(cls.names))]
            allowed = self.facts.target.predicates
            if scalar:
                places = [p for p in places if p[0] in allowed.scalar]
            if lane:
                places = [p for p in places if p[0] in allowed.lane]
            self._places[key] = [p for p in places if not self._avoid.intersection(p)]
        return self._places[key]


def allocate(
    found: Occupancy,
    facts: Facts,
    *,
    inputs: Mapping[VReg, tuple[str, ...]],
    predicates: Mapping[VReg, bool],
    avoid: frozenset[str],
) -> dict[VReg, tuple[str, ...]] | list[Failure]:
    """Physical atoms of every virtual register; `predicates` maps those used as one to whether it is a lane's.

    Else why there are none: each block in which more registers are needed than there are, or predicates lack places,
    else the one where the register that found no place is occupied.
    """
    nodes = _Nodes(facts, found, predicates, avoid)
    taken: dict[int, str] = dict(nodes.fixed)
    for register, names in inputs.items():
        for atom, name in zip(nodes.atoms.get(register, ()), names, strict=True):
            if atom >= 0:
                taken[atom] = name
    free = [r for r in nodes.atoms if r not in inputs]
    if crowded := _crowded(nodes):
        return crowded
    if _too_many_predicates(nodes):
        lacking = _colour(_simplified(free, nodes), nodes, taken, whole=True)
        if isinstance(lacking, list):
            # Of what found no place, predicates: others might in another order.
            without = [r for r in lacking if r in predicates] or lacking[:1]
            failures: dict[int, Failure] = {}
            for failure in (_failure(r, nodes) for r in without):
                failures.setdefault(failure.block, failure)
            return list(failures.values())
    failed: list[VReg] = []
    order: list[VReg] = []
    for order in _orders(free, nodes):
        result = _colour(order, nodes, taken)
        if isinstance(result, dict):
            break
        failed = result
    coloured = result if isinstance(result, dict) else _insisted(order, nodes, taken)
    if coloured is None:
        return [_failure(failed[0], nodes)]
    return coloured | {r: names for r, names in inputs.items() if r in nodes.atoms}


def _crowded(nodes: _Nodes) -> list[Failure]:
    """The first class of which more registers are occupied in some cycle than there are: its blocks where that is so,
    the worst of them first."""
    members: dict[str, int] = {}
    for register, atoms in nodes.atoms.items():
        base = nodes.facts.counted_as(register.cls)
        for atom in atoms:
            members[base] = members.get(base, 0) | (1 << atom if atom >= 0 else 0)
    for cls, mask in members.items():
        available = len(nodes.facts.classes[cls].names) - len(nodes.avoided(cls))
        needed = [max(((o & mask).bit_count() for o in cycles), default=0) for cycles in nodes.found.cycles]
        over = sorted((-amount, block) for block, amount in enumerate(needed) if amount > available)
        if over:
            worst = _pressure(nodes, cls, over[0][1], available)
            return [
                Failure(cls, block, -amount, available, False, worst if k == 0 else ())
                for k, (amount, block) in enumerate(over)
            ]
    return []


def _too_many_predicates(nodes: _Nodes) -> bool:
    """Whether more predicates are occupied in some cycle than registers can be one: no order of colouring helps."""
    for lane in (False, True):
        registers = [r for r in nodes.predicates if nodes.predicates[r] == lane and r in nodes.atoms]
        places = {name for r in registers for place in nodes.places(r) for name in place}
        mask = sum(1 << atom for r in registers for atom in nodes.atoms[r] if atom >= 0)
        if any((o & mask).bit_count() > len(places) for cycles in nodes.found.cycles for o in cycles):
            return True
    return False


def _orders(free: list[VReg], nodes: _Nodes) -> Iterator[list[VReg]]:
    """Predicates first, the rest in order of appearance; by degree; and simplified (Chaitin, Briggs)."""
    rank = {r: 0 if r in nodes.predicates else 1 for r in free}
    appearance = {r: k for k, r in enumerate(free)}
    yield sorted(free, key=lambda r: (rank[r], appearance[r]))
    degree = {r: _degree(r, nodes) for r in free}
    places = {r: len(nodes.places(r)) for r in free}
    yield sorted(free, key=lambda r: (rank[r], places[r], -degree[r], appearance[r]))
    yield sorted(free, key=lambda r: (rank[r], -degree[r], appearance[r]))
    yield _simplified(free, nodes)


def _insisted(order: Sequence[VReg], nodes: _Nodes, taken: Mapping[int, str]) -> dict[VReg, tuple[str, ...]] | None:
    """Colour again and again, each time the registers that found no place somewhat earlier ("squeaky wheel": Joslin
    and Clements, 1999)."""
    position = {r: k for k, r in enumerate(order)}
    step = max(len(order) // 4, 1)
    fewest, stale = len(order), 0
    for _ in range(min(_ROUNDS, _COLOURED // max(len(order), 1))):
        result = _colour(sorted(order, key=lambda r: position[r]), nodes, taken, whole=True)
        if isinstance(result, dict):
            return result
        fewest, stale = (len(result), 0) if len(result) < fewest else (fewest, stale + 1)
        if stale == _STALE:
            break
        for r in result:
            position[r] -= step
    return None


def _degree(register: VReg, nodes: _Nodes) -> int:
    union = 0
    for atom in nodes.atoms[register]:
        if atom >= 0:
            union |= nodes.found.neighbours[atom]
    return union.bit_count()


def _simplified(free: list[VReg], nodes: _Nodes) -> list[VReg]:
    """Take away the register with the most room for its neighbours, again and again; colour in reverse."""
    bases = [nodes.facts.counted_as(r.cls) for r in free]
    own = [[atom for atom in nodes.atoms[r] if atom >= 0] for r in free]
    width = [len(nodes.atoms[r]) for r in free]
    owner = {atom: k for k, atoms in enumerate(own) for atom in atoms}
    members: dict[str, int] = {}
    for atom, k in owner.items():
        members[bases[k]] = members.get(bases[k], 0) | (1 << atom)
    mask = [0] * len(free)
    for k, atoms in enumerate(own):
        for atom in atoms:
            mask[k] |= nodes.found.neighbours[atom] & members[bases[k]]
    pressure = [mask[k].bit_count() - len(nodes.places(r)) * width[k] for k, r in enumerate(free)]
    waiting = [(pressure[k], -k) for k in range(len(free))]
    heapify(waiting)
    left = [True] * len(free)
    removed: list[VReg] = []
    while waiting:
        least, negative = heappop(waiting)
        pick = -negative
        if not left[pick] or least != pressure[pick]:
            continue
        left[pick] = False
        removed.append(free[pick])
        touched: set[int] = set()
        rest = mask[pick]
        while rest:
            low = rest & -rest
            touched.add(owner[low.bit_length() - 1])
            rest ^= low
        for other in touched:
            if left[other]:
                pressure[other] -= width[pick]
                heappush(waiting, (pressure[other], -other))
    return removed[::-1]


def _colour(
    order: Sequence[VReg], nodes: _Nodes, taken: Mapping[int, str], *, whole: bool = False
) -> dict[VReg, tuple[str, ...]] | list[VReg]:
    """A place for each register, one after the other; else the first that found none, or, if the `whole` is wanted, all
    of them."""
    at: dict[str, int] = {}
    for atom, name in taken.items():
        at[name] = at.get(name, 0) | (1 << atom)
    result: dict[VReg, tuple[str, ...]] = {}
    failed: list[VReg] = []
    special, partner, neighbours = nodes.special, nodes.partner, nodes.found.neighbours
    for register in order:
        atoms = nodes.atoms[register]
        near = [neighbours[atom] if atom >= 0 else 0 for atom in atoms]
        first, second = near[0], near[1] if len(near) > 1 else 0
        ordinary = register not in nodes.predicates
        best: tuple[str, ...] | None = None
        least = 4  # more than any place costs
        for place in nodes.places(register):
            name = place[0]
            if first & at.get(name, 0) or (second and second & at.get(place[1], 0)):
                continue
            cost = 2 if ordinary and (name in special or place[-1] in special) else 0
            if nodes.paired and len(place) == 1 and not at.get(partner.get(name, ""), 0):
                cost += 1
            if cost < least:
                best, least = place, cost
                if cost == 0:
                    break
        if best is None:
            failed.append(register)
            if not whole:
                break
            continue
        result[register] = best
        for atom, name in zip(atoms, best, strict=True):
            if atom >= 0:
                at[name] = at.get(name, 0) | (1 << atom)
    return failed or result


def _partners(facts: Facts) -> dict[str, str]:
    found: dict[str, str] = {}
    for cls in facts.target.registers:
        if cls.pair_of is not None:
            single = facts.classes[cls.pair_of].names
            for k in range(len(cls.names)):
                found[single[2 * k]], found[single[2 * k + 1]] = single[2 * k + 1], single[2 * k]
    return found


def _failure(register: VReg, nodes: _Nodes) -> Failure:
    """Where the class of `register` is most in demand."""
    base = nodes.facts.counted_as(register.cls)
    predicate = register in nodes.predicates
    same = 0
    for k, (other, _) in enumerate(nodes.found.atoms):
        if isinstance(other, VReg) and nodes.facts.counted_as(other.cls) == base:
            if not predicate or other in nodes.predicates:
                same |= 1 << k
    own = 0
    for atom in nodes.atoms[register]:
        own |= 1 << atom if atom >= 0 else 0
    worst = (-1, 0)
    for block, cycles in enumerate(nodes.found.cycles):
        for occupied in cycles:
            if occupied & own:
                worst = max(worst, ((occupied & same).bit_count(), -block))
    places = nodes.places(register)
    available = len({name for p in places for name in p})
    pressure = _pressure(nodes, base, -worst[1], min(worst[0], available))
    return Failure(base, -worst[1], worst[0], available, predicate, pressure)


def _pressure(nodes: _Nodes, cls: str, block: int, available: int) -> tuple[tuple[VReg, int], ...]:
    """In how many of the block's crowded cycles each register of a class is occupied."""
    owner = {
        atom: register
        for register, atoms in nodes.atoms.items()
        if nodes.facts.counted_as(register.cls) == cls
        for atom in atoms
        if atom >= 0
    }
    union = sum(1 << atom for atom in owner)
    present = [occupied & union for occupied in nodes.found.cycles[block]]
    counts = [atoms.bit_count() for atoms in present]
    limit = min(available - available // 8, max(counts, default=0))
    found: dict[VReg, int] = dict.fromkeys(owner.values(), 0)
    for atoms, count in zip(present, counts, strict=True):
        if count >= limit:
            for register in {owner[atom] for atom in bits(atoms)}:
                found[register] += 1
    return tuple((r, cycles) for r, cycles in found.items() if cycles)


__all__ = ["Atom", "Failure", "allocate"]
