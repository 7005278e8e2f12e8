"""Results remembered by identity."""

from __future__ import annotations

from plant_core.support.memoize import by_identity, forget


def test_runs_once_for_the_same_objects_and_anew_for_equal_ones() -> None:
    seen: list[object] = []

    @by_identity
    def tried(value: list[int], *, more: str = "") -> int:
        seen.append((value, more))
        return len(value)

    first, second = [1, 2], [1, 2]
    assert [tried(first), tried(first), tried(second), tried(first, more="x"), tried(first, more="x")] == [2] * 5
    assert seen == [(first, ""), (second, ""), (first, "x")]


def test_forgotten_results_are_made_anew() -> None:
    seen = []

    @by_identity
    def tried(value: str) -> str:
        seen.append(value)
        return value

    assert (tried("a"), tried("a"), seen) == ("a", "a", ["a"])
    forget()
    assert (tried("a"), seen) == ("a", ["a", "a"])
