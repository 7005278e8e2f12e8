"""The road from C text to verified assembly: one function that reads like the picture in docs/architecture.md."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dspgen import oracle
from dspgen.backend.array_padding import padding_of, widest
from dspgen.backend.garbage import seldom_collecting
from dspgen.backend.stages import (
    Compiled,
    OnStage,
    Stages,
    distances_of_twos,
    expected_cycles,
    fitting_views,
    for_piece,
    schedule_remarks,
    simulate_kernel,
    store_granule,
    tell,
    with_source_bounds,
)
from dspgen.emit.asm import emit_asm
from dspgen.emit.needs import needs
from dspgen.errors import NoSchedule, Problem
from dspgen.frontend.read import read_c
from dspgen.offchip.compose import compile_blocked, lost_loops, whole_or_first
from dspgen.offchip.loop_variants import cuts, grouped, in_few_nests, with_copies, with_ends
from dspgen.offchip.onchip_capacity import check_room, with_room
from dspgen.offchip.placement import cycles_far, far_placement
from dspgen.options import Data, Options
from dspgen.remarks.tile_remarks import copy_remarks, tile_remarks, unrolled_remarks
from dspgen.rewrite.egraph.saturation_process import expect
from dspgen.rewrite.optimize import Remark
from dspgen.sched.ir.packets import LoopReport
from dspgen.search.candidate_search import PATIENT
from dspgen.search.final_schedule import polished
from dspgen.search.full_unroll import Unrolled, best_unrolled
from dspgen.search.lane_packing import Best, Made, View, best_view, worth_unrolling
from dspgen.search.lane_support import refuse_unknown_types
from dspgen.search.nests import Chosen, best_in_parts, best_nests
from dspgen.search.plan_search import Chooser, Outdone
from dspgen.sim.run import Engine
from dspgen.sim.text.ambiguous_names import refuse_registers
from dspgen.target.isa.model import Target
from dspgen.target.query.views import views
from dspgen.tiling.candidates import Choice
from dspgen.tiling.cost.lower_bound import bound
from dspgen.tiling.loops.loop_arrangements import spaced
from dspgen.tiling.split.alignment_peeling import align_stores
from dspgen.tiling.split.loop_fission import split
from dspgen.tiling.split.pair_split import in_twos
from plant_core.analysis.early_exits import with_whole_searches
from plant_core.analysis.runtime_parameters import with_sizes
from plant_core.ir.func import Buf, Func
from plant_core.ir.symbolic_sizes import check_size
from plant_core.normalize.loops.derived_parameters import with_quotients
from plant_core.normalize.pipeline import canonical
from plant_core.scratchpad.tiled_func import Blocks, Part, flat
from plant_core.strip_mine.reduction_partials import with_lane_sums
from plant_core.support.fork_join import beside, forks
from plant_core.support.location import PlantError
from plant_core.support.memoize import forget

RARE = 1 / 64  # of a form's iterations: what has no tiles there is no reason to look for another form
_Form = Callable[[], Func | None]  # makes a form of a function, where it has that
_Piece = tuple[Compiled, Stages]  # the code of a piece, and the stages that it went through


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
    choices: tuple[Choice, ...]
    remarks: tuple[Remark, ...]
    outputs: dict[str, np.ndarray] = field(repr=False)
    details: tuple[str, ...] = ()
    wrong: Mapping[str, int] = field(default_factory=dict)
    ill_conditioned: Mapping[str, int] = field(default_factory=dict)
    data: Data = "onchip"
    packets: int = 0


def _silent(stage: str, value: object) -> None:
    """Where nobody listens."""


def compile_file(path: str, target: Target, options: Options, *, on_stage: OnStage | None = None) -> Compiled:
    """C text in, assembly text out. `on_stage` is called with each stage's name and result."""
    started = time.perf_counter()
    forget()
    if forks():
        expect()  # one process rewrites for all that are forked from this one
    seen: OnStage = on_stage or _silent
    source = read_c(path, function=options.function, defines=options.defines, includes=options.includes)
    refuse_registers(source.name, target, "DG022", source.loc)
    seen("scop", source)
    arrays = {p.name: p for p in source.params if isinstance(p, Buf)}
    with _located(source), seldom_collecting():
        refuse_unknown_types(source, target)
        backend, remarks = _with_ends(source, target, options, seen)
    moved = options.data == "ddr"
    padding = padding_of(backend.program, target, {room.array for room in backend.rooms})
    if moved and target.dma is not None:  # which reads what the arrays have
        padding = {name: p for name, p in padding.items() if name not in arrays}
    conditions = needs(backend.scheduled, target, moved=moved, rooms=backend.rooms, padding=widest(padding, arrays))
    asm = emit_asm(backend.scheduled, target, func=source, conditions=conditions)
    seen("asm", asm)
    seconds = time.perf_counter() - started
    made = replace(backend, source=source, asm=asm, conditions=conditions, compile_seconds=seconds, padding=padding)
    return replace(made, remarks=(*remarks, *backend.remarks))


