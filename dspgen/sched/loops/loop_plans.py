"""How loops of known trip are done, as far as the settings of this attempt allow: pipelined, or as straight code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from dspgen.asmir.ir.function import Instr, Loop, VReg, instruction_count, loops_in
from dspgen.sched.graph.liveness import NOTHING, Live, live_before, registers
from dspgen.sched.graph.lower_bound import TooSlow
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.graph.unroll import (
    flat_iterations,
    is_innermost,
    peeled,
    touched,
    with_bases_after,
    with_explicit_streams,
    without_idle_streams,
)
from dspgen.sched.loops.attempt_state import Settings
from dspgen.sched.loops.attempts import FewRegisters
from dspgen.sched.loops.loop_body import Prepared, prepare
from dspgen.sched.loops.outer_loops import HIGHEST, Nest, height, nest_of
from dspgen.sched.loops.pipelining import Plan, pieces_of, plan_loop, unroll_factor
from dspgen.sched.loops.prologue_copy_elision import with_first_inside
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.modulo.loop_control import LoopControl
from dspgen.sched.modulo.modulo_expansion import Pipelined
from dspgen.sched.straight.list_scheduling import listed_length
from dspgen.sched.straight.prepare import straight_ops

_NONE: Mapping[str, int] = MappingProxyType({})
_MOST_OVERLAPPED = 1024  # operations of a loop's body: overlap of longer ones gains little, and takes minutes to find
_MOST_FLAT = 320  # operations of all iterations of a loop that may become straight code
_NEVER = 1 << 64  # cycles: more than those of any loop, which runs up to two to the power of 32 times
_CROWDED = 2  # one register in so many of a class is taken by what waits across a loop: too many
_SPARE = 8  # where values make room for a loop, one register in so many is freed besides


class Crowded(Exception):
    """A loop lacks registers, and so many of those that hold values it has nothing to do with would do."""

    def __init__(self, idle: tuple[VReg, ...]) -> None:
        super().__init__(idle)
        self.idle = idle


class Unsaved(Exception):
    """A loop lacks `lacking` registers of the class `cls`, of which some of the caller's may be saved."""

    def __init__(self, cls: str, lacking: int) -> None:
        super().__init__(cls, lacking)
        self.cls = cls
        self.lacking = lacking


@dataclass(slots=True)
class Known:
    """A loop of known trip, pipelined: `peeled` are iterations that go before it."""

    plan: Plan
    made: Pipelined
    peeled: list[Instr]
    trip: int

    @property
    def cycles(self) -> int:
        """From the start of the prolog to the end of the epilog."""
        return self.plan.shape.trip * self.plan.report.ii + self.made.epilog.length


@dataclass(slots=True)
class Run:
    """An inner loop of a nest, with the straight code between the one before it and itself; after the last one, that
    at the end of the body. `flattened`: loops all of whose iterations are straight code, and the cycles that wins."""

    before: list[Instr]
    plan: Plan
    made: Pipelined
    passes: int | VReg
    live_after: Live
    flattened: Mapping[str, int]
    after: list[Instr] = field(default_factory=list)
    flattened_after: Mapping[str, int] = field(default_factory=dict)

    @property
    def least(self) -> int:
        """Iterations that the inner loop needs."""
        return self.plan.shape.before + self.plan.shape.unroll


@dataclass(slots=True)
class NestRun:
    """A loop round `runs`, of which each overlaps with the next, in a nest or by itself; with the code between the run
    before it and itself, and that at the end of the body, as a run has them. It does two iterations at least."""

    before: list[Instr]
    loop: Loop
    counting: LoopControl
    runs: list[Run | NestRun]
    live: Live  # what is read at the end of an iteration
    flattened: Mapping[str, int]
    after: list[Instr] = field(default_factory=list)
    flattened_after: Mapping[str, int] = field(default_factory=dict)

    def every(self) -> Iterator[Run | NestRun]:
        """All runs in it, and in the nests in it."""
        for run in self.runs:
            yield run
            if isinstance(run, NestRun):
                yield from run.every()


