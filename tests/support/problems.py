"""Small problems of extraction."""

from __future__ import annotations

import random

from dspgen.rewrite.cost.scalarization_cost import FREE, Implementation
from dspgen.rewrite.extract.problem import Choice, Choices, Problem, Recurrence, unit_sets
from dspgen.rewrite.graph.enodes import Node

BOTH = ("U1", "U2")


def variable(name: str) -> tuple[Choice, ...]:
    return (Choice(Node("var", "var", "f32", False, text=name), FREE),)


def operation(op: str, *args: int, units: tuple[str, ...] = BOTH, cycles: int = 1, latency: int = 1) -> Choice:
    return Choice(Node("op", op, "f32", False, args), Implementation(((units, cycles),), latency))


def problem_of(choices: Choices, roots: tuple[int, ...], recurrences: tuple[Recurrence, ...] = ()) -> Problem:
    sets = unit_sets([c.implementation for found in choices.values() for c in found])
    return Problem(choices, roots, (), recurrences, sets, 4)


def random_problem(rng: random.Random, classes: int = 8) -> Problem:
    """Classes that may contain each other; each has a choice of lesser classes alone."""
    choices: Choices = {0: variable("a"), 1: variable("b")}
    units = [("U1",), ("U2",), BOTH, ("U3",)]
    for number in range(2, classes):
        found = [[rng.randrange(number) for _ in range(rng.randrange(1, 3))]]
        found += [[rng.randrange(classes) for _ in range(rng.randrange(1, 3))] for _ in range(rng.randrange(3))]
        choices[number] = tuple(
            operation(f"f{k}", *args, units=rng.choice(units), cycles=rng.randrange(1, 4))
            for k, args in enumerate(found)
            if number not in args
        )
    return problem_of(choices, (classes - 1, rng.randrange(2, classes - 1)))
