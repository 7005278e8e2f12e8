"""Splits assembly text into statements: labels, bar, predicate, mnemonic, suffix, operands, directives.

line      ::= label* [bar] [predicate] MNEMONIC[.SUFFIX] [operand ("," operand)*] | label* directive
operand   ::= register | number | memory | symbol[(+|-)number]
memory    ::= "*" ["+"|"-"|"++"|"--"] register ["++"|"--"] ["[" (number | register) "]"]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from dspgen.errors import Problem
from dspgen.sched.ir.packets import Address
from dspgen.target.isa.model import Target
from plant_core.support.location import Loc

_WORD = re.compile(r"[A-Za-z_.$][\w.$]*")
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|\d+)$")
_SYMBOL = re.compile(r"([A-Za-z_.$][\w.$]*)\s*(?:([+-])\s*(0[xX][0-9a-fA-F]+|\d+))?$")
_MEMORY = re.compile(r"\*\s*(\+\+|--|\+|-)?\s*([\w.$]+(?:\s*:\s*[\w.$]+)?)\s*(\+\+|--)?\s*(?:\[\s*([^\]]*?)\s*\])?$")
_SOLID = re.compile(r"\S+")
_DIRECTIVE = re.compile(r"\.\w+")
_LINE_END = re.compile(r"\r\n|\n|\r")  # not str.splitlines, which also breaks at characters that comments may hold


@dataclass(frozen=True, slots=True)
class Token:
    """An operand's text, as read: `value` for an int, `address` for memory."""

    kind: Literal["int", "name", "memory", "bad"]
    text: str
    loc: Loc
    value: int = 0
    hexadecimal: bool = False
    address: Address | None = None
    addend: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """One statement of the text. `kind` "label" has its name in `word`; "directive" its arguments in `rest`, and an
    instruction that no template fits all of it."""

    kind: Literal["label", "instruction", "directive"]
    loc: Loc
    word: str
    joined: bool = False
    predicate: str | None = None
    negated: bool = False
    suffix: str = ""
    operands: tuple[Token, ...] = ()
    rest: str = ""


class Templates(Protocol):
    """Instructions that are written by templates: see `dspgen.sim.text.grammar`."""

    ends: tuple[str, ...]  # what may stand after a packet

    def is_register(self, text: str) -> bool: ...

    def line(self, text: str, loc: Loc, *, joined: bool) -> Line: ...


