"""The polyhedral program: `Func` holds `Buf`s and `Comp`s.

    Func   ::= name, params: (Buf | ScalarParam)*, bufs: Buf*, comps: Comp*, effects: Effect*, context: isl set
    Buf    ::= name, dtype, shape: (int | Expr)*, kind: param | local, location: heap | stack | global | ...
    Comp   ::= name, iters, domain: isl set, schedule: isl map, target: Load, value: Expr
    Effect ::= name, iters, domain: isl set, schedule: isl map, action: Memcpy | Alloc | Free | Verbatim
    Expr   ::= Val | Iter | Param | Cast | Unary | Binary | Select | Call | Load | Access | Ramp | Verbatim

A `Comp` is one assignment statement. Its `domain` is an isl set `{ S[i, j] : ... }` over its own loop iterators; its
`schedule` is an isl map to the common time space in 2d+1 form, `S[i, j] -> [c0, i, c1, j, c2, ...]`, zero-padded to
the same length for every Comp of a Func. `a += b` is stored as `a = a + b`. C scalars are Bufs of shape `()`.
After PLANT, Table 2.1. Schedules other than the original one are in `plant_core.ir.scheduled`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import islpy as isl

from plant_core.support.location import Loc, PlantError

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
class Load:
    """`buf[indices]`, an element of memory. An index that is affine in iterators and integer parameters is analysed
    exactly; any other one may be any element."""

    buf: str
    indices: tuple[Expr, ...]
    dtype: DType
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """The value that the instance `comp[indices]` computes, wherever it is stored.

    It means the Load of `comp`'s target with `indices` in place of `comp`'s iterators
    (`plant_core.normalize.bind_storage`).
    """

    comp: str
    indices: tuple[Expr, ...]
    dtype: DType
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Ramp:
    """The vector of `lanes` elements from `load` on, `stride` elements apart: 1 contiguous, 0 a broadcast."""

    load: Load
    stride: Expr
    lanes: int
    dtype: DType


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Text of the target language, printed as it is: an expression of type `dtype`, or a statement."""

    text: str
    dtype: DType = "i32"


Expr = Val | Iter | Param | Cast | Unary | Binary | Select | Call | Load | Access | Ramp | Verbatim
Extent = int | Expr


@dataclass(frozen=True, slots=True)
class Memcpy:
    """Copy all of buffer `source` to buffer `to`, by the means that their locations need."""

    to: str
    source: str


@dataclass(frozen=True, slots=True)
class Alloc:
    buf: str


@dataclass(frozen=True, slots=True)
class Free:
    buf: str


Action = Memcpy | Alloc | Free | Verbatim
Location = Literal["heap", "stack", "gpu_global", "gpu_shared", "gpu_local", "gpu_constant"]


@dataclass(frozen=True, slots=True)
class Buf:
    """An array, row-major; `shape` in elements, `()` for a scalar variable.

    An extent that isn't a number is an Expr of integer parameters. `align` is in bytes, 0 for the type's own.
    `alloc_at`: the loop, as (Comp, loop name), whose every iteration has the array to itself; None: the function.
    `meaning`: in words, what a variable is that the text doesn't have, such as "whether the loop goes on".
    """

    name: str
    dtype: DType
    shape: tuple[Extent, ...]
    kind: Literal["param", "local"]
    const: bool = False
    loc: Loc | None = None
    location: Location = "heap"
    align: int = 0
    alloc_at: tuple[str, str] | None = None
    meaning: str = field(default="", compare=False, repr=False)

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape where it is all numbers; PlantError where an extent is symbolic."""
        fixed = tuple(n for n in self.shape if isinstance(n, int))
        if len(fixed) == len(self.shape):
            return fixed
        raise PlantError(
            f"the size of '{self.name}' is known at run time only, and numbers are needed here",
            loc=self.loc,
            code="DG205",
            remedy="give the parameters' values with -D NAME=VALUE",
        )


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """`values`: those that it may have, from 0 on; none where it may have any."""

    name: str
    dtype: DType
    loc: Loc | None = None
    values: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Comp:
    """One assignment, once per point of `domain`. See the module's docstring.

    `defines`: the value also is the integer parameter of this name, for the statements that run after this instance
    in the same iterations of its loops (PLANT, 3.4); `target` is then the scalar Buf of the same name. `sure`:
    constraints on parameters that hold where it has instances, as isl reads them, though its domain does not tell.
    """

    name: str
    iters: tuple[str, ...]
    domain: isl.Set
    schedule: isl.Map
    target: Load
    value: Expr
    loc: Loc
    defines: str | None = None
    sure: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Effect:
    """A statement that assigns nothing: memory management, a block copy, text of the user's own."""

    name: str
    iters: tuple[str, ...]
    domain: isl.Set
    schedule: isl.Map
    action: Action
    loc: Loc


@dataclass(frozen=True, slots=True)
class Func:
    """`context` is what is known of the integer parameters, None for nothing."""

    name: str
    params: tuple[Buf | ScalarParam, ...]
    bufs: tuple[Buf, ...]
    comps: tuple[Comp, ...]
    loc: Loc
    effects: tuple[Effect, ...] = ()
    context: isl.Set | None = None

    def buf(self, name: str) -> Buf:
        return next(b for b in self.bufs if b.name == name)

    def comp(self, name: str) -> Comp:
        return next(c for c in self.comps if c.name == name)

    def with_comps(self, comps: tuple[Comp, ...]) -> Func:
        return replace(self, comps=comps)
