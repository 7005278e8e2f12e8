"""What the passes share, and scalar values of expressions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, assert_never

from backends.cpu.ir.names import Fresh
from backends.cpu.ir.statements import (
    Cell,
    Const,
    Get,
    Index,
    Op,
    Scalar,
    Value,
)
from plant_core.ir.accesses import all_bufs, is_integer, substitute
from plant_core.ir.c_semantics import size_of
from plant_core.ir.func import (
    Access,
    Binary,
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
from plant_core.ir.loop_tree import For, If, Leaf, Seq, Tree
from plant_core.support.location import PlantError

FloatRules = Literal["reassoc", "strict"]


@dataclass(slots=True)
class Lowering:
    """What the passes share. `vector_bytes`: the width of a vector register."""

    func: Func
    fp: FloatRules
    vector_bytes: int
    threads: bool
    fresh: Fresh
    bufs: dict[str, Buf] = field(default_factory=dict)


def lowering(func: Func, tree: Tree, *, fp: FloatRules, vector_bytes: int, threads: bool) -> Lowering:
    bufs = all_bufs(func)
    scalars = {p.name for p in func.params if isinstance(p, ScalarParam)}
    defined = {c.defines for c in func.comps if c.defines is not None}
    used = {func.name, *bufs, *scalars, *defined, *iterators_of(tree)}
    return Lowering(func, fp, vector_bytes, threads, Fresh(used), bufs)


def iterators_of(tree: Tree) -> set[str]:
    match tree:
        case For(iterator=iterator, body=body):
            return {iterator} | iterators_of(body)
        case Seq(children=children):
            return {name for child in children for name in iterators_of(child)}
        case If(then=then):
            return iterators_of(then)
        case _:
            return set()


def is_index(expr: Expr) -> bool:
    """Whether C's int arithmetic on `expr` is exact integer arithmetic, up to a last wrap to 32 bits."""
    match expr:
        case Iter():
            return True
        case Val(dtype="i32"):
            return False
        case Unary(op="neg", operand=operand, dtype="i32"):
            return is_index(operand)
        case Binary(op="add" | "sub" | "mul", left=left, right=right, dtype="i32"):
            sides = (left, right)
            return any(map(is_index, sides)) and all(is_index(x) or isinstance(x, Val) for x in sides)
        case _:
            return False


def value_of(expr: Expr) -> Value:
    """The scalar value of an expression."""
    if is_index(expr):
        return Index(expr)
    match expr:
        case Val(value=value, dtype=dtype):
            return Const(value, dtype)
        case Iter():
            return Index(expr)
        case Param(name=name, dtype=dtype):
            return Scalar(name, dtype)
        case Cast(dtype=dtype, operand=operand):
            return Op("cast", (value_of(operand),), dtype)
        case Unary(op=op, operand=operand, dtype=dtype):
            return Op(op, (value_of(operand),), dtype)
        case Binary(op=binary, left=left, right=right, dtype=dtype):
            return Op(binary, of_one_type(binary, value_of(left), value_of(right), dtype), dtype)
        case Select(condition=condition, true=true, false=false, dtype=dtype):
            return Op("select", (value_of(condition), value_of(true), value_of(false)), dtype)
        case Call(name=name, args=args, dtype=dtype):
            return Op(f"call:{name}", tuple(map(value_of, args)), dtype)
        case Load(buf=buf, indices=indices, dtype=dtype):
            return Get(Cell(buf, indices), dtype, 1)
        case Verbatim(text=text, dtype=dtype):
            return Op(f"text:{text}", (), dtype)
        case Access(comp=comp):
            raise PlantError(
                f"the value of '{comp}' is asked for, but not where it is stored",
                loc=expr.loc,
                code="DG600",
                remedy="resolve the function's accesses first",
            )
        case Ramp():
            raise PlantError("a vector stands where a scalar is needed", code="DG600")
        case _:
            assert_never(expr)


_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


def of_one_type(op: str, left: Value, right: Value, dtype: DType) -> tuple[Value, Value]:
    """The operands in the type that `op` computes in: iterators may stand in larger integers as they are."""
    if op in ("shl", "shr", "land", "lor", "floordiv") or left.dtype == right.dtype:
        return left, right
    wide = max(left.dtype, right.dtype, key=size_of) if op in _COMPARISONS else dtype
    one, other = (
        v if v.dtype == wide or not is_integer(v.dtype) else Op("cast", (v,), wide, v.lanes) for v in (left, right)
    )
    return one, other


def assignment(leaf: Leaf) -> tuple[Load, Expr]:
    """The target and value of a leaf in the tree's iterators."""
    if leaf.target is not None and leaf.value is not None:
        return leaf.target, leaf.value
    at = dict(zip(leaf.comp.iters, leaf.origin, strict=True))
    target = substitute(leaf.comp.target, at)
    if not isinstance(target, Load):
        raise PlantError(f"{leaf.comp.name} assigns to something that isn't memory", loc=leaf.comp.loc, code="DG600")
    return target, substitute(leaf.comp.value, at)
