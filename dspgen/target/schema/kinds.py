"""The kinds of values in an ISA file, and what many of its tables share.

`Figure` is an integer or an expression; the loader makes it an integer. `Words` is one text or a list of texts, `Names`
the same with patterns that stand for many, `Range` a list of two figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NewType

Figure = NewType("Figure", int)
Words = NewType("Words", tuple)  # type: ignore[type-arg]
Names = NewType("Names", tuple)  # type: ignore[type-arg]
Range = NewType("Range", tuple)  # type: ignore[type-arg]
Label = Literal["published", "mined", "derived", "assumed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced:
    """A table that says where its figures come from.

    label: how its figures are known: published by the maker, mined from code of others, derived from either, or
        assumed.
    source: where from, in words.
    """

    label: Label = "assumed"
    source: str = ""
