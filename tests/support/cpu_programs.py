"""C text, schedules and inputs for tests of the C++ backend, and the comparison with the reference meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from backends.cpu.build import build
from backends.cpu.emit import emit
from backends.cpu.kernel import Kernel
from dspgen.frontend.read import read_c
from plant_core.interp.func import evaluate
from plant_core.ir import c_semantics
from plant_core.ir.func import Buf, Func
from plant_core.ir.loop_tree import Tag
from plant_core.ir.scheduled import Scheduled, as_written
from plant_core.scan import scan
from plant_core.schedule.verbs.tags import tag


def read(folder: Path, text: str) -> Func:
    path = folder / "program.c"
    path.write_text(text, encoding="utf-8")
    return read_c(str(path))


def inputs_of(func: Func, seed: int = 0, given: dict[str, int] | None = None) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for param in func.params:
        dtype = c_semantics.NUMPY[param.dtype]
        if not isinstance(param, Buf):
            found[param.name] = (given or {}).get(param.name, 3)
        elif c_semantics.is_float(param.dtype):
            found[param.name] = rng.normal(size=param.extents).astype(dtype)
        else:
            low = 0 if param.dtype.startswith("u") else -100
            found[param.name] = rng.integers(low, 100, size=param.extents).astype(dtype)
    return found


def tagged(scheduled: Scheduled, *tags: tuple[str, str, Tag]) -> Scheduled:
    for name, loop, kind in tags:
        scheduled = tag(scheduled, name, loop, kind)
    return scheduled


def run_compiled(
    scheduled: Scheduled, inputs: dict[str, Any], folder: Path, *, vector_bytes: int = 64, threads: bool = True
) -> tuple[dict[str, Any], str]:
    """The array arguments after the compiled run, and the C++ text."""
    fp: Literal["reassoc", "strict"] = "reassoc" if scheduled.reassoc else "strict"
    source = emit(scheduled.func, scan(scheduled), fp=fp, vector_bytes=vector_bytes, threads=threads)
    kernel = Kernel(scheduled.func, build(source, fp=fp, cache_dir=folder / "built"))
    passed = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in inputs.items()}
    kernel(**passed)
    return passed, source


def check(
    folder: Path,
    text: str,
    *tags: tuple[str, str, Tag],
    reassoc: bool = False,
    vector_bytes: int = 64,
    given: dict[str, int] | None = None,
) -> str:
    """The C++ text of `text` with its loops tagged, which computes what the program means."""
    func = read(folder, text)
    inputs = inputs_of(func, given=given)
    scheduled = tagged(as_written(func, reassoc=reassoc), *tags)
    got, source = run_compiled(scheduled, inputs, folder, vector_bytes=vector_bytes)
    for name, want in evaluate(func, inputs).items():
        if reassoc and want.dtype.kind == "f":
            np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-4, err_msg=source)
        else:
            np.testing.assert_array_equal(got[name], want, err_msg=source)
    return source
