"""Register tiles bred from the best: a genetic search over the candidates that the model knows.

A candidate is its kind (lanes, loop order, arrangement) and the spans of its loops. A child has the kind of one parent,
and each span of one of two parents or one step off it. Draws come from a generator with a fixed seed, so that the same
nest gives the same tiles.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from dspgen.tiling.candidates import Candidate

_PARENTS = 6
_GENERATIONS = 6
_MUTATED = 0.4  # of the spans, one in so many goes a step up or down
_TOURNAMENT = 3
_DRAWS = 8  # for a child that is not known yet

Genes = tuple[int, ...]


def evolve(candidates: Sequence[Candidate], fitness: Callable[[Candidate], float]) -> None:
    """Ask for the `fitness` (cycles) of the model's best of each kind, of some at random where these are few, and then
    of children of those that took the fewest; some forty in all."""
    draw = random.Random(0)
    kinds: dict[str, dict[Genes, Candidate]] = {}
    for candidate in candidates:
        kind, genes = _described(candidate)
        kinds.setdefault(kind, {}).setdefault(genes, candidate)
    first = sorted((min(k.values(), key=lambda c: c.rank) for k in kinds.values()), key=lambda c: c.rank)
    others = [c for c in candidates if c not in first]
    first += draw.sample(others, min(len(others), max(_PARENTS - len(first), 0)))
    known: dict[tuple[str, Genes], float] = {}
    for candidate in first[:_PARENTS]:
        known[_described(candidate)] = fitness(candidate)
    for _ in range(_GENERATIONS):
        best = sorted(known, key=lambda k: (known[k], k))[:_PARENTS]
        for _ in range(_PARENTS):
            child = _child(best, kinds, known, draw)
            if child is None:
                return
            known[child] = fitness(kinds[child[0]][child[1]])


def _child(
    best: Sequence[tuple[str, Genes]],
    kinds: dict[str, dict[Genes, Candidate]],
    known: dict[tuple[str, Genes], float],
    draw: random.Random,
) -> tuple[str, Genes] | None:
    """A candidate that is not known, as near to what two parents make as there is; None where none is left."""
    for _ in range(_DRAWS):
        kind, mine = min(draw.sample(best, min(_TOURNAMENT, len(best))), key=lambda k: known[k])
        others = [genes for other, genes in best if other == kind]
        theirs = draw.choice(others)
        wanted = [draw.choice(pair) for pair in zip(mine, theirs, strict=True)]
        for k in range(len(wanted)):
            if draw.random() < _MUTATED:
                steps = sorted({genes[k] for genes in kinds[kind]})
                at = steps.index(wanted[k]) + draw.choice((-1, 1))
                wanted[k] = steps[max(0, min(at, len(steps) - 1))]
        free = [genes for genes in kinds[kind] if (kind, genes) not in known]
        if free:
            return kind, min(free, key=lambda genes: (_distance(genes, wanted), kinds[kind][genes].rank))
    left = [(kind, genes) for kind, all_of in kinds.items() for genes in all_of if (kind, genes) not in known]
    return min(left, key=lambda k: kinds[k[0]][k[1]].rank) if left else None


def _distance(genes: Genes, wanted: Sequence[int]) -> int:
    return sum(a != b for a, b in zip(genes, wanted, strict=True))


def _described(candidate: Candidate) -> tuple[str, Genes]:
    """The title without its spans, and these."""
    return re.sub(r":\d+", ":", candidate.title), tuple(int(n) for n in re.findall(r":(\d+)", candidate.title))
