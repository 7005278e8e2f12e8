"""Subscripts that begin at the lesser or the greater of two values, as `min(64 * g, n - 64) + i` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from plant_core.ir.accesses import children, integer, linear, rebuild, substitute
from plant_core.ir.func import Binary, Expr, Iter, Load, Param
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tree

Path = tuple[int, ...]  # to a node of a tree, by the numbers of the children
Starts = Mapping[Path, Mapping[Expr, str]]  # by loop, the values that have names in its body


def with_starts(expr: Expr) -> tuple[Expr, dict[Expr, int]]:
    """A subscript as what is affine, and the lesser or greater values of sizes and iterators that are added to that,
    each with its factor."""
    match expr:
        case Binary(op="add" | "sub", left=left, right=right, dtype=dtype):
            (first, found), (second, more) = with_starts(left), with_starts(right)
            sign = 1 if expr.op == "add" else -1
            return Binary(expr.op, first, second, dtype), found | {
                e: found.get(e, 0) + sign * c for e, c in more.items()
            }
        case Binary() if _is_start(expr):
            return integer(0), {expr: 1}
        case _:
            return expr, {}


def _is_start(expr: Binary) -> bool:
    """Whether it is the lesser or greater of two affine values."""
    return expr.op in ("min", "max") and linear(expr.left) is not None and linear(expr.right) is not None


def iterators_of(expr: Expr) -> Iterator[str]:
    """The iterators that stand in an expression."""
    if isinstance(expr, Iter):
        yield expr.name
    for part in children(expr):
        yield from iterators_of(part)


def with_names(tree: Tree, fresh: Callable[[str], str]) -> tuple[Tree, Starts]:
    """`tree` with a name in place of each such value, by loop, and what it stands for in the tree's iterators.

    Before: `for (g < n) for (k < m) y[min(64 * g, n - 64) + k] = ..`
    After:  `for (g < n) { start = min(64 * g, n - 64); for (k < m) y[start + k] = .. }`

    Ensures: the same tree structure. A subscript with such a name is affine, so that vectors lie in it as in any other.
    """
    worker = _Worker(fresh)
    return worker.tree(tree, (), ()), worker.found


@dataclass(slots=True)
class _Worker:
    fresh: Callable[[str], str]
    found: dict[Path, dict[Expr, str]] = field(default_factory=dict)

    def tree(self, tree: Tree, path: Path, loops: tuple[tuple[Path, str], ...]) -> Tree:
        match tree:
            case For():
                return replace(tree, body=self.tree(tree.body, (*path, 0), (*loops, (path, tree.iterator))))
            case If():
                return replace(tree, then=self.tree(tree.then, (*path, 0), loops))
            case Seq():
                return Seq(tuple(self.tree(child, (*path, k), loops) for k, child in enumerate(tree.children)))
            case Leaf():
                return self.leaf(tree, loops)
            case Do():
                return tree

    def leaf(self, leaf: Leaf, loops: tuple[tuple[Path, str], ...]) -> Leaf:
        comp = leaf.comp
        # Of a box's first point only.
        origins = {i: o for i, o, s in zip(comp.iters, leaf.origin, leaf.tile.spans, strict=True) if s == 1}
        target, value = (self.expr(e, origins, loops, inside=False) for e in (comp.target, comp.value))
        if target == comp.target and value == comp.value:
            return leaf
        assert isinstance(target, Load)
        return replace(leaf, comp=replace(comp, target=target, value=value))

    def expr(
        self, expr: Expr, origins: Mapping[str, Expr], loops: tuple[tuple[Path, str], ...], *, inside: bool
    ) -> Expr:
        start = inside and isinstance(expr, Binary) and expr.dtype == "i32" and _is_start(expr)
        if start and set(iterators_of(expr)) <= origins.keys():
            value = substitute(expr, origins)
            used = set(iterators_of(value))
            around = [path for path, iterator in loops if iterator in used]
            if around:
                known = self.found.setdefault(around[-1], {})
                if value not in known:
                    known[value] = self.fresh("start")
                return Param(known[value], "i32")
        parts = children(expr)
        if not parts:
            return expr
        new = tuple(self.expr(p, origins, loops, inside=inside or isinstance(expr, Load)) for p in parts)
        return expr if new == parts else rebuild(expr, new)
