"""Random C loop nests that have a defined meaning: in bounds, no division by zero, nothing read before it is written.

    program = random_program(random.Random(7))
    program.text      the C file, its function is called `kernel`
    program.given     values for the parameters that bound loops

Sizes stay small, so that a slow evaluator can run every program.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

FLOATS = ("float", "double")
INTEGERS = ("signed char", "unsigned char", "short", "unsigned short", "int", "unsigned int")


@dataclass(frozen=True, slots=True)
class Features:
    """What programs may contain."""

    types: tuple[str, ...] = (*FLOATS, *INTEGERS)
    depth: int = 3
    statements: int = 5
    guards: bool = True
    data_guards: bool = True
    locals: bool = True
    symbolic: bool = True
    steps: bool = True
    ternaries: bool = True
    divisions: bool = True


@dataclass(frozen=True, slots=True)
class Program:
    text: str
    given: dict[str, int]


@dataclass(slots=True)
class _Array:
    name: str
    type: str
    extents: list[int]
    writable: bool
    local: bool


@dataclass(slots=True)
class _Loop:
    name: str
    low: int
    high: int


@dataclass(slots=True)
class _Maker:
    rng: random.Random
    features: Features
    arrays: list[_Array] = field(default_factory=list)
    scalars: list[tuple[str, str]] = field(default_factory=list)
    numbers: list[tuple[str, str]] = field(default_factory=list)
    outer_iterators: list[str] = field(default_factory=list)
    loops: list[_Loop] = field(default_factory=list)
    count: int = 0
    symbol: int | None = None

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    # Subscripts and bounds

    def affine(self, *, lowest: int | None = None) -> tuple[str, int, int]:
        """An affine expression of the iterators with its range; shifted to start at `lowest` if that is given."""
        terms, low, high = [], 0, 0
        for loop in self.rng.sample(self.loops, min(len(self.loops), self.rng.choice((1, 1, 1, 2)))):
            factor = self.rng.choice((1, 1, 1, 1, -1, 2, -2))
            terms.append(
                f"{factor} * {loop.name}" if factor not in (1, -1) else ("-" if factor < 0 else "") + loop.name
            )
            ends = (factor * loop.low, factor * loop.high)
            low, high = low + min(ends), high + max(ends)
        text = " + ".join(terms) or "0"
        if self.features.divisions and terms and low >= 0 and self.chance(0.1):
            by = self.rng.choice((2, 3))
            if self.chance(0.5):
                text, low, high = f"({text}) / {by}", low // by, high // by
            else:
                text, low, high = f"({text}) % {by}", 0, by - 1
        constant = self.rng.randint(0, 2) if lowest is None else lowest - low + self.rng.choice((0, 0, 1))
        if constant:
            text = f"{text} {'+' if constant > 0 else '-'} {abs(constant)}"
        return text, low + constant, high + constant

    def element(self, array: _Array) -> str:
        text = array.name
        for axis in range(len(array.extents)):
            index, _, high = self.affine(lowest=0)
            array.extents[axis] = max(array.extents[axis], high + 1)
            text += f"[{index}]"
        return text

    # Values

    def leaf(self) -> str:
        kind = self.rng.random()
        if kind < 0.6 or not self.scalars:
            return self.element(self.rng.choice(self.arrays))
        if kind < 0.75:
            return self.rng.choice(self.scalars)[0]
        if kind < 0.83 and self.loops:
            return self.rng.choice(self.loops).name
        if kind < 0.9 and self.numbers:
            return self.rng.choice(self.numbers)[0]
        return self.rng.choice(("1.5f", "0.25", "3", "-2", "7u", "0x1f", "'a'", "2.0e0f"))

    def value(self, depth: int) -> str:
        if depth <= 0 or self.chance(0.2):
            return self.leaf()
        kind = self.rng.random()
        if kind < 0.6:
            return f"({self.value(depth - 1)} {self.rng.choice('+-*')} {self.value(depth - 1)})"
        if kind < 0.68:
            return f"(-({self.leaf()}))"
        if kind < 0.76:
            name = self.rng.choice(("fminf", "fmaxf", "fmax", "fmin"))
            return f"{name}({self.value(depth - 1)}, {self.value(depth - 1)})"
        if kind < 0.8:
            return f"{self.rng.choice(('fabsf', 'fabs'))}({self.value(depth - 1)})"
        if kind < 0.84:
            return f"sqrtf(fabsf({self.value(depth - 1)}))"
        if kind < 0.9 and self.features.ternaries:
            return f"({self.test(depth - 1)} ? {self.value(depth - 1)} : {self.value(depth - 1)})"
        integer = self.integer(depth - 1)
        return f"({integer})"

    def integer(self, depth: int) -> str:
        """An integer expression, over integer arrays and scalars only."""
        sources = [a for a in self.arrays if a.type in INTEGERS]
        if depth <= 0 or not sources:
            if sources and self.chance(0.7):
                return self.element(self.rng.choice(sources))
            return self.rng.choice([loop.name for loop in self.loops] or ["5"])
        left, right = self.integer(depth - 1), self.integer(depth - 1)
        choice = self.rng.random()
        if choice < 0.15:
            return f"(({left}) {self.rng.choice(('<<', '>>'))} {self.rng.randint(0, 5)})"
        if choice < 0.25 and self.features.divisions:
            return f"(({left}) {self.rng.choice('/%')} {self.rng.choice((2, 3, 5, -3))})"
        if choice < 0.35:
            return f"(~({left}))"
        if choice < 0.42:
            return f"(abs({left}))"
        return f"({left} {self.rng.choice(('+', '-', '*', '&', '|', '^'))} {right})"

    def comparison(self, depth: int) -> str:
        operator = self.rng.choice(("<", "<=", ">", ">=", "==", "!="))
        return f"{self.value(depth)} {operator} {self.value(depth)}"

    def test(self, depth: int) -> str:
        """A condition on data, on iterators, or on both."""
        if self.loops and self.chance(0.4):
            return self.guard()
        text = self.comparison(depth)
        if self.chance(0.2):
            text = f"({text}) {self.rng.choice(('&&', '||'))} ({self.guard() if self.loops else self.comparison(0)})"
        return f"!({text})" if self.chance(0.1) else text

    def guard(self) -> str:
        """A condition on the iterators."""
        left, low, high = self.affine()
        bound = self.rng.randint(low, max(high, low))
        text = f"{left} {self.rng.choice(('<', '<=', '>', '>=', '==', '!='))} {bound}"
        if self.chance(0.15):
            text = f"({left}) % {self.rng.choice((2, 3))} == 0"
        if self.chance(0.2):
            other, other_low, _ = self.affine()
            text = f"{text} {self.rng.choice(('&&', '||'))} {other} > {other_low}"
        return text

    # Statements

    def assignment(self) -> str:
        targets = [a for a in self.arrays if a.writable]
        if self.scalars and self.chance(0.25):
            target, type_ = self.rng.choice(self.scalars)
        else:
            array = self.rng.choice(targets)
            target, type_ = self.element(array), array.type
        operator = self.rng.choice(("=", "=", "=", "+=", "+=", "-=", "*="))
        return f"{target} {operator} {self.value(2) if type_ in FLOATS else self.whole()};"

    def whole(self) -> str:
        """A value for an integer: a float that doesn't fit one has no defined conversion."""
        first = self.arrays[0]
        if self.features.ternaries and self.chance(0.2):
            return f"({self.test(1)} ? {self.integer(1)} : {self.integer(1)})"
        if first.type in FLOATS and self.chance(0.2):
            return f"{self.element(first)} * 8.5f + 9"
        return self.integer(2)

    def statement(self, depth: int, indent: str) -> list[str]:
        kind = self.rng.random()
        if self.features.guards and self.loops and kind < 0.2:
            return self.conditional(self.guard(), depth, indent)
        if self.features.data_guards and kind < 0.35:
            return self.conditional(self.test(1), 0, indent)
        if depth > 0 and kind < 0.75:
            return self.loop(depth, indent)
        return [indent + self.assignment()]

    def conditional(self, test: str, depth: int, indent: str) -> list[str]:
        lines = [f"{indent}if ({test}) {{", *self.body(depth - 1, indent + "  ")]
        if self.chance(0.35):
            lines += [f"{indent}}} else {{", *self.body(depth - 1, indent + "  ")]
        return [*lines, f"{indent}}}"]

    def body(self, depth: int, indent: str) -> list[str]:
        lines = []
        for _ in range(self.rng.choice((1, 1, 2))):
            lines += self.statement(depth, indent) if depth > 0 else [indent + self.assignment()]
        return lines

    def loop(self, depth: int, indent: str) -> list[str]:
        self.count += 1
        name = f"i{self.count}"
        declare = "int "
        if self.chance(0.2):
            self.outer_iterators.append(name)
            declare = ""
        if self.features.symbolic and self.symbol is None and self.chance(0.15):
            self.symbol = self.rng.randint(2, 5)
        head, loop = self.header(name, declare)
        self.loops.append(loop)
        lines = [f"{indent}for ({head}) {{"]
        for _ in range(self.rng.choice((1, 1, 2))):
            lines += self.statement(depth - 1, indent + "  ")
        self.loops.pop()
        return [*lines, f"{indent}}}"]

    def header(self, name: str, declare: str) -> tuple[str, _Loop]:
        low, trip = self.rng.choice((0, 0, 0, 1, -1)), self.rng.randint(1, 5)
        start, high = str(low), low + trip - 1
        if self.loops and self.chance(0.25):
            outer = self.rng.choice(self.loops)
            if self.chance(0.5):
                start, low, high = outer.name, outer.low, max(outer.high, outer.low + trip - 1)
                return f"{declare}{name} = {start}; {name} <= {high}; {name}++", _Loop(name, low, high)
            low, high = min(outer.low, 0), max(outer.high, 0)
            return f"{declare}{name} = {low}; {name} <= {outer.name}; ++{name}", _Loop(name, low, high)
        if self.symbol is not None and self.chance(0.5):
            return f"{declare}{name} = 0; {name} < n; {name}++", _Loop(name, 0, self.symbol - 1)
        step = self.rng.choice((1, 1, 1, 2, 3)) if self.features.steps else 1
        if self.features.steps and self.chance(0.2):
            advance = f"{name}--" if step == 1 else f"{name} -= {step}"
            return f"{declare}{name} = {high}; {name} >= {low}; {advance}", _Loop(name, low, high)
        if step > 1:
            advance = self.rng.choice((f"{name} += {step}", f"{name} = {name} + {step}"))
            return f"{declare}{name} = {start}; {name} <= {high}; {advance}", _Loop(name, low, high)
        test = self.rng.choice(
            (f"{name} < {high + 1}", f"{name} <= {high}", f"{name} != {high + 1}", f"{high} >= {name}")
        )
        return f"{declare}{name} = {start}; {test}; {name}++", _Loop(name, low, high)

    # The whole

    def declare(self) -> None:
        for index in range(self.rng.randint(2, 4)):
            extents = [1] * self.rng.choice((1, 1, 2))
            self.arrays.append(_Array(f"a{index}", self.rng.choice(self.features.types), extents, index > 0, False))
        if self.features.locals and self.chance(0.4):
            extents = [1] * self.rng.choice((1, 2))
            self.arrays.append(_Array("t", self.rng.choice(self.features.types), extents, True, True))
        for index in range(self.rng.randint(0, 2) if self.features.locals else 0):
            self.scalars.append((f"s{index}", self.rng.choice(self.features.types)))
        if self.chance(0.4):
            self.numbers.append(("alpha", self.rng.choice(self.features.types)))

    def program(self) -> Program:
        self.declare()
        body: list[str] = []
        for _ in range(self.rng.randint(1, max(self.features.statements // 2, 1))):
            body += self.loop(self.features.depth, "  ")
        parameters = [_declared(a) for a in self.arrays if not a.local]
        parameters += [f"{type_} {name}" for name, type_ in self.numbers]
        given = {}
        if self.symbol is not None:
            parameters.append("int n")
            given["n"] = self.symbol
        lines = ["#include <math.h>", "#include <stdlib.h>", "", f"void kernel({', '.join(parameters)})", "{"]
        lines += [f"  {_declared(a)} = {{{self.rng.choice(('0', '1, 2', '3'))}}};" for a in self.arrays if a.local]
        lines += [f"  {type_} {name} = {self.rng.choice(('0', '1', '2.5f'))};" for name, type_ in self.scalars]
        if self.outer_iterators:
            lines.append(f"  int {', '.join(self.outer_iterators)};")
        return Program("\n".join([*lines, *body, "}"]) + "\n", given)


def _declared(array: _Array) -> str:
    qualifier = "" if array.writable else "const "
    return f"{qualifier}{array.type} {array.name}" + "".join(f"[{extent}]" for extent in array.extents)


def random_program(rng: random.Random, features: Features | None = None) -> Program:
    """A program; the same for the same state of `rng`."""
    return _Maker(rng, features or Features()).program()


def programs(seeds: Sequence[int], features: Features | None = None) -> list[Program]:
    return [random_program(random.Random(seed), features) for seed in seeds]
