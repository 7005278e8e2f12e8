"""Which names a piece of C assigns, and which it uses."""

from __future__ import annotations

from collections.abc import Iterator

from pycparser import c_ast


def walk(node: c_ast.Node) -> Iterator[c_ast.Node]:
    yield node
    for _, child in node.children():
        yield from walk(child)


def base_name(node: c_ast.Node) -> str | None:
    """The variable at the root of `a`, `a[i]` or `*a`."""
    while True:
        match node:
            case c_ast.ID():
                return str(node.name)
            case c_ast.ArrayRef():
                node = node.name
            case c_ast.UnaryOp():
                node = node.expr
            case _:
                return None


def targets(node: c_ast.Node | None) -> list[str]:
    """The base name of every assignment, in text order, with repeats."""
    found: list[str] = []
    for inner in walk(node) if node is not None else ():
        match inner:
            case c_ast.Assignment(lvalue=target):
                name = base_name(target)
            case c_ast.UnaryOp(op="p++" | "p--" | "++" | "--", expr=target):
                name = base_name(target)
            case c_ast.Decl(name=name) if inner.init is not None:
                pass
            case _:
                continue
        if name is not None:
            found.append(name)
    return found


def counters(node: c_ast.Node) -> set[str]:
    """The variables that some for loop steps but doesn't declare."""
    found: set[str] = set()
    for inner in walk(node):
        if isinstance(inner, c_ast.For) and inner.next is not None:
            declared = {d.name for d in inner.init.decls} if isinstance(inner.init, c_ast.DeclList) else set()
            found |= set(targets(inner.next)) - declared
    return found


def names(node: c_ast.Node) -> set[str]:
    return {str(inner.name) for inner in walk(node) if isinstance(inner, c_ast.ID)}
