"""A `Func` as readable text: the arrays, then for each statement its domain, its schedule and its C-like assignment."""

from __future__ import annotations

from typing import assert_never

from plant_core.ir import Access, Binary, BinaryOp, Buf, Call, Cast, DType, Expr, Func, Iter, Param, Select, Unary, Val

_INFIX: dict[BinaryOp, tuple[str, int]] = {
    "mul": ("*", 10), "div": ("/", 10), "mod": ("%", 10), "add": ("+", 9), "sub": ("-", 9),
    "shl": ("<<", 8), "shr": (">>", 8), "lt": ("<", 7), "le": ("<=", 7), "gt": (">", 7), "ge": (">=", 7),
    "eq": ("==", 6), "ne": ("!=", 6), "and": ("&", 5), "xor": ("^", 4), "or": ("|", 3), "land": ("&&", 2),
    "lor": ("||", 1),
}  # fmt: skip
_UNARY = {"neg": "-", "not": "~", "lnot": "!"}
_HIGHEST = 11


def print_func(func: Func) -> str:
    """The whole program; two programs with the same text are the same program."""
    arguments = ", ".join(_buf(p) if isinstance(p, Buf) else f"{p.dtype} {p.name}" for p in func.params)
    lines = [f"func {func.name}({arguments})"]
    lines += [f"  local {_buf(buf)}" for buf in func.bufs if buf.kind == "local"]
    for comp in func.comps:
        lines += [
            f"  {comp.name} at line {comp.loc.line}",
            f"    domain   {comp.domain}",
            f"    schedule {comp.schedule}",
            f"    {print_expr(comp.target)} = {print_expr(comp.value)}",
        ]
    return "\n".join(lines) + "\n"


def print_expr(expr: Expr) -> str:
    """C-like text: `(f32)x` for a conversion, `floor(a / b)` for `floordiv`, and a suffix on constants."""
    return _expr(expr, 0)


def _buf(buf: Buf) -> str:
    return ("const " if buf.const else "") + f"{buf.dtype} {buf.name}" + "".join(f"[{n}]" for n in buf.shape)


def _constant(value: int | float, dtype: DType) -> str:
    suffix = {"i32": "", "f64": "", "f32": "f"}.get(dtype, dtype)
    return f"{value!r}{suffix}"


def _expr(expr: Expr, level: int) -> str:
    match expr:
        case Val(value, dtype):
            text = _constant(value, dtype)
            return f"({text})" if text.startswith("-") and level else text
        case Iter(name) | Param(name):
            return name
        case Cast(dtype, operand):
            return f"({dtype}){_expr(operand, _HIGHEST)}"
        case Unary(op, operand):
            if op in _UNARY:
                return f"{_UNARY[op]}{_expr(operand, _HIGHEST)}"
            return f"{op}({_expr(operand, 0)})"
        case Binary(op, left, right):
            return _binary(op, left, right, level)
        case Select(condition, true, false):
            text = f"{_expr(condition, 1)} ? {_expr(true, 1)} : {_expr(false, 1)}"
            return f"({text})" if level else text
        case Call(name, args):
            return f"{name}({', '.join(_expr(a, 0) for a in args)})"
        case Access(buf, indices):
            return buf + "".join(f"[{_expr(index, 0)}]" for index in indices)
        case _:
            assert_never(expr)


def _binary(op: BinaryOp, left: Expr, right: Expr, level: int) -> str:
    match op:
        case "min" | "max":
            return f"{op}({_expr(left, 0)}, {_expr(right, 0)})"
        case "floordiv":
            return f"floor({_expr(left, _INFIX['div'][1])} / {_expr(right, _HIGHEST)})"
    symbol, own = _INFIX[op]
    text = f"{_expr(left, own)} {symbol} {_expr(right, own + 1)}"
    return f"({text})" if own < level else text
