"""Names that stand for one object each: a declaration that hides another, or has another's name but a different type,
gets a name of its own. Everything else keeps its name."""

from __future__ import annotations

from collections.abc import Iterator

from pycparser import c_ast, c_generator

from dspgen.frontend.parse.assigned_names import walk
from dspgen.frontend.parse.syntax_tree import declared_names


class Fresh:
    """Names that the file doesn't use, and what those stand for that the user may read of."""

    def __init__(self, *trees: c_ast.Node) -> None:
        self._taken = {str(name) for tree in trees for name in _identifiers(tree)}
        self.meanings: dict[str, str] = {}
        self.parameters: list[str] = []

    def __call__(self, wanted: str, meaning: str = "") -> str:
        count, chosen = 0, wanted
        while chosen in self._taken:
            count += 1
            chosen = f"{wanted}_{count}"
        self._taken.add(chosen)
        if meaning:
            self.meanings[chosen] = meaning
        return chosen

    def parameter(self, wanted: str, meaning: str) -> str:
        """A name for an integer that is set once, and that the reader takes for a parameter from there on."""
        self.parameters.append(self(wanted, meaning))
        return self.parameters[-1]


def _identifiers(tree: c_ast.Node) -> Iterator[str]:
    for node in walk(tree):
        match node:
            case c_ast.ID(name=name) | c_ast.Decl(name=name) | c_ast.Enumerator(name=name) if name:
                yield name
            case c_ast.Typedef(name=name):
                yield name
            case c_ast.IdentifierType(names=names):
                yield from names


def unique_names(function: c_ast.FuncDef, fresh: Fresh) -> None:
    """Renames in place.

    Before: `int i; { float i; }` and `{ int k; } { float k; }`.
    After:  `int i; { float i_1; }` and `{ int k; } { float k_1; }`.
    """
    _Renamer(fresh).function(function)


def renamed(body: c_ast.Node, names: dict[str, str]) -> None:
    """Renames free variables in place; `body` declares none of the old or new names."""
    for node in walk(body):
        if isinstance(node, c_ast.ID) and node.name in names:
            node.name = names[node.name]


def fresh_locals(body: c_ast.Node, fresh: Fresh) -> None:
    """Renames everything that a block declares, in place; each name is declared for one object there."""
    names = {name: fresh(name, fresh.meanings.get(name, "")) for name in sorted(declared_names(body))}
    for node in walk(body):
        match node:
            case c_ast.ID() if node.name in names:
                node.name = names[node.name]
            case c_ast.Decl() if node.name in names:
                rename_declaration(node, names[node.name])


def rename_declaration(node: c_ast.Decl, name: str) -> None:
    node.name = name
    inner = node.type
    while isinstance(inner, c_ast.ArrayDecl | c_ast.PtrDecl):
        inner = inner.type
    if isinstance(inner, c_ast.TypeDecl):
        inner.declname = name


class _Renamer:
    def __init__(self, fresh: Fresh) -> None:
        self._fresh = fresh
        self._scopes: list[dict[str, str]] = [{}]
        self._types: dict[str, str] = {}
        self._generator = c_generator.CGenerator()

    def function(self, function: c_ast.FuncDef) -> None:
        params = function.decl.type.args.params if function.decl.type.args else []
        for param in params:
            if isinstance(param, c_ast.Decl) and param.name is not None:
                self._scopes[-1][param.name] = param.name
                self._types[param.name] = "parameter"
        for item in function.body.block_items or []:
            self._visit(item)

    def _visit(self, node: c_ast.Node) -> None:
        match node:
            case c_ast.Compound() | c_ast.For() | c_ast.While() | c_ast.DoWhile() | c_ast.If():
                self._scopes.append({})
                for _, child in node.children():
                    self._visit(child)
                self._scopes.pop()
            case c_ast.Decl() if node.name is not None:
                self._declare(node)
            case c_ast.ID():
                for scope in reversed(self._scopes):
                    if node.name in scope:
                        node.name = scope[node.name]
                        break
            case c_ast.StructRef():
                self._visit(node.name)
            case _:
                for _, child in node.children():
                    self._visit(child)

    def _declare(self, node: c_ast.Decl) -> None:
        old = node.name
        text = self._generator.visit(c_ast.Typename(None, [], None, node.type))
        hides = any(old in scope for scope in self._scopes)
        new = self._fresh(old) if hides or self._types.get(old, text) != text else old
        self._scopes[-1][old] = new
        self._types[new] = text
        if new != old:
            rename_declaration(node, new)
        for _, child in node.children():
            self._visit(child)
