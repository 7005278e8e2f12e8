"""Code that is compiled once and checked at several sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dspgen.asmir.ir.verify import verify
from dspgen.driver.pipeline import RunResult, compile_file, run_compiled
from dspgen.options import Options
from dspgen.target.isa.model import Target


def verified_at(
    text: str, folder: Path, target: Target, options: Options, sizes: Iterable[Mapping[str, int]]
) -> RunResult:
    """The run at the last of the sizes; all agree with the C program, and no way through the code, run or not, reads a
    register before it is written."""
    path = folder / "kernel.c"
    path.write_text(text, encoding="utf-8")
    compiled = compile_file(str(path), target, options)
    verify(compiled.assembly, target)
    for given in sizes:
        result = run_compiled(compiled, str(path), target, options, inputs=given)
        assert result.verified, (given, result.details)
    return result
