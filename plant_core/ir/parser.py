"""Reads the text that `plant_core.ir.printer` writes.

Errors are PlantErrors with the line and column of the text: DG220 what isn't of this grammar, DG221 a name that
nothing declares, DG222 a set or map that isl doesn't take.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import cast, get_args

import islpy as isl

from plant_core.ir.expr_parser import ExprReader, Reader
from plant_core.ir.func import (
    Action,
    Alloc,
    Buf,
    Comp,
    DType,
    Effect,
    Expr,
    Extent,
    Free,
    Func,
    Location,
    Memcpy,
    ScalarParam,
    Verbatim,
)
from plant_core.ir.loop_tree import Tag
from plant_core.ir.printer import Names
from plant_core.ir.scheduled import AstOption, Nest, Scheduled
from plant_core.support.location import Loc, PlantError

_STATEMENT = re.compile(r"([A-Za-z_]\w*)\[([^\]]*)\]")
_END_PLACE = re.compile(r" at ([\w./+<>-]+|'[^']*'|\"[^\"]*\"):(\d+):(\d+)$")


def parse_expr(text: str, names: Names | None = None, iters: tuple[str, ...] = ()) -> Expr:
    """One expression; `names` and `iters` say what its names are."""
    reader = ExprReader("<expression>", 1, text, names=names or Names(), iters=frozenset(iters))
    found = reader.whole()
    reader.end()
    return found


def parse_func(text: str, *, file: str = "<text>") -> Func:
    """The program that `print_func` printed. `file` is what errors call the text."""
    lines = _Lines(text, file)
    func = _func(lines)
    lines.end()
    return func


def parse_scheduled(text: str, *, file: str = "<text>") -> Scheduled:
    """The scheduled program that `print_scheduled` printed."""
    lines = _Lines(text, file)
    func = _func(lines)
    found = [_scheduled(lines, func)]
    while lines.more():
        reader = lines.next("origin")
        reader.need(r"origin\b", "'origin'")
        reader.end()
        if lines.more() and lines.peek().lstrip().startswith("func"):
            func = _func(lines)
        found.append(_scheduled(lines, func))
    result = found[-1]
    for outer in reversed(found[:-1]):
        result = replace(outer, origin=result)
    return result


class _Lines:
    """The lines of a text that aren't blank, one by one."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self._lines = [(k, line) for k, line in enumerate(text.splitlines(), 1) if line.strip()]
        self._last = text.count("\n") + 1
        self._at = 0

    def more(self) -> bool:
        return self._at < len(self._lines)

    def peek(self) -> str:
        return self._lines[self._at][1]

    def indented(self) -> bool:
        return self.more() and self.peek()[0].isspace()

    def next(self, wanted: str) -> Reader:
        if not self.more():
            raise PlantError(
                f"the text ends where {wanted} should follow", loc=Loc(self.file, self._last), code="DG220"
            )
        number, line = self._lines[self._at]
        self._at += 1
        reader = Reader(self.file, number, line)
        reader.skip()
        return reader

    def end(self) -> None:
        if self.more():
            self.next("").fail("the program ends here", "give one program to a text")


def _func(lines: _Lines) -> Func:
    reader = lines.next("'func'")
    reader.need(r"func\b", "'func'")
    name = reader.identifier()
    place = _END_PLACE.search(reader.text)
    if place is None:
        reader.fail("a program's first line ends in ' at FILE:LINE:COLUMN'")
    loc = Loc(_unquoted(place[1]), int(place[2]), int(place[3]))
    return _FuncReader(lines, loc).read(name, reader)


def _unquoted(file: str) -> str:
    return file[1:-1].encode().decode("unicode_escape") if file[0] in "'\"" else file


_Pending = list[tuple[Reader, Buf, list[str]]]
"""Where an array is declared, the array, and the texts of its extents."""


