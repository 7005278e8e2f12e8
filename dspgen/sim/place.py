"""Gives each instruction of a packet a unit: a bipartite matching between members and units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspgen.sched.ir import Address
from dspgen.target.model import Instruction


@dataclass(frozen=True, slots=True)
class Candidate:
    """One reading of an instruction's text: a form of it on a unit, with that form's operands."""

    instruction: Instruction
    unit: str
    operands: tuple[str | int | Address, ...]


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
