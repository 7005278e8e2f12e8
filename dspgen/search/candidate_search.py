"""Choosing each nest's plan: the model's finalists are compiled and scheduled, and the fewest cycles win.

`evaluate` is handed in by the caller: it runs vectorizer and scheduler on one candidate and returns its cycles, or
raises Slower if its code, not yet scheduled, can't take, or isn't expected to take, fewer than a given number.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from dspgen.errors import NoSchedule, TooHard, TooLarge
from dspgen.search.code_budget import CodeBudget
from dspgen.search.genetic import evolve
from dspgen.tiling.candidates import Candidate, Choice, Trial
from plant_core.support.location import IllegalSchedule, PlantError

# How far above the best a candidate's predicted cycles may be and still be tried; the prediction is the model's cycles
# times the least ratio of scheduled to modelled cycles seen so far, for small tiles at most 1, since it differs from
# one way of tiling to another. Large tiles must be expected to win.
_MARGIN = 1.15
_MARGIN_LARGE = 0.9
# Where other nests are searched, too, and so many tiles of this one worked, others must be expected to win.
_SURE_OF = 2
_MARGIN_LATER = 0.97
_MARGIN_SCALAR = 6.0
_MARGIN_SMALLEST = 2.5
# A large tile of which the model expects so few of the cycles of the best small one is not tried last.
_MUCH_BETTER = 0.7
# Where few are tried, since control flow depends on data or rows differ in length, the model tells little.
_MARGIN_RAGGED = 3.0
# Where the same way of tiling was scheduled in another nest of the function.
_MARGIN_KNOWN = 1.1
# The vectors of all candidates tried: these are about the work of compiling them.
_MOST_WORK = 640
# Refused ones that are tried besides the others.
_MOST_REFUSED = 2

# Smaller ones that are tried where those are refused that they are like, besides.
_MOST_INSTEAD = 4

# A candidate waits for others if its code takes so many times the model's cycles, at least; but few do.
_DOUBTFUL = 2.0
_MOST_WAITING = 3
# Where a tile makes so much code, one that is smaller in proportion makes too much, too, if it is so many times larger.
_SURELY = 1.25

# Times the code that a candidate may make by fewer rules, from which on it is hoped little of by more.
_MUCH = 1.25
# Times the code and the search of others that the least tiles may take, so many of them, where no other has lanes.
_ROOM = 4
_MOST_WITH_ROOM = 3
# Times the cycles of the best: a candidate is about as good.
_ABOUT = 1.15

# Times the cycles of the best, from which on what it is the double of is worse by far.
_FAR_BETTER = 1.1

Tiler = Literal["feedback", "model", "exhaustive", "evolve"]
PATIENT: tuple[Tiler, ...] = ("exhaustive", "evolve")  # these are given all candidates

Evaluate = Callable[[Candidate, float], float]
Begin = Callable[[Candidate, float], Callable[[], None]]  # evaluates beside this process; what gives that up
Pattern = tuple[object, ...]


class Slower(Exception):
    """The code can't take few enough cycles: it takes `cycles` at least, or, if that is not `certain`, about."""

    def __init__(self, cycles: float, *, certain: bool = True) -> None:
        super().__init__(cycles)
        self.cycles = cycles
        self.certain = certain

    def __str__(self) -> str:
        return f"its code takes {'' if self.certain else 'about '}{self.cycles:.0f} cycles{' at least' * self.certain}"


@dataclass(slots=True)
class Experience:
    """Scheduled to modelled cycles of each way of tiling, as far as nests of one function have been searched; infinite
    where it was refused."""

    ratios: dict[Pattern, float] = field(default_factory=dict)

    def learn(self, tried: Sequence[tuple[Candidate, float]]) -> None:
        """Take over what a whole search saw; of each way of tiling the best."""
        found: dict[Pattern, float] = {}
        for candidate, cycles in tried:
            pattern = pattern_of(candidate)
            found[pattern] = min(found.get(pattern, math.inf), cycles / candidate.cycles)
        self.ratios.update(found)

    def expected(self, candidate: Candidate) -> float | None:
        ratio = self.ratios.get(pattern_of(candidate))
        return None if ratio is None else ratio * candidate.cycles


