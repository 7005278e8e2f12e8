"""What the user of the language gives to its declarations, checked as it comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import NoReturn, get_args

from plant_core.ir.func import Action, Alloc, DType, Free, Location, Memcpy, Verbatim
from plant_core.lang.terms import Term, caller, lift
from plant_core.support.location import PlantError

Size = Term | int
Bounds = Size | tuple[Size, Size] | tuple[Size, Size, int]
Domain = Mapping[Term, Bounds] | Sequence[Term]


def fail(code: str, message: str, remedy: str) -> NoReturn:
    raise PlantError(message, loc=caller(), code=code, remedy=remedy)


def check_dtype(dtype: str) -> None:
    if dtype not in get_args(DType):
        fail("DG226", f"there is no type '{dtype}'", f"one of: {', '.join(get_args(DType))}")


def check_location(location: str) -> None:
    if location not in get_args(Location):
        fail("DG216", f"there is no memory '{location}'", f"the memories are: {', '.join(get_args(Location))}")


def check_rank(what: str, rank: int, part: str, given: int, names: Sequence[object]) -> None:
    if rank != given:
        fail(
            "DG223",
            f"{what} has {rank} {part}{'s' * (rank != 1)}, but {given} subscript{'s' * (given != 1)} "
            f"{'are' if given != 1 else 'is'} given",
            f"give one subscript for each {part}",
        )


def conditions(domain: Domain, where: Term | Sequence[Term]) -> tuple[tuple[str, ...], tuple[Term, ...]]:
    """Names of the iterators, and what bounds them."""
    if not isinstance(domain, Mapping | tuple | list):
        fail("DG227", f"{domain!r} is no domain", "give the iterators with their bounds: {i: n, j: (low, high)}")
    bounds = domain.items() if isinstance(domain, Mapping) else [(one, None) for one in domain]
    names: list[str] = []
    conditions: list[Term] = []
    for one, bound in bounds:
        if not isinstance(one, Term) or one.op != "iter":
            fail("DG227", f"{one!r} is no iterator", "make iterators with iters()")
        if one.data in names:
            fail("DG224", f"'{one.data}' is twice among the iterators", "use another iterator")
        names.append(str(one.data))
        if bound is not None:
            conditions += bounds_of(one, bound)
    conditions += map(lift, where if isinstance(where, tuple | list) else [where])
    return tuple(names), tuple(conditions)


def bounds_of(one: Term, bound: Bounds) -> list[Term]:
    match bound:
        case (low, high):
            return [one >= low, one < high]
        case (low, high, step) if not isinstance(step, Term) and step > 0:
            return [one >= low, one < high, (one - low) % int(step) == 0]
        case Term() | Integral():
            return [one >= 0, one < bound]
        case _:
            fail("DG225", f"{bound!r} doesn't bound '{one.data}'", "give n, (low, high) or (low, high, step > 0)")


def action_of(action: object) -> Action:
    """What an effect does, with arrays by name; plain text is text of the target language."""
    match action:
        case str():
            return Verbatim(action)
        case Memcpy(to=to, source=source):
            return Memcpy(_name(to), _name(source))
        case Alloc(buf=buf) | Free(buf=buf):
            return type(action)(_name(buf))
        case Verbatim():
            return action
        case _:
            fail("DG226", f"{action!r} is nothing that a statement does", "use Memcpy, Alloc, Free or text")


def _name(buffer: object) -> str:
    return buffer if isinstance(buffer, str) else str(getattr(buffer, "name", buffer))
