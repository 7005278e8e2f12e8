"""The road from C text to verified assembly: one function that reads like the picture in docs/architecture.md."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from dspgen import oracle
from dspgen.asmir.ir import Function, instruction_count
from dspgen.asmir.lower import lower
from dspgen.emit.asm import emit_asm
from dspgen.errors import NoSchedule, Problem, SourceError
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.rewrite.optimise import Remark, optimise
from dspgen.sched.ir import LoopReport, Scheduled
from dspgen.sched.schedule import schedule
from dspgen.sim.run import Engine, SimResult, simulate
from dspgen.target.model import Target
from dspgen.target.operations import OperationTable
from dspgen.tiling.apart import spaced
from dspgen.tiling.bound import bound
from dspgen.tiling.candidates import Candidate, candidates, scalar_candidate
from dspgen.tiling.machine import Machine
from dspgen.tiling.nests import Nest, nests
from dspgen.tiling.search import Choice, search
from dspgen.vecdsl.build import build
from dspgen.vecdsl.hoist import hoist
from dspgen.vecdsl.ir import Program
from dspgen.vecdsl.promote import promote
from dspgen.vecdsl.ranges import readable
from dspgen.vecdsl.simplify import simplify
from dspgen.vecdsl.straighten import straighten
from dspgen.vecdsl.unsigned import EXTENSIONS, signed_memory
from plant_core.affine import accesses
from plant_core.astgen import generate
from plant_core.budget import at_most
from plant_core.dependence import Dependence, memory_dependences, rebalance_reductions
from plant_core.ir import Buf, Func, ScalarParam
from plant_core.legality import check_legal
from plant_core.scalars import expand_scalars
from plant_core.schedule import normalise_loops
from plant_core.tiles import CompPlan, Plan
from plant_core.tree import Tree
from plant_core.values import NUMPY, is_float

FINALISTS = 8
SIMULATED_FINALISTS = 3
LARGEST_CANDIDATE = 800  # instructions
CANDIDATE_ATTEMPTS = 6
SPILL_ROOM = 8192  # bytes of stack besides local arrays
CANDIDATE_PLACED = 8_000  # operations, in search of loop schedules
CANDIDATE_SETS = 500_000  # operations on integer sets

OnStage = Callable[[str, object], None]
Kept = dict[Plan, tuple[list[tuple[str, object]], "Compiled"]]


@dataclass(frozen=True, slots=True)
class Compiled:
    """All that compiling one function made, stage by stage. `source` is the function as written."""

    source: Func
    func: Func
    choices: tuple[Choice, ...]
    tree: Tree
    program: Program
    assembly: Function
    scheduled: Scheduled
    asm: str
    remarks: tuple[Remark, ...]
    compile_seconds: float


@dataclass(frozen=True, slots=True)
class RunResult:
    """A compiled kernel's run on the simulator, compared with the C program's."""

    kernel: str
    isa: str
    cycles: int
    bound_cycles: int
    efficiency: float
    verified: bool
    max_error: float
    compile_seconds: float
    simulate_seconds: float
    unit_busy: dict[str, float]
    loops: tuple[LoopReport, ...]
    tiles: tuple[str, ...]
    remarks: tuple[Remark, ...]
    outputs: dict[str, np.ndarray] = field(repr=False)
    details: tuple[str, ...] = ()


def compile_file(path: str, target: Target, options: Options, *, on_stage: OnStage | None = None) -> Compiled:
    """C text in, assembly text out. `on_stage` is called with each stage's name and result."""
    started = time.perf_counter()
    seen: OnStage = on_stage or (lambda name, value: None)
    source = read_c(path, function=options.function, defines=options.defines, includes=options.includes)
    _need_fixed_bounds(source)
    seen("scop", source)
    func = spaced(expand_scalars(normalise_loops(rebalance_reductions(source, reassoc=options.fp == "reassoc"))))
    seen("expanded", func)
    with _located(source):
        choices, kept = choose_plans(func, target, options)
        seen("plan", choices)
        backend = _compile_choices(func, choices, kept, target, options, seen)
    asm = emit_asm(backend.scheduled, target, func=source)
    seen("asm", asm)
    remarks = (*_tile_remarks(func, backend.choices), *backend.remarks)
    seconds = time.perf_counter() - started
    return replace(backend, source=source, asm=asm, remarks=remarks, compile_seconds=seconds)


@contextmanager
def _located(source: Func) -> Iterator[None]:
    """What is refused without a place of its own is told of the whole function."""
    try:
        yield
    except NoSchedule as refusal:
        refusal.problems = tuple(replace(p, loc=p.loc or source.loc) for p in refusal.problems)
        raise


def _need_fixed_bounds(func: Func) -> None:
    problems = [
        Problem("DG010", "a loop bound is read from memory", comp.loc, "use --backend cpu, or a bound known beforehand")
        for comp in func.comps
        if comp.defines is not None
    ]
    if problems:
        raise SourceError(*problems)


