"""A new ISA file, started from another one: the same machine under a name of its own, with what the keys mean."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from typing import Any, get_args, get_origin, get_type_hints

from dspgen.target.reference import comments
from dspgen.target.schema import tables as schema
from dspgen.target.schema.kinds import Sourced
from dspgen.target.schema.toml_positions import Path, locate, string_end

_HEAD = """\
# {name}: started from {base}, whose figures these still are, so each is marked as assumed.
# Change them table by table, and label each by how you know it. What keys mean stands before each kind of table, and in
# docs/isa.md; `dspgen isa check` tells what is wrong.

"""
_UNUSED = "# What else there may be:\n\n"


def started(name: str, text: str, base: str) -> str:
    """The text of an ISA file `text`, known to be sound, for a machine `name` that is as `base` so far."""
    keys = [entry.name for entry in dataclasses.fields(schema.Isa)]
    text += "\n"
    for block in (_UNUSED, *filter(None, map(_block, ("", *keys)))):
        text = text.replace(block, "")
    text = _renamed(name, text, base)
    raw = tomllib.loads(text)
    positions = locate(text)
    lines = text.splitlines()
    tables = sorted((positions.key((key,))[0] - 1, key) for key in keys if isinstance(raw.get(key), dict))
    for at, key in reversed(tables):
        at = _above(lines, at)
        lines[at:at] = _block(key).splitlines()
    first = next(k for k, line in enumerate(lines) if line and not line.startswith("#"))
    body = "\n".join(lines[first:]).rstrip("\n")
    unused = [key for key in keys if key not in raw and (_class_of(key)[0] is not None or key in ("groups", "cost"))]
    tail = [f"\n{_UNUSED}", *(_block(key) for key in unused)] if unused else []
    return _HEAD.format(name=name, base=base) + _block("") + f"{body}\n{''.join(tail)}".rstrip("\n") + "\n"


def _block(key: str) -> str:
    """The comments of a table, and an empty line; nothing for what is no table."""
    lines = comments(key)
    return "".join(f"{line}\n" for line in [*lines, ""]) if lines else ""


def _above(lines: list[str], at: int) -> int:
    """Where the comments before line `at` begin."""
    while at and (not lines[at - 1] or lines[at - 1].startswith("#")):
        at -= 1
    while not lines[at]:
        at += 1
    return at


def _renamed(name: str, text: str, base: str) -> str:
    """The text under the new name; all that tells where figures come from tells that they are the base's."""
    raw = tomllib.loads(text)
    new: dict[Path, str] = {("name",): name}
    if "description" in raw:
        new["description",] = f"{name}, so far as {base}"
    for key, table in raw.items():
        cls, named = _class_of(key)
        if cls is None or not isinstance(table, dict):
            continue
        sourced = issubclass(cls, Sourced)
        rows: list[tuple[Path, dict[str, Any]]] = [((key, n), r) for n, r in table.items()]
        for path, row in rows if named else [((key,), table)]:
            new |= {(*path, "source"): f"as {base}"} if isinstance(row.get("source"), str) else {}
            new |= {(*path, "label"): "assumed"} if sourced and isinstance(row.get("label"), str) else {}
    positions = locate(text)
    starts = [0]
    for part in text.split("\n"):
        starts.append(starts[-1] + len(part) + 1)
    places = []
    for path, value in new.items():
        line, column = positions.value(path)
        places.append((starts[line - 1] + column - 1, value))
    for start, value in sorted(places, reverse=True):
        text = text[:start] + json.dumps(value) + text[string_end(text, start) :]
    return text


def _class_of(key: str) -> tuple[type | None, bool]:
    """The class of the tables that a key of the file has, and whether these have names."""
    hint: Any = get_type_hints(schema.Isa).get(key)
    found = [a for a in (hint, *get_args(hint)) if isinstance(a, type) and dataclasses.is_dataclass(a)]
    return (found[0] if found else None), get_origin(hint) is dict
