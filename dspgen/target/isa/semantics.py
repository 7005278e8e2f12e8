"""The text of an instruction's semantics: parsed, printed, checked. The grammar is in `dspgen.target.isa.model`.

Where the grammar has an integer, a sum or product of integers and `lanes` may stand: it is evaluated as it is read.
Operations with a compile-time integer (a lane's number) take it as their last argument.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from typing import Literal

from dspgen.target.isa.model import SemExpr, SemStatement
from dspgen.vecdsl.ir.program import OPS

MEMORY_TYPES = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "f32", "f64")
TYPES = (*MEMORY_TYPES, "u64")
LOADS = ("ld", "vld", "gather")
STORES = ("st", "vst", "scatter")
CONTROL = ("branch", "repeat")
# Arguments without what may be left out, and whether a type must follow the name.
_OWN: dict[str, tuple[int, bool]] = {
    "ld": (1, True),
    "vld": (3, True),
    "st": (2, True),
    "vst": (4, True),
    "gather": (2, True),
    "scatter": (3, True),
    "perm": (3, True),
    "branch": (1, False),
    "repeat": (2, False),
    "addr": (1, False),
    "cat": (2, False),
    "trunc": (1, False),
    "sext": (2, False),
    "zext": (2, False),
    "bits": (3, False),
    "set_high": (2, False),
    "rotate": (2, True),
    "slide": (3, True),
}
# The number of a scalar access's element may be left out: it is 0.
_OPTIONAL = {"ld": 1, "st": 1}
# Compile-time integers that an operation takes after its arguments; -1: one for each lane.
IMMEDIATES = {
    **dict.fromkeys(("lane", "insert", "dup_lane", "align", "mask_first", "transpose", "concat"), 1),
    "mask_period": 3,
    "shuffle": -1,
    "shuffle2": -1,
}
_UNTYPED = ("pair", "lo", "hi", "bcast_pair")
_INTEGERS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
# Operations that aren't for all types.
_TYPES_OF: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("sqrt", "rcp_est", "rsqrt_est"), ("f32", "f64")),
    **dict.fromkeys(("mod", "mulhi", "shl", "shr", "shru"), _INTEGERS),
    **dict.fromkeys(("sext8", "zext8", "unpack8", "unpacku8"), _INTEGERS[2:]),
    **dict.fromkeys(("sext16", "zext16", "dup16", "mul16", "mac16"), _INTEGERS[4:]),
    **dict.fromkeys(("unpack16", "unpacku16", "mul16_pair", "mac16_pair"), _INTEGERS[4:]),
    "join": _INTEGERS[:6],
}
_TOKEN = re.compile(
    r"\s*(?:(?P<int>0[xX][0-9a-fA-F]+|\d+)|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<mark>[=(),.;+*-])|(?P<bad>\S))"
)

Kind = Literal["register", "pair", "immediate", "memory", "label", "control"]


class SemanticsError(ValueError):
    """The text can't be read as semantics statements."""


def parse(text: str, lanes: int) -> tuple[SemStatement, ...]:
    """The statements of `text`, separated by `;`. Raises SemanticsError."""
    return _Parser(text, lanes).statements()


def format_statement(statement: SemStatement) -> str:
    value = format_expression(statement.value)
    return value if statement.target is None else f"{format_expression(statement.target)} = {value}"


def format_statements(statements: tuple[SemStatement, ...]) -> str:
    return "; ".join(format_statement(s) for s in statements)


def format_expression(expr: SemExpr) -> str:
    match expr.op:
        case "int":
            return str(expr.value)
        case "place":
            return f"{expr.name}.{expr.part}" if expr.part else expr.name
        case _:
            name = f"{expr.op}.{expr.type}" if expr.type else expr.op
            return f"{name}({', '.join(format_expression(a) for a in expr.args)})"


def places(expr: SemExpr) -> tuple[SemExpr, ...]:
    """All places that the expression reads, left to right."""
    if expr.op == "place":
        return (expr,)
    return tuple(p for a in expr.args for p in places(a))


