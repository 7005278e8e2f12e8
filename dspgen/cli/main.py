"""The command line. Exit status: 0 done and verified, 1 a result differs, 2 the input is at fault, 3 our own fault."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import click

from dspgen import internal_error
from dspgen import io as files
from dspgen.backend.stages import Compiled
from dspgen.cli.options import (
    DIFFERS,
    INPUT_AT_FAULT,
    OK,
    Road,
    Stages,
    backend_options,
    help_wanted,
    isa_options,
    json_option,
    kinds_of,
    options_of,
    print_json,
    print_remarks,
    rendered,
    road_of,
    source_options,
    target_of,
    tell_differences,
)
from dspgen.driver.pipeline import RunResult, compile_file, run_file
from dspgen.emit.header import emit_header, signature_of
from dspgen.emit.linear import emit_linear
from dspgen.emit.manifest import emit_manifest, loop_object
from dspgen.errors import DspgenError, OutOfBounds, Problem
from dspgen.frontend.read import read_c, split_defines
from dspgen.options import RUNNERS, Runner
from dspgen.report import output as report
from dspgen.sim.call_syntax import parse_call
from dspgen.sim.run import SimResult, simulate
from dspgen.target.isa.model import Target
from plant_core.ir.func import Buf
from plant_core.support.location import PlantError

if TYPE_CHECKING:
    from dspgen.driver.emulator import EmulatedResult

INTERRUPTED = 130
UNREAD = 141
EMITTED = {"asm": ".s", "lasm": ".sa", "h": ".h", "json": ".json"}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    given = sys.argv[1:] if arguments is None else list(arguments)
    with internal_error.FaultReport(given) as guard:
        sys.exit(_run(given))
    sys.exit(guard.status)


def _run(arguments: list[str]) -> int:
    try:
        return int(commands.main(args=arguments, prog_name="dspgen", standalone_mode=False) or OK)
    except OutOfBounds as error:
        click.echo(rendered(error), err=True)
        return DIFFERS
    except (DspgenError, PlantError) as error:
        click.echo(rendered(error), err=True)
    except click.ClickException as error:
        path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "dspgen"
        click.echo(Problem("DG500", error.format_message(), remedy=f"{path} --help").render(), err=True)
    except MemoryError as error:
        what = f"there is not enough memory on this computer: {error}" if str(error) else "there is not enough memory"
        click.echo(Problem("DG514", what, remedy="give smaller sizes: -D NAME=VALUE, or --inputs").render(), err=True)
    except OSError as error:
        if error.errno not in files.NO_ROOM:
            raise
        what = f"{error.filename or 'the output'} can't be written: {error.strerror}"
        click.echo(Problem("DG504", what, remedy="make room there, or write elsewhere").render(), err=True)
    except click.Abort:
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except SystemExit:  # click's way to end where whoever reads the output has gone
        return UNREAD
    return INPUT_AT_FAULT


class _Commands(click.Group):
    """Those of other modules are imported when they are asked for, which spares each run a quarter of the imports."""

    elsewhere: ClassVar = {
        "bench": ("dspgen.cli.bench", "bench_group"),
        "explain": ("dspgen.cli.explain", "explain_command"),
        "isa": ("dspgen.cli.isa", "isa_group"),
        "schedule": ("dspgen.cli.schedule", "schedule_command"),
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *self.elsewhere})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.elsewhere and cmd_name not in self.commands:
            module, name = self.elsewhere[cmd_name]
            self.add_command(getattr(import_module(module), name))
        return super().get_command(ctx, cmd_name)


@click.group(cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(internal_error.version(), prog_name="dspgen")
@click.pass_context
def commands(context: click.Context) -> None:
    """Plain C loop nests to verified code: assembly for the DSP of an ISA file, or C++ for this computer."""
    if context.invoked_subcommand is None:
        help_wanted(context)


@commands.command("compile")
@click.argument("file", type=click.Path())
@source_options
@backend_options
@click.option("-o", "folder", type=click.Path(), default=".", metavar="DIR", help="Where the files go.")
@click.option("--emit", metavar="KINDS", help="Of asm,lasm,h,json; with --backend cpu, cpp.  [default: asm or cpp]")
@click.option("--dump-dir", type=click.Path(), metavar="DIR", help="The program after each stage, as text.")
@click.option("--remarks", "show_remarks", is_flag=True, help="Why each loop came out as it did.")
@json_option
def compile_command(
    file: str, folder: str, emit: str | None, dump_dir: str | None, show_remarks: bool, as_json: bool, **given: Any
) -> int:
    """Compile the kernel in FILE.c."""
    dumps = Path(dump_dir) if dump_dir else None
    files.check_writable(Path(folder) / "kernel", dumps and dumps / "stage")
    if road_of(given) == "cpu":
        from dspgen.cli.cpu import cpu_compile

        return cpu_compile(file, folder, emit, dumps, show_remarks, as_json, given)
    kinds = kinds_of("asm" if emit is None else emit, EMITTED)
    target = target_of(given)
    options = options_of(given, target)
    with Stages(target, dumps) as stages:
        compiled = compile_file(file, target, options, on_stage=stages)
    texts = _texts(compiled, target)
    paths = [Path(folder) / f"{compiled.source.name}{EMITTED[kind]}" for kind in kinds]
    files.keep(file, *paths)
    files.write_files({path: texts[kind]() for kind, path in zip(kinds, paths, strict=True)})
    if as_json:
        print_json(_compiled_object(compiled, target) | {"files": [str(p) for p in paths]})
        return OK
    out = report.console()
    if compiled.scheduled.loops:
        out.print(report.loops_table(compiled.scheduled.loops))
    if show_remarks:
        print_remarks(compiled.remarks)
    for path in paths:
        click.echo(str(path))
    return OK


@commands.command("run")
@click.argument("paths", type=click.Path(), nargs=-1, required=True, metavar="FILE...")
@source_options
@backend_options
@click.option("--inputs", type=click.Path(), metavar="IN.npz", help="Values of parameters, by name; others are random.")
@click.option("--outputs", type=click.Path(), metavar="OUT.npz", help="The arrays after the run.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the random inputs.")
@click.option("--runner", type=click.Choice(RUNNERS), default="sim", show_default=True, help="What runs the code.")
@click.option("--remarks", "show_remarks", is_flag=True, help="Why each loop came out as it did.")
@json_option
def run_command(
    paths: tuple[str, ...],
    inputs: str | None,
    outputs: str | None,
    seed: int,
    runner: Runner,
    show_remarks: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Compile the kernel in each FILE.c, run it, and compare it with the C program.

    With --isa it runs on the machine's simulator (or, with --runner qemu, by the tools that the ISA file names), with
    --backend on this computer. Several files end in one table
    (under --json: an object with `rows`).
    """
    if road_of(given) == "cpu":
        from dspgen.cli.cpu import cpu_road

        road = cpu_road(given, seed, show_remarks)
    else:
        road = (_isa_road if runner == "sim" else _emulated_road)(given, seed, show_remarks)
    if len(paths) > 1:
        if inputs or outputs:
            raise click.UsageError("--inputs and --outputs go with one FILE", click.get_current_context())
        return _run_all(paths, road, as_json)
    (path,) = paths
    files.keep(path, outputs)
    files.check_writable(outputs)
    options = road.options
    func = read_c(path, function=options.function, defines=options.defines, includes=options.includes)
    fixed = split_defines(path, options.defines)[1]
    arrays = files.kernel_inputs(func, files.read_arrays(inputs), fixed) if inputs else None
    with Stages(road.target) as stages:
        result = road.run(path, arrays, stages)
    if outputs:
        changed = [p.name for p in func.params if isinstance(p, Buf) and not p.const]
        files.write_arrays(outputs, {name: result.outputs[name] for name in changed})
    tell_differences(path, result.kernel, result.details)
    if as_json:
        print_json(road.row(result))
    else:
        report.console().print(road.table([road.row(result)]))
        road.show(result)
    return OK if result.verified else DIFFERS


