"""How long `optimise` takes on each candidate plan of the examples: `python bench/rewrite_speed.py [name ...]`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from dspgen.errors import DspgenError
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.pipeline import FINALISTS, compile_plan
from dspgen.rewrite.optimise import MissingOperation, optimise
from dspgen.target.load import load_target
from dspgen.target.model import Target
from dspgen.target.operations import OperationTable
from dspgen.tiling.candidates import candidates
from dspgen.tiling.machine import Machine
from dspgen.tiling.nests import nests
from dspgen.vecdsl.ir import Loop, Program, Stmt
from dspgen.vecdsl.ranges import readable
from plant_core.dependence import rebalance_reductions
from plant_core.ir import Func
from plant_core.loc import PlantError
from plant_core.scalars import expand_scalars
from plant_core.schedule import normalise_loops
from plant_core.tiles import Plan

EXAMPLES = Path(__file__).parent.parent / "examples"
DEFAULT = ("matmul", "conv2d_valid", "fir", "autocor_history", "fft256", "matvec")


class _Enough(Exception):
    """Ends a compilation at the stage in question."""


def _func(name: str) -> Func:
    return expand_scalars(normalise_loops(rebalance_reductions(read_c(str(EXAMPLES / f"{name}.c")), reassoc=True)))


def programs(name: str, target: Target) -> Iterator[tuple[str, Program]]:
    """The programs that the search would hand to `optimise`, named by nest and candidate."""
    func = _func(name)
    machine = Machine(target, OperationTable(target))
    for where, nest in enumerate(nests(func)):
        for number, candidate in enumerate(candidates(nest, target, machine, FINALISTS)):
            got: list[Program] = []

            def stage(kind: str, value: object, got: list[Program] = got) -> None:
                if kind == "promoted" and isinstance(value, Program):
                    got.append(value)
                    raise _Enough

            try:
                compile_plan(func, Plan(candidate.plans), target, Options(), on_stage=stage)
            except (_Enough, DspgenError, PlantError):
                pass
            if got:
                yield f"{where}.{number}", got[0]


def _statements(body: tuple[Stmt, ...]) -> int:
    return sum(1 + (_statements(s.body) if isinstance(s, Loop) else 0) for s in body)


def main() -> None:
    started = time.perf_counter()
    target = load_target("ft_m7002")
    total = 0.0
    for name in sys.argv[1:] or DEFAULT:
        subtotal = 0.0
        for label, program in programs(name, target):
            before = time.perf_counter()
            refused = ""
            try:
                optimise(program, target, readable=readable(program))
            except MissingOperation:
                refused = "  refused"
            took = time.perf_counter() - before
            subtotal += took
            print(f"{name:18} {label:>5} {_statements(program.body):5} statements {took * 1000:8.0f} ms{refused}")
        print(f"{name:18}   all {subtotal * 1000:24.0f} ms")
        total += subtotal
    print(f"optimise {total:.2f} s of {time.perf_counter() - started:.2f} s")


if __name__ == "__main__":
    main()
