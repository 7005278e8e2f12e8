"""Our kernels against their peers: all from the same inputs, in turn, the fastest of several runs of each."""

from __future__ import annotations

import ctypes
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from backends.cpu.ir.names import symbol
from dspgen import oracle
from dspgen.bench import polybench
from dspgen.bench.outcomes import geometric_mean
from dspgen.bench.peers import Blas, Compiler, compilers
from dspgen.bench.verify import OnRefusal
from dspgen.driver.cpu import build_cpu, compile_cpu
from dspgen.errors import DspgenError
from dspgen.internal_error import is_of_the_computer, message_of
from dspgen.options import Options
from dspgen.report import output
from plant_core.ir.c_semantics import is_float
from plant_core.ir.func import Buf, DType, Func
from plant_core.support.interruptible import apart
from plant_core.support.location import PlantError

Row = dict[str, Any]
Arrays = Mapping[str, np.ndarray]
Values = Mapping[str, np.ndarray | int | float]

MEASURED = 1.5  # seconds of runs of one kernel, all contenders together, unless its few runs take longer
ROUNDS = (3, 60)
SLOW = 3.0  # a run that takes this many seconds isn't repeated
ALIGNMENT = 64
BLAS_SIZE = 2048
# Seconds for the threads of one contender to go to sleep before the next one's turn, where runs are short or long.
RESTS = (0.01, 0.05)
LONG = 0.2  # seconds of a C compiler's run that make it a judge of ours: an exact build would take many times as long
NEAR = 1e-5  # of an array's largest value: as far as our result may be from such a judge's

_CTYPES: dict[str, Any] = {
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "u8": ctypes.c_uint8,
    "u16": ctypes.c_uint16,
    "u32": ctypes.c_uint32,
}


@dataclass(frozen=True, slots=True)
class Setting:
    """How the measurement is made. `environment` is what the matrix product's process starts with."""

    threads: int
    peers: tuple[str, ...]
    cache: Path | None
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Problem:
    """One kernel at one size: `size` is its name, or the extent of a square matrix product."""

    kernel: str
    size: str
    defines: polybench.Defines


def problems(kernels: Sequence[str], size: str, peers: Sequence[str]) -> list[Problem]:
    """The kernels at `size`; the matrix product also at the size where a library's speed is known."""
    found = [Problem(kernel, size, polybench.defines(kernel, size)) for kernel in kernels]
    if "gemm" in kernels and "blas" in peers:
        square = tuple((name, str(BLAS_SIZE)) for name, _ in polybench.defines("gemm", size))
        found.insert([p.kernel for p in found].index("gemm") + 1, Problem("gemm", str(BLAS_SIZE), square))
    return found


def measure(
    wanted: Sequence[Problem],
    setting: Setting,
    on_step: Callable[[str], None],
    on_row: Callable[[Row], None],
    on_refusal: OnRefusal,
) -> list[Row]:
    """A row for each problem. A kernel that can't be compiled gets the reason as `refused`.

    Raises DspgenError or PlantError where this computer lacks something that every kernel needs.
    """
    rows = []
    with tempfile.TemporaryDirectory(prefix="dspgen-bench-") as folder:
        rivals = compilers(setting.peers, Path(folder))
        for problem in wanted:
            on_step(f"{problem.kernel} {problem.size}")
            try:
                found = _measure(problem, rivals, setting, Path(folder))
            except (DspgenError, PlantError) as error:
                if is_of_the_computer(error):
                    raise
                on_refusal(f"{problem.kernel} {problem.size}", error)
                found = {"refused": message_of(error), "judge": None, **_seconds({})}
            row = {"kernel": problem.kernel, "backend": "cpu", "size": problem.size, "threads": setting.threads}
            rows.append(output.result_object(**row, **found))
            on_row(rows[-1])
    return rows


def _measure(problem: Problem, rivals: Sequence[Compiler], setting: Setting, folder: Path) -> Row:
    path = polybench.source(problem.kernel)
    options = Options(defines=problem.defines)
    compiled = compile_cpu(path, options, threads=setting.threads)
    kernel = build_cpu(compiled, options, threads=setting.threads, cache=setting.cache)
    func = compiled.source
    values = oracle.random_inputs(func, 0, oracle.default_inputs(path, func, options.defines))
    held = _Held(func, values)
    own = ctypes.CDLL(str(kernel.path))
    if kernel.threads is not None:
        own.omp_set_num_threads(kernel.threads)
    outputs: dict[str, Arrays] = {}

    def run(name: str, function: Any) -> float:
        seconds = held.seconds(function)
        if name not in outputs and (name == "ours" or seconds > LONG):
            outputs[name] = held.outputs()
        return seconds

    runs: dict[str, Callable[[], float]] = {"ours": partial(run, "ours", own[symbol(kernel.func)])}
    for rival in rivals:
        library = folder / f"{problem.kernel}-{problem.size}-{rival.name}.so"
        rival.build(path, problem.defines, library)
        runs[rival.name] = partial(run, rival.name, ctypes.CDLL(str(library))[func.name])
    with ExitStack() as stack:
        if "blas" in setting.peers and problem.kernel == "gemm" and problem.size == str(BLAS_SIZE):
            product = stack.enter_context(Blas(BLAS_SIZE, setting.threads, setting.environment))
            runs["blas"] = product.seconds
        (best,) = apart(lambda: race(runs))
    verdict = judge(func, outputs) or _verified(path, func, values, options, outputs["ours"])
    return {**verdict, "refused": None, "compile_seconds": compiled.compile_seconds, **_seconds(best)}


