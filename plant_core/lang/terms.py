"""Expressions of the embedded language, as the user's operators build them: trees without types.

`plant_core.lang.types` gives them C's types once all declarations are known.
"""

from __future__ import annotations

import sys
from functools import cache
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from types import FrameType
from typing import NoReturn, get_args

from plant_core.ir.c_semantics import COMPARISONS
from plant_core.ir.func import BinaryOp, DType, UnaryOp
from plant_core.support.location import Loc, PlantError

_HERE = Path(__file__).parent.parent
_CONDITIONS = frozenset({*COMPARISONS, "land", "lor", "lnot"})

Number = int | float


@cache
def _is_ours(file: str) -> bool:
    return Path(file).is_relative_to(_HERE)


def caller() -> Loc:
    """The place in the user's program that is being run: the innermost frame outside `plant_core`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return Loc("<unknown>", 1)
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    column = 1 if positions[2] is None else positions[2] + 1
    return Loc(frame.f_code.co_filename, frame.f_lineno or 1, column)


class Term:
    """An expression. `op` is one of the IR's operators, or val, iter, param, load, access, cast, select, call, ramp,
    verbatim; `data` is what the kind needs besides its operands."""

    __slots__ = ("op", "parts", "data", "loc")

    def __init__(self, op: str, parts: tuple[Term, ...] = (), data: object = None, loc: Loc | None = None) -> None:
        self.op = op
        self.parts = parts
        self.data = data
        self.loc = loc or caller()

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __bool__(self) -> NoReturn:
        raise PlantError(
            "a condition of the program has no truth value in Python",
            loc=caller(),
            code="DG229",
            remedy="join conditions with & and |, in parentheses; use where(), minimum() and maximum() to choose",
        )

    def __iter__(self) -> NoReturn:
        raise PlantError("an expression can't be iterated over", loc=caller(), code="DG229")

    def __add__(self, other: Term | Number) -> Term:
        return binary("add", self, other)

    def __radd__(self, other: Number) -> Term:
        return binary("add", other, self)

    def __sub__(self, other: Term | Number) -> Term:
        return binary("sub", self, other)

    def __rsub__(self, other: Number) -> Term:
        return binary("sub", other, self)

    def __mul__(self, other: Term | Number) -> Term:
        return binary("mul", self, other)

    def __rmul__(self, other: Number) -> Term:
        return binary("mul", other, self)

    def __truediv__(self, other: Term | Number) -> Term:
        return binary("div", self, other)

    def __rtruediv__(self, other: Number) -> Term:
        return binary("div", other, self)

    def __floordiv__(self, other: Term | Number) -> Term:
        return binary("floordiv", self, other)

    def __rfloordiv__(self, other: Number) -> Term:
        return binary("floordiv", other, self)

    def __mod__(self, other: Term | Number) -> Term:
        return binary("mod", self, other)

    def __rmod__(self, other: Number) -> Term:
        return binary("mod", other, self)

    def __lshift__(self, other: Term | Number) -> Term:
        return binary("shl", self, other)

    def __rshift__(self, other: Term | Number) -> Term:
        return binary("shr", self, other)

    def __and__(self, other: Term | Number) -> Term:
        return _logic("and", "land", self, other)

    def __rand__(self, other: Number) -> Term:
        return _logic("and", "land", other, self)

    def __or__(self, other: Term | Number) -> Term:
        return _logic("or", "lor", self, other)

    def __ror__(self, other: Number) -> Term:
        return _logic("or", "lor", other, self)

    def __xor__(self, other: Term | Number) -> Term:
        return binary("xor", self, other)

    def __invert__(self) -> Term:
        return unary("lnot" if self.op in _CONDITIONS else "not", self)

    def __neg__(self) -> Term:
        return unary("neg", self)

    def __pos__(self) -> Term:
        return self

    def __abs__(self) -> Term:
        return unary("abs", self)

    def __pow__(self, other: Term | Number) -> Term:
        return Term("call", (self, lift(other)), ("pow", None))

    def __rpow__(self, other: Number) -> Term:
        return Term("call", (lift(other), self), ("pow", None))

    def __lt__(self, other: Term | Number) -> Term:
        return binary("lt", self, other)

    def __le__(self, other: Term | Number) -> Term:
        return binary("le", self, other)

    def __gt__(self, other: Term | Number) -> Term:
        return binary("gt", self, other)

    def __ge__(self, other: Term | Number) -> Term:
        return binary("ge", self, other)

    def __eq__(self, other: object) -> Term:  # type: ignore[override]  # an expression, as of all operators
        return binary("eq", self, other)

    def __ne__(self, other: object) -> Term:  # type: ignore[override]
        return binary("ne", self, other)


def lift(value: object) -> Term:
    """A Python number as a constant whose type its surroundings choose; a Term as it is."""
    if isinstance(value, Term):
        return value
    if isinstance(value, Real):
        return Term("val", data=(int(value) if isinstance(value, Integral) else float(value), None))
    raise PlantError(
        f"{value!r} is no expression of the program",
        loc=caller(),
        code="DG226",
        remedy="use numbers, iterators, parameters, and elements of buffers or computations",
    )


def binary(op: BinaryOp, left: object, right: object) -> Term:
    return Term(op, (lift(left), lift(right)))


def unary(op: UnaryOp, operand: object) -> Term:
    return Term(op, (lift(operand),))


def _logic(bitwise: BinaryOp, logical: BinaryOp, left: object, right: object) -> Term:
    a, b = lift(left), lift(right)
    return binary(logical if a.op in _CONDITIONS and b.op in _CONDITIONS else bitwise, a, b)


def val(value: Number, dtype: DType) -> Term:
    """A constant of a type of its own, where that of its surroundings isn't meant."""
    return Term("val", data=(value, dtype))


