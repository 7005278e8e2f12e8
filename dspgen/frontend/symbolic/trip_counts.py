"""How many rounds a loop has, and by how much each variable grows in one.

Requires: loops of the forms that `lower_loops` takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pycparser import c_ast

from dspgen.frontend.parse.assigned_names import walk
from dspgen.frontend.parse.syntax_tree import assigned_names, items
from dspgen.frontend.symbolic.polynomials import Poly, assumed, number, opaque

if TYPE_CHECKING:
    from dspgen.frontend.symbolic.executor import Executor
    from dspgen.frontend.symbolic.state import State

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}


def steps_of(node: c_ast.Node) -> list[c_ast.Node]:
    return items(node.next) if isinstance(node, c_ast.For) else []


@dataclass(frozen=True, slots=True)
class Trial:
    """One round of a loop: the variables that it assigns, and by how much each grows if that is always the same."""

    assigned: frozenset[str]
    growth: dict[str, Poly]
    geometric: bool


@dataclass(frozen=True, slots=True)
class Counter:
    """`name` is stepped; the loop's iterator is called `iterator`, the same if the loop is in counted form already."""

    name: str
    iterator: str
    step: int
    start: Poly
    now: Poly


@dataclass(frozen=True, slots=True)
class Paced:
    """A loop whose counter goes from `start` up to `end` by `step`, all three times the sign of its direction."""

    start: Poly
    end: Poly
    step: Poly


def pace_of(run: Executor, node: c_ast.Node, state: State, found: Trial) -> Paced | None:
    """The loop as one that is compared with an end, its counter growing by an amount that is known before it."""
    if isinstance(node, c_ast.DoWhile) or not isinstance(node.cond, c_ast.BinaryOp) or node.cond.op == "!=":
        return None
    for name in [n.name for n in walk(node.cond) if isinstance(n, c_ast.ID)]:
        grown = found.growth.get(name)
        known = run.types.integers.get(name)
        if grown is None or grown.constant is not None or known is None or not known.exact:
            continue
        if name in run.types.pointers:
            continue
        for sign in (1, -1):
            span = span_of(run, node, Counter(name, name, sign, state.values[name], state.values[name]), state)
            if span is None:
                continue
            parts = [run.rewriter.printable(p, state) for p in (span[1], span[0], grown.scaled(sign))]
            shown = [p for p in parts if p is not None and run.types.exact(p.names)]
            return Paced(*shown) if len(shown) == 3 else None
    return None


def settled(poly: Poly, state: State) -> bool:
    """Whether the value is one from before the loop."""
    known = {name for value in state.values.values() for name in value.names}
    return poly.names <= known


def span_of(run: Executor, node: c_ast.Node, counter: Counter, state: State) -> tuple[Poly, Poly] | None:
    """The first value that isn't reached any more, as (end, start), both times the step's sign."""
    match node.cond:
        case c_ast.BinaryOp(op=op) if op in _MIRRORED:
            pass
        case _:
            return None
    probe = state.copy()
    for name in sorted(assigned_names(node.stmt, *steps_of(node)) & set(probe.values)):
        probe.values[name] = run.types.fresh(name)
    own = probe.values[counter.name]
    left, right = run.rewriter.read(node.cond.left, probe), run.rewriter.read(node.cond.right, probe)
    if left is None or right is None or left.wraps or right.wraps:
        return None
    # With the counter alone on one side: counter op end.
    for one, other, way in ((left.poly, right.poly, op), (right.poly, left.poly, _MIRRORED[op])):
        rest = one - own
        end = other - rest
        if own.names <= rest.names or own.names <= other.names or not settled(end, state):
            continue
        if not (run.types.integers[counter.name].signed and left.signed and right.signed):
            if rest.terms or not _natural(counter.start):
                return None
        sign = 1 if counter.step > 0 else -1
        upward = {"<": 1, "<=": 1, ">": -1, ">=": -1, "!=": sign}[way]
        if upward != sign or (way == "!=" and abs(counter.step) != 1):
            return None
        return end.scaled(sign) + number(1 if way in ("<=", ">=") else 0), counter.start.scaled(sign)
    return None


def _natural(poly: Poly) -> bool:
    return all(factor >= 0 for _, factor in poly.terms)


def trips_of(run: Executor, node: c_ast.Node, counter: Counter, state: State) -> Poly | None:
    span = span_of(run, node, counter, state)
    if span is None:
        return None
    end, start = span
    distance = end - start
    kind = run.types.integers[counter.name]
    if kind.signed or distance.constant is not None or not _natural(distance):
        distance = assumed(opaque("max0", distance), state.facts)
    by = abs(counter.step)
    trips = distance if by == 1 else opaque("div", distance + number(by - 1), number(by))
    if isinstance(node, c_ast.DoWhile):
        # The test comes after the round, so there is one round at least.
        return number(1) + opaque("max0", trips - number(1))
    return trips


def facts_of(run: Executor, node: c_ast.Node, counter: Counter, entry: State, state: State) -> list[Poly]:
    """What can't be negative within a round."""
    span = span_of(run, node, counter, state)
    if span is None or isinstance(node, c_ast.DoWhile):
        return []
    end, start = span
    sign = 1 if counter.step > 0 else -1
    return [end - start - number(1), end - counter.now.scaled(sign) - number(1)]
