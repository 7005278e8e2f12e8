"""C++ text of values, subscripts and conditions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from backends.cpu.ir.context import value_of
from backends.cpu.ir.math import function
from backends.cpu.ir.names import identifier
from backends.cpu.ir.statements import Cell, Const, Get, Index, Lane, Op, Pack, Reverse, Scalar, Splat, Temp, Value
from plant_core.ir.c_semantics import is_float, size_of
from plant_core.ir.func import Binary, Buf, Cast, DType, Expr, Iter, Load, Param, Select, Unary, Val
from plant_core.support.location import PlantError

C_TYPES: dict[DType, str] = {
    "f32": "float",
    "f64": "double",
    "i8": "signed char",
    "i16": "short",
    "i32": "int",
    "i64": "long",
    "u8": "unsigned char",
    "u16": "unsigned short",
    "u32": "unsigned",
}

_ATOM, _UNARY, _MUL, _ADD, _SHIFT, _LESS, _EQUAL, _AND, _XOR, _OR, _LAND, _LOR, _COND = range(16, 3, -1)
_INFIX: dict[str, tuple[str, int]] = {
    "mul": ("*", _MUL), "div": ("/", _MUL), "mod": ("%", _MUL), "add": ("+", _ADD), "sub": ("-", _ADD),
    "shl": ("<<", _SHIFT), "shr": (">>", _SHIFT), "lt": ("<", _LESS), "le": ("<=", _LESS), "gt": (">", _LESS),
    "ge": (">=", _LESS), "eq": ("==", _EQUAL), "ne": ("!=", _EQUAL), "and": ("&", _AND), "xor": ("^", _XOR),
    "or": ("|", _OR), "land": ("&&", _LAND), "lor": ("||", _LOR),
}  # fmt: skip
_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "land", "lor"})
_NARROW = frozenset({"i8", "i16", "u8", "u16"})

Piece = tuple[str, int]
"""Text with the precedence of its outermost operator."""


def type_name(dtype: DType, lanes: int) -> str:
    return C_TYPES[dtype] if lanes == 1 else f"{dtype}x{lanes}"


def _in(piece: Piece, least: int) -> str:
    return piece[0] if piece[1] >= least else f"({piece[0]})"


@dataclass(slots=True)
class Writer:
    """Writes expressions; `vectors` and `helpers` collect what the text relies on."""

    bufs: dict[str, Buf]
    strict: bool
    vectors: set[tuple[DType, int]] = field(default_factory=set)
    helpers: set[str] = field(default_factory=set)
    functions: set[tuple[str, DType, int]] = field(default_factory=set)

    # Memory

    def cell(self, cell: Cell) -> str:
        name = identifier(cell.buf)
        if not cell.indices:
            return name if self.bufs[cell.buf].kind == "local" else f"*{name}"
        return name + "".join(f"[{self.index(i)}]" for i in cell.indices)

    def address(self, cell: Cell) -> str:
        return f"&{self.cell(cell)}"

    # Exact integers

    def index(self, expr: Expr) -> str:
        return self._index(expr)[0]

    def condition(self, expr: Expr) -> str:
        return self._index(expr)[0]

    def _index(self, expr: Expr) -> Piece:
        match expr:
            case Val(value=value):
                return (str(int(value)), _ATOM) if value >= 0 else (f"{int(value)}", _UNARY)
            case Iter(name=name) | Param(name=name):
                return identifier(name), _ATOM
            case Unary(op="neg", operand=operand, dtype="i32" | "i64"):
                return f"-{_in(self._index(operand), _ATOM)}", _UNARY
            case Unary(op="lnot", operand=operand):
                return f"!{_in(self._index(operand), _ATOM)}", _UNARY
            case Cast(dtype="i64" | "i32", operand=Iter() | Param(dtype="i32") as operand):
                return self._index(operand)
            case Binary(op="div" | "mod" as op, left=left, right=right, dtype="i32" | "i64") if _whole(left) and _whole(
                right
            ):
                return self._infix(op, self._index(left), self._index(right))
            case Binary(op="add" | "sub" | "mul" as op, left=left, right=right, dtype="i32" | "i64"):
                return self._infix(op, self._index(left), self._index(right))
            case Binary(op=op, left=left, right=right) if op in _COMPARISONS and _whole(left) and _whole(right):
                return self._infix(op, self._index(left), self._index(right))
            case Binary(op="min" | "max" | "floordiv" as op, left=left, right=right) if _whole(left) and _whole(right):
                helper = {"min": "index_min", "max": "index_max", "floordiv": "floordiv"}[op]
                self.helpers.add(helper)
                return f"{helper}({self.index(left)}, {self.index(right)})", _ATOM
            case Select(condition=condition, true=true, false=false) if _whole(true) and _whole(false):
                test, yes, no = (self._index(e) for e in (condition, true, false))
                return f"{_in(test, _LOR)} ? {_in(yes, _LOR)} : {_in(no, _LOR)}", _COND
            case _:
                return self._value(value_of(expr))

    # Values

    def value(self, value: Value) -> str:
        return self._value(value)[0]

    def operand(self, value: Value) -> str:
        """As the right side of an operator: a scalar stands for a vector of it where the compilers allow that."""
        return self._lanes(value)[0]

    def _value(self, value: Value) -> Piece:
        match value:
            case Const(value=number, dtype=dtype):
                return literal(number, dtype)
            case Index(expr=expr):
                return f"(int){_in(self._index(expr), _ATOM)}", _UNARY
            case Scalar(name=name):
                return identifier(name), _ATOM
            case Temp(name=name, dtype=dtype, lanes=lanes):
                self._use(dtype, lanes)
                return name, _ATOM
            case Get(cell=cell, dtype=dtype, lanes=1):
                place = self.cell(cell)
                return place, _UNARY if place.startswith("*") else _ATOM
            case Get(cell=cell, dtype=dtype, lanes=lanes, active=active) if active is not None:
                name = type_name(dtype, lanes)
                self._use(dtype, lanes)
                self.helpers.add(f"load_first:{dtype}:{lanes}")
                return f"load_first_{name}({self.address(cell)}, {self.index(active)})", _ATOM
            case Get(cell=cell, dtype=dtype, lanes=lanes):
                self._use(dtype, lanes)
                self.helpers.add("load")
                return f"load_{type_name(dtype, lanes)}({self.address(cell)})", _ATOM
            case Splat(value=inner, lanes=lanes):
                self._use(inner.dtype, lanes)
                self.helpers.add("splat")
                return f"splat<{type_name(inner.dtype, lanes)}>({self.value(inner)})", _ATOM
            case Pack(parts=items):
                self._use(value.dtype, value.lanes)
                return f"({type_name(value.dtype, value.lanes)}){{{', '.join(map(self.value, items))}}}", _ATOM
            case Lane(value=vector, lane=lane):
                return f"{_in(self._value(vector), _ATOM)}[{lane}]", _ATOM
            case Reverse(value=vector):
                self._use(vector.dtype, vector.lanes)
                self.helpers.add(f"reversed:{vector.dtype}:{vector.lanes}")
                return f"reversed({self.value(vector)})", _ATOM
            case Op():
                return self._op(value)

    def _use(self, dtype: DType, lanes: int) -> None:
        if lanes > 1:
            self.vectors.add((dtype, lanes))

    def _op(self, op: Op) -> Piece:
        self._use(op.dtype, op.lanes)
        if op.name.startswith("text:"):
            return f"({op.name[5:]})", _ATOM
        if op.name.startswith("call:"):
            return self._call(op)
        if op.name.startswith("reduce:"):
            return self._reduce(op)
        if op.name == "cast":
            return self._cast(op)
        if op.lanes > 1:
            return self._vector_op(op)
        return self._scalar_op(op)

    def _call(self, op: Op) -> Piece:
        name = function(op.name[5:], op.dtype)
        self.functions.add((name, op.dtype, len(op.args)))
        return f"{name}({', '.join(map(self.value, op.args))})", _ATOM

    def _reduce(self, op: Op) -> Piece:
        vector = op.args[0]
        kind = op.name.removeprefix("reduce:")
        helper = f"reduce_{kind}:{vector.dtype}:{vector.lanes}"
        self.helpers.add(helper)
        if kind in ("min", "max"):
            self.helpers.add("least" if kind == "min" else "greatest")
        lanes = vector.lanes
        while lanes > 1:
            self._use(vector.dtype, lanes)
            lanes //= 2
        return f"reduce_{kind}({self.value(vector)})", _ATOM

    def _cast(self, op: Op) -> Piece:
        inner = op.args[0]
        if inner.dtype == op.dtype:
            return self._value(inner)
        if isinstance(inner, Const) and is_float(inner.dtype) == is_float(op.dtype):
            number = float(np.float32(inner.value)) if op.dtype == "f32" else inner.value
            if is_float(op.dtype) or op.dtype in ("i32", "i64"):
                return literal(number, op.dtype)
        piece = self._value(inner)
        # As x86 converts: by way of a 32 or 64 bit signed integer, whatever instructions the compiler has.
        if is_float(inner.dtype) and not is_float(op.dtype) and op.dtype not in ("i32", "i64"):
            middle: DType = "i64" if op.dtype == "u32" else "i32"
            return self._convert(self._convert(piece, middle, op.lanes), op.dtype, op.lanes)
        return self._convert(piece, op.dtype, op.lanes)

    def _convert(self, piece: Piece, dtype: DType, lanes: int) -> Piece:
        if lanes == 1:
            return f"({C_TYPES[dtype]}){_in(piece, _UNARY)}", _UNARY
        self._use(dtype, lanes)
        return f"__builtin_convertvector({piece[0]}, {type_name(dtype, lanes)})", _ATOM

    def _infix(self, name: str, left: Piece, right: Piece) -> Piece:
        symbol, level = _INFIX[name]
        # Compilers warn about mixed bit operations, and readers stumble on them.
        strict = _UNARY if name in ("and", "or", "xor", "shl", "shr") else level
        right_text = _in(right, strict if strict != level else level + 1)
        return f"{_in(left, strict)} {symbol} {right_text}", level

    def _scalar_op(self, op: Op) -> Piece:
        args = [self._value(a) for a in op.args]
        kind = op.args[0].dtype
        match op.name:
            case "select":
                return f"{_in(args[0], _LOR)} ? {_in(args[1], _LOR)} : {_in(args[2], _LOR)}", _COND
            case "lnot":
                return f"!{_in(args[0], _UNARY)}", _UNARY
            case "neg" | "not":
                text = f"{'-' if op.name == 'neg' else '~'}{_in(args[0], _ATOM)}"
                return self._narrowed((text, _UNARY), op.dtype)
            case "abs" | "sqrt" | "min" | "max" | "floordiv":
                helper = {"abs": "magnitude", "sqrt": "root", "min": "least", "max": "greatest"}.get(op.name, op.name)
                self.helpers.add(helper)
                text = ", ".join(a for a, _ in args)
                if op.name == "floordiv":
                    return f"(int){helper}({text})", _UNARY
                return f"{helper}<{C_TYPES[op.dtype]}>({text})", _ATOM
            case "shl" | "shr":
                right = _shift_count(args[1], kind, op.args[1])
                return self._narrowed(self._infix(op.name, args[0], right), op.dtype)
            case name if name in _COMPARISONS:
                return self._infix(name, args[0], args[1])
            case name if name in _INFIX and not (is_float(kind) and name in ("mod", "and", "or", "xor")):
                return self._narrowed(self._infix(name, args[0], args[1]), op.dtype)
            case other:
                raise PlantError(f"'{other}' has no meaning on {kind}", code="DG601")

    def _narrowed(self, piece: Piece, dtype: DType) -> Piece:
        return (f"({C_TYPES[dtype]}){_in(piece, _ATOM)}", _UNARY) if dtype in _NARROW else piece

    def _vector_op(self, op: Op) -> Piece:
        match op.name:
            case "select":
                test, yes, no = (self._value(a) for a in op.args)
                return f"{_in(test, _LOR)} ? {_in(yes, _LOR)} : {_in(no, _LOR)}", _COND
            case "neg" | "not":
                return f"{'-' if op.name == 'neg' else '~'}{_in(self._value(op.args[0]), _ATOM)}", _UNARY
            case "abs" | "sqrt" | "min" | "max":
                helper = {"abs": "magnitude", "sqrt": "root", "min": "least", "max": "greatest"}[op.name]
                self.helpers.add(helper)
                return f"{helper}({', '.join(map(self.value, op.args))})", _ATOM
            case "mask":
                return f"{_in(self._wide(op.args[0], op.dtype), _EQUAL)} != 0", _EQUAL
            case "widen":
                return self._wide(op.args[0], op.dtype)
            case "truth":
                return f"{_in(self._wide(op.args[0], op.dtype), _AND)} & 1", _AND
            case "lnot":
                return f"~{_in(self._value(op.args[0]), _ATOM)}", _UNARY
            case "shl" | "shr":
                left, right = self._value(op.args[0]), self._value(op.args[1])
                return self._infix(op.name, left, _shift_count(right, op.dtype, op.args[1]))
            case "land" | "lor":
                return self._infix("and" if op.name == "land" else "or", *(self._value(a) for a in op.args))
            case name if name in _INFIX:
                one, other = op.args
                # At least one of the two has to be a vector in the text.
                first = self._value(one) if isinstance(other, Splat) else self._lanes(one)
                return self._infix(name, first, self._lanes(other))
            case other:
                raise PlantError(f"'{other}' has no vector form", code="DG601")

    def _wide(self, value: Value, dtype: DType) -> Piece:
        if value.dtype == dtype:
            return self._value(value)
        self._use(dtype, value.lanes)
        return f"__builtin_convertvector({self.value(value)}, {type_name(dtype, value.lanes)})", _ATOM

    def _lanes(self, value: Value) -> Piece:
        """An operand of a vector operator; the compilers spread scalars by themselves where the types agree."""
        if isinstance(value, Splat) and is_float(value.dtype):
            return self._value(value.value)
        return self._value(value)


def _whole(expr: Expr) -> bool:
    """Whether the expression is of an integer type that exact arithmetic covers."""
    match expr:
        case Val(value=int()) | Iter():
            return True
        case Param(dtype=dtype) | Load(dtype=dtype):
            return not is_float(dtype)
        case Cast(dtype="i64" | "i32", operand=operand):
            return _whole(operand)
        case Unary(op="neg" | "lnot", operand=operand):
            return _whole(operand)
        case Binary(
            op="add" | "sub" | "mul" | "div" | "mod" | "min" | "max" | "floordiv", left=left, right=right, dtype=dtype
        ):
            return dtype in ("i32", "i64") and _whole(left) and _whole(right)
        case Binary(op=op, left=left, right=right) if op in _COMPARISONS:
            return _whole(left) and _whole(right)
        case Select(condition=condition, true=true, false=false):
            return all(map(_whole, (condition, true, false)))
        case _:
            return False


def _shift_count(piece: Piece, dtype: DType, count: Value) -> Piece:
    bits = 8 * size_of(dtype)
    if isinstance(count, Const) and 0 <= count.value < bits:
        return piece
    return f"{_in(piece, _UNARY)} & {bits - 1}", _AND


def literal(number: int | float, dtype: DType) -> Piece:
    if not is_float(dtype):
        return _integer_literal(int(number), dtype)
    suffix = "f" if dtype == "f32" else ""
    real = float(np.float32(number)) if dtype == "f32" else float(number)
    if math.isnan(real):
        return f'__builtin_nan{suffix}("")', _ATOM
    if math.isinf(real):
        return f"{'-' if real < 0 else ''}__builtin_inf{suffix}()", _UNARY
    text = str(np.float32(real)) if dtype == "f32" else repr(real)
    if not any(c in text for c in ".e"):
        text += ".0"
    return text + suffix, _UNARY if text.startswith("-") else _ATOM


def _integer_literal(value: int, dtype: DType) -> Piece:
    bits = 8 * size_of(dtype)
    suffix = {"i64": "L", "u32": "u"}.get(dtype, "")
    if dtype.startswith("i") and value == -(1 << (bits - 1)) and bits >= 32:
        return f"({value + 1}{suffix} - 1)", _ATOM
    return f"{value}{suffix}", _UNARY if value < 0 else _ATOM
