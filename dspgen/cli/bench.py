"""`dspgen bench`: whole sets of kernels, verified and measured."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from dspgen import io as files
from dspgen.bench import breakdown, emulated, plots, polybench, programs, speed, table1, table2, verify
from dspgen.bench import peers as rivals
from dspgen.cli.options import (
    DIFFERS,
    INPUT_AT_FAULT,
    OK,
    backend_options,
    help_wanted,
    isa_options,
    json_option,
    library_cache,
    not_yet,
    pairs,
    print_json,
    rendered,
    road_of,
    target_of,
    tell_differences,
    thread_count,
)
from dspgen.errors import DspgenError
from dspgen.options import Data
from dspgen.report import output
from dspgen.target.load import load_target
from plant_core.support.location import PlantError

_SIZE = click.Choice(polybench.SIZES, case_sensitive=False)
_names_option = click.option(
    "--only", multiple=True, metavar="NAMES", help="Some of the kernels, with commas between them."
)
_beginnings_option = click.option(
    "--only", multiple=True, metavar="NAMES", help="Some of the kernels, or beginnings of their names."
)
_jobs_option = click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="Compile so many at a time.  [default: one a core]"
)

_plot_option = click.option("--plot", metavar="DIR", type=click.Path(), help="Pictures of the table, as SVG files.")


@click.group("bench", invoke_without_command=True)
@click.pass_context
def bench_group(context: click.Context) -> None:
    """Verify and measure whole sets of kernels."""
    if context.invoked_subcommand is None:
        help_wanted(context)


@bench_group.command("polybench")
@backend_options
@click.option("--size", "sizes", multiple=True, type=_SIZE, help="May be repeated.  [default: small and odd, or mini]")
@_names_option
@click.option("--fp", type=click.Choice(["strict", "reassoc"]), default="reassoc", show_default=True)
@json_option
def polybench_command(sizes: tuple[str, ...], only: tuple[str, ...], fp: str, as_json: bool, **given: Any) -> int:
    """Compile, run and verify the thirty kernels of PolyBench."""
    cpu = road_of(given) == "cpu"
    kernels = polybench.chosen(only)
    if cpu:
        threads = thread_count(given["threads"])
        facts: dict[str, Any] = {"backend": "cpu", "threads": threads}
        run = verify.on_cpu(fp, threads, library_cache(), given["pack"])
    else:
        target = target_of(given)
        facts = {"isa": target.name}
        run = verify.on_isa(target, fp)
    wanted = [
        (kernel, size)
        for size in dict.fromkeys(sizes or (("small", "odd") if cpu else ("mini",)))
        for kernel in kernels
    ]
    refusals = _Refusals()
    with _Bar(len(wanted)) as bar:
        rows = verify.verify(wanted, bar.around(run), facts, bar.done, refusals)
    found = verify.summary(rows)
    _tell(rows, refusals)
    if as_json:
        print_json({"rows": rows, "summary": found})
    else:
        output.console().print(output.cpu_table(rows) if cpu else output.results_table(rows))
        _verdicts(found["runs"], found)
    return _status(rows, refusal_is_fault=cpu)


@bench_group.command("cpu")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, metavar="N")
@click.option("--size", type=_SIZE, default="large", show_default=True)
@_names_option
@click.option("--peers", metavar="NAMES", help="Of gcc,clang-polly,blas.  [default: those installed here]")
@json_option
def cpu_command(threads: int, size: str, only: tuple[str, ...], peers: str | None, as_json: bool) -> int:
    """Measure the kernels of PolyBench on this computer, against other compilers, in single precision."""
    kernels = polybench.chosen(only)
    setting = speed.Setting(threads, _peers(peers), library_cache(), dict(os.environ))
    wanted = speed.problems(kernels, size.lower(), setting.peers)
    refusals = _Refusals()
    with _Bar(len(wanted)) as bar:
        rows = speed.measure(wanted, setting, bar.at, bar.done, refusals)
    found = speed.summary(rows)
    _tell(rows, refusals)
    if as_json:
        print_json({"rows": rows, "summary": found})
    else:
        output.console().print(output.speed_table(rows, setting.peers))
        for peer in setting.peers:
            if peer in found:
                click.echo(_sentence(peer, found[peer]))
        _verdicts(len(rows), found)
    return _status(rows, refusal_is_fault=True)


@bench_group.command("breakdown")
@isa_options(required=False)
@_beginnings_option
@_jobs_option
@_plot_option
@json_option
def breakdown_command(
    isa: str | None, sets: tuple[str, ...], only: tuple[str, ...], jobs: int | None, plot: str | None, as_json: bool
) -> int:
    """Measure what rewriting is worth: without it, with the vector side's rules, with all; without tiles and with."""
    kernels = programs.chosen(only, breakdown.KERNELS)
    _can_draw(plot)
    machine, figures = _machine(isa, sets)
    refusals = _Refusals()
    with _Bar(sum(len(breakdown.runs_of(k, machine, figures)) for k in kernels)) as bar:
        rows = breakdown.measure(kernels, machine, figures, thread_count(jobs), bar.ended, refusals)
    found = breakdown.summary(rows)
    _tell(rows, refusals)
    if as_json:
        print_json({"rows": rows, "summary": found})
    else:
        output.console().print(output.breakdown_table(rows))
        _verdicts(found["kernels"], found)
        for text in _gains(found):
            click.echo(text)
    _draw(plots.breakdown_plots, rows, plot)
    return _status(rows, refusal_is_fault=False)


