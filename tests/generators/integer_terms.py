"""Random scalar integer terms in random loops, and every value that they take.

    body = random_body(random.Random(7))
    for names in states(body): ...     the names' values wherever a Let has just been bound

Loops begin and end at terms of the loops around them; some run for no values at all of these.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from fractions import Fraction

from dspgen.vecdsl.analysis.integer_ranges import Linear
from dspgen.vecdsl.ir.program import Const, If, Let, Loop, Op, Stmt, Store, Term, Var
from dspgen.vecdsl.ir.terms import INTEGER, integer

MOST_STATES = 400
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_KNOWN = ("add", "sub", "min", "max", "compare", "mul", "shl", "shr", "mask")
_OTHER = ("min", "max", "div", "mod", "and", "neg", "compare", "select", "or", "xor", "product", "shru")
_WORD = range(-(1 << 31), 1 << 31)


class Wrapped(Exception):
    """A value that is no signed number of 32 bits: C has no meaning for it."""


class TooMany(Exception):
    """More states than a test looks at."""


def random_term(rng: random.Random, names: list[str], depth: int, *, wraps: bool = False) -> Term:
    """Draw a term of the names: affine parts, quotients, remainders, masks, minima, maxima, choices.

    `wraps`: with large factors, and of operations whose values are known or known to be any.
    """

    def part() -> Term:
        return random_term(rng, names, depth - 1, wraps=wraps)

    if names and rng.random() < 0.2 and not wraps:
        return _related(rng, rng.choice(names))
    if depth == 0 or rng.random() < 0.15:
        return Var(rng.choice(names), INTEGER) if names and rng.random() < 0.75 else integer(rng.randint(-9, 9))
    kind = rng.choice(_KNOWN if wraps else _KNOWN + _OTHER)
    match kind:
        case "add" | "sub" | "min" | "max" | "or" | "xor":
            args = (part(), part())
        case "product":
            kind, args = "mul", (part(), part())
        case "mul":
            factor = rng.choice([1 << 28, 1 << 30, -715827883]) if wraps and rng.random() < 0.5 else rng.randint(-5, 5)
            args = (part(), integer(factor))
        case "shl" | "shr" | "shru":
            args = (part(), integer(rng.choice([0, 1, 1, 2, 3, 31, 33] if kind != "shl" else [0, 1, 2, 3])))
        case "div" | "mod":
            args = (part(), integer(rng.choice([1, 2, 3, 4, 7, -2, -3])))
        case "mask":
            return Op("and", (part(), integer(rng.choice([0, 1, 6, 255]))), INTEGER)
        case "and":
            args = (part(), integer(rng.choice([0, 1, 3, 6, 7, -2, -8, 255])))
        case "neg":
            return Op("neg", (part(),), INTEGER)
        case "compare":
            kind, args = rng.choice((*_COMPARISONS, "ltu")), (part(), part())
        case _:
            return Op("select", (part(), part(), part()), INTEGER)
    if not wraps and kind not in ("sub", "shl", "shr", "shru", "div", "mod") and rng.random() < 0.3:
        args = (args[1], args[0])
    return Op(kind, args, INTEGER)


def _related(rng: random.Random, name: str) -> Term:
    """Draw the difference of two minima or maxima of parts of one name: trip counts look like this."""

    def part() -> Term:
        scale = rng.choice([("shr", 1), ("shr", 2), ("div", 3), ("mul", 1), ("mul", -1), ("mul", 2)])
        inner = Op("add", (Var(name, INTEGER), integer(rng.randint(-4, 4))), INTEGER)
        return Op("add", (Op(scale[0], (inner, integer(scale[1])), INTEGER), integer(rng.randint(-4, 4))), INTEGER)

    low, high = (Op(rng.choice(["min", "max"]), (part(), part()), INTEGER) for _ in range(2))
    return Op("sub", (high, low), INTEGER)


def random_body(
    rng: random.Random, names: list[str] | None = None, depth: int = 3, *, wraps: bool = False
) -> tuple[Stmt, ...]:
    """Draw a nest of loops with Lets between them; names are unique."""

    def term(most: int) -> Term:
        return random_term(rng, names, rng.randint(0, most), wraps=wraps)

    names = list(names or [])
    lets = list[Stmt]()
    for _ in range(rng.choice([0, 0, 1]) if depth else 3):
        name = f"t{depth}_{len(lets)}"
        lets.append(Let(name, term(4)))
        names.append(name)
    if depth == 0:
        return tuple(lets)
    iterator, step = f"i{depth}", rng.choice([1, 1, 1, 2, 3, -1, -2])
    trip = term(3)
    most = rng.choice([None, None, 3, 5])
    if most is not None:
        trip = Op("min", (trip, integer(most)), INTEGER)
    elif rng.random() < 0.4:
        trip = integer(rng.randint(0, 5))
    body = random_body(rng, [*names, iterator], depth - 1, wraps=wraps)
    loop = Loop(iterator, term(2), trip, step, (), body, 0, most)
    inner: Stmt = If(term(2), (loop,)) if rng.random() < 0.1 else loop
    return (*lets, inner)


def value(term: Term, names: Mapping[str, int], *, wraps: bool = False) -> int:
    """Compute a term as a machine does. Raises Wrapped where C says nothing of the value, if nothing `wraps`."""
    match term:
        case Const(number):
            return int(number)
        case Var(name):
            return names[name]
        case Op("select", (condition, first, second)):
            found = value(first if value(condition, names, wraps=wraps) else second, names, wraps=wraps)
        case Op(name, args):
            found = _operation(name, [value(a, names, wraps=wraps) for a in args])
        case _:
            raise ValueError(f"no scalar integer term: {term}")
    if found not in _WORD and not wraps:
        raise Wrapped
    return (found + (1 << 31)) % (1 << 32) - (1 << 31)


def _operation(name: str, args: list[int]) -> int:
    a, b = args[0], args[-1]
    match name:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
        case "neg":
            return -a
        case "min" | "max":
            return min(a, b) if name == "min" else max(a, b)
        case "shl":
            return a << (b & 31)
        case "shr":
            return a >> (b & 31)
        case "shru":
            shifted = (a & 0xFFFFFFFF) >> (b & 31)
            return shifted - (1 << 32) if shifted >> 31 else shifted
        case "div":
            return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        case "mod":
            return abs(a) % abs(b) * (1 if a >= 0 else -1)
        case "and":
            return a & b
        case "or":
            return a | b
        case "xor":
            return a ^ b
        case "ltu":
            return int(a & 0xFFFFFFFF < b & 0xFFFFFFFF)
        case _:
            return int({"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[name])


def states(
    body: tuple[Stmt, ...], names: Mapping[str, int], *, wraps: bool = False
) -> Iterator[tuple[Stmt, dict[str, int]]]:
    """Run the nest: each Let and each Loop with the names' values there, that of the Let included."""
    left = [MOST_STATES]

    def run(body: tuple[Stmt, ...], names: dict[str, int]) -> Iterator[tuple[Stmt, dict[str, int]]]:
        for stmt in body:
            left[0] -= 1
            if left[0] < 0:
                raise TooMany
            match stmt:
                case Let():
                    names[stmt.name] = value(stmt.value, names, wraps=wraps)
                    yield stmt, names
                case Loop():
                    yield stmt, names
                    start, trip = (value(t, names, wraps=wraps) for t in (stmt.start, stmt.trip))
                    if start + trip * stmt.step not in _WORD:
                        raise Wrapped
                    for k in range(trip):
                        yield from run(stmt.body, {**names, stmt.iterator: start + k * stmt.step})
                case If():
                    if value(stmt.condition, names, wraps=wraps):
                        yield from run(stmt.then, dict(names))
                case Store():
                    pass

    return run(body, dict(names))


def at(form: Linear, names: Mapping[str, int]) -> Fraction:
    """Compute an affine form."""
    return Fraction(form.constant) + sum(Fraction(c) * names[n] for n, c in form.terms.items())
