"""Small Funcs for tests of plant_core, written as isl strings and C-like expressions."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

import islpy as isl

from plant_core.ir.func import (
    Binary,
    BinaryOp,
    Buf,
    Comp,
    DType,
    Expr,
    Func,
    Iter,
    Load,
    Param,
    ScalarParam,
    Unary,
    Val,
)
from plant_core.ir.loop_tree import Tag
from plant_core.ir.scheduled import AstOption, Nest
from plant_core.support.location import Loc

_OPS: dict[type[ast.operator], BinaryOp] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Div: "div", ast.Mod: "mod",
}  # fmt: skip


def nest_of(
    name: str,
    loops: str,
    relation: str,
    tags: dict[str, Tag] | None = None,
    options: dict[str, AstOption] | None = None,
) -> Nest:
    return Nest(
        name, tuple(loops.split()), isl.Map(relation), tuple((tags or {}).items()), tuple((options or {}).items())
    )


def lines_of(text: str) -> str:
    """A golden text, without the indentation that it has in a test."""
    lines = text.strip("\n").split("\n")
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    return "".join(f"{line[indent:]}\n" for line in lines if line.strip())


@dataclass
class Builder:
    """`comp("i,j", "0 <= i < 4 and 0 <= j < 8", [0, "i", 0, "j", 0], "C[i, j] = C[i, j] + A[i, j]")`."""

    arrays: dict[str, tuple[int, ...]]
    local: tuple[str, ...] = ()
    const: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    dtype: DType = "f32"
    comps: list[tuple[str, str, list[int | str], str]] = field(default_factory=list)

    def comp(self, iters: str, domain: str, schedule: list[int | str], statement: str) -> Builder:
        self.comps.append((iters, domain, schedule, statement))
        return self

    def func(self) -> Func:
        bufs = tuple(
            Buf(name, self.dtype, shape, "local" if name in self.local else "param", name in self.const)
            for name, shape in self.arrays.items()
        )
        length = max(len(schedule) for _, _, schedule, _ in self.comps)
        comps = tuple(self._comp(k, *entry, length) for k, entry in enumerate(self.comps))
        scalars = tuple(ScalarParam(name, "i32") for name in self.params)
        return Func("kernel", (*(b for b in bufs if b.kind == "param"), *scalars), bufs, comps, Loc("t.c", 1))

    def _comp(self, number: int, iters: str, domain: str, schedule: list[int | str], text: str, length: int) -> Comp:
        names = tuple(n.strip() for n in iters.split(",") if n.strip())
        head = f"[{', '.join(self.params)}] -> "
        instance = f"S{number}[{', '.join(names)}]"
        times = ", ".join(map(str, schedule + [0] * (length - len(schedule))))
        target, value = text.split(" = ")
        access = self._expr(target, names)
        assert isinstance(access, Load)
        return Comp(
            f"S{number}",
            names,
            isl.Set(f"{head}{{ {instance} : {domain} }}"),
            isl.Map(f"{head}{{ {instance} -> [{times}] }}"),
            access,
            self._expr(value, names),
            Loc("t.c", number + 2, 3),
        )

    def _expr(self, text: str, names: tuple[str, ...]) -> Expr:
        return self._convert(ast.parse(text.strip(), mode="eval").body, names, self.dtype)

    def _convert(self, node: ast.expr, names: tuple[str, ...], dtype: DType) -> Expr:
        match node:
            case ast.Constant(value=value):
                return Val(value, dtype)  # type: ignore[arg-type]
            case ast.Name(id=name) if name in names:
                return Iter(name)
            case ast.Name(id=name) if name in self.params:
                return Param(name, "i32")
            case ast.Name(id=name):
                return Load(name, (), self.dtype)
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                parts = index.elts if isinstance(index, ast.Tuple) else [index]
                return Load(name, tuple(self._convert(p, names, "i32") for p in parts), self.dtype)
            case ast.BinOp(left=left, op=op, right=right):
                return Binary(
                    _OPS[type(op)], self._convert(left, names, dtype), self._convert(right, names, dtype), dtype
                )
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Unary("neg", self._convert(operand, names, dtype), dtype)
            case ast.Call(func=ast.Name(id=name), args=[left, right]):
                return Binary(name, self._convert(left, names, dtype), self._convert(right, names, dtype), dtype)  # type: ignore[arg-type]
            case _:
                raise ValueError(ast.dump(node))


def matmul(n: int, m: int, k: int, dtype: DType = "f32") -> Func:
    b = Builder({"A": (n, k), "B": (k, m), "C": (n, m)}, const=("A", "B"), dtype=dtype)
    zero = "0" if dtype.startswith(("i", "u")) else "0.0"
    b.comp("i,j", f"0 <= i < {n} and 0 <= j < {m}", [0, "i", 0, "j", 0], f"C[i, j] = {zero}")
    b.comp(
        "i,j,k",
        f"0 <= i < {n} and 0 <= j < {m} and 0 <= k < {k}",
        [0, "i", 0, "j", 1, "k", 0],
        "C[i, j] = C[i, j] + A[i, k] * B[k, j]",
    )
    return b.func()
