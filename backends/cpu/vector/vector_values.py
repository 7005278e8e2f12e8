"""Expressions on a vector of consecutive iterations of one loop."""

from __future__ import annotations

from dataclasses import dataclass, field

from backends.cpu.ir.alias_analysis import Ranges, at_least
from backends.cpu.ir.context import Lowering, is_index, of_one_type, value_of
from backends.cpu.ir.statements import Cell, Const, Get, Index, Op, Pack, Reverse, Splat, Value
from backends.cpu.passes.constant_folding import simplified
from plant_core.ir.accesses import accesses, add, children, integer, linear, substitute
from plant_core.ir.c_semantics import is_float, size_of
from plant_core.ir.func import Binary, Call, Cast, DType, Expr, Iter, Load, Select, Unary, Verbatim

_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_MASKS: dict[int, DType] = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
PARTIAL = frozenset({(16, "f32"), (16, "i32"), (16, "u32"), (8, "f32"), (8, "i32"), (8, "u32"), (8, "f64"), (8, "i64")})
"""Lanes and types that machines with 64 byte vectors load and store in part."""


class NotVector(Exception):
    """Why a loop can't be written with vectors."""


def mentions(expr: Expr, name: str) -> bool:
    if isinstance(expr, Iter):
        return expr.name == name
    return any(mentions(part, name) for part in children(expr))


def stride_of(load: Load, name: str, step: int) -> int | None:
    """How many elements of its row `load` moves with a step of the loop `name`; None where that isn't a constant."""
    *outer, last = load.indices or (integer(0),)
    form = linear(last)
    if form is None or any(mentions(i, name) for i in outer) or any(True for _ in accesses(last)):
        return None
    return form[1].get(name, 0) * step


def apart(target: Load, name: str) -> bool:
    """Whether different iterations of the loop `name`, all else the same, provably have different elements."""
    forms = [None if any(True for _ in accesses(i)) else linear(i) for i in target.indices]
    return any(form is not None and form[1].get(name, 0) != 0 for form in forms)


