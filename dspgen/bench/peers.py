"""What our kernels are measured against: C compilers on the original text, and NumPy's matrix product."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from dspgen.errors import DspgenError, Problem

FLAGS = ("-std=gnu11", "-w", "-O3", "-march=native", "-ffast-math", "-fPIC")
POLLY = ("-mllvm", "-polly")
NAMES = ("gcc", "clang-polly", "blas")

_BLAS = """
import sys, time
import numpy
size = int(sys.argv[1])
generator = numpy.random.default_rng(0)
a, b = (generator.uniform(-1, 1, (size, size)).astype(numpy.float32) for _ in range(2))
c = numpy.empty((size, size), numpy.float32)
print("ready", flush=True)
for line in sys.stdin:
    started = time.perf_counter()
    numpy.matmul(a, b, out=c)
    print(time.perf_counter() - started, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler with the flags that it is measured with."""

    name: str
    command: str
    flags: tuple[str, ...]

    def build(self, source: str, defines: Sequence[tuple[str, str]], library: Path) -> None:
        """The kernel's C file as a shared library.

        Linked without the fast flags, with which some compilers' start-up code would flush denormals in all of this
        process.
        """
        thing = library.with_suffix(".o")
        macros = [f"-D{name}={value}" for name, value in defines]
        _call([self.command, *self.flags, *macros, "-c", source, "-o", str(thing)], source)
        _call([self.command, "-shared", str(thing), "-o", str(library), "-lm"], source)


def _call(command: list[str], source: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = done.stderr.strip()[:500]
        raise DspgenError(
            Problem("DG513", f"{command[0]} can't build {source}: {said}", remedy="leave it out: --peers")
        )


def compilers(names: Sequence[str], folder: Path) -> tuple[Compiler, ...]:
    """The C compilers among `names`, each tried on a small program in `folder`.

    Raises DspgenError for one that isn't here.
    """
    found, problems = [], []
    for name in names:
        if name == "blas":
            continue
        candidates = _gcc() if name == "gcc" else _polly()
        chosen = next((c for c in candidates if _works(c, folder)), None)
        if chosen is None:
            remedy = f"leave it out: --peers {','.join(n for n in NAMES if n != name)}"
            problems.append(Problem("DG512", f"--peers {name}: it isn't installed here", remedy=remedy))
        else:
            found.append(chosen)
    if problems:
        raise DspgenError(*problems)
    return tuple(found)


def installed(folder: Path) -> tuple[str, ...]:
    """Which of `NAMES` there are on this computer."""
    there = [
        name for name, tried in (("gcc", _gcc()), ("clang-polly", _polly())) if any(_works(c, folder) for c in tried)
    ]
    return (*there, "blas")


def _gcc() -> list[Compiler]:
    return [Compiler("gcc", path, FLAGS) for path in map(shutil.which, ("gcc",)) if path]


def _polly() -> list[Compiler]:
    commands = ("clang-19", "clang", *(f"clang-{k}" for k in range(22, 13, -1)))
    return [Compiler("clang-polly", path, (*FLAGS, *POLLY)) for path in map(shutil.which, commands) if path]


def _works(compiler: Compiler, folder: Path) -> bool:
    source = folder / "probe.c"
    source.write_text("void probe(float *x, int n) { for (int i = 0; i < n; i++) x[i] += 1; }\n", encoding="utf-8")
    try:
        compiler.build(str(source), (), folder / "probe.so")
    except DspgenError:
        return False
    return True


class Blas:
    """NumPy's matrix product of two `size` x `size` float matrices, in a process of its own."""

    def __init__(self, size: int, threads: int, environment: Mapping[str, str]) -> None:
        wanted = {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
        if _has_avx512():
            # The library takes recent machines for older ones, and would run at half their speed.
            wanted["OPENBLAS_CORETYPE"] = "SkylakeX"
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BLAS, str(size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**environment, **wanted},
            start_new_session=True,  # an interrupt from the terminal is for this process alone
        )

    def __enter__(self) -> Blas:
        self._answer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def seconds(self) -> float:
        """How long one product took."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DspgenError(
                Problem("DG513", "NumPy's matrix product ended early", remedy="leave it out: --peers gcc")
            )
        return line


def _has_avx512() -> bool:
    try:
        return " avx512f " in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
