"""What extraction chooses from: the nodes of each class that the machine can do, with what they occupy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from dspgen.rewrite.cost.scalarization_cost import Implementation
from dspgen.rewrite.graph.enodes import EGraph, Node

CYCLE_WEIGHT = 100.0  # a cycle of the bound against one of total occupancy
INVARIANT_SCALE = 0.05
_NODE_COST = 0.01
_LATENCY_COST = 0.001
_SETS_KEPT = 64

Choices = dict[int, tuple["Choice", ...]]


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to make a class's value. `scale` 1, or less where the loop need not repeat it."""

    node: Node
    implementation: Implementation
    scale: float = 1.0
    cost: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        made = self.implementation
        object.__setattr__(self, "cost", self.scale * (made.total + _LATENCY_COST * made.latency + _NODE_COST))


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A carried variable's name, the class of its value in the next iteration."""

    name: str
    next: int


@dataclass(frozen=True, slots=True)
class Problem:
    """What to choose from. `base` is the occupancy of what is done in any case: the stores."""

    choices: Choices
    roots: tuple[int, ...]
    base: tuple[Implementation, ...]
    recurrences: tuple[Recurrence, ...]
    unit_sets: tuple[tuple[str, ...], ...]
    issue: int


def make_problem(
    egraph: EGraph,
    roots: Sequence[int],
    implement: Callable[[int, Node], Implementation | None],
    invariant: Mapping[int, Sequence[Node]],
    base: Sequence[Implementation],
    recurrences: Sequence[Recurrence],
    issue: int,
    places: Collection[int] = (),
) -> Problem:
    """Drop what the machine can't do, and what can't be completed.

    A class that has `invariant` nodes keeps those alone. `places` are indices of vectors: what is the same in all lanes
    is a scalar that is broadcast there, as selection takes it to be, if it can be. Roots without choices stay without.
    """
    choices: dict[int, list[Choice]] = {}
    for number in _reachable(egraph, roots):
        nodes = [n for n in egraph.classes[number] if number not in n.args]
        still = [n for n in invariant.get(number, ()) if number not in n.args]
        scale = INVARIANT_SCALE if still else 1.0
        found = [Choice(n, m, scale) for n in still or nodes if (m := implement(number, n)) is not None]
        choices[number] = found
        if still and not found:
            choices[number] = [Choice(n, m) for n in nodes if (m := implement(number, n)) is not None]
    _drop_incomplete(choices)
    choices = _broadcast(choices, places)
    kept = {c: tuple(v) for c, v in choices.items()}
    sets = unit_sets([*base, *(c.implementation for v in kept.values() for c in v)])
    return Problem(kept, tuple(roots), tuple(base), tuple(recurrences), sets, issue)


def _broadcast(choices: dict[int, list[Choice]], places: Collection[int]) -> dict[int, list[Choice]]:
    """The choices with broadcasts only for `places` that have any, where all can still be completed so."""
    found = {n: [c for c in choices[n] if c.node.op == "bcast"] for n in places if n in choices}
    spread = {n: kept for n, kept in found.items() if kept}
    narrowed = choices | spread
    _drop_incomplete(narrowed)
    complete = all(narrowed[n] or not choices[n] for n in choices)
    return narrowed if complete else choices


def _reachable(egraph: EGraph, roots: Sequence[int]) -> list[int]:
    seen = dict.fromkeys(roots)
    stack = list(roots)
    while stack:
        for node in egraph.classes[stack.pop()]:
            for arg in node.args:
                if arg not in seen:
                    seen[arg] = None
                    stack.append(arg)
    return sorted(seen)


def _drop_incomplete(choices: dict[int, list[Choice]]) -> None:
    """Keep only nodes from which a finite term can be built."""
    buildable: set[int] = set()
    waiting = dict(choices)
    while waiting:
        before = len(waiting)
        for number, found in choices.items():
            if number in waiting and any(buildable.issuperset(c.node.args) for c in found):
                buildable.add(number)
                del waiting[number]
        if len(waiting) == before:
            break
    for number, found in choices.items():
        if not all(buildable.issuperset(c.node.args) for c in found):
            choices[number] = [c for c in found if buildable.issuperset(c.node.args)]


def unit_sets(implementations: Sequence[Implementation]) -> tuple[tuple[str, ...], ...]:
    """The sets of alternatives, and unions of those that overlap: enough for the exact bound."""
    sets = dict.fromkeys(frozenset(units) for i in implementations for units, _ in i.occupancy)
    queue = list(sets)
    while queue and len(sets) < _SETS_KEPT:
        a = queue.pop(0)
        for b in list(sets):
            union = a | b
            if a & b and union not in sets:
                sets[union] = None
                queue.append(union)
    return tuple(sorted(tuple(sorted(s)) for s in sets))


def topological(chosen: Mapping[int, Choice], roots: Sequence[int]) -> list[int]:
    """Classes that `roots` need, operands first. Raises KeyError for an incomplete choice."""
    order: list[int] = []
    done: set[int] = set()
    open_: set[int] = set()  # whose operands come first
    for root in roots:
        stack = [root]
        while stack:
            number = stack[-1]
            if number in done:
                stack.pop()
            elif number in open_:
                done.add(number)
                order.append(number)
                stack.pop()
            else:
                open_.add(number)
                for arg in reversed(chosen[number].node.args):
                    if arg not in open_:
                        stack.append(arg)
                    elif arg not in done:
                        raise CyclicChoice(arg)
    return order


class CyclicChoice(Exception):
    """A choice of nodes that is no term."""


def restrict(pick: Mapping[int, Choice], roots: Sequence[int]) -> dict[int, Choice]:
    """The part of a choice that the roots need, operands first."""
    return {number: pick[number] for number in topological(pick, roots)}


def apart_from_variables(problem: Problem) -> set[int]:
    """The classes no choice of which leads to a carried variable."""
    names = {r.name for r in problem.recurrences}
    users: dict[int, list[int]] = {}
    reached = []
    for number, found in problem.choices.items():
        for choice in found:
            for arg in choice.node.args:
                users.setdefault(arg, []).append(number)
        if any(c.node.kind == "var" and c.node.text in names for c in found):
            reached.append(number)
    seen = set(reached)
    while reached:
        fresh = [n for n in users.get(reached.pop(), ()) if n not in seen]
        seen.update(fresh)
        reached += fresh
    return problem.choices.keys() - seen
