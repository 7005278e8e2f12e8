"""The raw TOML tables become `dspgen.target.schema.tables` classes; every fault is reported, each with its key's
path."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from cattrs import Converter
from cattrs.errors import (
    AttributeValidationNote,
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)

from dspgen.errors import Severity
from dspgen.target.schema import instructions as schema_rows
from dspgen.target.schema import kinds
from dspgen.target.schema import macros as schema_macros
from dspgen.target.schema import tables as schema
from dspgen.target.schema.expressions import ExpressionError, evaluate
from dspgen.target.schema.toml_positions import Path

_PATTERN = re.compile(r"\{([^{}]*)\.\.([^{}]*)\}")
_MOST_NAMES = 65536


@dataclass(frozen=True, slots=True)
class Fault:
    """`path` names the key; `at_key` tells that the key itself is wrong, not its value."""

    code: str
    path: Path
    message: str
    remedy: str = ""
    at_key: bool = False
    severity: Severity = "error"


class _Bad(Exception):
    def __init__(self, code: str, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.remedy = remedy


def structure(raw: Mapping[str, Any]) -> schema.Isa | list[Fault]:
    """The file's content as `schema.Isa`, else all that is wrong with its shape."""
    names = figures(raw)
    faults: list[Fault] = []
    if names.get("lanes", 1) < 1:
        faults.append(Fault("DG111", ("lanes",), f"must be at least 1, not {names['lanes']}"))
        names["lanes"] = 1
    try:
        isa = _converter(frozenset(names.items())).structure(raw, schema.Isa)
    except ClassValidationError as group:
        _collect(group, (), faults)
        return faults
    return faults or isa


def figures(raw: Mapping[str, Any]) -> dict[str, int]:
    """The figures that expressions may name: `lanes`, `units.NAME.count`, and the `memories.NAME.bytes_per_cycle` that
    are numbers themselves."""
    names: dict[str, int] = {}
    units = raw.get("units")
    for name, unit in units.items() if isinstance(units, dict) else ():
        if isinstance(unit, dict) and _is_int(unit.get("count")):
            names[f"units.{name}.count"] = unit["count"]
    memories = raw.get("memories")
    for name, memory in memories.items() if isinstance(memories, dict) else ():
        if isinstance(memory, dict) and _is_int(memory.get("bytes_per_cycle")):
            names[f"memories.{name}.bytes_per_cycle"] = memory["bytes_per_cycle"]
    lanes = raw.get("lanes")
    if _is_int(lanes):
        names["lanes"] = int(lanes or 0)
    elif isinstance(lanes, str):
        try:
            names["lanes"] = evaluate(lanes, names)
        except ExpressionError:
            return names
    return names


def suggest(word: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(word, list(known), 1)
    return f"did you mean `{near[0]}`?" if near else ""


def expand_names(items: Collection[str], names: Mapping[str, int]) -> tuple[str, ...]:
    """Each `X{low..high}` spelled out. Raises ExpressionError."""
    found: list[str] = []
    for item in items:
        match = _PATTERN.search(item)
        if match is None:
            found.append(item)
            continue
        low, high = evaluate(match.group(1), names), evaluate(match.group(2), names)
        if not 0 <= high - low < _MOST_NAMES:
            raise ExpressionError(f"`{item}`: the range {low}..{high} is empty or too long")
        found += [item[: match.start()] + str(n) + item[match.end() :] for n in range(low, high + 1)]
    return tuple(found)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_choice(hint: Any) -> bool:
    return get_origin(hint) is Literal


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "a text", list: "a list", dict: "a table"}
    return names.get(type(value), "a date or time")


