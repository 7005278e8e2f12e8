"""Directives of the assembly text: what they put into data memory."""

from __future__ import annotations

import ast
import re
import struct
from dataclasses import dataclass, field

from dspgen.errors import Problem
from dspgen.sim.ir.program import DataItem
from dspgen.sim.text.statements import Line, number_of
from plant_core.support.location import Loc

_SIZES = {
    ".byte": 1,
    ".2byte": 2,
    ".short": 2,
    ".half": 2,
    ".hword": 2,
    ".4byte": 4,
    ".long": 4,
    ".int": 4,
    ".word": 4,
    ".8byte": 8,
    ".llong": 8,
    ".quad": 8,
    ".dword": 8,
}
_FLOATS = {".float": "f", ".single": "f", ".double": "d"}
_SPACE = {".zero", ".space", ".skip"}
_STRINGS = {".string", ".asciz", ".ascii"}
_COMMON = {".common", ".comm", ".lcomm"}
_SILENT = re.compile(
    r"\.(size|type|text|data|bss|rodata|section|file|loc|cfi_\w+|ident|weak|extern|local|hidden|previous|set|equ|u?leb128|sleb128|"
    r"p2align|attribute|end|even|title|ref|def|endfunc|func|version|line|stab\w*|global|globl)$"
)
_EXPRESSION = re.compile(r"([A-Za-z_.$][\w.$]*)\s*(?:([+-])\s*(\w+))?$")
DEBUG_SECTIONS = (".debug", ".eh_frame", ".gcc_except_table", ".note", ".comment")


@dataclass(slots=True)
class DataReader:
    """Collects data items; labels seen before a data directive name its place."""

    items: list[DataItem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _bytes: bytearray = field(default_factory=bytearray)
    _symbols: list[tuple[str, int]] = field(default_factory=list)
    _fixups: list[tuple[int, int, str, int]] = field(default_factory=list)
    _align: int = 8
    _pending_align: int = 1
    _debug: bool = False

    def directive(self, line: Line, labels: list[str]) -> bool:
        """Takes a directive; True where it consumed `labels` as names of data."""
        word, rest = line.word.lower(), line.rest
        if word == ".section":
            self._debug = rest.lstrip('"').startswith(DEBUG_SECTIONS)
        elif word in (".text", ".data", ".bss"):
            self._debug = False
        elif word in (".align", ".balign", ".p2align"):
            self._set_align(word, rest)
        elif word in _COMMON:
            self._common(rest, line.loc)
        elif word in _SIZES or word in _FLOATS or word in _SPACE or word in _STRINGS:
            if self._debug:
                return False
            self._place(labels)
            self._emit(word, rest, line.loc)
            return True
        elif not _SILENT.match(word):
            self.warnings.append(f"{line.loc}: directive {line.word} is not known; it is ignored")
        return False

    def close(self) -> None:
        """Ends the run of data that is open, as code follows."""
        if self._bytes or self._symbols:
            self.items.append(DataItem(bytes(self._bytes), self._align, tuple(self._symbols), tuple(self._fixups)))
        self._bytes, self._symbols, self._fixups, self._align = bytearray(), [], [], 8
        self._pending_align = 1

    def _set_align(self, word: str, rest: str) -> None:
        first = rest.split(",")[0].strip()
        if first.isdigit():
            amount = 1 << int(first) if word == ".p2align" and int(first) < 12 else int(first)
            if 0 < amount <= 4096 and amount & (amount - 1) == 0:
                self._pending_align = amount

    def _place(self, labels: list[str]) -> None:
        if self._pending_align > 1:
            self._bytes += bytes(-len(self._bytes) % self._pending_align)
            self._align = max(self._align, self._pending_align)
            self._pending_align = 1
        self._symbols += [(name, len(self._bytes)) for name in labels]

    def _common(self, rest: str, loc: Loc) -> None:
        parts = [p.strip() for p in rest.split(",")]
        if len(parts) < 2 or not re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", parts[1]):
            self.problems.append(Problem("DG410", f"common data needs a name and a size: '{rest}'", loc))
            return
        align = int(parts[2]) if len(parts) > 2 and parts[2].isdigit() and int(parts[2]) else 8
        self.items.append(DataItem(bytes(number_of(parts[1])), align, ((parts[0], 0),)))

    def _emit(self, word: str, rest: str, loc: Loc) -> None:
        if word in _STRINGS:
            self._string(word, rest, loc)
            return
        values = [v.strip() for v in rest.split(",")] if rest else []
        if word in _SPACE:
            count = number_of(values[0]) if values and re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", values[0]) else -1
            if count < 0:
                self.problems.append(Problem("DG410", f"{word} needs a number of bytes, not '{rest}'", loc))
                return
            self._bytes += bytes(count)
            return
        for value in values:
            self._value(word, value, loc)

    def _value(self, word: str, text: str, loc: Loc) -> None:
        if word in _FLOATS:
            try:
                self._bytes += struct.pack("<" + _FLOATS[word], float(text))
            except (ValueError, OverflowError):
                self.problems.append(Problem("DG410", f"'{text}' is no floating-point number", loc))
            return
        size = _SIZES[word]
        if re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]+|\d+)", text):
            self._bytes += (number_of(text) & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
            return
        found = _EXPRESSION.match(text)
        if found is None or (found.group(3) and not re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", found.group(3))):
            self.problems.append(Problem("DG410", f"'{text}' is neither a number nor a symbol", loc))
            return
        addend = number_of((found.group(2) or "+") + (found.group(3) or "0"))
        self._fixups.append((len(self._bytes), size, found.group(1), addend))
        self._bytes += bytes(size)

    def _string(self, word: str, rest: str, loc: Loc) -> None:
        end = b"" if word == ".ascii" else b"\0"
        plain = "".join(c if c.isascii() else "".join(f"\\{b:03o}" for b in c.encode()) for c in rest)
        if re.fullmatch(r'"(?:[^"\\]|\\.)*"(?:\s*,\s*"(?:[^"\\]|\\.)*")*', plain):
            try:
                for text in re.findall(r'"(?:[^"\\]|\\.)*"', plain):
                    self._bytes += ast.literal_eval("b" + text) + end
                return
            except (SyntaxError, ValueError):
                pass
        self.problems.append(Problem("DG410", f"{word} needs a quoted string", loc))
