"""What C evaluates under conditions only: loads in the arms of a choice, assignments that may keep the old value."""

from __future__ import annotations

from dataclasses import replace

from dspgen.vecdsl.build.expressions import dtype_of
from dspgen.vecdsl.build.reduction_tiles import children
from dspgen.vecdsl.ir.terms import COMPARISONS
from plant_core.ir.func import Binary, Cast, Comp, DType, Expr, Load, Select, Unary, Val

_WIDER: dict[DType, tuple[DType, ...]] = {
    "i8": ("i16", "i32", "i64"),
    "u8": ("i16", "u16", "i32", "u32", "i64"),
    "i16": ("i32", "i64"),
    "u16": ("i32", "u32", "i64"),
    "i32": ("i64",),
    "u32": ("i64",),
}

# A conjunction of conditions that hold, or don't.
Guard = tuple[tuple[Expr, bool], ...]


def guards_of(comp: Comp) -> dict[Load, dict[Guard, int]]:
    """For each load that C may leave out, the guards of its occurrences: it may run where one of them holds. By the
    number of the guard: what its conditions load has guards of lower numbers there."""
    found = dict[Load, dict[Guard, int]]()
    kept = conditional(comp)
    _visit(comp.value, (), found)
    for index in comp.target.indices:
        _visit(index, () if kept is None else kept[0], found)
    return {load: guards for load, guards in found.items() if () not in guards}


def _visit(expr: Expr, guard: Guard, found: dict[Load, dict[Guard, int]]) -> None:
    match expr:
        case Load():
            guards = found.setdefault(expr, {})
            if not any(set(g) <= set(guard) for g in guards):  # which holds wherever this one does
                guards[guard] = sum(map(len, found.values()))
            for index in expr.indices:
                _visit(index, guard, found)
        case Select():
            _visit(expr.condition, guard, found)
            _visit(expr.true, (*guard, (expr.condition, True)), found)
            _visit(expr.false, (*guard, (expr.condition, False)), found)
        case Binary(op="land" | "lor"):
            _visit(expr.left, guard, found)
            _visit(expr.right, (*guard, (expr.left, expr.op == "land")), found)
        case _:
            for child in children(expr):
                _visit(child, guard, found)


def conditional(comp: Comp) -> tuple[Guard, Expr] | None:
    """The guard and the value of a statement that keeps its target's old value elsewhere, None for any other.

    Before: `t = c ? v : t`. After: `v` where `c` holds.
    """
    guard, value = list[tuple[Expr, bool]](), comp.value
    while (choice := _choice(value)) is not None:
        if _keeps(choice.false, comp.target):
            guard.append((choice.condition, True))
            value = choice.true
        elif _keeps(choice.true, comp.target):
            guard.append((choice.condition, False))
            value = choice.false
        else:
            break
    return (tuple(guard), value) if guard else None


def _choice(value: Expr) -> Select | None:
    """The value as a choice; a conversion of a choice is a choice of conversions."""
    match value:
        case Select():
            return value
        case Cast(operand=Select() as inner):
            arms = (Cast(value.dtype, inner.true), Cast(value.dtype, inner.false))
            return replace(inner, true=arms[0], false=arms[1], dtype=value.dtype)
        case _:
            return None


def _keeps(value: Expr, target: Load) -> bool:
    """Whether the value is the target's own, perhaps widened and narrowed again."""
    types = []
    while isinstance(value, Cast):
        types.append(value.dtype)
        value = value.operand
    if not isinstance(value, Load) or not _alike(value, target):
        return False
    back, wider = types[:1], types[1:]
    return back in ([], [value.dtype]) and all(t == value.dtype or t in _WIDER.get(value.dtype, ()) for t in wider)


def _alike(a: Expr, b: Expr) -> bool:
    """Whether two expressions are the same but for where they stand in the text."""
    if isinstance(a, Load) and isinstance(b, Load):
        return a.buf == b.buf and all(map(_alike, a.indices, b.indices))
    ours, others = children(a), children(b)
    if not ours or len(ours) != len(others):
        return a == b
    heads = [[getattr(x, n, None) for n in ("op", "name", "dtype")] for x in (a, b)]
    return type(a) is type(b) and heads[0] == heads[1] and all(map(_alike, ours, others))


def given(expr: Expr, guard: Guard) -> Expr:
    """`expr` with the choices that the guard has made: `c ? a : b` is `a` where `c` holds."""
    known = dict(guard)
    while isinstance(expr, Select) and expr.condition in known:
        expr = expr.true if known[expr.condition] else expr.false
    return expr


def holds(guard: Guard) -> Expr:
    """The guard as one condition that is 0 or 1; a guard of no conditions holds."""
    found: Expr | None = None
    for condition, truth in guard:
        part = condition if truth else Unary("lnot", condition, "i32")
        found = part if found is None else Binary("land", found, part, "i32")
    return Val(1, "i32") if found is None else _truth(found)


def any_holds(guards: tuple[Guard, ...]) -> Expr:
    found = holds(guards[0])
    for guard in guards[1:]:
        found = Binary("lor", found, holds(guard), "i32")
    return found


def _truth(expr: Expr) -> Expr:
    if isinstance(expr, Unary) and expr.op == "lnot":
        return expr
    if isinstance(expr, Binary) and (expr.op in COMPARISONS or expr.op in ("land", "lor")):
        return expr
    dtype = dtype_of(expr)
    return Binary("ne", expr, Val(0.0 if dtype in ("f32", "f64") else 0, dtype), "i32")
