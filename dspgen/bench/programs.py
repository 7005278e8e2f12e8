"""The kernels of the benches: C programs of `examples/`, which an installation carries along, at fixed sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dspgen.errors import DspgenError, Problem
from dspgen.target.schema.structure import suggest

SEED_MACHINE = "ft_m7002"  # the file of the machine that the paper's tables are of: what a bench takes, told no other
_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Kernel:
    """A program at one size: `side` is how many elements the longest side of its data has."""

    name: str
    file: str
    side: int
    defines: tuple[tuple[str, str], ...] = ()

    @property
    def source(self) -> str:
        """The kernel's C file. Raises DspgenError where this installation came without the examples."""
        return program(self.file)


def autocor(length: int) -> Kernel:
    return Kernel(f"autocor_{length}", "autocor.c", length, (("N", str(length)),))


def fft(points: int) -> Kernel:
    """A transform whose stages are written one by one."""
    return Kernel(f"fft_{points}", f"bench/fft_{points}.c", points)


def fft_loop(points: int) -> Kernel:
    """A transform whose stages are iterations of one loop."""
    return Kernel(f"fft_loop_{points}", "fft/split.c", points, (("N", str(points)),))


def conv2d(kind: Literal["valid", "full"], image: int, filter: int) -> Kernel:
    sizes = (("H", str(image)), ("W", str(image)), ("F", str(filter)))
    return Kernel(f"conv2d_{kind}_{image}_{filter}", f"conv2d_{kind}.c", image, sizes)


def matmul(side: int) -> Kernel:
    return Kernel(f"matmul_{side}", "matmul.c", side, (("N", str(side)),))


def by_name(kernels: Iterable[Kernel]) -> dict[str, Kernel]:
    return {k.name: k for k in kernels}


def chosen(only: Sequence[str], kernels: Mapping[str, Kernel]) -> tuple[Kernel, ...]:
    """Those named by --only, names between commas, a name's beginning standing for all that begin so.

    Raises DspgenError for a name that begins no kernel's.
    """
    names = [name.strip() for text in only for name in text.split(",") if name.strip()]
    unknown = [name for name in dict.fromkeys(names) if not any(k.startswith(name) for k in kernels)]
    if unknown or only and not names:
        remedy = f"the kernels are {', '.join(kernels)}"
        remedies = {n: suggest(n, list(kernels)) if n else "" for n in unknown or [""]}
        raise DspgenError(
            *(
                Problem("DG510", f"--only {n}: there is no such kernel", remedy=found or remedy)
                for n, found in remedies.items()
            )
        )
    return tuple(k for name, k in kernels.items() if not names or any(name.startswith(n) for n in names))


def program(file: str) -> str:
    """The path of an example, such as `polybench/gemm.c`. Raises DspgenError where the installation came without it."""
    installed = _PACKAGE / "_examples"
    path = (installed if installed.is_dir() else _PACKAGE.parent / "examples") / file
    if not path.is_file():
        raise DspgenError(Problem("DG511", f"the kernel's source is missing: {path}", remedy="install dspgen again"))
    return str(path)
