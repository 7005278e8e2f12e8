"""Building, copying and walking C syntax trees, with places kept."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from pycparser import c_ast

from dspgen.frontend.parse.assigned_names import base_name, walk

STEPS = ("p++", "p--", "++", "--")
LOOPS = (c_ast.For, c_ast.While, c_ast.DoWhile)


def cloned(node: c_ast.Node) -> c_ast.Node:
    """A copy that shares nothing with the original but the places."""
    fields = {}
    for name in node.__slots__:
        if name in ("coord", "__weakref__"):
            continue
        fields[name] = _cloned_value(getattr(node, name))
    return type(node)(**fields, coord=node.coord)


def _cloned_value(value: object) -> object:
    if isinstance(value, c_ast.Node):
        return cloned(value)
    if isinstance(value, list):
        return [_cloned_value(item) for item in value]
    return copy.copy(value)


def rebuilt(node: c_ast.Node, change: Callable[[c_ast.Node], c_ast.Node]) -> c_ast.Node:
    """The node with `change` done to each of its direct children; itself where none changes."""
    fields, changed = {}, False
    for name in node.__slots__:
        if name in ("coord", "__weakref__"):
            continue
        value = getattr(node, name)
        if isinstance(value, c_ast.Node):
            new: object = change(value)
            changed = changed or new is not value
        elif isinstance(value, list) and any(isinstance(v, c_ast.Node) for v in value):
            new = [change(v) if isinstance(v, c_ast.Node) else v for v in value]
            changed = changed or any(a is not b for a, b in zip(new, value, strict=True))
        else:
            new = value
        fields[name] = new
    return type(node)(**fields, coord=node.coord) if changed else node


def items(node: c_ast.Node | None) -> list[c_ast.Node]:
    """The parts of a block, a declaration list or a comma expression."""
    match node:
        case None | c_ast.EmptyStatement():
            return []
        case c_ast.Compound():
            return list(node.block_items or [])
        case c_ast.DeclList():
            return list(node.decls)
        case c_ast.ExprList():
            return [inner for part in node.exprs for inner in items(part)]
        case _:
            return [node]


def block(parts: list[c_ast.Node], coord: object) -> c_ast.Node:
    return parts[0] if len(parts) == 1 and not isinstance(parts[0], c_ast.Decl) else c_ast.Compound(parts, coord)


def variable(name: str, init: c_ast.Node | None, coord: object, ctype: str = "int") -> c_ast.Decl:
    return typed_variable(c_ast.IdentifierType([ctype], coord), name, init, coord)


def typed_variable(kind: c_ast.Node, name: str, init: c_ast.Node | None, coord: object) -> c_ast.Decl:
    """A declaration whose type is a plain name of one."""
    declared = c_ast.TypeDecl(name, [], [], kind, coord=coord)
    return c_ast.Decl(name, [], [], [], [], declared, init, None, coord=coord)


def assign(name: str, value: c_ast.Node, coord: object, op: str = "=") -> c_ast.Assignment:
    return c_ast.Assignment(op, c_ast.ID(name, coord), value, coord)


def step_of(node: c_ast.Node) -> tuple[str, str, c_ast.Node] | None:
    """`x++` and `x op= e` as (x, op, e), `=` having the operator ''."""
    match node:
        case c_ast.UnaryOp(op="p++" | "p--" | "++" | "--" as op, expr=c_ast.ID(name=name)):
            return name, op[-1], c_ast.Constant("int", "1", node.coord)
        case c_ast.Assignment(op=op, lvalue=c_ast.ID(name=name), rvalue=value):
            return name, op[:-1], value
    return None


def is_step(node: c_ast.Node) -> bool:
    return isinstance(node, c_ast.UnaryOp) and node.op in STEPS


def reads(node: c_ast.Node | None) -> Iterator[str]:
    """The names whose values are used: not those that are only assigned, or that call."""
    if node is None:
        return
    match node:
        case c_ast.Assignment(lvalue=c_ast.ID(), rvalue=value):
            yield from reads(value)
        case c_ast.UnaryOp(op="p++" | "p--" | "++" | "--", expr=c_ast.ID()):
            pass
        case c_ast.ID():
            yield node.name
        case c_ast.FuncCall():
            yield from reads(node.args)
        case _:
            for _, child in node.children():
                yield from reads(child)


def size(node: c_ast.Node) -> int:
    return sum(1 for _ in walk(node))


def assigned_names(*nodes: c_ast.Node | None) -> set[str]:
    """Every plain variable that is assigned or stepped, declarations left out."""
    found: set[str] = set()
    for node in nodes:
        for inner in walk(node) if node is not None else ():
            match inner:
                case c_ast.Assignment(lvalue=c_ast.ID(name=name)):
                    found.add(name)
                case c_ast.UnaryOp(op="p++" | "p--" | "++" | "--", expr=c_ast.ID(name=name)):
                    found.add(name)
    return found


def stored_arrays(*nodes: c_ast.Node | None) -> set[str]:
    """The names through which elements are assigned."""
    found: set[str] = set()
    for node in nodes:
        for inner in walk(node) if node is not None else ():
            match inner:
                case c_ast.Assignment(lvalue=c_ast.ArrayRef() | c_ast.UnaryOp() as target):
                    found.add(base_name(target) or "?")
                case c_ast.UnaryOp(op="p++" | "p--" | "++" | "--", expr=c_ast.ArrayRef() | c_ast.UnaryOp() as target):
                    found.add(base_name(target) or "?")
    return found


def declared_names(node: c_ast.Node) -> set[str]:
    return {str(n.name) for n in walk(node) if isinstance(n, c_ast.Decl) and n.name is not None}


def outlives(name: str, body: c_ast.Node, loop: c_ast.Node | None = None) -> bool:
    """Whether a variable is used outside the loops that start by setting it, and outside `loop`."""

    def visit(inner: c_ast.Node) -> Iterator[c_ast.Node]:
        if inner is loop or (isinstance(inner, c_ast.For) and name in assigned_names(inner.init)):
            return
        yield inner
        for _, child in inner.children():
            yield from visit(child)

    return any(isinstance(n, c_ast.ID) and n.name == name for n in visit(body))


def returned(definition: c_ast.FuncDef) -> c_ast.Node | None:
    """The expression of a function that is nothing but `return expression;`."""
    body = definition.body.block_items or []
    return body[0].expr if len(body) == 1 and isinstance(body[0], c_ast.Return) else None
