"""Loop bounds that are read from memory, as scalars of their own just before the loop.

Before: `for (k = ptr[i]; k < ptr[i + 1]; k++) BODY`
After:  `const int k_from = ptr[i]; const int k_to = ptr[i + 1]; for (k = k_from; k < k_to; k++) BODY`

Before: `int n = rows * cols; for (k = 0; k < n; k++) BODY`
After:  `const int size = rows * cols; for (k = 0; k < size; k++) BODY`

The reader takes each such scalar as an integer parameter that a statement defines. A bound stays as it is where the
loop may change it: its array is stored to, or its variable assigned, in the loop.
"""

from __future__ import annotations

from collections.abc import Mapping

from pycparser import c_ast

from dspgen.frontend.parse.assigned_names import names, walk
from dspgen.frontend.parse.syntax_tree import assigned_names, cloned, items, rebuilt, step_of, stored_arrays, variable
from dspgen.frontend.parse.unique_names import Fresh
from dspgen.frontend.symbolic.polynomials import Name, Poly, Read, atom, from_ast
from dspgen.frontend.symbolic.state import Types


def hoisted(function: c_ast.FuncDef, types: Types, fixed: Mapping[str, int], fresh: Fresh) -> tuple[str, ...]:
    """Changes the function's body in place; gives the scalars, in text order."""
    given = function.decl.type.args.params if function.decl.type.args else []
    for node in [*given, *(n for n in walk(function.body) if isinstance(n, c_ast.Decl))]:
        if isinstance(node, c_ast.Decl) and node.name is not None:
            types.declare(node)
    changing = assigned_names(function.body) | {n.name for n in walk(function.body) if isinstance(n, c_ast.Decl)}
    stable = {p.name for p in given if isinstance(p, c_ast.Decl) and p.name in types.integers} - changing - set(fixed)
    sizes = _Sizes(types, fresh, stable, _single(function.body))
    sizes.loops(function.body)
    hoister = _Hoister(types, fresh, _from_memory(function.body))
    hoister.block(function.body)
    function.body.block_items = [*sizes.made.values(), *(function.body.block_items or [])]
    return (*(n.name for n in sizes.made.values()), *hoister.made)


def _definitions(body: c_ast.Node) -> list[tuple[str, c_ast.Node]]:
    found: list[tuple[str, c_ast.Node]] = []
    for node in walk(body):
        if isinstance(node, c_ast.Decl) and node.name is not None and node.init is not None:
            found.append((node.name, node.init))
        elif (step := step_of(node)) is not None:
            found.append((step[0], step[2] if not step[1] else c_ast.EmptyStatement(node.coord)))
    return found


