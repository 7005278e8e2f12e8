"""Steps inside expressions as statements of their own.

Before: `*p++ = *q++ * k;`  `while (n--) ...`  `for (i = n; i--;) ...`  `a = 1, b = 2;`
After:  `*p = *q * k; p++; q++;`  `while (n != 0) { n--; ... } n--;`  `i = n; while (i != 0) { i--; ... } i--;`
        `a = 1; b = 2;`

A statement is left alone where the order would matter: the stepped variable is named again, or the step is under a
condition.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pycparser import c_ast

from dspgen.frontend.parse.assigned_names import walk
from dspgen.frontend.parse.syntax_tree import block, is_step, items, rebuilt


@dataclass(slots=True)
class _Steps:
    before: list[c_ast.Node] = field(default_factory=list)
    after: list[c_ast.Node] = field(default_factory=list)


def without_effects(function: c_ast.FuncDef) -> None:
    """Changes the function's body in place."""
    function.body = c_ast.Compound(_all(function.body.block_items or []), function.body.coord)


def _all(nodes: list[c_ast.Node]) -> list[c_ast.Node]:
    return [new for node in nodes for new in _statement(node)]


def _inner(node: c_ast.Node | None, *first: c_ast.Node) -> c_ast.Node:
    """A branch or a loop's body, with statements put in front."""
    if node is None:
        return c_ast.Compound(list(first), first[0].coord)
    if isinstance(node, c_ast.Compound):
        return c_ast.Compound([*first, *_all(node.block_items or [])], node.coord)
    found = [*first, *_statement(node)]
    return c_ast.Compound(found, node.coord) if found != [node] else node


def _statement(node: c_ast.Node) -> list[c_ast.Node]:
    match node:
        case c_ast.Compound():
            return [c_ast.Compound(_all(node.block_items or []), node.coord)]
        case c_ast.ExprList():
            return _all(items(node))
        case c_ast.If():
            return _if(node)
        case c_ast.For():
            return _for(node)
        case c_ast.While():
            return _while(node)
        case c_ast.DoWhile():
            return _do(node)
        case c_ast.Decl() if node.init is not None and not isinstance(node.init, c_ast.InitList):
            steps = _Steps()
            node.init = _extracted(node.init, steps)
            return [*steps.before, node, *steps.after]
        case c_ast.DeclList():
            return _all(items(node))
        case c_ast.UnaryOp() if is_step(node):
            if isinstance(node.expr, c_ast.ID):
                return [node]
            steps = _Steps()
            return [*steps.before, rebuilt(node, lambda n: _extracted(n, steps)), *steps.after]
        case c_ast.Assignment() | c_ast.FuncCall() | c_ast.Cast() | c_ast.UnaryOp():
            steps = _Steps()
            changed = _extracted(node, steps)
            return [*steps.before, changed, *steps.after]
        case _:
            return [node]


def _extracted(whole: c_ast.Node, steps: _Steps) -> c_ast.Node:
    """The expression without its steps, which go to `steps`; as it was, where that isn't safe."""
    found: list[c_ast.UnaryOp] = []
    if not _collect(whole, found) or not found:
        return whole
    named = [n.name for n in walk(whole) if isinstance(n, c_ast.ID)]
    for step in found:
        if not isinstance(step.expr, c_ast.ID) or named.count(step.expr.name) != 1:
            return whole

    def change(node: c_ast.Node) -> c_ast.Node:
        if is_step(node):
            place = steps.after if node.op.startswith("p") else steps.before
            place.append(c_ast.UnaryOp("p" + node.op[-2:], node.expr, node.coord))
            return c_ast.ID(node.expr.name, node.coord)
        return rebuilt(node, change)

    return change(whole)


def _collect(node: c_ast.Node, found: list[c_ast.UnaryOp]) -> bool:
    """The steps in an expression; False if one of them may not happen, or another effect is there."""
    if is_step(node):
        found.append(node)
        return True
    conditional: list[c_ast.Node] = []
    match node:
        case c_ast.TernaryOp():
            conditional = [node.iftrue, node.iffalse]
        case c_ast.BinaryOp(op="&&" | "||"):
            conditional = [node.right]
        case c_ast.ExprList():
            pass
    if any(is_step(inner) for part in conditional for inner in walk(part)):
        return False
    return all(_collect(child, found) for _, child in node.children())


def _if(node: c_ast.If) -> list[c_ast.Node]:
    steps = _Steps()
    test = _extracted(node.cond, steps)
    true = _inner(node.iftrue, *steps.after)
    false = node.iffalse
    if false is not None or steps.after:
        copies = [c_ast.UnaryOp(s.op, c_ast.ID(s.expr.name, s.coord), s.coord) for s in steps.after]
        false = _inner(false, *copies)
    return [*steps.before, c_ast.If(test, true, false, node.coord)]


def _test(node: c_ast.Node) -> c_ast.Node:
    """A bare variable as a comparison with zero."""
    if isinstance(node, c_ast.ID):
        return c_ast.BinaryOp("!=", node, c_ast.Constant("int", "0", node.coord), node.coord)
    return node


def _copies(nodes: list[c_ast.Node]) -> list[c_ast.Node]:
    return [c_ast.UnaryOp(s.op, c_ast.ID(s.expr.name, s.coord), s.coord) for s in nodes]


def _while(node: c_ast.While) -> list[c_ast.Node]:
    steps = _Steps()
    test = _test(_extracted(node.cond, steps))
    body = _inner(node.stmt, *steps.after)
    if steps.before:
        body = c_ast.Compound([*items(body), *_copies(steps.before)], body.coord)
    return [*_copies(steps.before), c_ast.While(test, body, node.coord), *_copies(steps.after)]


def _do(node: c_ast.DoWhile) -> list[c_ast.Node]:
    steps = _Steps()
    test = _test(_extracted(node.cond, steps))
    body = _inner(node.stmt)
    if steps.after:
        # The step after the test is also done on the way out, and before each further round.
        first = c_ast.Compound([*_copies(steps.after), *items(body)], body.coord)
        undo = [c_ast.UnaryOp(_REVERSE[s.op], c_ast.ID(s.expr.name, s.coord), s.coord) for s in steps.after]
        return [*undo, c_ast.DoWhile(test, first, node.coord), *_copies(steps.after)]
    body = c_ast.Compound([*items(body), *_copies(steps.before)], body.coord)
    return [c_ast.DoWhile(test, body, node.coord)]


_REVERSE = {"p++": "p--", "p--": "p++"}


def _for(node: c_ast.For) -> list[c_ast.Node]:
    body = _inner(node.stmt)
    if node.cond is not None and any(is_step(n) for n in walk(node.cond)):
        last = items(node.next)
        whole = c_ast.Compound([*items(body), *last], body.coord)
        inside = [*items(node.init), c_ast.While(node.cond, whole, node.coord)]
        return [block(_all(inside), node.coord)]
    node.stmt = body
    return [node]
