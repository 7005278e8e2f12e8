"""Random nests whose accesses run under a condition: strided, diagonal, shifted, gathered and scattered, in place and
not, of elements of any type; the condition is on data of a lane, on data of the outer loop, or on iterators.

    text = random_conditional(random.Random(7), TYPES)      a C file of such types, its function is called `kernel`
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

TYPES = ("int", "float", "short", "signed char", "unsigned char", "unsigned short", "double")
_FLOATING = ("float", "double")
_STRIDES = (0, 1, 1, 1, 2, 3, -1, -1, -2, -3, 5, 7, -7, 16, 19, -19)


@dataclass(frozen=True, slots=True)
class _Range:
    """An iterator's values, from `first` to `last`."""

    name: str
    first: int
    last: int


class _Writer:
    def __init__(self, rng: random.Random, types: Sequence[str]) -> None:
        self.rng, self.types = rng, types
        self.params: list[str] = []
        self.rows = self._range("i", (2, 3, 4, 5, 6, 9, 12))
        self.columns = self._range("j", (3, 5, 7, 8, 9, 12, 16, 17, 20, 33))

    def _range(self, name: str, trips: tuple[int, ...]) -> _Range:
        first = self.rng.choice((0, 0, 1, 2, 3))
        return _Range(name, first, first + self.rng.choice(trips) - 1)

    def text(self) -> str:
        rng = self.rng
        kind = rng.choice(self.types)
        body = self._body(kind, rng.random() < 0.3)
        heads = [f"for (int {r.name} = {r.first}; {r.name} <= {r.last}; {r.name}++)" for r in (self.rows, self.columns)]
        lines = "\n".join(f"      {line}" for line in body)
        nest = f"  {heads[0]}\n    {heads[1]} {{\n{lines}\n    }}\n"
        return f"void kernel({', '.join(self.params)})\n{{\n{nest}}}\n"

    def _body(self, kind: str, in_place: bool) -> list[str]:
        rng = self.rng
        target = self._target(kind, in_place)
        first, second = (self._source(k, kind, in_place) for k in range(2))
        other = rng.choice((str(rng.randint(-5, 5)), second))
        if rng.random() < 0.3:
            other = f"{second} + {first}" if kind in _FLOATING else f"{second} * 3"
        test = self._condition(kind)
        if rng.random() < 0.6:
            return [f"{target} = {test} ? {first} : {other};"]
        return rng.choice(
            (
                [f"if ({test}) {target} = {first};"],
                [f"if ({test}) {target} = {first};", f"else {target} = {other};"],
                [f"{kind} t = {other};", f"if ({test}) t = {first};", f"{target} = t;"],
                [f"if ({test}) {target} += {first};"],
            )
        )

    def _target(self, kind: str, in_place: bool) -> str:
        """An element of its own for each iteration, mostly."""
        rng, sign, step = self.rng, self.rng.choice((1, 1, -1)), self.rng.choice((1, 1, 1, 2, -1, 3))
        self.shape = (40, 120) if in_place else None
        if rng.random() < 0.1:
            index = self._index("j")
            return self._element("d", kind, f"{sign} * i", index, self._span(sign, 0), (0, 7), const=False)
        if rng.random() < 0.15:
            row, column = f"{sign} * i + j", f"{step} * j"
            return self._element("d", kind, row, column, self._span(sign, 1), self._span(0, step), const=False)
        return self._element(
            "d", kind, f"{sign} * i", f"{step} * j", self._span(sign, 0), self._span(0, step), const=False
        )

    def _source(self, number: int, kind: str, in_place: bool) -> str:
        rng = self.rng
        other = (
            kind
            if in_place or rng.random() < 0.8
            else rng.choice([t for t in self.types if (t in _FLOATING) == (kind in _FLOATING)])
        )
        if in_place:
            row, column = (rng.choice((-1, 0, 1)), rng.choice((-1, 0, 1))), (0, rng.choice((0, 1, 1, -1, 2, 3)))
        else:
            row, column = (rng.choice((1, 1, -1, 0, 2)), rng.choice((0, 0, 1, -1))), (0, rng.choice(_STRIDES))
            if rng.random() < 0.15:
                text = self._index("j")
                return self._element(f"b{number}", other, f"{row[0]} * i", text, self._span(row[0], 0), (0, 7))
        return self._element(
            "d" if in_place else f"b{number}",
            other,
            f"{row[0]} * i + {row[1]} * j",
            f"{column[1]} * j",
            self._span(*row),
            self._span(*column),
            const=not in_place,
        )

    def _span(self, rows: int, columns: int) -> tuple[int, int]:
        """The least and the greatest value of `rows * i + columns * j`."""
        ends = [sorted((f * r.first, f * r.last)) for f, r in ((rows, self.rows), (columns, self.columns))]
        return ends[0][0] + ends[1][0], ends[0][1] + ends[1][1]

    def _element(
        self,
        name: str,
        kind: str,
        row: str,
        column: str,
        rows: tuple[int, int],
        columns: tuple[int, int],
        *,
        const: bool = True,
    ) -> str:
        """An element inside its array, which is declared; at either of its ends, or not."""
        shifts, sizes = [], []
        for k, (low, high) in enumerate((rows, columns)):
            if self.shape is not None and name == "d":
                spare = self.shape[k] - (high - low + 1)
                spare = min(spare, 12) if k else spare
                shift = self.rng.randint(0, max(spare, 0))
                size = self.shape[k]
            else:
                shift, after = self.rng.choice((0, 0, 1, 5)), self.rng.choice((0, 0, 1, 20))
                size = high - low + 1 + shift + after
            shifts.append(shift - low)
            sizes.append(size)
        declared = f"{'const ' if const else ''}{kind} {name}[{sizes[0]}][{sizes[1]}]"
        if not any(f" {name}[" in p for p in self.params):
            self.params.append(declared)
        return f"{name}[{row} + {shifts[0]}][{column} + {shifts[1]}]".replace("+ -", "- ")

    def _index(self, iterator: str) -> str:
        if not any(" x[" in p for p in self.params):
            self.params.append(f"const int x[{max(self.rows.last, self.columns.last) + 1}]")
        return f"(x[{iterator}] & 7)"

    def _condition(self, kind: str) -> str:
        rng = self.rng
        tests = [self._test() for _ in range(rng.choice((1, 1, 1, 2)))]
        return f"({rng.choice((' && ', ' || ')).join(tests)})"

    def _test(self) -> str:
        rng = self.rng
        pick = rng.random()
        if pick < 0.45:
            return self._data("c", self.columns)
        if pick < 0.6:
            return self._data("r", self.rows)
        if pick < 0.7:
            kind, limit = rng.choice(
                [x for x in (("int", "3"), ("float", "0.1f")) if x[0] in self.types] or [("int", "3")]
            )
            element = self._element("q", kind, "i", "j", self._span(1, 0), self._span(0, 1))
            return f"{element} {rng.choice(('<', '>='))} {limit}"
        middle = (self.columns.first + self.columns.last) // 2
        return rng.choice((f"j < {middle}", f"i + j > {middle}", "i <= j", f"j != {middle}", "(j & 1)", "(i & 1)"))

    def _data(self, name: str, over: _Range) -> str:
        kind = next((p.split()[1] for p in self.params if f" {name}[" in p), None)
        if kind is None:
            kind = self.rng.choice([t for t in ("int", "int", "short", "float") if t in self.types or t == "int"])
            self.params.append(f"const {kind} {name}[{over.last + 1}]")
        limit = "0.1f" if kind == "float" else str(self.rng.choice((0, 3, -7)))
        return f"{name}[{over.name}] {self.rng.choice(('<', '>', '<=', '!='))} {limit}"


def random_conditional(rng: random.Random, types: Sequence[str] = TYPES) -> str:
    return _Writer(rng, types).text()
