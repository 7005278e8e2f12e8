"""Ways of finding register tiles: their cycles, how many tiles they compile, and seconds of processor time.

python bench/tilers.py [--write] [KERNEL]...: makes the table in docs/vectorizer.md. All tiles of a kernel take minutes.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from tables import write_table

from dspgen.bench.programs import program
from dspgen.driver.pipeline import RunResult, run_file
from dspgen.options import TILERS, Options
from dspgen.target.load import load_target

KERNELS: dict[str, tuple[str, dict[str, int]]] = {
    "matmul 16": ("matmul.c", {"N": 16}),
    "matmul 33 x 17 x 20": ("polybench/gemm.c", {"NI": 33, "NJ": 17, "NK": 20}),
    "matrix-vector 32": ("matvec.c", {"N": 32}),
    "convolution 16 x 16, 2 x 2": ("conv2d_valid.c", {"H": 16, "W": 16, "F": 2}),
    "FIR": ("fir.c", {}),
    "autocorrelation of a history": ("autocor_history.c", {}),
    "stencil": ("stencil3.c", {}),
}
HEAD = [
    "| kernel | " + " | ".join(f"{t}: cycles | tiles | s" for t in TILERS) + " | feedback over all |",
    "|---|" + "---|" * (3 * len(TILERS) + 1),
]


def row(name: str) -> str:
    file, sizes = KERNELS[name]
    options = Options(defines=tuple((k, str(v)) for k, v in sizes.items()))
    found: dict[str, tuple[RunResult, float]] = {}
    for tiler in TILERS:
        started = time.process_time()
        result = run_file(program(file), load_target("ft_m7002"), replace(options, tiler=tiler))
        assert result.verified, (name, tiler)
        found[tiler] = result, time.process_time() - started
    cells = []
    for result, seconds in found.values():
        tried = sum(t.tried for choice in result.choices for t in choice.trials)
        cells.append(f"{result.cycles} | {tried} | {seconds:.1f}")
    ratio = found["feedback"][0].cycles / found["exhaustive"][0].cycles
    return f"| {name} | {' | '.join(cells)} | {ratio:.3f} |"


def main() -> None:
    table = list(HEAD)
    for name in [a for a in sys.argv[1:] if not a.startswith("--")] or KERNELS:
        table.append(row(name))
        print(table[-1], flush=True)
    if "--write" in sys.argv:
        write_table("vectorizer.md", "tilers", table)


if __name__ == "__main__":
    main()
