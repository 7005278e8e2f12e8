"""Reads instructions whose rows say how they are written (`text`): registers, numbers and labels are cut out of a
statement, and what is left says which rows it may be.

Before: `g2 = word(a1+#8)`. After: the shape `_=word(_+#_)`, of rows with `text = "{d} = word({m})"` where places in
memory are `{base}+#{offset}`; and the operands g2 and the place 8 after a1.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from dspgen.sched.ir.packets import Address
from dspgen.sim.text.statements import Line, Token, number_of
from dspgen.target.isa.model import Instruction, Target
from plant_core.support.location import Loc

_WORD = re.compile(r"[.$]?[A-Za-z_][\w.$]*")
_FIELD = re.compile(r"\{(\w+)\}")
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_HOLE = "_"
_Kind = Literal["operand", "predicate", "base", "offset", "fixed"]


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to write some rows: what each piece that is cut out of the text is, in order. `word` is what all ways to
    write the rows have in common."""

    word: str
    pieces: tuple[_Kind, ...]
    negated: bool = False
    update: bool = False


class Grammar:
    """The templates of a target's rows."""

    def __init__(self, target: Target) -> None:
        self.target = target
        rows = [row for row in target.instructions if row.text]
        texts = [t for row in rows for t in (row.text, row.text_if, row.text_unless, *row.accepts)]
        texts += [target.text.address, target.text.address_update]
        known = target.predicates
        self._heads = tuple(f"{t.replace('{r}', '{predicate}')} " for t in (known.text, known.negated))
        if any(_headed(row) for row in rows):
            texts += self._heads
        # Of `.` and `$`, those that stand before operands begin no name.
        self._marks = frozenset(mark for t in texts for mark in re.findall(r"([.$])\s*\{", t))
        nop = target.text.nop.split()[:1]
        self.words = frozenset(w for text in (*texts, *nop) for w in _PLAIN.findall(_FIELD.sub(" ", text)))
        names = sorted((n for c in target.registers for n in c.names), key=lambda n: (-len(n), n))
        self._register = re.compile("(?:" + "|".join(re.escape(n) for n in names) + r")(?![\w:])")
        self.ends = tuple(row.text for row in rows if row.packet_end)
        self.shapes: dict[str, Shape] = {}
        self.word_of: dict[str, str] = {}
        for row in rows:
            self._learn(row)
        for word in nop:
            self.shapes |= {word: Shape(word, ()), word + _HOLE: Shape(word, ("operand",))}

    def _learn(self, row: Instruction) -> None:
        self.word_of[row.id] = re.sub(r"\s+", "", _FIELD.sub(_HOLE, row.text))
        memory = any(o.kind == "memory" for o in row.operands)
        plain = [(text, False) for text in (row.text, *row.accepts)]
        under = [(row.text_if, False), (row.text_unless, True)]
        if _headed(row):
            under = [(own or head + row.text, no) for (own, no), head in zip(under, self._heads, strict=True)]
        for template, negated in (*plain, *under):
            for update in (False, True) if memory and template else (False,):
                if template:
                    shape, pieces = self._template(row, template, update)
                    self.shapes.setdefault(shape, Shape(self.word_of[row.id], pieces, negated, update))

    def _template(self, row: Instruction, template: str, update: bool) -> tuple[str, tuple[_Kind, ...]]:
        """The shape of what is written so, and what its pieces are."""
        place = self.target.text.address_update if update else self.target.text.address
        kinds: dict[str, _Kind] = {o.name: "operand" for o in row.operands if o.kind != "memory"}
        for operand in row.operands:
            if operand.kind == "memory":
                template = template.replace("{" + operand.name + "}", place)
        shape = ""
        pieces: list[_Kind] = []
        for k, part in enumerate(_FIELD.split(template)):
            if k % 2:
                places: dict[str, _Kind] = {"base": "base", "offset": "offset"}
                pieces.append(kinds.get(part) or places.get(part, "predicate"))
                shape += _HOLE
                continue
            for kind, word, _ in self._parts(part):
                if kind == "int":
                    pieces.append("fixed")
                shape += _HOLE if kind == "int" else word
        return shape, tuple(pieces)

    def is_register(self, text: str) -> bool:
        """Whether it is a register, so that it can't be a label."""
        return self._register.fullmatch(text) is not None

    def is_plain(self, text: str) -> bool:
        """Whether it is a name wherever it stands, and neither a register nor a word of some instruction."""
        return list(self._parts(text)) == [("name", text, 0)] and not self.is_register(text)

    def line(self, text: str, loc: Loc, *, joined: bool) -> Line:
        """The statement; where no row is written so, its word is the shape that none has."""
        shape, pieces = self._cut(text, loc)
        found = self.shapes.get(shape)
        unknown = Line("instruction", loc, shape, joined, rest=text)
        if found is None or len(found.pieces) != len(pieces):
            return unknown
        operands: list[Token] = []
        predicate = None
        base: Token | None = None
        for kind, piece in zip(found.pieces, pieces, strict=True):
            match kind:
                case "operand":
                    operands.append(piece)
                case "predicate":
                    predicate = piece.text
                case "base":
                    base = piece
                case "fixed":
                    pass
                case _:
                    if base is None or piece.kind != "int":
                        return unknown
                    operands.append(_place(base, piece, found.update))
        return Line("instruction", loc, found.word, joined, predicate, found.negated, operands=tuple(operands))

    def strange_word(self, text: str) -> tuple[str, list[str]] | None:
        """The word for which no row is written like the statement, with what makes it a row's."""
        names = [word for kind, word, _ in self._parts(text) if kind == "name" and not self.is_register(word)]
        for name in names:
            for close in (name.lower(), *difflib.get_close_matches(name, sorted(self.words), 3)):
                meant = re.sub(rf"(?<![\w.$]){re.escape(name)}(?![\w.$])", close, text)
                if self._cut(meant, Loc("", 1))[0] in self.shapes:
                    return name, [close]
        called = (name for name in names if re.search(rf"(?<![\w.$]){re.escape(name)}\s*\(", text))
        return next(((name, []) for name in called), None)

    def _cut(self, text: str, start: Loc) -> tuple[str, Sequence[Token]]:
        shape = ""
        pieces: list[Token] = []
        for kind, word, at in self._parts(text):
            loc = Loc(start.file, start.line, start.column + at)
            match kind:
                case "literal":
                    shape += word
                case "int":
                    pieces.append(Token("int", word, loc, number_of(word), "x" in word.lower()))
                case _:
                    pieces.append(Token("name", word, loc))
            shape += _HOLE if kind != "literal" else ""
        return shape, pieces

    def _name(self, text: str, at: int) -> re.Match[str] | None:
        found = _WORD.match(text, at) if text[at] not in self._marks else None
        return found if found is not None and found.group()[1:] not in self.words else None

    def _parts(self, text: str) -> Iterator[tuple[Literal["literal", "int", "name"], str, int]]:
        at = 0
        while at < len(text):
            if text[at].isspace():
                at += 1
            elif (found := self._register.match(text, at)) is not None:
                yield "name", found.group(), at
                at = found.end()
            elif (found := _PLAIN.match(text, at)) is not None and found.group() in self.words:
                yield "literal", found.group(), at
                at = found.end()
            elif (found := _NUMBER.match(text, at)) is not None:
                yield "int", found.group(), at
                at = found.end()
            elif (found := self._name(text, at)) is not None:
                yield "name", found.group(), at
                at = found.end()
            else:
                yield "literal", text[at], at
                at += 1


def _headed(row: Instruction) -> bool:
    """Whether its predicate stands before its text, as in rows without templates."""
    return row.predicable != "none" and not (row.text_if and row.text_unless)


_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)")


def _place(base: Token, offset: Token, update: bool) -> Token:
    """A place in memory; its offset is in the units of the text."""
    value = offset.value
    if update:
        address = Address(base.text, "post_inc" if value >= 0 else "post_dec", abs(value))
    elif value == 0:
        address = Address(base.text, "none")
    else:
        address = Address(base.text, "plus" if value > 0 else "minus", abs(value))
    return Token("memory", base.text, base.loc, address=address)
