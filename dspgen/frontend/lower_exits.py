"""`switch`, `continue`, `break` and returns in loops as branches.

Before: `switch (m) { case 0: A; break; case 1: case 2: B; break; default: C; }`
After:  `if (m == 0) A; else if (m == 1 || m == 2) B; else C;`

Before: `for (...) { if (x[i] < 0) continue; A; }`
After:  `for (...) { if (!(x[i] < 0)) A; }`

Before: `for (...) { A; if (x[i] == key) { B; break; } C; }`
After:  `int going = 1; for (...) if (going) { A; if (x[i] == key) { B; going = 0; } else C; }`

Before: `for (...) if (x[i] < 0) return i;`
After:  `int done = 0; T value; for (...) if (x[i] < 0) { value = i; done = 1; break; } if (done) return value;`

The rounds after a `break` do nothing, so its loop has to be one whose end is known without it. What isn't of these
forms is left as it is, for the reader to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pycparser import c_ast

from dspgen.frontend.assigned import names, walk
from dspgen.frontend.lower_names import Fresh, renamed
from dspgen.frontend.lower_returns import returning, settled
from dspgen.frontend.simplify_ast import (
    LOOPS,
    assign,
    assigned_names,
    cloned,
    is_step,
    items,
    outlives,
    size,
    step_of,
    typed_variable,
    variable,
)

_REPEATED = 400
"""How large a piece of the program may be that is written twice, in syntax nodes."""

Exit = type[c_ast.Break] | type[c_ast.Continue] | type[c_ast.Return]
Leave = Callable[[c_ast.Node], list[c_ast.Node]]
Change = Callable[[c_ast.Node], c_ast.Node]


def structured(function: c_ast.FuncDef, fresh: Fresh) -> None:
    """Changes the function's body in place."""
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
        body = _skipped(body, c_ast.Return, lambda node: [node]) or body
    function.body.block_items = body
    exits = _Exits(function, fresh)
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


def _nothing(_: c_ast.Node) -> list[c_ast.Node]:
    return []


def _has(node: c_ast.Node, kind: Exit) -> bool:
    """Whether the statement leaves the loop or `switch` around it in this way."""
    if isinstance(node, kind):
        return True
    if isinstance(node, LOOPS) or (isinstance(node, c_ast.Switch) and kind is c_ast.Break):
        return False
    return any(_has(child, kind) for _, child in node.children())


def _always(nodes: Sequence[c_ast.Node], kind: Exit) -> bool:
    """Whether control never comes out at the end, as far as is easily seen."""
    if not nodes:
        return False
    match nodes[-1]:
        case c_ast.Return() | c_ast.Continue() | c_ast.Break():
            return isinstance(nodes[-1], c_ast.Return | kind)
        case c_ast.Compound():
            return _always(items(nodes[-1]), kind)
        case c_ast.If():
            return _always(items(nodes[-1].iftrue), kind) and _always(items(nodes[-1].iffalse), kind)
    return False


def _declares(nodes: Sequence[c_ast.Node]) -> bool:
    return any(isinstance(n, c_ast.Decl | c_ast.DeclList | c_ast.Typedef) for n in nodes)


def _skipped(nodes: Sequence[c_ast.Node], kind: Exit, leave: Leave) -> list[c_ast.Node] | None:
    """The statements without exits of this kind: `leave` takes their place, and what they skip is in other branches.

    None where that can't be done.
    """
    for position, node in enumerate(nodes):
        if isinstance(node, kind):
            return [*nodes[:position], *leave(node)]
        if not _has(node, kind):
            continue
        rest = list(nodes[position + 1 :])
        match node:
            case c_ast.Compound():
                own = items(node)
                if _always(own, kind) or not rest:
                    found = _skipped(own, kind, leave)
                elif _declares(own):
                    return None
                else:
                    found, rest = _skipped([*own, *rest], kind, leave), []
                return None if found is None else [*nodes[:position], c_ast.Compound(found, node.coord)]
            case c_ast.If():
                branch = _branched(node, rest, kind, leave)
                return None if branch is None else [*nodes[:position], branch]
            case _:
                return None
    return list(nodes)


