"""`switch`, `continue`, `break` and returns in loops as branches.

Before: `switch (m) { case 0: A; break; case 1: case 2: B; break; default: C; }`
After:  `if (m == 0) A; else if (m == 1 || m == 2) B; else C;`

Before: `for (...) { if (x[i] < 0) continue; A; }`
After:  `for (...) { if (!(x[i] < 0)) A; }`

Before: `for (...) { A; if (x[i] == key) { B; break; } C; }`
After:  `int going = 1; for (...) if (going) { A; if (x[i] == key) { B; going = 0; } else C; }`

Before: `while (k < n && x[k] > 0) { A; k++; }`
After:  `int going = 1;
         for (int k_1 = k; k_1 < n; k_1++) if (going) { k = k_1; if (!(x[k] > 0)) going = 0; else { A; k++; } }`

Before: `for (...) if (x[i] < 0) return i;`
After:  `int done = 0; T value; for (...) if (x[i] < 0) { value = i; done = 1; break; } if (done) return value;`

Before: `for (...) { if (x[i] < 0) exit(1); A; }`
After:  `for (...) { if (x[i] < 0) return; A; }`, since what is left of the program is the contents of its arrays.

The rounds after a `break` do nothing, so its loop has to be one whose end is known without it. What isn't of these
forms is left as it is, for the reader to refuse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from pycparser import c_ast

from dspgen.frontend.desugar.early_returns import returning, settled
from dspgen.frontend.desugar.gotos import without_gotos
from dspgen.frontend.desugar.search_loops import searched
from dspgen.frontend.desugar.skipped_blocks import REPEATED, always, has, nothing, skipped
from dspgen.frontend.parse.assigned_names import names, targets, walk
from dspgen.frontend.parse.syntax_tree import (
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
from dspgen.frontend.parse.unique_names import Fresh, rename_declaration, renamed

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
    jumps = any(isinstance(n, kinds) for n in walk(function.body)) or any(len(_conjuncts(n.cond)) > 1 for n in loops)
    if not early and not jumps and settled(returning(body)):
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
    done = fresh("done", "whether the function has returned")
    value = fresh("value", "the function's value") if valued else ""

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
        plain = node.cond, node.stmt
        on_data = self._divided(node)
        if not has(node.stmt, c_ast.Break):
            return node
        found = self._tested(node)
        if found is None:
            found = searched(node, self._function, self._declared, self._fresh) or self._flagged(node)
        if found is None and on_data:
            node.cond, node.stmt = plain
        return found or node

    def _divided(self, node: c_ast.Node) -> bool:
        """Makes the parts of a test that are on data a `break`, in place, if a part on what counts is left."""
        if node.cond is None or not _pure(node.cond):
            return False
        parts = _conjuncts(node.cond)
        on_data = [part for part in parts if self._is_on_data(part, node.stmt)]
        counted = [part for part in parts if part not in on_data]
        if not on_data or not counted:
            return False
        coord = on_data[0].coord
        leave = c_ast.If(c_ast.UnaryOp("!", _all_of(on_data), coord), c_ast.Break(coord), None, coord)
        body = items(node.stmt)
        last = isinstance(node, c_ast.DoWhile)
        node.cond = _all_of(counted)
        node.stmt = c_ast.Compound([*body, leave] if last else [leave, *body], node.stmt.coord)
        return True

    def _is_on_data(self, test: c_ast.Node, body: c_ast.Node) -> bool:
        """Whether the test reads memory, reals, or what a round sets from such or only under a condition."""
        if _reads_memory(test) or any(self._is_real(name) for name in names(test)):
            return True
        always_set = [step for part in items(body) if (step := step_of(part)) is not None]
        loaded = {name for name, _, value in always_set if _reads_memory(value)}
        conditional = assigned_names(body) - {name for name, _, _ in always_set}
        return bool(names(test) & (loaded | conditional))

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
        return not _reads_memory(test.cond) and all(
            name in header or (name not in self._changed and not self._is_real(name)) for name in names(test.cond)
        )

    def _is_real(self, name: str) -> bool:
        kinds = [getattr(kind, "type", None) for kind in self._declared.get(name, [])]
        return any(isinstance(k, c_ast.IdentifierType) and {"float", "double"} & set(k.names) for k in kinds)

    def _flagged(self, node: c_ast.Node) -> c_ast.Node | None:
        """The rest of the rounds guarded by a flag.

        What counts them is stepped beside the program's own variable, which keeps its value once the loop is left.
        """
        onward = items(node.next) if isinstance(node, c_ast.For) else []
        if (
            node.cond is None
            or not _pure(node.cond)
            or not all(self._is_steady(part) for part in onward)
            or skipped(items(node.stmt), c_ast.Break, nothing) is None
        ):
            return None
        start = items(node.init) if isinstance(node, c_ast.For) else []
        own = {str(n.name) for n in start if isinstance(n, c_ast.Decl)}
        stepped = assigned_names(*onward) - own
        live = {name for name in stepped if outlives(name, self._function.body, node)}
        within = self._stepped_within(node)
        if not isinstance(node, c_ast.For) and not within.keys() & names(node.cond):
            return None
        if live and live & assigned_names(node.stmt):
            return None
        kept = sorted(live) + sorted(within)
        if not all(self._is_copied(name) for name in kept):
            return None
        going, coord = self._fresh("going", "whether the loop goes on"), node.coord
        beside = {name: self._fresh(name) for name in kept}
        stop = assign(going, c_ast.Constant("int", "0", coord), coord)
        steps = [cloned(part) for part in onward if assigned_names(part) & live]
        body = skipped([*items(node.stmt), *steps], c_ast.Break, lambda _: [cloned(stop)])
        if body is None:
            return None
        first = [assign(name, c_ast.ID(beside[name], coord), coord) for name in kept]
        guarded = c_ast.If(c_ast.ID(going, coord), c_ast.Compound([*first, *body], node.stmt.coord), None, coord)
        steps = [cloned(within[name]) for name in sorted(within)]
        for part in (node.cond, *onward, *steps):
            renamed(part, beside)
        flag = variable(going, c_ast.Constant("int", "1", coord), coord)
        copies = [self._copy(name, new, start, coord) for name, new in beside.items()]
        if isinstance(node, c_ast.DoWhile):
            node.stmt = c_ast.Compound([guarded, *steps], node.stmt.coord)
            return c_ast.Compound([*copies, flag, node], coord)
        before: list[c_ast.Node] = [flag]
        init = node.init if isinstance(node, c_ast.For) else None
        if live and not own:
            before, init = [*start, flag], None
        if init is None and copies:
            init = c_ast.DeclList(copies, coord)
        else:
            before = [*copies, *before]
        following = [*onward, *steps]
        last = following[0] if len(following) == 1 else c_ast.ExprList(following, coord) if following else None
        loop = c_ast.For(init, node.cond, last, c_ast.Compound([guarded], node.stmt.coord), coord)
        return c_ast.Compound([*before, loop], coord)

    def _is_steady(self, part: c_ast.Node) -> bool:
        """Whether no step is a variable's value: only the `break` might end the loop where that is zero or less."""
        step = step_of(part)
        return step is None or not any(n in self._declared and n not in self._constant for n in names(step[2]))

    def _stepped_within(self, node: c_ast.Node) -> dict[str, c_ast.Node]:
        """The steps of variables that each whole round steps once."""
        changes = Counter(targets(node))
        found = {}
        for part in items(node.stmt):
            step = step_of(part)
            if step is not None and step[1] in ("+", "-") and changes[step[0]] == 1 and self._is_steady(part):
                if _pure(step[2]) and not _reads_memory(step[2]) and not self._is_real(step[0]):
                    found[step[0]] = part
        return found

    def _is_copied(self, name: str) -> bool:
        kinds = self._declared.get(name, [])
        return len(kinds) == 1 and isinstance(kinds[0], c_ast.TypeDecl | c_ast.PtrDecl)

    def _copy(self, name: str, new: str, start: list[c_ast.Node], coord: object) -> c_ast.Decl:
        """A second variable of the same type, which begins with the same value."""
        begun = [s[2] for part in start if (s := step_of(part)) is not None and s[:2] == (name, "") and _pure(s[2])]
        value = cloned(begun[0]) if len(begun) == 1 else c_ast.ID(name, coord)
        declared = c_ast.Decl(name, [], [], [], [], cloned(self._declared[name][0]), value, None, coord=coord)
        rename_declaration(declared, new)
        return declared


def _conjuncts(test: c_ast.Node | None) -> list[c_ast.Node]:
    if test is None:
        return []
    if isinstance(test, c_ast.BinaryOp) and test.op == "&&":
        return _conjuncts(test.left) + _conjuncts(test.right)
    return [test]


def _all_of(parts: Sequence[c_ast.Node]) -> c_ast.Node:
    whole = parts[0]
    for part in parts[1:]:
        whole = c_ast.BinaryOp("&&", whole, part, part.coord)
    return whole


def _reads_memory(node: c_ast.Node) -> bool:
    return any(isinstance(n, c_ast.ArrayRef) or (isinstance(n, c_ast.UnaryOp) and n.op == "*") for n in walk(node))


def _only_breaks(node: c_ast.Node) -> bool:
    return (
        isinstance(node, c_ast.If)
        and node.iffalse is None
        and len(items(node.iftrue)) == 1
        and isinstance(items(node.iftrue)[0], c_ast.Break)
    )
