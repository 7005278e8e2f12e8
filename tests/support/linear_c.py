"""Linear assembly beside the C functions that it does the same as: scheduled, judged, simulated, compared."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dspgen.check.equivalence import check
from dspgen.driver.linear_asm import ScheduledLinear, schedule_text
from dspgen.frontend.parse.preprocess import run_compiler
from dspgen.lasm.function import Linear
from dspgen.sim.linear_evaluator import evaluate
from dspgen.sim.run import simulate
from dspgen.target.load import load_target

TARGET = "ft_m7002"
ROOM = 32  # words that vectors may read past an array's end
Arguments = list[tuple[str, Any]]


def floats(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.standard_normal(size).astype(np.float32)


def words(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.integers(-1000, 1000, size, dtype=np.int32)


def shorts(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.integers(-30000, 30000, size, dtype=np.int16)


def library_of(folder: Path, path: Path) -> ctypes.CDLL:
    """All C functions of a folder."""
    sources = [str(p) for p in sorted(folder.glob("*.c"))]
    flags = ["-O1", "-ffp-contract=off", "-fwrapv", "-fno-builtin", "-shared", "-fPIC"]
    assert run_compiler([*flags, *sources, "-o", str(path)]).returncode == 0
    return ctypes.CDLL(str(path))


def run_c(library: ctypes.CDLL, name: str, arguments: Arguments, result: Any = ctypes.c_int) -> tuple[Any, Any]:
    """What the C function returns, and its arrays after the run."""
    arrays = {k: v.copy() for k, v in arguments if isinstance(v, np.ndarray)}
    kinds = {np.float32: ctypes.c_float, np.float64: ctypes.c_double}
    given: list[Any] = [
        arrays[key].ctypes.data_as(ctypes.c_void_p)
        if key in arrays
        else kinds.get(type(value), ctypes.c_int)(value.item() if isinstance(value, np.generic) else value)
        for key, value in arguments
    ]
    function = getattr(library, name)
    function.restype = result
    return function(*given), arrays


def scheduled(path: Path) -> ScheduledLinear:
    """The function of the file's name."""
    found = schedule_text(path.read_bytes(), load_target(TARGET), file=str(path))
    return next(f for f in found if f.name == path.stem)


def assert_as_c(path: Path, library: ctypes.CDLL, runs: Sequence[Arguments], result: Any = ctypes.c_int) -> None:
    """The packets do what the text does, by the schedule checker and by the simulator, and what the C function does."""
    target = load_target(TARGET)
    function = scheduled(path)
    text = path.read_text(encoding="utf-8")
    for arguments in runs:
        told = f"{path.stem}({', '.join(f'{k}={v}' for k, v in arguments if not isinstance(v, np.ndarray))})"
        returned, expected = run_c(library, path.stem, arguments, result)
        files = (f"{path.stem}.sa", f"{path.stem}.s")
        if text.count(".global") == 1:  # the checker reads one function, in the spelling of `--emit lasm`
            judged = check(text, function.asm, target, arguments, files=files)
            assert judged.problems == () and judged.all_paths, "\n".join(p.render() for p in judged.problems)
        fresh = [(k, v.copy() if isinstance(v, np.ndarray) else v) for k, v in arguments]
        got = simulate(function.asm, target, arguments=fresh, strict=False)
        sequential = evaluate(function.linear.sequence, target, fresh, strict=False)
        for key, value in expected.items():
            if value.dtype.kind == "f":
                np.testing.assert_allclose(got.outputs[key], value, rtol=1e-4, atol=1e-4, err_msg=f"{key} in {told}")
            else:
                np.testing.assert_array_equal(got.outputs[key], value, err_msg=f"{key} in {told}")
            np.testing.assert_array_equal(got.outputs[key], sequential.outputs[key], err_msg=f"{key} in {told}")
        if function.linear.program.outputs:
            _assert_returned(function.linear, got.result_bits, returned, told)


def _assert_returned(linear: Linear, bits: int, returned: Any, told: str) -> None:
    if isinstance(returned, float):
        value = np.array([bits & 0xFFFFFFFF], np.uint32).view(np.float32)[0]
        np.testing.assert_allclose(value, returned, rtol=1e-4, err_msg=told)
    else:
        assert (bits - returned) & 0xFFFFFFFF == 0, f"{told} of {linear.program.name}: {bits} for {returned}"
