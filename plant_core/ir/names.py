"""Make names that nothing else in a function has."""

from __future__ import annotations

from collections.abc import Iterable


def fresh(name: str, taken: Iterable[str]) -> str:
    """`name`, with a number after it where it is taken."""
    names = set(taken)
    number, found = 1, name
    while found in names:
        number += 1
        found = f"{name}{number}"
    return found
