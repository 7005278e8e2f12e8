"""Choosing the plans of a function's nests: candidates are compiled and scheduled, and the fewest cycles win."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeVar

from dspgen.backend.probe_sizes import runs_at_several, trial_sizes
from dspgen.backend.stages import Compiled, OnStage, Packets, Planned, cycles_of, plan_program
from dspgen.errors import NoSchedule
from dspgen.options import REWRITE_MODES, Options, RewriteMode
from dspgen.sched.ir.packets import Scheduled
from dspgen.search.candidate_search import PATIENT, Experience, Slower, search
from dspgen.search.code_budget import CodeBudget
from dspgen.search.outline_nest import alone, in_forms, light, modest, plan_of, scalar
from dspgen.search.rewrite_variants import Variants, modes_up_to
from dspgen.search.shortlist import finalists
from dspgen.search.work_partition import alike, in_parts, neighbours
from dspgen.target.isa.model import Target
from dspgen.target.query.operations import OperationTable
from dspgen.tiling.candidates import Candidate, Choice
from dspgen.tiling.cost.lower_bound import count
from dspgen.tiling.cost.unit_pressure import Machine
from dspgen.tiling.loops.loop_nests import Nest, nests
from dspgen.tiling.scalar_remainder import scalar_candidates
from plant_core.analysis.dependence import Dependence, memory_dependences
from plant_core.ir.func import Func
from plant_core.tile_plan.plan import Plan

SIMULATED_FINALISTS = 5
APART = 1.1  # times the cycles of the best: ways of strips that take more are not tried with more rules
TRIES = 8  # candidates that are compiled, those of all nests together, but for a few of each
FEWEST_TRIES = 3
RARE_TRIES = 2  # of what runs for a few iterations only: the smallest with lanes, and what has none
FIRST_TRIES = 2  # of those by the fewest rules, before all are used
RARE = 4  # what does less than the part of all that is one in so many, or nests, of what others do, are tried less
SMALL_SHARE = 0.1  # of what is done altogether: pieces that do less are compiled by all rules only
THIN = 0.02  # the part of all cycles: nests that take less keep what fewer rules chose
LARGEST_CANDIDATE = 800  # instructions
LARGEST_STRIPS = 1200  # those of nests in strips or versions, some of which may be there twice
LARGEST_REPEATED = 1200  # instructions of a function that is compiled again, with fewer rules
MOST_INSTRUCTIONS = 5000  # of the candidates of a nest, by all rules, that are compiled
SURE = 1.5  # times the cycles of other code: no more is tried for nests that take so many
CROWDED = 1.05  # times the cycles of nests one by one: so many together show that they lack registers
HOPELESS = 1.1  # times the best cycles: nests are not compiled together that would take more, gaining by that as others
FEW_NESTS = 4  # of a function that is compiled again, with fewer rules
PARTS = 4  # of many nests: one takes longer than another, so that there are more than processes on a small machine
CLOSE = 1.2  # times a nest's cycles: code by fewer rules that takes more is not scheduled to the end


# The cycles of a nest's plan by the rules of a mode and of those with fewer, and whether its code has loops.
_Told = tuple[dict[RewriteMode, float], bool]
_Found = tuple[Choice, _Told]
_T = TypeVar("_T")


class Outdone(Exception):
    """The nests take many times the cycles of other code: about `cycles`, as far as they were looked at; more than
    that, if it is not `known`."""

    def __init__(self, cycles: float, *, known: bool = True) -> None:
        super().__init__(cycles)
        self.cycles = cycles
        self.known = known


@dataclass(slots=True)
class Chooser:
    """The plans of one function's nests, for one mode of rewriting after the other. `scalars`: comps without lanes."""

    func: Func
    target: Target
    options: Options
    scalars: Collection[str] = frozenset()
    searches: tuple[_Search, ...] = ()
    whole: dict[tuple[Plan, tuple[tuple[str, RewriteMode], ...]], Variants] = field(default_factory=dict)
    counted: list[tuple[Scheduled, int | None]] = field(default_factory=list)
    known: dict[RewriteMode, tuple[Choice, ...]] = field(default_factory=dict)
    told: dict[RewriteMode, list[_Told]] = field(default_factory=dict)  # of choices that were made beside each other
    packets: Packets = field(default_factory=dict)
    seen: OnStage = lambda name, value: None  # is told how far a long search is
    experiences: dict[RewriteMode, Experience] = field(default_factory=dict)  # what is known of nests like these
    share: float = 1.0  # of what is done altogether, where this is a piece of it
    ahead: bool = False  # the next candidate is tried beside each, as nothing else is done
    sizes: Mapping[str, int] = field(default_factory=dict)  # values of parameters that runs are to have
    enough: float = math.inf  # cycles: code that clearly takes more is not wanted

    def __post_init__(self) -> None:
        machine = Machine(self.target, OperationTable(self.target))
        found = nests(self.func)
        most = len(self.target.abi.arguments)
        parts = [(n, self.func if len(found) == 1 else alone(self.func, n, most)) for n in found]
        self.searches = tuple(_Search(self, nest, alone) for nest, alone in parts)
        each = self._in_parts(lambda numbers: [self.searches[k].plans(machine) for k in numbers])
        for nest, here in zip(self.searches, each, strict=True):
            nest.finalists = here

    def of(self, func: Func, scalars: Collection[str]) -> Chooser:
        """The same of another form of the function."""
        target, options, packets, seen = self.target, self.options, self.packets, self.seen
        return Chooser(
            func,
            target,
            options,
            scalars,
            packets=packets,
            seen=seen,
            share=self.share,
            ahead=self.ahead,
            sizes=self.sizes,
            enough=self.enough,
        )

    @property
    def expected(self) -> float:
        """The model's cycles for the best candidates of all nests; 0 where it knows too little."""
        each = [s.expected for s in self.searches]
        return sum(each) if all(each) else 0.0

    @property
    def small(self) -> bool:
        """Whether this is a piece that does so little, at whatever sizes, that its code is not worth much time."""
        loops = (loop for search in self.searches for comp in search.nest.comps for loop in comp.loops)
        return self.share < SMALL_SHARE and all(loop.known for loop in loops)

    def choices(self, mode: RewriteMode, *, enough: float = math.inf) -> tuple[Choice, ...]:
        """Each nest's plan, by compiling and scheduling the model's finalists. Raises Outdone where the first of them
        that work out take over `enough` cycles together."""
        if mode in self.known:
            return self.known[mode]
        experience = self.experiences.setdefault(mode, Experience())
        if enough < math.inf and len(self.searches) > 1:
            heavy = max(self.searches, key=lambda nest: nest.expected)
            first = heavy.choice(mode, self._tries(heavy, mode), Experience(), enough, None, ahead=self.ahead)
            if first.cycles > enough:
                raise Outdone(first.cycles)
        if self._apart(mode, enough):
            self._choose_apart(mode)
            return self.known[mode]
        found: list[Choice] = []
        spent = 0.0
        before = next(reversed(self.known.values()), ())  # by fewer rules
        for k, nest in enumerate(self.searches):
            earlier = before[k] if before else None
            thin = self._share(nest) < THIN
            found.append(
                earlier
                if earlier is not None and thin
                else nest.choice(mode, self._tries(nest, mode), experience, enough - spent, earlier, ahead=self.ahead)
            )
            spent += found[-1].cycles
            if spent > enough:
                raise Outdone(spent)
        self.known[mode] = tuple(found)
        return self.known[mode]

    def _apart(self, mode: RewriteMode, enough: float) -> bool:
        """Whether nests are searched beside each other: where they are many, and nothing is known of them yet."""
        many = len(self.searches) > FEW_NESTS and mode == self.options.rewrite and self.options.tiler not in PATIENT
        return many and enough == math.inf and not any(nest.made for nest in self.searches)

    def _choose_apart(self, mode: RewriteMode) -> None:
        """The nests in parts, none of which has the experience of another."""
        sizes = trial_sizes(self.func)
        rare = {k for k, s in enumerate(self.searches) if not any(runs_at_several(c.comp, sizes) for c in s.nest.comps)}
        parts = alike([s.finalists for s in self.searches], PARTS)
        found = self._in_parts(partial(self._part, mode=mode, rare=rare), parts)
        self.known[mode] = tuple(choice for choice, _ in found)
        self.told[mode] = [told for _, told in found]

    def _in_parts(self, work: Callable[[Sequence[int]], list[_T]], parts: Sequence[Sequence[int]] = ()) -> list[_T]:
        """What `work` finds of each nest, told the numbers of some: of many in parts, beside each other, as they
        follow each other or as given."""
        return in_parts(work, parts or neighbours(len(self.searches), PARTS if len(self.searches) > FEW_NESTS else 1))

    def _tell(self, numbers: Sequence[int], choices: Sequence[Choice], mode: RewriteMode) -> list[_Told]:
        return [self.searches[k].told(choices[k], mode) for k in numbers]

    def _part(self, numbers: Sequence[int], mode: RewriteMode, rare: Collection[int]) -> list[_Found]:
        """The choices of some nests, and what is known of their code, which is dropped. Of those that are `rare` only
        the smallest candidates are tried, by the fewest rules."""
        experience, found = Experience(), list[_Found]()
        for k, nest in ((k, self.searches[k]) for k in numbers):
            nest.packets = {}
            if k in rare:
                laned = sorted((c for c in nest.finalists if c.laned), key=lambda c: (c.size, c.rank))
                nest.finalists = [c for c in nest.finalists if c not in laned[RARE_TRIES:]]
                fewest = REWRITE_MODES[0]
                choice = nest.choice(fewest, RARE_TRIES, Experience(), math.inf, None)
                # Other rules are not asked: as if they won nothing.
                found.append((choice, ({m: choice.cycles + (m != fewest) for m in modes_up_to(mode)[::-1]}, True)))
            else:
                choice = nest.choice(mode, self._tries(nest, mode), experience, math.inf, None)
                found.append((choice, nest.told(choice, mode)))
            nest.made.clear()
        return found

    def _share(self, nest: _Search) -> float:
        """The part of all cycles that the model expects of a nest; an equal part where it knows too little."""
        return nest.expected / self.expected if self.expected else 1 / len(self.searches)

    def _tries(self, nest: _Search, mode: RewriteMode) -> int:
        """How many candidates of a nest are compiled: fewer where it does little, or more rules are to come."""
        if mode != self.options.rewrite:
            return FIRST_TRIES
        each = max(TRIES // max(len(self.searches), 1), FEWEST_TRIES, round(TRIES * self._share(nest)))
        share = self.share * min(self._share(nest) * len(self.searches), 1)
        return max(math.ceil(each * min(RARE * share, 1)), 2)

    def compiled(self, mode: RewriteMode, limit: float) -> Compiled:
        """The whole function by the plans of one mode, and by its rules or by fewer, whichever takes fewer cycles.
        Raises NoSchedule; Slower where it can't take fewer than `limit`."""
        choices = self.choices(mode)
        if len(choices) == 1:
            # The nest's candidates were whole functions.
            variants = self.searches[0].variants(choices[0].candidate)
            best = variants.least(mode, fresh=not self.small, limit=limit, certain=True)
            best = best if self.small else variants.summed(best, mode)
        else:
            try:
                best, choices = self._together(choices, mode, limit)
            finally:
                for variants in self.whole.values():
                    variants.drop()
        return replace(best, choices=choices, tiles=tuple(c.candidate.title for c in choices))

    def _together(
        self, choices: tuple[Choice, ...], mode: RewriteMode, limit: float
    ) -> tuple[Compiled, tuple[Choice, ...]]:
        """Several nests under these plans, or others that were needed or better; see `compiled`."""
        best_rules, others = self._rules(choices, mode)
        smaller = tuple(light(c) for c in choices)
        lighter = None if plan_of(smaller) == plan_of(choices) else self._variants(smaller, best_rules)
        alone = sum(c.cycles for c in choices)
        if lighter is not None:
            lighter.begin(partial(Variants.told, mode=mode, limit=limit))
            self._variants(choices, best_rules).instead = partial(lighter.told, mode, limit)
        try:
            bound = limit if lighter is None else min(limit, CROWDED * alone)
            choices, variants = self._fitting(choices, mode, bound, best_rules)
        except Slower:
            if lighter is None or (bound == limit and mode not in lighter.made):
                raise
            told = lighter.told(mode, limit)
            try:
                choices, variants = self._fitting(choices, mode, min(limit, told), best_rules)
            except Slower:
                if told >= limit:
                    raise
                choices, variants = smaller, lighter
        best = variants.under(mode)
        cycles = best.scheduled.cycles or 0
        if lighter is not None and cycles > alone and lighter.told(mode, min(limit, cycles)) < cycles:
            choices, variants, best = smaller, lighter, lighter.under(mode)
        if len(choices) <= FEW_NESTS or not best.planned.has_loops:
            best = variants.least(mode, most=LARGEST_REPEATED, without=set(modes_up_to(mode)) - {mode, *others})
            best = variants.summed(best, mode, LARGEST_REPEATED)
        return best, choices

    def _rules(
        self, choices: tuple[Choice, ...], mode: RewriteMode
    ) -> tuple[dict[str, RewriteMode], list[RewriteMode]]:
        """By which rules, `mode` or fewer, each nest under its plan takes the fewest cycles, by comp; and by which of
        them all nests together take no more than by `mode`, or few enough to be tried."""
        modes = modes_up_to(mode)[::-1]
        sums, straight = dict.fromkeys(modes, 0.0), dict.fromkeys(modes, 0.0)
        best: dict[str, RewriteMode] = {}
        unrolled: list[str] = []  # nests without loops are one piece of code, rewritten by the same rules
        told = self.told.get(mode) or self._in_parts(partial(self._tell, choices=choices, mode=mode))
        for choice, (cycles, looped) in zip(choices, told, strict=True):
            best.update(dict.fromkeys(choice.comps if looped else (), min(modes, key=cycles.__getitem__)))
            unrolled += () if looped else choice.comps
            for other in modes:
                sums[other] += cycles[other]
                straight[other] += 0 if looped else cycles[other]
        best.update(dict.fromkeys(unrolled, min(modes, key=straight.__getitem__)))
        # Straight code of several nests is one block, in which they meet as they don't alone.
        near = HOPELESS if len(unrolled) == sum(len(c.comps) for c in choices) else 1.0
        return best, [m for m in modes if sums[m] <= near * sums[mode]]

    def _fitting(
        self, choices: tuple[Choice, ...], mode: RewriteMode, limit: float, rules: Mapping[str, RewriteMode]
    ) -> tuple[tuple[Choice, ...], Variants]:
        """Where the nests' plans together need more registers than there are, nests give way to the smallest tiles that
        are about as good, then to small ones, and then to scalar code, one after the other."""
        lighter = tuple(light(c) for c in choices)
        for given_up in range(-1 if plan_of(lighter) == plan_of(choices) else -2, len(choices)):
            variants = self._variants(choices, rules)
            try:
                variants.under(mode, limit=limit)
            except NoSchedule:
                if given_up < -1:
                    choices = lighter
                elif given_up < 0:
                    choices = tuple(modest(c) for c in choices)
                else:
                    choices = tuple(scalar(c) if k == given_up else c for k, c in enumerate(choices))
            else:
                return choices, variants
        return choices, self._variants(choices, rules)

    def _variants(self, choices: tuple[Choice, ...], rules: Mapping[str, RewriteMode]) -> Variants:
        plan = plan_of(choices)
        key = plan, tuple(sorted(rules.items()))
        if key not in self.whole:
            func, target, options = in_forms(self.func, choices), self.target, self.options

            def planned() -> Planned:
                return plan_program(func, plan, target, options, strips=func is not self.func).with_fewer(rules)

            self.whole[key] = Variants(planned, target, options, None, known=self.packets)
        return self.whole[key]

    def cycles(self, compiled: Compiled, func: Func) -> int | None:
        """See `cycles_of`, at the sizes that suit `func`, of which the code is; what a run counted is remembered."""
        known = next((c for s, c in self.counted if s is compiled.scheduled), None)
        if known is None:
            known = cycles_of(compiled, self.target, func, self.sizes)
            self.counted.append((compiled.scheduled, known))
        return known


class _Search:
    """One nest, as a function of its own, `alone`, and its candidates; their code is made once for each mode."""

    def __init__(self, chooser: Chooser, nest: Nest, alone: Func) -> None:
        self.chooser, self.nest, self.alone = chooser, nest, alone
        self.finalists: list[Candidate] = []
        self.fallbacks = scalar_candidates(nest)
        self.most = None if all(c.box for c in nest.comps) else SIMULATED_FINALISTS
        self.made: dict[tuple[Plan, bool, int], Variants] = {}
        self.packets = chooser.packets
        self.code = CodeBudget(MOST_INSTRUCTIONS)  # by the rules of all modes

    @cached_property
    def known(self) -> tuple[Dependence, ...]:
        return memory_dependences(self.alone)

    def plans(self, machine: Machine) -> list[Candidate]:
        """The plans that are worth a try."""
        chooser = self.chooser
        return finalists(self.nest, self.alone, self.known, chooser.target, machine, chooser.options, chooser.scalars)

    @property
    def expected(self) -> float:
        """The model's cycles for the best candidate, where rows differ in length for the share of the box that there
        is; 0 where it knows too little, since a size is not known."""
        comps = self.nest.comps
        if not self.finalists or not all(x.known for c in comps for x in c.loops):
            return 0.0
        share = min((count(c.comp.domain) / max(c.volume, 1) for c in comps if not c.box), default=1.0)
        # Where rows differ in length, tiles of several of them are full far less often than the model thinks.
        rows = [c for c in self.finalists if c.unrolled == "none"] if share < 1 else []
        return share * min(c.cycles for c in rows or self.finalists)

    def choice(
        self,
        mode: RewriteMode,
        tries: int,
        experience: Experience,
        enough: float,
        before: Choice | None,
        *,
        ahead: bool = False,
    ) -> Choice:
        """The best plan by the rules of one mode; the first that works out if it takes over `enough` cycles. `before`
        was chosen by fewer rules. `ahead`: a candidate is begun beside the one before it. Raises NoSchedule; Outdone
        where the first is not scheduled, being slower in any case."""
        evaluate = _Evaluate(self, mode)
        try:
            found = search(
                self._hopeful(before),
                self.fallbacks,
                evaluate,
                most=self.most,
                tries=tries,
                experience=experience,
                enough=enough,
                before=before,
                tiler=self.chooser.options.tiler,
                several=len(self.chooser.searches) > 1,
                begin=evaluate.begin if ahead else None,
                code=self.code,
            )
        except Slower as bound:
            raise Outdone(bound.cycles, known=False) from None
        return replace(found, volume=self.nest.heaviest.volume)

    def _hopeful(self, before: Choice | None) -> list[Candidate]:
        """The finalists without ways of strips that took far more cycles than others by fewer rules."""
        trials = () if before is None else before.trials
        slower = {t.title for t in trials if t.cycles is not None and before and t.cycles > APART * before.cycles}
        return [c for c in self.finalists if c.form is None or c.title not in slower]

    def variants(self, candidate: Candidate) -> Variants:
        plan = Plan(candidate.plans)
        last = candidate.cycles == math.inf  # what remains where all fail: a candidate of its plan may be one of these
        most = None if last else LARGEST_STRIPS if candidate.form or self.nest.in_versions else LARGEST_CANDIDATE
        key = plan, last, candidate.room
        if key not in self.made:
            target, options = self.chooser.target, self.chooser.options

            def planned() -> Planned:
                func = candidate.form or self.alone
                strips, known = (True, None) if candidate.form is not None else (False, self.known)
                others = self.chooser.func.comps
                return plan_program(
                    func, plan, target, options, known=known, candidate=most is not None, strips=strips, others=others
                )  # fmt: skip

            self.made[key] = Variants(
                planned, target, options, most and candidate.room * most, known=self.packets, room=candidate.room
            )
        return self.made[key]

    def told(self, choice: Choice, mode: RewriteMode) -> _Told:
        """What is known of the code that was chosen. Where it doesn't tell cycles, none by fewer rules does."""
        variants, limit = self.variants(choice.candidate), CLOSE * choice.cycles
        modes = modes_up_to(mode)[::-1]
        cycles = {other: variants.told(other, limit) for other in modes[:1]}
        made = variants.made.get(mode)
        untold = isinstance(made, Compiled) and made.scheduled.cycles is None
        cycles |= {other: math.inf if untold else variants.told(other, limit) for other in modes[1:]}
        return cycles, not isinstance(variants.planned, Planned) or variants.planned.has_loops


@dataclass(slots=True)
class _Evaluate:
    """A candidate's cycles. The schedule tells them where trips are constant; else a run on zeros counts them (control
    flow depends on sizes only), for the first few candidates; else the model's, scaled as these were."""

    search: _Search
    mode: RewriteMode
    tried: int = 0
    simulated: int = 0
    ratio: float | None = None
    worked: bool = False  # whether a candidate did

    def __call__(self, candidate: Candidate, limit: float) -> float:
        self.tried += 1
        patient = self.search.chooser.options.tiler in PATIENT
        if patient:
            self.search.chooser.seen(f"tile {self.tried}, of {len(self.search.finalists)} that there are", None)
        variants = self.search.variants(candidate)
        try:
            compiled = variants.least(
                self.mode, fresh=False, limit=limit, certain=patient, others=self.worked and not patient
            )
        finally:
            self.search.code.spend(variants.size(self.mode))
        self.worked = True
        cycles = compiled.scheduled.cycles
        return float(cycles) if cycles is not None else self._unscheduled(compiled, candidate)

    def begin(self, candidate: Candidate, limit: float) -> Callable[[], None]:
        """Make the candidate's code beside what is done here."""
        variants = self.search.variants(candidate)
        if self.mode not in variants.made:
            least = partial(Variants.least, mode=self.mode, fresh=False, limit=limit, others=self.worked)
            variants.begin(least)
        return variants.drop

    def _unscheduled(self, compiled: Compiled, candidate: Candidate) -> float:
        counted = (
            None if self.simulated == SIMULATED_FINALISTS else self.search.chooser.cycles(compiled, self.search.alone)
        )
        if counted is None:
            return candidate.cycles * (self.ratio or 1.0)
        self.simulated += 1
        self.ratio = min(self.ratio or math.inf, counted / candidate.cycles)
        return float(counted)
