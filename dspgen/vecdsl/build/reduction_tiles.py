"""Where the partial sums of reduction tiles live, and what they start as."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dspgen.errors import NoSchedule, Problem
from dspgen.vecdsl.build.expressions import dtype_of, lift, literal, stored, unsigned
from dspgen.vecdsl.ir.constant_folding import make
from dspgen.vecdsl.ir.program import Term, VType
from plant_core.analysis.symbolic_offsets import iterators_of
from plant_core.ir.func import Binary, Call, Cast, Comp, DType, Expr, Load, Select, Unary, Val
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tree

Path = tuple[int, ...]
_FAMILY = {
    "add": "add",
    "sub": "add",
    "mul": "mul",
    "min": "min",
    "max": "max",
    "and": "and",
    "or": "or",
    "xor": "xor",
}
ACROSS_LANES = {family: f"reduce_{family}" for family in ("add", "mul", "min", "max", "and", "or", "xor")}
_RANGES: dict[DType, tuple[int, int]] = {
    "i8": (-128, 127),
    "i16": (-32768, 32767),
    "i32": (-(1 << 31), (1 << 31) - 1),
    "i64": (-(1 << 63), (1 << 63) - 1),
    "u8": (0, 255),
    "u16": (0, 65535),
    "u32": (0, (1 << 32) - 1),
}


def children(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Cast() | Unary():
            return (expr.operand,)
        case Binary():
            return (expr.left, expr.right)
        case Select():
            return (expr.condition, expr.true, expr.false)
        case Call():
            return expr.args
        case _:
            return ()


def accesses(expr: Expr) -> Iterator[Load]:
    """Every load in the expression, those that subscripts are made of included."""
    if isinstance(expr, Load):
        yield expr
    for child in expr.indices if isinstance(expr, Load) else children(expr):
        yield from accesses(child)


def has_quotient(expr: Expr) -> bool:
    """Whether a subscript divides."""
    if isinstance(expr, Binary) and expr.op in ("div", "mod", "floordiv"):
        return True
    return any(has_quotient(child) for child in (expr.indices if isinstance(expr, Load) else children(expr)))


def same_element(a: Load, b: Load) -> bool:
    return a.buf == b.buf and a.indices == b.indices


def reduced_iterators(leaf: Leaf) -> tuple[str, ...]:
    """The iterators whose points accumulate in partial sums; empty if the leaf needs none."""
    tile, found = leaf.tile, list[str]()
    for name, span in zip(leaf.comp.iters, tile.spans, strict=True):
        if (name == tile.lane and tile.reduce) or (name in tile.split and span > 1):
            found.append(name)
    return tuple(found)


def operator(comp: Comp) -> str | None:
    """The associative operator of `t = t op e`, with e free of t; None if the statement isn't one."""
    if sum(same_element(a, comp.target) for a in accesses(comp.value)) != 1:
        return None
    value = comp.value
    if isinstance(value, Cast) and not _floating(value.dtype) and not _floating(dtype_of(value.operand)):
        value = value.operand
    return _operator(value, comp.target)


def _operator(value: Expr, target: Load) -> str | None:
    if not isinstance(value, Binary) or value.op not in _FAMILY:
        return None
    family = _FAMILY[value.op]
    for side in (value.left, value.right):
        if not any(same_element(a, target) for a in accesses(side)):
            continue
        if value.op == "sub" and side is not value.left:
            return None
        side = _unwidened(side)
        if isinstance(side, Load):
            return family
        # min and max don't pass through a wrapping sum, so a nested operator must be the same one.
        return family if _operator(side, target) == family else None
    return None


def _unwidened(expr: Expr) -> Expr:
    while isinstance(expr, Cast) and not _floating(expr.dtype) and not _floating(dtype_of(expr.operand)):
        inner, outer = _RANGES[dtype_of(expr.operand)], _RANGES[expr.dtype]
        if not (outer[0] <= inner[0] and inner[1] <= outer[1]):
            break
        expr = expr.operand
    return expr


def _floating(dtype: DType) -> bool:
    return dtype in ("f32", "f64")


def identity(family: str, dtype: DType) -> Term:
    """The value that changes nothing, of the target's type."""
    floating = _floating(dtype)
    low, high = (-float("inf"), float("inf")) if floating else _RANGES[dtype]
    values: dict[str, int | float] = {"add": 0, "mul": 1, "min": high, "max": low, "and": -1, "or": 0, "xor": 0}
    value = values[family]
    return literal(float(value) if floating else value, dtype)


