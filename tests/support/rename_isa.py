"""A machine that nobody has seen: an ISA file with every name changed, and other latencies."""

from __future__ import annotations

import random
import re
import string
import tomllib
from collections.abc import Iterator
from typing import Any

_PROSE = re.compile(r"\s*(#|source\b|description\b|why\b|label = \"(published|mined|derived|assumed))")


def rename(text: str, seed: int) -> str:
    """The ISA file `text` with each mnemonic, unit, register, register class and memory under a new, random name."""
    draw = random.Random(seed)
    table: dict[str, str] = {}
    for word in sorted(_names(tomllib.loads(text))):
        table[word] = _fresh(draw, set(table.values()) | set(table))
    return "".join(line if _PROSE.match(line) else _renamed(line, table) for line in text.splitlines(keepends=True))


def redraw_latencies(text: str, seed: int) -> str:
    """Every latency of an instruction drawn anew, from 1 to 10; the branch's delay too, and the interval it allows."""
    draw = random.Random(seed)
    text = re.sub(r"\blatency = \d+", lambda _: f"latency = {draw.randint(1, 10)}", text)
    if 'nop = ""' in text:
        return text  # nothing could stand in the slots of a branch's delay
    delay = draw.randint(2, 8)
    text = re.sub(r"\bbranch_delay = \d+", f"branch_delay = {delay}", text)
    return re.sub(r"\bminimum_ii = \d+", f"minimum_ii = {delay + 1}", text)


def _names(raw: dict[str, Any]) -> set[str]:
    """The words of a machine: a register's is what stands before its number."""
    words = {*raw["registers"], *raw["units"], *raw["instructions"], *raw["memories"], *raw.get("groups", {})}
    words |= {row["mnemonic"] for row in raw["instructions"].values() if "mnemonic" in row}
    words |= set(re.findall(r"\w+", raw["text"]["nop"]))
    for cls in raw["registers"].values():
        names = cls.get("names", "")
        words |= {_stem(name) for name in (names if isinstance(names, list) else [names]) if name}
    return words


def _stem(name: str) -> str:
    return re.split(r"[{\d]", name)[0]


def _renamed(line: str, table: dict[str, str]) -> str:
    """Whole words are looked up first, then a word without its number: a register."""

    def new(match: re.Match[str]) -> str:
        whole, stem = match.group(), match.group().rstrip(string.digits)
        if whole in table:
            return table[whole]
        return table[stem] + whole[len(stem) :] if stem in table else whole

    return re.sub(r"[A-Za-z_][A-Za-z0-9_]*", new, line)


def _fresh(draw: random.Random, taken: set[str]) -> str:
    return next(word for word in _words(draw) if word not in taken)


def _words(draw: random.Random) -> Iterator[str]:
    while True:
        yield "".join(draw.choices(string.ascii_uppercase, k=5))
