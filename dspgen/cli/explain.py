"""`dspgen explain`: the schedule of the loop at one line, as a table or as one JSON object."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from dspgen import io
from dspgen.cli.options import (
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
from dspgen.driver.linear_asm import schedule_text
from dspgen.driver.pipeline import compile_file
from dspgen.errors import Problem, SourceError
from dspgen.report import output
from dspgen.report.loop_table import explain_loop, explain_object, notes, schedule_table
from dspgen.rewrite.optimize import Remark
from dspgen.sched.ir.packets import LoopReport, Scheduled
from dspgen.target.isa.model import Target
from plant_core.support.location import Loc

_WIDEST = 1000  # columns of a table that goes to a file: never folded
_Found = tuple[list[Scheduled], Sequence[Remark]]


@click.command("explain")
@click.argument("file", type=click.Path())
@source_options
@isa_options()
@click.option(
    "--line", type=click.IntRange(1), required=True, metavar="N", help="The line of the loop, or of its `for`."
)
@json_option
def explain_command(file: str, line: int, as_json: bool, **given: Any) -> int:
    """Show the schedule of the loop at line N of FILE.c, or of the linear assembly FILE.sa, as a table."""
    target = target_of(given)
    started = time.perf_counter()
    functions, remarks = (_linear if Path(file).suffix == ".sa" else _compiled)(file, target, given)
    seconds = time.perf_counter() - started
    loops = [(s, loop) for s in functions for loop in s.loops if loop.loc is not None]
    lines = sorted({_line(loop) for _, loop in loops})
    at = next((n for n in lines if n >= line), None)
    plain = [(r.loc.line, r) for r in remarks if r.kind == "not-pipelined" and r.loc is not None]
    lost = next((r for n, r in sorted(plain, key=lambda p: p[0]) if n == line or (at is None and n > line)), None)
    if at is None or (lost is not None and line not in lines):
        known = ", ".join(map(str, lines)) or "none"
        what, loc = "no loop of the result comes from this line or a later one", Loc(file, line)
        if lost is not None and lost.loc is not None:
            what, loc = f"{lost.message}: it is not pipelined, and has no schedule of its own", lost.loc
        raise SourceError(Problem("DG507", what, loc, f"loops come from lines: {known}"))
    chosen = [(scheduled, loop) for scheduled, loop in loops if _line(loop) == at]
    found = [explain_loop(scheduled, loop, target) for scheduled, loop in chosen]
    if as_json:
        first = chosen[0][0]
        rows = [explain_object(one, target) for one in found]
        base = output.result_object(
            kernel=first.name, isa=target.name, cycles=first.cycles, compile_seconds=seconds, loops=rows
        )
        print_json(base | {"line": at})
        return OK
    out = output.console(width=_WIDEST)
    out.print(output.loops_table([loop for _, loop in chosen]))
    for one in found:
        out.print(schedule_table(one, target))
        for note in notes(one, target):
            out.print(note, soft_wrap=True)
    return OK


def _line(loop: LoopReport) -> int:
    return loop.loc.line if loop.loc is not None else 0


def _compiled(file: str, target: Target, given: Mapping[str, Any]) -> _Found:
    with Stages(target) as stages:
        compiled = compile_file(file, target, options_of(given, target), on_stage=stages)
    return [compiled.scheduled], compiled.remarks


def _linear(file: str, target: Target, given: Mapping[str, Any]) -> _Found:
    context = click.get_current_context()
    for option, shown in {"defines": "-D", "includes": "-I", "fp": "--fp", "data": "--data"}.items():
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{shown} goes with a C file", context)
    functions = schedule_text(io.read_text(file), target, file=file, method=sched_mode(given["sched"]))
    wanted = given["function"]
    if wanted is not None and wanted not in [f.name for f in functions]:
        raise click.UsageError(f"--function {wanted}: the file has {', '.join(f.name for f in functions)}", context)
    found = [f for f in functions if wanted in (None, f.name)]
    return [f.scheduled for f in found], [r for f in found for r in f.remarks]
