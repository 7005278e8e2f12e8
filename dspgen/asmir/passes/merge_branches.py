"""Two statements under opposite conditions, one after the other: the sides of one.

Before: if (n >= 8) A; if (n < 8) B
After:  if (n >= 8) A else B
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dspgen.asmir.select.access_streams import arrays_read
from dspgen.vecdsl.ir.program import Const, If, Op, Stmt, Term

_TOLD = ("lt", "le", "eq", "ne")  # what is 0 or 1


def with_other_sides(stmts: Sequence[Stmt]) -> Iterator[tuple[int, Stmt, tuple[Stmt, ...]]]:
    """The statements by number, each with what runs just where it does not; that comes with it only."""
    k = 0
    while k < len(stmts):
        both = k + 1 < len(stmts) and _are_opposite(stmts[k], stmts[k + 1])
        other = stmts[k + 1] if both else None
        yield k, stmts[k], other.then if isinstance(other, If) else ()
        k += 1 + both


def _are_opposite(one: Stmt, other: Stmt) -> bool:
    """Whether the second runs just where the first does not, whose stores decide nothing."""
    if not (isinstance(one, If) and isinstance(other, If)) or arrays_read(other.condition, {}):
        return False
    return one.condition == _opposite(other.condition) or other.condition == _opposite(one.condition)


def _opposite(condition: Term) -> Term | None:
    """What a condition says is not so, where it says just that."""
    match condition:
        case Op("eq", (Op(name) as inner, Const(value=0))) | Op("xor", (Op(name) as inner, Const(value=1))):
            return inner if name in _TOLD else None
        case _:
            return None
