"""The command line. Exit status: 0 done and verified, 1 a result differs, 2 the input is at fault, 3 our own fault."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import click

from dspgen import faults, files, report
from dspgen.emit.header import emit_header, signature_of
from dspgen.emit.linear import emit_linear
from dspgen.emit.manifest import emit_manifest, loop_object
from dspgen.emit.needs import needs
from dspgen.errors import DspgenError, Problem, SourceError
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.pipeline import Compiled, RunResult, compile_file, run_file
from dspgen.rewrite.optimise import Remark
from dspgen.sim.call import parse_call
from dspgen.sim.run import SimResult, simulate
from dspgen.target.describe import describe
from dspgen.target.load import isa_names, load_target
from dspgen.target.model import Target
from plant_core.ir import Buf
from plant_core.loc import Loc, PlantError

OK, DIFFERS, INPUT_AT_FAULT = 0, 1, 2
INTERRUPTED = 130
EMITTED = {"asm": ".s", "lasm": ".sa", "h": ".h", "json": ".json"}

Command = Callable[..., Any]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    given = sys.argv[1:] if arguments is None else list(arguments)
    with faults.FaultReport(given) as guard:
        sys.exit(_run(given))
    sys.exit(guard.status)


def _run(arguments: list[str]) -> int:
    try:
        return int(commands.main(args=arguments, prog_name="dspgen", standalone_mode=False) or OK)
    except (DspgenError, PlantError) as error:
        click.echo(_rendered(error), err=True)
    except click.ClickException as error:
        path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "dspgen"
        click.echo(Problem("DG500", error.format_message(), remedy=f"{path} --help").render(), err=True)
    except click.Abort:
        click.echo("interrupted", err=True)
        return INTERRUPTED
    return INPUT_AT_FAULT


def _rendered(error: DspgenError | PlantError) -> str:
    if isinstance(error, DspgenError):
        return error.render()
    return Problem(error.code, error.message, error.loc, error.remedy).render()


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(faults.version(), prog_name="dspgen")
@click.pass_context
def commands(context: click.Context) -> None:
    """Plain C loop nests to verified assembly for the DSP that an ISA file describes."""
    if context.invoked_subcommand is None:
        _help_wanted(context)


def _help_wanted(context: click.Context) -> NoReturn:
    click.echo(context.get_help(), err=True)
    context.exit(INPUT_AT_FAULT)


def isa_options(command: Command) -> Command:
    for option in (
        click.option("--set", "sets", multiple=True, metavar="K=V", help="Override a figure of the ISA file."),
        click.option("--isa", required=True, metavar="NAME|PATH", help="The machine; `dspgen isa list` names them."),
    ):
        command = option(command)
    return command


def source_options(command: Command) -> Command:
    for option in (
        click.option("--data", type=click.Choice(["onchip", "ddr"]), default="onchip", show_default=True),
        click.option("--fp", type=click.Choice(["strict", "reassoc"]), default="reassoc", show_default=True),
        click.option("-D", "defines", multiple=True, metavar="N=V", help="Define a macro, as for a C compiler."),
        click.option("--function", metavar="F", help="Which function of the file."),
    ):
        command = option(command)
    return isa_options(command)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, and nothing else.")(command)


@commands.command("compile")
@click.argument("file", type=click.Path())
@source_options
@click.option("-o", "folder", type=click.Path(), default=".", metavar="DIR", help="Where the files go.")
@click.option("--emit", default="asm", show_default=True, metavar="KINDS", help="Of asm,lasm,h,json.")
@click.option("--dump-dir", type=click.Path(), metavar="DIR", help="The program after each stage, as text.")
@click.option("--remarks", "show_remarks", is_flag=True, help="Why each loop came out as it did.")
@json_option
def compile_command(
    file: str, folder: str, emit: str, dump_dir: str | None, show_remarks: bool, as_json: bool, **given: Any
) -> int:
    """Compile the kernel in FILE.c."""
    kinds = _kinds(emit)
    target, options = _target(given), _options(given)
    stages = _Stages(target, Path(dump_dir) if dump_dir else None)
    with stages:
        compiled = compile_file(file, target, options, on_stage=stages)
    texts = _texts(compiled, target)
    paths = [Path(folder) / f"{compiled.source.name}{EMITTED[kind]}" for kind in kinds]
    for kind, path in zip(kinds, paths, strict=True):
        files.write_text(path, texts[kind]())
    if as_json:
        _print_json(_compiled_object(compiled, target) | {"files": [str(p) for p in paths]})
        return OK
    out = report.console()
    if compiled.scheduled.loops:
        out.print(report.loops_table(compiled.scheduled.loops))
    if show_remarks:
        _print_remarks(compiled.remarks)
    for path in paths:
        click.echo(str(path))
    return OK


@commands.command("run")
@click.argument("paths", type=click.Path(), nargs=-1, required=True, metavar="FILE...")
@source_options
@click.option("--inputs", type=click.Path(), metavar="IN.npz", help="One entry for each parameter, by name.")
@click.option("--outputs", type=click.Path(), metavar="OUT.npz", help="The arrays after the run.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random inputs.")
@click.option("--remarks", "show_remarks", is_flag=True, help="Why each loop came out as it did.")
@json_option
def run_command(
    paths: tuple[str, ...],
    inputs: str | None,
    outputs: str | None,
    seed: int,
    show_remarks: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Compile the kernel in each FILE.c, run it on the simulator, and compare it with the C program.

    Several files end in one table (under --json: an object with `rows`).
    """
    target, options = _target(given), _options(given)
    if len(paths) > 1:
        if inputs or outputs:
            raise click.UsageError("--inputs and --outputs go with one FILE")
        return _run_all(paths, target, options, seed, as_json)
    (path,) = paths
    func = read_c(path, function=options.function, defines=options.defines)
    arrays = files.kernel_inputs(func, files.read_arrays(inputs)) if inputs else None
    with _Stages(target) as stages:
        result = run_file(path, target, options, inputs=arrays, seed=seed, on_stage=stages)
    if outputs:
        changed = [p.name for p in func.params if isinstance(p, Buf) and not p.const]
        files.write_arrays(outputs, {name: result.outputs[name] for name in changed})
    _tell_differences(path, result)
    if as_json:
        _print_json(_run_object(result))
    else:
        out = report.console()
        out.print(report.results_table([_run_object(result)]))
        if result.loops:
            out.print(report.loops_table(result.loops))
        out.print(report.busy_table(result.unit_busy))
        if show_remarks:
            _print_remarks(result.remarks)
    return OK if result.verified else DIFFERS


