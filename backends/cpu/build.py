"""C++ text to a shared object, by whichever compiler there is, kept under a digest of all that went into it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Literal

from plant_core.support.location import PlantError

COMPILERS = (
    "g++",
    "clang++",
    "c++",
    *(f"{name}-{version}" for name in ("g++", "clang++") for version in range(29, 9, -1)),
)
_PROBE_SECONDS = 60
_BUILD_SECONDS = 600


def build(
    source: str,
    *,
    fp: Literal["reassoc", "strict"] = "reassoc",
    march: str = "native",
    compiler: str | None = None,
    vector_bytes: int | None = None,
    cache_dir: Path | None = None,
) -> Path:
    """The path of the shared object that `source` compiles to. `vector_bytes`: the widest vectors that the compiler
    should use itself, by default the machine's.

    It is made once for each source, set of flags and compiler version, in `cache_dir` (by default a folder under the
    user's temporary files); several processes may build at the same time. Raises PlantError where there is no
    compiler or it rejects the text.
    """
    command = find_compiler(compiler)
    parallel = "#pragma omp parallel" in source
    openmp = "-fopenmp" if parallel else "-fopenmp-simd"  # clang may come without the runtime that threads need
    flags = (*flags_of(command, fp=fp, march=march, vector_bytes=vector_bytes), openmp)
    digest = hashlib.sha256("\0".join([source, *flags, command, _version(command)]).encode()).hexdigest()
    folder = cache_dir if cache_dir is not None else Path(tempfile.gettempdir()) / f"plant-cpu-{os.getuid()}"
    made = folder / f"{digest[:32]}.so"
    if made.exists():
        return made
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            text, code, out = (Path(work) / f"kernel.{end}" for end in ("cpp", "o", "so"))
            text.write_text(source, encoding="utf-8")
            _compile([command, *flags, "-c", str(text), "-o", str(code)])
            # Linking under -ffast-math would make the process that loads the code flush denormals.
            _compile([command, "-shared", *([openmp] if parallel else []), str(code), "-o", str(out), "-lm"])
            os.replace(text, made.with_suffix(".cpp"))
            os.replace(out, made)
    except OSError as error:
        raise PlantError(
            f"the compiled code can't be kept in {folder}: {error.strerror}",
            code="DG611",
            remedy="give another cache folder",
        ) from error
    return made


def find_compiler(compiler: str | None = None) -> str:
    """The path of the compiler asked for, or of the first that there is."""
    for name in (compiler,) if compiler is not None else COMPILERS:
        found = shutil.which(name)
        if found is not None:
            return found
    wanted = f"'{compiler}' isn't there" if compiler is not None else "there is no C++ compiler"
    raise PlantError(wanted, code="DG610", remedy="install g++ or clang++, or name one that is there")


def flags_of(
    command: str, *, fp: Literal["reassoc", "strict"], march: str, vector_bytes: int | None = None
) -> tuple[str, ...]:
    flags = ["-std=gnu++17", "-O3", f"-march={march}", "-fwrapv", "-fno-math-errno", "-fPIC"]
    # Straight-line vectorisation in GCC 12 rounds some sums of mixed types once instead of twice.
    flags += ["-ffast-math"] if fp == "reassoc" else ["-ffp-contract=off", "-fno-tree-slp-vectorize"]
    flags += ["-w", "-fno-trapping-math"]
    width = vector_width(command, march)
    if width > 16:
        # Compilers keep to half of the widest vectors by default.
        flags.append(f"-mprefer-vector-width={8 * max(16, min(width, vector_bytes or width))}")
    return tuple(flags)


def vector_width(command: str, march: str = "native") -> int:
    """Bytes of a vector register of the machine that `march` names, as the compiler sees it."""
    defines = _macros(command, march)
    if "__AVX512F__" in defines:
        return 64
    return 32 if "__AVX__" in defines else 16


@lru_cache(maxsize=16)
def _macros(command: str, march: str) -> frozenset[str]:
    text = _output([command, f"-march={march}", "-dM", "-E", "-x", "c++", "/dev/null"])
    return frozenset(line.split()[1] for line in text.splitlines() if line.startswith("#define "))


@lru_cache(maxsize=16)
def _version(command: str) -> str:
    # -march=native is another machine in another place, though the compiler is the same.
    return _output([command, "--version"]) + " ".join(sorted(_macros(command, "native")))


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PlantError(f"'{command[0]}' can't be run", code="DG610", remedy="name another compiler") from error
    if done.returncode:
        raise PlantError(
            f"'{command[0]}' rejects its options: {_first(done.stderr)}",
            code="DG612",
            remedy="name a machine that the compiler knows, or another compiler",
        )
    return done.stdout


def _compile(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise PlantError("the C++ compiler takes too long", code="DG613", remedy="unroll less") from error
    if done.returncode:
        raise PlantError(f"the C++ compiler rejects the code: {_first(done.stderr)}", code="DG613")


def _first(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line] or text.splitlines() or ["it says nothing"]
    return lines[0].strip()