def _run_all(paths: tuple[str, ...], road: Road, as_json: bool) -> int:
    rows, status = [], OK
    with Stages(road.target) as stages:
        for file in paths:
            stages.title = f"{file}: "
            try:
                result = road.run(file, None, stages)
            except (DspgenError, PlantError) as error:
                if internal_error.is_of_the_computer(error):
                    raise
                click.echo(rendered(error), err=True)
                rows.append(
                    report.result_object(kernel=Path(file).stem, refused=internal_error.message_of(error), **road.facts)
                )
                status = max(status, DIFFERS) if isinstance(error, OutOfBounds) else INPUT_AT_FAULT
                continue
            rows.append(road.row(result) | {"refused": None})
            tell_differences(file, result.kernel, result.details)
            status = max(status, OK if result.verified else DIFFERS)
    if as_json:
        verified = sum(row["verified"] is True for row in rows)
        print_json({"rows": rows, "summary": {"kernels": len(rows), "verified": verified}})
    else:
        report.console().print(road.table(rows))
    return status


def _isa_road(given: Mapping[str, Any], seed: int, show_remarks: bool) -> Road:
    target = target_of(given)
    options = options_of(given, target)

    def run(path: str, inputs: Mapping[str, Any] | None, stages: Stages) -> RunResult:
        return run_file(path, target, options, inputs=inputs, seed=seed, on_stage=stages)

    def show(result: RunResult) -> None:
        out = report.console()
        if result.loops:
            out.print(report.loops_table(result.loops))
        out.print(report.busy_table(result.unit_busy))
        if show_remarks:
            print_remarks(result.remarks)

    return Road({"isa": target.name}, target, options, run, report.run_object, report.results_table, show)