def search(
    finalists: Sequence[Candidate],
    fallbacks: Sequence[Candidate],
    evaluate: Evaluate,
    *,
    most: int | None = None,
    tries: int = 7,
    experience: Experience | None = None,
    enough: float = math.inf,
    before: Choice | None = None,
    tiler: Tiler = "feedback",
    several: bool = False,
    begin: Begin | None = None,
    code: CodeBudget | None = None,
) -> Choice:
    """The best of `finalists` by `evaluate`, or of the `fallbacks` where none of them works out. No more are
    tried once `most` of them have worked out, or one has and `tries` were tried; but the smallest with lanes and the
    scalar one are, unless the model is sure of them. What `experience` tells of other nests saves trials. Where the
    first that works out takes over `enough` cycles, it is the only one; Slower is raised where that is known of it
    before it is scheduled. `before` is the choice by fewer rules: its winner goes first, and what was much too large
    for them last, the smaller before the larger. All that is about "feedback"; "model" tries the
    model's first that works, "exhaustive" all of `finalists`, "evolve" some of them, bred from the best. Code without
    loops that is about as good is preferred where there are `several` nests. `begin` has the next candidate evaluated
    beside the one before it, under the limit that there is then; it returns what gives that up.

    Raises what the last fallback's evaluation raises: then the machine can't run the nest at all.
    """
    found = _Search(
        evaluate,
        most,
        tries,
        experience or Experience(),
        enough,
        tiler in PATIENT,
        several,
        begin,
        code or CodeBudget(),
    )
    if tiler == "feedback":
        try:
            _by_feedback(found, finalists, before)
        finally:
            found.drop()
    elif tiler == "evolve":
        evolve(finalists, found.fitness)
    else:
        for candidate in finalists:
            found.visit(candidate, True, last=True)
            if tiler == "model" and found.best is not None:
                break
    if found.outdone is not None:
        raise found.outdone
    if found.best is None:
        for fallback in fallbacks[:-1]:
            found.visit(fallback, True, last=True)
        if found.best is None or math.isinf(found.best[0]):
            cycles = evaluate(fallbacks[-1], math.inf)
            found.trials.append(_trial(fallbacks[-1], cycles))
            found.best = (cycles, fallbacks[-1])
    found.prefer_straight()
    modest = _modest(finalists, found.failed)
    light = _light(found.seen, found.best[0])
    return Choice(tuple(name for name, _ in fallbacks[-1].plans), found.best[1], tuple(found.trials), modest, light)


def _by_feedback(found: _Search, finalists: Sequence[Candidate], before: Choice | None) -> None:
    known, most = found.experience.expected, found.most
    hopeful = finalists if most is not None else sorted(finalists, key=lambda c: (c.large, known(c) or c.cycles))
    ordered = _in_order(hopeful)
    if before is not None and any(before.candidate in _in_turn(c) for c in hopeful):
        if before.candidate not in hopeful:
            ordered.append((before.candidate, False))
        won, large = before.candidate, {t.title for t in before.trials if t.large > _MUCH}
        ordered.sort(key=lambda x: (x[0] != won, x[0].title in large, x[0].size if x[0].title in large else 0))
        found.visit(*ordered.pop(0), last=True, following=ordered[0] if ordered else None)
        found.tried = 0  # most of its code was made then
    scalar = next((c for c, _ in ordered if not c.laned), None)
    for (candidate, certain), following in itertools.zip_longest(ordered, ordered[1:]):
        if found.failed and found.best is None and scalar is not None:
            found.look_at(scalar)
            scalar = None
        found.visit(candidate, certain, following=following)
        while found.refused(candidate) and candidate.instead is not None and not found.done:
            candidate = candidate.instead
            found.visit_instead(candidate)
        if found.done:
            break
    else:
        found.visit_waiting()
    found.visit_doubled()
    found.visit_with_room()
    found.experience.learn(found.seen)