def _single(body: c_ast.Node) -> dict[str, c_ast.Node]:
    """The variables that get a value at one place only, and that value."""
    found: dict[str, list[c_ast.Node]] = {}
    for name, value in _definitions(body):
        found.setdefault(name, []).append(value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


class _Sizes:
    """Products of parameters in loop bounds, each computed once at the start."""

    def __init__(self, types: Types, fresh: Fresh, stable: set[str], values: dict[str, c_ast.Node]) -> None:
        self._types = types
        self._fresh = fresh
        self._stable = stable
        self._values = {name: value for name, value in values.items() if self._is_product(value)}
        self.made: dict[Poly, c_ast.Decl] = {}

    def loops(self, body: c_ast.Node) -> None:
        for node in walk(body):
            if isinstance(node, c_ast.For):
                node.cond = self._replaced(node.cond) if node.cond is not None else None
                node.init = self._replaced(node.init) if node.init is not None else None

    def _lookup(self, name: str) -> Read | None:
        if name in self._types.consts:
            return Read(self._types.consts[name], True)
        known = self._types.integers.get(name)
        return Read(atom(Name(name)), True) if name in self._stable and known is not None and known.exact else None

    def _poly(self, node: c_ast.Node) -> Poly | None:
        read = from_ast(node, self._lookup, self._types.kind)
        return read.poly if read is not None and read.signed and not read.wide else None

    def _is_product(self, node: c_ast.Node) -> bool:
        poly = self._poly(node)
        return poly is not None and any(len(monomial) > 1 for monomial, _ in poly.terms)

    def _replaced(self, node: c_ast.Node) -> c_ast.Node:
        if isinstance(node, c_ast.ID) and node.name in self._values:
            node = self._values[node.name]
        if isinstance(node, c_ast.BinaryOp) and self._is_product(node):
            poly = self._poly(node) or Poly()
            if poly not in self.made:
                self.made[poly] = variable(self._fresh("size"), cloned(node), node.coord)
            return c_ast.ID(self.made[poly].name, node.coord)
        match node:
            case c_ast.Decl() | c_ast.DeclList() | c_ast.BinaryOp() | c_ast.ExprList():
                return rebuilt(node, self._replaced)
            case c_ast.Assignment():
                return c_ast.Assignment(node.op, node.lvalue, self._replaced(node.rvalue), node.coord)
        return node


def _from_memory(body: c_ast.Node) -> set[str]:
    """The variables whose values come from arrays, directly or by way of others."""
    found: set[str] = set()
    definitions = _definitions(body)
    while True:
        more = {
            name
            for name, value in definitions
            if name not in found and (names(value) & found or any(isinstance(n, c_ast.ArrayRef) for n in walk(value)))
        }
        if not more:
            return found
        found |= more


class _Hoister:
    def __init__(self, types: Types, fresh: Fresh, varying: set[str]) -> None:
        self._types = types
        self._fresh = fresh
        self._varying = varying
        self.made: list[str] = []

    def block(self, node: c_ast.Node) -> None:
        """Every loop below, each put behind its bounds."""
        match node:
            case c_ast.Compound():
                node.block_items = [new for item in node.block_items or [] for new in self._statement(item)]
            case _:
                for field in ("stmt", "iftrue", "iffalse"):
                    inner = getattr(node, field, None)
                    if isinstance(inner, c_ast.Node):
                        setattr(node, field, self._one(inner))

    def _one(self, node: c_ast.Node) -> c_ast.Node:
        found = self._statement(node)
        return found[0] if len(found) == 1 else c_ast.Compound(found, node.coord)

    def _statement(self, node: c_ast.Node) -> list[c_ast.Node]:
        if not isinstance(node, c_ast.For) or node.cond is None:
            self.block(node)
            return [node]
        before: list[c_ast.Node] = []
        changed = assigned_names(node.stmt, node.next)
        stored = stored_arrays(node.stmt)
        own = {step[0] for part in items(node.next) if (step := step_of(part)) is not None}
        # The first clause runs once, so nothing in the loop matters to it.
        node.init = self._bounds(node.init, own, set(), "from", before) if node.init is not None else None
        node.cond = self._bounds(node.cond, own | changed, stored, "to", before)
        self.block(node)
        return [c_ast.Compound([*before, node], node.coord)] if before else [node]

    def _bounds(
        self, node: c_ast.Node, changed: set[str], stored: set[str], word: str, before: list[c_ast.Node]
    ) -> c_ast.Node:
        def change(inner: c_ast.Node) -> c_ast.Node:
            match inner:
                case c_ast.ArrayRef() if self._is_int(inner) and not names(inner) & (changed | stored):
                    return self._scalar(inner, changed, word, before)
                case c_ast.ID(name=name) if name in self._varying and name not in changed and self._is_exact(name):
                    known = name in self._fresh.parameters
                    return inner if known else self._scalar(inner, changed, word, before)
                case c_ast.Assignment():
                    value = change(inner.rvalue)
                    return c_ast.Assignment(inner.op, inner.lvalue, value, inner.coord)
                case c_ast.Decl() | c_ast.DeclList() | c_ast.BinaryOp() | c_ast.ExprList():
                    return rebuilt(inner, change)
            return inner

        return change(node)

    def _is_exact(self, name: str) -> bool:
        known = self._types.integers.get(name)
        return known is not None and known.exact

    def _is_int(self, node: c_ast.ArrayRef) -> bool:
        root = node.name
        while isinstance(root, c_ast.ArrayRef):
            root = root.name
        if not isinstance(root, c_ast.ID):
            return False
        known = self._types.arrays.get(root.name) or self._types.pointers.get(root.name)
        # What is narrower than int is promoted to it.
        return known is not None and known.element in ("int", "short", "char", "char unsigned", "short unsigned")

    def _scalar(self, value: c_ast.Node, changed: set[str], word: str, before: list[c_ast.Node]) -> c_ast.Node:
        root = sorted(names(value))[0] if not isinstance(value, c_ast.ID) else value.name
        base = value
        while isinstance(base, c_ast.ArrayRef):
            base = base.name
        name = self._fresh(f"{base.name if isinstance(base, c_ast.ID) else root}_{word}")
        before.append(variable(name, value, value.coord))
        self.made.append(name)
        return c_ast.ID(name, value.coord)
