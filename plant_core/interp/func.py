"""The reference meaning of a `Func`: its statements run one by one in schedule order, over NumPy arrays.

isl scans the schedule; the scan and the statements are turned into Python source, which is quick enough for some
hundred thousand statement instances. Values follow C exactly, as `plant_core.ir.c_semantics` defines it.
"""

from __future__ import annotations

from functools import partial
from types import CodeType
from typing import Any

import islpy as isl
import numpy as np

from plant_core.interp.loop_tree import memory_after
from plant_core.interp.python_codegen import HELPERS, Array, Inputs, Source, initial, scalar
from plant_core.ir import c_semantics as values
from plant_core.ir.c_semantics import is_float
from plant_core.ir.func import (
    Buf,
    Func,
    ScalarParam,
)
from plant_core.ir.scheduled import as_written
from plant_core.normalize.bind_storage import resolve
from plant_core.scan import scan
from plant_core.support.location import PlantError
from plant_core.support.memoize import by_identity

_KEPT = 64  # programs, which may be evaluated again: pieces of a nest are, block after block


def evaluate(func: Func, inputs: Inputs) -> dict[str, Array]:
    """The contents of every non-const array parameter after the run; `inputs` has all parameters and isn't changed.

    Locals start as NaN (floats) or zero (integers). Raises PlantError for a missing or misshapen input, an access
    outside its array, or an integer division by zero.
    """
    memory = run(func, inputs)
    return {p.name: memory[p.name] for p in func.params if isinstance(p, Buf) and not p.const}


def run(func: Func, inputs: Inputs) -> dict[str, Array]:
    """As `evaluate`, with the final contents of every Buf, local ones included."""
    func = resolve(func)
    if func.effects or any(comp.defines is not None for comp in func.comps):
        return memory_after(func, scan(as_written(func)), inputs)
    parameters = {p.name: scalar(p, inputs) for p in func.params if isinstance(p, ScalarParam)}
    integers = {p.name: int(parameters[p.name]) for p in func.params if p.name in parameters and not is_float(p.dtype)}
    shapes = {buf.name: values.shape_of(buf, integers) for buf in func.bufs}
    memory = {buf.name: initial(buf, shapes[buf.name], inputs) for buf in func.bufs}
    code, constants = _code(func)
    scope: dict[str, Any] = {**HELPERS, **constants}
    scope.update({f"b_{name}": array for name, array in memory.items()})
    scope.update({f"p_{name}": value for name, value in parameters.items()})
    with np.errstate(all="ignore"):
        exec(code, scope)
    return memory


@partial(by_identity, kept=_KEPT)
def _code(func: Func) -> tuple[CodeType, dict[str, Any]]:
    """What to run, whatever the inputs are, and the values of the constants in it."""
    source, constants = _Statements(func).translate()
    return compile(source, f"<{func.name}>", "exec"), constants


class _Statements(Source):
    """A function for each Comp, then the scan that calls them."""

    def translate(self) -> tuple[str, dict[str, Any]]:
        statements: list[str] = []
        for comp in self.func.comps:
            self.arguments = ", ".join(f"i_{name}" for name in comp.iters)
            target = self.element(comp.target)
            statements += [f"def c_{comp.name}({self.arguments}):", f"    {target} = {self.expr(comp.value)}"]
            if comp.defines is not None:
                statements += [f"    global p_{comp.defines}", f"    p_{comp.defines} = int({target})"]
        return "\n".join([*self.parts, *statements, *_scan(self.func)]) + "\n", self.constants


def _scan(func: Func) -> list[str]:
    """The loops that call every statement instance in schedule order, as Python source."""
    if not func.comps:
        return []
    schedule = isl.UnionMap.from_map(func.comps[0].schedule.intersect_domain(func.comps[0].domain))
    for comp in func.comps[1:]:
        schedule = schedule.union(isl.UnionMap.from_map(comp.schedule.intersect_domain(comp.domain)))
    build = isl.AstBuild.from_context(isl.Set.universe(schedule.get_space().params()))
    parameters = {p.name: f"p_{p.name}" for p in func.params if isinstance(p, ScalarParam)}
    parameters |= {c.defines: f"p_{c.defines}" for c in func.comps if c.defines is not None}
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
