"""`dspgen schedule`: linear assembly in, packets out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from dspgen import io as files
from dspgen.cli.options import (
    OK,
    isa_options,
    json_option,
    print_json,
    print_remarks,
    sched_mode,
    sched_option,
    target_of,
)
from dspgen.driver.linear_asm import ScheduledLinear, schedule_text
from dspgen.emit.manifest import loop_object
from dspgen.errors import Problem
from dspgen.lasm.warnings import DOUBTS
from dspgen.options import SchedMode
from dspgen.report import output
from dspgen.target.isa.model import Target


@click.command("schedule")
@click.argument("file", type=click.Path())
@isa_options()
@sched_option
@click.option("-o", "folder", type=click.Path(), default=".", metavar="DIR", help="Where the files go.")
@click.option("--remarks", "show_remarks", is_flag=True, help="Why each loop came out as it did.")
@json_option
def schedule_command(file: str, folder: str, sched: SchedMode, show_remarks: bool, as_json: bool, **given: Any) -> int:
    """Schedule the linear assembly in FILE.sa: each function becomes packets in a file of its name."""
    files.check_writable(Path(folder) / "function")
    target = target_of(given)
    text = files.read_text(file)
    started = time.perf_counter()
    functions = schedule_text(text, target, file=file, method=sched_mode(sched))
    seconds = time.perf_counter() - started
    paths = [Path(folder) / f"{function.name}.s" for function in functions]
    files.keep(file, *paths)
    files.write_files({path: function.asm for function, path in zip(functions, paths, strict=True)})
    for function in functions:
        for doubt in (r for r in function.remarks if r.kind in DOUBTS):
            click.echo(Problem(DOUBTS[doubt.kind], doubt.message, doubt.loc, severity="warning").render(), err=True)
    if as_json:
        print_json(_object(functions, target, seconds) | {"files": [str(p) for p in paths]})
        return OK
    loops = [loop for function in functions for loop in function.scheduled.loops]
    if loops:
        output.console().print(output.loops_table(loops))
    for function in functions if show_remarks else ():
        print_remarks([r for r in function.remarks if r.kind not in DOUBTS])
    for path in paths:
        click.echo(str(path))
    return OK


def _object(functions: tuple[ScheduledLinear, ...], target: Target, seconds: float) -> dict[str, Any]:
    """The object of the contract for the first function; all of them are in `functions`."""
    rows = [
        {
            "kernel": function.name,
            "cycles": function.scheduled.cycles,
            "loops": [loop_object(loop) for loop in function.scheduled.loops],
            "remarks": [output.remark_object(r) for r in function.remarks],
            "registers_used": list(function.scheduled.registers_used),
            "arguments": {name: register for register, name in function.linear.arguments},
        }
        for function in functions
    ]
    found = output.result_object(isa=target.name, compile_seconds=seconds, **rows[0])
    return found | {"functions": rows}
