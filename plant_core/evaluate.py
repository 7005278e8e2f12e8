"""The reference meaning of a `Func`: its statements run one by one in schedule order, over NumPy arrays.

isl scans the schedule; the scan and the statements are turned into Python source, which is quick enough for some
hundred thousand statement instances. Values follow C exactly, as `plant_core.values` defines it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

import islpy as isl
import numpy as np
import numpy.typing as npt

from plant_core import values
from plant_core.ir import (
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
    Param,
    ScalarParam,
    Select,
    Unary,
    Val,
)
from plant_core.loc import Loc, PlantError
from plant_core.values import INTEGERS, NUMPY, dtype_of, is_float

Array = npt.NDArray[Any]
Inputs = Mapping[str, Array | int | float]


def evaluate(func: Func, inputs: Inputs) -> dict[str, Array]:
    """The contents of every non-const array parameter after the run; `inputs` has all parameters and isn't changed.

    Locals start as NaN (floats) or zero (integers). Raises PlantError for a missing or misshapen input, an access
    outside its array, or an integer division by zero.
    """
    memory = run(func, inputs)
    return {p.name: memory[p.name] for p in func.params if isinstance(p, Buf) and not p.const}


def run(func: Func, inputs: Inputs) -> dict[str, Array]:
    """As `evaluate`, with the final contents of every Buf, local ones included."""
    memory = {buf.name: _initial(buf, inputs) for buf in func.bufs}
    parameters = {p.name: _scalar(p, inputs) for p in func.params if isinstance(p, ScalarParam)}
    source, constants = _Source(func).translate()
    scope: dict[str, Any] = dict(_HELPERS)
    scope.update(constants)
    scope.update({f"b_{name}": array for name, array in memory.items()})
    scope.update({f"p_{name}": value for name, value in parameters.items()})
    with np.errstate(all="ignore"):
        exec(compile(source, f"<{func.name}>", "exec"), scope)
    return memory


def _initial(buf: Buf, inputs: Inputs) -> Array:
    dtype = NUMPY[buf.dtype]
    if buf.kind == "local":
        return np.full(buf.shape, np.nan if is_float(buf.dtype) else 0, dtype)
    if buf.name not in inputs:
        raise PlantError(f"no input for the array '{buf.name}'", loc=buf.loc)
    array = np.asarray(inputs[buf.name])
    if array.shape != buf.shape:
        raise PlantError(f"'{buf.name}' has shape {buf.shape}, its input has {array.shape}", loc=buf.loc)
    return array.astype(dtype)


def _scalar(param: ScalarParam, inputs: Inputs) -> Any:
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


_HELPERS: dict[str, Callable[..., Any]] = {
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


class _Source:
    """Python source of one Func: a function for each Comp, then the scan that calls them."""

    def __init__(self, func: Func) -> None:
        self._func = func
        self._shapes = {buf.name: buf.shape for buf in func.bufs}
        self._constants: dict[str, Any] = {}
        self._arguments = ""
        self._parts: list[str] = []
        # Fixed sizes were checked when the program was read; symbolic ones can only be checked now.
        self._check = any(c.domain.dim(isl.dim_type.param) for c in func.comps)

    def translate(self) -> tuple[str, dict[str, Any]]:
        statements: list[str] = []
        for comp in self._func.comps:
            self._arguments = ", ".join(f"i_{name}" for name in comp.iters)
            statements += [
                f"def c_{comp.name}({self._arguments}):",
                f"    {self._element(comp.target)} = {self._expr(comp.value)}",
            ]
        return "\n".join([*self._parts, *statements, *_scan(self._func)]) + "\n", self._constants

    def _constant(self, value: Any) -> str:
        name = f"k_{len(self._constants)}"
        self._constants[name] = value
        return name

    def _element(self, access: Access) -> str:
        texts = [self._expr(index) for index in access.indices]
        if self._check:
            where = self._constant(access.loc)
            texts = [
                f"check_index({text}, {extent}, {access.buf!r}, {where})"
                for text, extent in zip(texts, self._shapes[access.buf], strict=True)
            ]
        return f"b_{access.buf}[{', '.join(texts) or '()'}]"

    def _expr(self, expr: Expr) -> str:
        """A Python expression; deep ones call functions for their parts, as Python limits how deep source may nest."""
        text = self._nested(expr)
        if _depth(text) < _DEEPEST:
            return text
        name = f"e_{len(self._parts)}"
        self._parts += [f"def {name}({self._arguments}):", f"    return {text}"]
        return f"{name}({self._arguments})"

    def _nested(self, expr: Expr) -> str:
        match expr:
            case Val(value, dtype):
                return self._constant(values.typed(value, dtype)) if is_float(dtype) else f"({int(value)})"
            case Iter(name):
                return f"i_{name}"
            case Param(name):
                return f"p_{name}"
            case Cast(dtype, operand):
                return _conversion(self._expr(operand), dtype_of(operand), dtype)
            case Unary():
                return self._unary(expr)
            case Binary():
                return self._binary(expr)
            case Select(condition, true, false):
                return f"({self._expr(true)} if {self._expr(condition)} else {self._expr(false)})"
            case Call(name):
                raise PlantError(f"the function '{name}' has no definition")
            case Access(_, _, dtype):
                element = self._element(expr)
                return element if is_float(dtype) else f"int({element})"
            case _:
                assert_never(expr)

    def _unary(self, expr: Unary) -> str:
        operand = self._expr(expr.operand)
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
        left, right = self._expr(expr.left), self._expr(expr.right)
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


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        deepest = max(deepest, depth)
    return deepest


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


def _scan(func: Func) -> list[str]:
    """The loops that call every statement instance in schedule order, as Python source."""
    if not func.comps:
        return []
    schedule = isl.UnionMap.from_map(func.comps[0].schedule.intersect_domain(func.comps[0].domain))
    for comp in func.comps[1:]:
        schedule = schedule.union(isl.UnionMap.from_map(comp.schedule.intersect_domain(comp.domain)))
    build = isl.AstBuild.from_context(isl.Set.universe(schedule.get_space().params()))
    parameters = {p.name: f"p_{p.name}" for p in func.params if isinstance(p, ScalarParam)}
    return _node(build.node_from_schedule_map(schedule), "", parameters)


def _node(node: Any, indent: str, names: dict[str, str]) -> list[str]:
    match node.get_type().name:
        case "for_":
            return _loop(node, indent, names)
        case "if_":
            lines = [f"{indent}if {_ast(node.if_get_cond(), names)}:"]
            lines += _node(node.if_get_then_node(), indent + " ", names)
            if node.if_has_else_node():
                lines += [f"{indent}else:", *_node(node.if_get_else_node(), indent + " ", names)]
            return lines
        case "block":
            children = node.block_get_children()
            lines = [x for k in range(children.n_ast_node()) for x in _node(children.get_at(k), indent, names)]
            return lines or [f"{indent}pass"]
        case "user":
            call = node.user_get_expr()
            arguments = [_ast(call.get_op_arg(k), names) for k in range(1, call.get_op_n_arg())]
            return [f"{indent}c_{call.get_op_arg(0).get_id().get_name()}({', '.join(arguments)})"]
        case other:
            raise PlantError(f"the loop scan has a node of an unknown kind ({other})")


def _loop(node: Any, indent: str, names: dict[str, str]) -> list[str]:
    name = node.for_get_iterator().get_id().get_name()
    inner = {**names, name: f"t_{name}"}
    start = _ast(node.for_get_init(), names)
    if node.for_is_degenerate():
        return [f"{indent}t_{name} = {start}", *_node(node.for_get_body(), indent, inner)]
    step = _ast(node.for_get_inc(), names)
    condition = node.for_get_cond()
    bound = _ast(condition.get_op_arg(1), inner)
    exclusive = bound if condition.get_op_type() == isl.ast_expr_op_type.lt else f"{bound} + 1"
    header = f"{indent}for t_{name} in range({start}, {exclusive}, {step}):"
    return [header, *_node(node.for_get_body(), indent + " ", inner)]


_FOLDED = {
    "and_": "and", "and_then": "and", "or_": "or", "or_else": "or", "add": "+", "sub": "-", "mul": "*", "div": "//",
    "fdiv_q": "//", "pdiv_q": "//", "pdiv_r": "%", "zdiv_r": "%",
    "eq": "==", "le": "<=", "lt": "<", "ge": ">=", "gt": ">",
}  # fmt: skip


def _ast(expr: Any, names: dict[str, str]) -> str:
    match expr.get_type():
        case isl.ast_expr_type.int:
            return f"({expr.get_val().to_python()})"
        case isl.ast_expr_type.id:
            return names[expr.get_id().get_name()]
    arguments = [_ast(expr.get_op_arg(k), names) for k in range(expr.get_op_n_arg())]
    match expr.get_op_type().name:
        case "max" | "min" as name:
            return f"{name}({', '.join(arguments)})"
        case "minus":
            return f"(-{arguments[0]})"
        case "cond" | "select":
            return f"({arguments[1]} if {arguments[0]} else {arguments[2]})"
        case name if name in _FOLDED:
            return "(" + f" {_FOLDED[name]} ".join(arguments) + ")"
        case name:
            raise PlantError(f"the loop scan has an operation of an unknown kind ({name})")