class Plans:
    """Decides for one loop after the other, and keeps what it finds among the settings."""

    def __init__(self, facts: Facts, kit: Kit, settings: Settings) -> None:
        self.facts, self.kit, self.settings = facts, kit, settings
        # Outer loops in which runs of inner ones do not overlap, besides those that settings tell.
        self.apart = set[str]()

    def plan(
        self, loop: Loop, live_out: Live, factor: int, single: Prepared | None = None
    ) -> Plan | list[tuple[int, str]]:
        settings = self.settings
        seen, through = registers(live_out) & touched(loop), self._through(loop, live_out)
        for cls, amount in settings.squeeze.get(loop.label, {}).items():
            through[cls] = through.get(cls, 0) + amount
        least = settings.least_interval.get(loop.label, 1)
        given = settings.text(loop), len(settings.saved)
        key = (loop.label, factor, least, seen, tuple(sorted(through.items())), given, loop.label in settings.scarce)
        if key not in settings.plans and (size := instruction_count(loop.body)) > _MOST_OVERLAPPED:
            settings.plans[key] = [(least, f"iterations of {size} operations are not overlapped")]
        if key not in settings.plans:
            lacking: list[FewRegisters] = []
            try:
                settings.plans[key] = plan_loop(
                    loop,
                    self.facts,
                    self.kit,
                    live_out=seen,
                    through=through,
                    least_interval=least,
                    factor=factor,
                    budget=settings.budget,
                    scarce=loop.label in settings.scarce,
                    nested=loop.label in settings.nested,
                    exact=settings.proofs if settings.method == "exact" else None,
                    free=settings.free.get(loop.label, frozenset()),
                    known=settings.forms,
                    hopes=None if self._may_be_flat(loop) else settings.hopes,
                    given=given,
                    single=single,
                    lacking=lacking,
                )
            except TooSlow:
                for why in lacking:
                    self._check_saved(why, loop.label)
                raise
        # What waits elsewhere meanwhile may be other values.
        asked = key, len(settings.spilled)
        if asked not in settings.checked:
            settings.checked.add(asked)
            self._check_through(settings.plans[key], loop, live_out)
        return settings.plans[key]

    def _check_saved(self, lacking: FewRegisters, label: str) -> None:
        """Raise Unsaved if some of the caller's registers may be saved for a loop that lacks some."""
        if lacking.cls and lacking.cls not in self.settings.unsavable and self.kit.unsaved(lacking.cls):
            if self.settings.hopes is not None:
                self.settings.hopes.forget(label)  # with more registers, it may be quicker
            raise Unsaved(lacking.cls, lacking.lacking)

    def _check_through(self, plan: Plan | list[tuple[int, str]], loop: Loop, live_out: Live) -> None:
        """Where the loop lacks registers, raise Unsaved if some of the caller's may be saved, else Crowded if values
        take them which only code around loops uses."""
        tried = plan.report.tried if isinstance(plan, Plan) else plan
        lacking = next((why for _, why in tried if isinstance(why, FewRegisters)), None)
        if lacking is None:
            return
        self._check_saved(lacking, loop.label)
        waiting, uses = set(self._waiting(loop, live_out)), self.settings.idle
        classes = [lacking.cls]
        if not isinstance(plan, Plan):  # addresses, for one, are made of scalars where registers for them are lacking
            through = self._through(loop, live_out)
            classes += [c for c, n in through.items() if c not in classes and _CROWDED * n > self.kit.room(c)]
        for cls in classes:
            idle = [r for r in uses if r in waiting and self._class(r) == cls]
            if idle:
                spare = self.kit.room(cls) // _SPARE
                raise Crowded(tuple(sorted(idle, key=uses.__getitem__)[: lacking.lacking + spare]))

    def known(self, loop: Loop, live_out: Live, before: Sequence[Instr]) -> Known | tuple[tuple[int, str], ...]:
        """The pieces of a loop of known trip, after straight code; or what was tried."""
        if not isinstance(loop.trip, int):
            return ()
        single = self._single(loop, live_out)
        factor = unroll_factor(loop, single)
        rest = loop.trip % factor
        shortened = peeled(loop, rest) if rest else loop
        plan = self.plan(shortened, live_out, factor, single)
        if not isinstance(plan, Plan):
            return tuple(plan)
        plan = replace(plan, shape=with_first_inside(before, plan.body, plan.shape, self.facts, self.kit))
        made = pieces_of(plan, self.facts, self.kit, plan.shape.passes)
        if isinstance(made, str):
            return ((plan.report.ii, made),)
        return Known(plan, made, flat_iterations(loop, rest, self.kit) if rest else [], loop.trip)

    def _single(self, loop: Loop, live_out: Live) -> Prepared:
        """The loop made ready as it is, once for each choice."""
        settings = self.settings
        seen = registers(live_out) & touched(loop)
        key = settings.text(loop), seen
        if key not in settings.singles:
            settings.singles[key] = prepare(loop, self.facts, self.kit, seen, set())
        return settings.singles[key]

    def _may_be_flat(self, loop: Loop) -> bool:
        """Whether all iterations of the loop may become straight code, whose cycles its intervals don't tell."""
        settings, trip = self.settings, loop.trip if isinstance(loop.trip, int) else 0
        size = trip * len(loop.body)
        return size <= 4 * settings.flat_limit or (size <= _MOST_FLAT and loop.label not in settings.rolled)

    def flat_length(self, loop: Loop, trip: int) -> int:
        """The cycles of all iterations of a short loop as straight code, which the code around it may also fill."""
        settings = self.settings
        if loop.label in settings.rolled or trip * len(loop.body) > _MOST_FLAT:
            return _NEVER
        key = settings.text(loop)
        if key not in settings.flat_lengths:
            ops = straight_ops(flat_iterations(loop, trip, self.kit), self.facts, self.kit, rename=True)
            settings.flat_lengths[key] = listed_length(ops, self.facts)
        return settings.flat_lengths[key]

    def nest(
        self, loop: Loop, live_out: Live, before: Sequence[Instr] = (), flattened: Mapping[str, int] = _NONE
    ) -> NestRun | None:
        """A loop whose inner loops' runs overlap; None where not all of them are pipelined or straight code, or where a
        kernel does several iterations of a loop of unknown trip at once, whose rest would come between the runs."""
        kit = self.kit
        loop = without_idle_streams(loop, registers(live_out), self.facts)
        loop = with_explicit_streams(loop, [s.base for s in loop.streams], kit)
        nest = nest_of(loop, self._may_be_inside)
        if nest is None or loop.label in self.settings.apart_runs | self.apart:
            return None
        if {loop.label, *(inner.label for inner in loops_in(loop.body))} & set(self.settings.plain):
            return None
        counting = LoopControl(loop, kit, apart=True)
        live = live_out | live_before((loop,), live_out, self.facts) | counting.kept(self.facts)
        runs = self._runs(nest, live)
        if runs is None:
            return None
        return NestRun([*before], loop, counting, runs, live, flattened)

    def _may_be_inside(self, loop: Loop) -> bool:
        """Hardware loops are begun again each time: a nest of them overlaps with nothing. Each loop around doubles the
        code."""
        return not self.kit.loops and loop.label not in self.settings.apart_runs and height(loop) <= HIGHEST

    def _runs(self, nest: Nest, live: Live) -> list[Run | NestRun] | None:
        """The loops of a nest one after the other."""
        runs: list[Run | NestRun] = []
        before, flattened = list(nest.straight[0]), dict[str, int]()
        for number, inner in enumerate(nest.inner):
            live_after = nest.live_after(number, live, self.facts)
            run: Run | NestRun | None = None
            if not is_innermost(inner):
                run = self.nest(inner, live_after, before, flattened)
            elif isinstance(inner.trip, VReg):
                run = self._unknown_run(inner, live_after, before, flattened)
            elif isinstance(found := self.known(inner, live_after, before), Known):
                if len(nest.inner) > 1 and (won := found.cycles - self.flat_length(inner, found.trip)) > 0:
                    before += [*flat_iterations(inner, found.trip, self.kit), *nest.straight[number + 1]]
                    flattened[inner.label] = won
                    continue
                passes = found.plan.shape.passes
                run = Run([*before, *found.peeled], found.plan, found.made, passes, live_after, flattened)
            if run is None:
                return None
            runs.append(run)
            before, flattened = list(nest.straight[number + 1]), {}
        if not runs:
            return None
        runs[-1].after, runs[-1].flattened_after = before, flattened
        return runs

    def _unknown_run(self, loop: Loop, live_out: Live, before: list[Instr], flattened: Mapping[str, int]) -> Run | None:
        """A run of a loop whose trip is in a register; its passes are in a new one. None where its kernel does several
        iterations at once."""
        plan = self.plan(with_bases_after(loop, live_out, self.kit), live_out, 1)
        if not isinstance(plan, Plan) or plan.shape.unroll > 1:
            return None
        passes = self.kit.fresh(self.kit.scalar, "m")
        made = pieces_of(plan, self.facts, self.kit, passes)
        return None if isinstance(made, str) else Run(before, plan, made, passes, live_out, flattened)

    def _through(self, loop: Loop, live_out: Live) -> dict[str, int]:
        """How many registers of each class are occupied across a loop that it does not use."""
        counts: dict[str, int] = {}
        for register in self._waiting(loop, live_out):
            counts[self._class(register)] = counts.get(self._class(register), 0) + 1
        return counts

    def _waiting(self, loop: Loop, live_out: Live) -> Iterator[VReg]:
        """The registers occupied across a loop that it does not use, pairs by their halves."""
        used = live_before((loop,), NOTHING, self.facts)
        return (register for register, _ in live_out - used if isinstance(register, VReg))

    def _class(self, register: VReg) -> str:
        return self.facts.counted_as(register.cls)
