"""What a machine does for vectors that take turns: accesses by whole words, and interleaving."""

from __future__ import annotations

from dataclasses import dataclass

from dspgen.target.model import Target
from dspgen.target.operations import OperationTable
from dspgen.vecdsl.ir import ELEM_BYTES, Elem

WORD = 4
WHOLE: dict[int, Elem] = {1: "w8", 2: "w16"}  # types of words at any element, by the bytes of these
_TURNS = (2, 4)  # so many vectors at most are interleaved


@dataclass(frozen=True, slots=True)
class Turns:
    """What a machine does for vectors that take turns.

    `loads` and `stores`: narrow types that it accesses by words; `spreads` and `joins`: whether it takes every second
    lane of two vectors, and interleaves two; `slides`: whether it takes a window of the lanes of two; `halves`: whether
    it multiplies both 16-bit halves of words at once.
    """

    lanes: int
    loads: frozenset[str]
    stores: frozenset[str]
    spreads: bool
    joins: bool
    slides: bool
    halves: bool

    def takes(self, elem: str, *, store: bool) -> int:
        """How many vectors take turns at a contiguous access of this type; 1 where vectors are as they are."""
        return in_word(elem) if elem in (self.stores if store else self.loads) else 1

    def by_halves(self, elem: str) -> bool:
        """Whether both elements of a word are multiplied at once."""
        return self.halves and elem == "i16"

    def reaches(self, elem: str, stride: int, *, store: bool) -> bool:
        """Whether elements so far apart are reached in this way."""
        if (
            stride < 2
            or ELEM_BYTES[elem] > WORD
            or stride % in_word(elem)
            or self.takes(elem, store=store) != in_word(elem)
        ):
            return False
        turns = stride // in_word(elem)
        return turns == 1 or (turns in _TURNS and (self.joins if store else self.spreads))


def in_word(elem: str) -> int:
    """The elements of a word: 1 of those that are no narrower."""
    return max(WORD // ELEM_BYTES[elem], 1)


def turns(target: Target) -> Turns:
    """What the machine does of this that it does in no simpler way."""
    table = OperationTable(target)
    macros = {m.implements for m in target.macros}

    def can(op: str) -> bool:
        return bool(table.forms(op, "i32")) or f"{op}.i32" in macros

    def by_words(op: str) -> frozenset[str]:
        narrow = (e for e in ("i8", "u8", "i16", "u16") if not table.lanes(op, e, 1))
        return frozenset(e for e in narrow if table.lanes(op, WHOLE[ELEM_BYTES[e]], WORD // ELEM_BYTES[e]))

    def plain(op: str) -> bool:
        return not any(f.shape[:1] == (2,) for f in table.forms(op, "i32"))

    spreads = plain("vld_pair") and can("even") and can("odd")
    joins = plain("vst_pair") and can("zip_lo") and can("zip_hi")
    return Turns(target.lanes, by_words("vld"), by_words("vst"), spreads, joins, can("align"), can("mul16_pair"))
