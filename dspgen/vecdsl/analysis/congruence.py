"""What is known of values modulo powers of two, for the alignment of addresses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dspgen.vecdsl.ir.program import Address, Const, Let, Loop, Op, Program, Term, Var
from dspgen.vecdsl.ir.terms import INTEGER, statements

_LARGEST = 4096


@dataclass(frozen=True, slots=True)
class Congruence:
    """Some number that leaves `offset` modulo `modulus`; modulus 0: exactly `offset`."""

    offset: int
    modulus: int

    def plus(self, other: Congruence) -> Congruence:
        return _normal(self.offset + other.offset, math.gcd(self.modulus, other.modulus))

    def times(self, factor: int) -> Congruence:
        return _normal(self.offset * factor, self.modulus * abs(factor))

    def either(self, other: Congruence) -> Congruence:
        """What is known of a number of which only one of both is known to hold."""
        return _normal(self.offset, math.gcd(self.modulus, other.modulus, self.offset - other.offset))

    @property
    def alignment(self) -> int:
        """The greatest power of two that divides it for certain, up to a limit."""
        divisor = math.gcd(math.gcd(self.offset, self.modulus), _LARGEST)
        return divisor & -divisor

    def modulo(self, modulus: int) -> int | None:
        """What it leaves modulo a number, if that is known."""
        return self.offset % modulus if self.modulus % modulus == 0 else None


ANY = Congruence(0, 1)


def _normal(offset: int, modulus: int) -> Congruence:
    return Congruence(offset % modulus if modulus else offset, modulus)


def of_term(term: Term, names: Mapping[str, Congruence]) -> Congruence:
    """What is known of a scalar integer term. Wrapping at 32 bits keeps what is known modulo powers of two."""
    match term:
        case Const(value) if isinstance(value, int):
            return Congruence(value, 0)
        case Var(name):
            return names.get(name, ANY)
        case Op("add", (a, b)):
            return of_term(a, names).plus(of_term(b, names))
        case Op("sub", (a, b)):
            return of_term(a, names).plus(of_term(b, names).times(-1))
        case Op("mul", (a, Const(value))) | Op("mul", (Const(value), a)) if isinstance(value, int):
            return of_term(a, names).times(value)
        case Op("shl", (a, Const(value))) if isinstance(value, int) and 0 <= value < 32:
            return of_term(a, names).times(1 << value)
        case Op("min" | "max", (a, b)):
            return of_term(a, names).either(of_term(b, names))
        case _:
            return ANY


def of_iterator(start: Congruence, step: int) -> Congruence:
    """An iterator that counts from `start` in steps of `step`."""
    return start.plus(Congruence(0, abs(step)))


def of_address(constant: int, terms: tuple[tuple[str, int], ...], names: Mapping[str, Congruence]) -> Congruence:
    """What is known of an element number."""
    total = Congruence(constant, 0)
    for name, factor in terms:
        total = total.plus(names.get(name, ANY).times(factor))
    return total


class Congruences:
    """What is known of a program's addresses, from its loops' starts and steps, and from what its names stand for."""

    def __init__(self, program: Program) -> None:
        self.names: dict[str, Congruence] = {}
        for stmt in statements(program.body):
            if isinstance(stmt, Loop):
                start = of_term(stmt.start, self.names)
                self.names[stmt.iterator] = start if stmt.max_trip == 1 else of_iterator(start, stmt.step)
            elif isinstance(stmt, Let) and stmt.value.type == INTEGER:
                self.names[stmt.name] = of_term(stmt.value, self.names)

    def modulo(self, address: Address, modulus: int) -> int | None:
        """What the element's number leaves modulo `modulus`, if that is known."""
        return of_address(address.constant, address.terms, self.names).modulo(modulus)
