"""Calls that fill and copy memory as loops.

Before: `memset(y, 0, n * sizeof(float));`           `memcpy(z, x + 1, n * sizeof *x);`
After:  `for (int at = 0; at < n; at++) y[at] = 0;`   `for (int at = 0; at < n; at++) *(z + at) = *(x + 1 + at);`

`__builtin_assume_aligned(p, 16)` is `p`. A call whose number of bytes isn't a number of the array's elements, or that
fills with anything but zero, is left to the reader to refuse.
"""

from __future__ import annotations

from collections.abc import Mapping

from pycparser import c_ast

from dspgen.frontend.parse.assigned_names import base_name, walk
from dspgen.frontend.parse.syntax_tree import cloned, rebuilt, variable
from dspgen.frontend.parse.unique_names import Fresh
from dspgen.frontend.symbolic.state import Pointer, Types


def with_loops(function: c_ast.FuncDef, defined: Mapping[str, c_ast.FuncDef], types: Types, fresh: Fresh) -> None:
    """Changes the function's body in place; functions that the file defines are no library's."""
    called = {
        n.name.name for n in walk(function.body) if isinstance(n, c_ast.FuncCall) and isinstance(n.name, c_ast.ID)
    }
    if not called - set(defined) & {"memset", "memcpy", "__builtin_assume_aligned"}:
        return
    given = function.decl.type.args.params if function.decl.type.args else []
    for node in (*given, *walk(function.body)):
        if isinstance(node, c_ast.Decl) and node.name is not None:
            types.declare(node)
    arrays = {**types.arrays, **types.pointers}

    def change(node: c_ast.Node) -> c_ast.Node:
        match node:
            case c_ast.FuncCall(name=c_ast.ID(name=name)) if name not in defined and node.args is not None:
                found = _call(name, list(node.args.exprs), node, arrays, types, fresh)
                if found is not None:
                    return found
        return rebuilt(node, change)

    function.body = change(function.body)


def _call(
    name: str, args: list[c_ast.Node], node: c_ast.Node, arrays: Mapping[str, Pointer], types: Types, fresh: Fresh
) -> c_ast.Node | None:
    match name, args:
        case "__builtin_assume_aligned", [pointer, *_]:
            return pointer
        case "memset", [target, c_ast.Constant(value="0") as zero, size]:
            source: c_ast.Node = zero
        case "memcpy", [target, source, size]:
            pass
        case _:
            return None
    elements = {_element(part, arrays) for part in (target, source) if part is not source or name == "memcpy"}
    count = _count(size, arrays, types)
    if count is None or elements != {count[0]}:
        return None
    coord = node.coord
    at = fresh("at")
    value = source if name == "memset" else _at(source, at)
    test = c_ast.BinaryOp("<", c_ast.ID(at, coord), cloned(count[1]), coord)
    first = c_ast.DeclList([variable(at, c_ast.Constant("int", "0", coord), coord)], coord)
    onward = c_ast.UnaryOp("p++", c_ast.ID(at, coord), coord)
    return c_ast.For(first, test, onward, c_ast.Assignment("=", _at(target, at), value, coord), coord)


def _at(pointer: c_ast.Node, index: str) -> c_ast.Node:
    coord = pointer.coord
    if isinstance(pointer, c_ast.ID):
        return c_ast.ArrayRef(pointer, c_ast.ID(index, coord), coord)
    return c_ast.UnaryOp("*", c_ast.BinaryOp("+", pointer, c_ast.ID(index, coord), coord), coord)


def _element(node: c_ast.Node, arrays: Mapping[str, Pointer]) -> str | None:
    """The type of what the pointer points to, where that is an element."""
    match node:
        case c_ast.ID(name=name) if name in arrays and arrays[name].rank == 1:
            return arrays[name].element
        case c_ast.BinaryOp(op="+" | "-", left=left):
            return _element(left, arrays)
        case c_ast.UnaryOp(op="&", expr=c_ast.ArrayRef(name=inner)):
            return _element(inner, arrays)
    return None


def _count(size: c_ast.Node, arrays: Mapping[str, Pointer], types: Types) -> tuple[str, c_ast.Node] | None:
    """`sizeof(T) * n` as T and n."""
    match size:
        case c_ast.BinaryOp(op="*", left=left, right=right):
            for one, other in ((left, right), (right, left)):
                if (element := _sizeof(one, arrays, types)) is not None:
                    return element, other
    return None


def _sizeof(node: c_ast.Node, arrays: Mapping[str, Pointer], types: Types) -> str | None:
    match node:
        case c_ast.UnaryOp(op="sizeof", expr=c_ast.Typename(type=c_ast.TypeDecl() as kind)):
            return types.element(kind)
        case c_ast.UnaryOp(op="sizeof", expr=c_ast.UnaryOp(op="*") | c_ast.ArrayRef() as place):
            array = arrays.get(base_name(place) or "")
            return array.element if array is not None and array.rank == 1 else None
    return None
