"""What the commands share: options, the stages' callback, and how results are printed."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.table import Table

from dspgen import io
from dspgen.errors import DspgenError, Problem
from dspgen.options import PACKS, SCHED_MODES, TILERS, Options, SchedMode
from dspgen.report import output
from dspgen.rewrite.optimize import Remark
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from plant_core.support.location import PlantError

OK, DIFFERS, INPUT_AT_FAULT = 0, 1, 2

_MACRO = re.compile(r"[A-Za-z_]\w*(\(.*\))?")
# What the rooms below can't know: how the command line is told of another compiler or folder.
_REMEDIES = {
    "DG610": "install g++ or clang++, where PATH finds it",
    "DG611": "set XDG_CACHE_HOME to a folder that can be written",
}

DATA_HELP = "Where arrays are: off the chip, the default where [dma] is described, or on it."
Command = Callable[..., Any]


def isa_options(*, required: bool = True) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for option in (
            click.option("--set", "sets", multiple=True, metavar="K=V", help="Override a figure of the ISA file."),
            click.option(
                "--isa", required=required, metavar="NAME|PATH", help="The machine; `dspgen isa list` names them."
            ),
        ):
            command = option(command)
        return command

    return decorate


def sched_option(command: Command) -> Command:
    help = "How packets are found."
    return click.option("--sched", type=click.Choice(SCHED_MODES), default="dp", show_default=True, help=help)(command)


def tiler_option(command: Command) -> Command:
    help = "How register tiles are found."
    return click.option("--tiler", type=click.Choice(TILERS), default="feedback", show_default=True, help=help)(command)


def source_options(command: Command) -> Command:
    for option in (
        tiler_option,
        sched_option,
        click.option("--data", type=click.Choice(["ddr", "onchip"]), help=DATA_HELP),
        click.option("--fp", type=click.Choice(["strict", "reassoc"]), default="reassoc", show_default=True),
        click.option("-I", "includes", multiple=True, metavar="DIR", help="Look for headers there, too."),
        click.option("-D", "defines", multiple=True, metavar="N=V", help="Define a macro, as for a C compiler."),
        click.option("--function", metavar="F", help="Which function of the file."),
    ):
        command = option(command)
    return command


def backend_options(command: Command) -> Command:
    packing = "Of --backend cpu: which arrays are copied."
    for option in (
        click.option("--pack", type=click.Choice(PACKS), default="gpat", show_default=True, help=packing),
        click.option("--threads", type=click.IntRange(1), metavar="N", help="Of --backend cpu; all cores by default."),
        click.option("--backend", type=click.Choice(["cpu", "cuda"]), help="In place of --isa: this computer."),
    ):
        command = option(command)
    return isa_options(required=False)(command)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, and nothing else.")(command)


@dataclass(frozen=True, slots=True)
class Road:
    """How `run` goes on from a C file: on a simulator or on this computer.

    `facts` are what every row says; `run` takes a path, inputs and the stages' callback; its result has at least
    `kernel`, `verified`, `outputs` and `details`. `row` makes its JSON object, `table` a table of such objects, and
    `show` prints what else there is to one result.
    """

    facts: dict[str, Any]
    target: Target | None
    options: Options
    run: Callable[[str, Mapping[str, Any] | None, Stages], Any]
    row: Callable[[Any], dict[str, Any]]
    table: Callable[[Sequence[Mapping[str, Any]]], Table]
    show: Callable[[Any], None]


def road_of(given: Mapping[str, Any]) -> str:
    """`isa` or `cpu`, whichever the options ask for; click.UsageError where they contradict each other."""
    context = click.get_current_context()
    isa, backend = given["isa"], given["backend"]
    if isa is not None and backend is not None:
        raise click.UsageError("--isa and --backend exclude each other", context)
    if isa is None and backend is None:
        raise click.UsageError("Missing option '--isa', or '--backend' in its place", context)
    if backend == "cuda":
        raise not_yet("`--backend cuda`")
    for option in ("threads", "pack") if isa is not None else ("sets", "data", "sched", "tiler"):
        if context.get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE:
            shown = {"sets": "set"}.get(option, option)
            raise click.UsageError(f"--{shown} goes with {'--backend cpu' if isa is not None else '--isa'}", context)
    return "isa" if isa is not None else "cpu"


def target_of(given: Mapping[str, Any]) -> Target:
    return load_target(given["isa"], pairs("--set", given["sets"]))


def options_of(given: Mapping[str, Any], target: Target | None = None) -> Options:
    """What the command line asks for; arrays are off the chip where the machine has an engine that moves them."""
    defines = tuple(d if "=" in d else f"{d}=1" for d in given["defines"])
    return Options(
        function=given["function"],
        defines=pairs("-D", defines),
        includes=tuple(given["includes"]),
        sets=pairs("--set", given.get("sets", ())),
        fp=given["fp"],
        data=given["data"] or ("ddr" if target is not None and target.dma is not None else "onchip"),
        sched=sched_mode(given["sched"]),
        tiler=given["tiler"],
        pack=given.get("pack", "gpat"),
    )


def sched_mode(mode: SchedMode) -> SchedMode:
    """The mode, if the solver that it takes is installed."""
    if mode == "exact" and find_spec("ortools") is None:
        raise DspgenError(
            Problem(
                "DG515", "`--sched exact` takes a solver that is not installed", remedy="pip install 'dspgen[exact]'"
            )
        )
    return mode


def pairs(option: str, texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    split = [text.partition("=") for text in texts]
    problems = [
        Problem("DG509", f"{option} '{text}' is not of the form name=value", remedy=f"{option} NAME=VALUE")
        for text, (name, equals, value) in zip(texts, split, strict=True)
        if not (name.strip() and equals) or not (_MACRO.fullmatch(name.strip()) if option == "-D" else value.strip())
    ]
    if problems:
        raise DspgenError(*problems)
    return tuple((name.strip(), value) for name, _, value in split)


def kinds_of(emit: str, emitted: Mapping[str, str]) -> list[str]:
    kinds = list(dict.fromkeys(kind.strip() for kind in emit.split(",") if kind.strip()))
    if "c" in kinds:
        raise not_yet("`--emit c`")
    if unknown := [kind for kind in kinds if kind not in emitted]:
        raise click.UsageError(f"--emit {unknown[0]}: the kinds are {', '.join(emitted)}")
    if not kinds:
        raise click.UsageError(f"--emit names no kind: the kinds are {', '.join(emitted)}")
    return kinds


def thread_count(threads: int | None) -> int:
    """The given number of threads, or one for each core that this process may use."""
    return threads or len(os.sched_getaffinity(0))


def library_cache() -> Path:
    """Where built libraries are kept from one run to the next."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "dspgen" / "cpu"


