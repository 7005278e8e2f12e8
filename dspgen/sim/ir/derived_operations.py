"""Operations of semantics that others make up: what the simulator runs in their place."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from dspgen.target.isa.model import SemExpr
from dspgen.target.isa.semantics import parse

# By operation: what it is of its arguments a, b and c, `T` being its type and `W` the integer twice as wide.
_MEANINGS = {
    "minu": "select.T(ltu.T(a, b), a, b)",
    "maxu": "select.T(ltu.T(b, a), a, b)",
    "absdu": "select.T(ltu.T(a, b), sub.T(b, a), sub.T(a, b))",
    "alike": "mov.T(a)",
    "dup16": "or.T(zext16.T(a), shl.T(a, 16))",
    "join": "or.W(and.W(a, MASK), shl.W(b, BITS))",
    "zip": "pair(zip_lo.T(a, b), zip_hi.T(a, b))",
    "unzip": "pair(even.T(a, b), odd.T(a, b))",
    "unpack8": "pair(sext8.T(a), shr.T(a, 8))",
    "unpacku8": "pair(zext8.T(a), shru.T(a, 8))",
    "unpack16": "pair(sext16.T(a), shr.T(a, 16))",
    "unpacku16": "pair(zext16.T(a), shru.T(a, 16))",
    "mul16_pair": "pair(mul16.T(a, b), mul.T(shr.T(a, 16), shr.T(b, 16)))",
    "mac16_pair": "pair(mac16.T(a, b, lo(c)), mac.T(shr.T(a, 16), shr.T(b, 16), hi(c)))",
}

_LONGEST = 64  # bits of an element


def meaning(expr: SemExpr) -> SemExpr | None:
    """The same by other operations, None for what has no such meaning."""
    if expr.op not in _MEANINGS or (expr.op == "join" and int(expr.type[1:]) > _LONGEST // 2):
        return None
    given = dict(zip("abc", expr.args, strict=False))
    return _filled(_parsed(expr.op, expr.type), given)


@cache
def _parsed(op: str, type: str) -> SemExpr:
    bits = int(type[1:])
    text = _MEANINGS[op].replace(".T(", f".{type}(").replace(".W(", f".i{2 * bits}(")
    text = text.replace("MASK", str((1 << bits) - 1)).replace("BITS", str(bits))
    return parse(f"d = {text}", 0)[0].value


def _filled(expr: SemExpr, given: dict[str, SemExpr]) -> SemExpr:
    if expr.op == "place":
        return given[expr.name]
    return replace(expr, args=tuple(_filled(a, given) for a in expr.args))
