"""For loops: their counted form, and the exact set of values that the iterator takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import islpy as isl
from pycparser import c_ast

from dspgen.frontend.parse.assigned_names import names, walk
from dspgen.frontend.parse.error_codes import fail
from dspgen.frontend.parse.syntax_tree import assigned_names, is_step
from dspgen.frontend.scop.affine_sets import Nest, NotAffine, condition, exact, piecewise, proven
from dspgen.frontend.scop.c_types import CType, represented
from plant_core.ir.c_semantics import limits
from plant_core.ir.func import Binary, Expr
from plant_core.support.location import Loc

_DEEPEST = 12
_COUNTED = "write 'for (int i = start; i < end; i += step)' with a constant step"


@dataclass(frozen=True, slots=True)
class Header:
    """`declared` is the iterator's declaration in the loop, if it is there; `start` None means: as it stands.

    `before` are other declarations and assignments of the first clause, done once before the loop.
    """

    name: str
    declared: c_ast.Decl | None
    start: c_ast.Node | None
    step: c_ast.Node | int
    negative: bool
    before: tuple[c_ast.Node, ...]


def header(loop: c_ast.For, loc: Loc) -> Header:
    """The parts of a loop in counted form. Anything else is refused."""
    if loop.next is None:
        fail("DG009", "the loop has no step", loc, _COUNTED)
    if loop.cond is None:
        fail("DG009", "the loop has no condition", loc, _COUNTED)
    name, step, negative = _step(loop.next, loc)
    declared, start, before = None, None, []
    for item in _items(loop.init):
        if isinstance(item, c_ast.Decl) and item.name == name:
            declared, start = item, item.init
            if item.init is None:
                fail("DG009", f"the iterator '{name}' has no first value", loc, _COUNTED)
        elif isinstance(item, c_ast.Assignment) and _is_name(item.lvalue, name):
            if item.op != "=":
                fail("DG009", f"the iterator '{name}' has no plain first value", loc, _COUNTED)
            start = item.rvalue
        else:
            before.append(item)
    return Header(name, declared, start, step, negative, tuple(before))


def refuse_uncounted(loop: c_ast.While | c_ast.DoWhile, loc: Loc) -> NoReturn:
    """Refuse a loop that no variable counts."""
    word = "while" if isinstance(loop, c_ast.While) else "do"
    plain = not any(isinstance(n, c_ast.FuncCall | c_ast.ArrayRef | c_ast.Assignment) for n in walk(loop.cond))
    leaves = any(isinstance(n, c_ast.Break | c_ast.Goto | c_ast.Return) for n in walk(loop.stmt))
    stepped = any(is_step(n) for n in walk(loop.cond))
    if plain and not leaves and not stepped and not names(loop.cond) & assigned_names(loop.stmt):
        what = f"this '{word}' loop doesn't end: nothing in it changes its condition"
        fail("DG008", what, loc, "step a variable of its condition in it by a constant")
    what = f"this '{word}' loop has no counter that changes by a constant, so its number of iterations isn't known"
    fail("DG008", what, loc, f"count with 'for', or '{word}', in constant steps to an affine end")


def need_shallow(outer: Nest, loc: Loc) -> None:
    """Refuse one more loop where so many are around it already that they would take minutes."""
    if len(outer.iters) >= _DEEPEST:
        what = f"more than {_DEEPEST} loops are nested inside each other"
        fail("DG009", what, loc, "write short inner loops out, or join loops: one over their product")


def _items(init: c_ast.Node | None) -> list[c_ast.Node]:
    match init:
        case None:
            return []
        case c_ast.DeclList():
            return list(init.decls)
        case c_ast.ExprList():
            return list(init.exprs)
        case _:
            return [init]


def _is_name(node: c_ast.Node, name: str) -> bool:
    return isinstance(node, c_ast.ID) and node.name == name


def _step(node: c_ast.Node, loc: Loc) -> tuple[str, c_ast.Node | int, bool]:
    match node:
        case c_ast.UnaryOp(op="p++" | "++", expr=c_ast.ID(name=name)):
            return name, 1, False
        case c_ast.UnaryOp(op="p--" | "--", expr=c_ast.ID(name=name)):
            return name, 1, True
        case c_ast.Assignment(op="+=" | "-=" as op, lvalue=c_ast.ID(name=name), rvalue=amount):
            return name, amount, op == "-="
        case c_ast.Assignment(
            op="=", lvalue=c_ast.ID(name=name), rvalue=c_ast.BinaryOp(op="+" | "-" as op, left=left, right=right)
        ):
            if _is_name(left, name):
                return name, right, op == "-"
            if op == "+" and _is_name(right, name):
                return name, left, False
        case c_ast.Assignment(op="*=" | "<<=" | "/=" | ">>="):
            fail("DG009", "the loop's iterator doesn't grow by a constant", loc, _COUNTED)
        case c_ast.ExprList():
            fail("DG009", "the loop steps several variables", loc, "compute the others from one iterator")
    fail("DG009", "the loop isn't in counted form", loc, _COUNTED)


@dataclass(frozen=True, slots=True)
class Count:
    """The values of an iterator: from `start` by `step`."""

    iterator: str
    ctype: CType
    start: Expr
    step: int
    loc: Loc


def reachable(outer: Nest, count: Count) -> Nest:
    """All values from the start in steps, without an end. Refuses a start that isn't affine."""
    inner = outer.entered(count.iterator)
    own = inner.variable(count.iterator)
    try:
        start = exact(count.start, inner)
    except NotAffine as error:
        _refuse_bound(count, error)
    reached = inner.within(own.ge_set(start) if count.step > 0 else own.le_set(start))
    if abs(count.step) > 1:
        distance = own.sub(start).mod_val(isl.Val(abs(count.step)))
        reached = reached.within(distance.eq_set(inner.constant(0)))
    if count.ctype.startswith("u"):
        reached = reached.within(own.ge_set(inner.constant(0)))
    return reached


