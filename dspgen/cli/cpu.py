"""`--backend cpu`: compile and run on this computer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dspgen import io as files
from dspgen.cli.options import (
    OK,
    Road,
    Stages,
    kinds_of,
    library_cache,
    options_of,
    print_json,
    print_remarks,
    thread_count,
)
from dspgen.driver.cpu import CpuResult, compile_cpu, run_cpu
from dspgen.report import output

EMITTED = {"cpp": ".cpp"}


def cpu_compile(
    file: str,
    folder: str,
    emit: str | None,
    dumps: Path | None,
    show_remarks: bool,
    as_json: bool,
    given: Mapping[str, Any],
) -> int:
    """Writes KERNEL.cpp, and tells its path."""
    kinds_of("cpp" if emit is None else emit, EMITTED)
    options, threads = options_of(given), thread_count(given["threads"])
    with Stages(folder=dumps) as stages:
        compiled = compile_cpu(file, options, threads=threads, on_stage=stages)
    path = Path(folder) / f"{compiled.source.name}.cpp"
    files.keep(file, path)
    files.write_text(path, compiled.cpp)
    if as_json:
        print_json(
            output.result_object(
                kernel=compiled.source.name,
                backend="cpu",
                compile_seconds=compiled.compile_seconds,
                threads=threads,
                remarks=[output.remark_object(r) for r in compiled.remarks],
                files=[str(path)],
            )
        )
        return OK
    if show_remarks:
        print_remarks(compiled.remarks)
    click.echo(str(path))
    return OK


def cpu_road(given: Mapping[str, Any], seed: int, show_remarks: bool) -> Road:
    options, threads, cache = options_of(given), thread_count(given["threads"]), library_cache()

    def run(path: str, inputs: Mapping[str, Any] | None, stages: Stages) -> CpuResult:
        return run_cpu(path, options, threads=threads, cache=cache, inputs=inputs, seed=seed, on_stage=stages)

    def show(result: CpuResult) -> None:
        if show_remarks:
            print_remarks(result.remarks)

    facts = {"backend": "cpu", "threads": threads}
    return Road(facts, None, options, run, output.cpu_object, output.cpu_table, show)
