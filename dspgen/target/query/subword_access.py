"""What a machine does for vectors that take turns: accesses by whole words, and interleaving."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dspgen.target.isa.model import Target
from dspgen.target.query.operations import OperationTable
from dspgen.vecdsl.ir.program import ELEM_BYTES, NARROW, Elem, VType

WORD = 4
WHOLE: dict[int, Elem] = {1: "w8", 2: "w16"}  # types of words at any element, by the bytes of these
_WORDS = VType("i32", True)
_TURNS = (2, 4)  # so many vectors at most are interleaved


@dataclass(frozen=True, slots=True)
class Turns:
    """What a machine does for vectors that take turns.

    `loads` and `stores`: narrow types that it accesses by words; `spreads` and `joins`: elements of vectors of which it
    takes every second of two, and interleaves two; `slides`: of which it takes a window of two; `packs`: which it joins
    of twice as wide ones; `halves`: whether it multiplies both 16-bit halves of words at once.
    """

    lanes: int
    loads: frozenset[str]
    stores: frozenset[str]
    spreads: frozenset[str]
    joins: frozenset[str]
    slides: frozenset[str]
    halves: bool
    packs: frozenset[str] = frozenset()

    def takes(self, elem: str, *, store: bool) -> int:
        """How many vectors take turns at a contiguous access of this type; 1 where vectors are as they are."""
        return in_word(elem) if elem in (self.stores if store else self.loads) else 1

    def by_halves(self, elem: str) -> bool:
        """Whether both elements of a word are multiplied at once."""
        return self.halves and elem == "i16"

    def reaches(self, elem: str, stride: int, *, store: bool, type: VType = _WORDS) -> bool:
        """Whether elements so far apart, on the elements of a vector of this type, are reached in this way."""
        size = in_element(elem, type)
        if (
            stride < (1 if type.elem in NARROW else 2)
            or ELEM_BYTES[elem] > WORD
            or stride % size
            or self.takes(elem, store=store) != in_word(elem)
        ):
            return False
        turns, moved = stride // size, self.joins if store else self.spreads
        return turns == 1 or (turns in _TURNS and moved_as(type) in moved)


def moved_as(type: VType) -> str:
    """The elements that a vector's are moved as, from lane to lane."""
    return type.elem if type.elem in NARROW else "i32"


def in_word(elem: str) -> int:
    """The elements of a word: 1 of those that are no narrower."""
    return max(WORD // ELEM_BYTES[elem], 1)


def in_element(elem: str, type: VType) -> int:
    """The elements of memory that there are room for in one of a vector of this type."""
    return max(min(WORD, ELEM_BYTES[type.elem]) // ELEM_BYTES[elem], 1)


def turns(target: Target) -> Turns:
    """What the machine does of this that it does in no simpler way."""
    table = OperationTable(target)
    macros = {m.implements for m in target.macros}

    def can(op: str, elem: str = "i32") -> bool:
        return bool(table.forms(op, elem)) or f"{op}.{elem}" in macros

    def by_words(op: str) -> frozenset[str]:
        narrow = (e for e in ("i8", "u8", "i16", "u16") if not table.lanes(op, e, 1))
        return frozenset(e for e in narrow if table.lanes(op, WHOLE[ELEM_BYTES[e]], WORD // ELEM_BYTES[e]))

    def all_of(elems: Iterable[str], *ops: str) -> frozenset[str]:
        return frozenset(e for e in elems if all(can(op, e) for op in ops))

    def plain(op: str) -> Iterable[str]:
        return ("i32", *NARROW) if not any(f.shape[:1] == (2,) for f in table.forms(op, "i32")) else ()

    return Turns(
        target.lanes,
        by_words("vld"),
        by_words("vst"),
        all_of(plain("vld_pair"), "even", "odd"),
        all_of(plain("vst_pair"), "zip_lo", "zip_hi"),
        all_of(("i32", *NARROW), "align"),
        can("mul16_pair"),
        all_of(NARROW, "join"),
    )