def _seconds(best: Mapping[str, float]) -> Row:
    """Each contender's seconds, and how many times as fast as it ours is."""
    ours = best.get("ours")
    found: Row = {"ours_seconds": ours}
    for name in ("gcc", "clang-polly", "blas"):
        key = name.replace("clang-", "")
        found[f"{key}_seconds"] = best.get(name)
        ratio = best[name] / ours if ours and name in best else None
        found["ratio" if name == "gcc" else f"{key}_ratio"] = ratio
    return found


def race(runs: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    """The least seconds of each contender. They take turns, each round begun by another; what takes long runs once."""
    best: dict[str, float] = dict.fromkeys(runs, math.inf)
    spent = 0.0
    for turn in range(ROUNDS[1]):
        if turn >= ROUNDS[0] and spent > MEASURED:
            break
        first = turn % len(runs)
        order = [*runs][first:] + [*runs][:first]
        for name in [name for name in order if turn == 0 or best[name] < SLOW]:
            if len(runs) > 1:
                time.sleep(RESTS[best[name] > RESTS[1]])
            seconds = runs[name]()
            best[name] = min(best[name], seconds)
            spent += seconds
    return best


class _Held:
    """A kernel's arguments in memory that all contenders use in turn, and their values at the start."""

    def __init__(self, func: Func, values: Values) -> None:
        self._changed: list[tuple[np.ndarray, np.ndarray]] = []
        self._named: dict[str, np.ndarray] = {}
        self._arguments: list[Any] = []
        for param in func.params:
            value = values[param.name]
            if not isinstance(param, Buf):
                self._arguments.append(_CTYPES[param.dtype](value))
                continue
            original = np.ascontiguousarray(value)
            array = _aligned(original)
            self._arguments.append(ctypes.c_void_p(array.ctypes.data))
            self._named[param.name] = array
            if not param.const:
                self._changed.append((array, original))
        self._outputs = [p.name for p in func.params if isinstance(p, Buf) and not p.const]

    def seconds(self, function: Any) -> float:
        """How long one call takes, from the values at the start."""
        for array, original in self._changed:
            np.copyto(array, original)
        function.restype = None
        started = time.perf_counter()
        function(*self._arguments)
        return time.perf_counter() - started

    def outputs(self) -> dict[str, np.ndarray]:
        return {name: self._named[name].copy() for name in self._outputs}


def _aligned(original: np.ndarray) -> np.ndarray:
    raw = np.empty(original.nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    array = raw[start : start + original.nbytes].view(original.dtype).reshape(original.shape)
    np.copyto(array, original)
    return array


def judge(func: Func, outputs: Mapping[str, Arrays]) -> Row | None:
    """Ours is right where it is as good as equal to what another compiler made of the same C text; else None.

    `outputs` has the arrays of ours and of each contender that may judge.
    """
    dtypes = {p.name: p.dtype for p in func.params if isinstance(p, Buf)}
    for name in [name for name in outputs if name != "ours"]:
        distances = [_distance(dtypes[a], ours, outputs[name][a]) for a, ours in outputs["ours"].items()]
        if all(near for near, _ in distances):
            error = max((distance for _, distance in distances), default=0.0)
            return {"verified": True, "max_error": error, "details": [], "judge": name}
    return None


def _distance(dtype: DType, ours: np.ndarray, theirs: np.ndarray) -> tuple[bool, float]:
    """Whether two arrays are near each other, and the largest distance."""
    if not is_float(dtype):
        return bool(np.array_equal(ours, theirs)), 0.0
    if not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
        return False, math.inf
    distance = float(np.max(np.abs(ours - theirs), initial=0.0))
    return distance <= NEAR * float(np.max(np.abs(theirs), initial=0.0)), distance


def _verified(path: str, func: Func, values: Values, options: Options, outputs: Arrays) -> Row:
    """Against the C program as built without optimisation of floats, and the same in double, both at once."""
    (wanted,) = apart(partial(oracle.reference, path, func, values, options.defines, fp=options.fp))
    verdict = oracle.compare(func, outputs, wanted, options.fp)
    found = {n: getattr(verdict, n) for n in ("verified", "max_error", "details", "wrong", "ill_conditioned")}
    return {**found, "judge": "C program"}


def summary(rows: Sequence[Row]) -> Row:
    """Over the rows of one size: for each peer the geometric mean and the least of the ratios, where there are any.

    `slower` counts the kernels in which ours takes longer than the peer.
    """
    slowest = max((row for row in rows if row["compile_seconds"]), key=lambda row: row["compile_seconds"], default=None)
    found: Row = {
        "kernels": len(rows),
        "verified": sum(row["verified"] is True for row in rows),
        "wrong": sum(row["verified"] is False for row in rows),
        "refused": sum(row["refused"] is not None for row in rows),
        "slowest_compile_seconds": slowest["compile_seconds"] if slowest else None,
        "slowest_compile_kernel": slowest["kernel"] if slowest else None,
    }
    for name, key in (("gcc", "ratio"), ("clang-polly", "polly_ratio"), ("blas", "blas_ratio")):
        ratios = [(row[key], row["kernel"]) for row in _suite(rows, key)]
        if ratios:
            least, kernel = min(ratios)
            found[name] = {
                "geometric_mean": geometric_mean(r for r, _ in ratios),
                "worst": least,
                "worst_kernel": kernel,
                "slower": sum(ratio < 1 for ratio, _ in ratios),
                "kernels": len(ratios),
            }
    return found


def _suite(rows: Sequence[Row], key: str) -> Iterator[Row]:
    """The rows that a mean is over: the library's own row is no further kernel of the suite."""
    for row in rows:
        if row[key] is not None and (key == "blas_ratio" or row["size"] != str(BLAS_SIZE)):
            yield row