def _with_ends(source: Func, target: Target, options: Options, seen: OnStage) -> Made:
    """The function with copies of arrays that go on behind their ends, where it has subscripts that do, or as it is."""
    func = with_ends(source, target, options)
    if func is None:
        return _placed(source, target, options, seen)
    try:
        made, remarks = _placed(func, target, options, seen)
    except NoSchedule:
        return _placed(source, target, options, seen)
    return made, (*copy_remarks(source, func), *remarks)


def _placed(source: Func, target: Target, options: Options, seen: OnStage) -> Made:
    """The function for data where the options have them."""
    if options.data == "ddr":
        return _off_chip(source, target, options, seen)
    near, rooms = with_room(source, target)
    backend, remarks = _on_chip(near, target, options, seen)
    return replace(backend, rooms=rooms), remarks


def _on_chip(source: Func, target: Target, options: Options, seen: OnStage) -> Made:
    """The function for data on the chip: its loops of unknown size in groups, or with copies of arrays, where that can
    be, or as it is."""
    ahead = partial(_chooser, options=options, seen=seen, ahead=True)
    forms: tuple[_Form, ...] = _groups(source, target, options), partial(with_copies, source, target, options)
    return _first_tiled((*forms, lambda: source), target, ahead, _polished_code, seen)


def _groups(source: Func, target: Target, options: Options) -> _Form:
    return partial(grouped, source, target, options, lambda dtype: store_granule(target, dtype) == 1)


def _first_tiled(
    forms: Iterable[_Form],
    target: Target,
    choosers: Callable[[Func, Target], Chooser],
    code: Callable[[View, OnStage], Made],
    seen: OnStage,
) -> Made:
    """The code of the first form whose nests have tiles, but for few iterations; where there is none, of the one that
    lacks them for the smallest share of its iterations."""
    best = Best()
    for form in forms:
        try:
            func = form()
        except NoSchedule as error:
            best.refusals.append(error)
            continue
        if func is not None:
            best.offer(partial(best_view, func, target, choosers, code), _without_tiles)
        if best.cost <= RARE:
            break
    if best.made is None:
        raise best.refusals[-1]
    return best.told(seen)


def _without_tiles(made: Compiled) -> float:
    """The share of iterations in nests for which only the fallback was left."""
    lacking = sum(c.volume for c in made.choices if math.isinf(c.candidate.cycles))
    return lacking / max(sum(c.volume for c in made.choices), 1)


def _off_chip(source: Func, target: Target, options: Options, seen: OnStage) -> Made:
    """The function in blocks, its data moved onto the chip and back; where blocks that are found lack registers for all
    of them together, with single vectors in place of register tiles."""
    try:
        return _in_blocks(source, target, options, seen)
    except NoSchedule as refusal:
        if options.tile == "one" or refusal.problems[0].code != "DG303":
            raise
        try:
            return _in_blocks(source, target, replace(options, tile="one"), seen)
        except NoSchedule:
            raise refusal from None


def _in_blocks(source: Func, target: Target, options: Options, seen: OnStage) -> Made:
    if target.dma is None:
        what = f"{target.name} has no engine that moves data onto the chip"
        raise NoSchedule(Problem("DG317", what, source.loc, "describe one in [dma], or compile with --data onchip"))
    sized, sizes = with_sizes(with_whole_searches(source))
    sized, parts = with_quotients(sized)
    for buf in sized.bufs:
        for extent in buf.shape:
            check_size(extent, buf.loc)
    func = in_few_nests(sized, options)
    if not func.comps:
        return _on_chip(source, target, options, seen)
    refusal: NoSchedule | None = None
    pieces = _Pieces(target, options, seen)
    judge = pieces.cycles if options.tiler == "feedback" and options.tile == "search" else None
    view, known = next(v for v in views(target) if v.packed == 1), {**sizes, **parts}
    for ways in cuts(sized, func, target, options, judge, pieces.expected):
        best: tuple[float, Compiled, tuple[Part, ...]] | None = None
        try:
            for made in ways:
                if best is not None and made.cycles >= best[0]:
                    continue
                nests, whole = whole_or_first(
                    made.nests, lambda n: compile_blocked(n, source, view, options, pieces.code, known)
                )
                lost = lost_loops(whole, [pieces.code(nest) for nest in flat(nests)])
                cycles = cycles_far(whole, source, target) if lost or best is not None else None
                if best is None or (cycles is not None and cycles < best[0]):
                    best = cycles or 0.0, whole, nests
                if not lost or cycles is None:
                    break
        except NoSchedule as error:
            refusal = refusal or error
        if best is not None:
            for nest in flat(best[2]):
                pieces.tell(nest)
            seen("lasm", best[1].assembly)
            seen("packets", best[1].scheduled)
            return best[1], ()
    assert refusal is not None
    raise refusal