@dataclass(slots=True)
class VectorValues:
    """`lanes` iterations of `iterator`: `first`, `first + step`, ... `target`: what the statement assigns to."""

    low: Lowering
    iterator: str
    first: Expr
    step: int
    lanes: int
    ranges: Ranges
    target: Load
    active: Expr | None = None
    certain: set[tuple[str, tuple[Expr, ...]]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.certain.add((self.target.buf, self.target.indices))

    # Places

    def lane(self, expr: Expr, k: int) -> Expr:
        """`expr` in lane `k`."""
        place = add(self.first, integer(k * self.step))
        return simplified(substitute(expr, {self.iterator: place}))

    def cell(self, load: Load, k: int) -> Cell:
        return Cell(load.buf, tuple(self.lane(i, k) for i in load.indices))

    def stride(self, load: Load) -> int | None:
        """How many elements apart the lanes are; None where that isn't a constant number within a row."""
        return stride_of(load, self.iterator, self.step)

    # Values

    def spread(self, value: Value) -> Value:
        return value if value.lanes > 1 else Splat(value, self.lanes)

    def value(self, expr: Expr) -> Value:
        """A vector, or a scalar where all lanes have the same; masks come as 0 and 1."""
        if not mentions(expr, self.iterator):
            self.note(expr)
            return value_of(expr)
        if is_index(expr):
            return self.index(expr)
        match expr:
            case Load():
                return self.load(expr)
            case Cast(dtype=dtype, operand=operand):
                inner = self.value(operand)
                return Op("cast", (inner,), dtype, inner.lanes)
            case Unary(op="lnot") | Binary(op="land" | "lor"):
                return Op("truth", (self.mask(expr),), "i32", self.lanes)
            case Unary(op=op, operand=operand, dtype=dtype):
                inner = self.value(operand)
                return Op(op, (inner,), dtype, inner.lanes)
            case Binary(op=op) if op in _COMPARISONS:
                return Op("truth", (self.mask(expr),), "i32", self.lanes)
            case Binary(op="floordiv"):
                return Pack(tuple(value_of(self.lane(expr, k)) for k in range(self.lanes)))
            case Binary(op="div" | "mod", dtype=dtype) if self.active is not None and not is_float(dtype):
                raise NotVector("lanes without an iteration would divide by zero")
            case Binary(op=op, left=left, right=right, dtype=dtype):
                return Op(op, self.sides(op, left, right, dtype), dtype, self.lanes)
            case Select():
                return self.select(expr)
            case Call(name=name):
                raise NotVector(f"'{name}' has no vector form here")
            case Verbatim():
                raise NotVector("it has text in it")
            case _:
                raise NotVector("it has a value without a vector form")

    def sides(self, op: str, left: Expr, right: Expr, dtype: DType) -> tuple[Value, Value]:
        one, other = of_one_type(op, self.value(left), self.value(right), dtype)
        return self.spread(one), self.spread(other)

    def index(self, expr: Expr) -> Value:
        form = linear(expr)
        if form is None:
            return Pack(tuple(value_of(self.lane(expr, k)) for k in range(self.lanes)))
        factor = form[1][self.iterator] * self.step if self.iterator in form[1] else 0
        start = value_of(self.lane(expr, 0))
        steps = Pack(tuple(Const(k * factor, "i32") for k in range(self.lanes)))
        return Op("add", (Splat(start, self.lanes), steps), "i32", self.lanes) if factor else start

    def load(self, load: Load) -> Value:
        self.certain.add((load.buf, load.indices))
        stride = self.stride(load)
        if stride == 1:
            if self.active is not None and (self.lanes, load.dtype) not in PARTIAL:
                raise NotVector("its vectors have no partial form")
            return Get(self.cell(load, 0), load.dtype, self.lanes, self.active)
        if self.active is not None:
            raise NotVector("it reads elements that don't follow one another")
        if stride == -1:
            return Reverse(Get(self.cell(load, self.lanes - 1), load.dtype, self.lanes))
        return Pack(tuple(Get(self.cell(load, k), load.dtype, 1) for k in range(self.lanes)))

    def note(self, expr: Expr) -> None:
        for access in accesses(expr):
            self.certain.add((access.buf, access.indices))

    def only_active(self, value: Value, otherwise: Const) -> Value:
        """`value` in the lanes that have an iteration."""
        if self.active is None:
            return value
        numbers = Pack(tuple(Const(k, "i32") for k in range(self.lanes)))
        test = Op("lt", (numbers, Splat(Index(self.active), self.lanes)), "i32", self.lanes)
        mask = self.widened(test, _MASKS[size_of(value.dtype)])
        return Op("select", (mask, value, Splat(otherwise, self.lanes)), value.dtype, self.lanes)

    # Conditions

    def mask(self, expr: Expr) -> Value:
        """A vector of 0 and -1 for an expression that differs between lanes; its dtype is as wide as it likes."""
        match expr:
            case Unary(op="lnot", operand=operand):
                return self.inverted(self.mask(operand))
            case Binary(op="land" | "lor" as op, left=left, right=right):
                one = self.mask(left)
                self.check_safe(right)
                two = self.mask(right)
                dtype = max(one.dtype, two.dtype, key=size_of)
                return Op(op, (self.widened(one, dtype), self.widened(two, dtype)), dtype, self.lanes)
            case Binary(op=op, left=left, right=right) if op in _COMPARISONS:
                sides = self.sides(op, left, right, "i32")
                return Op(op, sides, _MASKS[size_of(sides[0].dtype)], self.lanes)
            case _:
                value = self.spread(self.value(expr))
                zero = Splat(Const(0, value.dtype), self.lanes)
                return Op("ne", (value, zero), _MASKS[size_of(value.dtype)], self.lanes)

    def inverted(self, mask: Value) -> Value:
        return Op("lnot", (mask,), mask.dtype, self.lanes)

    def widened(self, mask: Value, dtype: DType) -> Value:
        return mask if mask.dtype == dtype else Op("widen", (mask,), dtype, self.lanes)

    def select(self, expr: Select) -> Value:
        if not mentions(expr.condition, self.iterator):
            test = self.value(expr.condition)
            arms = (self.arm(e, expr.dtype) for e in (expr.true, expr.false))
            return Op("select", (test, *arms), expr.dtype, self.lanes)
        test = self.mask(expr.condition)
        self.check_safe(expr.true)
        self.check_safe(expr.false)
        yes, no = self.arm(expr.true, expr.dtype), self.arm(expr.false, expr.dtype)
        return Op("select", (self.widened(test, _MASKS[size_of(expr.dtype)]), yes, no), expr.dtype, self.lanes)

    def arm(self, expr: Expr, dtype: DType) -> Value:
        value = self.value(expr)
        return self.spread(value if value.dtype == dtype else Op("cast", (value,), dtype, value.lanes))

    def check_safe(self, expr: Expr) -> None:
        """All lanes compute `expr`, even those that don't need it: it must not fault in those."""
        for access in accesses(expr):
            if (access.buf, access.indices) not in self.certain and not self.inside(access):
                raise NotVector(f"only some lanes may read '{access.buf}' there")
        if _divides(expr):
            raise NotVector("only some lanes may divide")

    def inside(self, access: Load) -> bool:
        """Whether every lane's element provably is in its array."""
        last = add(self.first, integer((self.lanes - 1) * self.step))
        for extent, index in zip(self.low.bufs[access.buf].shape, access.indices, strict=True):
            for place in (self.first, last):
                form = linear(simplified(substitute(index, {self.iterator: place})))
                if form is None or not isinstance(extent, int) or any(True for _ in accesses(index)):
                    return False
                above = extent - 1 - form[0], {n: -c for n, c in form[1].items()}
                if not at_least(form, 0, self.ranges) or not at_least(above, 0, self.ranges):
                    return False
        return True


def _divides(expr: Expr) -> bool:
    match expr:
        case Binary(op="div" | "mod" | "floordiv", dtype=dtype) if not is_float(dtype):
            return True
        case _:
            return any(map(_divides, children(expr)))