def iters(names: str) -> tuple[Term, ...]:
    """Iterators: `i, j = iters("i j")`."""
    found = tuple(Term("iter", data=name) for name in names.replace(",", " ").split())
    for one in found:
        check_name(str(one.data), one.loc)
    return found


def iterator(name: str) -> Term:
    return iters(name)[0]


def where(condition: Term, true: Term | Number, false: Term | Number) -> Term:
    """`true` where the condition holds, else `false`; only the chosen one is evaluated."""
    return Term("select", (lift(condition), lift(true), lift(false)))


def cast(dtype: DType, value: Term | Number) -> Term:
    if dtype not in get_args(DType):
        raise PlantError(
            f"there is no type '{dtype}'", loc=caller(), code="DG226", remedy=f"one of: {', '.join(get_args(DType))}"
        )
    return Term("cast", (lift(value),), dtype)


def minimum(first: Term | Number, *others: Term | Number) -> Term:
    return _chain("min", first, others)


def maximum(first: Term | Number, *others: Term | Number) -> Term:
    return _chain("max", first, others)


def _chain(op: BinaryOp, first: object, others: tuple[object, ...]) -> Term:
    found = lift(first)
    for other in others:
        found = binary(op, found, other)
    return found


def sqrt(value: Term | Number) -> Term:
    return unary("sqrt", value)


def exp(value: Term | Number) -> Term:
    return call("exp", value)


def call(name: str, *args: Term | Number, dtype: DType | None = None) -> Term:
    """A function of C's <math.h>, in the type of its arguments; or with `dtype`, any pure function of that type."""
    return Term("call", tuple(map(lift, args)), (name, dtype))


def ramp(load: Term, stride: Term | Number, lanes: int) -> Term:
    """The vector of `lanes` elements from the buffer's element `load` on, `stride` apart."""
    if load.op != "load":
        raise PlantError("a ramp starts at an element of a buffer", loc=caller(), code="DG226")
    if not isinstance(lanes, Integral) or lanes < 1:
        raise PlantError(
            f"a ramp can't have {lanes!r} lanes", loc=caller(), code="DG226", remedy="give a number from 1 on"
        )
    return Term("ramp", (load, lift(stride)), lanes)


def verbatim(text: str, dtype: DType = "i32") -> Term:
    """Text of the target language, printed as it is."""
    return Term("verbatim", data=(text, dtype))


_ISL_WORDS = frozenset("and or not implies exists mod min max floor floord ceil ceild rat true false infty NaN".split())


def check_name(name: str, loc: Loc) -> None:
    """PlantError unless `name` can name a thing in sets, in C and in text."""
    if not name.isidentifier() or not name.isascii() or name in _ISL_WORDS:
        raise PlantError(
            f"'{name}' can't be a name",
            loc=loc,
            code="DG224",
            remedy=f"use letters, digits and _, and none of: {', '.join(sorted(_ISL_WORDS))}",
        )
