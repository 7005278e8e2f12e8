"""The keys of an ISA file as its classes tell them: the reference in docs/isa.md, and the comments of a new file.

`python -m dspgen.target.reference docs/isa.md` writes the reference anew, between its marks.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from dspgen.target.isa import model
from dspgen.target.isa.semantics import IMMEDIATES
from dspgen.target.schema import tables as schema
from dspgen.target.schema.kinds import Figure, Names, Range, Sourced, Words
from dspgen.vecdsl.ir.program import OPS

BEGIN = "<!-- begin: written by dspgen.target.reference -->"
END = "<!-- end -->"
_KEY = re.compile(r"(\w+)(?: \[([^\]]+)\])?: (.*)", re.S)
_KINDS = {
    Figure: "integer",
    Words: "text or texts",
    Names: "names",
    Range: "[low, high]",
    str: "text",
    bool: "true or false",
}
_WIDTH = 120
_INTRODUCTION = """\
An **integer** may be written as an expression, a text such as `"4*lanes"`: with `+ - * / // **`, parentheses, `lanes`,
`units.NAME.count` and `memories.NAME.bytes_per_cycle`. **Texts** are one text or a list of them; **names** too, and
`"X{0..63}"` stands for 64 of them. What has no default must be there."""


@dataclass(frozen=True, slots=True)
class Key:
    """`default` is "" where the key must be given."""

    name: str
    kind: str
    default: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """`paths` are the places where such a table may stand, as in `units.NAME`; "" is the file itself."""

    paths: tuple[str, ...]
    about: str
    keys: tuple[Key, ...]


def tables() -> tuple[Table, ...]:
    """All tables that a file may have, in the order of the file; inner ones after those that they stand in."""
    places: dict[type, list[str]] = {}
    for path, cls in _walk("", schema.Isa):
        places.setdefault(cls, []).append(path)
    return tuple(_table(cls, tuple(dict.fromkeys(paths))) for cls, paths in places.items())


def _walk(path: str, cls: type) -> Iterator[tuple[str, type]]:
    yield path, cls
    hints = get_type_hints(cls)
    for entry in dataclasses.fields(cls):
        inner, named = _inner(hints[entry.name])
        if inner is not None:
            place = f"{path}.{entry.name}".lstrip(".") + (".NAME" if named else "")
            yield from _walk(place, inner)


def _inner(hint: Any) -> tuple[type | None, bool]:
    """The class of the tables that a key has, and whether they have names of their own."""
    arguments = [a for a in get_args(hint) if a not in (str, NoneType, Ellipsis)]
    found = hint if dataclasses.is_dataclass(hint) else arguments[0] if arguments else None
    return (found if isinstance(found, type) and dataclasses.is_dataclass(found) else None), get_origin(hint) is dict


def _table(cls: type, paths: tuple[str, ...]) -> Table:
    about, meanings = _documented(cls)
    hints = get_type_hints(cls)
    entries = sorted(dataclasses.fields(cls), key=lambda f: f.name in ("label", "source"))
    return Table(paths, about, tuple(_key(f, hints[f.name], *meanings.get(f.name, ("", ""))) for f in entries))


def _key(entry: dataclasses.Field[Any], hint: Any, unit: str, meaning: str) -> Key:
    return Key(entry.name, _kind(hint), _default(entry), unit, meaning)


def _documented(cls: type) -> tuple[str, dict[str, tuple[str, str]]]:
    """What the class's docstring says of the table; and of each key its unit and its meaning."""
    about, _, rest = (inspect.cleandoc(cls.__doc__ or "")).partition("\n\n")
    found = dict(_documented(Sourced)[1]) if issubclass(cls, Sourced) and cls is not Sourced else {}
    for item in re.split(r"\n(?=\w)", rest):
        if match := _KEY.fullmatch(item):
            name, unit, meaning = match.groups()
            found[name] = (unit or "", " ".join(meaning.split()))
    return " ".join(about.split()), found


