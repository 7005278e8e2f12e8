"""Loads an ISA file: text, then overrides, then shape, then sense; every problem is told, each with its line.

Codes: DG100 no such file, DG101 not TOML, DG102 unknown key, DG103 missing key, DG104 wrong kind of value, DG105 bad
expression, DG106 unknown register class, DG107 unknown unit, DG108 duplicate name, DG109 semantics that can't be read,
DG110 semantics and operands disagree, DG111 figure out of range, DG112 bad pair class, DG113 unknown register or
memory, DG114 bad macro or rewrite row, DG115 bad override, DG117 memory facts that contradict each other, DG118
the DMA engine's words.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from dspgen.errors import IsaError, Problem
from dspgen.target.build.target_builder import build_target
from dspgen.target.build.usability import findings
from dspgen.target.isa.model import Target
from dspgen.target.schema import toml_positions
from dspgen.target.schema.structure import Fault, structure, suggest
from plant_core.support.location import Loc

_LARGEST = 1 << 20  # bytes; a machine's rows take a tenth
_KEPT = 32  # machines, for whoever asks for the same one again
_TWICE = "Cannot overwrite a value"  # as `tomllib` says it
_KEY = re.compile(r"""([\w.-]+|"[^"]*"|'[^']*')\s*=(?!=)""")
_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")


def load_target(name_or_path: str, sets: Sequence[tuple[str, str]] = ()) -> Target:
    """The machine of `isa/NAME.toml`, or of the file if the text ends in `.toml`, with figures overridden by `sets`.

    Each of `sets` is a dotted key and its new value's text. Raises IsaError with every problem found.
    """
    return _loaded(name_or_path, sets)[0]


def check_target(
    name_or_path: str, sets: Sequence[tuple[str, str]] = (), more: Sequence[Callable[[Target], list[Fault]]] = ()
) -> tuple[Target, list[Problem]]:
    """The machine as `load_target` has it, looked at for sense as well, and by the rules `more`; and what is suspicious
    about it. Raises IsaError with everything found if any of it is an error.
    """
    target, told = _loaded(name_or_path, sets)
    problems = told([fault for rule in (findings, *more) for fault in rule(target)])
    if any(p.severity == "error" for p in problems):
        raise IsaError(*problems)
    return target, problems


def _loaded(
    name_or_path: str, sets: Sequence[tuple[str, str]]
) -> tuple[Target, Callable[[list[Fault]], list[Problem]]]:
    """The machine, and what makes problems with places of faults in it."""
    path = Path(name_or_path) if name_or_path.endswith(".toml") else isa_path(name_or_path)
    try:
        return _built(str(path), _read(path), tuple(sets))
    except RecursionError:
        message = "values are nested too deeply"
        raise IsaError(Problem("DG101", message, Loc(str(path), 1), "no key takes more than a few levels")) from None


@lru_cache(maxsize=_KEPT)
def _built(
    file: str, text: str, sets: tuple[tuple[str, str], ...]
) -> tuple[Target, Callable[[list[Fault]], list[Problem]]]:
    raw = _parse(text, file)
    overridden = _override(raw, sets)

    def told(faults: list[Fault]) -> list[Problem]:
        return _problems(faults, file, toml_positions.locate(text), overridden) if faults else []

    isa = structure(raw)
    if isinstance(isa, list):
        raise IsaError(*told(isa))
    target, faults = build_target(isa, file)
    if faults:
        raise IsaError(*told(faults))
    return target, told


def isa_names() -> list[str]:
    """The names of the ISA files that come with the program."""
    return sorted(p.stem for p in _folder().glob("*.toml"))


def isa_path(name: str) -> Path:
    """The file of a machine known by name. Raises IsaError naming the known ones."""
    path = _folder() / f"{name}.toml"
    if name not in isa_names():
        known = ", ".join(isa_names()) or "none"
        remedy = suggest(name, isa_names()) or f"known: {known}; a path ends in .toml"
        raise IsaError(Problem("DG100", f"no ISA file is named `{name}` (known: {known})", None, remedy))
    return path


def _folder() -> Path:
    package = Path(__file__).resolve().parent.parent
    installed = package / "_isa"
    return installed if installed.is_dir() else package.parent / "isa"