@dataclass(frozen=True, slots=True)
class Plan:
    """For each reduction leaf, by its path in the tree: the For around which its partial sums live, None: the leaf."""

    hosts: dict[Path, Path | None]


def plan(tree: Tree) -> Plan:
    hosts = dict[Path, Path | None]()
    _visit(tree, (), (), hosts)
    return Plan(hosts)


def _visit(tree: Tree, path: Path, loops: tuple[tuple[Path, For], ...], hosts: dict[Path, Path | None]) -> None:
    match tree:
        case For():
            _visit(tree.body, (*path, 0), (*loops, (path, tree)), hosts)
        case If():
            _visit(tree.then, (*path, 0), loops, hosts)
        case Seq():
            for number, child in enumerate(tree.children):
                _visit(child, (*path, number), loops, hosts)
        case Leaf():
            if reduced_iterators(tree):
                hosts[path] = _host(tree, loops)


def _host(leaf: Leaf, loops: tuple[tuple[Path, For], ...]) -> Path | None:
    """The outermost loop over a reduced iterator, as far out as the target stays the same and is left alone."""
    check(leaf)
    origins = dict(zip(leaf.comp.iters, leaf.origin, strict=True))
    reduced = {n for r in reduced_iterators(leaf) for n in iterators_of(origins[r])}
    target = {n for i in iterators_of(leaf.comp.target) for n in iterators_of(origins[i])}
    host: Path | None = None
    for path, loop in reversed(loops):
        if loop.iterator in target or _disturbed(loop.body, leaf.comp):
            break
        if loop.iterator in reduced:
            host = path
    return host


def check(leaf: Leaf) -> str:
    """The leaf's operator; raises NoSchedule where partial sums can't stand for it.

    Requires: a legal tile. Then what else the leaf reads of its target's array is no element that the tile updates.
    """
    comp = leaf.comp
    family = operator(comp)
    if family is None:
        raise _refuse(comp, "this statement is not a reduction of the form 't = t op e'")
    if set(reduced_iterators(leaf)) & set(iterators_of(comp.target)):
        raise _refuse(comp, f"'{comp.target.buf}' changes with the reduced iterator")
    return family


def partial_value(family: str, value: Term, dtype: DType) -> Term:
    """A partial result's next value. Where its low bits depend on low bits only, narrowing it can wait to the end."""
    return value if family in ("min", "max") else stored(value, dtype)


def combined(family: str, a: Term, b: Term, dtype: DType) -> Term:
    """Two partial results in one."""
    return unsigned(family, a, b) if dtype == "u32" else lift(family, (a, b), dtype)


def across_lanes(family: str, partial: Term, dtype: DType) -> Term:
    """The scalar that a vector of partial results comes to. Of unsigned numbers, which a register holds as the signed
    ones of the same bits, the least has the least bits with the highest one turned."""
    type = VType(partial.type.elem, False)
    if dtype != "u32" or family not in ("min", "max"):
        return make(ACROSS_LANES[family], (partial,), type)
    highest = literal(1 << 31, "u32")
    return lift("xor", (make(ACROSS_LANES[family], (lift("xor", (partial, highest), "i32"),), type), highest), "i32")


def _disturbed(tree: Tree, comp: Comp) -> bool:
    """Whether another statement under `tree` touches the target other than by the same reduction."""
    match tree:
        case For():
            return _disturbed(tree.body, comp)
        case If():
            return _disturbed(tree.then, comp)
        case Seq():
            return any(_disturbed(child, comp) for child in tree.children)
        case Leaf():
            other = tree.comp
            if other.name == comp.name:
                return False
            touched = [a for a in (other.target, *accesses(other.value)) if a.buf == comp.target.buf]
            if all(_apart(a, comp.target) for a in touched):
                return False
            own = all(same_element(a, other.target) for a in touched)
            return not (own and operator(other) is not None and operator(other) == operator(comp))
        case Do():
            return True


def _apart(a: Load, b: Load) -> bool:
    """Whether some subscript is a different constant in each."""
    pairs = zip(a.indices, b.indices, strict=False)
    return any(isinstance(x, Val) and isinstance(y, Val) and x.value != y.value for x, y in pairs)


def _refuse(comp: Comp, message: str) -> NoSchedule:
    return NoSchedule(Problem("DG333", message, comp.loc, "run its tile without partial sums"))