def _gains(found: Mapping[str, Any]) -> list[str]:
    if found["rewriting_gain"] is None:
        return []
    told = [
        f"rewriting: {found['rewriting_gain']:.2f} times as fast as without, "
        f"{found['scalar_vector_gain']:.2f} as with the vector side's rules alone "
        f"(geometric means, no register tiles); the seed paper tells {found['seed_gain']:.2f}",
        f"with register tiles: {found['rewriting_gain_tiled']:.2f} and {found['scalar_vector_gain_tiled']:.2f}",
        f"scheduling: {found['scheduling_gain']:.2f} times as fast as packets in the order of the program, "
        f"{found['scheduling_gain_alone']:.2f} without register tiles; the seed paper tells "
        f"{found['seed_scheduling_gain']:.2f}",
    ]
    if found["slower"]:
        told.append(f"slower with all rules than with fewer: {', '.join(found['slower'])}")
    return told


@bench_group.command("table1")
@isa_options(required=False)
@_beginnings_option
@click.option(
    "--data", type=click.Choice(["ddr", "onchip"]), default="ddr", show_default=True, help="Where arrays are."
)
@click.option("--no-baselines", is_flag=True, help="Leave out the simpler code that ours is compared with.")
@_jobs_option
@_plot_option
@json_option
def table1_command(
    isa: str | None,
    sets: tuple[str, ...],
    only: tuple[str, ...],
    data: Data,
    no_baselines: bool,
    jobs: int | None,
    plot: str | None,
    as_json: bool,
) -> int:
    """Measure the kernels of the seed paper's Table 1 against the machine's bound and against simpler code."""
    kernels = programs.chosen(only, table1.KERNELS)
    _can_draw(plot)
    machine, figures = _machine(isa, sets)
    wanted = table1.tasks(kernels, machine, figures, data, baselines=not no_baselines)
    refusals = _Refusals()
    with _Bar(len(wanted)) as bar:
        rows = table1.measure(wanted, thread_count(jobs), bar.ended, refusals)
    found = table1.summary(rows)
    _tell(rows, refusals)
    if as_json:
        print_json({"rows": rows, "summary": found})
    else:
        output.console().print(output.table1_table(rows))
        _verdicts(found["kernels"], found)
        if found["over_scalar"] is not None:
            click.echo(
                f"{found['over_scalar']:.2f} times as fast as scalar code, {found['over_vector']:.2f} as plain vector "
                f"code, {found['over_apart']:.2f} as without rules between scalar and vector side (geometric means); "
                f"the seed paper tells {found['seed_over_scalar']} over scalar code"
            )
    _draw(plots.table1_plots, rows, plot)
    return _status(rows, refusal_is_fault=False)


@bench_group.command("table2")
@isa_options(required=False)
@_beginnings_option
@click.option(
    "--points", metavar="LANES/UNITS,...", help="Machines to measure.  [default: 1/1,16/2,32/4,64/4, as in the paper]"
)
@_jobs_option
@_plot_option
@json_option
def table2_command(
    isa: str | None,
    sets: tuple[str, ...],
    only: tuple[str, ...],
    points: str | None,
    jobs: int | None,
    plot: str | None,
    as_json: bool,
) -> int:
    """Measure how kernels speed up with lanes and multiply-add units, as the seed paper's Table 2 does."""
    kernels = programs.chosen(only, table2.KERNELS)
    _can_draw(plot)
    machine, figures = _machine(isa, sets)
    wanted = table2.tasks(kernels, machine, figures, _points(points))
    refusals = _Refusals()
    with _Bar(len(wanted)) as bar:
        rows = table2.measure(wanted, thread_count(jobs), bar.ended, refusals)
    found = table2.summary(rows)
    _tell(rows, refusals)
    if as_json:
        print_json({"rows": rows, "summary": found})
    else:
        output.console().print(output.table2_table(rows))
        _verdicts(found["kernels"], found)
        if found["below_seed"]:
            click.echo(f"less than the seed paper tells: {', '.join(found['below_seed'])}")
    _draw(plots.table2_plots, rows, plot)
    return _status(rows, refusal_is_fault=False)


@bench_group.command("hexagon")
@isa_options(required=False)
@_beginnings_option
@_jobs_option
@json_option
def hexagon_command(
    isa: str | None, sets: tuple[str, ...], only: tuple[str, ...], jobs: int | None, as_json: bool
) -> int:
    """Measure integer kernels in an emulator against other compilers' code, in packets."""
    kernels = programs.chosen(only, emulated.KERNELS)
    machine, figures = _machine(isa or emulated.MACHINE, sets)
    wanted = emulated.tasks(kernels, machine, figures)
    refusals = _Refusals()
    with _Bar(len(wanted)) as bar:
        rows = emulated.measure(wanted, thread_count(jobs), bar.ended, refusals)
    found = emulated.summary(rows)
    _tell(rows, refusals)
    if as_json:
        print_json({"rows": rows, "summary": found})
    else:
        output.console().print(output.emulated_table(rows))
        _verdicts(found["kernels"], found)
        if found["over_peer"] is not None:
            click.echo(f"the best rivals take {found['over_peer']:.2f} times the packets (geometric mean)")
    return _status(rows, refusal_is_fault=False)


