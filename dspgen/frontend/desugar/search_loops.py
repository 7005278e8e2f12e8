"""Loops that a `break` ends, as a search for the iteration where that is, and loops which end there.

Before: `for (int i = 0; i < n; i++) { A; if (a[i] > x) { B; break; } C; }`
After:  `int ends = n;
         for (int t = 0; t < n; t++) { int v = a[t] > x ? t : n; ends = v < ends ? v : ends; }
         for (int i = 0; i < ends; i++) { A; C; }
         for (int i = ends; i < (ends < n ? ends + 1 : ends); i++) { A; B; }`

The search is the least of independent values: its iterations run in any order and across lanes, and every loop behind
it has bounds that are known when it begins. The first iterations are searched by themselves, and the others only where
these have found nothing.

Tests that read no more than memory, and variables that the loop leaves alone, are looked at like this: in iterations
behind the last one, too, so that subscripts are sums of the counter and of constants, and nothing is divided by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pycparser import c_ast

from dspgen.frontend.desugar.skipped_blocks import always, has, nothing, skipped
from dspgen.frontend.parse.assigned_names import counters, names, walk
from dspgen.frontend.parse.syntax_tree import (
    LOOPS,
    assign,
    assigned_names,
    cloned,
    is_step,
    items,
    outlives,
    rebuilt,
    step_of,
    stored_arrays,
    variable,
)
from dspgen.frontend.parse.unique_names import Fresh

ENDS = (8, 256)  # where parts of a search end, of unknown length only the first; the last one goes to the loop's end
_PURE = ("+", "-", "*", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "&", "|", "^", "<<", ">>")
_CALLS = ("fabsf", "fabs", "abs")
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
Kinds = Mapping[str, Sequence[c_ast.Node]]


@dataclass(frozen=True, slots=True)
class _Counted:
    """`counter` begins with `first` and moves by 1 or, `down`, by -1, `trips` times; `own`: the loop declares it;
    `live`: it is read behind the loop."""

    counter: str
    first: c_ast.Node
    trips: c_ast.Node
    down: bool
    own: bool
    live: bool
    body: list[c_ast.Node]


@dataclass(frozen=True, slots=True)
class _Divided:
    """`test` tells whether an iteration is the last one, by the values that `given` declares; `onward` is what others
    do, `last` what the last one does."""

    test: c_ast.Node
    given: list[c_ast.Node]
    onward: list[c_ast.Node]
    last: list[c_ast.Node]


def searched(node: c_ast.Node, function: c_ast.FuncDef, kinds: Kinds, fresh: Fresh) -> c_ast.Node | None:
    """The loop as a search and loops up to what it finds; None where its tests depend on what its iterations do, or
    where it is not one that counts by ones. `kinds` are the types that each name is declared with."""
    counted = _counted(node, function, kinds)
    if counted is None:
        return None
    divided = _divided(counted, function)
    if divided is None:
        return None
    outermost = _at_top(function.body, node)
    # Of loops of unknown length, what follows the search may not depend on what is only known when the code runs.
    known = outermost and _known(counted.trips) is not None
    if not known and (_acts(divided.onward) or _reads(divided.last)):
        return None
    maker = _Maker(counted, divided, _room(divided, kinds), fresh, node.coord)
    return c_ast.Compound(maker.made(in_parts=outermost), node.coord)


def _room(divided: _Divided, kinds: Kinds) -> int | None:
    """About how many iterations the arrays that the test reads have elements for, where they are of known size."""
    looked = [divided.test, *(n.init for n in divided.given)]
    subscripts = [n.subscript for node in looked for n in walk(node) if isinstance(n, c_ast.ArrayRef)]
    apart = sum(_number(n) for s in subscripts for n in walk(s) if isinstance(n, c_ast.Constant))
    least: int | None = None
    for kind in (kind for name in sorted({n for node in looked for n in names(node)}) for kind in kinds.get(name, ())):
        while isinstance(kind, c_ast.ArrayDecl):
            if kind.dim is not None and not names(kind.dim):
                extent = _known(kind.dim) or 0
                least = extent if least is None else min(least, extent)
            kind = kind.type
    return None if least is None else (least - apart) // (1 + apart)


# --- what the loop is ---------------------------------------------------------------------------------------------


def _counted(node: c_ast.Node, function: c_ast.FuncDef, kinds: Kinds) -> _Counted | None:
    cond, body = getattr(node, "cond", None), items(getattr(node, "stmt", None))
    if isinstance(node, c_ast.For):
        step = items(node.next)
        start = items(node.init)
    elif isinstance(node, c_ast.While) and body:
        start, step, body = [], body[-1:], body[:-1]
    else:
        return None
    if len(step) != 1 or len(start) > 1 or (moved := step_of(step[0])) is None or moved[1] not in ("+", "-"):
        return None
    counter, sign, by = moved
    if not _is_constant(by) or _number(by) != 1 or not isinstance(cond, c_ast.BinaryOp) or cond.op not in _MIRRORED:
        return None
    op, left, right = cond.op, cond.left, cond.right
    if isinstance(right, c_ast.ID) and right.name == counter:
        op, left, right = _MIRRORED[op], right, left
    down, changed = sign == "-", assigned_names(*body)
    if not (isinstance(left, c_ast.ID) and left.name == counter) or op[0] != (">" if down else "<"):
        return None
    own = bool(start) and isinstance(start[0], c_ast.Decl)
    first = _first(start[0], counter) if start else c_ast.ID(counter, node.coord)
    if first is None or not _is_int(counter, kinds) or counter in changed or any(counter in _declared(n) for n in body):
        return None
    fixed = names(right) | (names(first) if start else set())
    if (
        not _plain(right)
        or not _plain(first)
        or fixed & (changed | {counter})
        or any(fixed & _declared(n) for n in body)
    ):
        return None
    if not all(_is_int(name, kinds) for name in fixed):
        return None
    live = not own and outlives(counter, function.body, node)
    if live and any(n is not node and counter in counters(n) for n in walk(function.body) if isinstance(n, c_ast.For)):
        return None
    trips = _minus(first, right) if down else _minus(right, first)
    return _Counted(counter, first, _plus(trips, 1) if op.endswith("=") else trips, down, own, live, body)


def _first(start: c_ast.Node, counter: str) -> c_ast.Node | None:
    if isinstance(start, c_ast.Decl):
        return start.init if start.name == counter else None
    step = step_of(start)
    return step[2] if step is not None and step[:2] == (counter, "") else None


def _divided(counted: _Counted, function: c_ast.FuncDef) -> _Divided | None:
    tests: list[c_ast.Node] = []
    onward: list[c_ast.Node] = []
    last: list[c_ast.Node] = []  # up to the last test, which is true where none before it is
    for position, node in enumerate(counted.body):
        if not has(node, c_ast.Break):
            onward.append(node)
            continue
        if not isinstance(node, c_ast.If):
            return None
        leaving, staying, test = node.iftrue, node.iffalse, node.cond
        if leaving is None or not has(leaving, c_ast.Break):
            leaving, staying, test = staying, leaving, c_ast.UnaryOp("!", test, node.coord)
        if not always(items(leaving), c_ast.Break) or (staying is not None and has(staying, c_ast.Break)):
            return None
        last = [cloned(n) for n in [*counted.body[:position], *items(leaving)]]
        tests.append(test)
        onward += [cloned(n) for n in items(staying)]
    if not tests or any(isinstance(n, c_ast.Return | c_ast.Goto | c_ast.Label | c_ast.Continue) for n in _all(counted)):
        return None
    test = tests[0]
    for other in tests[1:]:
        test = c_ast.BinaryOp("||", test, other, other.coord)
    given = _given(test, counted)
    ending = skipped(last, c_ast.Break, nothing)
    if given is None or ending is None:
        return None
    looked = [test, *(n.init for n in given)]
    if not _reads(looked) or not all(_searchable(n) for n in looked) or not _steady(looked, given, onward, function):
        return None
    return _Divided(test, given, onward, ending)


def _all(counted: _Counted) -> list[c_ast.Node]:
    return [inner for node in counted.body for inner in walk(node)]


def _given(test: c_ast.Node, counted: _Counted) -> list[c_ast.Node] | None:
    """The declarations of the body whose values the test is made of; None where others change them."""
    declared = {str(n.name): n for n in counted.body if isinstance(n, c_ast.Decl)}
    deeper = [x.name for n in counted.body for x in walk(n) if isinstance(x, c_ast.Decl) and x is not n]
    changed, needed, pending = assigned_names(*counted.body), dict[str, c_ast.Node](), sorted(names(test))
    while pending:
        name = pending.pop()
        if name in deeper:
            return None
        if name not in declared or name in needed:
            continue
        made = declared[name]
        if made.init is None or name in changed or not isinstance(made.type, c_ast.TypeDecl):
            return None
        needed[name] = made
        pending += sorted(names(made.init))
    return [n for n in counted.body if isinstance(n, c_ast.Decl) and n.name in needed]


def _steady(
    looked: Sequence[c_ast.Node], given: Sequence[c_ast.Node], onward: Sequence[c_ast.Node], function: c_ast.FuncDef
) -> bool:
    """Whether nothing that iterations do before the last one changes what the tests read."""
    read = {name for node in looked for name in names(node)} - {str(n.name) for n in given}
    stored = stored_arrays(*onward)
    called = any(isinstance(n, c_ast.FuncCall) and not _is_known(n) for node in onward for n in walk(node))
    pointers = any(isinstance(n, c_ast.Decl) and isinstance(n.type, c_ast.PtrDecl) for n in walk(function.body))
    return not (read & (assigned_names(*onward) | stored) or called or "?" in stored or (stored and pointers))


def _searchable(test: c_ast.Node) -> bool:
    match test:
        case c_ast.ID() | c_ast.Constant():
            return True
        case c_ast.ArrayRef(name=name, subscript=subscript):
            return isinstance(name, c_ast.ID | c_ast.ArrayRef) and _searchable(name) and _plain(subscript)
        case c_ast.BinaryOp(op=op, left=left, right=right):
            whole = op in _PURE or (
                op in ("/", "%") and isinstance(right, c_ast.Constant) and right.value[0] in "123456789"
            )
            return whole and _searchable(left) and _searchable(right)
        case c_ast.UnaryOp(op="!" | "-" | "+" | "~", expr=inner) | c_ast.Cast(expr=inner):
            return _searchable(inner)
        case c_ast.TernaryOp(cond=cond, iftrue=true, iffalse=false):
            return _searchable(cond) and _searchable(true) and _searchable(false)
        case c_ast.FuncCall() if _is_known(test):
            return all(_searchable(n) for n in test.args.exprs)
    return False


def _is_known(call: c_ast.FuncCall) -> bool:
    return isinstance(call.name, c_ast.ID) and call.name.name in _CALLS and call.args is not None


def _plain(node: c_ast.Node) -> bool:
    """Whether it is a sum of variables and of constants."""
    match node:
        case c_ast.ID():
            return True
        case c_ast.Constant():
            return _is_constant(node)
        case c_ast.UnaryOp(op="-" | "+", expr=inner):
            return _plain(inner)
        case c_ast.BinaryOp(op="+" | "-", left=left, right=right):
            return _plain(left) and _plain(right)
        case c_ast.BinaryOp(op="*", left=left, right=right):
            return (_is_constant(left) and _plain(right)) or (_plain(left) and _is_constant(right))
    return False


def _is_int(name: str, kinds: Kinds) -> bool:
    found = [getattr(kind, "type", None) for kind in kinds.get(name, ())]
    return bool(found) and all(isinstance(k, c_ast.IdentifierType) and k.names == ["int"] for k in found)


def _declared(node: c_ast.Node) -> set[str]:
    return {str(n.name) for n in walk(node) if isinstance(n, c_ast.Decl)}


def _at_top(body: c_ast.Node, loop: c_ast.Node) -> bool:
    """Whether the loop always runs, and once."""
    return any(n is loop or (isinstance(n, c_ast.Compound) and _at_top(n, loop)) for n in items(body))


def _acts(nodes: Sequence[c_ast.Node]) -> bool:
    return any(
        isinstance(n, c_ast.Assignment | c_ast.FuncCall | c_ast.For | c_ast.While | c_ast.DoWhile) or is_step(n)
        for node in nodes
        for n in walk(node)
    )


def _reads(nodes: Sequence[c_ast.Node]) -> bool:
    """Whether memory or other loops are in the statements."""
    return any(
        isinstance(n, (c_ast.ArrayRef, *LOOPS)) or (isinstance(n, c_ast.UnaryOp) and n.op == "*")
        for node in nodes
        for n in walk(node)
    )


# --- numbers ------------------------------------------------------------------------------------------------------


def _is_constant(node: c_ast.Node) -> bool:
    return isinstance(node, c_ast.Constant) and node.type == "int"


def _number(node: c_ast.Node) -> int:
    return int(node.value, 0)


def _constant(value: int, coord: object) -> c_ast.Node:
    plain = c_ast.Constant("int", str(abs(value)), coord)
    return plain if value >= 0 else c_ast.UnaryOp("-", plain, coord)


def _known(node: c_ast.Node) -> int | None:
    """The value of a sum of constants."""
    match node:
        case c_ast.Constant() if (
            _is_constant(node) and not node.value.startswith("0") or getattr(node, "value", "") == "0"
        ):
            return _number(node)
        case c_ast.UnaryOp(op="-", expr=inner):
            return None if (value := _known(inner)) is None else -value
        case c_ast.BinaryOp(op="+" | "-" as op, left=left, right=right):
            a, b = _known(left), _known(right)
            return None if a is None or b is None else a + b if op == "+" else a - b
    return None


def _minus(left: c_ast.Node, right: c_ast.Node) -> c_ast.Node:
    a, b = _known(left), _known(right)
    if a is not None and b is not None:
        return _constant(a - b, left.coord)
    return cloned(left) if b == 0 else c_ast.BinaryOp("-", cloned(left), cloned(right), left.coord)


def _plus(left: c_ast.Node, right: int | c_ast.Node, op: str = "+") -> c_ast.Node:
    a = _known(left)
    b = right if isinstance(right, int) else _known(right)
    if a is not None and b is not None:
        return _constant(a + b if op == "+" else a - b, left.coord)
    if b == 0:
        return cloned(left)
    if a == 0 and op == "+" and not isinstance(right, int):
        return cloned(right)
    value = _constant(right, left.coord) if isinstance(right, int) else cloned(right)
    return c_ast.BinaryOp(op, cloned(left), value, left.coord)


# --- what it becomes ----------------------------------------------------------------------------------------------


class _Maker:
    def __init__(self, counted: _Counted, divided: _Divided, room: int | None, fresh: Fresh, coord: object) -> None:
        self.counted, self.divided, self.fresh, self.coord = counted, divided, fresh, coord
        self.ends = fresh("ends", "the iteration that ends the loop")
        self.first = counted.first
        self.trips = counted.trips
        self.room = room

    def made(self, *, in_parts: bool) -> list[c_ast.Node]:
        counted, divided, coord = self.counted, self.divided, self.coord
        nodes: list[c_ast.Node] = []
        if not counted.own and counted.counter in names(self.first):
            begins = self.fresh(counted.counter)
            nodes.append(variable(begins, cloned(self.first), coord))
            self.trips = _renamed(self.trips, counted.counter, c_ast.ID(begins, coord))
            self.first = c_ast.ID(begins, coord)
        nodes += [variable(self.ends, cloned(self.trips), coord), *self._search(in_parts)]
        acts, reads = _acts(divided.onward), _reads(divided.last)
        if acts or (reads and _acts(divided.last)):
            reached = self.fresh.parameter("reached", "where the loop ends")
            nodes.append(variable(reached, self._at(c_ast.ID(self.ends, coord)), coord))
            if acts:
                nodes.append(self._loop(self.first, reached, divided.onward))
            if _acts(divided.last):
                nodes += self._last(reached)
        elif _acts(divided.last):
            nodes.append(self._chosen())
        if counted.live:
            nodes.append(self._left())
        return nodes

    def _at(self, turn: c_ast.Node) -> c_ast.Node:
        """The counter's value in an iteration."""
        return _plus(self.first, turn, "-" if self.counted.down else "+")

    def _found(self) -> c_ast.Node:
        return c_ast.BinaryOp("<", c_ast.ID(self.ends, self.coord), cloned(self.trips), self.coord)

    # The search

    def _search(self, in_parts: bool) -> list[c_ast.Node]:
        """The search, `in_parts` each of which only runs where those before it have found nothing."""
        coord, trips = self.coord, self.trips
        known = _known(trips)
        room = self.room if known is None else known
        ends = [end for end in ENDS[: len(ENDS) if known is not None else 1] if room is None or 4 * end < room]
        if not in_parts:
            ends = []
        nodes: list[c_ast.Node] = []
        for low, end in zip((0, *ends), (*ends, None), strict=True):
            high = cloned(trips) if end is None else _constant(end, coord)
            short = known is None and end is not None
            part = self._part(_constant(low, coord), high, short=short)
            if low:
                more = self.fresh.parameter("more", "whether the search goes on")
                choice = c_ast.TernaryOp(self._found(), _constant(0, coord), _constant(1, coord), coord)
                again = c_ast.BinaryOp(">", c_ast.ID(more, coord), _constant(0, coord), coord)
                nodes.append(variable(more, choice, coord))
                part = c_ast.If(again, c_ast.Compound([part], coord), None, coord)
            nodes.append(part)
        return nodes

    def _part(self, low: c_ast.Node, high: c_ast.Node, *, short: bool) -> c_ast.Node:
        """The search through some iterations, as far as there are any where there may be `short` of them."""
        coord, turn = self.coord, self.fresh(self.counted.counter)
        counter = self._at(c_ast.ID(turn, coord))
        given = []
        for made in self.divided.given:
            copy = cloned(made)
            copy.init = _renamed(copy.init, self.counted.counter, counter)
            given.append(copy)
        test = _renamed(cloned(self.divided.test), self.counted.counter, counter)
        value = self.fresh("value")
        hit = c_ast.TernaryOp(test, c_ast.ID(turn, coord), cloned(self.trips), coord)
        less = c_ast.BinaryOp("<", c_ast.ID(value, coord), c_ast.ID(self.ends, coord), coord)
        least = c_ast.TernaryOp(less, c_ast.ID(value, coord), c_ast.ID(self.ends, coord), coord)
        body = [*given, variable(value, hit, coord), assign(self.ends, least, coord)]
        loop = _for(turn, low, high, body, coord)
        if short:
            within = c_ast.BinaryOp("<", c_ast.ID(turn, coord), cloned(self.trips), coord)
            loop.cond = c_ast.BinaryOp("&&", loop.cond, within, coord)
        return loop

    # The iterations

    def _loop(self, first: c_ast.Node, end: str, body: Sequence[c_ast.Node]) -> c_ast.Node:
        coord, down, counter = self.coord, self.counted.down, self.counted.counter
        own = counter if self.counted.own else self.fresh(counter)
        start = c_ast.DeclList([variable(own, cloned(first), coord)], coord)
        cond = c_ast.BinaryOp(">" if down else "<", c_ast.ID(own, coord), c_ast.ID(end, coord), coord)
        step = c_ast.UnaryOp("p--" if down else "p++", c_ast.ID(own, coord), coord)
        inside = [_renamed(cloned(n), counter, c_ast.ID(own, coord)) for n in body]
        within = c_ast.If(self._within(own), c_ast.Compound(inside, coord), None, coord)
        return c_ast.For(start, cond, step, c_ast.Compound([within], coord), coord)

    def _within(self, counter: str) -> c_ast.Node:
        """Whether it is one of the loop's iterations, which is told of what ends are only known when it runs."""
        coord, ops = self.coord, ("<=", ">") if self.counted.down else (">=", "<")
        ends = (cloned(self.first), self._at(cloned(self.trips)))
        begun, over = (c_ast.BinaryOp(op, c_ast.ID(counter, coord), e, coord) for op, e in zip(ops, ends, strict=True))
        return c_ast.BinaryOp("&&", begun, over, coord)

    def _last(self, reached: str) -> list[c_ast.Node]:
        """The last iteration, as a loop of one or none, so that its subscripts are sums."""
        coord, behind = self.coord, self.fresh.parameter("behind", "where the loop's last iteration is over")
        one = c_ast.TernaryOp(self._found(), _constant(1, coord), _constant(0, coord), coord)
        value = _plus(c_ast.ID(reached, coord), one, "-" if self.counted.down else "+")
        return [variable(behind, value, coord), self._loop(c_ast.ID(reached, coord), behind, self.divided.last)]

    def _chosen(self) -> c_ast.Node:
        """The last iteration as a choice, of what neither reads memory nor stores to it."""
        counter, coord = self.counted.counter, self.coord
        value = self._at(c_ast.ID(self.ends, coord))
        own = counter if self.counted.own else self.fresh(counter)
        last = [_renamed(cloned(n), counter, c_ast.ID(own, coord)) for n in self.divided.last]
        body = c_ast.Compound([variable(own, value, coord), *last], coord)
        return c_ast.If(self._found(), body, None, coord)

    def _left(self) -> c_ast.Node:
        """The counter once the loop is left."""
        coord, known = self.coord, _known(self.trips)
        after = assign(self.counted.counter, self._at(c_ast.ID(self.ends, coord)), coord)
        if known is not None and known >= 0:
            return after
        some = c_ast.BinaryOp(">", cloned(self.trips), _constant(0, coord), coord)
        begins = assign(self.counted.counter, cloned(self.first), coord)
        return c_ast.If(some, after, begins, coord)


def _for(counter: str, low: c_ast.Node, high: c_ast.Node, body: Sequence[c_ast.Node], coord: object) -> c_ast.For:
    cond = c_ast.BinaryOp("<", c_ast.ID(counter, coord), high, coord)
    step = c_ast.UnaryOp("p++", c_ast.ID(counter, coord), coord)
    start = c_ast.DeclList([variable(counter, low, coord)], coord)
    return c_ast.For(start, cond, step, c_ast.Compound(list(body), coord), coord)


def _renamed(node: c_ast.Node, name: str, value: c_ast.Node) -> c_ast.Node:
    """The expression with a value in a variable's place."""
    if isinstance(node, c_ast.ID):
        return cloned(value) if node.name == name else node
    return rebuilt(node, lambda part: _renamed(part, name, value))
