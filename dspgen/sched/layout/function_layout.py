"""Lays a function out as blocks: straight code merged with prologs and epilogs, kernels, plain loops, conditionals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from dspgen.asmir.ir.function import If, Instr, Item, Jump, Loop, Mark, Predicate, VReg
from dspgen.errors import NoSchedule
from dspgen.sched.graph.liveness import Live, live_around, live_before, registers
from dspgen.sched.graph.rigid_sections import stand_still
from dspgen.sched.graph.unroll import (
    flat_iterations,
    is_innermost,
    with_bases_after,
    with_explicit_streams,
    without_idle_streams,
)
from dspgen.sched.ir.packets import LoopReport
from dspgen.sched.layout.appender import Appender
from dspgen.sched.layout.block_layout import Laid, RunsCollide
from dspgen.sched.loops.loop_plans import Known, NestRun, Run
from dspgen.sched.loops.outer_loops import relabelled_loops
from dspgen.sched.loops.pipelining import Plan, pieces_of
from dspgen.sched.modulo.loop_control import NOT_BACK, Back, LoopControl
from dspgen.sched.straight.list_scheduling import EndsCollide

_MOST_STRAIGHT = 640  # operations of one straight piece, where loops were made straight for it


class Layout(Appender):
    """Lays out the items of a function, loops as the plans for them tell."""

    def body(self, items: Sequence[Item], live_after: Live) -> None:
        live = live_around(items, live_after, self.facts)
        for k, item in enumerate(items):
            if isinstance(item, Instr):
                self.pending.append(item)
                continue
            self.live = live[k]
            match item:
                case Loop():
                    self._loop(item, live[k + 1])
                case Mark(name, idle):
                    before = len(self.laid.blocks)
                    self.flush()
                    if len(self.laid.blocks) > before:
                        stand_still(self.laid.blocks[-1], idle)
                    self.labels.append(name)
                    self.trips = None
                case Jump(branch=branch, keeps=keeps):
                    kept = frozenset(a for register in keeps for a in self.facts.atoms(register))
                    self.flush(back=Back(item.target, branch, after=live[k + 1] | kept), through=item.conditional)
                    self.trips = None
                case If():
                    self._choice(item, live[k + 1])
        self.live = live_after

    # -- loops

    def _loop(self, loop: Loop, live_out: Live) -> None:
        if loop.trip == 0:
            return
        if isinstance(loop.trip, VReg) and loop.min_trip <= 0:
            if self._pipelined(loop) and self._unknown(loop, live_out) is None:
                return
            sure = replace(loop, min_trip=1)
            after = live_out | live_before((sure,), live_out, self.facts)
            self._if(loop.trip, lambda: self._loop(sure, live_out), after=after)
            return
        if loop.trip == 1 and isinstance(loop.trip, int):
            self.body(with_explicit_streams(loop, [s.base for s in loop.streams], self.kit).body, live_out)
            return
        tried: tuple[tuple[int, str], ...] = (
            (self.settings.plain[loop.label],) if loop.label in self.settings.plain else ()
        )
        if self._pipelined(loop):
            outcome = self._known(loop, live_out) if isinstance(loop.trip, int) else self._unknown(loop, live_out)
            if outcome is None:
                return
            tried = outcome
        try:
            overlapped = not is_innermost(loop) and self._overlapped(loop, live_out)
        except EndsCollide:
            raise RunsCollide(loop.label) from None
        if not overlapped:
            self._plain(loop, live_out, tried)

    def _pipelined(self, loop: Loop) -> bool:
        """Whether to pipeline it by itself, if that can be."""
        settings = self.settings
        return is_innermost(loop) and loop.pipeline and settings.pipeline and loop.label not in settings.plain

    def _known(self, loop: Loop, live_out: Live) -> tuple[tuple[int, str], ...] | None:
        """Pipeline a loop of known trip; None if that was done, else what was tried."""
        if isinstance(found := self.plans.known(loop, live_out, self.pending), Known):
            if (won := found.cycles - self.plans.flat_length(loop, found.trip)) > 0:
                self.flattened[loop.label] = won
                self.pending += flat_iterations(loop, found.trip, self.kit)
                return None
            self.pending += found.peeled
            self.lead_in(found.plan, found.made, live_out, found.plan.shape.passes)
            self.steady(found.plan, found.made, live_out, found.plan.shape.passes)
            return None
        if isinstance(loop.trip, int) and loop.trip * len(loop.body) <= 4 * self.settings.flat_limit:
            self.pending += flat_iterations(loop, loop.trip, self.kit)
            return None
        return found

    def _unknown(self, loop: Loop, live_out: Live) -> tuple[tuple[int, str], ...] | None:
        """Pipeline a loop whose trip is in a register: a plain loop takes short trips and what the kernel leaves.

        With S stages and U iterations in a pass of the kernel, n >= S - 1 + U iterations make (n - (S - 1)) // U
        passes after (n - (S - 1)) mod U plain iterations. A loop that is known to have so many needs no other way.
        """
        kit, facts = self.kit, self.facts
        trip = loop.trip
        if not isinstance(trip, VReg):
            return ()
        loop = with_bases_after(loop, live_out, kit)
        plan = self.plans.plan(loop, live_out, 1)
        if not isinstance(plan, Plan):
            return tuple(plan)
        before, unroll = plan.shape.before, plan.shape.unroll
        large, after_prolog, passes, rest = (kit.fresh(kit.scalar, hint) for hint in ("large", "q", "m", "rest"))
        sure = loop.min_trip >= before + unroll
        try:
            setup = [] if sure else kit.exceeds(large, trip, before + unroll - 1)
            setup += kit.add(after_prolog, trip, -before)
            setup += kit.binary("shr", passes, after_prolog, unroll.bit_length() - 1)
            left = kit.binary("and", rest, after_prolog, unroll - 1)
            if not sure:
                setup += kit.move(rest, trip)
                # A copy for the predicate: the original lives on, and need not sit in a predicate register.
                now = kit.fresh(kit.scalar, "if")
                setup += kit.move(now, large)
                left = kit.when(now, left)
            setup += left if not sure or unroll > 1 else []
        except NoSchedule as error:
            return ((plan.report.ii, str(error)),)
        made = pieces_of(plan, facts, kit, passes)
        if isinstance(made, str):
            return ((plan.report.ii, made),)
        self.pending += setup
        short = replace(loop, label=f"{loop.label}_rest", trip=rest, min_trip=1)
        live = live_out | live_before((loop,), live_out, facts) | {(passes, "")} | (set() if sure else {(large, "")})

        def all_passes() -> None:
            self.lead_in(plan, made, live_out, passes)
            self.steady(plan, made, live_out, passes)

        def every() -> None:
            if not sure or unroll > 1:
                self._if(rest, lambda: self._plain(short, live, ()))
            if sure:
                all_passes()
            else:
                self._if(large, all_passes)

        if loop.min_trip > 0:
            every()
        else:  # what is computed above is beside the branch
            self._if(trip, every, after=live | live_before((short,), live, facts))
        return None

    def _overlapped(self, loop: Loop, live_out: Live) -> bool:
        """A loop round pipelined ones, or round loops round these: each epilog runs with the next prolog; False where
        it can't be done.

        Before: A; prolog; kernel; epilog; B: so in each iteration.
        After:  A; prolog, then kernel; epilog + B + A + prolog in all iterations but the last, then kernel; epilog; B.
        With several inner loops, each but the last is followed by its epilog with the next one's prolog.
        """
        kit = self.kit
        nest = self.plans.nest(loop, live_out) if self.settings.pipeline else None
        if nest is None:
            return False
        end = self._where_long(nest, live_out)
        last = NOT_BACK
        if isinstance(loop.trip, int):
            self.pending += nest.counting.begin(loop.trip - 1)
        else:
            setup, left = nest.counting.begin_after_first(loop.trip)
            only = kit.fresh(kit.scalar, "if")
            self.pending += [*setup, *kit.move(only, left)]
            label = f"{loop.label}_last"
            last = Back(label, kit.branch(label, Predicate(only, negated=True)), only)
        self.into_run(nest.runs[0], nest.runs[0].before, last)
        self.steady_nest(nest, last.target)
        self.live = live_out
        if end is not None:
            self.flush()
            self.labels.append(end)
        return True

    def _where_long(self, nest: NestRun, live_out: Live) -> str | None:
        """Where trips of loops in the nest are in registers, append the nest without such overlap, for trips too short
        for the kernels. Returns the label after all; what is appended next runs for longer trips only.

        After:  if all trips are long enough, go to `long`; the nest, one iteration after the other; go to `done`; long:
        """
        kit, loop, live = self.kit, nest.loop, nest.live
        long: list[VReg] = []
        for run in nest.every():
            inner, least = (run.loop, 2) if isinstance(run, NestRun) else (run.plan.loop, run.least)
            if not isinstance(inner.trip, VReg):
                continue
            if inner.min_trip < least:
                long.append(kit.fresh(kit.scalar, "long"))
                self.pending += kit.exceeds(long[-1], inner.trip, least - 1)
            if isinstance(run, Run) and isinstance(run.passes, VReg):
                self.pending += kit.add(run.passes, inner.trip, -run.plan.shape.before)
                live = live.union(self.facts.atoms(run.passes))
        if not long:
            if live != nest.live:
                self.live = live
                self.flush()
            return None
        for other in long[1:]:
            self.pending += kit.binary("and", long[0], long[0], other)
        begin, end = f"{loop.label}_long", f"{loop.label}_done"
        now = kit.fresh(kit.scalar, "if")
        self.pending += kit.move(now, long[0])
        self.live = live
        self.flush(back=Back(begin, kit.branch(begin, Predicate(now))))
        outer, self.trips = self.trips, None
        deep = [run for run in nest.every() if isinstance(run, NestRun)]
        # Runs of the innermost loops may still overlap by themselves.
        self.plans.apart |= {f"{run.loop.label}_short" for run in deep if any(isinstance(r, NestRun) for r in run.runs)}
        body = relabelled_loops(loop.body, "_short", pipeline=bool(deep))
        self._plain(replace(loop, label=f"{loop.label}_short", body=body), live_out, ())
        self.live = live_out
        self.flush(back=Back(end, kit.branch(end)), through=False)
        self.trips = outer
        self.labels.append(begin)
        return end

    def _plain(self, loop: Loop, live_out: Live, tried: tuple[tuple[int, str], ...]) -> None:
        """A loop with its own counter, one iteration after the other."""
        kit = self.kit
        counting = LoopControl(loop, kit, apart=not is_innermost(loop))
        self.pending += counting.begin(loop.trip)
        self.flush()
        self.labels.append(loop.label)
        first = len(self.laid.blocks)
        outer = self.trips
        self.trips = None if outer is None or not isinstance(loop.trip, int) else outer * loop.trip
        loop = without_idle_streams(loop, registers(live_out), self.facts)
        loop = with_explicit_streams(loop, [s.base for s in loop.streams], kit)
        live = live_out | live_before((loop,), live_out, self.facts) | counting.kept(self.facts)
        self.body(loop.body, live)
        step, back = counting.end()
        self.pending += step
        self.flush(back=back)
        self.trips = outer
        length = sum(len(b.cycles) for b in self.laid.blocks[first:])
        self.laid.reports.append(
            LoopReport(
                loop.label, loop.loc, False, length, 0, 0, 1, 1, loop.trip if isinstance(loop.trip, int) else None,
                tried=tried,
            )
        )  # fmt: skip

    # -- conditionals and the end

    def _choice(self, item: If, live_after: Live) -> None:
        parts = [item.then, item.otherwise] if item.otherwise else [item.then]
        live = [live_before(part, live_after, self.facts) for part in parts]
        after = live[0].union(live_after if len(live) == 1 else live[1])
        self._if(item.condition, *(partial(self.body, part, live_after) for part in parts), after=after)

    def _if(
        self,
        condition: VReg,
        then: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
        *,
        after: Live | None = None,
    ) -> None:
        """`after` is what may be read from here on, if that is known."""
        self._skips += 1
        label = f"{self.name}_S{self._skips}"
        predicate = self.kit.fresh(self.kit.scalar, "if")
        self.pending += self.kit.move(predicate, condition)
        self.flush(back=Back(label, self.kit.branch(label, Predicate(predicate, negated=True)), after=after))
        outer, self.trips = self.trips, None
        then()
        if otherwise is None:
            self.flush()
        else:
            end = f"{label}_end"
            self.flush(back=Back(end, self.kit.branch(end)), through=False)
            self.labels.append(label)
            otherwise()
            self.flush()
            label = end
        self.trips = outer
        self.labels.append(label)

    def finish(self, leave: Sequence[Instr], back: Instr) -> Laid:
        """Close the function: stack pointers back, and the return with its delay slots."""
        self.pending += leave
        self.flush(back=Back(None, back), through=False)
        return self.laid