def _tile_remarks(func: Func, choices: tuple[Choice, ...]) -> tuple[Remark, ...]:
    """What was chosen for each nest, out of how many that were scheduled."""
    found = []
    for choice in choices:
        scheduled = sum(t.cycles is not None for t in choice.trials)
        loc = func.comp(choice.comps[0]).loc
        found.append(Remark(loc, "tile", f"{choice.candidate.title}, the best of {scheduled} that were scheduled"))
        found += [Remark(loc, "refused", f"{t.title}: {t.refused}") for t in choice.trials if t.cycles is None]
    return tuple(found)


def compile_plan(
    func: Func,
    plan: Plan,
    target: Target,
    options: Options,
    *,
    known: tuple[Dependence, ...] | None = None,
    most: int | None = None,
    on_stage: OnStage | None = None,
) -> Compiled:
    """The stages below tiling, for one plan: loop tree, vector DSL, extraction, linear assembly, packets.

    With `most`, it is a candidate among others: raises NoSchedule where the linear assembly has over `most`
    instructions, since scheduling costs more than linear time, or where registers are not soon found.
    """
    seen: OnStage = on_stage or (lambda name, value: None)
    with at_most(None if most is None else CANDIDATE_SETS):
        check_legal(func, plan, reassoc=options.fp == "reassoc", lanes=target.lanes, known=known)
        tree = generate(func, plan)
    seen("tree", tree)
    program = simplify(signed_memory(build(func, tree, target.lanes), _only_signed(target)))
    seen("vecdsl", program)
    program = hoist(straighten(promote(program, target.lanes), target.lanes), target.lanes)
    seen("promoted", program)
    best = optimise(program, target, fp=options.fp, rewrite=options.rewrite, readable=readable(program))
    best = replace(best, program=hoist(best.program, target.lanes))
    seen("rewritten", best.program)
    assembly = lower(best.program, target, pipeline=options.pipeline)
    seen("lasm", assembly)
    if most is not None and (size := instruction_count(assembly.body)) > most:
        raise NoSchedule(Problem("DG308", f"the plan makes {size} instructions; a candidate may have {most}", func.loc))
    limits = {} if most is None else {"attempts": CANDIDATE_ATTEMPTS, "most": CANDIDATE_PLACED}
    scheduled = schedule(assembly, target, pipeline=options.pipeline, **limits)
    seen("packets", scheduled)
    return Compiled(func, func, (), tree, best.program, assembly, scheduled, "", tuple(best.remarks), 0.0)


def _compile_choices(
    func: Func, choices: tuple[Choice, ...], kept: Kept, target: Target, options: Options, seen: OnStage
) -> Compiled:
    """The whole function under its nests' plans. Where these together need more registers than there are, nests give
    way to scalar code, one after the other."""
    plan = _plan(choices)
    if plan in kept:
        stages, compiled = kept[plan]
        for name, value in stages:
            seen(name, value)
        return replace(compiled, choices=choices)
    for given_up in range(len(choices)):
        try:
            return replace(compile_plan(func, plan, target, options, on_stage=seen), choices=choices)
        except NoSchedule:
            choices = tuple(_scalar(c) if k == given_up else c for k, c in enumerate(choices))
            plan = _plan(choices)
    return replace(compile_plan(func, plan, target, options, on_stage=seen), choices=choices)


def _scalar(choice: Choice) -> Choice:
    """The nest as it is written: a plan leaves such comps alone."""
    return replace(choice, candidate=replace(choice.candidate, plans=(), title="scalar"))


def _only_signed(target: Target) -> set[str]:
    """The narrow unsigned types that only loads of their signed counterparts reach."""
    table = OperationTable(target)
    return {u for u in EXTENSIONS if not table.forms("ld", u) and table.forms("ld", u.replace("u", "i"))}


