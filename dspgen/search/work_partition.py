"""How a function's nests are dealt to searches that run beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

from dspgen.search.candidate_search import pattern_of
from dspgen.tiling.candidates import Candidate
from plant_core.support.fork_join import beside

_T = TypeVar("_T")


def neighbours(nests: int, most: int) -> list[range]:
    """So many nests in so many parts, as they follow each other."""
    return [range(k * nests // most, (k + 1) * nests // most) for k in range(most)]


def alike(finalists: Sequence[Sequence[Candidate]], most: int) -> list[list[int]]:
    """Nests by their candidates in up to so many parts: those whose candidates are alike in one, as what is known of
    one saves trials of the others. Parts, and the nests of each, are in the order of the text, as the first refusal is
    told."""
    groups: dict[frozenset[object], list[int]] = {}
    for k, candidates in enumerate(finalists):
        groups.setdefault(frozenset(map(pattern_of, candidates)), []).append(k)
    work = [sum(c.size for c in candidates) for candidates in finalists]

    def load(part: Sequence[int]) -> int:
        return sum(work[k] for k in part)

    parts: list[list[int]] = [[] for _ in range(most)]
    for group in sorted(groups.values(), key=load, reverse=True):
        min(parts, key=load).extend(group)
    return sorted(sorted(part) for part in parts if part)


def in_parts(work: Callable[[Sequence[int]], list[_T]], parts: Sequence[Sequence[int]]) -> list[_T]:
    """What `work` finds of each nest, told the numbers of one part's; in the order of the numbers."""
    found = chain(*beside([partial(work, part) for part in parts]))
    return [each for _, each in sorted(zip(chain(*parts), found, strict=True), key=lambda pair: pair[0])]
