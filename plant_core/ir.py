"""The polyhedral program: `Func` holds `Buf`s and `Comp`s.

    Func  ::= name, params: (Buf | ScalarParam)*, bufs: Buf*, comps: Comp*
    Buf   ::= name, dtype, shape: int*, kind: param | local
    Comp  ::= name, iters, domain: isl set, schedule: isl map, target: Access, value: Expr
    Expr  ::= Val | Iter | Param | Cast | Unary | Binary | Select | Call | Access

A `Comp` is one assignment statement. Its `domain` is an isl set `{ S[i, j] : ... }` over its own loop iterators; its
`schedule` is an isl map to the common time space in 2d+1 form, `S[i, j] -> [c0, i, c1, j, c2, ...]`, zero-padded to
the same length for every Comp of a Func. `a += b` is stored as `a = a + b`. C scalars are Bufs of shape `()`.
After PLANT, Table 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import islpy as isl

from plant_core.loc import Loc

DType = Literal["f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32"]
UnaryOp = Literal["neg", "not", "lnot", "abs", "sqrt"]
BinaryOp = Literal[
    "add", "sub", "mul", "div", "mod", "min", "max",
    "and", "or", "xor", "shl", "shr", "lt", "le", "gt", "ge", "eq", "ne", "land", "lor",
    "floordiv",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Val:
    value: int | float
    dtype: DType


@dataclass(frozen=True, slots=True)
class Iter:
    """A loop iterator, of type i32."""

    name: str


@dataclass(frozen=True, slots=True)
class Param:
    """A scalar parameter of the function."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Cast:
    dtype: DType
    operand: Expr


@dataclass(frozen=True, slots=True)
class Unary:
    op: UnaryOp
    operand: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Binary:
    """Both operands have one type already: the front end makes C's conversions explicit. Comparisons give i32."""

    op: BinaryOp
    left: Expr
    right: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Select:
    condition: Expr
    true: Expr
    false: Expr
    dtype: DType


@dataclass(frozen=True, slots=True)
class Call:
    """A pure library function that has no operator of its own above."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class Access:
    """`buf[indices]`; each index is an affine expression of iterators and integer parameters."""

    buf: str
    indices: tuple[Expr, ...]
    dtype: DType
    loc: Loc | None = None


Expr = Val | Iter | Param | Cast | Unary | Binary | Select | Call | Access


@dataclass(frozen=True, slots=True)
class Buf:
    """An array, row-major; `shape` in elements, `()` for a scalar variable."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    kind: Literal["param", "local"]
    const: bool = False
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class ScalarParam:
    name: str
    dtype: DType
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Comp:
    """One assignment, once per point of `domain`. See the module's docstring."""

    name: str
    iters: tuple[str, ...]
    domain: isl.Set
    schedule: isl.Map
    target: Access
    value: Expr
    loc: Loc


@dataclass(frozen=True, slots=True)
class Func:
    name: str
    params: tuple[Buf | ScalarParam, ...]
    bufs: tuple[Buf, ...]
    comps: tuple[Comp, ...]
    loc: Loc

    def buf(self, name: str) -> Buf:
        return next(b for b in self.bufs if b.name == name)

    def comp(self, name: str) -> Comp:
        return next(c for c in self.comps if c.name == name)

    def with_comps(self, comps: tuple[Comp, ...]) -> Func:
        return replace(self, comps=comps)
