"""Random C functions of conditions: as bounds of loops, guards, values, and flags that variables keep.

    text = conditional(random.Random(7), "f7")

Values stay small, so that no signed sum overflows, nothing is divided by zero, and no shift goes too far.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

PARAMETERS = (
    "int a[16], int b[16], const int x[16], const float f[16], const unsigned char u[16], const short w[16], "
    "int n, unsigned m, short s, float q"
)
EXTENT = 16
_CASTS = ("unsigned", "unsigned char", "short", "long", "float", "signed char", "int", "unsigned short")
_COMPARED = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True, slots=True)
class _Maker:
    rng: random.Random
    names: tuple[str, ...]  # iterators and flags in sight
    data: bool

    def within(self, *names: str) -> _Maker:
        return _Maker(self.rng, (*self.names, *names), self.data)

    def value(self, depth: int) -> str:
        """An integer or floating-point expression of small values."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.25:
            return self._leaf()
        match rng.randrange(12):
            case 0 | 1:
                return f"({self.value(depth - 1)} {rng.choice('+-')} {rng.choice((self._leaf(), self._number()))})"
            case 2:
                return f"({rng.choice(_CASTS)}){self.integer(depth - 1)}"
            case 3:
                return f"(({self.condition(depth - 1)}) ? {self.value(depth - 1)} : {self.value(depth - 1)})"
            case 4:
                return f"({self.condition(depth - 1)})"
            case 5:
                return f"-{self.integer(0)}"
            case _:
                return self.integer(depth)

    def integer(self, depth: int) -> str:
        """An integer expression, of shifts, quotients and masks too."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.25:
            return self._leaf(integer=True)
        one = self.integer(depth - 1)
        match rng.randrange(8):
            case 0:
                return f"({one} {rng.choice(('<<', '>>'))} {self._choice(depth - 1, (0, 1, 2))})"
            case 1 | 2:
                return f"({one} {rng.choice('/%')} {self._choice(depth - 1, (1, 2, 3, 4, -2))})"
            case 3:
                return f"({one} & {self._choice(depth - 1, (1, 3, 7, 0, -2))})"
            case 4:
                return f"({one} {rng.choice('&|^')} {self.integer(0)})"
            case 5:
                return f"({rng.choice('~-')}{one})"
            case 6:
                return f"({one} {rng.choice('+-')} {self._leaf(integer=True)})"
            case _:
                return f"({self._choice(depth - 1, (0, 1, 2))} * {self._leaf(integer=True)})"

    def condition(self, depth: int) -> str:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.3:
            return f"{self.value(depth)} {rng.choice(_COMPARED)} {self.value(0)}"
        one, other = f"({self.condition(depth - 1)})", f"({self.condition(depth - 1)})"
        match rng.randrange(9):
            case 0 | 1:
                return f"{one} {rng.choice(('&&', '||'))} {other}"
            case 2 | 3 | 4:
                return f"{one} {rng.choice('&|^')} {other}"
            case 5:
                return f"!({rng.choice((one, other, self.value(depth - 1)))})"
            case 6:
                return f"({one} ? {other} : ({self.condition(depth - 1)}))"
            case 7:
                return f"({self.value(depth - 1)}) {rng.choice(_COMPARED)} {self.value(depth - 1)}"
            case _:
                return f"{one} {rng.choice(('==', '!='))} {other}"

    def _choice(self, depth: int, of: tuple[int, ...]) -> str:
        rng = self.rng
        match rng.randrange(3):
            case 0:
                return f"(({self.condition(depth)}) ? {rng.choice(of)} : {rng.choice(of)})"
            case 1 if 0 in of and 1 in of:
                return f"({self.condition(depth)})"
            case _:
                return f"({rng.choice(of)})"

    def _leaf(self, *, integer: bool = False) -> str:
        rng = self.rng
        names = [*self.names] * 3 + ["n", "m", "s"]
        if self.data:
            names += [f"x[{self.names[0]}]", f"u[{self.names[0]}]", f"w[{self.names[0]}]"]
            names += [] if integer else [f"f[{self.names[0]}]", "q", "1.5f"]
        return rng.choice((*names, self._number()))

    def _number(self) -> str:
        return self.rng.choice(("0", "1", "2", "3", "5", "7", "3u", "11", "(-1)"))


def conditional(rng: random.Random, name: str) -> str:
    """A function `name` of PARAMETERS that writes `a` and `b`."""
    lines = [f"void {name}({PARAMETERS})", "{", f"  for (int i = 0; i < {rng.choice((5, 12))}; i++) {{"]
    for k in range(rng.choice((1, 1, 2))):
        maker = _Maker(rng, ("i",), rng.random() < 0.3)
        lines += _use(maker, rng.randrange(8), k)
    return "\n".join([*lines, "  }", "}", ""])


def _use(maker: _Maker, kind: int, k: int) -> list[str]:
    rng, depth = maker.rng, maker.rng.choice((1, 2, 2, 3))
    match kind:
        case 0:
            return [f"    b[i] = {maker.condition(depth)};"]
        case 1:
            return [f"    if ({maker.condition(depth)})", f"      a[i] = {k + 1};"]
        case 2:
            return [
                f"    if ({maker.condition(depth)})",
                f"      a[i] += {k + 3};",
                "    else",
                f"      b[i] -= {maker.integer(1)};",
            ]
        case 3:
            given = [f"    int t{k} = {maker.condition(depth)};"]
            flag = maker.within(f"t{k}")
            return [*given, f"    if ({flag.condition(1)})", f"      a[i] ^= {flag.integer(1)};"]
        case 4:
            both = rng.choice(("&", "&&"))
            end = maker.integer(depth)
            return [f"    for (int j = 0; (j < {end}) {both} (j < 9); j++)", "      a[j] += i + 1;"]
        case 5:
            end = maker.within().condition(depth)
            return [
                f"    for (int j = 0; j < (({end}) ? {rng.randrange(9)} : {rng.randrange(9)}); j++)",
                "      b[j]++;",
            ]
        case 6:
            inner = maker.within("j")
            return [
                "    for (int j = 0; j < 6; j++)",
                f"      if ({inner.condition(depth)})",
                f"        a[j] += {inner.integer(1)};",
            ]
        case _:
            return [f"    if (!({maker.condition(depth)} {rng.choice('&|')} {maker.integer(1)}))", "      b[i] = i;"]
