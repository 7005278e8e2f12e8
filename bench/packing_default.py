"""What `--pack gpat` is worth on the default schedule of PolyBench's kernels, beside the schedule's own panels.

python bench/packing_default.py [--write] [--seconds N] [NAMES]: makes the table in docs/packing.md: the kernels whose
names begin so, at PolyBench's own sizes and at powers of two, where either copies anything. One thread; see packing.py
for how it is measured.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from statistics import median

from packing import POLYBENCH, Case, Defines, Plan, Runner, Values, agree, measured
from tables import write_table

from backends.cpu.build import find_compiler, vector_width
from backends.cpu.caches import caches
from dspgen import oracle
from dspgen.bench import polybench
from dspgen.frontend.read import read_c
from plant_core.schedule.auto import Machine, default_schedule
from plant_core.schedule.packing import pack

HEAD = [
    "| kernel | size | packed by GPAT | nothing ms | panels ms | GPAT ms | over nothing | over panels |",
    "|---|---|---|" + "---:|" * 5,
]
STEPS = ("TSTEPS", "TMAX")
CUBES = ("doitgen", "heat-3d")


def sizes(kernel: str) -> Iterator[tuple[str, Defines]]:
    for size in ("medium", "large"):
        yield size, Case(POLYBENCH / f"{kernel}.c").defines(size)
    for extent in (256, 512, 1024):
        n = extent // 8 if kernel in CUBES else extent
        names = [name for name, _ in polybench.defines(kernel, "mini")]
        yield str(n), tuple((name, "5" if name in STEPS else str(n)) for name in names)


def row(kernel: str, size: str, defines: Defines, seconds: float) -> tuple[str, float, float] | None:
    """The line, and what GPAT gains over no copies and over panels; None where nothing is copied either way."""
    path = str(POLYBENCH / f"{kernel}.c")
    func = read_c(path, defines=defines)
    core = Machine.of(vector_width(find_compiler()), 1)
    plain, panels = (default_schedule(func, machine=core, panels=p) for p in (False, True))
    packed, packings = pack(plain, caches())
    if packed is plain and len(panels.nests) == len(plain.nests):
        return None
    values: Values = oracle.random_inputs(func, 0, oracle.default_inputs(path, func, defines))
    runners = [Runner(s, func, values) for s in (plain, panels, packed)]
    times = measured(runners, seconds)
    figures = [
        f"{1e3 * median(t):.2f}" if agree(runners[0], r) else "wrong" for t, r in zip(times, runners, strict=True)
    ]
    gains = [median(a / b for a, b in zip(other, times[2], strict=True)) for other in times[:2]]
    chosen = Plan("default", plain, packed, packings).chosen
    cells = [kernel, size, chosen, *figures, *(f"{g:.2f}" for g in gains)]
    return f"| {' | '.join(cells)} |", gains[0], gains[1]


def main() -> None:
    arguments = sys.argv[1:]
    seconds = float(arguments[arguments.index("--seconds") + 1]) if "--seconds" in arguments else 4.0
    only = [
        a for k, a in enumerate(arguments) if not a.startswith("--") and (k == 0 or arguments[k - 1] != "--seconds")
    ]
    lines, gains = list(HEAD), list[tuple[float, float]]()
    for kernel in polybench.KERNELS:
        if only and not any(kernel.startswith(o) for o in only):
            continue
        for size, defines in sizes(kernel):
            found = row(kernel, size, defines, seconds)
            if found is not None:
                gains.append(found[1:])
                lines.append(found[0])
                print(lines[-1], flush=True)
    over = [math.exp(sum(map(math.log, g)) / len(gains)) for g in zip(*gains, strict=True)] if gains else []
    lines += ["", f"Geometric means over {len(gains)} rows: {', '.join(f'{g:.2f}' for g in over) or 'none'}."]
    print(lines[-1])
    if "--write" in arguments:
        write_table("packing.md", "packing_default", lines)


if __name__ == "__main__":
    main()
