"""One plan's code as rewritten with all rules, or with fewer: what these have in common is made once."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from dspgen.asmir.ir.function import instruction_count
from dspgen.backend.stages import Assembled, Compiled, Packets, Planned, assemble, cycles_of, pack, rewrite
from dspgen.errors import NoSchedule, TooHard, TooLarge
from dspgen.options import REWRITE_MODES, Options, RewriteMode
from dspgen.rewrite.optimize import Effort, Optimised
from dspgen.sched.graph.lower_bound import TooSlow
from dspgen.search.candidate_search import Slower
from dspgen.target.isa.model import Target
from dspgen.vecdsl.ir.program import Program
from dspgen.vecdsl.loops.loop_invariant_motion import hoist
from dspgen.vecdsl.loops.partial_sums import adds_products, split_sums
from plant_core.support.fork_join import Ahead
from plant_core.support.location import PlantError

MOST_PARTS = 4  # partial sums in place of one
SMALL = 40  # instructions of code that is tried with fewer rules at once
TOO_LARGE = 1.1  # times the code that a candidate may have: it is too large by fewer rules, too

Refusal = NoSchedule | PlantError
_T = TypeVar("_T", Assembled, Compiled, Planned)


def modes_up_to(mode: RewriteMode) -> tuple[RewriteMode, ...]:
    """Those with fewer rules first."""
    return REWRITE_MODES[: REWRITE_MODES.index(mode) + 1]


@dataclass(slots=True)
class _Form:
    """A plan's code by some rules: `assembled` of at most `most` instructions, and its packets once they are made."""

    program: Program
    most: int | None
    assembled: Assembled | Refusal
    packed: Compiled | Refusal | None = None
    slow: float = 0.0  # the cycles that it takes about, or more, where that was too much to make packets


@dataclass(frozen=True, slots=True)
class _State:
    """What was made of a plan."""

    planned: Planned | Refusal | None
    rewritten: dict[RewriteMode, Optimised]
    forms: list[_Form]
    made: dict[RewriteMode, Compiled | Refusal]
    uncopied: _State | None


