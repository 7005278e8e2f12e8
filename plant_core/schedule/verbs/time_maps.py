"""What the verbs share: which statements, how time changes, fresh names and fresh positions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import islpy as isl

from plant_core.ir.accesses import is_integer
from plant_core.ir.func import Comp, Effect, Func, ScalarParam
from plant_core.ir.names import fresh
from plant_core.ir.scheduled import Nest, Scheduled
from plant_core.schedule.memory_conflicts import IN, OUT, PARAM, facts_of, lifted_domain, statements_of
from plant_core.support.location import PlantError

SET = isl.dim_type.set
Names = str | Sequence[str]
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def bad(statement: Comp | Effect | None, message: str, remedy: str) -> PlantError:
    return PlantError(message, loc=statement.loc if statement else None, code="DG215", remedy=remedy)


def statement_of(scheduled: Scheduled, name: str) -> Comp | Effect:
    scheduled.nest(name)
    return statements_of(scheduled.func)[name]


def chosen(scheduled: Scheduled, name: Names) -> tuple[Nest, ...]:
    """The nests of one statement, or of several that change together."""
    names = words((name,) if isinstance(name, str) else name, "statements")
    if not names or len(set(names)) != len(names):
        raise bad(None, "a verb needs at least one statement, and each once", "name the statements to change")
    return tuple(scheduled.nest(n) for n in names)


def words(given: object, what: str) -> tuple[str, ...]:
    """Names of loops or statements: several strings."""
    if isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(n, str) for n in given):
        return tuple(given)
    raise bad(None, f"{given!r} doesn't name {what}", f"give the names of {what} as strings")


def integer_parameters(func: Func) -> tuple[str, ...]:
    return tuple(p.name for p in func.params if isinstance(p, ScalarParam) and is_integer(p.dtype))


def positive(value: object, what: str) -> int:
    """A factor; a bool is no number here."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise bad(None, f"{what} is {value!r}, not a whole number from 1 on", "give a factor of at least 1")


