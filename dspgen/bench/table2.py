"""Table 2 of "Kernel Code Automatic Generation Framework on FT-Matrix" (2023): how kernels speed up as the machine gets
more lanes and more multiply-add units, over the machine of one lane and one unit.

Data are on the chip, or off it with a path to memory of two bytes a lane and cycle. The machine's own file says what
grows with the units, such as the slots of packets. No code for a machine is faster than its bound, so that the speed-up
is below the baseline's cycles over that bound (`speedup_limit`): the better the baseline, the lower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dspgen.bench.outcomes import Outcome, Row, first_refusal, outcome_or_refusal
from dspgen.bench.programs import Kernel, autocor, by_name, conv2d, fft, matmul
from dspgen.bench.spread import spread
from dspgen.driver.pipeline import run_file
from dspgen.errors import DspgenError, Problem
from dspgen.options import Data, Options
from dspgen.report import output
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from dspgen.target.query.operations import OperationTable

Point = tuple[int, int]  # lanes, and units of multiply-adds

BASELINE: Point = (1, 1)
POINTS: tuple[Point, ...] = (BASELINE, (16, 2), (32, 4), (64, 4))
DDR_BYTES = 2  # a lane and cycle

KERNELS = by_name((autocor(512), fft(512), conv2d("valid", 512, 4), matmul(512)))
OFF_CHIP = ("conv2d_valid.c", "matmul.c")  # the data of these

# The paper's speed-ups over one lane and one unit.
SEED: dict[str, dict[Point, float]] = {
    name: dict(zip(POINTS, (1.0, *speedups), strict=True))
    for name, speedups in {
        "autocor_512": (10.67, 56.70, 146.54),
        "fft_512": (19.32, 28.98, 56.74),
        "conv2d_valid_512_4": (17.94, 69.9, 84.47),
        "matmul_512": (28.67, 116.82, 216.12),
    }.items()
}


@dataclass(frozen=True, slots=True)
class Task:
    """One kernel on the machine at one point; `sets` are the figures that make it so, after those of the user."""

    kernel: Kernel
    isa: str
    sets: tuple[tuple[str, str], ...]
    data: Data
    point: Point

    @property
    def title(self) -> str:
        return f"{self.kernel.name}, {self.point[0]}/{self.point[1]}"


def tasks(
    kernels: Sequence[Kernel], isa: str, sets: tuple[tuple[str, str], ...], points: Sequence[Point] = POINTS
) -> list[Task]:
    """The kernels at the points. Raises DspgenError where the machine has no multiply-add or can't be made so."""
    target = load_target(isa, sets)
    units, memories = multiplier(target), [m.name for m in target.memories if not m.onchip]
    made = []
    for lanes, macs in points:
        figures = [("lanes", lanes), (f"units.{units}.count", macs)]
        figures += [(f"memories.{name}.bytes_per_cycle", DDR_BYTES * lanes) for name in memories]
        varied = (*sets, *((key, str(value)) for key, value in figures))
        load_target(isa, varied)
        made.append((varied, (lanes, macs)))
    return [
        Task(kernel, isa, varied, "ddr" if kernel.file in OFF_CHIP else "onchip", point)
        for kernel in kernels
        for varied, point in made
    ]


def multiplier(target: Target) -> str:
    """The units of the lanes' multiply-adds of floats. Raises DspgenError where there are none."""
    rows = [form.instruction for form in OperationTable(target).forms("mac", "f32")]
    for unit in target.units:
        if unit.side == "vector" and any({*unit.members} & {*row.units} for row in rows):
            return unit.name
    what = f"`{target.name}` has no multiply-add of floats on its lanes, whose units this bench varies"
    raise DspgenError(Problem("DG520", what, remedy="take another machine: `dspgen isa list` names them"))


def measure(
    wanted: Sequence[Task],
    jobs: int,
    on_task: Callable[[Task], None],
    on_refusal: Callable[[str, DspgenError], None],
) -> list[Row]:
    """A row for each kernel and point; see `docs/table2.md`. `on_task` is called as tasks end, `jobs` at a time."""
    outcomes = dict(zip(wanted, spread(outcome_of, wanted, jobs, on_task), strict=True))
    base = {t.kernel: o.cycles for t, o in outcomes.items() if t.point == BASELINE}
    return [_row(task, outcome, base.get(task.kernel), on_refusal) for task, outcome in outcomes.items()]


def outcome_of(task: Task) -> Outcome:
    """Compile, simulate and compare."""
    return outcome_or_refusal(lambda: _simulated(task))


def _simulated(task: Task) -> Outcome:
    options = Options(defines=task.kernel.defines, data=task.data)
    result = run_file(task.kernel.source, load_target(task.isa, task.sets), options)
    return Outcome(result.cycles, output.run_object(result), result.details)


def _row(task: Task, outcome: Outcome, base: int | None, on_refusal: Callable[[str, DspgenError], None]) -> Row:
    row = outcome.facts or output.result_object(isa=load_target(task.isa, task.sets).name)
    lanes, macs = task.point
    row |= {"kernel": task.kernel.name, "data": task.data, "lanes": lanes, "macs": macs}
    row |= {"speedup": _ratio(base, row["cycles"]), "speedup_limit": _ratio(base, row["bound_cycles"])}
    row |= {"linear": lanes * macs / (BASELINE[0] * BASELINE[1])}
    row |= {"seed_speedup": SEED.get(task.kernel.name, {}).get(task.point), "details": list(outcome.details)}
    row["refused"] = first_refusal(task.title, [outcome], on_refusal)
    return row


def _ratio(one: int | None, other: int | None) -> float | None:
    return one / other if one is not None and other else None


def summary(rows: Sequence[Row]) -> Row:
    """Counts, the least efficient baseline, and the rows that speed up less than the paper's."""
    timed = [r for r in rows if r["compile_seconds"] is not None]
    slowest = max(timed, key=lambda r: float(r["compile_seconds"]), default=Row())
    baselines = [r["efficiency"] for r in rows if is_baseline(r) and r["efficiency"] is not None]
    return {
        "kernels": len(rows),
        "verified": sum(r["verified"] is True for r in rows),
        "wrong": sum(r["verified"] is False for r in rows),
        "refused": sum(r["refused"] is not None for r in rows),
        "baseline_efficiency": min(baselines, default=None),
        "below_seed": [
            f"{r['kernel']} {r['lanes']}/{r['macs']}"
            for r in rows
            if r["speedup"] is not None and r["seed_speedup"] is not None and r["speedup"] < r["seed_speedup"]
        ],
        "slowest_compile_seconds": slowest.get("compile_seconds"),
        "slowest_compile_kernel": slowest.get("kernel"),
    }


def is_baseline(row: Row) -> bool:
    return (row["lanes"], row["macs"]) == BASELINE
