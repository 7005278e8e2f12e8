"""The C programs of `examples/`, which an installation carries along."""

from __future__ import annotations

from pathlib import Path

from dspgen.errors import DspgenError, Problem

_PACKAGE = Path(__file__).resolve().parent.parent


def program(file: str) -> str:
    """The path of an example, such as `polybench/gemm.c`. Raises DspgenError where the installation came without it."""
    installed = _PACKAGE / "_examples"
    path = (installed if installed.is_dir() else _PACKAGE.parent / "examples") / file
    if not path.is_file():
        raise DspgenError(Problem("DG511", f"the kernel's source is missing: {path}", remedy="install dspgen again"))
    return str(path)