@lru_cache(maxsize=4)
def _converter(known: frozenset[tuple[str, int]]) -> Converter:
    """By what expressions may name, since making one takes longer than reading a file with it."""
    names = dict(known)
    converter = Converter(forbid_extra_keys=True, detailed_validation=True)

    def figure(value: object, _: object) -> int:
        if _is_int(value):
            return int(str(value))
        if not isinstance(value, str):
            raise _Bad("DG104", f"must be an integer or an expression, not {_kind(value)}")
        try:
            return evaluate(value, names)
        except ExpressionError as fault:
            raise _Bad("DG105", str(fault)) from fault

    def words(value: object, _: object) -> tuple[str, ...]:
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(i, str) for i in items):
            raise _Bad("DG104", "must be a text or a list of texts")
        return tuple(items)

    def named(value: object, hint: object) -> tuple[str, ...]:
        try:
            return expand_names(words(value, hint), names)
        except ExpressionError as fault:
            raise _Bad("DG105", str(fault)) from fault

    def span(value: object, hint: object) -> tuple[int, int]:
        if not isinstance(value, list) or len(value) != 2:
            raise _Bad("DG104", "must be a list of two integers: [low, high]")
        return figure(value[0], hint), figure(value[1], hint)

    def exact(kind: type, word: str) -> Callable[[object, object], object]:
        def hook(value: object, _: object) -> object:
            if type(value) is not kind:
                raise _Bad("DG104", f"must be {word}, not {_kind(value)}")
            return value

        return hook

    def choice(value: object, hint: object) -> object:
        allowed = get_args(hint)
        if value not in allowed:
            known = ", ".join(f'"{a}"' for a in allowed if a)
            remedy = suggest(str(value), [str(a) for a in allowed])
            raise _Bad("DG104", f"must be one of {known}, not {value!r}", remedy)
        return value

    converter.register_structure_hook(kinds.Figure, figure)
    converter.register_structure_hook(kinds.Words, words)
    converter.register_structure_hook(kinds.Names, named)
    converter.register_structure_hook(kinds.Range, span)
    converter.register_structure_hook(str, exact(str, "a text"))
    converter.register_structure_hook(bool, exact(bool, "true or false"))
    converter.register_structure_hook_func(_is_choice, choice)
    _table_hooks(converter)
    return converter


def tables() -> list[type]:
    """The classes of all tables, inner ones first."""
    classes = [
        c for module in (schema_macros, schema_rows, schema) for c in vars(module).values() if isinstance(c, type)
    ]
    return [c for c in dict.fromkeys(classes) if dataclasses.is_dataclass(c) and c is not kinds.Sourced]


def _table_hooks(converter: Converter) -> None:
    """A table must be a table; an operand and a macro's line have short forms."""

    def generated(cls: type) -> Callable[[object, object], object]:
        inner = converter.get_structure_hook(cls, False)

        def hook(value: object, hint: object) -> object:
            if cls is schema_rows.Operand and isinstance(value, str):
                value = {value: True} if value in ("memory", "target") else {"reg": value}
            elif cls is schema_macros.Line and isinstance(value, str):
                value = {"text": value}
            if not isinstance(value, dict):
                raise _Bad("DG104", f"must be a table, not {_kind(value)}")
            return inner(value, hint)

        return hook

    for cls in tables():
        converter.register_structure_hook(cls, generated(cls))


def _collect(error: BaseException, path: Path, faults: list[Fault]) -> None:
    match error:
        case ClassValidationError():
            _collect_class(error, path, faults)
        case IterableValidationError():
            grouped, rest = error.group_exceptions()
            for inner, note in grouped:
                _collect(inner, (*path, note.index), faults)
            for inner in rest:
                _collect(inner, path, faults)
        case _Bad():
            faults.append(Fault(error.code, path, error.message, error.remedy))
        case ForbiddenExtraKeysError():
            known = list(get_type_hints(error.cl)) if error.cl else []
            for name in sorted(error.extra_fields):
                remedy = suggest(name, known) or f"known keys here: {', '.join(known)}"
                faults.append(Fault("DG102", (*path, name), "unknown key", remedy, at_key=True))
        case _:
            faults.append(Fault("DG104", path, "has the wrong type: a list or a table is expected"))


def _collect_class(error: ClassValidationError, path: Path, faults: list[Fault]) -> None:
    for inner in error.exceptions:
        notes = [n for n in getattr(inner, "__notes__", []) if isinstance(n, AttributeValidationNote)]
        items = [n for n in getattr(inner, "__notes__", []) if isinstance(n, IterableValidationNote)]
        if notes:
            name = notes[-1].name
            if isinstance(inner, KeyError) and not isinstance(inner, _Bad) and inner.args == (name,):
                faults.append(Fault("DG103", path, f"the key `{name}` is missing", at_key=True))
                continue
            _collect(inner, (*path, name), faults)
        elif items:
            _collect(inner, (*path, items[-1].index), faults)
        else:
            _collect(inner, path, faults)
