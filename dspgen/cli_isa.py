"""`dspgen isa`: the machines, each described by one file."""

from __future__ import annotations

from typing import Any

import click

from dspgen import report
from dspgen.cli_shared import OK, help_wanted, json_option, not_yet, pairs, print_json
from dspgen.target.describe import describe
from dspgen.target.load import isa_names, load_target


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
def isa_check(path: str, sets: tuple[str, ...]) -> int:
    """Load an ISA file and tell everything that is wrong with it."""
    target = load_target(path, pairs("--set", sets))
    units, forms = len(target.unit_members), len(target.instructions)
    click.echo(f"{target.path}: {target.name} is sound: {units} units, {forms} instruction forms, {target.lanes} lanes")
    return OK


@isa_group.command("new")
@click.argument("name")
@click.option("--from", "base", metavar="NAME")
def isa_new(**given: Any) -> int:
    """Start an ISA file from another one: not there yet."""
    raise not_yet("`dspgen isa new`")
