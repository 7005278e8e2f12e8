"""`switch`, `continue`, `break` and returns in loops as branches.

Before: `switch (m) { case 0: A; break; case 1: case 2: B; break; default: C; }`
After:  `if (m == 0) A; else if (m == 1 || m == 2) B; else C;`

Before: `for (...) { if (x[i] < 0) continue; A; }`
After:  `for (...) { if (!(x[i] < 0)) A; }`

Before: `for (...) { A; if (x[i] == key) { B; break; } C; }`
After:  `int going = 1; for (...) if (going) { A; if (x[i] == key) { B; going = 0; } else C; }`

Before: `for (...) if (x[i] < 0) return i;`
After:  `int done = 0; T value; for (...) if (x[i] < 0) { value = i; done = 1; break; } if (done) return value;`

Before: `for (...) { if (x[i] < 0) exit(1); A; }`
After:  `for (...) { if (x[i] < 0) return; A; }`, since what is left of the program is the contents of its arrays.

The rounds after a `break` do nothing, so its loop has to be one whose end is known without it. What isn't of these
forms is left as it is, for the reader to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from pycparser import c_ast

from dspgen.frontend.assigned import names, walk
from dspgen.frontend.lower_gotos import without_gotos
from dspgen.frontend.lower_names import Fresh, renamed
from dspgen.frontend.lower_returns import returning, settled
from dspgen.frontend.lower_skips import REPEATED, always, has, nothing, skipped
from dspgen.frontend.simplify_ast import (
    LOOPS,
    assign,
    assigned_names,
    cloned,
    is_step,
    items,
    outlives,
    rebuilt,
    size,
    step_of,
    typed_variable,
    variable,
)

Change = Callable[[c_ast.Node], c_ast.Node]


def structured(function: c_ast.FuncDef, fresh: Fresh, known: Collection[str] = ()) -> None:
    """Changes the function's body in place; `known` are the parameters that have fixed values."""
    if any(isinstance(n, c_ast.Goto | c_ast.Label) for n in walk(function.body)):
        function.body.block_items = [_inside(n, _without_switch) for n in function.body.block_items or []]
        without_gotos(function, fresh)
    kinds = c_ast.Switch | c_ast.Break | c_ast.Continue
    loops = [n for n in walk(function.body) if isinstance(n, LOOPS)]
    early = any(isinstance(n, c_ast.Return) for loop in loops for n in walk(loop.stmt))
    body = function.body.block_items or []
    if not early and settled(returning(body)) and not any(isinstance(n, kinds) for n in walk(function.body)):
        return
    body = [_inside(node, _without_switch) for node in body]
    if early and not any(isinstance(n, c_ast.Switch) for node in body for n in walk(node)):
        body = _with_flag(body, function, fresh)
    if not settled(returning(body)):
        body = skipped(body, c_ast.Return, lambda node: [node]) or body
    function.body.block_items = body
    exits = _Exits(function, fresh, known)
    function.body.block_items = [_inside(node, exits.loop) for node in body]


def _inside(node: c_ast.Node, change: Change) -> c_ast.Node:
    """`change` done to every statement, the innermost first, in place."""
    match node:
        case c_ast.Compound():
            node.block_items = [_inside(item, change) for item in node.block_items or []]
        case c_ast.Case() | c_ast.Default():
            node.stmts = [_inside(item, change) for item in node.stmts or []]
        case _:
            for field in ("stmt", "iftrue", "iffalse"):
                if isinstance(inner := getattr(node, field, None), c_ast.Node):
                    setattr(node, field, _inside(inner, change))
    return change(node)


def _pure(*parts: c_ast.Node | None) -> bool:
    return not any(
        is_step(n) or isinstance(n, c_ast.Assignment | c_ast.FuncCall)
        for part in parts
        if part is not None
        for n in walk(part)
    )


# Switches


