"""Early exits of loops that the data end: behind the statement or iteration that does so, or its block in searches."""

from __future__ import annotations

from dataclasses import replace

from backends.cpu.ir.context import Lowering, assignment
from backends.cpu.ir.statements import Effect, Guard, Loop, Stmt
from plant_core.analysis.early_exits import flags, guarded, lowered, tests
from plant_core.ir.accesses import accesses, add, extremum, floordiv, integer, linear, sub
from plant_core.ir.func import Binary, Comp, Expr, Iter, Load, Select, Unary, Val, Verbatim
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tree

_SHORT = 16  # iterations that are left one by one
_FIRST = 8  # iterations of others that are left so, too
_BLOCK = 64  # iterations, which the compiler may run in vectors


def left_early(low: Lowering, loop: For, body: tuple[Stmt, ...]) -> tuple[Stmt, ...] | None:
    """The loop with an exit; None where none of its iterations is known to be the last one that does anything."""
    if loop.tag == "parallel" or loop.tag == "vectorize":
        return None
    if (flag := _flag(low, loop)) is not None:
        return _left_where_lowered(flag, loop, body)
    return _in_blocks(low, loop, body)


def _left_where_lowered(flag: Load, loop: For, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Leave the loop right behind the statement that lowers its flag, if those behind it do nothing then; else behind
    all of them, as they belong to the iteration that lowers it.

    Before: `for (...) { f = f && c ? 0 : f; x = f && !c ? y : x; }`
    After:  `if (f != 0) for (...) { f = f && c ? 0 : f; if (f == 0) break; x = f && !c ? y : x; }`
    The flag is never low where the others run, so that the C compiler drops their tests of it.
    """
    leave = Guard(Binary("eq", flag, integer(0), "i32"), (Effect(Verbatim("break;")),))
    place = _lowering(flag, loop.body, len(body))
    left = Loop(loop.iterator, loop.lower, loop.upper, loop.step, (*body[:place], leave, *body[place:]))
    return (Guard(Binary("ne", flag, integer(0), "i32"), (left,)),)


def _lowering(flag: Load, tree: Tree, statements: int) -> int:
    """Count the statements up to the one that lowers the flag; all of them where others do, or later ones may run."""
    if not isinstance(tree, Seq) or len(tree.children) != statements:
        return statements
    comps = [child.comp for child in tree.children if isinstance(child, Leaf)]
    writers = [k for k, comp in enumerate(comps) if comp.target.buf == flag.buf]
    if len(comps) != statements or len(writers) != 1 or not _idle(comps[writers[0]], comps[writers[0] + 1 :]):
        return statements
    return writers[0] + 1


def _idle(lowering: Comp, later: list[Comp]) -> bool:
    """Tell whether each later statement keeps its target under a condition that the lowering one has negated."""
    assert isinstance(lowering.value, Select)
    held, written = _conjuncts(lowering.value.condition), {lowering.target.buf}
    for comp in later:
        match comp.value:
            case Select(condition=condition, false=Load(buf=kept, indices=indices)):
                denied = [c.operand for c in _conjuncts(condition) if isinstance(c, Unary) and c.op == "lnot"]
            case _:
                return False
        keeps = (kept, indices) == (comp.target.buf, comp.target.indices)
        if not keeps or not any(c in held and not written & _bufs(c) for c in denied):
            return False
        written.add(comp.target.buf)
    return True


def _conjuncts(condition: Expr) -> list[Expr]:
    """Return the conditions that all hold where this one does."""
    match condition:
        case Binary("land", left, right):
            return [*_conjuncts(left), *_conjuncts(right)]
        case _:
            return [condition]


def _flag(low: Lowering, loop: For) -> Load | None:
    """The flag without which the loop's statements change nothing that is read elsewhere."""
    inside = [leaf.comp for leaf in leaves(loop.body)]
    names = {c.name for c in inside}
    outside = [c for c in low.func.comps if c.name not in names]
    own = {b.name for b in low.func.bufs if b.kind == "local" and not b.shape}
    own -= {a.buf for c in outside for a in (*accesses(c.value), c.target)}
    top = loop.body.children if isinstance(loop.body, Seq) else (loop.body,)
    always = {leaf.comp.name for leaf in top if isinstance(leaf, Leaf)}
    for flag in flags(low.func):
        guards, written = set[str](), list[Comp]()
        for comp in inside:
            name = comp.target.buf
            if name == flag and lowered(comp):
                written.append(comp)
            elif comp.name in always and name in own and tests(comp, flag):
                guards.add(name)
            elif comp.defines or not (name in own - guards or guarded(comp, {flag, *guards})):
                break
        else:
            if written and all(tests(c, flag) for c in inside if c.target.buf in guards):
                return Load(flag, (), written[0].target.dtype)
    return None


def _in_blocks(low: Lowering, loop: For, body: tuple[Stmt, ...]) -> tuple[Stmt, ...] | None:
    """The loop in blocks, with an exit behind each, or None where it isn't a search.

    Before: `for (t = l; t < u; t++) { v = c(t) ? t : u; e = v < e ? v : e; }`
    After:  `for (b = l; b < l + (u - l) / K * K; b += K) { for (t = b; t < b + K; t++) ...; if (e < b + K) break; }
             if (e >= l + (u - l) / K * K) for (t = l + (u - l) / K * K; t < u; t++) ...`
    One that begins with iteration 0 is left one by one in its first iterations, before there are blocks:
    `{ v = c(t) ? t : u; if (v < e) { e = v; break; } }`.

    Later iterations have larger values than one that was found, so that they change nothing but `v`, which nothing else
    reads.
    """
    variables = _least(low, loop)
    if variables is None:
        return None
    value, found = variables
    t = loop.iterator
    leave = Guard(Binary("lt", value, found, "i32"), (body[-1], Effect(Verbatim("break;"))))
    if _is_short(loop):
        return (Loop(t, loop.lower, loop.upper, 1, (*body[:-1], leave)),)
    if loop.lower == integer(0):
        start = integer(_FIRST)
        first = Loop(t, loop.lower, extremum("min", (start, loop.upper)), 1, (*body[:-1], leave))
        return first, Guard(Binary("ge", found, start, "i32"), _blocks(low, replace(loop, lower=start), found, body))
    return _blocks(low, loop, found, body)


def _blocks(low: Lowering, loop: For, found: Load, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    block, t = low.fresh("block"), loop.iterator
    whole = add(loop.lower, _whole(sub(loop.upper, loop.lower)))
    end = add(Iter(block), integer(_BLOCK))
    leave = Guard(Binary("lt", found, end, "i32"), (Effect(Verbatim("break;")),))
    inside = Loop(t, Iter(block), end, 1, body)
    blocks = Loop(block, loop.lower, whole, _BLOCK, (inside, leave))
    return blocks, Guard(Binary("ge", found, whole, "i32"), (Loop(t, whole, loop.upper, 1, body),))


def _whole(length: Expr) -> Expr:
    """The iterations in whole blocks."""
    if isinstance(length, Val):
        return integer(max(int(length.value), 0) // _BLOCK * _BLOCK)
    blocks = floordiv(Binary("max", length, integer(0), "i32"), _BLOCK)
    return Binary("mul", blocks, integer(_BLOCK), "i32")


def _least(low: Lowering, loop: For) -> tuple[Load, Load] | None:
    """Find the iteration's value and the variable that becomes the least of these, the least iteration with a property,
    where that is all that the loop does."""
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
    if not _at_least(none, loop.upper):
        return None
    read = [c.name for c in low.func.comps for part in (c.value,) if value.buf in {x.buf for x in accesses(part)}]
    local = {b.name for b in low.func.bufs if b.kind == "local"}
    if read != [second.comp.name] or not {value.buf, least.buf} <= local or least.buf in _bufs(chosen):
        return None
    return Load(value.buf, (), value.dtype), least


def _at_least(value: Expr, bound: Expr) -> bool:
    """Whether the value is surely no less."""
    if isinstance(bound, Binary) and bound.op == "min":
        return _at_least(value, bound.left) or _at_least(value, bound.right)
    if linear(value) is None or linear(bound) is None:
        return False
    difference = linear(sub(value, bound))
    return difference is not None and not any(difference[1].values()) and difference[0] >= 0


def _is_short(loop: For) -> bool:
    """Whether it has few iterations, so that the data may well end it in the first one."""
    uppers = (loop.upper.left, loop.upper.right) if isinstance(loop.upper, Binary) else (loop.upper,)
    lengths = (linear(sub(upper, loop.lower)) for upper in uppers)
    least = isinstance(loop.upper, Val) or (isinstance(loop.upper, Binary) and loop.upper.op == "min")
    return least and any(n is not None and not any(n[1].values()) and n[0] <= _SHORT for n in lengths)


def _bufs(expr: Expr) -> set[str]:
    return {access.buf for access in accesses(expr)}


def leaves(tree: Tree) -> list[Leaf]:
    match tree:
        case Leaf():
            return [tree]
        case Seq(children=children):
            return [leaf for child in children for leaf in leaves(child)]
        case For(body=inner) | If(then=inner):
            return leaves(inner)
        case Do():
            return []