def check(
    statements: tuple[SemStatement, ...],
    operands: Mapping[str, Kind],
    controls: Collection[str],
    *,
    condition: bool = False,
) -> list[str]:
    """What is wrong with the statements, given the operands' kinds and the names of the control registers; or with the
    one expression of a condition."""
    problems: list[str] = []
    known = {**dict.fromkeys(controls, "control"), **operands}
    if condition:
        first = statements[0]
        if len(statements) > 1 or first.target is not None or _effects(first.value):
            problems.append("a condition is one expression on registers and numbers")
        _check_expression(first.value, known, problems)
        return list(dict.fromkeys(problems))
    for statement in statements:
        if statement.target is not None:
            _check_target(statement.target, known, problems)
            if statement.value.op in (*STORES, *CONTROL):
                problems.append(f"`{statement.value.op}` gives no value to assign")
        elif statement.value.op not in (*STORES, *CONTROL):
            problems.append(f"`{format_expression(statement.value)}` has no effect: assign it to an operand")
        _check_expression(statement.value, known, problems)
    return list(dict.fromkeys(problems))


def _effects(expr: SemExpr) -> bool:
    """Whether it does anything, or reaches memory."""
    return expr.op in (*LOADS, *STORES, *CONTROL) or any(_effects(a) for a in expr.args)


def _check_target(target: SemExpr, known: Mapping[str, str], problems: list[str]) -> None:
    kind = known.get(target.name)
    if kind is None:
        problems.append(f"`{target.name}` is not an operand or a control register{_hint(target.name, known)}")
    elif kind not in ("register", "pair", "control"):
        problems.append(f"`{target.name}` is assigned, but it is {_article(kind)} operand")
    elif target.part and kind != "pair":
        problems.append(f"`{target.name}.{target.part}`: `{target.name}` is no register pair")


def _check_expression(expr: SemExpr, known: Mapping[str, str], problems: list[str]) -> None:
    if expr.op == "int":
        return
    if expr.op == "place":
        kind = known.get(expr.name)
        if kind is None:
            problems.append(f"`{expr.name}` is not an operand or a control register{_hint(expr.name, known)}")
        elif expr.part and kind != "pair":
            problems.append(f"`{expr.name}.{expr.part}`: `{expr.name}` is no register pair")
        return
    if not _check_operation(expr, problems):
        return
    rest = expr.args
    if expr.op in (*LOADS, *STORES):
        first = expr.args[0]
        if first.op != "place" or known.get(first.name) != "memory":
            problems.append(f"the first argument of `{expr.op}` must be a memory operand")
        rest = expr.args[1:]
    for argument in rest:
        if argument.op == "place" and known.get(argument.name) == "memory":
            problems.append(f"the memory operand `{argument.name}` stands outside a load or store")
        _check_expression(argument, known, problems)


def _check_operation(expr: SemExpr, problems: list[str]) -> bool:
    if expr.op in _OWN:
        arity, typed = _OWN[expr.op]
    elif expr.op in OPS and expr.op != "vec":
        arity = _arity(expr.op)
        typed = expr.op not in _UNTYPED
    else:
        hint = _hint(expr.op, (*_OWN, *OPS)) or "; docs/isa.md#semantics has them all"
        problems.append(f"`{expr.op}` is not an operation{hint}")
        return False
    name = f"{expr.op}.{expr.type}" if expr.type else expr.op
    if typed and not expr.type:
        problems.append(f"`{expr.op}` needs a type, as in `{expr.op}.i32`")
    elif expr.type and expr.type not in TYPES:
        problems.append(f"`{name}`: `{expr.type}` is not a type{_hint(expr.type, TYPES)}")
    elif typed and expr.type not in _TYPES_OF.get(expr.op, TYPES):
        problems.append(f"`{name}`: `{expr.op}` is for {', '.join(_TYPES_OF[expr.op])}")
    if arity >= 0 and not arity <= len(expr.args) <= arity + _OPTIONAL.get(expr.op, 0):
        problems.append(f"`{name}` takes {arity} argument{'s' if arity != 1 else ''}, not {len(expr.args)}")
        return False
    return True