def whole(value: object, what: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise bad(None, f"{what} is {value!r}, not a whole number", "give a whole number")


# --- names --------------------------------------------------------------------------------------------------------


def new_name(func: Func, nest: Nest, given: str | None, default: str, taken: Iterable[str]) -> str:
    """The name the user gives a loop, which must be free, or a fresh one like `default`."""
    names, params = set(taken), {p.name for p in func.params}
    if given is None:
        return fresh(default, names | params)
    if not isinstance(given, str) or not _IDENTIFIER.fullmatch(given):
        raise bad(None, f"{given!r} can't name a loop", "a name is letters, digits and _, the first not a digit")
    if given in names:
        raise bad(None, f"{nest.name} has a loop '{given}' already", "choose another name for the new loop")
    if given in params:
        raise bad(None, f"'{given}' is a parameter of {func.name}", "choose another name for the new loop")
    return given


# --- time ---------------------------------------------------------------------------------------------------------


def dims(count: int) -> list[str]:
    return [f"d{k}" for k in range(count)]


def time_map(before: Sequence[str], after: Sequence[str], *, where: str = "") -> isl.Map:
    return isl.Map(f"{{ [{', '.join(before)}] -> [{', '.join(after)}]{' : ' + where if where else ''} }}")


def moved(nest: Nest, change: isl.Map, loops: Sequence[str], **marks: object) -> Nest:
    """The nest with `change` applied to its times."""
    relation = nest.relation.apply_range(change).coalesce()
    return replace(nest, relation=relation, loops=tuple(loops), **marks)  # type: ignore[arg-type]


def times_of(scheduled: Scheduled, nest: Nest) -> isl.Set:
    """Every time at which the statement runs."""
    relation = nest.relation.set_tuple_name(IN, nest.name)
    return relation.intersect_domain(lifted_domain(scheduled.func, statement_of(scheduled, nest.name), ())).range()


def together(scheduled: Scheduled, nests: Sequence[Nest], depth: int) -> isl.Set:
    """The times of several nests, down to and with the loop at `depth`."""
    found = [times_of(scheduled, nest) for nest in nests]
    found = [t.project_out(SET, 2 * depth + 2, t.dim(SET) - 2 * depth - 2) for t in found]
    return reduce(isl.Set.union, found).coalesce()


def bounds(times: isl.Set) -> tuple[isl.Map, isl.Map]:
    """The least and the greatest value of the last dimension, as maps from the dimensions before it."""
    count = times.dim(SET) - 1
    loop = isl.Map.from_range(times).move_dims(IN, 0, OUT, 0, count)
    return loop.lexmin(), loop.lexmax()


def same_depth(nests: Sequence[Nest], loop: str) -> int:
    """Where the loop is, in all of the nests."""
    depths = {nest.depth(loop) for nest in nests}
    if len(depths) > 1:
        names = " and ".join(nest.name for nest in nests)
        raise bad(None, f"'{loop}' is at different depths in {names}", "transform the statements one by one")
    return depths.pop()


# --- positions ----------------------------------------------------------------------------------------------------


def positions(scheduled: Scheduled, nest: Nest, dim: int) -> list[int]:
    """The values of one position of a nest, in order."""
    times = times_of(scheduled, nest)
    values = times.project_out(SET, dim + 1, times.dim(SET) - dim - 1).project_out(SET, 0, dim)
    values = values.project_out(PARAM, 0, values.dim(PARAM))
    found: list[int] = []
    values.foreach_point(lambda p: found.append(p.get_coordinate_val(SET, 0).to_python()))
    return sorted(found)


def make_room(scheduled: Scheduled, like: Sequence[Nest], dim: int, after: Sequence[int]) -> Scheduled:
    """One free position after each of `after` in dimension `dim`, for all that share the loops around it
    with one of `like`.

    Position p moves to `opened(p, after)`. The order of everything stays the same.
    """
    facts = facts_of(scheduled)
    depth = dim // 2 - 1
    for nest in scheduled.nests:
        if len(nest.loops) <= depth:
            continue
        if depth >= 0 and all(facts.places(nest, depth).is_disjoint(facts.places(n, depth)) for n in like):
            continue
        here = positions(scheduled, nest, dim)
        if any(opened(p, after) != p for p in here):
            scheduled = scheduled.with_nest(relabelled(nest, dim, {p: opened(p, after) for p in here}))
    return scheduled


def opened(position: int, after: Sequence[int]) -> int:
    return position + sum(p < position for p in after)


def relabelled(nest: Nest, dim: int, new: Mapping[int, int]) -> Nest:
    before = dims(nest.relation.dim(OUT))
    change: isl.Map | None = None
    for old, value in new.items():
        piece = time_map(before, [str(value) if k == dim else d for k, d in enumerate(before)], where=f"d{dim} = {old}")
        change = piece if change is None else change.union(piece)
    return nest if change is None else moved(nest, change, nest.loops)


# --- marks --------------------------------------------------------------------------------------------------------


_INNER = ("vectorize", "unroll", "unroll_explicit")
Marks = tuple[tuple[str, str], ...]


def renamed_marks(nest: Nest, rename: Callable[[str, str], str | None]) -> dict[str, Marks]:
    """Tags and options with the loop of each as `rename(loop, mark)` says."""
    found: dict[str, Marks] = {}
    for kind, marks in (("tags", nest.tags), ("options", nest.options)):
        kept = []
        for loop, mark in marks:
            new = rename(loop, mark)
            if new is None:
                raise bad(
                    None,
                    f"the loop '{loop}' of {nest.name} is marked '{mark}', and this verb does away with the loop",
                    "take the mark off (None in its place), and mark a loop of the result",
                )
            kept.append((new, mark))
        found[kind] = tuple(kept)
    return found


def split_marks(nest: Nest, loop: str, outer: str, inner: str) -> dict[str, Marks]:
    """What is for single iterations goes to the inner loop, everything else to the outer one."""
    return renamed_marks(nest, lambda name, mark: name if name != loop else inner if mark in _INNER else outer)