class _FuncReader:
    """One program; declarations come before what uses them, except for parameters that statements define."""

    def __init__(self, lines: _Lines, loc: Loc) -> None:
        self._lines = lines
        self._loc = loc
        self._bufs: list[Buf] = []
        self._declared: set[str] = set()
        self._statements: list[tuple[Reader, bool, list[Reader]]] = []
        self._context: isl.Set | None = None
        self._order: list[str] | None = None

    def read(self, name: str, header: Reader) -> Func:
        params: list[Buf | ScalarParam] = []
        pending: _Pending = []
        header.need(r"\(", "'('")
        while not header.take(r"\)"):
            if params:
                header.need(r",", "',' or ')'")
            params.append(self._declaration(header, pending))
        self._place(header)
        header.end()
        while self._lines.indented():
            self._line(pending)
        names = self._names(params)
        sizes = {d.name: self._shape(d, texts, at, names) for at, d, texts in pending}
        params = [sizes.get(p.name, p) for p in params]
        local = [sizes.get(b.name, b) for b in self._bufs]
        comps: list[Comp] = []
        effects: list[Effect] = []
        for reader, is_effect, rest in self._statements:
            if is_effect:
                effects.append(self._effect(reader, rest))
            else:
                comps.append(self._comp(reader, rest, names))
        bufs = self._ordered([*(p for p in params if isinstance(p, Buf)), *local], header)
        return Func(name, tuple(params), bufs, tuple(comps), self._loc, tuple(effects), self._context)

    def _line(self, pending: _Pending) -> None:
        reader = self._lines.next("a statement")
        if reader.take(r"context\s"):
            self._context = reader.isl_set()
        elif reader.take(r"order\s"):
            self._order = reader.names()
        elif (effect := bool(reader.take(r"effect\s"))) or reader.looking_at(_STATEMENT.pattern):
            rest = [self._lines.next("the domain"), self._lines.next("the schedule"), self._lines.next("the action")]
            self._statements.append((reader, effect, rest))
        else:
            declared = self._declaration(reader, pending)
            if not isinstance(declared, Buf):
                reader.fail(f"'{declared.name}' has no place of its own", "declare it in the program's first line")
            reader.end()
            self._bufs.append(declared)

    def _names(self, params: list[Buf | ScalarParam]) -> Names:
        """What is declared; the type of a computation is that of the array it is stored to."""
        bufs = {b.name: b.dtype for b in (*(p for p in params if isinstance(p, Buf)), *self._bufs)}
        scalars: dict[str, DType] = {}
        comps: dict[str, DType] = {}
        for reader, is_effect, rest in self._statements:
            if is_effect:
                continue
            head = re.match(r"\s*([A-Za-z_]\w*)\[[^\]]*\](?: defines (\w+))?", reader.text)
            dtype = _target_type(rest[2].text, bufs)
            if head is None or dtype is None:
                rest[2].fail(f"'{rest[2].text.strip()}' assigns to nothing that is declared", code="DG221")
            comps[head[1]] = dtype
            if head[2]:
                scalars[head[2]] = dtype
        scalars |= {p.name: p.dtype for p in params if isinstance(p, ScalarParam)}
        return Names(bufs, scalars, comps)

    # Declarations

    def _declaration(self, reader: Reader, pending: _Pending) -> Buf | ScalarParam:
        """A declaration; extents that aren't numbers are left in `pending` until all parameters are known."""
        local, const = bool(reader.take(r"local\s")), bool(reader.take(r"const\s"))
        dtype = reader.dtype()
        name = self._new(reader)
        texts: list[str] = []
        while reader.looking_at(r"\["):
            texts.append(reader.bracketed())
        marks: dict[str, str] = {}
        while found := reader.take(r"(in|align|per)\s+[\w.]+"):
            key, value = found.split()
            marks[key] = value
        loc = self._place(reader)
        if not (local or texts):
            return ScalarParam(name, dtype, loc)
        location = marks.get("in", "heap")
        if location not in get_args(Location):
            reader.fail(f"there is no memory called '{location}'", f"one of: {', '.join(get_args(Location))}")
        at = tuple(marks["per"].split(".")) if "per" in marks else None
        declared = Buf(
            name,
            dtype,
            (),
            "local" if local else "param",
            const,
            loc,
            cast(Location, location),
            int(marks.get("align", "0")),
            cast("tuple[str, str] | None", at),
        )
        if texts:
            pending.append((reader, declared, texts))
        return declared

    def _new(self, reader: Reader) -> str:
        start = reader.at
        name = reader.identifier()
        if name in self._declared:
            reader.at = start
            reader.fail(f"'{name}' is declared twice", code="DG221")
        self._declared.add(name)
        return name

    def _shape(self, declared: Buf, texts: list[str], at: Reader, names: Names) -> Buf:
        shape: list[Extent] = []
        for text in texts:
            if re.fullmatch(r"\s*-?\d+\s*", text):
                shape.append(int(text))
                continue
            reader = ExprReader(at.file, at.line, text, names=names, source=self._loc.file)
            if text.strip():
                shape.append(reader.whole())
                reader.end()
        return replace(declared, shape=tuple(shape))

    def _ordered(self, bufs: list[Buf], header: Reader) -> tuple[Buf, ...]:
        if self._order is None:
            return tuple(bufs)
        by_name = {b.name: b for b in bufs}
        unknown = [n for n in self._order if n not in by_name]
        if unknown:
            header.fail(f"the order of arrays names '{unknown[0]}', which isn't declared", code="DG221")
        return tuple(by_name[n] for n in self._order)

    # Statements

    def _head(self, reader: Reader, rest: list[Reader]) -> tuple[str, tuple[str, ...], isl.Set, isl.Map]:
        name = reader.identifier()
        iters = tuple(part.strip() for part in reader.bracketed().split(",") if part.strip())
        rest[0].need(r"domain\s", "'domain'")
        rest[1].need(r"schedule\s", "'schedule'")
        return name, iters, rest[0].isl_set(), rest[1].isl_map()

    def _comp(self, reader: Reader, rest: list[Reader], names: Names) -> Comp:
        name, iters, domain, schedule = self._head(reader, rest)
        defines = reader.identifier() if reader.take(r"defines\s") else None
        loc = self._place(reader) or self._loc
        reader.end()
        body = ExprReader(
            rest[2].file, rest[2].line, rest[2].text, names=names, iters=frozenset(iters), source=self._loc.file
        )
        target = body.target()
        body.need(r"=(?!=)", "'='")
        value = body.whole()
        body.end()
        return Comp(name, iters, domain, schedule, target, value, loc, defines)

    def _effect(self, reader: Reader, rest: list[Reader]) -> Effect:
        name, iters, domain, schedule = self._head(reader, rest)
        loc = self._place(reader) or self._loc
        reader.end()
        return Effect(name, iters, domain, schedule, _action(rest[2]), loc)

    def _place(self, reader: Reader) -> Loc | None:
        if not reader.take(r"at\s"):
            return None
        return reader.place(self._loc.file)


