"""Integer polynomials over the values of names: what symbolic execution of a function computes with.

    Poly ::= sum of integer * product of Atoms
    Atom ::= Name(name, version) | Opaque(div | mod | shr | and | max0, Poly*)

A `Name` is one value that a variable has had: a new version for each that isn't known as a polynomial of others.
C's `/`, `%`, `>>` and `&` by constants are atoms of their own; `max0(p)` is `p > 0 ? p : 0`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from pycparser import c_ast

Operation = Literal["div", "mod", "shr", "and", "max0"]
_SYMBOLS = {"div": "/", "mod": "%", "shr": ">>", "and": "&"}
_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True, order=True)
class Name:
    name: str
    version: int = 0


@dataclass(frozen=True, slots=True)
class Opaque:
    op: Operation
    args: tuple[Poly, ...]


Atom = Name | Opaque
Monomial = tuple[Atom, ...]


@dataclass(frozen=True)
class Poly:
    """`terms` are sorted by `_key`, without zeros."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    def __add__(self, other: Poly) -> Poly:
        return _of((*self.terms, *other.terms))

    def __sub__(self, other: Poly) -> Poly:
        return self + other.scaled(-1)

    def __mul__(self, other: Poly) -> Poly:
        return _of((tuple(sorted(m + n, key=_key)), c * d) for m, c in self.terms for n, d in other.terms)

    def scaled(self, factor: int) -> Poly:
        return Poly(tuple((m, c * factor) for m, c in self.terms)) if factor else Poly()

    @cached_property
    def constant(self) -> int | None:
        """The value, if it is the same everywhere."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @cached_property
    def names(self) -> frozenset[Name]:
        return frozenset(self._names())

    def _names(self) -> Iterator[Name]:
        for monomial, _ in self.terms:
            for atom in monomial:
                match atom:
                    case Name():
                        yield atom
                    case Opaque(_, args):
                        for arg in args:
                            yield from arg.names

    def divided(self, divisor: int) -> Poly | None:
        """The exact quotient, if every coefficient is a multiple."""
        if any(c % divisor for _, c in self.terms):
            return None
        return Poly(tuple((m, c // divisor) for m, c in self.terms))


def _key(atom: Atom) -> tuple[str, ...]:
    match atom:
        case Name(name, version):
            return ("0", name, f"{version:09}")
        case Opaque(op, args):
            return ("1", op, repr(args))


def _of(terms: Iterable[tuple[Monomial, int]]) -> Poly:
    total: dict[Monomial, int] = {}
    for monomial, factor in terms:
        total[monomial] = total.get(monomial, 0) + factor
    kept = [(m, c) for m, c in total.items() if c]
    return Poly(tuple(sorted(kept, key=lambda t: [_key(a) for a in t[0]])))


def number(value: int) -> Poly:
    return Poly((((), value),)) if value else Poly()


def atom(one: Atom) -> Poly:
    return Poly((((one,), 1),))


def opaque(op: Operation, *args: Poly) -> Poly:
    """The operation, done at once where all operands are constants; a division that is exact is one of polynomials."""
    values = [a.constant for a in args]
    match op, values:
        case "max0", [int(value)]:
            return number(max(value, 0))
        case "div", [int(value), int(by)] if by:
            return number(abs(value) // abs(by) * (1 if (value < 0) == (by < 0) else -1))
        case "mod", [int(value), int(by)] if by:
            return number(abs(value) % abs(by) * (-1 if value < 0 else 1))
        case "shr", [int(value), int(by)] if 0 <= by < 64:
            return number(value >> by)
        case "and", [int(value), int(by)]:
            return number(value & by)
        case "div", [_, int(by)] if by and (exact := args[0].divided(by)) is not None:
            return exact
        case "shr", [_, int(by)] if 0 <= by < 31 and (exact := args[0].divided(1 << by)) is not None:
            return exact
    return atom(Opaque(op, args))


def mapped(poly: Poly, change: Callable[[Atom], Poly]) -> Poly:
    """The polynomial with every atom replaced, the operands of an Opaque first."""
    total = Poly()
    for monomial, factor in poly.terms:
        product = number(factor)
        for one in monomial:
            if isinstance(one, Opaque):
                inner = opaque(one.op, *(mapped(a, change) for a in one.args))
                product = product * inner
            else:
                product = product * change(one)
        total = total + product
    return total


def assumed(poly: Poly, facts: Iterable[Poly]) -> Poly:
    """Without each `max0` that is known to do nothing because some of `facts`, none of them negative, is as small."""
    known = list(facts)

    def one(term: Atom) -> Poly:
        return atom(term)

    def visit(whole: Poly) -> Poly:
        total = Poly()
        for monomial, factor in whole.terms:
            product = number(factor)
            for item in monomial:
                if isinstance(item, Opaque):
                    args = tuple(visit(a) for a in item.args)
                    plain = item.op == "max0" and any(
                        (gap := (args[0] - fact).constant) is not None and gap >= 0 for fact in known
                    )
                    product = product * (args[0] if plain else opaque(item.op, *args))
                else:
                    product = product * one(item)
            total = total + product
        return total

    return visit(poly)


# To and from syntax


def literal(value: int, coord: object) -> c_ast.Node:
    if value < 0:
        return c_ast.UnaryOp("-", c_ast.Constant("int", str(-value), coord), coord)
    return c_ast.Constant("int", str(value), coord)


def to_ast(poly: Poly, coord: object) -> c_ast.Node:
    """C for the polynomial, all its places at `coord`."""
    total: c_ast.Node | None = None
    ordered = sorted(poly.terms, key=lambda t: (t[1] < 0, not t[0]))
    for monomial, factor in ordered:
        size = abs(factor)
        term: c_ast.Node | None = None if size == 1 and monomial else literal(size, coord)
        for one in monomial:
            part = _atom_ast(one, coord)
            term = part if term is None else c_ast.BinaryOp("*", term, part, coord)
        if total is None:
            total = term if factor > 0 else c_ast.UnaryOp("-", term, coord)
        else:
            total = c_ast.BinaryOp("+" if factor > 0 else "-", total, term, coord)
    return total if total is not None else literal(0, coord)


def _atom_ast(one: Atom, coord: object) -> c_ast.Node:
    match one:
        case Name(name):
            return c_ast.ID(name, coord)
        case Opaque("max0", (inner,)):
            test = c_ast.BinaryOp(">", to_ast(inner, coord), literal(0, coord), coord)
            return c_ast.TernaryOp(test, to_ast(inner, coord), literal(0, coord), coord)
        case Opaque(op, (left, right)):
            return c_ast.BinaryOp(_SYMBOLS[op], to_ast(left, coord), to_ast(right, coord), coord)
        case _:
            raise AssertionError(one)


@dataclass(frozen=True, slots=True)
class Read:
    """A polynomial; whether all of it is computed in signed types of 32 bits or more; whether in 64 bits.

    An unsigned one is known modulo its width, or exactly if it is `natural`: made of what can't be negative.
    """

    poly: Poly
    signed: bool
    wide: bool = False
    natural: bool = False

    @property
    def wraps(self) -> bool:
        """Whether the value may differ from the polynomial's."""
        return not self.signed and any(c < 0 for _, c in self.poly.terms)


