"""The names of the C program and what they stand for at the place that is being read."""

from __future__ import annotations

from collections.abc import Iterator as Iterating
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from dspgen.errors import Problem, SourceError
from dspgen.frontend.scop.affine_sets import ISL_WORDS
from dspgen.frontend.scop.c_types import CType
from plant_core.ir.func import Buf, Expr
from plant_core.support.location import Loc


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression and its C type."""

    expr: Expr
    ctype: CType


@dataclass(frozen=True, slots=True)
class Array:
    buf: Buf


@dataclass(frozen=True, slots=True)
class Constant:
    """A name that always stands for this value: enum constants, const scalars, parameters."""

    value: Typed


@dataclass(frozen=True, slots=True)
class Iterator:
    value: Typed


@dataclass(slots=True)
class Variable:
    """A local scalar. `known` is its value where that is an affine function of the loops around.

    `counts` tells that some loop uses it as its iterator, so that it has no storage; `guard` is the data-dependent
    condition under which it was declared.
    """

    name: str
    ctype: CType
    loc: Loc
    counts: bool
    guard: Expr | None
    buf: Buf | None = None
    known: Typed | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """A name whose declaration was refused: each use repeats the same problems, which are reported once."""

    problems: tuple[Problem, ...]


Symbol = Array | Constant | Iterator | Variable | Broken


@dataclass(slots=True)
class Scope:
    """Nested blocks of symbols, and the names that the polyhedral program has taken so far."""

    blocks: list[dict[str, Symbol]] = field(default_factory=lambda: [{}])
    taken: set[str] = field(default_factory=lambda: set(ISL_WORDS))
    iterators: set[str] = field(default_factory=set)
    meanings: Mapping[str, str] = field(default_factory=dict)

    def enter(self) -> None:
        self.blocks.append({})

    def leave(self) -> None:
        self.blocks.pop()

    @contextmanager
    def outermost(self) -> Iterating[None]:
        """Within, names are declared for the whole file."""
        inner = self.blocks
        self.blocks = inner[:1]
        try:
            yield
        finally:
            self.blocks = inner

    def declare(self, name: str, symbol: Symbol) -> None:
        self.blocks[-1][name] = symbol

    def find(self, name: str) -> Symbol | None:
        return next((block[name] for block in reversed(self.blocks) if name in block), None)

    def need(self, name: str, loc: Loc) -> Symbol:
        match self.find(name):
            case None:
                raise SourceError(Problem("DG013", f"'{name}' isn't a variable of this function", loc))
            case Broken(problems):
                raise SourceError(*problems)
            case symbol:
                return symbol

    def variables(self) -> list[Variable]:
        return [s for block in self.blocks for s in block.values() if isinstance(s, Variable)]

    def fresh(self, name: str) -> str:
        """`name`, or it with a number, as no array, parameter or iterator is called; it is then taken."""
        count, chosen = 0, name
        while chosen in self.taken or chosen in self.iterators:
            count += 1
            chosen = f"{name}_{count}"
        self.taken.add(chosen)
        return chosen
