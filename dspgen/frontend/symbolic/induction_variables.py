"""Loops in counted form: induction variables as functions of one iterator, loops over powers of two unrolled.

Before: `while (n != 0) { y[k] = x[k]; k += 2; n--; }`
After:  `for (int n_1 = n; n_1 != 0; n_1--) { y[k0 + 2 * (n - n_1)] = ...; }`, with k0 the value of k before.

Before: `for (len = 2; len <= 8; len *= 2) BODY`
After:  `BODY` with 2, `BODY` with 4, `BODY` with 8 for len.

A loop whose test has no variable that is stepped by a constant, and can't be evaluated, is left to the reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pycparser import c_ast

from dspgen.errors import SourceError
from dspgen.frontend.parse.assigned_names import names, walk
from dspgen.frontend.parse.syntax_tree import (
    assign,
    assigned_names,
    is_step,
    items,
    size,
    step_of,
    typed_variable,
    variable,
)
from dspgen.frontend.symbolic.polynomials import Poly, number, opaque, to_ast
from dspgen.frontend.symbolic.state import Integer
from dspgen.frontend.symbolic.trip_counts import Counter, Paced, Trial, facts_of, pace_of, settled, steps_of, trips_of

if TYPE_CHECKING:
    from dspgen.frontend.symbolic.executor import Executor
    from dspgen.frontend.symbolic.state import State

LONGEST_UNROLLED = 1024
FEW = 64


def loop(run: Executor, node: c_ast.Node, state: State, out: list[c_ast.Node]) -> None:
    start = _clauses(node)
    if _leaves(node.stmt) or node.cond is None or _endless(run, node.cond, state):
        _unknown(run, node, state, out)
        return
    before: list[c_ast.Node] = []
    inner = state.copy()
    for part in start:
        run.statement(part, inner, before)
    fresh_start = inner.copy()
    try:
        found = _trial(run, node, inner)
    except SourceError:
        # A pointer that changes arrays from round to round: each round by itself may be clear.
        if not _unrolled(run, node, fresh_start, before, out, True):
            raise
        run.leave(start, fresh_start)
        state.values, state.bases = fresh_start.values, fresh_start.bases
        return
    counter = _counter(run, node, inner, found)
    if (counter is None or found.geometric) and _unrolled(run, node, fresh_start, before, out, counter is not None):
        inner = fresh_start
    elif counter is None:
        paced = pace_of(run, node, inner, found)
        if paced is None:
            _unknown(run, node, state, out)
            return
        _in_rounds(run, node, paced, found, inner, before, out)
    else:
        _counted(run, node, counter, found, inner, before, out)
    run.leave(start, inner)
    state.values, state.bases = inner.values, inner.bases


def _clauses(node: c_ast.Node) -> list[c_ast.Node]:
    return items(node.init) if isinstance(node, c_ast.For) else []


def _leaves(node: c_ast.Node) -> bool:
    """Whether something in the loop's body ends a round or the loop early."""
    kinds = c_ast.Break | c_ast.Continue | c_ast.Return | c_ast.Goto | c_ast.Label
    return any(isinstance(inner, kinds) for inner in walk(node))


def _endless(run: Executor, cond: c_ast.Node, state: State) -> bool:
    return not names(cond) and run.constant(cond, state) is not False


def _unknown(run: Executor, node: c_ast.Node, state: State, out: list[c_ast.Node]) -> None:
    """The loop as it stands: what it assigns isn't known, neither in it nor after it."""
    assigned = assigned_names(node)
    own = state.copy()
    before: list[c_ast.Node] = []
    for part in _clauses(node):
        run.statement(part, own, before)
    run.forget(assigned, own)
    body = run.body(node.stmt, own)
    for part in steps_of(node):
        run.statement(part, own, [])
    match node:
        case c_ast.For():
            init = c_ast.DeclList(before, node.coord) if isinstance(node.init, c_ast.DeclList) else node.init
            out.append(c_ast.For(init, node.cond, node.next, body, node.coord))
        case c_ast.While():
            out.append(c_ast.While(node.cond, body, node.coord))
        case _:
            out.append(c_ast.DoWhile(node.cond, body, node.coord))
    run.forget(assigned, state)


