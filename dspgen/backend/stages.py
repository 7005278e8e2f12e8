"""The stages below tiling: from a plan, or a vector program, to scheduled packets, and a run of the emitted text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from dspgen.asmir.ir.function import Function, instruction_count, loops_in
from dspgen.asmir.lower import lower
from dspgen.backend.probe_sizes import trial_sizes
from dspgen.emit.asm import emit_asm
from dspgen.emit.needs import Room
from dspgen.errors import NoSchedule, OutOfBounds, Problem, SourceError, TooLarge
from dspgen.options import Options, RewriteMode
from dspgen.rewrite.cost.operation_costs import machine_of
from dspgen.rewrite.optimize import OUTSIDE, Effort, Optimised, Remark, optimise
from dspgen.sched.graph.lower_bound import least_cycles
from dspgen.sched.graph.predicated_branches import with_shorter_choices
from dspgen.sched.ir.packets import LoopReport, Method, Scheduled
from dspgen.sched.scheduler import schedule
from dspgen.sim.lowering.from_packets import packets_of
from dspgen.sim.lowering.load import STACK
from dspgen.sim.run import Engine, SimResult, cycles_only, simulate
from dspgen.sim.text.round_trip import refuse_illegible
from dspgen.target.isa.model import Target
from dspgen.target.query.operations import OperationTable
from dspgen.target.query.views import views, with_arguments
from dspgen.tiling.candidates import Choice
from dspgen.vecdsl.analysis.arithmetic_bound import loop_arithmetic
from dspgen.vecdsl.analysis.integer_ranges import in_word, readable
from dspgen.vecdsl.analysis.lane_masks import Pattern, group_masks
from dspgen.vecdsl.analysis.loop_origins import outermost_loops
from dspgen.vecdsl.build.program_builder import build
from dspgen.vecdsl.ir.program import ELEM_BYTES, Const, Elem, Loop, Program
from dspgen.vecdsl.ir.terms import statements
from dspgen.vecdsl.lanes.align_copies import skew
from dspgen.vecdsl.lanes.narrow_arithmetic import narrowed
from dspgen.vecdsl.lanes.reverse_stores import straighten
from dspgen.vecdsl.lanes.shuffle_gathers import deal, dealer
from dspgen.vecdsl.lanes.subword_access import by_words
from dspgen.vecdsl.lanes.unsigned_loads import EXTENSIONS, signed_memory
from dspgen.vecdsl.lanes.widen_dead_lanes import whole_where_overwritten
from dspgen.vecdsl.loops.early_exits import with_early_exits
from dspgen.vecdsl.loops.loop_invariant_motion import hoist
from dspgen.vecdsl.loops.parallel_accumulators import shorten_chains
from dspgen.vecdsl.loops.peel_last_iteration import with_last_rows_apart
from dspgen.vecdsl.loops.reduction_sinking import join_once
from dspgen.vecdsl.loops.register_promotion import promote
from dspgen.vecdsl.loops.simplify import simplify
from dspgen.vecdsl.loops.transpose_reduce import with_joined_rows
from plant_core.analysis.dependence import Dependence
from plant_core.analysis.runtime_parameters import varying_parameters
from plant_core.ir.c_semantics import NUMPY
from plant_core.ir.func import Buf, Comp, Func, ScalarParam
from plant_core.ir.loop_tree import Tree
from plant_core.scan.tile_plan_codegen import generate
from plant_core.support.isl_budget import at_most
from plant_core.tile_plan.legality import check_legal
from plant_core.tile_plan.plan import Plan

CANDIDATE_ATTEMPTS = 12
CANDIDATE_STRAIGHT = 400  # operations of straight code that must find registers soon
CANDIDATE_PLACED = 8_000  # operations, in search of loop schedules
CANDIDATE_LOOK = 40_000  # operations, in search of short straight code
CANDIDATE_SETS = 2_000_000  # operations on integer sets, some four of them in a microsecond
SPARE = 2  # times the instructions of a candidate, before moves are coalesced
_WAIT = 0.95  # the share of a loop's arithmetic that a sum may wait for itself
COPIES = 4  # the part of the stack's memory that copies of arrays may take
SPILL_ROOM = 8192  # bytes of stack besides local arrays

OnStage = Callable[[str, object], None]
Stages = list[tuple[str, object]]
Packets = dict[tuple[Function, int], Scheduled | NoSchedule]  # of linear assembly, by the room of a candidate; or 0


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan's code as far as no rewriting touches it: its loop tree (None where the function was unrolled as a whole),
    its vector program, and `promoted`, the same with memory kept in registers. `in_place` is `promoted` with no arrays
    copied into step, where some were. `fewer`: outermost loops that are rewritten by these rules at most."""

    func: Func
    tree: Tree | None
    built: Program
    promoted: Program
    in_place: Program | None = None
    fewer: tuple[tuple[str, RewriteMode], ...] = ()

    def with_fewer(self, rules: Mapping[str, RewriteMode]) -> Planned:
        """The same, where loops of nothing but comps in `rules` that agree are rewritten by these at most; and so the
        code outside of loops."""
        if self.tree is None:
            return self
        loops = outermost_loops(self.tree, self.built)
        outside = {c.name for c in self.func.comps}.difference(*loops.values())
        wanted = ((i, {rules.get(c) for c in comps}) for i, comps in ((OUTSIDE, outside), *loops.items()))
        return replace(self, fewer=tuple((i, m) for i, found in wanted if len(found) == 1 for m in found if m))

    @property
    def has_loops(self) -> bool:
        """Whether any of it is in loops."""
        return _has_loops(self.built)


