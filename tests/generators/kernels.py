"""Random kernels of the kind that people write: stencils, products, sums, scans and tables, over sizes of any kind.

    kernel = random_kernel(random.Random(7))
    kernel.text      the C file; its function has the name that was asked for
    kernel.given     values for its size parameters, each set in bounds; none where the sizes are macros

In contrast to `nests`, which is about odd control flow in few iterations, loops here are long enough for vectors, with
trip counts around multiples of their widths.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

FAMILIES: tuple[tuple[str, ...], ...] = (
    ("float",),
    ("double",),
    ("float", "double"),
    ("float", "int"),
    ("double", "long"),
    ("int",),
    ("long", "int"),
    ("signed char", "short", "int"),
    ("unsigned char", "unsigned short", "unsigned int"),
    ("signed char", "unsigned char", "short", "unsigned short", "int", "unsigned int", "long", "float", "double"),
)
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 23, 31, 32, 33, 47, 63, 64, 65, 70)
_FLOATS = ("float", "double")


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    text: str
    given: tuple[dict[str, int], ...]


@dataclass(frozen=True, slots=True)
class _Array:
    name: str
    type: str
    axes: tuple[str, ...]  # the size of each axis
    const: bool


@dataclass(frozen=True, slots=True)
class _Loop:
    """An iterator from 0 to below `size`, staying `halo` away from both ends."""

    name: str
    size: str
    halo: int


@dataclass(slots=True)
class _Maker:
    rng: random.Random
    types: tuple[str, ...]
    branches: bool  # on data of floats
    sizes: tuple[str, ...] = ()
    arrays: list[_Array] = field(default_factory=list)
    loops: list[_Loop] = field(default_factory=list)
    temps: list[tuple[str, str]] = field(default_factory=list)
    count: int = 0

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    # Elements

    def index(self, size: str) -> str | None:
        loops = [loop for loop in self.loops if loop.size == size]
        if not loops:
            return None
        loop = self.rng.choice(loops[-2:])
        shift = self.rng.choice((0, 0, 0, *range(-loop.halo, loop.halo + 1)))
        kind = self.rng.random()
        if kind < 0.06:
            return f"{size} - 1 - {loop.name}"
        if kind < 0.09:
            return f"{loop.name} / 2"
        if kind < 0.11:
            return f"2 * {loop.name} / 3"
        if kind < 0.13:
            return "0"
        sign = "+" if shift > 0 else "-"
        return f"{loop.name} {sign} {abs(shift)}" if shift else loop.name

    def element(self, array: _Array) -> str | None:
        found = [self.index(size) for size in array.axes]
        return None if any(f is None for f in found) else array.name + "".join(f"[{f}]" for f in found)

    def read(self, kinds: tuple[str, ...]) -> str | None:
        arrays = [a for a in self.arrays if a.type in kinds]
        self.rng.shuffle(arrays)
        return next((e for a in arrays if (e := self.element(a)) is not None), None)

    # Values

    def value(self, type_: str, depth: int) -> str:
        return self.real(depth) if type_ in _FLOATS else self.whole(depth)

    def real(self, depth: int) -> str:
        if depth <= 0 or self.chance(0.15):
            return self.real_leaf()
        kind = self.rng.random()
        one, two = self.real(depth - 1), self.real(depth - 1)
        if kind < 0.5:
            return f"({one} {self.rng.choice('+-*')} {two})"
        if kind < 0.6:
            return f"0.5f * ({one} + {two})"
        if kind < 0.66:
            return f"{self.rng.choice(('fminf', 'fmaxf', 'fmin', 'fmax'))}({one}, {two})"
        if kind < 0.72:
            return f"sqrtf(fabsf({one}))" if self.chance(0.5) else f"sqrt(fabs({one}))"
        if kind < 0.78:
            return f"({one} / (1.0f + fabsf({two})))"
        if kind < 0.84 and self.loops:
            loop = self.rng.choice(self.loops)
            return f"({loop.name} {self.rng.choice(('<', '==', '>='))} {self.rng.randint(0, 9)} ? {one} : {two})"
        if kind < 0.92 and self.branches:
            return f"({one} {self.rng.choice(('<', '<=', '>', '>=', '==', '!='))} {two} ? {self.real(0)} : {two})"
        return f"-{one}" if one[0] != "-" else one

    def real_leaf(self) -> str:
        kind = self.rng.random()
        temps = [name for name, type_ in self.temps if type_ in _FLOATS]
        if temps and kind < 0.35:
            return self.rng.choice(temps)
        found = self.read(_FLOATS) if kind < 0.85 else None
        if found is None and kind < 0.93:
            integer = self.read(tuple(t for t in self.types if t not in _FLOATS))
            found = f"(float){integer}" if integer is not None else None
        if found is None and kind > 0.95 and self.loops:
            found = self.rng.choice(self.loops).name
        return found or self.rng.choice(("1.5f", "0.25", "alpha", "2.0f"))

    def whole(self, depth: int) -> str:
        if depth <= 0 or self.chance(0.15):
            temps = [name for name, type_ in self.temps if type_ not in _FLOATS]
            if temps and self.chance(0.35):
                return self.rng.choice(temps)
            found = self.read(tuple(t for t in self.types if t not in _FLOATS)) if self.chance(0.85) else None
            return found or self.rng.choice((*(loop.name for loop in self.loops), "3", "-7", "100u"))
        kind = self.rng.random()
        one, two = self.whole(depth - 1), self.whole(depth - 1)
        if kind < 0.5:
            return f"({one} {self.rng.choice(('+', '-', '*', '&', '|', '^'))} {two})"
        if kind < 0.62:
            return f"(({one}) {self.rng.choice(('<<', '>>'))} {self.rng.randint(0, 7)})"
        if kind < 0.69:
            return f"(({one}) {self.rng.choice('/%')} {self.rng.choice((2, 3, 7, 8, -3))})"
        if kind < 0.74:
            return f"(~{one})" if one[0] != "-" else one
        if kind < 0.8:
            return f"abs((int)({one}))"
        if kind < 0.85:
            return f"({self.rng.choice(('signed char', 'short', 'unsigned char', 'unsigned short'))})({one})"
        return f"({one} {self.rng.choice(('<', '<=', '>', '>=', '==', '!='))} {two} ? {self.whole(0)} : {two})"

    # Statements

    def assignment(self, indent: str) -> list[str]:
        outputs = [a for a in self.arrays if not a.const]
        self.rng.shuffle(outputs)
        for array in outputs:
            place = self.element(array)
            if place is not None:
                return [indent + self.update(place, array.type)]
        return []

    def update(self, place: str, type_: str) -> str:
        kind = self.rng.random()
        value = self.value(type_, self.rng.randint(1, 2))
        if kind < 0.5:
            return f"{place} = {value};"
        if kind < 0.7:
            return f"{place} += {value};"
        if type_ in _FLOATS:
            name = self.rng.choice(("fmin", "fmax")) + ("f" if type_ == "float" else "")
            if kind < 0.78:
                return f"{place} = {name}({place}, {value});"
            if kind < 0.84 and self.branches:
                return f"if ({value} {self.rng.choice('<>')} {place}) {place} = {value};"
            return f"{place} {self.rng.choice(('-=', '+=', '*='))} 0.5f * ({value});"
        if kind < 0.78:
            return f"if ({value} {self.rng.choice('<>')} {place}) {place} = {value};"
        return f"{place} {self.rng.choice(('&=', '|=', '^=', '*=', '-='))} {value};"

    def accumulation(self, depth: int, indent: str) -> list[str]:
        """A sum (or the like) in a scalar, over a loop, stored after it."""
        self.count += 1
        type_ = self.rng.choice(self.types)
        name = f"t{self.count}"
        self.temps.append((name, type_))
        lines = [f"{indent}{type_} {name} = {self.rng.choice(('0', '1', '100'))};"]
        head, loop = self.header()
        self.loops.append(loop)
        lines.append(f"{indent}for ({head})")
        self.temps.pop()
        lines.append(f"{indent}  {self.update(name, type_)}")
        self.loops.pop()
        self.temps.append((name, type_))
        lines += self.assignment(indent) or []
        self.temps.pop()
        return lines

    def temporary(self, indent: str) -> list[str]:
        self.count += 1
        type_ = self.rng.choice(self.types)
        name = f"t{self.count}"
        line = f"{indent}{type_} {name} = {self.value(type_, 2)};"
        self.temps.append((name, type_))
        lines = [line, *self.assignment(indent)]
        if self.chance(0.4):
            lines += [indent + self.update(name, type_), *self.assignment(indent)]
        self.temps.pop()
        return lines

    def statement(self, depth: int, indent: str) -> list[str]:
        kind = self.rng.random()
        if depth > 0 and kind < 0.7:
            return self.loop(depth, indent)
        if kind < 0.2:
            return self.accumulation(depth, indent)
        if kind < 0.35:
            return self.temporary(indent)
        if kind < 0.43:
            inner = self.assignment(indent + "  ")
            return [f"{indent}if ({self.guard()}) {{", *inner, f"{indent}}}"] if inner else []
        return self.assignment(indent)

    def guard(self) -> str:
        one = self.rng.choice(self.loops).name
        if self.chance(0.3):
            return f"{one} % {self.rng.choice((2, 3, 4))} == 0"
        if len(self.loops) > 1 and self.chance(0.5):
            return f"{one} {self.rng.choice(('<', '<=', '>', '!='))} {self.rng.choice(self.loops).name}"
        return f"{one} {self.rng.choice(('<', '>=', '==', '!='))} {self.rng.randint(0, 20)}"

    def header(self) -> tuple[str, _Loop]:
        self.count += 1
        name, size, halo = f"i{self.count}", self.rng.choice(self.sizes), self.rng.choice((0, 0, 0, 1, 2))
        low = str(halo)
        high = f"{size} - {halo}" if halo else size
        same = [loop for loop in self.loops if loop.size == size]
        if same and self.chance(0.35):
            outer = self.rng.choice(same)
            halo = outer.halo
            low, high = str(halo), f"{size} - {halo}"
            if self.chance(0.5):
                low = self.rng.choice((outer.name, f"{outer.name} + 1", f"{outer.name} + 2"))
            else:
                high = self.rng.choice((outer.name, f"{outer.name} + 1", f"{outer.name} - 3"))
        if self.chance(0.1):
            return f"int {name} = {high} - 1; {name} >= {low}; {name}--", _Loop(name, size, halo)
        if self.chance(0.08):
            step = self.rng.choice((2, 3, 4))
            return f"int {name} = {low}; {name} < {high}; {name} += {step}", _Loop(name, size, halo)
        return f"int {name} = {low}; {name} < {high}; {name}++", _Loop(name, size, halo)

    def loop(self, depth: int, indent: str) -> list[str]:
        head, loop = self.header()
        self.loops.append(loop)
        lines: list[str] = []
        for _ in range(self.rng.choice((1, 1, 1, 2))):
            lines += self.statement(depth - 1, indent + "  ")
        self.loops.pop()
        return [f"{indent}for ({head}) {{", *lines, f"{indent}}}"] if lines else []

    # The whole

    def kernel(self, name: str) -> Kernel:
        self.sizes = ("n", "m") if self.chance(0.4) else ("n",)
        symbolic = self.chance(0.4)
        for k in range(self.rng.randint(2, 5)):
            axes = tuple(self.rng.choice(self.sizes) for _ in range(self.rng.choice((0, 1, 1, 1, 2, 2, 2, 3)) or 1))
            self.arrays.append(_Array(f"a{k}", self.rng.choice(self.types), axes, k > 0 and self.chance(0.3)))
        body: list[str] = []
        while not body:
            for _ in range(self.rng.choice((1, 2, 2, 3))):
                body += self.loop(self.rng.choice((1, 2, 2, 3)), "  ")
        most = 23 if any(len(a.axes) > 2 for a in self.arrays) else SIZES[-1]
        usual = tuple(s for s in SIZES if s <= most)
        given: list[dict[str, int]] = [{}]
        parameters = [_declared(a) for a in self.arrays] + [f"{self.rng.choice(self.types)} alpha"]
        defines: list[str] = []
        if symbolic:
            values = [{s: self.rng.choice(usual) for s in self.sizes} for _ in range(3)]
            given = [dict.fromkeys(self.sizes, 0), dict.fromkeys(self.sizes, 1), *values]
            parameters = [*(f"int {s}" for s in self.sizes), *parameters]
        else:
            defines = [f"#define {s} {self.rng.choice(usual)}" for s in self.sizes]
        ends = [f"#undef {s}" for s in self.sizes] if defines else []
        head = ["#include <math.h>", "#include <stdlib.h>", *defines]
        lines = [*head, f"void {name}({', '.join(parameters)})", "{", *body, "}", *ends]
        return Kernel(name, "\n".join(lines) + "\n", tuple(given))


def _declared(array: _Array) -> str:
    return f"{'const ' if array.const else ''}{array.type} {array.name}" + "".join(f"[{n}]" for n in array.axes)


def random_kernel(rng: random.Random, *, name: str = "kernel", branches: bool = True) -> Kernel:
    """A kernel; the same for the same state of `rng`. `branches`: whether control may depend on data of floats."""
    return _Maker(rng, rng.choice(FAMILIES), branches).kernel(name)