def _without_switch(node: c_ast.Node) -> c_ast.Node:
    if not isinstance(node, c_ast.Switch) or not isinstance(node.stmt, c_ast.Compound) or not _pure(node.cond):
        return node
    groups: list[tuple[list[c_ast.Node | None], list[c_ast.Node]]] = []
    for item in node.stmt.block_items or []:
        if not isinstance(item, c_ast.Case | c_ast.Default):
            return node
        label = item.expr if isinstance(item, c_ast.Case) else None
        if groups and not groups[-1][1]:
            groups[-1][0].append(label)
        else:
            groups.append(([label], []))
        groups[-1][1].extend(item.stmts or [])
    chain: c_ast.Node | None = None
    tests: list[tuple[c_ast.Node, c_ast.Node]] = []
    for position, (labels, _) in enumerate(groups):
        body = _from(groups[position:])
        if body is None:
            return node
        whole = c_ast.Compound(body, node.coord)
        if None in labels:
            chain = whole
        else:
            tests.append((_any_of(node.cond, [label for label in labels if label is not None]), whole))
    for test, whole in reversed(tests):
        chain = c_ast.If(test, whole, chain, node.coord)
    return chain if chain is not None else c_ast.EmptyStatement(node.coord)


def _from(groups: Sequence[tuple[list[c_ast.Node | None], list[c_ast.Node]]]) -> list[c_ast.Node] | None:
    """What is done from the first group on, up to a `break`."""
    nodes: list[c_ast.Node] = []
    for position, (_, statements) in enumerate(groups):
        if position and sum(size(n) for n in statements) > REPEATED:
            return None
        nodes += [cloned(n) for n in statements]
        if always(statements, c_ast.Break) or always(statements, c_ast.Continue):
            break
    return skipped(nodes, c_ast.Break, nothing)


def _any_of(value: c_ast.Node, labels: list[c_ast.Node]) -> c_ast.Node:
    total: c_ast.Node | None = None
    for label in labels:
        test = c_ast.BinaryOp("==", cloned(value), label, label.coord)
        total = test if total is None else c_ast.BinaryOp("||", total, test, label.coord)
    assert total is not None
    return total


# Ends of the program

STOPS = {"exit": "int status", "_Exit": "int status", "abort": "void"}
"""Functions that end the program, and what they take; the oracle ends the kernel there, too."""


def stopping(function: c_ast.FuncDef) -> None:
    """Changes the body of the kernel, a function without a value, in place."""
    kind = function.decl.type.type
    if isinstance(kind, c_ast.TypeDecl) and isinstance(kind.type, c_ast.IdentifierType) and kind.type.names == ["void"]:
        function.body = _without_stops(function.body)


def _without_stops(node: c_ast.Node) -> c_ast.Node:
    match node:
        case c_ast.FuncCall(name=c_ast.ID(name=name), args=args) if name in STOPS and (args is None or _pure(args)):
            return c_ast.Return(None, node.coord)
        case c_ast.Compound() | c_ast.If() | c_ast.Switch() | c_ast.Case() | c_ast.Default() | c_ast.Label():
            return rebuilt(node, _without_stops)
        case c_ast.For() | c_ast.While() | c_ast.DoWhile():
            return rebuilt(node, lambda part: _without_stops(part) if part is node.stmt else part)
    return node


# Returns in loops


