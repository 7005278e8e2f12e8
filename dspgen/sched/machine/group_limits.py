"""How many instructions of a packet may be on the units of a group.

In a mask of what is taken in a cycle, unit u is bit u; that an instruction starts on it, which is what limits count, is
bit u + `shift`. A machine without limits has no such bits. An instruction on a unit that counts for several has the
bits of units that there are not, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_KNOWN = 50_000  # matchings that are kept


@dataclass(frozen=True, slots=True)
class Limits:
    """`groups` are (units, how many may start on them), for groups of more units than that. What starts on one of the
    units in `more` counts for those there, too."""

    shift: int = 0
    groups: tuple[tuple[int, int], ...] = ()
    more: Mapping[int, int] = field(default_factory=dict, hash=False)
    heavy: tuple[tuple[int, int, int], ...] = field(init=False, compare=False, repr=False)
    _closed: dict[int, int] = field(default_factory=dict, init=False, compare=False, repr=False)
    _matched: dict[tuple[tuple[int, ...], int], tuple[int, ...] | None] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        weights = [(u, group, most, self.weight(u, group)) for u in self.more for group, most in self.groups]
        heavy = tuple((1 << unit, group, most - w) for unit, group, most, w in weights if w > 1)
        object.__setattr__(self, "heavy", heavy)

    def __reduce__(self) -> tuple[type[Limits], tuple[object, ...]]:
        """What is known of packets stays out of pickles."""
        return Limits, (self.shift, self.groups, self.more)

    def start(self, unit: int) -> int:
        """The bits of a start on a unit."""
        return (1 << unit | self.more.get(unit, 0)) << self.shift if self.groups else 0

    def weight(self, unit: int, group: int) -> int:
        """For how many a start on a unit counts in a group."""
        return ((1 << unit | self.more.get(unit, 0)) & group).bit_count()

    def keep(self, taken: int) -> bool:
        """Whether what starts is within all limits."""
        return all((taken >> self.shift & units).bit_count() <= most for units, most in self.groups)

    def closed(self, taken: int) -> int:
        """Units on which nothing more may start."""
        starts = taken >> self.shift
        known = self._closed.get(starts)
        if known is None:
            known = 0
            for units, most in self.groups:
                if (starts & units).bit_count() >= most:
                    known |= units
            for unit, units, most in self.heavy:
                if (starts & units).bit_count() > most:
                    known |= unit
            self._closed[starts] = known
        return known

    def divide(self, units: int) -> bool:
        """Whether some of these units count for a limit and others do not, or for less."""
        return any(len({self.weight(unit, group) for unit in bits(units)}) > 1 for group, _ in self.groups)

    def matched(self, masks: Sequence[int], taken: int) -> tuple[int, ...] | None:
        """One unit of each mask, all different, within the limits; None where there are none."""
        question = tuple(masks), taken >> self.shift
        if question not in self._matched:
            if len(self._matched) >= _KNOWN:
                self._matched.clear()
            self._matched[question] = self._match(masks, taken)
        return self._matched[question]

    def _match(self, masks: Sequence[int], taken: int) -> tuple[int, ...] | None:
        order = sorted(range(len(masks)), key=lambda k: masks[k].bit_count())
        chosen = [0] * len(masks)
        vain: set[tuple[int, int]] = set()

        def settle(at: int, mine: int, taken: int) -> bool:
            if at == len(order):
                return True
            if (at, mine) in vain:
                return False
            free = masks[order[at]] & ~mine & ~self.closed(taken)
            while free:
                low = free & -free
                free ^= low
                chosen[order[at]] = low.bit_length() - 1
                if settle(at + 1, mine | low, taken | self.start(chosen[order[at]])):
                    return True
            vain.add((at, mine))
            return False

        return tuple(chosen) if settle(0, 0, taken) else None


def bits(mask: int) -> list[int]:
    """The numbers in a bit set."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