def _emulated_road(given: Mapping[str, Any], seed: int, show_remarks: bool) -> Road:
    from dspgen.driver.emulator import run_emulated

    target = target_of(given)
    options = options_of(given, target)

    def run(path: str, inputs: Mapping[str, Any] | None, stages: Stages) -> EmulatedResult:
        return run_emulated(path, target, options, inputs=inputs, seed=seed, on_stage=stages)

    def show(result: EmulatedResult) -> None:
        if result.loops:
            report.console().print(report.loops_table(result.loops))
        if show_remarks:
            print_remarks(result.remarks)

    facts = {"isa": target.name, "runner": "qemu"}
    return Road(facts, target, options, run, report.emulated_object, report.results_table, show)


@commands.command("sim")
@click.argument("file", type=click.Path())
@isa_options()
@click.option("--call", "call", metavar="'f(x, y, 32)'", help="Names are arrays of --inputs, numbers are scalars.")
@click.option("--inputs", type=click.Path(), metavar="IN.npz", help="One entry for each array argument, by name.")
@click.option("--outputs", type=click.Path(), metavar="OUT.npz", help="The arrays after the run.")
@click.option("--trace", is_flag=True, help="Each packet as it runs, on stderr.")
@json_option
def sim_command(
    file: str,
    call: str | None,
    inputs: str | None,
    outputs: str | None,
    trace: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Run any assembly text on the machine's simulator."""
    files.keep(file, outputs)
    files.check_writable(outputs)
    target = target_of(given)
    text = files.read_text(file)
    function, arguments = _arguments(call, files.read_arrays(inputs) if inputs else {})
    result = simulate(
        text,
        target,
        file=file,
        function=function,
        arguments=arguments,
        strict=False,
        trace=(lambda line: click.echo(line, err=True)) if trace else None,
    )
    for warning in result.warnings:
        click.echo(f"warning: {warning}", err=True)
    if outputs:
        files.write_arrays(outputs, result.outputs)
    if as_json:
        print_json(_sim_object(result, function or Path(file).stem, target))
        return OK
    click.echo(f"{result.cycles} cycles, {result.packets} packets, {result.instructions} instructions")
    click.echo(f"{target.abi.result} = {result.result}")
    report.console().print(report.busy_table(result.unit_busy))
    return OK


def _texts(compiled: Compiled, target: Target) -> dict[str, Callable[[], str]]:
    signature = signature_of(compiled.source)
    return {
        "asm": lambda: compiled.asm,
        "lasm": lambda: emit_linear(compiled.assembly, target),
        "h": lambda: emit_header(signature, target, compiled.conditions),
        "json": lambda: emit_manifest(compiled.scheduled, target, signature, compiled.conditions),
    }


def _arguments(call: str | None, arrays: dict[str, Any]) -> tuple[str | None, list[tuple[str, Any]]]:
    """The function and its arguments: each name of the call is an entry of `arrays`, a scalar where it has no shape."""
    if call is None:
        return None, [(name, value[()]) for name, value in arrays.items()]
    function, values = parse_call(call)
    if missing := [v for v in values if isinstance(v, str) and v not in arrays]:
        known = f"it has {', '.join(arrays)}" if arrays else "give the arrays with --inputs IN.npz"
        names = ", ".join(f"'{name}'" for name in missing)
        raise DspgenError(Problem("DG505", f"--call names {names}, which --inputs does not have", remedy=known))
    return function, [
        (v, arrays[v][()]) if isinstance(v, str) else (f"argument {k}", v) for k, v in enumerate(values, 1)
    ]


def _compiled_object(compiled: Compiled, target: Target) -> dict[str, Any]:
    return report.result_object(
        kernel=compiled.source.name,
        isa=target.name,
        cycles=compiled.scheduled.cycles,
        compile_seconds=compiled.compile_seconds,
        tiles=compiled.tiles,
        loops=[loop_object(loop) for loop in compiled.scheduled.loops],
        search=[report.search_object(choice) for choice in compiled.choices],
        remarks=[report.remark_object(r) for r in compiled.remarks],
    )


def _sim_object(result: SimResult, kernel: str, target: Target) -> dict[str, Any]:
    return report.result_object(
        kernel=kernel,
        isa=target.name,
        cycles=result.cycles,
        unit_busy=result.unit_busy,
        packets=result.packets,
        instructions=result.instructions,
        idle=result.idle,
        result=result.result,
        remarks=[{"line": None, "kind": "warning", "message": w} for w in result.warnings],
    )
