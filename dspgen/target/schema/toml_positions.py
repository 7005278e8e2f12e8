"""Where each key and value of a TOML text stands, since `tomllib` does not tell.

The text is known to be valid TOML: this scanner only follows its structure.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field

Path = tuple[str | int, ...]
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_LONG_STRING = r'"""(?:\\.|[^\\])*?"{3,5}|' + r"'''.*?'{3,5}"
_STRING = re.compile(_LONG_STRING + r'|"(?:\\.|[^"\\\n])*"|' + r"'[^'\n]*'", re.DOTALL)
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SCALAR = re.compile(r"[^,\]\}#\n]+")


@dataclass(slots=True)
class Positions:
    """Line and column, from 1, of keys and of values, by path."""

    keys: dict[Path, tuple[int, int]] = field(default_factory=dict)
    values: dict[Path, tuple[int, int]] = field(default_factory=dict)

    def key(self, path: Path) -> tuple[int, int]:
        """Of the key, else of its nearest enclosing one that the text has."""
        while path:
            if path in self.keys:
                return self.keys[path]
            if path in self.values:
                return self.values[path]
            path = path[:-1]
        return (1, 1)

    def value(self, path: Path) -> tuple[int, int]:
        return self.values.get(path) or self.key(path)


def locate(text: str) -> Positions:
    """The places of all keys and values of a valid TOML text."""
    return _Scanner(text).document()


def string_end(text: str, offset: int) -> int:
    """Where the string that begins at `offset` ends; `offset` itself where none begins."""
    found = _STRING.match(text, offset)
    return found.end() if found else offset


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.positions = Positions()
        self.table: Path = ()
        self.counts: dict[Path, int] = {}
        self.lines = [0] + [m.end() for m in re.finditer("\n", text)]

    def document(self) -> Positions:
        while True:
            self.skip()
            if self.at >= len(self.text):
                return self.positions
            if self.text.startswith("[", self.at):
                self.header()
            else:
                self.pair(self.table)

    def place(self, offset: int) -> tuple[int, int]:
        low, high = 0, len(self.lines)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.lines[middle] <= offset else (low, middle)
        return (low + 1, offset - self.lines[low] + 1)

    def skip(self) -> None:
        found = _BLANK.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def header(self) -> None:
        many = self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        start, keys = self.dotted()
        self.at = self.text.index("]", self.at) + (2 if many else 1)
        path = self.resolve(keys[:-1]) + keys[-1:]
        for n in range(1, len(path)):
            self.positions.keys.setdefault(path[:n], self.place(start))
        if many:
            index = self.counts.get(path, 0)
            self.counts[path] = index + 1
            self.positions.keys.setdefault(path, self.place(start))
            path = (*path, index)
        self.positions.keys.setdefault(path, self.place(start))
        self.table = path

    def resolve(self, keys: Path) -> Path:
        """A header below an array of tables means the array's last element."""
        path: Path = ()
        for key in keys:
            path = (*path, key)
            if path in self.counts:
                path = (*path, self.counts[path] - 1)
        return path

    def dotted(self) -> tuple[int, Path]:
        self.skip()
        start = self.at
        keys: list[str] = []
        while True:
            self.skip()
            keys.append(self.key())
            self.skip()
            if not self.text.startswith(".", self.at):
                return start, tuple(keys)
            self.at += 1

    def key(self) -> str:
        if found := _STRING.match(self.text, self.at):
            self.at = found.end()
            return str(tomllib.loads(f"x = {found.group()}")["x"])
        found = _BARE_KEY.match(self.text, self.at)
        if found is None:
            raise ValueError(f"no key at {self.place(self.at)}")
        self.at = found.end()
        return found.group()

    def pair(self, table: Path) -> None:
        start, keys = self.dotted()
        self.at = self.text.index("=", self.at) + 1
        for n in range(1, len(keys)):
            self.positions.keys.setdefault(table + keys[:n], self.place(start))
        self.positions.keys[table + keys] = self.place(start)
        self.value(table + keys)

    def value(self, path: Path) -> None:
        self.skip()
        self.positions.values[path] = self.place(self.at)
        if self.text.startswith("[", self.at):
            self.at += 1
            index = 0
            while not self.ends("]"):
                self.value((*path, index))
                index += 1
                self.comma()
        elif self.text.startswith("{", self.at):
            self.at += 1
            while not self.ends("}"):
                self.pair(path)
                self.comma()
        elif found := _STRING.match(self.text, self.at) or _SCALAR.match(self.text, self.at):
            self.at = found.end()

    def ends(self, bracket: str) -> bool:
        self.skip()
        if self.text.startswith(bracket, self.at) or self.at >= len(self.text):
            self.at += 1
            return True
        return False

    def comma(self) -> None:
        self.skip()
        if self.text.startswith(",", self.at):
            self.at += 1
