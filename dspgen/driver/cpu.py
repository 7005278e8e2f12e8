"""The road from C text to a verified kernel on this computer: the picture of `pipeline.py`, with C++ at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from backends.cpu.build import build, find_compiler, vector_width
from backends.cpu.caches import caches as caches_here
from backends.cpu.emit import emit
from backends.cpu.kernel import Kernel
from dspgen import oracle
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.rewrite.optimize import Remark
from plant_core.ir.func import Buf, Func
from plant_core.ir.loop_tree import Tree
from plant_core.ir.scheduled import Scheduled
from plant_core.scan import scan
from plant_core.schedule.auto import Machine, default_schedule
from plant_core.schedule.packing import Caches, Packing, pack
from plant_core.support.interruptible import apart

OnStage = Callable[[str, object], None]
Values = Mapping[str, np.ndarray | int | float]


@dataclass(frozen=True, slots=True)
class CpuCompiled:
    """All that the road to C++ made, stage by stage. `source` is the function as written."""

    source: Func
    scheduled: Scheduled
    tree: Tree
    cpp: str
    remarks: tuple[Remark, ...]
    compile_seconds: float


@dataclass(frozen=True, slots=True)
class CpuResult:
    """A kernel's run on this computer, compared with the C program's.

    `seconds` is the fastest of the timed runs; `compile_seconds` are from C text to C++ text, `build_seconds` from
    there to a loaded library.
    """

    kernel: str
    verified: bool
    max_error: float
    compile_seconds: float
    build_seconds: float
    seconds: float
    threads: int
    remarks: tuple[Remark, ...]
    outputs: dict[str, np.ndarray] = field(repr=False)
    details: tuple[str, ...] = ()
    wrong: Mapping[str, int] = field(default_factory=dict)
    ill_conditioned: Mapping[str, int] = field(default_factory=dict)


def compile_cpu(
    path: str,
    options: Options,
    *,
    threads: int = 1,
    on_stage: OnStage | None = None,
    caches: Caches | None = None,
) -> CpuCompiled:
    """Compile C text to C++ text. `on_stage` is called with each stage's name and result.

    `caches`, for which arrays are packed, are this computer's by default.
    """
    started = time.perf_counter()
    seen: OnStage = on_stage or (lambda name, value: None)
    func = read_c(path, function=options.function, defines=options.defines, includes=options.includes)
    seen("scop", func)
    width = vector_width(find_compiler())
    machine = Machine.of(width, threads)
    scheduled = default_schedule(
        func, reassoc=options.fp == "reassoc", machine=machine, panels=options.pack == "panels"
    )
    seen("schedule", scheduled)
    remarks = _loop_remarks(scheduled)
    if options.pack == "gpat":
        plain = scheduled
        scheduled, packings = pack(plain, caches or caches_here())
        remarks = (*remarks, *_pack_remarks(packings, func))
        if scheduled is not plain:
            seen("packed", scheduled)
    tree = scan(scheduled)
    seen("tree", tree)
    cpp = emit(scheduled.func, tree, fp=options.fp, vector_bytes=width, threads=threads > 1)
    seen("cpp", cpp)
    return CpuCompiled(func, scheduled, tree, cpp, remarks, time.perf_counter() - started)


def _loop_remarks(scheduled: Scheduled) -> tuple[Remark, ...]:
    """For each statement, the loops that run it, from the outermost in."""
    places = {s.name: s.loc for s in scheduled.func.comps} | {s.name: s.loc for s in scheduled.func.effects}
    found = []
    for nest in scheduled.nests:
        loops = [f"{loop} ({tag})" if (tag := nest.tag(loop)) else loop for loop in nest.loops]
        found.append(Remark(places[nest.name], "loops", ", ".join(loops) or "none"))
    return tuple(found)


def _pack_remarks(packings: Sequence[Packing], func: Func) -> tuple[Remark, ...]:
    """For each array at each loop that goes over the same elements of it again, whether it is packed, and why."""
    found = []
    for packing in packings:
        if packing.refusal:
            found.append(Remark(packing.loops[0].loc if packing.loops else func.loc, "packing", packing.refusal))
        for c in packing.candidates:
            if c.stage != "reuse":
                found.append(Remark(c.loop.loc, "packing", c.text))
    return tuple(found)


def build_cpu(compiled: CpuCompiled, options: Options, *, threads: int = 1, cache: Path | None = None) -> Kernel:
    """The C++ text as a library of this computer, loaded. `cache` is the folder where libraries are kept."""
    library = build(compiled.cpp, fp=options.fp, cache_dir=cache)
    parallel = "#pragma omp parallel" in compiled.cpp  # else it isn't linked to a runtime that could be told
    return Kernel(compiled.scheduled.func, library, threads=threads if parallel else None)


def run_cpu(
    path: str,
    options: Options,
    *,
    threads: int = 1,
    cache: Path | None = None,
    inputs: Values | None = None,
    seed: int = 0,
    repeats: int = 3,
    on_stage: OnStage | None = None,
    caches: Caches | None = None,
) -> CpuResult:
    """Compile, build, run, and compare every output array with the C program's."""
    seen: OnStage = on_stage or (lambda name, value: None)
    compiled = compile_cpu(path, options, threads=threads, on_stage=on_stage, caches=caches)
    func = compiled.source
    started = time.perf_counter()
    kernel = build_cpu(compiled, options, threads=threads, cache=cache)
    built = time.perf_counter() - started
    seen("built", None)
    given = {**oracle.default_inputs(path, func, options.defines, options.includes, inputs), **(inputs or {})}
    values = oracle.random_inputs(func, seed, given)
    # The C program first: its runs are guarded, so that inputs which end it are told before the kernel meets them.
    (wanted,) = apart(lambda: oracle.reference(path, func, values, options.defines, options.includes, fp=options.fp))
    ((outputs, seconds),) = apart(lambda: timed(kernel, func, values, repeats))
    seen("ran", None)
    verdict = oracle.compare(func, outputs, wanted, options.fp)
    return CpuResult(
        kernel=func.name,
        verified=verdict.verified,
        max_error=verdict.max_error,
        compile_seconds=compiled.compile_seconds,
        build_seconds=built,
        seconds=seconds,
        threads=threads,
        remarks=compiled.remarks,
        outputs=outputs,
        details=verdict.details,
        wrong=verdict.wrong,
        ill_conditioned=verdict.ill_conditioned,
    )


def timed(kernel: Kernel, func: Func, values: Values, repeats: int) -> tuple[dict[str, np.ndarray], float]:
    """The arrays after a run on copies of `values`, and the seconds of the fastest of `repeats` such runs."""
    fastest = float("inf")
    arguments: dict[str, np.ndarray | int | float] = {}
    for _ in range(max(repeats, 1)):
        arguments = {p.name: np.array(values[p.name]) if isinstance(p, Buf) else values[p.name] for p in func.params}
        started = time.perf_counter()
        kernel(**arguments)
        fastest = min(fastest, time.perf_counter() - started)
    arrays = {p.name: arguments[p.name] for p in func.params if isinstance(p, Buf) and not p.const}
    return {name: np.asarray(array) for name, array in arrays.items()}, fastest
