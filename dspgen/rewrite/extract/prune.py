"""Choices that no best extraction needs, dropped before the search; and what every extraction must spend.

A choice is dominated where another of its class does with less, and needs only classes that are below the first one
in any case: `add(c, mul(a, b))` by `mac(c, a, b)`, where the multiplier does both. What is dropped leaves others
without users, so that this repeats until nothing changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dspgen.rewrite.cost.scalarization_cost import Implementation
from dspgen.rewrite.extract.problem import Choice, Choices, Problem, apart_from_variables, unit_sets
from dspgen.rewrite.extract.score import cycle_mean

_ROUNDS = 8
_NONE = -(1 << 20)


def prune(problem: Problem, *, latency: bool) -> Problem:
    """Only undominated choices of the classes that the roots may need. `latency`: what is slower does not dominate.

    Ensures: some best extraction is left, by pressure on units and occupied cycles (and recurrences, with `latency`).
    """
    choices = _reached(problem.choices, problem.roots)
    for _ in range(_ROUNDS):
        below = _below(choices)
        kept = {
            n: tuple(_undominated(1 << i, c, below, latency)) if len(c) > 1 else c
            for i, (n, c) in enumerate(choices.items())
        }
        if all(len(kept[n]) == len(c) for n, c in choices.items()):
            break
        choices = _reached(kept, problem.roots)
    used = [c.implementation for found in choices.values() for c in found]
    return replace(problem, choices=choices, unit_sets=unit_sets([*problem.base, *used]))


def least(problem: Problem) -> tuple[float, float]:
    """Bounds from below of an extraction: of cycles by units, and of cycles occupied in all.

    From the classes that every extraction chooses, each at its cheapest, unit set by unit set.
    """
    below = _below(problem.choices)
    mask = 0
    for root in problem.roots:
        mask |= below[root]
    numbers = list(problem.choices)
    forced = [problem.choices[n] for i, n in enumerate(numbers) if mask >> i & 1]
    total = sum(min(c.cost for c in found) for found in forced)
    held = Counter(frozenset(c.implementation.occupancy if c.scale == 1.0 else () for c in found) for found in forced)
    held.update(frozenset((i.occupancy,)) for i in problem.base)
    bound = 0.0
    for units in problem.unit_sets:
        inside = frozenset(units)
        load = sum(count * min(_load(o, inside) for o in ways) for ways, count in held.items())
        bound = max(bound, load / len(units))
    operations = sum(count * min(sum(n for _, n in o) for o in ways) for ways, count in held.items())
    return max(bound, operations / problem.issue), total


def least_recurrence(problem: Problem) -> float:
    """A bound from below of the recurrences: each path at its shortest."""
    paths: dict[tuple[int, int], int] = {}
    apart = apart_from_variables(problem)
    affected = {number: found for number, found in problem.choices.items() if number not in apart}
    for source, recurrence in enumerate(problem.recurrences):
        depth = _shortest(affected, recurrence.name, dict.fromkeys(apart, _NONE))
        for sink, other in enumerate(problem.recurrences):
            if depth.get(other.next, _NONE) >= 0:
                paths[source, sink] = depth[other.next]
    return cycle_mean(len(problem.recurrences), paths)


def _shortest(choices: Choices, name: str, depth: dict[int, int]) -> dict[int, int]:
    """The least latency from a variable to each class; below 0 where a choice does without the variable. `depth`: as
    far as it is known."""
    changed = True
    while changed:
        changed = False
        for number, found in choices.items():
            least = depth.get(number)
            for choice in found:
                node = choice.node
                now = 0 if node.kind == "var" and node.text == name else _NONE
                for arg in node.args:
                    if arg not in depth:
                        break
                    now = max(now, depth[arg] + choice.implementation.latency)
                else:
                    if least is None or now < least:
                        least = depth[number] = max(now, _NONE)
                        changed = True
    return depth


def _load(occupancy: Iterable[tuple[tuple[str, ...], int]], inside: frozenset[str]) -> int:
    return sum(n for units, n in occupancy if inside.issuperset(units))


def _reached(choices: Choices, roots: Sequence[int]) -> Choices:
    """The classes that the roots may need, operands first as far as there are no cycles."""
    done: dict[int, tuple[Choice, ...]] = {}
    seen: set[int] = set()
    for root in roots:
        stack = [(root, False)]
        while stack:
            number, closed = stack.pop()
            if closed:
                done[number] = choices[number]
            elif number not in seen:
                seen.add(number)
                stack.append((number, True))
                stack += [(a, False) for c in choices[number] for a in c.node.args if a not in seen]
    return done


def _below(choices: Choices) -> dict[int, int]:
    """For each class, itself and the classes that every term of it contains, as bits in the order of `choices`.

    The greatest solution of: what all choices have in common, each having what its operands have.
    """
    own = {n: 1 << i for i, n in enumerate(choices)}
    every = (1 << len(choices)) - 1
    below = dict.fromkeys(choices, every)
    changed = True
    while changed:
        changed = False
        for number, found in choices.items():
            now = every if found else 0
            for choice in found:
                needed = 0
                for arg in choice.node.args:
                    needed |= below[arg]
                now &= needed
            now |= own[number]
            if now != below[number]:
                below[number] = now
                changed = True
    return below


def _undominated(own: int, found: tuple[Choice, ...], below: dict[int, int], latency: bool) -> list[Choice]:
    """`own`: the class's bit. A choice that contains its own class in any case makes no term."""
    needs = []
    for choice in found:
        needed = 0
        for arg in choice.node.args:
            needed |= below[arg]
        needs.append(needed)
    kept = [i for i, n in enumerate(needs) if not n & own]
    for index in reversed(kept[:]):
        choice = found[index]
        if any(
            other != index and _dominates(found[other], choice, needs[other], needs[index], latency) for other in kept
        ):
            kept.remove(index)
    return [found[i] for i in kept]


def _dominates(better: Choice, worse: Choice, less: int, more: int, latency: bool) -> bool:
    """`less` and `more`: what stands below each. Operands below the worse choice don't need its class themselves."""
    if less & ~more or better.scale > worse.scale:
        return False
    a, b = better.implementation, worse.implementation
    if a.serial > b.serial or latency and a.latency > b.latency:
        return False
    if better.scale * a.total > worse.scale * b.total:
        return False
    return better.scale < 1.0 or _fits_in(a, b)


def _fits_in(a: Implementation, b: Implementation) -> bool:
    """Whether each hold of `a` can take the place of one of `b`."""
    free = list(b.occupancy)
    for units, cycles in a.occupancy:
        match = next((f for f in free if cycles <= f[1] and set(f[0]) <= set(units)), None)
        if match is None:
            return False
        free.remove(match)
    return True
