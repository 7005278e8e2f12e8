"""Everything that a user can ask for, in one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Options:
    """`defines` and `sets` are pairs of name and text, as given by -D and --set; `includes` are the folders of -I."""

    function: str | None = None
    defines: tuple[tuple[str, str], ...] = ()
    includes: tuple[str, ...] = ()
    sets: tuple[tuple[str, str], ...] = ()
    fp: Literal["strict", "reassoc"] = "reassoc"
    data: Literal["onchip", "ddr"] = "onchip"
    rewrite: bool = True
    pipeline: bool = True
