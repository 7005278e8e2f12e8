"""Choosing the plans of a function's nests: candidates are compiled and scheduled, and the fewest cycles win."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from dspgen.asmir.ir import instruction_count
from dspgen.errors import NoSchedule
from dspgen.options import REWRITE_MODES, Options
from dspgen.stages import CANDIDATE_SETS, Compiled, OnStage, Stages, compile_plan, cycles_of
from dspgen.target.model import Target
from dspgen.target.operations import OperationTable
from dspgen.tiling.arrange import arrangements
from dspgen.tiling.candidates import Candidate, Plans, candidates, scalar_candidate
from dspgen.tiling.machine import Machine
from dspgen.tiling.nests import Nest, nests
from dspgen.tiling.search import Choice, Experience, search
from plant_core.affine import read_accesses
from plant_core.budget import at_most
from plant_core.defined import used_parameters
from plant_core.dependence import Dependence, memory_dependences
from plant_core.ir import Buf, Comp, Func, ScalarParam
from plant_core.legality import check_legal
from plant_core.loc import PlantError
from plant_core.tiles import CompPlan, Plan

FINALISTS = 8
SIMULATED_FINALISTS = 4
TRIES = 8  # candidates that are compiled, those of all nests together, but for a few of each
FEWEST_TRIES = 3
LARGEST_CANDIDATE = 800  # instructions
LARGEST_REPEATED = 1200  # instructions of a function that is compiled again, with fewer rules
SMALL = 40  # instructions of a candidate that is tried with fewer rules at once
FEW_NESTS = 4  # of a function that is compiled again, with fewer rules

Kept = dict[Plan, tuple[Stages, Compiled]]
Again = Callable[[Options, int | None, OnStage], Compiled]


def compile_nests(func: Func, target: Target, options: Options, seen: OnStage) -> Compiled:
    """The function by its loop nests, each under the best plan that was found for it."""
    choices, kept = choose_plans(func, target, options)
    seen("plan", choices)
    backend = _compile_choices(func, choices, kept, target, options, seen)
    plan = _plan(backend.choices)

    def again(options: Options, most: int | None, on_stage: OnStage) -> Compiled:
        return compile_plan(func, plan, target, options, most=most, on_stage=on_stage)

    best = backend
    if len(backend.choices) <= FEW_NESTS and (plan not in kept or not _small(backend)):
        best, stages = least_of_modes(backend, [], options, again)
        for stage in stages:
            seen(*stage)
    return replace(best, choices=backend.choices, tiles=tuple(c.candidate.title for c in backend.choices))


def _small(compiled: Compiled) -> bool:
    return instruction_count(compiled.assembly.body) <= SMALL


class _SameProgram(Exception):
    """Ends a compilation that would only repeat another."""


def least_of_modes(first: Compiled, stages: Stages, options: Options, again: Again) -> tuple[Compiled, Stages]:
    """`first`, or the same as rewritten by fewer rules, where the schedule tells that this takes fewer cycles:
    rewriting knows of units and recurrences, but not of prologs and registers. And the stages of what is given."""
    best = first
    for mode in REWRITE_MODES[: REWRITE_MODES.index(options.rewrite)]:
        mine: Stages = []

        def on_stage(name: str, value: object, mine: Stages = mine) -> None:
            if name == "rewritten" and value == first.program:
                raise _SameProgram
            mine.append((name, value))

        try:
            other = again(replace(options, rewrite=mode), LARGEST_REPEATED, on_stage)
        except (NoSchedule, PlantError, _SameProgram):
            continue
        if (other.scheduled.cycles or math.inf) < (best.scheduled.cycles or 0):
            best, stages = other, mine
    return best, stages


def choose_plans(func: Func, target: Target, options: Options) -> tuple[tuple[Choice, ...], Kept]:
    """Each nest's plan, by compiling and scheduling the model's finalists; where there is but one nest, its candidates
    are whole functions, and are kept."""
    machine = Machine(target, OperationTable(target))
    found = nests(func)
    kept: Kept = {}
    choices = []
    tries = max(TRIES // max(len(found), 1), FEWEST_TRIES)
    experience = Experience()
    for nest in found:
        alone = func if len(found) == 1 else _alone(func, nest, len(target.abi.arguments))
        known = memory_dependences(alone)
        evaluate = _Evaluate(alone, known, target, options, kept)
        arranged = tuple(arrangements(nest, alone, known, reassoc=options.fp == "reassoc"))
        finalists = candidates(
            arranged,
            target,
            machine,
            FINALISTS,
            known,
            kept=evaluate.keeps,
            single=options.tile == "one",
            vectorize=options.vectorize,
        )
        most = None if all(c.box for c in nest.comps) else SIMULATED_FINALISTS
        choices.append(
            search(finalists, scalar_candidate(nest), evaluate, most=most, tries=tries, experience=experience)
        )
    return tuple(choices), kept


def _compile_choices(
    func: Func, choices: tuple[Choice, ...], kept: Kept, target: Target, options: Options, seen: OnStage
) -> Compiled:
    """The whole function under its nests' plans. Where these together need more registers than there are, nests give
    way to small tiles, and then to scalar code, one after the other."""
    plan = _plan(choices)
    if plan in kept:
        stages, compiled = kept[plan]
        for name, value in stages:
            seen(name, value)
        return replace(compiled, choices=choices)
    for given_up in range(-1, len(choices)):
        try:
            return replace(compile_plan(func, plan, target, options, on_stage=seen), choices=choices)
        except NoSchedule:
            if given_up < 0:
                choices = tuple(_modest(c) for c in choices)
            else:
                choices = tuple(_scalar(c) if k == given_up else c for k, c in enumerate(choices))
            plan = _plan(choices)
    return replace(compile_plan(func, plan, target, options, on_stage=seen), choices=choices)


def _modest(choice: Choice) -> Choice:
    """The nest in small tiles, if it was in large ones."""
    return choice if choice.modest is None or not choice.candidate.laned else replace(choice, candidate=choice.modest)


def _scalar(choice: Choice) -> Choice:
    """The nest as it is written: a plan leaves such comps alone."""
    return replace(choice, candidate=replace(choice.candidate, plans=(), title="scalar"))


@dataclass(slots=True)
class _Evaluate:
    """A candidate's cycles. The schedule tells them where trips are constant; else a run on zeros counts them (control
    flow depends on sizes only), for the first few candidates; else the model's, scaled as these were."""

    func: Func
    known: tuple[Dependence, ...]
    target: Target
    options: Options
    kept: Kept
    simulated: int = 0
    ratio: float | None = None

    def keeps(self, plans: Plans) -> bool:
        """Whether the plans keep all dependences, found out at little cost."""
        try:
            with at_most(CANDIDATE_SETS):
                reassoc = self.options.fp == "reassoc"
                check_legal(self.func, Plan(plans), reassoc=reassoc, lanes=self.target.lanes, known=self.known)
        except PlantError:
            return False
        return True

    def __call__(self, candidate: Candidate) -> float:
        plan = Plan(candidate.plans)
        stages: Stages = []
        most = None if candidate.cycles == math.inf else LARGEST_CANDIDATE
        compiled = self._compiled(plan, self.options, most, lambda *stage: stages.append(stage))
        if _small(compiled):
            compiled, stages = least_of_modes(compiled, stages, self.options, partial(self._compiled, plan))
        self.kept[plan] = (stages, compiled)
        cycles = compiled.scheduled.cycles
        return float(cycles) if cycles is not None else self._unscheduled(compiled, candidate)

    def _compiled(self, plan: Plan, options: Options, most: int | None, on_stage: OnStage) -> Compiled:
        return compile_plan(
            self.func, plan, self.target, options, known=self.known, most=most, on_stage=on_stage
        )  # fmt: skip

    def _unscheduled(self, compiled: Compiled, candidate: Candidate) -> float:
        counted = None if self.simulated == SIMULATED_FINALISTS else cycles_of(compiled, self.target)
        if counted is None:
            return candidate.cycles * (self.ratio or 1.0)
        self.simulated += 1
        self.ratio = min(self.ratio or math.inf, counted / candidate.cycles)
        return float(counted)


