"""How long `optimise` takes on each program that compiling an example hands it.

python bench/rewrite_speed.py [NAME ...]

With `tiles` in place of names: on the tiles of the seed paper's kernels, for 4 to 64 lanes, with the e-graphs' sizes.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from unittest.mock import patch

from dspgen.backend import stages
from dspgen.backend.garbage import seldom_collecting
from dspgen.bench.tiles import TILES
from dspgen.driver import pipeline
from dspgen.options import Options
from dspgen.rewrite.optimize import MissingOperation, Optimised, forget, optimise
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from dspgen.vecdsl.analysis.integer_ranges import readable
from dspgen.vecdsl.ir.program import Loop, Program, Stmt

EXAMPLES = Path(__file__).parent.parent / "examples"
DEFAULT = ("matmul", "conv2d_valid", "fir", "autocor_history", "fft256", "matvec")


def programs(name: str, target: Target) -> list[Program]:
    """The programs that a compilation of the example hands to `optimise`, in its order."""
    found: list[Program] = []

    def recorded(program: Program, target: Target, **options: object) -> Optimised:
        found.append(program)
        return optimise(program, target, **options)  # type: ignore[arg-type]

    with patch.object(stages, "optimise", recorded):
        pipeline.compile_file(str(EXAMPLES / f"{name}.c"), target, Options())
    return list(dict.fromkeys(found))


def _statements(body: tuple[Stmt, ...]) -> int:
    return sum(1 + (_statements(s.body) if isinstance(s, Loop) else 0) for s in body)


def tiles() -> None:
    """Each tile warm: rules are made and known, this program's graph and extraction are not; the median of five runs,
    with as little looking for garbage as there is when a file is compiled."""
    for make in TILES:
        for lanes in (4, 8, 16, 32, 64):
            target, program = load_target("ft_m7002", [("lanes", str(lanes))]), make(lanes)
            runs = []
            with seldom_collecting():
                for _ in range(6):
                    forget()
                    before = time.process_time()
                    result = optimise(program, target, readable=readable(program))
                    runs.append(time.process_time() - before)
            took = statistics.median(runs[1:])
            print(f"{make.__name__:18} {lanes:2} lanes {result.nodes:5} nodes {took * 1000:6.0f} ms")


def main() -> None:
    if sys.argv[1:] == ["tiles"]:
        tiles()
        return
    target = load_target("ft_m7002")
    recorded = {name: programs(name, target) for name in sys.argv[1:] or DEFAULT}
    total = 0.0
    for name in recorded:
        subtotal = 0.0
        forget()
        for number, program in enumerate(recorded[name]):
            before = time.process_time()
            refused = ""
            try:
                optimise(program, target, readable=readable(program))
            except MissingOperation:
                refused = "  refused"
            took = time.process_time() - before
            subtotal += took
            print(f"{name:18} {number:5} {_statements(program.body):5} statements {took * 1000:8.0f} ms{refused}")
        print(f"{name:18}   all {subtotal * 1000:24.0f} ms")
        total += subtotal
    print(f"optimise {total:.2f} s of {sum(map(len, recorded.values()))} programs")


if __name__ == "__main__":
    main()
