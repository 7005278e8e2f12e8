"""Reads a call such as `f(x, y, 32)` from the command line."""

from __future__ import annotations

import re

from dspgen.errors import Problem, SourceError

_CALL = re.compile(r"\s*([A-Za-z_.$][\w.$]*)\s*\((.*)\)\s*;?\s*$", re.DOTALL)
_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|\d+)[uUlL]*$")
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?[fF]?$|[+-]?\d+\.?[fF]$|[+-]?(inf|nan)$")
_NAME = re.compile(r"[A-Za-z_]\w*$")
_NO_FLOAT = 2.0**128 - 2.0**103  # what becomes infinite in single precision


def parse_call(text: str) -> tuple[str, list[str | int | float]]:
    """The function's name and its arguments: names stay text, numbers become int or float. Raises SourceError."""
    found = _CALL.match(text)
    if found is None:
        raise SourceError(Problem("DG430", f"'{text}' is no call", remedy="write it as f(x, y, 32)"))
    name, inside = found.groups()
    if not inside.strip():
        return name, []
    return name, [_argument(part.strip()) for part in inside.split(",")]


def _argument(text: str) -> str | int | float:
    if _INTEGER.match(text):
        body = text.rstrip("uUlL")
        number = int(body, 16) if "x" in body.lower() else int(body)
        if -(1 << 31) <= number < 1 << 32:
            return number
        raise _unfit(text, "32 bits")
    if _FLOAT.match(text):
        if text.endswith(("inf", "nan")):
            return float(text)
        value = float(text.rstrip("fF"))
        if abs(value) < _NO_FLOAT:
            return value
        raise _unfit(text, "a float")
    if _NAME.match(text):
        return text
    remedy = "an argument is a number or the name of an array"
    raise SourceError(Problem("DG430", f"'{text}' is no argument of a call", remedy=remedy))


def _unfit(text: str, size: str) -> SourceError:
    remedy = "give it by name, with its type in --inputs"
    return SourceError(Problem("DG430", f"argument {text} does not fit {size}", remedy=remedy))
