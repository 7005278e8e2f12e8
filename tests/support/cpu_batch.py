"""Many kernels in one library: a compiler's start is most of what a small one costs."""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from backends.cpu.build import find_compiler, flags_of
from backends.cpu.emit import emit
from backends.cpu.kernel import Kernel
from dspgen import oracle
from dspgen.frontend.read import read_c
from plant_core.ir.func import Buf, Func
from plant_core.ir.scheduled import Scheduled
from plant_core.scan import scan
from plant_core.schedule.auto import Machine, default_schedule
from tests.generators import kernels

FloatRules = Literal["reassoc", "strict"]
_HEADERS = "#include <stdlib.h>\n#ifdef __AVX512F__\n#include <immintrin.h>\n#endif\n"


@dataclass(frozen=True, slots=True)
class Setting:
    fp: FloatRules = "reassoc"
    threads: int = 1
    vector_bytes: int = 64
    compiler: str | None = None


@dataclass(frozen=True, slots=True)
class Made:
    seed: int
    path: Path
    func: Func
    scheduled: Scheduled
    cpp: str
    given: tuple[dict[str, int], ...]


def made(seed: int, folder: Path, setting: Setting) -> Made:
    """The random kernel of this seed, as C++."""
    kernel = kernels.random_kernel(random.Random(seed), name=f"k{seed}", branches=setting.fp == "strict")
    path = folder / f"{kernel.name}.c"
    path.write_text(kernel.text, encoding="utf-8")
    func = read_c(str(path))
    machine = replace(Machine(), threads=setting.threads)
    scheduled = default_schedule(func, reassoc=setting.fp == "reassoc", machine=machine)
    tree = scan(scheduled)
    cpp = emit(scheduled.func, tree, fp=setting.fp, vector_bytes=setting.vector_bytes, threads=setting.threads > 1)
    return Made(seed, path, func, scheduled, cpp, kernel.given)


def library(found: list[Made], folder: Path, setting: Setting) -> Path:
    """All of them, each in a namespace of its own."""
    source, result = folder / "all.cpp", folder / "all.so"
    source.write_text(_HEADERS + "\n".join(f"namespace n{m.seed} {{\n{m.cpp}\n}}" for m in found), encoding="utf-8")
    command = find_compiler(setting.compiler)
    flags = [f for f in flags_of(command, fp=setting.fp, march="native") if f != "-O3"]
    thing = str(source.with_suffix(".o"))
    subprocess.run([command, *flags, "-O1", "-fopenmp", "-c", str(source), "-o", thing], check=True)
    subprocess.run([command, "-shared", "-fopenmp", thing, "-o", str(result), "-lm"], check=True)
    return result


def check(one: Made, path: Path, setting: Setting) -> None:
    """Its results for every set of sizes are the C program's."""
    kernel = Kernel(one.scheduled.func, path, threads=setting.threads)
    for given in one.given:
        values = oracle.random_inputs(one.func, one.seed, given)
        got: dict[str, Any] = {
            p.name: np.array(values[p.name]) if isinstance(p, Buf) else values[p.name] for p in one.func.params
        }
        kernel(**got)
        wanted = oracle.reference(str(one.path), one.func, values, fp=setting.fp)
        verdict = oracle.compare(one.func, got, wanted, setting.fp)
        # What grows without bound differs by more than rounding when it is added up in another order.
        floats = [a for a in wanted.single.values() if a.dtype.kind == "f"]
        wild = setting.fp == "reassoc" and any(not np.isfinite(a).all() for a in floats)
        assert not verdict.wrong or wild, (one.path.read_text(), given, verdict.details, one.cpp)


def run(seeds: range, folder: Path, setting: Setting) -> None:
    found = [made(seed, folder, setting) for seed in seeds]
    path = library(found, folder, setting)
    for one in found:
        check(one, path, setting)