def _trial(run: Executor, node: c_ast.Node, state: State) -> Trial:
    """What one round does to each variable, starting from values that are not known."""
    assigned = frozenset(name for name in assigned_names(node.stmt, *steps_of(node)) if name in state.values)
    before = state.copy()
    while True:
        entry = before.copy()
        for name in sorted(assigned):
            entry.values[name] = run.types.fresh(name)
        after = entry.copy()
        budget = run.budget
        ignored = run.block([*items(node.stmt)], after)
        for part in steps_of(node):
            run.statement(part, after, ignored)
        run.budget = budget
        moved = [n for n in sorted(assigned) if n in entry.bases and entry.bases[n] != after.bases[n]]
        if not any(before.bases[n] is not None for n in moved):
            break
        for name in moved:
            before.bases[name] = None
    state.bases = before.bases
    own = {name.name for n in assigned for name in entry.values[n].names}
    growth, geometric = {}, False
    addressing = _addressing(node)
    for name in sorted(assigned):
        difference = after.values[name] - entry.values[name]
        if not {n.name for n in difference.names} & own and settled(difference, state):
            growth[name] = difference
        elif name in addressing and next(iter(entry.values[name].names)) in after.values[name].names:
            geometric = True
    for name, op, amount in (s for part in steps_of(node) if (s := step_of(part)) is not None):
        # A narrow counter that may wrap is refused by the reader.
        if run.types.integers[name].narrow if name in assigned and name in run.types.integers else False:
            read = run.rewriter.read(amount, state)
            if op in ("+", "-") and read is not None and name not in assigned_names(node.stmt):
                growth[name] = read.poly.scaled(1 if op == "+" else -1)
    return Trial(assigned, growth, geometric or _shifts(node, growth, addressing))


def _addresses(node: c_ast.Node) -> list[c_ast.Node]:
    """The subscripts and the loop headers."""
    found: list[c_ast.Node] = []
    for inner in walk(node):
        match inner:
            case c_ast.ArrayRef():
                found.append(inner.subscript)
            case c_ast.For() | c_ast.While() | c_ast.DoWhile():
                found += [part for _, part in inner.children() if part is not inner.stmt]
            case c_ast.UnaryOp(op="*"):
                found.append(inner.expr)
    return found


def _definitions(node: c_ast.Node) -> list[tuple[str, c_ast.Node]]:
    found = []
    for inner in walk(node):
        if isinstance(inner, c_ast.Decl) and inner.name is not None and inner.init is not None:
            found.append((str(inner.name), inner.init))
        elif (step := step_of(inner)) is not None:
            found.append((step[0], step[2]))
    return found


def _addressing(node: c_ast.Node) -> set[str]:
    """The variables from which subscripts and loop bounds are computed."""
    found = {name for part in _addresses(node) for name in names(part)}
    definitions = _definitions(node)
    while True:
        more = {name for target, value in definitions if target in found for name in names(value)} - found
        if not more:
            return found
        found |= more


def _shifts(node: c_ast.Node, growth: dict[str, Poly], addressing: set[str]) -> bool:
    """Whether a subscript or a bound has something shifted by a variable that counts."""
    counting = {name for name, by in growth.items() if by.constant != 0}
    parts = [*_addresses(node.stmt), *(value for name, value in _definitions(node.stmt) if name in addressing)]
    for inner in (i for part in parts for i in walk(part)):
        match inner:
            case c_ast.BinaryOp(op="<<" | ">>", right=amount) if names(amount) & counting:
                return True
    return any(
        isinstance(inner, c_ast.Assignment)
        and inner.op in ("<<=", ">>=")
        and bool(names(inner.rvalue) & counting)
        and bool(names(inner.lvalue) & addressing)
        for inner in walk(node.stmt)
    )


# Unrolled loops


def _unrolled(
    run: Executor, node: c_ast.Node, state: State, before: list[c_ast.Node], out: list[c_ast.Node], counted: bool
) -> bool:
    """Round by round, as long as the test is known each time. False, with nothing done, where it isn't."""
    own = state.copy()
    rounds: list[c_ast.Node] = []
    budget, longest, cost = run.budget, FEW if counted else LONGEST_UNROLLED, size(node.stmt)
    count, first = 0, isinstance(node, c_ast.DoWhile)
    while first or (outcome := run.constant(node.cond, own)):
        first = False
        count += 1
        run.budget -= cost
        if count > longest or run.budget < 0:
            run.budget = budget
            return False
        rounds.append(run.body(node.stmt, own))
        for part in steps_of(node):
            run.statement(part, own, rounds)
    if outcome is None:
        run.budget = budget
        return False
    out.append(c_ast.Compound([*before, *rounds], node.coord))
    state.values, state.bases = own.values, own.bases
    return True