def _points(text: str | None) -> tuple[table2.Point, ...]:
    """Pairs such as 16/2. Raises a usage error for anything else."""
    if text is None:
        return table2.POINTS
    found = [re.fullmatch(r"\s*([1-9]\d*)/([1-9]\d*)\s*", part) for part in text.split(",")]
    if not all(found):
        raise click.UsageError(f"--points {text}: not lanes/units,... such as 1/1,16/2", click.get_current_context())
    return tuple(dict.fromkeys((int(m[1]), int(m[2])) for m in found if m))


def _machine(isa: str | None, sets: tuple[str, ...]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The ISA file's name and the figures set in it, which load: what is wrong with it is told once."""
    machine, figures = isa or programs.SEED_MACHINE, pairs("--set", sets)
    load_target(machine, figures)
    return machine, figures


def _can_draw(folder: str | None) -> None:
    """What pictures lack is told before the bench runs."""
    if folder is not None:
        plots.figure_of(0)
        files.make_folder(Path(folder))


def _draw(
    pictures: Callable[[Sequence[Mapping[str, Any]], Path], list[Path]],
    rows: Sequence[Mapping[str, Any]],
    folder: str | None,
) -> None:
    if folder is not None:
        for path in pictures(rows, Path(folder)):
            click.echo(path, err=True)


def _later(name: str) -> None:
    @bench_group.command(name, hidden=True, context_settings={"ignore_unknown_options": True})
    @click.argument("rest", nargs=-1)
    def later(rest: tuple[str, ...]) -> int:
        raise not_yet(f"`dspgen bench {name}`")


for _name in ("cuda",):
    _later(_name)


def _peers(text: str | None) -> tuple[str, ...]:
    """The peers that are asked for; without a text, those that are installed."""
    if text is None:
        with tempfile.TemporaryDirectory(prefix="dspgen-bench-") as folder:
            return rivals.installed(Path(folder))
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    context = click.get_current_context()
    if unknown := [name for name in names if name not in rivals.NAMES]:
        raise click.UsageError(f"--peers {unknown[0]}: the peers are {', '.join(rivals.NAMES)}", context)
    if not names:
        raise click.UsageError(f"--peers names nothing: the peers are {', '.join(rivals.NAMES)}", context)
    return names


def _status(rows: Sequence[Mapping[str, Any]], *, refusal_is_fault: bool) -> int:
    if refusal_is_fault and any(row["refused"] for row in rows):
        return INPUT_AT_FAULT
    return DIFFERS if any(row["verified"] is False for row in rows) else OK


class _Refusals:
    """Collects what can't be run and why, to be told when the progress bar is gone."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __call__(self, title: str, error: DspgenError | PlantError) -> None:
        self.told.append(f"{title}: {rendered(error)}")


def _tell(rows: Sequence[Mapping[str, Any]], refusals: _Refusals) -> None:
    for text in refusals.told:
        click.echo(text, err=True)
    for row in rows:
        title = " ".join(str(row[key]) for key in ("kernel", "size", "lanes", "macs") if key in row)
        tell_differences(title, "it", row.get("details") or ())


def _verdicts(runs: int, found: Mapping[str, Any]) -> None:
    click.echo(f"{found['verified']} of {runs} verified, {found['wrong']} wrong, {found['refused']} refused")
    if (seconds := found.get("slowest_compile_seconds")) is not None:
        click.echo(f"slowest to compile, from C text to our code: {found['slowest_compile_kernel']}, {seconds:.2f} s")


def _sentence(peer: str, found: Mapping[str, Any]) -> str:
    return (
        f"{found['geometric_mean']:.2f} times as fast as {peer} (geometric mean of {found['kernels']}); "
        f"least {found['worst']:.2f}, {found['worst_kernel']}; slower than it in {found['slower']}"
    )


class _Bar:
    """A progress bar on a terminal's stderr, and nothing anywhere else."""

    def __init__(self, total: int) -> None:
        console = output.console(stderr=True)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task = self._progress.add_task("starting", total=total)

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def at(self, what: str) -> None:
        self._progress.update(self._task, description=what)

    def ended(self, run: breakdown.Run | emulated.Task | table1.Task | table2.Task) -> None:
        self._progress.update(self._task, description=run.title, advance=1)

    def done(self, row: Mapping[str, Any]) -> None:
        self._progress.advance(self._task)

    def around(self, run: verify.Run) -> verify.Run:
        """The same run, named on the bar while it runs."""

        def shown(kernel: str, size: str) -> dict[str, Any]:
            self.at(f"{kernel} {size}")
            return run(kernel, size)

        return shown
