"""`dspgen explain`: the schedule of the loop at one line, as a table or as one JSON object."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dspgen import files, report
from dspgen.cli_shared import (
    OK,
    Stages,
    isa_options,
    json_option,
    options_of,
    print_json,
    sched_mode,
    source_options,
    target_of,
)
from dspgen.errors import Problem, SourceError
from dspgen.explain import explain_loop, explain_object, notes, schedule_table
from dspgen.linear_road import schedule_text
from dspgen.pipeline import compile_file
from dspgen.sched.ir import LoopReport, Scheduled
from dspgen.target.model import Target
from plant_core.loc import Loc

_WIDEST = 1000  # columns of a table that goes to a file: never folded


@click.command("explain")
@click.argument("file", type=click.Path())
@source_options
@isa_options()
@click.option("--line", type=int, required=True, metavar="N", help="The line of the loop, or of its `for`.")
@json_option
def explain_command(file: str, line: int, as_json: bool, **given: Any) -> int:
    """Show the schedule of the loop at line N of FILE.c, or of the linear assembly FILE.sa, as a table."""
    target = target_of(given)
    started = time.perf_counter()
    functions = _linear(file, target, given) if Path(file).suffix == ".sa" else _compiled(file, target, given)
    seconds = time.perf_counter() - started
    loops = [(s, loop) for s in functions for loop in s.loops if loop.loc is not None]
    lines = sorted({_line(loop) for _, loop in loops})
    at = next((n for n in lines if n >= line), None)
    if at is None:
        known = ", ".join(map(str, lines)) or "none"
        problem = Problem("DG507", "no loop of the result comes from this line or a later one", Loc(file, line))
        raise SourceError(replace(problem, remedy=f"loops come from lines: {known}"))
    chosen = [(scheduled, loop) for scheduled, loop in loops if _line(loop) == at]
    found = [explain_loop(scheduled, loop, target) for scheduled, loop in chosen]
    if as_json:
        first = chosen[0][0]
        rows = [explain_object(one, target) for one in found]
        base = report.result_object(
            kernel=first.name, isa=target.name, cycles=first.cycles, compile_seconds=seconds, loops=rows
        )
        print_json(base | {"line": at})
        return OK
    out = report.console(width=_WIDEST)
    out.print(report.loops_table([loop for _, loop in chosen]))
    for one in found:
        out.print(schedule_table(one, target))
        for note in notes(one, target):
            out.print(note, soft_wrap=True)
    return OK


def _line(loop: LoopReport) -> int:
    return loop.loc.line if loop.loc is not None else 0


def _compiled(file: str, target: Target, given: Mapping[str, Any]) -> list[Scheduled]:
    with Stages(target) as stages:
        return [compile_file(file, target, options_of(given, target), on_stage=stages).scheduled]


def _linear(file: str, target: Target, given: Mapping[str, Any]) -> list[Scheduled]:
    context = click.get_current_context()
    for option, shown in {"defines": "-D", "includes": "-I", "fp": "--fp", "data": "--data"}.items():
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{shown} goes with a C file", context)
    functions = schedule_text(files.read_text(file), target, file=file, method=sched_mode(given["sched"]))
    wanted = given["function"]
    if wanted is not None and wanted not in [f.name for f in functions]:
        raise click.UsageError(f"--function {wanted}: the file has {', '.join(f.name for f in functions)}", context)
    return [f.scheduled for f in functions if wanted in (None, f.name)]
