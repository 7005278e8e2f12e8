"""What packing is worth on this computer: the kernels of GPAT's evaluation, unpacked and packed, in turns.

python bench/packing.py [--write] [--size SIZE] [--seconds N] [NAMES]: makes the table in docs/packing.md, of kernels
whose names begin so. Each kernel runs on one thread in three schedules: as its text has it, tiled by hand, and the
default one without panels; each without copies and with those that GPAT chooses, and the default one with its own
panels, too. All variants of a kernel take turns on the same inputs, each round begun by another. Milliseconds are the
median of CPU time, a gain is the median of the rounds' own gains.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from tables import write_table

from backends.cpu.build import find_compiler, vector_width
from backends.cpu.caches import caches
from backends.cpu.kernel import Kernel, compile_cpu
from dspgen import oracle
from dspgen.bench import polybench
from dspgen.frontend.read import read_c
from plant_core.ir.func import Buf, Func
from plant_core.ir.scheduled import Scheduled, as_written
from plant_core.lang.program import Program
from plant_core.schedule.auto import Machine, default_schedule
from plant_core.schedule.packing import Caches, Packing, pack
from plant_core.schedule.packing.nests import regions
from plant_core.schedule.verbs import tag
from plant_core.support.location import IllegalSchedule

ROOT = Path(__file__).parent.parent
ROUNDS = (5, 31)
HEAD = [
    "| kernel | schedule | packed by GPAT | plain ms | GPAT ms | gain | panels ms |",
    "|---|---|---|" + "---:|" * 4,
]
Defines = tuple[tuple[str, str], ...]
Values = dict[str, np.ndarray | int | float]


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel's file, and verbs that tile the program as written, for some sizes of tiles. Without `whole` the other
    schedules are another case's."""

    file: Path
    tile: Callable[[Program, int], object] = lambda p, tile: p
    tiles: tuple[int, ...] = (32,)
    whole: bool = True

    def defines(self, size: str) -> Defines:
        name = self.file.stem
        if name == "contract3d":
            return CONTRACTION[size]
        found = dict(polybench.defines(name, size))
        if name == "gramschmidt" and int(found["M"]) < int(found["N"]):
            found = {"M": found["N"], "N": found["M"]}  # with more columns than rows the last ones are rounding
        return tuple(found.items())


CONTRACTION = {
    size: tuple(zip(("NI", "NJ", "NK", "NL"), extents.split(), strict=True))
    for size, extents in {
        "mini": "9 10 12 14", "small": "25 30 40 50", "medium": "50 60 80 100", "large": "200 220 80 100",
        "odd": "13 11 17 19",
    }.items()
}  # fmt: skip


def _gemm(p: Program, tile: int) -> object:
    p["S1"].after("S0", None)
    return p["S1"].tile({"i": tile, "k": tile, "j": tile})


def _blis(p: Program, tile: int) -> object:
    """The order of BLIS's loops over blocks, and k innermost in them."""
    _gemm(p, tile)
    return p["S1"].reorder("j_o", "k_o", "i_o", "j_i", "i_i", "k_i")


def _products(p: Program, tile: int) -> object:
    """Each product apart from what starts its sums, and tiled."""
    for first in range(0, len(p.statements), 2):
        p[f"S{first + 1}"].after(f"S{first}", None)
    for first in range(0, len(p.statements), 2):
        p[f"S{first + 1}"].tile({"i": tile, "j": tile, "k": tile})
    return p


def _doitgen(p: Program, tile: int) -> object:
    p["S1"].after("S0", "q")
    return p["S1"].tile({"p": tile, "s": tile})


def _trmm(p: Program, tile: int) -> object:
    p["S1"].after("S0", None)
    return p["S0"].tile({"i": tile, "j": tile, "k": tile})


def _contraction(p: Program, tile: int) -> object:
    return p["S0"].tile({"i": tile, "j": tile, "k": tile, "l": tile})


