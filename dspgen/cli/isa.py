"""`dspgen isa`: the machines, each described by one file."""

from __future__ import annotations

import re
from pathlib import Path

import click

from dspgen import io
from dspgen.cli.options import INPUT_AT_FAULT, OK, help_wanted, json_option, pairs, print_json
from dspgen.errors import DspgenError, IsaError, Problem
from dspgen.report import output as report
from dspgen.sim.supported_rows import unrunnable
from dspgen.sim.text.round_trip import illegible
from dspgen.target.describe import describe
from dspgen.target.load import check_target, isa_names, load_target
from dspgen.target.starter import started

_NAME = re.compile(r"[A-Za-z][\w-]*", re.A)


@click.group("isa", invoke_without_command=True)
@click.pass_context
def isa_group(context: click.Context) -> None:
    """The machines, each described by one file."""
    if context.invoked_subcommand is None:
        help_wanted(context)


@isa_group.command("list")
@json_option
def isa_list(as_json: bool) -> int:
    """Name the machines that come with dspgen."""
    rows = [{"isa": name, "description": load_target(name).description} for name in isa_names()]
    if as_json:
        print_json({"rows": rows})
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
    description = describe(load_target(name, pairs("--set", sets)))
    if as_json:
        print_json(report.plain(description))
    else:
        for table in report.description_tables(description):
            report.console().print(table)
    return OK


@isa_group.command("check")
@click.argument("path", metavar="NAME|PATH")
@click.option("--set", "sets", multiple=True, metavar="K=V", help="Override a figure of the ISA file.")
@json_option
def isa_check(path: str, sets: tuple[str, ...], as_json: bool) -> int:
    """Load an ISA file and tell everything that is wrong with it, and what looks wrong."""
    try:
        target, problems = check_target(path, pairs("--set", sets), (illegible, unrunnable))
    except IsaError as error:
        if not as_json:
            raise
        print_json(report.isa_row(path, None, error.problems))
        return INPUT_AT_FAULT
    if as_json:
        print_json(report.isa_row(path, target, problems))
        return OK
    for problem in problems:
        click.echo(problem.render(), err=True)
    click.echo(f"{target.path}: {target.name} is sound: {report.isa_size(target)}")
    return OK


@isa_group.command("new")
@click.argument("name")
@click.option("--from", "base", required=True, metavar="NAME|PATH", help="The machine that it is most like.")
@click.option("-o", "--output", metavar="FILE", help="Where to write it; NAME.toml by default.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def isa_new(name: str, base: str, output: str | None, force: bool) -> int:
    """Start an ISA file from another one, with comments that tell what its keys mean."""
    if not _NAME.fullmatch(name):
        remedy = "begin with a letter; letters, digits, _ and - may follow"
        raise DspgenError(Problem("DG518", f"no machine can have the name `{name}`", remedy=remedy))
    if name in isa_names():
        raise DspgenError(Problem("DG518", f"`{name}` comes with dspgen already", remedy="give yours another name"))
    known = load_target(base)
    path = Path(output or f"{name}.toml")
    if path.exists() and not force:
        raise DspgenError(Problem("DG519", f"{path} is there already", remedy="write over it with --force"))
    io.write_text(path, started(name, Path(known.path).read_text(encoding="utf-8"), known.name))
    click.echo(f"{path}: {name}, as {known.name} so far; next: dspgen isa check {path}")
    return OK
