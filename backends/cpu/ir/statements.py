"""Statements of C over scalars, vectors and memory cells: what a loop tree becomes before it is printed.

    Stmt  ::= Put(cell, value) | Let(temp, value) | Var(temp, value) | Set(temp, value) | Define(name, value)
            | Accumulate(cell, op, value) | Loop(iterator, lower, upper, step, body) | Guard(condition, body)
            | Effect(action) | Note(text)
    Value ::= Const | Index | Scalar | Temp | Get | Splat | Pack | Lane | Reverse | Op

Every value has a type: `dtype` and `lanes`, 1 for a scalar. A comparison of vectors is a vector of 0 and -1 of the
signed integer type as wide as its operands. Bounds, conditions and subscripts are integer `plant_core.ir.func.Expr`s
over iterators and parameters, exact integers rather than C's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from plant_core.ir.func import Action, DType, Expr
from plant_core.support.location import Loc


@dataclass(frozen=True, slots=True)
class Cell:
    """An element of memory, or the first of the consecutive ones that a vector takes."""

    buf: str
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Const:
    value: int | float
    dtype: DType

    @property
    def lanes(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class Index:
    """The value of an iterator expression, an i32."""

    expr: Expr

    @property
    def dtype(self) -> DType:
        return "i32"

    @property
    def lanes(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar parameter, or a variable that a `Define` made."""

    name: str
    dtype: DType

    @property
    def lanes(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class Temp:
    name: str
    dtype: DType
    lanes: int


@dataclass(frozen=True, slots=True)
class Get:
    """`lanes` consecutive elements from `cell` on; of the first `active` ones only, where that is given."""

    cell: Cell
    dtype: DType
    lanes: int
    active: Expr | None = None


@dataclass(frozen=True, slots=True)
class Splat:
    """A scalar in every lane."""

    value: Value
    lanes: int

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@dataclass(frozen=True, slots=True)
class Pack:
    """A vector of scalars of one type."""

    parts: tuple[Value, ...]

    @property
    def dtype(self) -> DType:
        return self.parts[0].dtype

    @property
    def lanes(self) -> int:
        return len(self.parts)


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of a vector, as a scalar."""

    value: Value
    lane: int

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def lanes(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class Reverse:
    """The lanes of a vector in descending order."""

    value: Value

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def lanes(self) -> int:
        return self.value.lanes


@dataclass(frozen=True, slots=True)
class Op:
    """`name` is a unary or binary operator of `plant_core.ir.func`, or one of

    cast       C's conversion to `dtype`
    select     arguments: condition (scalar, or a mask of the same width), true, false
    call:NAME  the library function
    mask       a numeric vector `!= 0`, as a mask of type `dtype`
    widen      a mask as a mask of type `dtype`
    truth      a mask as 0 and 1
    sum        and the other reduction operators with `reduce:` before: a vector's lanes combined to a scalar
    text:TEXT  text of the target language
    """

    name: str
    args: tuple[Value, ...]
    dtype: DType
    lanes: int = 1


Value = Const | Index | Scalar | Temp | Get | Splat | Pack | Lane | Reverse | Op
ReductionOp = Literal["add", "mul", "min", "max", "and", "or", "xor"]


@dataclass(frozen=True, slots=True)
class Put:
    """`active`: how many of the vector's first lanes are stored, all by default."""

    cell: Cell
    value: Value
    active: Expr | None = None


@dataclass(frozen=True, slots=True)
class Let:
    """A temporary that doesn't change."""

    temp: Temp
    value: Value


@dataclass(frozen=True, slots=True)
class Var:
    """A temporary that `Set` changes."""

    temp: Temp
    value: Value


@dataclass(frozen=True, slots=True)
class Set:
    temp: Temp
    value: Value


@dataclass(frozen=True, slots=True)
class Define:
    """An integer parameter that the program computes; it lives to the end of the enclosing body."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Accumulate:
    """`cell = cell op v` for every lane `v` of `value`, in any order."""

    cell: Cell
    op: ReductionOp
    value: Value


LoopKind = Literal["plain", "parallel", "simd"]


@dataclass(frozen=True, slots=True)
class Loop:
    """`upper` is exclusive. `unroll`: how often the compiler is asked to unroll it, 0 for its own choice.

    `reductions`: (operator, variable) pairs that a `simd` loop combines across its iterations.
    """

    iterator: str
    lower: Expr
    upper: Expr
    step: int
    body: tuple[Stmt, ...]
    kind: LoopKind = "plain"
    unroll: int = 0
    reductions: tuple[tuple[ReductionOp, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Guard:
    condition: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Effect:
    action: Action
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """A comment."""

    text: str


Stmt = Put | Let | Var | Set | Define | Accumulate | Loop | Guard | Effect | Note


def parts(value: Value) -> tuple[Value, ...]:
    """The values that `value` is made of."""
    match value:
        case Splat(value=inner) | Lane(value=inner) | Reverse(value=inner):
            return (inner,)
        case Pack(parts=items):
            return items
        case Op(args=args):
            return args
        case _:
            return ()


def with_parts(value: Value, new: tuple[Value, ...]) -> Value:
    match value:
        case Splat() | Lane() | Reverse():
            return replace(value, value=new[0])
        case Pack():
            return Pack(new)
        case Op():
            return replace(value, args=new)
        case _:
            return value


def walk(value: Value) -> Iterator[Value]:
    """`value` and everything in it, whole before part."""
    yield value
    for part in parts(value):
        yield from walk(part)


def stored(stmt: Stmt) -> Value | None:
    """The value that a statement computes, if it is one that does."""
    match stmt:
        case Put(value=value) | Let(value=value) | Var(value=value) | Set(value=value) | Define(value=value):
            return value
        case Accumulate(value=value):
            return value
        case _:
            return None


def body_of(stmt: Stmt) -> tuple[Stmt, ...]:
    match stmt:
        case Loop(body=body) | Guard(body=body):
            return body
        case _:
            return ()


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, the nested ones after the loop they are in."""
    for stmt in body:
        yield stmt
        yield from statements(body_of(stmt))
