"""Integer kernels on a machine with real tools: packets that an emulator counts, beside those of other compilers' code.

The rivals are the compilers and flags of the ISA file (`[toolchain]`), each on the kernel's own text and on others that
compute the same (row by row, in blocks); of all of them, the fewest packets count. What a rival gets wrong doesn't.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dspgen import oracle, report
from dspgen.bench.outcomes import Outcome, Row, first_refusal, geometric_mean, outcome_or_refusal
from dspgen.bench.programs import Kernel, by_name, program
from dspgen.bench.spread import spread
from dspgen.emulated_road import emulated
from dspgen.emulator import emulate_c, missing_tools
from dspgen.errors import DspgenError, Problem
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.pipeline import compile_file
from dspgen.stages import passed, simulate_kernel
from dspgen.target.load import load_target
from dspgen.target.model import Target

MACHINE = "hexagon_v66"
FOLDER = "bench/hexagon"
SHORT = (("IN", "short"),)
OTHERS = {"matmul": ("matmul_rows", "matmul_blocks"), "conv": ("conv_rows",), "fir": ("fir_rows",)}


def _kernel(file: str, side: int, name: str = "", defines: tuple[tuple[str, str], ...] = ()) -> Kernel:
    return Kernel(name or file, f"{FOLDER}/{file}.c", side, defines)


KERNELS = by_name(
    (
        _kernel("matmul", 64, "matmul_16", SHORT),
        _kernel("matmul", 64, "matmul_32"),
        _kernel("conv", 64, "conv_16", SHORT),
        _kernel("conv", 64, "conv_32"),
        _kernel("autocor", 256),
        _kernel("fir", 256, "fir_16", SHORT),
        _kernel("fir", 256, "fir_32"),
        _kernel("sobel", 128),
        _kernel("box", 128),
        _kernel("dot", 1024),
        _kernel("saxpy", 1024),
    )
)


@dataclass(frozen=True, slots=True)
class Task:
    """A kernel by our compiler, or by all rivals."""

    kernel: Kernel
    isa: str
    sets: tuple[tuple[str, str], ...]
    ours: bool

    @property
    def title(self) -> str:
        return f"{self.kernel.name}{'' if self.ours else ', rivals'}"


def tasks(kernels: Sequence[Kernel], isa: str, sets: tuple[tuple[str, str], ...]) -> list[Task]:
    """Raises DspgenError where a tool is missing."""
    if lacking := missing_tools(load_target(isa, sets)):
        raise DspgenError(Problem("DG521", lacking))
    return [Task(kernel, isa, sets, ours) for kernel in kernels for ours in (True, False)]


def measure(
    wanted: Sequence[Task],
    jobs: int,
    on_task: Callable[[Task], None],
    on_refusal: Callable[[str, DspgenError], None],
) -> list[Row]:
    """A row for each kernel; see docs/cli.md."""
    outcomes = dict(zip(wanted, spread(outcome_of, wanted, jobs, on_task), strict=True))
    return [
        _row(task.kernel, outcomes[task], outcomes[Task(task.kernel, task.isa, task.sets, False)], task, on_refusal)
        for task in wanted
        if task.ours
    ]


def outcome_of(task: Task) -> Outcome:
    target = load_target(task.isa, task.sets)
    return outcome_or_refusal(lambda: _ours(task, target) if task.ours else _rivals(task.kernel, target))


def _ours(task: Task, target: Target) -> Outcome:
    """Our code in the emulator, verified, and whether our simulator says the same of it."""
    path, options = task.kernel.source, Options(defines=task.kernel.defines)
    compiled = compile_file(path, target, options)
    result = emulated(compiled, path, target, options)
    values = oracle.random_inputs(
        compiled.source, 0, oracle.default_inputs(path, compiled.source, options.defines, options.includes)
    )
    simulated = simulate_kernel(compiled, target, values)
    same = all(np.array_equal(result.outputs[name], array) for name, array in simulated.outputs.items())
    facts = report.emulated_object(result) | {"simulated_packets": simulated.packets}
    facts["agree"] = same and result.packets == simulated.packets
    return Outcome(result.packets, facts, result.details)


def _rivals(kernel: Kernel, target: Target) -> Outcome:
    """The packets of each rival on each text, without those that compute something else."""
    assert target.toolchain is not None
    func = read_c(kernel.source, defines=kernel.defines)
    values = oracle.random_inputs(func, 0, oracle.default_inputs(kernel.source, func, kernel.defines, ()))
    wanted = oracle.run_c(kernel.source, func, values, kernel.defines)
    arguments = [(p.name, passed(p, values[p.name])) for p in func.params]
    macros = "".join(f"#define {name} {value}\n" for name, value in kernel.defines)
    found: dict[str, int] = {}
    files = (Path(kernel.file).stem, *OTHERS.get(func.name, ()))
    for file in files:
        text = macros + Path(program(f"{FOLDER}/{file}.c")).read_text(encoding="utf-8")
        for name, command in target.toolchain.rivals:
            run = emulate_c(text, command, target, func.name, arguments)
            if all(np.array_equal(run.outputs[k], array) for k, array in wanted.items()):
                found[f"{name} {file}"] = run.packets
    return Outcome(min(found.values(), default=None), {"peers": found})


def _row(
    kernel: Kernel, ours: Outcome, rivals: Outcome, task: Task, on_refusal: Callable[[str, DspgenError], None]
) -> Row:
    row = ours.facts or report.result_object(isa=load_target(task.isa, task.sets).name, packets=None, agree=None)
    peers = rivals.facts.get("peers", {})
    row |= {"kernel": kernel.name, "cycles": None, "efficiency": None, "peers": peers, "best_peer": rivals.cycles}
    row["best_peer_name"] = min(peers, key=lambda name: peers[name], default=None)
    row["over_peer"] = rivals.cycles / ours.cycles if ours.cycles and rivals.cycles else None
    row["details"] = list(ours.details)
    row["refused"] = first_refusal(kernel.name, (ours, rivals), on_refusal)
    return row


def summary(rows: Sequence[Row]) -> Row:
    """Counts, the geometric mean of the best rivals' packets over ours, and where ours are more."""
    return {
        "kernels": len(rows),
        "verified": sum(r["verified"] is True for r in rows),
        "wrong": sum(r["verified"] is False for r in rows),
        "refused": sum(r["refused"] is not None for r in rows),
        "agree": sum(r["agree"] is True for r in rows),
        "over_peer": geometric_mean(r["over_peer"] for r in rows),
        "behind": [r["kernel"] for r in rows if r["over_peer"] is not None and r["over_peer"] < 1],
    }
