"""Integer expressions made shorter, and loops written out."""

from __future__ import annotations

from dataclasses import replace

from backends.cpu.ir.alias_analysis import bounds
from backends.cpu.ir.context import assignment
from plant_core.ir.accesses import add, children, combined, floordiv, integer, linear, rebuild, sub, substitute
from plant_core.ir.c_semantics import apply_binary
from plant_core.ir.func import Binary, Expr, Iter, Load, Param, Unary, Val
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tree

MOST_COPIES = 4096
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne", "land", "lor")


def simplified(expr: Expr) -> Expr:
    """An i32 expression over iterators with its constants folded; other expressions only inside their subscripts."""
    if isinstance(expr, Val | Iter | Param):
        return expr
    parts = tuple(simplified(p) for p in children(expr))
    made = rebuild(expr, parts) if parts else expr
    match made:
        case Binary(op="add" | "sub" | "mul", dtype="i32") | Unary(op="neg", dtype="i32"):
            form = linear(made)
            if form is not None and all(isinstance(x, Iter | Param | Val | Binary | Unary) for x in parts):
                return combined((made, 1)) if form[1] else integer(form[0])
        case Binary(op="min" | "max" as op, left=left, right=right, dtype="i32"):
            difference = linear(sub(left, right))
            if difference is not None and not difference[1]:
                return left if (difference[0] <= 0) == (op == "min") else right
        case Binary(op="floordiv", left=Val() as left, right=Val(value=divisor), dtype="i32") if divisor > 0:
            return floordiv(left, int(divisor))
        case Binary(op="div" | "mod" as op, left=Val(dtype="i32") as left, right=Val(value=divisor), dtype="i32") if (
            divisor
        ):
            return integer(int(apply_binary(op, int(left.value), int(divisor), "i32")))
        case Binary(op=op, left=Val(dtype="i32") as left, right=Val(dtype="i32") as right) if op in _COMPARISONS:
            return integer(int(apply_binary(op, int(left.value), int(right.value), "i32")))
    return made


def trip_count(loop: For) -> int | None:
    """How often the loop runs, where that is a constant."""
    form = linear(sub(simplified(loop.upper), simplified(loop.lower)))
    if form is None or form[1]:
        return None
    return max(0, -(-form[0] // loop.step))


def most_trips(loop: For) -> int | None:
    """The most that a loop of step 1 can run, where its bounds say so."""
    found = []
    for high in bounds(loop.upper, "min"):
        for low in bounds(loop.lower, "max"):
            terms = dict(high[1])
            for name, factor in low[1].items():
                terms[name] = terms.get(name, 0) - factor
            if not any(terms.values()):
                found.append(max(0, high[0] - low[0]))
    return min(found, default=None)


def at(tree: Tree, values: dict[str, Expr]) -> Tree:
    """`tree` with iterators replaced and integers folded; what can't run is left out."""
    match tree:
        case Seq(children=parts):
            return Seq(tuple(at(p, values) for p in parts))
        case If(condition=condition, then=then):
            test = simplified(substitute(condition, values))
            if isinstance(test, Val):
                return at(then, values) if test.value else Seq(())
            return If(test, at(then, values))
        case For(iterator=iterator, lower=lower, upper=upper):
            inner = {n: v for n, v in values.items() if n != iterator}
            start, end = (simplified(substitute(e, values)) for e in (lower, upper))
            return replace(tree, lower=start, upper=end, body=at(tree.body, inner))
        case Leaf():
            target, value = assignment(tree)
            moved = simplified(substitute(target, values))
            origin = tuple(simplified(substitute(o, values)) for o in tree.origin)
            if not isinstance(moved, Load):
                return tree
            return replace(tree, origin=origin, target=moved, value=simplified(substitute(value, values)))
        case Do():
            return tree


def written_out(tree: Tree) -> Tree:
    """Loops tagged `unroll_explicit` as copies of their bodies.

    Before: `unroll_explicit for i in 0..2 { a[i] = 0; }`. After: `a[0] = 0; a[1] = 0;`. Requires: nothing; a loop
    whose trip count isn't a small constant, as a tile at a border has it, stays a loop. Ensures: the same program.
    """
    match tree:
        case Seq(children=parts):
            return Seq(tuple(written_out(p) for p in parts))
        case If(then=then):
            return replace(tree, then=written_out(then))
        case For():
            body = written_out(tree.body)
            count = trip_count(tree) if tree.tag == "unroll_explicit" else None
            if count is None or count * _size(body) > MOST_COPIES:
                return replace(tree, body=body)
            starts = [add(tree.lower, integer(k * tree.step)) for k in range(count)]
            return Seq(tuple(at(body, {tree.iterator: simplified(s)}) for s in starts))
        case _:
            return tree


def _size(tree: Tree) -> int:
    match tree:
        case Seq(children=parts):
            return sum(map(_size, parts))
        case For(body=inner) | If(then=inner):
            return _size(inner)
        case _:
            return 1