def _kind(hint: Any) -> str:
    origin, arguments = get_origin(hint), [a for a in get_args(hint) if a is not NoneType]
    if hint in _KINDS:
        return _KINDS[hint]
    if origin is Literal:
        return ", ".join(f"`{a}`" for a in arguments if a)
    if origin is tuple:
        inner = arguments[0]
        return "tables" if dataclasses.is_dataclass(inner) else f"list of {_kind(inner)}"
    if origin is dict:
        inner = arguments[1]
        return "tables by name" if dataclasses.is_dataclass(inner) else f"{_kind(inner)} by name"
    if dataclasses.is_dataclass(hint):
        return "table"
    return _kind(arguments[0])


def _default(entry: dataclasses.Field[Any]) -> str:
    if entry.default is dataclasses.MISSING:
        return "" if entry.default_factory is dataclasses.MISSING else "none"
    match entry.default:
        case bool(value):
            return "true" if value else "false"
        case None | "" | ():
            return "none"
        case value:
            return str(value)


# -- the document


def reference() -> str:
    """The reference of all keys, in Markdown."""
    parts = ["## Every key", _INTRODUCTION]
    for table in tables():
        title = ", ".join(f"`{path}`" for path in table.paths) if table.paths != ("",) else "The file"
        rows = [
            f"| `{k.name}` | {k.kind} | {f'`{k.default}`' if k.default else ''} | {k.unit} | {k.meaning} |"
            for k in table.keys
        ]
        head = ["| key | type | default | unit | meaning |", "|---|---|---|---|---|"]
        parts += [f"### {title}", table.about, "\n".join([*head, *rows])]
    return "\n\n".join([*parts, *_semantics()])


def _semantics() -> list[str]:
    """The language of `semantics`, as the model's docstring and the table of operations have it."""
    grammar = (model.__doc__ or "").split("\n\n")[2:]
    text = "\n\n".join(grammar).replace(
        "`dspgen.vecdsl.ir.program.OPS` (that table is the vocabulary)", "the table below"
    )
    rows = [f"| `{name}` | {_arguments(name)} | {info.doc.replace('|', chr(92) + '|')} |" for name, info in OPS.items()]
    head = ["| operation | arguments | value |", "|---|---|---|"]
    return ["### Semantics", text.strip(), "\n".join([*head, *rows])]


def _arguments(name: str) -> str:
    """How many there are, and the compile-time integers after them."""
    count = "one a lane" if OPS[name].arity < 0 else str(OPS[name].arity)
    integers = IMMEDIATES.get(name, 0)
    extra = "" if not integers else " + a lane's number for each" if integers < 0 else f" + {integers} imm"
    return count + extra


def written(document: str) -> str:
    """The document with the reference between its marks."""
    before, rest = document.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{reference()}\n\n{END}{after}"


# -- comments


def comments(key: str) -> list[str]:
    """Comment lines for the head of a table of the file, or, for "", of the file: all that may stand in it."""
    found: list[str] = []
    for table in tables():
        mine = [p for p in table.paths if p.split(".")[0] == key]
        if not mine:
            continue
        title = ", ".join(f"[{p}]" for p in mine) + ": " if key else ""
        found += _wrapped(title + table.about, "# ", "# ")
        for k in table.keys:
            if key or "table" not in k.kind:
                default = f" ({k.default})" if k.default not in ("", "none") else ""
                unit = f" [{k.unit}]" if k.unit else ""
                found += _wrapped(f"{k.name}{unit}: {k.meaning}{default}", "#   ", "#       ")
    return found or _single(key)


def _single(key: str) -> list[str]:
    """Of a table that has no class of its own: names of the writer's."""
    keys = [k for k in tables()[0].keys if k.name == key and k.kind.endswith("by name")]
    return [line for k in keys for line in _wrapped(f"[{key}]: {k.meaning}", "# ", "# ")]


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


if __name__ == "__main__":
    for _name in sys.argv[1:]:
        _path = Path(_name)
        _path.write_text(written(_path.read_text(encoding="utf-8")), encoding="utf-8")