@dataclass(slots=True)
class Variants:
    """The code of one plan. `plan` makes what is before rewriting; `most` is how many instructions it may have, None
    where it is no candidate among others (see `pack`). `known` is shared by the plans of one function. `instead`: the
    cycles of other code that would do, asked for where this lacks registers; `room`: how many times the search of other
    candidates its packets may take."""

    plan: Callable[[], Planned]
    target: Target
    options: Options
    most: int | None
    effort: Effort = Effort()
    known: Packets = field(default_factory=dict)
    rewritten: dict[RewriteMode, Optimised] = field(default_factory=dict)
    forms: list[_Form] = field(default_factory=list)
    made: dict[RewriteMode, Compiled | Refusal] = field(default_factory=dict)
    planned: Planned | Refusal | None = None
    uncopied: Variants | None = None
    instead: Callable[[], float] | None = None
    room: int = 1
    begun: Ahead[_State] | None = None

    def begin(self, work: Callable[[Variants], object]) -> None:
        """Make beside this process what `work` asks for, which may be wanted soon; what is asked next waits for it."""
        self.drop()
        self.begun = Ahead(partial(_worked, self, work))

    def drop(self) -> None:
        """What was begun is not wanted."""
        begun, self.begun = self.begun, None
        if begun is not None:
            begun.drop()

    def _finish(self) -> None:
        begun, self.begun = self.begun, None
        if begun is not None:
            self._adopt(begun.result())

    def _adopt(self, state: _State) -> None:
        self.planned, self.rewritten, self.forms, self.made = state.planned, state.rewritten, state.forms, state.made
        if state.uncopied is not None and (instead := self._without_copies) is not None:
            instead._adopt(state.uncopied)

    @property
    def _state(self) -> _State:
        uncopied = None if self.uncopied is None else self.uncopied._state
        return _State(self.planned, self.rewritten, self.forms, self.made, uncopied)

    def under(
        self, mode: RewriteMode, most: int | None = None, limit: float = math.inf, *, certain: bool = False
    ) -> Compiled:
        """The code by the rules of one mode; the first to ask for it may set a smaller bound than the plan's own.

        Raises NoSchedule, and PlantError where the plan itself is refused; Slower where its linear assembly, or, if
        that need not be `certain`, the packets of the plan's other forms tell that it takes `limit` cycles or more.
        """
        self._finish()
        if mode not in self.made:
            try:
                self.made[mode] = self._make(mode, most or self.most, limit, certain)
            except (NoSchedule, PlantError) as refusal:
                self.made[mode] = refusal
        return _given(self.made[mode])

    def told(self, mode: RewriteMode, limit: float) -> float:
        """The cycles by the rules of one mode, or about how many they are where they are over `limit`; infinite where
        there is no schedule, or none that tells."""
        try:
            return self.under(mode, limit=limit).scheduled.cycles or math.inf
        except Slower as bound:
            return bound.cycles
        except (NoSchedule, PlantError):
            return math.inf

    def size(self, mode: RewriteMode) -> int:
        """Count the instructions that the plan makes by the rules of a mode: the most that it may make where rewriting
        or lowering refuses it, 0 where the plan itself is refused."""
        self._finish()
        rewritten = self.rewritten.get(mode)
        for form in self.forms:
            if rewritten is None or form.program != rewritten.program:
                continue
            if isinstance(form.assembled, Assembled):
                return instruction_count(form.assembled.function.body)
            if isinstance(form.assembled, TooLarge):
                return math.ceil(form.assembled.times * (form.most or 0))
        return self.most or 0 if isinstance(self.planned, Planned) else 0

    def busy(self, mode: RewriteMode) -> float:
        """The part of the cycles, by the rules of a mode that was made, that units need at least; 1 if not known."""
        self._finish()
        made, rewritten = self.made.get(mode), self.rewritten.get(mode)
        for form in self.forms:
            if rewritten is not None and form.program == rewritten.program and isinstance(form.assembled, Assembled):
                cycles = made.scheduled.cycles if isinstance(made, Compiled) else form.slow
                return form.assembled.least / cycles if cycles else 1.0
        return 1.0

    def least(
        self,
        mode: RewriteMode,
        *,
        fresh: bool = True,
        most: int | None = None,
        limit: float = math.inf,
        without: Collection[RewriteMode] = (),
        certain: bool = False,
        others: bool = False,
    ) -> Compiled:
        """The code of the fewest cycles by the rules of `mode`, or of a mode with fewer, if the schedule tells cycles:
        rewriting knows of units and recurrences, but not of prologs and registers. Not `fresh`: of modes with fewer
        rules only what was made already, unless the code is small. `most` bounds what is made by fewer rules; those of
        `without` are not tried where others are possible. `certain`: see `under`. Where
        there are `others` to take in its place, loops too hard for some rules are not tried with fewer, nor is code
        that is too large by far.

        Raises Slower where none of it can take fewer than `limit` cycles.
        """
        self._finish()
        best: Compiled | None = None
        refusal: Refusal | None = None
        slower: Slower | None = None
        for made in map(self.made.get, modes_up_to(mode)):
            if isinstance(made, Compiled) and made.scheduled.cycles is not None:
                limit = min(limit, made.scheduled.cycles)
        for other in reversed(modes_up_to(mode)):
            known = best is not None or slower is not None or (others and _by_far(refusal))
            if known and (other in without or not (fresh or other in self.made or (best and _small(best)))):
                continue
            if refusal is not None and other not in self.made and self._refused_by_fewer(other):
                continue
            cycles = None if best is None else best.scheduled.cycles
            try:
                found = self.under(
                    other, None if other == mode else most, min(limit, cycles or math.inf), certain=certain
                )
            except (NoSchedule, PlantError) as error:
                refusal = refusal or error
                continue
            except Slower as error:
                slower = error if slower is None or error.cycles < slower.cycles else slower
                continue
            if best is None or _fewer(found, best):
                best = found
        if best is None:
            failure = slower or refusal
            assert failure is not None
            raise failure
        return best

    def _refused_by_fewer(self, mode: RewriteMode) -> bool:
        """Whether the code was refused by fewer rules: with more refused, too, what lies between hardly differs."""
        return any(isinstance(self.made.get(other), NoSchedule | PlantError) for other in modes_up_to(mode))

    def summed(self, best: Compiled, mode: RewriteMode, most: int | None = None) -> Compiled:
        """`best`, or its plan with partial sums where loops wait for their own sums, or add products apart so as not to
        wait, if that takes fewer cycles. With plain selection sums are as written."""
        if mode == REWRITE_MODES[0]:
            return best
        waiting = [x.rec_mii / max(x.res_mii, 1) for x in best.scheduled.loops if x.rec_mii > x.res_mii]
        if adds_products(best.program):
            waiting.append(MOST_PARTS)
        if not waiting:
            return best
        planned, floats = best.planned, self.options.fp == "reassoc"
        split = split_sums(planned.promoted, min(math.ceil(max(waiting)), MOST_PARTS), floats=floats)
        if split == planned.promoted:
            return best
        changed = replace(planned, promoted=hoist(split, self.target.lanes))
        most = most or self.most
        try:
            rewritten = rewrite(changed, self.target, replace(self.options, rewrite=mode), self.effort)
            assembled = assemble(changed, rewritten, self.target, self.options, most)
            if best.scheduled.cycles is not None and assembled.least >= best.scheduled.cycles:
                return best
            found = pack(
                assembled, self.target, self.options, candidate=most is not None, room=self.room, known=self.known
            )
        except (NoSchedule, PlantError):
            return best
        if _fewer(found, best):
            return found
        # Where loops have trips that are known at run time only, runs tell.
        if found.scheduled.cycles is not None or best.scheduled.cycles is not None:
            return best
        after, before = cycles_of(found, self.target), cycles_of(best, self.target)
        return found if after is not None and before is not None and after < before else best

    def _make(self, mode: RewriteMode, most: int | None, limit: float, certain: bool) -> Compiled:
        """The code of the plan, or of the plan without copies of arrays, whichever takes fewer cycles."""
        try:
            found = self._packed(mode, most, limit, certain)
        except (NoSchedule, PlantError, Slower):
            if self._without_copies is None:
                raise
            return self._without_copies.under(mode, most, limit, certain=certain)
        if self._without_copies is None or found.scheduled.cycles is None:
            return found
        try:
            least = min(limit, found.scheduled.cycles)
            other = self._without_copies.under(mode, most, least, certain=certain)
        except (NoSchedule, PlantError, Slower):
            return found
        return other if _fewer(other, found) else found

    @property
    def _without_copies(self) -> Variants | None:
        planned = self.planned
        if self.uncopied is None and isinstance(planned, Planned) and planned.in_place is not None:
            instead = replace(planned, promoted=planned.in_place, in_place=None)
            self.uncopied = Variants(
                lambda: instead, self.target, self.options, self.most, self.effort, self.known, room=self.room
            )
        return self.uncopied

    def _packed(self, mode: RewriteMode, most: int | None, limit: float, certain: bool) -> Compiled:
        rewritten, form = self._form(mode, most)
        assembled = _given(form.assembled)
        if form.packed is None:
            if assembled.least >= limit:
                raise Slower(assembled.least)
            if not certain and (expected := max(self._expected(assembled), form.slow)) >= limit:
                raise Slower(expected, certain=False)
            self._pack(form, assembled, math.inf if certain else limit)
        return replace(_given(form.packed), remarks=rewritten.remarks)

    def _pack(self, form: _Form, assembled: Assembled, limit: float) -> None:
        """Make packets, or learn why there are none. Raises Slower where loops take too long for `limit`."""
        try:
            form.packed = pack(
                assembled,
                self.target,
                self.options,
                candidate=form.most is not None,
                room=self.room,
                known=self.known,
                limit=limit,
                instead=self.instead,
            )
        except TooSlow as slow:
            form.slow = slow.cycles
            raise Slower(slow.cycles, certain=False) from None
        except (NoSchedule, PlantError) as refusal:
            form.packed = refusal

    def _expected(self, assembled: Assembled) -> int:
        """About the fewest cycles, told by the plan's other forms that have packets: these took so many more than their
        units need, and other rules change that by no more than the packets of instructions that they save. 0 where
        nothing is known, or recurrences matter, since rules shorten these."""
        found = []
        size = instruction_count(assembled.function.body)
        for form in self.forms:
            if not isinstance(form.packed, Compiled) or not isinstance(form.assembled, Assembled):
                continue
            scheduled = form.packed.scheduled
            if scheduled.cycles is None or any(x.rec_mii > x.res_mii for x in scheduled.loops):
                return 0
            saved = max(form.assembled.least - assembled.least, 0)
            fewer = max(instruction_count(form.assembled.function.body) - size, 0)
            found.append(scheduled.cycles - saved - fewer // self.target.packets.issue)
        return max(found, default=0)

    def _form(self, mode: RewriteMode, most: int | None) -> tuple[Optimised, _Form]:
        """What rewriting by one mode makes, and its linear assembly: of programs that are the same only once."""
        if mode not in self.rewritten:
            if self.planned is None:
                try:
                    self.planned = self.plan()
                except (NoSchedule, PlantError) as refusal:
                    self.planned = refusal
            planned = _given(self.planned)
            self.rewritten[mode] = rewrite(planned, self.target, replace(self.options, rewrite=mode), self.effort)
        rewritten = self.rewritten[mode]
        for form in self.forms:
            if form.most in (None, most) and form.program == rewritten.program:
                return rewritten, form
        assembled: Assembled | Refusal
        try:
            assembled = assemble(_given(self.planned), rewritten, self.target, self.options, most)
        except (NoSchedule, PlantError) as refusal:
            assembled = refusal
        self.forms.append(_Form(rewritten.program, most, assembled))
        return rewritten, self.forms[-1]


def _worked(variants: Variants, work: Callable[[Variants], object]) -> _State:
    with suppress(NoSchedule, PlantError, Slower):
        work(variants)
    return variants._state


def _given(found: _T | Refusal | None) -> _T:
    assert found is not None
    if isinstance(found, NoSchedule | PlantError):
        raise found
    return found


def _fewer(one: Compiled, other: Compiled) -> bool:
    cycles, least = one.scheduled.cycles, other.scheduled.cycles
    return cycles is not None and least is not None and cycles < least


def _by_far(refusal: Refusal | None) -> bool:
    """Whether fewer rules hardly help."""
    return isinstance(refusal, TooHard) or (isinstance(refusal, TooLarge) and refusal.times > TOO_LARGE)


def _small(compiled: Compiled) -> bool:
    return instruction_count(compiled.assembly.body) <= SMALL
