"""Starts, trip counts and ranges of the loop tree's loops, and quotients, against enumeration."""

from __future__ import annotations

import random
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from dspgen.vecdsl.analysis.congruence import ANY, Congruence, Congruences, of_address, of_term
from dspgen.vecdsl.analysis.integer_ranges import trip_range
from dspgen.vecdsl.build.affine_forms import affine, floor_divide, integer_term
from dspgen.vecdsl.build.loop_bounds import Scope, bounds_of, not_negative
from dspgen.vecdsl.ir.program import Address, Let, Program
from plant_core.ir.func import Binary, BinaryOp, Expr, Iter, Param, Unary, Val
from plant_core.ir.loop_tree import For, Seq
from tests.generators.integer_terms import TooMany, Wrapped, at, random_body, states, value

NIGHTLY = settings().max_examples > 100
SEEDS = st.integers(0, 2**40)
DEPTH = 3


def _expr(rng: random.Random, names: list[str], depth: int) -> Expr:
    """Draw a bound or a condition as isl's AST generator gives them, and the front end's subscripts."""
    if depth == 0 or rng.random() < 0.2:
        if names and rng.random() < 0.7:
            name = rng.choice(names)
            return Param(name, "i32") if name == "n" else Iter(name)
        return Val(rng.randint(-8, 8), "i32")
    kinds: list[BinaryOp] = ["add", "sub", "min", "max", "mul", "floordiv", "mod", "div", "min", "max", "floordiv"]
    kind = rng.choice(kinds)
    left = _expr(rng, names, depth - 1)
    match kind:
        case "mul":
            return Binary(kind, left, Val(rng.randint(-3, 4), "i32"), "i32")
        case "floordiv" | "mod" | "div":
            return Binary(kind, left, Val(rng.choice([1, 2, 3, 4, 5, 8]), "i32"), "i32")
        case _ if rng.random() < 0.1:
            return Unary("neg", left, "i32")
        case _:
            return Binary(kind, left, _expr(rng, names, depth - 1), "i32")


def _value(expr: Expr, names: Mapping[str, int]) -> int:
    match expr:
        case Val():
            return int(expr.value)
        case Iter() | Param():
            return names[expr.name]
        case Unary():
            return -_value(expr.operand, names)
        case Binary():
            a, b = _value(expr.left, names), _value(expr.right, names)
            toward_zero = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
            results = {"add": a + b, "sub": a - b, "min": min(a, b), "max": max(a, b), "mul": a * b}
            rounded = {"floordiv": a // b, "div": toward_zero, "mod": a - toward_zero * b} if b else {}
            return {**results, **rounded}[expr.op]
    raise ValueError(expr)


def _bounds_at(form: Address, names: Mapping[str, int]) -> int:
    return form.constant + sum(c * names[n] for n, c in form.terms)


class _Nest:
    """Loops of the tree, one in the other, and what the analyses say in each."""

    def __init__(self, rng: random.Random) -> None:
        parameters = ["n"] if rng.random() < 0.5 else []
        self.rng, self.loops, self.said = rng, list[For](), list[tuple[Scope, object]]()
        scope, self.scopes = Scope(), [Scope()]
        for depth in range(DEPTH):
            names = [*parameters, *(t.iterator for t in self.loops)]
            step = rng.choice([1, 1, 2, 3, 4])
            tree = For(f"i{depth}", _expr(rng, names, 2), _expr(rng, names, 3), step, Seq(()))
            found = bounds_of(tree, scope)
            self.loops.append(tree)
            self.said.append((scope, found))
            iterators = {**scope.iterators, tree.iterator: Address(0, ((tree.iterator, 1),))}
            scope = Scope(iterators, scope.ranges.bind(tree.iterator, found[2]))
            self.scopes.append(scope)
        self.exprs = [
            (k, _expr(rng, [*parameters, *(t.iterator for t in self.loops[:k])], 4)) for k in range(1, DEPTH + 1)
        ]

    def check(self) -> None:
        names = {"n": self.rng.randint(-6, 12)}
        values = [(k, e, *self._translated(k, e)) for k, e in self.exprs]
        self._run(0, names, values, [600])

    def _translated(self, k: int, expr: Expr) -> tuple:  # type: ignore[type-arg]
        scope = self.scopes[k]
        term = integer_term(expr, scope.iterators, scope.ranges)
        divisor = self.rng.choice([2, 3, 5, 7])
        return (
            affine(expr, scope.iterators, scope.ranges),
            term,
            not_negative(term, scope.ranges),
            divisor,
            floor_divide(term, divisor, scope.ranges),
        )

    def _run(self, depth: int, names: dict[str, int], exprs: list, left: list[int]) -> None:  # type: ignore[type-arg]
        left[0] -= 1
        if left[0] < 0:
            return
        for k, expr, form, term, natural, divisor, divided in exprs:
            if k == depth:
                known = _value(expr, names)
                assert form is None or _bounds_at(form, names) == known, (expr, form, names)
                assert value(term, names) == known, (expr, term, names)
                assert value(natural, names) == max(known, 0), (expr, natural, names)
                assert value(divided, names) == known // divisor, (expr, divided, names)
        if depth == DEPTH:
            return
        tree, (scope, (start, trip, bounds)) = self.loops[depth], self.said[depth]  # type: ignore[misc]
        numbers = range(_value(tree.lower, names), _value(tree.upper, names), tree.step)
        assert max(value(trip, names), 0) == len(numbers), (tree, trip, names)
        low, high = trip_range(scope.ranges, trip)
        assert low <= len(numbers) and (high is None or len(numbers) <= high), (tree, low, high, names)
        assert not numbers or value(start, names) == numbers[0], (tree, start, names)
        for number in numbers:
            inner = {**names, tree.iterator: number}
            assert all(at(f, inner) <= number for f in bounds.lowers), (tree, bounds, inner)
            assert all(at(f, inner) >= number for f in bounds.uppers), (tree, bounds, inner)
            self._run(depth + 1, inner, exprs, left)


def check_bounds(seed: int) -> None:
    _Nest(random.Random(seed)).check()


def _holds(known: Congruence, number: int) -> bool:
    """Whether a number is one of those; a program's wrap round at a power of two."""
    return (number - known.offset) % known.modulus == 0 if known.modulus else number == known.offset


def check_congruences(seed: int) -> None:
    rng = random.Random(seed)
    body = random_body(rng, [], rng.randint(1, 3))
    known = Congruences(Program("f", (), (), (), body))
    try:
        for stmt, names in states(body, {}):
            for name, number in names.items():
                assert _holds(known.names.get(name, ANY), number), (name, number, known.names)
            if isinstance(stmt, Let):
                assert _holds(of_term(stmt.value, known.names), names[stmt.name]), stmt
            terms = tuple(sorted((n, 2) for n in names))
            assert _holds(of_address(3, terms, known.names), 3 + sum(2 * names[n] for n, _ in terms))
    except (Wrapped, TooMany):
        pass


@settings(max_examples=40_000 if NIGHTLY else 100)
@given(seed=SEEDS)
def test_loops_of_the_tree(seed: int) -> None:
    check_bounds(seed)


@settings(max_examples=40_000 if NIGHTLY else 100)
@given(seed=SEEDS)
def test_congruences(seed: int) -> None:
    check_congruences(seed)
