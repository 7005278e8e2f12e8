"""Integer kernels on a machine with real tools: packets that an emulator counts, beside those of other compilers' code.

The rivals are the compilers and flags of the ISA file (`[toolchain]`), each on the kernel's own text and on others that
compute the same (row by row, in blocks), and Halide where it is installed; of all of them, the fewest packets count.
What a rival gets wrong doesn't.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dspgen import oracle
from dspgen.backend.stages import passed, simulate_kernel
from dspgen.bench import halide_kernels
from dspgen.bench.outcomes import Outcome, Row, first_refusal, geometric_mean, outcome_or_refusal
from dspgen.bench.programs import Kernel, by_name, program
from dspgen.bench.spread import spread
from dspgen.driver.emulator import emulated
from dspgen.driver.pipeline import compile_file
from dspgen.errors import DspgenError, Problem
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.report import output
from dspgen.sim.external import emulate_c, missing_tools
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from plant_core.ir.func import Buf, Func, ScalarParam

MACHINE = "hexagon_v66"
FOLDER = "bench/hexagon"
_SCHEDULES = 16  # of a kernel in Halide, at most
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
    facts = output.emulated_object(result) | {"simulated_packets": simulated.packets}
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
    halide = _halide(func, target, arguments, wanted)
    peers = found | halide
    return Outcome(min(peers.values(), default=None), {"peers": peers, "halide": min(halide.values(), default=None)})


def _halide(
    func: Func, target: Target, arguments: Sequence[tuple[str, Any]], wanted: Mapping[str, np.ndarray]
) -> dict[str, int]:
    """The packets of Halide's code by schedule, without those that compute something else; none without Halide."""
    assert target.toolchain is not None
    if not target.toolchain.halide or find_spec("halide") is None or func.name not in halide_kernels.KERNELS:
        return {}
    params = [_halide_param(p, value) for p, (_, value) in zip(func.params, arguments, strict=True)]
    vector = target.lanes * target.register_class(target.abi.scalar_class).bits // 8
    job = {"kernel": func.name, "target": target.toolchain.halide, "vector": vector, "params": params}
    command = f"{shlex.quote(sys.executable)} -m {halide_kernels.__name__} {{source}} {{object}}"
    found: dict[str, int] = {}
    for number in range(_SCHEDULES):
        made = [(command, "generated.j", json.dumps(job | {"schedule": number}))]
        try:
            text = _halide_call(func)
            run = emulate_c(text, target.toolchain.compile, target, func.name, arguments, made)
        except DspgenError as refusal:
            if f"status {halide_kernels.NO_SCHEDULE}:" in str(refusal):
                break
            if f"status {halide_kernels.REFUSED}:" in str(refusal):
                continue
            raise
        if all(np.array_equal(run.outputs[k], array) for k, array in wanted.items()):
            found[f"halide {number}"] = run.packets
    return found


def _halide_param(param: Buf | ScalarParam, value: np.ndarray | int | float) -> dict[str, Any]:
    kind = np.asarray(value).dtype
    names = {"i": "Int", "u": "UInt", "f": "Float"}
    shape = [int(n) for n in np.shape(value)]
    bits = 8 * kind.itemsize if shape else 32
    return {"name": param.name, "type": names[kind.kind], "bits": [bits], "shape": shape}


def _halide_call(func: Func) -> str:
    """C text of the function by the one that Halide made; of its buffers' fields that one reads the arrays alone."""
    kept = "static struct {unsigned long long device; void *interface, *host; unsigned long long flags; unsigned type; "
    kept += "int dimensions; void *dim, *padding;} " + ", ".join(f"b{k}" for k in range(len(func.params) + 1)) + ";"
    arrays = [isinstance(p, Buf) for p in func.params]
    given = ", ".join(f"void *given{k}" if array else f"int given{k}" for k, array in enumerate(arrays))
    hosts = " ".join(f"b{k}.host = given{k};" for k, array in enumerate(arrays) if array)
    passed_on = ", ".join([*(f"&b{k}" if array else f"given{k}" for k, array in enumerate(arrays)), f"&b{len(arrays)}"])
    body = f"{hosts} b{len(arrays)}.host = given0; generated({passed_on});"
    return f"{kept}\nint generated();\nvoid {func.name}({given}) {{ {body} }}\n"


def _row(
    kernel: Kernel, ours: Outcome, rivals: Outcome, task: Task, on_refusal: Callable[[str, DspgenError], None]
) -> Row:
    row = ours.facts or output.result_object(isa=load_target(task.isa, task.sets).name, packets=None, agree=None)
    peers = rivals.facts.get("peers", {})
    row |= {"kernel": kernel.name, "cycles": None, "efficiency": None, "peers": peers, "best_peer": rivals.cycles}
    row["halide"] = rivals.facts.get("halide")
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
        "over_halide": {r["kernel"]: r["packets"] / r["halide"] for r in rows if r["packets"] and r["halide"]},
    }