def help_wanted(context: click.Context) -> NoReturn:
    click.echo(context.get_help(), err=True)
    context.exit(INPUT_AT_FAULT)


def not_yet(what: str) -> DspgenError:
    return DspgenError(Problem("DG502", f"{what} is not there yet"))


def rendered(error: DspgenError | PlantError) -> str:
    if isinstance(error, DspgenError):
        return error.render()
    return Problem(error.code, error.message, error.loc, _REMEDIES.get(error.code, error.remedy)).render()


def print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2))


def tell_differences(path: str, kernel: str, details: Sequence[str]) -> None:
    for detail in details:
        click.echo(f"{path}: {kernel} {detail}", err=True)


def print_remarks(remarks: Sequence[Remark]) -> None:
    for remark in remarks:
        where = f"{remark.loc}: " if remark.loc else ""
        click.echo(f"{where}{remark.kind}: {remark.message}")


class Stages:
    """The callback between stages: the stage's name on a terminal's stderr, and its text into the dump folder."""

    def __init__(self, target: Target | None = None, folder: Path | None = None) -> None:
        self.target = target
        self.folder = folder
        self.title = ""
        self._count = 0
        self._status = output.console(stderr=True).status("starting") if sys.stderr.isatty() else None

    def __enter__(self) -> Stages:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, stage: str, value: object) -> None:
        if self._status is not None:
            self._status.update(f"{self.title}{stage}")
        if self.folder is not None and (text := output.stage_text(value, self.target)) is not None:
            self._count += 1
            io.write_text(self.folder / f"{self._count:02}-{stage}.txt", text)
