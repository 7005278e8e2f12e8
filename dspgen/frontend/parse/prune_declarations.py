"""The file's declarations, found without parsing them, and the text with only those that the kernel reaches.

Preprocessed headers hold much that the parser can't read or that takes time. So the text is first cut into external
declarations by its brackets alone; a declaration stays if the kernel uses a name that it declares, directly or by way
of other declarations that stay. All else is blanked out, so that lines and columns remain as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"(?P<line>^[ \t]*\#[^\n]*)|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)|(?P<mark>[^\s\w])",
    re.MULTILINE,
)
_MARKER = re.compile(r'^[ \t]*#\s*(?:line\s+)?\d+\s+"((?:[^"\\]|\\.)*)"')
_SCOP = re.compile(r"^\s*#\s*pragma\s+scop\b")
_TAGS = ("struct", "union", "enum")
_OPENING, _CLOSING = "([{", ")]}"
_TYPE_WORDS = frozenset("void char short int long float double signed unsigned _Bool const volatile".split())


@dataclass(frozen=True, slots=True)
class External:
    """One declaration or function definition of the file.

    `function` is the name of a function that is defined here, `marked` whether it has a `#pragma scop`, `returns`
    whether it is nothing but a return statement, `void` whether it returns nothing.
    """

    start: int
    end: int
    file: str
    declares: frozenset[str]
    uses: frozenset[str]
    function: str | None = None
    marked: bool = False
    returns: bool = False
    void: bool = False


@dataclass(slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def outline(text: str) -> tuple[External, ...]:
    """The external declarations in text order."""
    found: list[External] = []
    current = _Piece()
    for match in _TOKEN.finditer(text):
        token = _Token(match.lastgroup or "", match.group(), match.start(), match.end())
        if token.kind == "line":
            if marker := _MARKER.match(token.text):
                current.line(marker.group(1))
            elif _SCOP.match(token.text):
                current.marked = True
            continue
        current.add(token)
        if current.ended:
            found.append(current.external())
            current = _Piece(file=current.file)
    if current.tokens:
        found.append(current.external())
    return tuple(found)


def pruned(text: str, externals: Sequence[External], kernel: External) -> str:
    """The text with only the kernel and what it reaches."""
    declaring: dict[str, list[External]] = {}
    for external in externals:
        for name in external.declares:
            declaring.setdefault(name, []).append(external)
    kept, pending = {kernel.start}, [kernel]
    while pending:
        for name in pending.pop().uses:
            for external in declaring.get(name, ()):
                if external.start not in kept:
                    kept.add(external.start)
                    pending.append(external)
    pieces, done = [], 0
    for external in externals:
        if external.start in kept:
            pieces += [_blank(text[done : external.start]), text[external.start : external.end]]
            done = external.end
    return "".join([*pieces, _blank(text[done:])])


def _blank(text: str) -> str:
    """Spaces in place of everything but the ends of lines and the marks that tell which file a line is from."""
    lines = text.split("\n")
    return "\n".join(line if _MARKER.match(line) else " " * len(line) for line in lines)


@dataclass(slots=True)
class _Piece:
    """The external declaration that is being read."""

    file: str = ""
    tokens: list[_Token] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    depth: int = 0
    body: int | None = None
    marked: bool = False
    ended: bool = False
    begun: str = ""

    def line(self, file: str) -> None:
        self.file = file
        if not self.tokens:
            self.begun = file

    def add(self, token: _Token) -> None:
        if not self.tokens:
            self.begun = self.file
        if token.text in _CLOSING and token.kind == "mark":
            self.depth -= 1
        if token.text == "{" and self.depth == 0 and self._starts_body():
            self.body = len(self.tokens)
        self.tokens.append(token)
        self.depths.append(self.depth)
        if token.text in _OPENING and token.kind == "mark":
            self.depth += 1
        self.ended = self.depth <= 0 and (token.text == ";" or (token.text == "}" and self.body is not None))

    def _starts_body(self) -> bool:
        assigned = any(t.text == "=" and d == 0 for t, d in zip(self.tokens, self.depths, strict=True))
        return bool(self.tokens) and self.tokens[-1].text == ")" and not assigned

    def external(self) -> External:
        head = self.tokens if self.body is None else self.tokens[: self.body]
        declares = _declared(head, self.depths[: len(head)])
        uses = frozenset(t.text for t in self.tokens if t.kind == "name")
        start, end = self.tokens[0].start, self.tokens[-1].end
        if self.body is None:
            return External(start, end, self.begun, frozenset(declares), uses)
        body = [t.text for t in self.tokens[self.body :]]
        return External(
            start,
            end,
            self.begun,
            frozenset(declares),
            uses,
            function=declares[0] if declares else None,
            marked=self.marked,
            returns=body[1:2] == ["return"] and body[-2:] == [";", "}"] and body.count(";") == 1,
            void=_is_void(head, declares),
        )


def _is_void(head: Sequence[_Token], declares: Sequence[str]) -> bool:
    texts = [t.text for t in head]
    before = texts[: texts.index(declares[0])] if declares else texts
    return "void" in before and "*" not in before


def _declared(head: Sequence[_Token], depths: Sequence[int]) -> list[str]:
    """The names that a declaration declares: its declarators, tags and enumerators."""
    found: list[str] = []
    enumerating: list[int] = []
    for index, token in enumerate(head):
        before = [t.text for t in head[max(index - 2, 0) : index]]
        after = head[index + 1].text if index + 1 < len(head) else ""
        if token.text == "{" and ("enum" in before):
            enumerating.append(depths[index] + 1)
        if token.kind != "name" or token.text in _TYPE_WORDS:
            continue
        tag = before[-1:] != [] and before[-1] in _TAGS
        listed = depths[index] in enumerating and before[-1:] in (["{"], [","])
        plain = depths[index] == 0 and not tag and after in ("", "(", "[", "=", ",", ";", ":")
        pointer = depths[index] == 1 and before[-1:] == ["*"] and _is_pointer(head, depths, index)
        if (tag and after == "{") or listed or plain or pointer:
            found.append(token.text)
    return found


def _is_pointer(head: Sequence[_Token], depths: Sequence[int], index: int) -> bool:
    """Whether the name stands as in `(*name)` at the declaration's outermost level."""
    while index > 0 and head[index - 1].text == "*":
        index -= 1
    return index > 0 and head[index - 1].text == "(" and depths[index - 1] == 0