@dataclass(slots=True)
class Reader:
    """Reads the lines of one file; what can't be read goes to `problems`. Without `templates`, instructions are their
    mnemonics and operands."""

    target: Target
    file: str
    mnemonics: frozenset[str]
    templates: Templates | None = None
    problems: list[Problem] = field(default_factory=list)
    _inside: bool = False  # within a bracketed packet, of which `_members` have been read
    _members: int = 0
    _opened: Loc | None = None  # where it began
    _closed: bool = False  # a packet has ended, and nothing else has begun
    _label: re.Pattern[str] = field(init=False)
    _predicates: list[tuple[re.Pattern[str], bool]] = field(init=False)
    _mark: re.Pattern[str] = field(init=False)  # what begins a comment

    def __post_init__(self) -> None:
        tail = self.target.text.label.partition("{name}")[2].strip() or ":"
        self._label = re.compile(r"\s*([A-Za-z_.$][\w.$]*)\s*" + re.escape(tail))
        marks = [re.escape(m) for m in (self.target.text.comment, *self.target.text.comment_alternatives) if m]
        self._mark = re.compile("|".join(marks) if marks else "(?!)")
        p = self.target.predicates
        self._predicates = [(_template(p.negated), True), (_template(p.text), False)]

    def lines(self, text: str) -> Iterator[Line]:
        for number, raw in enumerate(_LINE_END.split(text.removeprefix("\ufeff").rstrip("\x1a")), 1):
            yield from self.statements(self._uncomment(raw), number)
        if self._inside and self._opened is not None:
            self.problems.append(Problem("DG400", "a packet that is not closed", self._opened))

    def _uncomment(self, raw: str) -> str:
        if not self._mark.search(raw):
            return raw
        quoted = False
        for i, ch in enumerate(raw):
            if ch == '"' and (i == 0 or raw[i - 1] != "\\"):
                quoted = not quoted
            elif not quoted and self._mark.match(raw, i):
                return raw[:i]
        return raw

    def statements(self, text: str, number: int) -> Iterator[Line]:
        """What stands in one line without its comment."""
        at = 0
        while (found := self._label.match(text, at)) is not None:
            if self.templates is not None and self.templates.is_register(found.group(1)):
                break
            yield Line("label", Loc(self.file, number, found.start(1) + 1), found.group(1))
            at = found.end()
        at = _skip(text, at)
        if at >= len(text):
            return
        loc = Loc(self.file, number, at + 1)
        if _DIRECTIVE.match(text, at) and self._mnemonic(text, at) is None:
            word = _DIRECTIVE.match(text, at)
            name = word.group() if word else ""
            yield Line("directive", loc, name, rest=text[at + len(name) :].strip())
            return
        if self.templates is not None:
            yield from self._members_of(self.templates, text, at, number)
            return
        line = self._instruction(text, at, number)
        if line is not None:
            yield line

    def _members_of(self, templates: Templates, text: str, at: int, number: int) -> Iterator[Line]:
        """Members of packets, between brackets where packets have them."""
        syntax = self.target.text
        marks = [re.escape(m) for m in (syntax.packet_open, syntax.packet_close, syntax.separator) if m]
        for piece in re.split(f"({'|'.join(marks)})", text[at:]) if marks else [text[at:]]:
            start, at = _skip(text, at), at + len(piece)
            loc = Loc(self.file, number, start + 1)
            if not piece.strip():
                continue
            if not self._inside and self._closed:
                while (end := next((e for e in templates.ends if piece.strip().startswith(e)), None)) is not None:
                    yield templates.line(end, loc, joined=self._members > 0)
                    self._members, piece = self._members + 1, piece.strip().removeprefix(end)
                if not piece.strip():
                    continue
            if piece in (syntax.packet_open, syntax.packet_close):
                if self._inside is (piece == syntax.packet_open):
                    why = (
                        f": the packet of line {self._opened.line} is not closed"
                        if self._inside and self._opened
                        else ""
                    )
                    self.problems.append(Problem("DG400", f"`{piece}` is out of place{why}", loc))
                self._opened = loc
                self._inside, self._closed = piece == syntax.packet_open, piece == syntax.packet_close
                self._members = 0 if self._inside else self._members
            elif piece.strip() in templates.ends:
                self.problems.append(Problem("DG400", f"`{piece.strip()}` is out of place", loc))
            elif piece != syntax.separator:
                yield templates.line(piece.strip(), loc, joined=self._inside and self._members > 0)
                self._members, self._closed = self._members + 1, False

    def _mnemonic(self, text: str, at: int) -> str | None:
        found = _SOLID.match(text, at)
        word = self.fold(found.group()) if found else ""
        return word if word in self.mnemonics else None

    def fold(self, word: str) -> str:
        return word if self.target.text.case_sensitive else word.upper()

    def _instruction(self, text: str, at: int, number: int) -> Line | None:
        bar = self.target.text.parallel
        joined = False
        predicate, negated = None, False
        for _ in range(3):
            if bar and text.startswith(bar, at):
                joined, at = True, _skip(text, at + len(bar))
                continue
            for pattern, is_negated in self._predicates:
                if predicate is None and (found := pattern.match(text, at)) is not None:
                    predicate, negated = found.group(1).strip(), is_negated
                    at = _skip(text, found.end())
                    break
        loc = Loc(self.file, number, at + 1)
        word = _WORD.match(text, at)
        if word is None and joined and predicate is None and at >= len(text):
            return None  # a member whose instruction is commented out behind its bar
        if word is None:
            self.problems.append(Problem("DG400", f"no instruction can be read from '{text.strip()}'", loc))
            return None
        mnemonic, suffix = self._split_suffix(word.group())
        operands = self._operands(text, word.end(), number)
        return Line("instruction", loc, mnemonic, joined, predicate, negated, suffix, operands)

    def _split_suffix(self, word: str) -> tuple[str, str]:
        folded = self.fold(word)
        if folded in self.mnemonics:
            return folded, ""
        parts = folded.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            head = ".".join(parts[:cut])
            if head in self.mnemonics:
                return head, ".".join(parts[cut:])
        return parts[0] or folded, ".".join(parts[1:])

    def _operands(self, text: str, at: int, number: int) -> tuple[Token, ...]:
        tokens: list[Token] = []
        if not text[at:].strip():
            return ()
        start, depth = at, 0
        for i in range(at, len(text) + 1):
            ch = text[i] if i < len(text) else ","
            depth += (ch in "[(") - (ch in "])")
            if ch == "," and (depth <= 0 or i == len(text)):
                column = _skip(text, start)
                tokens.append(self._token(text[start:i].strip(), Loc(self.file, number, min(column, i) + 1)))
                start = i + 1
        return tuple(tokens)

    def _token(self, text: str, loc: Loc) -> Token:
        if _NUMBER.match(text):
            return Token("int", text, loc, number_of(text), "x" in text.lower())
        if text.startswith("*"):
            address = self._address(text)
            return Token("memory" if address else "bad", text, loc, address=address)
        body = re.sub(r"\s*:\s*", ":", text)
        if ":" in body and re.fullmatch(r"[\w.$]+(?::[\w.$]+)+", body):
            return Token("name", self.fold(body), loc)
        found = _SYMBOL.match(text)
        if found:
            sign = -1 if found.group(2) == "-" else 1
            return Token("name", found.group(1), loc, addend=sign * number_of(found.group(3) or "0"))
        return Token("bad", text, loc)

    def _address(self, text: str) -> Address | None:
        found = _MEMORY.match(text)
        if found is None or (found.group(1) in ("++", "--") and found.group(3)):
            return None
        before, base, after, inside = found.groups()
        if before in ("+", "-") and after:
            return None
        base = self.fold(re.sub(r"\s*:\s*", ":", base))
        step = before in ("++", "--") or after is not None
        offset: int | str = 1 if step else 0
        if inside is not None and inside != "":
            offset = number_of(inside) if _NUMBER.match(inside) else self.fold(inside)
        match before, after:
            case "+", None:
                mode = "plus"
            case "-", None:
                mode = "minus"
            case "++", None:
                mode = "pre_inc"
            case "--", None:
                mode = "pre_dec"
            case None, "++":
                mode = "post_inc"
            case None, "--":
                mode = "post_dec"
            case _:
                mode = "plus" if inside is not None else "none"
        if mode == "minus" and inside is None:
            mode = "none"
        if mode == "plus" and inside is None:
            mode = "none"
        return Address(base, mode, offset)  # type: ignore[arg-type]


def number_of(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    body = text.lstrip("+-")
    return sign * (int(body, 16) if body[:2].lower() == "0x" else int(body))


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _template(template: str) -> re.Pattern[str]:
    """A pattern for text like `[{r}]`, blanks allowed at every place."""
    head, _, tail = template.partition("{r}")
    spaced = r"\s*".join(re.escape(c) for c in head if not c.isspace())
    ending = r"\s*".join(re.escape(c) for c in tail if not c.isspace())
    return re.compile(spaced + r"\s*([\w.$]+)\s*" + ending)


def decode(raw: bytes) -> str:
    """UTF-8, else GB18030 for text from older Chinese tools, else Latin-1: a comment must not stop a program."""
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return raw.decode("latin-1")