def _with_flag(body: list[c_ast.Node], function: c_ast.FuncDef, fresh: Fresh) -> list[c_ast.Node]:
    """Every return in a loop as a `break` that a flag repeats outside."""
    coord = function.body.coord
    kind = function.decl.type.type
    scalar = isinstance(kind, c_ast.TypeDecl) and isinstance(kind.type, c_ast.IdentifierType)
    loops = [n for item in body for n in walk(item) if isinstance(n, LOOPS)]
    returns = [n for loop in loops for n in walk(loop.stmt) if isinstance(n, c_ast.Return)]
    valued = any(n.expr is not None for n in returns)
    if valued and not scalar:
        return body
    done, value = fresh("done"), fresh("value") if valued else ""

    def leaving(node: c_ast.Node, deep: bool) -> c_ast.Node:
        match node:
            case c_ast.Return() if deep:
                first = [assign(value, node.expr, node.coord)] if node.expr is not None else []
                flag = assign(done, c_ast.Constant("int", "1", node.coord), node.coord)
                return c_ast.Compound([*first, flag, c_ast.Break(node.coord)], node.coord)
            case c_ast.Compound():
                return c_ast.Compound([leaving(item, deep) for item in node.block_items or []], node.coord)
            case c_ast.If():
                false = leaving(node.iffalse, deep) if node.iffalse is not None else None
                return c_ast.If(node.cond, leaving(node.iftrue, deep), false, node.coord)
            case c_ast.For() | c_ast.While() | c_ast.DoWhile():
                if not any(isinstance(n, c_ast.Return) for n in walk(node.stmt)):
                    return node
                node.stmt = leaving(node.stmt, True)
                again = c_ast.Return(c_ast.ID(value, node.coord) if valued else None, node.coord)
                onward = c_ast.Break(node.coord) if deep else again
                return c_ast.Compound([node, c_ast.If(c_ast.ID(done, node.coord), onward, None, node.coord)], coord)
        return node

    found = [_flattened(leaving(node, False)) for node in body]
    first: list[c_ast.Node] = [variable(done, c_ast.Constant("int", "0", coord), coord)]
    if valued:
        first.append(typed_variable(cloned(kind.type), value, None, coord))
    return [*first, *(new for nodes in found for new in nodes)]


def _flattened(node: c_ast.Node) -> list[c_ast.Node]:
    """A loop and the test behind it as statements of the block around, so that a return ends that block."""
    if isinstance(node, c_ast.Compound) and len(parts := items(node)) == 2 and isinstance(parts[0], LOOPS):
        return parts
    return [node]


# Exits of loops


