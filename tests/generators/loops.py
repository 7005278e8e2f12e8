"""Random loops of the kind that vectorizers are judged by, in lengths around multiples of vectors' widths.

    program = random_loops(random.Random(7))
    program.text     the C file; its function is called `kernel`
    program.given    values for the parameters that subscripts and bounds depend on

Indirect subscripts, conditions, symbolic strides, steps and offsets, reversed and triangular loops, reductions of
every kind, values of the iteration before, few iterations inside many, and dependences at distances up to 20.
Conditions look at arrays that nothing writes, or at integers: so they hold alike in whatever order sums are made.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

SIZES = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 40, 64, 65, 100)
FAMILIES = (("float",), ("float", "int"), ("int",), ("float", "int", "short"), ("int", "short", "unsigned short"))
_COMPARE = ("<", "<=", ">", ">=", "==", "!=")
_WHOLE = ("+", "-", "+", "*", "&", "|", "^")
_MOST_PARAMETERS = 8  # as many as machines pass in registers


@dataclass(frozen=True, slots=True)
class Loops:
    text: str
    given: dict[str, npt.NDArray[Any] | int]


@dataclass(frozen=True, slots=True)
class _Array:
    name: str
    type: str
    extent: int
    const: bool
    rows: int = 0  # of a matrix


@dataclass(slots=True)
class _Maker:
    rng: random.Random
    types: tuple[str, ...]
    size: int
    symbolic: bool
    arrays: list[_Array] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    given: dict[str, npt.NDArray[Any] | int] = field(default_factory=dict)
    count: int = 0

    @property
    def bound(self) -> str:
        return "n" if self.symbolic else str(self.size)

    @property
    def extent(self) -> int:
        return 4 * self.size + 80

    @property
    def room(self) -> int:
        """How many parameters there may be more."""
        return _MOST_PARAMETERS - len(self.arrays) - len(self.numbers) - self.symbolic

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # Parameters

    def array(self, *, const: bool, type_: str | None = None) -> _Array:
        """One of those that there are, or a new one."""
        fits = [a for a in self.arrays if a.const == const and not a.rows and type_ in (None, a.type)]
        if fits and (self.chance(0.6) or self.room < 4):
            return self.rng.choice(fits)
        made = _Array(self.fresh("r" if const else "w"), type_ or self.rng.choice(self.types), self.extent, const)
        self.arrays.append(made)
        return made

    def matrix(self, *, const: bool) -> _Array:
        fits = [a for a in self.arrays if a.const == const and a.rows]
        if fits and self.chance(0.6):
            return self.rng.choice(fits)
        made = _Array(self.fresh("m"), self.rng.choice(self.types), self.size + 4, const, self.size + 4)
        self.arrays.append(made)
        return made

    def indices(self) -> str:
        """An array of subscripts: a permutation, the iterations backwards, or anything, repeats and all."""
        made = sorted(name for name in self.given if name.startswith("p"))
        if made and (self.chance(0.4) or self.room < 3):
            return self.rng.choice(made)
        name = self.fresh("p")
        kind = self.rng.random()
        generator = np.random.default_rng(self.rng.randrange(1 << 30))
        if kind < 0.4:
            values = generator.permutation(self.extent)
        elif kind < 0.6:
            values = np.arange(self.extent)[::-1]
        else:
            values = generator.integers(0, self.rng.choice((1, 3, self.extent)), self.extent)
        self.given[name] = np.ascontiguousarray(values, np.int32)
        self.arrays.append(_Array(name, "int", self.extent, True))
        return name

    def number(self, low: int, high: int) -> str:
        """An integer parameter, or a constant where there is no room for more."""
        if self.room < 3:
            return str(self.rng.randint(low, high))
        name = self.fresh("s")
        self.numbers.append(name)
        self.given[name] = self.rng.randint(low, high)
        return name

    # Subscripts and values

    def place(self, i: str, *, write: bool) -> str:
        """A subscript that stays within the extent, for i from 0 to below the size + 7."""
        kind = self.rng.random()
        shift = self.rng.choice((0, 0, 0, 1, 2, 3, 5, 8, 15, 16, 17, 20))
        if kind < 0.6:
            return f"{i} + {shift}" if shift else i
        if kind < 0.7:
            return f"{self.rng.choice((2, 3, 4))} * ({i}) + {self.rng.randint(0, 5)}"
        if kind < 0.78:
            return f"{self.size + 7 + shift} - ({i})"
        if kind < 0.84:
            return f"{i} + {self.number(0, 20)}"
        if kind < 0.89:
            return f"({i}) * {self.number(1, 3)}"
        if kind < 0.97:
            return f"{self.indices()}[{i}]"
        return f"({i}) / 2" if not write else f"(({i}) * 5) % {self.extent - 1}"

    def read(self, i: str, *, const: bool | None = None, type_: str | None = None) -> str:
        fixed = self.chance(0.7) if const is None else const
        array = self.array(const=fixed, type_=type_)
        return f"{array.name}[{self.place(i, write=False)}]"

    def condition(self, i: str, depth: int = 1) -> str:
        kind = self.rng.random()
        if depth and kind < 0.2:
            return f"({self.condition(i, 0)}) {self.rng.choice(('&&', '||'))} ({self.condition(i, 0)})"
        if kind < 0.35:
            return f"{i} {self.rng.choice(_COMPARE)} {self.rng.randint(0, self.size)}"
        type_ = self.rng.choice(self.types)
        limit = self.rng.choice(("0.0f", "0.5f", "-0.25f")) if type_ == "float" else self.rng.choice(("0", "100", "-3"))
        other = self.read(i, const=True, type_=type_) if self.chance(0.3) else limit
        return f"{self.read(i, const=True, type_=type_)} {self.rng.choice(_COMPARE)} {other}"

    def value(self, i: str, type_: str, depth: int, temps: tuple[str, ...] = ()) -> str:
        if depth <= 0 or self.chance(0.2):
            if temps and self.chance(0.4):
                return self.rng.choice(temps)
            kind = self.rng.random()
            if kind < 0.75:
                return self.read(i, type_=type_)
            if kind < 0.82:
                return self.cast(self.read(i, const=True), type_)
            if kind < 0.88:
                return self.cast(i, type_)
            return (
                self.rng.choice(("0.5f", "1.25f", "-2.0f")) if type_ == "float" else self.rng.choice(("3", "-7", "1"))
            )
        one, two = self.value(i, type_, depth - 1, temps), self.value(i, type_, depth - 1, temps)
        kind = self.rng.random()
        if kind < 0.15:
            return f"({self.condition(i, 0)} ? {one} : {two})"
        if type_ == "float":
            if kind < 0.22:
                return f"{self.rng.choice(('fminf', 'fmaxf'))}({one}, {two})"
            if kind < 0.27:
                return f"fabsf({one})"
            return f"({one} {self.rng.choice('+-*')} {two})"
        if kind < 0.22:
            return f"({one} > {two} ? {one} : {two})"
        if kind < 0.28:
            return f"(({one}) {self.rng.choice(('<<', '>>'))} {self.rng.randint(0, 6)})"
        return f"({one} {self.rng.choice(_WHOLE)} {two})"

    def cast(self, text: str, type_: str) -> str:
        return f"({type_})({text})"

    # Statements

    def update(self, i: str, temps: tuple[str, ...] = (), type_: str | None = None) -> str:
        array = self.array(const=False, type_=type_)
        where = f"{array.name}[{self.place(i, write=True)}]"
        op = self.rng.choice(("=", "=", "=", "=", "+=", "-="))
        return f"{where} {op} {self.value(i, array.type, self.rng.randint(0, 2), temps)};"

    def statements(self, i: str) -> list[str]:
        kind = self.rng.random()
        if kind < 0.45:
            return [self.update(i)]
        if kind < 0.6:
            type_ = self.rng.choice(self.types)
            name = self.fresh("t")
            return [f"{type_} {name} = {self.value(i, type_, 2)};", self.update(i, (name,), type_)]
        lines = [f"if ({self.condition(i)}) {{", *(self.update(i) for _ in range(self.rng.choice((1, 1, 2)))), "}"]
        if kind < 0.75:
            lines[-1:] = ["} else {", self.update(i), "}"]
        elif kind < 0.85:
            lines[1:1] = [f"if ({self.condition(i, 0)})", self.update(i)]
        return lines

    def body(self, i: str) -> list[str]:
        return [line for _ in range(self.rng.choice((1, 1, 2, 3))) for line in self.statements(i)]

    # Loops

    def header(self, i: str) -> str:
        kind = self.rng.random()
        if kind < 0.7:
            return f"for (int {i} = 0; {i} < {self.bound}; {i}++)"
        if kind < 0.82:
            return f"for (int {i} = {self.bound} - 1; {i} >= 0; {i}--)"
        if kind < 0.98 or self.symbolic:
            return f"for (int {i} = 0; {i} < {self.bound}; {i} += {self.rng.choice((2, 3, 5))})"
        return f"for (int {i} = 0; {i} < {self.bound}; {i} += {self.number(1, 4)})"

    def plain(self) -> list[str]:
        i = self.fresh("i")
        return [f"{self.header(i)} {{", *self.body(i), "}"]

    def reduction(self) -> list[str]:
        i, name = self.fresh("i"), self.fresh("t")
        kind = self.rng.choice(("sum", "sum", "product", "most", "least", "bits", "where", "some", "last", "two"))
        type_ = self.rng.choice([t for t in self.types if t in ("float", "int")] or ["int"])
        if kind == "bits" and type_ == "float":
            kind = "sum"
        source = self.read(i, const=True, type_=type_)
        out = self.array(const=False, type_=type_)
        at = self.rng.randint(0, out.extent - 1)
        start = self.rng.choice(("0", "1", self.read("0", const=True, type_=type_)))
        head = self.header(i)
        if kind in ("where", "last"):
            place, whole = self.fresh("t"), self.array(const=False, type_="int")
            compare = self.rng.choice(("<", ">", "<=", ">="))
            test = f"{source} {compare} {name}" if kind == "where" else self.condition(i, 0)
            store = f"{whole.name}[{self.rng.randint(0, 9)}] = {place}; {out.name}[{at}] = {name};"
            return [
                f"{type_} {name} = {start}; int {place} = -1;",
                f"{head} if ({test}) {{ {name} = {source}; {place} = {i}; }}",
                store,
            ]
        update = {
            "sum": f"{name} += {self.value(i, type_, 1)};",
            "product": f"{name} *= {source};",
            "most": f"if ({source} > {name}) {name} = {source};",
            "least": f"{name} = {source} <= {name} ? {source} : {name};",
            "bits": f"{name} {self.rng.choice('&|^')}= {source};",
            "some": f"if ({self.condition(i, 0)}) {name} += {source};",
            "two": f"{name} += {source}; {name} -= {self.read(i, const=True, type_=type_)};",
        }[kind]
        return [f"{type_} {name} = {start};", f"{head} {{ {update} }}", f"{out.name}[{at}] = {name};"]

    def lagging(self) -> list[str]:
        """A value, or a counter, of the iteration before."""
        i, name = self.fresh("i"), self.fresh("t")
        type_ = self.rng.choice(self.types)
        kind = self.rng.random()
        head = f"for (int {i} = 0; {i} < {self.bound}; {i}++)"
        if kind < 0.4:
            update = self.update(i, (name,), type_)
            body = [update, f"{name} = {self.read(i, const=True, type_=type_)};"]
            return [f"{type_} {name} = {self.read('0', const=True, type_=type_)};", f"{head} {{", *body, "}"]
        array = self.array(const=False, type_=type_)
        if kind < 0.6:
            value = self.read(name, const=True, type_=type_)
            lines = [f"{array.name}[{i}] = {value};", f"{name} = {i};"]
            return [f"int {name} = {self.size - 1};", f"{head} {{", *lines, "}"]
        step = self.rng.choice((1, 2, 3))
        counter = f"{name} += {step};"
        use = f"{array.name}[{name}] = {self.value(i, type_, 1)};"
        lines = [counter, use] if self.chance(0.5) else [use, counter]
        return [f"int {name} = {self.rng.randint(0, 3)};", f"{head} {{", *lines, "}"]

    def nest(self) -> list[str]:
        """Two loops over matrices: rectangles, triangles, or few iterations inside many."""
        i, j = self.fresh("i"), self.fresh("i")
        kind = self.rng.random()
        small = self.rng.choice((2, 3, 4, 5, 8))
        if kind < 0.4:
            target = self.array(const=False)
            value = self.value(f"{i} + {j}", target.type, 1)
            if small < 4 and self.chance(0.7):
                value += f" + {self.array(const=True, type_=target.type).name}[{small} * {i} + {j}]"
            where = f"{small} * {i} + {j}" if small < 4 else f"{i} + {j}"
            op = self.rng.choice(("=", "+="))
            return [
                f"for (int {i} = 0; {i} < {self.bound}; {i}++)",
                f"for (int {j} = 0; {j} < {small}; {j}++)",
                f"{target.name}[{where}] {op} {value};",
            ]
        low, high = self.rng.choice(
            (("0", self.bound), (i, self.bound), (f"{i} + 1", self.bound), ("0", i), ("0", f"{i} + 1"))
        )
        one, two = self.matrix(const=False), self.matrix(const=True)
        a, b = (i, j) if self.chance(0.6) else (j, i)
        source = f"{two.name}[{a} + {self.rng.randint(0, 3)}][{b} + {self.rng.randint(0, 3)}]"
        own = f"{one.name}[{i} + {self.rng.randint(0, 2)}][{j} + {self.rng.randint(0, 2)}]"
        value = self.cast(
            self.rng.choice((source, f"{source} + {own}", f"{source} * {self.read(j, const=True)}")), one.type
        )
        fixed = self.rng.choice((f"[{i}][{j}]", f"[{i} + 1][{j}]", f"[{i}][{i}]", f"[{j}][{i} + 1]", f"[{i}][{j} + 3]"))
        guard = f"if ({self.condition(j, 0)}) " if self.chance(0.25) else ""
        return [
            f"for (int {i} = 0; {i} < {self.bound}; {i}++)",
            f"for (int {j} = {low}; {j} < {high}; {j}++)",
            f"{guard}{one.name}{fixed} {self.rng.choice(('=', '+='))} {value};",
        ]

    # The whole

    def loops(self) -> Loops:
        makers: tuple[Callable[[], list[str]], ...] = (self.plain, self.reduction, self.lagging, self.nest)
        lines: list[str] = []
        for _ in range(self.rng.choice((1, 1, 1, 2))):
            lines += self.rng.choices(makers, (5, 3, 2, 3))[0]()
        if not any(not a.const for a in self.arrays):
            self.array(const=False)
        parameters = ["int n"] if self.symbolic else []
        if self.symbolic:
            self.given["n"] = self.size
        parameters += [f"int {name}" for name in self.numbers]
        parameters += [_declared(a) for a in self.arrays]
        text = "\n".join(["#include <math.h>", f"void kernel({', '.join(parameters)})", "{", *lines, "}"])
        return Loops(text + "\n", self.given)


def _declared(array: _Array) -> str:
    rows = f"[{array.rows}]" if array.rows else ""
    return f"{'const ' if array.const else ''}{array.type} {array.name}{rows}[{array.extent}]"


def random_loops(rng: random.Random) -> Loops:
    """A function of one loop or nest, or two; the same for the same state of `rng`."""
    return _Maker(rng, rng.choice(FAMILIES), rng.choice(SIZES), rng.random() < 0.2).loops()