# Counted loops


def _counter(run: Executor, node: c_ast.Node, state: State, found: Trial) -> Counter | None:
    stepped = [s[0] for part in steps_of(node) if (s := step_of(part)) is not None]
    used = [n.name for n in walk(node.cond) if isinstance(n, c_ast.ID)]
    for name in sorted(set(used), key=lambda n: (n not in stepped, used.index(n))):
        step = found.growth[name].constant if name in found.growth else None
        if not step or name not in run.types.integers:
            continue
        plain = (
            isinstance(node, c_ast.For)
            and name not in assigned_names(node.stmt)
            and stepped.count(name) == 1
            and name not in run.types.pointers
            and not any(is_step(n) or isinstance(n, c_ast.Assignment) for n in walk(node.cond))
        )
        iterator = name if plain else run.fresh(name)
        return Counter(name, iterator, step, state.values[name], run.types.fresh(iterator))
    return None


def _counted(
    run: Executor,
    node: c_ast.Node,
    counter: Counter,
    found: Trial,
    state: State,
    before: list[c_ast.Node],
    out: list[c_ast.Node],
) -> None:
    plain = counter.iterator == counter.name
    if not plain:
        run.types.integers[counter.iterator] = run.types.integers[counter.name]
    entry = state.copy()
    _enter(run, counter, found, entry)
    test = _test(run, node, counter, entry, state)
    entry.facts = (*state.facts, *facts_of(run, node, counter, entry, state))
    body = run.block(items(node.stmt), entry)
    for part in steps_of(node):
        if not (plain and (step := step_of(part)) is not None and step[0] == counter.name):
            run.statement(part, entry, body)
    whole = c_ast.Compound(body, node.stmt.coord)
    coord = node.coord
    amount = c_ast.Constant("int", str(abs(counter.step)), coord)
    onward = c_ast.Assignment("+=" if counter.step > 0 else "-=", c_ast.ID(counter.iterator, coord), amount, coord)
    init, others = _start(run, node, counter, state, before)
    made = c_ast.For(init, test, onward, whole, coord)
    out += (
        [c_ast.Compound([*others, made], coord)] if any(isinstance(o, c_ast.Decl) for o in others) else [*others, made]
    )
    trips = trips_of(run, node, counter, state)
    for name in sorted(found.assigned):
        value = None
        if name in found.growth and trips is not None:
            value = state.values[name] + found.growth[name] * trips
        state.values[name] = value if value is not None else run.types.fresh(name)
        if name in state.bases and state.bases[name] != entry.bases.get(name):
            state.bases[name] = None


# Loops with steps that aren't constants


def _in_rounds(
    run: Executor,
    node: c_ast.Node,
    paced: Paced,
    found: Trial,
    state: State,
    before: list[c_ast.Node],
    out: list[c_ast.Node],
) -> None:
    """The loop over the number of its round.

    Before: `for (i = from; i < to; i += by) x[i] = 0;`
    After:  `int rounds = to > from ? (to - from - 1) / max(by, 1) + 1 : 0;
             for (int r = 0; r < rounds; r++) x[from + r * by] = 0;`

    Where `by` isn't positive, the C loop has no round, or doesn't end before its counter overflows.
    """
    coord = node.coord
    rounds, number_of = run.fresh("rounds"), run.fresh("round")
    for name in (rounds, number_of):
        run.types.integers[name] = Integer(True, False)
    state.values[rounds] = total = run.types.fresh(rounds)
    entry = state.copy()
    entry.values[number_of] = now = run.types.fresh(number_of)
    for name in sorted(found.assigned):
        grown = found.growth.get(name)
        entry.values[name] = entry.values[name] + grown * now if grown is not None else run.types.fresh(name)
    body = run.block(items(node.stmt), entry)
    for part in steps_of(node):
        run.statement(part, entry, body)
    one, zero = number(1), c_ast.Constant("int", "0", coord)
    start, end, step = (to_ast(p, coord) for p in (paced.start, paced.end, paced.step))
    test = c_ast.BinaryOp(">", step, to_ast(one, coord), coord)
    amount = c_ast.TernaryOp(test, step, to_ast(one, coord), coord)
    whole = c_ast.BinaryOp("/", to_ast(paced.end - paced.start - one, coord), amount, coord)
    count = c_ast.BinaryOp("+", whole, to_ast(one, coord), coord)
    value = c_ast.TernaryOp(c_ast.BinaryOp(">", end, start, coord), count, zero, coord)
    kind = c_ast.IdentifierType(["int"], coord)
    init = c_ast.DeclList([typed_variable(kind, number_of, zero, coord)], coord)
    onward = c_ast.UnaryOp("p++", c_ast.ID(number_of, coord), coord)
    limit = c_ast.BinaryOp("<", c_ast.ID(number_of, coord), c_ast.ID(rounds, coord), node.cond.coord)
    loop_made = c_ast.For(init, limit, onward, c_ast.Compound(body, node.stmt.coord), coord)
    out += [*before, variable(rounds, value, coord), loop_made]
    run.bounds.append(rounds)
    for name in sorted(found.assigned):
        grown = found.growth.get(name)
        state.values[name] = state.values[name] + grown * total if grown is not None else run.types.fresh(name)
        if name in state.bases and state.bases[name] != entry.bases.get(name):
            state.bases[name] = None


