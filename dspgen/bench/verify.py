"""Every kernel compiled, run and compared with its C program, on this computer or on a machine's simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from dspgen.bench import polybench
from dspgen.driver.cpu import run_cpu
from dspgen.driver.pipeline import run_file
from dspgen.errors import DspgenError
from dspgen.internal_error import is_of_the_computer, message_of
from dspgen.options import Options, Pack
from dspgen.report import output
from dspgen.target.isa.model import Target
from plant_core.support.location import PlantError

Row = dict[str, Any]
Run = Callable[[str, str], Row]
OnRefusal = Callable[[str, DspgenError | PlantError], None]


def verify(
    runs: Iterable[tuple[str, str]], run: Run, facts: Row, on_row: Callable[[Row], None], on_refusal: OnRefusal
) -> list[Row]:
    """A row for each kernel and size, with `refused` where it can't be run: the reason. `facts` are in every row.

    Raises DspgenError or PlantError where this computer lacks something that every kernel needs.
    """
    rows = []
    for kernel, size in runs:
        try:
            found = run(kernel, size)
        except (DspgenError, PlantError) as error:
            if is_of_the_computer(error):
                raise
            on_refusal(f"{kernel} {size}", error)
            found = output.result_object(refused=message_of(error))
        rows.append(found | facts | {"kernel": kernel, "size": size})
        on_row(rows[-1])
    return rows


def on_cpu(fp: str, threads: int, cache: Path | None, pack: Pack) -> Run:
    def run(kernel: str, size: str) -> Row:
        rounding: Literal["strict", "reassoc"] = "strict" if fp == "strict" else "reassoc"
        options = Options(defines=polybench.defines(kernel, size), fp=rounding, pack=pack)
        result = run_cpu(polybench.source(kernel), options, threads=threads, cache=cache)
        return output.cpu_object(result) | {"refused": None, "details": list(result.details)}

    return run


def on_isa(target: Target, fp: str) -> Run:
    def run(kernel: str, size: str) -> Row:
        options = Options(defines=polybench.defines(kernel, size), fp="strict" if fp == "strict" else "reassoc")
        result = run_file(polybench.source(kernel), target, options)
        return output.run_object(result) | {"refused": None, "details": list(result.details)}

    return run


def summary(rows: list[Row]) -> Row:
    """How many rows there are, how many were right, wrong or refused, and the slowest way from C text to its result."""
    slowest = max(
        (row for row in rows if row["compile_seconds"]), key=lambda row: float(row["compile_seconds"]), default=None
    )
    return {
        "kernels": len({row["kernel"] for row in rows}),
        "runs": len(rows),
        "verified": sum(row["verified"] is True for row in rows),
        "wrong": sum(row["verified"] is False for row in rows),
        "refused": sum(row["refused"] is not None for row in rows),
        "slowest_compile_seconds": slowest["compile_seconds"] if slowest else None,
        "slowest_compile_kernel": slowest["kernel"] if slowest else None,
    }
