"""C's literals, and operations on constants done at once."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from pycparser import c_ast

from dspgen.frontend.parse.error_codes import fail
from dspgen.frontend.scop.c_types import CType, represented
from dspgen.frontend.scop.scope import Typed
from plant_core.ir import c_semantics
from plant_core.ir.c_semantics import dtype_of, is_float
from plant_core.ir.func import Binary, Cast, DType, Expr, Select, Unary, Val
from plant_core.support.location import Loc, PlantError

_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "f": 12, "v": 11, "\\": 92, "'": 39, '"': 34, "?": 63}
_LIMITS: dict[CType, int] = {"i32": 2**31 - 1, "u32": 2**32 - 1, "i64": 2**63 - 1, "u64": 2**64 - 1}


def literal(node: c_ast.Constant, loc: Loc) -> Typed:
    text = node.value
    if node.type == "string":
        fail("DG013", "strings aren't supported", loc)
    if text.endswith("'"):
        return Typed(Val(_character(text, loc), "i32"), "i32")
    if re.search(r"[.pP]", text) or (re.search(r"[eE]", text) and not text.lower().startswith("0x")):
        return _float(text, loc)
    return _integer(text, loc)


def _character(text: str, loc: Loc) -> int:
    body = text[1:-1]
    if len(body) == 1:
        return c_semantics.wrap(ord(body), "i8")
    if body.startswith("\\x"):
        return c_semantics.wrap(int(body[2:], 16), "i8")
    if re.fullmatch(r"\\[0-7]{1,3}", body):
        return c_semantics.wrap(int(body[1:], 8), "i8")
    if len(body) == 2 and body[1] in _ESCAPES:
        return _ESCAPES[body[1]]
    fail("DG013", f"the character {text} isn't supported", loc)


def _float(text: str, loc: Loc) -> Typed:
    lower = text.lower()
    hexadecimal = lower.startswith("0x")
    if lower.endswith("l"):
        fail("DG006", "long double isn't supported", loc, "drop the suffix")
    single = lower.endswith("f") and (not hexadecimal or "p" in lower)
    body = lower[:-1] if single else lower
    exact = Fraction(float.fromhex(body)) if hexadecimal else Fraction(body)
    value = (
        float(c_semantics.nearest_single(exact)) if single else (float.fromhex(body) if hexadecimal else float(body))
    )
    return Typed(Val(value, "f32"), "f32") if single else Typed(Val(value, "f64"), "f64")


def _integer(text: str, loc: Loc) -> Typed:
    match = re.fullmatch(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)([uUlL]*)", text)
    if match is None:
        fail("DG013", f"the number '{text}' isn't supported", loc)
    digits, suffix = match.group(1), match.group(2).lower()
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    value = int(digits, 8) if octal else int(digits, 0)
    decimal = not octal and digits[0] != "0" or digits == "0"
    candidates: list[CType] = ["u32", "u64"] if "u" in suffix else ["i32", "u32", "i64", "u64"]
    if decimal and "u" not in suffix:
        candidates = ["i32", "i64"]
    if "l" in suffix:
        candidates = [c for c in candidates if c.endswith("64")]
    ctype: CType = next((c for c in candidates if value <= _LIMITS[c]), "u64")
    if value > _LIMITS["i64"]:
        fail("DG013", f"the number '{text}' is too large", loc, "numbers up to 2^63 - 1 are supported")
    return Typed(Val(value, represented(ctype)), ctype)


def fold(expr: Expr, loc: Loc) -> Expr:
    """The expression, done if all its operands are constants."""
    try:
        match expr:
            case Cast(dtype, Val(value, source)):
                return _constant(c_semantics.convert(c_semantics.typed(value, source), source, dtype), dtype, expr)
            case Unary(op, Val(value, source), dtype):
                return _constant(c_semantics.apply_unary(op, c_semantics.typed(value, source), source), dtype, expr)
            case Binary(op, Val(left, source), Val(right, _), dtype):
                one, other = c_semantics.typed(left, source), c_semantics.typed(right, source)
                return _constant(c_semantics.apply_binary(op, one, other, source), dtype, expr)
            case Select(Val(chosen, _), true, false):
                return true if chosen else false
            case _:
                return expr
    except PlantError as error:
        fail("DG013", error.message, loc)


def _constant(value: object, dtype: DType, expr: Expr) -> Expr:
    if not is_float(dtype):
        return Val(int(value), dtype)  # type: ignore[call-overload]
    number = float(value)  # type: ignore[arg-type]
    return Val(number, dtype) if math.isfinite(number) else expr


def truth(expr: Expr, loc: Loc) -> Expr:
    """An i32 that is zero exactly if the expression is; comparisons stay as they are."""
    match expr:
        case Binary("lt" | "le" | "gt" | "ge" | "eq" | "ne" | "land" | "lor", _, _) | Unary("lnot", _):
            return expr
        case _:
            dtype = dtype_of(expr)
            return fold(Binary("ne", expr, Val(0.0 if is_float(dtype) else 0, dtype), "i32"), loc)
