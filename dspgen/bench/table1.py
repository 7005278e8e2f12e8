"""The kernels of Table 1 of "Kernel Code Automatic Generation Framework on FT-Matrix" (2023): cycles against the
machine's bound, and against what simpler ways of making code take.

The others come of the same road with layers turned off, and of data on the chip, whatever the table's are: scalar code
(`scalar`: no vectors, packets filled in the order of the program), plain vector code (`vector`: one lane loop, nothing
rewritten, nothing pipelined), and vector code without rules between the scalar and the vector side (`apart`). So that
alike is compared with alike, kernels are compiled for data on the chip (`chip`), too; of those of up to 16 elements a
side, the schedule checker tells how few cycles their instructions could take there (`least_cycles`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dspgen import oracle
from dspgen.backend.stages import Compiled, arguments_of, stack_of
from dspgen.bench.outcomes import Outcome, Row, first_refusal, geometric_mean, outcome_or_refusal
from dspgen.bench.programs import Kernel, autocor, by_name, conv2d, fft, fft_loop, matmul
from dspgen.bench.spread import spread
from dspgen.check.lower_bound import least_cycles
from dspgen.driver.pipeline import compile_file, run_compiled
from dspgen.errors import DspgenError
from dspgen.options import Data, Options
from dspgen.report import output
from dspgen.sim.text.parse import assemble
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target

Way = Literal["full", "chip", "scalar", "vector", "apart"]
BASELINES: tuple[Way, ...] = ("scalar", "vector", "apart")
SMALL = 16
SEED_SPEEDUP = 14.01  # of the paper over its scalar code, all sizes; 5.06 from 256 elements on
_SIMULATED = 5_000_000  # cycles of a baseline; above, what its schedule tells is believed

# Table 1's last columns: rounds of the search, minutes to compile. It has no FFT of 64 points.
SEED: dict[str, tuple[int, float]] = {
    "autocor_10": (1, 0.13),
    "autocor_16": (1, 0.17),
    "autocor_256": (107, 89),
    "autocor_512": (131, 113),
    "fft_4": (1, 0.08),
    "fft_8": (1, 1.35),
    "fft_16": (1, 7),
    "fft_32": (1, 12),
    "fft_128": (4, 22),
    "fft_256": (5, 35),
    "fft_512": (5, 35),
    "fft_1024": (5, 35),
    "conv2d_valid_4_2": (1, 0.07),
    "conv2d_valid_16_2": (1, 0.23),
    "conv2d_valid_256_4": (25, 121),
    "conv2d_valid_512_4": (25, 121),
    "matmul_4": (1, 0.07),
    "matmul_8": (1, 0.17),
    "matmul_16": (1, 1.72),
    "matmul_256": (63, 189),
    "matmul_512": (67, 202),
}


KERNELS = by_name(
    (
        *(autocor(n) for n in (10, 16, 256, 512)),
        *(fft(1 << k) for k in range(2, 11)),
        *(fft_loop(1 << k) for k in range(2, 11)),
        *(conv2d("valid", n, f) for n, f in ((4, 2), (16, 2), (256, 4), (512, 4))),
        *(matmul(n) for n in (4, 8, 16, 256, 512)),
    )
)


@dataclass(frozen=True, slots=True)
class Task:
    """One way of compiling one kernel: the table's own, or with data on the chip (`chip`), or a baseline."""

    kernel: Kernel
    isa: str
    sets: tuple[tuple[str, str], ...]
    data: Data
    way: Way

    @property
    def title(self) -> str:
        return f"{self.kernel.name}, {self.way}"


def tasks(
    kernels: Sequence[Kernel], isa: str, sets: tuple[tuple[str, str], ...], data: Data, *, baselines: bool
) -> list[Task]:
    return [
        Task(kernel, isa, sets, data, way)
        for kernel in kernels
        for way in (
            "full",
            *(("chip",) if data != "onchip" and (baselines or kernel.side <= SMALL) else ()),
            *(BASELINES if baselines else ()),
        )
    ]


def measure(
    wanted: Sequence[Task],
    jobs: int,
    on_task: Callable[[Task], None],
    on_refusal: Callable[[str, DspgenError], None],
) -> list[Row]:
    """A row for each kernel; see `docs/cli.md`. `on_task` is called as tasks end, `jobs` at a time."""
    outcomes = dict(zip(wanted, spread(outcome_of, wanted, jobs, on_task), strict=True))
    kernels = dict.fromkeys(task.kernel for task in wanted)
    return [_row({t: o for t, o in outcomes.items() if t.kernel == k}, on_refusal) for k in kernels]


def outcome_of(task: Task) -> Outcome:
    """Compile, simulate and compare."""
    return outcome_or_refusal(lambda: _simulated(task))


def _simulated(task: Task) -> Outcome:
    target, options = load_target(task.isa, task.sets), _options(task)
    compiled = compile_file(task.kernel.source, target, options)
    return (_judged if task.way == "full" else _counted)(compiled, task, target, options)