class _Exits:
    def __init__(self, function: c_ast.FuncDef, fresh: Fresh, known: Collection[str]) -> None:
        self._function = function
        self._fresh = fresh
        self._changed = assigned_names(function.body)
        given = function.decl.type.args.params if function.decl.type.args else []
        self._declared: dict[str, list[c_ast.Node]] = {}
        self._constant: set[str] = set(known)
        for node in (*given, *walk(function.body)):
            if isinstance(node, c_ast.Decl) and node.name is not None:
                self._declared.setdefault(node.name, []).append(node.type)
                if isinstance(node.init, c_ast.Constant) and node.name not in self._changed:
                    self._constant.add(node.name)

    def loop(self, node: c_ast.Node) -> c_ast.Node:
        """The loop without `continue` and `break`; itself where it can't be."""
        if not isinstance(node, LOOPS) or any(isinstance(n, c_ast.Switch) for n in walk(node.stmt)):
            return node
        if has(node.stmt, c_ast.Continue):
            body = skipped(items(node.stmt), c_ast.Continue, nothing)
            if body is None:
                return node
            node.stmt = c_ast.Compound(body, node.stmt.coord)
        if not has(node.stmt, c_ast.Break):
            return node
        return self._tested(node) or self._flagged(node) or node

    def _tested(self, node: c_ast.Node) -> c_ast.Node | None:
        """A `break` at the start or at the end of each round as a part of the loop's test."""
        nodes = items(node.stmt)
        endless = node.cond is None or (isinstance(node.cond, c_ast.Constant) and node.cond.value != "0")
        first, last = nodes[0], nodes[-1]
        if _only_breaks(first) and not any(has(n, c_ast.Break) for n in nodes[1:]):
            if not isinstance(node, c_ast.DoWhile) and (endless or (_pure(first.cond) and self._is_plain(first, node))):
                onward = c_ast.UnaryOp("!", first.cond, first.coord)
                node.cond = onward if endless else c_ast.BinaryOp("&&", node.cond, onward, first.coord)
                node.stmt = c_ast.Compound(nodes[1:], node.stmt.coord)
                return node
        if endless and _only_breaks(last) and not any(has(n, c_ast.Break) for n in nodes[:-1]):
            if isinstance(node, c_ast.For) and node.next is not None:
                return None
            onward = c_ast.UnaryOp("!", last.cond, last.coord)
            whole = c_ast.DoWhile(onward, c_ast.Compound(nodes[:-1], node.stmt.coord), node.coord)
            start = items(node.init) if isinstance(node, c_ast.For) else []
            return c_ast.Compound([*start, whole], node.coord) if start else whole
        return None

    def _is_plain(self, test: c_ast.If, node: c_ast.Node) -> bool:
        """Whether the test is one on the loop's counter and what doesn't change."""
        header = {name for part in (node.cond, getattr(node, "next", None)) if part is not None for name in names(part)}
        return not any(isinstance(n, c_ast.ArrayRef) for n in walk(test.cond)) and all(
            name in header or (name not in self._changed and not self._is_real(name)) for name in names(test.cond)
        )

    def _is_real(self, name: str) -> bool:
        kinds = [getattr(kind, "type", None) for kind in self._declared.get(name, [])]
        return any(isinstance(k, c_ast.IdentifierType) and {"float", "double"} & set(k.names) for k in kinds)

    def _flagged(self, node: c_ast.Node) -> c_ast.Node | None:
        """The rest of the rounds guarded by a flag."""
        onward = getattr(node, "next", None)
        start = items(node.init) if isinstance(node, c_ast.For) else []
        own = {str(n.name) for n in start if isinstance(n, c_ast.Decl)}
        stepped = assigned_names(onward) - own
        if (
            node.cond is None
            or not _pure(node.cond)
            or not self._is_steady(onward)
            or skipped(items(node.stmt), c_ast.Break, nothing) is None
        ):
            return None
        live = {name for name in stepped if outlives(name, self._function.body, node)}
        before: list[c_ast.Node] = []
        after: list[c_ast.Node] = []
        if live:
            kept = self._kept(node, live)
            if kept is None:
                return None
            before, first, after = kept
        going = self._fresh("going")
        coord = node.coord
        stop = assign(going, c_ast.Constant("int", "0", coord), coord)
        body = skipped([*items(node.stmt), *after], c_ast.Break, lambda _: [cloned(stop)])
        if body is None:
            return None
        inside = c_ast.Compound([first, *body] if live else body, node.stmt.coord)
        node.stmt = c_ast.Compound([c_ast.If(c_ast.ID(going, coord), inside, None, coord)], node.stmt.coord)
        flag = variable(going, c_ast.Constant("int", "1", coord), coord)
        return c_ast.Compound([*before, flag, node], coord)

    def _is_steady(self, onward: c_ast.Node | None) -> bool:
        """Whether no step is a variable's value: only the `break` might end the loop where that is zero or less."""
        steps = [s for part in items(onward) if (s := step_of(part)) is not None]
        return not any(n in self._declared and n not in self._constant for _, _, by in steps for n in names(by))

    def _kept(self, node: c_ast.Node, live: set[str]) -> tuple[list[c_ast.Node], c_ast.Node, list[c_ast.Node]] | None:
        """The loop on an iterator of its own, in place: what comes before it, first and last in its body.

        The counter is a variable that keeps its value once the loop is left.
        """
        (name, *others) = sorted(live)
        steps = items(node.next)
        start = items(node.init)
        if others or len(steps) != 1 or len(start) != 1 or name in assigned_names(node.stmt):
            return None
        begun = step_of(start[0])
        kinds = self._declared.get(name, [])
        if begun is None or begun[:2] != (name, "") or not _pure(begun[2]) or len(kinds) != 1:
            return None
        if not isinstance(kinds[0], c_ast.TypeDecl):
            return None
        iterator, coord = self._fresh(name), node.coord
        last = cloned(steps[0])
        for part in (node.cond, node.next, node.stmt):
            renamed(part, {name: iterator})
        kind = cloned(kinds[0].type)
        node.init = c_ast.DeclList([typed_variable(kind, iterator, cloned(begun[2]), coord)], coord)
        return [start[0]], assign(name, c_ast.ID(iterator, coord), coord), [last]


def _only_breaks(node: c_ast.Node) -> bool:
    return (
        isinstance(node, c_ast.If)
        and node.iffalse is None
        and len(items(node.iftrue)) == 1
        and isinstance(items(node.iftrue)[0], c_ast.Break)
    )
