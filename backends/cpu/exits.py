"""Searches for the first of some iterations, left behind the block of iterations that has it."""

from __future__ import annotations

from backends.cpu.context import Lowering, assignment
from backends.cpu.ir import Effect, Guard, Loop, Stmt
from plant_core.affine import accesses, add, floordiv, integer, linear, sub
from plant_core.ir import Binary, Expr, Iter, Load, Select, Val, Verbatim
from plant_core.tree import For, Leaf, Seq

_BLOCK = 64  # iterations, which the compiler may run in vectors


def left_early(low: Lowering, loop: For, body: tuple[Stmt, ...]) -> tuple[Stmt, ...] | None:
    """The loop in blocks, with an exit behind each, or None where it isn't a search.

    Before: `for (t = l; t < u; t++) { v = c(t) ? t : u; e = v < e ? v : e; }`
    After:  `for (b = l; b < l + (u - l) / K * K; b += K) { for (t = b; t < b + K; t++) ...; if (e < b + K) break; }
             if (!(e < u)) for (t = l + (u - l) / K * K; t < u; t++) ...`

    Later iterations have larger values than one that was found, so that they change nothing but `v`, which nothing else
    reads.
    """
    found = _least(low, loop)
    if found is None:
        return None
    block, t = low.fresh("block"), loop.iterator
    whole = add(loop.lower, _whole(sub(loop.upper, loop.lower)))
    end = add(Iter(block), integer(_BLOCK))
    leave = Guard(Binary("lt", found, end, "i32"), (Effect(Verbatim("break;")),))
    inside = Loop(t, Iter(block), end, 1, body)
    blocks = Loop(block, loop.lower, whole, _BLOCK, (inside, leave))
    return blocks, Guard(Binary("ge", found, loop.upper, "i32"), (Loop(t, whole, loop.upper, 1, body),))


def _whole(length: Expr) -> Expr:
    """The iterations in whole blocks."""
    if isinstance(length, Val):
        return integer(max(int(length.value), 0) // _BLOCK * _BLOCK)
    blocks = floordiv(Binary("max", length, integer(0), "i32"), _BLOCK)
    return Binary("mul", blocks, integer(_BLOCK), "i32")


def _least(low: Lowering, loop: For) -> Load | None:
    """The variable that becomes the least iteration with a property, where that is all that the loop does."""
    match loop:
        case For(step=1, tag=None, body=Seq((Leaf() as first, Leaf() as second))):
            pass
        case _:
            return None
    if any(leaf.comp.defines is not None or set(leaf.tile.spans) - {1} for leaf in (first, second)):
        return None
    (value, chosen), (least, smaller) = assignment(first), assignment(second)
    if value.indices or least.indices or value.buf == least.buf:
        return None
    match chosen, smaller:
        case (
            Select(true=Iter(name=name), false=none),
            Select(condition=Binary("lt", Load(a, ()), Load(b, ())), true=Load(x, ()), false=Load(y, ())),
        ) if name == loop.iterator and (a, b) == (x, y) == (value.buf, least.buf):
            pass
        case _:
            return None
    if linear(none) is None or linear(none) != linear(loop.upper):
        return None
    read = [c.name for c in low.func.comps for part in (c.value,) if value.buf in {x.buf for x in accesses(part)}]
    local = {b.name for b in low.func.bufs if b.kind == "local"}
    if read != [second.comp.name] or not {value.buf, least.buf} <= local or least.buf in _bufs(chosen):
        return None
    return least


def _bufs(expr: Expr) -> set[str]:
    return {access.buf for access in accesses(expr)}
