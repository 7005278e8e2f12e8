"""Normalize symbolic sizes: sums of products of integer parameters, and maxima and quotients of these."""

from __future__ import annotations

from plant_core.ir.func import Binary, Cast, Extent, Param, Unary, Val
from plant_core.ir.printer import print_expr
from plant_core.support.location import Loc, PlantError

Size = Extent  # in integer parameters of the function


_JOINS = ("add", "sub", "mul", "max")  # what makes a size of two others


def products(of: Size) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """A size as a sum of products, each a factor and parameters. Raises PlantError where it is none."""
    found: dict[tuple[str, ...], int] = {}
    for names, factor in _products(of):
        found[names] = found.get(names, 0) + factor
    return tuple((factor, names) for names, factor in found.items() if factor)


def is_sum(of: Size) -> bool:
    """Whether a size is a sum of products of parameters."""
    try:
        products(of)
    except PlantError:
        return False
    return True


def parts_of(of: Size) -> tuple[str, tuple[Size, ...], int]:
    """What a size is made of: `div` or `floordiv`, what is divided, and by which power of two; what else is no sum of
    products of parameters, its operation and operands; "sum", itself."""
    match of:
        case Binary(op="div" | "floordiv" as op, left=left, right=Val(value=int() as by)) if by > 0 and not by & (
            by - 1
        ):
            return op, (left,), by.bit_length() - 1
        case Binary(op=op, left=left, right=right) if op in _JOINS and not is_sum(of):
            return op, (left, right), 0
    return "sum", (of,), 0


def check_size(of: Size, loc: Loc | None) -> None:
    """That a size is made of sums, products and maxima of parameters and of sizes over powers of two. Raises
    PlantError where it is not."""
    kind, parts, _ = parts_of(of)
    if kind != "sum":
        for part in parts:
            check_size(part, loc)
    elif not isinstance(of, int) and not is_sum(of):
        raise PlantError(
            f"the size {print_expr(of)} of an array has more in it than sums, products and halves of parameters",
            loc=loc,
            code="DG205",
            remedy="make it a parameter of its own, or give the parameters' values with -D NAME=VALUE",
        )


def _products(of: Size) -> list[tuple[tuple[str, ...], int]]:
    match of:
        case int():
            return [((), of)]
        case Val(value=int() as value):
            return [((), value)]
        case Param(name=name):
            return [((name,), 1)]
        case Cast(operand=operand):
            return _products(operand)
        case Unary(op="neg", operand=operand):
            return [(names, -factor) for names, factor in _products(operand)]
        case Binary(op="add", left=left, right=right):
            return [*_products(left), *_products(right)]
        case Binary(op="sub", left=left, right=right):
            return [*_products(left), *((names, -factor) for names, factor in _products(right))]
        case Binary(op="mul", left=left, right=right):
            others = _products(right)
            return [((*a, *b), m * n) for a, m in _products(left) for b, n in others]
    raise PlantError(f"{print_expr(of)} is no sum of products of parameters")
