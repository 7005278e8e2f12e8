"""Which elements accesses touch, and which the machine's own accesses of words reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dspgen.vecdsl.ir.program import PAIRS, Load, Op, Store, Term, covered, lanes_of

WORD = 4
# An array, the variable part of an address, the type of the elements.
Place = tuple[str, tuple[tuple[str, int], ...], str]


@dataclass(frozen=True, slots=True)
class Reach:
    """What one access of the machine reaches: elements `stride` apart on its lanes and, of a pair, those right after
    them on the lanes of the other vector. Addresses are multiples of `align` elements."""

    stride: int
    paired: bool = False
    align: int = 1

    def base(self, start: int, terms: Sequence[tuple[str, int]]) -> int | None:
        """Where an access begins that has element `start` on its first lane; None where alignment forbids it."""
        if any(c % self.align for _, c in terms):
            return None
        return next((b for b in ((start, start - 1) if self.paired else (start,)) if b % self.align == 0), None)


def is_pair(value: Term) -> bool:
    return isinstance(value, Op) and value.name in PAIRS


def lane_elements(access: Load | Store, count: int) -> tuple[int, ...]:
    """The elements on the first lanes, counted from the variable part of the address; an index not included."""
    start, period = access.address.constant, access.period or max(count, 1)
    return tuple(start + k % period * access.stride + k // period * access.jump for k in range(count))


def elements_of(access: Load | Store, pair: bool, lanes: int) -> set[int] | None:
    """All that an access touches, counted likewise; None where that isn't known."""
    if access.index is not None:
        return None
    type = access.type if isinstance(access, Load) else access.value.type
    vector = type.vector
    count = lanes_of(type, lanes) if vector else 1
    if isinstance(access, Store) and access.active is not None and not pair:
        count = min(access.active, count)
    here = lane_elements(access, count)
    second = (lanes if access.stride == 1 and vector else 1) if pair else 0
    return {e + d for e in here for d in (*range(covered(access.elem)), second)}
