"""Which iterations of a tile lie on the lanes of its vectors, and how lanes' elements lie in memory."""

from __future__ import annotations

from dataclasses import dataclass

from dspgen.vecdsl.ir.constant_folding import make
from dspgen.vecdsl.ir.program import Address, Const, Op, Term, VType
from dspgen.vecdsl.ir.terms import address_term, as_vector, integer

WORDS = VType("i32", True)


@dataclass(frozen=True, slots=True)
class Lanes:
    """One vector of a tile: `first` are the iterators' values on lane 0.

    Lane k runs iteration k // period of `outer` and k % period of `inner` after these. Without `inner`, it runs
    iteration k * `direction` of `outer`: -1 where lanes run down, more than 1 where vectors take turns. `active`: how
    many lanes run, None for all `count`; `present`: how many at run time, as a term, where only that tells; `limit`: a
    mask of those that run, where they need not be the first ones; `certain`: under a limit, a lane that always runs.
    """

    count: int
    first: dict[str, Address]
    outer: str | None = None
    inner: str | None = None
    period: int = 1
    direction: int = 1
    active: int | None = None
    present: Term | None = None
    limit: Term | None = None
    certain: int | None = None

    @property
    def varying(self) -> tuple[str, ...]:
        """The iterators that differ from lane to lane."""
        outer = () if self.outer is None or self.period == self.count else (self.outer,)
        return outer if self.inner is None or self.period == 1 else (*outer, self.inner)

    @property
    def running(self) -> int:
        return 1 if self.outer is None else self.active or self.count

    def at(self, lane: int) -> dict[str, Address]:
        """The iterators' values on one lane."""
        moved = dict(self.first)
        if self.outer is not None:
            moved[self.outer] = moved[self.outer].plus(self.direction * (lane // self.period))
        if self.inner is not None:
            moved[self.inner] = moved[self.inner].plus(lane % self.period)
        return moved

    def values(self) -> dict[str, Term]:
        """The vectors of the iterators that differ from lane to lane."""
        numbers: Term = Op("iota", (), WORDS)
        step = "add" if self.direction > 0 else "sub"
        if self.direction > 1:
            numbers = Op("mul", (numbers, as_vector(integer(self.direction))), WORDS)
        found = dict[str, Term]()
        for name in self.varying:
            offset = self._quotient(numbers) if name == self.outer else self._rest(numbers)
            found[name] = make(step, (as_vector(address_term(self.first[name])), offset), WORDS)
        return found

    def _quotient(self, numbers: Term) -> Term:
        if self.period == 1:
            return numbers
        if self.period & (self.period - 1):
            return constants([k // self.period for k in range(self.count)])
        return Op("shr", (numbers, as_vector(integer(self.period.bit_length() - 1))), WORDS)

    def _rest(self, numbers: Term) -> Term:
        if self.period == self.count:
            return numbers
        if self.period & (self.period - 1):
            return constants([k % self.period for k in range(self.count)])
        return Op("and", (numbers, as_vector(integer(self.period - 1))), WORDS)

    def mask(self) -> Term | None:
        """The lanes that run, None for all."""
        if self.present is not None:
            # The sign of the distance: counts are far from the least number.
            beyond = Op("sub", (Op("iota", (), WORDS), as_vector(self.present)), WORDS)
            return Op("shr", (beyond, as_vector(integer(31))), WORDS)
        first = None if self.active is None else Op("mask_first", (), WORDS, (self.active,))
        return both([m for m in (first, self.limit) if m is not None])


def both(masks: list[Term]) -> Term | None:
    """The conjunction of masks that are 0 or 1."""
    found: Term | None = None
    for mask in masks:
        if found is None:
            found = mask
            continue
        vector = found.type.vector or mask.type.vector
        args = (as_vector(found), as_vector(mask)) if vector else (found, mask)
        found = make("and", args, VType("i32", vector))
    return found


@dataclass(frozen=True, slots=True)
class Pattern:
    """How far the lanes' elements lie from the first lane's, see `ir.Load`; `table` where no strides tell it."""

    stride: int = 0
    period: int = 0
    jump: int = 0
    table: tuple[int, ...] = ()

    @property
    def uniform(self) -> bool:
        return self == Pattern()


def two_level(stride: int, jump: int, period: int, lanes: int) -> Pattern:
    """Lanes over two loops whose steps move an access by `jump` (the outer one) and `stride`."""
    if period == 1:
        return Pattern(jump)
    if period == lanes or jump == period * stride:
        return Pattern(stride)
    return Pattern(stride, period, jump)


def pattern(offsets: list[int], lanes: int) -> Pattern:
    """The simplest pattern that gives the offsets of the first lanes."""
    for period in [p for p in range(1, lanes + 1) if lanes % p == 0]:
        stride = offsets[1] if period > 1 and len(offsets) > 1 else 0
        jump = offsets[period] if period < len(offsets) else period * stride
        if all(d == k % period * stride + k // period * jump for k, d in enumerate(offsets)):
            return two_level(stride, jump, period, lanes)
    return Pattern(table=(*offsets, *[0] * (lanes - len(offsets))))


def constants(values: list[int] | tuple[int, ...]) -> Term:
    return Op("vec", tuple(Const(v, VType("i32", False)) for v in values), WORDS)
