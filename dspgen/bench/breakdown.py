"""What each layer of rewriting is worth: the breakdown of "Kernel Code Automatic Generation Framework on FT-Matrix"
(2023), Fig. 15, over the kernels of its Table 1 that fit in on-chip memory.

Every kernel is compiled with rewriting off (instructions selected as a plain compiler does: what the machine lacks is
expanded, products and sums are contracted), with the rules that mention the vector side alone, and with all rules; each
once with a single vector of each statement in an iteration and once with the register tiles that the search finds.
What scheduling is worth is told against packets in the order of the program: the same instructions at single vectors,
loops neither unrolled nor pipelined, each packet filled with what comes next while it is independent and has a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dspgen.bench.outcomes import Outcome, Row, first_refusal, geometric_mean, outcome_or_refusal
from dspgen.bench.programs import Kernel, autocor, by_name, conv2d, fft, matmul
from dspgen.bench.spread import spread
from dspgen.driver.pipeline import run_file
from dspgen.errors import DspgenError
from dspgen.options import REWRITE_MODES, Options, RewriteMode
from dspgen.target.load import load_target

TileMode = Literal["one", "search"]
TILES: tuple[TileMode, ...] = ("one", "search")
SEED_GAIN = 3.49  # Fig. 15: rewriting across scalar and vector units over the vectorization that it starts from
SEED_SCHEDULING_GAIN = 4.67  # the same: instruction-level optimization


KERNELS = by_name(
    (
        *(autocor(n) for n in (10, 16, 256, 512)),
        *(fft(1 << k) for k in range(2, 11)),
        *(conv2d(kind, n, f) for n, f in ((4, 2), (16, 2), (256, 4)) for kind in ("valid", "full")),
        *(matmul(n) for n in (4, 8, 16, 256)),
    )
)


@dataclass(frozen=True, slots=True)
class Run:
    """One way of compiling one kernel: register tiles or none, and the rules; or packets in the program's order."""

    kernel: Kernel
    isa: str
    sets: tuple[tuple[str, str], ...]
    tile: TileMode
    mode: RewriteMode | Literal["in order"]

    @property
    def title(self) -> str:
        return f"{self.kernel.name}, {self.mode}, {self.tile}"


def measure(
    kernels: Sequence[Kernel],
    isa: str,
    sets: tuple[tuple[str, str], ...],
    jobs: int,
    on_run: Callable[[Run], None],
    on_refusal: Callable[[str, DspgenError], None],
) -> list[Row]:
    """A row for each kernel: `cycles[tile][mode]` and `in_order`, the cycles of packets in the program's order, None
    where it was refused; `verified` if all results were right. `on_run` is called as runs end, `jobs` at a time."""
    runs = [run for kernel in kernels for run in runs_of(kernel, isa, sets)]
    outcomes = dict(zip(runs, spread(outcome_of, runs, jobs, on_run), strict=True))
    return [_row(kernel, load_target(isa, sets).name, outcomes, on_refusal) for kernel in kernels]


def runs_of(kernel: Kernel, isa: str, sets: tuple[tuple[str, str], ...]) -> tuple[Run, ...]:
    ways = [(tile, mode) for tile in TILES for mode in REWRITE_MODES]
    return (*(Run(kernel, isa, sets, *way) for way in ways), Run(kernel, isa, sets, "one", "in order"))


def outcome_of(run: Run) -> Outcome:
    """Compile, simulate and compare; `verified` is in the facts."""
    return outcome_or_refusal(lambda: _simulated(run))


def _simulated(run: Run) -> Outcome:
    if run.mode == "in order":
        options = Options(defines=run.kernel.defines, tile=run.tile, pipeline=False, sched="order")
    else:
        options = Options(defines=run.kernel.defines, tile=run.tile, rewrite=run.mode)
    result = run_file(run.kernel.source, load_target(run.isa, run.sets), options)
    return Outcome(result.cycles, {"verified": result.verified}, result.details)


def _row(
    kernel: Kernel, isa: str, outcomes: Mapping[Run, Outcome], on_refusal: Callable[[str, DspgenError], None]
) -> Row:
    of_kernel = {run: outcome for run, outcome in outcomes.items() if run.kernel == kernel}
    row: Row = {"kernel": kernel.name, "isa": isa, "verified": None, "cycles": {}, "details": []}
    for run, outcome in of_kernel.items():
        if run.mode == "in order":
            row["in_order"] = outcome.cycles
        else:
            row["cycles"].setdefault(run.tile, {})[run.mode] = outcome.cycles
        row["details"] += outcome.details
    if judged := [v for o in of_kernel.values() if (v := o.facts.get("verified")) is not None]:
        row["verified"] = all(judged)
    row["refused"] = first_refusal(kernel.name, of_kernel.values(), on_refusal)
    return row


def summary(rows: Sequence[Row]) -> Row:
    """Gains as geometric means: of all rules over none, and over those of the vector side, without register tiles and
    with them; of scheduling over packets in order, with all that we do and (`_alone`) at single vectors, too; and where
    all rules lost to fewer, or the schedule to the order of the program."""
    whole = [r for r in rows if r["refused"] is None]
    found: Row = {
        "kernels": len(rows),
        "verified": sum(r["verified"] is True and r["refused"] is None for r in rows),
        "wrong": sum(r["verified"] is False for r in rows),
        "refused": len(rows) - len(whole),
        "seed_gain": SEED_GAIN,
        "seed_scheduling_gain": SEED_SCHEDULING_GAIN,
        "slower": [
            r["kernel"] for r in whole if any(r["cycles"][t]["full"] > min(r["cycles"][t].values()) for t in TILES)
        ],
    }
    found["slower_than_in_order"] = [r["kernel"] for r in whole if _best(r) > r["in_order"]]
    found["scheduling_gain"] = geometric_mean(r["in_order"] / _best(r) for r in whole)
    found["scheduling_gain_alone"] = geometric_mean(r["in_order"] / r["cycles"]["one"]["full"] for r in whole)
    for tile, suffix in (("one", ""), ("search", "_tiled")):
        found[f"rewriting_gain{suffix}"] = _gain(whole, tile, "off")
        found[f"scalar_vector_gain{suffix}"] = _gain(whole, tile, "vector")
    return found


def _gain(rows: Sequence[Row], tile: str, mode: str) -> float | None:
    return geometric_mean(r["cycles"][tile][mode] / r["cycles"][tile]["full"] for r in rows)


def _best(row: Row) -> int:
    return int(row["cycles"]["search"]["full"])