@dataclass(slots=True)
class _Pieces:
    """The code of nests in blocks, whose data are on the chip, made once."""

    target: Target
    options: Options
    seen: OnStage
    known: list[tuple[Blocks, list[_Piece]]] = field(default_factory=list)

    def cycles(self, blocks: Blocks, enough: Sequence[float] = ()) -> list[float | None]:
        """Those of each piece; infinite where there is no code, or one takes clearly more than `enough`."""
        try:
            made = enumerate(zip(blocks.pieces, self._made(blocks, enough), strict=True))
            found = [expected_cycles(c, for_piece(p, self.target), blocks.begins(k)) for k, (p, (c, _)) in made]
            return [cycles if math.isfinite(cycles) else None for cycles in found]
        except (NoSchedule, Outdone):
            return [math.inf] * len(blocks.pieces)

    def expected(self, func: Func) -> float:
        """What the model expects of a nest on the chip; 0 where it knows too little."""
        return min(_chooser(func, v, self.options, _silent).expected for v in fitting_views(func, self.target))

    def code(self, blocks: Blocks) -> list[Compiled]:
        """The code of each piece. Raises NoSchedule."""
        return [compiled for compiled, _ in self._made(blocks)]

    def tell(self, blocks: Blocks) -> None:
        """The stages that this code went through."""
        for _, stages in self._made(blocks):
            for stage in stages:
                self.seen(*stage)

    def _made(self, blocks: Blocks, enough: Sequence[float] = ()) -> list[_Piece]:
        """Raises NoSchedule; Outdone where one of the pieces takes clearly more than `enough` cycles."""
        for one, found in self.known:
            if one is blocks:
                return found
        # Searches that take long tell how far they are.
        seen = self.seen if self.options.tiler in PATIENT else _silent
        most = enough or [math.inf] * len(blocks.pieces)
        pieces = [partial(_piece, blocks, k, self.target, self.options, seen, n) for k, n in enumerate(most)]
        made = [piece() for piece in pieces] if self.options.tiler in PATIENT else beside(pieces, lambda p: p is None)
        found = [piece for piece in made if piece is not None]
        if len(found) < len(pieces):
            raise Outdone(math.inf, known=False)
        self.known.append((blocks, found))
        return found


def _piece(
    blocks: Blocks, number: int, target: Target, options: Options, seen: OnStage, enough: float
) -> _Piece | None:
    """The code of one piece, and the stages that it went through; `seen` is told how far a search is. None where the
    code by the fewest rules takes clearly more than `enough` cycles."""
    piece = blocks.pieces[number]
    stages: Stages = []
    how = {"ahead": len(blocks.pieces) == 1, "share": blocks.share(number), "sizes": blocks.begins(number)}

    def chooser(func: Func, view: Target) -> Chooser:
        return _chooser(func, view, options, seen, enough=enough, **how)

    def told(stage: str, value: object) -> None:
        stages.append((f"{piece.name}.{stage}", value))

    machine = for_piece(piece, target)
    apart = blocks.open or not blocks.counters  # others have groups already
    groups = (_groups(piece, machine, options),) if apart else ()
    try:
        made, remarks = _first_tiled((*groups, lambda: piece), machine, chooser, _best_code, told)
    except Outdone:
        return None
    return replace(made, remarks=(*remarks, *made.remarks)), stages


def _chooser(
    source: Func,
    target: Target,
    options: Options,
    seen: OnStage,
    **how: Any,
) -> Chooser:
    """`how`: what else a chooser is told."""
    reassoc = options.fp == "reassoc"
    func = split(canonical(source, reassoc=reassoc))
    func = with_lane_sums(func, target.lanes, reassoc=reassoc) if options.vectorize else func
    func = align_stores(func, partial(store_granule, target), target.lanes)
    func = spaced(in_twos(func, target.packed, partial(distances_of_twos, target)))
    return Chooser(func, target, options, seen=seen, **how)


