"""Names that the reader of a machine's text would take for something else, where templates say how it is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from dspgen.emit.needs import Line
from dspgen.errors import Problem, SourceError
from dspgen.sched.ir.packets import LabelLine, Packet, Placed, Scheduled
from dspgen.sim.ir.symbols import split_symbol
from dspgen.sim.text.grammar import Grammar
from dspgen.target.isa.model import Target
from plant_core.support.location import Loc


def refuse_registers(name: str, target: Target, code: str, loc: Loc) -> None:
    """Raises SourceError for a function whose label would be read as a register."""
    written = any(row.text for row in target.instructions)
    if written and any(name in cls.names for cls in target.registers):
        what = f"no function can be called {name}: it is a register of {target.name}"
        raise SourceError(Problem(code, what, loc, "give it another name"))


def with_plain_labels(scheduled: Scheduled, target: Target) -> Scheduled:
    """The code with other names for labels that no operand could name."""
    if not any(row.text for row in target.instructions):
        return scheduled
    grammar = Grammar(target)
    taken = {line.name for line in scheduled.lines if isinstance(line, LabelLine)}
    new: dict[str, str] = {}
    for name in sorted(taken):
        if not grammar.is_plain(name):
            new[name] = re.sub(r"\W", "_", name) + "_"
            while new[name] in taken or not grammar.is_plain(new[name]):
                new[name] += "_"
            taken.add(new[name])
    if not new:
        return scheduled
    lines = tuple(_renamed(line, new) for line in scheduled.lines)
    loops = tuple(replace(loop, label=new.get(loop.label, loop.label)) for loop in scheduled.loops)
    return replace(scheduled, lines=lines, loops=loops)


def _renamed(line: Line, new: Mapping[str, str]) -> Line:
    match line:
        case LabelLine(name=name):
            return replace(line, name=new.get(name, name))
        case Packet(members=members):
            return replace(line, members=tuple(_with_labels(m, new) for m in members))
    return line


def _with_labels(member: Placed, new: Mapping[str, str]) -> Placed:
    operands = list(member.operands)
    for k, value in enumerate(operands):
        if isinstance(value, str) and value.startswith("@"):
            name, away = split_symbol(value)
            operands[k] = f"@{new.get(name, name)}{f'{away:+d}' if away else ''}"
    return replace(member, operands=tuple(operands))