def _options(task: Task) -> Options:
    defines = task.kernel.defines
    match task.way:
        case "full":
            return Options(defines=defines, data=task.data)
        case "chip":
            return Options(defines=defines)
        case "scalar":
            return Options(
                defines=defines, vectorize=False, rewrite="off", tile="one", pipeline=False, sched="order"
            )  # fmt: skip
        case "vector":
            return Options(defines=defines, rewrite="off", tile="one", pipeline=False, sched="list")
    return Options(defines=defines, rewrite="vector")


def _judged(compiled: Compiled, task: Task, target: Target, options: Options) -> Outcome:
    result = run_compiled(compiled, task.kernel.source, target, options)
    facts = output.run_object(result)
    facts["candidates"] = sum(t.cycles is not None for c in compiled.choices for t in c.trials)
    if task.kernel.side <= SMALL and task.data == "onchip":
        facts["least_cycles"] = _least(compiled, task, target, options)
    return Outcome(result.cycles, facts, result.details)


def _counted(compiled: Compiled, task: Task, target: Target, options: Options) -> Outcome:
    """A baseline's cycles, simulated if they are few or can't be told otherwise; and the least of a small kernel."""
    told = compiled.scheduled.cycles
    if task.way != "chip" and told is not None and told > _SIMULATED:
        return Outcome(told)
    result = run_compiled(compiled, task.kernel.source, target, options)
    facts: Row = {"verified": result.verified}
    if task.way == "chip" and task.kernel.side <= SMALL:
        facts["least_cycles"] = _least(compiled, task, target, options)
    return Outcome(result.cycles, facts, result.details)


def _least(compiled: Compiled, task: Task, target: Target, options: Options) -> int | None:
    given = oracle.default_inputs(task.kernel.source, compiled.source, options.defines, options.includes)
    arguments = arguments_of(compiled, oracle.random_inputs(compiled.source, 0, given))
    found = least_cycles(assemble(compiled.asm, target.real), target.real, arguments, stack=stack_of(compiled))
    return None if found is None else found.cycles


def _row(outcomes: Mapping[Task, Outcome], on_refusal: Callable[[str, DspgenError], None]) -> Row:
    ways = {task.way: outcome for task, outcome in outcomes.items()}
    first = next(iter(outcomes))
    full = ways["full"]
    row = full.facts or output.result_object(isa=load_target(first.isa, first.sets).name)
    rounds, minutes = SEED.get(first.kernel.name.replace("fft_loop", "fft"), (None, None))
    row |= {"kernel": first.kernel.name, "data": first.data, "seed_rounds": rounds, "seed_minutes": minutes}
    row |= {f"{way}_cycles": ways[way].cycles if way in ways else None for way in BASELINES}
    chip = ways.get("chip", full if first.data == "onchip" else Outcome(None))
    row |= {"chip_cycles": chip.cycles, "least_cycles": chip.facts.get("least_cycles")}
    mine = full.cycles if chip.cycles is None else chip.cycles
    row |= {f"over_{way}": _ratio(row[f"{way}_cycles"], mine) for way in BASELINES}
    row["over_least"] = _ratio(row["chip_cycles"], row["least_cycles"])
    row["details"] = [d for o in ways.values() for d in o.details]
    row["baselines_verified"] = all(ways[w].facts.get("verified") is not False for w in ways if w != "full")
    row["refused"] = first_refusal(first.kernel.name, ways.values(), on_refusal)
    return row


def _ratio(one: int | None, other: int | None) -> float | None:
    return one / other if one is not None and other else None


def summary(rows: Sequence[Row]) -> Row:
    """Counts, geometric means of the speed-ups beside the paper's, compile times, and the worst of the small rows."""
    timed = [r for r in rows if r["compile_seconds"] is not None]
    slowest = max(timed, key=lambda r: float(r["compile_seconds"]), default=None)
    least = [r["over_least"] for r in rows if r["over_least"] is not None]
    return {
        "kernels": len(rows),
        "verified": sum(r["verified"] is True for r in rows),
        "wrong": sum(r["verified"] is False or not r["baselines_verified"] for r in rows),
        "refused": sum(r["refused"] is not None for r in rows),
        **{f"over_{way}": geometric_mean(r[f"over_{way}"] for r in rows) for way in BASELINES},
        "seed_over_scalar": SEED_SPEEDUP,
        "slower_than_scalar": [r["kernel"] for r in rows if r["over_scalar"] is not None and r["over_scalar"] < 1],
        "most_over_least": max(least, default=None),
        "compile_seconds": sum(r["compile_seconds"] for r in timed),
        "slowest_compile_seconds": slowest["compile_seconds"] if slowest else None,
        "slowest_compile_kernel": slowest["kernel"] if slowest else None,
    }