def _polished_code(view: View, seen: OnStage) -> Made:
    """The best code, its packets found with more patience than those of all the candidates before it."""
    chooser = view.chooser
    best, remarks = _best_code(view, seen)
    after = polished(best, chooser.target, chooser.options)
    if after is not best:
        seen("packets", after.scheduled)
    after = with_source_bounds(after, chooser.target)
    return after, (*remarks, *schedule_remarks(after.scheduled))


def _best_code(view: View, seen: OnStage) -> Made:
    """The function by its loop nests, or unrolled as a whole; and the remarks on its loops.

    Where the model expects that nests are far from the bound, unrolled code is made first, and nests only as far as
    they may still win. What decides that is told by code without rewriting, so that it is the same with more rules.
    """
    source, chooser = view.source, view.chooser
    func, target, options = chooser.func, chooser.target, chooser.options
    seen("expanded", func)
    refusal: NoSchedule | None = None
    chosen: Chosen | None = None
    unrolled: Unrolled | None = None
    early, cycles, outdone = False, math.inf, ""
    try:
        early, unrolled = view.early()
        chooser, chosen = best_nests(chooser, math.inf if unrolled is None else unrolled.plain)
        func = chooser.func
        cycles = chosen.cycles or 0
    except Outdone as reason:
        if unrolled is None:
            raise
        outdone = f", {'about' if reason.known else 'over'} {reason.cycles:.0f} by loops"
    except NoSchedule as error:
        refusal = error
    if not early and (chosen is None or worth_unrolling(source, cycles, chosen.plain, target, options)):
        unrolled = best_unrolled(source, target, options, cycles)
    if unrolled is not None and unrolled.cycles < cycles:
        tell(unrolled.compiled, seen)
        instead = outdone if chosen is None else f", {chosen.cycles} by loops"
        return unrolled.compiled, unrolled_remarks(source, unrolled, instead, target)
    singles: Mapping[str, str] = {}
    if not outdone and (apart := best_in_parts(chooser, chosen)) is not None:
        func, singles, chosen = apart
    if chosen is None:
        assert refusal is not None
        raise refusal
    best = chosen.best
    seen("plan", best.choices)
    tell(best, seen)
    return best, tile_remarks(source, func, best, target, options, singles)


@contextmanager
def _located(source: Func) -> Iterator[None]:
    """What is refused without a place of its own is told of the whole function."""
    try:
        yield
    except NoSchedule as refusal:
        refusal.problems = tuple(replace(p, loc=p.loc or source.loc) for p in refusal.problems)
        raise
    except PlantError as refusal:
        refusal.loc = refusal.loc or source.loc
        raise


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
    return run_compiled(compiled, path, target, options, inputs=inputs, seed=seed, engine=engine)


def run_compiled(
    compiled: Compiled,
    path: str,
    target: Target,
    options: Options,
    *,
    inputs: Mapping[str, np.ndarray | int | float] | None = None,
    seed: int = 0,
    engine: Engine = "auto",
) -> RunResult:
    """The same with code that `compile_file` has made of the same program with the same options."""
    func = compiled.source
    given = {**oracle.default_inputs(path, func, options.defines, options.includes, inputs), **(inputs or {})}
    values = oracle.random_inputs(func, seed, given)
    for room in compiled.rooms:
        check_room(room, values, func)
    started = time.perf_counter()
    placement = far_placement(func, target) if options.data == "ddr" else {}
    result = simulate_kernel(compiled, target, values, engine=engine, placement=placement)
    simulated = time.perf_counter() - started
    wanted = oracle.reference(path, func, values, options.defines, options.includes, fp=options.fp)
    verdict = oracle.compare(func, result.outputs, wanted, options.fp)
    sizes = {k: int(v) for k, v in values.items() if isinstance(v, int)}
    limit = bound(func, target, data=options.data, values=sizes).cycles
    return RunResult(
        kernel=func.name,
        isa=target.name,
        cycles=result.cycles,
        bound_cycles=limit,
        efficiency=limit / result.cycles,
        verified=verdict.verified,
        max_error=verdict.max_error,
        compile_seconds=compiled.compile_seconds,
        simulate_seconds=simulated,
        unit_busy=dict(result.unit_busy),
        loops=compiled.scheduled.loops,
        tiles=compiled.tiles,
        choices=compiled.choices,
        remarks=compiled.remarks,
        outputs=result.outputs,
        details=verdict.details,
        wrong=verdict.wrong,
        ill_conditioned=verdict.ill_conditioned,
        data=options.data,
        packets=result.packets,
    )