def body(reached: Nest, test: Expr, count: Count) -> Nest:
    """The values up to the first at which the test fails. Refuses a test that isn't affine, or never fails."""
    try:
        ordered = _ordered(test, reached, count)
        holds = condition(ordered, reached)
        around = (
            isl.Set.empty(reached.domain.get_space()) if ordered is test else _first_past(test, reached, count, holds)
        )
    except NotAffine as error:
        _refuse_bound(count, error)
    _need_no_way_round(around, reached, count)
    inside = reached.within(holds)
    late = inside.domain.intersect(_later(reached.without(holds), count.step))
    if not late.is_empty():
        inside = Nest(inside.iters, inside.domain.subtract(late))
    inside = Nest(inside.iters, inside.domain.coalesce())
    _need_end(inside, count)
    return inside


def _refuse_bound(count: Count, error: NotAffine) -> NoReturn:
    if error.wraps:
        fail("DG017", f"a bound of this loop isn't exact: {error.reason}", count.loc, "use signed int")
    remedy = "bounds must be sums of outer iterators and parameters times constants"
    fail("DG010", f"a bound of this loop isn't affine: {error.reason}", count.loc, remedy)


def _ordered(test: Expr, reached: Nest, count: Count) -> Expr:
    """The test, with `i != end` taken as `i < end` (or `>`, downwards) where the step is one."""
    match test:
        case Binary("ne", left, right) if abs(count.step) == 1:
            own = reached.variable(count.iterator)
            upward = count.step > 0
            if piecewise(left, reached).is_equal(own):
                return Binary("lt" if upward else "gt", left, right, "i32")
            if piecewise(right, reached).is_equal(own):
                return Binary("gt" if upward else "lt", left, right, "i32")
    return test


def _first_past(test: Expr, reached: Nest, count: Count, holds: isl.Set) -> isl.Set:
    """Return the iterations whose first value is past the one at which an inequality fails."""
    own, start = reached.variable(count.iterator), exact(count.start, reached)
    return reached.domain.intersect(own.eq_set(start)).intersect(condition(test, reached)).subtract(holds)


def _need_no_way_round(around: isl.Set, reached: Nest, count: Count) -> None:
    """Refuse a loop that reaches its end by wrapping round in its type. C gives no meaning to that of a signed 32-bit
    iterator, and sizes are taken to be large enough."""
    if count.ctype in ("i32", "i64") or around.is_empty():
        return
    if count.ctype in ("u32", "u64") and not reached.domain.params().is_subset(around.params()):
        return
    message = f"the iterator '{count.iterator}' may start past its end, which it reaches by wrapping round"
    fail("DG017", message, count.loc, "use int for the iterator, and '<' or '>' in the condition")


def _later(failing: Nest, step: int) -> isl.Set:
    """The points that come after a value at which the test failed."""
    depth = len(failing.iters) - 1
    space = failing.domain.get_space()
    onward = isl.Map.universe(space.map_from_set())
    for position in range(depth):
        onward = onward.equate(isl.dim_type.in_, position, isl.dim_type.out, position)
    if step > 0:
        onward = onward.order_lt(isl.dim_type.in_, depth, isl.dim_type.out, depth)
    else:
        onward = onward.order_gt(isl.dim_type.in_, depth, isl.dim_type.out, depth)
    return failing.domain.apply(onward)


def _need_end(body: Nest, count: Count) -> None:
    """Refuses a loop that runs for ever, or whose iterator would leave its type on the way out."""
    depth = len(body.iters) - 1
    if body.domain.is_empty():
        return
    # An iterator in a stride counts as bounded, so strides are left out.
    plain = body.domain.remove_divs()
    bounded = plain.dim_has_upper_bound if count.step > 0 else plain.dim_has_lower_bound
    if not bounded(isl.dim_type.set, depth):
        fail("DG009", f"the loop over '{count.iterator}' doesn't end", count.loc, _COUNTED)
    if count.ctype in ("i32", "i64"):
        return
    leaving = Nest(body.iters, _shifted(body, count.step).subtract(body.domain))
    dtype = "u32" if count.ctype == "u64" else represented(count.ctype)
    low, _ = limits(dtype)
    if not proven(leaving.variable(count.iterator), dtype, leaving):
        fail(
            "DG017",
            f"the iterator '{count.iterator}' doesn't stay in its type, which starts at {low}, so the loop may not end",
            count.loc,
            "use int for the iterator",
        )


def _shifted(body: Nest, step: int) -> isl.Set:
    depth = len(body.iters) - 1
    space = body.domain.get_space()
    moved = isl.MultiAff.identity_on_domain_space(space)
    moved = moved.set_at(depth, moved.get_at(depth).add_constant_val(isl.Val(step)))
    return body.domain.apply(isl.Map.from_multi_aff(moved))
