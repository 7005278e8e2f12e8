"""Recurrences across lanes: the prefixes of one vector in a step for each power of two, joined to what came before.

The steps are those of Hillis and Steele, Data Parallel Algorithms (CACM 1986), on pairs (a, b) for `x = a x' + b`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dspgen.vecdsl.analysis.footprint import Place
from dspgen.vecdsl.build.expressions import stored
from dspgen.vecdsl.build.reduction_tiles import combined, identity
from dspgen.vecdsl.ir.constant_folding import make
from dspgen.vecdsl.ir.program import OPS, Const, Let, Load, Op, Stmt, Term, Var, VType
from dspgen.vecdsl.ir.terms import Names, as_vector, is_atom, leaves, register_elem
from plant_core.analysis.linear_recurrences import Family
from plant_core.ir.func import DType


@dataclass(frozen=True, slots=True)
class Part:
    """One vector's share of a recurrence, `factor * x + term` or `min(x, term)`; None is 1 and 0."""

    factor: Term | None
    term: Term | None


@dataclass(frozen=True, slots=True)
class Scan:
    """How the iterations of a recurrence lie on lanes. `falling`: they run from the last lane down."""

    family: Family
    dtype: DType
    distance: int
    lanes: int
    falling: bool
    names: Names

    def prefixes(self, parts: list[Part], before: list[Stmt]) -> list[Part]:
        """What the iterations up to each lane come to together. `before` gets the statements for it: a step of all
        vectors together, since machines may have to be told which lanes a shuffle takes."""
        neutral = None if self.family == "linear" else identity(self.family, self.dtype)
        found = [Part(self._wide(p.factor, before), self._wide(p.term or neutral, before)) for p in parts]
        far = self.distance
        while far < self.lanes:
            terms = [self._longer_term(p, far, before) for p in found]
            factors = [self._longer_factor(p, far, before) for p in found]
            found = [Part(f, t) for f, t in zip(factors, terms, strict=True)]
            far *= 2
        return found

    def value(self, prefix: Part, carry: Term) -> Term:
        """A vector's elements, the `distance` elements before them being `carry`: repeated over the lanes, or one
        scalar."""
        if self.family != "linear":
            return stored(self._join(carry, prefix.term or carry), self.dtype)
        total = carry if prefix.factor is None else self._op("mul", prefix.factor, carry)
        return stored(as_vector(total) if prefix.term is None else self._op("add", total, prefix.term), self.dtype)

    def _wide(self, value: Term | None, before: list[Stmt]) -> Term | None:
        return None if value is None else self.named(as_vector(value), before)

    def _longer_term(self, part: Part, far: int, before: list[Stmt]) -> Term | None:
        if part.term is None:
            return None
        if self.family != "linear":
            earlier = self._shifted(part.term, far, identity(self.family, self.dtype))
            return self.named(self._join(part.term, earlier), before)
        earlier = self._shifted(part.term, far, identity("add", self.dtype))
        if part.factor is not None:
            earlier = self._op("mul", part.factor, earlier)
        return self.named(self._op("add", earlier, part.term), before)

    def _longer_factor(self, part: Part, far: int, before: list[Stmt]) -> Term | None:
        if part.factor is None:
            return None
        earlier = self._shifted(part.factor, far, identity("mul", self.dtype))
        return self.named(self._op("mul", part.factor, earlier), before)

    def _join(self, a: Term, b: Term) -> Term:
        return combined(self.family, as_vector(a), as_vector(b), self.dtype)

    def _op(self, name: str, a: Term, b: Term) -> Term:
        return make(name, (as_vector(a), as_vector(b)), VType(register_elem(self.dtype), True))

    def _shifted(self, value: Term, far: int, fill: Term) -> Term:
        """Each lane's value `far` iterations ago, `fill` where that is before the vector."""
        if self.falling:
            return make("align", (value, as_vector(fill)), value.type, (far,))
        return make("align", (as_vector(fill), value), value.type, (self.lanes - far,))

    def named(self, value: Term, before: list[Stmt]) -> Term:
        """The value under a name, once computed."""
        if is_atom(value) or (isinstance(value, Op) and value.name == "bcast" and is_atom(value.args[0])):
            return value
        name = self.names.fresh("scan")
        before.append(Let(name, value))
        return Var(name, value.type)


def lanes_read(stored: Place, read: Place, lanes: int) -> tuple[int, ...] | None:
    """Which lanes of a stored vector a load reads back, where the addresses tell that it reads nothing else."""
    if not stored.vector or (stored.array, stored.elem) != (read.array, read.elem):
        return None
    if stored.address.terms != read.address.terms:
        return None
    sources = {offset: k for k, offset in enumerate(_elements(stored, lanes))}
    wanted = _elements(read, lanes if read.vector else 1)
    return tuple(sources[w] for w in wanted) if all(w in sources for w in wanted) else None


def _elements(place: Place, count: int) -> list[int]:
    if not place.period:
        return [place.address.constant + k * place.stride for k in range(count)]
    p = place.period
    return [place.address.constant + k % p * place.stride + k // p * place.jump for k in range(count)]


def picks(value: Term, pattern: tuple[int, ...], type: VType, periods: Mapping[str, int]) -> Term | None:
    """Some lanes of what a recurrence comes to in one vector, by way of the same lanes of its parts; None for any other
    value. So the carried value is joined to these parts alone, and not to what is made of it for all lanes.

    Before: `lane.15(a * bcast(c) + b)`. After: `lane.15(a) * c + lane.15(b)`. `periods` has the vectors that repeat
    themselves.
    """
    found = _picks(value, pattern, type, periods)
    return None if found is None or any(isinstance(x, Load) for x in leaves(found)) else found


def _picks(value: Term, pattern: tuple[int, ...], type: VType, periods: Mapping[str, int]) -> Term | None:
    if (carried := _repeated(value, pattern, type, periods)) is not None:
        return carried
    if not isinstance(value, Op) or OPS[value.name].kind not in ("lane", "bits"):
        return None
    parts = [_picks(a, pattern, type, periods) for a in value.args]
    if all(p is None for p in parts):
        return None
    chosen = tuple(p if p is not None else _picked(a, pattern, type) for p, a in zip(parts, value.args, strict=True))
    return make(value.name, chosen, VType(value.type.elem, type.vector), value.imm)


def repeats(load: Load) -> int:
    """After how many lanes a vector's elements are the same again, 0 for never."""
    return load.period if not load.jump and load.index is None and load.mask is None else 0


def _repeated(term: Term, pattern: tuple[int, ...], type: VType, periods: Mapping[str, int]) -> Term | None:
    """A value of which these lanes are the same again."""
    if isinstance(term, Op) and term.name == "bcast":
        return term if type.vector else term.args[0]
    period = periods.get(term.name, 0) if isinstance(term, Var) and type.vector else 0
    return term if period and all(source % period == k % period for k, source in enumerate(pattern)) else None


def _picked(value: Term, pattern: tuple[int, ...], type: VType) -> Term:
    if isinstance(value, Const):
        return Const(value.value, VType(value.type.elem, type.vector))
    if type.vector:
        return make("shuffle", (value,), value.type, pattern)
    return make("lane", (value,), VType(value.type.elem, False), pattern)
