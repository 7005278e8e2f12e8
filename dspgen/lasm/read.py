"""Linear assembly text to programs: directives, labels and loops; instructions are split by the assembler's reader."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from dspgen.errors import Problem, SourceError
from dspgen.lasm.ir import Declared, Group, Kind, Marked, Program, Statement
from dspgen.sim.text.statements import Line, Reader, decode
from dspgen.target.isa.model import Target
from plant_core.support.location import Loc

_KINDS: dict[str, Kind] = {".input": "input", ".gen_var": "general", ".add_var": "address"}
_IDLE = {".align", ".type", ".text", ".section", ".file", ".ident", ".p2align", ".extern", ".end", ".endfunc"}
_KNOWN = [*_KINDS, ".output", ".global", ".size", ".loop", ".endloop", ".no_mdep", ".trip"]
_NAME = re.compile(r"[A-Za-z_$][\w.$]*")
_FUNCTION = re.compile(r"[A-Za-z_.$][\w.$]*")  # a file is called like it
_AT = re.compile(r"\s*@\s*([A-Za-z_.$][\w.$]*)\s*:?\s*(.*)$")
_TRIPS = re.compile(r"\s*([A-Za-z_.$][\w.$]*)\s*:\s*(\d+)\s*(?:,\s*(\d+)\s*)?$")
_LINE_END = re.compile(r"\r\n|\n|\r")


def read_linear(text: str | bytes, target: Target, file: str = "<text>") -> tuple[Program, ...]:
    """The functions of a file. Raises SourceError with every problem found, each at its place."""
    source = decode(text) if isinstance(text, bytes) else text
    reader = _Reader(target, file)
    programs = reader.programs(source)
    if reader.problems:
        raise SourceError(*sorted(reader.problems, key=lambda p: (p.loc.line, p.loc.column) if p.loc else (0, 0)))
    return programs


@dataclass(slots=True)
class _Draft:
    """A function while it is read."""

    name: str = ""
    loc: Loc | None = None
    inputs: list[Group] = field(default_factory=list)
    declared: dict[str, Declared] = field(default_factory=dict)
    pairs: list[Group] = field(default_factory=list)
    outputs: list[Group] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    trips: dict[str, tuple[int, int]] = field(default_factory=dict)
    open_loops: list[Marked] = field(default_factory=list)  # without their ends
    loops: list[Marked] = field(default_factory=list)
    apart: bool = False

    @property
    def empty(self) -> bool:
        return not (self.name or self.statements or self.declared)


class _Reader:
    def __init__(self, target: Target, file: str) -> None:
        self.target = target
        self.file = file
        self.problems: list[Problem] = []
        self.drafts = [_Draft()]
        self.raw: list[str] = []
        fold = str if target.text.case_sensitive else str.upper
        nop = target.text.nop.split()[:1]
        self.idle = {fold(word) for word in nop}
        self.mnemonics = frozenset({*(fold(i.mnemonic) for i in target.instructions), *self.idle})

    @property
    def now(self) -> _Draft:
        return self.drafts[-1]

    def programs(self, text: str) -> tuple[Program, ...]:
        self.raw = _LINE_END.split(text.removeprefix("\ufeff").rstrip("\x1a"))
        lines = Reader(self.target, self.file, self.mnemonics)
        for number, line in self._plain_lines():
            for part in lines.statements(line, number):
                self._part(part)
        self.problems += lines.problems
        for draft in self.drafts:
            for loop in draft.open_loops:
                self._problem("DG345", "a loop without its .endloop", loop.loc)
        self._names_apart()
        found = tuple(self._program(d) for d in self.drafts if not d.empty)
        if not found:
            self._problem("DG340", "there is no function", Loc(self.file, 1), "start it with .global NAME")
        return found

    def _names_apart(self) -> None:
        first: dict[str, Loc] = {}
        for draft in self.drafts:
            if draft.loc is not None and (seen := first.setdefault(draft.name, draft.loc)) is not draft.loc:
                what = f"function {draft.name} is defined twice (first in line {seen.line})"
                self._problem("DG340", what, draft.loc, "give one of them another name")

    def _plain_lines(self) -> Iterator[tuple[int, str]]:
        """Lines without comments; those of the other spelling are taken at once."""
        for number, raw in enumerate(self.raw, 1):
            text = self._uncomment(raw)
            if (found := _AT.match(text)) is not None:
                self._at(found, Loc(self.file, number, found.start(1)))
            elif (found := _TRIPS.match(text)) is not None:
                label, least, most = found.groups()
                loc = Loc(self.file, number, found.start(1) + 1)
                self._bounded(label, int(least), int(most or least), loc)
                self.now.statements.append(Statement("label", loc, label))
            else:
                yield number, text

    def _uncomment(self, raw: str) -> str:
        marks = (self.target.text.comment, *self.target.text.comment_alternatives)
        ends = [raw.find(m) for m in marks if m and m in raw]
        return raw[: min(ends)] if ends else raw

    def _at(self, found: re.Match[str], loc: Loc) -> None:
        word, rest = found.groups()
        if word == "ret":
            if rest.strip():
                self.now.outputs += self._groups(rest, loc)
            self.now.statements.append(Statement("return", loc))
        else:
            self._start(word, loc)

    def _start(self, name: str, loc: Loc) -> None:
        if self.now.name == name:
            return
        if self.now.name:
            self.drafts.append(_Draft())
        self.now.name, self.now.loc = name, loc

    def _part(self, part: Line) -> None:
        match part.kind:
            case "label":
                self._label(part)
            case "directive":
                self._directive(part)
            case _:
                if part.joined:
                    self._problem("DG340", "linear assembly has no packets", part.loc, "leave the bar out")
                elif part.word not in self.idle:
                    self.now.statements.append(Statement("instruction", part.loc, line=part))

    def _label(self, part: Line) -> None:
        first = next((s for s in self.now.statements if s.kind == "label" and s.word == part.word), None)
        if first is not None:
            self._problem("DG345", f"label {part.word} is defined twice (first in line {first.loc.line})", part.loc)
        elif part.word != self.now.name:
            self.now.statements.append(Statement("label", part.loc, part.word))

    def _directive(self, part: Line) -> None:
        word = part.word
        if word in _KINDS:
            self._declare(_KINDS[word], self._groups(part.rest, part.loc))
        elif word == ".output":
            self.now.outputs += self._groups(part.rest, part.loc)
        elif word in (".global", ".globl", self.target.text.global_directive.split()[0]):
            for name in [n.strip() for n in part.rest.split(",") if n.strip()]:
                if not _FUNCTION.fullmatch(name):
                    remedy = "letters, digits, _, . and $, but no digit first"
                    self._problem("DG340", f"no function can have the name '{name}'", part.loc, remedy)
                self._start(name, part.loc)
        elif word == ".size":
            if self.now.statements:
                self.drafts.append(_Draft())
        elif word == ".loop":
            self._loop(part)
        elif word == ".endloop":
            if self.now.open_loops:
                loop = self.now.open_loops.pop()
                self.now.loops.append(replace(loop, end=len(self.now.statements)))
            else:
                self._problem("DG345", "there is no loop that ends here", part.loc)
        elif word == ".no_mdep":
            self.now.apart = True
        elif word == ".trip":
            self._trip(part)
        elif word not in _IDLE and not word.startswith(".cfi"):
            close = difflib.get_close_matches(word, _KNOWN, 1)
            self._problem("DG340", f"unknown directive {word}", part.loc, f"did you mean {close[0]}?" if close else "")

    def _loop(self, part: Line) -> None:
        last = self.now.statements[-1] if self.now.statements else None
        if last is None or last.kind != "label":
            self._problem("DG345", "a loop needs its label in front of .loop", part.loc, ".name: .loop")
        start = len(self.now.statements)
        self.now.open_loops.append(Marked(last.word if last is not None else "", part.loc, start, start))

    def _trip(self, part: Line) -> None:
        """`.trip least, most` of the loop whose label stands just before."""
        numbers = [n.strip() for n in part.rest.split(",") if n.strip()]
        label = next((s.word for s in reversed(self.now.statements) if s.kind == "label"), None)
        if label is None or not numbers or not all(n.isdigit() for n in numbers):
            self._problem("DG340", ".trip takes the least and the most trips of the loop above", part.loc)
            return
        self._bounded(label, int(numbers[0]), int(numbers[-1]), part.loc)

    def _bounded(self, label: str, least: int, most: int, loc: Loc) -> None:
        if least > most:
            self._problem("DG340", f"at least {least} trips and at most {most}", loc, "the least comes first")
        self.now.trips[label] = (least, most)

    def _declare(self, kind: Kind, groups: list[Group]) -> None:
        draft = self.now
        for group in groups:
            for name in group.names:
                if (first := draft.declared.get(name)) is not None:
                    self._problem("DG341", f"{name} is declared twice (first in line {first.loc.line})", group.loc)
                    continue
                draft.declared[name] = Declared(name, kind, group.loc)
            if len(group.names) == 2:
                draft.pairs.append(group)
        if kind == "input":
            draft.inputs += groups

    def _groups(self, rest: str, loc: Loc) -> list[Group]:
        """The entries of a list, each at its column."""
        text = self.raw[loc.line - 1]
        at = max(text.find(rest, loc.column - 1), 0) if rest else 0
        found: list[Group] = []
        for entry in rest.split(","):
            column = at + len(entry) - len(entry.lstrip()) + 1
            at += len(entry) + 1
            if not entry.strip():
                continue
            names = tuple(n.strip() for n in entry.split(":"))
            place = Loc(self.file, loc.line, column)
            if len(names) > 2 or not all(_NAME.fullmatch(n) for n in names):
                self._problem("DG340", f"'{entry.strip()}' is no name and no pair of names", place)
            else:
                found.append(Group(names, place))
        return found

    def _program(self, draft: _Draft) -> Program:
        loc = draft.loc or (draft.statements[0].loc if draft.statements else Loc(self.file, 1))
        if not draft.name:
            self._problem("DG340", "a function without a name", loc, "start it with .global NAME")
        return Program(
            self.file,
            draft.name,
            loc,
            tuple(draft.inputs),
            draft.declared,
            tuple(draft.pairs),
            tuple(draft.outputs),
            tuple(draft.statements),
            draft.trips,
            draft.apart,
            tuple(draft.loops),
        )

    def _problem(self, code: str, message: str, loc: Loc, remedy: str = "") -> None:
        self.problems.append(Problem(code, message, loc, remedy))