@dataclass(slots=True)
class _Search:
    evaluate: Evaluate
    most: int | None
    tries: int
    experience: Experience
    enough: float
    patient: bool = False  # no candidate is tried in vain
    several: bool = False  # there are other nests
    begin: Begin | None = None
    code: CodeBudget = field(default_factory=CodeBudget)  # of all candidates
    begun: dict[str, Callable[[], None]] = field(default_factory=dict)  # by title, what gives it up
    outdone: Slower | None = None
    trials: list[Trial] = field(default_factory=list)
    best: tuple[float, Candidate] | None = None
    failed: set[str] = field(default_factory=set)
    codes: set[tuple[object, ...]] = field(default_factory=set)
    seen: list[tuple[Candidate, float]] = field(default_factory=list)
    waiting: list[tuple[float, Candidate, bool]] = field(default_factory=list)
    large: list[tuple[object, float]] = field(default_factory=list)  # from which size on what kinds are too large
    ratio: float = math.inf
    known: float = math.inf  # the cycles of scalar code, where these were looked at
    work: int = 0
    tried: int = 0
    stood_in: list[Candidate] = field(default_factory=list)
    over: list[tuple[int, Candidate]] = field(default_factory=list)  # refused for their instructions or their search

    @property
    def done(self) -> bool:
        """Whether it is known that the nest takes over enough cycles."""
        return self.outdone is not None or (self.best is not None and self.best[0] > self.enough)

    def visit_instead(self, candidate: Candidate) -> None:
        """Evaluate what stands in for a candidate that was refused: so many at most, besides all others."""
        known = candidate in self.stood_in or any(t.title == candidate.title for t in self.trials)
        if len(self.stood_in) < _MOST_INSTEAD and not known:
            work, tried = self.work, self.tried
            self.visit(candidate, False)
            self.work, self.tried = work, tried
            self.stood_in.append(candidate)

    def prefer_straight(self) -> None:
        """Code without loops, if it is about as good as the best and there are other nests, which overlap with it."""
        if self.several and self.best is not None and not self.best[1].whole:
            straight = [(n, c) for c, n in self.seen if c.whole and c.laned and n <= _ABOUT * self.best[0]]
            self.best = min(straight, key=lambda found: found[0], default=self.best)

    def refused(self, candidate: Candidate) -> bool:
        """Whether there is no code of it, or too much."""
        return any(t.title == candidate.title and t.large for t in self.trials) or candidate.title in self.failed

    def visit_waiting(self) -> None:
        """Those that were doubtful when there was nothing to compare them with, by what they take at least."""
        waiting, self.waiting = sorted(self.waiting, key=lambda x: x[0]), []
        for _, candidate, certain in waiting:
            if self.outdone is None:
                self.visit(candidate, certain, last=True)

    def visit_doubled(self) -> None:
        """More iterations of a loop at once than the best has, as long as twice as many made it better by far."""
        while self.best is not None and not self.done:
            cycles, best = self.best
            halves = [found for half, found in self.seen if half.doubled == best]
            if best.doubled is None or min(halves, default=0.0) < _FAR_BETTER * cycles:
                return
            if not any(t.title == best.doubled.title for t in self.trials):
                self.visit(best.doubled, True, last=True)
            if self.best[1] == best:
                return

    def visit_with_room(self) -> None:
        """Where statements have lanes in no code, for want of room for it or for its search, the least code that was
        refused of candidates with the most lanes, with several times as much room, until one works out or lacks
        registers: larger ones would lack more."""
        over = sorted((-len(c.laned), code, c.size, c.rank, k) for k, (code, c) in enumerate(self.over))
        for key in over[:_MOST_WITH_ROOM]:
            least = self.over[key[-1]][1]
            worked = {name for t in self.trials if t.cycles is not None or t.least is not None for name in t.laned}
            if self.done or self.code.exhausted or set(least.laned) <= worked:
                return
            self.trials = [t for t in self.trials if t.title != least.title]
            self.failed.discard(least.title)
            self.visit(replace(least, room=_ROOM), True, last=True)
            if least.title in self.failed and self.over[-1][1].title != least.title:
                return

    def visit(
        self,
        candidate: Candidate,
        certain: bool,
        *,
        last: bool = False,
        following: tuple[Candidate, bool] | None = None,
    ) -> None:
        """Evaluate the candidate, unless that is thought to be in vain, or, if it is not the `last` chance, better put
        off. `certain`: beyond the budget, too. `following`: what is likely to be next, and whether that is certain."""
        if candidate in self.stood_in:
            return
        give_up = self.begun.pop(candidate.title, lambda: None)
        if candidate.room == 1 and self._too_large(candidate):
            give_up()
            self.trials.append(
                _trial(candidate, None, "tiles of this kind and size make too much code", large=math.inf, tried=False)
            )
            return
        vain = self._vain(candidate, certain)
        if vain:
            give_up()
            self.trials.append(_trial(candidate, None, vain, tried=False))
            return
        wait = self.best is None and not last and len(self.waiting) < _MOST_WAITING
        doubtful = _DOUBTFUL * candidate.cycles if wait else math.inf
        limit = self._limit(doubtful)
        self.work += candidate.size
        self.tried += 1
        if following is not None:
            self._begin(*following)
        try:
            cycles = self.evaluate(candidate, limit)
        except Slower as bound:
            if self.best is None and bound.certain and self.enough < bound.cycles < min(doubtful, self.known):
                self.outdone = bound
            elif wait:
                self.waiting.append((bound.cycles, candidate, certain))
                self.work -= candidate.size
                self.tried -= 1
            else:
                self.trials.append(_trial(candidate, None, str(bound), least=bound.cycles))
                self.seen.append((candidate, bound.cycles))
            return
        except (NoSchedule, IllegalSchedule, PlantError) as refusal:
            if isinstance(refusal, TooLarge):
                size = min(candidate.size, _SURELY * candidate.size / refusal.times)
                self.large.append((pattern_of(candidate)[0], size))
            large = refusal.times if isinstance(refusal, TooLarge) else 0.0
            if candidate.laned and isinstance(refusal, TooLarge | TooHard):
                self.over.append((self.code.last, candidate))
            self.trials.append(_trial(candidate, None, str(refusal), large=large))
            self.failed.add(candidate.title)
            self.seen.append((candidate, math.inf))
            return
        self.trials.append(_trial(candidate, cycles))
        self.codes.add(candidate.code)
        self.seen.append((candidate, cycles))
        self.ratio = min(self.ratio, cycles / candidate.cycles)
        if self.best is None or cycles < self.best[0]:
            self.best = (cycles, candidate)

    def _limit(self, doubtful: float) -> float:
        return min(doubtful, self.enough + 1, self.known) if self.best is None else self.best[0]

    def _begin(self, candidate: Candidate, certain: bool) -> None:
        """Have the candidate evaluated beside another one, unless it seems to be in vain already."""
        if self.begin is not None and not (self._too_large(candidate) or self._vain(candidate, certain)):
            self.begun[candidate.title] = self.begin(candidate, self._limit(_DOUBTFUL * candidate.cycles))

    def drop(self) -> None:
        """Give up what was begun and not visited."""
        for give_up in self.begun.values():
            give_up()
        self.begun.clear()

    def _too_large(self, candidate: Candidate) -> bool:
        sizes = (size for loops, size in self.large if loops == pattern_of(candidate)[0])
        return not self.patient and any(candidate.size >= size for size in sizes)

    def look_at(self, candidate: Candidate) -> None:
        """Learn what a candidate takes that is quick to try, where others are refused: what takes longer is then given
        up soon. Its turn comes as if that was not known."""
        try:
            self.known = self.evaluate(candidate, _DOUBTFUL * candidate.cycles)
        except (Slower, NoSchedule, IllegalSchedule, PlantError):
            pass

    def fitness(self, candidate: Candidate) -> float:
        """Its cycles; those that it takes at least, where it can't be the best; infinite where it is refused."""
        self.visit(candidate, True, last=True)
        trial = self.trials[-1]
        return next((c for c in (trial.cycles, trial.least) if c is not None), math.inf)

    def _vain(self, candidate: Candidate, certain: bool) -> str:
        """Why the candidate is not tried; empty where it is."""
        if self.code.spent and not certain and not self.patient:
            return "over the budget of code to try"
        worked = sum(t.cycles is not None for t in self.trials)
        if worked == self.most and not self.patient:
            return "enough others were tried"
        if self.best is None:
            over = self.known < math.inf and self.tried >= self.tries + len(self.failed)
            return "over the budget of code to try" if over and not certain else ""
        if candidate.whole and candidate.code in self.codes:
            return "it makes the same code as another"
        if self.patient:
            return ""
        expected = self.experience.expected(candidate)
        straight = _ABOUT if self.several and candidate.whole else 1.0
        if expected is not None and expected > straight * _MARGIN_KNOWN * self.best[0]:
            return "it is slower in a nest like this"
        margin, scale = self._margin(candidate, certain)
        if candidate.cycles * scale > margin * self.best[0]:
            return "the model expects it to be slower"
        # Until one with lanes works, refused ones don't count.
        laned = any(t.laned for t in self.trials if t.cycles is not None)
        refused = min(len(self.failed), _MOST_REFUSED) if laned else len(self.failed)
        over = self.work + candidate.size > _MOST_WORK or self.tried >= self.tries + refused
        return "over the budget of code to try" if over and not certain else ""

    def _margin(self, candidate: Candidate, certain: bool) -> tuple[float, float]:
        small = min(self.ratio, 1.0)
        if not candidate.laned and all(t.laned for t in self.trials if t.cycles is not None):
            # Scalar code is quick to try, and the model is weakest where it compares it with lanes.
            return _MARGIN_SCALAR, small
        if self.most is not None:
            return _MARGIN_RAGGED, self.ratio if candidate.large else small
        if certain:
            return _MARGIN_SMALLEST, small
        if candidate.large:
            return _MARGIN_LARGE, self.ratio
        return (_MARGIN_LATER if self.several and len(self.codes) >= _SURE_OF else _MARGIN), small