@dataclass(frozen=True, slots=True)
class Padding:
    """Bytes before and after an array that code compiled for `size` bytes of it may read; `blended`: stores of some
    lanes write back the others as they were."""

    size: int
    before: int
    after: int
    blended: bool = False

    def around(self, size: int) -> tuple[int, int, int]:
        """Return the bytes before and after an array of `size` bytes that may be read, and those after it that may be
        written back as they were, in the room for a larger array."""
        spare = max(self.size - size, 0)
        return self.before, self.after + spare, spare if self.blended else 0


@dataclass(frozen=True, slots=True)
class Compiled:
    """All that compiling one function made, stage by stage. `source` is the function as written; `choices` are empty
    where it was unrolled as a whole; `tiles` tells the plans in words; `rooms`: of arrays whose sizes are known at run
    time only, the function's own too, what there is room for (with a larger one, the code does nothing); `conditions`:
    what a caller must see to; `padding`: of arrays, the stack's too, where accesses beyond it are faults."""

    source: Func
    planned: Planned
    choices: tuple[Choice, ...]
    program: Program
    assembly: Function
    scheduled: Scheduled
    asm: str
    remarks: tuple[Remark, ...]
    compile_seconds: float
    tiles: tuple[str, ...] = ()
    rooms: tuple[Room, ...] = ()
    conditions: tuple[str, ...] = ()
    padding: Mapping[str, Padding] | None = None

    @property
    def func(self) -> Func:
        """The function that was compiled, in its canonical form."""
        return self.planned.func


def plan_program(
    func: Func,
    plan: Plan,
    target: Target,
    options: Options,
    *,
    known: tuple[Dependence, ...] | None = None,
    candidate: bool = False,
    strips: bool = False,
    others: Sequence[Comp] = (),
) -> Planned:
    """One plan: loop tree, vector DSL, memory in registers. Of nests in `strips`, sums are in parts that don't wait for
    themselves. `others`: statements elsewhere, which may define parameters.

    A `candidate` among others may cost so much only: raises PlantError where integer sets take more.
    """
    with at_most(CANDIDATE_SETS if candidate else None):
        check_legal(func, plan, reassoc=options.fp == "reassoc", lanes=target.lanes, known=known)
        tree = generate(func, plan, others)
    built = simplify(signed_memory(build(func, tree, target.lanes), _only_signed(target)))
    promoted = join_once(with_early_exits(promote(built, target.lanes), target.lanes))
    parts = _sums_side_by_side(promoted, target, strips=strips)
    promoted = shorten_chains(promoted, parts, floats=options.fp == "reassoc")
    straightened = group_masks(straighten(promoted, target.lanes), target.lanes, target.packed, partial(_joins, target))
    promoted = hoist(straightened, target.lanes)
    skewed = skew(promoted, target.lanes, partial(load_granule, target), _room_for_copies(target))
    in_place = None if skewed is promoted else _dealt(promoted, target)
    return Planned(func, tree, built, _dealt(skewed, target), in_place)


def _joins(target: Target, pattern: Pattern) -> bool:
    """Whether some macro shuffles two vectors by the pattern."""
    return any(m.pattern and m.implements.split(".")[0] == "shuffle2" and m.fits(pattern) for m in target.macros)