def _read(path: Path) -> str:
    known = ", ".join(isa_names()) or "none"
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            message = f"the file has more than {_LARGEST} bytes, the most that an ISA file may have"
            raise IsaError(Problem("DG101", message, Loc(str(path), 1), "describe one machine in a file"))
        return data.decode("utf-8")
    except UnicodeDecodeError as fault:
        line = data[: fault.start].count(b"\n") + 1
        raise IsaError(Problem("DG101", "the file is not UTF-8 text", Loc(str(path), line))) from fault
    except OSError as fault:
        message = f"the ISA file can't be read: {fault.strerror}: {path}"
        raise IsaError(Problem("DG100", message, None, f"the known machines are: {known}")) from fault


def _parse(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        message = str(fault)
        line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
        if (place := _PLACE.search(message)) and place.group(1):
            line, column = int(place.group(1)), int(place.group(2))
        message = _PLACE.sub("", message)
        here = text.split("\n")[line - 1]
        if message == _TWICE and (keys := list(_KEY.finditer(here, 0, column - 1))):
            message, column = f"the key `{keys[-1][1]}` is there twice", keys[-1].start() + 1
        raise IsaError(Problem("DG101", f"not valid TOML: {message}", Loc(file, line, column))) from fault


def _problems(
    faults: list[Fault], file: str, positions: toml_positions.Positions, overridden: dict[toml_positions.Path, str]
) -> list[Problem]:
    found: list[tuple[int, int, Problem]] = []
    for fault in faults:
        path = fault.path
        while path and isinstance(path[-1], int) and path not in positions.values:
            path = path[:-1]
        key = ".".join(str(p) for p in path)
        message = f"`{key}`: {fault.message}" if key else fault.message
        if text := next((t for p, t in overridden.items() if fault.path[: len(p)] == p), None):
            found.append((0, 0, Problem(fault.code, f"--set {text}: {message}", None, fault.remedy, fault.severity)))
            continue
        line, column = positions.key(path) if fault.at_key else positions.value(path)
        found.append(
            (line, column, Problem(fault.code, message, Loc(file, line, column), fault.remedy, fault.severity))
        )
    found.sort(key=lambda f: f[:2])
    return list(dict.fromkeys(p for _, _, p in found))


def _override(raw: dict[str, Any], sets: Sequence[tuple[str, str]]) -> dict[toml_positions.Path, str]:
    """Puts the values of `sets` into `raw`; gives each key's path with the text that set it."""
    problems: list[Problem] = []
    done: dict[toml_positions.Path, str] = {}
    if any(key.startswith("cost.") for key, _ in sets):
        raw.setdefault("cost", {})
    for key, value in sets:
        found = _find(raw, key)
        if isinstance(found, Problem):
            problems.append(found)
            continue
        table: Any = raw
        for word in found[:-1]:
            if isinstance(table[word], str):
                table[word] = {"reg": table[word]} if table[word] not in ("memory", "target") else {table[word]: True}
            table = table[word]
        table[found[-1]] = _value(value)
        done[found] = f"{key}={value}"
    if problems:
        raise IsaError(*problems)
    return done


def _find(raw: dict[str, Any], key: str) -> toml_positions.Path | Problem:
    """The path of a dotted key. Its last word may be new to the file: the schema judges it."""
    words = key.split(".")
    table: Any = raw
    path: list[str] = []
    for n, word in enumerate(words):
        last = n == len(words) - 1
        if isinstance(table, str) and last and path[:1] == ["instructions"] and len(path) == 4:
            table = {"reg": table}
        if not isinstance(table, dict):
            return Problem("DG115", f"--set {key}: `{'.'.join(path)}` has no keys below it")
        if word not in table and not path and not last and word + "s" in table:
            word += "s"
        if word not in table and len(path) == 2 and path[0] == "instructions" and not last:
            path.append("operands")
            table = table.get("operands", {})
        if word in table:
            table = table[word]
        elif not last or len(path) < 2 and (not path or isinstance(next(iter(table.values()), 0), dict)):
            where = f"`{'.'.join(path)}`" if path else "the ISA file"
            near = suggest(word, sorted(table))
            return Problem("DG115", f"--set {key}: {where} has no `{word}`", None, near or f"known: {_some(table)}")
        path.append(word)
    return tuple(path)


def _some(table: dict[str, Any]) -> str:
    words = list(table)
    return ", ".join(words[:20]) + (", ..." if len(words) > 20 else "")


def _value(text: str) -> Any:
    """The value as TOML would read it, else the text itself."""
    try:
        return copy.deepcopy(tomllib.loads(f"x = {text}")["x"])
    except (tomllib.TOMLDecodeError, KeyError):
        return text