def _alone(func: Func, nest: Nest, most: int) -> Func:
    """One nest as a function of its own: what it shares with others becomes parameters, so that its values count.

    Where there are over `most` parameters, single values stay local, those first that it only reads.
    """
    comps = tuple(c for c in func.comps if c.name in nest.names)
    shared = _touched(comps) & _touched(c for c in func.comps if c.name not in nest.names)
    arrays = [b.name for b in func.bufs if b.name in _touched(comps) and (b.kind == "param" or b.name in shared)]
    inside = {c.defines for c in comps}
    wanted = {c.defines for c in func.comps if c.defines is not None and c.defines not in inside}
    given = sorted(wanted & {name for c in comps for name in used_parameters(c)})
    scalars = (*(p for p in func.params if not isinstance(p, Buf)), *(ScalarParam(n, "i32") for n in given))
    written = {c.target.buf for c in comps}
    rank = {b.name: (not b.shape, b.name not in written) for b in func.bufs}
    order = sorted(arrays, key=lambda name: rank[name])
    room = max(most - len(scalars), sum(not single for single, _ in map(rank.__getitem__, arrays)))
    passed = set(order[:room])
    bufs = tuple(replace(b, kind="param") if b.name in passed else b for b in func.bufs)
    params = tuple(b for b in bufs if b.name in passed)
    return replace(func, params=(*params, *scalars), bufs=bufs, comps=comps)


def _touched(comps: Iterable[Comp]) -> set[str]:
    return {name for c in comps for name in (c.target.buf, *(a.buf for a in read_accesses(c)))}


def _plan(choices: tuple[Choice, ...]) -> Plan:
    merged: list[tuple[str, CompPlan]] = [p for c in choices for p in c.candidate.plans]
    return Plan(tuple(merged))
