"""Where a function's arguments are at entry.

Arguments come in registers, and on the stack where the calling convention passes the rest there. Where it names no such
place, all arguments of a function that has more than registers hold are members of one structure, laid out as C does,
whose address is the only argument. A member is a word, as an argument in a register is, or has 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspgen.errors import NoSchedule, Problem
from dspgen.target.isa.model import Target

_WORD = 4  # bytes


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the structure of arguments, in bytes from its beginning."""

    offset: int
    size: int


Place = str | int | Member  # a register, bytes from the scalar side's stack pointer, or a member of the structure


def argument_places(target: Target, elems: Sequence[str | None]) -> tuple[Place, ...]:
    """Return the places of arguments, of which numbers have a type; arrays none. See `Abi.places`."""
    pairs = _pairs(target)
    places = target.abi.places([pairs if e is None else e in ("f64", "i64") for e in elems])
    known = tuple(place for place in places if place is not None)
    return known if len(known) == len(elems) else _members(target, elems)


def entry_places(target: Target, places: Sequence[Place]) -> tuple[str | int, ...]:
    """Return the places of all that a call passes: the arguments, or the address of the structure that holds them."""
    if by_structure(places):
        return (structure_register(target),)
    return tuple(place for place in places if not isinstance(place, Member))


def by_structure(places: Sequence[Place]) -> bool:
    """Return whether the arguments are members of a structure."""
    return any(isinstance(place, Member) for place in places)


def structure_register(target: Target) -> str:
    """Return the register of the structure's address. Raises NoSchedule (DG306) where no register holds one."""
    place = target.abi.places([_pairs(target)])[0]
    if not isinstance(place, str):
        what = f"{target.name} passes no address in a register, so that functions can't have arguments"
        raise NoSchedule(Problem("DG306", what, None, "name registers in `arguments` of the ISA file's [abi]"))
    return place


def structure_bytes(places: Sequence[Place]) -> int:
    """Return the structure's size, with the padding that C puts behind its last member."""
    members = [place for place in places if isinstance(place, Member)]
    end = max((m.offset + m.size for m in members), default=0)
    align = structure_alignment(places)
    return -(-end // align) * align


def structure_alignment(places: Sequence[Place]) -> int:
    """Return the structure's alignment: its largest member's size."""
    return max((place.size for place in places if isinstance(place, Member)), default=1)


def _members(target: Target, elems: Sequence[str | None]) -> tuple[Member, ...]:
    found: list[Member] = []
    end, pointer = 0, target.register_class(target.abi.pointer_class).bits // 8
    for elem in elems:
        size = pointer if elem is None else 2 * _WORD if elem in ("f64", "i64") else _WORD
        found.append(Member(-(-end // size) * size, size))
        end = found[-1].offset + size
    return tuple(found)


def _pairs(target: Target) -> bool:
    return target.register_class(target.abi.pointer_class).pair_of is not None
