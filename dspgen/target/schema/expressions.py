"""Integer figures written as expressions over `lanes` and `units.NAME.count`, as in `bytes = "4*lanes"`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_MAX_EXPONENT = 4096


class ExpressionError(ValueError):
    """The text is not an integer expression of known names."""


def evaluate(text: str, names: Mapping[str, int]) -> int:
    """The value of `text`: integers, names (dotted ones too), `+ - * / // **` and parentheses; `/` must be exact."""
    try:
        tree = ast.parse(" ".join(text.split()), mode="eval")
    except (SyntaxError, ValueError, RecursionError) as fault:
        raise ExpressionError(f"`{text}` is not an integer expression") from fault
    return _value(tree.body, text, names)


def _value(node: ast.expr, text: str, names: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(node.value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, text, names)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, text, names)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _value(left, text, names), _value(right, text, names), text)
        case ast.Name() | ast.Attribute():
            name = ast.unparse(node)
            if name in names:
                return names[name]
            known = ", ".join(f"`{n}`" for n in names)
            raise ExpressionError(f"`{name}` in `{text}` is not a known figure; known: {known}")
        case _:
            raise ExpressionError(f"`{text}` may hold only integers, figures' names, + - * / // ** and parentheses")


def _binary(op: ast.operator, left: int, right: int, text: str) -> int:
    if function := _BINARY.get(type(op)):
        return function(left, right)
    if isinstance(op, ast.Pow):
        if not 0 <= right <= _MAX_EXPONENT or left.bit_length() > 64:
            raise ExpressionError(f"the power in `{text}` is out of range")
        return int(left**right)
    if not isinstance(op, ast.Div | ast.FloorDiv):
        raise ExpressionError(f"`{text}` may hold only + - * / // **")
    if right == 0:
        raise ExpressionError(f"`{text}` divides by zero")
    if isinstance(op, ast.Div) and left % right:
        raise ExpressionError(f"`{text}` is not a whole number: {left} / {right}")
    return left // right
