"""Strongly connected components, against what reaches what."""

from __future__ import annotations

import random

from plant_core.support.components import ordered_components, strong_components


def _reached(names: list[str], edges: list[tuple[str, str]]) -> set[tuple[str, str]]:
    found = {(n, n) for n in names} | set(edges)
    for middle in names:
        found |= {(a, b) for a in names for b in names if (a, middle) in found and (middle, b) in found}
    return found


def test_components_are_what_reaches_each_other_in_an_order_that_keeps_all_edges() -> None:
    rng = random.Random(1)
    for _ in range(200):
        names = [f"S{k}" for k in range(rng.randint(1, 8))]
        edges = [(rng.choice(names), rng.choice(names)) for _ in range(rng.randint(0, 12))]
        reached = _reached(names, edges)
        wanted = {frozenset(b for b in names if (a, b) in reached and (b, a) in reached) for a in names}
        found = strong_components(names, edges)
        assert sorted(n for part in found for n in part) == names and {frozenset(p) for p in found} == wanted
        ordered = ordered_components(names, edges)
        place = {n: k for k, part in enumerate(ordered) for n in part}
        assert {frozenset(p) for p in ordered} == wanted and all(place[a] <= place[b] for a, b in edges)


def test_order_follows_the_text_where_edges_allow() -> None:
    assert ordered_components(("a", "b", "c", "d"), [("d", "b")]) == [("a",), ("c",), ("d",), ("b",)]
