"""From C text to a run in an emulator: the road of `dspgen.driver.pipeline`, with other tools in the simulator's
place."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dspgen import oracle
from dspgen.backend.stages import Compiled, OnStage, arguments_of
from dspgen.driver.pipeline import compile_file
from dspgen.options import Data, Options
from dspgen.rewrite.optimize import Remark
from dspgen.sched.ir.packets import LoopReport
from dspgen.sim.external import Emulated, emulate
from dspgen.target.isa.model import Target
from dspgen.tiling.candidates import Choice
from dspgen.tiling.cost.lower_bound import bound


@dataclass(frozen=True, slots=True)
class EmulatedResult:
    """A compiled kernel's run, compared with the C program's: packets, as nobody counts cycles."""

    kernel: str
    isa: str
    packets: int
    bound_cycles: int
    verified: bool
    max_error: float
    compile_seconds: float
    simulate_seconds: float
    loops: tuple[LoopReport, ...]
    tiles: tuple[str, ...]
    choices: tuple[Choice, ...]
    remarks: tuple[Remark, ...]
    outputs: dict[str, np.ndarray] = field(repr=False)
    details: tuple[str, ...] = ()
    wrong: Mapping[str, int] = field(default_factory=dict)
    ill_conditioned: Mapping[str, int] = field(default_factory=dict)
    data: Data = "onchip"


def emulate_kernel(compiled: Compiled, target: Target, values: Mapping[str, np.ndarray | int | float]) -> Emulated:
    """Run the emitted text by the tools that the ISA file names, on fresh copies of `values`."""
    return emulate(compiled.asm, target.real, compiled.source.name, arguments_of(compiled, values))


def run_emulated(
    path: str,
    target: Target,
    options: Options,
    *,
    inputs: Mapping[str, np.ndarray | int | float] | None = None,
    seed: int = 0,
    on_stage: OnStage | None = None,
) -> EmulatedResult:
    """Compile, run the emitted text in the emulator, and compare every output array with the C program's."""
    return emulated(compile_file(path, target, options, on_stage=on_stage), path, target, options, inputs, seed)


def emulated(
    compiled: Compiled,
    path: str,
    target: Target,
    options: Options,
    inputs: Mapping[str, np.ndarray | int | float] | None = None,
    seed: int = 0,
) -> EmulatedResult:
    """The same with code that `compile_file` has made."""
    func = compiled.source
    given = {**oracle.default_inputs(path, func, options.defines, options.includes, inputs), **(inputs or {})}
    values = oracle.random_inputs(func, seed, given)
    started = time.perf_counter()
    result = emulate_kernel(compiled, target, values)
    seconds = time.perf_counter() - started
    wanted = oracle.reference(path, func, values, options.defines, options.includes, fp=options.fp)
    verdict = oracle.compare(func, result.outputs, wanted, options.fp)
    sizes = {k: int(v) for k, v in values.items() if isinstance(v, int)}
    return EmulatedResult(
        kernel=func.name,
        isa=target.name,
        packets=result.packets,
        bound_cycles=bound(func, target, data=options.data, values=sizes).cycles,
        verified=verdict.verified,
        max_error=verdict.max_error,
        compile_seconds=compiled.compile_seconds,
        simulate_seconds=seconds,
        loops=compiled.scheduled.loops,
        tiles=compiled.tiles,
        choices=compiled.choices,
        remarks=compiled.remarks,
        outputs=result.outputs,
        details=verdict.details,
        wrong=verdict.wrong,
        ill_conditioned=verdict.ill_conditioned,
        data=options.data,
    )