def integer(node: c_ast.Constant) -> Read | None:
    text = str(node.value)
    digits = text.rstrip("uUlL")
    if node.type not in ("int", "long int", "long long int", "unsigned int", "unsigned long int") or "'" in text:
        if "int" not in str(node.type):
            return None
    try:
        value = int(digits, 8) if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit() else int(digits, 0)
    except ValueError:
        return None
    return Read(number(value), "u" not in text[len(digits) :].lower(), natural=True) if value < _LARGEST else None


Lookup = Callable[[str], Read | None]
Kind = Callable[[c_ast.Node], tuple[bool, bool] | None]


def from_ast(node: c_ast.Node, lookup: Lookup, kind: Kind) -> Read | None:
    """The value of an integer expression, modulo the width where unsigned; None where it isn't a polynomial.

    `lookup` gives a variable's value; `kind` whether a cast's type is signed and wide, None for other types.
    """
    match node:
        case c_ast.Constant():
            return integer(node)
        case c_ast.ID():
            return lookup(node.name)
        case c_ast.Cast():
            target = kind(node.to_type.type)
            inner = from_ast(node.expr, lookup, kind)
            return None if target is None or inner is None else converted(inner, *target)
        case c_ast.UnaryOp(op="+" | "-" as op):
            inner = from_ast(node.expr, lookup, kind)
            if inner is None or op == "+":
                return inner
            return replace(inner, poly=inner.poly.scaled(-1), natural=False)
        case c_ast.UnaryOp(op="~"):
            inner = from_ast(node.expr, lookup, kind)
            return None if inner is None else replace(inner, poly=inner.poly.scaled(-1) - number(1), natural=False)
        case c_ast.BinaryOp():
            left, right = from_ast(node.left, lookup, kind), from_ast(node.right, lookup, kind)
            return None if left is None or right is None else _operation(node.op, left, right)
    return None


def converted(value: Read, signed: bool, wide: bool) -> Read | None:
    """C's conversion to an integer type. A signed value that is made unsigned may wrap, too."""
    if wide and not value.wide and value.wraps:
        return None
    return Read(value.poly, signed and (value.signed or not value.wraps), wide, value.natural)


def _operation(symbol: str, left: Read, right: Read) -> Read | None:
    signed = left.signed and right.signed
    wide = left.wide or right.wide
    natural = left.natural and right.natural
    by = right.poly.constant
    if left.wide != right.wide and (left.wraps if right.wide else right.wraps):
        return None
    match symbol:
        case "+":
            return Read(left.poly + right.poly, signed, wide, natural)
        case "-":
            return Read(left.poly - right.poly, signed, wide)
        case "*":
            return Read(left.poly * right.poly, signed, wide, natural)
        case "<<" if by is not None and 0 <= by < 31:
            return Read(left.poly.scaled(1 << by), left.signed, left.wide, left.natural)
    if by is None or not (signed or left.natural):
        return None
    match symbol:
        case "/" if by > 0:
            return Read(opaque("div", left.poly, right.poly), signed, wide, natural)
        case "%" if by > 0:
            return Read(opaque("mod", left.poly, right.poly), signed, wide, natural)
        case ">>" if 0 <= by < 31:
            return Read(opaque("shr", left.poly, right.poly), left.signed, left.wide, natural)
        case "&" if by < 0 and -by & (-by - 1) == 0:
            # Without its lowest bits.
            return Read(left.poly - opaque("and", left.poly, number(-by - 1)), signed, wide, left.natural)
        case "&" if by >= 0:
            return Read(opaque("and", left.poly, right.poly), signed, wide, natural)
    return None