def _enter(run: Executor, counter: Counter, found: Trial, entry: State) -> None:
    """The values at the start of a round, in terms of the iterator."""
    distance = counter.now - counter.start
    for name in sorted(found.assigned):
        grown = found.growth.get(name)
        value = None
        if grown is not None:
            whole = grown.divided(abs(counter.step))
            sign = 1 if counter.step > 0 else -1
            if whole is not None:
                value = entry.values[name] + whole.scaled(sign) * distance
            else:
                rounds = opaque("div", distance.scaled(sign), number(abs(counter.step)))
                value = entry.values[name] + grown * rounds
        entry.values[name] = value if value is not None else run.types.fresh(name)
    entry.values[counter.iterator] = counter.now
    if counter.iterator != counter.name:
        entry.values[counter.name] = counter.now


def _start(
    run: Executor, node: c_ast.Node, counter: Counter, state: State, before: list[c_ast.Node]
) -> tuple[c_ast.Node | None, list[c_ast.Node]]:
    """The loop's first clause, and what has to be done before it."""
    coord = node.coord
    if counter.iterator == counter.name:
        own = [b for b in before if _sets(b) == counter.name]
        others = [b for b in before if _sets(b) != counter.name]
        if len(own) == 1 and not any(counter.name in names(o) for o in others):
            first = own[0]
            return (c_ast.DeclList([first], coord) if isinstance(first, c_ast.Decl) else first), others
    shown = run.rewriter.printable(counter.start, state)
    if counter.iterator == counter.name:
        # The variable is one from before the loop, and is read after it.
        stays = shown is None or run.rewriter.is_own(counter.name, shown)
        return (None if stays else assign(counter.name, to_ast(shown or Poly(), coord), coord)), before
    value = to_ast(shown, coord) if shown is not None else c_ast.ID(counter.name, coord)
    kind = c_ast.IdentifierType(run.types.integers[counter.name].name().split(), coord)
    return c_ast.DeclList([typed_variable(kind, counter.iterator, value, coord)], coord), before


def _sets(node: c_ast.Node) -> str | None:
    if isinstance(node, c_ast.Decl):
        return str(node.name) if node.init is not None else None
    step = step_of(node)
    return step[0] if step is not None and step[1] == "" else None


def _test(run: Executor, node: c_ast.Node, counter: Counter, entry: State, state: State) -> c_ast.Node:
    if isinstance(node, c_ast.DoWhile):
        cond = run.rewriter.value(_directed(node.cond, counter), entry, bound=True)
        shown = run.rewriter.printable(counter.start, state)
        value = to_ast(shown, node.coord) if shown is not None else c_ast.ID(counter.name, node.coord)
        first = c_ast.BinaryOp("==", c_ast.ID(counter.iterator, node.coord), value, node.coord)
        return c_ast.BinaryOp("||", first, cond, node.cond.coord)
    return run.rewriter.value(node.cond, entry, bound=True)


def _directed(cond: c_ast.Node, counter: Counter) -> c_ast.Node:
    """`i != end` as the inequality that a step of one makes it."""
    match cond:
        case c_ast.BinaryOp(op="!=", left=c_ast.ID(name=name)) if name == counter.name and abs(counter.step) == 1:
            return c_ast.BinaryOp("<" if counter.step > 0 else ">", cond.left, cond.right, cond.coord)
    return cond
