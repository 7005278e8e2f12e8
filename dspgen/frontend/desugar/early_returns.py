"""Early returns as branches.

Before: `if (x > 9) return 9; if (x < 0) return 0; return x;`
After:  `return x > 9 ? 9 : x < 0 ? 0 : x;`

Before: `if (n <= 0) return; BODY`
After:  `if (n <= 0) { } else { BODY }`

Before: `int dot(const short *x, int n) { ...; return sum; }`
After:  `void dot(const short *x, int n, int dot_result[1]) { ...; dot_result[0] = sum; }`

A return in a loop stays where it is.
"""

from __future__ import annotations

from pycparser import c_ast

from dspgen.frontend.parse.assigned_names import walk
from dspgen.frontend.parse.syntax_tree import cloned, items, rebuilt
from dspgen.frontend.parse.unique_names import Fresh


def returning(nodes: list[c_ast.Node]) -> list[c_ast.Node]:
    """The statements of a function, every return outside loops with nothing after it in its branch."""
    for position, node in enumerate(nodes):
        if isinstance(node, c_ast.Return):
            return nodes[: position + 1]
        if isinstance(node, c_ast.If) and _returns(node):
            return [*nodes[:position], *_branch(node, nodes[position + 1 :])]
    return nodes


def in_one_return(function: c_ast.FuncDef) -> c_ast.FuncDef:
    """The function as one return statement, if that is all that branches make of it; itself otherwise."""
    body = returning(cloned(function.body).block_items or [])
    if len(body) != 1 or not isinstance(body[0], c_ast.Return):
        return function
    return c_ast.FuncDef(function.decl, function.param_decls, c_ast.Compound(body, function.coord), function.coord)


def _returns(node: c_ast.Node) -> bool:
    return any(isinstance(n, c_ast.Return) for n in walk(node))


def ends(nodes: list[c_ast.Node]) -> bool:
    """Whether control never comes out at the end."""
    if not nodes:
        return False
    match nodes[-1]:
        case c_ast.Return():
            return True
        case c_ast.Compound():
            return ends(items(nodes[-1]))
        case c_ast.If():
            return nodes[-1].iffalse is not None and ends(items(nodes[-1].iftrue)) and ends(items(nodes[-1].iffalse))
    return False


def _branch(node: c_ast.If, rest: list[c_ast.Node]) -> list[c_ast.Node]:
    true, false = returning(items(node.iftrue)), returning(items(node.iffalse))
    if ends(true):
        false = false if ends(false) else returning([*false, *rest])
    elif ends(false) or not any(_returns(n) for n in false):
        true = returning([*true, *rest])
        if not ends(false):
            return [node, *rest]
    else:
        return [node, *rest]
    match true, false:
        case [[c_ast.Return(expr=one)], [c_ast.Return(expr=other)]] if one is not None and other is not None:
            return [c_ast.Return(c_ast.TernaryOp(node.cond, one, other, node.coord), node.coord)]
    coord = node.coord
    otherwise = c_ast.Compound(false, coord) if false else None
    return [c_ast.If(node.cond, c_ast.Compound(true, coord), otherwise, coord)]


def settled(nodes: list[c_ast.Node]) -> bool:
    """Whether every return is the last thing that is done."""
    for position, node in enumerate(nodes):
        last = position == len(nodes) - 1
        match node:
            case c_ast.Return():
                if not last:
                    return False
            case c_ast.If() if last:
                if not (settled(items(node.iftrue)) and settled(items(node.iffalse))):
                    return False
            case c_ast.Compound() if last:
                if not settled(items(node)):
                    return False
            case _:
                if _returns(node):
                    return False
    return True


def handed_back(function: c_ast.FuncDef, fresh: Fresh) -> None:
    """The function's value as the only element of an array, its last parameter, in place.

    A function whose value isn't a number, or that may end without one, stays as it is. The parameter's place is that of
    the function, which has no declaration of its own.
    """
    kind = function.decl.type.type
    if not isinstance(kind, c_ast.TypeDecl) or not isinstance(kind.type, c_ast.IdentifierType):
        return
    body = function.body.block_items or []
    if kind.type.names == ["void"] or not settled(body) or not ends(body):
        return
    coord = function.decl.coord
    name = fresh(f"{function.decl.name}_result")

    def stored(node: c_ast.Node) -> c_ast.Node:
        if isinstance(node, c_ast.Return) and node.expr is not None:
            target = c_ast.ArrayRef(c_ast.ID(name, node.coord), c_ast.Constant("int", "0", node.coord), node.coord)
            return c_ast.Assignment("=", target, node.expr, node.coord)
        return rebuilt(node, stored) if isinstance(node, c_ast.If | c_ast.Compound) else node

    function.body.block_items = [stored(node) for node in body]
    element = c_ast.TypeDecl(name, [], None, cloned(kind.type), coord=coord)
    array = c_ast.ArrayDecl(element, c_ast.Constant("int", "1", coord), [], coord)
    param = c_ast.Decl(name, [], [], [], [], array, None, None, coord=coord)
    given = list(function.decl.type.args.params) if function.decl.type.args else []
    alone = len(given) == 1 and isinstance(given[0], c_ast.Typename)
    function.decl.type.args = c_ast.ParamList([*([] if alone else given), param], coord)
    kind.type = c_ast.IdentifierType(["void"], coord)