POLYBENCH = ROOT / "examples" / "polybench"
CASES = {
    "gemm": Case(POLYBENCH / "gemm.c", _gemm, (32, 64, 128)),
    "gemm_blis": Case(POLYBENCH / "gemm.c", _blis, (32, 64, 128), whole=False),
    "2mm": Case(POLYBENCH / "2mm.c", _products, (32, 64)),
    "3mm": Case(POLYBENCH / "3mm.c", _products, (32, 64)),
    "doitgen": Case(POLYBENCH / "doitgen.c", _doitgen),
    "gramschmidt": Case(POLYBENCH / "gramschmidt.c", tiles=()),
    "trmm": Case(POLYBENCH / "trmm.c", _trmm),
    "contract3d": Case(ROOT / "examples" / "packing" / "contract3d.c", _contraction),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """One schedule of a kernel, and what GPAT makes of it."""

    name: str
    plain: Scheduled
    packed: Scheduled
    packings: tuple[Packing, ...]
    panels: Scheduled | None = None

    @property
    def chosen(self) -> str:
        """Each copy with its loop, and its dimensions where their order changes."""
        found = []
        for c in (c for packing in self.packings for c in packing.packed):
            order = "" if list(c.order) == sorted(c.order) else f" {list(c.order)}"
            found.append(f"{c.array.name} at {c.loop.name}{order}")
        return ", ".join(found) or "nothing"


def vectorized(scheduled: Scheduled) -> Scheduled:
    """Innermost loops that carry nothing as vectors."""
    loops = [loop for region in regions(scheduled) for loop in region.loops]
    for loop in loops:
        if not any(loop.holds(other) for other in loops if other is not loop):
            for name in loop.members:
                try:
                    scheduled = tag(scheduled, name, scheduled.nest(name).loops[-1], "vectorize")
                except IllegalSchedule:
                    continue
    return scheduled


def plans(case: Case, func: Func, machine: Caches) -> list[Plan]:
    orders: list[tuple[str, Scheduled, Scheduled | None]] = []
    if case.whole:
        orders.append(("text", vectorized(as_written(func, reassoc=True)), None))
    for tile in case.tiles:
        program = Program(func, reassoc=True)
        case.tile(program, tile)
        orders.append((f"tiles of {tile}", vectorized(program.scheduled), None))
    if case.whole:
        core = Machine.of(vector_width(find_compiler()), 1)
        own = default_schedule(func, machine=core, panels=False)
        panels = default_schedule(func, machine=core)
        orders.append(("default", own, panels if len(panels.nests) > len(own.nests) else None))
    return [Plan(name, plain, *pack(plain, machine), panels) for name, plain, panels in orders]


class Runner:
    """A kernel on inputs of its own, and the arrays that it changed last."""

    def __init__(self, scheduled: Scheduled, func: Func, values: Values) -> None:
        self.kernel: Kernel = compile_cpu(scheduled, threads=1)
        self.func = func
        self.values = values
        self.outputs: dict[str, np.ndarray] = {}

    def seconds(self) -> float:
        arguments = {n: np.array(v) if isinstance(v, np.ndarray) else v for n, v in self.values.items()}
        started = time.process_time()
        self.kernel(**arguments)
        spent = time.process_time() - started
        changed = {p.name for p in self.func.params if isinstance(p, Buf) and not p.const}
        self.outputs = {n: v for n, v in arguments.items() if n in changed and isinstance(v, np.ndarray)}
        return spent


def measured(runners: list[Runner], seconds: float) -> list[list[float]]:
    """The CPU time of each round of each, in turns, each round begun by another; the first one only warms up."""
    found: list[list[float]] = [[] for _ in runners]
    for turn in range(ROUNDS[1] + 1):
        for k in range(len(runners)):
            number = (turn + k) % len(runners)
            spent = runners[number].seconds()
            if turn:
                found[number].append(spent)
        if turn >= ROUNDS[0] and sum(map(sum, found)) > seconds:
            break
    return found


def agree(first: Runner, other: Runner) -> bool:
    return all(
        np.allclose(array, other.outputs[name], rtol=1e-3, atol=1e-4 * float(np.abs(array).max()))
        for name, array in first.outputs.items()
    )


def rows(name: str, case: Case, size: str, seconds: float) -> list[str]:
    defines = case.defines(size)
    func = read_c(str(case.file), defines=defines)
    values: Values = oracle.random_inputs(func, 0, oracle.default_inputs(str(case.file), func, defines))
    found = plans(case, func, caches())
    known: dict[int, Runner] = {}
    for scheduled in [s for p in found for s in (p.plain, p.packed, p.panels) if s is not None]:
        known.setdefault(id(scheduled), Runner(scheduled, func, values))
    times = dict(zip(known, measured(list(known.values()), seconds), strict=True))
    first = next(iter(known.values()))

    def shown(scheduled: Scheduled) -> str:
        right = agree(first, known[id(scheduled)])
        return f"{1e3 * median(times[id(scheduled)]):.1f}" if right else "wrong"

    lines = []
    for plan in found:
        cells = [name, plan.name, plan.chosen, shown(plan.plain), "", "", ""]
        if plan.packed is not plan.plain:
            gains = [a / b for a, b in zip(times[id(plan.plain)], times[id(plan.packed)], strict=True)]
            cells[4:6] = [shown(plan.packed), f"{median(gains):.2f}"]
        if plan.panels is not None:
            cells[6] = shown(plan.panels)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    arguments = sys.argv[1:]
    size = arguments[arguments.index("--size") + 1] if "--size" in arguments else "large"
    seconds = float(arguments[arguments.index("--seconds") + 1]) if "--seconds" in arguments else 15.0
    given = ("--size", "--seconds")
    only = [a for k, a in enumerate(arguments) if not a.startswith("--") and (k == 0 or arguments[k - 1] not in given)]
    lines = list(HEAD)
    for name, case in CASES.items():
        if not only or any(name.startswith(o) for o in only):
            for line in rows(name, case, size, seconds):
                lines.append(line)
                print(line, flush=True)
    if "--write" in arguments:
        write_table("packing.md", "packing", lines)


if __name__ == "__main__":
    main()
