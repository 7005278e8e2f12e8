"""Random values, conditions and subscripts for the functions of `programs`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tests.generators.program_tree import (
    COMPARISONS,
    FLOATS,
    Array,
    Bin,
    Call,
    Cast,
    Cond,
    Elem,
    Expr,
    Helper,
    Num,
    Number,
    Un,
    Var,
    is_real,
    plus,
)

MOST_PARAMETERS = 8  # as many as machines pass in registers
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Features:
    """`types`: of elements and variables. `strict`: floating-point operations are done as they stand, so conditions may
    be on any of their results. `wild`: more of what people seldom write."""

    types: tuple[str, ...]
    strict: bool = False
    wild: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """An iterator in scope; `size` is about how many values it has, `symbol` the parameter that bounds it."""

    name: str
    size: int
    symbol: str = ""


@dataclass(slots=True)
class Expressions:
    rng: random.Random
    features: Features
    arrays: list[Array] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    helpers: list[Helper] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    temps: list[tuple[str, str]] = field(default_factory=list)  # scalars in scope, with their types
    symbols: dict[str, int] = field(default_factory=dict)  # size parameters
    count: int = 0

    # Draws

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def pick(self, items: Sequence[_Item]) -> _Item:
        return self.rng.choice(items)

    def weighted(self, *items: tuple[float, _Item]) -> _Item:
        return self.rng.choices([i for _, i in items], [w for w, _ in items])[0]

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    @property
    def reals(self) -> tuple[str, ...]:
        return tuple(t for t in self.features.types if is_real(t))

    @property
    def wholes(self) -> tuple[str, ...]:
        return tuple(t for t in self.features.types if not is_real(t))

    # Parameters

    @property
    def room(self) -> int:
        passed = [a for a in self.arrays if a.role in ("in", "out")]
        return (10 if self.features.wild else MOST_PARAMETERS) - len(passed) - len(self.numbers)

    def array(self, role: str, type_: str | None = None, rank: int | None = None) -> Array:
        """One of those that there are, or a new one."""

        def fits(a: Array) -> bool:
            return a.role == role and a.contents is None and type_ in (None, a.type) and rank in (None, a.rank)

        found = [a for a in self.arrays if fits(a)]
        if found and (self.chance(0.55) or self.room < 2):
            return self.pick(found)
        if self.room < 1 and role in ("in", "out"):
            role = "table" if role == "in" else "local"
        rank = rank or (1 if role == "table" else self.weighted((6, 1), (4, 2), (0.7, 3)))
        contents = None
        if role == "table":
            rank, contents = 1, (self.rng.randint(1, 9), self.rng.randint(0, 9), self.pick((7, 11, 64)))
        kind = type_ or self.pick(self.features.types)
        name = self.fresh({"in": "x", "out": "y", "local": "t", "table": "c"}[role])
        follows = tuple(self.pick(["", *self.symbols]) if self.chance(0.8) else "" for _ in range(rank))
        slack = self.weighted((6, 0), (1, 1), (1, 3), (1, 16))
        pointer = role in ("in", "out") and self.chance(0.08)
        made = Array(name, kind, rank, role, contents, follows if role != "local" else (), slack, pointer)
        self.arrays.append(made)
        return made

    def indices(self) -> Array:
        """An array of subscripts: a permutation, the iterations backwards, or repeats."""
        found = [a for a in self.arrays if a.contents is not None and not is_real(a.type) and a.role == "in"]
        if found and (self.chance(0.5) or self.room < 1):
            return self.pick(found)
        modulus = self.pick((5, 8, 16, 31, 32, 64, 101))
        contents = (self.pick((1, 3, 5, 7, -1, 0)), self.rng.randint(0, 9), modulus)
        narrow = [t for t in ("short", "unsigned char", "unsigned short") if t in self.features.types]
        type_ = self.pick(narrow) if narrow and self.chance(0.4) else "int"
        role = "in" if self.room > 0 else "table"
        made = Array(self.fresh("p"), type_, 1, role, contents)
        self.arrays.append(made)
        return made

    def number(self, type_: str, value: int | None = None) -> Expr:
        """A scalar parameter, or a constant where there is no room for more."""
        if self.room < 2:
            return self.constant(type_) if value is None else Num(value)
        name = self.fresh("s" if value is not None else "alpha")
        self.numbers.append(Number(name, type_, value))
        return Var(name)

    # Subscripts

    def iterator(self) -> Expr:
        if not self.loops:
            return Num(self.rng.randint(0, 3))
        return Var(self.pick(self.loops[-3:]).name)

    def index(self) -> Expr:
        """A subscript; where its least value is negative, the array's origin is moved."""
        i = self.iterator()
        shift = self.weighted((6, 0), (4, self.rng.randint(-3, 3)), (1, self.pick((7, 8, 15, 16, 17, -16))))
        kind = self.rng.random()
        if kind < 0.55 or not self.loops:
            return plus(i, shift)
        if kind < 0.65:
            return plus(Bin("-", Num(self.pick((0, 7, 15, 40))), i), shift)
        if kind < 0.73:
            return plus(Bin("*", Num(self.pick((2, 2, 3, 4, 5))), i), shift)
        if kind < 0.83:
            return plus(Bin(self.pick("++-"), i, self.iterator()), shift)
        if kind < 0.86:
            return plus(Bin("+", Bin("*", Num(self.pick((3, 8, 16, 20))), i), self.iterator()), shift)
        return self.odd_index(i, shift)

    def odd_index(self, i: Expr, shift: int) -> Expr:
        kind = self.rng.random()
        if kind < 0.35:
            place = plus(i, shift)
            return Elem(self.indices().name, (place,))
        if kind < 0.5:
            return Bin("/", i, Num(self.pick((2, 3, 4))))
        if kind < 0.65:
            return Bin("%", plus(i, abs(shift)), Num(self.pick((2, 3, 4, 8, 16))))
        if kind < 0.72 and self.wholes:
            masked = self.array("in", self.pick(self.wholes), 1)
            return Bin("&", Elem(masked.name, (plus(i, shift),)), Num(self.pick((3, 7, 15, 31))))
        if kind < 0.79:
            limit = self.pick((3, 8, 20))
            return Cond(Bin(self.pick("<>"), i, Num(limit)), i, Num(limit))
        if kind < 0.84:
            return plus(i, shift) if not self.room else Bin("+", i, self.number("int", self.rng.randint(0, 5)))
        if kind < 0.9:
            return Bin("&", plus(i, abs(shift)), Num(self.pick((7, 15))))
        if kind < 0.95:
            return Bin(self.pick(("<<", ">>")), i, Num(1))
        return Bin("%", Bin("*", i, Num(5)), Num(self.pick((7, 16, 31))))

    def element(self, array: Array) -> Elem:
        subs = tuple(self.index() for _ in range(array.rank))
        if array.rank > 1 and len(self.loops) > 1 and self.chance(0.6):
            inner = [Var(loop.name) for loop in self.loops[-array.rank :]]
            if len(inner) == array.rank:
                if self.chance(0.3):
                    self.rng.shuffle(inner)
                subs = tuple(plus(v, self.weighted((5, 0), (3, self.rng.randint(-2, 2)))) for v in inner)
        return Elem(array.name, subs)

    def read(self, type_: str | None = None, *, fixed: bool | None = None) -> Elem:
        fixed = self.chance(0.65) if fixed is None else fixed
        role = self.weighted((9, "in"), (1, "table")) if fixed else self.weighted((6, "out"), (1, "local"))
        return self.element(self.array(role, type_))

    # Values

    def value(self, type_: str, depth: int) -> Expr:
        return self.real(type_, depth) if is_real(type_) else self.whole(type_, depth)

    def constant(self, type_: str) -> Expr:
        if is_real(type_):
            return Num(self.pick((0.5, 0.25, 1.5, -0.75, 2.0)), self.weighted((9, type_), (1, "float")))
        return Num(self.pick((1, 2, 3, -7, 100, 255)), self.weighted((9, "int"), (1, type_)))

    def leaf(self, type_: str) -> Expr:
        temps = [n for n, t in self.temps if is_real(t) == is_real(type_)]
        if temps and self.chance(0.35):
            return Var(self.pick(temps))
        kind = self.rng.random()
        if kind < 0.72:
            return self.read(type_)
        if kind < 0.8:
            same = self.reals if is_real(type_) else self.wholes
            return self.read(self.pick(same or (type_,)))
        if kind < 0.87 and self.wholes:
            other = self.read(self.pick(self.wholes))
            return Cast(type_, Bin("&", other, Num(255))) if is_real(type_) else Cast(type_, other)
        if kind < 0.92 and self.loops:
            return Cast(type_, self.iterator()) if self.chance(0.5) else self.iterator()
        if kind < 0.95 and self.room > 2:
            return self.number(type_)
        return self.constant(type_)

    def real(self, type_: str, depth: int) -> Expr:
        if depth <= 0 or self.chance(0.15):
            return self.leaf(type_)
        one = self.real(type_, depth - 1)
        kind, suffix = self.rng.random(), "f" if type_ == "float" else ""
        if kind < 0.4:
            return Bin(self.pick("+-"), one, self.real(type_, depth - 1))
        if kind < 0.62:
            return Bin("*", one, self.weighted((3, self.read(type_, fixed=True)), (2, self.constant(type_))))
        if kind < 0.7:
            return Call(self.pick(("fmin", "fmax")) + suffix, (one, self.real(type_, depth - 1)))
        if kind < 0.74:
            return Call("fabs" + suffix, (one,))
        if kind < 0.79:
            half = Num(0.5, type_)
            return Call("sqrt" + suffix, (Bin("+", Call("fabs" + suffix, (one,)), half),))
        if kind < 0.84:
            return Bin("/", one, Bin("+", Num(1.0, type_), Call("fabs" + suffix, (self.real(type_, 0),))))
        if kind < 0.87:
            return Un("-", one)
        if kind < 0.9:
            return self.helped(type_, one)
        return Cond(self.condition(1), one, self.real(type_, 0))

    def whole(self, type_: str, depth: int) -> Expr:
        if depth <= 0 or self.chance(0.15):
            return self.leaf(type_)
        one = self.whole(type_, depth - 1)
        kind = self.rng.random()
        if kind < 0.42:
            return Bin(self.pick("++-*"), one, self.whole(type_, depth - 1))
        if kind < 0.55:
            return Bin(self.pick("&|^"), one, self.whole(type_, depth - 1))
        if kind < 0.64:
            amount = Num(self.rng.randint(0, 7))
            if self.chance(0.2):
                amount = Bin("&", self.whole(type_, 0), Num(7))  # type: ignore[assignment]
            return Bin(self.pick(("<<", ">>")), one, amount)
        if kind < 0.7:
            return Bin(self.pick("/%"), one, Num(self.pick((2, 3, 7, 8, 16, -3))))
        if kind < 0.72:
            return Bin(self.pick("/%"), one, Bin("+", Bin("&", self.whole(type_, 0), Num(15)), Num(1)))
        if kind < 0.75:
            return Un(self.pick("~-"), one)
        if kind < 0.78:
            return Call("abs", (Cast("int", one),))
        if kind < 0.82:
            return Cast(self.pick(self.wholes or ("int",)), one)
        if kind < 0.84:
            return self.helped(type_, one)
        if kind < 0.87 and self.reals:
            return self.rounded(type_)
        if kind < 0.91:
            other = self.whole(type_, 0)
            return Cond(Bin(self.pick("<>"), one, other), one, other)
        if kind < 0.94:
            return self.condition(1)
        return Cond(self.condition(1), one, self.whole(type_, 0))

    def rounded(self, type_: str) -> Expr:
        """A float as an integer, in range."""
        real = self.pick(self.reals)
        if self.features.strict and self.chance(0.6):
            suffix = "f" if real == "float" else ""
            low = Call("fmax" + suffix, (self.real(real, 1), Num(-100.0, real)))
            return Cast("int", Call("fmin" + suffix, (low, Num(100.0, real))))
        return Cast("int", Bin("*", self.read(real, fixed=True), Num(64.0, real)))

    def helped(self, type_: str, one: Expr) -> Expr:
        """A call of a small function of the file."""
        fits = [h for h in self.helpers if h.type == type_ and len(h.params) == 2]
        if not fits:
            name, real = self.fresh("f"), is_real(type_)
            a, b = Var(f"{name}a"), Var(f"{name}b")
            forms: list[Expr] = [Bin("+", Bin("*", a, Num(0.5, type_) if real else Num(3)), b)]
            if not real:
                forms.append(Cond(Bin(">", a, Num(100)), Num(100), Bin("^", a, b)))
            if not real or self.features.strict:
                forms.append(Cond(Bin("<", a, b), a, b))
            fits = [Helper(name, type_, ((type_, a.name), (type_, b.name)), self.pick(forms))]
            self.helpers += fits
        return Call(self.pick(fits).name, (one, self.leaf(type_)))

    # Conditions

    def condition(self, depth: int) -> Expr:
        kind = self.rng.random()
        if depth and kind < 0.3:
            op = self.weighted((3, "&&"), (3, "||"), (1, "&"), (1, "|"))
            return Bin(op, self.condition(depth - 1), self.condition(depth - 1))
        if depth and kind < 0.36:
            return Un("!", self.condition(depth - 1))
        if depth and kind < 0.39:
            return Cond(self.condition(0), self.condition(0), self.condition(0))
        return self.affine_condition() if self.loops and self.chance(0.4) else self.data_condition()

    def affine_condition(self) -> Expr:
        loop = self.pick(self.loops)
        i: Expr = Var(loop.name)
        kind = self.rng.random()
        if kind < 0.15:
            return Bin(self.pick(("==", "!=")), Bin("%", i, Num(self.pick((2, 3, 4)))), Num(self.pick((0, 1))))
        if kind < 0.22:
            return Bin("&", i, Num(self.pick((1, 2, 3))))
        op = self.pick(COMPARISONS)
        if kind < 0.45 and len(self.loops) > 1:
            return Bin(op, plus(i, self.rng.randint(-2, 2)), self.iterator())
        if kind < 0.5:
            return Bin(op, Bin("+", i, self.iterator()), Num(self.rng.randint(0, 2 * loop.size)))
        if kind < 0.55 and self.symbols:
            return Bin(op, i, Bin("-", Var(self.pick(list(self.symbols))), Num(self.rng.randint(0, 3))))
        if kind < 0.6:
            return Bin(op, i, Num(self.rng.randint(0, loop.size), "unsigned int"))
        return Bin(op, i, Num(self.rng.randint(0, max(loop.size, 1))))

    def data_condition(self) -> Expr:
        type_ = self.pick(self.features.types)
        op = self.pick(COMPARISONS)
        if is_real(type_):
            fixed = True if not self.features.strict else None
            one = self.read(type_, fixed=fixed)
            two = self.constant(type_) if self.chance(0.6) else self.read(type_, fixed=fixed)
            if self.chance(0.15):
                return Bin(self.pick("<>"), Call("fabs" + ("f" if type_ == "float" else ""), (one,)), Num(0.5, type_))
            return Bin(op, one, two)
        temps = [n for n, t in self.temps if t not in FLOATS]
        one_whole: Expr = Var(self.pick(temps)) if temps and self.chance(0.2) else self.read(type_)
        if self.chance(0.12):
            return Bin("&", one_whole, Num(self.pick((1, 4, 8))))
        if self.chance(0.3):  # often of another type
            return Bin(op, one_whole, self.read(self.pick(self.wholes)))
        return Bin(op, one_whole, self.constant(type_) if self.chance(0.7) else Num(0))