def choose_plans(func: Func, target: Target, options: Options) -> tuple[tuple[Choice, ...], Kept]:
    """Each nest's plan, by compiling and scheduling the model's finalists; where there is but one nest, its candidates
    are whole functions, and are kept."""
    machine = Machine(target, OperationTable(target))
    found = nests(func)
    kept: Kept = {}
    choices = []
    for nest in found:
        alone = func if len(found) == 1 else _alone(func, nest)
        known = memory_dependences(alone)
        finalists = candidates(nest, target, machine, FINALISTS, known)
        most = None if all(c.box for c in nest.comps) else SIMULATED_FINALISTS
        evaluate = _Evaluate(alone, known, target, options, kept)
        choices.append(search(finalists, scalar_candidate(nest), evaluate, most=most))
    return tuple(choices), kept


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

    def __call__(self, candidate: Candidate) -> float:
        plan = Plan(candidate.plans)
        stages: list[tuple[str, object]] = []
        compiled = compile_plan(
            self.func,
            plan,
            self.target,
            self.options,
            known=self.known,
            most=None if candidate.cycles == math.inf else LARGEST_CANDIDATE,
            on_stage=lambda *stage: stages.append(stage),
        )
        self.kept[plan] = (stages, compiled)
        cycles = compiled.scheduled.cycles
        return float(cycles) if cycles is not None else self._unscheduled(compiled, candidate)

    def _unscheduled(self, compiled: Compiled, candidate: Candidate) -> float:
        sizes_known = all(isinstance(p, Buf) or is_float(p.dtype) for p in self.func.params)
        if not sizes_known or self.simulated == SIMULATED_FINALISTS:
            return candidate.cycles * (self.ratio or 1.0)
        zeros = {p.name: np.zeros(p.extents, NUMPY[p.dtype]) if isinstance(p, Buf) else 0.0 for p in self.func.params}
        asm = emit_asm(compiled.scheduled, self.target, func=self.func)
        cycles = float(simulate_kernel(replace(compiled, asm=asm), self.target, zeros).cycles)
        self.simulated += 1
        self.ratio = min(self.ratio or math.inf, cycles / candidate.cycles)
        return cycles


def _alone(func: Func, nest: Nest) -> Func:
    """One nest as a function of its own: local arrays become parameters, so that their values count."""
    comps = tuple(c for c in func.comps if c.name in nest.names)
    bufs = tuple(replace(b, kind="param") if b.shape else b for b in func.bufs)
    scalars = tuple(p for p in func.params if not isinstance(p, Buf))
    used = {name for c in nest.comps for name in (c.comp.target.buf, *(a.buf for a in accesses(c.comp.value)))}
    arrays = tuple(b for b in bufs if b.shape and b.name in used)
    return replace(func, params=(*arrays, *scalars), bufs=bufs, comps=comps)


def _plan(choices: tuple[Choice, ...]) -> Plan:
    merged: list[tuple[str, CompPlan]] = [p for c in choices for p in c.candidate.plans]
    return Plan(tuple(merged))


def run_file(
    path: str,
    target: Target,
    options: Options,
    *,
    inputs: Mapping[str, np.ndarray | int | float] | None = None,
    seed: int = 0,
    engine: Engine = "auto",
    on_stage: OnStage | None = None,
) -> RunResult:
    """Compile, simulate the emitted text, and compare every output array with the C program's."""
    compiled = compile_file(path, target, options, on_stage=on_stage)
    func = compiled.source
    given = {**oracle.default_inputs(path, func, options.defines, options.includes), **(inputs or {})}
    values = oracle.random_inputs(func, seed, given)
    started = time.perf_counter()
    result = simulate_kernel(compiled, target, values, engine=engine)
    simulated = time.perf_counter() - started
    single = oracle.run_c(path, func, values, options.defines, includes=options.includes)
    double = oracle.run_c(path, func, values, options.defines, includes=options.includes, double=True)
    verified, max_error, details = oracle.compare(func, result.outputs, single, double, options.fp)
    sizes = {k: int(v) for k, v in values.items() if isinstance(v, int)}
    machine = Machine(target, OperationTable(target))
    limit = bound(func, target, machine, data=options.data, values=sizes).cycles
    return RunResult(
        kernel=func.name,
        isa=target.name,
        cycles=result.cycles,
        bound_cycles=limit,
        efficiency=limit / result.cycles,
        verified=verified,
        max_error=max_error,
        compile_seconds=compiled.compile_seconds,
        simulate_seconds=simulated,
        unit_busy=dict(result.unit_busy),
        loops=compiled.scheduled.loops,
        tiles=tuple(c.candidate.title for c in compiled.choices),
        remarks=compiled.remarks,
        outputs=result.outputs,
        details=details,
    )


class RefusedCode(RuntimeError):
    """The simulator refuses the text that was generated: a fault of the compiler, not of its user."""


def simulate_kernel(
    compiled: Compiled,
    target: Target,
    values: Mapping[str, np.ndarray | int | float],
    *,
    engine: Engine = "auto",
    strict: bool = True,
) -> SimResult:
    """Run the emitted text on fresh copies of `values`. Not `strict`: registers never written read as they are."""
    arguments = [(p.name, _passed(p, values[p.name])) for p in compiled.source.params]
    try:
        return simulate(
            compiled.asm,
            target,
            function=compiled.source.name,
            arguments=arguments,
            engine=engine,
            strict=strict,
            stack=max((size for _, size in compiled.assembly.below), default=0) + SPILL_ROOM,
        )
    except SourceError as refusal:
        raise RefusedCode(refusal.render()) from refusal


def _passed(param: Buf | ScalarParam, value: np.ndarray | int | float) -> np.ndarray | int | float:
    """A copy of an array; a number in its parameter's width, which decides the registers that it comes in."""
    if isinstance(param, Buf):
        return np.array(value)
    number: int | float = NUMPY[param.dtype](value)  # type: ignore[assignment]
    return number