def _run_all(paths: tuple[str, ...], target: Target, options: Options, seed: int, as_json: bool) -> int:
    rows, status = [], OK
    with _Stages(target) as stages:
        for file in paths:
            stages.title = f"{file}: "
            try:
                result = run_file(file, target, options, seed=seed, on_stage=stages)
            except (DspgenError, PlantError) as error:
                click.echo(_rendered(error), err=True)
                rows.append(report.result_object(kernel=Path(file).stem, isa=target.name))
                status = INPUT_AT_FAULT
                continue
            rows.append(_run_object(result))
            _tell_differences(file, result)
            status = max(status, OK if result.verified else DIFFERS)
    if as_json:
        verified = sum(row["verified"] is True for row in rows)
        _print_json({"rows": rows, "summary": {"kernels": len(rows), "verified": verified}})
    else:
        report.console().print(report.results_table(rows))
    return status


@commands.command("sim")
@click.argument("file", type=click.Path())
@isa_options
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
    target = _target(given)
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
        _print_json(_sim_object(result, function or Path(file).stem, target))
        return OK
    click.echo(f"{result.cycles} cycles, {result.packets} packets, {result.instructions} instructions")
    report.console().print(report.busy_table(result.unit_busy))
    return OK


@commands.command("schedule")
@click.argument("file", type=click.Path())
@isa_options
@click.option("-o", "folder", type=click.Path(), default=".", metavar="DIR")
@json_option
def schedule_command(**given: Any) -> int:
    """Linear assembly in, packets out: not there yet."""
    raise _not_yet("`dspgen schedule`")


