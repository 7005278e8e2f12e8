"""Appends blocks to a function: straight code merged with prologs and epilogs, kernels, and nests of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from dspgen.asmir.ir.function import Instr, VReg
from dspgen.sched.graph.forwarding import with_twins
from dspgen.sched.graph.liveness import NOTHING, Live, live_before, registers, remove_dead
from dspgen.sched.graph.rigid_sections import Block, Section
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.graph.unroll import (
    next_iteration,
)
from dspgen.sched.ir.packets import LoopReport, StraightReport
from dspgen.sched.layout.block_layout import Laid, TooStraight
from dspgen.sched.layout.branch_fusion import closings, fewer_packets, with_branch_at_maker
from dspgen.sched.loops.attempt_state import Settings
from dspgen.sched.loops.loop_plans import NestRun, Plans, Run
from dspgen.sched.loops.pipelining import Plan, pieces_of
from dspgen.sched.loops.prologue_copy_elision import initial_reads, with_biased_bases
from dspgen.sched.machine.operations import Op, make_op, relabelled
from dspgen.sched.machine.target_facts import Atom, Facts
from dspgen.sched.modulo.loop_control import NOT_BACK, Back
from dspgen.sched.modulo.modulo_expansion import Pipelined
from dspgen.sched.straight.block_packing import fit_block
from dspgen.sched.straight.list_scheduling import Fitted
from dspgen.sched.straight.prepare import straight_ops

_MOST_STRAIGHT = 640  # operations of one straight piece, where loops were made straight for it


class Appender:
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
        forms, self.live = closings(self.pending, back, self.live, self.facts, self.kit, alone=tail is None)
        pending, back = forms[0]
        ops = straight_ops(pending, self.facts, self.kit, rename=True)
        others = [(straight_ops(code, self.facts, self.kit, rename=True), other) for code, other in forms[1:]]
        self.pending = []
        self._fit(ops, piece, without, (*self.head_owner, *tail_owner), tail, back, through, others)

    def _fit(
        self,
        ops: list[Op],
        piece: int,
        without: Mapping[str, int] | None,
        owner: tuple[str, ...],
        tail: Section | None = None,
        back: Back = NOT_BACK,
        through: bool = True,
        others: Sequence[tuple[list[Op], Back]] = (),
    ) -> None:
        ops, fitted = self._packets(ops, piece, without, tail, back)
        for code, other in others:
            again, made = self._packets(code, piece, without, None, other)
            if with_branch_at_maker(made, again, self.facts) and fewer_packets(made, fitted, self.facts):
                ops, fitted = again, made
        self.head, self.head_owner = None, ()
        end = make_op(back.end, self.facts) if back.end is not None else None
        straight = sum(not op.instruction.branch for op in ops)
        cycles = with_twins(fitted.cycles, ops, self.facts)
        if cycles or end is not None:
            self.append(cycles or [[]], back.target, through, owner, piece=piece, end=end)
            self.laid.blocks[-1].in_use = fitted.in_use
            if straight and fitted.bound:
                self.laid.blocks[-1].report = StraightReport(straight, fitted.length, fitted.bound)

    def _packets(
        self, ops: list[Op], piece: int, without: Mapping[str, int] | None, tail: Section | None, back: Back
    ) -> tuple[list[Op], Fitted]:
        """The operations, with the branch, and their packets."""
        branch = make_op(back.branch, self.facts) if back.branch is not None else None
        fitted = fit_block(
            ops,
            self.facts,
            head=self.head,
            tail=tail,
            branch=branch,
            after=self.live,
            without=without,
            saved=self.kit.saved.union(self.settings.borrowed),
            in_text_order=piece in self.settings.textual or self.settings.method == "order",
            method=self.settings.method,
            searches=self.settings.searches,
        )
        return [*ops, *([branch] if branch is not None else [])], fitted

    def append(
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

    def lead_in(
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

    def steady(self, plan: Plan, made: Pipelined, live_out: Live, passes: int | VReg) -> None:
        """Append the kernel, and keep the epilog for the code that follows."""
        label = plan.loop.label
        outer = self.trips
        if passes != 1:
            self.labels.append(label)
            self.trips = outer * passes if outer is not None and isinstance(passes, int) else None
            self.append(made.kernel, label, True, (label,), steady=True, end=made.end)
            self.trips = outer
        else:
            self.append(made.kernel, None, True, (label,))
        self.drain(plan, made, live_out)
        self.laid.reports.append(plan.report)
        self.laid.intervals[label] = plan.report.ii

    def drain(self, plan: Plan, made: Pipelined, live_out: Live) -> None:
        """Keep the epilog for the code that follows."""
        loop = plan.loop
        self.head, self.head_owner = made.epilog, (loop.label,)
        self.live = live_out
        for stream in plan.streams:
            if stream.base in registers(live_out) and isinstance(loop.trip, int):
                whole = stream.step * (loop.trip // plan.report.unroll)
                self.pending += self.kit.add(stream.base, stream.base, whole)

    def _own_values(self, prolog: Section, needed: Set[Atom]) -> set[Atom]:
        """What the prolog both makes and reads: the code before it needs no registers for that."""
        made = {a for instr in self.pending for a, _ in make_op(instr, self.facts).writes}
        return {a for a in prolog.envelope.lands if a not in made and a not in needed}

    def add(self, instrs: Sequence[Instr], flattened: Mapping[str, int]) -> None:
        self.pending += instrs
        self.flattened.update(flattened)

    def into_run(
        self, run: Run | NestRun, before: Sequence[Instr], back: Back = NOT_BACK, *, again: bool = False
    ) -> None:
        """Append the prolog of an inner loop, or of the first one in a nest, after the straight code before it."""
        self.add(before, run.flattened)
        if isinstance(run, Run):
            self.lead_in(run.plan, run.made, run.live_after, run.passes, back, again)
            return
        trip, counting = run.loop.trip, run.counting
        self.pending += counting.begin(trip - 1) if isinstance(trip, int) else counting.begin_after_first(trip)[0]
        self.into_run(run.runs[0], run.runs[0].before, back, again=again)

    def steady_nest(self, nest: NestRun, last: str | None = None) -> None:
        """Append what comes after the first prolog, but for the last epilog, which is kept for the code that follows;
        the last iteration has the label `last`."""
        loop, runs, outer = nest.loop, nest.runs, self.trips
        first = len(self.laid.blocks)
        self.labels.append(loop.label)
        self.trips = None if outer is None or not isinstance(loop.trip, int) else outer * (loop.trip - 1)
        for k, run in enumerate(runs):
            if k:
                self.into_run(run, run.before)
            if isinstance(run, Run):
                self.steady(run.plan, run.made, run.live_after, run.passes)
            else:
                self.steady_nest(run)
                self.laid.inside[run.loop.label] = loop.label
        once = self.laid.since(first)
        self.add(runs[-1].after, runs[-1].flattened_after)
        step, back = nest.counting.end()
        self.pending += step
        self.head_owner = (*self.head_owner, loop.label)
        again = sum(isinstance(run, Run) for run in nest.every()) == 1
        self.into_run(runs[0], next_iteration(loop, runs[0].before), back, again=again)
        self.trips = outer
        length = sum(len(b.cycles) for b in self.laid.blocks[first:])
        self.laid.overlapped[loop.label] = len(runs)
        trip = loop.trip if isinstance(loop.trip, int) else None
        self.laid.reports.append(LoopReport(loop.label, loop.loc, False, length, 0, 0, 1, 1, trip))
        if last is not None:
            self.labels.append(last)
        self._copies(once, nest)
        self._drained(nest)

    def _drained(self, nest: NestRun) -> None:
        """Keep the last epilog in a nest for the code that follows, which what ends the bodies is part of."""
        run = nest.runs[-1]
        if isinstance(run, Run):
            self.drain(run.plan, run.made, run.live_after)
        else:
            self._drained(run)
        self.add(run.after, run.flattened_after)

    def _copies(self, blocks: Sequence[tuple[Block, tuple[str, ...], int]], nest: NestRun) -> None:
        """Append blocks of a loop's body again, for its last iteration."""
        suffix = "_last" if all(isinstance(run, Run) for run in nest.runs) else f"_last_{nest.loop.label}"
        names = {block.target: f"{block.target}{suffix}" for block, _, _ in blocks if block.target is not None}
        first, run, others = blocks[0][0], nest.runs[0], nest.loop.trip
        if first.end is not None and first.target is not None and isinstance(run, Run):
            self.pending += self.kit.begin_loop(0, names[first.target], run.passes)
            self.flush()
        outer = self.trips
        for block, owner, piece in blocks:
            cycles = [[(relabelled(op, names, self.facts), unit) for op, unit in p] for p in block.cycles]
            self.labels += [names[label] for label in block.labels if label in names]
            target = names[block.target] if block.target is not None else None
            self.trips = block.trips // (others - 1) if block.trips is not None and isinstance(others, int) else None
            self.append(cycles, target, block.through, owner, steady=block.steady, piece=piece, end=block.end)
            self.laid.blocks[-1].in_use, self.laid.blocks[-1].report = block.in_use, block.report
        self.trips = outer
