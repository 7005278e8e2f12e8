"""Expressions, assignments and initial values of a program for Python source, with C's values throughout.

Names in the source: `b_x` a Buf's array, `p_n` a parameter, `i_j` an iterator, `k_0` a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

import islpy as isl
import numpy as np
import numpy.typing as npt

from plant_core.ir import c_semantics as values
from plant_core.ir.accesses import accesses
from plant_core.ir.c_semantics import INTEGERS, NUMPY, dtype_of, is_float
from plant_core.ir.func import (
    Access,
    Binary,
    BinaryOp,
    Buf,
    Call,
    Cast,
    DType,
    Expr,
    Func,
    Iter,
    Load,
    Param,
    Ramp,
    ScalarParam,
    Select,
    Unary,
    Val,
    Verbatim,
)
from plant_core.ir.printer import print_expr
from plant_core.support.location import Loc, PlantError

Array = npt.NDArray[Any]
Inputs = Mapping[str, Array | int | float]


def initial(buf: Buf, shape: tuple[int, ...], inputs: Inputs) -> Array:
    dtype = NUMPY[buf.dtype]
    if buf.kind == "local":
        return np.full(shape, np.nan if is_float(buf.dtype) else 0, dtype)
    if buf.name not in inputs:
        raise PlantError(f"no input for the array '{buf.name}'", loc=buf.loc)
    array = np.asarray(inputs[buf.name])
    if array.shape != shape:
        raise PlantError(f"'{buf.name}' has shape {shape}, its input has {array.shape}", loc=buf.loc)
    return array.astype(dtype)


def scalar(param: ScalarParam, inputs: Inputs) -> Any:
    if param.name not in inputs:
        raise PlantError(f"no input for the parameter '{param.name}'", loc=param.loc)
    value: Any = inputs[param.name]
    return values.typed(value.item() if isinstance(value, np.ndarray | np.generic) else value, param.dtype)


def _check_index(index: int, extent: int, name: str, loc: Loc | None) -> int:
    if not 0 <= index < extent:
        raise PlantError(f"element {index} of '{name}', which has {extent} there, is accessed", loc=loc)
    return index


def _fmin(left: Any, right: Any) -> Any:
    return np.fmin(left, right)


def _fmax(left: Any, right: Any) -> Any:
    return np.fmax(left, right)


HELPERS: dict[str, Callable[..., Any]] = {
    "call": values.call,
    "check_index": _check_index,
    "convert": values.convert,
    "divide": values.divide,
    "remainder": values.remainder,
    "fmin": _fmin,
    "fmax": _fmax,
    "sqrt": np.sqrt,
    "f32": np.float32,
    "f64": np.float64,
    "i64": np.int64,
}

_INFIX: dict[BinaryOp, str] = {
    "add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "floordiv": "//",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "land": "and", "lor": "or",
}  # fmt: skip


_DEEPEST = 60


class Source:
    """Makes source of a Func's expressions. `constants` has the values of the names that it gives out; `parts` are
    functions to define first, each of the iterators in `arguments`."""

    def __init__(self, func: Func) -> None:
        self.func = func
        self.constants: dict[str, Any] = {}
        self.arguments = ""
        self.parts: list[str] = []
        # Fixed sizes were checked when the program was read; what varies can only be checked now.
        self._check = _varies(func)

    def constant(self, value: Any) -> str:
        name = f"k_{len(self.constants)}"
        self.constants[name] = value
        return name

    def element(self, access: Load) -> str:
        texts = [self.expr(index) for index in access.indices]
        if self._check:
            where = self.constant(access.loc)
            texts = [
                f"check_index({text}, b_{access.buf}.shape[{k}], {access.buf!r}, {where})"
                for k, text in enumerate(texts)
            ]
        return f"b_{access.buf}[{', '.join(texts) or '()'}]"

    def expr(self, expr: Expr) -> str:
        """A Python expression; deep ones call functions for their parts, as Python limits how deep source may nest."""
        text = self._nested(expr)
        if not _is_deep(text):
            return text
        name = f"e_{len(self.parts)}"
        self.parts += [f"def {name}({self.arguments}):", f"    return {text}"]
        return f"{name}({self.arguments})"

    def _nested(self, expr: Expr) -> str:
        match expr:
            case Val(value, dtype):
                return self.constant(values.typed(value, dtype)) if is_float(dtype) else f"({int(value)})"
            case Iter(name):
                return f"i_{name}"
            case Param(name):
                return f"p_{name}"
            case Cast(dtype, operand):
                return _conversion(self.expr(operand), dtype_of(operand), dtype)
            case Unary():
                return self._unary(expr)
            case Binary():
                return self._binary(expr)
            case Select(condition, true, false):
                return f"({self.expr(true)} if {self.expr(condition)} else {self.expr(false)})"
            case Call(name, args, dtype):
                return f"call({', '.join([repr(name), repr(dtype), *(self.expr(a) for a in args)])})"
            case Load(_, _, dtype):
                element = self.element(expr)
                return element if is_float(dtype) else f"int({element})"
            case Access() | Ramp() | Verbatim():
                raise PlantError(f"'{print_expr(expr)}' has no value before it is lowered")
            case _:
                assert_never(expr)

    def _unary(self, expr: Unary) -> str:
        operand = self.expr(expr.operand)
        match expr.op:
            case "neg":
                return _wrapped(f"-{operand}", expr.dtype)
            case "not":
                return _wrapped(f"~{operand}", expr.dtype)
            case "lnot":
                return f"(0 if {operand} else 1)"
            case "abs":
                return _wrapped(f"abs({operand})", expr.dtype)
            case "sqrt":
                return f"sqrt({operand})"
            case _:
                assert_never(expr.op)

    def _binary(self, expr: Binary) -> str:
        left, right = self.expr(expr.left), self.expr(expr.right)
        dtype = dtype_of(expr.left)
        floating = is_float(dtype)
        match expr.op:
            case "add" | "sub" | "mul" | "and" | "or" | "xor" | "floordiv":
                return _wrapped(f"{left} {_INFIX[expr.op]} {right}", dtype)
            case "lt" | "le" | "gt" | "ge" | "eq" | "ne" | "land" | "lor":
                return f"(1 if {left} {_INFIX[expr.op]} {right} else 0)"
            case "div":
                return f"({left} / {right})" if floating else _wrapped(f"divide({left}, {right})", dtype)
            case "mod":
                return _wrapped(f"remainder({left}, {right})", dtype)
            case "min" | "max":
                return f"{'f' if floating else ''}{expr.op}({left}, {right})"
            case "shl" | "shr":
                shift = "<<" if expr.op == "shl" else ">>"
                return _wrapped(f"{left} {shift} ({right} & {INTEGERS[dtype][0] - 1})", dtype)
            case _:
                assert_never(expr.op)


def _varies(func: Func) -> bool:
    """Whether some element's place, or some array's size, is known only when the program runs."""
    if any(not isinstance(extent, int) for buf in func.bufs for extent in buf.shape):
        return True
    loads = (a for c in func.comps for a in (c.target, *accesses(c.target), *accesses(c.value)))
    return any(c.domain.dim(isl.dim_type.param) for c in func.comps) or any(
        isinstance(part, Load) for load in loads for index in load.indices for part in accesses(index)
    )


def _is_deep(text: str) -> bool:
    if text.count("(") + text.count("[") < _DEEPEST:
        return False
    depth = deepest = 0
    for character in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        deepest = max(deepest, depth)
    return deepest >= _DEEPEST


def _wrapped(text: str, dtype: DType) -> str:
    if is_float(dtype):
        return f"({text})"
    bits, signed = INTEGERS[dtype]
    mask, half = (1 << bits) - 1, 1 << (bits - 1)
    return f"(((({text}) + {half}) & {mask}) - {half})" if signed else f"(({text}) & {mask})"


def _conversion(text: str, source: DType, target: DType) -> str:
    if is_float(source) and not is_float(target):
        return f"convert({text}, {source!r}, {target!r})"
    if is_float(target):
        return f"{target}({text if is_float(source) else f'i64({text})'})"
    return _wrapped(text, target)