@commands.command("explain")
@click.argument("file", type=click.Path())
@source_options
@click.option("--line", type=int, required=True, metavar="N", help="The C line of the loop, or of its `for`.")
def explain_command(file: str, line: int, **given: Any) -> int:
    """Show the schedule of the loop at line N of FILE.c as a table."""
    target, options = _target(given), _options(given)
    with _Stages(target) as stages:
        scheduled = compile_file(file, target, options, on_stage=stages).scheduled
    lines = sorted({loop.loc.line for loop in scheduled.loops if loop.loc is not None})
    found = next((n for n in lines if n >= line), None)
    if found is None:
        known = ", ".join(map(str, lines)) or "none"
        problem = Problem("DG507", "no loop of the result comes from this line or a later one", Loc(file, line))
        raise SourceError(replace(problem, remedy=f"loops come from lines: {known}"))
    chosen = [loop for loop in scheduled.loops if loop.loc is not None and loop.loc.line == found]
    out = report.console()
    out.print(report.loops_table(chosen))
    for loop in chosen:
        out.print(report.schedule_table(scheduled, loop, target))
        for ii, reason in loop.tried:
            click.echo(f"ii = {ii} did not work: {reason}")
    return OK


@commands.group("isa", invoke_without_command=True)
@click.pass_context
def isa_group(context: click.Context) -> None:
    """The machines, each described by one file."""
    if context.invoked_subcommand is None:
        _help_wanted(context)


@isa_group.command("list")
@json_option
def isa_list(as_json: bool) -> int:
    """Name the machines that come with dspgen."""
    rows = [{"isa": name, "description": load_target(name).description} for name in isa_names()]
    if as_json:
        _print_json({"rows": rows})
    else:
        for row in rows:
            click.echo(f"{row['isa']:<16} {row['description']}")
    return OK


@isa_group.command("show")
@click.argument("name", metavar="NAME|PATH")
@click.option("--set", "sets", multiple=True, metavar="K=V", help="Override a figure of the ISA file.")
@json_option
def isa_show(name: str, sets: tuple[str, ...], as_json: bool) -> int:
    """Print units, registers, memories and instructions, each figure with its source."""
    description = describe(load_target(name, _pairs("--set", sets)))
    if as_json:
        _print_json(report.plain(description))
    else:
        for table in report.description_tables(description):
            report.console().print(table)
    return OK


@isa_group.command("check")
@click.argument("path", metavar="NAME|PATH")
@click.option("--set", "sets", multiple=True, metavar="K=V", help="Override a figure of the ISA file.")
def isa_check(path: str, sets: tuple[str, ...]) -> int:
    """Load an ISA file and tell everything that is wrong with it."""
    target = load_target(path, _pairs("--set", sets))
    units, forms = len(target.unit_members), len(target.instructions)
    click.echo(f"{target.path}: {target.name} is sound: {units} units, {forms} instruction forms, {target.lanes} lanes")
    return OK


@isa_group.command("new")
@click.argument("name")
@click.option("--from", "base", metavar="NAME")
def isa_new(**given: Any) -> int:
    """Start an ISA file from another one: not there yet."""
    raise _not_yet("`dspgen isa new`")


@commands.command("bench")
@click.argument("which")
@json_option
def bench_command(**given: Any) -> int:
    """Measure whole sets of kernels: not there yet."""
    raise _not_yet("`dspgen bench`")


