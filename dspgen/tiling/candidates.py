"""Candidate plans for one nest: arrangement, lane loop, loop order and register tile, ranked by a resource model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from dspgen.target.isa.model import Target
from dspgen.tiling.cost.unit_pressure import Machine
from dspgen.tiling.double_unroll import with_doubled
from dspgen.tiling.loops.lane_loops import LegalLanes, lane_choices
from dspgen.tiling.loops.loop_arrangements import Arrangement
from dspgen.tiling.loops.loop_nests import Nest
from dspgen.tiling.register_tiles import SMALL_POINTS, Memo, Plans, Tile, Unrolled, tiles
from dspgen.tiling.subword_lanes import in_turns
from plant_core.analysis.dependence import Dependence
from plant_core.ir.func import Func
from plant_core.tile_plan.plan import CompPlan

_WITHOUT_REDUCTION = 3
# What is refused is tried with so many times fewer vectors, down to so many.
_SMALLER = 4
_FEW_POINTS = 8
_FALLBACKS = 3
# A row is long from so many times the span of a tile on.
_LONG_ROW = 4
# What loops that are exchanged must take of the cycles of those as written.
_TURNED = 0.95
# Choices of lanes whose dependences are checked before their tiles are ranked.
_PROBES = 16


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan for the comps of one nest, the model's cycles for it, and the vectors (or scalars) of its tile."""

    plans: Plans
    cycles: float
    title: str
    family: str = ""
    points: int = 1
    size: int = 1  # vectors (or scalars) of the tiles of all shapes and comps: about what must be scheduled
    unrolled: Unrolled = "shared"
    turned: bool = False
    whole: bool = False  # one tile of each comp covers all its iterations
    fixed: bool = True  # rows have the same constant length
    sure: bool = True  # takes no more iterations of a loop of unknown size at once than a vector has
    form: Func | None = field(default=None, compare=False)  # the nest in strips, which the plans are of
    room: int = field(default=1, compare=False)  # how many times the code and the search of others it may take
    # To be tried where this one is refused: fewer vectors, the reductions unrolled in the same way.
    instead: Candidate | None = field(default=None, compare=False, repr=False)
    # To be tried where this one is the best, and better by far than that of which it is the double.
    doubled: Candidate | None = field(default=None, compare=False, repr=False)

    @property
    def code(self) -> tuple[object, ...]:
        """Equal for candidates that end in the same code: loops that are no longer there have no order."""
        return tuple((name, plan.shapes) for name, plan in self.plans) if self.whole else self.plans

    @property
    def laned(self) -> tuple[str, ...]:
        """The comps that lie across lanes."""
        return tuple(name for name, plan in self.plans if any(x.lane for shape in plan.shapes for _, x in shape))

    @property
    def large(self) -> bool:
        """Slow to schedule."""
        return self.points > SMALL_POINTS

    @property
    def rank(self) -> tuple[bool, float, int, str]:
        return (self.large, self.cycles, self.points, self.title)