def _branched(node: c_ast.If, rest: list[c_ast.Node], kind: Exit, leave: Leave) -> c_ast.Node | None:
    """The rest of the block in those branches that come to it."""
    arms = [items(node.iftrue), items(node.iffalse)]
    open_arms = [arm for arm in arms if not _always(arm, kind)]
    if len(open_arms) > 1 and sum(size(n) for n in rest) > _REPEATED:
        return None
    if rest and any(_declares(arm) for arm in open_arms):
        return None
    found: list[list[c_ast.Node]] = []
    for arm in arms:
        more = [] if _always(arm, kind) else [cloned(n) for n in rest]
        inner = _skipped([*arm, *more], kind, leave)
        if inner is None:
            return None
        found.append(inner)
    coord = node.coord
    true, false = (c_ast.Compound(part, coord) for part in found)
    if not found[0]:
        return c_ast.If(c_ast.UnaryOp("!", node.cond, coord), false, None, coord)
    return c_ast.If(node.cond, true, false if found[1] else None, coord)


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
        if position and sum(size(n) for n in statements) > _REPEATED:
            return None
        nodes += [cloned(n) for n in statements]
        if _always(statements, c_ast.Break) or _always(statements, c_ast.Continue):
            break
    return _skipped(nodes, c_ast.Break, _nothing)


def _any_of(value: c_ast.Node, labels: list[c_ast.Node]) -> c_ast.Node:
    total: c_ast.Node | None = None
    for label in labels:
        test = c_ast.BinaryOp("==", cloned(value), label, label.coord)
        total = test if total is None else c_ast.BinaryOp("||", total, test, label.coord)
    assert total is not None
    return total


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
    def __init__(self, function: c_ast.FuncDef, fresh: Fresh) -> None:
        self._function = function
        self._fresh = fresh
        self._changed = assigned_names(function.body)
        given = function.decl.type.args.params if function.decl.type.args else []
        self._declared: dict[str, list[c_ast.Node]] = {}
        for node in (*given, *walk(function.body)):
            if isinstance(node, c_ast.Decl) and node.name is not None:
                self._declared.setdefault(node.name, []).append(node.type)

    def loop(self, node: c_ast.Node) -> c_ast.Node:
        """The loop without `continue` and `break`; itself where it can't be."""
        if not isinstance(node, LOOPS) or any(isinstance(n, c_ast.Switch) for n in walk(node.stmt)):
            return node
        if _has(node.stmt, c_ast.Continue):
            body = _skipped(items(node.stmt), c_ast.Continue, _nothing)
            if body is None:
                return node
            node.stmt = c_ast.Compound(body, node.stmt.coord)
        if not _has(node.stmt, c_ast.Break):
            return node
        return self._tested(node) or self._flagged(node) or node

    def _tested(self, node: c_ast.Node) -> c_ast.Node | None:
        """A `break` at the start or at the end of each round as a part of the loop's test."""
        nodes = items(node.stmt)
        endless = node.cond is None or (isinstance(node.cond, c_ast.Constant) and node.cond.value != "0")
        first, last = nodes[0], nodes[-1]
        if _only_breaks(first) and not any(_has(n, c_ast.Break) for n in nodes[1:]):
            if not isinstance(node, c_ast.DoWhile) and (endless or (_pure(first.cond) and self._is_plain(first, node))):
                onward = c_ast.UnaryOp("!", first.cond, first.coord)
                node.cond = onward if endless else c_ast.BinaryOp("&&", node.cond, onward, first.coord)
                node.stmt = c_ast.Compound(nodes[1:], node.stmt.coord)
                return node
        if endless and _only_breaks(last) and not any(_has(n, c_ast.Break) for n in nodes[:-1]):
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
            name in header or name not in self._changed for name in names(test.cond)
        )

    def _flagged(self, node: c_ast.Node) -> c_ast.Node | None:
        """The rest of the rounds guarded by a flag."""
        onward = getattr(node, "next", None)
        start = items(node.init) if isinstance(node, c_ast.For) else []
        own = {str(n.name) for n in start if isinstance(n, c_ast.Decl)}
        stepped = assigned_names(onward) - own
        if node.cond is None or not _pure(node.cond) or _skipped(items(node.stmt), c_ast.Break, _nothing) is None:
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
        body = _skipped([*items(node.stmt), *after], c_ast.Break, lambda _: [cloned(stop)])
        if body is None:
            return None
        inside = c_ast.Compound([first, *body] if live else body, node.stmt.coord)
        node.stmt = c_ast.Compound([c_ast.If(c_ast.ID(going, coord), inside, None, coord)], node.stmt.coord)
        flag = variable(going, c_ast.Constant("int", "1", coord), coord)
        return c_ast.Compound([*before, flag, node], coord)

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