def _target_type(text: str, bufs: dict[str, DType]) -> DType | None:
    """The type of what an assignment's text assigns to: its own mark, else its array's."""
    reader = Reader("", 1, text)
    reader.skip()
    name = reader.identifier()
    while reader.looking_at(r"\["):
        reader.bracketed()
    mark = reader.take(r"\.\w+")
    return cast(DType, mark[1:]) if mark else bufs.get(name)


def _action(reader: Reader) -> Action:
    action: Action
    if reader.take(r"memcpy\s"):
        action = Memcpy(reader.identifier(), reader.identifier())
    elif reader.take(r"alloc\s"):
        action = Alloc(reader.identifier())
    elif reader.take(r"free\s"):
        action = Free(reader.identifier())
    elif reader.looking_at(r"verbatim\("):
        whole = ExprReader(reader.file, reader.line, reader.text, names=Names())
        found = whole.whole()
        if not isinstance(found, Verbatim):
            reader.fail("an effect is 'memcpy', 'alloc', 'free' or 'verbatim'")
        whole.end()
        return found
    else:
        reader.fail("an effect is 'memcpy', 'alloc', 'free' or 'verbatim'")
    reader.end()
    return action


def _scheduled(lines: _Lines, func: Func) -> Scheduled:
    head = lines.next("'scheduled'")
    head.need(r"scheduled\b", "'scheduled'")
    reassoc = bool(head.take(r"reassoc\b"))
    head.end()
    nests: list[Nest] = []
    statements = {*(c.name for c in func.comps), *(e.name for e in func.effects)}
    while lines.indented():
        reader = lines.next("'nest'")
        reader.need(r"nest\s", "'nest'")
        name = reader.identifier()
        if name not in statements:
            reader.fail(f"there is no statement '{name}'", code="DG221")
        loops = tuple(part.strip() for part in reader.bracketed().split(",") if part.strip())
        reader.end()
        relation = lines.next("'relation'")
        relation.need(r"relation\s", "'relation'")
        nests.append(_marks(lines, Nest(name, loops, relation.isl_map())))
    return Scheduled(func, tuple(nests), reassoc)


def _marks(lines: _Lines, nest: Nest) -> Nest:
    tags: list[tuple[str, Tag]] = []
    options: list[tuple[str, AstOption]] = []
    while lines.indented() and lines.peek().split()[0] in ("tag", "option"):
        reader = lines.next("a mark")
        kind = (reader.take(r"(tag|option)\s") or "").strip()
        loop, mark = reader.identifier(), reader.identifier()
        if loop not in nest.loops:
            reader.fail(f"{nest.name} has no loop '{loop}'", code="DG221")
        known = get_args(Tag if kind == "tag" else AstOption)
        if mark not in known:
            reader.fail(f"there is no {kind} '{mark}'", f"one of: {', '.join(known)}")
        reader.end()
        if kind == "tag":
            tags.append((loop, cast(Tag, mark)))
        else:
            options.append((loop, cast(AstOption, mark)))
    return replace(nest, tags=tuple(tags), options=tuple(options))
