"""The cheapest way through a function's nests, alone or as one block with neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

import pytest

from dspgen.offchip.nest_fusion import Group, cheapest


def ways(number: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """All ways to cut so many nests into parts."""
    for cuts in range(1 << (number - 1)):
        ends = [k + 1 for k in range(number - 1) if cuts >> k & 1] + [number]
        yield tuple(zip([0, *ends[:-1]], ends, strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_the_cheapest_way_is_found_asking_only_for_nests_that_it_may_have(seed: int) -> None:
    random = Random(seed)
    number = random.randint(1, 5)
    groups = [Group((), float(random.randint(1, 20)), set(), set()) for _ in range(number)]
    alone = [g.work + random.choice([0, 3, 10, math.inf]) for g in groups]
    together = {
        (b, e): sum(g.work for g in groups[b:e]) + random.randint(0, 8)
        for e in range(2, number + 1)
        for b in range(max(0, e - random.randint(1, number)), e - 1)
    }
    asked: list[int] = []

    def one(k: int) -> float:
        asked.append(k)
        return alone[k]

    def cost(way: tuple[tuple[int, int], ...]) -> float:
        return sum(alone[b] if e - b == 1 else together.get((b, e), math.inf) for b, e in way)

    found = cheapest(groups, lambda g: g.work, one, lambda b, e, g: together.get((b, e)))
    least = min(map(cost, ways(number)))
    assert len(asked) == len(set(asked))
    if found is None:
        assert least == math.inf
        return
    assert cost(found) == least
    assert {b for b, e in found if e - b == 1} <= set(asked)


def test_a_nest_that_cannot_gain_by_being_alone_is_not_looked_at() -> None:
    groups = [Group((), 10.0, set(), set()), Group((), 10.0, set(), set())]

    def never(k: int) -> float:
        raise AssertionError(k)

    assert cheapest(groups, lambda g: g.work + 5, never, lambda b, e, g: g.work + 1) == ((0, 2),)