def candidates(
    arrangements: Sequence[Arrangement],
    target: Target,
    machine: Machine,
    most: int,
    known: Sequence[Dependence] = (),
    *,
    scalars: Collection[str] = (),
    kept: Callable[[Plans], bool] = lambda plans: True,
    single: bool = False,
    vectorize: bool = True,
    every: bool = False,
) -> list[Candidate]:
    """At most `most` plans: the best tile of each choice of lanes, then further small tiles, the model's best first,
    then large ones; besides, for what registers forbid, a few that don't unroll loops which several comps share, a few
    that unroll none, and the smallest of the best choice of lanes.

    `known` are the nest's dependences; loops that they keep from the lanes are not tried there, and none of the comps
    `scalars`. `kept` tells whether plans keep all dependences. `single`: one vector of each statement at a time, no
    register tiles. Not `vectorize`: none with lanes. `every`: all that there are, the model's best first.
    """
    groups: list[list[Tile]] = []
    for arrangement in arrangements:
        dependences = LegalLanes(arrangement.nest, known, target.lanes, scalars)
        legal, heavy = dependences.under(arrangement), arrangement.nest.heaviest
        apart = (x.id for x in heavy.loops if not dependences.at_once(heavy, x.iterator, arrangement))
        memo = Memo(frozenset(apart))
        for lanes in in_turns(arrangement.nest, lane_choices(arrangement.nest, target.lanes, legal), machine, legal):
            if (lanes and vectorize) or not (lanes or arrangement.moved):
                here = tiles(arrangement, lanes, target, machine, single, memo)
                groups += [here] if here else []
    groups.sort(key=lambda here: here[0].rank)
    made = _Makes()
    if every:
        found = [made(t) for here in _legal(groups, kept, len(groups)) for t in here]
        return sorted(_unique(found), key=lambda c: c.rank[1:])
    groups = _legal(_worth_turning(groups), kept, _PROBES)
    if not all(c.box for c in arrangements[0].nest.comps) and not (groups and groups[0][0].fixed):
        return _ragged(groups, made, most, arrangements[0].nest)
    found = [made(t) for here in groups for t in _diverse(here)]
    best = [made(here[0]) for here in groups]
    chosen = best[: most // 2]
    chosen = _unique([*chosen, *[c for c in _unique(found) if c not in chosen][: most - len(chosen)]])
    chosen += [made(_smallest(here)) for here in groups[:1]]
    chosen += [c for c in best if not c.laned][:1]
    for unrolled in ("own", "none"):
        plain = (next((t for t in here if t.unrolled in (unrolled, "none")), None) for here in groups)
        chosen += _unique([made(t) for t in plain if t is not None])[:_FALLBACKS]
    homes = {id(made(t)): here for here in groups for t in here if t in made}
    unknown = any(not x.known for c in arrangements[0].nest.comps for x in c.loops)

    def with_others(candidate: Candidate) -> Candidate:
        here = homes[id(candidate)]
        first = _with_smaller(candidate, here, made) if candidate.family or unknown else candidate
        return with_doubled(first, lambda points: (made(t) for t in here if t.points == points))

    return [with_others(c) for c in sorted(_unique(chosen), key=lambda c: c.rank)]


@dataclass(slots=True)
class _Makes:
    """The candidates that tiles become, made once."""

    found: dict[int, tuple[Tile, Candidate]] = field(default_factory=dict)

    def __contains__(self, tile: Tile) -> bool:
        return id(tile) in self.found

    def __call__(self, tile: Tile) -> Candidate:
        if tile not in self:
            made = Candidate(
                tile.plans,
                tile.cycles,
                tile.title,
                tile.family,
                tile.points,
                tile.size,
                tile.unrolled,
                tile.turned,
                tile.whole,
                tile.fixed,
                tile.sure,
            )
            self.found[id(tile)] = tile, made
        return self.found[id(tile)][1]


def _smallest(here: Sequence[Tile]) -> Tile:
    """The best of those of the fewest vectors."""
    return min(here, key=lambda t: t.points)


def _ragged(groups: list[list[Tile]], made: _Makes, most: int, nest: Nest) -> list[Candidate]:
    """Where rows differ in length, tiles of one row come first, of the best choice of lanes the smallest and the best,
    since large ones may fill but few rows and make much code; of the others the best where rows are long, else the
    smallest; between these the best of all; then the rest, and larger ones of the best choices."""
    small = [made(_smallest(here)) for here in groups]
    wider = [made(next((t for t in here if t.unrolled == "none"), here[0])) for here in groups]
    likely = [w if _in_long_rows(w, nest) else s for s, w in zip(small, wider, strict=True)]
    half = most // 2
    best = [made(here[0]) for here in groups]
    settled = all(c.settled for c in nest.comps)
    moderate = (t for here in groups[:half] for t in here if not t.large and t.sure)
    sure = [made(t) for t in itertools.islice(moderate, 2 * settled)]
    first = [*sure, *small[:1], *wider[:1], *likely[1:3], *best[:1], *likely[3:half], *small[1:half], *wider[1:half]]
    return list(dict.fromkeys([*first, *best[:half]]))[:most]


def _in_long_rows(candidate: Candidate, nest: Nest) -> bool:
    """Whether the vectors of a tile cover but a small part of each row."""
    comps = {c.comp.name: c for c in nest.comps}
    lanes = [
        (comps[name].loop(i), x.span) for name, plan in candidate.plans for s in plan.shapes for i, x in s if x.lane
    ]
    return all(loop.known and loop.extent >= _LONG_ROW * span for loop, span in lanes)


def _legal(groups: list[list[Tile]], kept: Callable[[Plans], bool], probes: int) -> list[list[Tile]]:
    """The groups whose smallest tile keeps all dependences, of the first ones."""
    return [here for here in groups[:probes] if kept(_smallest(here).plans)]


def _worth_turning(groups: list[list[Tile]]) -> list[list[Tile]]:
    """Without loops that are exchanged for no more than the model can tell."""
    written = min((here[0].cycles for here in groups if not here[0].turned), default=math.inf)
    return [here for here in groups if not here[0].turned or here[0].cycles < _TURNED * written]


def _unique(found: Sequence[Candidate]) -> list[Candidate]:
    unique: dict[tuple[tuple[str, CompPlan], ...], Candidate] = {}
    for candidate in sorted(found, key=lambda c: c.rank[1:]):
        unique.setdefault(candidate.plans, candidate)
    return list(unique.values())


def _diverse(ranked: list[Tile]) -> list[Tile]:
    """The best of each way to unroll the reductions, since the model is weakest where it compares these; a few of the
    best where there are none."""
    taken: dict[tuple[str, bool], int] = {}
    kept = []
    for tile in ranked:
        key = (tile.family, tile.large)
        taken[key] = taken.get(key, 0) + 1
        if taken[key] <= (1 if tile.family else _WITHOUT_REDUCTION):
            kept.append(tile)
    return kept


def _with_smaller(candidate: Candidate, ranked: list[Tile], made: _Makes) -> Candidate:
    """The candidate, with the best one of far fewer vectors in its place."""
    most = max(candidate.points // _SMALLER, _FEW_POINTS)
    found = (c for c in ranked if c.family == candidate.family and c.points <= most and c.points < candidate.points)
    smaller = next(found, None)
    return candidate if smaller is None else replace(candidate, instead=_with_smaller(made(smaller), ranked, made))


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one candidate: its scheduled cycles, or why it was refused."""

    title: str
    estimate: float
    cycles: float | None
    refused: str = ""
    laned: tuple[str, ...] = ()  # the comps that it puts across lanes
    large: float = 0.0  # refused for its size, so many times what it may be; 0: it was not
    least: float | None = None  # what it takes, as far as it was looked at, where that was too much
    tried: bool = True  # whether it was compiled at all


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen for the nest of `comps`, and every candidate's fate. `modest`: the smallest candidate with lanes
    whose code was not refused, where other nests leave few registers; `light`: the smallest about as good as the best
    one; `volume`: the iterations of the nest's heaviest statement, as far as sizes are known."""

    comps: tuple[str, ...]
    candidate: Candidate
    trials: tuple[Trial, ...]
    modest: Candidate | None = None
    light: Candidate | None = None
    volume: int = 1

    @property
    def cycles(self) -> float:
        """Those of the best that was scheduled."""
        return min((t.cycles for t in self.trials if t.cycles is not None), default=0.0)
