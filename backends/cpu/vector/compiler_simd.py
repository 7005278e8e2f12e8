"""Scalar loops that the compiler is told it may vectorise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from backends.cpu.ir.alias_analysis import Ranges
from backends.cpu.ir.context import Lowering, assignment, value_of
from backends.cpu.ir.identity import identity
from backends.cpu.ir.statements import Accumulate, Cell, Guard, Loop, Note, Op, Set, Stmt, Temp, Var
from backends.cpu.vector.vector_values import apart, mentions
from plant_core.analysis.dependence import Reduction, reduction_of
from plant_core.ir.accesses import access_key, accesses
from plant_core.ir.c_semantics import dtype_of, is_float
from plant_core.ir.func import Binary, Cast, DType, Expr, Unary
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tree

Plain = Callable[[Tree, Ranges], tuple[Stmt, ...]]


def left_to_compiler(low: Lowering, loop: For, ranges: Ranges, plain: Plain, reason: str | None) -> tuple[Stmt, ...]:
    """A scalar loop with `omp simd` where that says no more than the tag does.

    Before: `vectorize for j { s = s + f(j); }`. After: `r = 0; simd(reduction r) for j { r = r + f(j); } s = s + r;`.
    Requires: the loop carries no dependence except through reductions. Ensures: as `vectorized`. `reason`: why there
    are no vectors, for a comment.
    """
    notes = (Note(f"not on vectors: {reason}"),) if reason is not None else ()
    inside = {**ranges, loop.iterator: (loop.lower, loop.upper)}
    body = plain(loop.body, inside)
    if not body:
        return ()
    whole = Loop(loop.iterator, loop.lower, loop.upper, loop.step, body)
    leaves = _leaves(loop.body)
    if leaves is None:
        return (*notes, whole)
    steady = [leaf for leaf in leaves if not _moves(leaf, loop.iterator)]
    if all(apart(assignment(leaf)[0], loop.iterator) for leaf in leaves) and not _crossing(leaves):
        return (*notes, replace(whole, kind="simd"))
    if steady and len(leaves) == 1:
        made = _reduction(low, loop, steady[0])
        if made is not None:
            return (*notes, made)
    return (*notes, whole)


def _leaves(tree: Tree) -> list[Leaf] | None:
    """The statements of an innermost body; None where there is more in it."""
    match tree:
        case Leaf():
            return None if tree.comp.defines or any(s != 1 for s in tree.tile.spans) else [tree]
        case Seq(children=parts):
            found = [_leaves(p) for p in parts]
            return [leaf for part in found if part for leaf in part] if all(f is not None for f in found) else None
        case If(then=then):
            return _leaves(then)
        case For() | Do():
            return None


def _crossing(leaves: list[Leaf]) -> bool:
    """Whether one element is read somewhere and another of the same array is written: the order may matter then, as
    lanes that all read before any writes keep it."""
    written: dict[str, set[object]] = {}
    for leaf in leaves:
        target, _ = assignment(leaf)
        written.setdefault(target.buf, set()).add(access_key(target))
    found = [a for leaf in leaves for e in assignment(leaf) for a in accesses(e)]
    return any(a.buf in written and written[a.buf] != {access_key(a)} for a in found)


def _moves(leaf: Leaf, iterator: str) -> bool:
    target, _ = assignment(leaf)
    return any(mentions(index, iterator) for index in target.indices)


def _reduction(low: Lowering, loop: For, leaf: Leaf) -> Stmt | None:
    target, value = assignment(leaf)
    found = reduction_of(replace(leaf.comp, target=target, value=value))
    if found is None or (low.fp == "strict" and is_float(target.dtype)) or isinstance(loop.body, If | Seq):
        return None
    if any(a.buf == target.buf for a in accesses(value) if access_key(a) != access_key(target)):
        return None
    rest = rest_of(found, target.dtype)
    if rest is None:
        return None
    name = low.fresh("r")
    total = Temp(name, target.dtype, 1)
    step = Set(total, Op(found.op, (total, value_of(rest)), target.dtype))
    run = Loop(loop.iterator, loop.lower, loop.upper, loop.step, (step,), "simd", 0, ((found.op, name),))
    ends = Accumulate(Cell(target.buf, target.indices), found.op, total)
    test = Binary("lt", loop.lower, loop.upper, "i32")
    return Guard(test, (Var(total, identity(found.op, target.dtype)), run, ends))


def rest_of(found: Reduction, dtype: DType) -> Expr | None:
    """What a reduction adds (or multiplies by, ...) each time, as a value of its target's type."""
    total: Expr | None = None
    for part, negative in found.rest:
        kind = dtype_of(part)
        if total is None:
            total = Unary("neg", part, kind) if negative else part
        elif found.op == "add":
            total = Binary("sub" if negative else "add", total, part, kind)
        else:
            total = Binary(found.op, total, part, kind)
    return total if total is None or dtype_of(total) == dtype else Cast(dtype, total)
