"""The assembly file: what the caller must know, the packets, and what the scheduler did to each loop.

Loop blocks keep the vocabulary of TI's cl6x compiler ("Optimizing your code", SPRUI04), which DSP programmers read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dspgen.emit.header import Signature, place_text, signature_of
from dspgen.emit.needs import Line, needs
from dspgen.emit.text import print_lines
from dspgen.sched.ir.packets import CommentLine, LabelLine, LoopReport, Packet, Placed, Scheduled
from dspgen.target.isa.model import Target
from plant_core.ir.func import Func
from plant_core.support.location import Loc

_RULE = "*" + "-" * 76 + "*"


def emit_asm(scheduled: Scheduled, target: Target, *, func: Func, conditions: Sequence[str] = ()) -> str:
    """The whole file. The lines of the C file that `func` was read from become comments; `conditions`: what its caller
    must see to."""
    head = [*_file_header(scheduled, target, signature_of(func)), *_conditions(conditions)]
    return _listing(scheduled, target, head, echo=True)


def emit_scheduled(
    scheduled: Scheduled, target: Target, *, source: str, arguments: Sequence[tuple[str, str]], apart: bool
) -> str:
    """The whole file of a function that was written in linear assembly.

    `arguments` are (register, name in the text); `apart` as in `needs`.
    """
    head = [f"{scheduled.name}, from {source}, for {target.name}", ""]
    head += [f"{register:<8} {name}" for register, name in arguments]
    head += _time(scheduled)
    head += _conditions(needs(scheduled, target, apart=apart, arrays=False))
    return _listing(scheduled, target, head, echo=False)


def _listing(scheduled: Scheduled, target: Target, notes: Iterable[str], *, echo: bool) -> str:
    comment = target.text.comment
    head = [f"{comment} {text}".rstrip() for text in notes]
    head.append(target.text.global_directive.replace("{name}", scheduled.name))
    body = print_lines(tuple(_with_comments(scheduled, echo=echo)), target)
    entry = "" if any(_is_label(line, scheduled.name) for line in scheduled.lines) else _label(target, scheduled.name)
    tail = target.text.size_directive.replace("{name}", scheduled.name)
    return "\n".join(head) + "\n" + entry + body.rstrip("\n") + "\n" + (tail + "\n" if tail else "")


def loop_block(report: LoopReport) -> list[str]:
    """The comment block above a loop, one string for each line."""
    rows: list[tuple[str, str]] = []
    if report.loc is not None:
        rows.append(("Loop source line", str(report.loc.line)))
    if report.unroll > 1:
        rows.append(("Loop Unroll Multiple", f"{report.unroll}x"))
    rows.append(("Known Trip Count", str(report.trip) if report.trip is not None else "unknown"))
    rows.append(("Loop Carried Dependency Bound(^)", str(report.rec_mii)))
    rows.append(("Resource Bound(*)", str(report.res_mii)))
    if report.pipelined:
        rows.append(("Bound of its arithmetic alone", str(report.arithmetic_mii)))
        if report.source_mii is not None:
            rows.append(("Bound of the source's arithmetic", str(report.source_mii)))
        proof = "proven optimal" if report.optimal else f"{report.bound} at least"
        rows.append(("Initiation interval", f"{report.ii}, {proof}"))
    lines = ["  SOFTWARE PIPELINE INFORMATION", ""]
    lines += [f"     {name:<33}: {value}" for name, value in rows]
    lines += ["     Resource bound per unit:"] if report.resource_bounds else []
    binding = max((bound for _, bound in report.resource_bounds), default=0)
    for unit, bound in report.resource_bounds:
        lines.append(f"       {unit:<31}: {bound}{'*' if bound == binding else ''}")
    lines += ["", "     Searching for software pipeline schedule at ..."] if report.tried or report.pipelined else []
    for ii, reason in report.tried:
        lines.append(f"       ii = {ii:<4} Did not find schedule: {reason}")
    if report.pipelined:
        lines.append(f"       ii = {report.ii:<4} Schedule found with {report.stages} iterations in parallel")
        lines += ["", f"     Prolog {report.prolog} cycles, epilog {report.epilog} cycles"]
    else:
        lines += ["", f"     Not software pipelined: {report.ii} cycles an iteration"]
    return [_RULE, *(f"*{line}" for line in lines), _RULE]


def _file_header(scheduled: Scheduled, target: Target, signature: Signature) -> Iterator[str]:
    yield f"{signature.name}, from {signature.source}, for {target.name}"
    yield ""
    for parameter, place in zip(signature.parameters, signature.places(target), strict=True):
        yield f"{place_text(place, target):<8} {parameter.c_text}"
    yield from _time(scheduled)


def _time(scheduled: Scheduled) -> Sequence[str]:
    if scheduled.cycles is None:
        return ()
    return "", f"Takes {scheduled.cycles} cycles, from entry through the return."


def _conditions(found: Sequence[str]) -> Sequence[str]:
    return ("", "The caller sees to it that:", *(f"- {need}" for need in found), "") if found else ("",)


def _with_comments(scheduled: Scheduled, *, echo: bool) -> Iterator[Line]:
    """The lines, with a block above each loop and (`echo`) each C line above the first packet that works for it."""
    reports = {report.label: report for report in scheduled.loops}
    names = {line.name for line in scheduled.lines if isinstance(line, LabelLine)}
    for report in scheduled.loops:
        if report.label not in names:  # unrolled to its end: no label is left to stand above
            yield from (CommentLine(text) for text in loop_block(report))
    source = _Source()
    told: set[Loc] = set()
    for line in scheduled.lines:
        if isinstance(line, LabelLine):
            told = set()
            if (found := reports.get(line.name)) is not None:
                yield from (CommentLine(text) for text in loop_block(found))
        if isinstance(line, Packet):
            here = sorted({replace(m.loc, column=1) for m in line.members if m.loc is not None} - told)
            told.update(here)
            yield from (CommentLine(f"{loc.line}: {text}") for loc in here if echo and (text := source.line(loc)))
            line = Packet(tuple(_named(m) for m in line.members))
        yield line


class _Source:
    """The C files' lines, each file read once."""

    def __init__(self) -> None:
        self._files: dict[str, list[str]] = {}

    def line(self, loc: Loc) -> str:
        if loc.file not in self._files:
            path = Path(loc.file)
            text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
            self._files[loc.file] = text.splitlines()
        lines = self._files[loc.file]
        return lines[loc.line - 1].strip() if loc.line <= len(lines) else ""


def _named(member: Placed) -> Placed:
    """The instruction with its C line as its comment, unless it says something already."""
    if member.comment or member.loc is None:
        return member
    return replace(member, comment=f"line {member.loc.line}")


def _is_label(line: Line, name: str) -> bool:
    return isinstance(line, LabelLine) and line.name == name


def _label(target: Target, name: str) -> str:
    return print_lines((LabelLine(name),), target).rstrip("\n") + "\n"