def _in_turn(candidate: Candidate | None) -> Iterator[Candidate]:
    """The candidate, and what is tried in its place."""
    while candidate is not None:
        yield candidate
        candidate = candidate.instead


def _in_order(finalists: Sequence[Candidate]) -> list[tuple[Candidate, bool]]:
    """The model's best first, then the smallest with lanes, then the others; and which are tried in any case."""
    laned = [c for c in finalists if c.laned]
    smallest = min(laned, key=lambda c: (c.size, c.rank), default=None)
    scalar = next((c for c in finalists if not c.laned), None)
    ordered = list(finalists)
    if smallest is not None and ordered.index(smallest) > 1:
        ordered.remove(smallest)
        ordered.insert(1, smallest)
    large = min((c for c in laned if c.large), key=lambda c: c.cycles, default=None)
    if large is not None and large.cycles < _MUCH_BETTER * ordered[0].cycles and ordered.index(large) > 2:
        ordered.remove(large)
        ordered.insert(2, large)
    return [(c, c in (smallest, scalar)) for c in ordered]


def pattern_of(candidate: Candidate) -> Pattern:
    """The title without names of comps, and with the vectors of its tile in place of spans."""
    loops = re.sub(r":\d+", "", re.sub(r"\w+\(", "(", candidate.title))
    return loops, candidate.points


def _modest(finalists: Sequence[Candidate], failed: set[str]) -> Candidate | None:
    laned = [c for c in finalists if c.laned and c.title not in failed]
    return min(laned, key=lambda c: (c.size, c.rank), default=None)


def _light(seen: Sequence[tuple[Candidate, float]], best: float) -> Candidate | None:
    """Where the best is not known to take so few cycles, what was refused is not as good."""
    good = [c for c, cycles in seen if cycles <= _ABOUT * best and cycles < math.inf]
    return min(good, key=lambda c: c.size, default=None)


def _trial(
    candidate: Candidate,
    cycles: float | None,
    refused: str = "",
    *,
    large: float = 0.0,
    least: float | None = None,
    tried: bool = True,
) -> Trial:
    return Trial(candidate.title, candidate.cycles, cycles, refused, candidate.laned, large, least, tried)
