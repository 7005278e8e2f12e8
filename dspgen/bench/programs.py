"""The kernels of the benches: C programs of `examples/`, which an installation carries along, at fixed sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dspgen.errors import DspgenError, Problem
from dspgen.target.structure import suggest

_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    file: str
    defines: tuple[tuple[str, str], ...] = ()

    @property
    def source(self) -> str:
        """The kernel's C file. Raises DspgenError where this installation came without the examples."""
        return program(self.file)


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
