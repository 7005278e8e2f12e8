"""Lays a function out as blocks: straight code merged with prologs and epilogs, kernels, plain loops, conditionals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

from dspgen.asmir.ir import If, Instr, Item, Jump, Loop, Mark, Predicate, VReg
from dspgen.errors import NoSchedule
from dspgen.sched.control import NOT_BACK, Back, LoopControl
from dspgen.sched.expand import Pipelined
from dspgen.sched.facts import Atom, Facts
from dspgen.sched.fit import fit_block
from dspgen.sched.forwarding import with_twins
from dspgen.sched.initial import initial_reads, with_biased_bases
from dspgen.sched.ir import LoopReport, StraightReport
from dspgen.sched.kit import Kit
from dspgen.sched.laid import Laid, RunsCollide, TooStraight
from dspgen.sched.list_sched import EndsCollide
from dspgen.sched.live import NOTHING, Live, live_around, live_before, registers, remove_dead
from dspgen.sched.nests import nest_of
from dspgen.sched.ops import Op, make_op, relabelled
from dspgen.sched.pipelining import Plan, pieces_of
from dspgen.sched.plans import Known, Plans, Run
from dspgen.sched.sections import Block, Section, stand_still
from dspgen.sched.settings import Settings
from dspgen.sched.straight import straight_ops
from dspgen.sched.unroll import (
    flat_iterations,
    is_innermost,
    next_iteration,
    with_bases_after,
    with_explicit_streams,
    without_idle_streams,
)

_MOST_STRAIGHT = 640  # operations of one straight piece, where loops were made straight for it


class Layout:
    """Appends blocks; `pending` is straight code not yet scheduled, `head` the epilog that it may overlap."""

    def __init__(self, facts: Facts, kit: Kit, settings: Settings, name: str) -> None:
        self.facts, self.kit, self.settings, self.name = facts, kit, settings, name
        self.plans = Plans(facts, kit, settings)
        self.laid = Laid([], [], [], [], {})
        self.pending: list[Instr] = []
        self.head: Section | None = None
        self.head_owner: tuple[str, ...] = ()
        self.flattened: dict[str, int] = {}  # loops all of whose iterations are pending code, and the cycles that wins
        self.labels: list[str] = []
        self.trips: int | None = 1
        self.live: Live = NOTHING  # what is read after the pending code
        self._skips = 0
        self._pieces = 0

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
                case Jump(branch=branch):
                    self.flush(back=Back(item.target, branch), through=item.conditional)
                    self.trips = None
                case If():
                    self._if(item.condition, lambda item=item, k=k: self.body(item.then, live[k + 1]))  # type: ignore[misc]
        self.live = live_after

    def flush(
        self,
        *,
        tail: Section | None = None,
        tail_owner: tuple[str, ...] = (),
        back: Back = NOT_BACK,
        through: bool = True,
    ) -> None:
        """Schedule the pending code as a block; in pieces of its own where the registers did not suffice. Raises
        TooStraight."""
        if not self.pending and self.head is None and tail is None and back.target is None and back.branch is None:
            return
        piece, self._pieces = self._pieces, self._pieces + 1
        if self.flattened:
            if len(self.pending) > _MOST_STRAIGHT:
                raise TooStraight(self.flattened)
            self.laid.flattened[piece] = dict(self.flattened)
            self.flattened.clear()
        without = self.settings.frugal.get(piece)
        if piece in self.settings.apart:
            owner = (*self.head_owner, *tail_owner)
            if self.head is not None:
                self._fit([], piece, without, owner)
            if tail is not None and self.pending:
                ops = straight_ops(self.pending, self.facts, self.kit, rename=True)
                self.pending = []
                self._fit(ops, piece, without, owner)
        ops = straight_ops(self.pending, self.facts, self.kit, rename=True)
        self.pending = []
        self._fit(ops, piece, without, (*self.head_owner, *tail_owner), tail, back, through)

    def _fit(
        self,
        ops: list[Op],
        piece: int,
        without: Mapping[str, int] | None,
        owner: tuple[str, ...],
        tail: Section | None = None,
        back: Back = NOT_BACK,
        through: bool = True,
    ) -> None:
        fitted = fit_block(
            ops,
            self.facts,
            head=self.head,
            tail=tail,
            branch=make_op(back.branch, self.facts) if back.branch is not None else None,
            after=self.live,
            without=without,
            in_text_order=piece in self.settings.textual or self.settings.method == "order",
            method=self.settings.method,
            searches=self.settings.searches,
        )
        self.head, self.head_owner = None, ()
        end = make_op(back.end, self.facts) if back.end is not None else None
        cycles = with_twins(fitted.cycles, ops, self.facts)
        if cycles or end is not None:
            self._append(cycles or [[]], back.target, through, owner, piece=piece, end=end)
            self.laid.blocks[-1].in_use = fitted.in_use
            if ops and fitted.bound:
                self.laid.blocks[-1].report = StraightReport(len(ops), fitted.length, fitted.bound)

    def _append(
        self,
        cycles: list[list[tuple[Op, int]]],
        target: str | None,
        through: bool,
        owner: tuple[str, ...],
        *,
        steady: bool = False,
        piece: int = -1,
        end: Op | None = None,
    ) -> None:
        self.laid.blocks.append(Block(self.labels, cycles, target, through, self.trips, steady, end=end))
        self.laid.owners.append(owner)
        self.laid.pieces.append(piece)
        self.labels = []

    # -- loops

    def _loop(self, loop: Loop, live_out: Live) -> None:
        if loop.trip == 0:
            return
        if isinstance(loop.trip, VReg) and loop.min_trip <= 0:
            sure = replace(loop, min_trip=1)
            self._if(loop.trip, lambda: self._loop(sure, live_out))
            return
        if loop.trip == 1 and isinstance(loop.trip, int):
            self.body(with_explicit_streams(loop, [s.base for s in loop.streams], self.kit).body, live_out)
            return
        tried: tuple[tuple[int, str], ...] = (
            (self.settings.plain[loop.label],) if loop.label in self.settings.plain else ()
        )
        if is_innermost(loop) and loop.pipeline and self.settings.pipeline and loop.label not in self.settings.plain:
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

    def _known(self, loop: Loop, live_out: Live) -> tuple[tuple[int, str], ...] | None:
        """Pipeline a loop of known trip; None if that was done, else what was tried."""
        if isinstance(found := self.plans.known(loop, live_out, self.pending), Known):
            if (won := found.cycles - self.plans.flat_length(loop, found.trip)) > 0:
                self.flattened[loop.label] = won
                self.pending += flat_iterations(loop, found.trip, self.kit)
                return None
            self.pending += found.peeled
            self._lead_in(found.plan, found.made, live_out, found.plan.shape.passes)
            self._steady(found.plan, found.made, live_out, found.plan.shape.passes)
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
        if not sure or unroll > 1:
            self._if(rest, lambda: self._plain(short, live, ()))

        def long() -> None:
            self._lead_in(plan, made, live_out, passes)
            self._steady(plan, made, live_out, passes)

        if sure:
            long()
        else:
            self._if(large, long)
        return None

    def _lead_in(
        self,
        plan: Plan,
        made: Pipelined,
        live_out: Live,
        passes: int | VReg,
        back: Back = NOT_BACK,
        again: bool = False,
    ) -> None:
        """Append the prolog, with the pending code before and between, and at its end what goes `back`. `again`:
        constants of the loop are in their registers from the run before."""
        loop = plan.loop
        initial = initial_reads(self.pending, plan.body, plan.shape, self.facts, self.kit)
        if initial.reads:
            better = pieces_of(plan, self.facts, self.kit, passes, initial.reads)
            if not isinstance(better, str):
                made = better
                self.pending += initial.setup
        bases = {s.base for s in plan.streams}
        needed = live_before((loop,), live_out, self.facts)
        inside = {a for a in needed if a[0] not in initial.replaced and (a[0] not in bases or a in live_out)}
        wanted = {*inside, *(a for a in made.prolog.envelope.reads if a[0] not in initial.replaced)}
        for register in (*(g.base for g in plan.body.groups), made.counter, back.read):
            if register is not None:
                wanted.update(self.facts.atoms(register))
        constants = [] if again else made.constants
        before = with_biased_bases(
            [*self.pending, *plan.setup, *constants, *made.entry], plan.body.groups, self.facts, self.kit
        )
        self.pending = remove_dead(before, wanted, self.facts)
        self.live = frozenset(wanted) - self._own_values(made.prolog, inside)
        self.flush(tail=made.prolog, tail_owner=(loop.label,), back=back)

    def _steady(self, plan: Plan, made: Pipelined, live_out: Live, passes: int | VReg) -> None:
        """Append the kernel, and keep the epilog for the code that follows."""
        label = plan.loop.label
        outer = self.trips
        if passes != 1:
            self.labels.append(label)
            self.trips = outer * passes if outer is not None and isinstance(passes, int) else None
            self._append(made.kernel, label, True, (label,), steady=True, end=made.end)
            self.trips = outer
        else:
            self._append(made.kernel, None, True, (label,))
        self._drain(plan, made, live_out)
        self.laid.reports.append(plan.report)
        self.laid.intervals[label] = plan.report.ii

    def _drain(self, plan: Plan, made: Pipelined, live_out: Live) -> None:
        """Keep the epilog for the code that follows."""
        loop = plan.loop
        self.head, self.head_owner = made.epilog, (loop.label,)
        self.live = live_out
        for stream in plan.streams:
            if stream.base in registers(live_out) and isinstance(loop.trip, int):
                whole = stream.step * (loop.trip // plan.report.unroll)
                self.pending += self.kit.add(stream.base, stream.base, whole)

    def _overlapped(self, loop: Loop, live_out: Live) -> bool:
        """A loop round pipelined ones: each epilog runs with the next prolog; False where it can't be done.

        Before: A; prolog; kernel; epilog; B: so in each iteration.
        After:  A; prolog, then kernel; epilog + B + A + prolog in all iterations but the last, then kernel; epilog; B.
        With several inner loops, each but the last is followed by its epilog with the next one's prolog.
        """
        kit, settings = self.kit, self.settings
        loop = without_idle_streams(loop, registers(live_out), self.facts)
        loop = with_explicit_streams(loop, [s.base for s in loop.streams], kit)
        nest = nest_of(loop)
        if nest is None or not settings.pipeline or loop.label in settings.apart_runs:
            return False
        if {loop.label, *(inner.label for inner in nest.inner)} & set(settings.plain):
            return False
        counting = LoopControl(loop, kit, apart=True)
        live = live_out | live_before((loop,), live_out, self.facts) | counting.kept(self.facts)
        runs = self.plans.runs(nest, live)
        if runs is None:
            return False
        end = self._where_long(loop, runs, live, live_out)
        last = NOT_BACK
        if isinstance(loop.trip, int):
            self.pending += counting.begin(loop.trip - 1)
        else:
            setup, left = counting.begin_after_first(loop.trip)
            only = kit.fresh(kit.scalar, "if")
            self.pending += [*setup, *kit.move(only, left)]
            label = f"{loop.label}_last"
            last = Back(label, kit.branch(label, Predicate(only, negated=True)), only)
        outer = self.trips
        self._into_run(runs[0], runs[0].before, last)
        first = len(self.laid.blocks)
        self.labels.append(loop.label)
        self.trips = None if outer is None or not isinstance(loop.trip, int) else outer * (loop.trip - 1)
        for k, run in enumerate(runs):
            if k:
                self._into_run(run, run.before)
            self._steady(run.plan, run.made, run.live_after, run.passes)
        once = self.laid.since(first)
        self._add(runs[-1].after, runs[-1].flattened_after)
        step, back = counting.end()
        self.pending += step
        self.head_owner = (*self.head_owner, loop.label)
        self._into_run(runs[0], next_iteration(loop, runs[0].before), back, again=len(runs) == 1)
        self.trips = outer
        length = sum(len(b.cycles) for b in self.laid.blocks[first:])
        self.laid.overlapped[loop.label] = len(runs)
        self.laid.reports.append(
            LoopReport(
                loop.label, loop.loc, False, length, 0, 0, 1, 1, loop.trip if isinstance(loop.trip, int) else None
            )
        )  # fmt: skip
        if last.target is not None:
            self.labels.append(last.target)
        self._copies(once, {run.plan.loop.label: run.passes for run in runs})
        self._drain(runs[-1].plan, runs[-1].made, runs[-1].live_after)
        self._add(runs[-1].after, runs[-1].flattened_after)
        self.live = live_out
        if end is not None:
            self.flush()
            self.labels.append(end)
        return True

    def _where_long(self, loop: Loop, runs: Sequence[Run], live: Live, live_out: Live) -> str | None:
        """Where trips of inner loops are in registers, append the nest without pipelining, for trips too short for the
        kernels. Returns the label after all; what is appended next runs for longer trips only.

        After:  if all trips are long enough, go to `long`; the nest, one iteration after the other; go to `done`; long:
        """
        kit = self.kit
        long: list[VReg] = []
        for run in runs:
            trip, passes = run.plan.loop.trip, run.passes
            if isinstance(trip, VReg) and isinstance(passes, VReg):
                long.append(kit.fresh(kit.scalar, "long"))
                self.pending += kit.exceeds(long[-1], trip, run.least - 1)
                self.pending += kit.add(passes, trip, -run.plan.shape.before)
                live = live.union(self.facts.atoms(passes))
        if not long:
            return None
        for other in long[1:]:
            self.pending += kit.binary("and", long[0], long[0], other)
        begin, end = f"{loop.label}_long", f"{loop.label}_done"
        now = kit.fresh(kit.scalar, "if")
        self.pending += kit.move(now, long[0])
        self.live = live
        self.flush(back=Back(begin, kit.branch(begin, Predicate(now))))
        outer, self.trips = self.trips, None
        body = tuple(
            replace(item, label=f"{item.label}_short", pipeline=False) if isinstance(item, Loop) else item
            for item in loop.body
        )
        self._plain(replace(loop, label=f"{loop.label}_short", body=body), live_out, ())
        self.live = live_out
        self.flush(back=Back(end, kit.branch(end)), through=False)
        self.trips = outer
        self.labels.append(begin)
        return end

    def _add(self, instrs: Sequence[Instr], flattened: Mapping[str, int]) -> None:
        self.pending += instrs
        self.flattened.update(flattened)

    def _into_run(self, run: Run, before: Sequence[Instr], back: Back = NOT_BACK, *, again: bool = False) -> None:
        """Append the prolog of an inner loop, after the straight code before it."""
        self._add(before, run.flattened)
        self._lead_in(run.plan, run.made, run.live_after, run.passes, back, again)

    def _copies(self, blocks: Sequence[tuple[Block, tuple[str, ...], int]], passes: Mapping[str, int | VReg]) -> None:
        """Append blocks of a loop's body again, for its last iteration; kernels make so many `passes`."""
        outer = self.trips
        names = {block.target: f"{block.target}_last" for block, _, _ in blocks if block.target is not None}
        first = blocks[0][0]
        if first.end is not None and first.target is not None:
            self.pending += self.kit.begin_loop(0, names[first.target], passes[first.target])
            self.flush()
        for block, owner, piece in blocks:
            cycles = [[(relabelled(op, names, self.facts), unit) for op, unit in p] for p in block.cycles]
            if block.target is None:
                self._append(cycles, None, True, owner, piece=piece)
                self.laid.blocks[-1].in_use, self.laid.blocks[-1].report = block.in_use, block.report
                continue
            self.labels.append(names[block.target])
            times = passes[block.target]
            self.trips = outer * times if outer is not None and isinstance(times, int) else None
            self._append(cycles, names[block.target], True, owner, steady=True, end=block.end)
            self.trips = outer

    def _own_values(self, prolog: Section, needed: Set[Atom]) -> set[Atom]:
        """What the prolog both makes and reads: the code before it needs no registers for that."""
        made = {a for instr in self.pending for a, _ in make_op(instr, self.facts).writes}
        return {a for a in prolog.envelope.lands if a not in made and a not in needed}

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

    def _if(self, condition: VReg, then: Callable[[], None]) -> None:
        self._skips += 1
        label = f"{self.name}_S{self._skips}"
        predicate = self.kit.fresh(self.kit.scalar, "if")
        self.pending += self.kit.move(predicate, condition)
        self.flush(back=Back(label, self.kit.branch(label, Predicate(predicate, negated=True))))
        outer, self.trips = self.trips, None
        then()
        self.flush()
        self.trips = outer
        self.labels.append(label)

    def finish(self, leave: Sequence[Instr], back: Instr) -> Laid:
        """Close the function: stack pointers back, and the return with its delay slots."""
        self.pending += leave
        self.flush(back=Back(None, back), through=False)
        return self.laid
