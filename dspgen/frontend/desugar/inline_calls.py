"""Calls of the file's own functions, replaced by their bodies.

Before: `void scale(float *x, int n, float k) { for (...) x[i] *= k; }  ...  scale(y + 4, 8, 2);`
After:  `{ float *x_1 = y + 4; int n_1 = 8; float k_1 = 2; for (...) x_1[i_1] *= k_1; }`

Functions of scalars that are one return statement are left to the expression reader, unless they compute a subscript.
A call stays where it is, for the reader to refuse, if the function uses a name of the file that the caller hides, or if
the call is inside `&&`, `||` or `?:`, or in a loop's header. Recursion is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pycparser import c_ast

from dspgen.frontend.desugar.early_returns import ends, returning, settled
from dspgen.frontend.desugar.loop_exits import structured
from dspgen.frontend.parse.assigned_names import walk
from dspgen.frontend.parse.error_codes import fail
from dspgen.frontend.parse.syntax_tree import (
    assign,
    assigned_names,
    cloned,
    declared_names,
    is_step,
    rebuilt,
    returned,
)
from dspgen.frontend.parse.unique_names import Fresh, fresh_locals, renamed, unique_names
from plant_core.support.location import Loc


def inlined(
    function: c_ast.FuncDef,
    functions: dict[str, c_ast.FuncDef],
    fresh: Fresh,
    place: Callable[[c_ast.Node], Loc],
) -> None:
    """Changes the function's body in place."""
    inliner = _Inliner(function, functions, fresh, place)
    function.body = c_ast.Compound(inliner.block(function.body.block_items or []), function.body.coord)


def _params(definition: c_ast.FuncDef) -> list[c_ast.Decl]:
    given = definition.decl.type.args.params if definition.decl.type.args else []
    return [p for p in given if isinstance(p, c_ast.Decl) and p.name is not None]


def _is_address(param: c_ast.Decl) -> bool:
    return isinstance(param.type, c_ast.PtrDecl | c_ast.ArrayDecl)


def _structured(definition: c_ast.FuncDef, fresh: Fresh) -> c_ast.FuncDef:
    copy = cloned(definition)
    structured(copy, fresh)
    copy.body = c_ast.Compound(returning(copy.body.block_items or []), copy.body.coord)
    return copy


def _inner_first(node: c_ast.Node) -> Iterator[c_ast.Node]:
    for _, child in node.children():
        yield from _inner_first(child)
    yield node


def _apart(node: c_ast.Node, calls: list[c_ast.Node]) -> bool:
    """Whether steps such as `p++` stay right where the calls come first: of what else is named, nothing is stepped."""
    steps = [n for n in walk(node) if is_step(n)]
    if len(calls) == 1 and len(steps) == sum(is_step(n) for n in walk(calls[0])):
        return True
    named = [n.name for n in walk(node) if isinstance(n, c_ast.ID)]
    return all(isinstance(s.expr, c_ast.ID) and named.count(s.expr.name) == 1 for s in steps)