def _arity(op: str) -> int:
    """Arguments and compile-time integers together; -1: as many as there are lanes, or more."""
    arguments, integers = OPS[op].arity, IMMEDIATES.get(op, 0)
    return -1 if min(arguments, integers) < 0 else arguments + integers


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _hint(word: str, known: Collection[str] | Mapping[str, str]) -> str:
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean `{near[0]}`?" if near else ""


class _Parser:
    def __init__(self, text: str, lanes: int) -> None:
        self.text = text
        self.lanes = lanes
        self.tokens = [(str(m.lastgroup), m.group(str(m.lastgroup))) for m in _TOKEN.finditer(text)]
        self.at = 0

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead][1] if self.at + ahead < len(self.tokens) else ""

    def fail(self, wanted: str) -> SemanticsError:
        got = f"`{self.peek()}`" if self.peek() else "the end"
        return SemanticsError(f"`{self.text}`: {wanted} expected, not {got}")

    def take(self, wanted: str) -> None:
        if self.peek() != wanted:
            raise self.fail(f"`{wanted}`")
        self.at += 1

    def name(self) -> str:
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != "name":
            raise self.fail("a name")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def statements(self) -> tuple[SemStatement, ...]:
        found = [self.statement()]
        while self.peek() == ";":
            self.at += 1
            if self.peek():
                found.append(self.statement())
        if self.peek():
            raise self.fail("`;` or the end")
        return tuple(found)

    def statement(self) -> SemStatement:
        first = self.expression()
        if self.peek() != "=":
            return SemStatement(None, first)
        if first.op != "place":
            raise SemanticsError(f"`{self.text}`: `{format_expression(first)}` can't be assigned to")
        self.at += 1
        return SemStatement(first, self.expression())

    def expression(self) -> SemExpr:
        """A sum, where its terms are integers; else one factor."""
        return self._chain(self._product, {"+": lambda a, b: a + b, "-": lambda a, b: a - b})

    def _product(self) -> SemExpr:
        return self._chain(self._factor, {"*": lambda a, b: a * b})

    def _chain(self, part: Callable[[], SemExpr], marks: Mapping[str, Callable[[int, int], int]]) -> SemExpr:
        left = part()
        while self.peek() in marks:
            if left.op != "int":
                raise SemanticsError(f"`{self.text}`: `{self.peek()}` joins integers only")
            combine = marks[self.peek()]
            self.at += 1
            right = part()
            if right.op != "int":
                raise SemanticsError(f"`{self.text}`: `{format_expression(right)}` is not an integer")
            left = SemExpr("int", value=combine(left.value, right.value))
        return left

    def _factor(self) -> SemExpr:
        if self.peek() == "-":
            self.at += 1
            value = self._factor()
            if value.op != "int":
                raise SemanticsError(f"`{self.text}`: `-` stands before an integer only")
            return SemExpr("int", value=-value.value)
        if self.peek() == "(":
            self.at += 1
            value = self.expression()
            self.take(")")
            return value
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "int":
            self.at += 1
            return SemExpr("int", value=int(self.tokens[self.at - 1][1], 0))
        name = self.name()
        if name == "lanes" and self.peek() not in (".", "("):
            return SemExpr("int", value=self.lanes)
        after = ""
        if self.peek() == ".":
            self.at += 1
            after = self.name()
        if self.peek() == "(":
            return SemExpr(name, after, self._arguments())
        return self._place(name, after)

    def _place(self, name: str, part: str) -> SemExpr:
        match part:
            case "" | "lo" | "hi":
                return SemExpr("place", name=name, part=part)
            case _:
                raise SemanticsError(f"`{self.text}`: `.{part}` after `{name}` is neither `.lo` nor `.hi`")

    def _arguments(self) -> tuple[SemExpr, ...]:
        self.take("(")
        if self.peek() == ")":
            self.at += 1
            return ()
        found = [self.expression()]
        while self.peek() == ",":
            self.at += 1
            found.append(self.expression())
        self.take(")")
        return tuple(found)