class _Stages:
    """The callback between stages: the stage's name on a terminal's stderr, and its text into the dump folder."""

    def __init__(self, target: Target, folder: Path | None = None) -> None:
        self.target = target
        self.folder = folder
        self.title = ""
        self._count = 0
        self._status = report.console(stderr=True).status("starting") if sys.stderr.isatty() else None

    def __enter__(self) -> _Stages:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, stage: str, value: object) -> None:
        if self._status is not None:
            self._status.update(f"{self.title}{stage}")
        if self.folder is not None and (text := report.stage_text(value, self.target)) is not None:
            self._count += 1
            files.write_text(self.folder / f"{self._count:02}-{stage}.txt", text)


def _target(given: Mapping[str, Any]) -> Target:
    return load_target(given["isa"], _pairs("--set", given["sets"]))


def _options(given: Mapping[str, Any]) -> Options:
    if given["data"] == "ddr":
        raise _not_yet("`--data ddr`")
    defines = tuple(d if "=" in d else f"{d}=1" for d in given["defines"])
    return Options(
        function=given["function"],
        defines=_pairs("-D", defines),
        sets=_pairs("--set", given["sets"]),
        fp=given["fp"],
        data=given["data"],
    )


def _pairs(option: str, texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    pairs = [text.partition("=") for text in texts]
    problems = [
        Problem("DG509", f"{option} '{text}' is not of the form name=value", remedy=f"{option} NAME=VALUE")
        for text, (name, equals, _) in zip(texts, pairs, strict=True)
        if not (name.strip() and equals)
    ]
    if problems:
        raise DspgenError(*problems)
    return tuple((name.strip(), value) for name, _, value in pairs)


def _kinds(emit: str) -> list[str]:
    kinds = list(dict.fromkeys(kind.strip() for kind in emit.split(",") if kind.strip()))
    if "c" in kinds:
        raise _not_yet("`--emit c`")
    if unknown := [kind for kind in kinds if kind not in EMITTED]:
        raise click.UsageError(f"--emit {unknown[0]}: the kinds are {', '.join(EMITTED)}")
    if not kinds:
        raise click.UsageError(f"--emit names no kind: the kinds are {', '.join(EMITTED)}")
    return kinds


def _texts(compiled: Compiled, target: Target) -> dict[str, Callable[[], str]]:
    signature = signature_of(compiled.source)
    return {
        "asm": lambda: compiled.asm,
        "lasm": lambda: emit_linear(compiled.assembly, target),
        "h": lambda: emit_header(signature, needs(compiled.scheduled, target)),
        "json": lambda: emit_manifest(compiled.scheduled, target, signature),
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


def _not_yet(what: str) -> DspgenError:
    return DspgenError(Problem("DG502", f"{what} is not there yet"))


def _compiled_object(compiled: Compiled, target: Target) -> dict[str, Any]:
    return report.result_object(
        kernel=compiled.source.name,
        isa=target.name,
        cycles=compiled.scheduled.cycles,
        compile_seconds=compiled.compile_seconds,
        tiles=[choice.candidate.title for choice in compiled.choices],
        loops=[loop_object(loop) for loop in compiled.scheduled.loops],
        remarks=[_remark_object(r) for r in compiled.remarks],
    )


def _run_object(result: RunResult) -> dict[str, Any]:
    names = (
        "kernel isa cycles bound_cycles efficiency verified max_error compile_seconds simulate_seconds unit_busy tiles"
    )
    return report.result_object(
        **{name: getattr(result, name) for name in names.split()},
        loops=[loop_object(loop) for loop in result.loops],
        remarks=[_remark_object(r) for r in result.remarks],
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


def _tell_differences(path: str, result: RunResult) -> None:
    for detail in result.details:
        click.echo(f"{path}: {result.kernel} differs from the C program: {detail}", err=True)


def _remark_object(remark: Remark) -> dict[str, Any]:
    return {"line": remark.loc.line if remark.loc else None, "kind": remark.kind, "message": remark.message}


def _print_remarks(remarks: Sequence[Remark]) -> None:
    for remark in remarks:
        where = f"{remark.loc}: " if remark.loc else ""
        click.echo(f"{where}{remark.kind}: {remark.message}")


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2))