def _dealt(program: Program, target: Target) -> Program:
    if dealer(target) is not None and all(store_granule(target, e) == 1 for e in ("f32", "i32")):
        program = with_joined_rows(program, target.lanes)
    program = narrowed(with_last_rows_apart(deal(program, target), target), target)
    return by_words(whole_where_overwritten(program, target), target)


def _sums_side_by_side(program: Program, target: Target, *, strips: bool) -> Callable[[Loop, int, Elem], int]:
    """In how many parts a loop's sum of so many terms is made, so that its arithmetic and not the sum takes longest.
    One where trips are known, but in `strips`: loops that wait take whole iterations side by side then."""
    arithmetic, table = cache(partial(loop_arithmetic, program, target)), OperationTable(target)

    def parts(loop: Loop, terms: int, elem: Elem) -> int:
        if isinstance(loop.trip, Const) and not strips:
            return 1
        forms = table.forms("mac", elem) or table.forms("add", elem)
        latency = max((f.instruction.latency for f in forms), default=1)
        interval = max(float(arithmetic().get(loop.iterator, 0) * abs(loop.step)), 1.0)
        return next((n for n in range(1, terms) if -(-terms // n) * latency <= _WAIT * interval), terms)

    return parts


def straight_program(func: Func, program: Program, target: Target) -> Planned:
    """A program without most of its loops."""
    built = simplify(signed_memory(program, _only_signed(target)))
    promoted = hoist(built, target.lanes) if _has_loops(built) else built
    return Planned(func, None, built, _dealt(promoted, target))


def rewrite(planned: Planned, target: Target, options: Options, effort: Effort) -> Optimised:
    """Extraction of what the machine has, by the rules of `options.rewrite`."""
    program = planned.promoted
    found = optimise(
        program,
        target,
        fp=options.fp,
        rewrite=options.rewrite,
        readable=readable(program),
        effort=effort,
        fewer=dict(planned.fewer),
    )
    # Without loops, what is made early only lives longer.
    loops = planned.tree is not None or _has_loops(found.program)
    return replace(found, program=hoist(found.program, target.lanes)) if loops else found


@dataclass(frozen=True, slots=True)
class Assembled:
    """A plan's linear assembly. `least`: no schedule takes fewer cycles (0: not known)."""

    planned: Planned
    rewritten: Optimised
    function: Function
    least: int


def assemble(planned: Planned, rewritten: Optimised, target: Target, options: Options, most: int | None) -> Assembled:
    """Linear assembly.

    With `most`, it is a candidate among others: raises TooLarge where it has over `most` instructions, since
    scheduling costs more than linear time.
    """
    program = rewritten.program
    room = None if most is None else SPARE * most
    try:
        function = lower(
            program, target, pipeline=options.pipeline, readable=readable(program), in_word=in_word(program), most=room
        )  # fmt: skip
    except TooLarge as refusal:
        raise TooLarge(refusal.problems[0], SPARE) from None
    if most is not None and (size := instruction_count(function.body)) > most:
        problem = Problem("DG308", f"the plan makes {size} instructions; a candidate may have {most}", planned.func.loc)
        raise TooLarge(problem, size / most)
    function = with_shorter_choices(function, target)
    return Assembled(planned, rewritten, function, least_cycles(function, target))


def pack(
    assembled: Assembled,
    target: Target,
    options: Options,
    *,
    candidate: bool,
    room: int = 1,
    known: Packets | None = None,
    limit: float = math.inf,
    instead: Callable[[], float] | None = None,
) -> Compiled:
    """Packets, those that are `known` made once. For a `candidate` among others raises NoSchedule where registers are
    not soon found, or loops' schedules in a search that may take `room` times as long as usual. Raises TooSlow where
    the loops' intervals, or packets without registers, tell that it takes about `limit` cycles or more, or hardly fewer
    than other code `instead`; see `schedule`."""
    limits: dict[str, Any] = {"limit": limit, "instead": instead}
    if candidate:
        limits |= {"attempts": CANDIDATE_ATTEMPTS, "most": room * CANDIDATE_PLACED}
        limits["largest"] = room * CANDIDATE_STRAIGHT
    method: Method = options.sched if options.sched in ("list", "order") else "dp"
    planned, rewritten, function = assembled.planned, assembled.rewritten, assembled.function
    known = {} if known is None else known
    key = function, room if candidate else 0
    scheduled = known.get(key)
    if scheduled is None:
        try:
            scheduled = schedule(
                function, target, pipeline=options.pipeline, method=method, look=CANDIDATE_LOOK, **limits
            )  # fmt: skip
        except NoSchedule as refusal:
            scheduled = refusal
        known[key] = scheduled
    if isinstance(scheduled, NoSchedule):
        raise scheduled
    return Compiled(planned.func, planned, (), rewritten.program, function, scheduled, "", rewritten.remarks, 0.0)


def tell(compiled: Compiled, seen: OnStage) -> None:
    """Call `seen` with the name and the result of each stage below tiling."""
    if compiled.planned.tree is not None:
        seen("tree", compiled.planned.tree)
    seen("vecdsl", compiled.planned.built)
    seen("promoted", compiled.planned.promoted)
    seen("rewritten", compiled.program)
    seen("lasm", compiled.assembly)
    seen("packets", compiled.scheduled)


def with_source_bounds(compiled: Compiled, target: Target) -> Compiled:
    """The same, its pipelined loops told what their statements' arithmetic would take as it was written."""
    written = loop_arithmetic(compiled.planned.built, target)
    loops = {loop.label: loop for loop in loops_in(compiled.assembly.body)}

    def told(report: LoopReport) -> LoopReport:
        loop = loops.get(report.label)
        if not report.pipelined or loop is None or loop.iterator not in written:
            return report
        return replace(report, source_mii=math.ceil(written[loop.iterator] * abs(loop.step) * report.unroll))

    reports = tuple(told(report) for report in compiled.scheduled.loops)
    return replace(compiled, scheduled=replace(compiled.scheduled, loops=reports))


def schedule_remarks(scheduled: Scheduled) -> tuple[Remark, ...]:
    """What became of each loop, and what registers did not suffice for."""
    remarks = []
    for report in scheduled.loops:
        if report.pipelined:
            text = f"loop {report.label}: ii {report.ii}, {report.stages} iterations in parallel"
            remarks.append(Remark(report.loc, "pipelined", text))
        elif report.tried:
            ii, why = report.tried[-1]
            remarks.append(Remark(report.loc, "not-pipelined", f"loop {report.label}: ii {ii}: {why}"))
    return (*remarks, *(Remark(None, "spilled", text) for text in scheduled.waiting))


def load_granule(target: Target, elem: Elem) -> int:
    """How many elements lie between two places where contiguous vector loads may begin."""
    return max(machine_of(target).load_alignment(elem) // ELEM_BYTES[elem], 1)


def store_granule(target: Target, elem: Elem) -> int:
    """As `load_granule`, for stores."""
    return max(machine_of(target).store_alignment(elem) // ELEM_BYTES[elem], 1)


def distances_of_twos(target: Target, elem: str, store: bool) -> set[int]:
    """At which distances twos of elements are accessed in pairs, where lanes hold two."""
    return machine_of(target).table.twos(elem, store=store)


def _room_for_copies(target: Target) -> int:
    return target.memory(target.abi.stack_memory).size // COPIES


def _has_loops(program: Program) -> bool:
    return any(isinstance(s, Loop) for s in statements(program.body))


def _only_signed(target: Target) -> set[str]:
    """The narrow unsigned types that only loads of their signed counterparts reach."""
    table = OperationTable(target)
    return {u for u in EXTENSIONS if not table.forms("ld", u) and table.forms("ld", u.replace("u", "i"))}


def fitting_views(source: Func, target: Target) -> list[Target]:
    """The plain view, and those with several elements in a lane if the function computes on such elements."""
    able = views(target)
    small = any(c.target.dtype == "f32" for c in source.comps)
    return [v for v in able if v.packed == 1 or small]


def for_piece(piece: Func, target: Target) -> Target:
    """The machine with registers for all that a piece is given, or one of its nests, with local arrays among it."""
    given = [not isinstance(p, Buf) and p.dtype in ("f64", "i64") for p in piece.params]
    return with_arguments(target, given + [False for b in piece.bufs if b.kind == "local"])


def cycles_of(
    compiled: Compiled, target: Target, func: Func | None = None, known: Mapping[str, int] | None = None
) -> int | None:
    """What the schedule tells, else what a run on zeros takes (control flow depends on sizes only, mostly), of sizes
    that are parameters at those `known`, or small ones, which suit `func` where it is given: the code may be of one
    form of it; None where loop bounds are data, or where it isn't soon told at such values, which may lead loops on
    for ever, and subscripts out of arrays."""
    if compiled.scheduled.cycles is not None:
        return compiled.scheduled.cycles
    params = compiled.func.params
    if varying_parameters(compiled.func):
        return None
    sizes = trial_sizes(func or compiled.func) | dict(known or {})
    zeros = {
        p.name: np.zeros(p.extents, NUMPY[p.dtype]) if isinstance(p, Buf) else sizes.get(p.name, 0.0) for p in params
    }
    kernel = replace(compiled, source=compiled.func)
    cycles = cycles_only(
        packets_of(compiled.scheduled, target.real),
        target.real,
        function=compiled.func.name,
        arguments=arguments_of(kernel, zeros),
        stack=stack_of(kernel),
    )
    if cycles is not None or sizes:
        return cycles
    kernel = replace(kernel, asm=emit_asm(compiled.scheduled, target, func=compiled.func))
    return simulate_kernel(kernel, target, zeros).cycles


def expected_cycles(compiled: Compiled, target: Target, known: Mapping[str, int] | None = None) -> float:
    """The cycles of compiled code; where sizes are not known, what its nests took when they were chosen."""
    cycles = cycles_of(compiled, target, known=known)
    if cycles is not None:
        return cycles
    return sum(min((t.cycles for t in c.trials if t.cycles is not None), default=math.inf) for c in compiled.choices)


OUT_OF_BOUNDS = ("DG420", "DG436")


class RefusedCode(RuntimeError):
    """The simulator refuses the text that was generated: a fault of the compiler, not of its user."""


def simulate_kernel(
    compiled: Compiled,
    target: Target,
    values: Mapping[str, np.ndarray | int | float],
    *,
    engine: Engine = "auto",
    strict: bool = True,
    placement: Mapping[str, str] | None = None,
) -> SimResult:
    """Run the emitted text on fresh copies of `values`, arrays in the memories that `placement` names.
    Not `strict`: registers never written read as they are."""
    try:
        return simulate(
            compiled.asm,
            target.real,
            function=compiled.source.name,
            arguments=arguments_of(compiled, values),
            engine=engine,
            strict=strict,
            placement=placement,
            stack=stack_of(compiled),
            file=f"<{compiled.source.name}.s>",
            readable=_readable(compiled, values),
        )
    except SourceError as refusal:
        refuse_illegible(target.real)
        if refusal.problems[0].code in OUT_OF_BOUNDS:
            raise OutOfBounds(*(_with_text(p, compiled.asm) for p in refusal.problems)) from refusal
        raise RefusedCode(refusal.render()) from refusal


def _readable(compiled: Compiled, values: Mapping[str, np.ndarray | int | float]) -> dict[str, tuple[int, ...]] | None:
    """The padding of the arrays passed and of the stack's, as `simulate` takes it."""
    if compiled.padding is None:
        return None
    found: dict[str, tuple[int, ...]] = {
        n: compiled.padding[n].around(v.nbytes)
        for n, v in values.items()
        if isinstance(v, np.ndarray) and n in compiled.padding
    }
    local = [p for n, p in compiled.padding.items() if n not in values]
    found[STACK] = max((p.before for p in local), default=0), max((p.after for p in local), default=0)
    return found


def _with_text(problem: Problem, asm: str) -> Problem:
    """The problem with the line of assembly that it is at, which lies in no file."""
    lines = asm.splitlines()
    if problem.loc is None or not 0 < problem.loc.line <= len(lines):
        return problem
    return replace(problem, message=f"{problem.message}\n  {lines[problem.loc.line - 1].strip()}")


def arguments_of(
    compiled: Compiled, values: Mapping[str, np.ndarray | int | float]
) -> list[tuple[str, np.ndarray | int | float]]:
    """What the function is called with: copies of `values`, in the order of its parameters."""
    return [(p.name, passed(p, values[p.name])) for p in compiled.source.params]


def stack_of(compiled: Compiled) -> int:
    """The bytes below the stack pointers that the function may use."""
    return max((size for _, size in compiled.assembly.below), default=0) + SPILL_ROOM


def passed(param: Buf | ScalarParam, value: np.ndarray | int | float) -> np.ndarray | int | float:
    """A copy of an array; a number in its parameter's width, which decides the registers that it comes in."""
    if isinstance(param, Buf):
        return np.atleast_1d(np.array(value))  # a single value that a nest shares with others comes by its address
    number: int | float = NUMPY[param.dtype](value)  # type: ignore[assignment]
    return number
