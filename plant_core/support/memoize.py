"""Results remembered for arguments that are the very same objects, which spares comparing large immutable ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

_KEPT = 4096  # results of each function, before all are dropped
_FEW = 4  # of large ones

_dropped: list[Callable[[], None]] = []


def by_identity(function: Callable[_P, _R], kept: int = _KEPT) -> Callable[_P, _R]:
    """`function`, run once for the same objects. Requires: nothing but its arguments decides the result, and neither
    these nor that change. Arguments are kept with their results, so that no other object takes their place."""
    known: dict[tuple[int, ...], tuple[tuple[object, ...], _R]] = {}
    _dropped.append(known.clear)

    @wraps(function)
    def remembered(*args: _P.args, **named: _P.kwargs) -> _R:
        given = (*args, *(x for item in sorted(named.items()) for x in item)) if named else args
        key = tuple(map(id, given))
        found = known.get(key)
        if found is None:
            if len(known) >= kept:
                known.clear()
            found = known[key] = given, function(*args, **named)
        return found[1]

    return remembered


def few_by_identity(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The same for large results, of which only a few are kept."""
    return by_identity(function, _FEW)


def forget() -> None:
    """Drop all that is remembered: what a budget of operations on sets suffices for then doesn't depend on what was
    asked before."""
    for clear in _dropped:
        clear()