class _Inliner:
    def __init__(
        self,
        function: c_ast.FuncDef,
        functions: dict[str, c_ast.FuncDef],
        fresh: Fresh,
        place: Callable[[c_ast.Node], Loc],
    ) -> None:
        self._functions = {name: _structured(definition, fresh) for name, definition in functions.items()}
        self._original = functions
        self._fresh = fresh
        self._place = place
        self._own = declared_names(function)
        self._stack = [function.decl.name]

    def block(self, nodes: list[c_ast.Node]) -> list[c_ast.Node]:
        return [new for node in nodes for new in self._statement(node)]

    def _body(self, node: c_ast.Node) -> c_ast.Node:
        if isinstance(node, c_ast.Compound):
            return c_ast.Compound(self.block(node.block_items or []), node.coord)
        found = self._statement(node)
        return found[0] if len(found) == 1 else c_ast.Compound(found, node.coord)

    def _statement(self, node: c_ast.Node) -> list[c_ast.Node]:
        match node:
            case c_ast.Compound():
                return [self._body(node)]
            case c_ast.If():
                false = None if node.iffalse is None else self._body(node.iffalse)
                before, test = self._hoisted(node.cond)
                return [*before, c_ast.If(test, self._body(node.iftrue), false, node.coord)]
            case c_ast.For() | c_ast.While() | c_ast.DoWhile():
                for part in ("init", "cond", "next"):
                    if (inner := getattr(node, part, None)) is not None:
                        setattr(node, part, self._values(inner, in_subscript=False))
                node.stmt = self._body(node.stmt)
                return [node]
            case c_ast.FuncCall(name=c_ast.ID(name=name)) if name in self._functions:
                given = list(node.args.exprs) if node.args else []
                whole = self._call(name, given, node, None)
                return [node] if whole is None else [whole]
            case c_ast.ExprList():
                return self.block(list(node.exprs))
            case c_ast.Assignment() | c_ast.Decl() | c_ast.UnaryOp() | c_ast.Cast():
                before, whole = self._hoisted(node)
                return [*before, whole]
            case _:
                return [node]

    def _hoisted(self, node: c_ast.Node) -> tuple[list[c_ast.Node], c_ast.Node]:
        """The statement after those that compute its calls' results."""
        node = self._values(node, in_subscript=False)
        calls = [n for n in _inner_first(node) if self._needs_block(n)]
        if not calls or self._conditional(node, calls) or not _apart(node, calls):
            return [], node
        before: list[c_ast.Node] = []
        results: dict[int, c_ast.Node] = {}

        def change(inner: c_ast.Node) -> c_ast.Node:
            return results.get(id(inner)) or rebuilt(inner, change)

        for call in calls:
            result = self._fresh(f"{call.name.name}_result")
            definition = self._functions[call.name.name]
            kind = cloned(definition.decl.type.type)
            if not isinstance(kind, c_ast.TypeDecl):
                return [], node
            kind.declname = result
            given = [change(a) for a in call.args.exprs] if call.args else []
            whole = self._call(call.name.name, given, call, result)
            if whole is None:
                return [], node
            kind.quals = []
            before += [c_ast.Decl(result, [], [], [], [], kind, None, None, coord=call.coord), whole]
            results[id(call)] = c_ast.ID(result, call.coord)
        return before, change(node)

    def _needs_block(self, node: c_ast.Node) -> bool:
        match node:
            case c_ast.FuncCall(name=c_ast.ID(name=name)) if name in self._functions and name not in self._stack:
                value = returned(self._original[name])
                if value is None:
                    return True
                self._stack.append(name)
                found = any(self._needs_block(n) for n in walk(value))
                self._stack.pop()
                return found
        return False

    def _conditional(self, node: c_ast.Node, calls: list[c_ast.Node]) -> bool:
        """Whether a call may not happen."""
        chosen = {id(c) for c in calls}
        for inner in walk(node):
            parts: list[c_ast.Node] = []
            match inner:
                case c_ast.TernaryOp():
                    parts = [inner.iftrue, inner.iffalse]
                case c_ast.BinaryOp(op="&&" | "||"):
                    parts = [inner.right]
            if any(id(n) in chosen for part in parts for n in walk(part)):
                return True
        return False

    def _values(self, node: c_ast.Node, *, in_subscript: bool) -> c_ast.Node:
        """Calls of one-line functions, replaced where the expression reader can't do it."""
        if isinstance(node, c_ast.ArrayRef):
            subscript = self._values(node.subscript, in_subscript=True)
            return c_ast.ArrayRef(self._values(node.name, in_subscript=in_subscript), subscript, node.coord)
        inside = in_subscript or (isinstance(node, c_ast.UnaryOp) and node.op in ("*", "&"))
        whole = rebuilt(node, lambda n: self._values(n, in_subscript=inside))
        match whole:
            case c_ast.FuncCall(name=c_ast.ID(name=name)) if name in self._functions:
                definition = self._functions[name]
                value = returned(definition)
                params = _params(definition)
                if value is None or not (in_subscript or any(_is_address(p) for p in params) or self._simple(whole)):
                    return whole
                return self._expression(name, value, params, whole)
        return whole

    def _simple(self, call: c_ast.FuncCall) -> bool:
        """Whether a function of several returns may be written out, its arguments being cheap to repeat."""
        if returned(self._original[call.name.name]) is not None:
            return False
        return all(isinstance(a, c_ast.ID | c_ast.Constant) for a in (call.args.exprs if call.args else []))

    def _expression(self, name: str, value: c_ast.Node, params: list[c_ast.Decl], call: c_ast.FuncCall) -> c_ast.Node:
        given = list(call.args.exprs) if call.args else []
        pure = not any(is_step(n) or isinstance(n, c_ast.Assignment | c_ast.FuncCall) for a in given for n in walk(a))
        if len(given) != len(params) or not pure or assigned_names(value) or self._captured(self._functions[name]):
            return call
        self._enter(name, call)
        values: dict[str, c_ast.Node] = {}
        for param, arg in zip(params, given, strict=True):
            kind = c_ast.Typename(None, [], None, _anonymous(param.type), coord=arg.coord)
            values[param.name] = arg if _is_address(param) else c_ast.Cast(kind, arg, arg.coord)

        def change(inner: c_ast.Node) -> c_ast.Node:
            if isinstance(inner, c_ast.ID) and inner.name in values:
                return cloned(values[inner.name])
            return rebuilt(inner, change)

        result = c_ast.Typename(None, [], None, _anonymous(self._functions[name].decl.type.type), coord=call.coord)
        found = self._values(change(cloned(value)), in_subscript=True)
        self._stack.pop()
        return c_ast.Cast(result, found, call.coord)

    def _enter(self, name: str, call: c_ast.Node) -> None:
        if name in self._stack:
            chain = " -> ".join([*self._stack[self._stack.index(name) :], name])
            fail("DG014", f"the function '{name}' calls itself: {chain}", self._place(call), "write it as a loop")
        self._stack.append(name)

    def _captured(self, definition: c_ast.FuncDef) -> bool:
        """Whether the function means something of the file by a name that the caller has for its own."""
        own = declared_names(definition)
        free = {n.name for n in walk(definition.body) if isinstance(n, c_ast.ID)} - own
        return bool(free & self._own)

    def _call(self, name: str, given: list[c_ast.Node], call: c_ast.Node, result: str | None) -> c_ast.Node | None:
        """The function's body as a block that stores its value in `result`."""
        if name in self._stack:
            self._enter(name, call)
        definition = cloned(self._functions[name])
        params = _params(definition)
        body = list(definition.body.block_items or [])
        leaving = any(isinstance(n, c_ast.Goto | c_ast.Label) for item in body for n in walk(item))
        if leaving or not settled(body) or len(given) != len(params) or self._captured(self._functions[name]):
            return None
        if result is not None and not ends(body):
            return None
        self._enter(name, call)
        unique_names(definition, self._fresh)
        changed = assigned_names(definition.body)
        direct: dict[str, str] = {}
        bound: list[c_ast.Node] = []
        for param, arg in zip(params, given, strict=True):
            if _is_address(param) and isinstance(arg, c_ast.ID) and param.name not in changed:
                direct[param.name] = arg.name
            else:
                bound.append(_bound(param, arg))
        body = [_stored(node, result is not None) for node in body]
        args = {id(b): b.init for b in bound}
        for b in bound:
            b.init = None
        whole = c_ast.Compound([*bound, *body], call.coord)
        fresh_locals(whole, self._fresh)
        renamed(whole, direct)
        renamed(whole, {"$result": result or ""})
        for b in bound:
            b.init = args[id(b)]
        found = self.block(whole.block_items)
        self._stack.pop()
        return c_ast.Compound(found, call.coord)


def _bound(param: c_ast.Decl, arg: c_ast.Node) -> c_ast.Decl:
    """The parameter as a variable that starts as the argument."""
    kind = param.type
    if isinstance(kind, c_ast.ArrayDecl):
        kind = c_ast.PtrDecl([], kind.type, kind.coord)
    elif isinstance(kind, c_ast.TypeDecl):
        kind.quals = [q for q in kind.quals if q != "const"]
    return c_ast.Decl(param.name, [], [], [], [], kind, arg, None, coord=param.coord)


def _stored(node: c_ast.Node, wanted: bool) -> c_ast.Node:
    """Returns as assignments to the result."""
    if isinstance(node, c_ast.Return):
        if node.expr is None:
            return c_ast.EmptyStatement(node.coord)
        return assign("$result", node.expr, node.coord) if wanted else node.expr
    return rebuilt(node, lambda n: _stored(n, wanted)) if isinstance(node, c_ast.If | c_ast.Compound) else node


def _anonymous(kind: c_ast.Node) -> c_ast.Node:
    copy = cloned(kind)
    if isinstance(copy, c_ast.TypeDecl):
        copy.declname = None
        copy.quals = []
    return copy
