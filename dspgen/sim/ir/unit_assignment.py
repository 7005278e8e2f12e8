"""Gives each instruction of a packet a unit: a bipartite matching between members and units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspgen.sched.ir.packets import Address
from dspgen.target.isa.model import Instruction, PacketLimit


@dataclass(frozen=True, slots=True)
class Candidate:
    """One reading of an instruction's text: a form of it on a unit, with that form's operands."""

    instruction: Instruction
    unit: str
    operands: tuple[str | int | Address, ...]


def match_within(members: Sequence[Sequence[Candidate]], limits: Sequence[PacketLimit]) -> list[Candidate] | None:
    """A candidate for each member, no unit twice, with no more on the units of a limit than it allows."""
    chosen: list[Candidate] = []
    vain: set[tuple[int, frozenset[str]]] = set()

    def settle(taken: frozenset[str]) -> bool:
        if len(chosen) == len(members):
            return True
        if (len(chosen), taken) in vain:
            return False
        closed = {u for x in limits if len(x.units & taken) >= x.most for u in x.units}
        for candidate in members[len(chosen)]:
            if candidate.unit not in taken and candidate.unit not in closed:
                chosen.append(candidate)
                if settle(taken | {candidate.unit}):
                    return True
                chosen.pop()
        vain.add((len(chosen), taken))
        return False

    return chosen if settle(frozenset()) else None


def match_units(members: Sequence[Sequence[Candidate]]) -> list[Candidate] | int:
    """A candidate for each member, no unit twice, earlier ones preferred; else the member that no unit is left for."""
    holder: dict[str, int] = {}
    chosen: dict[int, Candidate] = {}

    def settle(member: int, tried: set[str]) -> bool:
        for candidate in members[member]:
            if candidate.unit not in holder:
                holder[candidate.unit] = member
                chosen[member] = candidate
                return True
        for candidate in members[member]:
            if candidate.unit in tried:
                continue
            tried.add(candidate.unit)
            if settle(holder[candidate.unit], tried):
                holder[candidate.unit] = member
                chosen[member] = candidate
                return True
        return False

    for member in sorted(range(len(members)), key=lambda i: (len(members[i]), i)):
        if not settle(member, set()):
            return member
    return [chosen[i] for i in range(len(members))]
